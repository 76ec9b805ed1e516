//! The event stream that answers a request: read until it has brought the reply, and resumed where it ends before.
//!
//! Part of an [`Exchange`]. A stream is resumed for as long as its request has time: the session ends the exchange when
//! that is over. What bounds it here is a server that refuses, fails or is gone.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery>

use std::time::Duration;

use http::header::{HeaderMap, HeaderValue};
use http::{Method as HttpMethod, StatusCode};
use mcpjoin_proto::RequestId;
use mcpjoin_proto::http::classify::Probe;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::http::reply::forgets_session;
use mcpjoin_proto::session::LinkError;
use reqwest::Response;
use tokio::time::{Instant, sleep, timeout};

use super::again::asked_to_wait;
use super::exchange::{Exchange, News, Role};
use super::failure;
use super::legacy::LegacySession;
use super::reading::{Events, Next, compressed, settles};
use super::wire::{Sending, Wire, media_type};

/// How long a stream may take to end after it has brought the reply, so that its connection can be used again.
pub(super) const LINGER: Duration = Duration::from_millis(100);
/// How often in a row resuming may fail before a request is given up.
const RESUMPTIONS: u32 = 8;
/// The longest wait between two of these attempts.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How long a resumed stream may bring no message, and no more of one, before it is asked for once more: servers are seen
/// (the published `server-everything` among them) whose store gives a resumed stream what it has, and nothing of what comes
/// later. It is the time after which a stream that ended would be asked for again: "in the region of a few seconds"
/// ([HTML, 9.2.2](https://html.spec.whatwg.org/multipage/server-sent-events.html#concept-event-stream-reconnection-time)),
/// or what the server asks for by `retry`, where that is more.
const SILENCE: Duration = Duration::from_secs(3);
/// How long a server where nobody listens any more has, from the first refusal on, to be there again: a process that is
/// started again needs less.
const AWAY: Duration = Duration::from_secs(5);
/// The wait after the first of these refusals; doubled each time.
const FIRST_RETURN: Duration = Duration::from_millis(250);

/// Why a stream is to go on in another response.
enum Why {
    /// It has ended, or broken, in words.
    Over(String),
    /// It was resumed and has nothing to say.
    Silent,
}

/// A stream does not go on.
struct NotResumed {
    cause: LinkError,
    /// The session is gone: its generation.
    gone: Option<u64>,
}

impl Exchange {
    /// Reads the stream until it has brought the reply; resumes it where that can be done.
    pub(super) async fn follow(mut self, mut response: Response, head: &HeaderMap, owed: &RequestId) {
        // The server has it; nothing of it is sent again.
        (self.post.sending.body, self.post.outbound) = (None, None);
        let limits = &self.wire.limits;
        let mut events = Events::new(limits.message, &self.wire.marks);
        loop {
            let mut unfinished = 0;
            let why = loop {
                let silence = silence(&events);
                let next = events.next(&mut response, &limits.decode, &self.wire.origin, Some(owed));
                let next = match silence {
                    Some(silence) => timeout(silence, next).await,
                    None => Ok(next.await),
                };
                let before = std::mem::replace(&mut unfinished, events.unfinished());
                match next {
                    Ok(Next::Inbound(inbound, mark)) => {
                        let settled = settles(&inbound, owed);
                        match mark {
                            _ if settled && self.post.role == Role::Probe(Probe::Initialize) => {
                                self.initialized(inbound, head, owed).await;
                            }
                            Some(mark) if !self.post.modern => {
                                self.say(News::Heard { inbound, mark, of: Some(owed.clone()) }).await;
                            }
                            _ => self.say(News::Came(inbound)).await,
                        }
                        if settled {
                            return self.linger(response, events).await;
                        }
                    }
                    Ok(Next::Other(_)) => {}
                    Ok(Next::Ended) => break Why::Over("the event stream ended before the reply".into()),
                    Ok(Next::Broke(error)) => {
                        break Why::Over(format!("the event stream broke before the reply: {error}"));
                    }
                    // A long event comes slowly: more of it has come.
                    Err(_) if unfinished > before => {}
                    Err(_) => break Why::Silent,
                }
            };
            // Over there it is to be free for the next one.
            drop(response);
            match self.resume(&events, why).await {
                Ok(next) => response = next,
                Err(NotResumed { cause, gone }) => {
                    self.lose(owed, cause).await;
                    if let Some(generation) = gone {
                        self.say(News::Gone { generation, again: None }).await;
                    }
                    return;
                }
            }
            events.next_body();
        }
    }

    /// What a server still says after the reply is heard for a moment; the connection is whole again when the stream
    /// ends in it.
    async fn linger(&self, mut response: Response, mut events: Events<'_>) {
        let limits = &self.wire.limits;
        let rest = async {
            while let Next::Inbound(inbound, mark) =
                events.next(&mut response, &limits.decode, &self.wire.origin, None).await
            {
                match mark {
                    Some(mark) if !self.post.modern => {
                        self.say(News::Heard { inbound, mark, of: None }).await;
                    }
                    _ => self.say(News::Came(inbound)).await,
                }
            }
        };
        let _ = timeout(LINGER, rest).await;
    }

    /// The stream goes on in another response, after the last event that has come.
    async fn resume(&self, events: &Events<'_>, why: Why) -> Result<Response, NotResumed> {
        let lost = |what: String| NotResumed { cause: self.error(what, true), gone: None };
        let (mut wait, why) = match why {
            // It was waited for already.
            Why::Silent => (None, "the resumed stream was silent".to_owned()),
            Why::Over(why) => (Some(events.retry()), why),
        };
        if self.post.modern {
            return Err(lost(format!("{why}; the request is lost, this revision has no resumption")));
        }
        let Some(last) = events.last() else {
            let reason = if events.any() { "its events have no ids" } else { "no event had come" };
            return Err(lost(format!("{why}, and it cannot be resumed: {reason}")));
        };
        let Some(session) = &self.post.session else {
            return Err(lost(format!("{why}, and there is no session to resume it in")));
        };
        let about = &self.post.sending.about;
        let sending = resumption(&self.wire, session, Some(last));
        let (mut failures, mut refusals) = (0, Refusals::default());
        let mut reason = why.clone();
        loop {
            if let Some(wait) = wait {
                let wait_ms = wait.as_millis();
                tracing::info!(target: "mcpjoin", "{about}: {reason}; its stream is resumed in {wait_ms} ms");
                sleep(wait).await;
            }
            let (failed, asked) = match self.wire.send(&sending).await {
                Err(unanswered) if unanswered.refused => {
                    let Some(next) = refusals.next() else {
                        let count = refusals.count;
                        let what = unanswered.error.message;
                        return Err(lost(format!(
                            "{why}; given up after {count} attempts to resume it within {} s: {what}",
                            AWAY.as_secs()
                        )));
                    };
                    (wait, reason) = (Some(next), "connection refused, nobody listens there".into());
                    continue;
                }
                Err(unanswered) => (unanswered.error.message, None),
                Ok(response) => {
                    let status = response.status();
                    let stream = status.is_success() && media_type(&response) == MediaType::EventStream;
                    match compressed(&response) {
                        None if stream => return Ok(response),
                        Some(what) if stream => return Err(lost(format!("{why}; resuming failed: {what}"))),
                        _ => {}
                    }
                    let asked = asked_to_wait(response.headers()).map(|asked| asked.min(LONGEST_PAUSE));
                    let (what, error) = failure::refusal(response).await;
                    // With 400 a server that has not kept the events refuses, too.
                    if session.id.is_some() && forgets_session(status.as_u16(), error.as_ref()) {
                        let cause = self.error(format!("{why}; resuming failed: {what}"), true);
                        return Err(NotResumed { cause, gone: Some(session.generation) });
                    }
                    // 409: over there the stream that broke is still open.
                    let later = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::CONFLICT);
                    if !status.is_server_error() && !later {
                        return Err(lost(format!("{why}; resuming failed: {what}")));
                    }
                    (what, asked)
                }
            };
            refusals = Refusals::default();
            failures += 1;
            if failures == RESUMPTIONS {
                return Err(lost(format!(
                    "{why}; resuming failed: {failed}; given up after {RESUMPTIONS} attempts"
                )));
            }
            let next = pause(events.retry(), failures);
            wait = Some(asked.map_or(next, |asked| asked.max(next)));
            reason = failed;
        }
    }
}

/// After which time without a message a stream is asked for once more; `None` where it is the first one, which brings
/// everything, or cannot be resumed.
fn silence(events: &Events<'_>) -> Option<Duration> {
    let again = events.is_resumed() && events.last().is_some();
    again.then(|| SILENCE.max(events.retry()))
}

/// Attempts that met nobody, one after the other.
#[derive(Default)]
struct Refusals {
    first: Option<Instant>,
    count: u32,
}

impl Refusals {
    /// One more. The wait before the next attempt; `None` when there is to be none.
    fn next(&mut self) -> Option<Duration> {
        let first = *self.first.get_or_insert_with(Instant::now);
        let wait = FIRST_RETURN.saturating_mul(2_u32.saturating_pow(self.count));
        self.count += 1;
        let left = AWAY.saturating_sub(first.elapsed());
        (!left.is_zero()).then(|| wait.min(left))
    }
}

/// GET for a stream of a session, from its beginning or after an event.
pub(super) fn resumption(wire: &Wire, session: &LegacySession, last: Option<&HeaderValue>) -> Sending {
    let mut headers = HeaderMap::new();
    session.write(&mut headers);
    headers.insert(name::ACCEPT, HeaderValue::from_static("text/event-stream"));
    if let Some(last) = last {
        headers.insert(name::LAST_EVENT_ID, last.clone());
    }
    let about = if last.is_some() { "resuming a stream" } else { "the stream of the session" };
    Sending { headers, ..wire.sending(HttpMethod::GET, about) }
}

/// The wait before a reconnection: what the server has asked for, and more each time that it fails.
pub(super) fn pause(retry: Duration, failures: u32) -> Duration {
    retry.saturating_mul(2_u32.saturating_pow(failures)).min(LONGEST_PAUSE.max(retry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_between_two_attempts_grows_up_to_ten_seconds_or_what_the_server_asks_for() {
        let seconds = |retry, failures| pause(Duration::from_secs(retry), failures).as_secs();
        assert_eq!(
            [0, 1, 2, 3, 4, 5, u32::MAX].map(|failures| seconds(1, failures)),
            [1, 2, 4, 8, 10, 10, 10]
        );
        assert_eq!([0, 1].map(|failures| seconds(9, failures)), [9, 10]);
        assert_eq!([0, 1].map(|failures| seconds(60, failures)), [60, 60]);
    }
}
