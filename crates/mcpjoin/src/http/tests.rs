//! Tests of the HTTP client's connections: HTTP/2 by ALPN, refused HTTP/2 streams, proxies.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Method, Version};
use hyper_util::client::proxy::matcher::Matcher;
use mcpjoin_proto::session::TransportErrorReason;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use url::Url;

use super::client::{Body, Client, ClientOptions, Response};
use super::connector::{ResolveHook, Resolving};
use super::error::{Error, describe, is_timeout};
use super::proxy::Proxies;
use super::tls_config;

const CA: &[u8] = mcpjoin_test_support::tls::CA;
const CERTIFICATE: &[u8] = mcpjoin_test_support::tls::OTHER_NAME;
const KEY: &[u8] = mcpjoin_test_support::tls::KEY;
/// The name in the certificate, which is not a name of this machine.
const HOST: &str = "other.example";
const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

fn options() -> ClientOptions {
    let everything_is_here: ResolveHook =
        Arc::new(|_| -> Resolving { Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) }) });
    ClientOptions {
        resolve: Some(everything_is_here),
        ..ClientOptions::new(tls_config(&[CA.to_vec()]).unwrap(), Duration::from_secs(10))
    }
}

/// The TLS acceptor of a server that offers these protocols.
fn acceptor(protocols: &[&str]) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let mut config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// The head of an HTTP/1.1 message, and the part of its body that was read with it.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut head).await.unwrap(), 0, "it ended: {head:?}");
    }
    String::from_utf8(head).unwrap()
}

async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> String {
    let head = head(stream).await;
    stream.write_all(ANSWER.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    head
}

async fn text(response: &mut Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        body.extend_from_slice(&chunk);
    }
    body
}

/// An HTTP/2 server that refuses the first streams, the bodies of all requests in order, and the number of connections.
async fn refusing(refusals: usize) -> (Url, Arc<Mutex<Vec<Vec<u8>>>>, Arc<Mutex<usize>>) {
    let (listener, port) = listener().await;
    let (bodies, connections) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
    let (seen, connected) = (Arc::clone(&bodies), Arc::clone(&connections));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            *connected.lock().unwrap() += 1;
            let stream = acceptor(&["h2", "http/1.1"]).accept(stream).await.unwrap();
            let mut connection = h2::server::handshake(stream).await.unwrap();
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    let mut body = request.into_body();
                    let seen = Arc::clone(&seen);
                    tokio::spawn(async move {
                        let mut all = Vec::new();
                        while let Some(Ok(part)) = body.data().await {
                            all.extend_from_slice(&part);
                        }
                        let number = {
                            let mut seen = seen.lock().unwrap();
                            seen.push(all);
                            seen.len()
                        };
                        if number <= refusals {
                            return respond.send_reset(h2::Reason::REFUSED_STREAM);
                        }
                        let mut answer = respond.send_response(http::Response::new(()), false).unwrap();
                        answer.send_data(Bytes::from_static(b"ok"), true).unwrap();
                    });
                }
            });
        }
    });
    (Url::parse(&format!("https://{HOST}:{port}/mcp")).unwrap(), bodies, connections)
}

async fn post(client: &Client, url: &Url, body: impl Into<Body>) -> Result<Response, Error> {
    client.send(Method::POST, url, HeaderMap::new(), body).await
}

#[tokio::test]
async fn http2_is_spoken_over_one_connection_where_tls_agrees_on_it() {
    let (url, bodies, connections) = refusing(0).await;
    let client = Client::new(options());
    for _ in 0..3 {
        let mut response = post(&client, &url, Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!((response.version(), response.status().as_u16()), (Version::HTTP_2, 200));
        assert_eq!(text(&mut response).await, b"ok");
    }
    assert_eq!((bodies.lock().unwrap().len(), *connections.lock().unwrap()), (3, 1));
}

#[tokio::test]
async fn a_request_that_http2_has_refused_unprocessed_is_sent_again_twice_at_most() {
    for (refusals, sent, answered) in [(1, 2, true), (2, 3, true), (3, 3, false)] {
        let (url, bodies, _) = refusing(refusals).await;
        let response = post(&Client::new(options()), &url, Bytes::from_static(b"{}")).await;
        assert_eq!(response.is_ok(), answered, "{refusals}");
        assert_eq!(*bodies.lock().unwrap(), vec![b"{}".to_vec(); sent], "{refusals}");
    }
    // A streamed body cannot be sent a second time.
    let (url, bodies, _) = refusing(1).await;
    let streamed = Body::streamed(http_body_util::Full::new(Bytes::from_static(b"{}")));
    assert!(post(&Client::new(options()), &url, streamed).await.is_err());
    assert_eq!(bodies.lock().unwrap().len(), 1);
}

fn through(port: u16) -> Proxies {
    Proxies::from(Matcher::builder().all(format!("http://me:pw@127.0.0.1:{port}")).build())
}

#[tokio::test]
async fn a_server_of_https_is_reached_through_a_tunnel_in_which_the_proxy_sees_only_the_host() {
    for agent in [None, Some(HeaderValue::from_static("agent/1"))] {
        let (listener, port) = listener().await;
        let proxy = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = head(&mut stream).await;
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
            let mut stream = acceptor(&["http/1.1"]).accept(stream).await.unwrap();
            (asked.to_ascii_lowercase(), answer(&mut stream).await)
        });
        let options = ClientOptions { proxies: Some(through(port)), user_agent: agent.clone(), ..options() };
        let url = Url::parse(&format!("https://{HOST}/mcp?x=1")).unwrap();
        let mut response = post(&Client::new(options), &url, Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!(text(&mut response).await, b"ok");
        let (asked, sent) = proxy.await.unwrap();
        assert!(asked.starts_with(&format!("connect {HOST}:443 http/1.1\r\n")), "{asked}");
        assert!(asked.contains("proxy-authorization: basic bwu6chc=\r\n"), "{asked}");
        assert_eq!(asked.contains("user-agent: agent/1\r\n"), agent.is_some(), "{asked}");
        assert!(sent.starts_with("POST /mcp?x=1 HTTP/1.1\r\n"), "{sent}");
        assert!(!sent.contains("proxy-authorization"), "{sent}");
    }
}

#[tokio::test]
async fn a_server_of_http_is_reached_through_a_proxy_that_gets_the_whole_url() {
    let (listener, port) = listener().await;
    let proxy = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        answer(&mut stream).await
    });
    let client = Client::new(ClientOptions { proxies: Some(through(port)), ..options() });
    let url = Url::parse(&format!("http://{HOST}/mcp?x=1")).unwrap();
    let mut response = client.send(Method::GET, &url, HeaderMap::new(), Body::empty()).await.unwrap();
    assert_eq!(text(&mut response).await, b"ok");
    let sent = proxy.await.unwrap();
    assert!(sent.starts_with(&format!("GET http://{HOST}/mcp?x=1 HTTP/1.1\r\n")), "{sent}");
    for header in ["accept: */*", "proxy-authorization: Basic bWU6cHc=", &format!("host: {HOST}")] {
        assert!(sent.contains(&format!("{header}\r\n")), "{header}: {sent}");
    }
}

#[tokio::test]
async fn a_proxy_that_is_none_of_http_is_named_and_not_connected_to() {
    let proxies = Proxies::from(Matcher::builder().all("socks5://127.0.0.1:1").build());
    let client = Client::new(ClientOptions { proxies: Some(proxies), ..options() });
    for scheme in ["http", "https"] {
        let url = Url::parse(&format!("{scheme}://{HOST}/mcp")).unwrap();
        let sent = client.send(Method::GET, &url, HeaderMap::new(), Body::empty()).await;
        let Err(error) = sent else { panic!("{url} was reached") };
        let error = describe(&error, &url, Duration::from_secs(10), true);
        assert_eq!(error.reason(), Some(TransportErrorReason::ProxyScheme), "{error}");
        assert!(error.message.ends_with("unsupported scheme socks5"), "{error}");
    }
}

#[test]
fn no_proxy_leads_back_to_this_machine() {
    let proxies = through(1);
    for (url, proxied) in [
        ("http://other.example/", true),
        ("https://other.example:8443/", true),
        ("http://localhost/", false),
        ("http://127.0.0.1:8080/", false),
        ("https://[::1]/", false),
    ] {
        assert_eq!(proxies.intercept(&http::Uri::from_static(url)).is_some(), proxied, "{url}");
    }
}

#[tokio::test]
async fn connecting_ends_with_its_time_also_where_tls_is_silent() {
    let (listener, port) = listener().await;
    let silent = tokio::spawn(async move {
        let accepted: (TcpStream, _) = listener.accept().await.unwrap();
        std::future::pending::<()>().await;
        drop(accepted);
    });
    let options = ClientOptions { connect_timeout: Duration::from_millis(100), ..options() };
    let url = Url::parse(&format!("https://{HOST}:{port}/")).unwrap();
    let error = post(&Client::new(options), &url, Bytes::new()).await.err().expect("no response");
    assert!(error.is_connect() && is_timeout(&error), "{error:?}");
    silent.abort();
}

#[tokio::test]
async fn a_connection_that_is_idle_for_as_long_as_servers_keep_one_is_not_used() {
    let (listener, port) = listener().await;
    let connections = Arc::new(Mutex::new(0));
    let accepted = connections.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            *accepted.lock().unwrap() += 1;
            tokio::spawn(async move {
                loop {
                    let mut bytes = Vec::new();
                    while !bytes.ends_with(b"\r\n\r\n") {
                        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
                }
            });
        }
    });
    let client = Client::new(options());
    let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
    let idle = |time| async move {
        tokio::time::pause();
        tokio::time::advance(time).await;
        tokio::time::resume();
    };
    for (pause, expected) in [(0, 1), (3_900, 1), (4_100, 2)] {
        idle(Duration::from_millis(pause)).await;
        let mut response = client.send(Method::GET, &url, HeaderMap::new(), None).await.unwrap();
        assert_eq!(text(&mut response).await, b"ok");
        // The connection returns to the pool in a task of its own.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!(*connections.lock().unwrap(), expected, "after {pause} ms");
    }
}
