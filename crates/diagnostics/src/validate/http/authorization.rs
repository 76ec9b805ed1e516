//! What is asked without a token, and with one that nobody has given; and the documents that say where one is to be had.
//!
//! Called by the runs, once for each server over Streamable HTTP. Of a server that lets in whoever comes, no more is asked
//! than the two well-known addresses of its metadata. Of one that wants a token: seven requests to it, at most two to
//! where its metadata stand, and at most three to each of the first two authorization servers that these name. What lets
//! us in is sent with none of them, and nothing is registered, authorized or asked of a person.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use bytes::Bytes;
use http::Method as Verb;
use http::header::{ACCEPT, HeaderMap, HeaderValue};
use mcpjoin_proto::{Era, Kind, Method, Raw, Version};
use mcpjoin_rules::{
    Channel, HttpResponse, MOST_SERVERS, Probe, Revisions, What, base_address, named_metadata, named_servers,
    resource_metadata_addresses, server_metadata_addresses, wants_token,
};
use tokio::time::timeout;

use super::super::live::Opened;
use super::super::probes::{self, Manner};
use super::live::{Live, Reply, Until};
use super::runs::Runs;
use super::wire::Head;
use mcpjoin_auth::internal::{FetchOptions, Fetcher};

/// A token that nobody has given.
const NO_TOKEN: &str = "mcpjoin-no-token";
/// What is no token at all: a token has no spaces.
const MALFORMED: &str = "Bearer mcpjoin no token";
/// Where 2025-03-26 has the metadata of the authorization server.
const BASE_METADATA: &str = "/.well-known/oauth-authorization-server";
/// Where it has the authorization endpoint of a server without them.
const DEFAULT_ENDPOINT: &str = "/authorize";

impl Runs {
    /// Looks at how the server keeps out whoever has no token, in requests of that version. It is judged by that one, too,
    /// where it speaks it. `kept_out`: it has let us do nothing, and may be of either era.
    pub(super) async fn authorization(&mut self, asked: &Version, kept_out: bool) {
        let spoken = match asked.era() {
            // What the last legacy revision demands the modern one demands as well.
            Some(Era::Modern) if kept_out && self.of.legacy => Version::newest(Era::Legacy),
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
        let wire = self.wire.clone();
        let live = self.start(&wire, "without a token", &spoken, Channel::StreamableHttp);
        let mut live = live.in_manner(manner.clone());
        let mut refused = None;
        if kept_out || wire.has_token() {
            let reply = self.without_token(&mut live, Probe::NoToken, &manner, |head| head).await;
            if !matches!(reply.opened, Opened::Result(_)) {
                refused = response(&live);
            } else if let Some(session) = reply.session {
                // Nobody needs it.
                live.session = Some(session);
                let head = live.head(Verb::DELETE).strange();
                live.exchange(Probe::EndSession, head, None, Until::Closed, self.answer()).await;
            }
        }
        let wanted = refused.as_ref().is_some_and(wants_token);
        let named = refused.as_ref().and_then(named_metadata);
        let fetcher = self.fetcher();
        let mut documents = Vec::new();
        if let Some(fetcher) = fetcher.as_ref().filter(|_| Revisions::SINCE_THIRD.contains(&spoken)) {
            documents = self.resource_metadata(&mut live, fetcher, named).await;
        }
        if !wanted && documents.is_empty() {
            return;
        }
        if let Some(fetcher) = &fetcher {
            let issuers = documents.iter().flat_map(named_servers).take(MOST_SERVERS);
            for issuer in issuers.collect::<Vec<_>>() {
                self.server_metadata(&mut live, fetcher, &issuer).await;
            }
            if Revisions::BATCHING.contains(&spoken) {
                self.base_metadata(&mut live, fetcher).await;
            }
        }
        if refused.is_some() {
            self.strange_tokens(&mut live, &manner).await;
        }
        self.trace.authorization = Some(live.close().await);
    }

    /// Who fetches what the server names. Without one, as where a certificate cannot be used, nothing is fetched.
    fn fetcher(&self) -> Option<Fetcher> {
        let mut options = FetchOptions::default();
        options.extra_ca = self.authorities.clone();
        options.connect_timeout = self.answer();
        Fetcher::new(self.wire.url.as_str(), options).ok()
    }

    /// Opens a session, or asks what the server is, as somebody without a token; `change` may give one.
    async fn without_token(
        &mut self,
        live: &mut Live<'_>,
        probe: Probe,
        manner: &Manner,
        change: impl FnOnce(Head) -> Head,
    ) -> Reply {
        self.tell(live, probe);
        let (id, version) = (live.id(), live.run.version.clone());
        let line = match manner {
            Manner::Legacy => probes::initialize(&id, version.as_str()),
            Manner::Modern(_) => probes::request(manner, &id, Method::Discover.as_str()),
        };
        let head = change(live.post(&line).strange());
        live.exchange(probe, head, Some(&line), Until::Ended, self.answer()).await
    }

    /// The same request again, with what is no token, and the other methods.
    async fn strange_tokens(&mut self, live: &mut Live<'_>, manner: &Manner) {
        let token = format!("Bearer {NO_TOKEN}");
        self.without_token(live, Probe::NoTokenAgain, manner, |head| head).await;
        self.without_token(live, Probe::BadToken, manner, |head| head.and("authorization", &token)).await;
        self.without_token(live, Probe::BadAuthorization, manner, |head| {
            head.and("authorization", MALFORMED)
        })
        .await;
        let in_query = |mut head: Head| {
            head.url.query_pairs_mut().append_pair("access_token", NO_TOKEN);
            head
        };
        self.without_token(live, Probe::TokenInQuery, manner, in_query).await;
        for (probe, verb) in [(Probe::NoTokenGet, Verb::GET), (Probe::NoTokenDelete, Verb::DELETE)] {
            self.tell(live, probe);
            let head = live.head(verb).strange();
            live.exchange(probe, head, None, Until::Closed, self.answer()).await;
        }
    }

    /// The documents about the resource: the one that the challenge names, or those at the well-known addresses, up to
    /// the first that is one.
    async fn resource_metadata(
        &mut self,
        live: &mut Live<'_>,
        fetcher: &Fetcher,
        named: Option<String>,
    ) -> Vec<Bytes> {
        if let Some(named) = named {
            return self.fetch(live, fetcher, Probe::NamedMetadata, &named).await.into_iter().collect();
        }
        for address in resource_metadata_addresses(self.wire.url.as_str()) {
            if let Some(document) = self.fetch(live, fetcher, Probe::WellKnownMetadata, &address).await {
                return vec![document];
            }
        }
        Vec::new()
    }

    async fn server_metadata(&mut self, live: &mut Live<'_>, fetcher: &Fetcher, issuer: &str) {
        for address in server_metadata_addresses(issuer) {
            if self.fetch(live, fetcher, Probe::ServerMetadata, &address).await.is_some() {
                return;
            }
        }
    }

    async fn base_metadata(&mut self, live: &mut Live<'_>, fetcher: &Fetcher) {
        let at = |path| base_address(self.wire.url.as_str(), path);
        let (metadata, endpoint) = (at(BASE_METADATA), at(DEFAULT_ENDPOINT));
        if let Some(metadata) = metadata
            && self.fetch(live, fetcher, Probe::BaseMetadata, &metadata).await.is_none()
            && let Some(endpoint) = endpoint
        {
            self.fetch(live, fetcher, Probe::DefaultEndpoint, &endpoint).await;
        }
    }

    /// Fetches a document, and notes what came; gives it where it is an object.
    async fn fetch(
        &mut self,
        live: &mut Live<'_>,
        fetcher: &Fetcher,
        probe: Probe,
        url: &str,
    ) -> Option<Bytes> {
        self.tell(live, probe);
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let fetched = match timeout(self.answer(), fetcher.get(url, headers)).await {
            Ok(Ok(fetched)) => fetched,
            Ok(Err(error)) => {
                live.fetched(probe, url, Err(error.what));
                return None;
            }
            Err(_) => {
                let problem = format!("nothing came within {} s", self.answer().as_secs_f64());
                live.fetched(probe, url, Err(problem));
                return None;
            }
        };
        let headers = fetched.headers.iter();
        let headers =
            headers.map(|(name, value)| (name.as_str().into(), Bytes::copy_from_slice(value.as_bytes())));
        let head = HttpResponse { status: fetched.status.as_u16(), headers: headers.collect() };
        live.fetched(probe, url, Ok((head, fetched.body.clone())));
        let is_object = || Raw::parse(fetched.body.clone()).is_ok_and(|raw| raw.kind() == Kind::Object);
        (fetched.status.is_success() && is_object()).then_some(fetched.body)
    }
}

/// The head of the response that came last.
fn response(live: &Live<'_>) -> Option<HttpResponse> {
    live.run.events.iter().rev().find_map(|event| match &event.what {
        What::Responded(response) => Some(response.clone()),
        _ => None,
    })
}
