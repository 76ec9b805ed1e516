//! The addresses of authorization documents, and the challenges that name them. It compares text and resolves no name.
//!
//! Used by the rules of this chapter, and by the callers that fetch the documents.
//! <https://www.rfc-editor.org/rfc/rfc9728#section-3.1>, <https://www.rfc-editor.org/rfc/rfc8414#section-3.1>

use bytes::Bytes;
use mcpjoin_proto::http::challenge::Challenge;
use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::Origin;
use mcpjoin_proto::http::resource::{authorization_server_urls, origin_of, protected_resource_urls};

use crate::exchange::HttpResponse;
use crate::json::{of_line, texts};

/// How many authorization servers of a document are checked.
pub const MAX_AUTHORIZATION_SERVERS: usize = 2;

/// The challenges of a response with the schemes for tokens, `Bearer` and `DPoP`.
pub(super) fn challenges(response: &HttpResponse) -> Vec<Challenge> {
    let all = Challenge::all(response.headers.values(name::WWW_AUTHENTICATE));
    all.into_iter().filter(|challenge| challenge.is("Bearer") || challenge.is("DPoP")).collect()
}

/// A parameter of these challenges.
pub(super) fn parameter(response: &HttpResponse, name: &str) -> Option<String> {
    challenges(response).iter().find_map(|challenge| challenge.parameter(name).map(str::to_owned))
}

/// Whether the response to a request without a token shows that the server requires an OAuth token: a 401, unless all its
/// challenges have other schemes, or a 403 with a challenge for tokens.
#[must_use]
pub fn wants_token(response: &HttpResponse) -> bool {
    let is_challenged = !challenges(response).is_empty();
    match response.status {
        401 => is_challenged || response.headers.value(name::WWW_AUTHENTICATE).is_none(),
        403 => is_challenged,
        _ => false,
    }
}

/// The address of the protected resource's metadata in the challenge of a response.
#[must_use]
pub fn named_metadata(response: &HttpResponse) -> Option<String> {
    parameter(response, "resource_metadata")
}

/// The well-known addresses of the metadata of a protected resource, in the order in which they are tried: with the path
/// of its URL, and at the root. They do not have its query, which may be a secret.
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

/// The well-known addresses of the metadata of an authorization server, in the order in which they are tried: of OAuth, of
/// OpenID Connect, and, if the issuer has a path, of OpenID Connect below that path.
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

/// The address of a path at the root of the server's origin, for revisions without metadata of resources.
#[must_use]
pub fn base_address(url: &str, path: &str) -> Option<String> {
    origin_of(url).map(|origin| format!("{origin}{path}"))
}

/// The authorization servers in the metadata of a protected resource; empty for any other document.
#[must_use]
pub fn named_servers(document: &Bytes) -> Vec<String> {
    of_line(document).and_then(|document| texts(&document, "authorization_servers")).unwrap_or_default()
}

/// Whether an address uses `https` or is on this machine.
pub(super) fn is_secure(url: &str) -> bool {
    Origin::of(url).is_ok_and(|origin| origin.is_secure() || origin.is_loopback())
}

/// A URL without its query and fragment.
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
    fn a_request_for_a_token_is_distinguished_from_other_refusals() {
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
