//! What two peers say to each other: requests, notifications and responses.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#messages>
//!
//! Parameters and results stay JSON text ([`Raw`]) until somebody asks for a type. Made by
//! [`decode`](crate::decode) from bytes or by a session from a call; written by [`encode`](crate::encode).

use alloc::borrow::Cow;
use core::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::json::{self, ReadError, WriteError};
use crate::scan;
use crate::{ErrorObject, Kind, Method, Raw, RequestId};

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
///
/// What this side has made itself was not scanned; there the members are looked up when somebody asks. Two
/// are equal when their texts are.
#[derive(Clone)]
pub struct Payload {
    raw: Raw,
    spans: Option<Spans>,
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

/// Where a member's value lies in the text of its [`Payload`]; an empty span means that it is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) const fn is_there(self) -> bool {
        self.end > self.start
    }

    pub(crate) const fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The part of a text; nothing when the member is absent.
    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.range()).unwrap_or_default()
    }

    /// The same place, counted from `start`.
    const fn since(self, start: u32) -> Self {
        Self { start: self.start.saturating_sub(start), end: self.end.saturating_sub(start) }
    }
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

/// One of these members.
#[derive(Clone, Copy)]
pub(crate) enum Inner {
    Meta,
    Name,
    Uri,
    Arguments,
    ResultType,
}

impl Inner {
    /// The member of that name, if it is one of them.
    #[inline]
    pub(crate) const fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"_meta" => Some(Self::Meta),
            b"name" => Some(Self::Name),
            b"uri" => Some(Self::Uri),
            b"arguments" => Some(Self::Arguments),
            b"resultType" => Some(Self::ResultType),
            _ => None,
        }
    }
}

impl From<Inner> for u8 {
    fn from(member: Inner) -> Self {
        member as Self
    }
}

impl Spans {
    /// Where the span of such a member is kept.
    #[inline]
    pub(crate) const fn of(&mut self, member: Inner) -> &mut Span {
        match member {
            Inner::Meta => &mut self.meta,
            Inner::Name => &mut self.name,
            Inner::Uri => &mut self.uri,
            Inner::Arguments => &mut self.arguments,
            Inner::ResultType => &mut self.result_type,
        }
    }

    /// The same places, counted from `start`. Those of absent members stay empty.
    pub(crate) const fn since(self, start: u32) -> Self {
        Self {
            meta: self.meta.since(start),
            name: self.name.since(start),
            uri: self.uri.since(start),
            arguments: self.arguments.since(start),
            result_type: self.result_type.since(start),
        }
    }
}

impl Payload {
    /// From a text that this side has made.
    #[must_use]
    pub const fn from_raw(raw: Raw) -> Self {
        Self { raw, spans: None }
    }

    /// Writes a value as JSON.
    ///
    /// # Errors
    /// As [`Raw::from_value`].
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, WriteError> {
        Raw::from_value(value).map(Self::from_raw)
    }

    /// From a text and the spans that the scanner found in it.
    pub(crate) const fn new(raw: Raw, spans: Spans) -> Self {
        Self { raw, spans: Some(spans) }
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
        self.member(self.spans().meta)
    }

    /// The `name` member: which tool or prompt is meant. JSON text, quotes and escapes included.
    #[must_use]
    pub fn name(&self) -> Option<Raw> {
        self.member(self.spans().name)
    }

    /// The value of the `name` member; `None` when it is absent or no string.
    #[must_use]
    pub fn name_string(&self) -> Option<Cow<'_, str>> {
        json::string_value(self.text(self.spans().name)?)
    }

    /// The `uri` member: which resource is meant. JSON text, quotes and escapes included.
    #[must_use]
    pub fn uri(&self) -> Option<Raw> {
        self.member(self.spans().uri)
    }

    /// The `arguments` member of a call.
    #[must_use]
    pub fn arguments(&self) -> Option<Raw> {
        self.member(self.spans().arguments)
    }

    /// What the `arguments` member is; `None` when it is absent.
    #[must_use]
    pub fn arguments_kind(&self) -> Option<Kind> {
        Some(Kind::of(self.text(self.spans().arguments)?.as_bytes()))
    }

    /// Reads the `arguments` member where it lies. Without one, or when it is `null`, that is an object without
    /// members.
    ///
    /// # Errors
    /// As [`Raw::decode`].
    pub fn decode_arguments<T: DeserializeOwned>(&self) -> Result<T, ReadError> {
        let text = self.text(self.spans().arguments).filter(|text| *text != "null");
        json::from_text(text.unwrap_or("{}"))
    }

    /// The `resultType` member of a result. JSON text, quotes included.
    #[must_use]
    pub fn result_type(&self) -> Option<Raw> {
        self.member(self.spans().result_type)
    }

    /// The same with its members looked up, for whoever asks for more than one.
    pub(crate) fn indexed(mut self) -> Self {
        self.spans = Some(self.spans());
        self
    }

    /// Looks its members up, where nobody has yet, for all who ask later.
    pub(crate) fn index(&mut self) {
        if self.spans.is_none() {
            self.spans = Some(self.spans());
        }
    }

    /// Where the value of `_meta` lies in the text.
    pub(crate) fn meta_range(&self) -> Option<Range<usize>> {
        let span = self.spans().meta;
        span.is_there().then(|| span.range())
    }

    #[inline]
    fn spans(&self) -> Spans {
        match self.spans {
            Some(spans) => spans,
            None => self.find_spans(),
        }
    }

    #[cold]
    fn find_spans(&self) -> Spans {
        let mut spans = Spans::default();
        for (key, range) in scan::members(&self.raw) {
            let member = Inner::named(key.as_bytes());
            if let (Some(member), Ok(start), Ok(end)) = (member, range.start.try_into(), range.end.try_into())
            {
                *spans.of(member) = Span { start, end };
            }
        }
        spans
    }

    fn text(&self, span: Span) -> Option<&str> {
        if span.is_there() { self.raw.as_str().get(span.range()) } else { None }
    }

    fn member(&self, span: Span) -> Option<Raw> {
        span.is_there().then(|| self.raw.slice(span.range()))
    }
}

impl core::fmt::Debug for Payload {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.raw.fmt(f)
    }
}

impl Message {
    /// The bytes of what it carries: its params or its result, or an error's text and data; and of a method that is not
    /// known, whose name is as long as its sender wants. What stands around them is not counted.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        match self {
            Self::Request(request) => carried(&request.method, request.params.as_ref()),
            Self::Notification(notification) => notification.payload_len(),
            Self::Response(Response { outcome: Ok(result), .. }) => result.raw().len(),
            Self::Response(Response { outcome: Err(error), .. }) => {
                error.message.len() + error.data.as_ref().map_or(0, Raw::len)
            }
        }
    }
}

impl Notification {
    /// The bytes of what it carries, as [`Message::payload_len`] counts them.
    #[must_use]
    pub fn payload_len(&self) -> usize {
        carried(&self.method, self.params.as_ref())
    }
}

fn carried(method: &Method, params: Option<&Payload>) -> usize {
    method.held() + params.map_or(0, |params| params.raw().len())
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
