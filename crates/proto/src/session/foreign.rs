//! Which protocol somebody speaks who is no peer, by the first words.
//!
//! Called by the opening of a client over a socket, by `doctor`, and by whoever has to say what came. It never decides that
//! something is a message.

/// The protocol that somebody speaks who begins with these bytes, where it is a known one and none that MCP goes over as
/// it is: `SSH`, `HTTP`, `TLS` and others.
#[must_use]
pub fn foreign_protocol(first: &[u8]) -> Option<&'static str> {
    let has = |word: &[u8]| memchr::memmem::find(&first.to_ascii_uppercase(), word).is_some();
    Some(match first {
        [b'H', b'T', b'T', b'P', b'/', ..] => "HTTP",
        // A record of TLS: an alert or a handshake, of any version.
        [0x15 | 0x16, 0x03, ..] => "TLS",
        [b'S', b'S', b'H', b'-', ..] => "SSH",
        // The greeting of a server that takes commands (RFC 5321, RFC 959).
        [b'2', b'2', b'0', b' ' | b'-', ..] if has(b"SMTP") => "SMTP",
        [b'2', b'2', b'0', b' ' | b'-', ..] if has(b"FTP") => "FTP",
        [b'2', b'2', b'0', b' ' | b'-', ..] => "SMTP or FTP",
        [b'*', b' ', b'O', b'K', b' ', ..] => "IMAP",
        [b'+', b'O', b'K', b' ', ..] => "POP3",
        [b'R', b'F', b'B', b' ', b'0', ..] => "VNC",
        [b'-', b'E', b'R', b'R', b' ', ..] => "Redis",
        // The length of a packet and its number 0; version 10 of the handshake behind them ends the line.
        [_, _, 0, 0] | [_, _, 0, 0, 0x0a, b'0'..=b'9', ..] => "MySQL",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::foreign_protocol;

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
}
