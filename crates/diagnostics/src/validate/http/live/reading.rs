//! What comes: streams of events, and bodies that are none.

use std::time::Duration;

use bytes::BytesMut;
use mcpjoin::internal::http::Response;
use mcpjoin_proto::codec::sse::{SseDecoder, SseEvent};
use mcpjoin_proto::decode::Shape;
use mcpjoin_proto::http::origin::{MediaType, resolve_same_origin};
use mcpjoin_proto::{DecodeError, Message, RequestId};
use mcpjoin_rules::{BodyEnd, Channel, Line, StreamEvent, What};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::super::wire;
use super::{Live, MOMENT, Reply, Until};
use mcpjoin::internal::readable;
use mcpjoin::link::Way;

/// So many requests of the server wait to be answered.
const MOST_ASKED: usize = 100;
/// A stream has so long to end after its response.
const END: Duration = Duration::from_secs(2);
/// So much of a body is kept that is no message.
const KEPT: usize = 2048;

/// A stream that is being read.
pub(super) struct Stream {
    pub(super) number: u32,
    pub(super) response: Response,
    pub(super) decoder: SseDecoder,
}

/// Why a stream is no longer read.
#[derive(Debug)]
pub(super) enum Stopped {
    Answered,
    TimedOut,
    Ended(BodyEnd),
}

impl Live<'_> {
    /// Reads a stream that answers a request.
    pub(super) async fn streamed(
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
        let closed = end == BodyEnd::Complete && !waiting.is_empty();
        self.note(number, What::BodyEnded(end));
        reply.opened = self.opening(number, first.as_ref());
        if closed && let Some(rest) = Box::pin(self.rest(number, &mut waiting, deadline)).await {
            reply.opened = self.opening(rest, first.as_ref());
        }
    }

    /// Reads a stream until all that is waited for has come, or any message when `any`.
    pub(super) async fn pump(
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
            if !self.asked.is_empty() {
                Box::pin(self.answer_requests()).await;
            }
            if let Some(end) = ended {
                return Stopped::Ended(end);
            }
            if if any { came } else { waiting.is_empty() } {
                return Stopped::Answered;
            }
            if self.amount.is_full() {
                self.over = true;
                return Stopped::TimedOut;
            }
            self.pace.pause().await;
            match timeout_at(deadline, stream.response.chunk()).await {
                Err(_) => return Stopped::TimedOut,
                Ok(Ok(Some(piece))) => {
                    self.amount.bytes(piece.len());
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
    pub(in super::super) async fn close_stream(&mut self) {
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
    pub(in super::super) async fn wait_for_endpoint(&mut self) -> Result<(), String> {
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
            SseEvent::Comment => return Ok(false),
            SseEvent::Retry(milliseconds) => {
                self.note(number, What::Retry(Duration::from_millis(milliseconds)));
                return Ok(false);
            }
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
                Err(error) => {
                    let told = address.split(['?', '#']).next().unwrap_or_default();
                    self.elsewhere = Some(format!("its endpoint is {}: {error}", readable(told.as_bytes())));
                }
            }
        }
        self.note(
            number,
            What::Streamed(StreamEvent { name: event.name, id: event.id, data: event.data, retry: None }),
        );
        if !is_message || data.is_empty() {
            return Ok(false);
        }
        self.came(number, Line::new(data), waiting);
        Ok(true)
    }

    /// Notes a message that has come.
    fn came(&mut self, number: u32, line: Line, waiting: &mut Vec<RequestId>) {
        self.wire.crossed(Way::In, line.bytes());
        self.amount.message();
        for part in line.parts() {
            let id = match part {
                Ok(Message::Response(response)) => response.id.as_ref(),
                Ok(Message::Request(request)) => {
                    if !self.answering && self.asked.len() < MOST_ASKED {
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
    pub(super) async fn collected(
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
            self.pace.pause().await;
            match timeout_at(deadline, response.chunk()).await {
                Err(_) => break BodyEnd::Broken("it did not end in time".into()),
                // One body alone is bounded by its own limit.
                Ok(Ok(Some(_))) if self.amount.is_full_without(body.len()) => {
                    self.over = true;
                    break BodyEnd::Left;
                }
                Ok(Ok(Some(piece))) if body.len() + piece.len() <= self.limit => {
                    self.amount.bytes(piece.len());
                    body.extend_from_slice(&piece);
                }
                Ok(Ok(Some(_))) => {
                    break BodyEnd::Broken(format!("it is longer than {} bytes", self.limit).into());
                }
                Ok(Ok(None)) => break BodyEnd::Complete,
                Ok(Err(error)) => break BodyEnd::Broken(wire::told(&error).into()),
            }
        };
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
}

fn is_response(part: &Result<&Message, &DecodeError>) -> bool {
    match part {
        Ok(message) => matches!(message, Message::Response(_)),
        Err(error) => error.shape == Shape::Response,
    }
}
