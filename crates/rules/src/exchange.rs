//! An HTTP exchange: a request with its response. A [`Run`](crate::Run) records its parts one by one; the rules read them
//! put together.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::{ErrorObject, Message, Method, Payload, RequestId};

use crate::rule::Finding;
use crate::trace::{Line, Probe};

/// Of a body or a line, so much is shown with a finding about its exchange.
const SHOWN: usize = 600;

/// The head of a request of ours.
#[derive(Clone, Debug, Default)]
pub struct HttpRequest {
    /// `POST`, `GET` or `DELETE`.
    pub method: Box<str>,
    /// The whole URL.
    pub url: Box<str>,
    /// The headers that say something to the rules, in their order. Never those by which somebody is let in: what is
    /// noted is shown.
    pub headers: Vec<(Box<str>, Bytes)>,
}

/// The head of a response.
#[derive(Clone, Debug, Default)]
pub struct HttpResponse {
    /// Its status.
    pub status: u16,
    /// Its headers, in their order.
    pub headers: Vec<(Box<str>, Bytes)>,
}

/// An event of a stream.
#[derive(Clone, Debug, Default)]
pub struct StreamEvent {
    /// Its name; `None` means `message`.
    pub name: Option<Bytes>,
    /// Its id.
    pub id: Option<Bytes>,
    /// Its data; empty as well when it has none.
    pub data: Bytes,
    /// The milliseconds that a client is to wait before it comes back for the stream, where the event says so.
    pub retry: Option<u64>,
}

/// How a response has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// In order.
    Complete,
    /// We have not waited for its end.
    Left,
    /// It broke, or did not begin, for this reason.
    Broken(Box<str>),
}

/// The parts of an exchange, put together.
pub(crate) struct Exchange<'a> {
    pub(crate) probe: Probe,
    pub(crate) request: &'a HttpRequest,
    /// The message in the request.
    pub(crate) sent: Option<&'a Line>,
    pub(crate) response: Option<&'a HttpResponse>,
    pub(crate) events: Vec<&'a StreamEvent>,
    /// The messages in the response, each with the name of its event.
    pub(crate) lines: Vec<(&'a Line, Option<&'a Bytes>)>,
    pub(crate) body: Option<&'a Bytes>,
    pub(crate) end: Option<(Duration, &'a BodyEnd)>,
    /// It has said how long to wait before it is asked for again.
    pub(crate) has_retry: bool,
}

impl<'a> Exchange<'a> {
    pub(crate) const fn new(probe: Probe, request: &'a HttpRequest) -> Self {
        Self {
            probe,
            request,
            sent: None,
            response: None,
            events: Vec::new(),
            lines: Vec::new(),
            body: None,
            end: None,
            has_retry: false,
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

    /// A header of the response.
    pub(crate) fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.response.and_then(|response| response.headers.value(name))
    }

    pub(crate) fn media_type(&self) -> MediaType {
        MediaType::of(self.header(name::CONTENT_TYPE))
    }

    /// A stream has begun.
    pub(crate) fn is_stream(&self) -> bool {
        self.is_success() && self.media_type() == MediaType::EventStream
    }

    /// The event after which it asks for the rest of a stream.
    pub(crate) fn resumed_after(&self) -> Option<&'a [u8]> {
        self.request.headers.value(name::LAST_EVENT_ID)
    }

    /// The messages that we sent.
    fn sent_messages(&self) -> impl Iterator<Item = &'a Message> {
        self.sent.into_iter().flat_map(Line::parts).filter_map(Result::ok)
    }

    /// Whether a response has come for each request in it.
    pub(crate) fn is_answered(&self) -> bool {
        self.requests().all(|(id, _)| self.responses().any(|(_, given, _)| given == Some(id)))
    }

    /// The ids of the requests in it.
    pub(crate) fn requests(&self) -> impl Iterator<Item = (&'a RequestId, &'a Method)> {
        self.sent_messages().filter_map(|message| match message {
            Message::Request(request) => Some((&request.id, &request.method)),
            _ => None,
        })
    }

    /// It carries messages, and none that is to be answered.
    pub(crate) fn only_tells(&self) -> bool {
        let Some(line) = self.sent else { return false };
        line.parts().all(|part| matches!(part, Ok(Message::Notification(_) | Message::Response(_))))
    }

    /// The responses that came.
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

    /// The error that came.
    pub(crate) fn error(&self) -> Option<&'a ErrorObject> {
        self.responses().find_map(|(.., outcome)| outcome.as_ref().err())
    }

    pub(crate) fn has_result(&self) -> bool {
        self.responses().any(|(.., outcome)| outcome.is_ok())
    }

    /// Something came that is no message.
    pub(crate) fn is_broken(&self) -> bool {
        self.lines.iter().any(|(line, _)| line.parts().any(|part| part.is_err()))
    }

    /// How it went, in a few words.
    pub(crate) fn outcome(&self) -> String {
        match (self.status(), self.end) {
            (Some(status), _) if self.has_result() => format!("a result came, with the status {status}"),
            (Some(status), _) => match self.error() {
                Some(error) => format!("the status is {status}, with the error {}", error.code),
                None => format!("the status is {status}"),
            },
            (None, Some((_, BodyEnd::Broken(why)))) => format!("no response came: {why}"),
            (None, _) => "no response came".into(),
        }
    }

    /// Why no answer is in it.
    pub(crate) fn silence(&self) -> String {
        match (self.status(), self.end) {
            (Some(_), Some((_, BodyEnd::Broken(why)))) => format!("the response broke: {why}"),
            (Some(_), Some((_, BodyEnd::Complete))) if self.is_stream() => {
                "the stream ended without it".into()
            }
            (Some(_), Some((_, BodyEnd::Left))) if self.is_stream() => "nothing came on the stream".into(),
            _ => self.outcome(),
        }
    }

    /// What is wrong with it.
    pub(crate) fn finding(&self, problem: impl Into<String>) -> Finding {
        let mut sent = heading(&self.request.method, path(&self.request.url), &self.request.headers);
        append(&mut sent, self.sent.map(Line::bytes));
        let received = self.response.map(|response| {
            let mut received = heading("HTTP", &response.status.to_string(), &shown_headers(response));
            let line = self.lines.first().map(|(line, _)| line.bytes());
            append(&mut received, line.or(self.body));
            Bytes::from(received)
        });
        Finding::new(problem, Some(&Bytes::from(sent)), received.as_ref())
    }

    /// The same with one of the messages that came.
    pub(crate) fn finding_in(&self, problem: impl Into<String>, line: &Line) -> Finding {
        Finding { received: Some(line.bytes().clone()), ..self.finding(problem) }
    }
}

/// The headers of a response that say something to a reader of findings.
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

pub(crate) fn heading(first: &str, second: &str, headers: &[(Box<str>, Bytes)]) -> String {
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

/// The value of a header, without what lets somebody into a session or may be a secret in a URL.
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

pub(crate) fn append(text: &mut String, body: Option<&Bytes>) {
    if let Some(body) = body.filter(|body| !body.is_empty()) {
        text.push(' ');
        text.push_str(&String::from_utf8_lossy(&body[..body.len().min(SHOWN)]));
    }
}

/// What follows the host, without what may be a secret.
pub(crate) fn path(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').map_or("/", |slash| &rest[slash..]);
    path.split(['?', '#']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::{HttpRequest, HttpResponse};
    use crate::exchange::Exchange;
    use crate::trace::Probe;

    #[test]
    fn a_finding_lets_nobody_into_a_session_and_names_where_a_redirect_leads() {
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
            let mut exchange = Exchange::new(Probe::Ping, &request);
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
