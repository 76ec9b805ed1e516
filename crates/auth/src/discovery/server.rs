//! The second half of discovery: the authorization servers that a server names, and whether one of them can be used.
//!
//! Called by `discovery`, whose half ends with the server's own metadata. It requests nothing but the metadata of
//! authorization servers.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery>

use mcpjoin_proto::Version;
use mcpjoin_proto::http::resource::authorization_server_urls;

use super::super::fetch::{FetchErrorKind, cut, shown_text};
use super::super::metadata::{AuthorizationServer, MetadataError, ProtectedResource};
use super::super::rules;
use super::super::steps::{Step, StepSubject};
use super::{Climb, End, Wanted, newest};

/// How many of the authorization servers that a server names are tried.
const MAX_SERVERS: usize = 8;

/// The result of requesting an authorization server's metadata at one URL.
pub(super) enum Document {
    Found(Box<AuthorizationServer>),
    /// There is no document.
    Absent,
    /// The document cannot be used.
    Broken,
    /// The server cannot be reached, or must not be: trying its other URLs is pointless.
    Unreached,
}

impl Climb<'_> {
    /// Finds the first authorization server that can be used.
    pub(super) async fn authorization_server(
        &mut self,
        metadata: &ProtectedResource,
    ) -> Result<AuthorizationServer, End> {
        let mut issuers: Vec<&str> = metadata.authorization_servers.iter().map(String::as_str).collect();
        let found = match issuers.as_slice() {
            [] => "the metadata names no authorization server".to_owned(),
            [one] => format!("the authorization server is {}", shown_text(one)),
            several => format!("the metadata names {} authorization servers", several.len()),
        };
        let step = Step::new(StepSubject::AuthorizationServers, rules::SERVERS, &*found);
        if issuers.is_empty() {
            let advice = "let `authorization_servers` contain the issuer of a server that issues tokens for this \
                 server";
            return Err(self.end(step.failed(found).advice(advice)));
        }
        let last = self.push(step);
        // The server with a stored login comes first; the others keep the server's order.
        if let Some(wanted) = self.discovery.issuer {
            issuers.sort_by_key(|issuer| *issuer != wanted);
        }
        let mut used = None;
        for (at, issuer) in issuers.iter().enumerate() {
            let not_asked = match &used {
                Some(_) => "another one can be used".to_owned(),
                None if at >= MAX_SERVERS => format!("only {MAX_SERVERS} are tried"),
                None => {
                    used = self.usable(issuer).await;
                    continue;
                }
            };
            let found = format!("{} is not tried", shown_text(issuer));
            let step = Step::new(StepSubject::AuthorizationServers, rules::SERVERS, found);
            self.push(step.skipped(not_asked));
            if at >= 2 * MAX_SERVERS {
                break;
            }
        }
        used.ok_or_else(|| self.first_broken(last, self.steps.len() - 1))
    }

    /// The metadata of an issuer, if it can be used.
    pub(super) async fn usable(&mut self, issuer: &str) -> Option<AuthorizationServer> {
        let urls = authorization_server_urls(issuer);
        if urls.is_empty() {
            let named = shown_text(issuer);
            let step =
                Step::new(StepSubject::ServerMetadata, rules::ISSUER_URL, format!("the issuer is {named}"));
            let what = "an https URL without a user name, a query and a fragment";
            let advice = "let `authorization_servers` name the issuer exactly as its own metadata does";
            self.push(step.failed(format!("{named} is not an issuer, which is {what}")).advice(advice));
            return None;
        }
        let mut broken = false;
        for url in &urls {
            match self.server_document(url, &[issuer], &newest()).await {
                Document::Found(server) => return self.checked(*server).await,
                Document::Broken => broken = true,
                Document::Unreached => return None,
                Document::Absent => {}
            }
        }
        if !broken {
            let found = format!("{} has no metadata", shown_text(issuer));
            let step = Step::new(StepSubject::ServerMetadata, rules::SERVER_METADATA, &*found).failed(found);
            self.push(step.advice("let the authorization server publish its metadata, or name another one"));
        }
        None
    }

    /// Requests the authorization server's metadata at one URL.
    pub(super) async fn server_document(
        &mut self,
        url: &str,
        issuers: &[&str],
        version: &Version,
    ) -> Document {
        let step = |found: &str| {
            Step::new(StepSubject::ServerMetadata, rules::SERVER_METADATA, found).tried("GET", url)
        };
        let fetched = match self.get(url, version).await {
            Ok(fetched) => fetched,
            Err(error) => {
                let is_answered = matches!(error.kind, FetchErrorKind::Redirect | FetchErrorKind::TooLarge);
                let advice = "check that the authorization server runs and is reachable";
                let step = step("no answer").unanswered(&error);
                self.push(if step.outage.is_some() { step.advice(advice) } else { step });
                return if is_answered { Document::Broken } else { Document::Unreached };
            }
        };
        let step = |found: &str| step(found).answered(&fetched);
        if !fetched.status.is_success() {
            let what = format!("answered {}", fetched.status);
            if fetched.status.is_client_error() {
                self.push(step(&what).skipped("it does not exist"));
                return Document::Absent;
            }
            self.push(step(&what).failing(&what));
            return Document::Broken;
        }
        let server = match AuthorizationServer::parse(fetched.body.clone()) {
            Ok(server) => server,
            Err(error) => {
                let mut step = step("an unusable document").failed(error.to_string());
                if error == (MetadataError::Missing { member: "issuer" }) {
                    (step.subject, step.rule) = (StepSubject::Issuer, rules::ISSUER);
                }
                self.push(step.advice("let the authorization server publish its metadata there (RFC 8414)"));
                return Document::Broken;
            }
        };
        self.push(step("authorization server metadata"));
        let found = format!("`issuer` is {}", shown_text(&server.issuer));
        let step = Step::new(StepSubject::Issuer, rules::ISSUER, &*found);
        if issuers.contains(&server.issuer.as_str()) {
            self.push(step);
            return Document::Found(Box::new(server));
        }
        let asked = issuers.first().copied().unwrap_or_default();
        let what = format!("{found}, but {} was requested", shown_text(asked));
        let advice = match server.issuer.trim_end_matches('/') == asked.trim_end_matches('/') {
            true => "they differ in a slash at the end: use the same form in both",
            false => "let the server name the issuer in the metadata of the authorization server",
        };
        self.push(step.failed(what).advice(advice));
        Document::Broken
    }

    /// Checks whether an authorization server can be used.
    pub(super) async fn checked(&mut self, server: AuthorizationServer) -> Option<AuthorizationServer> {
        let with_user = self.discovery.wanted == Wanted::Code;
        let pushes = with_user && server.require_pushed_authorization_requests;
        // The endpoint is not checked where pushed requests are not used.
        let pushed = if pushes { &server.pushed_authorization_request_endpoint } else { &None };
        let endpoints = [
            ("authorization_endpoint", &server.authorization_endpoint, with_user),
            ("token_endpoint", &server.token_endpoint, true),
            ("pushed_authorization_request_endpoint", pushed, pushes),
            ("registration_endpoint", &server.registration_endpoint, false),
            ("revocation_endpoint", &server.revocation_endpoint, false),
        ];
        let mut there = Vec::new();
        for (member, url, is_needed) in endpoints {
            let what = match url {
                None if is_needed => "is missing".to_owned(),
                None => continue,
                Some(url) => match self.discovery.fetcher.check(url).await {
                    Ok(_) => {
                        there.push(member);
                        continue;
                    }
                    Err(error) => format!("is {}: {}", error.url, error.what),
                },
            };
            let found = format!("the metadata of {}", shown_text(&server.issuer));
            let rule = if member.starts_with("pushed") { rules::PUSHED } else { rules::ENDPOINTS };
            let step = Step::new(StepSubject::Endpoints, rule, found).failed(format!("`{member}` {what}"));
            self.push(step.advice("let the authorization server publish public https endpoints"));
            return None;
        }
        self.push(Step::new(
            StepSubject::Endpoints,
            rules::ENDPOINTS,
            format!("there are {}", there.join(", ")),
        ));
        if !with_user {
            return Some(server);
        }
        let methods = server.code_challenge_methods_supported.as_deref();
        let found = match methods {
            None => "`code_challenge_methods_supported` is missing".to_owned(),
            Some(methods) => format!("`code_challenge_methods_supported` has {}", cut(&methods.join(", "))),
        };
        let step = Step::new(StepSubject::Pkce, rules::PKCE, &*found);
        if server.supports_s256() {
            self.push(step);
            return Some(server);
        }
        let advice = "let the authorization server support PKCE with S256 and announce it; without it a code can be \
             stolen";
        self.push(step.failed(found).advice(advice));
        None
    }
}
