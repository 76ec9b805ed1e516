//! Reads responses: streams of events, whole bodies, and streams that are asked for again.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server>

use std::time::Duration;

use bytes::BytesMut;
use http::Method as Verb;
use mcpjoin::internal::http::Response;
use mcpjoin::internal::readable;
use mcpjoin::transport::Direction;
use mcpjoin_proto::codec::sse::{Event, SseDecoder, SseEvent};
use mcpjoin_proto::decode::Shape;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::{MediaType, resolve_same_origin};
use mcpjoin_proto::{DecodeError, Message, RequestId};
use mcpjoin_rules::{BodyEnd, Channel, Line, Probe, What};
use tokio::time::{Instant, sleep_until, timeout_at};
use url::Url;

use super::target::{Head, cause, recorded};
use super::{HttpSession, LOOK_TIME, Reply, Until};

/// Requests of the server that wait for a response.
const MAX_SERVER_REQUESTS: usize = 100;
/// How long a stream may take to end after its response.
const STREAM_END_TIMEOUT: Duration = Duration::from_secs(2);
/// How much is kept of a body that is no message.
const MAX_BODY_BYTES: usize = 2048;
/// How often a stream is asked for again.
const MAX_RESUMPTIONS: usize = 5;
/// How long to wait before that, where the server says nothing about it.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// An id that no response has.
const NO_REQUEST: &str = "mcpjoin-never-asked";

/// A stream that is being read.
pub(super) struct Stream {
    pub(super) number: u32,
    pub(super) response: Response,
    pub(super) decoder: SseDecoder,
}

/// Why a stream is no longer read.
#[derive(Debug)]
pub(super) enum StreamStop {
    /// Everything that was awaited was received.
    Received,
    TimedOut,
    Ended(BodyEnd),
}

impl StreamStop {
    /// How the stream ended; one that goes on is closed by us.
    pub(super) fn end(self) -> BodyEnd {
        match self {
            Self::Ended(end) => end,
            Self::Received | Self::TimedOut => BodyEnd::Left,
        }
    }
}

impl Stream {
    pub(super) fn new(number: u32, response: Response, max_event: usize) -> Self {
        Self { number, response, decoder: SseDecoder::new(max_event) }
    }
}

impl HttpSession {
    /// Reads a stream that is the response to a request.
    pub(super) async fn read_stream(
        &mut self,
        mut stream: Stream,
        reply: &mut Reply,
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
        let any = until == Until::FirstMessage;
        let mut stop = self.pump(&mut stream, &mut waiting, deadline, any).await;
        if matches!(stop, StreamStop::TimedOut) && until == Until::Ended {
            self.timed_out();
        }
        if matches!(stop, StreamStop::Received) {
            let time = if any || reply.asked.is_none() { LOOK_TIME } else { STREAM_END_TIMEOUT };
            stop = self.look_at(&mut stream, time).await;
        }
        let end = stop.end();
        let closed = end == BodyEnd::Complete && !waiting.is_empty();
        self.note(number, What::BodyEnded(end));
        reply.outcome = self.outcome(number, reply.asked.as_ref());
        if closed && let Some(rest) = Box::pin(self.resume_stream(number, &mut waiting, deadline)).await {
            reply.outcome = self.outcome(rest, reply.asked.as_ref());
        }
    }

    /// Reads a stream until all awaited responses are received, or with `any` until a message is.
    pub(super) async fn pump(
        &mut self,
        stream: &mut Stream,
        waiting: &mut Vec<RequestId>,
        deadline: Instant,
        any: bool,
    ) -> StreamStop {
        let mut ended = None;
        loop {
            let mut has_message = false;
            while let Some(event) = stream.decoder.poll_event() {
                match self.event(stream.number, event, waiting) {
                    Ok(message) => has_message |= message,
                    Err(problem) => return StreamStop::Ended(BodyEnd::Broken(problem.into())),
                }
            }
            if !self.server_requests.is_empty() {
                Box::pin(self.respond()).await;
            }
            if let Some(end) = ended {
                return StreamStop::Ended(end);
            }
            if if any { has_message } else { waiting.is_empty() } {
                return StreamStop::Received;
            }
            if self.state.traffic.is_full() {
                self.over = true;
                return StreamStop::TimedOut;
            }
            self.pace.pause().await;
            match timeout_at(deadline, stream.response.chunk()).await {
                Err(_) => return StreamStop::TimedOut,
                Ok(Ok(Some(piece))) => {
                    self.state.traffic.add(0, piece.len());
                    stream.decoder.push(piece);
                }
                Ok(Ok(None)) => {
                    stream.decoder.finish();
                    ended = Some(BodyEnd::Complete);
                }
                Ok(Err(error)) => ended = Some(BodyEnd::Broken(cause(&error).into())),
            }
        }
    }

    /// Reads the stream of the session until these requests have their responses. It stays open, unless it ends.
    pub(super) async fn read_session_stream(
        &mut self,
        mut stream: Stream,
        mut waiting: Vec<RequestId>,
        deadline: Instant,
    ) {
        match self.pump(&mut stream, &mut waiting, deadline, false).await {
            StreamStop::Ended(end) => {
                self.note(stream.number, What::BodyEnded(end));
                self.over = true;
                return;
            }
            StreamStop::TimedOut => self.timed_out(),
            StreamStop::Received => {}
        }
        self.stream = Some(stream);
    }

    /// Reads a stream for `time`, and expects nothing.
    async fn look_at(&mut self, stream: &mut Stream, time: Duration) -> StreamStop {
        self.pump(stream, &mut vec![RequestId::from(NO_REQUEST)], Instant::now() + time, false).await
    }

    /// Reads what the open stream has for us, and closes it.
    pub(crate) async fn close_stream(&mut self) {
        let Some(mut stream) = self.stream.take() else { return };
        let end = self.look_at(&mut stream, LOOK_TIME).await.end();
        self.note(stream.number, What::BodyEnded(end));
    }

    /// Sends a GET for the rest of a stream, and awaits the head of the response.
    ///
    /// # Errors
    /// Why there is no response.
    pub(super) async fn open_stream(
        &mut self,
        probe: Probe,
        head: &Head,
        deadline: Instant,
    ) -> (u32, Result<Response, Option<String>>) {
        let number = self.begin(probe, head, None);
        let response = match timeout_at(deadline, self.target.send(head, None)).await {
            Ok(Ok(response)) => response,
            Ok(Err(failure)) => return (number, Err(Some(failure.problem))),
            Err(_) => return (number, Err(None)),
        };
        self.note(number, What::Responded(recorded(&response)));
        (number, Ok(response))
    }

    /// Asks for the rest of a stream of the legacy era, whose connection was closed before it had brought everything,
    /// until all awaited responses are received. Returns the number of the last exchange, where there was one.
    async fn resume_stream(
        &mut self,
        number: u32,
        waiting: &mut Vec<RequestId>,
        deadline: Instant,
    ) -> Option<u32> {
        let (mut current, mut last) = (number, None);
        for _ in 0..MAX_RESUMPTIONS {
            if waiting.is_empty() || self.over || !self.state.manner.is_legacy() {
                break;
            }
            let Some(after) = self.last_event_id(current).or_else(|| self.last_event_id(number)) else {
                break;
            };
            let delay = self.retry_delay(current).or_else(|| self.retry_delay(number)).unwrap_or(RETRY_DELAY);
            let at = Instant::now() + delay;
            if at >= deadline {
                break;
            }
            sleep_until(at).await;
            let head = self.head(Verb::GET).with(name::LAST_EVENT_ID, &after);
            let opened = self.open_stream(Probe::Resume, &head, deadline).await;
            current = opened.0;
            let Ok(response) = opened.1 else {
                self.note(current, What::BodyEnded(BodyEnd::Broken("no response was received".into())));
                break;
            };
            if media_type(&response) != MediaType::EventStream || !response.status().is_success() {
                self.note(current, What::BodyEnded(BodyEnd::Left));
                break;
            }
            last = Some(current);
            let mut stream = Stream::new(current, response, self.max_message);
            let end = self.pump(&mut stream, waiting, deadline, false).await.end();
            self.note(current, What::BodyEnded(end));
        }
        if last.is_some() && !waiting.is_empty() {
            self.timed_out();
        }
        last
    }

    /// What an exchange has recorded, the newest first.
    fn newest<'r, T: 'r>(&'r self, number: u32, of: impl Fn(&'r What) -> Option<T> + 'r) -> Option<T> {
        let events = self.state.run.events.iter().rev().filter(move |event| event.exchange == Some(number));
        events.map(|event| &event.what).find_map(of)
    }

    /// The id of the last event of an exchange that has one.
    fn last_event_id(&self, number: u32) -> Option<String> {
        let id = self.newest(number, |what| match what {
            What::Streamed(event) => event.id.as_ref().filter(|id| !id.is_empty()),
            _ => None,
        })?;
        std::str::from_utf8(id).ok().map(str::to_owned)
    }

    /// How long the server wants us to wait before the next request for the stream.
    fn retry_delay(&self, number: u32) -> Option<Duration> {
        self.newest(number, |what| match what {
            What::Retry(time) => Some(*time),
            _ => None,
        })
    }

    /// The id of an event after which a stream can be resumed: the first event of the stream, if another follows it.
    pub(crate) fn resumable(&self) -> Option<String> {
        (1..=self.exchanges).find_map(|number| {
            let events = self.state.run.events.iter().filter(|event| event.exchange == Some(number));
            let mut streamed = events.filter_map(|event| match &event.what {
                What::Streamed(event) => Some(event),
                _ => None,
            });
            let first = streamed.next()?.id.as_ref().filter(|id| !id.is_empty())?;
            streamed.next()?;
            std::str::from_utf8(first).ok().map(str::to_owned)
        })
    }

    /// Waits for the event that names the endpoint of HTTP+SSE.
    ///
    /// # Errors
    /// What was received instead, in a few words.
    pub(crate) async fn await_endpoint(&mut self) -> Result<(), String> {
        let Some(mut stream) = self.stream.take() else { return Err("it opened no stream".into()) };
        let deadline = Instant::now() + self.state.response_timeout;
        while self.endpoint.is_none() && self.bad_endpoint.is_none() && !self.over {
            let time = LOOK_TIME.min(deadline.saturating_duration_since(Instant::now()));
            match self.look_at(&mut stream, time).await {
                StreamStop::TimedOut if Instant::now() < deadline => {}
                StreamStop::Ended(end) => {
                    self.note(stream.number, What::BodyEnded(end));
                    return Err("its stream ended before the event endpoint".into());
                }
                _ => break,
            }
        }
        self.stream = Some(stream);
        match (&self.endpoint, self.bad_endpoint.take()) {
            (_, Some(problem)) => Err(problem),
            (Some(_), None) => Ok(()),
            (None, None) => Err("its stream had no event endpoint".into()),
        }
    }

    /// Records an event. Returns whether it contains a message.
    fn event(&mut self, number: u32, event: SseEvent, waiting: &mut Vec<RequestId>) -> Result<bool, String> {
        let event = match event {
            SseEvent::Event(event) => event,
            SseEvent::Id(id) => {
                self.note(number, What::Streamed(Event { id: Some(id), ..Event::default() }));
                return Ok(false);
            }
            SseEvent::TooLong { .. } => {
                self.over = true;
                return Err(format!("an event is longer than {} bytes", self.max_message));
            }
            SseEvent::Retry(milliseconds) => {
                self.note(number, What::Retry(Duration::from_millis(milliseconds)));
                return Ok(false);
            }
            SseEvent::Comment | SseEvent::Unfinished(_) => return Ok(false),
        };
        let is_sse = self.state.run.channel == Channel::HttpSse;
        let is_message = event.name.as_ref().is_none_or(|name| name == "message")
            || is_sse && event.data.trim_ascii_start().first() == Some(&b'{');
        if is_sse && self.endpoint.is_none() && event.name.as_deref() == Some(b"endpoint") {
            self.endpoint(&String::from_utf8_lossy(&event.data));
        }
        let data = event.data.clone();
        self.note(number, What::Streamed(event));
        if !is_message || data.is_empty() {
            return Ok(false);
        }
        self.message(number, Line::new(data), waiting);
        Ok(true)
    }

    /// Takes over the endpoint of HTTP+SSE, which must have the origin of the stream.
    fn endpoint(&mut self, address: &str) {
        match resolve_same_origin(self.target.url.as_str(), address) {
            Ok(resolved) => self.endpoint = Url::parse(&resolved).ok(),
            Err(error) => {
                // A query may contain a secret.
                let shown = address.split(['?', '#']).next().unwrap_or_default();
                self.bad_endpoint = Some(format!("its endpoint is {}: {error}", readable(shown.as_bytes())));
            }
        }
    }

    /// Records a message.
    fn message(&mut self, number: u32, line: Line, waiting: &mut Vec<RequestId>) {
        self.target.inspect(Direction::In, line.bytes());
        self.state.traffic.add(1, 0);
        for part in line.parts() {
            let id = match part {
                Ok(Message::Response(response)) => response.id.as_ref(),
                Ok(Message::Request(request)) => {
                    if !self.responding && self.server_requests.len() < MAX_SERVER_REQUESTS {
                        self.server_requests.push((request.id.clone(), request.method.clone()));
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

    /// Reads a body that is no stream of events.
    pub(super) async fn read_whole(
        &mut self,
        number: u32,
        mut response: Response,
        reply: &mut Reply,
        waiting: &mut Vec<RequestId>,
        deadline: Instant,
    ) {
        let mut body = BytesMut::new();
        let end = loop {
            self.pace.pause().await;
            match timeout_at(deadline, response.chunk()).await {
                Err(_) => break BodyEnd::Broken("it did not end in time".into()),
                // One body alone is limited by the length of a message.
                Ok(Ok(Some(_))) if self.state.traffic.is_full_without(body.len()) => {
                    self.over = true;
                    break BodyEnd::Left;
                }
                Ok(Ok(Some(piece))) if body.len() + piece.len() <= self.max_message => {
                    self.state.traffic.add(0, piece.len());
                    body.extend_from_slice(&piece);
                }
                Ok(Ok(Some(_))) => {
                    break BodyEnd::Broken(format!("it is longer than {} bytes", self.max_message).into());
                }
                Ok(Ok(None)) => break BodyEnd::Complete,
                Ok(Err(error)) => break BodyEnd::Broken(cause(&error).into()),
            }
        };
        let body = body.freeze();
        let line = Line::new(body.clone());
        let is_complete = end == BodyEnd::Complete && !body.trim_ascii().is_empty();
        if is_complete && is_message(&response, &line) {
            self.message(number, line, waiting);
        } else if !body.is_empty() {
            reply.body = body.slice(..body.len().min(MAX_BODY_BYTES));
            self.note(number, What::Body(reply.body.clone()));
        }
        self.note(number, What::BodyEnded(end));
    }
}

/// Whether a body is to be read as a message.
fn is_message(response: &Response, line: &Line) -> bool {
    let is_json = matches!(line.bytes().trim_ascii_start().first(), Some(b'{' | b'['));
    match (response.status().is_success(), media_type(response)) {
        (true, MediaType::Json) => true,
        // A message may have another content type.
        (true, _) => is_json && line.parts().any(|part| part.is_ok()),
        // An error may have any body.
        (false, _) => is_json && line.parts().any(|part| is_response(&part)),
    }
}

fn is_response(part: &Result<&Message, &DecodeError>) -> bool {
    match part {
        Ok(message) => matches!(message, Message::Response(_)),
        Err(error) => error.shape == Shape::Response,
    }
}

fn media_type(response: &Response) -> MediaType {
    let kind = response.headers().get(http::header::CONTENT_TYPE);
    MediaType::of(kind.map(http::HeaderValue::as_bytes))
}
