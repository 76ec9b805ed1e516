//! Reads the token of a request, and makes the challenge for a client whose token is missing or not sufficient.
//!
//! [RFC 6750](https://www.rfc-editor.org/rfc/rfc6750) 2 and 3, with `resource_metadata` of
//! [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728#section-5.1).

use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::scopes::is_scope;
use super::verifier::Rejected;
use mcpjoin::transport::Denied;

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// It has no token, and the client may not know that it needs one: no error is named (RFC 6750, 3.1).
    Missing,
    /// It has a token in a form that is not allowed.
    Malformed(&'static str),
    /// The token is invalid.
    Invalid(String),
    /// The operation needs these scopes, which the token lacks.
    InsufficientScope(Box<[Box<str>]>),
    /// It is unknown whether the token is valid.
    Unavailable(String),
}

impl Challenge {
    pub(super) fn of(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Invalid(why) => Self::Invalid(why),
            Rejected::Unavailable(why) => Self::Unavailable(why),
        }
    }

    /// The refusal for the client. `required`: the scopes that every request needs.
    pub(super) fn into_denied(self, metadata_url: &str, required: &[Box<str>]) -> Denied {
        let (status, error, why) = match &self {
            Self::Missing => {
                (401, None, "this server requires an access token: `Authorization: Bearer ...`".into())
            }
            Self::Malformed(why) => (400, Some("invalid_request"), (*why).into()),
            Self::Invalid(why) => (401, Some("invalid_token"), why.clone()),
            Self::InsufficientScope(needed) => {
                let needed = needed.join(" ");
                (
                    403,
                    Some("insufficient_scope"),
                    format!(
                        "this request requires a token with the scopes \
                    `{needed}`"
                    ),
                )
            }
            Self::Unavailable(why) => return Denied::new(503, why.clone()),
        };
        let scopes = match &self {
            Self::InsufficientScope(needed) => needed,
            _ => required,
        };
        let mut text = format!("Bearer resource_metadata=\"{metadata_url}\"");
        let mut parameter = |name: &str, value: &str| {
            // RFC 6750, 3 has no escapes in these values.
            let plain = |one: char| matches!(one, ' '..='~') && !matches!(one, '"' | '\\');
            let value: String = value.chars().map(|one| if plain(one) { one } else { '\'' }).collect();
            text.push_str(&format!(", {name}=\"{value}\""));
        };
        if let Some(error) = error {
            parameter("error", error);
            parameter("error_description", &why);
        }
        let scopes: Vec<&str> = scopes.iter().map(|scope| &**scope).filter(|scope| is_scope(scope)).collect();
        if !scopes.is_empty() {
            parameter("scope", &scopes.join(" "));
        }
        let mut denied = Denied::new(status, why);
        denied.challenge = HeaderValue::from_str(&text).ok();
        denied
    }
}

/// The token of a request.
pub(super) fn bearer(parts: &Parts) -> Result<&str, Challenge> {
    let query = parts.uri.query().unwrap_or_default();
    if query.split('&').any(|pair| pair.split('=').next() == Some("access_token")) {
        return Err(Challenge::Malformed("a token in the URL is never accepted"));
    }
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Err(Challenge::Missing) };
    if values.next().is_some() {
        return Err(Challenge::Malformed("there is more than one `Authorization` header"));
    }
    let unreadable = Challenge::Malformed("`Authorization` is not `Bearer` and a token");
    let Ok(value) = value.to_str() else { return Err(unreadable) };
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        // Another scheme counts as no token.
        return Err(Challenge::Missing);
    }
    let token = token.trim_matches(' ');
    if is_token(token) { Ok(token) } else { Err(unreadable) }
}

/// Whether it has the form of a token (RFC 6750, 2.1).
fn is_token(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    !body.is_empty() && body.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::{Challenge, bearer};

    const URL: &str = "https://x.example/.well-known/oauth-protected-resource/mcp";

    fn of(uri: &str, headers: &[&[u8]]) -> Result<String, Challenge> {
        let mut request = Request::builder().uri(uri);
        for value in headers {
            request = request.header("authorization", *value);
        }
        let (parts, ()) = request.body(()).expect("a request").into_parts();
        bearer(&parts).map(ToOwned::to_owned)
    }

    #[test]
    fn a_token_is_taken_from_the_one_header_and_from_nowhere_else() {
        for good in ["Bearer a.b-c_d~e+f/g==", "bearer  a.b-c_d~e+f/g== ", "BEARER a.b-c_d~e+f/g=="] {
            assert_eq!(of("/mcp", &[good.as_bytes()]).as_deref(), Ok("a.b-c_d~e+f/g=="), "{good}");
        }
        for none in [&[] as &[&[u8]], &[b"Basic eDp5"], &[b"DPoP x"], &[b"Bearerx y"], &[b""]] {
            assert_eq!(of("/mcp", none), Err(Challenge::Missing), "{none:?}");
        }
        for bad in [
            &[b"Bearer" as &[u8]] as &[&[u8]],
            &[b"Bearer "],
            &[b"Bearer a b"],
            &[b"Bearer =a"],
            &[b"Bearer a\xff"],
            &[b"Bearer a,b"],
            &[b"Bearer a", b"Bearer a"],
            &[b"Basic a", b"Bearer a"],
        ] {
            assert!(matches!(of("/mcp", bad), Err(Challenge::Malformed(_))), "{bad:?}");
        }
        for uri in ["/mcp?access_token=a", "/mcp?x=1&access_token", "/mcp?access_token=a&x"] {
            assert!(matches!(of(uri, &[]), Err(Challenge::Malformed(_))), "{uri}");
            assert!(matches!(of(uri, &[b"Bearer a"]), Err(Challenge::Malformed(_))), "{uri}");
        }
        assert_eq!(of("/mcp?my_access_token=b", &[b"Bearer a"]).as_deref(), Ok("a"));
    }

    #[test]
    fn a_challenge_says_what_is_needed_and_nothing_ends_a_quoted_text_early() {
        let required: [Box<str>; 2] = ["a".into(), "b\"c".into()];
        let of = |challenge: Challenge| {
            let denied = challenge.into_denied(URL, &required);
            let text = denied.challenge.map(|value| value.to_str().expect("text").to_owned());
            (denied.status, text.unwrap_or_default())
        };
        let start = format!("Bearer resource_metadata=\"{URL}\"");
        assert_eq!(of(Challenge::Missing), (401, format!("{start}, scope=\"a\"")));
        assert_eq!(
            of(Challenge::Invalid("no \"good\"\r\n\u{e9}".into())),
            (401, format!(r#"{start}, error="invalid_token", error_description="no 'good''''", scope="a""#))
        );
        let needed: [Box<str>; 2] = ["x".into(), "y:z".into()];
        let (status, text) = of(Challenge::InsufficientScope(needed.into()));
        assert_eq!(status, 403);
        assert!(
            text.starts_with(&format!("{start}, error=\"insufficient_scope\", error_description=")),
            "{text}"
        );
        assert!(text.ends_with(", scope=\"x y:z\""), "{text}");
        let (status, text) = of(Challenge::Malformed("why"));
        assert_eq!((status, text.contains("error=\"invalid_request\"")), (400, true));
        assert_eq!(of(Challenge::Unavailable("later".into())), (503, String::new()));
    }
}
