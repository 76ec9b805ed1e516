//! Messages: requests, notifications and responses.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#messages>
//!
//! Params and results stay JSON text ([`Raw`]) until a caller decodes them. Messages come from
//! [`decode`](crate::decode) or from a session, and [`encode`](crate::encode) writes them.

use alloc::borrow::Cow;
use core::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::json::{self, ReadError, WriteError};
use crate::scan;
use crate::{ErrorObject, Kind, Method, Raw, RequestId};

/// A message of JSON-RPC 2.0.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Expects one response with the same id.
    Request(Request),
    /// Expects no response.
    Notification(Notification),
    /// Responds to a request.
    Response(Response),
}

/// A method call that expects a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The id that its sender chose. The response has the same.
    pub id: RequestId,
    /// The method.
    pub method: Method,
    /// The params; `None` when the member is absent.
    pub params: Option<Payload>,
}

/// A method call without a response.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// The method.
    pub method: Method,
    /// The params; `None` when the member is absent.
    pub params: Option<Payload>,
}

/// The response to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// The id of the request; `None` when the sender could not read it.
    pub id: Option<RequestId>,
    /// A result, which is always an object in MCP, or an error.
    pub outcome: Result<Payload, ErrorObject>,
}

/// Params or a result: JSON text, with the positions of the members that the protocol itself reads.
///
/// The scanner records these positions and rejects repeated members, so the text is not searched again, and every
/// reader gets the same member.
///
/// A text of this side was not scanned, and its members are located on demand. Payloads are equal when their texts are
/// equal.
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

/// The position of a member's value in the text of its [`Payload`]; empty when the member is absent.
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

    /// This part of a text; empty when the member is absent.
    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.range()).unwrap_or_default()
    }

    /// The same position, relative to `start`.
    const fn since(self, start: u32) -> Self {
        Self { start: self.start.saturating_sub(start), end: self.end.saturating_sub(start) }
    }
}

/// The members of params and results that the protocol reads.
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
    /// The member with this name.
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
    /// The position of a member.
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

    /// The same positions, relative to `start`. Those of absent members stay empty.
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
    /// A text that this side has made.
    #[must_use]
    pub const fn from_raw(raw: Raw) -> Self {
        Self { raw, spans: None }
    }

    /// Serializes a value.
    ///
    /// # Errors
    /// As [`Raw::from_value`].
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, WriteError> {
        Raw::from_value(value).map(Self::from_raw)
    }

    /// A text with the positions that the scanner recorded.
    pub(crate) const fn new(raw: Raw, spans: Spans) -> Self {
        Self { raw, spans: Some(spans) }
    }

    /// The complete text.
    #[must_use]
    pub const fn raw(&self) -> &Raw {
        &self.raw
    }

    /// The complete text, by value.
    #[must_use]
    pub fn into_raw(self) -> Raw {
        self.raw
    }

    /// The `_meta` member.
    #[must_use]
    pub fn meta(&self) -> Option<Raw> {
        self.member(self.spans().meta)
    }

    /// The `_meta` member in place, without the copy of [`Payload::meta`].
    pub(crate) fn meta_text(&self) -> Option<&str> {
        self.text(self.spans().meta)
    }

    /// The `name` member: the tool or prompt. JSON text with quotes and escapes.
    #[must_use]
    pub fn name(&self) -> Option<Raw> {
        self.member(self.spans().name)
    }

    /// The value of the `name` member; `None` when it is absent or not a string.
    #[must_use]
    pub fn name_string(&self) -> Option<Cow<'_, str>> {
        json::string_value(self.text(self.spans().name)?)
    }

    /// The `uri` member: the resource. JSON text with quotes and escapes.
    #[must_use]
    pub fn uri(&self) -> Option<Raw> {
        self.member(self.spans().uri)
    }

    /// The `arguments` member of a call.
    #[must_use]
    pub fn arguments(&self) -> Option<Raw> {
        self.member(self.spans().arguments)
    }

    /// The kind of the `arguments` member; `None` when it is absent.
    #[must_use]
    pub fn arguments_kind(&self) -> Option<Kind> {
        Some(Kind::of(self.text(self.spans().arguments)?.as_bytes()))
    }

    /// Decodes the `arguments` member in place. When it is absent or `null`, decodes an empty object.
    ///
    /// # Errors
    /// As [`Raw::decode`].
    pub fn decode_arguments<T: DeserializeOwned>(&self) -> Result<T, ReadError> {
        let text = self.text(self.spans().arguments).filter(|text| *text != "null");
        json::from_text(text.unwrap_or("{}"))
    }

    /// The `resultType` member of a result. JSON text with quotes.
    #[must_use]
    pub fn result_type(&self) -> Option<Raw> {
        self.member(self.spans().result_type)
    }

    /// The `resultType` member in place.
    pub(crate) fn result_type_text(&self) -> Option<&str> {
        self.text(self.spans().result_type)
    }

    /// Locates the members once, for several lookups.
    pub(crate) fn indexed(mut self) -> Self {
        self.spans = Some(self.spans());
        self
    }

    /// Locates the members once, for several lookups.
    pub(crate) fn index(&mut self) {
        if self.spans.is_none() {
            self.spans = Some(self.spans());
        }
    }

    /// The position of the value of `_meta`.
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
    /// The bytes of the content: the params or the result, or the message and data of an error; also the name of an
    /// unknown method, whose length the peer controls. The text around them is not counted.
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
    /// The bytes of the content, as [`Message::payload_len`] counts them.
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
