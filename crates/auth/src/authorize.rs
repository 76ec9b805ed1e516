//! The authorization request and its response.
//!
//! Builds the URL for the browser from an endpoint that a third party has named (adversarial case 137), and checks the
//! response: `state` (135), `iss` ([RFC 9207](https://www.rfc-editor.org/rfc/rfc9207#section-2.4), 133), then the error or the
//! code. Sends nothing, and shows nothing of a response with a wrong `state` or `iss`.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#authorization-flow-steps>

use std::net::{Ipv4Addr, Ipv6Addr};

use url::Url;

use super::error::AuthError;
use super::fetch::{cut, shown_text};
use super::form::{Form, Parameters, decode, encode};
use super::pkce::{Pkce, random};
use super::secret::Secret;

/// The parameters that every request sets, once ([RFC 6749, 3.1](https://www.rfc-editor.org/rfc/rfc6749#section-3.1)).
const OURS: [&str; 9] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "code_challenge",
    "code_challenge_method",
    "state",
    "resource",
    "scope",
    "request_uri",
];

/// The contents of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) endpoint: &'a str,
    pub(super) client_id: &'a str,
    pub(super) redirect_uri: &'a str,
    pub(super) resource: &'a str,
    pub(super) scopes: Option<&'a [String]>,
    /// The issuer whose metadata names the endpoint, byte for byte.
    pub(super) issuer: &'a str,
    /// Whether its metadata says that each response names the issuer.
    pub(super) names_itself: bool,
}

/// A request that a browser was sent with, and the values that its response is checked against.
#[derive(Debug)]
pub(super) struct AuthorizationRequest {
    /// The URL: of http or https, without any character that is special to another program.
    pub(super) url: Secret,
    pub(super) state: Secret,
    pub(super) verifier: Secret,
    /// All parameters except the client's credentials, for a server that receives them in a pushed request.
    pub(super) pushed: Form,
    issuer: String,
    names_itself: bool,
}

impl AuthorizationRequest {
    pub(super) fn new(asked: Asked<'_>) -> Result<Self, AuthError> {
        let no_chance = || AuthError::Endpoint("the system provides no random numbers".into());
        let (pkce, state) = (Pkce::new().ok_or_else(no_chance)?, random().ok_or_else(no_chance)?);
        let mut url = Self::check(asked.endpoint)?;
        let mut query = url.query().filter(|query| !query.is_empty()).map(|query| format!("{query}&"));
        let query = query.get_or_insert_default();
        let scopes = asked.scopes.filter(|scopes| !scopes.is_empty()).map(|scopes| scopes.join(" "));
        let pairs = [
            ("response_type", Some("code")),
            ("client_id", Some(asked.client_id)),
            ("redirect_uri", Some(asked.redirect_uri)),
            ("code_challenge", Some(pkce.challenge.as_str())),
            ("code_challenge_method", Some("S256")),
            ("state", Some(state.as_str())),
            ("resource", Some(asked.resource)),
            ("scope", scopes.as_deref()),
        ];
        let pushed = pairs
            .iter()
            .filter(|(name, _)| *name != "client_id")
            .filter_map(|(name, value)| Some((*name, value.as_deref()?)))
            .fold(Form::empty(), |form, (name, value)| form.with(name, value));
        let pairs: Vec<String> = pairs
            .iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", encode(value.as_deref()?))))
            .collect();
        query.push_str(&pairs.join("&"));
        url.set_query(Some(query));
        Ok(Self {
            url: Secret::new(harmless(url.as_str())),
            state: state.into(),
            verifier: pkce.verifier,
            pushed,
            issuer: asked.issuer.to_owned(),
            names_itself: asked.names_itself,
        })
    }

    /// Refers to a pushed request by its URI ([RFC 9126, 4](https://www.rfc-editor.org/rfc/rfc9126#section-4)).
    pub(super) fn is_pushed(&mut self, asked: &Asked<'_>, request_uri: &str) -> Result<(), AuthError> {
        let mut url = Self::check(asked.endpoint)?;
        let before = url.query().filter(|query| !query.is_empty()).map(|query| format!("{query}&"));
        let (id, uri) = (encode(asked.client_id), encode(request_uri));
        url.set_query(Some(&format!("{}client_id={id}&request_uri={uri}", before.unwrap_or_default())));
        self.url = Secret::new(harmless(url.as_str()));
        Ok(())
    }

    /// Checks that a browser may be sent to a URL.
    pub(super) fn check(to: &str) -> Result<Url, AuthError> {
        endpoint(to).map_err(|what| {
            let shown = shown_text(to);
            AuthError::Endpoint(format!("the authorization endpoint {shown} is rejected: {what}"))
        })
    }

    /// Returns the code from the query of the redirect.
    pub(super) fn code(&self, query: &str) -> Result<Secret, AuthError> {
        let refused = |what: &str| Err(AuthError::Response(format!("the response is rejected: {what}")));
        let parameters = match Parameters::parse(query) {
            Ok(parameters) => parameters,
            Err(what) => return refused(what),
        };
        match parameters.value("state") {
            Some(state) if state == self.state.expose() => {}
            Some(_) => return refused("its state belongs to another request"),
            None => return refused("it has no state, so it may belong to another request"),
        }
        // Simple string comparison, whatever the metadata says; for error responses too.
        match parameters.value("iss") {
            Some(issuer) if issuer == self.issuer => {}
            Some(_) => {
                let what = format!(
                    "its iss is not {}: another authorization server may have sent it",
                    shown_text(&self.issuer)
                );
                return refused(&what);
            }
            None if self.names_itself => {
                let what = format!(
                    "it has no iss, although the metadata of {} promise one",
                    shown_text(&self.issuer)
                );
                return refused(&what);
            }
            None => {}
        }
        if let Some(error) = parameters.value("error") {
            return Err(AuthError::Refused {
                error: cut(error),
                description: parameters.value("error_description").map(cut),
            });
        }
        match parameters.value("code") {
            Some(code) if !code.is_empty() => Ok(code.into()),
            _ => refused("it has neither a code nor an error"),
        }
    }
}

/// Checks an authorization endpoint before a browser is sent there.
fn endpoint(endpoint: &str) -> Result<Url, &'static str> {
    let mut url = web_page(endpoint)?;
    let mut names = url.query().unwrap_or_default().split('&').map(|pair| pair.split('=').next());
    let is_ours = |name: &str| decode(name).is_some_and(|name| OURS.contains(&name.as_str()));
    if names.any(|name| name.is_some_and(is_ours)) {
        // An authorization server uses one of two values, and it is unknown which.
        return Err("it already has a parameter that each request sets");
    }
    url.set_fragment(None);
    Ok(url)
}

/// Checks a URL before a browser is sent there: it is a web page, and shows which host it is on.
pub(super) fn web_page(page: &str) -> Result<Url, &'static str> {
    // What one URL parser drops or corrects, another may not.
    if page.chars().any(|character| character.is_control() || character.is_whitespace() || character == '\\')
    {
        return Err("it contains a character that is not allowed in a URL");
    }
    let url = Url::parse(page).map_err(|_| "it is not a URL")?;
    if !matches!(url.scheme(), "https" | "http") {
        return Err("it is neither https nor http");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it contains a user name");
    }
    let host = url.host_str().unwrap_or_default();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if host.is_empty() || !host.bytes().all(plain) {
        return Err("its host contains a character that is not allowed");
    }
    if url.scheme() == "http" && !is_loopback(host) {
        return Err("it is http, which is allowed only on this machine");
    }
    Ok(url)
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || address.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback())
}

/// Encodes every character of a URL that is special to a shell or to Windows, whatever program opens the browser. `&`, `=`, `?`,
/// `%` and `+` stay, because URLs need them; no shell is ever used.
pub(super) fn harmless(url: &str) -> String {
    let mut safe = String::with_capacity(url.len());
    for character in url.chars() {
        match character {
            'a'..='z' | 'A'..='Z' | '0'..='9' => safe.push(character),
            '-' | '.' | '_' | '~' | ':' | '/' | '?' | '=' | '&' | '%' | '+' | '[' | ']' | '@' | ',' => {
                safe.push(character);
            }
            other => {
                let mut bytes = [0; 4];
                other.encode_utf8(&mut bytes).bytes().for_each(|byte| safe.push_str(&format!("%{byte:02X}")));
            }
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(endpoint: &str, names_itself: bool) -> Result<AuthorizationRequest, AuthError> {
        AuthorizationRequest::new(Asked {
            endpoint,
            client_id: "me & you",
            redirect_uri: "http://127.0.0.1:1234/callback",
            resource: "https://Server.example:443/a%2fb/",
            scopes: Some(&["a".into(), "b:c".into()]),
            issuer: "https://as.example/t",
            names_itself,
        })
    }

    #[test]
    fn g137_an_endpoint_that_is_no_web_page_is_never_opened() {
        let refused = [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "data:text/html,x",
            "vbscript:x",
            "a b",
            "a:$(calc)",
            "\\\\host\\share",
            "//host/share",
            "file://host/share",
            "https://me@as.example/",
            "https://me:x@as.example/",
            "http://as.example/authorize",
            "http://169.254.169.254/",
            "https://$(calc)/",
            "https://a`b`/",
            "https://",
            "https:///x y",
            "https://as.example/a\nb",
            "https://as.example/a b",
            "https://as.example/a\u{7f}b",
            "https://as.example\\@evil.example/",
            "",
            "/authorize",
            "http://localhost.evil.example/",
            "ms-settings:x",
            "search-ms:query=x",
            "https://a;b/",
            "https://as example/",
        ];
        for endpoint in refused {
            let error = request(endpoint, false).unwrap_err();
            assert!(matches!(error, AuthError::Endpoint(_)), "{endpoint}: {error}");
        }
    }

    #[test]
    fn g137_what_a_shell_would_obey_is_encoded() {
        let opened = request("https://x.example/$(calc)`a`|b;c'\"<>^{}!*?q='&$(x)", false).unwrap().url;
        let opened = opened.expose();
        assert!(opened.starts_with("https://x.example/%24%28calc%29%60a%60%7Cb%3Bc%27%22%3C%3E%5E%7B%7D%21%2A?q=%27&%24%28x%29&response_type=code&"), "{opened}");
        for character in "$()`|;'\"<>^{}!*\\ \n".chars() {
            assert!(!opened.contains(character), "{character}");
        }
        for fine in
            ["http://localhost:1/a", "http://127.0.0.1:1/a", "http://[::1]:1/a", "https://as.example/a?b=c"]
        {
            assert!(request(fine, false).unwrap().url.expose().starts_with(fine), "{fine}");
        }
    }

    #[test]
    fn no_parameter_is_said_twice() {
        for taken in [
            "client_id=x",
            "a=b&redirect_uri=https%3A%2F%2Fevil.example",
            "state",
            "%73tate=x",
            "code_challenge_method=plain",
            "request_uri=urn%3Ax",
        ] {
            let error = request(&format!("https://as.example/authorize?{taken}"), false).unwrap_err();
            assert!(matches!(error, AuthError::Endpoint(_)), "{taken}: {error}");
        }
        for fine in ["tenant=1", "prompt=consent&a=%ff", "states=1"] {
            assert!(request(&format!("https://as.example/authorize?{fine}"), false).is_ok(), "{fine}");
        }
    }

    #[test]
    fn the_request_says_everything_byte_for_byte() {
        let request = request("https://as.example/authorize?tenant=1#here", false).unwrap();
        let url = request.url.expose();
        let (before, query) = url.split_once('?').unwrap();
        assert_eq!(before, "https://as.example/authorize");
        let query = Parameters::parse(query).unwrap();
        for (name, value) in [
            ("tenant", "1"),
            ("response_type", "code"),
            ("client_id", "me & you"),
            ("redirect_uri", "http://127.0.0.1:1234/callback"),
            ("code_challenge_method", "S256"),
            ("resource", "https://Server.example:443/a%2fb/"),
            ("scope", "a b:c"),
            ("state", request.state.expose()),
        ] {
            assert_eq!(query.value(name), Some(value), "{name}");
        }
        assert!(!url.contains(request.verifier.expose()));
    }

    fn answer(names_itself: bool, query: &str) -> Result<Secret, AuthError> {
        let request = request("https://as.example/authorize", names_itself).unwrap();
        request.code(&query.replace("STATE", request.state.expose()))
    }

    #[test]
    fn g133_the_issuer_is_compared_byte_for_byte_before_anything_else_is_believed() {
        let iss = "iss=https%3A%2F%2Fas.example%2Ft";
        for names_itself in [true, false] {
            let code = answer(names_itself, &format!("code=c&state=STATE&{iss}")).unwrap();
            assert_eq!(code.expose(), "c");
        }
        assert!(answer(false, "code=c&state=STATE").is_ok());
        assert!(answer(true, "code=c&state=STATE").is_err(), "missing though it was said to be there");
        let others = [
            "https://as.example/t/",
            "https://as.example/T",
            "https://AS.example/t",
            "https://as.example:443/t",
            "https://as.example/%74",
            "https://evil.example/t",
            "",
        ];
        for other in others {
            for names_itself in [true, false] {
                let error =
                    answer(names_itself, &format!("code=c&state=STATE&iss={}", encode(other))).unwrap_err();
                assert!(matches!(error, AuthError::Response(_)), "{other}");
                // An error that a third party may have sent is not shown either.
                let query = format!("error=evil&error_description=evil&state=STATE&iss={}", encode(other));
                let error = answer(names_itself, &query).unwrap_err();
                assert!(matches!(error, AuthError::Response(_)), "{other}");
                assert!(!error.to_string().contains("evil"), "{error}");
            }
        }
        let error = answer(true, "error=evil&state=STATE").unwrap_err().to_string();
        assert!(!error.contains("evil"), "{error}");
    }

    #[test]
    fn g135_a_state_that_is_not_that_of_the_request_is_refused() {
        for query in [
            "code=c",
            "code=c&state=",
            "code=c&state=other",
            "code=c&state=STATEx",
            "code=c&state=STATE&state=STATE",
        ] {
            let error = answer(false, query).unwrap_err();
            assert!(matches!(error, AuthError::Response(_)), "{query}: {error}");
        }
        let error = answer(false, "error=evil&state=other").unwrap_err().to_string();
        assert!(!error.contains("evil"), "{error}");
        for query in ["state=STATE", "state=STATE&code=", "state=STATE&code=%ff"] {
            assert!(answer(false, query).is_err(), "{query}");
        }
        let AuthError::Refused { error, description } =
            answer(false, "error=access_denied&error_description=%1b%5b31mno&state=STATE").unwrap_err()
        else {
            panic!("what the server says is told")
        };
        assert_eq!((error.as_str(), description.as_deref()), ("access_denied", Some("\\u{1b}[31mno")));
    }
}
