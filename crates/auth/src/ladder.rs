//! What discovery tried, rung by rung, and what came of each: for whoever has to mend it.
//!
//! Made by `discovery`, for a login and for `mcpjoin auth explain` alike. It holds no secret: URLs are without their
//! query, and texts of servers are cut and on one line.

use std::fmt;

use mcpjoin_proto::session::LinkErrorKind;

use super::discovery::{Discovered, DiscoveryError};
use super::fetch::FetchError;

/// All rungs in their order, and where they led.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ladder {
    /// What was tried.
    pub steps: Vec<Step>,
    /// What is known of the authorization; or the first broken rule that no other rung made up for.
    pub outcome: Result<Discovered, DiscoveryError>,
}

/// One rung: what was tried, what came back, and what it is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// What it is about.
    pub rung: Rung,
    /// The request that was made; `None` for what needed none.
    pub tried: Option<Tried>,
    /// The status of the answer.
    pub status: Option<u16>,
    /// What the answer was said to be.
    pub content_type: Option<String>,
    /// What was found, in one sentence.
    pub found: String,
    /// What it is worth.
    pub verdict: Verdict,
    /// The rule that it was judged by.
    pub rule: Rule,
    /// What the owner of the server, or the user, should do.
    pub advice: Option<String>,
    /// In which way nobody answered, or could answer now, where that is what is wrong.
    pub(super) outage: Option<LinkErrorKind>,
}

impl Step {
    pub(super) fn new(rung: Rung, rule: Rule, found: impl Into<String>) -> Self {
        Self {
            rung,
            tried: None,
            status: None,
            content_type: None,
            found: found.into(),
            verdict: Verdict::Held,
            rule,
            advice: None,
            outage: None,
        }
    }

    pub(super) fn tried(self, method: &str, url: &str) -> Self {
        let url = super::fetch::shown_text(url);
        Self { tried: Some(Tried { method: method.to_owned(), url }), ..self }
    }

    pub(super) fn answered(self, fetched: &super::fetch::Fetched) -> Self {
        Self { status: Some(fetched.status.as_u16()), content_type: fetched.content_type(), ..self }
    }

    pub(super) fn skipped(self, why: impl Into<String>) -> Self {
        Self { verdict: Verdict::Skipped(why.into()), ..self }
    }

    pub(super) fn broken(self, what: impl Into<String>) -> Self {
        Self { verdict: Verdict::Broken(what.into()), ..self }
    }

    /// No answer came.
    pub(super) fn unanswered(self, error: &FetchError) -> Self {
        Self { outage: error.kind.of_network(), ..self.broken(&*error.what) }
    }

    /// It was answered that nothing can be answered now.
    pub(super) fn failing(self, what: &str) -> Self {
        let outage = self.status.is_some_and(|status| status >= 500).then_some(LinkErrorKind::Unreached);
        Self { outage, ..self.broken(what) }
    }

    pub(super) fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// A request, without its query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// The method of HTTP.
    pub method: String,
    /// Where it went.
    pub url: String,
}

/// What a rung is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The rule is kept.
    Held,
    /// Nothing is wrong, and it leads nowhere; says why.
    Skipped(String),
    /// The rule is broken; says how. A client may still get further.
    Broken(String),
}

/// A rule and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The rule in one sentence.
    pub text: &'static str,
    /// The document and its section, with a link.
    pub source: &'static str,
}

/// What a rung is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rung {
    /// The server's own answer.
    Server,
    /// `WWW-Authenticate` of that answer.
    Challenge,
    /// The protected resource metadata: whether it is there.
    ResourceMetadata,
    /// The `resource` in it.
    Resource,
    /// The authorization servers in it.
    AuthorizationServers,
    /// The authorization server's metadata: whether it is there.
    ServerMetadata,
    /// The `issuer` in it.
    Issuer,
    /// The endpoints in it.
    Endpoints,
    /// PKCE.
    Pkce,
    /// How a client comes by an id.
    Registration,
    /// The scopes that would be asked for.
    Scopes,
    /// The token that was asked for.
    Token,
}

impl Rung {
    /// Its name, of lower case letters and hyphens, for machines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Challenge => "challenge",
            Self::ResourceMetadata => "resource-metadata",
            Self::Resource => "resource",
            Self::AuthorizationServers => "authorization-servers",
            Self::ServerMetadata => "server-metadata",
            Self::Issuer => "issuer",
            Self::Endpoints => "endpoints",
            Self::Pkce => "pkce",
            Self::Registration => "registration",
            Self::Scopes => "scopes",
            Self::Token => "token",
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
