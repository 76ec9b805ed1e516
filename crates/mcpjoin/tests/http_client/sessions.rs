//! Tests of a client's legacy sessions that are lost, opened again and ended, and of cancelling in both eras.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcpjoin::client::Limits;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::LoggingLevel;
use mcpjoin::proto::{Era, Method, Notification, Raw};
use serde_json::json;
use tokio::sync::{Notify, Semaphore};

use crate::scripted::{Scripted, Seen, Talk, V2025_11, builder, call, legacy, modern, run, text};
use crate::told::{Told, hearing};

/// A server that can drop all its sessions; `session` is the number in the id of the current session.
struct Forgetful {
    server: Scripted,
    session: Arc<AtomicUsize>,
}

impl Forgetful {
    async fn new() -> Self {
        let session = Arc::new(AtomicUsize::new(0));
        let current = session.clone();
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let id = format!("session-{}", current.load(Ordering::SeqCst));
            async move { legacy(V2025_11, &id, seen, talk).await }
        })
        .await;
        Self { server, session }
    }

    fn forget(&self) {
        self.session.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn r60_s3_f112_a_forgotten_session_is_opened_again_once_and_what_was_refused_is_sent_again() {
    run(async {
        let it = Forgetful::new().await;
        let client = it.server.connect().await.unwrap();
        client.set_level(LoggingLevel::Warning).await.unwrap();
        client
            .send_request("resources/subscribe", Some(Raw::parse(r#"{"uri":"a:b"}"#).unwrap()))
            .await
            .unwrap();
        client
            .send_request("resources/subscribe", Some(Raw::parse(r#"{"uri":"c:d"}"#).unwrap()))
            .await
            .unwrap();
        client
            .send_request("resources/unsubscribe", Some(Raw::parse(r#"{"uri":"c:d"}"#).unwrap()))
            .await
            .unwrap();
        assert_eq!(call(&client, "first").await.unwrap(), "first");
        let before = it.server.seen().len();
        it.forget();
        assert_eq!(call(&client, "second").await.unwrap(), "second");
        let seen = it.server.seen().split_off(before);
        let abouts: Vec<_> = seen.iter().map(Seen::about).filter(|about| about != "GET").collect();
        assert_eq!(
            abouts,
            [
                "tools/call",
                "initialize",
                "notifications/initialized",
                "logging/setLevel",
                "resources/subscribe",
                "tools/call"
            ]
        );
        let initialize = seen.iter().find(|seen| seen.about() == "initialize").unwrap();
        assert_eq!(initialize.header("mcp-session-id"), None, "a new session is asked for");
        let subscribed = seen.iter().find(|seen| seen.about() == "resources/subscribe").unwrap();
        assert_eq!(subscribed.json()["params"]["uri"], "a:b");
        assert_eq!(subscribed.header("mcp-session-id"), Some("session-1"));
        // The same a second time.
        it.forget();
        assert_eq!(call(&client, "third").await.unwrap(), "third");
        assert_eq!(it.server.count("initialize"), 3);
    });
}

#[test]
fn f112_a_setting_that_is_not_made_again_in_time_costs_no_session() {
    run(async {
        let session = Arc::new(AtomicUsize::new(0));
        let current = session.clone();
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let number = current.load(Ordering::SeqCst);
            async move {
                if number > 0 && seen.about() == "logging/setLevel" {
                    talk.gone().await;
                    return None;
                }
                legacy(V2025_11, &format!("session-{number}"), seen, talk).await
            }
        })
        .await;
        let limits = Limits::default().with_initialize(Duration::from_millis(500));
        let client = builder().limits(limits).connect(server.link().build().unwrap()).await.unwrap();
        client.set_level(LoggingLevel::Warning).await.unwrap();
        session.fetch_add(1, Ordering::SeqCst);
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        assert_eq!(server.count("initialize"), 2);
    });
}

#[test]
fn f112_several_calls_that_meet_a_forgotten_session_open_one_new_one() {
    run(async {
        let it = Forgetful::new().await;
        let client = it.server.connect().await.unwrap();
        // All earlier messages have been accepted, so only the calls reach a lost session.
        assert_eq!(call(&client, "first").await.unwrap(), "first");
        it.forget();
        let calls = (0..20).map(|n| {
            let client = client.clone();
            tokio::spawn(async move { call(&client, &format!("t{n}")).await })
        });
        for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
            assert_eq!(call.await.unwrap().unwrap(), format!("t{n}"));
        }
        assert!(it.server.count("tools/call") > 1 + 20 + 1, "several were refused");
        assert_eq!(it.server.count("initialize"), 2);
    });
}

#[test]
fn f112_a_second_404_fails_clearly() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.about().as_str() {
                "tools/call" => talk.status(404).await,
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("404"), "{error}");
        assert_eq!(server.count("tools/call"), 2);
    });
}

/// A server that makes a session for each `initialize`, and answers every call with 404.
async fn denies(second: Option<Arc<Notify>>) -> Scripted {
    let made = Arc::new(AtomicUsize::new(0));
    Scripted::new(move |seen: Seen, talk: Talk| {
        let (made, second) = (made.clone(), second.clone());
        async move {
            match seen.about().as_str() {
                "tools/call" => talk.status(404).await,
                "initialize" => {
                    let number = made.fetch_add(1, Ordering::SeqCst);
                    if let (1, Some(second)) = (number, second) {
                        second.notified().await;
                    }
                    legacy(V2025_11, &format!("s{number}"), seen, talk).await
                }
                _ => {
                    let named = seen.header("mcp-session-id").unwrap_or("none").to_owned();
                    legacy(V2025_11, &named, seen, talk).await
                }
            }
        }
    })
    .await
}

/// A server whose answer depends on the number of earlier `initialize` requests.
async fn counting<A: Future<Output = Option<Talk>> + Send + 'static>(
    answer: impl Fn(usize, Seen, Talk) -> A + Send + Sync + 'static,
) -> Scripted {
    let made = AtomicUsize::new(0);
    Scripted::new(move |seen: Seen, talk: Talk| {
        let number = match seen.about().as_str() {
            "initialize" => made.fetch_add(1, Ordering::SeqCst),
            _ => made.load(Ordering::SeqCst),
        };
        answer(number, seen, talk)
    })
    .await
}

#[test]
fn f113_a_server_that_is_busy_while_a_session_is_opened_again_loses_no_call() {
    run(async {
        let server = counting(|number, seen, talk| async move {
            match (seen.about().as_str(), number) {
                ("initialize", 1) => talk.answer(503, &[("Retry-After", "0")], "").await,
                ("initialize", _) => legacy(V2025_11, &format!("s{number}"), seen, talk).await,
                // The server knows only the latest session.
                ("tools/call", 1) => talk.status(404).await,
                _ => {
                    let named = seen.header("mcp-session-id").unwrap_or("none").to_owned();
                    legacy(V2025_11, &named, seen, talk).await
                }
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(call(&client, "a").await.as_deref(), Ok("a"));
        assert_eq!(server.count("initialize"), 3);
    });
}

#[test]
fn f113_a_server_that_stays_busy_is_asked_so_often_and_the_next_call_asks_again() {
    run(async {
        for status in [503, 429, 408] {
            let server = counting(move |number, seen, talk| async move {
                match (seen.about().as_str(), number) {
                    ("initialize", 1..=3) => talk.answer(status, &[("Retry-After", "0")], "").await,
                    ("initialize", 4) => talk.status(status).await,
                    ("tools/call", 1..=5) => talk.status(404).await,
                    _ => legacy(V2025_11, "s", seen, talk).await,
                }
            })
            .await;
            let client = server.connect().await.unwrap();
            let error = call(&client, "a").await.unwrap_err();
            assert!(error.contains(&format!("opening another: {status}")), "{error}");
            assert_eq!(server.count("initialize"), 5);
            assert_eq!(call(&client, "b").await.as_deref(), Ok("b"), "{status}");
        }
    });
}

fn ended(server: &Scripted) -> Vec<String> {
    let seen = server.seen();
    let ends = seen.iter().filter(|seen| seen.about() == "DELETE");
    ends.map(|seen| seen.header("mcp-session-id").unwrap().to_owned()).collect()
}

#[test]
fn f112_a_second_404_opens_no_third_session_and_the_second_one_is_ended() {
    run(async {
        let server = denies(None).await;
        let client = server.connect().await.unwrap();
        call(&client, "a").await.unwrap_err();
        client.close().await;
        assert_eq!((server.count("initialize"), ended(&server)), (2, vec!["s1".to_owned()]));
    });
}

#[test]
fn a_session_that_is_made_while_the_link_closes_is_ended() {
    run(async {
        let second = Arc::new(Notify::new());
        let server = denies(Some(second.clone())).await;
        let client = server.connect().await.unwrap();
        let calling = tokio::spawn({
            let client = client.clone();
            async move { call(&client, "a").await }
        });
        server.wait("initialize", 2).await;
        tokio::join!(client.close(), async {
            tokio::task::yield_now().await;
            second.notify_one();
        });
        assert!(calling.await.unwrap().is_err());
        assert_eq!(ended(&server), ["s1"]);
    });
}

#[test]
fn a_session_that_is_made_while_its_client_is_dropped_is_ended() {
    run(async {
        let go = Arc::new(Notify::new());
        let given = go.clone();
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let go = given.clone();
            async move {
                if seen.about() == "initialize" {
                    go.notified().await;
                }
                legacy(V2025_11, "s", seen, talk).await
            }
        })
        .await;
        let client = builder().era(EraChoice::Only(Era::Legacy));
        let mut connecting = Box::pin(client.connect(server.link().build().unwrap()));
        tokio::select! {
            client = &mut connecting => panic!("{client:?}"),
            () = server.wait("initialize", 1) => {}
        }
        drop(connecting);
        go.notify_one();
        server.wait("DELETE", 1).await;
        assert_eq!(ended(&server), ["s"]);
    });
}

#[test]
fn f112_a_404_about_the_method_is_no_forgotten_session() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.about().as_str() {
                "tools/call" => {
                    let headers = [("Content-Type", "application/json")];
                    talk.answer(404, &headers, &seen.error(-32601, "unknown method")).await
                }
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("unknown method"), "{error}");
        assert_eq!(server.count("initialize"), 1);
    });
}

/// What servers on the TypeScript SDK 1.x answer to an unknown session: its examples with a content type, its transport with one
/// (1.29.0) or without (1.10.2, 1.20.0).
const SDK_REFUSALS: [(&str, &[(&str, &str)]); 3] = [
    ("Bad Request: No valid session ID provided", &[("Content-Type", "application/json")]),
    ("Bad Request: Server not initialized", &[("Content-Type", "application/json")]),
    ("Bad Request: Server not initialized", &[]),
];

#[test]
fn f112_a_server_that_says_it_with_400_as_the_typescript_sdk_does() {
    run(async {
        for (message, headers) in SDK_REFUSALS {
            let session = Arc::new(AtomicUsize::new(0));
            let current = session.clone();
            let server = Scripted::new(move |seen: Seen, talk: Talk| {
                let id = format!("session-{}", current.load(Ordering::SeqCst));
                async move {
                    if seen.header("mcp-session-id").is_some_and(|named| named != id) {
                        let error = json!({ "code": -32000, "message": message });
                        let error = json!({ "jsonrpc": "2.0", "error": error, "id": null });
                        return talk.answer(400, headers, &error.to_string()).await;
                    }
                    legacy(V2025_11, &id, seen, talk).await
                }
            })
            .await;
            let client = server.connect().await.unwrap();
            session.store(1, Ordering::SeqCst);
            assert_eq!(call(&client, "a").await.as_deref(), Ok("a"), "{message} {headers:?}");
            assert_eq!(server.count("initialize"), 2, "{message} {headers:?}");
        }
    });
}

#[test]
fn f112_a_400_that_does_not_name_a_lost_session_opens_no_other_one() {
    run(async {
        for (code, message) in [
            (-32000, "Bad Request: Mcp-Session-Id header is required"),
            (-32000, "the database server is not initialized"),
            (-32602, "Bad Request: Server not initialized"),
        ] {
            let server = Scripted::new(move |seen: Seen, talk: Talk| async move {
                match seen.about().as_str() {
                    "tools/call" => talk.answer(400, &[], &seen.error(code, message)).await,
                    _ => legacy(V2025_11, "s", seen, talk).await,
                }
            })
            .await;
            let client = server.connect().await.unwrap();
            let error = call(&client, "a").await.unwrap_err();
            assert!(error.contains(message), "{error}");
            assert_eq!((server.count("initialize"), server.count("tools/call")), (1, 1), "{message}");
        }
    });
}

#[test]
fn f112_a_server_that_accepts_no_session_is_named_with_what_was_tried() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.about().as_str() {
                "tools/call" => talk.answer(400, &[], &seen.error(-32000, SDK_REFUSALS[1].0)).await,
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let error = call(&client, "a").await.unwrap_err();
        for part in ["the server does not know the session that it has just opened", SDK_REFUSALS[1].0] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!((server.count("initialize"), server.count("tools/call")), (2, 2));
    });
}

#[test]
fn f112_a_server_that_speaks_another_version_now_ends_the_connection() {
    run(async {
        let again = Arc::new(AtomicUsize::new(0));
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let again = again.clone();
            async move {
                match seen.about().as_str() {
                    "tools/call" => talk.status(404).await,
                    "initialize" if again.fetch_add(1, Ordering::SeqCst) > 0 => {
                        legacy("2025-03-26", "another", seen, talk).await
                    }
                    _ => legacy(V2025_11, "s", seen, talk).await,
                }
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("2025-03-26"), "{error}");
        let cause = client.closed().await.to_string();
        assert!(cause.contains("no longer knows the session"), "{cause}");
        // The link ends the session that it knows, and before that the one that it has opened and does not use.
        assert_eq!(ended(&server), ["another", "s"]);
    });
}

#[test]
fn s3_closing_ends_the_session_and_a_server_without_delete_is_no_error() {
    run(async {
        for status in [200, 204, 404, 405, 500] {
            let server = Scripted::new(move |seen: Seen, talk: Talk| async move {
                match seen.about().as_str() {
                    "DELETE" => talk.status(status).await,
                    _ => legacy(V2025_11, "s", seen, talk).await,
                }
            })
            .await;
            let client = server.connect().await.unwrap();
            client.close().await;
            let seen = server.seen();
            let last = seen.last().unwrap();
            assert_eq!(last.method, "DELETE");
            assert_eq!(last.header("mcp-session-id"), Some("s"));
            assert_eq!(last.header("mcp-protocol-version"), Some(V2025_11));
        }
    });
}

#[test]
fn closing_does_not_wait_for_a_server_that_does_not_answer() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.about().as_str() {
                "DELETE" => {
                    talk.gone().await;
                    None
                }
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let began = Instant::now();
        client.close().await;
        assert!(began.elapsed() < Duration::from_secs(10));
        assert_eq!(server.count("DELETE"), 1);
    });
}

#[test]
fn the_session_is_ended_also_if_the_last_message_hangs() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.about().as_str() {
                "tools/call" | "notifications/cancelled" => {
                    talk.gone().await;
                    None
                }
                "DELETE" => talk.status(204).await,
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let calling = tokio::spawn({
            let client = client.clone();
            async move { call(&client, "a").await }
        });
        server.wait("tools/call", 1).await;
        calling.abort();
        server.wait("notifications/cancelled", 1).await;
        client.close().await;
        server.wait("DELETE", 1).await;
    });
}

#[test]
fn a_client_that_is_dropped_ends_its_session_and_the_handle_says_when() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.about().as_str() {
                "DELETE" => talk.status(204).await,
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        })
        .await;
        let connect = server.link();
        let handle = connect.handle();
        // No link was made yet.
        handle.ended().await;
        let client = builder().connect(connect.build().unwrap()).await.unwrap();
        assert!(tokio::time::timeout(Duration::ZERO, handle.ended()).await.is_err());
        drop(client);
        handle.ended().await;
        assert_eq!(server.count("DELETE"), 1);
    });
}

/// A server whose calls never end, and a signal for the end of each call's connection.
async fn stuck(era: &'static str) -> (Scripted, Arc<Notify>) {
    let left = Arc::new(Notify::new());
    let noticed = left.clone();
    let server = Scripted::new(move |seen: Seen, talk: Talk| {
        let left = noticed.clone();
        async move {
            if seen.about() == "tools/call" && seen.json()["params"]["name"] == "stuck" {
                let talk = talk.stream(&[]).await;
                talk.gone().await;
                left.notify_one();
                return None;
            }
            if era == "modern" { modern(seen, talk).await } else { legacy(era, "s", seen, talk).await }
        }
    })
    .await;
    (server, left)
}

#[test]
fn s20_a_modern_call_is_cancelled_by_leaving() {
    run(async {
        let (server, left) = stuck("modern").await;
        let client = server.connect().await.unwrap();
        let calling = tokio::spawn({
            let client = client.clone();
            async move { call(&client, "stuck").await }
        });
        server.wait("tools/call", 1).await;
        calling.abort();
        left.notified().await;
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        assert_eq!(server.count("notifications/cancelled"), 0);
    });
}

#[test]
fn s20_a_legacy_call_is_cancelled_by_a_notification_and_then_left() {
    run(async {
        let (server, left) = stuck(V2025_11).await;
        let client = server.connect().await.unwrap();
        let calling = tokio::spawn({
            let client = client.clone();
            async move { call(&client, "stuck").await }
        });
        server.wait("tools/call", 1).await;
        calling.abort();
        server.wait("notifications/cancelled", 1).await;
        left.notified().await;
        let seen = server.seen();
        let asked = seen.iter().find(|seen| seen.about() == "tools/call").unwrap();
        let cancelled = seen.iter().find(|seen| seen.about() == "notifications/cancelled").unwrap();
        assert_eq!(cancelled.json()["params"]["requestId"], asked.id());
        assert_eq!(cancelled.header("mcp-session-id"), Some("s"));
    });
}

#[test]
fn a_cancellation_leaves_its_request_time_to_arrive() {
    run(async {
        let (server, left) = stuck(V2025_11).await;
        let client = server.connect().await.unwrap();
        let started = Instant::now();
        let calling = tokio::spawn({
            let client = client.clone();
            async move { call(&client, "stuck").await }
        });
        server.wait("tools/call", 1).await;
        calling.abort();
        server.wait("notifications/cancelled", 1).await;
        assert!(started.elapsed() >= Duration::from_millis(50), "{:?}", started.elapsed());
        left.notified().await;
        assert_eq!(call(&client, "a").await.unwrap(), "a");
    });
}

#[test]
fn a_call_that_was_cancelled_before_its_session_was_lost_is_not_made_in_the_next_one() {
    run(async {
        let (refuse, opened) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let told = (refuse.clone(), opened.clone());
        let server = counting(move |number, seen, talk| {
            let (refuse, opened) = told.clone();
            async move {
                match (seen.about().as_str(), number) {
                    ("tools/call", 1) => {
                        refuse.notified().await;
                        talk.status(404).await
                    }
                    // It is not accepted before the next session is opened.
                    ("notifications/cancelled", _) => {
                        refuse.notify_one();
                        opened.notified().await;
                        talk.status(404).await
                    }
                    ("initialize", number) => {
                        if number == 1 {
                            opened.notify_one();
                        }
                        legacy(V2025_11, &format!("s{number}"), seen, talk).await
                    }
                    _ => {
                        let named = seen.header("mcp-session-id").unwrap_or("none").to_owned();
                        legacy(V2025_11, &named, seen, talk).await
                    }
                }
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let calling = tokio::spawn({
            let client = client.clone();
            async move { call(&client, "cancelled").await }
        });
        server.wait("tools/call", 1).await;
        calling.abort();
        server.wait("initialize", 2).await;
        assert_eq!(call(&client, "next").await.as_deref(), Ok("next"));
        let seen = server.seen();
        let calls = seen.iter().filter(|seen| seen.about() == "tools/call");
        let named: Vec<_> = calls.map(|seen| seen.json()["params"]["name"].clone()).collect();
        assert_eq!(named, ["cancelled", "next"]);
    });
}

#[test]
fn a_call_that_waits_to_be_made_again_is_taken_back_by_its_cancellation() {
    run(async {
        // The server is busy for the call and for its cancellation.
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            let is_call = seen.json()["params"]["name"] == "cancelled";
            if is_call || seen.about() == "notifications/cancelled" {
                return talk.answer(429, &[("Retry-After", "2")], "").await;
            }
            legacy(V2025_11, "s", seen, talk).await
        })
        .await;
        let client = server.connect().await.unwrap();
        let calling = tokio::spawn({
            let client = client.clone();
            async move { call(&client, "cancelled").await }
        });
        server.wait("tools/call", 1).await;
        // The refusal has arrived before this response.
        assert_eq!(call(&client, "next").await.as_deref(), Ok("next"));
        calling.abort();
        // The call would be made again before its cancellation is.
        server.wait("notifications/cancelled", 2).await;
        assert_eq!(server.count("tools/call"), 2, "each once");
    });
}

#[test]
fn dropping_the_client_leaves_everything() {
    run(async {
        let (server, left) = stuck("modern").await;
        let client = server.connect().await.unwrap();
        let calling = tokio::spawn(async move { call(&client, "stuck").await });
        server.wait("tools/call", 1).await;
        calling.abort();
        left.notified().await;
    });
}

#[test]
fn a_server_asks_on_the_stream_of_a_call_and_is_answered_by_a_post() {
    run(async {
        let answered: Arc<Mutex<Option<String>>> = Arc::default();
        let told = Arc::new(Notify::new());
        let (answer, tell) = (answered.clone(), told.clone());
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let (answered, told) = (answer.clone(), tell.clone());
            async move {
                match seen.about().as_str() {
                    "tools/call" => {
                        let mut talk = talk.stream(&[]).await;
                        let ask = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                            "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}});
                        talk.event(None, &ask.to_string()).await;
                        told.notified().await;
                        talk.event(None, &seen.result(&text("thanks"))).await;
                        talk.finish().await
                    }
                    "response" => {
                        *answered.lock().unwrap() = Some(seen.body.clone());
                        told.notify_one();
                        talk.accept().await
                    }
                    _ => legacy(V2025_11, "s", seen, talk).await,
                }
            }
        })
        .await;
        let client = builder()
            .elicitation(|_| async { Ok(serde_json::from_value(json!({"action": "decline"})).unwrap()) })
            .connect(server.link().build().unwrap())
            .await
            .unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "thanks");
        let answer = answered.lock().unwrap().clone().unwrap();
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!((&answer["id"], &answer["result"]["action"]), (&json!("q"), &json!("decline")));
    });
}

#[test]
fn a_thousand_calls_at_once_all_get_their_own_reply() {
    run(async {
        let server = Scripted::new(modern).await;
        let client = server.connect().await.unwrap();
        let calls: Vec<_> = (0..1000)
            .map(|n| {
                let client = client.clone();
                tokio::spawn(async move { (n, call(&client, &format!("t{n}")).await) })
            })
            .collect();
        for call in calls {
            let (n, result) = call.await.unwrap();
            assert_eq!(result.unwrap(), format!("t{n}"));
        }
    });
}

/// A client that declines elicitations, and a server that sends one on the stream of a call and scripts each response to it.
async fn declining<F, T>(script: F) -> (Scripted, mcpjoin::Client)
where
    F: Fn(usize, Talk) -> T + Send + Sync + Clone + 'static,
    T: Future<Output = (bool, Option<Talk>)> + Send + 'static,
{
    let (answered, times) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let server = Scripted::new(move |seen: Seen, talk: Talk| {
        let (script, answered, times) = (script.clone(), answered.clone(), times.clone());
        async move {
            match seen.about().as_str() {
                "tools/call" => {
                    let mut talk = talk.stream(&[]).await;
                    let ask = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                        "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}});
                    talk.event(None, &ask.to_string()).await;
                    answered.notified().await;
                    talk.event(None, &seen.result(&text("thanks"))).await;
                    talk.finish().await
                }
                "response" => {
                    let (over, talk) = script(times.fetch_add(1, Ordering::SeqCst), talk).await;
                    if over {
                        answered.notify_one();
                    }
                    talk
                }
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        }
    })
    .await;
    let client = builder()
        .elicitation(|_| async { Ok(serde_json::from_value(json!({"action": "decline"})).unwrap()) })
        .connect(server.link().build().unwrap())
        .await
        .unwrap();
    (server, client)
}

#[test]
fn a_response_that_is_refused_or_whose_connection_breaks_is_sent_again() {
    run(async {
        let (server, client) = declining(|time, talk: Talk| async move {
            match time {
                0 => (false, talk.answer(503, &[("Retry-After", "0")], "").await),
                1 => (false, None),
                2 => (false, talk.status(503).await),
                3 => (false, talk.answer(429, &[("Retry-After", "0")], "").await),
                _ => (true, talk.accept().await),
            }
        })
        .await;
        assert_eq!(call(&client, "a").await.unwrap(), "thanks");
        let sent: Vec<String> = server
            .seen()
            .into_iter()
            .filter(|seen| seen.about() == "response")
            .map(|seen| seen.body)
            .collect();
        assert_eq!(sent.len(), 5);
        assert!(sent.iter().all(|body| *body == sent[0]), "{sent:?}");
    });
}

#[test]
fn a_response_that_is_refused_for_good_is_reported() {
    for (status, sent) in [(503, 4), (400, 1)] {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        hearing(Told(tell), || {
            run(async {
                let (server, client) = declining(move |time, talk: Talk| async move {
                    (time + 1 == sent, talk.status(status).await)
                })
                .await;
                assert_eq!(call(&client, "a").await.unwrap(), "thanks");
                loop {
                    let line = told.recv().await.unwrap();
                    if line.contains("has not taken it") {
                        assert!(line.contains("a response") && line.contains(&status.to_string()), "{line}");
                        break;
                    }
                }
                assert_eq!(server.count("response"), sent);
            });
        });
    }
}

#[test]
fn a_response_that_no_connection_carries_is_sent_four_times() {
    run(async {
        let (server, client) = declining(|time, _| async move { (time == 3, None) }).await;
        assert_eq!(call(&client, "a").await.unwrap(), "thanks");
        assert_eq!(server.count("response"), 4);
    });
}

#[test]
fn connections_that_a_burst_has_made_are_kept_up_to_a_bound() {
    const KEPT: usize = 256;
    run(async {
        let all = Arc::new(Semaphore::new(0));
        let gate = all.clone();
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let gate = gate.clone();
            async move {
                if seen.about() == "x/y" {
                    drop(gate.acquire().await);
                }
                legacy(V2025_11, "s", seen, talk).await
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        for _ in 0..=KEPT {
            let note = Notification { method: Method::parse("x/y"), params: None };
            client.connection().notify(note).unwrap();
        }
        server.wait("x/y", KEPT + 1).await;
        assert!(server.open() > KEPT);
        all.add_permits(KEPT + 1);
        while server.open() > KEPT {
            call(&client, "a").await.unwrap();
        }
        // After these calls, every old connection has been closed.
        for _ in 0..9 {
            call(&client, "a").await.unwrap();
        }
        assert_eq!(server.open(), KEPT);
    });
}
