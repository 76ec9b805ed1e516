//! An HTTP exchange: a request with its response. A [`Run`](crate::Run) records the parts one by one; the rules read the
//! whole exchange. Findings never show session ids, queries or credentials.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::codec::sse;
use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::{ErrorObject, Message, Payload, Request, RequestId};

use crate::rule::{Evidence, Finding};
use crate::trace::{Event, Line, Probe, What};

/// How much of a body a finding shows.
const MAX_SHOWN_BYTES: usize = 600;

/// The head of a request.
#[derive(Clone, Debug, Default)]
pub struct HttpRequest {
    /// `POST`, `GET` or `DELETE`.
    pub method: Box<str>,
    /// The whole URL.
    pub url: Box<str>,
    /// The headers that the rules read, in their order. Never credentials: findings show what is recorded here.
    pub headers: Vec<(Box<str>, Bytes)>,
}

/// The head of a response.
#[derive(Clone, Debug, Default)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// The headers, in their order.
    pub headers: Vec<(Box<str>, Bytes)>,
}

/// How a response ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// It was complete.
    Complete,
    /// The client closed it before its end.
    Left,
    /// It failed, or did not begin, for this reason.
    Broken(Box<str>),
}

/// One exchange of a run.
pub(crate) struct Exchange<'a> {
    /// Its place among the events, and its time.
    pub(crate) place: usize,
    pub(crate) at: Duration,
    pub(crate) probe: Probe,
    /// Whether we are the client, and the response comes from the peer.
    is_ours: bool,
    pub(crate) request: &'a HttpRequest,
    /// The message in the request.
    pub(crate) message: Option<&'a Line>,
    pub(crate) response: Option<&'a HttpResponse>,
    pub(crate) events: Vec<&'a sse::Event>,
    /// The messages in the response, each with the name of its event.
    pub(crate) lines: Vec<(&'a Line, Option<&'a Bytes>)>,
    /// A response body that is no message.
    pub(crate) body: Option<&'a Bytes>,
    /// The place, the time and the kind of the end of the response.
    pub(crate) end: Option<(usize, Duration, &'a BodyEnd)>,
    /// The last `retry` field of the response.
    pub(crate) retry: Option<Duration>,
}

/// The exchanges of a run, by their numbers.
pub(crate) type Exchanges<'a> = BTreeMap<u32, Exchange<'a>>;

/// Adds an event to its exchange. `is_ours`: we are the client.
pub(crate) fn record<'a>(exchanges: &mut Exchanges<'a>, place: usize, event: &'a Event, is_ours: bool) {
    let Some(number) = event.exchange else { return };
    if let What::Requested(probe, request) = &event.what {
        exchanges.insert(number, Exchange::new(place, event.at, *probe, request, is_ours));
        return;
    }
    let Some(exchange) = exchanges.get_mut(&number) else { return };
    match &event.what {
        What::Sent(_, line) if is_ours => exchange.message = Some(line),
        What::Received(line) if !is_ours => exchange.message = Some(line),
        What::Sent(_, line) | What::Received(line) => {
            let name = exchange.events.last().and_then(|event| event.name.as_ref());
            exchange.lines.push((line, name));
        }
        What::Responded(response) => exchange.response = Some(response),
        What::Streamed(streamed) => exchange.events.push(streamed),
        What::Body(body) => exchange.body = Some(body),
        What::Retry(delay) => exchange.retry = Some(*delay),
        What::BodyEnded(end) => exchange.end = Some((place, event.at, end)),
        _ => {}
    }
}

impl<'a> Exchange<'a> {
    const fn new(place: usize, at: Duration, probe: Probe, request: &'a HttpRequest, is_ours: bool) -> Self {
        Self {
            place,
            at,
            probe,
            is_ours,
            request,
            message: None,
            response: None,
            events: Vec::new(),
            lines: Vec::new(),
            body: None,
            end: None,
            retry: None,
        }
    }

    pub(crate) fn is(&self, method: &str) -> bool {
        &*self.request.method == method
    }

    pub(crate) fn status(&self) -> Option<u16> {
        self.response.map(|response| response.status)
    }

    pub(crate) fn is_success(&self) -> bool {
        self.status().is_some_and(|status| (200..300).contains(&status))
    }

    /// Whether the status is that of an error.
    pub(crate) fn is_refused(&self) -> bool {
        self.status().is_some_and(|status| status >= 400)
    }

    /// Whether the server only says that it is busy: it may have read nothing of the request.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.status(), Some(429 | 503))
    }

    /// A header of the response.
    pub(crate) fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.response.and_then(|response| response.headers.value(name))
    }

    pub(crate) fn media_type(&self) -> MediaType {
        MediaType::of(self.header(name::CONTENT_TYPE))
    }

    /// Whether the response is a stream of events.
    pub(crate) fn is_stream(&self) -> bool {
        self.is_success() && self.media_type() == MediaType::EventStream
    }

    /// Whether the response was read to its end.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.end, Some((.., BodyEnd::Complete)))
    }

    /// The ids of its events.
    pub(crate) fn event_ids(&self) -> impl Iterator<Item = &'a [u8]> {
        self.events.iter().filter_map(|event| event.id.as_deref())
    }

    /// The id of the event after which the request resumes a stream.
    pub(crate) fn resumed_after(&self) -> Option<&'a [u8]> {
        self.request.headers.value(name::LAST_EVENT_ID)
    }

    /// The messages in the request.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &'a Message> {
        self.message.into_iter().flat_map(Line::messages)
    }

    /// The JSON-RPC requests in it.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &'a Request> {
        self.message.into_iter().flat_map(Line::requests)
    }

    pub(crate) fn has_request(&self) -> bool {
        self.requests().next().is_some()
    }

    /// Whether each JSON-RPC request in it has its response.
    pub(crate) fn is_answered(&self) -> bool {
        self.requests().all(|request| self.responses().any(|(_, id, _)| id == Some(&request.id)))
    }

    /// Whether it carries messages, and none that needs a response.
    pub(crate) fn needs_no_response(&self) -> bool {
        let Some(line) = self.message else { return false };
        line.parts().all(|part| matches!(part, Ok(Message::Notification(_) | Message::Response(_))))
    }

    /// The JSON-RPC responses in it.
    pub(crate) fn responses(
        &self,
    ) -> impl Iterator<Item = (&'a Line, Option<&'a RequestId>, &'a Result<Payload, ErrorObject>)> {
        self.lines.iter().flat_map(|(line, _)| {
            line.parts().filter_map(move |part| match part {
                Ok(Message::Response(response)) => Some((*line, response.id.as_ref(), &response.outcome)),
                _ => None,
            })
        })
    }

    pub(crate) fn has_response(&self) -> bool {
        self.responses().next().is_some()
    }

    /// The first JSON-RPC error in it.
    pub(crate) fn error(&self) -> Option<&'a ErrorObject> {
        self.responses().find_map(|(.., outcome)| outcome.as_ref().err())
    }

    pub(crate) fn has_result(&self) -> bool {
        self.responses().any(|(.., outcome)| outcome.is_ok())
    }

    /// Whether the response has something that is no message.
    pub(crate) fn is_broken(&self) -> bool {
        self.lines.iter().any(|(line, _)| line.parts().any(|part| part.is_err()))
    }

    /// What the response is, for a finding.
    pub(crate) fn outcome(&self) -> String {
        match (self.status(), self.end) {
            (Some(status), _) if self.has_result() => format!("a result came, with the status {status}"),
            (Some(status), _) => match self.error() {
                Some(error) => format!("the status is {status}, with the error {}", error.code),
                None => format!("the status is {status}"),
            },
            (None, Some((.., BodyEnd::Broken(why)))) => format!("no response came: {why}"),
            (None, _) => "no response came".into(),
        }
    }

    /// Why it has no JSON-RPC response, for a finding.
    pub(crate) fn silence(&self) -> String {
        match (self.status(), self.end) {
            (Some(_), Some((.., BodyEnd::Broken(why)))) => format!("the response was interrupted: {why}"),
            (Some(_), Some((.., BodyEnd::Complete))) if self.is_stream() => {
                "the stream ended without it".into()
            }
            (Some(_), Some((.., BodyEnd::Left))) if self.is_stream() => {
                "received nothing on the stream".into()
            }
            _ => self.outcome(),
        }
    }

    /// A finding that shows this message of the response.
    pub(crate) fn finding_in(&self, problem: impl Display, line: &Line) -> Finding {
        Finding { received: Some(line.bytes().clone()), ..self.finding(problem) }
    }
}

impl Evidence for Exchange<'_> {
    fn finding(&self, problem: impl Display) -> Finding {
        let mut request = heading(&self.request.method, path(&self.request.url), &self.request.headers);
        append(&mut request, self.message.map(Line::bytes));
        let request = Bytes::from(request);
        if !self.is_ours {
            return Finding::new(problem, None, Some(&request));
        }
        let received = self.response.map(|response| {
            let mut received = heading("HTTP", &response.status.to_string(), &shown_headers(response));
            let line = self.lines.first().map(|(line, _)| line.bytes());
            append(&mut received, line.or(self.body));
            Bytes::from(received)
        });
        Finding::new(problem, Some(&request), received.as_ref())
    }
}

/// The headers of a response that a finding shows.
fn shown_headers(response: &HttpResponse) -> Vec<(Box<str>, Bytes)> {
    let shown = [
        name::CONTENT_TYPE,
        name::SESSION_ID,
        name::ACCEL_BUFFERING,
        name::WWW_AUTHENTICATE,
        "allow",
        "location",
    ];
    let headers =
        response.headers.iter().filter(|(name, _)| shown.iter().any(|it| name.eq_ignore_ascii_case(it)));
    headers.cloned().collect()
}

fn heading(first: &str, second: &str, headers: &[(Box<str>, Bytes)]) -> String {
    let mut text = format!("{first} {second}");
    for (place, (name, value)) in headers.iter().enumerate() {
        let before = if place == 0 { " (" } else { ", " };
        let _ = write!(text, "{before}{name}: {}", shown(name, value));
    }
    if !headers.is_empty() {
        text.push(')');
    }
    text
}

/// The value of a header for a finding: no session id, and of a URL no user, no query and no fragment.
fn shown<'a>(name: &str, value: &'a [u8]) -> Cow<'a, str> {
    if name.eq_ignore_ascii_case(name::SESSION_ID) {
        return format!("<{} bytes>", value.len()).into();
    }
    let text = String::from_utf8_lossy(value);
    if !name.eq_ignore_ascii_case("location") {
        return text;
    }
    let address = text.split(['?', '#']).next().unwrap_or_default();
    match address.split_once("//") {
        Some((scheme, rest)) if scheme.is_empty() || scheme.ends_with(':') => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = host.rsplit('@').next().unwrap_or_default();
            format!("{scheme}//{host}{path}").into()
        }
        _ => address.to_owned().into(),
    }
}

fn append(text: &mut String, body: Option<&Bytes>) {
    if let Some(body) = body.filter(|body| !body.is_empty()) {
        text.push(' ');
        text.push_str(&String::from_utf8_lossy(&body[..body.len().min(MAX_SHOWN_BYTES)]));
    }
}

/// The path of a URL; its query may be a secret.
pub(crate) fn path(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("/", |slash| &rest[slash..]);
    path.split(['?', '#']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{HttpRequest, HttpResponse};
    use crate::exchange::Exchange;
    use crate::rule::Evidence;
    use crate::trace::Probe;

    #[test]
    fn a_finding_contains_no_session_id_and_names_the_target_of_a_redirect() {
        let request = HttpRequest {
            method: "POST".into(),
            url: "http://h/mcp?key=hunter2".into(),
            headers: vec![("mcp-session-id".into(), "hunter2".into()), ("mcp-method".into(), "ping".into())],
        };
        for (location, notification) in [
            ("http://me:hunter2@other/there?key=hunter2#x", "location: http://other/there)"),
            ("/there?hunter2", "location: /there)"),
            ("//me:hunter2@other", "location: //other)"),
        ] {
            let response = HttpResponse {
                status: 307,
                headers: vec![
                    ("Mcp-Session-Id".into(), "hunter2".into()),
                    ("Location".into(), location.into()),
                ],
            };
            let mut exchange = Exchange::new(0, Duration::ZERO, Probe::Ping, &request, true);
            exchange.response = Some(&response);
            let finding = exchange.finding("");
            let sent = String::from_utf8_lossy(finding.sent.as_ref().expect("a request")).into_owned();
            assert_eq!(sent, "POST /mcp (mcp-session-id: <7 bytes>, mcp-method: ping)");
            let received = finding.received.as_ref().expect("a response");
            let received = String::from_utf8_lossy(received).to_lowercase();
            assert!(received.contains(notification) && !received.contains("hunter2"), "{received}");
        }
    }
}
