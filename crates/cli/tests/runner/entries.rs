//! Tests of what an entry can contain beside a command or an HTTP URL: other addresses and variable files. Also tests the
//! messages for words after an entry's name and for an unknown name.

use std::io::{BufRead, BufReader, Write};

use serde_json::json;

use super::config::Folder;
use super::sockets::Demo;
use super::support::{command, read_request, start};

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");

#[test]
fn r85_entries_without_http_are_used_like_any_other_and_their_filters_hold() {
    let folder = Folder::new("entries-listening");
    let (tcp_server, tcp) = Demo::on("tcp://127.0.0.1:0");
    // Over QUIC it also prints its pin.
    let mut running = start(command(["serve", "demo", "--full", "--listen", "quic://127.0.0.1:0"]));
    let mut stderr = BufReader::new(running.child.stderr.take().unwrap()).lines();
    let quic = stderr.next().unwrap().unwrap().replace("listening on ", "");
    let known = stderr.next().unwrap().unwrap();
    let pin = known.split("--pin ").nth(1).unwrap().split(' ').next().unwrap();
    let entry = |name: &str, more: &str| format!(r#""{name}": {{"url": {more}, "disabledTools": ["add"]}}"#);
    let entries = [
        entry("port", &format!(r#""{tcp}""#)),
        entry("quic", &format!(r#""{quic}", "pin": "{pin}""#)),
        entry("other", &format!(r#""{quic}", "pin": "sha256:{}""#, "ab".repeat(32))),
        entry("nobody", &format!(r#""{quic}""#)),
        entry("gone", r#""quic://localhost:1", "ca": "no-such-file.pem""#),
    ];
    folder.file(".mcp.json", format!(r#"{{"mcpServers": {{{}}}}}"#, entries.join(",\n")));
    for name in ["port", "quic"] {
        let ran = folder.run(&["call", "-q", &format!("{name}/echo"), "message=hi"]).exits(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("hi\n", ""), "{name}");
        folder.run(&["call", name, "add", "a=1", "b=2"]).exits(2).says(&["(E_NOT_ALLOWED)"]);
        folder
            .run(&["list", "--header", "A: b", name])
            .exits(2)
            .says(&["--header is for a server over HTTP"]);
    }
    assert_eq!(folder.run(&["list", "--json", "-q", "other"]).exits(4).failure()["id"], "E_TLS");
    // The command line overrides the entry.
    folder.run(&["ping", "-q", "--pin", pin, "other"]).exits(0);
    folder
        .run(&["list", "nobody"])
        .exits(2)
        .says(&[".mcp.json:4:19: server nobody: the server's identity is unknown"]);
    folder.run(&["ping", "-q", "--pin", pin, "nobody"]).exits(0);
    folder.run(&["list", "gone"]).exits(2).says(&["no-such-file.pem"]);
    // All entries together: a fault in some does not hide the others.
    let json = folder.run(&["list", "--json", "-q"]).exits(4).json();
    let served = |place: usize| json["servers"][place]["server"]["serverInfo"]["name"] == "mcpjoin-demo";
    assert!(served(0) && served(1) && !served(2), "{json}");
    let shown = folder.run(&["servers", "--json", "quic"]).exits(0).json();
    let server = &shown["files"][0]["servers"][0];
    assert_eq!((&server["transport"], &server["values"][1]["what"]), (&"quic".into(), &"pin".into()));
    drop(stderr);
    running.signal("TERM");
    running.finish().exits(143);
    tcp_server.ends("TERM", 143);
}

#[test]
fn r85_variables_come_from_a_file_and_those_of_codex_pass_a_clean_environment() {
    let folder = Folder::new("entries-variables");
    let script = r#"printf '<%s>' "$KEY" "$OTHER" "$PASSED" "$KEPT" >&2; exit 1"#;
    folder.file("../.env", "# ours\nexport KEY=\"of the file\"\nOTHER=hidden-by-env\n");
    folder.file(
        ".vscode/mcp.json",
        format!(
            r#"{{"servers": {{
              "file": {{"command": "sh", "args": ["-c", {}], "envFile": "../.env", "env": {{"OTHER": "of the entry"}}}},
              "gone": {{"command": "sh",
                "envFile": "${{workspaceFolder}}/no.env"}},
              "good": {{"command": "{BINARY}", "args": ["serve", "demo", "--full"]}}
            }}}}"#,
            serde_json::Value::from(script)
        ),
    );
    folder.file(
        ".codex/config.toml",
        format!(
            "[mcp_servers.passing]\ncommand = \"sh\"\nargs = [\"-c\", '''{script}''']\nenv_vars = [\"PASSED\", \"NOT_SET\"]\n"
        ),
    );
    let run = |words: &[&str]| {
        let mut command = folder.command(words);
        command.env("PASSED", "our-passed-value").env("KEPT", "kept-back");
        start(command).finish()
    };
    // Values from the file are hidden like values of the entry.
    let ran = run(&["list", "-v", "--inherit-env", "file"]).exits(4);
    let ran = ran.says(&["<***><***><our-passed-value><kept-back>"]);
    assert!(ran.stderr.contains("with the variables of ../.env"), "{}", ran.stderr);
    run(&["list", "--env-clean", "file"]).exits(4).says(&["<***><***><><>"]);
    run(&["list", "--inherit-env", "passing"]).exits(4).says(&["<><><***><kept-back>"]);
    run(&["list", "passing"]).exits(4).says(&["<><><***><>"]);
    run(&["list", "--env-clean", "passing"]).exits(4).says(&["<><><***><>"]);
    run(&["list", "gone"])
        .exits(2)
        .says(&[".vscode/mcp.json:4:28: server gone: the file of variables cannot be used"]);
    run(&["list", "-q", "good"]).exits(0);

    let shown = folder.run(&["servers"]).exits(2).stdout;
    for part in [
        "    env            OTHER\n",
        "    envFile        ../.env\n",
        "    env            KEY, OTHER (line 2 to 3 of ../.env)\n",
        "    env_vars       PASSED, NOT_SET (line 4)\n",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let json = folder.run(&["servers", "--json", "file"]).exits(0).json();
    let values = json["files"][0]["servers"][0]["values"].as_array().unwrap();
    let key = values.iter().find(|value| value["text"] == "KEY").unwrap();
    assert_eq!((&key["line"], &key["file"]), (&2.into(), &"../.env".into()));
}

#[test]
fn f26_the_file_limits_how_many_servers_run_at_once() {
    let folder = Folder::new("entries-at-once");
    // A server that starts while another one runs creates `several`.
    let script = "mkdir one || touch several; read -r line; rmdir one; exit 3";
    let entry = |name: &str| {
        format!(
            "[[servers]]\nname = \"{name}\"\ntransport = {{ command = \"sh\", args = [\"-c\", \"{script}\"] }}\n"
        )
    };
    let entries = ["a", "b", "c", "d"].map(entry).concat();
    folder.file("mcp_servers.toml", format!("concurrency_limit = 1\n{entries}"));
    let json = folder.run(&["list", "--json", "--era", "legacy"]).exits(4).json();
    assert_eq!(json["servers"].as_array().unwrap().len(), 4);
    assert!(!folder.path().join("here/several").exists(), "two of them ran at once");
    folder.file("mcp_servers.toml", format!("concurrency_limit = 0\n{entries}"));
    folder
        .run(&["list", "--era", "legacy"])
        .exits(4)
        .says(&["mcp_servers.toml:1:21: concurrency_limit must be from 1 to 64"]);
}

#[test]
fn f26_eight_servers_run_at_once_where_no_file_says_how_many() {
    let folder = Folder::new("entries-eight");
    // Each server takes one of eight places, and leaves it after all were taken. A server that finds none creates `several`.
    let script = "n=1; until mkdir $n; do n=$((n+1)); [ $n = 9 ] && touch several && exit 3; done; [ $n = 8 ] && touch full; \
                  until [ -e full ]; do sleep 0.01; done; read -r line; sleep 0.2; rmdir $n; exit 3";
    let entry = |n: usize| (format!("s{n}"), json!({ "command": "sh", "args": ["-c", script] }));
    let entries: serde_json::Map<_, _> = (0..9).map(entry).collect();
    folder.file(".mcp.json", json!({ "mcpServers": entries }).to_string());
    let json = folder.run(&["list", "--json", "--era", "legacy", "--connect-timeout", "20s"]).exits(4).json();
    for server in json["servers"].as_array().unwrap() {
        assert_eq!(server["error"]["status"]["code"], 3, "{server}");
    }
    assert!(folder.path().join("here/full").exists(), "fewer than eight ran at once");
    assert!(!folder.path().join("here/several").exists(), "more than eight ran at once");
}

#[test]
fn programs_start_no_more_at_once_than_there_are_processors() {
    let folder = Folder::new("entries-starts");
    // Each server counts those that start beside it. Its start is over when it ends.
    let script =
        "mkdir starting-$1; ls -d starting-* | wc -l > count-$1; sleep 0.2; rmdir starting-$1; exit 3";
    let entry =
        |n: usize| (format!("s{n}"), json!({ "command": "sh", "args": ["-c", script, "sh", n.to_string()] }));
    let entries: serde_json::Map<_, _> = (0..9).map(entry).collect();
    folder.file(".mcp.json", json!({ "mcpServers": entries }).to_string());
    folder.run(&["list", "--json", "--era", "legacy"]).exits(4);
    let count = |n: usize| {
        let file = folder.path().join(format!("here/count-{n}"));
        std::fs::read_to_string(file).unwrap().trim().parse::<usize>().unwrap()
    };
    let most = (0..9).map(count).max().unwrap();
    let processors = std::thread::available_parallelism().unwrap().get();
    assert!((2..=processors.max(2)).contains(&most), "{most} of {processors}");
}

#[test]
fn rule_1_options_stand_behind_the_name_of_an_entry_and_words_do_not() {
    let folder = Folder::new("entries-behind");
    let entry = format!(r#""command": "{BINARY}", "args": ["serve", "demo", "--full"]"#);
    folder.file("c.json", format!(r#"{{"mcpServers": {{"d": {{{entry}}}, "sh": {{{entry}}}}}}}"#));
    let path = folder.path().join("here/c.json");
    let path = path.to_str().unwrap();
    let run = |words: &[&str]| {
        let mut command = folder.command(words);
        command.env("MCP_CONFIG_PATH", path);
        start(command).finish()
    };
    assert_eq!(run(&["list", "-q", "d", "--json"]).exits(0).json()["serverInfo"]["name"], "mcpjoin-demo");
    folder.run(&["list", "d", "-c", "c.json", "-q"]).exits(0);
    let ran = folder.run(&["list", "-c", "c.json", "d", "-H", "X-Token: hunter2hunter2"]).exits(2);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    ran.says(&["--header is for a server over HTTP"]);
    run(&["ping", "d", "more"]).exits(2).says(&["d is an entry of", "leave out more"]);
    // An existing program is run. An unknown word gives the same error as before.
    run(&["list", "sh", "-c", "echo program >&2; exit 1"]).exits(4).says(&["stderr   program"]);
    run(&["list", "no-such-thing", "--json"]).exits(4).says(&["(E_SPAWN_NOT_FOUND)"]);
}

#[test]
fn a_long_name_is_cut_for_people_and_whole_for_programs() {
    let folder = Folder::new("entries-long");
    let long = "n".repeat(10_000);
    folder.file(
        ".mcp.json",
        format!(r#"{{"mcpServers": {{"{long}": {{"command": 7}}, "a": {{"command": "true"}}}}}}"#),
    );
    let ran = folder.run(&["servers"]).exits(2);
    assert!(
        ran.stdout.contains("n… (10000 characters) (line 1)") && ran.stdout.len() < 1000,
        "{}",
        ran.stdout
    );
    let json = folder.run(&["servers", "--json"]).exits(2).json();
    assert_eq!(json["files"][0]["servers"][0]["name"], long);
    for words in
        [&["list", "--server", &long][..], &["call", "b", "x"], &["servers", "convert", "--to", "codex"]]
    {
        let ran = folder.run(words);
        assert!(ran.stderr.contains("(10000 characters)") && ran.stderr.len() < 1000, "{}", ran.stderr);
    }
}

#[test]
fn r79_a_connection_that_fails_a_broken_message_and_silence_are_distinguished_and_name_the_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (head, _) = read_request(&stream);
            let answer = match head.split(' ').nth(1) {
                Some("/broken") => "HTTP/1.1 503 Later\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                Some("/malformed") => {
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 7\r\nconnection: close\r\n\r\n{\"json\""
                }
                _ => {
                    silent.push(stream);
                    continue;
                }
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let mut ids = Vec::new();
    for path in ["broken", "malformed", "silent"] {
        let url = format!("http://{address}/{path}");
        let words = ["list", "--json", "-q", "--era", "legacy", "--connect-timeout", "300ms", &url];
        let failure = start(command(words)).finish().exits(4).failure();
        assert_eq!(failure["url"], url, "{failure}");
        ids.push(failure["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids, ["E_LINK", "E_BAD_REPLY", "E_SILENT"]);
}
