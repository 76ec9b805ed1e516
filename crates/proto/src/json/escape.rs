//! The one escape of the project: what a string looks like in JSON.
//!
//! Escaped are the quote, the backslash and the control characters, as
//! [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259#section-7) requires, and nothing else; so a string never
//! holds the end of a line.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use wide::u8x16;

use crate::scan::block::{self, Block, WIDE, WIDTH, Wide};

/// For each byte what stands behind the backslash of its escape: `u` for one with digits, 0 for a byte that needs
/// none.
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

/// The longest escape, in bytes.
const LONGEST: usize = 6;

/// Appends a JSON string with that value to a text in UTF-8.
///
/// Runs are copied as whole blocks and cut off behind their end: a copy of constant length is a few
/// instructions, one of any other length a call.
pub(crate) fn append_string(value: &str, out: &mut Vec<u8>) {
    let bytes = value.as_bytes();
    // Room for one escape in thirty-two bytes.
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

/// Appends a wide block that has stops.
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

/// Keeps room for the bytes that are left of a string that begins at `start` and of which `read` have been written.
#[inline]
fn keep_room(start: usize, read: usize, left: usize, out: &mut Vec<u8>) {
    // A block more, and the escapes of the next one where much is left.
    let least = left + WIDTH + left.min(WIDE * WIDE) / WIDE;
    if out.capacity() - out.len() < least {
        let longer = longer(out.len() - start, read, left);
        out.reserve_exact(least + longer.max(out.len() / 8));
    }
}

/// How much longer than the bytes that are left they become, if that goes on as it was: `read` bytes have become
/// `written`.
#[cold]
const fn longer(written: usize, read: usize, left: usize) -> usize {
    written.saturating_sub(read).saturating_mul(left) / (read + 1)
}

#[inline(always)]
fn push_escape(byte: u8, out: &mut Vec<u8>) {
    let letter = LETTERS[usize::from(byte)];
    if letter == b'u' {
        out.extend_from_slice(escape(byte, &mut [0; LONGEST]).as_bytes());
    } else {
        out.extend_from_slice(&[b'\\', letter]);
    }
}

/// Makes a text into a JSON string where it lies, with `before` and `after` around it: a large text is not copied
/// into a second place.
///
/// The text is moved to the end of its room and written from there to the beginning; what is written never comes
/// as far as what is still to be read.
pub(crate) fn enclose_string(text: String, before: &[u8], after: &[u8]) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    let length = bytes.len();
    let least = before.len() + 1 + LONGEST * WIDE + length / 128;
    bytes.reserve_exact(least);
    // All the room that there is serves, unless it is far more than this takes.
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
        if from - to < LONGEST * WIDE {
            let left = bytes.len() - from;
            let longer = longer(to - start, length - left, left);
            widen(&mut bytes, &mut from, longer.max(left / 8) + 2 * LONGEST * WIDE);
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
    // What is kept is counted by its length.
    if bytes.capacity() > 2 * bytes.len() {
        bytes.shrink_to_fit();
    }
    bytes
}

/// Makes a text longer, and moves everything from `from` on by as much.
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

/// Writes a wide block that has stops.
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
            put(bytes, to, escape(chunk[stop], &mut [0; LONGEST]).as_bytes());
        } else {
            put(bytes, to, &[b'\\', letter]);
        }
        from = stop + 1;
        stops &= stops - 1;
    }
}

/// A copy of constant length may begin at the last byte.
#[inline(always)]
fn padded(chunk: &[u8; WIDE]) -> [u8; WIDE + WIDTH] {
    let mut padded = [0; WIDE + WIDTH];
    // An array, not a slice: see `Wide::new`.
    *padded.first_chunk_mut().expect("it is longer") = *chunk;
    padded
}

/// Appends a JSON string with that value to a text.
pub(crate) fn push_string(value: &str, out: &mut String) {
    out.reserve(value.len() + 2);
    // Appending to a string cannot fail.
    let _ = write_string(value, out);
}

/// Writes a JSON string with that value.
pub(crate) fn write_string(value: &str, out: &mut dyn fmt::Write) -> fmt::Result {
    out.write_char('"')?;
    let mut from = 0;
    loop {
        let at = block::next_stop(value.as_bytes(), from);
        out.write_str(&value[from..at])?;
        let Some(&byte) = value.as_bytes().get(at) else { break };
        out.write_str(escape(byte, &mut [0; LONGEST]))?;
        from = at + 1;
    }
    out.write_char('"')
}

/// How a byte is written that a string may not hold as it is.
fn escape(byte: u8, room: &mut [u8; LONGEST]) -> &str {
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
            // Six bytes of ASCII.
            core::str::from_utf8(room).unwrap_or_default()
        }
    }
}
