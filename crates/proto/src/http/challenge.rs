//! Parses `WWW-Authenticate` challenges.
//!
//! Used by the HTTP client's link, which reports them, and by the discovery of authorization servers. Parses [RFC 9110,
//! 11.6.1](https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1) leniently, as real servers require: values without
//! required quotes, parameters without a comma between them, an unclosed quote. Challenges are not validated, and their
//! number and size are limited.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use alloc::string::String;
use alloc::vec::Vec;

use super::params::is_token;

/// The maximum length of one header, in bytes: twice the usual header limit of servers.
const MAX_HEADER_BYTES: usize = 16 * 1024;
/// The maximum number of challenges of all headers together. Real servers send one or two.
const MAX_CHALLENGES: usize = 32;
/// The maximum number of parameters of one challenge. Eight have a meaning.
const MAX_PARAMETERS: usize = 32;

/// An authentication challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Challenge {
    /// The scheme as written: `Bearer`, `DPoP`, `Basic`. Compare it with [`is`](Self::is), which ignores case.
    pub scheme: String,
    /// The token in place of parameters (`Negotiate YII=`).
    pub token68: Option<String>,
    /// Names as written, and values without their quotes. Invalid UTF-8 is replaced by U+FFFD.
    pub parameters: Vec<(String, String)>,
}

impl Challenge {
    /// The challenges in the value of one header.
    ///
    /// ```
    /// use mcpjoin_proto::http::challenge::Challenge;
    ///
    /// let value = br#"Basic realm="a, b", Bearer error="invalid_token", scope="read write""#;
    /// let found = Challenge::parse(value);
    /// assert!(found[0].is("basic") && found[1].is("bearer"));
    /// assert_eq!(found[0].parameter("realm"), Some("a, b"));
    /// assert_eq!(found[1].parameter("Scope"), Some("read write"));
    /// ```
    #[must_use]
    pub fn parse(value: &[u8]) -> Vec<Self> {
        let mut found = Vec::new();
        read(value, &mut found);
        found
    }

    /// The challenges of all headers in order.
    pub fn all<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Vec<Self> {
        let mut found = Vec::new();
        for value in values {
            read(value, &mut found);
        }
        found
    }

    /// Whether this is the scheme, ignoring case.
    #[must_use]
    pub fn is(&self, scheme: &str) -> bool {
        self.scheme.eq_ignore_ascii_case(scheme)
    }

    /// The first value of a parameter that is not empty. The name is compared ignoring case; RFC 9110 does not allow a
    /// repeated name.
    #[must_use]
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut named = self.parameters.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        named.find(|(_, value)| !value.is_empty()).map(|(_, value)| value.as_str())
    }
}

/// Adds the challenges of one header.
fn read(value: &[u8], found: &mut Vec<Challenge>) {
    let mut text = Text(&value[..value.len().min(MAX_HEADER_BYTES)]);
    // A parameter belongs to the last scheme in the same header.
    let mut current: Option<Challenge> = None;
    loop {
        text.skip(|byte| is_space(byte) || *byte == b',');
        let token = text.take(|byte| is_token(*byte));
        if token.is_empty() {
            match text.0.first() {
                None => break,
                // A quoted string outside of a parameter has no meaning.
                Some(b'"') => drop(text.quoted()),
                Some(_) => text.0 = &text.0[1..],
            }
            continue;
        }
        let spaced = text.skip(is_space);
        if text.0.first() == Some(&b'=') {
            text.0 = &text.0[1..];
            text.skip(is_space);
            let value = text.value();
            if let Some(challenge) = &mut current
                && challenge.parameters.len() < MAX_PARAMETERS
            {
                challenge.parameters.push((lossy(token), lossy(&value)));
            }
            continue;
        }
        found.extend(current.take());
        if found.len() >= MAX_CHALLENGES {
            return;
        }
        let token68 = if spaced { text.token68() } else { None };
        current = Some(Challenge { scheme: lossy(token), token68, parameters: Vec::new() });
    }
    found.extend(current);
}

/// The rest of a header.
struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    fn take(&mut self, belongs: impl Fn(&u8) -> bool) -> &'a [u8] {
        let length = self.0.iter().take_while(|byte| belongs(byte)).count();
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    /// Returns whether anything was skipped.
    fn skip(&mut self, belongs: impl Fn(&u8) -> bool) -> bool {
        !self.take(belongs).is_empty()
    }

    /// The value behind `=`: a quoted string, or the text up to a comma, a space or a quote. A token must not contain a
    /// slash or colon, but an unquoted URL is unambiguous.
    fn value(&mut self) -> Vec<u8> {
        match self.0.first() {
            Some(b'"') => self.quoted(),
            _ => self.take(|byte| !is_space(byte) && !matches!(byte, b',' | b'"')).to_vec(),
        }
    }

    /// A quoted string without its quotes and escapes. An unclosed one ends with the header.
    fn quoted(&mut self) -> Vec<u8> {
        let mut text = Vec::new();
        let mut bytes = self.0.iter().enumerate().skip(1);
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'"' => {
                    self.0 = &self.0[at + 1..];
                    return text;
                }
                b'\\' => text.extend(bytes.next().map(|(_, byte)| *byte)),
                byte => text.push(*byte),
            }
        }
        self.0 = &[];
        text
    }

    /// The token behind a scheme, if nothing else follows it before the next comma.
    fn token68(&mut self) -> Option<String> {
        let mut ahead = Text(self.0);
        let is_68 = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
        let letters = ahead.take(is_68).len();
        let length = letters + ahead.take(|byte| *byte == b'=').len();
        ahead.skip(is_space);
        if letters == 0 || !matches!(ahead.0.first(), None | Some(b',')) {
            return None;
        }
        let token = lossy(&self.0[..length]);
        self.0 = ahead.0;
        Some(token)
    }
}

const fn is_space(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    /// As `scheme token68 {name=value}`, one challenge after the other.
    fn shown(value: &[u8]) -> String {
        let mut out = String::new();
        for challenge in Challenge::parse(value) {
            let token68 = challenge.token68.map(|token| format!("({token})")).unwrap_or_default();
            out.push_str(&format!("{}{token68}", challenge.scheme));
            for (name, value) in challenge.parameters {
                out.push_str(&format!("[{name}={value}]"));
            }
            out.push(';');
        }
        out
    }

    #[test]
    fn challenges_are_read_as_they_are_meant() {
        for (value, expected) in [
            ("", ""),
            ("Bearer", "Bearer;"),
            ("Bearer error=invalid_token", "Bearer[error=invalid_token];"),
            ("Bearer error = \"a b\"", "Bearer[error=a b];"),
            ("Bearer realm=\"error=no\", Error=\"yes\"", "Bearer[realm=error=no][Error=yes];"),
            ("Basic realm=\"x\\\"\", Bearer error=\"y\\\\z\"", "Basic[realm=x\"];Bearer[error=y\\z];"),
            ("Negotiate YII=, Bearer error=x", "Negotiate(YII=);Bearer[error=x];"),
            ("Negotiate, Bearer, DPoP algs=\"ES256 RS256\"", "Negotiate;Bearer;DPoP[algs=ES256 RS256];"),
            ("Basic  realm=x , , charset=\"UTF-8\"", "Basic[realm=x][charset=UTF-8];"),
            ("Newauth realm=\"a\" , Basic abc==", "Newauth[realm=a];Basic(abc==);"),
            // What servers send, and what the syntax does not allow.
            ("Bearer realm=\"x\" scope=\"a b\"", "Bearer[realm=x][scope=a b];"),
            (
                "Bearer resource_metadata=https://a.example/x?y=z, scope=a",
                "Bearer[resource_metadata=https://a.example/x?y=z][scope=a];",
            ),
            ("Bearer error=\"\", error=later", "Bearer[error=][error=later];"),
            ("Bearer error=\"open", "Bearer[error=open];"),
            ("Bearer error=\"open\\", "Bearer[error=open];"),
            ("error=x, Bearer", "Bearer;"),
            (",,=,\"error=x\"", ""),
            ("\"Bearer error=x\" Basic", "Basic;"),
            ("Bearer error=a\"b\"c=d", "Bearer[error=a][c=d];"),
            ("Bearer a=b\tDPoP c=d", "Bearer[a=b];DPoP[c=d];"),
            ("Bearer =", ""),
        ] {
            assert_eq!(shown(value.as_bytes()), expected, "{value}");
        }
        assert_eq!(shown(b"Bearer error=\"\xFF\""), "Bearer[error=\u{FFFD}];");
    }

    #[test]
    fn the_first_value_that_says_something_counts() {
        let value = b"Bearer scope=\"\", SCOPE=\"a\", scope=\"b\"".as_slice();
        let found = Challenge::all([b"Basic".as_slice(), value]);
        assert_eq!(found.len(), 2);
        assert!(found[1].is("BEARER") && !found[1].is("Basic"));
        assert_eq!(found[1].parameter("Scope"), Some("a"));
        assert_eq!(found[1].parameter("realm"), None);
    }

    #[test]
    fn g143_a_header_without_an_end_is_cut() {
        let schemes = "A, ".repeat(100_000);
        assert_eq!(Challenge::parse(schemes.as_bytes()).len(), 32);
        assert_eq!(Challenge::all([schemes.as_bytes(); 100]).len(), 32);
        let parameters = format!("Bearer {}", "a=b, ".repeat(100_000));
        assert_eq!(Challenge::parse(parameters.as_bytes())[0].parameters.len(), 32);
        let long = format!("Bearer a=\"{}\"", "x".repeat(1 << 20));
        assert!(Challenge::parse(long.as_bytes())[0].parameters[0].1.len() < MAX_HEADER_BYTES);
    }
}
