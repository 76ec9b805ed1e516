//! Configures a resource server, and makes its metadata document (RFC 9728). It sends nothing and verifies no token.

use std::fmt;
use std::sync::Arc;

use mcpjoin_proto::http::origin::Origin;
use mcpjoin_proto::http::resource::PROTECTED_RESOURCE;
use serde_json::{Map, Value};

use super::scopes::{Hierarchy, Operation, ScopesFor, is_scope};
use super::verified_tokens::VerifiedTokens;
use super::verifier::ErasedVerifier;
use super::{
    Inner, JwtVerifier, MAX_VERIFIED_TOKENS, ResourceServer, TokenVerifier, VERIFIED_TOKEN_LIFETIME,
};
use crate::subject_tokens::SubjectTokens;

/// The scope that asks for a refresh token: it is no scope of a resource.
const OFFLINE: &str = "offline_access";

/// Configures a [`ResourceServer`].
#[must_use]
pub struct ResourceServerBuilder {
    resource: String,
    issuers: Vec<String>,
    name: Option<String>,
    documentation: Option<String>,
    supported: Vec<String>,
    required: Vec<Box<str>>,
    scopes_for: Option<ScopesFor>,
    hierarchy: Hierarchy,
    verifier: Option<Box<dyn ErasedVerifier>>,
    extra_ca: Vec<Vec<u8>>,
    subjects: Option<SubjectTokens>,
}

/// A resource server cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceSetupError {
    /// The URL of the server is invalid.
    #[error("{url} is not the URL of a server that tokens can be issued for: {problem}")]
    Resource {
        /// The URL.
        url: String,
        /// The problem.
        problem: String,
    },
    /// The URL of an authorization server is invalid.
    #[error("{url} is not the URL of an authorization server: {problem}")]
    Issuer {
        /// The URL.
        url: String,
        /// The problem.
        problem: String,
    },
    /// No authorization server was named.
    #[error("no authorization server is named")]
    NoIssuer,
    /// A scope is malformed, or is no scope of a resource.
    #[error("{scope:?} is not a valid scope: {problem}")]
    Scope {
        /// The scope.
        scope: String,
        /// The problem.
        problem: &'static str,
    },
    /// The token verifier could not be made.
    #[error("tokens cannot be verified: {0}")]
    Verifier(String),
}

impl ResourceServerBuilder {
    pub(super) fn new(resource: String) -> Self {
        Self {
            resource,
            issuers: Vec::new(),
            name: None,
            documentation: None,
            supported: Vec::new(),
            required: Vec::new(),
            scopes_for: None,
            hierarchy: Hierarchy::default(),
            verifier: None,
            extra_ca: Vec::new(),
            subjects: None,
        }
    }

    /// Adds an authorization server that issues tokens for this server: its issuer, exactly. At least one is needed.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuers.push(issuer.into());
        self
    }

    /// Sets the name of the server for people, in the document.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the URL of a page for authors of clients, in the document.
    pub fn documentation(mut self, url: impl Into<String>) -> Self {
        self.documentation = Some(url.into());
        self
    }

    /// Sets the scopes in the document: a client without better information requests these, so they should be the fewest that it
    /// can begin with. By default the required ones.
    pub fn scopes_supported<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.supported.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Sets the scopes that every request needs: none by default.
    pub fn required_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.required.extend(scopes.into_iter().map(|scope| scope.into().into_boxed_str()));
        self
    }

    /// Sets the scopes that an operation needs beside the required ones. Called for each request and notification of a client;
    /// one refusal names all missing scopes.
    pub fn scopes_for<I, S>(mut self, scopes: impl Fn(&Operation<'_>) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        self.scopes_for = Some(ScopesFor::new(scopes));
        self
    }

    /// Makes a broad scope imply narrow ones, and what these imply.
    pub fn implies<S: Into<String>>(
        mut self,
        broad: impl Into<String>,
        narrow: impl IntoIterator<Item = S>,
    ) -> Self {
        self.hierarchy.add(broad.into(), narrow.into_iter().map(Into::into));
        self
    }

    /// Sets the token verifier: by default a [`JwtVerifier`] for the issuers.
    pub fn verifier(mut self, verifier: impl TokenVerifier) -> Self {
        self.verifier = Some(Box::new(verifier));
        self
    }

    /// Trusts an authority beside those of the system when the keys of the issuers are fetched: PEM. May be called more than once.
    /// Not used by a verifier of one's own ([`Self::verifier`]).
    pub fn extra_ca(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.extra_ca.push(pem.into());
        self
    }

    /// Remembers the newest token of each principal there, for a [`TokenExchange`](crate::TokenExchange). By default no token is
    /// remembered.
    pub fn subject_tokens(mut self, tokens: SubjectTokens) -> Self {
        self.subjects = Some(tokens);
        self
    }

    /// Builds it. Sends nothing.
    ///
    /// # Errors
    /// When a URL is invalid (it must be `https`, or `http` on this machine, without user, query and fragment, and that of the
    /// server in lower case up to its path), no issuer is named, a scope is malformed, or an authority cannot be read.
    pub fn build(self) -> Result<ResourceServer, ResourceSetupError> {
        let Self { resource, issuers, supported, required, .. } = self;
        let (origin, path) = split(&resource)
            .map_err(|problem| ResourceSetupError::Resource { url: resource.clone(), problem })?;
        for issuer in &issuers {
            check_url(issuer)
                .map_err(|problem| ResourceSetupError::Issuer { url: issuer.clone(), problem })?;
        }
        if issuers.is_empty() {
            return Err(ResourceSetupError::NoIssuer);
        }
        let supported =
            if supported.is_empty() { required.iter().map(ToString::to_string).collect() } else { supported };
        for scope in supported.iter().map(String::as_str).chain(required.iter().map(|scope| &**scope)) {
            let problem = match scope {
                OFFLINE => "it requests a refresh token, and is not a scope of the server",
                scope if !is_scope(scope) => "it is empty or contains a space, a quote or a backslash",
                _ => continue,
            };
            return Err(ResourceSetupError::Scope { scope: scope.to_owned(), problem });
        }
        let document = document(&resource, &issuers, &supported, self.name, self.documentation);
        let verifier = match self.verifier {
            Some(verifier) => verifier,
            None => {
                let extra_ca = &self.extra_ca;
                let of = |issuer: &String| JwtVerifier::with_extra_ca(issuer, extra_ca.iter().cloned());
                let mut verifiers = issuers.iter().map(of);
                let first = verifiers.next().unwrap_or(Err(ResourceSetupError::NoIssuer))?;
                Box::new(verifiers.try_fold(first, |all, one| Ok(all.and(one?)))?)
            }
        };
        let below = if path == "/" { "" } else { path };
        let mut audiences = vec![resource.clone()];
        if below.is_empty() {
            // Without a path both forms are equivalent (RFC 3986, 6.2.3), and clients that parse URLs write the slash.
            audiences = vec![origin.clone(), format!("{origin}/")];
        }
        let mut paths = vec![PROTECTED_RESOURCE.to_owned()];
        if !below.is_empty() {
            paths.push(format!("{PROTECTED_RESOURCE}{below}"));
        }
        Ok(ResourceServer(Arc::new(Inner {
            audiences,
            metadata_url: format!("{origin}{PROTECTED_RESOURCE}{below}"),
            paths,
            document: document.to_string().into(),
            required,
            scopes_for: self.scopes_for,
            hierarchy: self.hierarchy,
            verifier,
            verified_tokens: VerifiedTokens::new(MAX_VERIFIED_TOKENS, VERIFIED_TOKEN_LIFETIME),
            subjects: self.subjects,
            resource,
        })))
    }
}

/// The document (RFC 9728, 2).
fn document(
    resource: &str,
    issuers: &[String],
    supported: &[String],
    name: Option<String>,
    documentation: Option<String>,
) -> Value {
    let mut document = Map::new();
    document.insert("resource".into(), resource.into());
    document.insert("authorization_servers".into(), issuers.into());
    if !supported.is_empty() {
        document.insert("scopes_supported".into(), supported.into());
    }
    document.insert("bearer_methods_supported".into(), ["header"].as_slice().into());
    if let Some(name) = name {
        document.insert("resource_name".into(), name.into());
    }
    if let Some(url) = documentation {
        document.insert("resource_documentation".into(), url.into());
    }
    Value::Object(document)
}

/// Splits a resource into its origin and its path.
fn split(url: &str) -> Result<(String, &str), String> {
    let origin = check_url(url)?;
    match url.strip_prefix(origin.as_str()) {
        Some(path) if path.is_empty() || path.starts_with('/') => Ok((origin, path)),
        _ => {
            let rest = url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap_or_default();
            Err(format!("write it as {origin}{rest}"))
        }
    }
}

/// Checks a URL as RFC 9728, 1.2 and RFC 8414, 2 require. Returns the origin.
fn check_url(url: &str) -> Result<String, String> {
    let origin = Origin::of(url).map_err(|error| error.to_string())?;
    if !url.is_ascii() || url.contains(['"', '<', '>']) {
        return Err("it contains a character that is not allowed in a URL".into());
    }
    if url.contains(['?', '#']) {
        return Err("a query or a fragment is not allowed".into());
    }
    if !origin.is_secure() && !origin.is_loopback() {
        return Err("tokens are sent over http only on this machine: use https".into());
    }
    Ok(origin.to_string())
}

impl fmt::Debug for ResourceServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceServerBuilder")
            .field("resource", &self.resource)
            .field("issuers", &self.issuers)
            .finish_non_exhaustive()
    }
}
