//! The client's part in the authorization scenarios: its credentials, and the expected result.
//!
//! This file performs no part of an authorization flow: the library gets the client's identity and a callback for the
//! browser, and does the rest itself. The user is [`Redirected`], which agrees to everything at once.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::Raw;
use mcpjoin::{Client, Link};
use mcpjoin_auth::{
    Assertion, Authorizing, ClientIdentity, Grant, IdentityProvider, OAuth, PrivateKey, Secret, UserAgent,
    UserAgentError, Visit,
};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Fault;
use crate::scenario::{Told, call, expect, list_and_find};

/// The URL of our metadata document; the suite identifies it by this URL, and it is never fetched.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
/// A redirect URI without a listener: the parameters are read from the redirect response.
const REDIRECT_URI: &str = "http://127.0.0.1:33418/callback";
/// The largest response of an authorization endpoint, in bytes.
const LONGEST: u64 = 64 * 1024;

/// The kind of client, and the expected result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authorization {
    /// Registers dynamically, asks the user, and gets access.
    Dynamic,
    /// The same, with tokens that are bound to a key.
    BoundTokens,
    /// Is identified by its metadata document.
    Document,
    /// Was registered in advance.
    Registered,
    /// Has its own credentials: a secret or a key.
    ClientCredentials,
    /// Has an assertion of its platform.
    Workload,
    /// Has an identity provider that knows the user.
    Enterprise,
    /// Registers dynamically and asks the user, but must stop with an error of the library that contains these words.
    Refused(&'static str),
}

/// The suite's description of a client.
#[derive(Deserialize)]
struct Known {
    client_id: String,
    client_secret: Option<String>,
    private_key_pem: Option<String>,
    signing_algorithm: Option<String>,
    valid_jwt: Option<String>,
    idp_client_id: Option<String>,
    idp_id_token: Option<String>,
    idp_token_endpoint: Option<String>,
}

/// A part of the context that the scenario requires.
fn known(part: Option<String>, name: &str) -> Result<String, Fault> {
    part.ok_or_else(|| format!("the suite does not say {name}").into())
}

impl Authorization {
    /// Parses the suite's name of the scenario.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name.strip_prefix("auth/")? {
            "metadata-default"
            | "metadata-var1"
            | "metadata-var2"
            | "metadata-var3"
            | "scope-from-www-authenticate"
            | "scope-from-scopes-supported"
            | "scope-omitted-when-undefined"
            | "scope-step-up"
            | "token-endpoint-auth-basic"
            | "token-endpoint-auth-post"
            | "token-endpoint-auth-none"
            | "offline-access-scope"
            | "offline-access-not-supported"
            | "authorization-server-migration"
            | "iss-supported"
            | "iss-not-advertised"
            | "2025-03-26-oauth-metadata-backcompat"
            | "2025-03-26-oauth-endpoint-fallback" => Self::Dynamic,
            "dpop" | "dpop-nonce" => Self::BoundTokens,
            "basic-cimd" => Self::Document,
            "pre-registration" => Self::Registered,
            "client-credentials-jwt" | "client-credentials-basic" => Self::ClientCredentials,
            "wif-jwt-bearer" => Self::Workload,
            "enterprise-managed-authorization" => Self::Enterprise,
            "resource-mismatch" => Self::Refused("`resource` is https://evil.example.com/mcp"),
            "metadata-issuer-mismatch" => Self::Refused("`issuer` is https://attacker.example.com"),
            "iss-supported-missing" => Self::Refused("it has no iss"),
            "iss-wrong-issuer" | "iss-unexpected" | "iss-normalized" => Self::Refused("its iss is not"),
            "scope-retry-limit" => Self::Refused("mcp:admin"),
            _ => return None,
        })
    }

    /// Connects, lists the tools and calls the only one; or expects the error, where the client must not get access.
    pub(crate) async fn run(self, told: &Told) -> Result<(), Fault> {
        let grant = self.grant(told)?;
        let mut builder = Client::builder("mcpjoin-conformance-client", env!("CARGO_PKG_VERSION"));
        if let Some(name) = grant.extension() {
            builder = builder.extension(name, Raw::empty_object());
        }
        let oauth = self.oauth(told, grant)?;
        let outcome = use_tool(told, builder, &oauth).await;
        let Self::Refused(why) = self else { return outcome };
        match outcome.map_err(|fault| crate::with_sources(&*fault)) {
            Ok(()) => Err("let in, although the client must not go on".into()),
            // Only this error counts.
            Err(fault) if fault.contains(why) => Ok(()),
            Err(fault) => Err(format!("refused, but not because {why:?}: {fault}").into()),
        }
    }

    fn oauth(self, told: &Told, grant: Grant) -> Result<OAuth, Fault> {
        let builder = OAuth::builder(&told.url).grant(grant);
        let builder = match self {
            Self::ClientCredentials | Self::Workload | Self::Enterprise => builder,
            Self::BoundTokens => builder.user_agent(Redirected).dpop(),
            _ => builder.user_agent(Redirected),
        };
        let builder = match self {
            Self::Document => builder.client(ClientIdentity::Document { url: DOCUMENT.into() }),
            Self::Registered | Self::ClientCredentials | Self::Workload | Self::Enterprise => {
                let known = self.known(told)?;
                let secret = known.client_secret.map(Secret::new);
                let client = ClientIdentity::Registered { id: known.client_id, secret, issuer: None };
                match known.private_key_pem {
                    Some(pem) => {
                        let key = PrivateKey::from_pem(&pem)?;
                        if known.signing_algorithm.is_some_and(|wanted| wanted != key.algorithm()) {
                            return Err("the key is not for the algorithm that the suite wants".into());
                        }
                        builder.client(client).private_key(key)
                    }
                    None => builder.client(client),
                }
            }
            _ => builder,
        };
        Ok(builder.build()?)
    }

    fn grant(self, told: &Told) -> Result<Grant, Fault> {
        Ok(match self {
            Self::ClientCredentials => Grant::ClientCredentials,
            Self::Workload => Grant::JwtBearer(Assertion::new(known(
                self.known(told)?.valid_jwt,
                "which assertion counts",
            )?)),
            Self::Enterprise => {
                let told = self.known(told)?;
                let identity = Assertion::new(known(told.idp_id_token, "who the user is")?);
                let endpoint = known(told.idp_token_endpoint, "where the identity provider is")?;
                let client = known(told.idp_client_id, "who the client is there")?;
                Grant::EnterpriseManaged(IdentityProvider::new(endpoint, client, identity))
            }
            _ => Grant::AuthorizationCode,
        })
    }

    fn known(self, told: &Told) -> Result<Known, Fault> {
        let context = told.context.as_ref().ok_or("the suite says nothing of the client")?;
        Ok(Raw::parse(context.clone())?.decode()?)
    }
}

async fn use_tool(told: &Told, builder: ClientBuilder, oauth: &OAuth) -> Result<(), Fault> {
    let link = Link::http(&told.url).credentials(oauth.clone()).build()?;
    let client = builder.connect(link).await?;
    let outcome = act(&client, told).await;
    client.close().await;
    outcome
}

async fn act(client: &Client, told: &Told) -> Result<(), Fault> {
    // The suite's servers of this revision also speak every other one.
    if told.version.as_deref() != Some("2025-03-26") {
        told.is_agreed(client)?;
    }
    list_and_find(client, "test-tool").await?;
    expect(call(client, "test-tool", "{}").await?, "test")
}

/// The user: the suite's authorization servers show no page, and redirect the browser at once.
struct Redirected;

impl UserAgent for Redirected {
    async fn visit(&self, before: Option<&str>) -> Result<Visit, UserAgentError> {
        let _ = before;
        Ok(Visit::new(REDIRECT_URI, |asked: Authorizing| async move {
            redirected(&asked.url).await.map_err(|fault| UserAgentError::Other(fault.to_string()))
        }))
    }
}

/// Requests the page, and returns the query of the redirect.
async fn redirected(url: &str) -> Result<String, Fault> {
    let (authority, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_at_checked(rest.find('/')?))
        .ok_or("the page is not at http://")?;
    let mut stream = TcpStream::connect(authority).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await?;
    let answer = String::from_utf8(answer)?;
    let location = location(&answer).ok_or("the page is no redirect")?;
    let query = location.strip_prefix(REDIRECT_URI).and_then(|rest| rest.strip_prefix('?'));
    query.map(str::to_owned).ok_or_else(|| "the browser is sent elsewhere".into())
}

/// The value of the `Location` header, if the response is a redirect.
fn location(answer: &str) -> Option<&str> {
    let (head, _) = answer.split_once("\r\n\r\n")?;
    let (status, headers) = head.split_once("\r\n")?;
    let is_redirect = status.split(' ').nth(1).is_some_and(|code| code.len() == 3 && code.starts_with('3'));
    let mut headers = headers.lines().filter_map(|line| line.split_once(':'));
    let value =
        headers.find(|(name, _)| name.eq_ignore_ascii_case("location")).map(|(_, value)| value.trim());
    value.filter(|_| is_redirect)
}

#[cfg(test)]
mod tests {
    use super::location;

    #[test]
    fn only_a_redirect_leads_back() {
        let answer =
            |status: &str| format!("HTTP/1.1 {status}\r\nA: b\r\nlocation: http://a/b?c=d\r\n\r\nbody");
        assert_eq!(location(&answer("302 Found")), Some("http://a/b?c=d"));
        assert_eq!(location(&answer("200 OK")), None);
        assert_eq!(location("HTTP/1.1 302 Found\r\nA: b\r\n\r\nLocation: http://a/b"), None);
        assert_eq!(location("HTTP/1.1 302 Found\r\nA: b\r\n"), None);
        assert_eq!(location(""), None);
    }
}
