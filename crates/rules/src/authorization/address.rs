//! The addresses of authorization documents, and the resource or issuer that an address stands for. It compares text and
//! resolves no name.
//!
//! Used by the rules of this chapter, and by the callers that fetch the documents.
//! <https://www.rfc-editor.org/rfc/rfc9728#section-3.1>, <https://www.rfc-editor.org/rfc/rfc8414#section-3.1>

use bytes::Bytes;
use mcpjoin_proto::http::challenge::Challenge;
use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::Origin;
use mcpjoin_proto::http::resource::{authorization_server_urls, origin_of, protected_resource_urls};

use crate::exchange::HttpResponse;
use crate::json::{member, of_line, strings};

/// A document has no more authorization servers than this that are looked at.
pub const MOST_SERVERS: usize = 2;

/// The challenges of a response for tokens: of the schemes `Bearer` and `DPoP`.
pub(super) fn challenges(response: &HttpResponse) -> Vec<Challenge> {
    let all = Challenge::all(response.headers.values(name::WWW_AUTHENTICATE));
    all.into_iter().filter(|challenge| challenge.is("Bearer") || challenge.is("DPoP")).collect()
}

/// A parameter of them.
pub(super) fn parameter(response: &HttpResponse, name: &str) -> Option<String> {
    challenges(response).iter().find_map(|challenge| challenge.parameter(name).map(str::to_owned))
}

/// Whether a response to somebody without a token shows that the server wants one of OAuth: a 401, unless it asks for
/// another kind of credentials alone; or a 403 with a challenge for tokens.
#[must_use]
pub fn wants_token(response: &HttpResponse) -> bool {
    let is_challenged = !challenges(response).is_empty();
    match response.status {
        401 => is_challenged || response.headers.value(name::WWW_AUTHENTICATE).is_none(),
        403 => is_challenged,
        _ => false,
    }
}

/// The address of the protected resource's metadata, as the challenge of a response names it.
#[must_use]
pub fn named_metadata(response: &HttpResponse) -> Option<String> {
    parameter(response, "resource_metadata")
}

/// The well-known addresses of the metadata of a protected resource, in the order in which they are tried: with the path
/// of its URL, and at the root. Its query is left out: it may be a secret.
///
/// ```
/// let found = mcpjoin_rules::resource_metadata_addresses("https://example.com/mcp");
/// assert_eq!(found[0], "https://example.com/.well-known/oauth-protected-resource/mcp");
/// assert_eq!(found[1], "https://example.com/.well-known/oauth-protected-resource");
/// ```
#[must_use]
pub fn resource_metadata_addresses(url: &str) -> Vec<String> {
    protected_resource_urls(bare(url))
}

/// The well-known addresses of the metadata of an authorization server, in the order in which they are tried: of OAuth,
/// of OpenID Connect, and, where the issuer has a path, with that before.
///
/// ```
/// let found = mcpjoin_rules::server_metadata_addresses("https://example.com/tenant");
/// assert_eq!(found[0], "https://example.com/.well-known/oauth-authorization-server/tenant");
/// assert_eq!(found[1], "https://example.com/.well-known/openid-configuration/tenant");
/// assert_eq!(found[2], "https://example.com/tenant/.well-known/openid-configuration");
/// ```
#[must_use]
pub fn server_metadata_addresses(issuer: &str) -> Vec<String> {
    authorization_server_urls(bare(issuer))
}

/// The address that a revision without metadata of resources gives to a path: at the root of the server's origin.
#[must_use]
pub fn base_address(url: &str, path: &str) -> Option<String> {
    origin_of(url).map(|origin| format!("{origin}{path}"))
}

/// The authorization servers that the metadata of a protected resource name; empty for what is no such document.
#[must_use]
pub fn named_servers(document: &Bytes) -> Vec<String> {
    let servers = of_line(document).and_then(|document| member(&document, "authorization_servers"));
    servers.and_then(|servers| strings(&servers)).unwrap_or_default()
}

/// Whether it is an address of `https`, or of this machine.
pub(super) fn is_secure(url: &str) -> bool {
    Origin::of(url).is_ok_and(|origin| origin.is_secure() || origin.is_loopback())
}

/// A URL without its query: no document is named by one.
pub(super) fn bare(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_rfcs() {
        assert_eq!(
            resource_metadata_addresses("https://h/"),
            ["https://h/.well-known/oauth-protected-resource"]
        );
        let found = resource_metadata_addresses("https://h/a/mcp?key=secret");
        assert_eq!(found[0], "https://h/.well-known/oauth-protected-resource/a/mcp");
        assert!(resource_metadata_addresses("file:///etc/passwd").is_empty());
        assert_eq!(server_metadata_addresses("https://h/").len(), 2);
        assert_eq!(
            server_metadata_addresses("https://h/a/")[2],
            "https://h/a/.well-known/openid-configuration"
        );
        assert!(server_metadata_addresses("https://me:secret@h").is_empty());
        assert_eq!(base_address("https://h/v1/mcp", "/authorize").as_deref(), Some("https://h/authorize"));
    }

    #[test]
    fn who_is_asked_for_a_token_is_told_from_who_is_kept_out_otherwise() {
        let response = |status, header: Option<&'static str>| HttpResponse {
            status,
            headers: header.map(|value| ("WWW-Authenticate".into(), value.into())).into_iter().collect(),
        };
        for (status, header, wanted) in [
            (401, None, true),
            (401, Some("Bearer"), true),
            (401, Some("DPoP algs=\"ES256\""), true),
            (401, Some("Basic realm=\"x\""), false),
            (403, None, false),
            (403, Some("Bearer error=\"invalid_token\""), true),
            (200, Some("Bearer"), false),
        ] {
            assert_eq!(wants_token(&response(status, header)), wanted, "{status} {header:?}");
        }
        let named = response(401, Some("Basic realm=\"x\", Bearer resource_metadata=\"https://h/x\""));
        assert_eq!(named_metadata(&named).as_deref(), Some("https://h/x"));
    }
}
