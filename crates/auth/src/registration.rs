//! Who the client is to an authorization server: registered beforehand, by the URL of its own document, or by registering
//! itself.
//!
//! Called by `login`, before the user is asked. What comes of it belongs to one issuer and is used with no other. Nothing
//! here keeps it: the store does.
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

/// The name of a client that was not given another.
const NAME: &str = "mcpjoin";
/// So long may an id, a secret or another text of a registration be, in bytes.
const MAX_RESPONSE_BYTES: usize = 16 * 1024;

/// Who the client is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientIdentity {
    /// Somebody has registered it.
    Registered {
        /// Its id.
        id: String,
        /// Its secret, where it has one.
        secret: Option<Secret>,
        /// The issuer that it is registered with: with another one it is not used. `None`: with whichever the server names.
        issuer: Option<String>,
    },
    /// It has a document of its own (a Client ID Metadata Document), and the URL of that is its id.
    Document {
        /// An https URL with a path.
        url: String,
    },
    /// It registers itself.
    Dynamic {
        /// The name that the user is shown.
        name: String,
    },
}

impl Default for ClientIdentity {
    /// It registers itself, as `mcpjoin`.
    fn default() -> Self {
        Self::Dynamic { name: NAME.into() }
    }
}

/// How a client comes by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// Somebody has registered it.
    PreRegistered,
    /// By the URL of its document.
    Document,
    /// It registers itself.
    Dynamic,
}

impl Way {
    /// Its name, of lower case letters and hyphens, for machines.
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
    /// The ways that are open: somebody can always register a client by hand.
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

/// How the client shows at the token endpoint who it is (RFC 7591, 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenAuth {
    /// It says its id.
    None,
    /// Its secret, in `Authorization`.
    Basic,
    /// Its secret, in the body.
    Post,
    /// An assertion that it signs.
    PrivateKeyJwt,
}

impl TokenAuth {
    /// As metadata names it.
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

    /// How a secret is shown there.
    fn of_secret(server: &AuthorizationServer) -> Self {
        match &server.token_endpoint_auth_methods_supported {
            Some(known) if known.iter().any(|way| way == Self::Basic.as_str()) => Self::Basic,
            Some(known) if known.iter().any(|way| way == Self::Post.as_str()) => Self::Post,
            // RFC 8414, 2: what counts where nothing is said.
            _ => Self::Basic,
        }
    }
}

/// A client, as one authorization server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// With whom, byte for byte.
    pub(crate) issuer: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<Secret>,
    /// When the secret ends, in seconds since 1970; `None`: never.
    pub(crate) secret_expires: Option<u64>,
    pub(crate) token_auth: TokenAuth,
    pub(crate) way: Way,
    /// Where the user may come back to, as far as that was registered here.
    pub(crate) redirect_uris: Vec<String>,
}

impl Registration {
    /// Whether a kept one can be used once more: with that issuer, byte for byte, with its secret not over, and, for a login,
    /// with that redirect URI.
    pub(crate) fn is_usable(&self, issuer: &str, redirect_uri: Option<&str>, now: SystemTime) -> bool {
        let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.issuer == issuer
            && self.secret_expires.is_none_or(|expires| expires > now)
            && redirect_uri.is_none_or(|uri| self.redirect_uris.iter().any(|known| known == uri))
    }
}

/// The client has no id. No secret is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The client was registered with another authorization server.
    #[error("the client is registered with {given}, but the server names {found}: nothing was sent to it")]
    IssuerDiffers {
        /// With whom it is registered.
        given: String,
        /// Whom the server names.
        found: String,
    },
    /// The authorization server registers nobody, and the client has no id.
    #[error("{issuer} registers no client that comes by itself{}: register one there, and give its id", if *.document { ", but takes the URL of a client's document as its id" } else { "" })]
    NoWay {
        /// Who registers nobody.
        issuer: String,
        /// Whether a client with a document of its own would be let in.
        document: bool,
    },
    /// The URL of the client's document cannot be its id.
    #[error("the URL of the client's document cannot be its id: {0}")]
    Document(String),
    /// There is no answer.
    #[error("the client could not be registered: {0}")]
    Fetch(FetchError),
    /// The authorization server refuses the client, or answers with what is no registration.
    #[error("{issuer} did not register the client: {what}")]
    Refused {
        /// Who refuses.
        issuer: String,
        /// Why, in its words, cut and on one line.
        what: String,
    },
}

/// The way that a client takes there.
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

/// An https URL with a path, and nothing that could be read in two ways
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

/// What a client asks to be registered as (RFC 7591, 2).
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

/// The client's id with that authorization server. `stored` is taken where it can be used; without it the client is registered
/// anew, as it has to be after `invalid_client`. `redirect_uri` is where the user will come back to; `None` for a grant
/// without a user, for which no client registers itself.
///
/// # Errors
/// When there is no way, or the one that there is fails.
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
        issuer: discovered.issuer.clone(),
        client_id: id.to_owned(),
        client_secret: secret.cloned(),
        secret_expires: None,
        token_auth,
        way,
        redirect_uris: redirect_uri.into_iter().map(str::to_owned).collect(),
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

/// What became of a client that was to show in that way who it is
/// ([RFC 7591, 3.2.1](https://www.rfc-editor.org/rfc/rfc7591#section-3.2.1)). The error says what is wrong with the answer.
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
            // Without a secret of that length the client would be another one than was registered.
            Some(text) if text.len() > MAX_RESPONSE_BYTES => {
                Err(format!("its `{member}` is longer than {MAX_RESPONSE_BYTES} bytes"))
            }
            text => Ok(text.map(Cow::into_owned)),
        }
    };
    let client_id = text("client_id")?.ok_or("its answer has no `client_id`")?;
    let client_secret = text("client_secret")?.map(Secret::from);
    let token_auth = match (text("token_endpoint_auth_method")?, &client_secret) {
        (_, None) => TokenAuth::None,
        (None, Some(_)) if asked == TokenAuth::None => TokenAuth::of_secret(&discovered.server),
        (None, Some(_)) => asked,
        (Some(method), Some(_)) => match TokenAuth::parse(&method) {
            Some(known) if known != TokenAuth::PrivateKeyJwt => known,
            _ => return Err(format!("it wants the client to use {}, which it cannot", cut(&method))),
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

/// How a client asks to show who it is: without a secret where it may, because one that is kept on a user's machine is none.
fn asked_token_auth(discovered: &Discovered) -> TokenAuth {
    match &discovered.server.token_endpoint_auth_methods_supported {
        None if discovered.assumed => TokenAuth::None,
        Some(known) if known.iter().any(|way| way == TokenAuth::None.as_str()) => TokenAuth::None,
        _ => TokenAuth::of_secret(&discovered.server),
    }
}

/// What kind of client comes back to that URI
/// (<https://openid.net/specs/openid-connect-registration-1_0.html#ClientMetadata>).
fn application_type(redirect_uri: &str) -> &'static str {
    match Origin::of(redirect_uri) {
        Ok(origin) if !origin.is_loopback() => "web",
        _ => "native",
    }
}

/// A moment in seconds since 1970; 0 and what is no moment mean never.
fn seconds(value: &Raw) -> Option<u64> {
    let seconds: f64 = value.as_str().parse().ok()?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates, as it should")]
    (seconds >= 1.0).then_some(seconds as u64)
}

/// Why the server refuses (RFC 7591, 3.2.2).
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
