//! A stored login: the client, its tokens, and their issuer.
//!
//! Written and read by `oauth` through a store, as JSON. It belongs to one server and one issuer, and is used with no other
//! ([Authorization Server Binding](https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration#authorization-server-binding)).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcpjoin_proto::http::resource::covers;
use serde::{Deserialize, Serialize};

use super::fetch::shown_text;
use super::registration::{Registration, TokenAuth, Way};
use super::secret::Secret;
use super::store::StoreError;
use super::token::{TokenKind, Tokens};

/// The version of the JSON. Other versions are not read.
const FORMAT: u32 = 1;

/// A login, or only a registered client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredLogin {
    /// The URL of the server.
    pub(super) server: String,
    /// The resource of the token, byte for byte.
    pub(super) resource: String,
    /// The client, and its issuer.
    pub(super) registration: Registration,
    /// The endpoints that refresh and revoke tokens: as the issuer's metadata named them when the tokens were issued.
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    /// All scopes that were ever requested.
    pub(super) requested: Vec<String>,
    pub(super) tokens: Option<Tokens>,
    /// The private key that the tokens are bound to.
    pub(super) key: Option<Secret>,
}

impl StoredLogin {
    pub(super) fn issuer(&self) -> &str {
        &self.registration.issuer
    }

    /// The JSON to store.
    pub(super) fn text(&self) -> Result<Secret, StoreError> {
        let registration = &self.registration;
        let seconds = |at: SystemTime| at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let text = Text {
            format: FORMAT,
            server: self.server.clone(),
            resource: self.resource.clone(),
            issuer: registration.issuer.clone(),
            client_id: registration.client_id.clone(),
            client_secret: registration.client_secret.as_ref().map(exposed),
            client_secret_expires_at: registration.secret_expires,
            token_endpoint_auth_method: registration.token_auth.as_str().into(),
            registered: registration.way.as_str().into(),
            redirect_uris: registration.redirect_uris.clone(),
            token_endpoint: self.token_endpoint.clone(),
            revocation_endpoint: self.revocation_endpoint.clone(),
            requested: self.requested.clone(),
            key: self.key.as_ref().map(exposed),
            tokens: self.tokens.as_ref().map(|tokens| TokensText {
                access_token: exposed(&tokens.access),
                token_type: tokens.kind.as_str().into(),
                expires_at: tokens.expires.map(seconds),
                lifetime: tokens.lifetime.map(|lifetime| lifetime.as_secs()),
                refresh_token: tokens.refresh.as_ref().map(exposed),
                scopes: tokens.scopes.clone(),
            }),
        };
        let text = serde_json::to_string_pretty(&text);
        text.map(Secret::new).map_err(|_| StoreError::Other("a login has no text".into()))
    }

    /// Parses a stored text for a server.
    pub(super) fn read(server: &str, text: &Secret) -> Result<Self, StoreError> {
        let unreadable = |what: String| StoreError::Unreadable { server: shown_text(server), what };
        // The error of serde_json could repeat a value.
        let at = |error: serde_json::Error| {
            unreadable(format!("line {}, column {}", error.line(), error.column()))
        };
        // The version is checked first: the rest may belong to another version.
        let of: Of = serde_json::from_str(text.expose()).map_err(at)?;
        if of.format != FORMAT {
            return Err(unreadable("it was stored by another version".into()));
        }
        let text: Text = serde_json::from_str(text.expose()).map_err(at)?;
        if text.server != server || !covers(&text.resource, server) {
            return Err(unreadable("it belongs to another server".into()));
        }
        let other = || unreadable("it has an unknown value".into());
        let token_auth = TokenAuth::parse(&text.token_endpoint_auth_method).ok_or_else(other)?;
        let way = [Way::PreRegistered, Way::Document, Way::Dynamic]
            .into_iter()
            .find(|way| way.as_str() == text.registered)
            .ok_or_else(other)?;
        let at = |seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
        let tokens = text.tokens.map(|tokens| {
            Ok(Tokens {
                access: tokens.access_token.into(),
                kind: TokenKind::parse(&tokens.token_type).ok_or_else(other)?,
                expires: tokens.expires_at.and_then(at),
                lifetime: tokens.lifetime.map(Duration::from_secs),
                refresh: tokens.refresh_token.map(Secret::from),
                scopes: tokens.scopes,
            })
        });
        Ok(Self {
            server: text.server,
            resource: text.resource,
            registration: Registration {
                issuer: text.issuer,
                client_id: text.client_id,
                client_secret: text.client_secret.map(Secret::from),
                secret_expires: text.client_secret_expires_at,
                token_auth,
                way,
                redirect_uris: text.redirect_uris,
            },
            token_endpoint: text.token_endpoint,
            revocation_endpoint: text.revocation_endpoint,
            requested: text.requested,
            tokens: tokens.transpose()?,
            key: text.key.map(Secret::from),
        })
    }
}

/// The server in a stored text of any version, if it is one.
pub(super) fn server_of(text: &Secret) -> Option<String> {
    let of: Of = serde_json::from_str(text.expose()).ok()?;
    Some(of.server)
}

fn exposed(secret: &Secret) -> String {
    secret.expose().to_owned()
}

/// The members of every version.
#[derive(Deserialize)]
struct Of {
    format: u32,
    server: String,
}

/// The JSON. The only place with secrets in plain text, so without `Debug`.
#[derive(Serialize, Deserialize)]
struct Text {
    format: u32,
    server: String,
    resource: String,
    issuer: String,
    client_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: String,
    registered: String,
    redirect_uris: Vec<String>,
    token_endpoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revocation_endpoint: Option<String>,
    requested: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<TokensText>,
}

#[derive(Serialize, Deserialize)]
struct TokensText {
    access_token: String,
    token_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lifetime: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scopes: Option<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> StoredLogin {
        StoredLogin {
            server: "https://s.example/mcp".into(),
            resource: "https://S.example:443".into(),
            registration: Registration {
                issuer: "https://as.example/".into(),
                client_id: "c".into(),
                client_secret: Some("hunter1".into()),
                secret_expires: Some(7),
                token_auth: TokenAuth::Post,
                way: Way::Dynamic,
                redirect_uris: vec!["http://127.0.0.1:1/callback".into()],
            },
            token_endpoint: "https://as.example/token".into(),
            revocation_endpoint: None,
            requested: vec!["a".into()],
            tokens: Some(Tokens {
                access: "hunter2".into(),
                kind: TokenKind::Bearer,
                expires: Some(UNIX_EPOCH + Duration::from_secs(5)),
                lifetime: Some(Duration::from_secs(3)),
                refresh: Some("hunter3".into()),
                scopes: None,
            }),
            key: Some("hunter4".into()),
        }
    }

    #[test]
    fn what_is_kept_is_read_again_and_nothing_secret_is_shown() {
        let kept = kept();
        let text = kept.text().unwrap();
        assert_eq!(StoredLogin::read("https://s.example/mcp", &text).unwrap(), kept);
        assert_eq!(server_of(&text).as_deref(), Some("https://s.example/mcp"));
        assert!(!format!("{kept:?} {text:?}").contains("hunter"));
    }

    #[test]
    fn what_is_not_a_login_of_that_server_is_not_used() {
        let text = kept().text().unwrap();
        let text = text.expose();
        for (server, text) in [
            ("https://other.example/mcp", text.to_owned()),
            ("https://s.example/mcp", text.replace("https://S.example:443", "https://evil.example")),
            ("https://s.example/mcp", text.replace("\"format\": 1", "\"format\": 2")),
            ("https://s.example/mcp", text.replace("client_secret_post", "hunter5")),
            ("https://s.example/mcp", text.replace("\"hunter2\"", "[\"hunter2\"]")),
            ("https://s.example/mcp", text.replace("Bearer", "hunter6")),
            ("https://s.example/mcp", text[..text.len() / 2].to_owned()),
            ("https://s.example/mcp", String::new()),
        ] {
            let error = StoredLogin::read(server, &Secret::new(text)).unwrap_err();
            assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
            assert!(!format!("{error} {error:?}").contains("hunter"), "{error}");
        }
        // Times beyond the clock are treated as absent and cause no panic.
        let far = text.replace("\"expires_at\": 5", "\"expires_at\": 18446744073709551615");
        assert!(
            StoredLogin::read("https://s.example/mcp", &Secret::new(far))
                .unwrap()
                .tokens
                .unwrap()
                .expires
                .is_none()
        );
    }
}
