//! Tests of a client that resumes streams for a long time: silent streams, cut streams, streams of a dead server.
//!
//! They run on a paused clock, which advances only while all tasks wait.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::Client;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::ports::Port;
use crate::scripted::{Scripted, Seen, Talk, V2025_11, builder, call, legacy, text};
use crate::told::{Told, hearing};

/// Runs a test on a clock that stands still while a task is ready. The deadline is in that virtual time, so it is far away.
fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let deadline = Duration::from_secs(3600);
    runtime.block_on(async { tokio::time::timeout(deadline, test).await.expect("the test hangs") })
}

async fn pass(time: Duration) {
    let never = tokio::time::timeout(time, std::future::pending::<()>()).await;
    assert!(never.is_err());
}

/// A legacy server whose call is cut behind an event with the id 1. `resume` handles the GET requests: it receives their
/// number and the reply.
async fn cut<R, A>(resume: R) -> Scripted
where
    R: Fn(usize, String, Talk) -> A + Send + Sync + Clone + 'static,
    A: Future<Output = Option<Talk>> + Send + 'static,
{
    let reply: Arc<Mutex<String>> = Arc::default();
    let gets = Arc::new(AtomicUsize::new(0));
    Scripted::new(move |seen: Seen, talk: Talk| {
        let (resume, reply, gets) = (resume.clone(), reply.clone(), gets.clone());
        async move {
            match (seen.about().as_str(), seen.header("last-event-id")) {
                ("tools/call", _) => {
                    *reply.lock().unwrap() = seen.result(&text("at last"));
                    let mut talk = talk.stream(&[]).await;
                    talk.event(Some("1"), "").await;
                    None
                }
                ("GET", Some(last)) => {
                    assert_eq!(last, "1");
                    let reply = reply.lock().unwrap().clone();
                    resume(gets.fetch_add(1, Ordering::SeqCst), reply, talk).await
                }
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        }
    })
    .await
}

async fn connect(server: &Scripted) -> Client {
    builder().connect(server.link().build().unwrap()).await.unwrap()
}

#[test]
fn f15_a_resumed_stream_that_stays_silent_is_asked_for_again() {
    run(async {
        // A server with a store that sends a resumed stream the stored events, and no later ones.
        let server = cut(|number, reply, talk: Talk| async move {
            let mut talk = talk.stream(&[]).await;
            if number < 12 {
                talk.piece(": still here\n\n").await;
                talk.gone().await;
                return None;
            }
            talk.event(Some("2"), &reply).await;
            talk.finish().await
        })
        .await;
        let client = connect(&server).await;
        let began = Instant::now();
        assert_eq!(call(&client, "a").await.as_deref(), Ok("at last"));
        let took = began.elapsed();
        // One second before the first attempt, and three between later ones.
        assert!(took >= Duration::from_secs(36) && took < Duration::from_secs(55), "{took:?}");
        assert_eq!(server.count("tools/call"), 1);
    });
}

#[test]
fn f15_a_resumed_stream_whose_event_comes_slowly_is_not_silent() {
    run(async {
        let server = cut(|_, reply, talk: Talk| async move {
            let mut talk = talk.stream(&[]).await;
            talk.piece("id: 2\ndata: ").await;
            for piece in reply.as_bytes().chunks(reply.len().div_ceil(6)) {
                pass(Duration::from_secs(2)).await;
                talk.piece(std::str::from_utf8(piece).unwrap()).await;
            }
            talk.piece("\n\n").await;
            talk.finish().await
        })
        .await;
        let client = connect(&server).await;
        assert_eq!(call(&client, "a").await.as_deref(), Ok("at last"));
        assert_eq!(server.count("GET"), 2, "one for the stream of the session, one to resume");
    });
}

#[test]
fn f15_a_stream_that_is_cut_while_it_is_idle_is_resumed_as_long_as_its_call_has_time() {
    run(async {
        let server = cut(|number, reply, talk: Talk| async move {
            let mut talk = talk.stream(&[]).await;
            if number < 40 {
                return None;
            }
            talk.event(Some("2"), &reply).await;
            talk.finish().await
        })
        .await;
        let client = connect(&server).await;
        let began = Instant::now();
        assert_eq!(call(&client, "a").await.as_deref(), Ok("at last"));
        let took = began.elapsed();
        // One second between attempts: the default when the server sets no retry time.
        assert!(took >= Duration::from_secs(40) && took < Duration::from_secs(58), "{took:?}");
    });
}

#[test]
fn f15_a_call_whose_stream_brings_nothing_ends_when_its_time_is_over() {
    run(async {
        let server = cut(|_, _, talk: Talk| async move { talk.stream(&[]).await.finish().await }).await;
        let client = connect(&server).await;
        let began = Instant::now();
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("was not answered within 60 s"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(70), "{:?}", began.elapsed());
        server.wait("notifications/cancelled", 1).await;
        // The client does not request its stream any more.
        let asked = server.count("GET");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(server.count("GET"), asked);
    });
}

#[test]
fn a_server_that_fails_to_resume_is_not_asked_for_ever() {
    run(async {
        let server = cut(|_, _, talk: Talk| talk.status(500)).await;
        let client = connect(&server).await;
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("gave up after 8 attempts") && error.contains("500"), "{error}");
    });
}

#[test]
fn f105_a_resumed_stream_that_is_compressed_is_refused_like_the_first() {
    run(async {
        let server = cut(|_, reply, talk: Talk| async move {
            let mut talk = talk.stream(&[("Content-Encoding", "gzip")]).await;
            talk.event(Some("2"), &reply).await;
            talk.finish().await
        })
        .await;
        let client = connect(&server).await;
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("resuming failed") && error.contains("compressed (gzip)"), "{error}");
        assert_eq!(server.count("GET"), 2, "one for the stream of the session, one to resume");
    });
}

#[test]
fn a_server_that_has_not_kept_the_events_has_not_forgotten_the_session() {
    run(async {
        let server = cut(|_, _, talk: Talk| async move {
            let error = json!({"jsonrpc": "2.0", "id": null,
                "error": {"code": -32600, "message": "the events after Last-Event-ID are no longer stored"}});
            talk.answer(400, &[("Content-Type", "application/json")], &error.to_string()).await
        })
        .await;
        let client = connect(&server).await;
        for _ in 0..2 {
            let error = call(&client, "a").await.unwrap_err();
            assert!(error.contains("resuming failed") && error.contains("no longer stored"), "{error}");
        }
        assert_eq!(server.count("initialize"), 1);
    });
}

#[test]
fn the_stream_of_a_session_goes_on_when_the_events_before_are_not_kept() {
    run(async {
        let gets = Arc::new(AtomicUsize::new(0));
        let server = Scripted::new(move |seen: Seen, talk: Talk| {
            let gets = gets.clone();
            async move {
                match (seen.about().as_str(), seen.header("last-event-id")) {
                    ("GET", Some(_)) => talk.status(400).await,
                    ("GET", None) => {
                        let number = gets.fetch_add(1, Ordering::SeqCst);
                        let mut talk = talk.stream(&[]).await;
                        talk.event(Some(&format!("e{number}")), &note(&format!("note {number}"))).await;
                        if number == 0 {
                            return talk.finish().await;
                        }
                        talk.gone().await;
                        None
                    }
                    _ => legacy(V2025_11, "s", seen, talk).await,
                }
            }
        })
        .await;
        let (client, mut receiver) = server.connect_listening().await;
        for _ in 0..2 {
            receiver.recv().await.unwrap();
        }
        assert_eq!(call(&client, "a").await.as_deref(), Ok("a"));
        assert_eq!(server.count("initialize"), 1);
    });
}

// ---- a server that has exited ----

/// A server that exits during a call: its port refuses connections, and is reserved for as long as the test holds it.
async fn dies(
    client: impl AsyncFn(&Scripted) -> Client,
) -> (Port, tokio::task::JoinHandle<Result<String, String>>) {
    let began = Arc::new(Notify::new());
    let told = began.clone();
    let port = Port::claim().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", port.number())).await.unwrap();
    let server = Scripted::on(listener, move |seen: Seen, talk: Talk| {
        let told = told.clone();
        async move {
            if seen.about() != "tools/call" {
                return legacy(V2025_11, "s", seen, talk).await;
            }
            let mut talk = talk.stream(&[]).await;
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message",
                "params": {"level": "info", "data": "begun"}});
            talk.event(Some("1"), &log.to_string()).await;
            told.notify_one();
            talk.gone().await;
            None
        }
    });
    let client = client(&server).await;
    let calling = tokio::spawn(async move { call(&client, "a").await });
    began.notified().await;
    (port, calling)
}

#[test]
fn a_server_that_is_gone_has_five_seconds_and_each_attempt_is_reported() {
    let (tell, mut told) = mpsc::unbounded_channel();
    hearing(Told(tell), || {
        run(async {
            let (received, mut receiver) = mpsc::unbounded_channel();
            let (_port, calling) = dies(async |server| {
                let received = received.clone();
                builder()
                    .on_notification(move |note| drop(received.send(note)))
                    .connect(server.link().get_stream(false).build().unwrap())
                    .await
                    .unwrap()
            })
            .await;
            receiver.recv().await.unwrap();
            let began = Instant::now();
            let error = calling.await.unwrap().unwrap_err();
            for part in [
                "the event stream was cut off before the reply",
                "connection refused",
                "attempts",
                "within 5 s",
            ] {
                assert!(error.contains(part), "{part}: {error}");
            }
            // One second to the first attempt, and five to each later one.
            let took = began.elapsed();
            assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(8), "{took:?}");
        });
    });
    let mut attempts = 0;
    while let Ok(line) = told.try_recv() {
        attempts += usize::from(line.contains("resum") && line.contains("tools/call"));
    }
    assert!(attempts >= 3, "{attempts}");
}

#[test]
fn a_server_that_is_back_within_five_seconds_goes_on() {
    let (tell, mut told) = mpsc::unbounded_channel();
    hearing(Told(tell), || {
        run(async {
            let (port, calling) = dies(async |server| {
                builder().connect(server.link().get_stream(false).build().unwrap()).await.unwrap()
            })
            .await;
            let mut refused = 0;
            while refused < 2 {
                refused += usize::from(told.recv().await.unwrap().contains("refused"));
            }
            let listener = TcpListener::bind(("127.0.0.1", port.number())).await.unwrap();
            let server = Scripted::on(listener, |seen: Seen, talk: Talk| async move {
                assert_eq!((seen.about().as_str(), seen.header("last-event-id")), ("GET", Some("1")));
                let mut talk = talk.stream(&[]).await;
                let reply = json!({"jsonrpc": "2.0", "id": 3, "result": text("as if nothing had been")});
                talk.event(Some("2"), &reply.to_string()).await;
                talk.finish().await
            });
            assert_eq!(calling.await.unwrap().as_deref(), Ok("as if nothing had been"));
            drop(server);
        });
    });
}

// ---- several streams of one session ----

fn note(text: &str) -> String {
    let params = json!({"level": "info", "data": text});
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}).to_string()
}

/// The state of two calls of one session: `other` has its own stream, `cut` goes on in another one.
#[derive(Default)]
struct Both {
    /// The reply to `other`.
    other: Mutex<String>,
    /// The reply to `cut`.
    cut: Mutex<String>,
    /// `other` may end.
    go_on: Notify,
}

/// A server with a store that sends every event of the session to a client that resumes.
async fn gives_everything(both: &Arc<Both>, reply_too: bool) -> Scripted {
    let both = both.clone();
    Scripted::new(move |seen: Seen, talk: Talk| {
        let both = both.clone();
        async move {
            let name = seen.json()["params"]["name"].as_str().unwrap_or_default().to_owned();
            match (seen.about().as_str(), name.as_str()) {
                ("tools/call", "other") => {
                    let reply = seen.result(&text("other"));
                    both.other.lock().unwrap().clone_from(&reply);
                    let mut talk = talk.stream(&[]).await;
                    talk.event(Some("o1"), &note("of the other")).await;
                    both.go_on.notified().await;
                    talk.event(Some("o2"), &reply).await;
                    talk.finish().await
                }
                ("tools/call", _) => {
                    *both.cut.lock().unwrap() = seen.result(&text("cut"));
                    let mut talk = talk.stream(&[]).await;
                    talk.event(Some("c1"), "").await;
                    None
                }
                ("GET", _) if seen.header("last-event-id") == Some("c1") => {
                    let mut talk = talk.stream(&[]).await;
                    talk.event(Some("o1"), &note("of the other")).await;
                    if reply_too {
                        let reply = both.other.lock().unwrap().clone();
                        talk.event(Some("o2"), &reply).await;
                    }
                    let reply = both.cut.lock().unwrap().clone();
                    talk.event(Some("c2"), &reply).await;
                    talk.finish().await
                }
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        }
    })
    .await
}

#[test]
fn f116_an_event_that_comes_on_two_streams_of_a_session_is_taken_once() {
    for reply_too in [false, true] {
        run(async {
            let both = Arc::new(Both::default());
            let server = gives_everything(&both, reply_too).await;
            let (received, mut receiver) = mpsc::unbounded_channel();
            let broken: Arc<Mutex<Vec<String>>> = Arc::default();
            let rules = broken.clone();
            let client = builder()
                .on_notification(move |note| drop(received.send(note)))
                .on_violation(move |violation| rules.lock().unwrap().push(violation.to_string()))
                .connect(server.link().build().unwrap())
                .await
                .unwrap();
            let other = tokio::spawn({
                let client = client.clone();
                async move { call(&client, "other").await }
            });
            let mut said = vec![receiver.recv().await.unwrap()];
            assert_eq!(call(&client, "cut").await.as_deref(), Ok("cut"));
            both.go_on.notify_one();
            assert_eq!(other.await.unwrap().as_deref(), Ok("other"));
            assert_eq!(call(&client, "cut").await.as_deref(), Ok("cut"));
            client.close().await;
            while let Ok(more) = receiver.try_recv() {
                said.push(more);
            }
            let said: Vec<Value> = said.iter().map(data).collect();
            assert_eq!(said, ["of the other"], "{reply_too}");
            assert_eq!(*broken.lock().unwrap(), [""; 0]);
        });
    }
}

fn data(note: &mcpjoin::proto::Notification) -> Value {
    let params: Value = note.params.as_ref().unwrap().raw().decode().unwrap();
    params["data"].clone()
}

/// A server that numbers the events of each stream separately, which breaks the specification but occurs in practice.
#[test]
fn events_of_equal_ids_that_say_different_things_are_different_events() {
    run(async {
        let server = Scripted::new(|seen: Seen, talk: Talk| async move {
            match seen.about().as_str() {
                "tools/call" => {
                    let name = seen.json()["params"]["name"].as_str().unwrap().to_owned();
                    let mut talk = talk.stream(&[]).await;
                    talk.event(Some("1"), &note(&name)).await;
                    talk.event(Some("2"), &seen.result(&text(&name))).await;
                    talk.finish().await
                }
                _ => legacy(V2025_11, "s", seen, talk).await,
            }
        })
        .await;
        let (client, mut receiver) = server.connect_listening().await;
        for name in ["a", "b", "c"] {
            assert_eq!(call(&client, name).await.as_deref(), Ok(name));
            assert_eq!(data(&receiver.recv().await.unwrap()), name);
        }
    });
}
