//! The report of a discovery: its steps, and the result of each.
//!
//! Made by `discovery`, for a login and for `mcpjoin auth explain`. It contains no secret: URLs have no query, and texts of
//! servers are shortened to one line.

use std::fmt;

use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::session::TransportErrorKind;

use super::discovery::{Discovered, DiscoveryError};
use super::fetch::FetchError;

/// All steps in order, and the outcome.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiscoveryReport {
    /// The steps.
    pub steps: Vec<Step>,
    /// The result; or the first failure without a successful alternative.
    pub outcome: Result<Discovered, DiscoveryError>,
}

/// One step: the request, the response, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The subject of the step.
    pub subject: StepSubject,
    /// The request; `None` for a step without one.
    pub tried: Option<Tried>,
    /// The HTTP status of the response.
    pub status: Option<u16>,
    /// The media type of the response.
    pub content_type: Option<String>,
    /// What was found, in one sentence.
    pub found: String,
    /// The result.
    pub result: StepResult,
    /// The rule that was checked.
    pub rule: Rule,
    /// What the owner of the server, or the user, should do.
    pub advice: Option<String>,
    /// The kind of outage, where that is the problem.
    pub(super) outage: Option<TransportErrorKind>,
}

impl Step {
    /// What the server's own response says of logins; `None` for another step, or without a response.
    #[must_use]
    pub fn answer(&self) -> Option<ServerAnswer> {
        let status = self.status.filter(|_| self.subject == StepSubject::Server)?;
        let kind = self.content_type.as_ref().map(|kind| MediaType::of(Some(kind.as_bytes())));
        Some(match status {
            // A web server without POST, or without this path, or with a page for everything. It may still describe a login.
            404 | 405 | 410 | 501 => ServerAnswer::NoEndpoint,
            200..=299 if kind == Some(MediaType::Other) => ServerAnswer::NoEndpoint,
            200..=299 => ServerAnswer::Open,
            500.. => ServerAnswer::Failed,
            _ => ServerAnswer::Refused,
        })
    }

    pub(super) fn new(subject: StepSubject, rule: Rule, found: impl Into<String>) -> Self {
        Self {
            subject,
            tried: None,
            status: None,
            content_type: None,
            found: found.into(),
            result: StepResult::Passed,
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
        Self { result: StepResult::Skipped(why.into()), ..self }
    }

    pub(super) fn failed(self, what: impl Into<String>) -> Self {
        Self { result: StepResult::Failed(what.into()), ..self }
    }

    /// Marks the step as failed without a response.
    pub(super) fn unanswered(self, error: &FetchError) -> Self {
        Self { outage: error.kind.of_network(), ..self.failed(&*error.what) }
    }

    /// Marks the step as failed by a response that says that the server is unavailable.
    pub(super) fn failing(self, what: &str) -> Self {
        let outage =
            self.status.is_some_and(|status| status >= 500).then_some(TransportErrorKind::Unreachable);
        Self { outage, ..self.failed(what) }
    }

    pub(super) fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// What the response of a server to a request without authorization says of logins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerAnswer {
    /// The server accepts the request.
    Open,
    /// It refuses the request.
    Refused,
    /// It fails: it is not known whether it requires a login.
    Failed,
    /// No MCP server is at this URL: it is not known whether one requires a login.
    NoEndpoint,
}

/// A request, without its query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tried {
    /// The HTTP method.
    pub method: String,
    /// The URL.
    pub url: String,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// The rule holds.
    Passed,
    /// Nothing is wrong, but the step leads no further; says why.
    Skipped(String),
    /// The rule is broken; says how. A client may still succeed by another way.
    Failed(String),
}

/// A rule and its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// The rule in one sentence.
    pub text: &'static str,
    /// The document and its section, with a link.
    pub source: &'static str,
}

/// The subject of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepSubject {
    /// The server's own response.
    Server,
    /// `WWW-Authenticate` of that response.
    Challenge,
    /// The protected resource metadata: whether it exists.
    ResourceMetadata,
    /// The `resource` in it.
    Resource,
    /// The authorization servers in it.
    AuthorizationServers,
    /// The authorization server's metadata: whether it exists.
    ServerMetadata,
    /// The `issuer` in it.
    Issuer,
    /// The endpoints in it.
    Endpoints,
    /// PKCE.
    Pkce,
    /// How a client gets an id.
    Registration,
    /// The scopes that would be requested.
    Scopes,
    /// The token request.
    Token,
}

impl StepSubject {
    /// Its name for machines: lower case letters and hyphens.
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

impl fmt::Display for StepSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
