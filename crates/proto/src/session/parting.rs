//! A server that sends its client away in the middle of a request, to be asked again: 2025-11-25 alone.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>. That the
//! stream is closed, and that nothing is lost, is up to the link ([`Outbound::CloseStream`](super::Outbound::CloseStream)).

use super::{NotifyRefused, Session};
use crate::RequestId;

impl Session {
    /// Closes the stream of a request of the peer, behind what was said on it so far; the peer comes back for the rest.
    /// Nothing is closed where the peer would not come back: on links without exchanges, and in revisions that do not
    /// know it.
    ///
    /// # Errors
    /// When the request is no longer being handled.
    pub fn close_stream(&mut self, id: &RequestId) -> Result<(), NotifyRefused> {
        let polled = self.profile().is_some_and(|profile| profile.http_priming_event);
        if !polled || !self.shared.caps.exchanges {
            return Ok(());
        }
        let incoming = self.shared.debt.find(id).ok_or(NotifyRefused::NoSuchRequest)?;
        let notes = incoming.notes_mut();
        notes.closing = Some(self.shared.queue.push_close_stream(notes.closing, id.clone()));
        Ok(())
    }
}
