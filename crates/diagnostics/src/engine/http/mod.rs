//! A session over HTTP: exchanges, each recorded part by part with its time.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http>,
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

mod pace;
mod read;
mod session_end;
mod stress;
mod target;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method as Verb;
use http::header::{CONTENT_TYPE, HeaderValue};
use mcpjoin::internal::refusal;
use mcpjoin::transport::Direction;
use mcpjoin_proto::http::headers::{encode_value, name, named_by};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::session::TransportError;
use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Message, Method, Profile, RequestId, Response, Version};
use mcpjoin_rules::{BodyEnd, Channel, HttpRequest, HttpResponse, Line, Probe, Run, What};
use tokio::time::{Instant, timeout_at};
use url::Url;

pub(crate) use self::pace::Pace;
use self::read::Stream;
use self::session_end::SessionEnd;
pub(crate) use self::stress::Abort;
use self::target::SendError;
pub(crate) use self::target::{Head, Inspector, Target, anonymous_client, location, pairs, read_body};
use super::message::{Manner, Question, version_of};
use super::session::{Outcome, RunState, Session, is_of_clients, request_ids, response_to};

/// How long events are awaited that the server may or may not send.
pub(crate) const LOOK_TIME: Duration = Duration::from_millis(200);

/// How long a response is awaited that was not received in time: a late one is recorded as late.
const LATE_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) struct HttpSession {
    target: Arc<Target>,
    state: RunState,
    /// The longest message, in bytes.
    max_message: usize,
    exchanges: u32,
    /// The id that the server has given to the session.
    pub(crate) session_id: Option<HeaderValue>,
    /// Ends the session where the examination does not.
    session_end: Option<SessionEnd>,
    /// The version that was agreed on, which requests name from then on.
    agreed: Option<Version>,
    /// Where messages are posted in HTTP+SSE.
    endpoint: Option<Url>,
    /// Why nothing can be posted to the endpoint that the server names.
    bad_endpoint: Option<String>,
    /// The stream of HTTP+SSE, or the one that a GET has opened.
    stream: Option<Stream>,
    /// The requests of the server that have no response yet.
    server_requests: Vec<(RequestId, Method)>,
    /// Responses to requests of the server are being sent. Requests that are received meanwhile get none: each response
    /// could bring the next request.
    responding: bool,
    /// How fast requests are sent and responses read.
    pub(crate) pace: Pace,
    over: bool,
    /// The reply to the first request, which opens the session.
    opening: Option<Reply>,
}

/// The outcome of an exchange.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// The status of the response; `None` when there was none.
    pub(crate) status: Option<u16>,
    /// Why there was none; `None` as well when it did not come in time.
    pub(crate) failure: Option<TransportError>,
    pub(crate) content_type: Option<String>,
    /// The target of a redirect, without user, password and query.
    pub(crate) location: Option<String>,
    /// Why the server refuses us, from `WWW-Authenticate`.
    pub(crate) reason: Option<String>,
    /// The id of the session that the response has opened.
    pub(crate) session: Option<HeaderValue>,
    /// The id of the first request in the exchange.
    pub(crate) asked: Option<RequestId>,
    /// The response to that request.
    pub(crate) outcome: Outcome,
    /// The beginning of a body that was no message.
    pub(crate) body: Bytes,
    /// When the request was sent.
    pub(crate) began: Instant,
}

/// How long a stream is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until all requests in it have a response, and it has ended.
    Ended,
    /// Until the first message, and what follows it at once.
    FirstMessage,
    /// Not yet: it stays open, and is read with later exchanges.
    Open,
    /// Not at all: it is closed at once.
    Closed,
}

impl HttpSession {
    /// `max_message`: the longest message, in bytes.
    pub(crate) fn new(target: Arc<Target>, state: RunState, max_message: usize) -> Self {
        Self {
            over: target.is_gone(),
            target,
            state,
            max_message,
            exchanges: 0,
            session_id: None,
            session_end: None,
            agreed: None,
            endpoint: None,
            bad_endpoint: None,
            stream: None,
            server_requests: Vec::new(),
            responding: false,
            pace: Pace::default(),
            opening: None,
        }
    }

    /// The reply to the request that was to open the session.
    pub(crate) fn opening(&self) -> Reply {
        self.opening.clone().unwrap_or_else(|| Reply::nothing(None))
    }

    /// The head of a POST of this message, with all headers that it must have.
    pub(crate) fn post(&self, line: &str) -> Head {
        let head = self.target.head(Verb::POST);
        let mut head = match &self.state.manner {
            Manner::Legacy => self.in_session(head),
            Manner::Modern(version) => modern_headers(head, version, line),
        };
        if let Some(endpoint) = &self.endpoint {
            head.url = endpoint.clone();
        }
        head
    }

    /// The head of another request in the session.
    pub(crate) fn head(&self, verb: Verb) -> Head {
        self.in_session(self.target.head(verb))
    }

    fn in_session(&self, mut head: Head) -> Head {
        if let Some(session) = &self.session_id {
            head.headers.insert(name::SESSION_ID, session.clone());
        }
        let has_header =
            |version: &&Version| Profile::of(version).is_some_and(|profile| profile.http_version_header);
        if let Some(version) = self.agreed.as_ref().filter(has_header) {
            head = head.with(name::PROTOCOL_VERSION, version.as_str());
        }
        head
    }

    /// The examination ends the session itself from now on.
    pub(crate) fn ends(&mut self) {
        self.session_end.take().into_iter().for_each(SessionEnd::cancel);
    }

    /// Posts a message, with another head.
    pub(crate) async fn post_as(
        &mut self,
        probe: Probe,
        line: String,
        change: impl FnOnce(Head) -> Head,
    ) -> Reply {
        self.announce(probe);
        let head = change(self.post(&line));
        self.exchange(probe, head, Some(&line), Until::Ended, self.state.response_timeout).await
    }

    /// Sends a request without a body, with another head.
    pub(crate) async fn send_as(
        &mut self,
        probe: Probe,
        verb: Verb,
        until: Until,
        change: impl FnOnce(Head) -> Head,
    ) -> Reply {
        self.announce(probe);
        let head = change(self.head(verb));
        self.exchange(probe, head, None, until, self.state.response_timeout).await
    }

    /// Begins an exchange: records the request and the message in it. Returns its number.
    fn begin(&mut self, probe: Probe, head: &Head, line: Option<&Line>) -> u32 {
        self.exchanges += 1;
        let number = self.exchanges;
        self.note(number, What::Requested(probe, head.recorded()));
        if let Some(line) = line {
            self.target.inspect(Direction::Out, line.bytes());
            self.note(number, What::Sent(probe, line.clone()));
        }
        number
    }

    /// Sends a request and reads its response.
    pub(crate) async fn exchange(
        &mut self,
        probe: Probe,
        head: Head,
        line: Option<&str>,
        until: Until,
        within: Duration,
    ) -> Reply {
        self.over |= self.state.traffic.is_full();
        if self.over {
            return Reply::nothing(Some(TransportError::new("the server has ended", true)));
        }
        let first_event = self.state.run.events.len();
        let message = line.map(|line| Line::new(line.to_owned()));
        let number = self.begin(probe, &head, message.as_ref());
        let waiting = message.map(|line| request_ids(&line, self.endpoint.is_none())).unwrap_or_default();
        let began = Instant::now();
        let is_awaited = until == Until::Ended && within == self.state.response_timeout;
        let late = if is_awaited { LATE_TIMEOUT } else { Duration::ZERO };
        let deadline = began + within + self.pace.longest() + late;
        let first = waiting.first().cloned();
        let body = line.map(|line| self.pace.body(line));
        let response = match timeout_at(deadline, self.target.send(&head, body)).await {
            Ok(Ok(response)) => response,
            Ok(Err(failure)) if failure.gone && (first.is_some() || self.target.has_lost()) => {
                return self.server_ended(number, first_event, failure);
            }
            // The next request records it.
            Ok(Err(failure)) if failure.gone => {
                self.state.run.events.truncate(first_event);
                return Reply::nothing(Some(failure.error));
            }
            Ok(Err(failure)) => {
                self.target.note_lost(first.is_some());
                self.note_broken(number, &failure.problem);
                return Reply::nothing(Some(failure.error));
            }
            Err(_) => {
                self.timed_out();
                self.note_broken(number, &format!("no response within {} s", within.as_secs_f64()));
                return Reply::nothing(None);
            }
        };
        self.target.note_lost(false);
        self.note(number, What::Responded(target::recorded(&response)));
        let mut reply = Reply {
            status: Some(response.status().as_u16()),
            failure: None,
            content_type: response.headers().get(CONTENT_TYPE).map(text),
            location: location(&self.target.url, response.headers()),
            reason: refusal(response.headers()),
            session: response.headers().get(name::SESSION_ID).cloned(),
            asked: first,
            outcome: Outcome::Nothing,
            body: Bytes::new(),
            began,
        };
        if reply.is_stream() {
            let stream = Stream::new(number, response, self.max_message);
            Box::pin(self.read_stream(stream, &mut reply, waiting, until, deadline)).await;
        } else {
            let mut waiting = waiting;
            self.read_whole(number, response, &mut reply, &mut waiting, deadline).await;
            reply.outcome = self.outcome(number, reply.asked.as_ref());
            if let Some(stream) = self.stream.take_if(|_| self.endpoint.is_some()) {
                // In HTTP+SSE, the response comes on the stream of the session.
                let number = stream.number;
                if reply.status.is_some_and(|status| status < 300) && !waiting.is_empty() {
                    self.read_session_stream(stream, waiting, deadline).await;
                    reply.outcome = self.outcome(number, reply.asked.as_ref());
                } else {
                    self.stream = Some(stream);
                }
            }
        }
        if !self.server_requests.is_empty() {
            Box::pin(self.respond()).await;
        }
        reply
    }

    /// The response to a request, among what was received in an exchange.
    fn outcome(&self, number: u32, id: Option<&RequestId>) -> Outcome {
        let events = self.state.run.events.iter().filter(|event| event.exchange == Some(number));
        let lines = events.filter_map(|event| match &event.what {
            What::Received(line) => Some(line),
            _ => None,
        });
        let mut otherwise = None;
        for part in lines.flat_map(Line::parts) {
            match part {
                Ok(Message::Response(response)) if response.id.as_ref() == id && id.is_some() => {
                    return Outcome::of(&response.outcome);
                }
                // Refused before its id was read.
                Ok(Message::Response(response)) if response.id.is_none() => {
                    otherwise = Some(Outcome::of(&response.outcome));
                }
                Ok(Message::Response(Response { id: Some(other), .. })) if otherwise.is_none() => {
                    otherwise = Some(Outcome::Other(other.clone()));
                }
                Ok(Message::Request(request)) if is_of_clients(&request.method) => return Outcome::Echo,
                Err(error) if error.id.as_ref() == id || error.id.is_none() => {
                    otherwise = Some(Outcome::Broken(error.clone()));
                }
                _ => {}
            }
        }
        otherwise.unwrap_or(Outcome::Nothing)
    }

    /// Responds to the requests of the server.
    async fn respond(&mut self) {
        self.responding = true;
        for (id, method) in std::mem::take(&mut self.server_requests) {
            // In the modern era a client sends no responses.
            if self.state.manner.is_legacy() {
                self.post_message(Probe::Answer, &response_to(id, &method)).await;
            }
        }
        self.responding = false;
    }

    async fn post_message(&mut self, probe: Probe, line: &str) -> Reply {
        let head = self.post(line);
        self.exchange(probe, head, Some(line), Until::Ended, self.state.response_timeout).await
    }

    fn timed_out(&mut self) {
        self.over |= self.state.timed_out();
    }

    fn note_broken(&mut self, number: u32, problem: &str) {
        self.note(number, What::BodyEnded(BodyEnd::Broken(problem.into())));
    }

    /// The server refuses connections now. `first`: the index of the first event of this exchange.
    fn server_ended(&mut self, number: u32, first: usize, failure: SendError) -> Reply {
        self.over = true;
        self.target.note_gone();
        // At most one request was in flight when the server ended: the last that was sent to it.
        if self.target.has_lost() {
            self.state.run.events.truncate(first);
        } else {
            self.note_broken(number, &failure.problem);
        }
        self.state.note(What::OutputEnded);
        Reply::nothing(Some(failure.error))
    }

    /// Records a document that was fetched, or why it was not.
    pub(crate) fn fetched(
        &mut self,
        probe: Probe,
        url: &str,
        fetched: Result<(HttpResponse, Bytes), String>,
    ) {
        self.exchanges += 1;
        let number = self.exchanges;
        let request = HttpRequest { method: "GET".into(), url: url.into(), headers: Vec::new() };
        self.note(number, What::Requested(probe, request));
        let end = match fetched {
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
        self.state.run.note_in(number, self.state.started.elapsed(), what);
    }

    /// The head of the last response.
    pub(crate) fn last_response(&self) -> Option<HttpResponse> {
        self.state.run.events.iter().rev().find_map(|event| match &event.what {
            What::Responded(response) => Some(response.clone()),
            _ => None,
        })
    }

    /// Closes the connections.
    pub(crate) async fn close(mut self) -> Run {
        self.close_stream().await;
        self.state.run
    }
}

/// The headers of the modern era, which repeat what is in the body.
/// <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#standard-mcp-request-headers>
fn modern_headers(head: Head, version: &Version, line: &str) -> Head {
    let line = Line::new(line.to_owned());
    let message = line.parts().find_map(|part| match part {
        Ok(Message::Request(request)) => Some((&request.method, request.params.as_ref())),
        Ok(Message::Notification(notification)) => Some((&notification.method, None)),
        _ => None,
    });
    let own = message.and_then(|(_, params)| version_of(&params?.meta()?, key::PROTOCOL_VERSION));
    let head = head.with(name::PROTOCOL_VERSION, own.as_ref().unwrap_or(version).as_str());
    let Some((method, params)) = message else { return head };
    let head = head.with(name::METHOD, method.as_str());
    let named = named_by(method).zip(params).and_then(|(named, params)| {
        let name = params.raw().member(named.member)?;
        name.to_string_value().map(|name| encode_value(&name).into_owned())
    });
    match named {
        Some(named) => head.with(name::NAME, &named),
        None => head,
    }
}

impl Session for HttpSession {
    fn state(&self) -> &RunState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut RunState {
        &mut self.state
    }

    fn is_over(&self) -> bool {
        self.over
    }

    async fn request_with(
        &mut self,
        probe: Probe,
        line: String,
        headers: &[(String, String)],
        within: Duration,
    ) -> Outcome {
        let head = self.post(&line);
        let head = headers.iter().fold(head, |head, (name, value)| head.and(name, value));
        let reply = self.exchange(probe, head, Some(&line), Until::Ended, within).await;
        let outcome = reply.outcome.clone();
        self.opening.get_or_insert(reply);
        outcome
    }

    async fn requests(&mut self, probe: Probe, lines: Vec<String>) {
        for line in lines {
            self.announce(probe);
            self.post_message(probe, &line).await;
        }
    }

    async fn notify(&mut self, probe: Probe, line: &str) {
        self.post_message(probe, line).await;
    }

    async fn cancel(&mut self, _: Question<'_>) {
        // Each exchange ends before the next begins.
    }

    async fn list_elsewhere(&mut self) {
        if !self.state.manner.is_legacy() {
            let line = self.line(Method::ListTools.as_str());
            self.post_as(Probe::ListElsewhere, line, Head::in_title_case).await;
        }
    }

    async fn subscribe(&mut self, line: String) {
        self.announce(Probe::Listen);
        let head = self.post(&line);
        let within = self.state.response_timeout;
        self.exchange(Probe::Listen, head, Some(&line), Until::FirstMessage, within).await;
    }

    fn has_cancel(&self) -> bool {
        self.state.manner.is_legacy()
    }

    fn agree(&mut self, version: Version) {
        self.state.run.version = version.clone();
        // In HTTP+SSE no header names session or version.
        if self.state.run.channel == Channel::StreamableHttp {
            self.agreed = Some(version);
            self.session_id = self.opening.as_ref().and_then(|reply| reply.session.clone());
            if self.session_id.is_some() {
                self.session_end = Some(SessionEnd::new(&self.target, self.head(Verb::DELETE)));
            }
        }
    }
}

impl Reply {
    fn nothing(failure: Option<TransportError>) -> Self {
        Self {
            status: None,
            failure,
            content_type: None,
            location: None,
            reason: None,
            session: None,
            asked: None,
            outcome: Outcome::Nothing,
            body: Bytes::new(),
            began: Instant::now(),
        }
    }

    /// Whether the response is a stream of events.
    pub(crate) fn is_stream(&self) -> bool {
        let kind = self.content_type.as_deref().map(str::as_bytes);
        self.is_success() && MediaType::of(kind) == MediaType::EventStream
    }

    pub(crate) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// Whether every further request would have the same outcome: there is no response, or the server refuses us.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.status, None | Some(401 | 403))
    }
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}
