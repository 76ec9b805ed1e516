//! Which messages are sent again when the server cannot process them now, and after which delay.
//!
//! Asked by `exchange`, `session` and the streams. Nothing here sends.

use std::time::Duration;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use mcpjoin_proto::Message;
use mcpjoin_proto::Method;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::response_head::retry_after;
use mcpjoin_proto::session::Outbound;

/// How often an urgent message is sent again if the server does not say when.
pub(super) const MAX_UNASKED_RETRIES: u32 = 3;
/// The first delay then; doubled each time.
pub(super) const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);
/// The shortest delay if the server says when; doubled each time, so that `Retry-After: 0` makes no tight loop.
const MIN_RETRY_AFTER_DELAY: Duration = Duration::from_millis(100);
/// The longest delay that a server may ask for (adversarial case 113).
pub(super) const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// From this delay on, a user may take the wait for a hang: the event has a target of its own.
pub(super) const MIN_TOLD_DELAY: Duration = Duration::from_secs(1);
/// The longest delay that errors mention: a day. A longer one is a mistake of the server.
const MAX_SHOWN_RETRY_AFTER: Duration = Duration::from_secs(86_400);

/// Whether a message may be sent again after the server, or a proxy before it, has answered that it cannot process it now.
///
/// A request that is not idempotent is repeated only if it is known that it was never applied
/// ([RFC 9110, 9.2.2](https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2)), and every message of MCP is a POST. A 429 says
/// that it was not applied ([RFC 6585, 4](https://www.rfc-editor.org/rfc/rfc6585#section-4)). A 503
/// ([RFC 9110, 15.6.4](https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4)) does not: a proxy sends it also for a request
/// that the server processes already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryClass {
    /// It opens the session: it has no effect before its response.
    Opening,
    /// It is idempotent, or has no effect.
    Always,
    /// Our response, which the server waits for and accepts once.
    Awaited,
    /// It may have an effect each time: sent again only if the server has certainly not processed it.
    NotIdempotent,
}

impl RetryClass {
    pub(super) fn of(outbound: &Outbound) -> Self {
        let message = match outbound {
            Outbound::Message { message, .. } => message,
            // A client sends no arrays but of responses.
            Outbound::Batch { .. } => return Self::Awaited,
            Outbound::Abort { .. } | Outbound::CloseStream { .. } => return Self::NotIdempotent,
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
                // Tools, and methods that are not known here.
                _ => Self::NotIdempotent,
            },
            // Those of the specification describe a state.
            Message::Notification(notification) if !matches!(notification.method, Method::Other(_)) => {
                Self::Always
            }
            Message::Notification(_) => Self::NotIdempotent,
            Message::Response(_) => Self::Awaited,
        }
    }

    /// Whether it is sent again also if the server does not ask for that, because everything else waits for it.
    pub(super) const fn is_urgent(self) -> bool {
        matches!(self, Self::Opening | Self::Awaited)
    }

    /// The delay before the message is sent again; `None` if it is not. `waits`: how often it was sent again before.
    pub(super) fn delay(self, status: StatusCode, head: &HeaderMap, waits: u32) -> Option<Duration> {
        let may = match status {
            StatusCode::TOO_MANY_REQUESTS => true,
            StatusCode::SERVICE_UNAVAILABLE => self != Self::NotIdempotent,
            StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                self.is_urgent()
            }
            _ => false,
        };
        if !may {
            return None;
        }
        let asked =
            retry_after_of(head).map(|asked| asked.max(MIN_RETRY_AFTER_DELAY * 2_u32.saturating_pow(waits)));
        let unasked = self.is_urgent() && waits < MAX_UNASKED_RETRIES;
        asked.or_else(|| unasked.then(|| FIRST_RETRY_DELAY * 2_u32.saturating_pow(waits)))
    }
}

/// The value of `Retry-After`, as a delay.
pub(super) fn retry_after_of(head: &HeaderMap) -> Option<Duration> {
    let value = head.get(name::RETRY_AFTER)?;
    let date = head.get(header::DATE).map(HeaderValue::as_bytes);
    retry_after(value.as_bytes(), date)
}

/// Whether a later try may succeed. A web server that does not implement POST answers with 501.
pub(super) fn is_temporary(status: StatusCode) -> bool {
    match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        status => status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED,
    }
}

/// The value of `Retry-After` for people, if a later try may succeed: for the error of a message that is not sent again.
pub(super) fn retry_after_text(status: StatusCode, head: &HeaderMap) -> Option<String> {
    let wait = retry_after_of(head).filter(|wait| is_temporary(status) && *wait <= MAX_SHOWN_RETRY_AFTER)?;
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
            let waits =
                [RetryClass::Opening, RetryClass::Awaited, RetryClass::Always, RetryClass::NotIdempotent]
                    .map(|class| class.delay(status, &head, 0));
            assert_eq!(waits, [urgent, urgent, always, refused], "{status}");
        }
        assert_eq!(RetryClass::Always.delay(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), 0), None);
    }

    #[test]
    fn who_asks_to_come_at_once_is_asked_later_each_time() {
        let mut head = HeaderMap::new();
        head.insert(name::RETRY_AFTER, HeaderValue::from_static("0"));
        let pause = |waits| RetryClass::NotIdempotent.delay(StatusCode::TOO_MANY_REQUESTS, &head, waits);
        assert_eq!([0, 1, 3].map(pause), [100, 200, 800].map(|ms| Some(Duration::from_millis(ms))));
    }

    #[test]
    fn retry_after_is_shown_where_the_status_is_temporary() {
        for (status, asked, told) in [
            (503, "2", Some("the server asks to try again after 2 s")),
            (429, "86400", Some("the server asks to try again after 86400 s")),
            (429, "86401", None),
            (404, "2", None),
        ] {
            let mut head = HeaderMap::new();
            head.insert(name::RETRY_AFTER, HeaderValue::from_static(asked));
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(retry_after_text(status, &head).as_deref(), told, "{status} {asked}");
        }
    }
}
