//! Walking a text that has been checked: where a value ends, which members an object has, what a string means.
//!
//! Nothing is checked again. On a text that is not valid JSON the answers are meaningless, but every walk ends
//! and none panics.

use alloc::borrow::Cow;
use alloc::string::String;
use core::ops::Range;

use super::block;
use crate::Raw;

/// Where the string that begins at `at` (behind its quote) has its closing quote, and whether it has escapes.
#[inline]
pub(crate) fn string_end(text: &[u8], mut at: usize) -> (usize, bool) {
    let mut escaped = false;
    while let Some(block) = block::load(text, at) {
        let mut stops = block::ends(block);
        // Several escapes in one block are passed without loading it again.
        loop {
            if stops == 0 {
                at += block::WIDTH;
                break;
            }
            let offset = stops.trailing_zeros() as usize;
            if text[at + offset] == b'"' {
                return (at + offset, escaped);
            }
            escaped = true;
            if offset + 2 > block::WIDTH {
                at += offset + 2;
                break;
            }
            stops &= u32::MAX << (offset + 2);
        }
    }
    string_end_in_tail(text, at, escaped)
}

fn string_end_in_tail(text: &[u8], mut at: usize, mut escaped: bool) -> (usize, bool) {
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return (at, escaped),
            b'\\' => {
                escaped = true;
                at += 2;
            }
            _ => at += 1,
        }
    }
    (text.len(), escaped)
}

/// Passes white space.
#[inline]
pub(crate) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Where the value that begins at `at` ends. Needs no stack, however deep the value is.
#[inline]
pub(crate) fn skip_value(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = (string_end(text, at + 1).0 + 1).min(text.len());
                if depth == 0 {
                    return at;
                }
            }
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                if depth == 0 {
                    return at;
                }
                depth -= 1;
                at += 1;
                if depth == 0 {
                    return at;
                }
            }
            b',' | b' ' | b'\n' | b'\r' | b'\t' if depth == 0 => return at,
            _ => at += 1,
        }
    }
    text.len()
}

/// The members of an object in their order: each key with its escapes resolved, and where its value lies.
///
/// Nothing for a text that is no object. The text is not checked again and values are only passed over.
///
/// ```
/// # use mcpjoin_proto::{Raw, scan};
/// let raw = Raw::parse(r#"{"name":"echo","arguments":{"a":[1,2]}}"#)?;
/// let found: Vec<_> = scan::members(&raw).map(|(key, range)| (key, &raw.as_str()[range])).collect();
/// assert_eq!(found, [("name".into(), "\"echo\""), ("arguments".into(), "{\"a\":[1,2]}")]);
/// # Ok::<(), scan::ScanError>(())
/// ```
pub fn members(raw: &Raw) -> impl Iterator<Item = (Cow<'_, str>, Range<usize>)> {
    members_of(raw.as_str())
}

/// The same for a text inside a [`Raw`].
pub(crate) fn members_of(text: &str) -> impl Iterator<Item = (Cow<'_, str>, Range<usize>)> {
    let mut inside = Inside::new(text, b'{');
    core::iter::from_fn(move || {
        let start = inside.next()? + 1;
        let (end, escaped) = string_end(text.as_bytes(), start);
        let key = unescape(text.get(start..end)?, escaped);
        // Behind the closing quote come white space, the colon and white space again.
        let colon = skip_space(text.as_bytes(), end + 1);
        Some((key, inside.value(colon + 1)?))
    })
}

/// The elements of an array in their order: where each lies. Nothing for a text that is no array.
pub(crate) fn elements(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut inside = Inside::new(text, b'[');
    core::iter::from_fn(move || {
        let start = inside.next()?;
        inside.value(start)
    })
}

/// A place inside an object or array, between its parts.
struct Inside<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Inside<'a> {
    fn new(text: &'a str, opening: u8) -> Self {
        let text = text.as_bytes();
        let at = if text.first() == Some(&opening) { 1 } else { text.len() };
        Self { text, at }
    }

    /// Where the next part begins.
    fn next(&mut self) -> Option<usize> {
        let mut at = skip_space(self.text, self.at);
        if self.text.get(at) == Some(&b',') {
            at = skip_space(self.text, at + 1);
        }
        match self.text.get(at) {
            None | Some(b'}' | b']') => None,
            Some(_) => Some(at),
        }
    }

    /// Passes the value that begins at or behind `at`. `None` when there is none: the text is not valid.
    fn value(&mut self, at: usize) -> Option<Range<usize>> {
        let start = skip_space(self.text, at);
        self.at = skip_value(self.text, start);
        (self.at > start).then_some(start..self.at)
    }
}

/// Whether the text of a number is that of an integer: `-?[0-9]+`.
pub(crate) fn is_integer(number: &str) -> bool {
    !number.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

/// What the inside of a JSON string means.
pub(crate) fn unescape(written: &str, escaped: bool) -> Cow<'_, str> {
    if !escaped {
        return Cow::Borrowed(written);
    }
    let mut out = String::with_capacity(written.len());
    unescape_into(written, &mut out);
    Cow::Owned(out)
}

/// Appends what the inside of a JSON string means, up to its closing quote or up to the end of the text, and gives
/// where that is.
pub(crate) fn unescape_into(written: &str, out: &mut String) -> usize {
    let bytes = written.as_bytes();
    let mut from = 0;
    let mut at = 0;
    while let Some(block) = block::load(bytes, at) {
        let mut stops = block::ends(block);
        let next = at + block::WIDTH;
        // Several escapes in one block are found without loading it again.
        while stops != 0 {
            let place = at + stops.trailing_zeros() as usize;
            out.push_str(written.get(from..place).unwrap_or_default());
            if bytes[place] == b'"' {
                return place;
            }
            from = unescape_one(bytes, place, out);
            if from >= next {
                break;
            }
            stops &= u32::MAX << (from - at);
        }
        at = next.max(from);
    }
    loop {
        while bytes.get(at).is_some_and(|byte| !matches!(byte, b'"' | b'\\')) {
            at += 1;
        }
        out.push_str(written.get(from..at).unwrap_or_default());
        if bytes.get(at) != Some(&b'\\') {
            return at.min(bytes.len());
        }
        at = unescape_one(bytes, at, out);
        from = at;
    }
}

/// What the string means that begins at `at` (behind its quote), and where its closing quote is. One pass.
#[inline]
pub(crate) fn string(text: &str, at: usize) -> (Cow<'_, str>, usize) {
    let bytes = text.as_bytes();
    let mut end = at;
    while let Some(block) = block::load(bytes, end) {
        let stops = block::ends(block);
        if stops != 0 {
            end += stops.trailing_zeros() as usize;
            break;
        }
        end += block::WIDTH;
    }
    while bytes.get(end).is_some_and(|byte| !matches!(byte, b'"' | b'\\')) {
        end += 1;
    }
    let plain = text.get(at..end).unwrap_or_default();
    if bytes.get(end) != Some(&b'\\') {
        return (Cow::Borrowed(plain), end.min(bytes.len()));
    }
    // Room for what is known; it grows by doubling. The whole rest may be a thousand strings.
    let mut out = String::with_capacity(2 * plain.len() + 2 * block::WIDTH);
    out.push_str(plain);
    let length = unescape_into(text.get(end..).unwrap_or_default(), &mut out);
    (Cow::Owned(out), end + length)
}

/// Appends what the escape at `place` means, and gives where it ends.
#[inline]
fn unescape_one(bytes: &[u8], place: usize, out: &mut String) -> usize {
    let end = place + 2;
    let byte = match bytes.get(place + 1) {
        Some(b'n') => b'\n',
        Some(b'b') => 0x08,
        Some(b'f') => 0x0c,
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'u') => {
            let (character, end) = unicode_escape(bytes, end);
            out.push(character);
            return end;
        }
        Some(&other) => other,
        None => return end,
    };
    out.push(char::from(byte));
    end
}

/// The character of the `\u` escape whose digits begin at `at`, and where the escape ends.
fn unicode_escape(bytes: &[u8], at: usize) -> (char, usize) {
    let unit = |at: usize| hex4(bytes, at).unwrap_or(0);
    let first = unit(at);
    if (0xd800..0xdc00).contains(&first) {
        let second = unit(at + 6);
        let code = 0x10000 + ((u32::from(first) & 0x3ff) << 10) + (u32::from(second) & 0x3ff);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), at + 10);
    }
    (char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER), at + 4)
}

/// Four hexadecimal digits.
#[inline]
pub(crate) fn hex4(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..)?.first_chunk::<4>()?;
    let mut value = 0;
    for &digit in digits {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        value = value << 4 | u16::from(digit);
    }
    Some(value)
}
