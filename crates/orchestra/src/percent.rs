//! Percent-encoding ([RFC 3986, 2.1](https://www.rfc-editor.org/rfc/rfc3986#section-2.1)).
//!
//! [`client`](super::client) encodes names as URIs, [`host`](super::host) encodes URIs as paths.

use std::fmt::Write as _;

/// Encodes every byte except letters, digits, `-._~` and the bytes in `kept`.
pub(super) fn encoded(text: &str, kept: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Decodes the text. A `%` without two hexadecimal digits stays. Returns `None` if the result is not UTF-8.
pub(super) fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let byte = match (first, after) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)).map(|(high, low)| high * 16 + low),
            _ => None,
        };
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::{decoded, encoded};

    #[test]
    fn what_is_encoded_is_decoded_and_what_is_no_encoding_stays() {
        for text in ["", "a/b", "with space é#?", "100%", "%41", "%2e%2e/", "\0\u{7f}\u{10ffff}"] {
            for kept in [&b""[..], b"/:@"] {
                assert_eq!(decoded(&encoded(text, kept)).as_deref(), Some(text));
            }
        }
        assert_eq!(encoded("a/b é%", b"/"), "a/b%20%C3%A9%25");
        for (text, means) in [("100%", "100%"), ("%4", "%4"), ("%zz%+1", "%zz%+1"), ("%e9%C3%A9", "")] {
            assert_eq!(decoded(text).unwrap_or_default(), means, "{text}");
        }
    }
}
