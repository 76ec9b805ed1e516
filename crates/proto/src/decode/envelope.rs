//! The members of one message: located during the scan, checked after it.
//!
//! JSON errors come first. Only valid JSON is checked as a message, so an invalid message is never used in part.

use bytes::Bytes;

use super::DecodeLimits;
use super::error::{DecodeError, DecodeErrorKind, Shape};
use crate::message::{Inner, Span, Spans};
use crate::scan::{self, Duplicate, ScanError, Scanner};
use crate::text::prefix;
use crate::{ErrorObject, Message, Method, Notification, Payload, Raw, Request, RequestId, Response};

/// The maximum length of a member name in an error, in bytes: a name may be as long as a message.
const MAX_MEMBER_BYTES: usize = 64;

/// The positions of the members of a message; empty for an absent member.
#[derive(Default)]
pub(super) struct Envelope {
    start: u32,
    jsonrpc: Span,
    id: Span,
    method: Span,
    params: Span,
    result: Span,
    error: Span,
    /// The members of params and of a result that the protocol reads, relative to the start of the text.
    in_params: Spans,
    in_result: Spans,
    code: Span,
    message: Span,
    data: Span,
    duplicate: Option<Duplicate>,
}

/// The members of a message and of its error, by name.
macro_rules! members {
    ($type:ident: $($variant:ident = $name:literal),*) => {
        #[derive(Clone, Copy)]
        enum $type { $($variant),* }

        impl $type {
            #[inline]
            const fn named(name: &[u8]) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl From<$type> for u8 {
            fn from(member: $type) -> Self {
                member as Self
            }
        }
    };
}

members!(Outer: JsonRpc = b"jsonrpc", Id = b"id", Method = b"method", Params = b"params", Result = b"result", Error = b"error");
members!(InError: Code = b"code", Message = b"message", Data = b"data");

type Fault = (DecodeErrorKind, usize);

impl Envelope {
    /// Scans one message, at its brace. `depth` is 1 for a single message and 2 in a batch.
    pub(super) fn scan(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Result<(), ScanError> {
        self.start = scanner.at() as u32;
        let scanned = scanner.object(depth, Outer::named, |scanner, member| match member {
            Some(Outer::JsonRpc) => pass(scanner, depth, &mut self.jsonrpc),
            Some(Outer::Id) => {
                // An id counts if another byte follows: `12` at the end of a truncated text may be incomplete.
                let mut span = Span::default();
                pass(scanner, depth, &mut span)?;
                if scanner.peek().is_some() {
                    self.id = span;
                }
                Ok(())
            }
            Some(Outer::Method) => pass(scanner, depth, &mut self.method),
            Some(Outer::Params) => payload_members(scanner, depth, &mut self.params, &mut self.in_params),
            Some(Outer::Result) => payload_members(scanner, depth, &mut self.result, &mut self.in_result),
            Some(Outer::Error) => self.error_members(scanner, depth),
            None => scanner.value(depth),
        });
        self.duplicate = scanner.take_duplicate().map(|duplicate| Duplicate {
            // Relative to the message: 1 is a member of the message itself.
            depth: duplicate.depth - (depth - 1),
            ..duplicate
        });
        scanned
    }

    /// Scans an error and records the positions of its members.
    fn error_members(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Result<(), ScanError> {
        let start = scanner.at();
        if scanner.peek() == Some(b'{') {
            scanner.object(depth + 1, InError::named, |scanner, member| match member {
                Some(InError::Code) => pass(scanner, depth + 1, &mut self.code),
                Some(InError::Message) => pass(scanner, depth + 1, &mut self.message),
                Some(InError::Data) => pass(scanner, depth + 1, &mut self.data),
                None => scanner.value(depth + 1),
            })?;
        } else {
            scanner.value(depth)?;
        }
        self.error = Span { start: start as u32, end: scanner.at() as u32 };
        Ok(())
    }

    /// The error for invalid JSON, with the id if it was scanned.
    #[cold]
    pub(super) fn json_error(self, text: &Bytes, limits: &DecodeLimits, error: ScanError) -> DecodeError {
        let id = self.read_id(text, limits).ok().flatten();
        let shape = self.shape();
        DecodeError::new(DecodeErrorKind::Json(error.kind), error.at, text).with_id(id).with_shape(shape)
    }

    /// The kind of the message, by its members.
    fn shape(&self) -> Shape {
        if self.method.is_there() {
            if self.id.is_there() { Shape::Request } else { Shape::Notification }
        } else if self.result.is_there() || self.error.is_there() {
            Shape::Response
        } else {
            Shape::Unknown
        }
    }

    /// Builds the message from scanned text, or says what is wrong.
    pub(super) fn into_message(self, text: &Bytes, limits: &DecodeLimits) -> Result<Message, DecodeError> {
        match self.message(text, limits) {
            Ok(message) => Ok(message),
            Err((kind, at)) => Err(self.fault(text, limits, kind, at)),
        }
    }

    #[cold]
    fn fault(&self, text: &Bytes, limits: &DecodeLimits, kind: DecodeErrorKind, at: usize) -> DecodeError {
        let id = match (&kind, &self.duplicate) {
            // With two ids, neither can be trusted.
            (DecodeErrorKind::DuplicateMember { member, .. }, Some(Duplicate { depth: 1, .. }))
                if &**member == "id" =>
            {
                None
            }
            _ => self.read_id(text, limits).ok().flatten(),
        };
        DecodeError::new(kind, at, text).with_id(id).with_shape(self.shape())
    }

    fn message(&self, text: &Bytes, limits: &DecodeLimits) -> Result<Message, Fault> {
        if let Some(duplicate) = &self.duplicate {
            let member = prefix(&duplicate.key.unescaped(text), MAX_MEMBER_BYTES).into();
            return Err((DecodeErrorKind::DuplicateMember { member }, duplicate.key.at()));
        }
        if !is_version(self.jsonrpc.of(text)) {
            return Err((DecodeErrorKind::JsonRpcVersion, self.place(self.jsonrpc)));
        }
        let id = self.read_id(text, limits)?;
        if self.method.is_there() {
            if self.result.is_there() || self.error.is_there() {
                let other = if self.result.is_there() { self.result } else { self.error };
                return Err((DecodeErrorKind::MethodAndOutcome, self.place(other)));
            }
            self.request(text, id)
        } else {
            self.response(text, id)
        }
    }

    fn request(&self, text: &Bytes, id: Option<RequestId>) -> Result<Message, Fault> {
        let written = self.method.of(text);
        let Some(inside) = written.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
            return Err((DecodeErrorKind::MethodType, self.place(self.method)));
        };
        let method = match Method::known(inside) {
            Some(method) => method,
            None => match core::str::from_utf8(inside) {
                Ok(name) if !inside.contains(&b'\\') => Method::parse(name),
                Ok(name) => Method::parse(&scan::unescape(name, true)),
                Err(_) => return Err((DecodeErrorKind::MethodType, self.place(self.method))),
            },
        };
        let params = match self.params.of(text).first() {
            None => None,
            Some(b'{') => Some(payload(text, self.params, self.in_params)),
            Some(_) => return Err((DecodeErrorKind::ParamsType, self.place(self.params))),
        };
        match id {
            Some(id) => Ok(Message::Request(Request { id, method, params })),
            None if self.id.is_there() => Err((DecodeErrorKind::IdNull, self.place(self.id))),
            None => Ok(Message::Notification(Notification { method, params })),
        }
    }

    fn response(&self, text: &Bytes, id: Option<RequestId>) -> Result<Message, Fault> {
        match (self.result.is_there(), self.error.is_there()) {
            (true, true) => Err((DecodeErrorKind::ResultAndError, self.place(self.error))),
            (false, false) if self.params.is_there() || !self.id.is_there() => {
                Err((DecodeErrorKind::MethodMissing, self.start as usize))
            }
            (false, false) => Err((DecodeErrorKind::NoOutcome, self.start as usize)),
            (true, false) => match id {
                Some(id) => {
                    let outcome = Ok(payload(text, self.result, self.in_result));
                    Ok(Message::Response(Response { id: Some(id), outcome }))
                }
                None if self.id.is_there() => Err((DecodeErrorKind::IdNull, self.place(self.id))),
                None => Err((DecodeErrorKind::IdMissing, self.start as usize)),
            },
            (false, true) => {
                let outcome = Err(self.error_object(text)?);
                Ok(Message::Response(Response { id, outcome }))
            }
        }
    }

    fn error_object(&self, text: &Bytes) -> Result<ErrorObject, Fault> {
        let fault = |what, span| Err((DecodeErrorKind::Error { what }, self.place(span)));
        if self.error.of(text).first() != Some(&b'{') {
            return fault("it is not an object", self.error);
        }
        if !self.code.is_there() {
            return fault("it has no code", self.error);
        }
        let Ok(code) = Raw::cut(text, self.code.range()).decode() else {
            return fault("its code is not a 64-bit integer", self.code);
        };
        if !self.message.is_there() {
            return fault("it has no message", self.error);
        }
        let message = Raw::cut(text, self.message.range());
        let Some(message) = message.to_string_value() else {
            return fault("its message is not a string", self.message);
        };
        let data = self.data.is_there().then(|| Raw::cut(text, self.data.range()));
        Ok(ErrorObject { code, message: message.into_owned(), data })
    }

    /// The id; `None` when it is absent or null.
    fn read_id(&self, text: &[u8], limits: &DecodeLimits) -> Result<Option<RequestId>, Fault> {
        let written = self.id.of(text);
        let too_long = || (DecodeErrorKind::IdTooLong { limit: limits.id_bytes }, self.place(self.id));
        let wrong = || (DecodeErrorKind::IdType, self.place(self.id));
        match written.first() {
            None | Some(b'n') => Ok(None),
            Some(b'"') => {
                // An escape has at most six bytes for one, so a longer string is above the limit and is not read.
                let inside = written.get(1..written.len() - 1).unwrap_or_default();
                if inside.len() / 6 > limits.id_bytes {
                    return Err(too_long());
                }
                let inside = core::str::from_utf8(inside).map_err(|_| wrong())?;
                let value = scan::unescape(inside, inside.contains('\\'));
                if value.len() > limits.id_bytes {
                    Err(too_long())
                } else {
                    Ok(Some(RequestId::from(&*value)))
                }
            }
            // The common case. The scanner has validated the number.
            Some(b'0'..=b'9')
                if written.len() <= 18.min(limits.id_bytes) && written.iter().all(u8::is_ascii_digit) =>
            {
                let add = |value: i64, digit: &u8| value * 10 + i64::from(digit - b'0');
                Ok(Some(RequestId::from(written.iter().fold(0, add))))
            }
            Some(b'-' | b'0'..=b'9') => {
                let digits = core::str::from_utf8(written).map_err(|_| wrong())?;
                if !crate::id::is_integer(digits) {
                    Err(wrong())
                } else if digits.len() > limits.id_bytes {
                    Err(too_long())
                } else {
                    Ok(Some(RequestId::from_digits(digits)))
                }
            }
            Some(_) => Err(wrong()),
        }
    }

    /// The position of a member, or of the message when the member is absent.
    fn place(&self, span: Span) -> usize {
        if span.is_there() { span.start as usize } else { self.start as usize }
    }
}

fn payload(text: &Bytes, span: Span, inside: Spans) -> Payload {
    Payload::new(Raw::cut(text, span.range()), inside.since(span.start))
}

/// Scans params or a result and records the positions of the members that the protocol reads.
#[inline(never)]
fn payload_members(
    scanner: &mut Scanner<'_>,
    depth: usize,
    whole: &mut Span,
    inside: &mut Spans,
) -> Result<(), ScanError> {
    let start = scanner.at();
    if scanner.peek() == Some(b'{') {
        scanner.object(depth + 1, Inner::named, |scanner, member| match member {
            Some(member) => pass(scanner, depth + 1, inside.of(member)),
            None => scanner.value(depth + 1),
        })?;
    } else {
        scanner.value(depth)?;
    }
    *whole = Span { start: start as u32, end: scanner.at() as u32 };
    Ok(())
}

/// Scans a value and records its position.
#[inline(always)]
fn pass(scanner: &mut Scanner<'_>, depth: usize, span: &mut Span) -> Result<(), ScanError> {
    let start = scanner.at();
    scanner.member_value(depth)?;
    *span = Span { start: start as u32, end: scanner.at() as u32 };
    Ok(())
}

/// Whether the value is the string `2.0`, with or without escapes.
fn is_version(written: &[u8]) -> bool {
    written == br#""2.0""#
        || (written.contains(&b'\\')
            && written.len() <= 2 + 6 * 3
            && core::str::from_utf8(written)
                .ok()
                .and_then(|text| text.strip_prefix('"')?.strip_suffix('"'))
                .is_some_and(|inside| scan::unescape(inside, true) == "2.0"))
}
