//! Encodes messages: each on one line, without the line ending.
//!
//! Used by every codec. Payloads are copied or returned unchanged, and ids are written digit for digit. The format is
//! JSON-RPC 2.0: <https://modelcontextprotocol.io/specification/2025-11-25/basic#messages>.

use alloc::borrow::Cow;
use core::fmt::Write as _;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{ErrorObject, Message, Method, Raw, RequestId, json};

/// A large payload, to be sent behind the output of [`frame`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargePayload {
    /// The params or the result: one line of JSON.
    pub payload: Bytes,
    /// The text behind the payload.
    pub tail: &'static [u8],
}

/// The end of every message with a payload.
const TAIL: &[u8] = b"}";

/// Writes a message.
///
/// A response without an id gets `"id":null`, as JSON-RPC requires for errors to unreadable text.
pub fn message(message: &Message, out: &mut BytesMut) {
    let payload = head(message, out);
    if let Some(payload) = payload {
        let payload = one_line(payload.as_bytes());
        out.reserve(payload.len() + TAIL.len());
        out.put_slice(&payload);
    }
    out.put_slice(TAIL);
}

/// Writes a message for vectored output. A payload of at least [`Raw::SHARED_FROM`] bytes is not copied but returned,
/// to be sent behind the bytes in `out`. `None`: `out` has the complete message.
#[must_use]
pub fn frame(message: &Message, out: &mut BytesMut) -> Option<LargePayload> {
    match head(message, out) {
        Some(payload) if payload.len() >= Raw::SHARED_FROM => {
            let line = match one_line(payload.as_bytes()) {
                Cow::Borrowed(_) => payload.clone().into_bytes(),
                Cow::Owned(line) => Bytes::from(line),
            };
            return Some(LargePayload { payload: line, tail: TAIL });
        }
        Some(payload) => out.put_slice(&one_line(payload.as_bytes())),
        None => {}
    }
    out.put_slice(TAIL);
    None
}

/// The encoded length of a message in bytes, without the line ending.
#[must_use]
pub fn length(message: &Message) -> usize {
    let mut text = BytesMut::new();
    // Joining the lines of a payload keeps its length.
    let payload = head(message, &mut text).map_or(0, Raw::len);
    text.len() + payload + TAIL.len()
}

/// Writes messages as one batch. At least one is required: an empty batch is not a message.
pub fn batch(messages: &[Message], out: &mut BytesMut) {
    out.put_u8(b'[');
    for (index, part) in messages.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        message(part, out);
    }
    out.put_u8(b']');
}

/// Writes everything before the payload, which is returned, or before the closing brace.
fn head<'a>(message: &'a Message, out: &mut BytesMut) -> Option<&'a Raw> {
    out.reserve(128);
    out.put_slice(br#"{"jsonrpc":"2.0""#);
    match message {
        Message::Request(request) => {
            id(Some(&request.id), out);
            method(&request.method, out);
            request.params.as_ref().map(|params| {
                out.put_slice(br#","params":"#);
                params.raw()
            })
        }
        Message::Notification(notification) => {
            method(&notification.method, out);
            notification.params.as_ref().map(|params| {
                out.put_slice(br#","params":"#);
                params.raw()
            })
        }
        Message::Response(response) => {
            id(response.id.as_ref(), out);
            match &response.outcome {
                Ok(result) => {
                    out.put_slice(br#","result":"#);
                    Some(result.raw())
                }
                Err(fault) => {
                    error(fault, out);
                    None
                }
            }
        }
    }
}

fn id(id: Option<&RequestId>, out: &mut BytesMut) {
    out.put_slice(br#","id":"#);
    match id.map(|id| (id, id.as_i64())) {
        Some((_, Some(number))) => put_integer(number, out),
        Some((id, None)) => put(out, format_args!("{id}")),
        None => out.put_slice(b"null"),
    }
}

fn method(method: &Method, out: &mut BytesMut) {
    out.put_slice(br#","method":"#);
    if let Method::Other(name) = method {
        return put_string(name, out);
    }
    // The names of the specification need no escapes.
    out.put_u8(b'"');
    out.put_slice(method.as_str().as_bytes());
    out.put_u8(b'"');
}

fn error(fault: &ErrorObject, out: &mut BytesMut) {
    out.put_slice(br#","error":{"code":"#);
    put_integer(fault.code, out);
    out.put_slice(br#","message":"#);
    put_string(&fault.message, out);
    if let Some(data) = &fault.data {
        let data = one_line(data.as_bytes());
        out.put_slice(br#","data":"#);
        out.put_slice(&data);
    }
    out.put_u8(b'}');
}

fn put_string(string: &str, out: &mut BytesMut) {
    out.reserve(string.len() + 2);
    // `BytesMut` grows, so writing does not fail.
    let _ = json::write_string(string, out);
}

fn put_integer(number: i64, out: &mut BytesMut) {
    out.put_slice(json::integer_text(number.unsigned_abs(), number < 0, &mut [0; json::INTEGER_BYTES]));
}

fn put(out: &mut BytesMut, text: core::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

/// Replaces line breaks by spaces. In valid JSON they are white space between tokens.
fn one_line(text: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr2(b'\n', b'\r', text) else { return Cow::Borrowed(text) };
    let mut line = text.to_vec();
    for byte in &mut line[first..] {
        if matches!(*byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    Cow::Owned(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, Notification, Payload, Request, Response};
    use alloc::format;
    use alloc::string::String;

    fn written(value: impl Into<Message>) -> String {
        let mut out = BytesMut::new();
        message(&value.into(), &mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    fn payload(text: &str) -> Payload {
        Payload::from_raw(Raw::parse(text.to_owned()).unwrap())
    }

    use alloc::borrow::ToOwned as _;

    #[test]
    fn every_kind_of_message_is_written() {
        let request = Request { id: 7.into(), method: Method::Ping, params: None };
        assert_eq!(written(request), r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#);
        let notification =
            Notification { method: Method::Other("a\"b".into()), params: Some(payload(r#"{"a":1}"#)) };
        assert_eq!(written(notification), r#"{"jsonrpc":"2.0","method":"a\"b","params":{"a":1}}"#);
        let response = Response { id: Some("x\n".into()), outcome: Ok(payload("{}")) };
        assert_eq!(written(response), r#"{"jsonrpc":"2.0","id":"x\n","result":{}}"#);
        let error = ErrorObject::new(-32700, "no").with_data(Raw::parse("[\r\n1]").unwrap());
        assert_eq!(
            written(Response { id: None, outcome: Err(error) }),
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no","data":[  1]}}"#
        );
    }

    #[test]
    fn a_frame_is_the_message_in_parts() {
        for size in [10, Raw::SHARED_FROM, 100_000] {
            for text in [
                format!(r#"{{"a":"{}"}}"#, "x".repeat(size)),
                format!("{{\"a\":\n\"{}\"}}", "x".repeat(size)),
            ] {
                let whole = Message::from(Response { id: Some(1.into()), outcome: Ok(payload(&text)) });
                let mut expected = BytesMut::new();
                message(&whole, &mut expected);
                let mut parts = BytesMut::new();
                let rest = frame(&whole, &mut parts);
                assert_eq!(rest.is_some(), size >= Raw::SHARED_FROM);
                if let Some(rest) = rest {
                    parts.put_slice(&rest.payload);
                    parts.put_slice(rest.tail);
                }
                assert_eq!(parts, expected);
                assert!(!expected.contains(&b'\n'));
            }
        }
    }

    #[test]
    fn a_large_payload_is_not_copied() {
        let payload = payload(&format!(r#"{{"a":"{}"}}"#, "x".repeat(5000)));
        let place = payload.raw().as_bytes().as_ptr();
        let rest =
            frame(&Notification { method: Method::Ping, params: Some(payload) }.into(), &mut BytesMut::new());
        assert_eq!(rest.map(|rest| rest.payload.as_ptr()), Some(place));
    }

    #[test]
    fn a_batch_is_an_array() {
        let ping = Message::from(Notification { method: Method::Ping, params: None });
        let mut out = BytesMut::new();
        batch(&[ping.clone(), ping], &mut out);
        assert_eq!(&out[..], br#"[{"jsonrpc":"2.0","method":"ping"},{"jsonrpc":"2.0","method":"ping"}]"#);
    }
}
