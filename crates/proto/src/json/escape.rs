//! Writes JSON strings.
//!
//! Escapes the quote, the backslash and the control characters, as [RFC
//! 8259](https://www.rfc-editor.org/rfc/rfc8259#section-7) requires, and nothing else. The output never contains a line
//! ending.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use wide::u8x16;

use crate::Raw;
use crate::scan::block::{self, Block, WIDE, WIDTH, Wide};

/// The character behind the backslash for each byte: `u` for an escape with digits, 0 for a byte without escape.
const LETTERS: [u8; 256] = {
    let mut letters = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        letters[byte] = b'u';
        byte += 1;
    }
    letters[0x08] = b'b';
    letters[0x0c] = b'f';
    letters[b'\n' as usize] = b'n';
    letters[b'\r' as usize] = b'r';
    letters[b'\t' as usize] = b't';
    letters[b'"' as usize] = b'"';
    letters[b'\\' as usize] = b'\\';
    letters
};

/// The maximum length of an escape, in bytes.
const MAX_ESCAPE_BYTES: usize = 6;

/// Appends a JSON string to UTF-8 text.
///
/// Runs without escapes are copied in whole blocks and then truncated: a copy of constant length is a few instructions,
/// any other one is a call.
pub(crate) fn append_string(value: &str, out: &mut Vec<u8>) {
    let bytes = value.as_bytes();
    // Capacity for one escape per 32 bytes.
    out.reserve(bytes.len() + bytes.len() / 32 + 2 + WIDTH);
    out.push(b'"');
    let start = out.len();
    let mut rest = bytes;
    while let Some((chunk, behind)) = rest.split_first_chunk::<WIDE>() {
        let stops = Wide::new(chunk).stops();
        if stops == 0 {
            out.extend_from_slice(chunk);
        } else {
            keep_room(start, bytes.len() - rest.len(), rest.len(), out);
            append_chunk(chunk, stops, out);
        }
        rest = behind;
    }
    while let Some((chunk, behind)) = rest.split_first_chunk::<WIDTH>() {
        let stops = u8x16::from(*chunk).stops();
        out.extend_from_slice(chunk);
        if stops == 0 {
            rest = behind;
            continue;
        }
        let stop = stops.trailing_zeros() as usize;
        out.truncate(out.len() - (WIDTH - stop));
        push_escape(chunk[stop], out);
        rest = &rest[stop + 1..];
    }
    for &byte in rest {
        if LETTERS[usize::from(byte)] == 0 {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
    out.push(b'"');
}

/// Appends a wide block with stops.
#[inline(always)]
fn append_chunk(chunk: &[u8; WIDE], mut stops: u64, out: &mut Vec<u8>) {
    let padded = padded(chunk);
    let mut from = 0;
    loop {
        let stop = stops.trailing_zeros() as usize;
        let end = out.len() + stop - from;
        while from < stop {
            out.extend_from_slice(&padded[from..from + WIDTH]);
            from += WIDTH;
        }
        out.truncate(end);
        if stop == WIDE {
            return;
        }
        push_escape(chunk[stop], out);
        from = stop + 1;
        stops &= stops - 1;
    }
}

/// Reserves capacity for the rest of a string that starts at `start` and of which `read` bytes were written.
#[inline]
fn keep_room(start: usize, read: usize, left: usize, out: &mut Vec<u8>) {
    // One more block, and the escapes of the next block of a long rest.
    let least = left + WIDTH + left.min(WIDE * WIDE) / WIDE;
    if out.capacity() - out.len() < least {
        let longer = longer(out.len() - start, read, left);
        out.reserve_exact(least + longer.max(out.len() / 8));
    }
}

/// Estimates by how many bytes escapes lengthen the rest, if `read` bytes became `written`.
#[cold]
const fn longer(written: usize, read: usize, left: usize) -> usize {
    written.saturating_sub(read).saturating_mul(left) / (read + 1)
}

#[inline(always)]
fn push_escape(byte: u8, out: &mut Vec<u8>) {
    let letter = LETTERS[usize::from(byte)];
    if letter == b'u' {
        out.extend_from_slice(escape(byte, &mut [0; MAX_ESCAPE_BYTES]).as_bytes());
    } else {
        out.extend_from_slice(&[b'\\', letter]);
    }
}

/// Writes a value with one string between `before` and `after`. A large string is converted in place, without a second copy.
pub(crate) fn raw_with_string(before: &[u8], text: String, after: &[u8]) -> Raw {
    // For a smaller text, copying is faster than converting it in place.
    const LARGE: usize = 16 * 1024;
    let written = if text.len() < LARGE {
        let mut written = Vec::with_capacity(before.len() + text.len() + 128);
        written.extend_from_slice(before);
        append_string(&text, &mut written);
        written.extend_from_slice(after);
        written
    } else {
        enclose_string(text, before, after)
    };
    Raw::trusted(written.into())
}

/// Converts a text to a JSON string in place, between `before` and `after`, without a second buffer.
///
/// The text is moved to the end of the buffer and written from there to the start. The output never reaches unread
/// input.
pub(super) fn enclose_string(text: String, before: &[u8], after: &[u8]) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    let length = bytes.len();
    let least = before.len() + 1 + MAX_ESCAPE_BYTES * WIDE + length / 128;
    bytes.reserve_exact(least);
    // Uses the whole capacity, unless it is much larger than required.
    let by = (bytes.capacity() - length).min(least + length / 16);
    let (mut from, mut to) = (0, 0);
    widen(&mut bytes, &mut from, by);
    put(&mut bytes, &mut to, before);
    put(&mut bytes, &mut to, b"\"");
    let start = to;
    while let Some(chunk) = bytes.get(from..).and_then(|rest| rest.first_chunk::<WIDE>().copied()) {
        let stops = Wide::new(&chunk).stops();
        if stops == 0 {
            put(&mut bytes, &mut to, &chunk);
            from += WIDE;
            continue;
        }
        if from - to < MAX_ESCAPE_BYTES * WIDE {
            let left = bytes.len() - from;
            let longer = longer(to - start, length - left, left);
            widen(&mut bytes, &mut from, longer.max(left / 8) + 2 * MAX_ESCAPE_BYTES * WIDE);
        }
        put_chunk(&chunk, stops, &mut bytes, &mut to);
        from += WIDE;
    }
    let mut rest = [0; WIDE];
    let left = bytes.len() - from;
    rest[..left].copy_from_slice(&bytes[from..]);
    bytes.truncate(to);
    for &byte in &rest[..left] {
        if LETTERS[usize::from(byte)] == 0 {
            bytes.push(byte);
        } else {
            push_escape(byte, &mut bytes);
        }
    }
    bytes.push(b'"');
    bytes.extend_from_slice(after);
    // Memory accounting counts the length.
    if bytes.capacity() > 2 * bytes.len() {
        bytes.shrink_to_fit();
    }
    bytes
}

/// Lengthens a text and moves everything from `from` on to its end.
fn widen(bytes: &mut Vec<u8>, from: &mut usize, by: usize) {
    let end = bytes.len();
    bytes.reserve_exact(by);
    bytes.resize(end + by, 0);
    bytes.copy_within(*from..end, *from + by);
    *from += by;
}

#[inline(always)]
fn put(bytes: &mut [u8], to: &mut usize, part: &[u8]) {
    bytes[*to..*to + part.len()].copy_from_slice(part);
    *to += part.len();
}

/// Writes a wide block with stops.
#[inline(always)]
fn put_chunk(chunk: &[u8; WIDE], mut stops: u64, bytes: &mut [u8], to: &mut usize) {
    let padded = padded(chunk);
    let mut from = 0;
    loop {
        let stop = stops.trailing_zeros() as usize;
        let end = *to + stop - from;
        while from < stop {
            put(bytes, to, &padded[from..from + WIDTH]);
            from += WIDTH;
        }
        *to = end;
        if stop == WIDE {
            return;
        }
        let letter = LETTERS[usize::from(chunk[stop])];
        if letter == b'u' {
            put(bytes, to, escape(chunk[stop], &mut [0; MAX_ESCAPE_BYTES]).as_bytes());
        } else {
            put(bytes, to, &[b'\\', letter]);
        }
        from = stop + 1;
        stops &= stops - 1;
    }
}

/// Pads a block, so that a copy of constant length may start at its last byte.
#[inline(always)]
fn padded(chunk: &[u8; WIDE]) -> [u8; WIDE + WIDTH] {
    let mut padded = [0; WIDE + WIDTH];
    // An array, not a slice: see `Wide::new`.
    *padded.first_chunk_mut().expect("it is longer") = *chunk;
    padded
}

/// Appends a JSON string.
pub(crate) fn push_string(value: &str, out: &mut String) {
    out.reserve(value.len() + 2);
    // Appending to a string cannot fail.
    let _ = write_string(value, out);
}

/// Writes a JSON string.
pub(crate) fn write_string(value: &str, out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_char('"')?;
    let mut from = 0;
    loop {
        let at = block::next_stop(value.as_bytes(), from);
        out.write_str(&value[from..at])?;
        let Some(&byte) = value.as_bytes().get(at) else { break };
        out.write_str(escape(byte, &mut [0; MAX_ESCAPE_BYTES]))?;
        from = at + 1;
    }
    out.write_char('"')
}

/// The escape of a byte.
fn escape(byte: u8, room: &mut [u8; MAX_ESCAPE_BYTES]) -> &str {
    match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        0x08 => "\\b",
        0x0c => "\\f",
        b'\n' => "\\n",
        b'\r' => "\\r",
        b'\t' => "\\t",
        _ => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            *room = [b'\\', b'u', b'0', b'0', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
            core::str::from_utf8(room).unwrap_or_default()
        }
    }
}
