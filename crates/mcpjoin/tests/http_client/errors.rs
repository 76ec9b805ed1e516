//! Tests of the client's error messages over HTTP, and of faults that it tolerates.

use std::time::{Duration, Instant};

use mcpjoin::Link;
use mcpjoin::client::ClientError;
use mcpjoin::proto::session::{
    CallError, HttpBody, Limits, TransportErrorKind, TransportErrorReason as Reason,
};
use mcpjoin_test_support::ports::Closed;
use serde_json::json;

use crate::scripted::{Scripted, Seen, Talk, V2025_11, builder, call, legacy, modern, run, text};

type Header = (&'static str, &'static str);

const JSON: Header = ("Content-Type", "application/json");

/// A modern server that answers calls with this function.
async fn calls<F, T>(answer: F) -> Scripted
where
    F: Fn(Seen, Talk) -> T + Send + Sync + Clone + 'static,
    T: Future<Output = Option<Talk>> + Send + 'static,
{
    Scripted::new(move |seen: Seen, talk: Talk| {
        let answer = answer.clone();
        async move {
            match seen.about().as_str() {
                "tools/call" => answer(seen, talk).await,
                _ => modern(seen, talk).await,
            }
        }
    })
    .await
}

#[test]
fn f14_every_status_is_a_readable_error_that_names_what_was_asked() {
    run(async {
        for status in [400, 401, 402, 403, 404, 405, 406, 408, 410, 413, 415, 418, 429, 500, 501, 503] {
            let server = calls(move |_, talk: Talk| async move {
                talk.answer(status, &[("Content-Type", "text/plain")], "because of\nthis").await
            })
            .await;
            let client = server.connect().await.unwrap();
            let error = client.call_tool("a", ()).await.unwrap_err();
            let kind = match status {
                401 | 403 => TransportErrorKind::Unauthorized,
                429 | 500 | 503 => TransportErrorKind::Broken,
                // 501 is that of a web server that does not implement POST.
                _ => TransportErrorKind::Foreign,
            };
            assert_eq!(error.is_retryable(), kind == TransportErrorKind::Broken, "{status}");
            let ClientError::Call(CallError::Lost(lost)) = &error else { panic!("{error}") };
            assert_eq!(lost.kind, kind, "{status}");
            let error = error.to_string();
            for part in
                ["POST", &server.url(), "tools/call", &status.to_string(), "text/plain", r"because of\nthis"]
            {
                assert!(error.contains(part), "{part}: {error}");
            }
            assert!(!client.is_closed(), "{status} is about this call alone");
        }
    });
}

#[test]
fn f14_what_is_shown_of_a_body_is_readable() {
    run(async {
        let server = calls(|_, talk: Talk| async move {
            talk.answer(500, &[JSON], "{\"detail\": \"n\u{f6} \u{1b}[2J\n\u{202e}\"}").await
        })
        .await;
        let client = server.connect().await.unwrap();
        let error = call(&client, "a").await.unwrap_err();
        let shown = "it begins `{\"detail\": \"n\u{f6} \\u{1b}[2J\\n\\u{202e}\"}`";
        assert!(error.contains(shown), "{error}");
        assert!(!error.contains("\\\""), "{error}");
    });
}

#[test]
fn f14_the_reason_of_a_refused_authorization_is_shown_as_the_server_gives_it() {
    run(async {
        let long = format!("Bearer error=\"invalid_token\", error_description=\"{}\"", "long ".repeat(200));
        let table: [(&str, &str); 6] = [
            (
                "Bearer realm=\"x, error=no\", error=\"invalid_token\", error_description=\"The \\\"token\\\" expired\"",
                "the server says: invalid_token: The \"token\" expired",
            ),
            ("Basic realm=\"x\", bearer ERROR=insufficient_scope", "the server says: insufficient_scope"),
            ("Bearer error_description=\"only this\"", "the server says: only this"),
            ("Bearer error=\"a\tb\"", "the server says: a\\tb"),
            (&long, "the server says: invalid_token: long long"),
            ("Bearer", "401"),
        ];
        for (challenge, told) in table {
            let value = challenge.to_owned();
            let server = calls(move |_, talk: Talk| {
                let value = value.clone();
                async move { talk.answer(401, &[("WWW-Authenticate", &value)], "").await }
            })
            .await;
            let client = server.connect().await.unwrap();
            let error = call(&client, "a").await.unwrap_err();
            assert!(error.contains(told), "{told}: {error}");
            assert!(error.len() < 600, "{error}");
            assert_eq!(error.contains("the server says"), challenge != "Bearer", "{error}");
        }
    });
}

#[test]
fn what_is_forbidden_later_fails_alone() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match (seen.about().as_str(), seen.id().as_u64()) {
                ("server/discover", Some(2..)) => talk.status(403).await,
                _ => modern(seen, talk).await,
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let error = client.ping().await.unwrap_err().to_string();
        assert!(error.contains("403"), "{error}");
        assert_eq!(call(&client, "a").await.unwrap(), "a");
    });
}

/// What a program decides by is not in the words of the message alone.
#[test]
fn the_error_of_a_call_has_what_happened_and_the_status() {
    const EMPTY: &str = "content-length: 0\r\n\r\n";
    run(async {
        let wrong = "{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}";
        let page = |kind: &str, body: &str| {
            format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        };
        for (response, reason, status) in [
            (String::new(), Some(Reason::ConnectionLost), None),
            ("SSH-2.0-none\r\n\r\n".to_owned(), Some(Reason::NoHttp), None),
            (format!("HTTP/1.1 403 No\r\n{EMPTY}"), None, Some(403)),
            (format!("HTTP/1.1 500 No\r\n{EMPTY}"), None, Some(500)),
            (
                format!("HTTP/1.1 307 Go\r\nlocation: http://other.invalid/\r\n{EMPTY}"),
                Some(Reason::RedirectToOtherOrigin),
                Some(307),
            ),
            (
                format!("HTTP/1.1 302 Go\r\nlocation: /else\r\n{EMPTY}"),
                Some(Reason::RedirectNotFollowed),
                Some(302),
            ),
            (format!("HTTP/1.1 307 Go\r\nlocation: /mcp\r\n{EMPTY}"), Some(Reason::RedirectLoop), Some(307)),
            (
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{".to_owned(),
                Some(Reason::BodyCutOff),
                None,
            ),
            (
                format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{wrong}",
                    wrong.len()
                ),
                Some(Reason::NoReply),
                None,
            ),
            (
                format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\ndata: {wrong}\n\n",
                    wrong.len() + 8
                ),
                Some(Reason::NoReply),
                None,
            ),
            (page("text/plain", wrong), Some(Reason::WrongContentType), Some(200)),
            (
                page("text/plain", &format!("\n {wrong}{}", " ".repeat(1000))),
                Some(Reason::WrongContentType),
                Some(200),
            ),
            (page("text/plain", "{\"result\":{}}"), None, Some(200)),
            (page("text/html", "<p>\"jsonrpc\"</p>"), None, Some(200)),
            (page("text/plain", wrong).replacen("200 OK", "400 No", 1), None, Some(400)),
        ] {
            let error = call_answered_with(response.clone()).await;
            let ClientError::Call(CallError::Lost(lost)) = &error else { panic!("{response}: {error}") };
            assert_eq!((lost.reason(), lost.http_status()), (reason, status), "{response}: {error}");
            assert_eq!(lost.http_request(), Some("tools/call"), "{response}: {error}");
        }
    });
}

/// The error of a call whose request gets these bytes.
async fn call_answered_with(raw: String) -> ClientError {
    let server = calls(move |_, mut talk: Talk| {
        let raw = raw.clone();
        async move {
            talk.raw(raw).await;
            None
        }
    })
    .await;
    let client = server.connect().await.unwrap();
    client.call_tool("a", ()).await.unwrap_err()
}

#[test]
fn an_event_stream_without_the_reply_says_why_its_last_event_was_not_read() {
    run(async {
        let message = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        for (body, said, reason) in [
            (
                format!("data: {message}\n"),
                "its last event has no empty line at its end",
                Some(Reason::NoReply),
            ),
            (
                format!("event: result\ndata: {message}\n\n"),
                "its last event has the name `result`, and messages have the name `message` or none",
                Some(Reason::NoReply),
            ),
            ("event: ping\ndata: {}\n\n".to_owned(), "the event stream ended before the reply", None),
        ] {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length";
            let raw = format!("{head}: {}\r\n\r\n{body}", body.len());
            let error = call_answered_with(raw).await;
            let ClientError::Call(CallError::Lost(lost)) = &error else { panic!("{body}: {error}") };
            assert!(lost.message.contains(said), "{body}: {error}");
            assert_eq!(lost.reason(), reason, "{body}: {error}");
        }
    });
}

/// What the server says is not cut out of the message, whose URL may contain any word.
#[test]
fn the_error_of_a_refused_request_has_the_body_of_the_response() {
    run(async {
        const PAGE: Header = ("Content-Type", "text/html");
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Invalid Host"}}"#;
        let is_host =
            |body: &HttpBody| matches!(body, HttpBody::Error(error) if error.message == "Invalid Host");
        for (headers, body, other) in [
            (&[PAGE][..], "<p>`no` session</p>".to_owned(), Some("<p>`no` session</p>".to_owned())),
            (&[PAGE], " \n ".to_owned(), None),
            (&[PAGE], "x".repeat(1000), Some("x".repeat(200))),
            // JSON without the content type of it, and with.
            (&[PAGE], error.to_owned(), None),
            (&[JSON], "{\"error\":\"no\"}".to_owned(), Some("{\"error\":\"no\"}".to_owned())),
        ] {
            let sent = body.clone();
            let server = calls(move |_, talk: Talk| {
                let sent = sent.clone();
                async move { talk.answer(403, headers, &sent).await }
            })
            .await;
            let client = server.connect().await.unwrap();
            let failure = client.call_tool("a", ()).await.unwrap_err();
            let ClientError::Call(CallError::Lost(lost)) = &failure else { panic!("{body}: {failure}") };
            match (lost.http_body(), &other) {
                (Some(HttpBody::Other(began)), Some(other)) => assert_eq!(began, other.as_bytes()),
                (Some(found), None) => assert!(body == error && is_host(found), "{body}: {found:?}"),
                (None, None) => assert_eq!(body.trim(), ""),
                (found, _) => panic!("{body}: {found:?}"),
            }
        }
        // Opening: both transports are tried, and the first one counts.
        for (headers, body) in [(&[JSON][..], error), (&[PAGE], "no session")] {
            let server = Scripted::new(move |seen: Seen, talk: Talk| async move {
                match seen.method.as_str() {
                    "POST" => talk.answer(403, headers, body).await,
                    _ => talk.answer(404, &[PAGE], "host").await,
                }
            })
            .await;
            let failure = server.connect().await.unwrap_err();
            let lost = failure.cause.transport_error().unwrap();
            match lost.http_body().unwrap() {
                HttpBody::Other(began) => assert_eq!(began, "no session"),
                found => assert!(body == error && is_host(found), "{found:?}"),
            }
        }
    });
}

#[test]
fn the_error_of_opening_has_what_happened() {
    run(async {
        let closed = Closed::tcp();
        let link = Link::http(format!("http://{closed}/mcp")).build().unwrap();
        let error = builder().connect(link).await.unwrap_err();
        let reason = error.cause.transport_error().and_then(|error| error.reason());
        assert_eq!(reason, Some(Reason::ConnectionRefused), "{error}");
    });
}

#[test]
fn s18_an_error_in_the_body_counts_more_than_the_status() {
    run(async {
        for status in [200, 400, 404, 500] {
            let server = calls(move |seen: Seen, talk: Talk| async move {
                talk.answer(status, &[JSON], &seen.error(-32602, "no such tool")).await
            })
            .await;
            let client = server.connect().await.unwrap();
            let error = client.call_tool("a", ()).await.unwrap_err();
            let ClientError::Call(CallError::Remote(error)) = error else { panic!("{error}") };
            assert_eq!((error.code, &*error.message), (-32602, "no such tool"));
        }
        // S13: the error response may lack the id.
        let server = calls(|_, talk: Talk| async move {
            let body = json!({"jsonrpc": "2.0", "error": {"code": -32600, "message": "refused"}});
            talk.answer(400, &[JSON], &body.to_string()).await
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap_err(), "JSON-RPC error -32600: refused");
    });
}

#[test]
fn f125_what_is_no_reply_is_a_readable_error() {
    run(async {
        let answers: [(u16, &[Header], &str, &str); 10] = [
            (
                200,
                &[("Content-Type", "text/html")],
                "<html>Log in</html>",
                "text/html; it begins `<html>Log in",
            ),
            (200, &[], "", "an empty body"),
            (200, &[JSON], "", "an empty body"),
            (202, &[], "accepted!", "accepted without a response"),
            (202, &[], "", "accepted without a response"),
            (204, &[], "", "accepted without a response"),
            (200, &[JSON], "{\"jsonrpc\":\"2.0\"", "not JSON"),
            (
                200,
                &[JSON],
                "{\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{}}",
                "the response has the id 999 instead of ",
            ),
            (
                200,
                &[JSON],
                "{\"jsonrpc\":\"2.0\",\"id\":\"\\u001b[2J\",\"result\":{}}",
                "the response has the id \"\\u001b[2J\" instead of ",
            ),
            (
                200,
                &[JSON],
                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}",
                "other messages, but not the reply",
            ),
        ];
        for (status, headers, body, expected) in answers {
            let server = calls(move |_, talk: Talk| talk.answer(status, headers, body)).await;
            let client = server.connect().await.unwrap();
            let began = Instant::now();
            let error = call(&client, "a").await.unwrap_err();
            assert!(error.contains(expected), "{status} {body}: {error}");
            assert!(began.elapsed() < Duration::from_secs(5));
        }
    });
}

#[test]
fn s5_f125_a_notification_is_accepted_with_any_success() {
    run(async {
        for (status, body) in [(200, ""), (202, "with a body"), (204, ""), (200, "<html>")] {
            let server = Scripted::new(move |seen: Seen, talk: Talk| async move {
                match seen.about().as_str() {
                    "notifications/initialized" if status == 204 => {
                        let mut talk = talk;
                        talk.raw("HTTP/1.1 204 No Content\r\n\r\n").await;
                        Some(talk)
                    }
                    "notifications/initialized" => talk.answer(status, &[], body).await,
                    _ => legacy(V2025_11, "s", seen, talk).await,
                }
            })
            .await;
            let client = server.connect().await.unwrap();
            assert_eq!(call(&client, "a").await.unwrap(), "a", "{status}");
        }
    });
}

fn small() -> Limits {
    let mut limits = Limits::default();
    limits.message = 64 * 1024;
    limits
}

#[test]
fn f105_a_compressed_response_is_not_read() {
    run(async {
        for (kind, body) in [("application/json", "\u{1f}bomb"), ("text/event-stream", "data: x\n\n")] {
            let server = calls(move |_, talk: Talk| async move {
                talk.answer(200, &[("Content-Type", kind), ("Content-Encoding", "gzip")], body).await
            })
            .await;
            let client = server.connect().await.unwrap();
            let error = client.call_tool("a", ()).await.unwrap_err();
            assert!(error.to_string().contains("compressed (gzip)"), "{error}");
            let ClientError::Call(CallError::Lost(lost)) = &error else { panic!("{error}") };
            assert_eq!(lost.reason(), Some(Reason::ContentEncoding), "{error}");
        }
    });
}

#[test]
fn f105_a_body_above_the_limit_ends_its_call_and_no_other() {
    run(async {
        for said in [true, false] {
            let server = calls(move |seen: Seen, mut talk: Talk| async move {
                if seen.json()["params"]["name"] == "small" {
                    return modern(seen, talk).await;
                }
                let body = seen.result(&text(&"x".repeat(200 * 1024)));
                if said {
                    return talk.json(&body).await;
                }
                talk.raw(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
                )
                .await;
                for piece in body.as_bytes().chunks(1000) {
                    talk.piece(piece).await;
                }
                talk.finish().await
            })
            .await;
            let client = builder().limits(small()).connect(server.link().build().unwrap()).await.unwrap();
            let error = client.call_tool("large", ()).await.unwrap_err();
            let large = matches!(error, ClientError::Call(CallError::ResponseTooLarge { limit: 65536, .. }));
            assert!(large, "{error}");
            assert_eq!(call(&client, "small").await.unwrap(), "small");
        }
    });
}

#[test]
fn f118_an_event_above_the_limit_ends_its_call_and_the_stream_goes_on() {
    run(async {
        let server = calls(|seen: Seen, talk: Talk| async move {
            let mut talk = talk.stream(&[]).await;
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": "x".repeat(100 * 1024)}});
            talk.event(None, &log.to_string()).await;
            if seen.json()["params"]["name"] == "large" {
                talk.event(None, &seen.result(&text(&"x".repeat(100 * 1024)))).await;
            } else {
                talk.event(None, &seen.result(&text("after it"))).await;
            }
            talk.finish().await
        })
        .await;
        let client = builder().limits(small()).connect(server.link().build().unwrap()).await.unwrap();
        assert_eq!(call(&client, "small").await.unwrap(), "after it");
        let error = client.call_tool("large", ()).await.unwrap_err();
        assert!(matches!(error, ClientError::Call(CallError::ResponseTooLarge { .. })), "{error}");
    });
}

#[test]
fn f118_an_event_without_an_end_fails_its_call() {
    run(async {
        let server = calls(|seen: Seen, talk: Talk| async move {
            let mut talk = talk.stream(&[]).await;
            talk.piece(format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"x\":\"", seen.id()))
                .await;
            for _ in 0..100 {
                talk.piece("y".repeat(1024)).await;
            }
            talk.gone().await;
            None
        })
        .await;
        let client = builder().limits(small()).connect(server.link().build().unwrap()).await.unwrap();
        let error = client.call_tool("a", ()).await.unwrap_err();
        assert!(matches!(error, ClientError::Call(CallError::ResponseTooLarge { .. })), "{error}");
    });
}

#[test]
fn nobody_listens() {
    run(async {
        let closed = Closed::tcp();
        let port = closed.port();
        let url = format!("http://127.0.0.1:{port}/mcp?key=secret");
        let error = builder().connect(Link::http(url).build().unwrap()).await.unwrap_err().to_string();
        assert!(error.contains("connection refused") && error.contains(&port.to_string()), "{error}");
        assert!(!error.contains("secret"), "{error}");
    });
}

#[test]
fn a_name_that_is_not_resolved() {
    run(async {
        let link = Link::http("http://does-not-exist.invalid/mcp").build().unwrap();
        let error = builder().connect(link).await.unwrap_err().to_string();
        assert!(error.contains("the name does-not-exist.invalid cannot be resolved"), "{error}");
    });
}

#[test]
fn r80_a_connection_that_is_not_made_in_time() {
    run(async {
        // A listening socket with a full backlog accepts no connection.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut callers = Vec::new();
        while let Ok(Ok(caller)) =
            tokio::time::timeout(Duration::from_millis(300), tokio::net::TcpStream::connect(address)).await
        {
            callers.push(caller);
        }
        let link = Link::http(format!("http://{address}/mcp")).connect_timeout(Duration::from_millis(100));
        let error = builder().connect(link.build().unwrap()).await.unwrap_err();
        let reason = error.cause.transport_error().and_then(|error| error.reason());
        assert_eq!(reason, Some(Reason::ConnectTimedOut), "{error}");
        assert!(error.to_string().contains("no connection within 100 ms"), "{error}");
    });
}

#[test]
fn https_to_a_server_that_speaks_http() {
    run(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                let _ = stream.read(&mut [0; 64]).await;
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
            }
        });
        let link = Link::http(format!("https://{address}/mcp")).build().unwrap();
        let error = builder().connect(link).await.unwrap_err();
        let reason = error.cause.transport_error().and_then(|error| error.reason());
        assert_eq!(reason, Some(Reason::NoTls), "{error}");
        assert!(error.to_string().contains("does not speak TLS on that port"), "{error}");
        server.abort();
    });
}

/// The server was reached: it ends the connection in the handshake, in order or with a reset.
#[test]
fn https_to_a_server_that_ends_the_connection_in_the_handshake() {
    run(async {
        for reset in [false, true] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    use tokio::io::AsyncReadExt as _;
                    // A socket that is closed with unread bytes sends a reset.
                    let _ = stream.read(&mut vec![0; if reset { 1 } else { 65_536 }]).await;
                }
            });
            let link = Link::http(format!("https://{address}/mcp")).build().unwrap();
            let error = builder().connect(link).await.unwrap_err();
            let lost = error.cause.transport_error().expect("an error of the transport");
            assert_eq!(lost.reason(), Some(Reason::ConnectionLost), "{error}");
            assert_eq!((lost.kind, lost.retryable), (TransportErrorKind::Unreachable, true));
            let said = error.to_string();
            assert!(said.contains("the TLS handshake with 127.0.0.1 failed: "), "{said}");
            assert!(!said.contains("no connection"), "{said}");
            server.abort();
        }
    });
}

#[test]
fn a_connection_that_breaks_before_the_response() {
    run(async {
        let server = calls(|_, _| async { None }).await;
        let client = server.connect().await.unwrap();
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("the connection was lost before a response"), "{error}");
        assert_eq!(server.count("tools/call"), 1, "it may have been executed");
        assert!(!client.is_closed());
    });
}

/// When a body ends with its connection, only its text shows whether it is complete.
#[test]
fn a_reply_that_is_cut_off_with_its_connection_is_lost() {
    run(async {
        for (version, lost) in [("1.0", true), ("1.1", true), ("1.1 with a length", false)] {
            let server = calls(move |seen, mut talk: Talk| async move {
                let text = seen.result(&json!({ "content": [{ "type": "text", "text": "a€" }] }));
                // The body is cut inside the character.
                let body = &text.as_bytes()[..text.find('€').unwrap() + 1];
                let (version, length) = match version.split_once(' ') {
                    Some((version, _)) => (version, format!("Content-Length: {}\r\n", body.len())),
                    None => (version, String::new()),
                };
                let head = format!("HTTP/{version} 200 OK\r\nContent-Type: application/json\r\n{length}\r\n");
                talk.raw([head.as_bytes(), body].concat()).await;
                None
            })
            .await;
            let client = server.connect().await.unwrap();
            let error = call(&client, "a").await.unwrap_err();
            assert_eq!(
                error.contains("the response body was cut off: the connection was closed"),
                lost,
                "{error}"
            );
            assert_eq!(error.contains("the text ends before its JSON value does"), !lost, "{error}");
            assert_eq!(server.count("tools/call"), 1, "it may have been executed");
            assert!(!client.is_closed());
        }
    });
}

#[test]
fn whatever_bytes_come_back_the_call_fails_and_says_so() {
    run(async {
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X-Header: 1\r\n".repeat(1000));
        let long = format!("HTTP/1.1 200 OK\r\nX-Header: {}\r\n\r\n", "x".repeat(1024 * 1024));
        let responses = [
            "SSH-2.0-OpenSSH_9.2\r\n",
            "\r\n\r\n",
            "HTTP/1.1 9999 Whatever\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: -1\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\r\n",
            &many,
            &long,
        ];
        for response in responses {
            let bytes = response.to_owned();
            let server = calls(move |_, mut talk: Talk| {
                let bytes = bytes.clone();
                async move {
                    talk.raw(bytes).await;
                    None
                }
            })
            .await;
            let client = server.connect().await.unwrap();
            let error = call(&client, "a").await.unwrap_err();
            assert!(error.contains("POST") && error.contains("tools/call"), "{error}");
            assert!(error.len() < 1000, "{}", error.len());
            assert!(!client.is_closed());
        }
    });
}

#[test]
fn what_a_server_says_before_its_response_is_passed_over() {
    run(async {
        let server = calls(|seen: Seen, mut talk: Talk| async move {
            talk.raw("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n").await;
            talk.json(&seen.result(&text("after all"))).await
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "after all");
    });
}

#[test]
fn a_batch_that_holds_the_reply_is_taken_in_the_revision_that_has_batches() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            if seen.about() != "tools/call" {
                return legacy("2025-03-26", "s", seen, talk).await;
            }
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": 1}});
            talk.json(&format!("[{log},{}]", seen.result(&text("batched")))).await
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "batched");
    });
}

#[test]
fn f123_a_reply_that_a_proxy_holds_back_until_it_is_whole_works() {
    run(async {
        let server = calls(|seen: Seen, mut talk: Talk| async move {
            // The body has no length and ends with the connection.
            let body = seen.result(&text("held back"));
            talk.raw(format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}")).await;
            None
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "held back");
    });
}
