//! Tests of the server's checks before it dispatches a request: reliability group F, and the security advisories.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Version};
use http_body::Frame;
use mcpjoin::proto::session::Limits;
use mcpjoin::transport::HttpOptions;
use serde_json::json;
use tower_service::Service as _;

use crate::support::{Gate, LEGACY, Peer, Reply, builder, initialize, modern, peer, run};

#[test]
fn f107_a_host_that_is_not_allowed_is_refused() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        for host in ["localhost", "localhost:9", "127.0.0.1:80", "[::1]", "[::1]:8080", "LOCALHOST"] {
            assert_eq!(peer.with("host", host).call(1, "echo", json!({})).await.status, 200, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "0.0.0.0",
            "0.0.0.0:80",
            "localhost.",
            "127.1",
            "2130706433",
            "[::]",
            "[::ffff:127.0.0.1]",
            "user@localhost",
            "localhost:x",
        ] {
            let reply = peer.with("host", host).call(1, "echo", json!({})).await;
            assert_eq!(reply.error().await, (403, -32600), "{host:?}");
        }
        let (peer, _) = crate::support::peer(HttpOptions::new().allow_host("tools.example:8443").unwrap());
        assert_eq!(peer.with("host", "tools.example:8443").call(1, "echo", json!({})).await.status, 200);
        assert_eq!(peer.with("host", "tools.example").call(1, "echo", json!({})).await.status, 403);
    });
}

/// RFC 9112, 3.2.
#[test]
fn a_request_without_a_host_or_with_two_is_refused_as_malformed() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let without = peer.with("host", "").modern("tools/call", "echo");
        let body = modern(1, "tools/call", json!({ "name": "echo", "arguments": {} })).to_string();
        // An HTTP/1.1 request with the host in the target only is refused too.
        for (target, version, status) in [
            ("/mcp", Version::HTTP_11, 400),
            ("/mcp", Version::HTTP_10, 400),
            ("/mcp", Version::HTTP_2, 400),
            ("http://localhost/mcp", Version::HTTP_11, 400),
            ("http://localhost/mcp", Version::HTTP_2, 200),
        ] {
            let mut request = without.request(Method::POST, target, body.clone());
            *request.version_mut() = version;
            let reply = Reply::of(peer.service.clone().call(request).await.unwrap());
            assert_eq!(reply.status, status, "{target} {version:?}");
        }
        for target in ["/mcp", "http://localhost/mcp"] {
            for second in ["localhost", "evil.example"] {
                let mut request = without.request(Method::POST, target, body.clone());
                for host in ["localhost", second] {
                    request.headers_mut().append("host", host.parse().unwrap());
                }
                let reply = Reply::of(peer.service.clone().call(request).await.unwrap());
                assert_eq!(reply.error().await, (400, -32600), "{target} {second}");
            }
        }
    });
}

#[test]
fn f108_an_origin_that_is_not_allowed_is_refused() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        for origin in ["", "http://localhost:3000", "https://127.0.0.1", "http://[::1]:1"] {
            assert_eq!(peer.with("origin", origin).call(1, "echo", json!({})).await.status, 200, "{origin}");
        }
        for origin in ["null", "http://evil.example", "file://", "http://localhost.evil.example", "x"] {
            assert_eq!(peer.with("origin", origin).call(1, "echo", json!({})).await.status, 403, "{origin}");
        }
        let (peer, _) = crate::support::peer(HttpOptions::new().allow_origin("https://app.example").unwrap());
        assert_eq!(peer.with("origin", "https://app.example").call(1, "echo", json!({})).await.status, 200);
        assert_eq!(peer.with("origin", "http://app.example").call(1, "echo", json!({})).await.status, 403);
    });
}

/// Each request of a web page with a rebound name is refused, at every path, and no handler runs.
async fn rebinding_fails(name: &str, value: &str) {
    let (peer, gate) = peer(HttpOptions::new());
    let session = peer.open(LEGACY).await;
    let (evil, evil_session) = (peer.with(name, value), session.with(name, value));
    assert_eq!(evil.call(1, "wait", json!({})).await.status, 403);
    assert_eq!(evil.post(initialize(LEGACY, json!({}))).await.status, 403);
    assert_eq!(evil_session.call_in_session(1, "wait", json!({})).await.status, 403);
    for (method, path) in [
        (Method::GET, "/mcp"),
        (Method::DELETE, "/mcp"),
        (Method::OPTIONS, "/mcp"),
        (Method::GET, "/sse"),
        (Method::POST, "/messages?sessionId=0"),
        (Method::GET, "/no/such"),
    ] {
        assert_eq!(evil_session.send(method.clone(), path, "").await.status, 403, "{method} {path}");
    }
    assert_eq!((gate.begun(), peer.service.sessions()), (0, 1));
}

#[test]
fn cve_2026_42559_cve_2025_66414_cve_2025_66416_cve_2026_34742_cve_2026_35568_dns_rebinding_by_host() {
    run(rebinding_fails("host", "evil.example"));
}

#[test]
fn cve_2026_59950_every_path_checks_the_origin() {
    run(rebinding_fails("origin", "http://evil.example"));
}

#[test]
fn f109_go_2026_4773_types_that_a_web_page_may_send_anywhere_are_refused() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let body = modern(1, "tools/call", json!({ "name": "wait", "arguments": {} }));
        let caller = peer.modern("tools/call", "wait");
        for kind in [
            "",
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "application/jsonx",
        ] {
            assert_eq!(caller.with("content-type", kind).post(&body).await.status, 415, "{kind}");
        }
        for accept in [
            "",
            "application/json",
            "text/event-stream",
            "text/html",
            "application/json, text/event-stream;q=0",
        ] {
            assert_eq!(caller.with("accept", accept).post(&body).await.status, 406, "{accept}");
        }
        assert_eq!(gate.begun(), 0);
        gate.open.add_permits(3);
        for accept in ["*/*", "application/*, text/*", "text/event-stream;q=0.5,application/json"] {
            assert_eq!(caller.with("accept", accept).post(&body).await.status, 200, "{accept}");
        }
        let kind = "Application/JSON; charset=utf-8";
        gate.open.add_permits(1);
        assert_eq!(caller.with("content-type", kind).post(&body).await.status, 200);
        let session = peer.open(LEGACY).await;
        assert_eq!(session.with("accept", "application/json").get().await.status, 406);
        assert_eq!(peer.with("accept", "application/json").send(Method::GET, "/sse", "").await.status, 406);
    });
}

#[test]
fn f110_cve_2026_34237_no_page_may_read_a_reply_unless_it_was_asked_for() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let page = peer.with("origin", "http://localhost:3000");
        let asked = page.with("access-control-request-method", "POST");
        let reply = asked.send(Method::OPTIONS, "/mcp", "").await;
        assert_eq!((reply.status, &reply.headers["allow"]), (405, &"GET, POST, DELETE".parse().unwrap()));
        let cors = |reply: &Reply| {
            reply.headers.keys().filter(|name| name.as_str().starts_with("access-control")).count()
        };
        assert_eq!(cors(&reply), 0);
        let opened = page.post(initialize(LEGACY, json!({}))).await;
        assert_eq!((opened.status, cors(&opened)), (200, 0));

        let (peer, _) = crate::support::peer(HttpOptions::new().cors(true));
        let page = peer.with("origin", "http://localhost:3000");
        let asked = page
            .with("access-control-request-method", "POST")
            .with("access-control-request-headers", "mcp-name");
        let reply = asked.send(Method::OPTIONS, "/mcp", "").await;
        assert_eq!(
            (reply.status, &reply.headers["access-control-allow-headers"]),
            (204, &"mcp-name".parse().unwrap())
        );
        assert_eq!(reply.headers["access-control-allow-origin"], "http://localhost:3000");
        let opened = page.post(initialize(LEGACY, json!({}))).await;
        assert_eq!(opened.headers["access-control-allow-origin"], "http://localhost:3000");
        assert_eq!(opened.headers["access-control-expose-headers"], "Mcp-Session-Id, WWW-Authenticate");
        let evil = page.with("origin", "http://evil.example").post(initialize(LEGACY, json!({}))).await;
        assert_eq!((evil.status, cors(&evil)), (403, 0));
    });
}

#[test]
fn f106_a_head_of_too_many_or_too_large_headers_is_refused() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let mut many = peer.clone();
        many.headers.extend((0..200).map(|number| (format!("x-{number}"), "1".to_owned())));
        assert_eq!(many.call(1, "echo", json!({})).await.status, 431);
        assert_eq!(peer.with("x-large", &"x".repeat(64 * 1024)).call(1, "echo", json!({})).await.status, 431);
        assert_eq!(peer.with("x-large", &"x".repeat(60 * 1024)).call(1, "echo", json!({})).await.status, 200);
    });
}

/// A body without a length whose pieces arrive one after the other, each after some time.
struct Pieces {
    piece: Bytes,
    left: usize,
    pace: Option<tokio::time::Interval>,
    taken: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Pieces {
    fn new(piece: &str, left: usize, every: Duration) -> Self {
        let piece = Bytes::copy_from_slice(piece.as_bytes());
        let pace =
            (!every.is_zero()).then(|| tokio::time::interval_at(tokio::time::Instant::now() + every, every));
        Self { piece, left, pace, taken: std::sync::Arc::default() }
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(pace) = &mut self.pace {
            std::task::ready!(pace.poll_tick(cx));
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        self.taken.fetch_add(self.piece.len(), std::sync::atomic::Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(self.piece.clone()))))
    }
}

async fn post_pieces(peer: &Peer, path: &str, pieces: Pieces) -> Reply {
    let (parts, _) = peer.request(Method::POST, path, "").into_parts();
    Reply::of(peer.service.clone().call(Request::from_parts(parts, pieces)).await.unwrap())
}

#[test]
fn cve_2026_109527_cve_2026_108395_ghsa_f897_a_body_without_end_is_cut_on_every_path() {
    run(async {
        let gate = Gate::new();
        let mut limits = Limits::default();
        limits.message = 1_000_000;
        let server = builder(&gate).limits(limits).build().unwrap();
        let peer = Peer::new(&server, HttpOptions::new());
        let mut sse = peer.send(Method::GET, "/sse", "").await;
        let endpoint = sse.event().await.unwrap().1;
        for path in ["/mcp", endpoint.as_str()] {
            // The body is a gibibyte; the server reads no more than the limit.
            let pieces = Pieces::new(&" ".repeat(64 * 1024), 16 * 1024, Duration::ZERO);
            let taken = pieces.taken.clone();
            let reply = post_pieces(&peer.modern("tools/call", "echo"), path, pieces).await;
            assert_eq!(reply.status, 413, "{path}");
            let taken = taken.load(std::sync::atomic::Ordering::Relaxed);
            assert!(taken <= 1_000_000 + 64 * 1024, "{taken}");
            // The server does not read a body with too large a content length.
            let reply =
                peer.modern("tools/call", "echo").send(Method::POST, path, vec![b' '; 1_000_001]).await;
            assert_eq!(reply.status, 413, "{path}");
        }
        assert_eq!(peer.call(1, "echo", json!({})).await.status, 200);
    });
}

#[test]
fn f102_a_body_that_trickles_is_given_up() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let caller = peer.modern("tools/call", "echo");
        let started = tokio::time::Instant::now();
        let trickle = Pieces::new(" ", 1_000, Duration::from_secs(1));
        assert_eq!(post_pieces(&caller, "/mcp", trickle).await.status, 408);
        assert_eq!(started.elapsed().as_secs(), 30);
    });
}

#[test]
fn a_body_in_pieces_is_one_message() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let pieces = Pieces::new(" ", 5, Duration::from_millis(1));
        assert_eq!(post_pieces(&peer, "/mcp", pieces).await.error().await, (400, -32700));
    });
}

#[test]
fn cve_2026_111768_a_message_of_many_small_values_is_cheap() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        for filling in ["[],", "{\"a\":1},", "1,"] {
            let many = filling.repeat(4 * 1024 * 1024 / filling.len());
            let body =
                modern(1, "tools/call", json!({ "name": "echo", "arguments": { "message": "x", "v": [] } }));
            let body = body.to_string().replace("[]", &format!("[{}1]", many));
            assert_eq!(peer.modern("tools/call", "echo").post(body).await.status, 200);
        }
    });
}

#[test]
fn cve_2026_27896_keys_are_exact_and_duplicates_are_refused() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let good = modern(1, "tools/call", json!({ "name": "wait", "arguments": {} })).to_string();
        let caller = peer.modern("tools/call", "wait");
        for body in [
            good.replace("\"method\"", "\"Method\""),
            good.replace("\"method\"", "\"metho\u{17f}d\""),
            good.replace("\"id\"", "\"id\\u0000\""),
            good.replacen('{', "{\"method\":\"ping\",", 1),
            good.replacen('{', "{\"id\":2,", 1),
        ] {
            let reply = caller.post(&body).await;
            assert!(matches!(reply.status, 202 | 400), "{}: {body}", reply.status);
        }
        assert_eq!(gate.begun(), 0);
    });
}

#[test]
fn a_path_that_is_none_is_not_found() {
    run(async {
        let (peer, _) = peer(HttpOptions::new().path("/tools").without_sse());
        assert_eq!(peer.send(Method::POST, "/tools", "{}").await.status, 400);
        for path in ["/", "/mcp", "/tools/", "/Tools", "/sse", "/messages"] {
            assert_eq!(peer.send(Method::POST, path, "{}").await.status, 404, "{path}");
        }
        let (peer, _) = crate::support::peer(HttpOptions::new().any_path());
        assert_eq!(peer.send(Method::POST, "/any/where", "{}").await.status, 400);
    });
}

#[test]
fn f105_a_compressed_body_is_refused_without_being_read() {
    run(async {
        let (peer, gate) = peer(HttpOptions::new());
        let body = modern(1, "tools/call", json!({ "name": "wait", "arguments": {} }));
        let caller = peer.modern("tools/call", "wait");
        for encoding in ["gzip", "br", "deflate", "identity, gzip"] {
            let compressed = caller.with("content-encoding", encoding);
            assert_eq!(compressed.post(&body).await.status, 415, "{encoding}");
            let pieces = Pieces::new("x", 10, Duration::ZERO);
            let taken = pieces.taken.clone();
            assert_eq!(post_pieces(&compressed, "/mcp", pieces).await.status, 415, "{encoding}");
            assert_eq!(taken.load(std::sync::atomic::Ordering::Relaxed), 0);
        }
        assert_eq!(gate.begun(), 0);
    });
}

#[test]
fn a_request_that_names_two_hosts_is_refused_and_one_that_names_one_twice_is_not() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let call = |target: &str, host: &str| {
            let peer = peer.modern("tools/call", "echo").with("host", host);
            let body = modern(1, "tools/call", json!({ "name": "echo", "arguments": {} })).to_string();
            let target = target.to_owned();
            async move {
                let mut request = peer.request(Method::POST, &target, body);
                *request.version_mut() = Version::HTTP_2;
                Reply::of(peer.service.clone().call(request).await.unwrap()).status
            }
        };
        for (target, host, status) in [
            ("http://evil.example/mcp", "localhost", 400),
            ("http://localhost/mcp", "evil.example", 400),
            ("http://localhost/mcp", "127.0.0.1", 400),
            ("http://localhost:1/mcp", "localhost:2", 400),
            ("http://me@localhost/mcp", "localhost", 400),
            ("http://localhost/mcp", "me@localhost", 400),
            ("http://evil.example/mcp", "evil.example", 403),
            ("http://evil.example/mcp", "", 403),
            ("http://localhost/mcp", "", 200),
            ("http://localhost/mcp", "localhost", 200),
            ("http://localhost/mcp", "LOCALHOST:80", 200),
            ("http://localhost:80/mcp", "localhost", 200),
            ("https://localhost:443/mcp", "localhost", 200),
            ("https://localhost/mcp", "localhost:80", 400),
            ("http://[::1]:5/mcp", "[0:0::1]:5", 200),
        ] {
            assert_eq!(call(target, host).await, status, "{target} {host}");
        }
    });
}

#[test]
fn a_request_that_gives_two_lengths_is_refused_whatever_server_it_comes_from() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let reply = peer.with("content-length", "2").with("transfer-encoding", "chunked").post("{}").await;
        assert_eq!(reply.headers["connection"], "close");
        assert_eq!(reply.error().await, (400, -32600));
    });
}
