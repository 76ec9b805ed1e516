//! Reads DER element by element, as far as a certificate has to be read to name it.
//!
//! Used by the TLS of the HTTP client for what is shown to a person, and by `auth` for private keys. It allocates
//! nothing but what is shown, and panics on no bytes. [X.690, 8.1](https://www.itu.int/rec/T-REC-X.690).

/// How much of a text is shown, in characters.
const MAX_SHOWN_CHARS: usize = 80;

/// A text in a certificate as it is shown to a person: at most 80 characters, and none that controls.
pub fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(MAX_SHOWN_CHARS).flat_map(char::escape_debug).collect()
}

/// The value of the first element, when it has that tag, and what follows it.
pub fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, value, rest) = element(der)?;
    (found == tag).then_some((value, rest))
}

/// Tag and value of the first element, and what follows it.
pub fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7F => (usize::from(*first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((*tag, value, rest))
}
