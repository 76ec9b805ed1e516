//! Tests of sessions that a store keeps for several processes. Two services with one store stand for two processes.

use std::collections::HashMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use http::request::Parts;
use mcpjoin::Server;
use mcpjoin::transport::{HttpOptions, SessionRecord, SessionStore, SessionStoreError, Stored};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::{Gate, LEGACY, Peer, builder, call, initialize, run, settle, text};

/// A store in memory.
#[derive(Clone, Default)]
pub(crate) struct Store(Arc<Inner>);

#[derive(Default)]
struct Inner {
    sessions: Mutex<HashMap<String, SessionRecord>>,
    opened: AtomicUsize,
    touched: Mutex<Vec<String>>,
    gone: AtomicBool,
    /// It stores no sessions from now on.
    full: AtomicBool,
    /// Records are given when it has permits, if it is set.
    delays: Mutex<Option<Arc<Semaphore>>>,
    /// The next id, if it is not one that this store chooses.
    id: Mutex<Option<String>>,
}

impl Store {
    fn check(&self) -> Result<(), SessionStoreError> {
        match self.0.gone.load(Ordering::Relaxed) {
            true => Err(SessionStoreError("it is gone".into())),
            false => Ok(()),
        }
    }

    fn records(&self) -> usize {
        self.0.sessions.lock().unwrap().len()
    }
}

impl SessionStore for Store {
    fn create<'a>(&'a self, record: &'a SessionRecord) -> Stored<'a, Option<String>> {
        Box::pin(async move {
            self.check()?;
            if self.0.full.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let id = self.0.id.lock().unwrap().take();
            let id = id.unwrap_or_else(|| format!("session~{}", self.records()));
            self.0.sessions.lock().unwrap().insert(id.clone(), record.clone());
            Ok(Some(id))
        })
    }

    fn open<'a>(&'a self, id: &'a str, principal: Option<&'a str>) -> Stored<'a, Option<SessionRecord>> {
        Box::pin(async move {
            self.0.opened.fetch_add(1, Ordering::Relaxed);
            let delays = self.0.delays.lock().unwrap().clone();
            if let Some(delays) = delays {
                delays.acquire().await.unwrap().forget();
            }
            self.check()?;
            let record = self.0.sessions.lock().unwrap().get(id).cloned();
            Ok(record.filter(|record| record.principal.as_deref() == principal))
        })
    }

    fn touch(&self, id: &str) {
        self.0.touched.lock().unwrap().push(id.to_owned());
    }

    fn end<'a>(&'a self, id: &'a str) -> Stored<'a, ()> {
        Box::pin(async move {
            self.check()?;
            self.0.sessions.lock().unwrap().remove(id);
            Ok(())
        })
    }
}

fn bearer(parts: &Parts) -> Option<String> {
    parts.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned())
}

/// Two processes with this server and this store.
fn two(server: &Server, store: &Store) -> [Peer; 2] {
    let options = || HttpOptions::new().principal(bearer).session_store(store.clone());
    [Peer::new(server, options()), Peer::new(server, options())]
}

fn server() -> Server {
    builder(&Gate::new()).build().unwrap()
}

/// The same client at another process.
pub(crate) fn at(session: &Peer, process: &Peer) -> Peer {
    Peer { service: process.service.clone(), ..session.clone() }
}

async fn echoes(session: &Peer, id: usize) -> u16 {
    let reply = session.call_in_session(id, "echo", json!({ "message": "hi" })).await;
    let status = reply.status;
    if status == 200 {
        assert_eq!(text(&reply.message_or_json().await), "hi");
    }
    status
}

#[test]
fn a_stored_session_is_opened_in_the_process_that_receives_a_request() {
    run(async {
        let store = Store::default();
        let [one, other] = two(&server(), &store);
        let session = one.open(LEGACY).await;
        assert_eq!(echoes(&session, 1).await, 200);
        assert_eq!(other.service.sessions(), 0);
        for id in 2..5 {
            assert_eq!(echoes(&at(&session, &other), id).await, 200);
        }
        assert_eq!((one.service.sessions(), other.service.sessions()), (1, 1));
        assert_eq!(store.0.opened.load(Ordering::Relaxed), 1);
        // Each process has a stream for what belongs to no request, without events that could be resumed.
        let stream = at(&session, &other).get().await;
        assert_eq!(stream.status, 200);
        drop(stream);
        assert_eq!(session.with("last-event-id", "0-0").get().await.status, 400);
        // The client ends the session everywhere, as far as the store is asked.
        assert_eq!(at(&session, &other).send(Method::DELETE, "/mcp", "").await.status, 204);
        assert_eq!((store.records(), other.service.sessions()), (0, 0));
        assert_eq!(echoes(&at(&session, &other), 9).await, 404);
        assert_eq!(at(&session, &other).send(Method::DELETE, "/mcp", "").await.status, 404);
    });
}

#[test]
fn requests_that_come_together_wait_for_one_opening() {
    run(async {
        let store = Store::default();
        let [one, other] = two(&server(), &store);
        let session = at(&one.open(LEGACY).await, &other);
        let delays = Arc::new(Semaphore::new(0));
        *store.0.delays.lock().unwrap() = Some(delays.clone());
        // A client that leaves does not take the opening with it.
        let gone = tokio::spawn({
            let session = session.clone();
            async move { echoes(&session, 1_000).await }
        });
        settle().await;
        let calls: Vec<_> = (0..40)
            .map(|id| {
                let session = session.clone();
                tokio::spawn(async move { echoes(&session, id).await })
            })
            .collect();
        let stranger = tokio::spawn({
            let session = session.with("authorization", "bob");
            async move { echoes(&session, 2_000).await }
        });
        settle().await;
        gone.abort();
        settle().await;
        delays.add_permits(10);
        for call in join_all(calls).await {
            assert_eq!(call.unwrap(), 200);
        }
        assert_eq!(stranger.await.unwrap(), 404, "he waits for his own answer");
        assert_eq!(other.service.sessions(), 1);
        // One that was aborted, one that has opened it, and the stranger's.
        assert_eq!(store.0.opened.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn without_the_store_a_client_is_asked_to_come_again_and_open_sessions_go_on() {
    run(async {
        let store = Store::default();
        let [one, other] = two(&server(), &store);
        let session = one.open(LEGACY).await;
        store.0.gone.store(true, Ordering::Relaxed);
        let refused = other.post(initialize(LEGACY, json!({}))).await;
        assert_eq!((refused.status, refused.headers["retry-after"].to_str().unwrap()), (503, "1"));
        let refused = at(&session, &other).post(call(1, "echo", json!({}))).await;
        assert_eq!((refused.status, refused.headers["retry-after"].to_str().unwrap()), (503, "1"));
        assert_eq!(session.send(Method::DELETE, "/mcp", "").await.status, 503);
        assert_eq!(echoes(&session, 2).await, 200);
        assert_eq!(other.call(3, "echo", json!({ "message": "modern" })).await.status, 200);
        assert_eq!(other.service.sessions(), 0);
        store.0.gone.store(false, Ordering::Relaxed);
        assert_eq!(echoes(&at(&session, &other), 4).await, 200);
    });
}

#[test]
fn what_is_no_id_of_the_store_or_of_this_principal_is_unknown() {
    run(async {
        let store = Store::default();
        let [one, other] = two(&server(), &store);
        let session = one.with("authorization", "ada").open(LEGACY).await;
        let session = at(&session, &other);
        let long = "x".repeat(5 * 1024);
        for bad in [
            session.with("authorization", "bob"),
            session.with("authorization", ""),
            session.with("mcp-session-id", "session~1"),
            session.with("mcp-session-id", &long),
            session.with("mcp-session-id", "a b"),
        ] {
            assert_eq!(echoes(&bad, 1).await, 404, "{:?}", bad.headers);
        }
        // Above 4 KiB the store is not asked.
        let asked = store.0.opened.load(Ordering::Relaxed);
        assert_eq!(echoes(&session.with("mcp-session-id", &long), 1).await, 404);
        assert_eq!(store.0.opened.load(Ordering::Relaxed), asked);
        // A record of another principal is not used, whatever the store says.
        store.0.sessions.lock().unwrap().get_mut("session~0").unwrap().principal = None;
        assert_eq!(echoes(&session.with("authorization", "bob"), 1).await, 404);
    });
}

#[test]
fn a_session_that_is_not_stored_has_an_ordinary_id_and_an_id_that_cannot_be_sent_is_a_fault() {
    run(async {
        let store = Store::default();
        let [one, other] = two(&server(), &store);
        store.0.full.store(true, Ordering::Relaxed);
        let session = one.open(LEGACY).await;
        assert_eq!(echoes(&session, 1).await, 200);
        assert_eq!(echoes(&at(&session, &other), 1).await, 404);
        assert_eq!(session.send(Method::DELETE, "/mcp", "").await.status, 204);
        store.0.full.store(false, Ordering::Relaxed);
        for id in [String::new(), "a b".to_owned(), "x".repeat(4 * 1024 + 1)] {
            *store.0.id.lock().unwrap() = Some(id);
            let refused = one.post(initialize(LEGACY, json!({}))).await;
            assert_eq!((refused.status, one.service.sessions()), (500, 0));
        }
        *store.0.id.lock().unwrap() = Some("x".repeat(4 * 1024));
        let session = one.open(LEGACY).await;
        assert_eq!(echoes(&at(&session, &other), 2).await, 200);
    });
}

#[test]
fn the_store_learns_which_sessions_are_used_and_an_idle_one_ends_in_this_process_alone() {
    run(async {
        let store = Store::default();
        let options = HttpOptions::new().session_idle(Duration::from_secs(100));
        let one = Peer::new(&server(), options.session_store(store.clone()));
        let session = one.open(LEGACY).await;
        let passes = |seconds| tokio::time::timeout(Duration::from_secs(seconds), pending::<()>());
        for id in 0..3 {
            assert_eq!(echoes(&session, id).await, 200);
            passes(10).await.unwrap_err();
        }
        let touched = store.0.touched.lock().unwrap().len();
        assert!((2..=4).contains(&touched), "{touched}");
        passes(200).await.unwrap_err();
        assert_eq!((one.service.sessions(), store.records()), (0, 1));
        assert!(store.0.touched.lock().unwrap().len() <= touched + 1);
        assert_eq!(echoes(&session, 9).await, 200);
    });
}
