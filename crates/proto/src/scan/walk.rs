//! Walks over validated text: the end of a value, the members of an object, the value of a string.
//!
//! Nothing is validated again. On invalid JSON the results are meaningless, but every walk ends and none panics.

use alloc::borrow::Cow;
use alloc::string::String;
use core::ops::Range;

use wide::u8x16;

use super::block::{self, Block, Wide};
use crate::Raw;

/// The closing quote of the string that starts at `at` (behind its quote), and whether it has escapes.
#[inline]
pub(crate) fn string_end(text: &[u8], mut at: usize) -> (usize, bool) {
    // Most strings are short and plain, so one block is enough.
    if let Some(block) = u8x16::load(text, at) {
        let ends = block.ends();
        let end = at + ends.trailing_zeros() as usize;
        if ends == 0 {
            at += block::WIDTH;
        } else if text[end] == b'"' {
            return (end, false);
        }
    }
    let mut escaped = false;
    if end_in_blocks::<Wide>(text, &mut at, &mut escaped)
        || end_in_blocks::<u8x16>(text, &mut at, &mut escaped)
    {
        return (at, escaped);
    }
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

/// The same in whole blocks. Returns whether the closing quote is at `at`; otherwise no whole block is left there.
#[inline(always)]
fn end_in_blocks<B: Block>(text: &[u8], at: &mut usize, escaped: &mut bool) -> bool {
    while let Some(block) = B::load(text, *at) {
        let mut ends = block.ends();
        let mut next = *at + B::WIDTH;
        // Several escapes in one block are handled without loading it again.
        while ends != 0 {
            let place = *at + ends.trailing_zeros() as usize;
            if text[place] == b'"' {
                *at = place;
                return true;
            }
            *escaped = true;
            if place + 2 >= next {
                next = place + 2;
                break;
            }
            ends &= u64::MAX << (place + 2 - *at);
        }
        *at = next;
    }
    false
}

/// Skips white space.
#[inline]
pub(crate) fn skip_space(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// The end of the value at `at`. Does not recurse.
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

/// The members of an object in order: the unescaped key, and the position of the value.
///
/// Empty for any other value. The text is not validated again, and values are skipped.
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

/// The same for a text within a [`Raw`].
pub(crate) fn members_of(text: &str) -> impl Iterator<Item = (Cow<'_, str>, Range<usize>)> {
    let mut inside = Inside::new(text, b'{');
    core::iter::from_fn(move || {
        let start = inside.next()? + 1;
        let (end, escaped) = string_end(text.as_bytes(), start);
        let key = unescape(text.get(start..end)?, escaped);
        // Behind the closing quote: white space, the colon, white space.
        let colon = skip_space(text.as_bytes(), end + 1);
        Some((key, inside.value(colon + 1)?))
    })
}

/// The positions of the elements of an array. Empty for any other value.
pub(crate) fn elements(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut inside = Inside::new(text, b'[');
    core::iter::from_fn(move || {
        let start = inside.next()?;
        inside.value(start)
    })
}

/// A position within an object or array, between its parts.
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

    /// The start of the next part.
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

    /// Skips the value at or behind `at`. `None` when there is none: the text is not valid.
    fn value(&mut self, at: usize) -> Option<Range<usize>> {
        let start = skip_space(self.text, at);
        self.at = skip_value(self.text, start);
        (self.at > start).then_some(start..self.at)
    }
}

/// Whether a number is written as an integer: `-?[0-9]+`.
pub(crate) fn is_integer(number: &str) -> bool {
    !number.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E'))
}

/// Unescapes the content of a JSON string.
pub(crate) fn unescape(written: &str, escaped: bool) -> Cow<'_, str> {
    if !escaped {
        return Cow::Borrowed(written);
    }
    let mut out = String::with_capacity(written.len());
    unescape_into(written, &mut out);
    Cow::Owned(out)
}

/// Unescapes the content of a JSON string up to its closing quote or the end of the text, and returns that position.
pub(crate) fn unescape_into(written: &str, out: &mut String) -> usize {
    let bytes = written.as_bytes();
    let (mut from, mut at) = (0, 0);
    if let Some(end) = unescape_blocks::<Wide>(written, &mut from, &mut at, out) {
        return end;
    }
    if let Some(end) = unescape_blocks::<u8x16>(written, &mut from, &mut at, out) {
        return end;
    }
    loop {
        while bytes.get(at).is_some_and(|byte| !matches!(byte, b'"' | b'\\')) {
            at += 1;
        }
        append(written, from..at, out);
        if bytes.get(at) != Some(&b'\\') {
            return at.min(bytes.len());
        }
        at = unescape_one(bytes, at, out);
        from = at;
    }
}

/// The same in whole blocks. Everything before `from` was appended, and between `from` and `at` is no escape. Returns
/// the closing quote if it was found.
#[inline(always)]
fn unescape_blocks<B: Block>(
    written: &str,
    from: &mut usize,
    at: &mut usize,
    out: &mut String,
) -> Option<usize> {
    let bytes = written.as_bytes();
    while let Some(block) = B::load(bytes, *at) {
        let mut ends = block.ends();
        let mut next = *at + B::WIDTH;
        // Several escapes in one block are handled without loading it again.
        while ends != 0 {
            let place = *at + ends.trailing_zeros() as usize;
            append(written, *from..place, out);
            if bytes[place] == b'"' {
                return Some(place);
            }
            *from = unescape_one(bytes, place, out);
            if *from >= next {
                next = *from;
                break;
            }
            ends &= u64::MAX << (*from - *at);
        }
        *at = next;
    }
    None
}

/// The value of the string at `at` (behind its quote), and the position of its closing quote. One pass over validated
/// text.
///
/// ```
/// # use mcpjoin_proto::{Raw, scan};
/// let raw = Raw::parse(r#"["tab\t",2]"#)?;
/// assert_eq!(scan::string(raw.as_str(), 2), ("tab\t".into(), 7));
/// # Ok::<(), scan::ScanError>(())
/// ```
#[must_use]
#[inline]
pub fn string(text: &str, at: usize) -> (Cow<'_, str>, usize) {
    // Most strings are short and plain, so one block is enough, inlined in the caller.
    if let Some(block) = u8x16::load(text.as_bytes(), at) {
        let ends = block.ends();
        let end = at + ends.trailing_zeros() as usize;
        if ends != 0 && text.as_bytes()[end] == b'"' {
            return (Cow::Borrowed(text.get(at..end).unwrap_or_default()), end);
        }
    }
    long_string(text, at)
}

#[inline(never)]
fn long_string(text: &str, at: usize) -> (Cow<'_, str>, usize) {
    let bytes = text.as_bytes();
    let end = block::next_end(bytes, at);
    if bytes.get(end) != Some(&b'\\') {
        return (Cow::Borrowed(text.get(at..end).unwrap_or_default()), end.min(bytes.len()));
    }
    let mut out = String::new();
    append(text, at..end, &mut out);
    let length = unescape_into(text.get(end..).unwrap_or_default(), &mut out);
    // The buffer has capacity for text behind the string.
    if out.capacity() > 2 * out.len() + 2 * block::WIDE {
        out.shrink_to_fit();
    }
    (Cow::Owned(out), end + length)
}

/// Appends a part without escapes.
#[inline(always)]
fn append(written: &str, part: Range<usize>, out: &mut String) {
    // And the character of the escape behind it.
    if part.len() + 4 > out.capacity() - out.len() {
        make_room(written, &part, out);
    }
    out.push_str(written.get(part).unwrap_or_default());
}

/// Reserves capacity for a part and for the text behind it, unless that is much more than all text so far: the text may
/// be one long string or a thousand strings. This also leaves capacity for escapes, if the text is written as JSON
/// again.
#[cold]
fn make_room(written: &str, part: &Range<usize>, out: &mut String) {
    let most = MAX_CAPACITY_FACTOR * (out.len() + part.len()) + 2 * block::WIDTH;
    let behind = written.len().saturating_sub(part.end).min(most);
    out.reserve_exact(part.len() + behind + 2 * block::WIDE);
}

/// The maximum capacity of a string of unknown length, as a multiple of its content.
const MAX_CAPACITY_FACTOR: usize = 15;

/// Appends the character of the escape at `place`, and returns the end of the escape.
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

/// The character of the `\u` escape with its digits at `at`, and the end of the escape.
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
