//! Faults of Streamable HTTP in the legacy era: admission, replies, streams, sessions.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use ::http::header::{HOST, ORIGIN};
use ::http::request::Parts;
use ::http::{HeaderMap, HeaderValue, Method};

use super::super::fault::{HTTP, Of, Row, legacy, modern};
use super::super::front::{endless, full};

const LIST: &str = "tools/list";
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const STREAM: &str = "text/event-stream";

pub(super) fn rows() -> Vec<Row> {
    let rows = [guard(), replies(), streams(), ids(), sessions()].into_iter().flatten();
    rows.map(|row| row.over(HTTP)).collect()
}

pub(super) fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn guard() -> Vec<Row> {
    fn no_origin(head: &mut Parts, _: &str) {
        head.headers.remove(ORIGIN);
    }
    fn this_host(head: &mut Parts, _: &str) {
        head.headers.insert(HOST, HeaderValue::from_static("127.0.0.1"));
    }
    fn bad_request(sent: &Parts, status: &mut u16, _: &mut HeaderMap, _: &mut String) {
        if sent.headers.contains_key(ORIGIN) {
            *status = 400;
        }
    }
    vec![
        legacy("origin-validated").before(no_origin),
        modern("origin-validated").before(no_origin),
        legacy("foreign-origin-forbidden").after(bad_request),
        modern("foreign-origin-forbidden").after(bad_request),
        legacy("host-validated").before(this_host),
        modern("host-validated").before(this_host),
    ]
}

fn replies() -> Vec<Row> {
    fn plain(_: &Parts, status: &mut u16, headers: &mut HeaderMap, _: &mut String) {
        if *status == 200 {
            headers.insert("content-type", HeaderValue::from_static("text/plain"));
        }
    }
    fn accepted(_: &Parts, status: &mut u16, _: &mut HeaderMap, _: &mut String) {
        if *status == 202 {
            *status = 200;
        }
    }
    fn with_body(_: &Parts, status: &mut u16, _: &mut HeaderMap, body: &mut String) {
        if *status == 202 {
            body.push_str("accepted");
        }
    }
    fn cut(mut reply: String) -> String {
        reply.pop();
        reply
    }
    vec![
        legacy("reply-content-type").after(plain),
        modern("reply-content-type").after(plain),
        legacy("reply-is-message").answer(LIST, cut),
        modern("reply-is-message").answer(LIST, cut),
        legacy("reply-is-one-object").answer(LIST, |reply| format!("[{reply}]")),
        modern("reply-is-one-object").answer(LIST, |reply| format!("[{reply}]")),
        legacy("notification-accepted").after(accepted),
        modern("notification-accepted").after(with_body),
        modern("replies-not-crossed").after(|sent, status, _, body| {
            let unknown = header(&sent.headers, "mcp-method") == Some("mcpjoin/no-such-method");
            if unknown && body.contains("\"id\":5,") {
                *status = 200;
                *body = concat!(
                    r#"{"jsonrpc":"2.0","id":5,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"#,
                    r#""capabilities":{},"ttlMs":0,"cacheScope":"private","#,
                    r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"front","version":"1"}}}}"#
                )
                .into();
            }
        }),
        // The response to an unknown method is replaced by the response to another client's ping.
        legacy("replies-not-crossed").after(|_, _, _, body| {
            if body.contains("\"id\":6,\"error\":{\"code\":-32601") {
                *body = r#"{"jsonrpc":"2.0","id":6,"result":{}}"#.into();
            }
        }),
    ]
}

/// The response to a ping; `None` for another request.
fn pong(body: &str) -> Option<String> {
    let id = body.strip_prefix("{\"jsonrpc\":\"2.0\",\"id\":")?.strip_suffix(",\"method\":\"ping\"}")?;
    Some(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}"))
}

/// Whether the request belongs to a session and to no specific check.
fn plain(head: &Parts) -> bool {
    let known = header(&head.headers, SESSION).is_some_and(|id| !id.starts_with("mcpjoin-"));
    let spoken = header(&head.headers, VERSION) == Some("2025-11-25");
    let foreign = head.headers.contains_key(ORIGIN)
        || header(&head.headers, "host").is_some_and(|host| host.ends_with(".invalid"));
    known && spoken && !foreign
}

/// The response to the second request of the first session.
fn second(head: &Parts, body: &str) -> Option<String> {
    pong(body).filter(|_| plain(head) && body.contains("\"id\":2,"))
}

fn streams() -> Vec<Row> {
    let had = AtomicBool::new(false);
    const TOLD: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mcpjoin-0","progress":1}}"#;
    const STREAMED: &str = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
    vec![
        legacy("stream-ends").instead(|head, body| {
            let reply = second(head, body)?;
            Some(endless(STREAM, &format!("data: {reply}\n\n")))
        }),
        modern("stream-ends").instead(move |_, body| {
            let here = body.contains("\"id\":3,") && body.contains("server/discover");
            let reply = concat!(
                r#"{"jsonrpc":"2.0","id":3,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"#,
                r#""capabilities":{},"ttlMs":0,"cacheScope":"private","#,
                r#""_meta":{"io.modelcontextprotocol/serverInfo":{"name":"front","version":"1"}}}}"#
            );
            (here && !had.swap(true, Ordering::Relaxed)).then(|| {
                let mut stream = endless(STREAM, &format!("data: {reply}\n\n"));
                stream.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
                stream
            })
        }),
        legacy("stream-primed").instead(|head, body| {
            let reply = second(head, body)?;
            Some(full(200, STREAM, &format!("id: only\ndata: {reply}\n\n")))
        }),
        // For an existing task only.
        legacy("task-get-not-streamed").of(Of::Small).reads().after(|_, _, headers, body| {
            if body.contains("\"result\":{\"taskId\"") {
                headers.insert("content-type", HeaderValue::from_static(STREAM));
                *body = format!("data: {body}\n\n");
            }
        }),
        legacy("retry-before-closing").instead(|head, body| {
            if head.headers.contains_key("last-event-id") {
                return Some(full(200, STREAM, &format!("id: b\ndata: {STREAMED}\n\n")));
            }
            second(head, body).map(|_| full(200, STREAM, "id: a\ndata:\n\n"))
        }),
        // A message on the stream of a call is also sent on the GET stream.
        legacy("one-stream-each-message")
            .instead(|head, _| {
                (head.method == Method::GET).then(|| full(200, STREAM, &format!("data: {TOLD}\n\n")))
            })
            .call("echo", r#"{"message":"x"}"#)
            .say(|received, reply| {
                let told = (received.method == "tools/call" && received.line.contains("\"echo\"")).then(|| TOLD.into());
                told.into_iter().chain([reply.into()]).collect()
            }),
        legacy("get-opens-a-stream").instead(|head, _| {
            (head.method == Method::GET).then(|| full(404, "text/plain", "Cannot GET /mcp"))
        }),
        legacy("get-opens-a-stream").instead(|head, _| {
            (head.method == Method::GET).then(|| full(200, "text/html", "<p>hello"))
        }),
        // The response to a ping is sent again.
        legacy("no-response-on-get").instead(|head, _| {
            (head.method == Method::GET).then(|| full(200, STREAM, &format!("data: {STREAMED}\n\n")))
        }),
    ]
}

fn ids() -> Vec<Row> {
    vec![
        legacy("event-ids-unique").instead(|head, body| {
            let reply = pong(body).filter(|_| plain(head) && !body.contains("\"id\":1,"))?;
            let text = format!("id: a\ndata:\n\nid: b\ndata: {reply}\n\n");
            // The session of the last requests is not known.
            let two = body.contains("\"id\":2,") || body.contains("\"id\":3,");
            two.then(|| full(200, STREAM, &text))
        }),
        legacy("resumed-stream").instead(|head, body| {
            if head.headers.contains_key("last-event-id") {
                let again = "id: a\ndata:\n\nid: b\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n";
                return Some(full(200, STREAM, again));
            }
            let reply = second(head, body)?;
            Some(full(200, STREAM, &format!("id: a\ndata:\n\nid: b\ndata: {reply}\n\n")))
        }),
        // The resumed stream has the response of another stream.
        legacy("resumed-stream").instead(|head, body| {
            if head.headers.contains_key("last-event-id") {
                return Some(full(200, STREAM, "data: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}\n\n"));
            }
            let reply = second(head, body)?;
            Some(full(200, STREAM, &format!("id: a\ndata:\n\nid: b\ndata: {reply}\n\n")))
        }),
    ]
}

fn sessions() -> Vec<Row> {
    fn unknown(sent: &Parts) -> bool {
        header(&sent.headers, SESSION).is_some_and(|id| id.starts_with("mcpjoin-"))
    }
    vec![
        named("session-id-visible", |_, id| format!("a b {id}")),
        named("session-id-unguessable", |count, _| format!("session-with-the-number-{count:03}")),
        named("session-id-unguessable", |count, _| count.to_string()),
        legacy("session-id-required").after(|sent, status, _, _| {
            if !sent.headers.contains_key(SESSION) && *status == 400 {
                *status = 500;
            }
        }),
        legacy("session-ended")
            .instead(|head, _| (head.method == Method::DELETE).then(|| full(500, "text/plain", "not today"))),
        legacy("ended-session-not-found").after(|sent, status, _, _| {
            if *status == 404 && sent.headers.contains_key(SESSION) && !unknown(sent) {
                *status = 400;
            }
        }),
        legacy("unknown-session-not-found").after(|sent, status, _, _| {
            if *status == 404 && unknown(sent) {
                *status = 400;
            }
        }),
        legacy("bad-version-header-refused").before(|head, _| {
            if header(&head.headers, VERSION) == Some("1999-01-01") {
                head.headers.remove(VERSION);
            }
        }),
        version_needed(),
    ]
}

/// Replaces the session ids of the server by other ids.
fn named(rule: &'static str, name: fn(usize, &str) -> String) -> Row {
    let count = AtomicUsize::new(0);
    let given = Arc::<Mutex<Vec<(HeaderValue, HeaderValue)>>>::default();
    let known = Arc::clone(&given);
    let row = legacy(rule).before(move |head, _| {
        let Some(id) = head.headers.get(SESSION) else { return };
        let known = known.lock().unwrap().iter().find(|(_, other)| other == id).map(|(id, _)| id.clone());
        if let Some(id) = known {
            head.headers.insert(SESSION, id);
        }
    });
    row.after(move |sent, _, headers, _| {
        let Some(id) = headers.get(SESSION).cloned() else { return };
        let mut given = given.lock().unwrap();
        let known = given.iter().find(|(known, _)| *known == id).map(|(_, other)| other.clone());
        let other = known.unwrap_or_else(|| {
            let other = name(count.fetch_add(1, Ordering::Relaxed), id.to_str().unwrap());
            let other = HeaderValue::from_str(&other).unwrap();
            given.push((id, other.clone()));
            other
        });
        let _ = sent;
        headers.insert(SESSION, other);
    })
}

/// A request without a version header is refused by a server without sessions that supports 2025-03-26.
fn version_needed() -> Row {
    let had = AtomicBool::new(false);
    let row = legacy("version-header-may-lack").change(|it| it.stateless = true);
    row.instead(move |head, body| {
        if header(&head.headers, VERSION) == Some("1999-01-01") {
            had.store(true, Ordering::Relaxed);
            return None;
        }
        let lacks = head.method == Method::POST && !head.headers.contains_key(VERSION);
        (lacks && body.contains("\"ping\"") && had.swap(false, Ordering::Relaxed))
            .then(|| full(400, "text/plain", "which version?"))
    })
}
