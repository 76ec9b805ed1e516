//! Reads the id and the kind of an oversized message from its start.
//!
//! Used by the links for messages above the limit: a request gets an error with its id, and the call of a response
//! fails at once instead of timing out. The result never contradicts that of the whole message, and is `None` in case
//! of doubt.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#messages>

use bytes::Bytes;

use crate::{Kind, Raw, RequestId};

/// What is known from the start of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OversizedMessage {
    /// The id. `None` when it is not in the start, is not an integer or string, or is repeated.
    pub id: Option<RequestId>,
    /// The kind of the message.
    pub kind: OversizedKind,
}

/// The kind of a message, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OversizedKind {
    /// It has a member `method`: a request, or a notification if there is no id.
    Request,
    /// It has a member `result` or `error`.
    Response,
    /// It has neither. A server should treat it as a request, a client as a response.
    Unknown,
}

/// Reads the start of a message. `None` when it is not the start of an object, or has `method` beside `result` or
/// `error`.
///
/// ```
/// use mcpjoin_proto::RequestId;
/// use mcpjoin_proto::codec::oversized::{OversizedKind, read_start};
///
/// let oversized = read_start(br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"AAAAAAA"#);
/// let oversized = oversized.expect("an object");
/// assert_eq!(oversized.id, Some(RequestId::from(7)));
/// assert_eq!(oversized.kind, OversizedKind::Response);
/// ```
#[must_use]
pub fn read_start(head: &[u8]) -> Option<OversizedMessage> {
    let mut cursor = Cursor { rest: head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head) };
    cursor.expect(b'{')?;
    let mut ids = 0_u32;
    let mut id = None;
    let mut asks = false;
    let mut answers = false;
    // Returns `None` at the end of the text or at invalid JSON. The members before it count.
    let _end: Option<()> = (|| {
        loop {
            let key = cursor.string()?;
            cursor.expect(b':')?;
            match key {
                b"id" => {
                    ids += 1;
                    id = cursor.id()?;
                }
                b"method" => {
                    asks = true;
                    cursor.value()?;
                }
                b"result" | b"error" => {
                    answers = true;
                    cursor.value()?;
                }
                _ => cursor.value()?,
            }
            cursor.expect(b',')?;
        }
    })();
    let kind = match (asks, answers) {
        (true, true) => return None,
        (true, false) => OversizedKind::Request,
        (false, true) => OversizedKind::Response,
        (false, false) => OversizedKind::Unknown,
    };
    Some(OversizedMessage { id: if ids == 1 { id } else { None }, kind })
}

/// A position in a text that may end anywhere. Every step returns `None` at the end of the text or at invalid JSON. No
/// step recurses.
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn peek(&mut self) -> Option<u8> {
        self.rest = self.rest.trim_ascii_start();
        self.rest.first().copied()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.rest = &self.rest[1..])
    }

    /// The content of a string with its escapes. A key written with escapes is therefore not recognized.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let mut at = 0;
        loop {
            match self.rest.get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                0..=0x1F => return None,
                _ => at += 1,
            }
        }
        let inside = &self.rest[..at];
        self.rest = &self.rest[at + 1..];
        Some(inside)
    }

    /// A number, `true`, `false` or `null`. It is complete only if another byte follows.
    fn word(&mut self) -> Option<&'a [u8]> {
        let end = self
            .rest
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.'))?;
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Skips a value.
    fn value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.rest = &self.rest[1..];
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.rest = &self.rest[1..];
                }
                b',' | b':' if depth > 0 => self.rest = &self.rest[1..],
                _ => {
                    self.word()?;
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// An id. The inner `None` is a complete value that is not an id.
    fn id(&mut self) -> Option<Option<RequestId>> {
        self.peek()?;
        let before = self.rest;
        self.value()?;
        Some(request_id(&before[..before.len() - self.rest.len()]))
    }
}

/// The id in a text. The scanner decides whether the text is valid.
fn request_id(text: &[u8]) -> Option<RequestId> {
    let value = Raw::parse(Bytes::copy_from_slice(text)).ok()?;
    let digits = value.as_str();
    match value.kind() {
        Kind::String => value.to_string_value().map(|string| RequestId::from(&*string)),
        Kind::Number if digits.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) => {
            Some(RequestId::from_digits(digits))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(head: &str) -> Option<RequestId> {
        read_start(head.as_bytes()).and_then(|oversized| oversized.id)
    }

    #[test]
    fn ids_are_read_as_the_scanner_would_read_them() {
        assert_eq!(id(r#"{"id":1,"#), Some(RequestId::from(1)));
        assert_eq!(id(r#" { "id" : "a\"\u00e9\ud83d\ude00/\/" , "#), Some(RequestId::from("a\"é😀//")));
        assert_eq!(id(r#"{"id":"1","#), Some(RequestId::from("1")));
        let digits = "123456789012345678901234567890";
        assert_eq!(id(&alloc::format!("{{\"id\":{digits}}}")), Some(RequestId::from_digits(digits)));
        for bad in
            ["null", "1.5", "1e3", "01", "-", "{}", "[1]", "true", r#""\ud800""#, r#""\x""#, "\"\u{1}\""]
        {
            assert_eq!(id(&alloc::format!("{{\"id\":{bad},")), None, "{bad}");
        }
    }

    #[test]
    fn only_the_members_of_the_message_itself_count() {
        assert_eq!(id(r#"{"params":{"id":1,"a":"\"id\":2"},"x":"}","id":3}"#), Some(RequestId::from(3)));
        assert_eq!(id(r#"{"params":{"id":1,"text":"AAAA"#), None);
        assert_eq!(id(r#"{"params":"{\"id\":1,"#), None);
        assert_eq!(id(r#"{"ID":1,"id\u0000":2,"#), None);
        assert_eq!(id(r#"{"id":1,"id":2,"#), None, "two ids are none");
        assert_eq!(id(r#"{"id":12"#), None, "more digits may follow");
        assert_eq!(id(r#"[{"id":1},"#), None);
    }

    #[test]
    fn what_it_is() {
        let kind = |head: &str| read_start(head.as_bytes()).map(|oversized| oversized.kind);
        assert_eq!(kind(r#"{"id":1,"method":"tools/call","params":{"a":"#), Some(OversizedKind::Request));
        assert_eq!(kind(r#"{"id":1,"result":{"method":1"#), Some(OversizedKind::Response));
        assert_eq!(kind(r#"{"id":1,"error":{"#), Some(OversizedKind::Response));
        assert_eq!(kind(r#"{"id":1,"params":{"#), Some(OversizedKind::Unknown));
        assert_eq!(kind(r#"{"method":"a","result":1}"#), None);
        assert_eq!(kind("AAAA"), None);
        assert_eq!(kind(""), None);
    }
}
