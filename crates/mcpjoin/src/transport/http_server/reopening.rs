//! Opens a session of the store in a process that does not have it.
//!
//! Called for a request whose session is not in the table. Requests of one principal that name the same session wait for one
//! reopening, and share how it ends. The connection gets the client's `initialize` and `initialized`, and its reply is
//! dropped: the client has one.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use crate::sync::Mutex;
use bytes::Bytes;
use mcpjoin_proto::http::response_head::is_session_id;
use mcpjoin_proto::session::{Inbound, Origin};
use mcpjoin_proto::text::Line;
use mcpjoin_proto::{Message, Method, Notification, Payload, Profile, Request, RequestId};
use tokio::sync::OnceCell;

use super::entry::Entry;
use super::events::SessionId;
use super::exchange::{Exchange, Owner};
use super::head::Refusal;
use super::memory::Account;
use super::session_store::{MAX_ID_BYTES, SessionStore};
use super::sessions::{Problem, Session};
use super::wire::{Head, Routing};
use super::{Shared, legacy, reply};

/// The characters of a reply that are logged.
const MAX_REPLY_CHARS: usize = 200;

/// The reopenings in progress, by session and principal. There are at most as many as requests in progress.
#[derive(Default)]
pub(super) struct Reopenings(Mutex<HashMap<Key, Weak<OnceCell<Outcome>>>>);

type Key = (SessionId, Option<Box<str>>);

/// How a reopening has ended.
#[derive(Clone)]
enum Outcome {
    /// The session is in the table.
    Open,
    /// There is no such session for this principal, or nothing can go on with it.
    Gone,
    /// The client may try again: why not now.
    Later(Box<str>),
}

/// A request that waits for a reopening.
struct Waiting<'a> {
    reopenings: &'a Reopenings,
    key: Key,
    cell: Arc<OnceCell<Outcome>>,
}

impl Reopenings {
    fn join(&self, key: Key) -> Waiting<'_> {
        let mut all = self.0.lock();
        let running = all.get(&key).and_then(Weak::upgrade);
        let cell = running.unwrap_or_else(|| {
            let cell = Arc::default();
            all.insert(key.clone(), Arc::downgrade(&cell));
            cell
        });
        Waiting { reopenings: self, key, cell }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut all = self.reopenings.0.lock();
        // A request that comes after the end begins anew; so does one after the last that has waited.
        if self.cell.initialized() || Arc::strong_count(&self.cell) == 1 {
            let is_own = all.get(&self.key).is_some_and(|cell| Weak::as_ptr(cell) == Arc::as_ptr(&self.cell));
            if is_own {
                all.remove(&self.key);
            }
        }
    }
}

/// Finds a session of the store by its id, and opens it in this process if it is not open here.
///
/// # Errors
/// 503 if the store is not available, or if there is no room for one more session.
pub(super) async fn find(
    shared: &Arc<Shared>,
    store: &Arc<dyn SessionStore>,
    named: &[u8],
    origin: &Arc<Origin>,
    account: &Arc<Account>,
) -> Result<Option<Arc<Session>>, Refusal> {
    let id = std::str::from_utf8(named).ok().filter(|id| is_stored_id(id));
    let Some(id) = id else { return Ok(None) };
    let (name, principal) = (SessionId::of_stored(id), origin.principal.clone());
    if let Some(session) = shared.sessions.find(&name, principal.as_deref()) {
        return Ok(Some(session));
    }
    let waiting = shared.reopenings.join((name, principal.clone()));
    let outcome = waiting.cell.get_or_init(|| reopen(shared, store, id, origin, account)).await.clone();
    drop(waiting);
    match outcome {
        Outcome::Open => Ok(shared.sessions.find(&name, principal.as_deref())),
        Outcome::Gone => Ok(None),
        Outcome::Later(why) => Err(reply::unavailable(&why).into()),
    }
}

/// Whether a text may be the id of a stored session.
pub(super) fn is_stored_id(id: &str) -> bool {
    id.len() <= MAX_ID_BYTES && is_session_id(id.as_bytes())
}

async fn reopen(
    shared: &Arc<Shared>,
    store: &Arc<dyn SessionStore>,
    id: &str,
    origin: &Arc<Origin>,
    account: &Arc<Account>,
) -> Outcome {
    let record = match store.open(id, origin.principal.as_deref()).await {
        Ok(Some(record)) if record.principal == origin.principal => record,
        Ok(_) => return Outcome::Gone,
        Err(error) => {
            shared.sessions.warn(Problem::Store, account, &error.to_string());
            return Outcome::Later(error.to_string().into());
        }
    };
    // Another request may have opened it while this one waited for the store.
    let name = SessionId::of_stored(id);
    if shared.sessions.find(&name, origin.principal.as_deref()).is_some() {
        return Outcome::Open;
    }
    let failed = |why: &str| {
        shared.sessions.warn(Problem::NotReopened, account, why);
        Outcome::Gone
    };
    let Some(state) = record.state else { return failed("only the process that has opened it can serve it") };
    let Ok(place) = shared.reserve_session(account) else {
        return Outcome::Later("too many sessions".into());
    };
    let Ok(entry) = shared.open_with(Routing::Session, |served, link| served.reopen(link, &state)) else {
        return Outcome::Later("the server is shutting down".into());
    };
    entry.wire.charge_to(account.clone());
    let request_id = RequestId::from("mcpjoin-reopen");
    let params = Some(Payload::from_raw(record.initialize));
    let initialize = Message::Request(Request { id: request_id.clone(), method: Method::Initialize, params });
    let size = initialize.payload_len();
    let inbound = Inbound::Message { message: initialize, origin: origin.clone() };
    let Ok(reader) = entry.wire.begin(std::slice::from_ref(&request_id), inbound, size) else {
        return failed("its connection took no message");
    };
    let exchange = Exchange::new(reader, Owner::Once(entry.clone()));
    entry.run();
    let Head::Json { status, body } = exchange.head(None).await else {
        return failed("its connection has ended");
    };
    drop(exchange);
    let agreed = entry.served().version().and_then(|version| Some((Profile::of(&version)?, version)));
    let Some((profile, version)) = agreed else {
        let why = shown(&body);
        if status.is_for_later() {
            return Outcome::Later(why.into());
        }
        return failed(&why);
    };
    if !initialized(&entry, origin) {
        return failed("its connection took no message");
    }
    tracing::debug!(target: "mcpjoin", client = %account, "a session of the store was opened in this process");
    let stored = Some(id.into());
    legacy::insert(shared, place, entry, profile, version, origin.principal.clone(), name, stored);
    Outcome::Open
}

/// Tells a connection that its client is initialized. The client tells it once, in one process. Returns false if the connection has
/// ended.
pub(super) fn initialized(entry: &Entry, origin: &Arc<Origin>) -> bool {
    let message = Message::Notification(Notification { method: Method::Initialized, params: None });
    let delivered = entry.wire.deliver(Inbound::Message { message, origin: origin.clone() }, 0).is_ok();
    entry.run();
    delivered
}

/// The beginning of a reply, for the log.
fn shown(body: &Bytes) -> String {
    Line::of(&String::from_utf8_lossy(body)).truncated(MAX_REPLY_CHARS).to_string()
}
