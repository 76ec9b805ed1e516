//! The bounds of a session. Nothing is unbounded, every bound can be set, and what is refused says which
//! bound refused it.
//!
//! The defaults are those of the project's interface page; each is proved by a test that sets it to 1.

use core::time::Duration;

use crate::DecodeLimits;

const MIB: usize = 1024 * 1024;

/// The bounds of a session and of the link below it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one message, each way: 10 MiB. The joined replies of a batch are one message; a result that does not fit
    /// becomes an error.
    pub message: usize,
    /// What the decoder accepts: depth 128, ids of 4 KiB, batches of 100.
    pub decode: DecodeLimits,
    /// How long a request may take without a sign of life: 60 s. Progress starts it again.
    pub request: Duration,
    /// How long a request may take in all, progress or not: 10 min.
    pub request_total: Duration,
    /// How long `initialize` may take: 30 s.
    pub initialize: Duration,
    /// How long to wait for the answer to the probe of the era: 5 s.
    pub probe: Duration,
    /// Lines that are no message before the first that is one, until an opening connection is given up: 20.
    pub opening_garbage: usize,
    /// Requests of the peer being handled at once: 1,024.
    pub handling: usize,
    /// Bytes of the requests being handled at once: 128 MiB. One is always handled, however large it is.
    pub handling_bytes: usize,
    /// Bytes of requests that wait to be handled: 8 MiB.
    ///
    /// Where each request has an exchange of its own (HTTP, QUIC), and while a request of ours is pending at the peer, what
    /// comes beyond is refused. Otherwise (standard input and output, sockets, memory) nothing more is read until one of
    /// them is begun, so that none is refused. What stands behind them is then read late: cancellations, notifications,
    /// and the end of the stream. Reading goes on, and requests are refused, when the peer has taken nothing of what it
    /// is owed for a second, and when nothing was read for [`Limits::request`].
    pub waiting: usize,
    /// Bytes of replies not yet taken by the link: 8 MiB. From half of it on no request is begun. Where each request has
    /// an exchange of its own, nothing is read beyond it; elsewhere nothing is read when those of them that no handler
    /// has made (refusals, answers to `ping`) pass it.
    ///
    /// It is also the bound of the replies that are held until the batches of their requests are complete. A batch alone
    /// may hold as much as a message; beyond, results become errors and batches are refused.
    pub queued_replies: usize,
    /// Own requests without an answer: 10,000. Beyond, a call waits.
    pub in_flight: usize,
    /// Bytes of own messages not yet taken by the link: 8 MiB. Beyond, a call waits.
    pub queued_calls: usize,
    /// How long the peer may take not a single byte while we owe it some: 30 s.
    pub write_stall: Duration,
    /// How long requests in progress may go on after the peer has closed its side: 10 s.
    pub drain: Duration,
    /// Resources and tasks that a peer may be subscribed to, and streams it may listen on: 1,024 each.
    pub subscriptions: usize,
    /// Bytes of the name of a resource or task that a peer may be subscribed to: 8 KiB.
    pub subscription_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message: 10 * MIB,
            decode: DecodeLimits::default(),
            request: Duration::from_secs(60),
            request_total: Duration::from_secs(600),
            initialize: Duration::from_secs(30),
            probe: Duration::from_secs(5),
            opening_garbage: 20,
            handling: 1024,
            handling_bytes: 128 * MIB,
            waiting: 8 * MIB,
            queued_replies: 8 * MIB,
            in_flight: 10_000,
            queued_calls: 8 * MIB,
            write_stall: Duration::from_secs(30),
            drain: Duration::from_secs(10),
            subscriptions: 1024,
            subscription_bytes: 8 * 1024,
        }
    }
}
