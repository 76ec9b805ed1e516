//! The event stream of a response: read until it has the response to the request, and resumed if it ends before.
//!
//! Part of an [`Exchange`]. A stream is resumed until the timeout of its request, when the session aborts the exchange. It is
//! given up earlier if the server refuses, fails or is gone.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>

use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderMap, HeaderValue};
use http::{Method as HttpMethod, StatusCode};
use mcpjoin_proto::RequestId;
use mcpjoin_proto::http::classify::Probe;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::http::response_head::forgets_session;
use mcpjoin_proto::session::{HttpBody, TransportError, TransportErrorReason};
use tokio::time::{Instant, sleep, timeout};

use super::body::{answers, compressed};
use super::event_stream::{EventStream, StreamItem};
use super::exchange::{Exchange, Role, response_id, wrong_id};
use super::exchange_event::ExchangeEvent;
use super::requester::{HttpRequest, Requester, media_type};
use super::response_error::{self, readable};
use super::retry::retry_after_of;
use super::session::LegacySession;
use crate::http::Response;

/// How long a stream may take to end after the response to its request, so that its connection can be used again.
pub(super) const STREAM_END_TIMEOUT: Duration = Duration::from_millis(100);
/// Failures to resume, one after the other, after which a request is lost.
const MAX_RESUME_FAILURES: u32 = 8;
/// The longest delay between two of these attempts.
pub(super) const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(10);
/// How long a resumed stream may be silent before it is resumed once more. Some servers (the published `server-everything`
/// among them) send a resumed stream what they have stored, and nothing of what happens later. The time is that after which
/// a stream that ended would be resumed: "in the region of a few seconds"
/// ([HTML, 9.2.2](https://html.spec.whatwg.org/multipage/server-sent-events.html#concept-event-stream-reconnection-time)),
/// or the `retry` of the server if that is longer.
const RESUMED_SILENCE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long connections may be refused, from the first refusal on. A process that is restarted needs less.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(5);
/// The delay after the first of these refusals; doubled each time.
const FIRST_REFUSED_DELAY: Duration = Duration::from_millis(250);

/// Why a stream is resumed.
enum Interruption {
    /// It ended or broke, described for people.
    Ended(String),
    /// It was resumed before and is silent.
    Silent,
}

/// A stream that cannot be resumed.
struct NotResumed {
    cause: TransportError,
    /// The generation of the session, if the server has lost it.
    lost_session: Option<u64>,
}

impl Exchange {
    /// Reads the stream until it has the response to the request. Resumes it where that is possible.
    pub(super) async fn read_stream(mut self, mut response: Response, head: &HeaderMap, pending: &RequestId) {
        // The server processes the request: it is not sent again.
        (self.post.http_request.body, self.post.outbound) = (None, None);
        let limits = &self.requester.limits;
        let mut events = EventStream::new(limits.message, &self.requester.event_hash);
        let mut other = None;
        loop {
            let mut incomplete_bytes = 0;
            let why = loop {
                let silence = silence(&events);
                let next = events.next(&mut response, &limits.decode, &self.requester.origin, Some(pending));
                let next = match silence {
                    Some(silence) => timeout(silence, next).await,
                    None => Ok(next.await),
                };
                let before = std::mem::replace(&mut incomplete_bytes, events.incomplete_bytes());
                match next {
                    Ok(StreamItem::Inbound(inbound, key)) => {
                        let is_answered = answers(&inbound, pending);
                        other = response_id(&inbound).cloned().or(other);
                        match key {
                            _ if is_answered && self.post.role == Role::Probe(Probe::Initialize) => {
                                self.initialized(inbound, head, pending).await;
                            }
                            Some(key) if !self.post.modern => {
                                self.report(ExchangeEvent::StreamMessage {
                                    inbound,
                                    key,
                                    request: Some(pending.clone()),
                                })
                                .await;
                            }
                            _ => self.report(ExchangeEvent::Message(inbound)).await,
                        }
                        if is_answered {
                            return self.read_rest(response, events).await;
                        }
                    }
                    Ok(StreamItem::Other(_)) => {}
                    Ok(StreamItem::Ended) => {
                        // A stream that cannot be resumed has had its reply.
                        if let Some(given) = &other
                            && (self.post.modern || events.last().is_none())
                        {
                            let cause = self.error(wrong_id(given, pending), false);
                            return self.fail(pending, cause.because(TransportErrorReason::NoReply)).await;
                        }
                        break Interruption::Ended("the event stream ended before the reply".into());
                    }
                    Ok(StreamItem::Broken(error)) => {
                        break Interruption::Ended(format!(
                            "the event stream was cut off before the reply: {error}"
                        ));
                    }
                    // A long event arrives slowly.
                    Err(_) if incomplete_bytes > before => {}
                    Err(_) => break Interruption::Silent,
                }
            };
            // The server may allow one stream only.
            drop(response);
            match self.resume(&events, why).await {
                Ok(next) => response = next,
                Err(NotResumed { cause, lost_session }) => {
                    self.fail(pending, cause).await;
                    if let Some(generation) = lost_session {
                        self.report(ExchangeEvent::SessionLost { generation, refused: None }).await;
                    }
                    return;
                }
            }
            events.next_body();
        }
    }

    /// Delivers what follows the response for a short time. If the stream ends in that time, its connection can be used again.
    async fn read_rest(&self, mut response: Response, mut events: EventStream<'_>) {
        let limits = &self.requester.limits;
        let rest = async {
            while let StreamItem::Inbound(inbound, key) =
                events.next(&mut response, &limits.decode, &self.requester.origin, None).await
            {
                match key {
                    Some(key) if !self.post.modern => {
                        self.report(ExchangeEvent::StreamMessage { inbound, key, request: None }).await;
                    }
                    _ => self.report(ExchangeEvent::Message(inbound)).await,
                }
            }
        };
        let _ = timeout(STREAM_END_TIMEOUT, rest).await;
    }

    /// Resumes the stream after its last event, in another response.
    async fn resume(&self, events: &EventStream<'_>, why: Interruption) -> Result<Response, NotResumed> {
        let lost = |what: String| NotResumed { cause: self.error(what, true), lost_session: None };
        let (mut wait, why) = match why {
            // The silence was the delay.
            Interruption::Silent => (None, "the resumed stream was silent".to_owned()),
            Interruption::Ended(why) => (Some(events.retry()), why),
        };
        if (self.post.modern || events.last().is_none())
            && let Some(unread) = events.unread_event()
        {
            let cause = self.error(format!("{why}: {unread}"), false).because(TransportErrorReason::NoReply);
            return Err(NotResumed { cause, lost_session: None });
        }
        if self.post.modern {
            return Err(lost(format!(
                "{why}; the request is lost, because this revision cannot resume \
                streams"
            )));
        }
        let Some(last) = events.last() else {
            if let (false, Some(line)) = (events.has_events(), events.unknown_line()) {
                let line = response_error::excerpt(line);
                let what = format!("{why}: the body has no event; it begins `{}`", readable(line));
                let cause = self.error(what, false).because(TransportErrorReason::NoEvents);
                let body = HttpBody::Other(Bytes::copy_from_slice(line));
                return Err(NotResumed { cause: cause.with_http_body(body), lost_session: None });
            }
            let reason = if events.has_events() { "its events have no ids" } else { "no event was received" };
            return Err(lost(format!("{why}, and it cannot be resumed: {reason}")));
        };
        let Some(session) = &self.post.session else {
            return Err(lost(format!("{why}, and there is no session to resume it in")));
        };
        let about = &self.post.http_request.about;
        let http_request = stream_request(&self.requester, session, Some(last));
        let (mut failures, mut refusals) = (0, Refusals::default());
        let mut reason = why.clone();
        loop {
            if let Some(wait) = wait {
                let wait_ms = wait.as_millis();
                tracing::info!(target: "mcpjoin", "{about}: {reason}; its stream is resumed in {wait_ms} ms");
                sleep(wait).await;
            }
            let (failed, asked) = match self.requester.send(&http_request).await {
                Err(failure) if failure.refused => {
                    let Some(next) = refusals.next() else {
                        let count = refusals.count;
                        let what = failure.error.message;
                        return Err(lost(format!(
                            "{why}; gave up after {count} attempts to resume it within {} s: {what}",
                            REFUSED_TIMEOUT.as_secs()
                        )));
                    };
                    (wait, reason) = (Some(next), "connection refused, nothing listens there".into());
                    continue;
                }
                Err(failure) => (failure.error.message, None),
                Ok(response) => {
                    let status = response.status();
                    let stream = status.is_success() && media_type(&response) == MediaType::EventStream;
                    match compressed(&response) {
                        None if stream => return Ok(response),
                        Some(what) if stream => return Err(lost(format!("{why}; resuming failed: {what}"))),
                        _ => {}
                    }
                    let asked =
                        retry_after_of(response.headers()).map(|asked| asked.min(MAX_RECONNECT_DELAY));
                    let page = response_error::read_page(response).await;
                    // A server that has not stored the events answers 400, too: then the body decides.
                    if session.id.is_some() && forgets_session(status.as_u16(), page.error()) {
                        let cause = self.error(format!("{why}; resuming failed: {}", page.text), true);
                        return Err(NotResumed { cause, lost_session: Some(session.generation) });
                    }
                    // 409: for the server the broken stream is still open.
                    let later = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::CONFLICT);
                    if !status.is_server_error() && !later {
                        return Err(lost(format!("{why}; resuming failed: {}", page.text)));
                    }
                    (page.text, asked)
                }
            };
            refusals = Refusals::default();
            failures += 1;
            if failures == MAX_RESUME_FAILURES {
                return Err(lost(format!(
                    "{why}; resuming failed: {failed}; gave up after {MAX_RESUME_FAILURES} attempts"
                )));
            }
            let next = reconnect_delay(events.retry(), failures);
            wait = Some(asked.map_or(next, |asked| asked.max(next)));
            reason = failed;
        }
    }
}

/// The silence after which a stream is resumed once more; `None` for the first stream, which has everything, and for one
/// that cannot be resumed.
fn silence(events: &EventStream<'_>) -> Option<Duration> {
    let again = events.is_resumed() && events.last().is_some();
    again.then(|| RESUMED_SILENCE_TIMEOUT.max(events.retry()))
}

/// Refused connections, one after the other.
#[derive(Default)]
struct Refusals {
    first: Option<Instant>,
    count: u32,
}

impl Refusals {
    /// Counts one more. Returns the delay before the next attempt, `None` if there is none.
    fn next(&mut self) -> Option<Duration> {
        let first = *self.first.get_or_insert_with(Instant::now);
        let wait = FIRST_REFUSED_DELAY.saturating_mul(2_u32.saturating_pow(self.count));
        self.count += 1;
        let left = REFUSED_TIMEOUT.saturating_sub(first.elapsed());
        (!left.is_zero()).then(|| wait.min(left))
    }
}

/// The GET for a stream of a session, from its beginning or after an event.
pub(super) fn stream_request(
    requester: &Requester,
    session: &LegacySession,
    last: Option<&HeaderValue>,
) -> HttpRequest {
    let mut headers = HeaderMap::new();
    session.write(&mut headers);
    headers.insert(name::ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(last) = last {
        headers.insert(name::LAST_EVENT_ID, last.clone());
    }
    let about = if last.is_some() { "resuming a stream" } else { "the stream of the session" };
    HttpRequest { headers, ..requester.request(HttpMethod::GET, about) }
}

/// The delay before a reconnection: `retry` of the server, doubled with each failure.
pub(super) fn reconnect_delay(retry: Duration, failures: u32) -> Duration {
    retry.saturating_mul(2_u32.saturating_pow(failures)).min(MAX_RECONNECT_DELAY.max(retry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_between_two_attempts_grows_up_to_ten_seconds_or_what_the_server_asks_for() {
        let seconds = |retry, failures| reconnect_delay(Duration::from_secs(retry), failures).as_secs();
        assert_eq!(
            [0, 1, 2, 3, 4, 5, u32::MAX].map(|failures| seconds(1, failures)),
            [1, 2, 4, 8, 10, 10, 10]
        );
        assert_eq!([0, 1].map(|failures| seconds(9, failures)), [9, 10]);
        assert_eq!([0, 1].map(|failures| seconds(60, failures)), [60, 60]);
    }
}
