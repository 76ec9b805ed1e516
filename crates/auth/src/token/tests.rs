//! Tests of the parsing of token responses, and of client authentication.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::*;

fn fetched(status: u16, body: &str) -> Fetched {
    Fetched {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::copy_from_slice(body.as_bytes()),
        url: "https://as.example/token".parse().unwrap(),
    }
}

fn read_at(status: u16, body: &str, now: SystemTime) -> Result<Tokens, TokenError> {
    read("https://as.example/token", &fetched(status, body), now)
}

#[test]
fn g141_how_long_a_token_lives_is_read_from_anything_and_believed_when_it_can_be() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    for (expires, seconds) in [
        ("", None),
        (r#","expires_in":null"#, None),
        (r#","expires_in":0"#, None),
        (r#","expires_in":-1"#, None),
        (r#","expires_in":-1e30"#, None),
        (r#","expires_in":1e30"#, None),
        (r#","expires_in":1e400"#, None),
        (r#","expires_in":99999999999999999999999999"#, None),
        (r#","expires_in":"soon""#, None),
        (r#","expires_in":"NaN""#, None),
        (r#","expires_in":"inf""#, None),
        (r#","expires_in":[]"#, None),
        (r#","expires_in":true"#, None),
        (r#","expires_in":3600"#, Some(3600)),
        (r#","expires_in":3600.0"#, Some(3600)),
        (r#","expires_in":"3600""#, Some(3600)),
        (r#","expires_in":1"#, Some(1)),
        // Ten years.
        (r#","expires_in":315360000"#, Some(315_360_000)),
        (r#","expires_in":315360001"#, None),
    ] {
        let body = format!(r#"{{"access_token":"a","token_type":"bearer"{expires}}}"#);
        let tokens = match read_at(200, &body, now) {
            Ok(tokens) => tokens,
            // A number out of the range of JSON parsers makes the whole response invalid.
            Err(error) if expires.contains("1e400") => {
                assert!(matches!(error, TokenError::Nonsense { .. }), "{error}");
                continue;
            }
            Err(error) => panic!("{expires}: {error}"),
        };
        assert_eq!(tokens.lifetime, seconds.map(Duration::from_secs), "{expires}");
        assert_eq!(tokens.expires, tokens.lifetime.map(|lifetime| now + lifetime), "{expires}");
    }
}

#[test]
fn an_answer_that_is_none_is_said_to_be_none_and_nothing_of_it_is_shown() {
    for (status, body) in [
        (200, ""),
        (200, "<html>hunter2</html>"),
        (200, "[\"hunter2\"]"),
        (200, r#"{"access_token":"hunter2"}"#),
        (200, r#"{"access_token":"hunter2","token_type":"mac"}"#),
        (200, r#"{"access_token":"hunter2\n","token_type":"bearer"}"#),
        (200, r#"{"access_token":"hunter2é","token_type":"bearer"}"#),
        (200, r#"{"access_token":["hunter2"],"token_type":"bearer"}"#),
        (200, r#"{"access_token":"","token_type":"bearer"}"#),
        (200, r#"{"access_token":"hunter2","token_type":"bearer","refresh_token":{"hunter2":1}}"#),
        (200, r#"{"access_token":"hunter2","access_token":"hunter3","token_type":"bearer"}"#),
        (404, "hunter2"),
        (302, ""),
    ] {
        let error = read_at(status, body, SystemTime::now()).unwrap_err();
        assert!(matches!(error, TokenError::Nonsense { .. }), "{body}: {error}");
        assert!(!error.is_transient());
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
    }
}

#[test]
fn g143_a_token_has_64_kib_at_most() {
    for name in ["access_token", "refresh_token"] {
        let read = |bytes: usize| {
            let mut body = serde_json::json!({ "access_token": "a", "token_type": "bearer" });
            body[name] = "a".repeat(bytes).into();
            read_at(200, &body.to_string(), SystemTime::UNIX_EPOCH)
        };
        assert!(read(65_536).is_ok(), "{name}");
        let TokenError::Nonsense { what, .. } = read(65_537).unwrap_err() else { panic!("{name} is taken") };
        assert_eq!(what, format!("its {name} is longer than 65536 bytes"));
    }
}

#[test]
fn g143_of_the_scopes_of_a_token_256_are_kept() {
    let scopes: Vec<String> = (0..257).map(|n| format!("s{n}")).collect();
    let body = format!(r#"{{"access_token":"a","token_type":"bearer","scope":"{}"}}"#, scopes.join(" "));
    let tokens = read_at(200, &body, SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(tokens.scopes.as_deref(), Some(&scopes[..256]));
}

#[test]
fn a_refusal_is_reported_and_distinguished_from_a_temporary_failure() {
    let error =
        read_at(400, r#"{"error":"invalid_grant","error_description":"\u001b[31mno"}"#, SystemTime::now());
    let error = error.unwrap_err();
    assert!(error.is("invalid_grant") && !error.is_transient());
    assert_eq!(
        error.to_string(),
        "no token: https://as.example/token rejected the request: invalid_grant: \\u{1b}[31mno"
    );
    // Some servers send the error with status 200.
    assert!(
        read_at(200, r#"{"error":"bad_verification_code"}"#, SystemTime::now())
            .unwrap_err()
            .is("bad_verification_code")
    );
    for status in [429, 500, 503] {
        assert!(read_at(status, "<html>", SystemTime::now()).unwrap_err().is_transient(), "{status}");
    }
    // Proxies and rate limiters write their errors in the form of OAuth, too.
    for (status, error) in [
        (429, "too_many_requests"),
        (500, "server_error"),
        (503, "temporarily_unavailable"),
        (503, "Service Unavailable"),
    ] {
        let body = serde_json::json!({ "error": error, "error_description": "later" }).to_string();
        let told = read_at(status, &body, SystemTime::now()).unwrap_err();
        assert!(matches!(told, TokenError::Unavailable { .. }) && told.is_transient(), "{told}");
    }
    // What the refresh token or the client is refused for is final, whatever the status.
    let told = read_at(500, r#"{"error":"invalid_grant"}"#, SystemTime::now()).unwrap_err();
    assert!(told.is("invalid_grant"), "{told}");
}

#[test]
fn g138_tokens_are_never_shown() {
    let body = r#"{"access_token":"hunter2","token_type":"DPoP","refresh_token":"hunter3","scope":"a  b"}"#;
    let tokens = read_at(200, body, SystemTime::now()).unwrap();
    assert_eq!(tokens.kind, TokenKind::Dpop);
    assert_eq!(tokens.scopes.as_deref(), Some(&["a".to_owned(), "b".to_owned()][..]));
    let value = tokens.authorization().unwrap();
    assert_eq!(value, "DPoP hunter2");
    assert!(!format!("{tokens:?} {value:?}").contains("hunter"), "{tokens:?}");
}

#[test]
fn a_client_and_its_secret_are_encoded_before_they_are_joined() {
    // RFC 6749, 2.3.1.
    let value = basic("a:b", &Secret::new("c d%")).unwrap();
    let text = value.to_str().unwrap().strip_prefix("Basic ").unwrap();
    assert_eq!(STANDARD.decode(text).unwrap(), b"a%3Ab:c+d%25");
    assert!(!format!("{value:?}").contains(text));
}
