//! One run over HTTP while it goes on: exchanges, each noted part by part with its time.

mod pace;
mod polling;
mod reading;
mod stress;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Method as Verb;
use http::header::{CONTENT_TYPE, HeaderValue};
use mcpjoin_proto::codec::sse::SseDecoder;
use mcpjoin_proto::http::headers::{encode_value, name, named_by};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::{
    ErrorObject, Message, Method, Payload, Profile, Raw, RequestId, Response as Answer, Version,
};
use mcpjoin_rules::{BodyEnd, Channel, Line, Probe, Run, What};
use mcpjoin_rules::{HttpRequest, HttpResponse};
use tokio::time::{Instant, timeout_at};
use url::Url;

pub(super) use self::pace::Pace;
use self::reading::{Stopped, Stream};
pub(super) use self::stress::Leave;
use super::super::live::{Opened, is_ours};
use super::super::probes::Manner;
use super::wire::{self, Head, Wire};
use mcpjoin::internal::refusal;
use mcpjoin::link::Way;

/// So many requests may stay without an answer until no more is asked.
const PATIENCE: usize = 2;
/// So much may come in one run until no more is asked.
const MOST_MESSAGES: usize = 20_000;
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// How long to look for what comes late.
pub(super) const MOMENT: Duration = Duration::from_millis(200);

/// How long an answer that has not come in time is still waited for: late is not never.
const LATE: Duration = Duration::from_secs(2);

pub(super) struct Live<'w> {
    wire: &'w Wire,
    manner: Manner,
    limit: usize,
    started: Instant,
    pub(super) run: Run,
    next_id: i64,
    next_exchange: u32,
    /// The id that the server has given to the session.
    pub(super) session: Option<HeaderValue>,
    /// The version that was agreed on.
    agreed: Option<Version>,
    /// Where messages are posted in HTTP+SSE.
    endpoint: Option<Url>,
    /// Why nothing can be posted where the server says.
    elsewhere: Option<String>,
    /// The stream of HTTP+SSE, or the one that a GET has opened.
    stream: Option<Stream>,
    /// How long an answer may take.
    answer: Duration,
    silences: usize,
    /// What has come in this run, over all of its connections.
    amount: Arc<Amount>,
    /// What the server asks, and has not been answered yet.
    asked: Vec<(RequestId, Method)>,
    /// That is being answered: what is asked meanwhile is not, or there would be no end of it.
    answering: bool,
    /// How it is sent and read.
    pub(super) pace: Pace,
    over: bool,
}

/// How much has come.
#[derive(Default)]
struct Amount {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl Amount {
    fn message(&self) {
        self.messages.fetch_add(1, Ordering::Relaxed);
    }

    /// Bytes that have really come: their sum does not overflow.
    fn bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// As much has come as is looked at.
    fn is_full(&self) -> bool {
        self.is_full_without(0)
    }

    /// The same, were it not for so many of the bytes.
    fn is_full_without(&self, bytes: usize) -> bool {
        self.messages.load(Ordering::Relaxed) >= MOST_MESSAGES
            || self.bytes.load(Ordering::Relaxed).saturating_sub(bytes) >= MOST_BYTES
    }
}

/// What a request came to.
#[derive(Debug)]
pub(super) struct Reply {
    /// The status of the response; `None` when there was none.
    pub(super) status: Option<u16>,
    /// Why there was none.
    pub(super) failure: Option<String>,
    pub(super) content_type: Option<String>,
    /// Where it leads, as it may be shown.
    pub(super) location: Option<String>,
    /// Why we are not let in, as far as it says so.
    pub(super) reason: Option<String>,
    /// The id of a session that came with it.
    pub(super) session: Option<HeaderValue>,
    /// The first request in it.
    pub(super) asked: Option<RequestId>,
    /// The response to that.
    pub(super) opened: Opened,
    /// The beginning of a body that was no message.
    pub(super) body: Bytes,
    /// When it was asked for.
    pub(super) began: Instant,
}

/// When a stream has been read for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// All requests in it are answered, and it has ended.
    Ended,
    /// The first message has come, and what follows at once.
    FirstMessage,
    /// At once: it is open, and is read with what comes later.
    Open,
    /// At once, and it is closed.
    Closed,
}

impl<'w> Live<'w> {
    pub(super) fn new(
        wire: &'w Wire,
        name: &str,
        version: Version,
        channel: Channel,
        of: (Duration, usize),
    ) -> Self {
        let (answer, limit) = of;
        Self {
            wire,
            manner: Manner::Legacy,
            limit,
            started: Instant::now(),
            run: Run::new(name, version).over(channel),
            next_id: 0,
            next_exchange: 0,
            session: None,
            agreed: None,
            endpoint: None,
            elsewhere: None,
            stream: None,
            answer,
            silences: 0,
            amount: Arc::default(),
            asked: Vec::new(),
            answering: false,
            pace: Pace::default(),
            over: wire.is_gone(),
        }
    }

    pub(super) fn in_manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }

    /// An id that this run has not used.
    pub(super) fn id(&mut self) -> String {
        self.next_id += 1;
        self.next_id.to_string()
    }

    /// The last of them.
    pub(super) fn last_id(&self) -> String {
        self.next_id.to_string()
    }

    /// The version that was agreed on: requests name it from now on.
    pub(super) fn agree(&mut self, version: Version, session: Option<HeaderValue>) {
        self.run.version = version.clone();
        self.agreed = Some(version);
        self.session = session;
    }

    /// The head of a POST with a message, with all headers that it must have.
    pub(super) fn post(&self, line: &str) -> Head {
        let mut head = self.wire.head(Verb::POST);
        match &self.manner {
            Manner::Legacy => head = self.in_session(head),
            Manner::Modern(version) => {
                head = head.with(name::PROTOCOL_VERSION, version.as_str());
                let line = Line::new(line.to_owned());
                let called = line.parts().find_map(|part| match part {
                    Ok(Message::Request(request)) => Some((request.method.clone(), request.params.clone())),
                    Ok(Message::Notification(told)) => Some((told.method.clone(), None)),
                    _ => None,
                });
                if let Some((method, params)) = called {
                    head = head.with(name::METHOD, method.as_str());
                    let named = named_by(&method).zip(params).and_then(|(named, params)| {
                        params
                            .raw()
                            .member(named.member)?
                            .to_string_value()
                            .map(|name| encode_value(&name).into_owned())
                    });
                    if let Some(named) = named {
                        head = head.with(name::NAME, &named);
                    }
                }
            }
        }
        if let Some(endpoint) = &self.endpoint {
            head.url = endpoint.clone();
        }
        head
    }

    /// The head of another request in the session.
    pub(super) fn head(&self, verb: Verb) -> Head {
        self.in_session(self.wire.head(verb))
    }

    fn in_session(&self, mut head: Head) -> Head {
        if let Some(session) = &self.session {
            head.headers.insert(name::SESSION_ID, session.clone());
        }
        let named =
            |version: &&Version| Profile::of(version).is_some_and(|profile| profile.http_version_header);
        if let Some(version) = self.agreed.as_ref().filter(named) {
            head = head.with(name::PROTOCOL_VERSION, version.as_str());
        }
        head
    }

    /// Posts a message and waits for what it brings.
    pub(super) async fn ask(&mut self, probe: Probe, line: &str) -> Reply {
        let head = self.post(line);
        self.exchange(probe, head, Some(line), Until::Ended, self.answer).await
    }

    /// Makes a request and waits for what it brings.
    pub(super) async fn exchange(
        &mut self,
        probe: Probe,
        head: Head,
        line: Option<&str>,
        until: Until,
        within: Duration,
    ) -> Reply {
        self.over |= self.amount.is_full();
        if self.over {
            return Reply::nothing("the server has ended".into());
        }
        self.next_exchange += 1;
        let (number, first_event) = (self.next_exchange, self.run.events.len());
        self.note(number, What::Requested(probe, head.noted()));
        let mut waiting = Vec::new();
        if let Some(line) = line {
            self.wire.crossed(Way::Out, line.as_bytes());
            let line = Line::new(line.to_owned());
            waiting = asked(&line, self.endpoint.is_none());
            self.note(number, What::Sent(probe, line));
        }
        let began = Instant::now();
        let is_answer = until == Until::Ended && within == self.answer;
        let patience = within + self.pace.longest();
        let deadline = began + patience + if is_answer { LATE } else { Duration::ZERO };
        let first = waiting.first().cloned();
        let body = line.map(|line| self.pace.body(line));
        let response = match timeout_at(deadline, self.wire.send(&head, body)).await {
            Ok(Ok(response)) => response,
            Ok(Err(silence)) if silence.gone && (first.is_some() || self.wire.has_lost()) => {
                return self.ended(number, first_event, silence.problem);
            }
            // The next request says it.
            Ok(Err(silence)) if silence.gone => {
                self.run.events.truncate(first_event);
                return Reply::nothing(silence.problem);
            }
            Ok(Err(silence)) => {
                self.wire.note_lost(first.is_some());
                return self.failed(number, silence.problem);
            }
            Err(_) => {
                self.silent();
                return self.failed(number, format!("nothing came within {} s", within.as_secs_f64()));
            }
        };
        self.wire.note_lost(false);
        self.note(number, What::Responded(wire::noted(&response)));
        let mut reply = Reply {
            status: Some(response.status().as_u16()),
            failure: None,
            content_type: response.headers().get(CONTENT_TYPE).map(text),
            location: self.wire.location(&response),
            reason: refusal(response.headers()),
            session: response.headers().get(name::SESSION_ID).cloned(),
            asked: first.clone(),
            opened: Opened::Nothing,
            body: Bytes::new(),
            began,
        };
        let kind = MediaType::of(response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes));
        if kind == MediaType::EventStream && response.status().is_success() {
            let stream = Stream { number, response, decoder: SseDecoder::new(self.limit) };
            Box::pin(self.streamed(stream, &mut reply, first, waiting, until, deadline)).await;
        } else {
            self.collected(number, response, kind, &mut reply, &mut waiting, deadline).await;
            reply.opened = self.opening(number, first.as_ref());
            if let Some(mut stream) = self.stream.take_if(|_| self.endpoint.is_some()) {
                // The answer comes on the stream of the session.
                if reply.status.is_some_and(|status| status < 300) && !waiting.is_empty() {
                    let stopped = self.pump(&mut stream, &mut waiting, deadline, false).await;
                    reply.opened = self.opening(stream.number, first.as_ref());
                    match stopped {
                        Stopped::Ended(end) => {
                            self.note(stream.number, What::BodyEnded(end));
                            self.over = true;
                            return reply;
                        }
                        Stopped::TimedOut => self.silent(),
                        Stopped::Answered => {}
                    }
                }
                self.stream = Some(stream);
            }
        }
        if !self.asked.is_empty() {
            Box::pin(self.answer_requests()).await;
        }
        reply
    }

    /// The response to a request, among what has come in an exchange.
    fn opening(&self, number: u32, id: Option<&RequestId>) -> Opened {
        let lines = self.run.events.iter().filter(|event| event.exchange == Some(number));
        let parts = lines.flat_map(|event| match &event.what {
            What::Received(line) => Some(line.parts()).into_iter().flatten(),
            _ => None.into_iter().flatten(),
        });
        let mut unread = None;
        for part in parts {
            match part {
                Ok(Message::Response(response)) if response.id.as_ref() == id && id.is_some() => {
                    return opened(&response.outcome);
                }
                // Refused before it was read.
                Ok(Message::Response(response)) if response.id.is_none() => {
                    unread = Some(opened(&response.outcome));
                }
                Ok(Message::Response(Answer { id: Some(other), .. })) if unread.is_none() => {
                    unread = Some(Opened::Other(other.clone()));
                }
                Ok(Message::Request(request)) if is_ours(&request.method) => return Opened::Echo,
                Err(error) if error.id.as_ref() == id || error.id.is_none() => {
                    unread = Some(Opened::Broken(error.clone()));
                }
                _ => {}
            }
        }
        unread.unwrap_or(Opened::Nothing)
    }

    /// We are alive, and offer nothing.
    async fn answer_requests(&mut self) {
        self.answering = true;
        for (id, method) in std::mem::take(&mut self.asked) {
            if matches!(self.manner, Manner::Modern(_)) {
                // A response may not be sent.
                continue;
            }
            let outcome = match method {
                Method::Ping => Ok(Payload::from_raw(Raw::empty_object())),
                other => Err(ErrorObject::method_not_found(other.as_str())),
            };
            let mut line = BytesMut::new();
            mcpjoin_proto::encode::message(&Message::from(Answer { id: Some(id), outcome }), &mut line);
            let line = String::from_utf8_lossy(&line).into_owned();
            self.ask(Probe::Answer, &line).await;
        }
        self.answering = false;
    }

    fn silent(&mut self) {
        self.silences += 1;
        self.over |= self.silences >= PATIENCE;
    }

    fn failed(&mut self, number: u32, problem: String) -> Reply {
        self.note(number, What::BodyEnded(BodyEnd::Broken(problem.as_str().into())));
        Reply::nothing(problem)
    }

    /// Nobody listens any more. `first`: the place of the first event of this exchange.
    fn ended(&mut self, number: u32, first: usize, problem: String) -> Reply {
        self.over = true;
        self.wire.note_gone();
        // One request at most was under way when the server ended: the last that was sent to it.
        if self.wire.has_lost() {
            self.run.events.truncate(first);
        } else {
            self.note(number, What::BodyEnded(BodyEnd::Broken(problem.as_str().into())));
        }
        let at = self.started.elapsed();
        self.run.note(at, What::OutputEnded);
        Reply::nothing(problem)
    }

    /// Notes a document that was fetched in this run, or why it was not.
    pub(super) fn fetched(&mut self, probe: Probe, url: &str, came: Result<(HttpResponse, Bytes), String>) {
        self.next_exchange += 1;
        let number = self.next_exchange;
        let request = HttpRequest { method: "GET".into(), url: url.into(), headers: Vec::new() };
        self.note(number, What::Requested(probe, request));
        let end = match came {
            Ok((head, body)) => {
                self.note(number, What::Responded(head));
                self.note(number, What::Body(body));
                BodyEnd::Complete
            }
            Err(problem) => BodyEnd::Broken(problem.into()),
        };
        self.note(number, What::BodyEnded(end));
    }

    fn note(&mut self, number: u32, what: What) {
        let at = self.started.elapsed();
        self.run.note_in(number, at, what);
    }

    /// An event after which a stream may be asked for again: the first with an id, and something behind it.
    pub(super) fn resumable(&self) -> Option<String> {
        let streamed = |number: u32| {
            let events = self.run.events.iter().filter(move |event| event.exchange == Some(number));
            events.filter_map(|event| match &event.what {
                What::Streamed(event) => Some(event),
                _ => None,
            })
        };
        (1..=self.next_exchange).find_map(|number| {
            let first = streamed(number).next()?.id.as_ref().filter(|id| !id.is_empty())?;
            let goes_on = streamed(number).nth(1).is_some();
            let id = std::str::from_utf8(first).ok().filter(|_| goes_on)?;
            Some(id.to_owned())
        })
    }

    /// Closes everything.
    pub(super) async fn close(mut self) -> Run {
        self.close_stream().await;
        self.run
    }
}

impl Reply {
    fn nothing(failure: String) -> Self {
        Self {
            status: None,
            failure: Some(failure),
            content_type: None,
            location: None,
            reason: None,
            session: None,
            asked: None,
            opened: Opened::Nothing,
            body: Bytes::new(),
            began: Instant::now(),
        }
    }

    /// A stream has begun.
    pub(super) fn is_stream(&self) -> bool {
        let kind = self.content_type.as_deref().map(str::as_bytes);
        self.is_success() && MediaType::of(kind) == MediaType::EventStream
    }

    pub(super) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }
}

fn opened(outcome: &Result<Payload, ErrorObject>) -> Opened {
    match outcome {
        Ok(result) => Opened::Result(result.clone()),
        Err(error) => Opened::Error(error.clone()),
    }
}

/// The ids of the requests in a line. `broken`: also of what should be taken for something like one.
fn asked(line: &Line, broken: bool) -> Vec<RequestId> {
    let requests = line.parts().filter_map(|part| match part {
        Ok(Message::Request(request)) => Some(request.id.clone()),
        Ok(_) => None,
        Err(error) => error.id.clone().filter(|_| broken),
    });
    requests.collect()
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Amount, MOST_BYTES, MOST_MESSAGES};

    #[test]
    fn what_one_body_brings_ends_the_others_and_not_itself() {
        let amount = Amount::default();
        amount.bytes(MOST_BYTES);
        assert!(amount.is_full() && !amount.is_full_without(MOST_BYTES));
        let amount = Amount::default();
        (1..MOST_MESSAGES).for_each(|_| amount.message());
        assert!(!amount.is_full());
        amount.message();
        assert!(amount.is_full());
    }
}
