//! Tests of a client with event streams that are cut, resumed, repeated, or malformed.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::scripted::{Scripted, Seen, Talk, V2025_11, builder, call, legacy, modern, run, text};

/// The whole stream of a call, event by event: two notifications, then the response. Every event id contains the call's id.
fn events(call: u64) -> [String; 3] {
    let note = |n| {
        json!({"jsonrpc": "2.0", "method": "notifications/message",
            "params": {"level": "info", "data": format!("{call} {n}")}})
    };
    let reply = json!({"jsonrpc": "2.0", "id": call, "result": text("reply")});
    let mut number = 0;
    [note(0), note(1), reply].map(|data| {
        number += 1;
        format!("id: {call:04}-{number}\ndata: {data}\n\n")
    })
}

const RETRY: &str = "retry: 100\n\n";

#[test]
fn f116_f15_a_stream_cut_at_every_byte_is_resumed_without_loss_or_doubling() {
    run(async {
        let cut = Arc::new(AtomicUsize::new(0));
        let here = cut.clone();
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let cut = here.load(Ordering::SeqCst);
            async move {
                match (seen.about().as_str(), seen.header("last-event-id")) {
                    ("tools/call", _) => {
                        let whole = RETRY.to_owned() + &events(seen.id().as_u64().unwrap()).concat();
                        let mut talk = talk.stream(&[]).await;
                        talk.piece(&whole[..cut.clamp(1, whole.len())]).await;
                        if cut < whole.len() { None } else { talk.finish().await }
                    }
                    ("GET", Some(last)) => {
                        let (call, last) = last.split_once('-').unwrap();
                        let mut talk = talk.stream(&[]).await;
                        for event in &events(call.parse().unwrap())[last.parse().unwrap()..] {
                            talk.piece(event).await;
                        }
                        talk.finish().await
                    }
                    _ => legacy(V2025_11, "s", seen, talk).await,
                }
            }
        })
        .await;
        let (client, mut receiver) = server.connect_listening().await;
        // The end of the first event: a stream that is cut before it cannot be resumed.
        let first = RETRY.len() + events(100)[0].len();
        let length = RETRY.len() + events(100).concat().len();
        // Most of the calls wait for a reconnection, so they run concurrently.
        let mut calls = Vec::new();
        for at in 0..=length {
            cut.store(at, Ordering::SeqCst);
            let before = server.count("tools/call");
            let client = client.clone();
            let calling = tokio::spawn(async move { call(&client, "a").await });
            server.wait("tools/call", before + 1).await;
            calls.push((at, calling));
        }
        let (mut lost, mut kept) = (0, 0);
        for (at, calling) in calls {
            match calling.await.unwrap() {
                Ok(text) => {
                    assert!(at >= first && text == "reply", "{at}");
                    kept += 1;
                }
                Err(error) => {
                    // Calls with fewer digits in their ids have shorter events.
                    assert!(at < first && error.contains("no event was received"), "{at}: {error}");
                    lost += 1;
                }
            }
        }
        assert_eq!((lost + kept, kept), (length + 1, length + 1 - lost));
        let mut notes = Vec::new();
        while let Ok(note) = receiver.try_recv() {
            let params: serde_json::Value = note.params.unwrap().raw().decode().unwrap();
            notes.push(params["data"].as_str().unwrap().to_owned());
        }
        let all = notes.len();
        notes.sort();
        notes.dedup();
        assert_eq!(notes.len(), all, "a notification came twice");
        assert_eq!(all, 2 * kept, "one was lost");
    });
}

/// A legacy server: `play` scripts the stream of a call, and `resume` scripts the GET requests.
async fn played<P, R, A, B>(play: P, resume: R) -> Scripted
where
    P: Fn(Seen, Talk) -> A + Send + Sync + Clone + 'static,
    R: Fn(Seen, Talk) -> B + Send + Sync + Clone + 'static,
    A: Future<Output = Option<Talk>> + Send + 'static,
    B: Future<Output = Option<Talk>> + Send + 'static,
{
    Scripted::new(move |seen: Seen, talk: Talk| {
        let (play, resume) = (play.clone(), resume.clone());
        async move {
            match seen.about().as_str() {
                "tools/call" => play(seen, talk).await,
                "GET" if seen.header("last-event-id").is_some() => resume(seen, talk).await,
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        }
    })
    .await
}

#[test]
fn f116_events_that_are_sent_again_are_taken_once() {
    run(async {
        let reply: Arc<Mutex<String>> = Arc::default();
        let stored = reply.clone();
        let note = |n: usize| {
            json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": n}})
            .to_string()
        };
        let server = played(
            move |seen: Seen, talk: Talk| {
                *stored.lock().unwrap() = seen.result(&text("reply"));
                async move {
                    let mut talk = talk.stream(&[]).await;
                    talk.piece("retry: 100\n").await;
                    talk.event(Some("a"), &note(0)).await;
                    talk.event(Some("b"), &note(1)).await;
                    None
                }
            },
            move |seen: Seen, talk: Talk| {
                let reply = reply.lock().unwrap().clone();
                async move {
                    assert_eq!(seen.header("last-event-id"), Some("b"));
                    assert_eq!(seen.header("accept"), Some("text/event-stream"));
                    assert_eq!(seen.header("mcp-session-id"), Some("s"));
                    let mut talk = talk.stream(&[]).await;
                    // The server resumes at an earlier event than the client asked for.
                    talk.event(Some("a"), &note(0)).await;
                    talk.event(Some("b"), &note(1)).await;
                    talk.event(Some("c"), &note(2)).await;
                    talk.event(Some("d"), &reply).await;
                    talk.finish().await
                }
            },
        )
        .await;
        let (client, mut receiver) = server.connect_listening().await;
        assert_eq!(call(&client, "a").await.unwrap(), "reply");
        let mut notes = Vec::new();
        for _ in 0..3 {
            let note = receiver.recv().await.unwrap();
            let params: serde_json::Value = note.params.unwrap().raw().decode().unwrap();
            notes.push(params["data"].clone());
        }
        assert_eq!(notes, [0, 1, 2]);
        assert!(receiver.try_recv().is_err());
    });
}

#[test]
fn s4_a_server_that_closes_to_be_asked_again_is_asked_after_its_retry() {
    run(async {
        let polls = Arc::new(AtomicUsize::new(0));
        let reply: Arc<Mutex<String>> = Arc::default();
        let stored = reply.clone();
        let server = played(
            move |seen: Seen, talk: Talk| {
                *stored.lock().unwrap() = seen.result(&text("at last"));
                async move {
                    let mut talk = talk.stream(&[]).await;
                    talk.event(Some("p0"), "").await;
                    talk.piece("retry: 300\n\n").await;
                    talk.finish().await
                }
            },
            move |seen: Seen, talk: Talk| {
                let poll = polls.fetch_add(1, Ordering::SeqCst);
                let reply = reply.lock().unwrap().clone();
                async move {
                    assert_eq!(seen.header("last-event-id"), Some(&*format!("p{poll}")));
                    let mut talk = talk.stream(&[]).await;
                    if poll < 3 {
                        talk.event(Some(&format!("p{}", poll + 1)), "").await;
                    } else {
                        talk.event(Some("last"), &reply).await;
                    }
                    talk.finish().await
                }
            },
        )
        .await;
        let client = server.connect().await.unwrap();
        let began = Instant::now();
        assert_eq!(call(&client, "a").await.unwrap(), "at last");
        assert!(began.elapsed() >= Duration::from_millis(4 * 300), "it was asked too early");
        assert_eq!(server.count("tools/call"), 1);
    });
}

/// A call that fails within a second: at the first attempt, unless the machine is very busy.
async fn promptly_lost(client: &mcpjoin::Client) -> String {
    for _ in 0..5 {
        let began = Instant::now();
        let error = call(client, "a").await.unwrap_err();
        if began.elapsed() < Duration::from_secs(1) {
            return error;
        }
    }
    panic!("it took longer than a second, five times");
}

#[test]
fn f117_a_stream_without_event_ids_fails_its_call_within_a_second() {
    run(async {
        let log =
            r#"data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
        for (broken, said, why) in [
            (true, ": here", "no event was received"),
            (false, ": here", "no event was received"),
            (true, log, "its events have no ids"),
            (false, log, "its events have no ids"),
        ] {
            let server = played(
                move |_, talk: Talk| async move {
                    let mut talk = talk.stream(&[]).await;
                    talk.piece(format!("{said}\n\n")).await;
                    if broken { None } else { talk.finish().await }
                },
                |_, _| async { panic!("there is nothing to resume from") },
            )
            .await;
            let client = server.connect().await.unwrap();
            let error = promptly_lost(&client).await;
            assert!(error.contains("cannot be resumed") && error.contains(why), "{error}");
            assert!(!client.is_closed());
        }
    });
}

#[test]
fn f117_a_server_that_cannot_resume_after_all_fails_the_call() {
    run(async {
        for status in [405, 406, 501] {
            let server = played(
                |_, talk: Talk| async move {
                    let mut talk = talk.stream(&[]).await;
                    talk.piece("id: 1\nretry: 100\ndata:\n\n").await;
                    None
                },
                move |_, talk: Talk| async move {
                    if status == 501 {
                        talk.answer(200, &[("Content-Type", "text/html")], "no").await
                    } else {
                        talk.status(status).await
                    }
                },
            )
            .await;
            let client = server.connect().await.unwrap();
            let error = call(&client, "a").await.unwrap_err();
            assert!(error.contains("resuming failed"), "{error}");
        }
    });
}

#[test]
fn f117_a_modern_stream_that_breaks_loses_its_request_and_nothing_is_resumed() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            if seen.about() != "tools/call" {
                return modern(seen, talk).await;
            }
            let mut talk = talk.stream(&[]).await;
            talk.event(Some("1"), "").await;
            None
        })
        .await;
        let client = server.connect().await.unwrap();
        let error = promptly_lost(&client).await;
        assert!(error.contains("the request is lost"), "{error}");
        assert_eq!(server.count("GET"), 0);
    });
}

#[test]
fn a_session_that_is_gone_when_a_stream_is_resumed_loses_the_call_and_serves_the_next() {
    run(async {
        let session = Arc::new(AtomicUsize::new(0));
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let session = session.clone();
            async move {
                let id = format!("s{}", session.load(Ordering::SeqCst));
                if seen.about() == "tools/call" && seen.json()["params"]["name"] == "cut" {
                    let mut talk = talk.stream(&[]).await;
                    talk.piece("retry: 100\n").await;
                    talk.event(Some("1"), "").await;
                    session.fetch_add(1, Ordering::SeqCst);
                    return None;
                }
                legacy(V2025_11, &id, seen, talk).await
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        let error = call(&client, "cut").await.unwrap_err();
        assert!(error.contains("404"), "{error}");
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        assert_eq!(server.count("initialize"), 2);
    });
}

#[test]
fn f120_f121_f15_whatever_the_form_of_the_events_they_are_the_same() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            if seen.about() != "tools/call" {
                return modern(seen, talk).await;
            }
            let way = seen.json()["params"]["name"].as_str().unwrap().to_owned();
            let reply = seen.result(&text("reply"));
            let foreign = json!({"jsonrpc": "2.0", "id": 4711, "result": {}}).to_string();
            // In two `data` lines, split at a place where JSON allows a space.
            let (one, two) = reply.split_at(reply.find(',').unwrap() + 1);
            let stream = match way.as_str() {
                "cr" => format!(":c\rdata: {reply}\r\r"),
                "crlf" => format!("data: {one}\r\ndata: {two}\r\n\r\n"),
                "lf" => format!("data:{one}\ndata:{two}\n\n"),
                "mark" => format!("\u{feff}data: {reply}\n\n"),
                "empty" => format!("id: 1\ndata:\n\ndata: {reply}\n\n"),
                "unknown" => format!("x: y\nunknown\nid: a\0b\nevent: message\ndata: {reply}\n\n"),
                "other" => format!("event: ping\ndata: {{}}\n\nevent: message\ndata: {reply}\n\n"),
                "foreign" => format!("data: {foreign}\n\ndata: {reply}\n\n"),
                "garbage" => format!("data: not json\n\ndata: {reply}\n\n"),
                _ => unreachable!(),
            };
            let mut talk = talk.stream(&[]).await;
            // Byte by byte, so that every pair of bytes is split.
            for byte in stream.as_bytes() {
                talk.piece([*byte]).await;
            }
            // The stream stays open after the response.
            talk.gone().await;
            None
        })
        .await;
        let client = server.connect().await.unwrap();
        for way in ["cr", "crlf", "lf", "mark", "empty", "unknown", "other", "foreign", "garbage"] {
            assert_eq!(call(&client, way).await.as_deref(), Ok("reply"), "{way}");
        }
    });
}

#[test]
fn f122_a_retry_of_nothing_or_of_ages_is_clamped() {
    run(async {
        for (retry, least, most) in [("0", 100, 5000), ("soon", 1000, 10_000)] {
            let reply: Arc<Mutex<String>> = Arc::default();
            let stored = reply.clone();
            let server = played(
                move |seen: Seen, talk: Talk| {
                    *stored.lock().unwrap() = seen.result(&text("reply"));
                    async move {
                        let mut talk = talk.stream(&[]).await;
                        talk.piece(format!("retry: {retry}\nid: 1\ndata:\n\n")).await;
                        talk.finish().await
                    }
                },
                move |_, talk: Talk| {
                    let reply = reply.lock().unwrap().clone();
                    async move {
                        let mut talk = talk.stream(&[]).await;
                        talk.event(Some("2"), &reply).await;
                        talk.finish().await
                    }
                },
            )
            .await;
            let client = server.connect().await.unwrap();
            let began = Instant::now();
            assert_eq!(call(&client, "a").await.unwrap(), "reply");
            let took = began.elapsed();
            assert!(
                took >= Duration::from_millis(least) && took < Duration::from_millis(most),
                "{retry}: {took:?}"
            );
        }
    });
}

/// A legacy server whose session stream is scripted by `play`, which receives the number of each GET.
async fn streaming<P, A>(play: P) -> Scripted
where
    P: Fn(usize, Seen, Talk) -> A + Send + Sync + Clone + 'static,
    A: Future<Output = Option<Talk>> + Send + 'static,
{
    let gets = Arc::new(AtomicUsize::new(0));
    Scripted::new(move |seen: Seen, talk: Talk| {
        let (play, gets) = (play.clone(), gets.clone());
        async move {
            match seen.about().as_str() {
                "GET" => play(gets.fetch_add(1, Ordering::SeqCst), seen, talk).await,
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        }
    })
    .await
}

#[test]
fn the_stream_of_a_session_is_opened_again_after_the_last_event() {
    run(async {
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string();
        let server = streaming(move |number, seen: Seen, talk: Talk| {
            let changed = changed.clone();
            async move {
                let expected = [None, Some("1"), Some("2")][number.min(2)];
                assert_eq!(seen.header("last-event-id"), expected);
                assert_eq!(seen.header("mcp-session-id"), Some("s"));
                let mut talk = talk.stream(&[]).await;
                talk.piece("retry: 100\n").await;
                match number {
                    0 => {
                        talk.event(Some("1"), &changed).await;
                        talk.finish().await
                    }
                    1 => {
                        // The server behaves like a proxy that drops silent connections.
                        talk.event(Some("2"), &changed).await;
                        None
                    }
                    _ => {
                        talk.event(Some("3"), &changed).await;
                        talk.gone().await;
                        None
                    }
                }
            }
        })
        .await;
        let (client, mut receiver) = server.connect_listening().await;
        for _ in 0..3 {
            assert_eq!(receiver.recv().await.unwrap().method.as_str(), "notifications/tools/list_changed");
        }
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        client.close().await;
    });
}

#[test]
fn a_stream_that_begins_anew_repeats_nothing() {
    run(async {
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string();
        let server = streaming(move |number, seen: Seen, talk: Talk| {
            let changed = changed.clone();
            async move {
                // The server counts the events of each stream for itself, and stores none.
                assert_eq!(seen.header("last-event-id"), (number == 1).then_some("1"));
                if number == 1 {
                    return talk.status(400).await;
                }
                let mut talk = talk.stream(&[]).await;
                talk.piece("retry: 100\n").await;
                talk.event(Some("1"), &changed).await;
                if number == 0 {
                    return talk.finish().await;
                }
                talk.gone().await;
                None
            }
        })
        .await;
        let (client, mut receiver) = server.connect_listening().await;
        for _ in 0..2 {
            assert_eq!(receiver.recv().await.unwrap().method.as_str(), "notifications/tools/list_changed");
        }
        client.close().await;
    });
}

#[test]
fn a_session_that_is_gone_when_its_stream_is_opened_again_is_made_again_without_a_call() {
    run(async {
        let session = Arc::new(AtomicUsize::new(0));
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let session = session.clone();
            async move {
                let id = format!("s{}", session.load(Ordering::SeqCst));
                if seen.about() != "GET" || seen.header("mcp-session-id") != Some(&id) {
                    return legacy(V2025_11, &id, seen, talk).await;
                }
                let mut talk = talk.stream(&[]).await;
                talk.piece("retry: 100\n\n").await;
                if id == "s0" {
                    session.fetch_add(1, Ordering::SeqCst);
                    return None;
                }
                let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                talk.event(Some("1"), &changed.to_string()).await;
                talk.gone().await;
                None
            }
        })
        .await;
        let (client, mut receiver) = server.connect_listening().await;
        assert_eq!(receiver.recv().await.unwrap().method.as_str(), "notifications/tools/list_changed");
        assert_eq!(server.count("initialize"), 2);
        client.close().await;
    });
}

#[test]
fn a_server_that_loses_each_session_with_its_stream_is_asked_for_the_next_ever_later() {
    run(async {
        let opened = Arc::new(Mutex::new(Vec::new()));
        let (times, streams) = (opened.clone(), Arc::new(Mutex::new(HashSet::new())));
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let (times, streams) = (times.clone(), streams.clone());
            async move {
                if seen.about() == "initialize" {
                    let id = {
                        let mut times = times.lock().unwrap();
                        times.push(Instant::now());
                        format!("s{}", times.len())
                    };
                    return legacy(V2025_11, &id, seen, talk).await;
                }
                let id = seen.header("mcp-session-id").unwrap_or("none").to_owned();
                if seen.about() != "GET" {
                    return legacy(V2025_11, &id, seen, talk).await;
                }
                // The first stream of a session ends at once, and the server does not know the session any more.
                if !streams.lock().unwrap().insert(id) {
                    return talk.status(404).await;
                }
                let mut talk = talk.stream(&[]).await;
                talk.piece("retry: 100\n\n").await;
                talk.finish().await
            }
        })
        .await;
        let client = server.connect().await.unwrap();
        server.wait("initialize", 4).await;
        client.close().await;
        let opened = opened.lock().unwrap();
        let after = |number: usize| opened[number] - opened[number - 1];
        // The delay before the stream is opened again, which was lost with the session; then 2 and 4 times this delay.
        assert!(after(1) >= Duration::from_millis(100), "{:?}", after(1));
        assert!(after(2) >= Duration::from_millis(300), "{:?}", after(2));
        assert!(after(3) >= Duration::from_millis(500), "{:?}", after(3));
    });
}

#[test]
fn a_fault_of_the_stream_of_a_session_affects_no_request() {
    run(async {
        for way in 0..6 {
            let server = streaming(move |_, _, talk: Talk| async move {
                match way {
                    0 => talk.status(405).await,
                    1 => talk.status(500).await,
                    2 => talk.status(404).await,
                    3 => talk.answer(200, &[("Content-Type", "text/html")], "hello").await,
                    4 => None,
                    _ => {
                        talk.gone().await;
                        None
                    }
                }
            })
            .await;
            let client = server.connect().await.unwrap();
            server.wait("GET", 1).await;
            assert_eq!(call(&client, "a").await.unwrap(), "a", "{way}");
            assert_eq!(server.count("initialize"), 1);
            client.close().await;
        }
        let server = streaming(|_, _, talk: Talk| talk.status(405)).await;
        let client = builder().connect(server.link().get_stream(false).build().unwrap()).await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        client.close().await;
        assert_eq!(server.count("GET"), 0);
    });
}

#[test]
fn f119_a_stream_of_comments_is_alive_and_holds_nothing() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            if seen.about() != "tools/call" {
                return modern(seen, talk).await;
            }
            let mut talk = talk.stream(&[]).await;
            let comments = ": still here\n\n".repeat(1000);
            for _ in 0..200 {
                talk.piece(&comments).await;
            }
            talk.event(None, &seen.result(&text("patience"))).await;
            talk.finish().await
        })
        .await;
        let client = server.connect().await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "patience");
    });
}
