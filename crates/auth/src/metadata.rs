//! What servers say of themselves: protected resource metadata and authorization server metadata.
//!
//! Called by discovery. Reads documents and asks nobody; whether a document may be used is for discovery
//! to judge. Every text is kept as it stands in the document: issuers are compared byte for byte, and a `resource` is sent
//! as it was written (a reader of URLs would add a slash to it).
//!
//! [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728), [RFC 8414](https://www.rfc-editor.org/rfc/rfc8414),
//! [OpenID Connect Discovery 1.0](https://openid.net/specs/openid-connect-discovery-1_0.html),
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery>

use bytes::Bytes;
use mcpjoin_proto::Raw;

/// So many entries may a list have. The longest that are in use (scopes of large providers) have some hundreds.
const MOST_ENTRIES: usize = 4096;

/// A document that cannot be used. Nothing of the document is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// It is no JSON object, or a member stands in it twice.
    #[error("{0}")]
    Json(String),
    /// A member that must be there is not.
    #[error("it has no `{member}`")]
    Missing {
        /// Its name.
        member: &'static str,
    },
    /// A member is something else than it has to be.
    #[error("its `{member}` is not {expected}")]
    Type {
        /// Its name.
        member: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
}

/// What a server says of itself ([RFC 9728, 2](https://www.rfc-editor.org/rfc/rfc9728#section-2)).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtectedResource {
    /// Its identifier, byte for byte: what a token is asked for.
    pub resource: String,
    /// The issuers of the tokens that it takes; empty when it does not say.
    pub authorization_servers: Vec<String>,
    /// The scopes that its basic functions need.
    pub scopes_supported: Option<Vec<String>>,
    /// How a token may be sent to it: `header`, `body`, `query`.
    pub bearer_methods_supported: Option<Vec<String>>,
    /// Its name for people.
    pub resource_name: Option<String>,
    /// Whether it takes tokens with a proof of possession alone (RFC 9449).
    pub dpop_bound_access_tokens_required: bool,
    /// The algorithms that it takes for such proofs.
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
}

impl ProtectedResource {
    /// Reads a document.
    ///
    /// # Errors
    /// When it is no JSON object, has a member twice, has no `resource`, or a member that is read here has another type.
    pub fn parse(body: impl Into<Bytes>) -> Result<Self, MetadataError> {
        let document = Document::parse(body.into())?;
        Ok(Self {
            resource: document.text("resource")?.ok_or(MetadataError::Missing { member: "resource" })?,
            authorization_servers: document.list("authorization_servers")?.unwrap_or_default(),
            scopes_supported: document.list("scopes_supported")?,
            bearer_methods_supported: document.list("bearer_methods_supported")?,
            resource_name: document.text("resource_name")?,
            dpop_bound_access_tokens_required: document.flag("dpop_bound_access_tokens_required")?,
            dpop_signing_alg_values_supported: document.list("dpop_signing_alg_values_supported")?,
        })
    }
}

/// What an authorization server says of itself ([RFC 8414, 2](https://www.rfc-editor.org/rfc/rfc8414#section-2)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorizationServer {
    /// Its identifier, byte for byte.
    pub issuer: String,
    /// Where the user is sent.
    pub authorization_endpoint: Option<String>,
    /// Where tokens come from.
    pub token_endpoint: Option<String>,
    /// Where a client registers itself (RFC 7591).
    pub registration_endpoint: Option<String>,
    /// Where a token is given back (RFC 7009).
    pub revocation_endpoint: Option<String>,
    /// Where its keys are.
    pub jwks_uri: Option<String>,
    /// The scopes that it knows.
    pub scopes_supported: Option<Vec<String>>,
    /// The kinds of answer of its authorization endpoint.
    pub response_types_supported: Option<Vec<String>>,
    /// The grants that it takes; see [`supports_grant`](Self::supports_grant).
    pub grant_types_supported: Option<Vec<String>>,
    /// How a client shows at the token endpoint who it is; `client_secret_basic` when it does not say.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// The algorithms of the assertions that it takes there.
    pub token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    /// How a client shows who it is at the revocation endpoint.
    pub revocation_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// The methods of PKCE; see [`supports_s256`](Self::supports_s256).
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// Whether it says `iss` in its answers (RFC 9207).
    pub authorization_response_iss_parameter_supported: bool,
    /// Whether the URL of a document may be the id of a client.
    pub client_id_metadata_document_supported: bool,
    /// The algorithms that it takes for proofs of possession (RFC 9449).
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// Where an authorization is asked for before the user is sent away (RFC 9126).
    pub pushed_authorization_request_endpoint: Option<String>,
    /// Whether it takes pushed authorization requests alone (RFC 9126).
    pub require_pushed_authorization_requests: bool,
}

impl AuthorizationServer {
    /// Reads a document.
    ///
    /// # Errors
    /// When it is no JSON object, has a member twice, has no `issuer`, or a member that is read here has another type.
    pub fn parse(body: impl Into<Bytes>) -> Result<Self, MetadataError> {
        let document = Document::parse(body.into())?;
        Ok(Self {
            issuer: document.text("issuer")?.ok_or(MetadataError::Missing { member: "issuer" })?,
            authorization_endpoint: document.text("authorization_endpoint")?,
            token_endpoint: document.text("token_endpoint")?,
            registration_endpoint: document.text("registration_endpoint")?,
            revocation_endpoint: document.text("revocation_endpoint")?,
            jwks_uri: document.text("jwks_uri")?,
            scopes_supported: document.list("scopes_supported")?,
            response_types_supported: document.list("response_types_supported")?,
            grant_types_supported: document.list("grant_types_supported")?,
            token_endpoint_auth_methods_supported: document.list("token_endpoint_auth_methods_supported")?,
            token_endpoint_auth_signing_alg_values_supported: document
                .list("token_endpoint_auth_signing_alg_values_supported")?,
            revocation_endpoint_auth_methods_supported: document
                .list("revocation_endpoint_auth_methods_supported")?,
            code_challenge_methods_supported: document.list("code_challenge_methods_supported")?,
            authorization_response_iss_parameter_supported: document
                .flag("authorization_response_iss_parameter_supported")?,
            client_id_metadata_document_supported: document.flag("client_id_metadata_document_supported")?,
            dpop_signing_alg_values_supported: document.list("dpop_signing_alg_values_supported")?,
            pushed_authorization_request_endpoint: document.text("pushed_authorization_request_endpoint")?,
            require_pushed_authorization_requests: document.flag("require_pushed_authorization_requests")?,
        })
    }

    /// What servers of 2025-03-26 without metadata have: endpoints at the root of their origin
    /// (<https://modelcontextprotocol.io/specification/2025-03-26/basic/authorization>).
    pub(crate) fn at_origin(origin: &str) -> Self {
        Self {
            issuer: origin.to_owned(),
            authorization_endpoint: Some(format!("{origin}/authorize")),
            token_endpoint: Some(format!("{origin}/token")),
            registration_endpoint: Some(format!("{origin}/register")),
            ..Self::default()
        }
    }

    /// Whether PKCE can be used with SHA-256, the only way that is used here.
    #[must_use]
    pub fn supports_s256(&self) -> bool {
        self.code_challenge_methods_supported.iter().flatten().any(|method| method == "S256")
    }

    /// Whether it takes that grant, as far as it says so: a server that says nothing takes `authorization_code` and
    /// `implicit` (RFC 8414, 2).
    #[must_use]
    pub fn supports_grant(&self, grant: &str) -> bool {
        match &self.grant_types_supported {
            Some(grants) => grants.iter().any(|known| known == grant),
            None => matches!(grant, "authorization_code" | "implicit"),
        }
    }
}

/// The members of a document.
struct Document(Raw);

impl Document {
    fn parse(body: Bytes) -> Result<Self, MetadataError> {
        object(body).map(Self).map_err(MetadataError::Json)
    }

    /// A member; `null` is none.
    fn member(&self, name: &str) -> Option<Raw> {
        self.0.member(name).filter(|value| value.as_str() != "null")
    }

    /// A text; an empty one is none.
    fn text(&self, member: &'static str) -> Result<Option<String>, MetadataError> {
        let Some(value) = self.member(member) else { return Ok(None) };
        let text = value.to_string_value().ok_or(MetadataError::Type { member, expected: "a text" })?;
        Ok(Some(text.into_owned()).filter(|text| !text.is_empty()))
    }

    fn list(&self, member: &'static str) -> Result<Option<Vec<String>>, MetadataError> {
        let Some(value) = self.member(member) else { return Ok(None) };
        let list: Vec<String> =
            value.decode().map_err(|_| MetadataError::Type { member, expected: "a list of texts" })?;
        if list.len() > MOST_ENTRIES {
            return Err(MetadataError::Type { member, expected: "a list of 4096 entries at most" });
        }
        Ok(Some(list))
    }

    fn flag(&self, member: &'static str) -> Result<bool, MetadataError> {
        match self.member(member) {
            None => Ok(false),
            Some(value) => {
                value.decode().map_err(|_| MetadataError::Type { member, expected: "true or false" })
            }
        }
    }
}

/// The JSON object that a body is, in which no member stands twice. The error is for a person and shows nothing of the
/// body: there may be a token in it.
pub(crate) fn object(body: Bytes) -> Result<Raw, String> {
    let beginning = body.trim_ascii_start().first().copied();
    match Raw::parse(body) {
        Ok(raw) if raw.as_str().starts_with('{') => Ok(raw),
        Ok(_) => Err("the body is JSON, but no object".into()),
        Err(_) if beginning.is_none() => Err("the body is empty".into()),
        Err(_) if beginning == Some(b'<') => Err("the body is a page (it begins with `<`), no JSON".into()),
        Err(error) => Err(format!("the body is no JSON that can be used: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_read_as_it_stands() {
        let text = r#"{"resource":"https://Mcp.Example:443/x/","authorization_servers":["https://as.example/"],
            "scopes_supported":null,"resource_name":"","dpop_bound_access_tokens_required":true,"more":[{"a":1,"a":2}]}"#;
        let read = ProtectedResource::parse(text).unwrap();
        assert_eq!(read.resource, "https://Mcp.Example:443/x/");
        assert_eq!(read.authorization_servers, ["https://as.example/"]);
        assert_eq!((read.scopes_supported, read.resource_name), (None, None));
        assert!(read.dpop_bound_access_tokens_required);

        let text = r#"{"issuer":"https://as.example","code_challenge_methods_supported":["plain","S256"],
            "token_endpoint":"https://as.example/t","grant_types_supported":["client_credentials"]}"#;
        let read = AuthorizationServer::parse(text).unwrap();
        assert!(read.supports_s256() && !read.client_id_metadata_document_supported);
        assert!(read.supports_grant("client_credentials") && !read.supports_grant("authorization_code"));
        let bare = AuthorizationServer::parse(r#"{"issuer":"x"}"#).unwrap();
        assert!(bare.supports_grant("authorization_code") && !bare.supports_grant("client_credentials"));
        assert!(!bare.supports_s256());
    }

    #[test]
    fn what_is_no_document_is_refused_and_not_shown() {
        for (text, expected) in [
            ("", "the body is empty"),
            (" \n", "the body is empty"),
            ("[1]", "the body is JSON, but no object"),
            ("<html>hunter2", "the body is a page (it begins with `<`), no JSON"),
            ("{}", "it has no `resource`"),
            (r#"{"resource":""}"#, "it has no `resource`"),
            (r#"{"resource":null}"#, "it has no `resource`"),
            (r#"{"resource":["hunter2"]}"#, "its `resource` is not a text"),
            (
                r#"{"resource":"x","authorization_servers":"hunter2"}"#,
                "its `authorization_servers` is not a list of texts",
            ),
            (r#"{"resource":"x","scopes_supported":[1]}"#, "its `scopes_supported` is not a list of texts"),
        ] {
            assert_eq!(ProtectedResource::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
        for text in [r#"{"resource":"a","resource":"b"}"#, r#"{"resource":"hunter2}"#, "hunter2"] {
            let error = ProtectedResource::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("the body is no JSON that can be used: "), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let error = AuthorizationServer::parse(r#"{"token_endpoint":"https://as.example/t"}"#);
        assert_eq!(error, Err(MetadataError::Missing { member: "issuer" }));
        let error =
            AuthorizationServer::parse(r#"{"issuer":"x","client_id_metadata_document_supported":"yes"}"#);
        let member = "client_id_metadata_document_supported";
        assert_eq!(error, Err(MetadataError::Type { member, expected: "true or false" }));
    }

    #[test]
    fn g143_a_list_of_metadata_has_4096_entries_at_most() {
        let read = |entries: usize| {
            let more = r#""x","#.repeat(entries - 1);
            let read =
                AuthorizationServer::parse(format!(r#"{{"issuer":"x","scopes_supported":[{more}"y"]}}"#));
            read.map(|server| server.scopes_supported.unwrap().len())
        };
        assert_eq!(read(4096), Ok(4096));
        let error = read(4097).unwrap_err().to_string();
        assert_eq!(error, "its `scopes_supported` is not a list of 4096 entries at most");
    }
}
