//! Clients that call the tool `counted` of each server behind the joined endpoint, each call with its own number. Half of
//! them are of each era. Used by the tests of outages and of the policy.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::{Client, Link};

use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The time limit of a call. A call that reaches it has not ended.
const LIMIT: Duration = Duration::from_secs(40);
/// The time limit of a server to be reached again. On a busy machine one in Python starts in half a minute.
const REACHED: Duration = Duration::from_secs(120);
/// The time from a call of a client to its next one, or longer if the call takes longer.
const PACE: Duration = Duration::from_millis(150);

/// A call that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// The place of the server among all.
    pub(crate) server: usize,
    pub(crate) client: usize,
    pub(crate) number: u64,
    pub(crate) begun: Instant,
    pub(crate) ended: Instant,
    /// The text of the result, or the text of the error.
    pub(crate) outcome: Result<String, String>,
}

impl Ended {
    pub(crate) fn is_right(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|text| *text == self.number.to_string())
    }
}

/// The clients, which call until they are ended.
pub(crate) struct Load {
    shared: Arc<Shared>,
    clients: JoinSet<()>,
    pub(crate) count: usize,
}

struct Shared {
    names: Vec<&'static str>,
    numbers: AtomicU64,
    is_over: AtomicBool,
    ended: Mutex<Vec<Ended>>,
    /// A call has ended.
    news: Notify,
}

impl Load {
    /// Connects `count` clients, and lets them call the servers with these names, one after the other.
    pub(crate) async fn start(url: &str, count: usize, names: &[&'static str]) -> Self {
        Self::start_as(url, count, names, |_| "load".to_owned()).await
    }

    /// The same, and `called` is the name by which each client introduces itself.
    pub(crate) async fn start_as(
        url: &str,
        count: usize,
        names: &[&'static str],
        called: impl Fn(usize) -> String,
    ) -> Self {
        let shared = Arc::new(Shared {
            names: names.to_vec(),
            numbers: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            ended: Mutex::default(),
            news: Notify::new(),
        });
        let mut connecting = JoinSet::new();
        for client in 0..count {
            let link = Link::http(url).build().unwrap();
            let era = if client % 2 == 0 { Era::Legacy } else { Era::Modern };
            let builder = Client::builder(&called(client), "1").era(EraChoice::Only(era));
            connecting.spawn(async move { (client, builder.connect(link).await.unwrap()) });
        }
        let mut clients = JoinSet::new();
        for (number, client) in connecting.join_all().await {
            clients.spawn(call(shared.clone(), number, client));
        }
        Self { shared, clients, count }
    }

    /// Waits until each client has called this server successfully after `since`.
    pub(crate) async fn reaches(&self, server: usize, since: Instant) {
        let mut reached = vec![false; self.count];
        let mut read = 0;
        while reached.contains(&false) {
            let news = self.shared.news.notified();
            drop(timeout(REACHED.saturating_sub(since.elapsed()), news).await);
            let ended = self.shared.ended.lock().unwrap();
            for call in &ended[read..] {
                reached[call.client] |= call.server == server && call.begun >= since && call.is_right();
            }
            read = ended.len();
            let waited = since.elapsed();
            let missing = reached.iter().filter(|reached| !**reached).count();
            let last = ended.iter().rev().find(|call| call.server == server && !call.is_right());
            assert!(
                waited < REACHED,
                "{missing} of {} clients do not reach {} after {waited:?}; the last failure: {last:?}",
                self.count,
                self.shared.names[server]
            );
        }
    }

    /// Ends the clients, and returns all calls. Each call has ended.
    pub(crate) async fn end(self) -> Vec<Ended> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.clients.join_all().await;
        std::mem::take(&mut *self.shared.ended.lock().unwrap())
    }
}

async fn call(shared: Arc<Shared>, number: usize, client: Client) {
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace.tick().await;
    for server in (0..shared.names.len()).cycle().skip(number) {
        if shared.is_over.load(Ordering::Relaxed) {
            break;
        }
        let message = shared.numbers.fetch_add(1, Ordering::Relaxed);
        let tool = format!("{}__counted", shared.names[server]);
        let begun = Instant::now();
        let arguments = json!({ "message": message.to_string() });
        let result = client.call_tool(tool, arguments).timeout(LIMIT).total(LIMIT).await;
        let outcome = match result {
            Ok(result) if result.is_error == Some(true) => Err(format!("isError: {}", result.to_text())),
            Ok(result) => Ok(result.to_text()),
            Err(error) => Err(error.to_string()),
        };
        let ended = Ended { server, client: number, number: message, begun, ended: Instant::now(), outcome };
        shared.ended.lock().unwrap().push(ended);
        shared.news.notify_one();
        pace.tick().await;
    }
    client.close().await;
}
