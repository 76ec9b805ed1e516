//! The one escape of the project: what a string looks like in JSON.
//!
//! Escaped are the quote, the backslash and the control characters, as
//! [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259#section-7) requires, and nothing else; so a string never
//! holds the end of a line.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::scan::block;

/// Appends a JSON string with that value to a text in UTF-8.
///
/// Short runs are copied as whole blocks and cut off behind their end: a copy of constant length is a pair of
/// instructions, one of any other length a call.
pub(crate) fn append_string(value: &str, out: &mut Vec<u8>) {
    let bytes = value.as_bytes();
    out.reserve(bytes.len() + 2 + block::WIDTH);
    out.push(b'"');
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<{ block::WIDTH }>()) {
        let stops = block::stops((*chunk).into());
        let before = out.len();
        out.extend_from_slice(chunk);
        if stops == 0 {
            at += block::WIDTH;
            let (end, _) = block::clean_run(bytes, at);
            if end > at {
                out.extend_from_slice(&bytes[at..end]);
                at = end;
            }
        } else {
            let stop = stops.trailing_zeros() as usize;
            out.truncate(before + stop);
            push_escape(chunk[stop], out);
            at += stop + 1;
        }
    }
    let rest = &bytes[at..];
    if rest.iter().any(|&byte| must_escape(byte)) {
        for &byte in rest {
            if must_escape(byte) {
                push_escape(byte, out);
            } else {
                out.push(byte);
            }
        }
    } else {
        out.extend_from_slice(rest);
    }
    out.push(b'"');
}

const fn must_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

#[inline]
fn push_escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => out.extend_from_slice(escape(byte, &mut [0; 6]).as_bytes()),
    }
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
        out.write_str(escape(byte, &mut [0; 6]))?;
        from = at + 1;
    }
    out.write_char('"')
}

/// How a byte is written that a string may not hold as it is.
fn escape(byte: u8, room: &mut [u8; 6]) -> &str {
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
