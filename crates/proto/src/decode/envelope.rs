//! The members of one message: found during the scan, judged after it.
//!
//! Faults of the JSON come first, and only a text without them is looked at as a message, so that a message is
//! never half believed.

use bytes::Bytes;

use super::DecodeLimits;
use super::error::{DecodeError, DecodeErrorKind, Shape};
use crate::message::{Inner, Span, Spans};
use crate::scan::{self, Duplicate, ScanError, Scanner};
use crate::text::prefix;
use crate::{ErrorObject, Message, Method, Notification, Payload, Raw, Request, RequestId, Response};

/// How many bytes of the name of a member an error keeps: a name may be as long as a message.
const MAX_MEMBER_BYTES: usize = 64;

/// Where the members of a message lie. An empty span: the member is absent.
#[derive(Default)]
pub(super) struct Envelope {
    start: u32,
    jsonrpc: Span,
    id: Span,
    method: Span,
    params: Span,
    result: Span,
    error: Span,
    /// The members of params and of a result that the protocol looks at, counted from the start of the text.
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
    /// Passes one message. The place is its brace; `depth` is how deep it lies (1: alone, 2: in a batch).
    pub(super) fn scan(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Result<(), ScanError> {
        self.start = scanner.at() as u32;
        let scanned = scanner.object(depth, Outer::named, |scanner, member| match member {
            Some(Outer::JsonRpc) => pass(scanner, depth, &mut self.jsonrpc),
            Some(Outer::Id) => {
                // An id counts once it is known where it ends: of `12` at the end of a text cut off, nobody
                // knows.
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
            // Seen from the message: 1 is its own member.
            depth: duplicate.depth - (depth - 1),
            ..duplicate
        });
        scanned
    }

    /// Passes an error and remembers its members.
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

    /// The error for a text that is not JSON, with the id if the scan came past it.
    #[cold]
    pub(super) fn json_error(self, text: &Bytes, limits: &DecodeLimits, error: ScanError) -> DecodeError {
        let id = self.read_id(text, limits).ok().flatten();
        let shape = self.shape();
        DecodeError::new(DecodeErrorKind::Json(error.kind), error.at, text).with_id(id).with_shape(shape)
    }

    /// What it is, going by the members that are there.
    fn shape(&self) -> Shape {
        if self.method.is_there() {
            if self.id.is_there() { Shape::Request } else { Shape::Notification }
        } else if self.result.is_there() || self.error.is_there() {
            Shape::Response
        } else {
            Shape::Unknown
        }
    }

    /// The message, or what is wrong with it. The whole text has been scanned.
    pub(super) fn into_message(self, text: &Bytes, limits: &DecodeLimits) -> Result<Message, DecodeError> {
        match self.message(text, limits) {
            Ok(message) => Ok(message),
            Err((kind, at)) => Err(self.fault(text, limits, kind, at)),
        }
    }

    #[cold]
    fn fault(&self, text: &Bytes, limits: &DecodeLimits, kind: DecodeErrorKind, at: usize) -> DecodeError {
        let id = match (&kind, &self.duplicate) {
            // Of two ids neither is known to be the one that is meant.
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
            return fault("it is no object", self.error);
        }
        if !self.code.is_there() {
            return fault("it has no code", self.error);
        }
        let Ok(code) = Raw::cut(text, self.code.range()).decode() else {
            return fault("its code is no integer of 64 bits", self.code);
        };
        if !self.message.is_there() {
            return fault("it has no message", self.error);
        }
        let message = Raw::cut(text, self.message.range());
        let Some(message) = message.to_string_value() else {
            return fault("its message is no string", self.message);
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
                // An escape shortens at most from six bytes to one, so what is longer than that is not read.
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
            // What nearly every peer counts with. The scanner has seen that it is a number.
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

    /// Where a member lies, or the message when it has no such member.
    fn place(&self, span: Span) -> usize {
        if span.is_there() { span.start as usize } else { self.start as usize }
    }
}

fn payload(text: &Bytes, span: Span, inside: Spans) -> Payload {
    Payload::new(Raw::cut(text, span.range()), inside.since(span.start))
}

/// Passes params or a result and remembers the members that the protocol looks at.
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

/// Passes a value and says where it lies.
#[inline(always)]
fn pass(scanner: &mut Scanner<'_>, depth: usize, span: &mut Span) -> Result<(), ScanError> {
    let start = scanner.at();
    scanner.value(depth)?;
    *span = Span { start: start as u32, end: scanner.at() as u32 };
    Ok(())
}

/// Whether the value is the string `2.0`, escaped or not.
fn is_version(written: &[u8]) -> bool {
    written == br#""2.0""#
        || (written.contains(&b'\\')
            && written.len() <= 2 + 6 * 3
            && core::str::from_utf8(written)
                .ok()
                .and_then(|text| text.strip_prefix('"')?.strip_suffix('"'))
                .is_some_and(|inside| scan::unescape(inside, true) == "2.0"))
}
