//! Requests without a token and with invented tokens, and the documents that say where clients get a token.
//!
//! Called once for each server over Streamable HTTP. A server that requires no token gets one request for each of the two
//! well-known addresses of its metadata, and nothing else. A server that requires one gets seven requests, at most two for its
//! metadata, and at most three go to each of the first two authorization servers that these name. No request contains the
//! token of the user, and nothing is registered, authorized or asked of a person.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use bytes::Bytes;
use http::Method as Verb;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use mcpjoin_proto::{Era, Kind, Method, Raw, Version};
use mcpjoin_rules::{
    Channel, HttpResponse, MAX_AUTHORIZATION_SERVERS, Probe, Revisions, base_address, named_metadata,
    named_servers, resource_metadata_addresses, server_metadata_addresses, wants_token,
};
use tokio::time::timeout;

use super::super::runs::Runs;
use super::Http;
use crate::engine::http::{Head, HttpSession, Reply, Until, pairs};
use crate::engine::message::{self, Manner};
use crate::engine::{Outcome, Session as _};
use mcpjoin_auth::internal::{FetchOptions, Fetcher};

/// An invented token.
const NO_TOKEN: &str = "mcpjoin-no-token";
/// No token at all: a token has no spaces.
const MALFORMED_TOKEN: &str = "Bearer mcpjoin no token";
/// Where 2025-03-26 has the metadata of the authorization server.
const BASE_METADATA: &str = "/.well-known/oauth-authorization-server";
/// Where it has the authorization endpoint of a server without metadata.
const DEFAULT_ENDPOINT: &str = "/authorize";

impl Runs<Http> {
    /// Looks at how the server refuses requests without a token, in requests of the version `asked`, by which the run
    /// is checked where the server speaks it. `refused`: it has refused everything, and may be of either era.
    pub(super) async fn authorization(&mut self, asked: &Version, refused: bool) {
        let spoken = match asked.era() {
            // The modern revision demands what the last legacy revision demands.
            Some(Era::Modern) if refused && self.look.legacy => Version::newest(Era::Legacy),
            _ => asked.clone(),
        };
        // The first revision has no authorization.
        if !Revisions::SINCE_SECOND.contains(&spoken) {
            return;
        }
        let manner = match Revisions::MODERN.contains(asked) {
            true => Manner::Modern(asked.clone()),
            false => Manner::Legacy,
        };
        let mut session = self.session("without a token", &spoken, manner, Channel::StreamableHttp);
        let mut refusal = None;
        if refused || self.transport.target.has_token() {
            let reply = without_token(&mut session, Probe::NoToken, |head| head).await;
            if !matches!(reply.outcome, Outcome::Result(_)) {
                refusal = session.last_response();
            } else if let Some(id) = reply.session {
                // The session is not needed.
                session.session_id = Some(id);
                let head = session.head(Verb::DELETE).anonymous();
                session.exchange(Probe::EndSession, head, None, Until::Closed, self.look.answer).await;
            }
        }
        let wanted = refusal.as_ref().is_some_and(wants_token);
        let fetcher = self.fetcher();
        let mut documents = Documents { url: self.transport.target.url.as_str(), fetcher, session };
        let mut found = Vec::new();
        if Revisions::SINCE_THIRD.contains(&spoken) {
            found = documents.of_resource(refusal.as_ref().and_then(named_metadata)).await;
        }
        if !wanted && found.is_empty() {
            return;
        }
        let issuers = found.iter().flat_map(named_servers).take(MAX_AUTHORIZATION_SERVERS);
        for issuer in issuers.collect::<Vec<_>>() {
            documents.of_server(&issuer).await;
        }
        if Revisions::BATCHING.contains(&spoken) {
            documents.of_base().await;
        }
        let mut session = documents.session;
        if refusal.is_some() {
            invented_tokens(&mut session).await;
        }
        self.trace.authorization = Some(session.close().await);
    }

    /// Fetches the documents that the server names. `None`, as where a certificate cannot be used: nothing is fetched.
    fn fetcher(&self) -> Option<Fetcher> {
        let mut options = FetchOptions::default();
        options.extra_ca = self.transport.authorities.clone();
        options.connect_timeout = self.look.answer;
        Fetcher::new(self.transport.target.url.as_str(), options).ok()
    }
}

/// Opens a session, or asks what the server is, without a token; `change` may add an invented one.
async fn without_token(session: &mut HttpSession, probe: Probe, change: impl FnOnce(Head) -> Head) -> Reply {
    let id = session.next_id();
    let state = session.state();
    let line = match &state.manner {
        Manner::Legacy => message::initialize(&id, state.run.version.as_str()),
        manner @ Manner::Modern(_) => message::request(manner, &id, Method::Discover.as_str()),
    };
    session.post_as(probe, line, |head| change(head.anonymous())).await
}

/// The same request again, with invented tokens, and the other methods.
async fn invented_tokens(session: &mut HttpSession) {
    type Change = fn(Head) -> Head;
    let changes: [(Probe, Change); 4] = [
        (Probe::NoTokenAgain, |head| head),
        (Probe::BadToken, |head| head.and("authorization", &format!("Bearer {NO_TOKEN}"))),
        (Probe::BadAuthorization, |head| head.and("authorization", MALFORMED_TOKEN)),
        (Probe::TokenInQuery, |mut head| {
            head.url.query_pairs_mut().append_pair("access_token", NO_TOKEN);
            head
        }),
    ];
    for (probe, change) in changes {
        without_token(session, probe, change).await;
    }
    for (probe, verb) in [(Probe::NoTokenGet, Verb::GET), (Probe::NoTokenDelete, Verb::DELETE)] {
        session.send_as(probe, verb, Until::Closed, Head::anonymous).await;
    }
}

/// The documents about tokens, and the session that records them.
struct Documents<'r> {
    url: &'r str,
    fetcher: Option<Fetcher>,
    session: HttpSession,
}

impl Documents<'_> {
    /// The documents about the resource: the one that the challenge names, or the first at the well-known addresses.
    async fn of_resource(&mut self, named: Option<String>) -> Vec<Bytes> {
        if let Some(named) = named {
            return self.fetch(Probe::NamedMetadata, &named).await.into_iter().collect();
        }
        for address in resource_metadata_addresses(self.url) {
            if let Some(document) = self.fetch(Probe::WellKnownMetadata, &address).await {
                return vec![document];
            }
        }
        Vec::new()
    }

    async fn of_server(&mut self, issuer: &str) {
        for address in server_metadata_addresses(issuer) {
            if self.fetch(Probe::ServerMetadata, &address).await.is_some() {
                return;
            }
        }
    }

    async fn of_base(&mut self) {
        if let Some(metadata) = base_address(self.url, BASE_METADATA)
            && self.fetch(Probe::BaseMetadata, &metadata).await.is_none()
            && let Some(endpoint) = base_address(self.url, DEFAULT_ENDPOINT)
        {
            self.fetch(Probe::DefaultEndpoint, &endpoint).await;
        }
    }

    /// Fetches a document and records it. Returns it if it is an object.
    async fn fetch(&mut self, probe: Probe, url: &str) -> Option<Bytes> {
        let fetcher = self.fetcher.as_ref()?;
        self.session.announce(probe);
        let within = self.session.state().response_timeout;
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let fetched = match timeout(within, fetcher.get(url, headers)).await {
            Ok(fetched) => fetched.map_err(|error| error.what),
            Err(_) => Err(format!("no response within {} s", within.as_secs_f64())),
        };
        match fetched {
            Ok(fetched) => {
                let head = HttpResponse { status: fetched.status.as_u16(), headers: pairs(&fetched.headers) };
                self.session.fetched(probe, url, Ok((head, fetched.body.clone())));
                let is_object =
                    || Raw::parse(fetched.body.clone()).is_ok_and(|raw| raw.kind() == Kind::Object);
                (fetched.status.is_success() && is_object()).then_some(fetched.body)
            }
            Err(problem) => {
                self.session.fetched(probe, url, Err(problem));
                None
            }
        }
    }
}
