//! The client's identity at an authorization server: registered beforehand, by the URL of its metadata document, or registered
//! dynamically.
//!
//! Called by `login`, before the user is involved. A registration belongs to one issuer and is used with no other. The store,
//! not this module, keeps it.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/client-registration>,
//! [RFC 7591](https://www.rfc-editor.org/rfc/rfc7591)

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{self, HeaderValue};
use mcpjoin_proto::Raw;
use mcpjoin_proto::http::origin::Origin;
use serde::Serialize;

use super::discovery::Discovered;
use super::fetch::{FetchError, Fetcher, cut, shown_text};
use super::metadata::AuthorizationServer;
use super::secret::Secret;

/// The default name of a client.
const NAME: &str = "mcpjoin";
/// The longest id, secret or other text of a registration, in bytes.
const MAX_RESPONSE_BYTES: usize = 16 * 1024;

/// The identity of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientIdentity {
    /// A client that was registered beforehand.
    Registered {
        /// Its id.
        id: String,
        /// Its secret, where it has one.
        secret: Option<Secret>,
        /// The issuer that it is registered with; it is used with no other. `None`: with any issuer that the server names.
        issuer: Option<String>,
    },
    /// A client with a Client ID Metadata Document, whose URL is its id.
    Document {
        /// An https URL with a path.
        url: String,
    },
    /// A client that registers itself.
    Dynamic {
        /// The name that the user sees.
        name: String,
    },
}

impl Default for ClientIdentity {
    /// A client that registers itself as `mcpjoin`.
    fn default() -> Self {
        Self::Dynamic { name: NAME.into() }
    }
}

/// How a client gets its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// It was registered beforehand.
    PreRegistered,
    /// By the URL of its document.
    Document,
    /// It registers itself.
    Dynamic,
}

impl Way {
    /// Its name for machines: lower case letters and hyphens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreRegistered => "pre-registered",
            Self::Document => "client-id-metadata-document",
            Self::Dynamic => "dynamic",
        }
    }
}

impl Discovered {
    /// The ways that an authorization server supports. A client can always be registered beforehand.
    #[must_use]
    pub fn ways(&self) -> Vec<Way> {
        let mut ways = vec![Way::PreRegistered];
        if self.server.client_id_metadata_document_supported {
            ways.push(Way::Document);
        }
        if self.server.registration_endpoint.is_some() {
            ways.push(Way::Dynamic);
        }
        ways
    }
}

/// How the client authenticates at the token endpoint (RFC 7591, 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenAuth {
    /// It sends its id only.
    None,
    /// It sends its secret in `Authorization`.
    Basic,
    /// It sends its secret in the body.
    Post,
    /// It sends a signed assertion.
    PrivateKeyJwt,
}

impl TokenAuth {
    /// The name in metadata.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Basic => "client_secret_basic",
            Self::Post => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::None, Self::Basic, Self::Post, Self::PrivateKeyJwt]
            .into_iter()
            .find(|way| way.as_str() == text)
    }

    /// How a secret is sent there.
    pub(crate) fn of_secret(server: &AuthorizationServer) -> Self {
        match &server.token_endpoint_auth_methods_supported {
            Some(known) if known.iter().any(|way| way == Self::Basic.as_str()) => Self::Basic,
            Some(known) if known.iter().any(|way| way == Self::Post.as_str()) => Self::Post,
            // The default of RFC 8414, 2.
            _ => Self::Basic,
        }
    }
}

/// A client at one authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The issuer, byte for byte.
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<Secret>,
    /// When the secret expires, in seconds since 1970; `None`: never.
    pub(crate) secret_expires: Option<u64>,
    pub(crate) token_auth: TokenAuth,
    pub(crate) way: Way,
    /// The redirect URIs, as far as they were registered by this program.
    pub(crate) redirect_uris: Vec<String>,
}

impl Registration {
    /// A client that was registered beforehand, without a secret.
    pub(crate) const fn given(issuer: String, client_id: String) -> Self {
        Self {
            issuer,
            client_id,
            client_secret: None,
            secret_expires: None,
            token_auth: TokenAuth::None,
            way: Way::PreRegistered,
            redirect_uris: Vec::new(),
        }
    }

    /// Whether a stored registration can be used: for that issuer, byte for byte, with a valid secret, and, for a login, with that
    /// redirect URI.
    pub(crate) fn is_usable(&self, issuer: &str, redirect_uri: Option<&str>, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.issuer == issuer
            && self.secret_expires.is_none_or(|expires| expires > now)
            && redirect_uri.is_none_or(|uri| self.redirect_uris.iter().any(|known| known == uri))
    }
}

/// The client has no id. Contains no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The client was registered with another authorization server.
    #[error("the client is registered with {given}, but the server names {found}: nothing was sent to that")]
    IssuerDiffers {
        /// Its issuer.
        given: String,
        /// The issuer that the server names.
        found: String,
    },
    /// The authorization server has no dynamic registration, and the client has no id.
    #[error("{issuer} has no dynamic registration{}: register a client there, and use its id", if *.document { ", but accepts a client ID metadata document" } else { "" })]
    NoWay {
        /// The issuer.
        issuer: String,
        /// Whether it supports metadata documents.
        document: bool,
    },
    /// The URL of the client's document cannot be its id.
    #[error("the URL cannot be a client id: {0}")]
    Document(String),
    /// The registration endpoint sent no response.
    #[error("the client could not be registered: {0}")]
    Fetch(FetchError),
    /// The authorization server refuses the client, or its response is no registration.
    #[error("{issuer} did not register the client: {what}")]
    Refused {
        /// The issuer.
        issuer: String,
        /// Its reason, shortened to one line.
        what: String,
    },
}

/// The way for a client at an authorization server.
pub(crate) fn choose(discovered: &Discovered, identity: &ClientIdentity) -> Result<Way, RegistrationError> {
    let server = &discovered.server;
    let dynamic = || match server.registration_endpoint {
        Some(_) => Ok(Way::Dynamic),
        None => Err(RegistrationError::NoWay {
            issuer: shown_text(&discovered.issuer),
            document: server.client_id_metadata_document_supported,
        }),
    };
    match identity {
        ClientIdentity::Registered { issuer: Some(given), .. } if *given != discovered.issuer => {
            Err(RegistrationError::IssuerDiffers {
                given: shown_text(given),
                found: shown_text(&discovered.issuer),
            })
        }
        ClientIdentity::Registered { .. } => Ok(Way::PreRegistered),
        ClientIdentity::Document { url } => {
            check_document(url)?;
            if server.client_id_metadata_document_supported { Ok(Way::Document) } else { dynamic() }
        }
        ClientIdentity::Dynamic { .. } => dynamic(),
    }
}

/// Checks that the URL is https with a path, and unambiguous
/// (<https://datatracker.ietf.org/doc/html/draft-ietf-oauth-client-id-metadata-document-00#section-3>).
fn check_document(url: &str) -> Result<(), RegistrationError> {
    let refused = |what: &str| Err(RegistrationError::Document(what.into()));
    match Origin::of(url) {
        Err(error) => return refused(&error.to_string()),
        Ok(origin) if !origin.is_secure() => return refused("it is not https"),
        Ok(_) => {}
    }
    if url.contains('#') {
        return refused("it has a fragment");
    }
    let path = url.splitn(4, '/').nth(3).unwrap_or_default();
    match path {
        "" => refused("it has no path"),
        path if path.split(['/', '?']).any(|segment| matches!(segment, "." | "..")) => {
            refused("it has dots in its path")
        }
        _ => Ok(()),
    }
}

/// A registration request (RFC 7591, 2).
#[derive(Serialize)]
struct Asked<'a> {
    client_name: &'a str,
    redirect_uris: [&'a str; 1],
    grant_types: [&'a str; 2],
    response_types: [&'a str; 1],
    token_endpoint_auth_method: &'a str,
    application_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
}

/// Returns the client's registration at that authorization server. `stored` is used if possible; without it the client is
/// registered again, as is necessary after `invalid_client`. `redirect_uri` is that of the login; `None` for a grant without a
/// user, for which no client registers itself.
///
/// # Errors
/// When no way is supported, or registration fails.
pub(crate) async fn register(
    fetcher: &Fetcher,
    discovered: &Discovered,
    identity: &ClientIdentity,
    redirect_uri: Option<&str>,
    stored: Option<&Registration>,
    scopes: Option<&[String]>,
    now: SystemTime,
) -> Result<Registration, RegistrationError> {
    let way = choose(discovered, identity)?;
    let known = |id: &str, secret: Option<&Secret>, token_auth| Registration {
        client_secret: secret.cloned(),
        token_auth,
        way,
        redirect_uris: redirect_uri.into_iter().map(str::to_owned).collect(),
        ..Registration::given(discovered.issuer.clone(), id.to_owned())
    };
    let name = match (way, identity) {
        (Way::PreRegistered, ClientIdentity::Registered { id, secret, .. }) => {
            let with_secret = TokenAuth::of_secret(&discovered.server);
            let token_auth = secret.as_ref().map_or(TokenAuth::None, |_| with_secret);
            return Ok(known(id, secret.as_ref(), token_auth));
        }
        (Way::Document, ClientIdentity::Document { url }) => return Ok(known(url, None, TokenAuth::None)),
        (_, ClientIdentity::Dynamic { name }) => name.as_str(),
        _ => NAME,
    };
    let of_this_kind = stored.filter(|stored| stored.way == Way::Dynamic);
    if let Some(stored) = of_this_kind.filter(|it| it.is_usable(&discovered.issuer, redirect_uri, now)) {
        return Ok(stored.clone());
    }
    let (Some(endpoint), Some(redirect_uri)) = (&discovered.server.registration_endpoint, redirect_uri)
    else {
        let issuer = shown_text(&discovered.issuer);
        return Err(RegistrationError::NoWay { issuer, document: false });
    };
    registered(fetcher, discovered, endpoint, name, redirect_uri, scopes).await
}

/// Registers a client ([RFC 7591, 3](https://www.rfc-editor.org/rfc/rfc7591#section-3)).
async fn registered(
    fetcher: &Fetcher,
    discovered: &Discovered,
    endpoint: &str,
    name: &str,
    redirect_uri: &str,
    scopes: Option<&[String]>,
) -> Result<Registration, RegistrationError> {
    let token_auth = asked_token_auth(discovered);
    let asked = Asked {
        client_name: name,
        redirect_uris: [redirect_uri],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: token_auth.as_str(),
        application_type: application_type(redirect_uri),
        scope: scopes.map(|scopes| scopes.join(" ")),
    };
    let refused = |what| RegistrationError::Refused { issuer: shown_text(&discovered.issuer), what };
    let body = Raw::from_value(&asked).map_err(|error| refused(error.to_string()))?;
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    let answer =
        fetcher.post(endpoint, headers, body.into_bytes()).await.map_err(RegistrationError::Fetch)?;
    if !answer.status.is_success() {
        let said = answer.json().ok().and_then(|said| reason(&said));
        let said = said.map(|said| format!(", and says: {said}")).unwrap_or_default();
        return Err(refused(format!("{} answered {}{said}", shown_text(endpoint), answer.status)));
    }
    let answer = answer.json().map_err(&refused)?;
    read(discovered, &answer, token_auth, redirect_uri).map_err(refused)
}

/// Reads the response to a registration that asked for this authentication
/// ([RFC 7591, 3.2.1](https://www.rfc-editor.org/rfc/rfc7591#section-3.2.1)). The error describes the response.
fn read(
    discovered: &Discovered,
    answer: &Raw,
    asked: TokenAuth,
    redirect_uri: &str,
) -> Result<Registration, String> {
    let text = |member: &str| {
        let value = answer.member(member);
        let text = value.as_ref().and_then(Raw::to_string_value).filter(|text| !text.is_empty());
        match text {
            // A shortened secret would be another secret.
            Some(text) if text.len() > MAX_RESPONSE_BYTES => {
                Err(format!("its `{member}` is longer than {MAX_RESPONSE_BYTES} bytes"))
            }
            text => Ok(text.map(Cow::into_owned)),
        }
    };
    let client_id = text("client_id")?.ok_or("the response has no `client_id`")?;
    let client_secret = text("client_secret")?.map(Secret::from);
    let token_auth = match (text("token_endpoint_auth_method")?, &client_secret) {
        (_, None) => TokenAuth::None,
        (None, Some(_)) if asked == TokenAuth::None => TokenAuth::of_secret(&discovered.server),
        (None, Some(_)) => asked,
        (Some(method), Some(_)) => match TokenAuth::parse(&method) {
            Some(known) if known != TokenAuth::PrivateKeyJwt => known,
            _ => return Err(format!("it requires {}, which is not supported", cut(&method))),
        },
    };
    Ok(Registration {
        issuer: discovered.issuer.clone(),
        client_id,
        client_secret,
        secret_expires: answer.member("client_secret_expires_at").and_then(|at| seconds(&at)),
        token_auth,
        way: Way::Dynamic,
        redirect_uris: vec![redirect_uri.to_owned()],
    })
}

/// The authentication to ask for: none if possible, because a secret on a user's machine is not secret.
fn asked_token_auth(discovered: &Discovered) -> TokenAuth {
    match &discovered.server.token_endpoint_auth_methods_supported {
        None if discovered.assumed => TokenAuth::None,
        Some(known) if known.iter().any(|way| way == TokenAuth::None.as_str()) => TokenAuth::None,
        _ => TokenAuth::of_secret(&discovered.server),
    }
}

/// The application type for a redirect URI
/// (<https://openid.net/specs/openid-connect-registration-1_0.html#ClientMetadata>).
fn application_type(redirect_uri: &str) -> &'static str {
    match Origin::of(redirect_uri) {
        Ok(origin) if !origin.is_loopback() => "web",
        _ => "native",
    }
}

/// A time in seconds since 1970; 0 and invalid values mean never.
fn seconds(value: &Raw) -> Option<u64> {
    let seconds: f64 = value.as_str().parse().ok()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates, as it should")]
    (seconds >= 1.0).then_some(seconds as u64)
}

/// The reason of a refusal (RFC 7591, 3.2.2).
pub(crate) fn reason(answer: &Raw) -> Option<String> {
    let text = |member| {
        let text = answer.member(member)?.to_string_value().map(|text| cut(&text));
        text.filter(|text| !text.is_empty())
    };
    match (text("error"), text("error_description")) {
        (Some(error), Some(description)) => Some(format!("{error}: {description}")),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
