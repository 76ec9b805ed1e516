//! One run over HTTP while it goes on: exchanges, each noted part by part with its time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcpjoin_check::{BodyEnd, Channel, Line, Probe, Run, StreamEvent, What};
use mcpjoin_proto::codec::sse::{SseDecoder, SseEvent};
use mcpjoin_proto::decode::Shape;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::{MediaType, resolve_same_origin};
use mcpjoin_proto::{
    ErrorObject, Message, Method, Payload, Profile, Raw, RequestId, Response as Answer, Version,
};
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Method as Verb, Response, Url};
use tokio::time::{Instant, timeout_at};

use super::super::live::Opened;
use super::super::probes::Manner;
use super::wire::{self, Head, Wire};
use crate::link::Way;

/// So many requests may stay without an answer until no more is asked.
const PATIENCE: usize = 2;
/// So much may come in one run until no more is asked.
const MOST_EVENTS: usize = 20_000;
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// So many requests of the server wait to be answered.
const MOST_ASKED: usize = 100;
/// A stream has so long to end after its response.
const END: Duration = Duration::from_secs(2);
/// How long to look for what comes late.
pub(super) const MOMENT: Duration = Duration::from_millis(200);
/// So much of a body is kept that is no message.
const KEPT: usize = 2048;

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
    count: usize,
    bytes: usize,
    /// What the server asks, and has not been answered yet.
    asked: Vec<(RequestId, Method)>,
    over: bool,
}

/// A stream that is being read.
struct Stream {
    number: u32,
    response: Response,
    decoder: SseDecoder,
    /// It comes with the response to an answer of ours.
    is_answer: bool,
}

/// What a request came to.
#[derive(Debug)]
pub(super) struct Reply {
    /// The status of the response; `None` when there was none.
    pub(super) status: Option<u16>,
    /// Why there was none.
    pub(super) failure: Option<String>,
    pub(super) content_type: Option<String>,
    /// The id of a session that came with it.
    pub(super) session: Option<HeaderValue>,
    /// The response to the first request in it.
    pub(super) opened: Opened,
    /// The beginning of a body that was no message.
    pub(super) body: Bytes,
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

/// Why a stream is no longer read.
#[derive(Debug)]
enum Stopped {
    Answered,
    TimedOut,
    Ended(BodyEnd),
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
            count: 0,
            bytes: 0,
            asked: Vec::new(),
            over: false,
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
                let method = line.parts().find_map(|part| match part {
                    Ok(Message::Request(request)) => Some(request.method.as_str().to_owned()),
                    Ok(Message::Notification(told)) => Some(told.method.as_str().to_owned()),
                    _ => None,
                });
                if let Some(method) = method {
                    head = head.with(name::METHOD, &method);
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
        self.over |= self.count >= MOST_EVENTS || self.bytes >= MOST_BYTES;
        if self.over {
            return Reply::nothing(String::new());
        }
        self.next_exchange += 1;
        let number = self.next_exchange;
        self.note(number, What::Requested(probe, head.noted()));
        let mut waiting = Vec::new();
        if let Some(line) = line {
            self.wire.crossed(Way::Out, line.as_bytes());
            let line = Line::new(line.to_owned());
            waiting = asked(&line, self.endpoint.is_none());
            self.note(number, What::Sent(probe, line));
        }
        let deadline = Instant::now() + within;
        let first = waiting.first().cloned();
        let body = line.map(|line| Bytes::copy_from_slice(line.as_bytes()));
        let response = match timeout_at(deadline, self.wire.send(&head, body)).await {
            Ok(Ok(response)) => response,
            Ok(Err(problem)) => return self.failed(number, problem),
            Err(_) => {
                self.silent();
                return self.failed(number, format!("nothing came within {} s", within.as_secs_f64()));
            }
        };
        self.note(number, What::Responded(wire::noted(&response)));
        let mut reply = Reply {
            status: Some(response.status().as_u16()),
            failure: None,
            content_type: response.headers().get(CONTENT_TYPE).map(text),
            session: response.headers().get(name::SESSION_ID).cloned(),
            opened: Opened::Nothing,
            body: Bytes::new(),
        };
        let kind = MediaType::of(response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes));
        if kind == MediaType::EventStream && response.status().is_success() {
            let stream = Stream {
                number,
                response,
                decoder: SseDecoder::new(self.limit),
                is_answer: probe == Probe::Answer,
            };
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
        // What comes with the response to an answer waits for the next thing that is sent.
        if !self.asked.is_empty() && probe != Probe::Answer {
            Box::pin(self.answer_requests()).await;
        }
        reply
    }

    /// Reads a stream that answers a request.
    async fn streamed(
        &mut self,
        mut stream: Stream,
        reply: &mut Reply,
        first: Option<RequestId>,
        mut waiting: Vec<RequestId>,
        until: Until,
        deadline: Instant,
    ) {
        let number = stream.number;
        if until == Until::Closed {
            return self.note(number, What::BodyEnded(BodyEnd::Left));
        }
        if until == Until::Open {
            self.stream = Some(stream);
            return;
        }
        let mut stopped = self.pump(&mut stream, &mut waiting, deadline, until == Until::FirstMessage).await;
        if matches!(stopped, Stopped::TimedOut) && until == Until::Ended {
            self.silent();
        }
        if matches!(stopped, Stopped::Answered) {
            let time = if until == Until::FirstMessage || first.is_none() { MOMENT } else { END };
            // Nothing is waited for but its end.
            stopped = self.look_at(&mut stream, time).await;
        }
        let end = match stopped {
            Stopped::Ended(end) => end,
            Stopped::Answered | Stopped::TimedOut => BodyEnd::Left,
        };
        self.note(number, What::BodyEnded(end));
        reply.opened = self.opening(number, first.as_ref());
    }

    /// Reads a stream until all that is waited for has come, or any message when `any`.
    async fn pump(
        &mut self,
        stream: &mut Stream,
        waiting: &mut Vec<RequestId>,
        deadline: Instant,
        any: bool,
    ) -> Stopped {
        let mut ended = None;
        loop {
            let mut came = false;
            while let Some(event) = stream.decoder.poll_event() {
                match self.event(stream.number, event, waiting) {
                    Ok(message) => came |= message,
                    Err(problem) => return Stopped::Ended(BodyEnd::Broken(problem.into())),
                }
            }
            if !self.asked.is_empty() && !stream.is_answer {
                Box::pin(self.answer_requests()).await;
            }
            if let Some(end) = ended {
                return Stopped::Ended(end);
            }
            if if any { came } else { waiting.is_empty() } {
                return Stopped::Answered;
            }
            if self.count >= MOST_EVENTS || self.bytes >= MOST_BYTES {
                self.over = true;
                return Stopped::TimedOut;
            }
            match timeout_at(deadline, stream.response.chunk()).await {
                Err(_) => return Stopped::TimedOut,
                Ok(Ok(Some(piece))) => {
                    self.bytes = self.bytes.saturating_add(piece.len());
                    stream.decoder.push(piece);
                }
                Ok(Ok(None)) => {
                    stream.decoder.finish();
                    ended = Some(BodyEnd::Complete);
                }
                Ok(Err(error)) => ended = Some(BodyEnd::Broken(wire::told(&error).into())),
            }
        }
    }

    /// Reads what comes on a stream for a while.
    async fn look_at(&mut self, stream: &mut Stream, time: Duration) -> Stopped {
        // No answer has such an id.
        let mut never = vec![RequestId::from("mcpjoin-never-asked")];
        self.pump(stream, &mut never, Instant::now() + time, false).await
    }

    /// Reads what has come on the open stream, and closes it.
    pub(super) async fn close_stream(&mut self) {
        let Some(mut stream) = self.stream.take() else { return };
        let end = match self.look_at(&mut stream, MOMENT).await {
            Stopped::Ended(end) => end,
            Stopped::Answered | Stopped::TimedOut => BodyEnd::Left,
        };
        self.note(stream.number, What::BodyEnded(end));
    }

    /// Waits for the event that says where messages are posted.
    ///
    /// # Errors
    /// What came instead, in a few words.
    pub(super) async fn wait_for_endpoint(&mut self) -> Result<(), String> {
        let Some(mut stream) = self.stream.take() else { return Err("it opened no stream".into()) };
        let deadline = Instant::now() + self.answer;
        let mut never = vec![RequestId::from("mcpjoin-never-asked")];
        while self.endpoint.is_none() && self.elsewhere.is_none() && !self.over {
            let soon = (Instant::now() + MOMENT).min(deadline);
            match self.pump(&mut stream, &mut never, soon, false).await {
                Stopped::TimedOut if Instant::now() < deadline => {}
                Stopped::Ended(end) => {
                    self.note(stream.number, What::BodyEnded(end));
                    return Err("its stream ended before the event endpoint".into());
                }
                _ => break,
            }
        }
        self.stream = Some(stream);
        match (&self.endpoint, self.elsewhere.take()) {
            (_, Some(elsewhere)) => Err(elsewhere),
            (Some(_), None) => Ok(()),
            (None, None) => Err("no event endpoint came on its stream".into()),
        }
    }

    /// Notes an event. Whether a message was in it.
    fn event(&mut self, number: u32, event: SseEvent, waiting: &mut Vec<RequestId>) -> Result<bool, String> {
        let (event, whole) = match event {
            SseEvent::Event(event) => (event, true),
            // It was not sent to its end.
            SseEvent::Unfinished(event) => (event, false),
            SseEvent::Id(id) => {
                self.note(number, What::Streamed(StreamEvent { id: Some(id), ..StreamEvent::default() }));
                return Ok(false);
            }
            SseEvent::TooLong { .. } => {
                self.over = true;
                return Err(format!("an event is longer than {} bytes", self.limit));
            }
            SseEvent::Comment | SseEvent::Retry(_) => return Ok(false),
        };
        if !whole {
            return Ok(false);
        }
        let named = event.name.as_ref().is_none_or(|name| name == "message");
        let sse = self.run.channel == Channel::HttpSse;
        let is_message = named || sse && event.data.trim_ascii_start().first() == Some(&b'{');
        let data = event.data.clone();
        if sse && self.endpoint.is_none() && event.name.as_deref() == Some(b"endpoint") {
            let address = String::from_utf8_lossy(&data);
            match resolve_same_origin(self.wire.url.as_str(), &address) {
                Ok(resolved) => self.endpoint = Url::parse(&resolved).ok(),
                Err(error) => self.elsewhere = Some(format!("its endpoint is {address:?}: {error}")),
            }
        }
        self.note(number, What::Streamed(StreamEvent { name: event.name, id: event.id, data: event.data }));
        if !is_message || data.is_empty() {
            return Ok(false);
        }
        self.came(number, Line::new(data), waiting);
        Ok(true)
    }

    /// Notes a message that has come.
    fn came(&mut self, number: u32, line: Line, waiting: &mut Vec<RequestId>) {
        self.wire.crossed(Way::In, line.bytes());
        self.count += 1;
        for part in line.parts() {
            let id = match part {
                Ok(Message::Response(response)) => response.id.as_ref(),
                Ok(Message::Request(request)) => {
                    if self.asked.len() < MOST_ASKED {
                        self.asked.push((request.id.clone(), request.method.clone()));
                    }
                    None
                }
                Ok(Message::Notification(_)) => None,
                Err(error) => error.id.as_ref(),
            };
            waiting.retain(|wanted| Some(wanted) != id);
        }
        self.note(number, What::Received(line));
    }

    /// Reads a body that is no stream.
    async fn collected(
        &mut self,
        number: u32,
        mut response: Response,
        kind: MediaType,
        reply: &mut Reply,
        waiting: &mut Vec<RequestId>,
        deadline: Instant,
    ) {
        let mut body = BytesMut::new();
        let success = response.status().is_success();
        let end = loop {
            match timeout_at(deadline, response.chunk()).await {
                Err(_) => break BodyEnd::Broken("it did not end in time".into()),
                Ok(Ok(Some(piece))) if body.len() + piece.len() <= self.limit => {
                    body.extend_from_slice(&piece);
                }
                Ok(Ok(Some(_))) => {
                    break BodyEnd::Broken(format!("it is longer than {} bytes", self.limit).into());
                }
                Ok(Ok(None)) => break BodyEnd::Complete,
                Ok(Err(error)) => break BodyEnd::Broken(wire::told(&error).into()),
            }
        };
        self.bytes = self.bytes.saturating_add(body.len());
        let body = body.freeze();
        let json = matches!(body.trim_ascii_start().first(), Some(b'{' | b'['));
        let line = Line::new(body.clone());
        let is_message = match (success, kind) {
            _ if end != BodyEnd::Complete || body.trim_ascii().is_empty() => false,
            (true, MediaType::Json) => true,
            // What says to be something else may be a message all the same.
            (true, _) => json && line.parts().any(|part| part.is_ok()),
            // An error may have any body.
            (false, _) => {
                json && line
                    .parts()
                    .any(|part| matches!(part, Ok(Message::Response(_)) | Err(_)) && is_response(&part))
            }
        };
        if is_message {
            self.came(number, line, waiting);
        } else if !body.is_empty() {
            reply.body = body.slice(..body.len().min(KEPT));
            self.note(number, What::Body(reply.body.clone()));
        }
        self.note(number, What::BodyEnded(end));
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
    }

    fn silent(&mut self) {
        self.silences += 1;
        self.over |= self.silences >= PATIENCE;
    }

    fn failed(&mut self, number: u32, problem: String) -> Reply {
        self.note(number, What::BodyEnded(BodyEnd::Broken(problem.as_str().into())));
        Reply::nothing(problem)
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
            session: None,
            opened: Opened::Nothing,
            body: Bytes::new(),
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

fn is_response(part: &Result<&Message, &mcpjoin_proto::DecodeError>) -> bool {
    match part {
        Ok(message) => matches!(message, Message::Response(_)),
        Err(error) => error.shape == Shape::Response,
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
