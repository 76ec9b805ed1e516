//! What two peers say to each other: requests, notifications and responses.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#messages>
//!
//! Parameters and results stay JSON text ([`Raw`]) until somebody asks for a type. Made by
//! [`decode`](crate::decode) from bytes or by a session from a call; written by [`encode`](crate::encode).

use crate::{ErrorObject, Method, Raw, RequestId};

/// One message of JSON-RPC 2.0.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Wants exactly one response with the same id.
    Request(Request),
    /// Wants none.
    Notification(Notification),
    /// Answers one request.
    Response(Response),
}

/// A method to run and to answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What its sender calls it; the response carries the same.
    pub id: RequestId,
    /// What to do.
    pub method: Method,
    /// With what; `None` when the member is absent.
    pub params: Option<Payload>,
}

/// Something to know, with no answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// What happened.
    pub method: Method,
    /// The particulars; `None` when the member is absent.
    pub params: Option<Payload>,
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The request that it answers; `None` when its sender could not read our id.
    pub id: Option<RequestId>,
    /// A result, which is always an object in MCP, or an error.
    pub outcome: Result<Payload, ErrorObject>,
}

/// Parameters or a result: JSON text, beside where the members lie that the protocol itself looks at.
///
/// The scanner has passed them anyway, so nobody has to search the text a second time, and nobody who looks
/// for the name of a tool can be misled by a second member of that name: the scanner refuses duplicates.
#[derive(Clone, PartialEq)]
pub struct Payload {
    raw: Raw,
    spans: Spans,
}

/// Where a member's value lies in the text of its [`Payload`]; an empty span means that it is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// The members of the second level that the protocol looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans {
    pub(crate) meta: Span,
    pub(crate) name: Span,
    pub(crate) uri: Span,
    pub(crate) arguments: Span,
    pub(crate) result_type: Span,
}

impl Payload {
    /// From a text and the spans that the scanner found in it.
    pub(crate) const fn new(raw: Raw, spans: Spans) -> Self {
        Self { raw, spans }
    }

    /// The whole text.
    #[must_use]
    pub const fn raw(&self) -> &Raw {
        &self.raw
    }

    /// The whole text, taken.
    #[must_use]
    pub fn into_raw(self) -> Raw {
        self.raw
    }

    /// The `_meta` member.
    #[must_use]
    pub fn meta(&self) -> Option<Raw> {
        self.member(self.spans.meta)
    }

    /// The `name` member: which tool or prompt is meant. JSON text, quotes and escapes included.
    #[must_use]
    pub fn name(&self) -> Option<Raw> {
        self.member(self.spans.name)
    }

    /// The `uri` member: which resource is meant. JSON text, quotes and escapes included.
    #[must_use]
    pub fn uri(&self) -> Option<Raw> {
        self.member(self.spans.uri)
    }

    /// The `arguments` member of a call.
    #[must_use]
    pub fn arguments(&self) -> Option<Raw> {
        self.member(self.spans.arguments)
    }

    /// The `resultType` member of a result. JSON text, quotes included.
    #[must_use]
    pub fn result_type(&self) -> Option<Raw> {
        self.member(self.spans.result_type)
    }

    pub(crate) const fn spans(&self) -> &Spans {
        &self.spans
    }

    fn member(&self, span: Span) -> Option<Raw> {
        (span.end > span.start).then(|| self.raw.slice(span.start as usize..span.end as usize))
    }
}

impl core::fmt::Debug for Payload {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.raw.fmt(f)
    }
}

impl From<Request> for Message {
    fn from(request: Request) -> Self {
        Self::Request(request)
    }
}

impl From<Notification> for Message {
    fn from(notification: Notification) -> Self {
        Self::Notification(notification)
    }
}

impl From<Response> for Message {
    fn from(response: Response) -> Self {
        Self::Response(response)
    }
}
