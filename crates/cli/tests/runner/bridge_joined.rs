//! Tests of `bridge` with several servers behind one endpoint: `--config FILE`, `--server`, `--join`, `--prefix`.

use std::fs;
use std::io::{Read, Write};
use std::time::Instant;

use mcpjoin::proto::Era;
use serde_json::{Value, json};

use super::bridge_relay::{Bridge, DEADLINE, Talk, call, client, text, within};
use super::config::Folder;
use super::support::run;

fn names(talk: &mut Talk) -> Vec<String> {
    let list = talk.ask("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn echo(talk: &mut Talk, tool: &str) -> Value {
    talk.ask("tools/call", json!({ "name": tool, "arguments": { "message": "hi" } }))
}

#[test]
fn a_bridge_is_not_its_own_server() {
    let folder = Folder::new("joined-itself");
    let entry = json!({ "mcpServers": { "me": { "url": "http://localhost:18081/mcp/me" } } });
    let file = folder.file("servers.json", entry.to_string());
    let file = file.to_str().unwrap();
    let pin = format!("sha256:{}", "0".repeat(64));
    for words in [
        &["--listen", "http://127.0.0.1:18081/mcp", "http://localhost:18081/mcp"][..],
        &["--listen", "http://127.0.0.1:18081/mcp", "--join", "a=demo:", "--join", "b=127.0.0.1:18081/mcp/a"],
        &["--listen", "http://127.0.0.1:18081/mcp", "--config", file],
        &["--listen", "tcp://127.0.0.1:18081", "tcp://127.0.0.1:18081"],
        &["--listen", "quic://localhost:18081", "--pin", &pin, "quic://localhost:18081"],
        &["--listen", "unix:itself.sock", "unix:./itself.sock"],
    ] {
        let ran = run([&["bridge"], words].concat()).exits(2);
        ran.says(&[" is the bridge itself: it listens at ", "try      name the server behind the bridge"]);
    }
}

#[test]
fn an_unknown_path_is_answered_with_the_paths_that_exist() {
    let fetched = |bridge: &Bridge, path: &str| {
        let url = bridge.addresses[0].strip_prefix("http://").unwrap();
        let (authority, _) = url.split_once('/').unwrap();
        let mut stream = std::net::TcpStream::connect(authority).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    let end = "If a proxy removes the beginning of the path, use the rest of the path in --listen.\n";
    let joined = |count: usize| {
        let servers = (0..count).flat_map(|place| ["--join".to_owned(), format!("s{place}=demo:")]);
        let words: Vec<String> = servers.collect();
        Bridge::before("http://127.0.0.1:0/mcp", &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let bridge = joined(2);
    assert_eq!(
        fetched(&bridge, "/mcp/s2"),
        format!(
            "nothing is served at `/mcp/s2`: the endpoint is `/mcp`, and for one server alone `/mcp/s0`, `/mcp/s1`. {end}"
        )
    );
    let many = joined(12);
    let told = fetched(&many, "/");
    assert!(told.contains("`/mcp/s0`, `/mcp/s1`, ") && told.contains("`/mcp/s9` and 2 more. "), "{told}");
    let alone = Bridge::before("http://127.0.0.1:0/mcp", &["demo:"]);
    assert_eq!(
        fetched(&alone, "/nowhere"),
        format!("nothing is served at `/nowhere`: the endpoint is `/mcp`. {end}")
    );
}

/// A configuration with two demonstration servers.
fn configuration() -> Value {
    let demo = json!({ "command": env!("CARGO_BIN_EXE_mcpjoin"), "args": ["serve", "demo"] });
    json!({ "mcpServers": { "first one": demo, "second": demo } })
}

#[test]
fn two_servers_are_one_on_standard_input_and_output() {
    let mut talk = Talk::open(&["bridge", "--join", "a=demo:", "--join", "b=demo:", "--prefix", "b="]);
    let names = names(&mut talk);
    assert!(names.contains(&"a__echo".to_owned()) && names.contains(&"echo".to_owned()), "{names:?}");
    for tool in ["a__echo", "echo"] {
        assert_eq!(echo(&mut talk, tool)["result"]["content"][0]["text"], "hi", "{tool}");
    }
    let unknown = echo(&mut talk, "b__echo");
    assert!(unknown["error"]["message"].as_str().unwrap().contains("b__echo"), "{unknown}");
    talk.finish().exits(0);
}

#[test]
fn a_joined_server_may_be_a_command_in_quotes() {
    let join = format!("a={} serve demo", env!("CARGO_BIN_EXE_mcpjoin"));
    let mut talk = Talk::open(&["bridge", "--join", &join, "--join", "b=demo:"]);
    assert_eq!(echo(&mut talk, "a__echo")["result"]["content"][0]["text"], "hi");
    talk.finish().exits(0);
}

/// It is no entry either, which the other verbs say, too.
#[test]
fn a_joined_word_that_is_no_entry_and_no_program_is_reported_as_both() {
    let talk = Talk::open(&["bridge", "--join", "a=demo:", "--join", "b=mcpjoin-no-such-server"]);
    talk.finish().exits(0).says(&["b cannot be started now: mcpjoin-no-such-server: no configuration \
         contains an entry of that name, and no program on PATH"]);
}

#[test]
fn all_entries_of_a_file_that_is_named_are_joined_without_the_one_that_cannot_start() {
    let folder = Folder::new("joined-entries");
    let mut entries = configuration();
    entries["mcpServers"]["gone"] = json!({ "command": "/nowhere/at-all" });
    let file = folder.file("servers.json", entries.to_string());
    let mut talk = Talk::open(&["bridge", "--config", file.to_str().unwrap()]);
    let names = names(&mut talk);
    assert!(names.contains(&"first_one__echo".to_owned()), "{names:?}");
    assert!(names.contains(&"second__echo".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("gone")), "{names:?}");
    let stderr = talk.finish().exits(0).stderr;
    assert!(stderr.contains("gone cannot be started now: "), "{stderr}");
    assert!(stderr.contains("is called first_one here"), "{stderr}");
    // The state of each server, once the first client is opened.
    for line in [
        "first_one: connected; its tools and prompts are called first_one__NAME",
        "second: connected; its tools and prompts are called second__NAME",
    ] {
        assert!(stderr.contains(line), "{line}: {stderr}");
    }
    // Whether the next start is allowed already depends on how long the others took; why there is none does not.
    let gone = stderr.lines().find(|line| line.contains("; its tools and prompts are called gone__NAME"));
    assert!(gone.is_some_and(|line| line.contains("/nowhere/at-all")), "{stderr}");
}

/// The number of its process is in each failure, as the place of a log is in those of npm.
#[test]
fn a_joined_server_that_ends_at_each_start_is_named_and_reported_once() {
    let folder = Folder::new("joined-ends");
    let starts = folder.file("starts", "");
    let script = format!("echo process $$ | tee -a '{}' >&2; exit 9", starts.display());
    let mut entries = configuration();
    entries["mcpServers"]["broken"] = json!({ "command": "sh", "args": ["-c", script] });
    let file = folder.file("servers.json", entries.to_string());
    let bridge = Bridge::before("http://127.0.0.1:0/mcp", &["-v", "--config", file.to_str().unwrap()]);
    // One attempt has two starts at most, and the third one begins when the second one was reported.
    let end = Instant::now() + DEADLINE;
    while fs::read_to_string(&starts).unwrap().lines().count() < 5 {
        assert!(Instant::now() < end, "it is not started again");
        run(["list", &bridge.addresses[0]]).exits(0);
    }
    let stderr = bridge.ends("TERM", 143).stderr;
    let reported = stderr.matches("error: broken: the server exited before the session was open").count();
    let again = stderr.matches("another client was refused: broken: the server exited").count();
    assert!(reported == 1 && again > 0, "{reported}, {again}: {stderr}");
    // Its standard error is shown under its name.
    assert!(stderr.contains("\nbroken: process "), "{stderr}");
}

#[test]
fn only_the_entries_that_are_named_are_joined() {
    let folder = Folder::new("joined-named");
    let mut entries = configuration();
    entries["mcpServers"]["third"] = entries["mcpServers"]["second"].clone();
    let file = folder.file("servers.json", entries.to_string());
    let config = ["--config", file.to_str().unwrap()];
    let chosen = ["--server", "third", "--server", "first one"];
    let mut talk = Talk::open(&[&["bridge"][..], &config, &chosen].concat());
    let names = names(&mut talk);
    assert!(names.iter().any(|name| name == "third__echo"), "{names:?}");
    assert!(names.iter().any(|name| name == "first_one__echo"), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("second")), "{names:?}");
    assert_eq!(echo(&mut talk, "third__echo")["result"]["content"][0]["text"], "hi");
    talk.finish().exits(0);
    // The same at an address. One name alone is one server, with its own names.
    for (words, joins) in [(&chosen[..], true), (&chosen[..2], false)] {
        let bridge = Bridge::before("http://127.0.0.1:0/mcp", &[&config[..], words].concat());
        let tool = if joins { "third__echo" } else { "echo" };
        within(async {
            let client = client(&bridge.addresses[0], Era::Modern).await;
            assert!(text(&call(&client, tool, json!({ "message": "hi" })).await).contains("hi"));
            client.close().await;
        });
        assert_eq!(bridge.before.iter().any(|said| said == "joins third, first_one"), joins);
        drop(bridge.ends("INT", 130));
    }
}

#[test]
fn an_entry_that_the_file_does_not_have_is_refused_with_those_that_it_has() {
    let folder = Folder::new("joined-unknown");
    let file = folder.file("servers.json", configuration().to_string());
    let named = ["bridge", "--config", file.to_str().unwrap(), "--server", "second", "--server", "other"];
    let stderr = run(named).exits(2).stderr;
    assert!(stderr.contains("other: no entry of that name in "), "{stderr}");
    assert!(stderr.contains("the entries are 'first one', second"), "{stderr}");
}

#[test]
fn a_name_of_two_servers_is_reported_with_both() {
    let words = ["bridge", "--join", "a=demo:", "--join", "b=demo:", "--prefix", "a=", "--prefix", "b="];
    let mut talk = Talk::open(&words);
    assert_eq!(names(&mut talk).iter().filter(|name| *name == "echo").count(), 1);
    let stderr = talk.finish().exits(0).stderr;
    assert!(stderr.contains("the first echo: of a and b, that of a is offered"), "{stderr}");
    assert!(stderr.contains("b: connected; its tools and prompts keep their names"), "{stderr}");
}

#[test]
fn over_http_each_server_is_also_alone_with_its_own_names() {
    let folder = Folder::new("joined-http");
    let file = folder.file("servers.json", configuration().to_string());
    let bridge = Bridge::before("http://127.0.0.1:0/mcp", &["--config", file.to_str().unwrap()]);
    let address = &bridge.addresses[0];
    within(async {
        for era in [Era::Legacy, Era::Modern] {
            let arguments = || json!({ "message": "hi" });
            let joined = client(address, era).await;
            assert!(text(&call(&joined, "second__echo", arguments()).await).contains("hi"));
            let alone = client(&format!("{address}/second"), era).await;
            assert!(text(&call(&alone, "echo", arguments()).await).contains("hi"));
            joined.close().await;
            alone.close().await;
        }
    });
    assert!(bridge.before.iter().any(|said| said == "joins first_one, second"), "{:?}", bridge.before);
    let stderr = bridge.ends("INT", 130).stderr;
    // Once, with the first client.
    let states = |name: &str| stderr.matches(&format!("{name}: connected; its tools")).count();
    assert_eq!((states("first_one"), states("second")), (1, 1), "{stderr}");
}

/// The line that works joins the server: its target is one word.
#[test]
fn a_target_that_cannot_be_joined_is_answered_with_the_line_that_joins_it() {
    for (join, line) in [
        ("a=x | y", r"mcpjoin bridge --join 'a=sh -c '\''x | y'\'''"),
        ("a=KEY=1 npx x", "mcpjoin bridge -e KEY=VALUE --join 'a=npx x'"),
        ("a=npx 'x", "mcpjoin bridge --join 'a=COMMAND [ARG]...'"),
        ("a=@scope/x", "mcpjoin bridge --join 'a=npx -y @scope/x'"),
        ("a=ws://h/x", "mcpjoin bridge --join a=http://h/x"),
    ] {
        let ran = run(["bridge", "--join", join]).exits(2);
        ran.says(&[&format!("\n  try      {line}\n")]);
    }
}

#[test]
fn what_cannot_be_joined_is_refused_before_anything_starts() {
    for (words, problem) in [
        (&["--join", "a="][..], "names no server"),
        (&["--join", "=demo:"], "--join =demo: has no name for the server"),
        (&["--join", "a=demo:", "--join", "a=demo:"], "two servers are called a"),
        (&["--server", "a", "--server", "a"], "--server a is there twice"),
        (&["--join", "a=demo:", "--prefix", "b=x"], "no server is called b"),
        (&["--join", "a=demo:", "--prefix", "b=x"], "the servers are a"),
        (&["--join", "a=demo:", "--prefix", "a=x", "--prefix", "a=y"], "two prefixes for a"),
        (&["--join", "a=demo:", "--prefix", "a"], "names no prefix"),
        (&["--join", "a=demo:", "demo:"], "cannot be used with"),
        (&["--prefix", "a=x", "demo:"], "--prefix is for joined servers"),
        (&["--join", "a=demo:", "--trace", "t"], "several are joined"),
        (&["--server", "a", "--server", "b", "demo:"], "are two servers"),
        (&["--listen", "orchestra://localhost:0", "--server", "a", "--server", "b"], "for clients of MCP"),
        // A file that would only be found feeds nothing.
        (&[], "no server is named"),
    ] {
        let stderr = run([&["bridge"], words].concat()).exits(2).stderr;
        assert!(stderr.contains(problem), "{words:?}: {stderr}");
    }
}
