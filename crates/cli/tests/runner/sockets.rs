//! Tests of servers that listen: `serve demo --listen`, and the targets `tcp://host:port` and `unix:/path`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use super::support::{Running, command, line, run, scratch, start};

/// The demonstration server on a socket. Ended when this is dropped.
pub(crate) struct Demo(Option<Running>);

impl Demo {
    /// Starts the server on this address, and waits until it prints its listening address.
    pub(crate) fn on(address: &str) -> (Self, String) {
        let mut running = start(command(["serve", "demo", "--full", "--listen", address]));
        let mut stderr = BufReader::with_capacity(1, running.child.stderr.take().unwrap());
        let demo = Self(Some(running));
        let mut said = String::new();
        stderr.read_line(&mut said).unwrap();
        let address = said.strip_prefix("listening on ").unwrap_or_else(|| panic!("{said}"));
        (demo, address.trim_end().to_owned())
    }

    /// Ends the server with a signal. Asserts that no process is left and that standard output is empty.
    #[track_caller]
    pub(crate) fn ends(mut self, signal: &str, code: i32) {
        let running = self.0.take().unwrap();
        running.signal(signal);
        assert_eq!(running.finish().exits(code).stdout, "");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Some(mut running) = self.0.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

#[test]
fn a_server_on_a_port_is_asked_like_any_other() {
    let (server, address) = Demo::on("tcp://127.0.0.1:0");
    assert!(address.starts_with("tcp://127.0.0.1:") && !address.ends_with(":0"), "{address}");
    for era in ["legacy", "modern"] {
        let ran = line(&format!("call --era {era} {address} echo message=hi")).exits(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("hi\n", ""));
    }
    assert_eq!(line(&format!("list --json {address}")).exits(0).json()["serverInfo"]["name"], "mcpjoin-demo");
    assert_eq!(line(&format!("read {address} test://static-binary")).exits(0).bytes.len(), 69);
    assert_eq!(line(&format!("ping -n 2 -i 1ms {address}")).exits(0).stdout.lines().count(), 3);
    server.ends("TERM", 143);
}

/// The response to a request over HTTP.
fn over_http(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_server_over_http_listens_beside_one_on_a_port() {
    let mut running = start(command([
        "serve",
        "demo",
        "--full",
        "--listen",
        "tcp://127.0.0.1:0",
        "--listen",
        "http://127.0.0.1:0/mcp",
    ]));
    let mut stderr = BufReader::with_capacity(1, running.child.stderr.take().unwrap());
    let demo = Demo(Some(running));
    let addresses = [(); 2].map(|()| {
        let mut said = String::new();
        stderr.read_line(&mut said).unwrap();
        said.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{said}")).to_owned()
    });
    assert_eq!(line(&format!("call {} echo message=hi", addresses[0])).exits(0).stdout, "hi\n");
    let http = addresses[1].strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}"#;
    let request = |host: &str| {
        format!(
            "POST /mcp HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let opened = over_http(http, &request(http));
    assert!(opened.starts_with("HTTP/1.1 200") && opened.contains("mcp-session-id: "), "{opened}");
    assert!(opened.contains("mcpjoin-demo"), "{opened}");
    assert!(over_http(http, &request("evil.example")).starts_with("HTTP/1.1 403"));
    let taken = line(&format!("serve demo --listen {}", addresses[1])).exits(2);
    taken.says(&["(E_LISTEN)"]);
    demo.ends("TERM", 143);
}

#[test]
fn a_server_on_a_unix_socket_is_for_its_user_alone_and_leaves_no_file() {
    let path = scratch("socket");
    let (server, address) = Demo::on(&format!("unix:{}", path.display()));
    assert_eq!(address, format!("unix:{}", path.display()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(line(&format!("call {address} echo message=hi")).exits(0).stdout, "hi\n");
    let trace = scratch("socket-trace");
    line(&format!("ping --era legacy --trace {} {address}", trace.display())).exits(0);
    let lines = std::fs::read_to_string(&trace).unwrap();
    assert_eq!(lines.lines().count(), 5, "{lines}");
    std::fs::remove_file(&trace).unwrap();
    line(&format!("serve demo --listen {address}")).exits(2).says(&["(E_LISTEN)", "another server listens"]);
    server.ends("INT", 130);
    assert!(!path.exists());
    line(&format!("list {address}")).exits(4).says(&["(E_CONNECT)", "doing    connect"]);
}

#[test]
fn f10_clients_that_stay_do_not_hold_the_end_up() {
    let (server, address) = Demo::on("tcp://127.0.0.1:0");
    let mut client = TcpStream::connect(address.strip_prefix("tcp://").unwrap()).unwrap();
    // The response shows that the connection has been accepted.
    client.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
    client.read_exact(&mut [0]).unwrap();
    let began = Instant::now();
    server.ends("TERM", 143);
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    drop(client);
}

#[test]
fn what_only_a_child_has_is_refused_with_the_reason() {
    for option in [&["-e", "A=1"][..], &["--env-clean"], &["--cwd", "/"]] {
        for target in ["tcp://127.0.0.1:1", "unix:/no/such"] {
            let mut words = vec!["list"];
            words.extend(option);
            words.push(target);
            run(&words).exits(2).says(&["(E_USAGE)", option[0], target, "run as a child"]);
        }
    }
}

/// A listener that sends these bytes to every client, and reads until the client disconnects.
fn peer(answer: &'static [u8], stays: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", listener.local_addr().unwrap());
    // The thread ends with the process of the test.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut first = [0; 4096];
            let _ = stream.read(&mut first);
            let _ = stream.write_all(answer);
            while stays && stream.read(&mut first).is_ok_and(|read| read > 0) {}
        }
    });
    address
}

#[test]
fn what_listens_and_is_no_server_is_reported() {
    let silent = peer(b"", true);
    let ran = run(["list", "--connect-timeout", "300ms", &silent]).exits(4);
    ran.says(&["(E_SILENT)", &format!("url      {silent}"), "check that an MCP server"]);
    let http = peer(b"HTTP/1.1 400 Bad Request\r\n\r\n", true);
    let failure = run(["list", "--json", "--connect-timeout", "300ms", &http]).exits(4).failure();
    assert_eq!(
        (&failure["id"], &failure["received"]),
        (&"E_NOT_MCP".into(), &"HTTP/1.1 400 Bad Request".into())
    );
    assert_eq!(failure["url"], http.as_str());
    let gone = peer(b"", false);
    let ran = run(["list", &gone]).exits(4);
    ran.says(&["(E_CLOSED)", "the server closed the connection"]);
    // No server listens on port 1.
    let ran = line("ping tcp://127.0.0.1:1").exits(4);
    ran.says(&[
        "(E_CONNECT)",
        "doing    connect",
        "url      tcp://127.0.0.1:1",
        "refused",
        "start the server, or check the host and the port",
    ]);
}

#[test]
fn i166_an_address_is_shown_without_user_information() {
    let ran = line("serve demo --listen tcp://me:hunter2@127.0.0.1:0").exits(2);
    ran.says(&["tcp://***@127.0.0.1:0 is not an address to listen on"]);
}
