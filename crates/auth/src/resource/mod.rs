//! An OAuth 2.1 resource server: it names its authorization servers, and admits only requests with a token of theirs.
//!
//! [`ResourceServer`] is given to [`HttpOptions::admission`](mcpjoin::transport::HttpOptions::admission). It publishes the metadata
//! document of [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728), reads the token of each request
//! ([RFC 6750](https://www.rfc-editor.org/rfc/rfc6750)), has it verified ([`TokenVerifier`]), and refuses with a challenge that
//! says what the client needs. It issues no tokens, and forwards none.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod builder;
mod challenge;
mod documents;
mod jwt;
mod keys;
mod scopes;
mod verified_tokens;
mod verifier;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::Method;
use http::request::Parts;
use mcpjoin_proto::Message;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

pub use builder::{ResourceServerBuilder, ResourceSetupError};
pub use jwt::JwtVerifier;
pub use scopes::Operation;
pub use verifier::{Principal, Rejected, TokenVerifier, Verified};

use crate::subject_tokens::SubjectTokens;
use challenge::{Challenge, bearer};
use mcpjoin::transport::{Admission, Admitted, Admitting, Denied};
pub(crate) use scopes::is_scope;
use scopes::{Hierarchy, ScopesFor, includes};
use verified_tokens::VerifiedTokens;
use verifier::ErasedVerifier;

/// How long a verified token is not verified again: a revoked token is admitted for that long at most.
const VERIFIED_TOKEN_LIFETIME: Duration = Duration::from_secs(60);

/// How many verified tokens are cached.
const MAX_VERIFIED_TOKENS: usize = 10_000;

/// Admits the clients of an HTTP server by their tokens.
///
/// ```
/// use mcpjoin_auth::resource::ResourceServer;
/// use mcpjoin::transport::HttpOptions;
/// use mcpjoin::proto::Method;
///
/// let resource = ResourceServer::builder("https://tools.example.com/mcp")
///     .issuer("https://login.example.com")
///     .required_scopes(["notes"])
///     .scopes_for(|operation| match (operation.method(), operation.name()) {
///         (Method::CallTool, Some("delete_note")) => &["notes:write"] as &[&str],
///         _ => &[],
///     })
///     .implies("notes:write", ["notes"])
///     .build()?;
/// assert_eq!(
///     resource.metadata_url(),
///     "https://tools.example.com/.well-known/oauth-protected-resource/mcp"
/// );
/// let options = HttpOptions::new().allow_host("tools.example.com")?.admission(resource);
/// # drop(options);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A request without a token is refused with 401, and so is one whose token is invalid, has expired, or was issued for another
/// server; the challenge names the metadata document, which names the authorization servers. A request whose token lacks
/// scopes is refused with 403 and the list of all scopes that it needs. A token in the URL is never accepted. When it cannot be
/// found out whether a token is valid, the response is 503.
///
/// A stream without an end of its own (that of a legacy session, of `subscriptions/listen`, or of 2024-11-05) is closed when its
/// token expires; a client opens it again with a new one. A call that has begun is finished, even if its token expires.
#[derive(Clone)]
pub struct ResourceServer(Arc<Inner>);

struct Inner {
    resource: String,
    /// The accepted audiences of a token: the resource as it is written, and equivalent forms.
    audiences: Vec<String>,
    metadata_url: String,
    /// The paths of the metadata document.
    paths: Vec<String>,
    document: Bytes,
    required: Vec<Box<str>>,
    scopes_for: Option<ScopesFor>,
    hierarchy: Hierarchy,
    verifier: Box<dyn ErasedVerifier>,
    verified_tokens: VerifiedTokens,
    /// Where the newest token of each principal is remembered.
    subjects: Option<SubjectTokens>,
}

impl ResourceServer {
    /// A server with that URL, as clients write it: `https://host/path`, in lower case up to the path and without a query. Tokens
    /// must be issued for it. (`http` is allowed on this machine only.)
    pub fn builder(resource: impl Into<String>) -> ResourceServerBuilder {
        ResourceServerBuilder::new(resource.into())
    }

    /// The URL of the server.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.0.resource
    }

    /// The URL of the metadata document, which challenges name. The service answers at its path, and at
    /// `/.well-known/oauth-protected-resource`; a program that mounts the service below a path must route these to it as well.
    #[must_use]
    pub fn metadata_url(&self) -> &str {
        &self.0.metadata_url
    }

    /// The metadata document: JSON, which every client may read.
    #[must_use]
    pub fn metadata(&self) -> Bytes {
        self.0.document.clone()
    }

    /// Fetches the keys of the issuers before the first token arrives. Optional: it reports at once what the first client would
    /// meet otherwise.
    ///
    /// # Errors
    /// When no token could be verified now ([`ResourceSetupError::Verifier`]). The next token tries again.
    pub async fn prepare(&self) -> Result<(), ResourceSetupError> {
        self.0.verifier.prepare().await.map_err(ResourceSetupError::Verifier)
    }
}

impl Inner {
    async fn admit(&self, parts: &Parts) -> Result<Admitted, Box<Denied>> {
        let token = bearer(parts).map_err(|challenge| self.deny(challenge))?;
        let digest: [u8; 32] = Sha256::digest(token).into();
        let now = Instant::now();
        let admitted = match self.verified_tokens.find(&digest, now) {
            Some(admitted) => admitted,
            None => {
                let verified = self.verifier.verify(token).await.and_then(|verified| self.for_us(verified));
                let admitted = verified.map_err(|rejected| self.deny(Challenge::of(rejected)))?;
                self.verified_tokens.insert(digest, admitted.clone(), now);
                admitted
            }
        };
        if let Some(subjects) = &self.subjects {
            subjects.set(&admitted.principal, token, digest, admitted.until);
        }
        // The scopes of a POST are checked together, once its messages are known.
        if parts.method != Method::POST {
            self.check(&admitted, &self.required)?;
        }
        Ok(admitted)
    }

    /// Whether a valid token was issued for this server and has not expired.
    fn for_us(&self, verified: Verified) -> Result<Admitted, Rejected> {
        let Verified { principal, audience, scopes, expires } = verified;
        if !audience.iter().any(|one| self.audiences.contains(one)) {
            return Err(Rejected::Invalid("the token is for another audience".into()));
        }
        let until = match expires {
            None => None,
            Some(expires) => {
                let left = expires.duration_since(SystemTime::now());
                let left = left.map_err(|_| Rejected::Invalid("the token has expired".into()))?;
                // A time beyond the clock never comes.
                Instant::now().checked_add(left)
            }
        };
        let mut admitted = Admitted::new(principal.into_text());
        admitted.scopes = self.hierarchy.expand(scopes);
        admitted.until = until;
        Ok(admitted)
    }

    fn check(&self, admitted: &Admitted, needed: &[Box<str>]) -> Result<(), Box<Denied>> {
        if needed.iter().all(|scope| includes(&admitted.scopes, scope)) {
            return Ok(());
        }
        Err(self.deny(Challenge::InsufficientScope(needed.into())))
    }

    fn deny(&self, challenge: Challenge) -> Box<Denied> {
        Box::new(challenge.into_denied(&self.metadata_url, &self.required))
    }
}

impl Admission for ResourceServer {
    fn document(&self, path: &str) -> Option<Bytes> {
        self.0.paths.iter().any(|one| one == path).then(|| self.0.document.clone())
    }

    fn admit<'a>(&'a self, parts: &'a Parts) -> Admitting<'a> {
        Box::pin(self.0.admit(parts))
    }

    fn allow(
        &self,
        admitted: &Admitted,
        messages: &mut dyn Iterator<Item = &Message>,
    ) -> Result<(), Box<Denied>> {
        let server = &self.0;
        let Some(scopes_for) = &server.scopes_for else { return server.check(admitted, &server.required) };
        let mut needed = server.required.clone();
        for message in messages {
            scopes_for.add(message, &mut needed);
        }
        server.check(admitted, &needed)
    }
}

impl fmt::Debug for ResourceServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceServer")
            .field("resource", &self.0.resource)
            .field("required", &self.0.required)
            .finish_non_exhaustive()
    }
}
