//! The one escape of the project: what a string looks like in JSON.
//!
//! Escaped are the quote, the backslash and the control characters, as
//! [RFC 8259](https://www.rfc-editor.org/rfc/rfc8259#section-7) requires, and nothing else; so a string never
//! holds the end of a line.

use alloc::string::String;
use core::fmt;

use crate::scan::block;

/// Appends a JSON string with that value.
pub(crate) fn push_string(value: &str, out: &mut String) {
    out.reserve(value.len() + 2);
    out.push('"');
    let mut from = 0;
    loop {
        let at = block::next_stop(value.as_bytes(), from);
        out.push_str(&value[from..at]);
        let Some(&byte) = value.as_bytes().get(at) else { break };
        out.push_str(escape(byte, &mut [0; 6]));
        from = at + 1;
    }
    out.push('"');
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
