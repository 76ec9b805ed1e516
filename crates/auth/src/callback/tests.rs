//! Tests of the callback listener on the loopback interface.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

/// Sends a request, and returns the response.
async fn say(port: u16, request: &str) -> String {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn get(port: u16, target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")
}

#[tokio::test]
async fn g135_g142_only_the_right_request_is_the_answer_and_no_page_repeats_what_was_asked() {
    let callback = Callback::listen(0, "/callback", true).await.unwrap();
    let port = callback.port();
    let answer = tokio::spawn(async move { callback.answer("right").await });
    // A browser that has connected and sends nothing, or only a part, does not block others.
    let mut silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    silent.write_all(b"GET /callback?state=right").await.unwrap();
    let script = "/callback?error=<script>alert(1)</script>&state=%3Cscript%3E";
    for (request, status) in [
        (get(port, script), "400"),
        (get(port, "/callback?code=c"), "400"),
        (get(port, "/callback?code=c&state=wrong"), "400"),
        (get(port, "/callback?code=c&state=right&state=right"), "400"),
        (get(port, "/callback"), "400"),
        (get(port, "/"), "404"),
        (get(port, "/callback/?code=c&state=right"), "404"),
        (get(port, "/favicon.ico"), "404"),
        (get(port, "http://127.0.0.1/callback?state=right"), "404"),
        (format!("POST /callback?state=right HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"), "405"),
        ("GET /callback?code=c&state=right HTTP/1.1\r\n\r\n".into(), "400"),
        ("GET /callback?code=c&state=right HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".into(), "403"),
        (format!("GET /callback?code=c&state=right HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"), "403"),
        (
            format!(
                "GET /callback?code=c&state=right HTTP/1.1\r\nHost: 127.0.0.1.evil.example:{port}\r\n\r\n"
            ),
            "403",
        ),
        (
            format!("GET /callback?state=right HTTP/1.1\r\nHost: localhost:{port}\r\nHost: evil\r\n\r\n"),
            "400",
        ),
        ("GET /callback?state=right\r\n\r\n".into(), "400"),
        ("hello\r\n\r\n".into(), "400"),
    ] {
        let page = say(port, &request).await;
        assert!(page.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {page}");
        assert!(!page.contains("script>") && !page.contains("evil"), "{page}");
        assert!(page.contains("Cache-Control: no-store") && page.contains("default-src 'none'"));
    }
    let page = say(port, &get(port, "/callback?code=a%20b&state=right")).await;
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    assert!(!page.contains("a%20b") && !page.contains("right"), "{page}");
    assert_eq!(answer.await.unwrap(), "code=a%20b&state=right");
    // The callback accepts one answer: then the port is free, and no listener is left.
    let error = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn g142_it_listens_on_loopback_alone_and_frees_its_port_when_it_is_given_up() {
    let callback = Callback::listen(0, "/callback", true).await.unwrap();
    let port = callback.port();
    for listener in &callback.listeners {
        let address: SocketAddr = listener.local_addr().unwrap();
        assert!(address.ip().is_loopback(), "{address}");
        assert_eq!(address.port(), port);
    }
    assert_eq!(Callback::listen(port, "/callback", true).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    {
        let mut answer = Box::pin(callback.answer("right"));
        assert!((&mut answer).now_or_never().is_none());
    }
    Callback::listen(port, "/callback", true).await.unwrap();
}

#[tokio::test]
async fn a_head_without_end_is_cut_off() {
    let callback = Callback::listen(0, "/callback", false).await.unwrap();
    let port = callback.port();
    let answer = tokio::spawn(async move { callback.answer("right").await });
    let mut endless = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    let line = "X-More: more\r\n".repeat(8 * 1024);
    let _ = endless.write_all(format!("GET /callback?state=right HTTP/1.1\r\n{line}").as_bytes()).await;
    let mut rest = Vec::new();
    // The connection is closed or reset, depending on the unread data.
    let _ = endless.read_to_end(&mut rest).await;
    assert!(rest.is_empty());
    say(port, &get(port, "/callback?code=c&state=right")).await;
    assert_eq!(answer.await.unwrap(), "code=c&state=right");
}

#[tokio::test]
async fn thirty_two_connections_are_read_at_once_and_the_next_waits_for_one_to_end() {
    let callback = Callback::listen(0, "/callback", false).await.unwrap();
    let port = callback.port();
    let answer = tokio::spawn(async move { callback.answer("right").await });
    let mut silent = Vec::new();
    for _ in 0..31 {
        silent.push(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap());
    }
    // With 31 connections there is room for one more.
    assert!(say(port, &get(port, "/")).await.starts_with("HTTP/1.1 404 "));
    silent.push(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap());
    let mut last = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    last.write_all(get(port, "/callback?code=c&state=right").as_bytes()).await.unwrap();
    // A waiting connection that can be accepted is accepted in a few rounds.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(!answer.is_finished(), "33 are received at once");
    silent.pop();
    assert_eq!(answer.await.unwrap(), "code=c&state=right");
}

#[tokio::test(start_paused = true)]
async fn who_has_connected_and_says_nothing_is_waited_for_ten_seconds() {
    let callback = Callback::listen(0, "/callback", false).await.unwrap();
    let port = callback.port();
    let answer = tokio::spawn(async move { callback.answer("right").await });
    let mut silent = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    let began = tokio::time::Instant::now();
    assert_eq!(silent.read(&mut [0]).await.unwrap(), 0, "it is closed without a page");
    assert_eq!(began.elapsed().as_secs(), 10);
    assert!(!answer.is_finished());
}

#[test]
fn a_browser_leaves_out_the_port_that_it_would_have_taken_by_itself() {
    let at = |port| Callback { listeners: Vec::new(), port, path: "/callback".into() };
    for host in ["127.0.0.1", "localhost", "[::1]"] {
        assert!(at(80).is_ours(host) && at(80).is_ours(&format!("{host}:80")), "{host}");
        assert!(at(8080).is_ours(&format!("{host}:8080")));
        assert!(!at(8080).is_ours(host) && !at(80).is_ours(&format!("{host}:8080")), "{host}");
    }
    for host in ["", "evil.example", "127.0.0.1.evil.example", "evil.example:80", ":80"] {
        assert!(!at(80).is_ours(host), "{host}");
    }
}

/// Only on Linux does a socket that was shut down keep refusing to accept connections.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn who_cannot_be_accepted_ends_nothing() {
    let mut callback = Callback::listen(0, "/callback", false).await.unwrap();
    let port = callback.port();
    let broken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    rustix::net::shutdown(&broken, rustix::net::Shutdown::Both).unwrap();
    assert!(broken.accept().await.is_err());
    callback.listeners.insert(0, broken);
    let answer = tokio::spawn(async move { callback.answer("right").await });
    let page = say(port, &get(port, "/callback?code=c&state=right")).await;
    assert!(page.starts_with("HTTP/1.1 200 "), "{page}");
    assert_eq!(answer.await.unwrap(), "code=c&state=right");
}
