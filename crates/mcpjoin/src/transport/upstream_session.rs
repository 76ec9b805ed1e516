//! The legacy session of a link over HTTP, for an owner whose own clients may reach it through several processes.
//!
//! Used by the crate `mcpjoin-gateway`. The link writes what it has negotiated here, and reads here how to treat the session.
//! Nothing of it changes what a link does whose session has no owner.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use crate::sync::Mutex;
use mcpjoin_proto::{Payload, Raw, Response};
use tokio::sync::watch;

/// Answers of other processes' clients that the link has not taken yet. Beyond it, an answer is dropped.
const MAX_ANSWERS: usize = 64;

/// A handle of the legacy session of a link over HTTP. Cheap to clone.
///
/// Sessions of such servers are shared between processes, each with a link of its own: one link opens the session, the others
/// go on with it ([`resume`](Self::resume)).
#[derive(Clone, Default)]
pub struct UpstreamSession(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    lost: watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    /// What [`UpstreamSession::state`] returns.
    opened: Option<Raw>,
    resumed: Option<Raw>,
    shared: bool,
    ended: bool,
    /// Whether the stream of the session stays closed.
    silent: bool,
    /// Whether an owner has a clone.
    held: bool,
    /// Answers to questions that the server has asked another link.
    answers: Vec<Response>,
    /// The task that drives the link.
    driver: Option<Waker>,
}

impl UpstreamSession {
    /// Goes on with a session that another link has opened: the link answers `initialize` itself, as the server did. Called
    /// before the first message. `state` is what [`state`](Self::state) of the other link has returned.
    pub fn resume(&self, state: Raw) {
        let mut own = self.0.state.lock();
        own.opened = Some(state.clone());
        (own.resumed, own.shared) = (Some(state), true);
    }

    /// Returns what another link needs to go on with the session. `None` if no session is open, or if it is one of HTTP+SSE.
    /// Its id is a secret.
    #[must_use]
    pub fn state(&self) -> Option<Raw> {
        self.0.state.lock().opened.clone()
    }

    /// From now on other links may use the session at the same time. It does not end with this link. If the server has lost it, the
    /// link opens no other one: requests fail, and the owner is notified ([`lost`](Self::lost)).
    pub fn share(&self) {
        self.0.state.lock().shared = true;
    }

    /// The session ends with this link, although it is shared.
    pub fn end_with_link(&self) {
        self.0.state.lock().ended = true;
    }

    /// Whether the link has the stream of the session open, for messages that belong to no request. By default it has. Many
    /// servers allow one such stream for a session.
    pub fn listen(&self, listen: bool) {
        let mut state = self.0.state.lock();
        let changed = state.silent == listen;
        state.silent = !listen;
        let driver = if changed { state.driver.take() } else { None };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Sends the answer to a question that the server has asked on another link to the session. Returns false if too many of them
    /// wait for the link.
    pub fn answer(&self, response: Response) -> bool {
        let mut state = self.0.state.lock();
        if state.answers.len() >= MAX_ANSWERS {
            return false;
        }
        state.answers.push(response);
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        true
    }

    /// Whether the server has lost the shared session.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        *self.0.lost.borrow()
    }

    /// Waits until the server has lost the shared session. Cancel-safe.
    pub async fn lost(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.lost.subscribe().wait_for(|lost| *lost).await;
    }
}

/// What only the link uses.
#[cfg(feature = "http-client")]
impl UpstreamSession {
    /// A clone for an owner.
    pub(super) fn hold(&self) -> Self {
        self.0.state.lock().held = true;
        self.clone()
    }

    /// Whether an owner has a clone.
    pub(super) fn is_held(&self) -> bool {
        self.0.state.lock().held
    }

    /// The session was opened, with this id and this result of `initialize`.
    pub(super) fn opened(&self, id: Option<&str>, result: &Payload) {
        if self.is_held() {
            self.0.state.lock().opened = Some(written(id, result));
        }
    }

    pub(super) fn resumed(&self) -> Option<Raw> {
        self.0.state.lock().resumed.clone()
    }

    pub(super) fn is_shared(&self) -> bool {
        self.0.state.lock().shared
    }

    /// Whether the end of the link is the end of the session.
    pub(super) fn ends_with_link(&self) -> bool {
        let state = self.0.state.lock();
        !state.shared || state.ended
    }

    /// Whether the stream is to be open. The waker is called when that changes.
    pub(super) fn listens(&self, driver: &Waker) -> bool {
        let mut state = self.0.state.lock();
        match &mut state.driver {
            Some(known) => known.clone_from(driver),
            none => *none = Some(driver.clone()),
        }
        !state.silent
    }

    pub(super) fn take_answers(&self) -> Vec<Response> {
        std::mem::take(&mut self.0.state.lock().answers)
    }

    pub(super) fn is_silent(&self) -> bool {
        self.0.state.lock().silent
    }

    pub(super) fn note_lost(&self) {
        self.0.lost.send_replace(true);
    }
}

/// Returns the state of a session: its id, and of the result of `initialize` what the peers have agreed on. Instructions, icons and
/// descriptions are left out, because the client has them.
#[cfg(feature = "http-client")]
fn written(id: Option<&str>, result: &Payload) -> Raw {
    let info = result.raw().member("serverInfo");
    let short = |member: &str| info.as_ref()?.member(member);
    let mut server = Payload::from_raw(Raw::empty_object());
    for member in ["name", "version"] {
        let text = short(member).unwrap_or_else(|| Raw::string(""));
        server = server.with_member(member, &text);
    }
    let mut agreed = Payload::from_raw(Raw::empty_object());
    for member in ["protocolVersion", "capabilities"] {
        if let Some(value) = result.raw().member(member) {
            agreed = agreed.with_member(member, &value);
        }
    }
    let agreed = agreed.with_member("serverInfo", server.raw());
    let state = Payload::from_raw(Raw::empty_object()).with_member("result", agreed.raw());
    match id {
        Some(id) => state.with_member("id", &Raw::string(id)).into_raw(),
        None => state.into_raw(),
    }
}

/// The id is a secret.
impl fmt::Debug for UpstreamSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamSession").field("lost", &self.is_lost()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_the_link_does_not_take_are_bounded() {
        let session = UpstreamSession::default();
        let answer =
            || session.answer(Response { id: None, outcome: Ok(Payload::from_raw(Raw::empty_object())) });
        assert!((0..MAX_ANSWERS).all(|_| answer()) && !answer());
    }
}
