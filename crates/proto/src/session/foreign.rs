//! Detects another protocol by the first bytes of a stream. For text in another encoding see `scan::Encoding`.
//!
//! Used by the negotiation of a client over a socket, by `doctor`, and for error messages. It never decides that bytes
//! are a message.

/// The protocol that starts with these bytes: `SSH`, `HTTP`, `TLS` and others. `None` for anything else, MCP included.
#[must_use]
pub fn foreign_protocol(first: &[u8]) -> Option<&'static str> {
    let has = |word: &[u8]| memchr::memmem::find(&first.to_ascii_uppercase(), word).is_some();
    Some(match first {
        [b'H', b'T', b'T', b'P', b'/', ..] => "HTTP",
        // A TLS record: an alert or a handshake of any version.
        [0x15 | 0x16, 0x03, ..] => "TLS",
        [b'S', b'S', b'H', b'-', ..] => "SSH",
        // The greeting of a command server (RFC 5321, RFC 959).
        [b'2', b'2', b'0', b' ' | b'-', ..] if has(b"SMTP") => "SMTP",
        [b'2', b'2', b'0', b' ' | b'-', ..] if has(b"FTP") => "FTP",
        [b'2', b'2', b'0', b' ' | b'-', ..] => "SMTP or FTP",
        [b'*', b' ', b'O', b'K', b' ', ..] => "IMAP",
        [b'+', b'O', b'K', b' ', ..] => "POP3",
        [b'R', b'F', b'B', b' ', b'0', ..] => "VNC",
        [b'-', b'E', b'R', b'R', b' ', ..] => "Redis",
        // The packet length in 3 bytes, the packet number 0, and version 10 of the handshake, which is a line feed and
        // ends the line. A handshake has 49 to 255 bytes. UTF-32 text that starts with `{` looks the same as a
        // handshake of 123 bytes, and is more likely.
        [0x30..=0xff, 0, 0, 0] if first[0] != b'{' => "MySQL",
        [_, _, 0, 0, 0x0a, b'0'..=b'9', ..] => "MySQL",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::foreign_protocol;
    use crate::scan::Encoding;

    #[test]
    fn greetings_of_other_servers_are_known_and_log_lines_are_none() {
        for (first, protocol) in [
            (&b"SSH-2.0-OpenSSH_9.6"[..], "SSH"),
            (b"220 mx.example.com ESMTP Postfix", "SMTP"),
            (b"220 (vsFTPd 3.0.5)", "FTP"),
            (b"220 ready", "SMTP or FTP"),
            (b"HTTP/1.1 400 Bad Request", "HTTP"),
            (b"* OK [CAPABILITY IMAP4rev1] ready", "IMAP"),
            (b"+OK ready", "POP3"),
            (b"RFB 003.008", "VNC"),
            (b"-ERR unknown command", "Redis"),
            (&[0x15, 0x03, 0x01, 0x00, 0x02], "TLS"),
            (&[0x4a, 0, 0, 0], "MySQL"),
        ] {
            assert_eq!(foreign_protocol(first), Some(protocol), "{}", first.escape_ascii());
        }
        for first in ["", "{", "Starting the server ...", "2025-01-01 INFO ready", "[info] +OK", "220"] {
            assert_eq!(foreign_protocol(first.as_bytes()), None, "{first}");
        }
    }

    #[test]
    fn texts_that_are_not_utf_8_are_known_by_their_encoding() {
        let text = "{\"jsonrpc\":\"2.0\"}";
        let units = |wide: bool, big: bool, mark: bool| -> Vec<u8> {
            let mark = mark.then_some('\u{feff}');
            let characters = mark.into_iter().chain(text.chars()).map(u32::from);
            characters
                .flat_map(|character| {
                    let bytes = if big { character.to_be_bytes() } else { character.to_le_bytes() };
                    match (wide, big) {
                        (true, _) => bytes[..].to_vec(),
                        (false, true) => bytes[2..].to_vec(),
                        (false, false) => bytes[..2].to_vec(),
                    }
                })
                .collect()
        };
        for mark in [true, false] {
            for (wide, big, encoding) in [
                (false, false, Encoding::Utf16Le),
                (false, true, Encoding::Utf16Be),
                (true, false, Encoding::Utf32Le),
                (true, true, Encoding::Utf32Be),
            ] {
                let bytes = units(wide, big, mark);
                assert_eq!(Encoding::of(&bytes), Some(encoding), "{}", bytes.escape_ascii());
                assert_eq!(foreign_protocol(&bytes), None, "{}", bytes.escape_ascii());
            }
        }
        // A brace, and the first byte of a line feed that ends the line.
        assert_eq!(Encoding::of(b"{\0\0\0"), Some(Encoding::Utf32Le));
        assert_eq!(foreign_protocol(b"{\0\0\0"), None);
        for other in [&b""[..], b"{", b"{}", b"\0\0\0\0", b"\x80\0\0\0"] {
            assert_eq!(Encoding::of(other), None, "{}", other.escape_ascii());
        }
        // No packet of a database.
        for other in [&b"\x01\0\0\0"[..], b"\0\0\0\0", b"ab\0\0"] {
            assert_eq!(foreign_protocol(other), None, "{}", other.escape_ascii());
        }
    }
}
