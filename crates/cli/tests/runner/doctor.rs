//! Tests of the output and the exit code of `mcpjoin doctor`. The finding for each fault is tested in the library.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use super::ports::Closed;
use super::sockets::Demo;
use super::support::{command, line, read_request, run, scratch, start};

#[test]
fn r72_a_healthy_server_is_reported_in_a_line_for_each_phase() {
    let ran = line("doctor demo:").exits(0);
    let phases: Vec<&str> = ran.stdout.lines().take(5).map(|line| line[..10].trim_end()).collect();
    assert_eq!(phases, ["resolve", "spawn", "probe", "list", "shut down"], "{}", ran.stdout);
    for part in ["mcpjoin-demo", "protocol 2026-07-28\n", " tools, ", "exit code 0"] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in {}", ran.stdout);
    }
    assert_eq!(ran.stdout.lines().last(), Some("no fault found"));
    assert_eq!(ran.stderr, "");
    // What was not run, and the numbers of checks, are for those who ask.
    let ran = line("doctor -v demo:").exits(0);
    let phases: Vec<&str> = ran.stdout.lines().take(6).map(|line| line[..10].trim_end()).collect();
    assert_eq!(phases, ["resolve", "spawn", "probe", "initialize", "list", "shut down"], "{}", ran.stdout);
    let last = ran.stdout.lines().last().unwrap();
    assert_eq!(last, "no fault found: 15 checks, 1 not run (the program needs no runtime)");
}

#[test]
fn both_eras_of_a_server_are_examined() {
    let ran = line("doctor -v --era legacy demo:").exits(0);
    assert!(ran.stdout.contains("protocol 2025-11-25\n"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("not run: the older protocol was requested (--era legacy)"),
        "{}",
        ran.stdout
    );
}

#[test]
fn f22_a_fault_is_reported_in_full_and_in_the_exit_code() {
    let script = "echo 'no \u{1b}[31mkey' >&2; exit 7";
    let ran = run(["doctor", "sh", "-c", script]).exits(1);
    // The fault comes first, then what to do, then the evidence and the phases.
    let parts = [
        "fault: the server ended: exit code 7, before the session was open (died)\n",
        "  means    it exited with an error; see stderr\n",
        "  try      fix the error shown in stderr\n",
        "  ended    exit code 7\n",
        "  stderr   no \\u{1b}[31mkey\n",
        "\nresolve ",
        "\ninitialize ",
        " failed\n",
    ];
    let places: Vec<usize> = parts
        .iter()
        .map(|part| ran.stdout.find(part).unwrap_or_else(|| panic!("{part:?} is missing in {}", ran.stdout)))
        .collect();
    assert!(places[0] == 0 && places.is_sorted(), "{}", ran.stdout);
    assert!(!ran.stdout.contains("not run") && !ran.stdout.contains("checks"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "");
    let ran = run(["doctor", "-v", "sh", "-c", script]).exits(1);
    assert!(ran.stdout.contains("1 fault found: 3 checks, 13 not run ("), "{}", ran.stdout);
}

#[test]
fn f23_with_json_there_is_one_document() {
    let document = line("doctor --json demo:").exits(0).json();
    assert_eq!(document["healthy"], true);
    assert_eq!(document["protocolVersion"], "2026-07-28");
    assert_eq!(document["serverInfo"]["name"], "mcpjoin-demo");
    assert_eq!(document["findings"], serde_json::json!([]));
    assert_eq!(document["phases"][4]["phase"], "list");
    assert!(document["phases"][4]["elapsedMs"].is_u64());
    assert_eq!(document["lists"][0]["method"], "tools/list");
    assert_eq!(document["checks"].as_array().unwrap().len(), 16);

    let ran = run(["doctor", "--json", "sh", "-c", "echo fatal >&2; exit 7"]).exits(1);
    assert_eq!(ran.stderr, "");
    let document = ran.json();
    assert_eq!(document["healthy"], false);
    let finding = &document["findings"][0];
    assert_eq!((finding["id"].as_str(), finding["phase"].as_str()), (Some("died"), Some("initialize")));
    assert_eq!(finding["status"]["code"], 7);
    assert_eq!(finding["stderr"][0], "fatal");
}

#[test]
fn what_cannot_be_started_is_a_fault_too() {
    let ran = line("doctor -v mcpjoin-no-such-program --flag").exits(1);
    assert!(ran.stdout.contains("(program-missing)"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("spawn              - not run: the server was not started"),
        "{}",
        ran.stdout
    );
}

#[test]
fn doctor_needs_a_server() {
    line("doctor --").exits(2).says(&["no server is named", "mcpjoin doctor COMMAND"]);
    line("doctor --no-such-option demo:").exits(2);
}

#[test]
fn f25_no_value_of_a_variable_is_shown() {
    let script = "echo \"key $KEY, flag $FLAG\" >&2; echo \"$KEY\"; exit 1";
    for json in [&[][..], &["--json"]] {
        let mut words = vec!["doctor", "-e", "KEY=hunter2-secret", "-e", "FLAG=true"];
        words.extend(json);
        words.extend(["sh", "-c", script]);
        let ran = run(words).exits(1);
        assert!(!ran.stdout.contains("hunter2") && !ran.stderr.contains("hunter2"), "{}", ran.stdout);
        assert!(ran.stdout.contains("key ***"), "{}", ran.stdout);
        if !json.is_empty() {
            assert_eq!(ran.json()["healthy"], false);
        }
    }
}

#[test]
fn a_signal_ends_an_examination_and_everything_that_it_started() {
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let mut running = start(command(["doctor", "-v", "sh", "-c", "echo up >&2; exec cat >/dev/null"]));
        // Wait until the server reports that it runs.
        let stderr = running.child.stderr.take().unwrap();
        let said = BufReader::new(stderr).lines().map(Result::unwrap).any(|line| line.ends_with("up"));
        assert!(said);
        running.signal(name);
        running.finish().exits(code);
    }
}

#[test]
fn every_way_to_the_demonstration_is_healthy() {
    for (address, phases) in [("http://127.0.0.1:0/mcp", 7), ("tcp://127.0.0.1:0", 6)] {
        let (server, url) = Demo::on(address);
        let mut targets = vec![url.clone()];
        if url.starts_with("http") {
            targets.push(format!("sse+{}", url.replace("/mcp", "/sse")));
        }
        for target in targets {
            let ran = line(&format!("doctor {target}")).exits(0);
            let last = ran.stdout.lines().last().unwrap();
            assert_eq!(last, "no fault found", "{}", ran.stdout);
            assert!(ran.stdout.contains("mcpjoin-demo"), "{}", ran.stdout);
            assert_eq!(ran.stderr, "");
            let document = line(&format!("doctor --json {target}")).exits(0).json();
            assert_eq!(document["target"], target);
            assert_eq!(document["phases"].as_array().unwrap().len(), phases);
        }
        let trace = scratch("doctor-trace");
        line(&format!("doctor --trace {} {url}", trace.display())).exits(0);
        let crossed = std::fs::read_to_string(&trace).unwrap();
        std::fs::remove_file(&trace).unwrap();
        assert!(crossed.contains("server/discover") && crossed.contains("tools/list"), "{crossed}");
        server.ends("TERM", 143);
    }
}

#[test]
fn a_wrong_path_is_reported_with_the_right_one() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let wrong = url.replace("/mcp", "/wrong");
    let ran = run(["doctor", "-H", "X-Key: hunter2hunter2", &wrong]).exits(1);
    for part in ["(wrong-path)", "404 Not Found", &format!("try      use {url}: ")] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("hunter2"), "{}", ran.stdout);
    let document = run(["doctor", "--json", &wrong]).exits(1).json();
    assert_eq!(document["findings"][0]["id"], "wrong-path");
    assert_eq!(document["findings"][0]["requests"].as_array().unwrap().len(), 3);
    server.ends("TERM", 143);
    let closed = Closed::tcp();
    let ran = run(["doctor", &format!("http://{closed}/mcp")]).exits(1);
    assert!(ran.stdout.contains("(refused)"), "{}", ran.stdout);
}

/// A listener that sends this response to every client, in a thread that ends with the process.
fn answering(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while lines.read_line(&mut head).is_ok_and(|count| count > 2) {}
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn a_proxy_that_stands_before_the_server_is_named() {
    let wants = answering(
        "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    let refuses = answering("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let closed = Closed::tcp();
    let gone = closed.to_string();
    for (proxy, url, id) in [
        (&wants, "http://server.invalid/mcp", "proxy-authorization"),
        (&wants, "https://server.invalid/mcp", "proxy-authorization"),
        (&refuses, "https://server.invalid/mcp", "proxy-refused"),
        (&gone, "http://server.invalid/mcp", "proxy-unreached"),
    ] {
        let mut doctor = command(["doctor", "--json", url]);
        for name in
            ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY"]
        {
            doctor.env_remove(name);
        }
        let value = format!("http://me:hunter2hunter2@{proxy}");
        doctor.env("http_proxy", &value).env("https_proxy", &value);
        let ran = start(doctor).finish().exits(1);
        let document = ran.json();
        let finding = &document["findings"][0];
        assert_eq!(
            (finding["id"].as_str(), finding["check"].as_str()),
            (Some(id), Some("proxy")),
            "{document}"
        );
        assert!(
            finding["seen"].as_str().unwrap().contains(proxy.as_str()) || url.starts_with("http:"),
            "{document}"
        );
        assert!(document["phases"][0]["detail"].as_str().unwrap().contains(proxy.as_str()), "{document}");
        // One fault gives one finding. The advice is to correct the credentials that are set, not to add some.
        assert!(document.get("surroundings").is_none(), "{document}");
        let advice = finding["advice"].as_str().unwrap();
        assert_eq!(
            advice.starts_with("correct user and password"),
            id == "proxy-authorization",
            "{document}"
        );
        assert!(!ran.stdout.contains("hunter2"), "{}", ran.stdout);
    }
}

#[test]
fn a_signal_ends_the_wait_for_a_silent_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for url in [format!("http://{address}/mcp"), format!("tcp://{address}")] {
        let running = start(command(["doctor", &url]));
        // The doctor has connected and sent the start of a request.
        let (mut stream, mut byte) = (listener.accept().unwrap().0, [0]);
        if url.starts_with("http") {
            stream = listener.accept().unwrap().0;
        }
        stream.read_exact(&mut byte).unwrap();
        running.signal("INT");
        // The results up to the interrupt are kept.
        let ran = running.finish().exits(130);
        for part in ["resolve  ", "connect  ", "stopped here"] {
            assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
        }
        assert!(!ran.stdout.contains("fault"), "{}", ran.stdout);
    }
}

#[test]
fn what_is_typed_wrongly_is_no_fault_of_a_server() {
    let junk = scratch("doctor-usage.pem");
    std::fs::write(&junk, "junk\n").unwrap();
    let junk = junk.to_str().unwrap();
    let half = scratch("doctor-usage-half.pem");
    std::fs::write(&half, "-----BEGIN CERTIFICATE-----\naGVsbG8=\n").unwrap();
    let half = half.to_str().unwrap();
    let other = scratch("doctor-usage-other.pem");
    std::fs::write(&other, "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n").unwrap();
    let other = other.to_str().unwrap();
    for (words, said) in [
        (&["--ca", half, "https://127.0.0.1:1/mcp"][..], "a section of the PEM text has no END line"),
        (&["--ca", other, "https://127.0.0.1:1/mcp"], "it is not an X.509 certificate"),
        (&["--ca", half, "quic://127.0.0.1:1"], "a section of the PEM text has no END line"),
        (&["--ca", junk, "https://127.0.0.1:1/mcp"][..], "PEM text contains no certificate"),
        (&["tcp://127.0.0.1"], "the port is missing"),
        (&["tcp://127.0.0.1:99999"], "the port 99999 is not a number below 65536"),
        (&["quic://localhost:abc"], "the port abc is not a number below 65536"),
        (&["localhost:abc"], "the port abc is not a number from 1 to 65535"),
        (&["localhost:99999"], "the port 99999 is not a number from 1 to 65535"),
        (&["127.0.0.1:abc/mcp"], "the port abc is not a number from 1 to 65535"),
        (&["localhost:"], "the port is missing"),
    ] {
        // The exit code is the same as for other verbs.
        let mut codes = Vec::new();
        for verb in ["doctor", "list", "validate"] {
            let ran = run([verb].iter().chain(words)).says(&[said, "(E_USAGE)"]);
            assert_eq!(ran.stdout, "");
            codes.push(ran.code);
        }
        assert_eq!(codes, [Some(2); 3]);
    }
}

#[test]
fn an_answer_of_the_proxys_own_is_distinguished_from_one_of_the_server() {
    let squid = answering(
        "HTTP/1.1 404 Not Found\r\nServer: squid/5.7\r\nX-Squid-Error: ERR_DNS_FAIL 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    let passes = answering(
        "HTTP/1.1 404 Not Found\r\nServer: nginx\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    for (proxy, id, meaning, advice) in [
        (&squid, "proxy-answered", "from the proxy (squid/5.7, ", "NO_PROXY"),
        (&passes, "wrong-path", "may be from the proxy", "find the path"),
    ] {
        let mut doctor = command(["doctor", "--json", "http://server.invalid/mcp"]);
        for name in ["HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"] {
            doctor.env_remove(name);
        }
        doctor.env("http_proxy", format!("http://{proxy}"));
        let document = start(doctor).finish().exits(1).json();
        let finding = &document["findings"][0];
        assert_eq!(finding["id"], id, "{document}");
        assert!(finding["meaning"].as_str().unwrap().contains(meaning), "{document}");
        assert!(finding["advice"].as_str().unwrap().contains(advice), "{document}");
    }
}

/// A legacy server, also as a proxy to one, that answers a list of tools with this status and body.
fn refusing_lists(status: &'static str, kind: &'static str, said: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (_, body) = read_request(&stream);
            let asked: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let message = |outcome: &str| format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, asked["id"]);
            let (status, kind, body) = match asked["method"].as_str().unwrap_or_default() {
                "tools/list" => (status, kind, said.to_owned()),
                "initialize" => (
                    "200 OK",
                    "application/json",
                    message(
                        r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#,
                    ),
                ),
                about if about.starts_with("notifications/") => ("202 Accepted", "text/plain", String::new()),
                _ => ("200 OK", "application/json", message(r#""error":{"code":-32601,"message":"no"}"#)),
            };
            let length = body.len();
            let head = format!("content-type: {kind}\r\nconnection: close\r\ncontent-length: {length}");
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\n{head}\r\n\r\n{body}").as_bytes());
        }
    });
    address
}

/// A response that is there, and that no client may read: the server, and not the path, is wrong.
#[test]
fn a_message_with_the_content_type_of_something_else_is_a_bug_of_the_server() {
    let message = r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[]}}"#;
    for (kind, says) in [
        ("text/event-stream", "the body has no event; it begins `{\"jsonrpc\":\"2.0\""),
        ("text/plain", "200 OK text/plain; it begins `{\"jsonrpc\":\"2.0\""),
    ] {
        let url = format!("http://{}/mcp", refusing_lists("200 OK", kind, message));
        run(["list", &url]).exits(4).says(&[says, "this is a bug in the server"]);
    }
}

/// A fault that lasts is not mended by trying again, nor seen in the standard error of a server that is no child.
#[test]
fn a_list_that_is_answered_with_a_fault_of_the_server_is_advised_by_its_status() {
    for (status, hint) in [
        (
            "500 Internal Server Error",
            "see the server's own log: the fault is in the server, and a retry alone",
        ),
        ("501 Not Implemented", "see the server's own log: the fault is in the server, and a retry alone"),
        ("502 Bad Gateway", "check that the server behind the proxy runs, then try again"),
        ("503 Service Unavailable", "see the server's own log, or try again later"),
        ("429 Too Many Requests", "wait, then try again"),
    ] {
        let url = format!("http://{}/mcp", refusing_lists(status, "text/plain", "no"));
        run(["list", &url]).exits(4).says(&["(E_LOST)", status, &format!("\n  try      {hint}")]);
    }
}

/// The finding of a list is made precise by what is known of its request, whose name in the message has the proxy beside it.
#[test]
fn a_list_that_is_refused_is_explained_by_its_response_also_behind_a_proxy() {
    for (status, said, id) in [
        ("401 Unauthorized", "who? (it begins `host`)", "not-authorized"),
        ("403 Forbidden", "the host is not allowed", "host-refused"),
        ("403 Forbidden", "Just a moment", "robots-refused"),
    ] {
        let address = refusing_lists(status, "text/plain", said);
        let direct = command(["doctor", "--json", &format!("http://{address}/mcp")]);
        let mut proxied = command(["doctor", "--json", "http://server.invalid/mcp"]);
        for name in ["HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"] {
            proxied.env_remove(name);
        }
        proxied.env("http_proxy", format!("http://{address}"));
        for doctor in [direct, proxied] {
            let document = start(doctor).finish().exits(1).json();
            let finding = &document["findings"][0];
            assert_eq!(
                (finding["id"].as_str(), finding["check"].as_str()),
                (Some(id), Some("lists")),
                "{document}"
            );
            assert_eq!(finding["body"], said, "{document}");
        }
    }
}

#[test]
fn each_folder_of_path_is_named_once_and_not_all_of_many() {
    let mut doctor = command(["doctor", "no-such-program"]);
    doctor.env("PATH", "/usr/bin:/bin:/usr/bin:/a:/b:/c:/d:/e:/f");
    let ran = start(doctor).finish().exits(1);
    let searched = "; searched in /usr/bin, /bin, /a, /b, /c, /d and 2 more (program-missing)\n";
    assert!(ran.stdout.contains(searched), "{}", ran.stdout);
}

#[test]
fn where_nothing_shows_oauth_a_key_is_advised_first() {
    let address = answering("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let url = format!("http://{address}/mcp");
    let login = format!("mcpjoin auth login {url}");
    let of_doctor = run(["doctor", &url]).exits(1).stdout;
    let of_explain = run(["auth", "explain", &url]).exits(1).stdout;
    let of_list = run(["list", &url]).exits(3).stderr;
    for text in [of_doctor, of_explain, of_list] {
        let says = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let places = ["no sign of OAuth", "Authorization: Bearer", &login].map(|part| says.find(part));
        assert!(places.iter().all(Option::is_some), "{says}");
        assert!(places[2] > places[0] && places[2] > places[1], "{says}");
        assert!(says.contains("this server probably requires an API key or a token"), "{says}");
        assert!(!says.contains("can log in"), "{says}");
    }
    let document = run(["auth", "explain", "--json", &url]).exits(1).json();
    assert_eq!(document["canLogIn"], false, "{document}");
    assert_eq!(document["failed"]["step"], "server-metadata", "{document}");
}
