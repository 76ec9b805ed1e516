//! What a refused authorization says of its reasons, for a person.
//!
//! Reads `error` and `error_description` of `WWW-Authenticate`
//! ([RFC 6750, 3](https://www.rfc-editor.org/rfc/rfc6750#section-3), in the syntax of
//! [RFC 9110, 11.6.1](https://www.rfc-editor.org/rfc/rfc9110#section-11.6.1)). What it finds is shown, never acted on.

use http::header::{HeaderMap, HeaderValue};
use mcpjoin_proto::http::headers::name;

use super::failure::readable;

/// So much of a value is shown, in characters.
const SHOWN: usize = 200;

/// Why the server refuses, as far as it says so.
pub(crate) fn reason(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(name::WWW_AUTHENTICATE).iter();
    values.map(HeaderValue::as_bytes).find_map(|value| {
        let (error, description) = (parameter(value, b"error"), parameter(value, b"error_description"));
        match (error, description) {
            (Some(error), Some(description)) => Some(format!("{}: {}", shown(&error), shown(&description))),
            (one, other) => one.or(other).map(|text| shown(&text)),
        }
    })
}

fn shown(text: &[u8]) -> String {
    let text = readable(text);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// The first parameter of that name in any of the challenges, that has something to say.
fn parameter(mut value: &[u8], wanted: &[u8]) -> Option<Vec<u8>> {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(byte);
    while !value.is_empty() {
        let length = value.iter().take_while(|byte| is_token(byte)).count();
        let (name, rest) = value.split_at(length);
        let after = rest.trim_ascii_start();
        if name.is_empty() || after.first() != Some(&b'=') {
            // The name of a scheme, a comma, or something that does not belong there.
            value = &value[length.max(1)..];
            continue;
        }
        let (text, rest) = argument(after[1..].trim_ascii_start(), is_token);
        if name.eq_ignore_ascii_case(wanted) && !text.is_empty() {
            return Some(text);
        }
        value = rest;
    }
    None
}

/// A token or a quoted string, and what follows it.
fn argument(value: &[u8], is_token: impl Fn(&u8) -> bool) -> (Vec<u8>, &[u8]) {
    let Some(quoted) = value.strip_prefix(b"\"") else {
        let length = value.iter().take_while(|byte| is_token(byte)).count();
        return (value[..length].to_vec(), &value[length..]);
    };
    let mut text = Vec::new();
    let mut bytes = quoted.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return (text, &quoted[at + 1..]),
            b'\\' => text.extend(bytes.next().map(|(_, byte)| *byte)),
            byte => text.push(*byte),
        }
    }
    (text, &[])
}

#[cfg(test)]
mod tests {
    use super::parameter;

    #[test]
    fn a_parameter_is_found_where_it_is_one() {
        let table: [(&str, Option<&str>); 12] = [
            ("", None),
            ("Bearer", None),
            ("Bearer error=invalid_token", Some("invalid_token")),
            ("Bearer error = \"a b\"", Some("a b")),
            ("Bearer realm=\"error=no\", Error=\"yes\"", Some("yes")),
            ("Basic realm=\"x\\\"\", Bearer error=\"y\\\\z\"", Some("y\\z")),
            ("Negotiate YII=, Bearer error=x", Some("x")),
            ("Bearer error=\"\", error=later", Some("later")),
            ("Bearer error_description=\"z\"", None),
            ("Bearer error=\"open", Some("open")),
            ("Bearer error=\"open\\", Some("open")),
            (",,=,\"error=x\"", Some("x")),
        ];
        for (value, expected) in table {
            let found = parameter(value.as_bytes(), b"error");
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{value}");
        }
    }
}
