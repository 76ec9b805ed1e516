//! When a server cannot answer now: what is sent a second time, when, and what is not.
//!
//! Called by `exchange` and `resuming`. Nothing here sends anything.

use std::time::Duration;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use mcpjoin_proto::Message;
use mcpjoin_proto::Method;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::reply::retry_after;
use mcpjoin_proto::session::Outbound;

/// How often a server that cannot answer now is asked again while a connection opens, or is to take a response, and it does
/// not say when to come.
pub(super) const UNASKED_RETRIES: u32 = 3;
/// The first of these waits; doubled each time.
pub(super) const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The least wait when the server says when to come; doubled each time, so that `Retry-After: 0` is no tight loop.
const LEAST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait that a server may ask for (adversarial case 113).
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait that is told to a person: a day. What asks for more does not mean it.
const LONGEST_TOLD: Duration = Duration::from_secs(86_400);

/// Whether a message may be sent once more after the server, or a proxy before it, has answered that it cannot now.
///
/// [RFC 9110, 9.2.2](https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2): what is not idempotent is not repeated unless
/// it is known that it was never applied, and every message of MCP is a POST. A 429 says that: the request was not let in
/// because others came before it ([RFC 6585, 4](https://www.rfc-editor.org/rfc/rfc6585#section-4)). A 503
/// ([RFC 9110, 15.6.4](https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4)) does not: a proxy says it as well of a
/// request that the server was already at work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeatable {
    /// It opens a connection: nothing has happened before it is answered.
    Opening,
    /// It has no effects, or the same ones however often it comes.
    Always,
    /// A response, which the server takes once, however often it comes, and waits for.
    Awaited,
    /// It may do something each time: only when it was certainly not let in.
    Refused,
}

impl Repeatable {
    pub(super) fn of(outbound: &Outbound) -> Self {
        let message = match outbound {
            Outbound::Message { message, .. } => message,
            // A client says nothing in arrays but responses.
            Outbound::Batch { .. } => return Self::Awaited,
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => return Self::Refused,
        };
        match message {
            Message::Request(request) => match request.method {
                Method::Discover | Method::Initialize => Self::Opening,
                Method::Ping
                | Method::Listen
                | Method::ListTools
                | Method::ListResources
                | Method::ListResourceTemplates
                | Method::ReadResource
                | Method::ListPrompts
                | Method::GetPrompt
                | Method::Complete
                | Method::SetLevel
                | Method::Subscribe
                | Method::Unsubscribe
                | Method::GetTask
                | Method::GetTaskResult
                | Method::ListTasks => Self::Always,
                // Tools, and whatever nobody here knows.
                _ => Self::Refused,
            },
            // Those of the specification state how something is, and do nothing.
            Message::Notification(told) if !matches!(told.method, Method::Other(_)) => Self::Always,
            Message::Notification(_) => Self::Refused,
            Message::Response(_) => Self::Awaited,
        }
    }

    /// Whether somebody waits for it who waits for nothing else: it is sent again although nobody asks for that.
    pub(super) const fn is_urgent(self) -> bool {
        matches!(self, Self::Opening | Self::Awaited)
    }

    /// How long to wait before the same is sent again; `None` when it is not to be. `waits`: how often that was done.
    pub(super) fn pause(self, status: StatusCode, head: &HeaderMap, waits: u32) -> Option<Duration> {
        let may = match status {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::SERVICE_UNAVAILABLE => self != Self::Refused,
            StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                self.is_urgent()
            }
            _ => false,
        };
        if !may {
            return None;
        }
        let asked = asked_to_wait(head).map(|asked| asked.max(LEAST_WAIT * 2_u32.saturating_pow(waits)));
        let unasked = self.is_urgent() && waits < UNASKED_RETRIES;
        asked.or_else(|| unasked.then(|| FIRST_WAIT * 2_u32.saturating_pow(waits)))
    }
}

/// What a server says about when to come again.
pub(super) fn asked_to_wait(head: &HeaderMap) -> Option<Duration> {
    let value = head.get(name::RETRY_AFTER)?;
    let date = head.get(header::DATE).map(HeaderValue::as_bytes);
    retry_after(value.as_bytes(), date)
}

/// The same in words, where the status is one that passes: said of what was not sent again, because that would have taken
/// too long or is not to be done by itself.
pub(super) fn told_to_wait(status: StatusCode, head: &HeaderMap) -> Option<String> {
    let later = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    let wait = asked_to_wait(head).filter(|wait| later && *wait <= LONGEST_TOLD)?;
    Some(format!("the server asks to try again after {} s", wait.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f113_what_may_have_effects_is_repeated_only_where_it_was_not_let_in() {
        let mut head = HeaderMap::new();
        head.insert(name::RETRY_AFTER, HeaderValue::from_static("2"));
        let two = Some(Duration::from_secs(2));
        for (status, urgent, always, refused) in [
            (429, two, two, two),
            (503, two, two, None),
            (502, two, None, None),
            (500, None, None, None),
            (404, None, None, None),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            let waits = [Repeatable::Opening, Repeatable::Awaited, Repeatable::Always, Repeatable::Refused]
                .map(|repeatable| repeatable.pause(status, &head, 0));
            assert_eq!(waits, [urgent, urgent, always, refused], "{status}");
        }
        assert_eq!(Repeatable::Always.pause(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), 0), None);
    }

    #[test]
    fn who_asks_to_come_at_once_is_asked_later_each_time() {
        let mut head = HeaderMap::new();
        head.insert(name::RETRY_AFTER, HeaderValue::from_static("0"));
        let pause = |waits| Repeatable::Refused.pause(StatusCode::TOO_MANY_REQUESTS, &head, waits);
        assert_eq!([0, 1, 3].map(pause), [100, 200, 800].map(|ms| Some(Duration::from_millis(ms))));
    }

    #[test]
    fn when_to_come_again_is_told_where_the_status_passes_and_the_wait_is_meant() {
        for (status, asked, told) in [
            (503, "2", Some("the server asks to try again after 2 s")),
            (429, "86400", Some("the server asks to try again after 86400 s")),
            (429, "86401", None),
            (404, "2", None),
        ] {
            let mut head = HeaderMap::new();
            head.insert(name::RETRY_AFTER, HeaderValue::from_static(asked));
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(told_to_wait(status, &head).as_deref(), told, "{status} {asked}");
        }
    }
}
