//! Identifiers of protected resources, and the URLs of their authorization metadata.
//!
//! Used by the client for discovery, by the server that publishes metadata, and by the rules that check both. Only
//! parses URLs. An ambiguous URL has no metadata and covers nothing. URLs that are compared or fetched are not
//! normalized.
//!
//! [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728#section-3), [RFC
//! 8414](https://www.rfc-editor.org/rfc/rfc8414#section-3), [RFC
//! 8707](https://www.rfc-editor.org/rfc/rfc8707#section-2),
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery>

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::origin::{Origin, same_origin};

/// The path of the metadata of a protected resource, before the path of the resource itself.
pub const PROTECTED_RESOURCE: &str = "/.well-known/oauth-protected-resource";

/// The origin of a URL as written, its path, and its query with the `?`. `None` for an ambiguous URL.
struct Pieces<'a> {
    origin: &'a str,
    path: &'a str,
    query: &'a str,
}

impl<'a> Pieces<'a> {
    fn of(url: &'a str) -> Option<Self> {
        Origin::of(url).ok()?;
        let url = url.split('#').next().unwrap_or_default();
        let authority = url.find("://")? + 3;
        let end = url[authority..].find(['/', '?']).map_or(url.len(), |at| authority + at);
        let (origin, rest) = url.split_at(end);
        let (path, query) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        Some(Self { origin, path, query })
    }
}

/// The origin of a URL, as written.
#[must_use]
pub fn origin_of(url: &str) -> Option<&str> {
    Pieces::of(url).map(|pieces| pieces.origin)
}

/// The default identifier of a server: its URL in the canonical form
/// (<https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization#canonical-server-uri>), without
/// query.
#[must_use]
pub fn canonical(server: &str) -> Option<String> {
    let (origin, pieces) = (Origin::of(server).ok()?, Pieces::of(server)?);
    let path = if pieces.path == "/" { "" } else { pieces.path };
    Some(format!("{origin}{path}"))
}

/// The default URLs of a server's metadata, in the order in which a client must try them ([RFC 9728,
/// 3.1](https://www.rfc-editor.org/rfc/rfc9728#section-3.1)).
#[must_use]
pub fn protected_resource_urls(server: &str) -> Vec<String> {
    let Some(Pieces { origin, path, query }) = Pieces::of(server) else { return Vec::new() };
    let root = format!("{origin}{PROTECTED_RESOURCE}");
    let path = if path == "/" { "" } else { path };
    match format!("{root}{path}{query}") {
        specific if specific == root => vec![root],
        specific => vec![specific, root],
    }
}

/// The URLs of an authorization server's metadata, in the order in which a client must try them ([RFC 8414, 3.1 and
/// 5](https://www.rfc-editor.org/rfc/rfc8414#section-3.1)). Empty for an invalid issuer: an issuer has no query and no
/// fragment.
#[must_use]
pub fn authorization_server_urls(issuer: &str) -> Vec<String> {
    const OAUTH: &str = "/.well-known/oauth-authorization-server";
    const OPENID: &str = "/.well-known/openid-configuration";
    let Some(Pieces { origin, path, .. }) = Pieces::of(issuer) else { return Vec::new() };
    if issuer.contains(['?', '#']) {
        return Vec::new();
    }
    match path.strip_suffix('/').unwrap_or(path) {
        "" => vec![format!("{origin}{OAUTH}"), format!("{origin}{OPENID}")],
        path => vec![
            format!("{origin}{OAUTH}{path}"),
            format!("{origin}{OPENID}{path}"),
            format!("{origin}{path}{OPENID}"),
        ],
    }
}

/// Whether a token for `resource` may be sent to `url`: the origins are equal, and the path is equal or continues with
/// `/`. A resource with a query covers that URL only; one with a fragment or with dot segments covers nothing (RFC
/// 8707, 2).
#[must_use]
pub fn covers(resource: &str, url: &str) -> bool {
    if resource.contains('#') || !same_origin(resource, url) {
        return false;
    }
    let (Some(resource), Some(url)) = (Pieces::of(resource), Pieces::of(url)) else { return false };
    if has_dots(resource.path) || has_dots(url.path) {
        return false;
    }
    if !resource.query.is_empty() {
        return resource.path == url.path && resource.query == url.query;
    }
    let base = resource.path.strip_suffix('/').unwrap_or(resource.path);
    url.path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a path has a segment `.` or `..`, possibly percent-encoded, which URL parsers remove.
fn has_dots(path: &str) -> bool {
    path.split('/').any(|segment| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        plain == "." || plain == ".."
    })
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;

    use super::*;

    #[test]
    fn documents_are_asked_for_where_they_have_to_be() {
        let prm = "/.well-known/oauth-protected-resource";
        for (server, expected) in [
            ("https://a.example", vec!["https://a.example{}"]),
            ("https://a.example/", vec!["https://a.example{}"]),
            ("https://a.example/mcp", vec!["https://a.example{}/mcp", "https://a.example{}"]),
            (
                "https://a.example:8443/x/y/",
                vec!["https://a.example:8443{}/x/y/", "https://a.example:8443{}"],
            ),
            ("http://[::1]:1/x?y=/z#f", vec!["http://[::1]:1{}/x?y=/z", "http://[::1]:1{}"]),
            ("https://a.example?k=v", vec!["https://a.example{}?k=v", "https://a.example{}"]),
            ("ftp://a.example/x", vec![]),
            ("a", vec![]),
        ] {
            let expected: Vec<String> = expected.iter().map(|url| url.replace("{}", prm)).collect();
            assert_eq!(protected_resource_urls(server), expected, "{server}");
        }
        let known = |kind: &str| format!("https://as.example/.well-known/{kind}");
        let (oauth, openid) = (known("oauth-authorization-server"), known("openid-configuration"));
        let root = vec![oauth.clone(), openid.clone()];
        assert_eq!(authorization_server_urls("https://as.example"), root);
        assert_eq!(authorization_server_urls("https://as.example/"), root);
        let appended = "https://as.example/tenant1/.well-known/openid-configuration".to_owned();
        let tenant = vec![format!("{oauth}/tenant1"), format!("{openid}/tenant1"), appended];
        assert_eq!(authorization_server_urls("https://as.example/tenant1"), tenant);
        assert_eq!(authorization_server_urls("https://as.example/tenant1/"), tenant);
        for none in
            ["https://as.example/?a", "https://as.example#a", "javascript:1", "https://u@as.example", ""]
        {
            assert_eq!(authorization_server_urls(none), Vec::<String>::new(), "{none}");
        }
    }

    #[test]
    fn a_server_without_metadata_is_named_canonically() {
        for (server, expected) in [
            ("HTTPS://Mcp.Example:443/", Some("https://mcp.example")),
            ("https://mcp.example/Mcp/?key=hunter2#x", Some("https://mcp.example/Mcp/")),
            ("http://127.0.0.1:8000", Some("http://127.0.0.1:8000")),
            ("file:///x", None),
        ] {
            assert_eq!(canonical(server).as_deref(), expected, "{server}");
        }
    }

    #[test]
    fn g132_a_resource_covers_itself_and_what_is_below_it() {
        for (resource, url, expected) in [
            ("https://a.example", "https://a.example/mcp", true),
            ("https://a.example/", "https://a.example/mcp", true),
            ("HTTPS://A.example:443", "https://a.example/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp?x=y", true),
            ("https://a.example/mcp", "https://a.example/mcp/x", true),
            ("https://a.example/mcp/", "https://a.example/mcp", true),
            ("https://a.example/mcp?x=y", "https://a.example/mcp?x=y", true),
            ("https://a.example/mcp?x=y", "https://a.example/mcp?x=z", false),
            ("https://a.example/mcp", "https://a.example/mcpx", false),
            ("https://a.example/mcp", "https://a.example/", false),
            ("https://a.example/MCP", "https://a.example/mcp", false),
            ("https://a.example/mcp", "https://b.example/mcp", false),
            ("https://a.example/mcp", "http://a.example/mcp", false),
            ("https://a.example:8443/mcp", "https://a.example/mcp", false),
            ("https://a.example/mcp#x", "https://a.example/mcp", false),
            ("https://a.example/mcp", "https://a.example/mcp/../x", false),
            ("https://a.example/mcp", "https://a.example/mcp/%2E%2e/x", false),
            ("https://a.example/./", "https://a.example/./x", false),
            ("a.example/mcp", "https://a.example/mcp", false),
            ("", "https://a.example/mcp", false),
        ] {
            assert_eq!(covers(resource, url), expected, "{resource} {url}");
        }
    }
}
