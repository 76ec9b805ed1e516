//! A link whose received lines are kept byte for byte, with the time of each.
//!
//! Used by [`LineSession`](super::LineSession), and by the validation of clients over lines. It checks no message.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mcpjoin::transport::{Direction, Inspected, Link, RawLink};
use mcpjoin_proto::DecodeErrorKind;
use mcpjoin_proto::session::{Inbound, Limits, Outbound, Route, TransportEnd};
use mcpjoin_rules::Line;
use tokio::time::{Instant, timeout};

/// Received lines that have not been taken yet.
type Lines = Arc<Mutex<VecDeque<(Instant, Bytes)>>>;

/// A bare link that keeps the bytes of each line it receives until the line is taken.
pub(crate) struct RecordedLink {
    link: RawLink,
    lines: Lines,
}

/// What a link has received.
pub(super) enum LinkEvent {
    /// A line, and what the link makes of it.
    Line { at: Instant, bytes: Bytes, inbound: Inbound },
    /// Something that is no line: a byte order mark, the end of one stream, the end of the link.
    Other(Inbound),
}

impl RecordedLink {
    pub(crate) fn new(link: Link, limits: &Limits) -> Self {
        let lines: Lines = Arc::default();
        let recorded = Arc::clone(&lines);
        let link = link.inspected(move |direction, inspected| {
            if let (Direction::In, Inspected::Line(line)) = (direction, inspected) {
                let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
                recorded.push_back((Instant::now(), Bytes::copy_from_slice(line)));
            }
        });
        Self { link: link.raw(limits), lines }
    }

    /// Waits for the next event. Cancel-safe. After [`Inbound::Closed`] nothing more is received.
    pub(super) async fn recv(&mut self) -> LinkEvent {
        let inbound = self.link.recv().await;
        if !matches!(inbound, Inbound::Message { .. } | Inbound::Batch { .. } | Inbound::Malformed { .. }) {
            return LinkEvent::Other(inbound);
        }
        let line = self.lines.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        match line {
            Some((at, bytes)) => LinkEvent::Line { at, bytes, inbound },
            // A link that does not show its lines to an inspector.
            None => LinkEvent::Other(inbound),
        }
    }

    /// Waits for the next line; `None` at the end of the link. Cancel-safe.
    pub(crate) async fn next_line(&mut self) -> Option<Line> {
        loop {
            match self.recv().await {
                LinkEvent::Line { bytes, inbound, .. } => return Some(recorded(bytes, &inbound)),
                LinkEvent::Other(Inbound::Closed { .. }) => return None,
                LinkEvent::Other(_) => {}
            }
        }
    }

    /// Sends a line. A link that does not carry bytes is given the messages of the line.
    pub(crate) fn send_line(&mut self, line: &[u8]) {
        if self.link.push_bytes([line, b"\n"].concat()) {
            return;
        }
        for message in Line::new(Bytes::copy_from_slice(line)).parts().filter_map(Result::ok) {
            self.link.push(Outbound::Message { message: message.clone(), route: Route::Session });
        }
    }

    /// Sends bytes without the end of a line. A link that does not carry bytes drops them.
    pub(crate) fn send_bytes(&mut self, bytes: &str) {
        let _ = self.link.push_bytes(Bytes::copy_from_slice(bytes.as_bytes()));
    }

    /// Waits until everything is sent, or for `within`. The rest is sent with the next `recv`.
    pub(crate) async fn flush(&mut self, within: Duration) {
        let _ = timeout(within, self.link.flush()).await;
    }

    /// Closes the output of the link and waits until the peer has closed its own.
    pub(crate) async fn close(&mut self) -> TransportEnd {
        self.link.close().await
    }
}

/// The line as the rules read it. Of a line above the limit, only the beginning is known.
pub(super) fn recorded(bytes: Bytes, inbound: &Inbound) -> Line {
    match inbound {
        Inbound::Malformed { error, .. } if matches!(error.kind, DecodeErrorKind::TooLarge { .. }) => {
            Line::too_long(bytes, error.clone())
        }
        _ => Line::new(bytes),
    }
}
