//! What can be known about a message from its beginning alone.
//!
//! Called by the links for a message that is longer than the limit: the request that it is gets an error with
//! its own id, and the call that it answers fails at once instead of waiting for its deadline. It decides
//! nothing that a whole message would not decide the same way, and where it is not sure it says nothing.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#messages>

use bytes::Bytes;

use crate::{Kind, Raw, RequestId};

/// What the beginning of a message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salvaged {
    /// The message's id; `None` when it does not stand in the beginning, is no integer or string, or stands there
    /// twice.
    pub id: Option<RequestId>,
    /// What the message is.
    pub kind: SalvagedKind,
}

/// What a message is, as far as its beginning tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SalvagedKind {
    /// A member `method` was seen: a request, or, where no id was seen, perhaps a notification.
    Request,
    /// A member `result` or `error` was seen.
    Response,
    /// Neither was seen: a server should take it as a request, a client as a response.
    Unknown,
}

/// Looks through the first bytes of a message for its id and for what it is. `None` when they are not the
/// beginning of an object, or one with `method` beside `result` or `error`.
///
/// ```
/// use mcpjoin_proto::RequestId;
/// use mcpjoin_proto::codec::salvage::{SalvagedKind, salvage};
///
/// let salvaged = salvage(br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"AAAAAAA"#);
/// let salvaged = salvaged.expect("an object");
/// assert_eq!(salvaged.id, Some(RequestId::from(7)));
/// assert_eq!(salvaged.kind, SalvagedKind::Response);
/// ```
#[must_use]
pub fn salvage(head: &[u8]) -> Option<Salvaged> {
    let mut cursor = Cursor { rest: head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head) };
    cursor.expect(b'{')?;
    let mut ids = 0_u32;
    let mut id = None;
    let mut asks = false;
    let mut answers = false;
    // Ends with `None` where the beginning ends, or where it is no JSON: what came before counts.
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
        (true, false) => SalvagedKind::Request,
        (false, true) => SalvagedKind::Response,
        (false, false) => SalvagedKind::Unknown,
    };
    Some(Salvaged { id: if ids == 1 { id } else { None }, kind })
}

/// A place in a text that may end anywhere. Every step gives `None` when the text ends or is not what it should
/// be, and none recurses, whatever the depth.
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

    /// The inside of a string, escapes as they were written. A key written with escapes is therefore never one
    /// that is looked for: such a message keeps its id to itself.
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

    /// A number, `true`, `false` or `null`, which is only known to be whole when something follows it.
    fn word(&mut self) -> Option<&'a [u8]> {
        let end = self
            .rest
            .iter()
            .position(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-' | b'.'))?;
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Passes over a value.
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

    /// An id. The inner `None` is a value that is whole and no id.
    fn id(&mut self) -> Option<Option<RequestId>> {
        self.peek()?;
        let before = self.rest;
        self.value()?;
        Some(request_id(&before[..before.len() - self.rest.len()]))
    }
}

/// The id that a value is; the scanner decides whether it is a value at all.
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
        salvage(head.as_bytes()).and_then(|salvaged| salvaged.id)
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
        let kind = |head: &str| salvage(head.as_bytes()).map(|salvaged| salvaged.kind);
        assert_eq!(kind(r#"{"id":1,"method":"tools/call","params":{"a":"#), Some(SalvagedKind::Request));
        assert_eq!(kind(r#"{"id":1,"result":{"method":1"#), Some(SalvagedKind::Response));
        assert_eq!(kind(r#"{"id":1,"error":{"#), Some(SalvagedKind::Response));
        assert_eq!(kind(r#"{"id":1,"params":{"#), Some(SalvagedKind::Unknown));
        assert_eq!(kind(r#"{"method":"a","result":1}"#), None);
        assert_eq!(kind("AAAA"), None);
        assert_eq!(kind(""), None);
    }
}
