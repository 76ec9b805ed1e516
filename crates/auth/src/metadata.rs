//! Protected resource metadata and authorization server metadata.
//!
//! Called by discovery. It parses documents and sends nothing; discovery decides whether a document may be used. Every text is
//! kept as it is in the document: issuers are compared byte for byte, and a `resource` is sent unchanged (a URL parser would
//! add a slash to it).
//!
//! [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728), [RFC 8414](https://www.rfc-editor.org/rfc/rfc8414),
//! [OpenID Connect Discovery 1.0](https://openid.net/specs/openid-connect-discovery-1_0.html),
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery>

use bytes::Bytes;
use mcpjoin_proto::Raw;

/// The largest number of entries in a list. The longest lists in use (scopes of large providers) have a few hundred.
const MAX_ENTRIES: usize = 4096;

/// A document cannot be used. Contains nothing of the document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// It is no JSON object, or a member is repeated.
    #[error("{0}")]
    Json(String),
    /// A required member is missing.
    #[error("it has no `{member}`")]
    Missing {
        /// Its name.
        member: &'static str,
    },
    /// A member has the wrong type.
    #[error("its `{member}` is not {expected}")]
    Type {
        /// Its name.
        member: &'static str,
        /// The right type.
        expected: &'static str,
    },
}

/// The metadata of a server ([RFC 9728, 2](https://www.rfc-editor.org/rfc/rfc9728#section-2)).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProtectedResource {
    /// Its identifier, byte for byte: the resource for which tokens are requested.
    pub resource: String,
    /// The issuers whose tokens it accepts; empty when it names none.
    pub authorization_servers: Vec<String>,
    /// The scopes that its basic functions need.
    pub scopes_supported: Option<Vec<String>>,
    /// How a token may be sent: `header`, `body`, `query`.
    pub bearer_methods_supported: Option<Vec<String>>,
    /// Its name for people.
    pub resource_name: Option<String>,
    /// Whether it accepts only tokens with a proof of possession (RFC 9449).
    pub dpop_bound_access_tokens_required: bool,
    /// The algorithms that it accepts for such proofs.
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
}

impl ProtectedResource {
    /// Parses a document.
    ///
    /// # Errors
    /// When it is not a JSON object, repeats a member, has no `resource`, or a member has the wrong type.
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

/// The metadata of an authorization server ([RFC 8414, 2](https://www.rfc-editor.org/rfc/rfc8414#section-2)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthorizationServer {
    /// Its identifier, byte for byte.
    pub issuer: String,
    /// The page for the user.
    pub authorization_endpoint: Option<String>,
    /// The token endpoint.
    pub token_endpoint: Option<String>,
    /// The endpoint for dynamic registration (RFC 7591).
    pub registration_endpoint: Option<String>,
    /// The endpoint for revoking tokens (RFC 7009).
    pub revocation_endpoint: Option<String>,
    /// The URL of its keys.
    pub jwks_uri: Option<String>,
    /// The scopes that it supports.
    pub scopes_supported: Option<Vec<String>>,
    /// The response types of its authorization endpoint.
    pub response_types_supported: Option<Vec<String>>,
    /// The grants that it accepts; `authorization_code` and `implicit` when it names none (RFC 8414, 2).
    pub grant_types_supported: Option<Vec<String>>,
    /// How a client authenticates at the token endpoint; `client_secret_basic` when it names none.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// The algorithms that it accepts for client assertions there.
    pub token_endpoint_auth_signing_alg_values_supported: Option<Vec<String>>,
    /// How a client authenticates at the revocation endpoint.
    pub revocation_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// The methods of PKCE; see [`supports_s256`](Self::supports_s256).
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// Whether its authorization responses contain `iss` (RFC 9207).
    pub authorization_response_iss_parameter_supported: bool,
    /// Whether a client id may be the URL of a metadata document.
    pub client_id_metadata_document_supported: bool,
    /// The algorithms that it accepts for proofs of possession (RFC 9449).
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// The endpoint for pushed authorization requests (RFC 9126).
    pub pushed_authorization_request_endpoint: Option<String>,
    /// Whether it accepts only pushed authorization requests (RFC 9126).
    pub require_pushed_authorization_requests: bool,
}

impl AuthorizationServer {
    /// Parses a document.
    ///
    /// # Errors
    /// When it is not a JSON object, repeats a member, has no `issuer`, or a member has the wrong type.
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

    /// The default endpoints of 2025-03-26 for servers without metadata: at the root of their origin
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

    /// Whether PKCE can be used with S256, the only method that is used here.
    #[must_use]
    pub fn supports_s256(&self) -> bool {
        self.code_challenge_methods_supported.iter().flatten().any(|method| method == "S256")
    }
}

/// The members of a document.
struct Document(Raw);

impl Document {
    fn parse(body: Bytes) -> Result<Self, MetadataError> {
        object(body).map(Self).map_err(MetadataError::Json)
    }

    /// A member; `null` counts as absent.
    fn member(&self, name: &str) -> Option<Raw> {
        self.0.member(name).filter(|value| value.as_str() != "null")
    }

    /// A text; an empty one counts as absent.
    fn text(&self, member: &'static str) -> Result<Option<String>, MetadataError> {
        let Some(value) = self.member(member) else { return Ok(None) };
        let text = value.to_string_value().ok_or(MetadataError::Type { member, expected: "a string" })?;
        Ok(Some(text.into_owned()).filter(|text| !text.is_empty()))
    }

    fn list(&self, member: &'static str) -> Result<Option<Vec<String>>, MetadataError> {
        let Some(value) = self.member(member) else { return Ok(None) };
        let list: Vec<String> =
            value.decode().map_err(|_| MetadataError::Type { member, expected: "a list of strings" })?;
        if list.len() > MAX_ENTRIES {
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

/// Parses a body as a JSON object without repeated members. The error is for people and shows nothing of the body, which may
/// contain a token.
pub(crate) fn object(body: Bytes) -> Result<Raw, String> {
    let beginning = body.trim_ascii_start().first().copied();
    match Raw::parse(body) {
        Ok(raw) if raw.as_str().starts_with('{') => Ok(raw),
        Ok(_) => Err("the body is JSON, but not an object".into()),
        Err(_) if beginning.is_none() => Err("the body is empty".into()),
        Err(_) if beginning == Some(b'<') => {
            Err("the body is HTML or XML (it begins with `<`), not JSON".into())
        }
        Err(error) => Err(format!("the body is not valid JSON: {error}")),
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
        assert_eq!(read.grant_types_supported.unwrap(), ["client_credentials"]);
        let bare = AuthorizationServer::parse(r#"{"issuer":"x"}"#).unwrap();
        assert_eq!(bare.grant_types_supported, None);
        assert!(!bare.supports_s256());
    }

    #[test]
    fn what_is_no_document_is_refused_and_not_shown() {
        for (text, expected) in [
            ("", "the body is empty"),
            (" \n", "the body is empty"),
            ("[1]", "the body is JSON, but not an object"),
            ("<html>hunter2", "the body is HTML or XML (it begins with `<`), not JSON"),
            ("{}", "it has no `resource`"),
            (r#"{"resource":""}"#, "it has no `resource`"),
            (r#"{"resource":null}"#, "it has no `resource`"),
            (r#"{"resource":["hunter2"]}"#, "its `resource` is not a string"),
            (
                r#"{"resource":"x","authorization_servers":"hunter2"}"#,
                "its `authorization_servers` is not a list of strings",
            ),
            (r#"{"resource":"x","scopes_supported":[1]}"#, "its `scopes_supported` is not a list of strings"),
        ] {
            assert_eq!(ProtectedResource::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
        for text in [r#"{"resource":"a","resource":"b"}"#, r#"{"resource":"hunter2}"#, "hunter2"] {
            let error = ProtectedResource::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("the body is not valid JSON: "), "{error}");
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
