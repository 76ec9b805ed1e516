//! Each fault is found by its rule, and by no other.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderValue;
use http::header::{HOST, ORIGIN};
use mcpjoin::Link;
use mcpjoin::validate::Validator;

use super::front::{Fault, Front, endless, failed, full, judged, looked};

/// Each fault in front of our own server is found by its rule, and by no other.
async fn found(look: fn(Validator) -> Validator, faults: &[(&str, Fault)]) {
    let mut wrong = Vec::new();
    for (rule, fault) in faults {
        let front = Front::new(*fault).await;
        let trace = looked(look(front.validator())).await.unwrap_or_else(|error| panic!("{rule}: {error}"));
        let report = judged(&trace);
        if failed(&report) != [*rule] {
            let found: Vec<_> =
                report.failed().map(|verdict| (verdict.rule.slug, &verdict.outcome)).collect();
            wrong.push(format!("{rule}: {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn fault(change: impl FnOnce(&mut Fault)) -> Fault {
    let mut fault = Fault::default();
    change(&mut fault);
    fault
}

fn header<'h>(headers: &'h http::HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

#[tokio::test]
async fn f27_what_a_server_lets_in_over_http_is_found() {
    found(
        Validator::without_modern,
        &[
            ("origin-validated", fault(|it| it.before = |head, _| _ = head.headers.remove(ORIGIN))),
            (
                "foreign-origin-forbidden",
                fault(|it| {
                    it.after = |sent, status, _, _| {
                        if sent.headers.contains_key(ORIGIN) {
                            *status = 400;
                        }
                    }
                }),
            ),
            (
                "host-validated",
                fault(|it| {
                    it.before =
                        |head, _| _ = head.headers.insert(HOST, HeaderValue::from_static("127.0.0.1"));
                }),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn f27_faults_of_replies_over_http_are_found() {
    found(
        Validator::without_modern,
        &[
            (
                "reply-content-type",
                fault(|it| {
                    it.after = |_, status, headers, _| {
                        if *status == 200 {
                            headers.insert("content-type", HeaderValue::from_static("text/plain"));
                        }
                    }
                }),
            ),
            (
                "reply-is-message",
                fault(|it| {
                    it.after = |_, _, _, body| *body = body.replace("\"result\":{}}", "\"result\":{}");
                }),
            ),
            (
                "notification-accepted",
                fault(|it| {
                    it.after = |_, status, _, _| {
                        if *status == 202 {
                            *status = 200;
                        }
                    }
                }),
            ),
            (
                "jsonrpc-version",
                fault(|it| {
                    it.after = |_, _, _, body| {
                        if body.contains("\"result\":{}") {
                            *body = body.replace("\"2.0\"", "\"1.0\"");
                        }
                    }
                }),
            ),
            (
                "id-given-back",
                fault(|it| it.after = |_, _, _, body| *body = body.replace("\"id\":\"7\"", "\"id\":7")),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn f27_faults_of_streams_are_found() {
    // Answers each ping with a stream of its own.
    fn ping(body: &str) -> Option<String> {
        let id = body.strip_prefix("{\"jsonrpc\":\"2.0\",\"id\":")?.strip_suffix(",\"method\":\"ping\"}")?;
        Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}"))
    }
    /// In a session, where nothing else is looked at.
    fn plain(head: &http::request::Parts) -> bool {
        let known = header(&head.headers, "mcp-session-id").is_some_and(|id| !id.starts_with("mcpjoin-"));
        let spoken = header(&head.headers, "mcp-protocol-version") == Some("2025-11-25");
        let foreign = head.headers.contains_key(ORIGIN)
            || header(&head.headers, "host").is_some_and(|host| host.ends_with(".invalid"));
        known && spoken && !foreign
    }
    found(
        Validator::without_modern,
        &[
            (
                "stream-ends",
                fault(|it| {
                    it.instead = |head, body| {
                        let reply = ping(body).filter(|_| plain(head) && body.contains("\"id\":2,"))?;
                        Some(endless("text/event-stream", &format!("data: {reply}\n\n")))
                    }
                }),
            ),
            (
                "stream-primed",
                fault(|it| {
                    it.instead = |head, body| {
                        let reply = ping(body).filter(|_| plain(head) && body.contains("\"id\":2,"))?;
                        Some(full(200, "text/event-stream", &format!("id: only\ndata: {reply}\n\n")))
                    }
                }),
            ),
            (
                "event-ids-unique",
                fault(|it| {
                    it.instead = |head, body| {
                        let reply = ping(body).filter(|_| plain(head) && !body.contains("\"id\":1,"))?;
                        let text = format!("id: a\ndata:\n\nid: b\ndata: {reply}\n\n");
                        // Of the last ones it is not known in which session they are.
                        let two = body.contains("\"id\":2,") || body.contains("\"id\":3,");
                        two.then(|| full(200, "text/event-stream", &text))
                    }
                }),
            ),
            (
                "get-opens-a-stream",
                fault(|it| {
                    it.instead = |head, _| {
                        (head.method == http::Method::GET).then(|| full(404, "text/plain", "Cannot GET /mcp"))
                    }
                }),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn f27_faults_of_sessions_over_http_are_found() {
    found(
        Validator::without_modern,
        &[
            (
                "session-id-required",
                fault(|it| {
                    it.after = |sent, status, _, _| {
                        if !sent.headers.contains_key("mcp-session-id") && *status == 400 {
                            *status = 500;
                        }
                    }
                }),
            ),
            (
                "ended-session-not-found",
                fault(|it| {
                    it.after = |sent, status, _, _| {
                        let known = header(&sent.headers, "mcp-session-id");
                        if *status == 404 && known.is_some_and(|id| !id.starts_with("mcpjoin-")) {
                            *status = 400;
                        }
                    }
                }),
            ),
            (
                "unknown-session-not-found",
                fault(|it| {
                    it.after = |sent, status, _, _| {
                        let known = header(&sent.headers, "mcp-session-id");
                        if *status == 404 && known.is_some_and(|id| id.starts_with("mcpjoin-")) {
                            *status = 400;
                        }
                    }
                }),
            ),
            (
                "session-ended",
                fault(|it| {
                    it.instead = |head, _| {
                        (head.method == http::Method::DELETE).then(|| full(500, "text/plain", "not today"))
                    }
                }),
            ),
            (
                "bad-version-header-refused",
                fault(|it| {
                    it.before = |head, _| {
                        if header(&head.headers, "mcp-protocol-version") == Some("1999-01-01") {
                            head.headers.remove("mcp-protocol-version");
                        }
                    }
                }),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn f27_faults_of_the_modern_era_over_http_are_found() {
    /// Whether it is the whole list of tools.
    fn is_list(sent: &http::request::Parts, body: &str) -> bool {
        header(&sent.headers, "mcp-method") == Some("tools/list") && body.contains("\"tools\":[")
    }
    /// Sets a header, where the request is one of the modern era with a whole `_meta`.
    fn set(head: &mut http::request::Parts, body: &str, name: &'static str, value: &str) {
        if body.contains("\"server/discover\"") && body.contains("/protocolVersion\":\"2026-07-28\"") {
            head.headers.insert(name, HeaderValue::from_str(value).unwrap());
        }
    }
    found(
        Validator::without_legacy,
        &[
            (
                "no-session-given",
                fault(|it| {
                    it.after = |_, _, headers, _| {
                        _ = headers.insert("mcp-session-id", HeaderValue::from_static("a"));
                    };
                }),
            ),
            (
                "version-header-agrees",
                fault(|it| {
                    it.before = |head, body| {
                        if header(&head.headers, "mcp-protocol-version") == Some("2025-11-25") {
                            set(head, body, "mcp-protocol-version", "2026-07-28");
                        }
                    }
                }),
            ),
            (
                "method-header-required",
                fault(|it| {
                    it.before = |head, body| {
                        if !head.headers.contains_key("mcp-method") {
                            set(head, body, "mcp-method", "server/discover");
                        }
                    }
                }),
            ),
            (
                "method-header-agrees",
                fault(|it| {
                    it.before = |head, body| {
                        if header(&head.headers, "mcp-method") == Some("tools/list") {
                            set(head, body, "mcp-method", "server/discover");
                        }
                    }
                }),
            ),
            (
                "header-values-keep-letters",
                fault(|it| {
                    it.before = |head, body| {
                        if header(&head.headers, "mcp-method") == Some("SERVER/DISCOVER") {
                            set(head, body, "mcp-method", "server/discover");
                        }
                    }
                }),
            ),
            (
                "unknown-method-status",
                fault(|it| {
                    it.after = |_, status, _, body| {
                        if body.contains("-32601") {
                            *status = 200;
                        }
                    }
                }),
            ),
            (
                "unsupported-version-status",
                fault(|it| {
                    it.after = |_, status, _, body| {
                        if body.contains("-32022") {
                            *status = 200;
                        }
                    }
                }),
            ),
            (
                "missing-meta-status",
                fault(|it| {
                    it.after = |_, status, _, body| {
                        if body.contains("-32602") {
                            *status = 200;
                        }
                    }
                }),
            ),
            (
                "name-header-required",
                fault(|it| {
                    it.before = |head, body| {
                        if body.contains("\"prompts/get\"") && !head.headers.contains_key("mcp-name") {
                            head.headers
                                .insert("mcp-name", HeaderValue::from_static("mcpjoin-no-such-prompt"));
                        }
                    }
                }),
            ),
            (
                "name-header-agrees",
                fault(|it| {
                    it.before = |head, _| {
                        if header(&head.headers, "mcp-name") == Some("mcpjoin-no-other-prompt") {
                            head.headers
                                .insert("mcp-name", HeaderValue::from_static("mcpjoin-no-such-prompt"));
                        }
                    }
                }),
            ),
            (
                "name-header-decoded",
                fault(|it| {
                    it.before = |head, _| {
                        let named = header(&head.headers, "mcp-name").unwrap_or_default();
                        if named.starts_with("=?base64?b") {
                            head.headers.insert("mcp-name", HeaderValue::from_static("another name"));
                        }
                    }
                }),
            ),
            (
                "tools-in-order",
                fault(|it| {
                    it.after = |sent, _, _, body| {
                        // On the connection where the names of headers are written in other letters.
                        static LISTS: AtomicUsize = AtomicUsize::new(0);
                        if is_list(sent, body) && LISTS.fetch_add(1, Ordering::Relaxed) == 1 {
                            *body = body.replace("\"name\":\"one\"", "\"name\":\"zero\"");
                            *body = body.replace("\"name\":\"two\"", "\"name\":\"one\"");
                            *body = body.replace("\"name\":\"zero\"", "\"name\":\"two\"");
                        }
                    }
                }),
            ),
            (
                "list-not-by-connection",
                fault(|it| {
                    it.after = |sent, _, _, body| {
                        static LISTS: AtomicUsize = AtomicUsize::new(0);
                        if is_list(sent, body) && LISTS.fetch_add(1, Ordering::Relaxed) == 1 {
                            *body = body.replace("\"name\":\"one\"", "\"name\":\"zero\"");
                        }
                    }
                }),
            ),
            (
                "unknown-prompt-code",
                fault(|it| {
                    it.after = |sent, _, _, body| {
                        let whole = header(&sent.headers, "mcp-name") == Some("mcpjoin-no-such-prompt");
                        if whole && body.contains("-32602") {
                            *body = body.replace("-32602", "-32603");
                        }
                    }
                }),
            ),
            (
                "input-schema-valid",
                fault(|it| {
                    it.after = |_, _, _, body| {
                        *body = body.replace("\"inputSchema\":{", "\"inputSchema\":{\"required\":true,");
                    };
                }),
            ),
            ("streams-not-buffered", fault(|it| it.head = |headers| _ = headers.remove("x-accel-buffering"))),
            (
                "listen-acknowledged",
                fault(|it| {
                    it.frame = |frame| {
                        frame.replace(
                            "notifications/subscriptions/acknowledged",
                            "notifications/tools/list_changed",
                        )
                    }
                }),
            ),
            (
                "listen-filtered",
                fault(|it| {
                    it.frame = |frame| {
                        frame.replace(
                            "\"toolsListChanged\":true",
                            "\"toolsListChanged\":true,\"promptsListChanged\":true",
                        )
                    }
                }),
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn cve_2026_25536_replies_that_cross_between_clients_are_found() {
    // A server that keeps one table for all clients answers one of two with what the other has asked for.
    let crossed = fault(|it| {
        it.after = |sent, _, _, body| {
            let unknown = header(&sent.headers, "mcp-method") == Some("mcpjoin/no-such-method");
            if unknown && body.contains("\"id\":5,") {
                body.clear();
                body.push_str(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32603,"message":"lost"}}"#);
            }
        }
    });
    let front = Front::new(crossed).await;
    let trace = looked(front.validator().without_legacy()).await.unwrap();
    // An error is an error: this is none of these.
    assert_eq!(failed(&judged(&trace)), [""; 0]);
    let crossed = fault(|it| {
        it.after = |sent, status, _, body| {
            let unknown = header(&sent.headers, "mcp-method") == Some("mcpjoin/no-such-method");
            if unknown && body.contains("\"id\":5,") {
                *status = 200;
                body.clear();
                body.push_str(concat!(
                    r#"{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"#,
                    r#""capabilities":{},"ttlMs":0,"cacheScope":"private","#,
                    r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"front","version":"1"}}}}"#
                ));
            }
        }
    });
    let front = Front::new(crossed).await;
    let trace = looked(front.validator().without_legacy()).await.unwrap();
    assert_eq!(failed(&judged(&trace)), ["replies-not-crossed"]);
}

#[tokio::test]
async fn f27_faults_over_http_sse_are_found() {
    for (rule, change) in [
        ("sse-origin-validated", fault(|it| it.before = |head, _| _ = head.headers.remove(ORIGIN))),
        (
            "sse-events-named",
            fault(|it| {
                it.frame = |frame| match frame.contains("endpoint") {
                    true => frame,
                    false => format!("event: reply\n{}", frame.replace("event: message\n", "")),
                }
            }),
        ),
    ] {
        let front = Front::new(change).await;
        let url = front.url.replace("/mcp", "/sse");
        let trace = looked(Validator::http(Link::http(url).legacy_sse())).await;
        let report = judged(&trace.unwrap_or_else(|error| panic!("{rule}: {error}")));
        let found: Vec<_> = report.failed().map(|verdict| (verdict.rule.slug, &verdict.outcome)).collect();
        assert_eq!(failed(&report), [rule], "{found:#?}");
    }
}
