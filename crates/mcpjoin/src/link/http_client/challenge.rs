//! What a refused authorization says of its reasons, for a person.
//!
//! Takes `error` and `error_description` of `WWW-Authenticate`
//! ([RFC 6750, 3](https://www.rfc-editor.org/rfc/rfc6750#section-3)). What it finds is shown, never acted on.

use http::header::{HeaderMap, HeaderValue};
use mcpjoin_proto::http::challenge::Challenge;
use mcpjoin_proto::http::headers::name;

use super::failure::readable;

/// So much of a value is shown, in characters.
const SHOWN: usize = 200;

/// Why the server refuses, as far as it says so.
pub(crate) fn reason(headers: &HeaderMap) -> Option<String> {
    let values = headers.get_all(name::WWW_AUTHENTICATE).iter().map(HeaderValue::as_bytes);
    Challenge::all(values).iter().find_map(|challenge| {
        match (challenge.parameter("error"), challenge.parameter("error_description")) {
            (Some(error), Some(description)) => Some(format!("{}: {}", shown(error), shown(description))),
            (one, other) => one.or(other).map(shown),
        }
    })
}

fn shown(text: &str) -> String {
    let text = readable(text.as_bytes());
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_that_of_the_challenge_that_gives_one() {
        for (values, expected) in [
            (&["Bearer"][..], None),
            (&["Basic realm=\"error=no\"", "Bearer error=\"\", error=later"], Some("later")),
            (&["Bearer error_description=\"z\""], Some("z")),
            (&["Basic realm=x, Bearer error=a, error_description=\"b\tc\""], Some("a: b\\tc")),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(name::WWW_AUTHENTICATE, HeaderValue::from_static(value));
            }
            assert_eq!(reason(&headers).as_deref(), expected, "{values:?}");
        }
        let long = HeaderValue::from_str(&format!("Bearer error={}", "x".repeat(1000))).unwrap();
        let headers = HeaderMap::from_iter([(http::header::WWW_AUTHENTICATE, long)]);
        assert_eq!(reason(&headers).unwrap().len(), SHOWN + 3);
    }
}
