//! `application/x-www-form-urlencoded`: encodes requests to the token endpoint, and decodes the query of the redirect URI.
//!
//! Decoding is strict: invalid UTF-8 is refused, and so is a repeated name
//! ([OAuth 2.1, 3.1](https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1-13#section-3.1)), because two parsers could use
//! different values. It never normalizes.

use std::fmt;

use bytes::Bytes;

use super::secret::Secret;

/// The largest number of parameters in a response.
const MAX_PARAMETERS: usize = 64;

/// The body of a request to a token endpoint.
#[derive(Clone)]
pub(super) struct Form(Vec<(&'static str, Secret)>);

impl Form {
    /// A token request, by its `grant_type`.
    pub(super) fn new(grant_type: &str) -> Self {
        Self::empty().with("grant_type", grant_type)
    }

    /// An empty form.
    pub(super) const fn empty() -> Self {
        Self(Vec::new())
    }

    /// Adds a field.
    #[must_use]
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Secret>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    /// The encoded form.
    pub(super) fn encode(&self) -> Bytes {
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{}={}", encode(name), encode(value.expose())))
            .collect();
        pairs.join("&").into()
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

/// Encodes a text for a form.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => encoded.push(byte.into()),
            b' ' => encoded.push('+'),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// The parameters of a query.
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Parses a query, without its `?`. The error contains nothing of it.
    pub(super) fn parse(query: &str) -> Result<Self, &'static str> {
        let mut found: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if found.len() == MAX_PARAMETERS {
                return Err("it has too many parameters");
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err("it is not form-encoded");
            };
            if found.iter().any(|(other, _)| *other == name) {
                return Err("it has a parameter twice");
            }
            found.push((name, value));
        }
        Ok(Self(found))
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Decodes a text of a form; `None` when it is not encoded correctly.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_to_the_same() {
        for text in ["", "a b", "https://x/?a=b&c=%20#d", "ä\u{1f600}\u{0}\n+", "*-._~!'()"] {
            let query = format!("a={}&b=1", encode(text));
            let parameters = Parameters::parse(&query).unwrap();
            assert_eq!(parameters.value("a"), Some(text));
            assert_eq!(parameters.value("b"), Some("1"));
            assert_eq!(parameters.value("c"), None);
        }
    }

    #[test]
    fn what_two_readers_could_take_for_two_things_is_refused() {
        for query in ["a=1&a=2", "a=1&%61=2", "a=%", "a=%4", "a=%zz", "a=%ff", "%ff=a"] {
            assert!(Parameters::parse(query).is_err(), "{query}");
        }
        assert_eq!(Parameters::parse("&&a&").unwrap().value("a"), Some(""));
    }

    #[test]
    fn g143_an_answer_has_64_parameters_at_most() {
        let query = |n: usize| (0..n).map(|n| format!("a{n}={n}&")).collect::<String>();
        assert_eq!(Parameters::parse(&query(64)).unwrap().value("a63"), Some("63"));
        assert_eq!(Parameters::parse(&query(65)).err(), Some("it has too many parameters"));
    }

    #[test]
    fn g138_a_form_shows_no_value() {
        let form = Form::new("refresh_token").with("refresh_token", "hunter2");
        assert_eq!(format!("{form:?}"), r#"["grant_type", "refresh_token"]"#);
        assert_eq!(form.encode(), "grant_type=refresh_token&refresh_token=hunter2");
    }
}
