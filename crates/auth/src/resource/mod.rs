//! A server as an OAuth 2.1 resource server: it says where tokens for it are given out, and lets in only who shows one.
//!
//! [`ResourceServer`] is given to [`HttpOptions::authorize`](mcpjoin::link::HttpOptions::admission). It publishes the
//! document of [RFC 9728](https://www.rfc-editor.org/rfc/rfc9728), reads the token of each request
//! ([RFC 6750](https://www.rfc-editor.org/rfc/rfc6750)), has it verified ([`TokenVerifier`]), and refuses with the
//! challenge from which a client learns what it needs. It gives out no token, follows nobody, and passes on no token
//! that it was shown.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod builder;
mod challenge;
mod documents;
mod jwt;
mod keys;
mod remembered;
mod scopes;
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

use challenge::{Challenge, bearer};
use mcpjoin::link::{Admission, Admitted, Admitting, Denied};
use remembered::Remembered;
use scopes::{Hierarchy, ScopesFor, includes};
use verifier::ErasedVerifier;

/// How long a verified token is not verified again: what was revoked meanwhile is let in so much longer.
const VERIFIED_TOKEN_LIFETIME: Duration = Duration::from_secs(60);

/// How many verified tokens are remembered.
const MAX_VERIFIED_TOKENS: usize = 10_000;

/// Who may use a server over HTTP, and how one gets to be allowed to.
///
/// ```
/// use mcpjoin_auth::resource::ResourceServer;
/// use mcpjoin::link::HttpOptions;
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
/// A request without a token is refused with 401, and so is one whose token is not valid, has expired, or was given out
/// for somebody else; the challenge names the document that says where tokens are to be had. A token that does not
/// reach for what is asked for is refused with 403 and with all the scopes that this needs. A token in the URL is never
/// taken. Where it cannot be found out whether a token is valid, the answer is 503.
///
/// A stream that has no end of its own (that of a legacy session, of `subscriptions/listen`, or of 2024-11-05) ends when its
/// token expires; a client opens it again with a new one. A call that has begun is finished, whatever becomes of its token.
#[derive(Clone)]
pub struct ResourceServer(Arc<Inner>);

struct Inner {
    resource: String,
    /// What the audience of a token may be: the resource as it is written, and what means the same.
    audiences: Vec<String>,
    metadata_url: String,
    /// The paths of the document.
    paths: Vec<String>,
    document: Bytes,
    required: Vec<Box<str>>,
    scopes_for: Option<ScopesFor>,
    hierarchy: Hierarchy,
    verifier: Box<dyn ErasedVerifier>,
    remembered: Remembered,
}

impl ResourceServer {
    /// A server with that URL, as clients name it: `https://host/path`, in lower case up to the path and without a query.
    /// It is what a token has to be given out for. (`http` on this machine alone.)
    pub fn builder(resource: impl Into<String>) -> ResourceServerBuilder {
        ResourceServerBuilder::new(resource.into())
    }

    /// The URL of the server.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.0.resource
    }

    /// Where the document lies that says who gives out tokens: what challenges name. The service answers at its path, and
    /// at `/.well-known/oauth-protected-resource`; whoever mounts the service below a path leads these to it as well.
    #[must_use]
    pub fn metadata_url(&self) -> &str {
        &self.0.metadata_url
    }

    /// That document: JSON, which everybody may read.
    #[must_use]
    pub fn metadata(&self) -> Bytes {
        self.0.document.clone()
    }

    /// Gets ready to verify tokens before the first one comes: has the keys of the issuers fetched. Nobody has to ask for it; it
    /// tells at once what otherwise the first client would meet.
    ///
    /// # Errors
    /// When no token could be verified now ([`ResourceSetupError::Verifier`]). When one comes it is tried again.
    pub async fn prepare(&self) -> Result<(), ResourceSetupError> {
        self.0.verifier.prepare().await.map_err(ResourceSetupError::Verifier)
    }
}

impl Inner {
    async fn admit(&self, parts: &Parts) -> Result<Admitted, Box<Denied>> {
        let token = bearer(parts).map_err(|challenge| self.deny(challenge))?;
        let digest: [u8; 32] = Sha256::digest(token).into();
        let now = Instant::now();
        let admitted = match self.remembered.find(&digest, now) {
            Some(admitted) => admitted,
            None => {
                let verified = self.verifier.verify(token).await.and_then(|verified| self.for_us(verified));
                let admitted = verified.map_err(|rejected| self.deny(Challenge::of(rejected)))?;
                self.remembered.insert(digest, admitted.clone(), now);
                admitted
            }
        };
        // What a POST needs is said in one go, when it is known what it is.
        if parts.method != Method::POST {
            self.check(&admitted, &self.required)?;
        }
        Ok(admitted)
    }

    /// Whether a token that is valid was given out for this server, and is not over yet.
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
                // What is too far away to be told is never.
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
