//! Tests of common user mistakes: the message says what was tried, what was received and what to do.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use super::ports::Closed;
use super::support::{line, read_request, run, scratch};

/// A listener that handles each connection with this function. Returns the address, without a scheme.
fn listening(treated: fn(TcpStream) -> std::io::Result<()>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The client may have disconnected.
            let _ = treated(stream);
        }
    });
    address
}

/// A web server without TLS and without MCP.
fn web(mut stream: TcpStream) -> std::io::Result<()> {
    let _ = stream.read(&mut [0; 4096])?;
    let page = "<!DOCTYPE html><html><body>Welcome</body></html>";
    let head = "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length";
    write!(stream, "{head}: {}\r\n\r\n{page}", page.len())
}

/// A server that speaks only TLS: it sends an alert and closes.
fn tls(mut stream: TcpStream) -> std::io::Result<()> {
    let _ = stream.read(&mut [0; 4096])?;
    stream.write_all(&[0x15, 3, 3, 0, 2, 2, 70])
}

/// Answers a request with this text.
fn answer(mut stream: TcpStream, text: &str) -> std::io::Result<()> {
    let _ = stream.read(&mut [0; 4096])?;
    stream.write_all(text.as_bytes())
}

/// Another API, with JSON of its own.
fn api(stream: TcpStream) -> std::io::Result<()> {
    let body = r#"{"status":"ok"}"#;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length";
    answer(stream, &format!("{head}: {}\r\n\r\n{body}", body.len()))
}

/// A proxy or a firewall that refuses every request.
fn forbidden(stream: TcpStream) -> std::io::Result<()> {
    answer(stream, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

/// A response that is not HTTP.
fn malformed(stream: TcpStream) -> std::io::Result<()> {
    answer(stream, "HTTP/1.1 200 OK\r\nthis is no header\r\n\r\n{}")
}

/// A server whose session ids cannot be sent back.
fn opening_sessions(mut stream: TcpStream) -> std::io::Result<()> {
    let (_, body) = read_request(&stream);
    let asked: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let outcome = match asked["method"].as_str() {
        Some("initialize") => {
            r#""result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#
        }
        _ => r#""error":{"code":-32601,"message":"no such method"}"#,
    };
    let body = format!(r#"{{"jsonrpc":"2.0","id":{},{outcome}}}"#, asked["id"]);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: \r\nConnection: close";
    write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_session_id_that_cannot_be_sent_back_is_a_bug_of_the_server() {
    let url = format!("http://{}/mcp", listening(opening_sessions));
    line(&format!("list {url}"))
        .exits(4)
        .says(&["the Mcp-Session-Id is empty (E_LINK)", "this is a bug in the server"]);
}

#[test]
fn a_url_without_an_mcp_server_is_reported_with_the_command_that_examines_it() {
    for (treated, said, hint, finding) in [
        (
            api as fn(TcpStream) -> std::io::Result<()>,
            "the answer to initialize is not valid: jsonrpc must be",
            "check the path: another API may be there",
            "(no-message)",
        ),
        (forbidden, "forbidden: 403 Forbidden", "mcpjoin auth login ", "(forbidden)"),
        (
            malformed,
            "the response is not HTTP/1.1: invalid HTTP header",
            "see the server's own log",
            "(not-http)",
        ),
        (web, "404 Not Found", "check the path", "(wrong-path)"),
    ] {
        let url = format!("http://{}/mcp", listening(treated));
        let examined = format!("; for more: mcpjoin doctor {url}\n");
        let ran = run(["list", &url]);
        assert!(matches!(ran.code, Some(3 | 4)), "{}", ran.stderr);
        assert!(ran.stderr.ends_with(&examined), "{}", ran.stderr);
        ran.says(&[said, hint]);
        let ran = run(["doctor", &url]).exits(1);
        assert!(ran.stdout.lines().next().unwrap().ends_with(finding), "{}", ran.stdout);
    }
}

#[test]
fn the_wrong_scheme_is_reported_with_the_right_one() {
    let (web, tls) = (listening(web), listening(tls));
    line(&format!("list https://{web}/mcp")).exits(4).says(&[
        "(E_CONNECT)",
        "does not speak TLS on that port",
        "http:// instead of https://",
    ]);
    // It closes the connection with the bytes of the handshake unread.
    let closing = listening(|_| Ok(()));
    let ran = line(&format!("list https://{closing}/mcp")).exits(4);
    let lost = "error: the connection was lost: ";
    ran.says(&[
        lost,
        "the TLS handshake with 127.0.0.1 failed: ",
        "(E_CONNECT)",
        "use http:// instead of https://",
    ]);
    line(&format!("list http://{tls}/mcp")).exits(4).says(&["(E_LINK)", "https:// instead of http://"]);
    line(&format!("list http://{web}/mcp")).exits(4).says(&["(E_NO_ENDPOINT)", "404", "/mcp"]);
    line(&format!("list --era legacy tcp://{web}")).exits(4).says(&[
        "(E_NOT_MCP)",
        "the server speaks HTTP",
        "received HTTP/1.1 404",
        "http:// instead of tcp://",
    ]);
    line(&format!("list --era legacy tcp://{tls}"))
        .exits(4)
        .says(&["the server speaks TLS", "https:// instead of tcp://"]);
}

#[test]
fn a_program_that_sends_everything_back_is_reported_as_what_it_is() {
    for era in ["auto", "legacy"] {
        run(["list", "--era", era, "cat"]).exits(4).says(&[
            "(E_NOT_MCP)",
            "sends our own messages back",
            "command  cat",
            "run it by itself",
        ]);
    }
}

#[test]
fn an_orchestrator_that_is_not_there_is_no_answer() {
    let folder = scratch("messages-certs");
    let certs = folder.to_str().unwrap();
    // No server listens on port 1. The client certificates are created in the folder.
    std::fs::create_dir_all(&folder).unwrap();
    let ran = run(["list", "--certs-dir", certs, "--server-name", "orchestrator", "orchestra://127.0.0.1:1"]);
    let ran = ran.exits(4).says(&["(E_CONNECT)", "not reached within", "mcpjoin doctor orchestra://"]);
    assert!(ran.stdout.is_empty(), "{}", ran.stdout);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_failure_of_orchestra_is_one_sentence() {
    let folder = scratch("messages-orchestra");
    std::fs::create_dir_all(&folder).unwrap();
    let name = folder.to_str().unwrap();
    let port = Closed::udp().port();
    let address = format!("127.0.0.1:{port}");
    let ran = run(["list", "--certs-dir", name, &format!("orchestra://{address}")]).exits(4);
    let failure = ran.stderr.split_once("error: ").unwrap().1;
    assert!(
        failure.starts_with(&format!(
            "{address}: the orchestrator was not reached within 4000 ms: no connection"
        )),
        "{failure}"
    );
    assert_eq!(failure.lines().next().unwrap().matches(&address).count(), 1, "{failure}");
    assert!(!failure.contains("stderr"), "{failure}");
    assert!(failure.ends_with(&format!("mcpjoin doctor orchestra://{address}\n")), "{failure}");
    // A failure of our own bridge is not one that its standard error explains.
    std::fs::write(folder.join("ca.crt"), "junk").unwrap();
    let target = format!("orchestra://{address}");
    for (verb, operand) in [("list", None), ("call", Some("x"))] {
        let words = [verb, "--json", "--certs-dir", name, &target].into_iter().chain(operand);
        let failure = run(words).exits(2).failure();
        assert_eq!(failure["id"], "E_CERTIFICATE", "{failure}");
        let message = failure["message"].as_str().unwrap();
        assert!(message.ends_with("ca.crt: not a certificate: there is no certificate in it"), "{failure}");
        assert_eq!(failure["hint"], "--certs-dir DIR names another folder of certificates");
        assert!(failure["stderr"].is_null() && failure["status"].is_null(), "{failure}");
    }
    let ran = run(["doctor", "--certs-dir", name, &format!("orchestra://{address}")]).exits(1);
    // The folder and the connection have the same fault.
    let seen =
        format!("fault: {name}/ca.crt: not a certificate: there is no certificate in it (certificates)\n");
    assert!(ran.stdout.starts_with(&seen), "{}", ran.stdout);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn options_of_an_orchestrator_are_refused_elsewhere() {
    for option in ["--certs-dir", "--server-name"] {
        for server in ["demo:", "tcp://127.0.0.1:1", "http://127.0.0.1:1/mcp"] {
            run(["list", option, "x", server]).exits(2).says(&[option, "a server of Orchestra", "leave out"]);
        }
    }
    // Our bridge is no program of the user's.
    let orchestrator = "orchestra://127.0.0.1:1";
    run(["list", "-e", "A=1", orchestrator])
        .exits(2)
        .says(&["-e is for a server run as a child", "leave out -e"]);
    let file = scratch("messages-file");
    std::fs::write(&file, "").unwrap();
    let name = file.to_str().unwrap();
    for words in [
        &["bridge", "--orchestrator-addr", "localhost:1", "--certs-dir", name][..],
        &["bridge", "--listen", "orchestra://127.0.0.1:0", "--certs-dir", name, "demo:"],
        &["list", "--certs-dir", name, "orchestra://localhost:1"],
        &["doctor", "--certs-dir", name, "orchestra://localhost:1"],
    ] {
        run(words).exits(2).says(&["(E_CERTIFICATE)", "is a file, not a folder", "--certs-dir DIR"]);
    }
    std::fs::remove_file(file).unwrap();
}
