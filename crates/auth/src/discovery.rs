//! Discovery: from a server to the authorization server that issues tokens for it, by the challenge, the protected resource
//! metadata and the authorization server metadata.
//!
//! Called by `login` and by [`explain`](super::explain). It sends requests to the servers only, registers nothing, and has no
//! credentials. Every request and every check is a [`Step`]. After a failed step for which an alternative exists it goes on;
//! the first failure without a successful alternative is the outcome.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery>

mod server;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{self, HeaderName, HeaderValue};
use mcpjoin_proto::http::challenge::Challenge;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::resource::{canonical, covers, origin_of, protected_resource_urls};
use mcpjoin_proto::session::TransportErrorKind;
use mcpjoin_proto::{Era, Version};

use self::server::Document;
use super::fetch::{FetchError, FetchErrorKind, Fetched, Fetcher, cut, shown_text};
use super::metadata::{AuthorizationServer, MetadataError, ProtectedResource};
use super::rules;
use super::steps::{DiscoveryReport, Rule, ServerAnswer, Step, StepResult, StepSubject};

/// The revision in which a server without metadata is its own authorization server.
const OWN_AUTHORIZATION: Version = Version::V2025_03_26;

/// The revision that a probe uses.
const fn newest() -> Version {
    Version::newest(Era::Modern)
}

/// The header that names a revision.
fn revision(version: &Version) -> Option<(HeaderName, HeaderValue)> {
    let revision = HeaderValue::from_str(version.as_str()).ok()?;
    Some((HeaderName::from_static(name::PROTOCOL_VERSION), revision))
}

/// A request that should be refused: it changes nothing, and opens no session.
fn probe() -> Bytes {
    let revision = newest();
    let meta = "io.modelcontextprotocol";
    let about = format!(r#""{meta}/protocolVersion":"{revision}","{meta}/clientCapabilities":{{}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{{"_meta":{{{about}}}}}}}"#)
        .into()
}

/// The input of a discovery.
pub(crate) struct Discovery<'a> {
    /// Sends the requests.
    pub(crate) fetcher: &'a Fetcher,
    /// The URL of the server.
    pub(crate) server: &'a str,
    /// The kind of grant.
    pub(crate) wanted: Wanted,
    /// The preferred issuer when the server names several: that of a registered client, or of stored tokens.
    pub(crate) issuer: Option<&'a str>,
    /// Called with each step.
    pub(crate) on_step: Option<&'a (dyn Fn(&Step) + Send + Sync)>,
}

/// The kind of grant for which an authorization server is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The authorization code, with a user and PKCE.
    Code,
    /// A grant that needs the token endpoint only.
    TokenAlone,
}

/// The refusal of a request by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Challenged {
    pub(crate) status: u16,
    pub(crate) challenges: Vec<Challenge>,
}

impl Challenged {
    /// A refusal with these values of `WWW-Authenticate`.
    pub(crate) fn of(status: u16, www_authenticate: &[&str]) -> Self {
        let values = www_authenticate.iter().map(|value| value.as_bytes());
        Self { status, challenges: Challenge::all(values) }
    }

    /// The challenges whose scheme is about tokens.
    pub(crate) fn of_tokens(&self) -> impl Iterator<Item = &Challenge> {
        self.challenges.iter().filter(|challenge| challenge.is("Bearer") || challenge.is("DPoP"))
    }

    /// The first value of a parameter in the challenges about tokens.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.of_tokens().find_map(|challenge| challenge.parameter(name))
    }

    /// The scopes that the request needs, if the server names them.
    pub(crate) fn scopes(&self) -> Option<Vec<String>> {
        let scopes: Vec<String> =
            self.parameter("scope")?.split_ascii_whitespace().map(str::to_owned).collect();
        (!scopes.is_empty()).then_some(scopes)
    }
}

/// The authorization server of a server, and the metadata of both.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Discovered {
    /// The resource for which tokens are requested: as in the server's metadata, byte for byte.
    pub resource: String,
    /// The server's metadata; `None` for one that is its own authorization server, as in 2025-03-26.
    pub protected_resource: Option<ProtectedResource>,
    /// The authorization server's identifier, byte for byte.
    pub issuer: String,
    /// The authorization server's metadata.
    pub server: AuthorizationServer,
    /// It has no metadata: these are the default endpoints of 2025-03-26.
    pub assumed: bool,
    /// The scopes in the challenge.
    pub challenged_scopes: Option<Vec<String>>,
}

impl Discovered {
    /// The scopes to request: those of the challenge, otherwise all of the server's metadata; and `more`. With `offline` also
    /// `offline_access`, where the authorization server supports it. `None`: the parameter is omitted.
    #[must_use]
    pub fn scopes(&self, more: &[String], offline: bool) -> Option<Vec<String>> {
        let listed = || self.protected_resource.as_ref()?.scopes_supported.as_ref();
        let base = self.challenged_scopes.as_ref().or_else(listed);
        let known = self.server.scopes_supported.iter().flatten();
        let offline = known.filter(|scope| offline && *scope == "offline_access");
        let mut scopes: Vec<String> = Vec::new();
        for scope in base.into_iter().flatten().chain(more).chain(offline) {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
        (!scopes.is_empty()).then_some(scopes)
    }
}

/// Discovery has found no authorization server, or none that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct DiscoveryError {
    /// The subject of the failed step.
    pub subject: StepSubject,
    /// The problem, for people.
    pub message: String,
    /// The rule that is broken.
    pub rule: Rule,
    /// What the owner of the server, or the user, should do.
    pub advice: Option<String>,
    /// The kind of outage, when a server was unreachable or temporarily unavailable ([`AuthError::outage`](super::AuthError::outage)).
    pub outage: Option<TransportErrorKind>,
}

/// Runs discovery. Without a challenge it begins with a request to the server without authorization.
pub(crate) async fn discover(discovery: &Discovery<'_>, challenge: Option<&Challenged>) -> DiscoveryReport {
    let mut climb = Climb { discovery, steps: Vec::new() };
    let outcome = climb.climb(challenge).await;
    DiscoveryReport { steps: climb.steps, outcome }
}

/// The metadata of an authorization server that the user has named. It has a usable token endpoint.
pub(crate) async fn authorization_server(
    fetcher: &Fetcher,
    issuer: &str,
) -> Result<AuthorizationServer, DiscoveryError> {
    let discovery = Discovery {
        fetcher,
        server: issuer,
        wanted: Wanted::TokenAlone,
        issuer: Some(issuer),
        on_step: None,
    };
    let mut climb = Climb { discovery: &discovery, steps: Vec::new() };
    match climb.usable(issuer).await {
        Some(server) => Ok(server),
        None => {
            let End(at) = climb.first_broken(0, climb.steps.len().saturating_sub(1));
            Err(climb.error(at))
        }
    }
}

struct Climb<'a> {
    discovery: &'a Discovery<'a>,
    steps: Vec<Step>,
}

/// The step that ends discovery: its index.
struct End(usize);

impl Climb<'_> {
    async fn climb(&mut self, challenge: Option<&Challenged>) -> Result<Discovered, DiscoveryError> {
        let found = match challenge {
            Some(challenge) => self.from(challenge).await,
            None => match self.probe().await {
                Ok(challenge) => self.from(&challenge).await,
                Err(end) => Err(end),
            },
        };
        found.map_err(|End(at)| self.error(at))
    }

    fn error(&self, at: usize) -> DiscoveryError {
        let step = &self.steps[at.min(self.steps.len() - 1)];
        let why = match &step.result {
            StepResult::Failed(what) | StepResult::Skipped(what) => what,
            StepResult::Passed => &step.found,
        };
        let message = match &step.tried {
            Some(tried) => format!("{} {}: {why}", tried.method, tried.url),
            None => why.clone(),
        };
        let (advice, outage) = (step.advice.clone(), step.outage);
        DiscoveryError { subject: step.subject, message, rule: step.rule, advice, outage }
    }

    fn push(&mut self, step: Step) -> usize {
        if let Some(told) = self.discovery.on_step {
            told(&step);
        }
        self.steps.push(step);
        self.steps.len() - 1
    }

    /// Adds the step that ends discovery.
    fn end(&mut self, step: Step) -> End {
        End(self.push(step))
    }

    /// The first failed step from `from` on, otherwise the last.
    fn first_broken(&self, from: usize, last: usize) -> End {
        let broken = |step: &Step| matches!(step.result, StepResult::Failed(_));
        End(self.steps[from..].iter().position(broken).map_or(last, |at| from + at))
    }

    /// Sends a request that should be refused.
    async fn probe(&mut self) -> Result<Challenged, End> {
        let url = self.discovery.server;
        let mut headers = HeaderMap::new();
        for (key, value) in [
            (name::ACCEPT, "application/json, text/event-stream"),
            (name::CONTENT_TYPE, "application/json"),
            (name::METHOD, "server/discover"),
        ] {
            headers.insert(key, HeaderValue::from_static(value));
        }
        headers.extend(revision(&newest()));
        match self.discovery.fetcher.head_of_post(url, headers, probe()).await {
            Ok(fetched) => {
                let values = fetched.headers.get_all(header::WWW_AUTHENTICATE).iter();
                let challenges = Challenge::all(values.map(HeaderValue::as_bytes));
                let status = fetched.status.as_u16();
                let found = format!("answered {} to a request without authorization", fetched.status);
                let step = Step::new(StepSubject::Server, rules::UNAUTHORIZED, found)
                    .tried("POST", url)
                    .answered(&fetched);
                let page = step.content_type.clone().filter(|_| fetched.status.is_success());
                let page = page.map(|kind| format!(": it sends {kind}")).unwrap_or_default();
                self.push(match step.answer() {
                    Some(ServerAnswer::Failed) => step
                        .failed("the server fails, so it is not known whether it requires authorization")
                        .advice("fix the server first; see its log"),
                    Some(ServerAnswer::NoEndpoint) => step
                        .skipped(format!("the URL answers, but not as an MCP server{page}"))
                        .advice("check the path: usually /mcp"),
                    Some(ServerAnswer::Open) => step.skipped("it accepts a request without authorization"),
                    _ if status == 401 => step,
                    _ => step.skipped("it does not require authorization"),
                });
                Ok(Challenged { status, challenges })
            }
            Err(error) => {
                let rule = match error.kind {
                    FetchErrorKind::Url => rules::TLS,
                    _ => rules::UNAUTHORIZED,
                };
                let step =
                    Step::new(StepSubject::Server, rule, "no answer").tried("POST", url).unanswered(&error);
                Err(self.end(step.advice("check the URL, and that the server runs")))
            }
        }
    }

    async fn from(&mut self, challenge: &Challenged) -> Result<Discovered, End> {
        let server = self.discovery.server;
        if let Err(error) = self.discovery.fetcher.check(server).await {
            let step = Step::new(StepSubject::Server, rules::TLS, "a login over http is not allowed")
                .failed(error.what);
            return Err(self.end(step.advice("use the https URL of the server")));
        }
        let named = self.challenge(challenge);
        let challenged_scopes = challenge.scopes();
        let begin = self.steps.len();
        let metadata = match self.protected_resource(named.as_deref()).await {
            Ok(Some(metadata)) => metadata,
            // The metadata of a server that requires no authorization may be invalid.
            Err(end) if matches!(challenge.status, 401 | 403) => return Err(end),
            Ok(None) | Err(_) => {
                return self.without_metadata(begin, challenge, challenged_scopes).await;
            }
        };
        self.resource(&metadata)?;
        let server = self.authorization_server(&metadata).await?;
        Ok(Discovered {
            resource: metadata.resource.clone(),
            protected_resource: Some(metadata),
            issuer: server.issuer.clone(),
            server,
            assumed: false,
            challenged_scopes,
        })
    }

    /// The metadata URL in the challenge.
    fn challenge(&mut self, challenge: &Challenged) -> Option<String> {
        if !matches!(challenge.status, 401 | 403) {
            return None;
        }
        let named = challenge.parameter("resource_metadata").map(str::to_owned);
        let schemes: Vec<&str> = challenge.challenges.iter().map(|one| one.scheme.as_str()).collect();
        let schemes = cut(&schemes.join(", "));
        let step = match &named {
            Some(url) => {
                let found = format!("the challenge ({schemes}) names the metadata: {}", shown_text(url));
                Step::new(StepSubject::Challenge, rules::NAMED, found)
            }
            None if challenge.challenges.is_empty() => {
                let what = format!("the {} has no valid WWW-Authenticate header", challenge.status);
                let advice =
                    "make the server respond with `WWW-Authenticate: Bearer resource_metadata=\"...\"`";
                Step::new(StepSubject::Challenge, rules::CHALLENGE, &*what).failed(&*what).advice(advice)
            }
            None => {
                let found = format!("the challenge ({schemes}) does not name the metadata");
                let why = match challenge.of_tokens().next() {
                    Some(_) => "the well-known URLs are tried",
                    None => "there is no Bearer challenge; the well-known URLs are tried",
                };
                Step::new(StepSubject::Challenge, rules::NAMED, found).skipped(why)
            }
        };
        self.push(step);
        named
    }

    /// The server's metadata; `None` when it has none.
    async fn protected_resource(&mut self, named: Option<&str>) -> Result<Option<ProtectedResource>, End> {
        let mut urls = protected_resource_urls(self.discovery.server);
        if let Some(named) = named {
            urls.retain(|url| url != named);
            urls.insert(0, named.to_owned());
        }
        let mut broken = None;
        for url in &urls {
            let is_named = named == Some(url);
            let step = |found: &str| {
                Step::new(StepSubject::ResourceMetadata, rules::RESOURCE_METADATA, found).tried("GET", url)
            };
            let fetched = match self.get(url, &newest()).await {
                Ok(fetched) => fetched,
                Err(error) => {
                    let may_not = matches!(error.kind, FetchErrorKind::Address | FetchErrorKind::Url);
                    let at = self.push(step("no answer").unanswered(&error).advice(
                        "make the server name a metadata URL over https that responds, preferably at its own origin",
                    ));
                    if may_not {
                        return Err(End(at));
                    }
                    broken.get_or_insert(at);
                    continue;
                }
            };
            let step = |found: &str| step(found).answered(&fetched);
            if !fetched.status.is_success() {
                let what = format!("answered {}", fetched.status);
                if fetched.status.is_client_error() && !is_named {
                    self.push(step(&what).skipped("it does not exist"));
                    continue;
                }
                let at = self.push(if is_named {
                    let advice = "publish the metadata at the URL in the challenge";
                    step(&what).failed(format!("the challenge names it, but it {what}")).advice(advice)
                } else {
                    step(&what).failing(&what).advice("see the server's log")
                });
                broken.get_or_insert(at);
                continue;
            }
            match ProtectedResource::parse(fetched.body.clone()) {
                Ok(metadata) => {
                    self.push(step("protected resource metadata"));
                    return Ok(Some(metadata));
                }
                Err(error) => {
                    let at = self.push(step("an unusable document").failed(error.to_string()).advice(
                        "respond with a JSON object that has `resource` and `authorization_servers`, otherwise with 404",
                    ));
                    // Many servers without metadata send their web page for every URL.
                    if is_named || !matches!(error, MetadataError::Json(_)) {
                        broken.get_or_insert(at);
                    }
                }
            }
        }
        // A server whose metadata is invalid has metadata: the defaults of 2025-03-26 do not apply.
        match broken {
            Some(at) => Err(End(at)),
            None => Ok(None),
        }
    }

    /// Checks the server's resource identifier.
    fn resource(&mut self, metadata: &ProtectedResource) -> Result<(), End> {
        let server = self.discovery.server;
        let found = format!("`resource` is {}", shown_text(&metadata.resource));
        let step = Step::new(StepSubject::Resource, rules::RESOURCE, &*found);
        if covers(&metadata.resource, server) {
            self.push(step);
            return Ok(());
        }
        let what = format!("{found}, which is not this server, {}", shown_text(server));
        let advice = "set `resource` to the URL that clients use, or its origin; otherwise tokens are issued for another server";
        Err(self.end(step.failed(what).advice(advice)))
    }

    /// A server without metadata: it may be its own authorization server.
    async fn without_metadata(
        &mut self,
        begin: usize,
        challenge: &Challenged,
        challenged_scopes: Option<Vec<String>>,
    ) -> Result<Discovered, End> {
        let server_url = self.discovery.server;
        let answer = self.steps.first().and_then(Step::answer);
        if matches!(answer, Some(ServerAnswer::Failed | ServerAnswer::NoEndpoint)) {
            // The step of the request says what the server is.
            return Err(End(0));
        }
        let wants_token = challenge.status == 403 && challenge.of_tokens().next().is_some();
        if challenge.status != 401 && !wants_token {
            let what = "the server does not require authorization and names no authorization server";
            return Err(self.end(Step::new(StepSubject::Server, rules::UNAUTHORIZED, what).skipped(what)));
        }
        let found = |server: AuthorizationServer, assumed| Discovered {
            resource: canonical(server_url).unwrap_or_default(),
            protected_resource: None,
            issuer: server.issuer.clone(),
            server,
            assumed,
            challenged_scopes,
        };
        let origin = origin_of(server_url).unwrap_or_default();
        // No document says how the issuer is written.
        let slashed = format!("{origin}/");
        let url = format!("{origin}/.well-known/oauth-authorization-server");
        match self.server_document(&url, &[origin, &slashed], &OWN_AUTHORIZATION).await {
            Document::Found(server) => match self.checked(*server).await {
                Some(server) => Ok(found(server, false)),
                None => Err(self.first_broken(begin, self.steps.len() - 1)),
            },
            Document::Absent => {
                let assumed =
                    "no metadata anywhere: the endpoints of 2025-03-26 are assumed at the server's origin";
                let step = Step::new(StepSubject::ServerMetadata, rules::LEGACY, assumed).advice(
                    "publish protected resource metadata; if the server uses an API key, send it as a header",
                );
                self.push(step);
                Ok(found(AuthorizationServer::at_origin(origin), true))
            }
            Document::Broken | Document::Unreached => Err(self.first_broken(begin, self.steps.len() - 1)),
        }
    }

    async fn get(&self, url: &str, version: &Version) -> Result<Fetched, FetchError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.extend(revision(version));
        self.discovery.fetcher.get(url, headers).await
    }
}

#[cfg(test)]
mod tests;
