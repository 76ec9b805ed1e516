//! Tests of servers over HTTP: `http://...`, `sse+http://...`, and configuration entries with a `url`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use mcpjoin_test_support::tls;

use super::ports::Closed;
use super::sockets::Demo;
use super::support::{command, line, read_request, run, scratch, start};

#[test]
fn r73_a_server_over_http_is_asked_like_any_other() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    for era in ["legacy", "modern", "auto"] {
        let ran = line(&format!("call --era {era} {url} echo message=hi")).exits(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("hi\n", ""));
    }
    for version in ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let ran = line(&format!("list --json --protocol-version {version} {url}")).exits(0).json();
        assert_eq!(ran["protocolVersion"], version);
    }
    let sse = format!("sse+{}", url.replace("/mcp", "/sse"));
    assert_eq!(line(&format!("call {sse} echo message=hi")).exits(0).stdout, "hi\n");
    // A server that supports only HTTP+SSE is detected.
    assert_eq!(line(&format!("call {} echo message=hi", &sse[4..])).exits(0).stdout, "hi\n");
    assert_eq!(line(&format!("read {url} test://static-binary")).exits(0).bytes.len(), 69);
    assert_eq!(line(&format!("ping -n 2 -i 1ms {url}")).exits(0).stdout.lines().count(), 3);
    line(&format!("call {url} no-such-tool")).exits(5).says(&["(E_SERVER_ERROR)", &url]);
    server.ends("TERM", 143);
}

#[test]
fn a_certificate_that_is_not_trusted_is_reported_with_what_helps() {
    let ca = scratch("http-certificates-ca.pem");
    std::fs::write(&ca, tls::CA).unwrap();
    let ca = ca.to_str().unwrap();
    for (certificate, given, said, hint, id) in [
        (
            tls::SERVER,
            false,
            "which is not trusted here",
            "--ca FILE trusts another authority",
            "certificate-untrusted",
        ),
        (
            tls::OTHER_NAME,
            true,
            "the certificate is not for localhost, but for other.example",
            "the URL another name; for more: mcpjoin doctor --ca ",
            "certificate-name",
        ),
        (
            tls::EXPIRED,
            true,
            "the certificate of localhost has expired",
            "the server needs another certificate",
            "certificate-expired",
        ),
    ] {
        let port = tls::server(certificate, tls::KEY, |_| None);
        let url = format!("https://localhost:{port}/mcp");
        let options: &[&str] = if given { &["--ca", ca] } else { &[] };
        for verb in [&["list", &url][..], &["call", &url, "x"]] {
            let ran = run([&verb[..1], options, &verb[1..]].concat()).exits(4);
            ran.says(&["(E_TLS)", said, hint]);
        }
        let ran = run([&["doctor"], options, &[&url]].concat()).exits(1);
        let first = ran.stdout.lines().next().unwrap();
        assert!(first.contains(said) && first.ends_with(&format!("({id})")), "{first}");
    }
    // An authority that does not help is named.
    let other = scratch("http-certificates-other.pem");
    std::fs::write(&other, tls::AUTHORITY).unwrap();
    let port = tls::server(tls::SERVER, tls::KEY, |_| None);
    let url = format!("https://localhost:{port}/mcp");
    let examined = format!("; for more: mcpjoin doctor --ca {} {url}\n", other.display());
    run(["list", "--ca", other.to_str().unwrap(), &url])
        .exits(4)
        .says(&["--ca was read, but contains", &examined]);
}

#[test]
fn a_server_that_asks_for_a_token_admits_no_client_without_one() {
    let mut running = start(command([
        "serve",
        "demo",
        "--full",
        "--listen",
        "http://127.0.0.1:0/mcp",
        "--auth-issuer",
        "http://127.0.0.1:1",
    ]));
    let mut said = BufReader::with_capacity(1, running.child.stderr.take().unwrap()).lines();
    let listening = said.next().unwrap().unwrap();
    let url = listening.strip_prefix("listening on ").unwrap();
    // The resource is the listening address, unless an option sets it.
    assert_eq!(said.next().unwrap().unwrap(), format!("requires tokens of http://127.0.0.1:1 for {url}"));
    line(&format!("list {url}")).exits(3).says(&["(E_AUTH)", "401"]);
    line("serve demo --listen tcp://127.0.0.1:0 --auth-issuer https://a.example")
        .exits(2)
        .says(&["--auth-issuer"]);
    line("serve demo --auth-issuer https://a.example").exits(2).says(&["--listen"]);
    running.signal("TERM");
    assert_eq!(running.finish().exits(143).stdout, "");
}

#[test]
fn an_entry_with_a_url_is_used_and_its_filters_hold() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let file = scratch("http-entry");
    let entry = format!(
        r#"{{"mcpServers":{{"web":{{"url":"{url}","headers":{{"X-Team":"hunter2hunter2"}},"disabled_tools":["add"]}}}}}}"#
    );
    std::fs::write(&file, entry).unwrap();
    let words = |verb: &str| format!("{verb} -v -c {} ", file.display());
    let ran = line(&(words("call") + "web echo message=hi")).exits(0);
    assert_eq!(ran.stdout, "hi\n");
    assert!(ran.stderr.contains("with X-Team sent") && !ran.stderr.contains("hunter2"), "{}", ran.stderr);
    line(&(words("call") + "web add a=1 b=2")).exits(2);
    let tools = line(&(words("list") + "web")).exits(0).stdout;
    assert!(tools.contains("echo") && !tools.contains("Adds two numbers"), "{tools}");
    std::fs::remove_file(file).unwrap();
    server.ends("INT", 130);
}

/// A server that sends this response to every request, and passes the requests to the test. It ends with the test.
pub(super) fn answering(response: impl Into<String>) -> (String, Receiver<String>) {
    let response = response.into();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (heads, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (head, _) = read_request(&stream);
            let _ = stream.write_all(response.as_bytes());
            if heads.send(head).is_err() {
                return;
            }
        }
    });
    (url, received)
}

#[test]
fn what_answers_and_does_not_let_us_in_is_reported_by_its_kind() {
    for (response, code, told) in [
        (
            "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            3,
            &["(E_AUTH)", "401", "--header 'Authorization: Bearer ...'"][..],
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>",
            4,
            &["(E_NO_ENDPOINT)", "text/html", "<html>", "check the path"],
        ),
        (
            "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 4\r\nconnection: close\r\n\r\nnope",
            4,
            &["(E_NO_ENDPOINT)", "404", "nope"],
        ),
        ("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", 4, &["(E_LINK)", "500"]),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: br\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody",
            4,
            &["(E_NO_ENDPOINT)", "compressed (br)", "without Content-Encoding"],
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: br\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody",
            4,
            &["(E_LINK)", "compressed (br)", "without Content-Encoding"],
        ),
        // A page is none of the endpoint's, however it is encoded.
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-encoding: br\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody",
            4,
            &["(E_NO_ENDPOINT)", "text/html; the body is compressed (br)", "check the path"],
        ),
    ] {
        let (url, received) = answering(response);
        line(&format!("list {url}")).exits(code).says(told).says(&[&url]);
        assert!(received.recv().unwrap().starts_with("POST /mcp HTTP/1.1"));
    }
    line("ping http://127.0.0.1:1/mcp").exits(4).says(&["(E_CONNECT)", "connection refused"]);
}

#[test]
fn i166_headers_are_sent_and_shown_nowhere() {
    let refused = "HTTP/1.1 403 No hunter2hunter2\r\ncontent-type: text/plain\r\ncontent-length: 14\r\n\
                   connection: close\r\n\r\nhunter2hunter2";
    let (url, received) = answering(refused);
    let (file, trace) = (scratch("headers"), scratch("headers-trace"));
    std::fs::write(&file, "X-Team: swordfish-swordfish\n").unwrap();
    let at = format!("@{}", file.display());
    let header = "Authorization: Bearer hunter2hunter2";
    let trace_to = trace.to_str().unwrap();
    let words = ["ping", "-vv", "--header", header, "-H", &at, "--trace", trace_to, &url];
    let ran = run(words).exits(3);
    let head = received.recv().unwrap();
    for sent in ["authorization: Bearer hunter2hunter2", "x-team: swordfish-swordfish"] {
        assert!(head.contains(sent), "{head}");
    }
    let traced = std::fs::read_to_string(&trace).unwrap();
    for shown in [&ran.stdout, &ran.stderr, &traced] {
        assert!(!shown.contains("hunter2") && !shown.contains("swordfish"), "{shown}");
    }
    assert!(traced.contains("server/discover"), "{traced}");
    for path in [file, trace] {
        std::fs::remove_file(path).unwrap();
    }
    let twice = run(["ping", "--header", "Mcp-Session-Id: 1", &url]).exits(2);
    twice.says(&["Mcp-Session-Id", "the transport sends it itself"]);
}

#[test]
fn what_is_remembered_of_a_url_saves_the_probe() {
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let (cache, trace) = (scratch("http-cache"), scratch("http-cache-trace"));
    let asked = |words: &str| {
        let mut command = command(words.split(' '));
        command.env("XDG_CACHE_HOME", &cache);
        start(command).finish().exits(0);
        let traced = std::fs::read_to_string(&trace).unwrap();
        traced.lines().filter(|line| line.contains("server/discover")).count()
    };
    let sse = url.replace("/mcp", "/sse");
    let words = format!("ping --trace {} {sse}", trace.display());
    assert_eq!(asked(&words), 1);
    assert_eq!(asked(&words), 0);
    assert_eq!(asked(&words.replace("ping", "ping --no-cache")), 1);
    std::fs::remove_dir_all(cache).unwrap();
    std::fs::remove_file(trace).unwrap();
    server.ends("TERM", 143);
}

#[test]
fn http_sse_is_not_asked_for_the_modern_era() {
    for words in ["--era modern", "--protocol-version 2026-07-28"] {
        line(&format!("ping {words} sse+http://127.0.0.1:1/sse")).exits(2).says(&[
            "(E_USAGE)",
            "sse+http://127.0.0.1:1/sse is HTTP+SSE of 2024-11-05",
            "without sse+",
        ]);
    }
}

#[test]
fn what_is_to_be_tried_fits_what_has_failed() {
    let nonconformity = "without TLS or HTTP";
    for (response, told) in [
        (
            "HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            &["(E_LINK)", "the URL redirects", "another origin", "use the address to which it redirects"][..],
        ),
        (
            "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            &["(E_LINK)", "the server failed", "500", "try      see the server's own log: the fault"],
        ),
        (
            "HTTP/1.1 429 No\r\nretry-after: 120\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            &["(E_LINK)", "429", "the server asks to try again after 120 s"],
        ),
        // The reply is missing from the stream.
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: \n\n",
            &["(E_LINK)", "no event was received"],
        ),
    ] {
        let (url, _received) = answering(response);
        let ran = line(&format!("ping {url}")).exits(4).says(told).says(&["doing    connect"]);
        assert!(!ran.stderr.contains(nonconformity), "{}", ran.stderr);
    }
    let (url, _received) = answering("HTTP/1.1 400 Bad\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    let url = url.replace("http:", "https:");
    line(&format!("ping {url}")).exits(4).says(&["(E_CONNECT)", "http instead of https?"]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let ran = line(&format!("ping --connect-timeout 200ms {url}")).exits(4);
    let ran = ran.says(&["(E_SILENT)", "doing    initialize", "--connect-timeout 2m"]);
    assert!(!ran.stderr.contains(nonconformity), "{}", ran.stderr);
    line("ping localhost:1").exits(4).says(&["(E_CONNECT)", "url      http://localhost:1"]);
    line("ping example.com/mcp").exits(2).says(&["try      mcpjoin ping https://example.com/mcp\n"]);
    line("ping ../no-such/mcp").exits(4).says(&["(E_SPAWN_NOT_FOUND)", "check the path"]);
    line("ping -H Host:x http://127.0.0.1:1/").exits(2).says(&["remove or correct that header"]);
}

#[test]
fn f14_why_we_are_not_let_in_is_reported_as_the_server_says_it() {
    let (url, _received) = answering(
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer error=\"invalid_token\", \
         error_description=\"The token expired\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    );
    line(&format!("ping {url}"))
        .exits(3)
        .says(&["(E_AUTH)", "the server says: invalid_token: The token expired"]);
}

#[test]
fn a_proxy_that_fails_is_named_without_its_user_and_with_the_variable_that_names_it() {
    let refused =
        "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let (proxy, _received) = answering(refused);
    let alive = proxy.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
    for (variable, proxy, scheme, told) in [
        ("HTTP_PROXY", "127.0.0.1:1", "http", &["(E_CONNECT)", "no proxy listens there", "NO_PROXY"][..]),
        ("ALL_PROXY", "127.0.0.1:1", "https", &["(E_CONNECT)", "no proxy listens there"]),
        ("http_proxy", &alive, "http", &["407 Proxy Authentication Required"]),
        ("https_proxy", &alive, "https", &["(E_CONNECT)", "the proxy could not connect to server.invalid"]),
    ] {
        for verb in ["ping", "validate"] {
            let mut command = command([verb, &format!("{scheme}://server.invalid/mcp")]);
            for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"] {
                command.env_remove(name).env_remove(name.to_lowercase());
            }
            command.env(variable, format!("http://me:hunter2@{proxy}"));
            let ran = start(command).finish().exits(4);
            let via = format!("through the proxy http://{proxy} of {variable}");
            assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
            if verb == "ping" {
                ran.says(told).says(&[&via]);
            } else if !told[0].starts_with("407") {
                ran.says(&["(E_CONNECT)", &via]);
            }
        }
    }
}

#[test]
fn the_time_to_connect_is_waited_once_for_a_server_that_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", silent.local_addr().unwrap());
    let failure = line(&format!("ping --json --connect-timeout 4s {url}")).exits(4).failure();
    let took = failure["elapsedMs"].as_u64().unwrap();
    assert!((4000..7000).contains(&took), "{took}");
}

/// A legacy server that cuts the stream of a call after an event with an id. It ends with the test.
fn cutting() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let json = |body: String| {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s\r\n";
            format!("{head}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
        };
        let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        let result = |id: u64, result: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let mut call = 0;
        for stream_of in listener.incoming() {
            let Ok(mut to) = stream_of else { return };
            let (head, body) = read_request(&to);
            let asked: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let id = asked["id"].as_u64().unwrap_or_default();
            let said = match asked["method"].as_str() {
                Some("initialize") => json(result(
                    id,
                    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}"#,
                )),
                Some("tools/list") => {
                    json(result(id, r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#))
                }
                Some("tools/call") => {
                    call = id;
                    format!("{stream}retry: 100\nid: 1\ndata:\n\n")
                }
                None if head.to_lowercase().contains("last-event-id: 1") => {
                    let reply = result(call, r#"{"content":[{"type":"text","text":"after all"}]}"#);
                    format!("{stream}id: 2\ndata: {reply}\n\n")
                }
                None => "HTTP/1.1 405 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into(),
                _ => "HTTP/1.1 202 Yes\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".into(),
            };
            let _ = to.write_all(said.as_bytes());
        }
    });
    url
}

#[test]
fn v_shows_what_is_done_about_a_stream_that_ends_too_early() {
    let url = cutting();
    let told = "mcpjoin: [info] tools/call: the event stream ended before the reply; its stream is resumed in 100 ms";
    let ran = line(&format!("call --era legacy -v {url} t")).exits(0).says(&[told]);
    assert_eq!(ran.stdout, "after all\n");
    let ran = line(&format!("call --era legacy {url} t")).exits(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("after all\n", ""));
}

#[cfg(target_os = "linux")]
#[test]
fn files_without_an_end_are_not_read_to_it() {
    for option in ["-H @/dev/zero", "--ca /dev/zero"] {
        line(&format!("ping {option} http://127.0.0.1:1/")).exits(2).says(&[
            "(E_USAGE)",
            "/dev/zero",
            "bytes",
        ]);
    }
}

#[test]
fn the_paths_of_http_sse_are_not_listened_on_for_anything_else() {
    for path in ["sse", "messages"] {
        let refused = line(&format!("serve demo --listen http://127.0.0.1:0/{path}")).exits(2);
        refused.says(&["(E_USAGE)", "use another path"]);
    }
    let refused = line("serve demo --listen ftp://127.0.0.1:0/mcp").exits(2);
    refused.says(&["write tcp://host:port, unix:/path, quic://host:port, http://host:port/path, https://host:port/path or sse+http://host:port/sse"]);
}

#[test]
fn a_validation_says_of_what_came_at_once_that_it_came() {
    for (response, told) in [
        (
            "HTTP/1.1 302 There\r\nlocation: //me:hunter2@elsewhere/?hunter2\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            "the server redirects (status 302) to http://elsewhere/?...",
        ),
        (
            "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            "status 202, no content type",
        ),
        ("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", "status 200, text/event-stream"),
    ] {
        let (url, _received) = answering(response);
        let ran = line(&format!("validate {url}")).exits(4).says(&["(E_NO_ENDPOINT)", told]);
        let hint = if told.contains("redirects") { "nothing was sent there" } else { "check the path" };
        assert!(ran.stderr.contains(hint), "{}", ran.stderr);
        assert!(!ran.stderr.contains("within") && !ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
}

/// A legacy server that sends this response to tool calls, and correct responses before. It ends with the test.
fn answering_calls(response: &'static str) -> String {
    answering_calls_in_turn(vec![response])
}

/// The same with these responses in turn, and with the last one from then on.
fn answering_calls_in_turn(responses: Vec<&'static str>) -> String {
    let mut calls = 0;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let (_, body) = read_request(&stream);
            let asked: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let outcome = match asked["method"].as_str().unwrap_or_default() {
                "tools/call" => None,
                "initialize" => Some(
                    r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#,
                ),
                _ => Some(r#""error":{"code":-32601,"message":"no such method"}"#),
            };
            let response = outcome.map_or_else(
                || {
                    calls += 1;
                    responses[calls.min(responses.len()) - 1].to_owned()
                },
                |outcome| {
                    let body = format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, asked["id"]);
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
                    format!("{head}content-length: {}\r\n\r\n{body}", body.len())
                },
            );
            let _ = stream.write_all(response.as_bytes());
        }
    });
    url
}

#[test]
fn what_a_server_that_was_one_answers_to_a_call_does_not_make_its_address_wrong() {
    for (response, told) in [
        (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\nconnection: close\r\n\r\n{\"json",
            "the response body was cut off",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>",
            "it begins `<html>`",
        ),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n", "404 Not Found"),
        (
            "HTTP/1.1 500 No\r\ncontent-type: text/plain\r\ncontent-length: 2\r\nconnection: close\r\n\r\noh",
            "error: the request failed: POST",
        ),
    ] {
        let ran = line(&format!("call {} t", answering_calls(response))).exits(4);
        ran.says(&["(E_LOST)", told, "the request may have been executed"]);
    }
    // A request is answered with a response.
    line(&format!(
        "call {} t",
        answering_calls("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    ))
    .exits(4)
    .says(&["accepted without a response: 202 Accepted", "this is a bug in the server"]);
    // The id that came is named, as over stdio.
    let other = r#"{"jsonrpc":"2.0","id":"x-77","result":{"content":[]}}"#;
    let other = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{other}",
        other.len()
    );
    line(&format!("call {} t", answering_calls(Box::leak(other.into_boxed_str())))).exits(4).says(&[
        "(E_LOST)",
        "the response has the id \"x-77\" instead of ",
        "this is a bug in the server",
    ]);
}

/// Each verb that connects gives the same advice.
#[test]
fn what_is_not_reached_has_the_same_hint_in_every_verb() {
    let closed = Closed::tcp();
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let https = format!("https://{}/mcp", web.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in web.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad\r\ncontent-length: 0\r\n\r\n");
        }
    });
    for (url, what, hint) in [
        (
            format!("http://{closed}"),
            "connection refused: nothing listens there",
            "try      start the server, or check the host and the port",
        ),
        (https, "does not speak TLS on that port", "try      use http:// instead of https://"),
    ] {
        for verb in ["list", "info", "ping", "validate", "shell"] {
            run([verb, &url]).exits(4).says(&["(E_CONNECT)", what, hint]);
        }
    }
}

#[test]
fn a_truncated_page_is_not_taken_for_another_one() {
    let (url, _received) = answering(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 500\r\nconnection: close\r\n\r\n{\"json",
    );
    line(&format!("ping {url}")).exits(4).says(&[
        "(E_LINK)",
        "the response body was cut off",
        "try      try again",
    ]);
}

#[test]
fn a_refusal_in_json_need_be_no_message() {
    let (url, _received) = answering(
        "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer error=\"invalid_token\", \
         error_description=\"The token expired\"\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\
         connection: close\r\n\r\n{\"error\":\"no\"}",
    );
    let ran = line(&format!("ping {url}")).exits(3);
    ran.says(&["it begins `{\"error\":\"no\"}`; the server says: invalid_token: The token expired (E_AUTH)"]);
}

#[test]
fn i166_what_is_no_address_is_shown_without_its_secrets() {
    for url in ["http://me@127.0.0.1:1/mcp?api_key=hunter2", "http://127.0.0.1:x/?token=hunter2"] {
        let ran = line(&format!("ping {url}")).exits(2).says(&["is not an address", "=***"]);
        assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    }
}

#[test]
fn a_server_that_has_no_tasks_is_distinguished_from_a_task_that_is_gone() {
    let url = answering_calls("");
    let ran = line(&format!("call --task a {url}")).exits(5).says(&["-32601", "this server has no tasks"]);
    assert!(!ran.stderr.contains("mcpjoin list"), "{}", ran.stderr);
}

#[test]
fn a_validation_does_not_blame_the_path_for_a_server_that_cannot_answer_now() {
    for status in ["503 Service Unavailable", "429 Too Many Requests"] {
        let response = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let (url, _received) = answering(response.leak());
        let ran = line(&format!("validate {url}")).exits(4).says(&["(E_LINK)", &status[..3], "try again"]);
        assert!(!ran.stderr.contains("check the path"), "{}", ran.stderr);
    }
}

#[test]
fn an_opening_that_is_too_long_names_the_option_that_raises_the_limit() {
    let body = format!(r#"{{"jsonrpc":"2.0","result":{{"x":"{}"}}}}"#, "y".repeat(8192));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
    let (url, _received) = answering(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).leak());
    let ran = line(&format!("ping --max-message-size 4KiB {url}")).exits(4);
    ran.says(&["(E_TOO_LARGE)", "initialize", "4096 bytes", "--max-message-size"]);
}

#[test]
fn a_silent_server_over_http_takes_the_connect_timeout_once_and_the_message_names_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The system accepts connections, and no program answers.
    let whole = Duration::from_secs(2);
    let cache = scratch("http-silent");
    for (verb, path) in [("list", "/mcp"), ("list", ""), ("shell", "/mcp"), ("shell", "")] {
        let begun = Instant::now();
        let ran = run([verb, "--connect-timeout", "2s", &format!("http://{address}{path}")]).exits(4);
        let took = begun.elapsed();
        ran.says(&["no answer to initialize within 2 s (E_SILENT)", "after    2.", "for a slow start use"]);
        assert!(took >= whole && took < whole * 3 / 2, "{verb} {path}: {took:?}");
    }
    // A server that is remembered as one of the older protocol, and is silent now.
    let (server, url) = Demo::on("http://127.0.0.1:0/mcp");
    let url = url.replace("/mcp", "/sse");
    let remembering = |words: &[&str]| {
        let mut command = command(words);
        command.env("XDG_CACHE_HOME", &cache);
        start(command).finish()
    };
    remembering(&["ping", "-n", "1", &url]).exits(0);
    server.ends("TERM", 143);
    let _silent = TcpListener::bind(url.trim_start_matches("http://").trim_end_matches("/sse")).unwrap();
    let begun = Instant::now();
    remembering(&["list", "--connect-timeout", "2s", &url])
        .exits(4)
        .says(&["no answer to initialize within 2 s (E_SILENT)"]);
    assert!(begun.elapsed() < whole * 3 / 2, "{:?}", begun.elapsed());
    std::fs::remove_dir_all(cache).unwrap();
}

#[test]
fn a_server_that_asks_to_wait_is_reported_once() {
    let busy =
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let done = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 83\r\n\r\n\
                {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"it is done\"}]}}";
    let told = |options: &[&str], responses: Vec<&'static str>| {
        let url = answering_calls_in_turn(responses);
        let ran = run([&["call", "--era", "legacy", "--force"], options, &[&*url, "t"]].concat()).exits(0);
        assert_eq!(ran.stdout, "it is done\n");
        ran.stderr
    };
    let said = "tools/call: 429 Too Many Requests; sent again in 1 s, as the server asks\n";
    let responses = vec![busy, busy, done];
    assert_eq!(told(&[], responses.clone()), said);
    assert_eq!(told(&["-q"], responses.clone()), "");
    assert_eq!(told(&["-v"], responses).matches("sent again in 1 s").count(), 2);
    // A short wait is no hang.
    let soon =
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 0\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    assert_eq!(told(&[], vec![soon, done]), "");
}

/// A legacy server with a session whose list of tools never comes, and what is asked of it. It ends with the test.
fn never_listing() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (asked, received) = mpsc::channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let (head, body) = read_request(&stream);
            let message: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let verb = head.split(' ').next().unwrap_or_default();
            let about = message["method"].as_str().unwrap_or(verb).to_owned();
            let end = "connection: close\r\ncontent-length:";
            let said = match &*about {
                "tools/list" => None,
                "initialize" => {
                    let result = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#;
                    let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]);
                    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s";
                    Some(format!("{head}\r\n{end} {}\r\n\r\n{body}", body.len()))
                }
                about if about.starts_with("notifications/") => {
                    Some(format!("HTTP/1.1 202 Accepted\r\n{end} 0\r\n\r\n"))
                }
                "DELETE" => Some(format!("HTTP/1.1 200 OK\r\n{end} 0\r\n\r\n")),
                _ => Some(format!("HTTP/1.1 405 No\r\n{end} 0\r\n\r\n")),
            };
            match said {
                Some(said) => drop(stream.write_all(said.as_bytes())),
                None => kept.push(stream),
            }
            if asked.send(about).is_err() {
                return;
            }
        }
    });
    (url, received)
}

#[test]
fn a_command_that_is_interrupted_ends_its_session() {
    for words in [&["list"][..], &["call", "-q"], &["tool"], &["doctor"], &["validate", "-q"], &["info"]] {
        let (url, asked) = never_listing();
        let mut command = command(words);
        command.arg(&url).args(["call", "tool"].contains(&words[0]).then_some("t"));
        let running = start(command);
        while asked.recv().unwrap() != "tools/list" {}
        running.signal("INT");
        running.finish().exits(130);
        let after: Vec<String> = asked.try_iter().collect();
        assert!(after.iter().any(|about| about == "DELETE"), "{words:?}: {after:?}");
    }
}
