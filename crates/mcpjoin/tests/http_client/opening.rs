//! Tests of how a client detects the era of an unknown server, and which errors end that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderValue;
use mcpjoin::proto::Era;
use mcpjoin::transport::{
    AfterChallenge, AuthorizationChallenge, AuthorizationRequest, Credentials, CredentialsError,
};
use serde_json::json;

use crate::scripted::{
    Scripted, Seen, Talk, V2025_11, builder, call, discovered, initialized, legacy, modern, run, text,
};

type Header = (&'static str, &'static str);

const JSON: Header = ("Content-Type", "application/json");
const HTML: Header = ("Content-Type", "text/html");

/// A legacy server that answers the probe with this status and body.
async fn probe_answered(
    status: u16,
    headers: &[(&str, &str)],
    body: &str,
    seen: Seen,
    talk: Talk,
) -> Option<Talk> {
    if seen.about() == "server/discover" {
        return talk.answer(status, headers, body).await;
    }
    legacy(V2025_11, "s", seen, talk).await
}

#[test]
fn s17_any_error_to_the_probe_but_a_modern_one_leads_to_initialize() {
    run(async {
        let answers: [(u16, &[Header], &str); 10] = [
            (400, &[JSON], r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#),
            (400, &[JSON], r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no id at all"}}"#),
            (200, &[JSON], r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown"}}"#),
            (200, &[JSON], r#"{"jsonrpc":"2.0","id":1,"error":{"code":0,"message":"what?"}}"#),
            (404, &[HTML], "<html>not here</html>"),
            (400, &[], ""),
            (422, &[JSON], r#"{"detail":"no"}"#),
            (500, &[], "boom"),
            (200, &[HTML], "<html>"),
            (202, &[], ""),
        ];
        for (status, headers, body) in answers {
            let server =
                Scripted::new(move |seen, talk| probe_answered(status, headers, body, seen, talk)).await;
            let client = server.connect().await.unwrap_or_else(|error| panic!("{status} {body}: {error}"));
            assert_eq!(client.profile().era, Era::Legacy);
            assert_eq!(call(&client, "a").await.unwrap(), "a");
        }
    });
}

#[test]
fn s17_a_result_of_the_probe_that_agrees_on_nothing_leads_to_a_session_like_any_other() {
    run(async {
        // Servers that answer any request with a result, and one that speaks no modern revision.
        let empty = json!({});
        let older = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "capabilities": {},
            "supportedVersions": [V2025_11]});
        for result in [empty, older] {
            let server = Scripted::new(move |seen, talk| {
                let result = result.clone();
                async move {
                    match seen.about().as_str() {
                        "server/discover" => talk.json(&seen.result(&result)).await,
                        "tools/call" => {
                            let mut stream = talk.stream(&[]).await;
                            stream.piece("id: 1\nretry: 1\ndata: \n\n").await;
                            stream.finish().await
                        }
                        "GET" if seen.header("last-event-id") == Some("1") => {
                            assert_eq!(seen.header("mcp-session-id"), Some("s"));
                            let mut stream = talk.stream(&[]).await;
                            let result = json!({"jsonrpc": "2.0", "id": 3, "result": text("resumed")});
                            stream.event(Some("2"), &result.to_string()).await;
                            stream.finish().await
                        }
                        _ => legacy(V2025_11, "s", seen, talk).await,
                    }
                }
            })
            .await;
            let client = server.connect().await.unwrap();
            assert_eq!(client.profile().version.as_str(), V2025_11);
            assert_eq!(call(&client, "a").await.unwrap(), "resumed");
            for seen in server.seen().iter().filter(|seen| seen.about() == "tools/call") {
                assert_eq!(seen.header("mcp-session-id"), Some("s"));
                assert_eq!(seen.header("mcp-protocol-version"), Some(V2025_11));
                assert_eq!(seen.header("mcp-method"), None);
            }
            client.close().await;
            assert_eq!(server.abouts().last().unwrap(), "DELETE", "the session is ended");
        }
    });
}

#[test]
fn what_looks_like_a_session_in_the_reply_to_the_probe_is_none() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.about().as_str() {
                "server/discover" => {
                    let mut result = discovered();
                    result["protocolVersion"] = json!(V2025_11);
                    talk.answer(400, &[JSON, ("Mcp-Session-Id", "x")], &seen.result(&result)).await
                }
                _ => talk.status(404).await,
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(client.profile().era, Era::Modern);
        call(&client, "a").await.unwrap_err();
        client.close().await;
        assert_eq!(server.abouts(), ["server/discover", "tools/call"]);
    });
}

#[test]
fn a_modern_server_that_refuses_the_version_which_it_lists_is_asked_once_more() {
    run(async {
        let refused = Arc::new(AtomicUsize::new(0));
        let server = Scripted::new(move |seen, talk| {
            let first = refused.fetch_add(1, Ordering::SeqCst) == 0;
            async move {
                if !first {
                    return modern(seen, talk).await;
                }
                let error = json!({"code": -32022, "message": "Unsupported",
                    "data": {"supported": ["2026-07-28"], "requested": "2026-07-28"}});
                let body = json!({"jsonrpc": "2.0", "id": seen.id(), "error": error}).to_string();
                talk.answer(400, &[JSON], &body).await
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(client.profile().era, Era::Modern);
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        assert_eq!(server.abouts(), ["server/discover", "server/discover", "tools/call"]);
    });
}

#[test]
fn a_modern_error_is_no_reason_to_fall_back() {
    run(async {
        let server = Scripted::new(|seen, talk| async move {
            let error =
                json!({"code": -32022, "message": "Unsupported", "data": {"supported": ["2099-01-01"], "requested": "2026-07-28"}});
            let body = json!({"jsonrpc": "2.0", "id": seen.id(), "error": error}).to_string();
            talk.answer(400, &[JSON], &body).await
        })
        .await;
        let error = server.connect().await.unwrap_err().to_string();
        assert!(error.contains("2099-01-01"), "{error}");
        assert_eq!(server.abouts(), ["server/discover"]);
    });
}

#[test]
fn r64_only_400_404_and_405_to_initialize_lead_to_http_sse() {
    run(async {
        for status in [403, 406, 410, 500, 501] {
            let server = Scripted::new(move |seen: Seen, talk: Talk| async move {
                match seen.about().as_str() {
                    "server/discover" => talk.status(400).await,
                    _ => talk.answer(status, &[HTML], "<h1>no</h1>").await,
                }
            })
            .await;
            let error = server.connect().await.unwrap_err().to_string();
            assert!(error.contains(&status.to_string()) && error.contains("<h1>no</h1>"), "{error}");
            assert_eq!(server.count("GET"), 0, "{status}");
        }
        for status in [400, 404, 405] {
            let server = Scripted::new(move |_, talk: Talk| async move { talk.status(status).await }).await;
            let error = server.connect().await.unwrap_err().to_string();
            assert_eq!(server.count("GET"), 1, "{status}");
            assert!(error.contains("POST") && error.contains("as HTTP+SSE"), "both are told: {error}");
        }
    });
}

#[test]
fn the_words_of_a_server_that_refuses_initialize_are_kept() {
    run(async {
        let server = Scripted::new(|seen, talk| async move {
            match seen.about().as_str() {
                "server/discover" => talk.status(404).await,
                "initialize" => talk.answer(400, &[JSON], &seen.error(-32602, "clientInfo is ugly")).await,
                _ => talk.status(405).await,
            }
        })
        .await;
        let error = server.connect().await.unwrap_err().to_string();
        assert!(error.contains("clientInfo is ugly"), "{error}");
    });
}

#[test]
fn authorization_is_no_evidence_of_an_era() {
    run(async {
        for (status, words) in [(401, "not authorized"), (403, "forbidden")] {
            let server = Scripted::new(move |_, talk: Talk| async move {
                talk.answer(status, &[("WWW-Authenticate", "Bearer realm=x"), JSON], r#"{"error":"token"}"#)
                    .await
            })
            .await;
            let error = server.connect().await.unwrap_err().to_string();
            assert!(error.contains(words) && error.contains(&status.to_string()), "{error}");
            assert_eq!(server.abouts(), ["server/discover"], "nothing else is tried");
        }
    });
}

/// Credentials that return another token each time, and count the requests for one.
struct Tokens {
    given: Arc<AtomicUsize>,
    challenged: Arc<AtomicUsize>,
    after: AfterChallenge,
}

impl Credentials for Tokens {
    async fn authorization(
        &self,
        request: AuthorizationRequest<'_>,
    ) -> Result<Option<HeaderValue>, CredentialsError> {
        assert!(request.url.starts_with("http://127.0.0.1:"));
        let token = format!("Bearer {}", self.given.fetch_add(1, Ordering::SeqCst));
        Ok(Some(HeaderValue::from_str(&token).unwrap()))
    }

    async fn challenged(&self, challenge: AuthorizationChallenge<'_>) -> AfterChallenge {
        assert_eq!(challenge.status, 401);
        assert_eq!(challenge.www_authenticate, ["Bearer realm=x"]);
        self.challenged.fetch_add(1, Ordering::SeqCst);
        self.after.clone()
    }
}

fn tokens(after: AfterChallenge) -> (Tokens, Arc<AtomicUsize>) {
    let challenged = Arc::new(AtomicUsize::new(0));
    (Tokens { given: Arc::default(), challenged: challenged.clone(), after }, challenged)
}

#[test]
fn f114_at_most_two_rounds_of_authorization() {
    run(async {
        let refuse = |_, talk: Talk| async move {
            talk.answer(401, &[("WWW-Authenticate", "Bearer realm=x")], "").await
        };
        let server = Scripted::new(refuse).await;
        let (credentials, challenged) = tokens(AfterChallenge::Retry);
        let link = server.link().credentials(credentials).build().unwrap();
        let error = builder().connect(link).await.unwrap_err().to_string();
        assert!(error.contains("not authorized"), "{error}");
        // The third challenge only supplies the reason of the error.
        assert_eq!(challenged.load(Ordering::SeqCst), 3);
        let sent: Vec<_> =
            server.seen().iter().map(|seen| seen.header("authorization").unwrap().to_owned()).collect();
        assert_eq!(sent, ["Bearer 0", "Bearer 1", "Bearer 2"]);

        let server = Scripted::new(refuse).await;
        let (credentials, _) = tokens(AfterChallenge::GiveUp);
        let link = server.link().credentials(credentials).build().unwrap();
        assert!(builder().connect(link).await.is_err());
        assert_eq!(server.seen().len(), 1);
    });
}

#[test]
fn an_authorization_that_is_accepted_later_opens_the_connection() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.header("authorization") {
                Some("Bearer 0") => talk.answer(401, &[("WWW-Authenticate", "Bearer realm=x")], "").await,
                Some(_) => modern(seen, talk).await,
                None => panic!("nothing is sent without it"),
            }
        })
        .await;
        let (credentials, _) = tokens(AfterChallenge::Retry);
        let link = server.link().credentials(credentials).build().unwrap();
        let client = builder().connect(link).await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "a");
    });
}

/// Refuses the first requests with a status and a `Retry-After`, then answers as a modern server.
async fn busy(times: usize, status: u16, after: &'static str) -> Scripted {
    let refused = Arc::new(AtomicUsize::new(0));
    Scripted::new(move |seen: Seen, talk: Talk| {
        let refused = refused.clone();
        async move {
            if refused.fetch_add(1, Ordering::SeqCst) < times {
                let headers = [("Date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("Retry-After", after)];
                let headers = if after.is_empty() { &[][..] } else { &headers[..] };
                return talk.answer(status, headers, "busy").await;
            }
            modern(seen, talk).await
        }
    })
    .await
}

#[test]
fn f113_a_server_that_is_busy_while_a_connection_opens_is_asked_again() {
    run(async {
        for (status, after) in [
            (429, "0"),
            (503, "0"),
            (503, ""),
            (502, "0"),
            (429, "-7"),
            (503, "Sun, 06 Nov 1994 08:49:37 GMT"),
        ] {
            let server = busy(2, status, after).await;
            let client = server.connect().await.unwrap_or_else(|error| panic!("{status} {after}: {error}"));
            assert_eq!(client.profile().era, Era::Modern, "being busy says nothing about the era");
            assert_eq!(server.abouts(), ["server/discover"; 3]);
        }
    });
}

#[test]
fn f113_a_delay_that_is_too_long_is_reported_at_once() {
    run(async {
        for after in ["1000000000", "99999999999999999999", "61", "Sun, 06 Nov 1994 09:49:37 GMT"] {
            let server = busy(usize::MAX, 429, after).await;
            let error = server.connect().await.unwrap_err().to_string();
            assert!(error.contains("429") && error.contains("busy"), "{error}");
            assert_eq!(server.seen().len(), 1);
        }
    });
}

#[test]
fn f113_a_call_that_was_refused_for_now_is_made_again() {
    run(async {
        let refused = Arc::new(AtomicUsize::new(0));
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let refused = refused.clone();
            async move {
                if seen.about() == "tools/call" && refused.fetch_add(1, Ordering::SeqCst) < 2 {
                    return talk.answer(429, &[("Retry-After", "0")], "").await;
                }
                modern(seen, talk).await
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        assert_eq!(server.count("tools/call"), 3);
    });
}

#[test]
fn what_may_have_been_executed_is_never_sent_again() {
    run(async {
        for status in [500, 502, 504] {
            let server = Scripted::new(move |seen: Seen, talk: Talk| async move {
                match seen.about().as_str() {
                    "tools/call" => talk.answer(status, &[("Retry-After", "0")], "").await,
                    _ => modern(seen, talk).await,
                }
            })
            .await;
            let client = server.connect().await.unwrap();
            let error = call(&client, "a").await.unwrap_err();
            assert!(error.contains(&status.to_string()) && error.contains("tools/call"), "{error}");
            assert_eq!(server.count("tools/call"), 1);
        }
    });
}

#[test]
fn f113_a_call_that_may_have_been_executed_behind_a_503_fails_at_once_and_says_when_to_come_again() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.about().as_str() {
                "tools/call" => talk.answer(503, &[("Retry-After", "0")], "").await,
                _ => modern(seen, talk).await,
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let error = call(&client, "a").await.unwrap_err();
        let told = "the server asks to try again after 0 s";
        assert!(error.contains("503") && error.contains(told), "{error}");
        assert_eq!(server.count("tools/call"), 1);
    });
}

#[test]
fn f113_what_has_no_effects_is_asked_again_on_a_503_and_what_is_unknown_is_not() {
    run(async {
        for (method, times) in
            [("tools/list", 2), ("resources/read", 2), ("x/unknown", 1), ("tasks/cancel", 1)]
        {
            let refused = Arc::new(AtomicUsize::new(0));
            let server = Scripted::new(move |seen: Seen, talk: Talk| {
                let refused = refused.clone();
                async move {
                    if seen.about() == method && refused.fetch_add(1, Ordering::SeqCst) < 1 {
                        return talk.answer(503, &[("Retry-After", "0")], "").await;
                    }
                    if seen.about() == method {
                        return talk.json(&seen.result(&serde_json::json!({"resultType": "complete"}))).await;
                    }
                    modern(seen, talk).await
                }
            })
            .await;
            let client = server.connect().await.unwrap();
            let asked = client.send_request(method, Some(mcpjoin::proto::Raw::empty_object())).await;
            assert_eq!(server.count(method), times, "{method}");
            assert_eq!(asked.is_ok(), times > 1, "{method}");
        }
    });
}

#[test]
fn initialize_waits_for_a_probe_that_was_put_off() {
    run(async {
        let refused = Arc::new(AtomicUsize::new(0));
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let refused = refused.clone();
            async move {
                if refused.fetch_add(1, Ordering::SeqCst) < 1 {
                    return talk.answer(503, &[("Retry-After", "3")], "").await;
                }
                modern(seen, talk).await
            }
        })
        .await;
        // This is shorter than the pause, and long enough for a response.
        let mut limits = mcpjoin::proto::session::Limits::default();
        limits.probe = std::time::Duration::from_secs(2);
        let client = builder().limits(limits).connect(server.link().build().unwrap()).await.unwrap();
        assert_eq!(client.profile().era, Era::Modern);
        assert_eq!(server.abouts()[..2], ["server/discover", "server/discover"]);
    });
}

#[test]
fn a_reply_to_initialize_may_be_a_stream() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            if seen.about() != "initialize" {
                return legacy(V2025_11, "s", seen, talk).await;
            }
            let mut talk = talk.stream(&[("MCP-Session-ID", "s")]).await;
            talk.event(Some("0"), "").await;
            talk.event(Some("1"), &seen.result(&initialized(V2025_11))).await;
            talk.finish().await
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "a");
    });
}

#[test]
fn f16_a_session_id_counts_only_on_the_reply_to_initialize() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            if seen.about() == "tools/call" {
                let result = seen.result(&text("x"));
                return talk.answer(200, &[JSON, ("Mcp-Session-Id", "another")], &result).await;
            }
            legacy(V2025_11, "s", seen, talk).await
        })
        .await;
        let client = server.connect().await.unwrap();
        call(&client, "a").await.unwrap();
        call(&client, "a").await.unwrap();
        assert_eq!(server.seen().last().unwrap().header("mcp-session-id"), Some("s"));
    });
}

#[test]
fn a_session_id_that_is_not_visible_ascii_is_refused() {
    run(async {
        for id in ["a b", "caf\u{e9}"] {
            let server = Scripted::new(move |seen, talk| legacy(V2025_11, id, seen, talk)).await;
            let error = server.connect().await.unwrap_err().to_string();
            assert!(error.contains("not visible ASCII"), "{error}");
        }
    });
}

#[test]
fn s1_a_revision_without_the_header_gets_none() {
    run(async {
        let server = Scripted::new(|seen, talk| legacy("2025-03-26", "s", seen, talk)).await;
        let client = server.connect().await.unwrap();
        call(&client, "a").await.unwrap();
        let seen = server.seen();
        let post = seen.last().unwrap();
        assert_eq!(post.header("mcp-protocol-version"), None);
        assert_eq!(post.header("mcp-session-id"), Some("s"));
    });
}
