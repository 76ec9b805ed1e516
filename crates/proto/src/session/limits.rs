//! The limits of a session. Everything is limited, every limit can be set, and every rejection names its limit.
//!
//! A test proves each default by setting the limit to 1.

use core::time::Duration;

use crate::DecodeLimits;

const MIB: usize = 1024 * 1024;

/// The limits of a session and of its link.
///
/// ```
/// use core::time::Duration;
/// use mcpjoin_proto::session::Limits;
///
/// let limits = Limits::default().with_message(1024 * 1024).with_request(Duration::from_secs(5));
/// assert_eq!(limits.message, 1024 * 1024);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one message in either direction: 10 MiB. The joined replies of a batch are one message; a result that
    /// does not fit becomes an error.
    pub message: usize,
    /// The limits of the decoder: depth 128, ids of 4 KiB, batches of 100.
    pub decode: DecodeLimits,
    /// Timeout of a request since its start or its last progress: 60 s. A client whose server waits for an answer (a sampling
    /// or an elicitation) waits longer, up to [`Limits::request_total`]: a person may be typing it.
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

macro_rules! setters {
    ($($field:ident: $type:ty => $setter:ident,)*) => {
        impl Limits {$(
            #[doc = concat!("Sets [`", stringify!($field), "`](Self::", stringify!($field), ").")]
            #[must_use]
            pub const fn $setter(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            }
        )*}
    };
}

setters! {
    message: usize => with_message,
    decode: DecodeLimits => with_decode,
    request: Duration => with_request,
    request_total: Duration => with_request_total,
    initialize: Duration => with_initialize,
    probe: Duration => with_probe,
    opening_garbage: usize => with_opening_garbage,
    handling: usize => with_handling,
    handling_bytes: usize => with_handling_bytes,
    waiting: usize => with_waiting,
    queued_replies: usize => with_queued_replies,
    in_flight: usize => with_in_flight,
    queued_calls: usize => with_queued_calls,
    write_stall: Duration => with_write_stall,
    drain: Duration => with_drain,
    subscriptions: usize => with_subscriptions,
    subscription_bytes: usize => with_subscription_bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_a_setter_that_sets_it_and_no_other() {
        let decode = DecodeLimits { depth: 1, id_bytes: 2, batch: 3 };
        let seconds = Duration::from_secs;
        // A new limit does not compile here until it has its line.
        let expected = Limits {
            message: 4,
            decode: decode.clone(),
            request: seconds(5),
            request_total: seconds(6),
            initialize: seconds(7),
            probe: seconds(8),
            opening_garbage: 9,
            handling: 10,
            handling_bytes: 11,
            waiting: 12,
            queued_replies: 13,
            in_flight: 14,
            queued_calls: 15,
            write_stall: seconds(16),
            drain: seconds(17),
            subscriptions: 18,
            subscription_bytes: 19,
        };
        let set = Limits::default()
            .with_message(4)
            .with_decode(decode)
            .with_request(seconds(5))
            .with_request_total(seconds(6))
            .with_initialize(seconds(7))
            .with_probe(seconds(8))
            .with_opening_garbage(9)
            .with_handling(10)
            .with_handling_bytes(11)
            .with_waiting(12)
            .with_queued_replies(13)
            .with_in_flight(14)
            .with_queued_calls(15)
            .with_write_stall(seconds(16))
            .with_drain(seconds(17))
            .with_subscriptions(18)
            .with_subscription_bytes(19);
        assert_eq!(set, expected);
    }
}
