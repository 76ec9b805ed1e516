//! The session with a target on behalf of a client whose own session is stored, so that other processes can go on with both.
//!
//! Over HTTP a session with a legacy server is its id and what was agreed on, and a modern server has none. A child process, and
//! HTTP+SSE, cannot be shared: then the client's session belongs to this process. Used by `legacy`, `joined::legacy` and `pair`.

use std::future::pending;
use std::sync::Arc;

use mcpjoin::transport::{Link, UpstreamSession};
use mcpjoin_proto::session::EraChoice;
use mcpjoin_proto::{Era, ErrorObject, Payload, Raw, RequestId, Response};
use parking_lot::Mutex;
use tokio::sync::watch;

/// What the store of the clients' sessions needs to know of one of them. Implemented by what serves the client.
pub(super) trait StoredSession: Send + Sync {
    /// Returns what another process needs to go on with the session; `None` if none can.
    fn state(&self) -> Option<Raw>;

    /// Whether the session was stored.
    fn stored(&self, stored: bool);

    /// Whether the client has its stream open in this process.
    fn listens(&self, listens: bool);

    /// The client has ended the session.
    fn ended(&self);
}

/// The session with one target.
#[derive(Debug)]
pub(super) struct Portable {
    state: Mutex<State>,
    link: watch::Sender<Option<UpstreamSession>>,
}

#[derive(Debug, Default)]
struct State {
    /// The session to go on with in each link that is made. Set from the beginning, or once the session is stored.
    resumed: Option<Raw>,
    /// Whether it is a session with an id: other processes send requests in it at the same time.
    is_shared: bool,
    /// Whether messages that belong to no request are wanted in this process.
    listens: bool,
}

/// The member of the state of a session with a modern server.
const MODERN: &str = "modern";

/// The member of the state of a session with a legacy server: its id.
const ID: &str = "id";

impl State {
    fn resume(&mut self, state: Raw) {
        self.is_shared = state.member(ID).is_some();
        self.resumed = Some(state);
    }
}

impl Portable {
    /// `resumed`: the state of the session that another process has opened.
    pub(super) fn new(resumed: Option<Raw>) -> Arc<Self> {
        let mut state = State::default();
        if let Some(resumed) = resumed {
            state.resume(resumed);
        }
        Arc::new(Self { state: Mutex::new(state), link: watch::Sender::new(None) })
    }

    /// The only era in which the target may be opened. `None`: any.
    pub(super) fn era(&self) -> Option<EraChoice> {
        let state = self.state.lock();
        let is_modern = state.resumed.as_ref()?.member(MODERN).is_some();
        Some(EraChoice::Only(if is_modern { Era::Modern } else { Era::Legacy }))
    }

    /// Whether other processes may go on with the session.
    pub(super) fn is_stored(&self) -> bool {
        self.state.lock().resumed.is_some()
    }

    /// Whether other processes send requests in the session with the target at the same time.
    pub(super) fn is_shared(&self) -> bool {
        self.state.lock().is_shared
    }

    /// A link to the target was made.
    pub(super) fn attach(&self, link: &Link) {
        let session = link.upstream_session();
        let state = self.state.lock();
        if let Some(session) = &session {
            session.listen(state.listens);
            if let Some(resumed) = state.resumed.clone().filter(|resumed| resumed.member(MODERN).is_none()) {
                session.resume(resumed);
            }
        }
        drop(state);
        self.link.send_replace(session);
    }

    fn link(&self) -> Option<UpstreamSession> {
        self.link.borrow().clone()
    }

    /// Returns what another process needs to go on with the session; `None` if none can.
    pub(super) fn state(&self, is_modern: bool) -> Option<Raw> {
        let link = self.link()?;
        if is_modern {
            let state = Payload::from_raw(Raw::empty_object());
            return Some(state.with_member(MODERN, &Raw::from_value(&true).ok()?).into_raw());
        }
        link.state()
    }

    /// Whether the session of the client was stored. If not, only this process uses the session with the target.
    pub(super) fn stored(&self, stored: bool, is_modern: bool) {
        if !stored {
            return self.listens(true);
        }
        if let Some(opened) = self.state(is_modern) {
            self.state.lock().resume(opened);
        }
        if let Some(link) = self.link() {
            link.share();
        }
    }

    /// Whether messages that belong to no request are wanted in this process.
    pub(super) fn listens(&self, listens: bool) {
        self.state.lock().listens = listens;
        if let Some(link) = self.link() {
            link.listen(listens);
        }
    }

    /// Sends the answer to a question that the target has asked in another process.
    pub(super) fn answer(&self, id: RequestId, outcome: Result<Payload, ErrorObject>) {
        let response = Response { id: Some(id), outcome };
        if !self.link().is_some_and(|link| link.answer(response)) {
            tracing::debug!(target: "mcpjoin", "an answer of a client was not sent on");
        }
    }

    /// The session ends with its link.
    pub(super) fn ended(&self) {
        if let Some(link) = self.link() {
            link.end_with_link();
        }
    }

    /// Waits until the server has lost the session, which must not be replaced. Cancel-safe.
    pub(super) async fn lost(&self) {
        let mut links = self.link.subscribe();
        loop {
            let link = links.borrow_and_update().clone();
            let lost = async {
                match &link {
                    Some(link) => link.lost().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = lost => return,
                // The sender lives as long as `self`.
                _ = links.changed() => {}
            }
        }
    }
}
