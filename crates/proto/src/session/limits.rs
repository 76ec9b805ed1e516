//! The limits of a session. Everything is limited, every limit can be set, and every rejection names its limit.
//!
//! A test proves each default by setting the limit to 1.

use core::time::Duration;

use crate::DecodeLimits;

const MIB: usize = 1024 * 1024;

/// The limits of a session and of its link.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one message in either direction: 10 MiB. The joined replies of a batch are one message; a result that
    /// does not fit becomes an error.
    pub message: usize,
    /// The limits of the decoder: depth 128, ids of 4 KiB, batches of 100.
    pub decode: DecodeLimits,
    /// Timeout of a request since its start or its last progress: 60 s.
    pub request: Duration,
    /// Timeout of a request since its start: 10 min.
    pub request_total: Duration,
    /// Timeout of `initialize`: 30 s.
    pub initialize: Duration,
    /// Timeout of the probe for the era: 5 s.
    pub probe: Duration,
    /// Lines before the first message that are not messages, until the opening fails: 20.
    pub opening_garbage: usize,
    /// Requests of the peer that are handled at once: 1,024.
    pub handling: usize,
    /// Bytes of the requests that are handled at once: 128 MiB. One request is always handled, whatever its size.
    pub handling_bytes: usize,
    /// Bytes of requests that wait for a handler: 8 MiB.
    ///
    /// Above the limit, a request is rejected on a link with one exchange per request (HTTP, QUIC), and while a request
    /// of ours is pending at the peer. Otherwise (standard input and output, sockets, memory) reading pauses until a
    /// waiting request is dispatched, so that none is rejected. Messages behind them are then read late: cancellations,
    /// notifications, and the end of the stream. Reading resumes, and requests are rejected, when the peer has read
    /// nothing for a second, and when nothing was read for [`Limits::request`].
    pub waiting: usize,
    /// Bytes of replies that wait for the link: 8 MiB. Above half of it no request is dispatched. Above all of it
    /// reading stops; where requests share one stream, only replies made without a handler (rejections, responses to
    /// `ping`) count for this.
    ///
    /// Also the limit of the replies in incomplete batches. One batch alone may hold as much as a message; above that,
    /// results become errors and batches are rejected.
    pub queued_replies: usize,
    /// Pending requests of ours: 10,000. Further calls wait.
    pub in_flight: usize,
    /// Bytes of own messages that wait for the link: 8 MiB. Further calls wait.
    pub queued_calls: usize,
    /// How long the peer may read nothing while messages wait for it: 30 s.
    pub write_stall: Duration,
    /// How long pending requests may continue after the peer has closed its side: 10 s.
    pub drain: Duration,
    /// Resources and tasks that a peer may subscribe to, and streams that it may open: 1,024 each.
    pub subscriptions: usize,
    /// Bytes of the name of a subscribed resource or task: 8 KiB.
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
