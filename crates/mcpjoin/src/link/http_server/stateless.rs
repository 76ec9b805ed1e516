//! Legacy requests at a server that keeps no sessions: each stands for itself, as a modern one does.
//!
//! The specification leaves sessions to the server
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>). A connection
//! that a request is spoken over was opened in the client's place, by one that can do nothing, so that the server
//! asks it nothing: the answer would have no way back.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::http::classify::LegacyKind;
use mcpjoin_proto::session::Origin;
use mcpjoin_proto::{ErrorObject, Message, Method, Version};

use super::body::HttpBody;
use super::entry::Entry;
use super::exchange::{Exchange, Owner};
use super::head::Refusal;
use super::legacy::{inbound, owed};
use super::wire::{Head, Routing};
use super::{Came, POOL, Shared, gone, reply};

const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Requests that may use one connection after the other.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    version: Version,
    principal: Option<Box<str>>,
    /// Where clients without a principal are told apart.
    address: Option<IpAddr>,
}

impl Kind {
    pub(super) fn of(shared: &Shared, version: &Version, origin: &Origin) -> Self {
        let peer: Option<SocketAddr> = origin.peer.as_ref().and_then(|peer| peer.parse().ok());
        let address = peer.map(|peer| peer.ip());
        Self {
            version: version.clone(),
            principal: origin.principal.clone(),
            address: address.filter(|_| origin.principal.is_none() && shared.served.remembers_clients()),
        }
    }
}

pub(super) async fn answer(
    shared: &Arc<Shared>,
    kind: LegacyKind,
    version: Version,
    came: Came,
) -> Response<HttpBody> {
    if matches!(kind, LegacyKind::Stream | LegacyKind::End) {
        return reply::not_allowed("POST");
    }
    let account = came.account.clone();
    let Some((decoded, size, origin)) = came.into_decoded() else { return reply::bare(400) };
    let (ids, batch) = owed(&decoded);
    if ids.is_empty() && !batch {
        // There is nobody whom it could tell anything.
        return reply::bare(202);
    }
    let first = ids.first().cloned();
    let (owner, entry) = if kind == LegacyKind::Initialize {
        let entry = match shared.open(Routing::Session) {
            Ok(entry) => entry,
            Err(refused) => return *refused,
        };
        (Owner::Once(entry.clone()), entry)
    } else {
        let entry = match take(shared, &version, &origin).await {
            Ok(Some(entry)) => entry,
            Ok(None) => {
                return reply::error(500, first, ErrorObject::internal("no connection could be opened"));
            }
            Err(refused) => return *refused,
        };
        let owner = match sets(&decoded) {
            true => Owner::Once(entry.clone()),
            false => {
                let of = Kind::of(shared, &version, &origin);
                Owner::Stateless { entry: entry.clone(), of, shared: shared.clone() }
            }
        };
        (owner, entry)
    };
    entry.wire.charge_to(account);
    let holder = match entry.wire.begin(&ids, inbound(decoded, origin), size) {
        Ok(holder) => holder,
        Err(refused) => return shared.refused(refused, first),
    };
    let exchange = Exchange::new(holder, owner);
    entry.run();
    drop(entry);
    let patience = (!shared.options.json_only).then_some(shared.options.keep_alive);
    match exchange.head(patience).await {
        Head::Json { status, body } => reply::json(status, body),
        Head::Stream => reply::stream(HttpBody::stream([], Some(exchange), shared.options.keep_alive)),
        Head::Nothing | Head::Closed => reply::error(500, first, gone()),
    }
}

/// Whether it sets something that holds for requests to come. The next one may be of another client.
fn sets(decoded: &Decoded) -> bool {
    let sets = |message: &Message| match message {
        Message::Request(request) => matches!(request.method, Method::SetLevel | Method::Subscribe),
        _ => false,
    };
    match decoded {
        Decoded::Message(message) => sets(message),
        Decoded::Batch(parts) => parts.iter().flatten().any(sets),
    }
}

/// A connection on which a revision is agreed; `None` when it was not to be agreed on.
async fn take(
    shared: &Arc<Shared>,
    version: &Version,
    origin: &Arc<Origin>,
) -> Result<Option<Arc<Entry>>, Refusal> {
    let of = Kind::of(shared, version, origin);
    loop {
        match pooled(shared, &of) {
            Some(entry) if entry.wire.is_closed() => {}
            Some(entry) => return Ok(Some(entry)),
            None => {
                let entry = shared.open(Routing::Session)?;
                return Ok(agree(shared, &entry, version, origin).await.map(|()| entry));
            }
        }
    }
}

/// A connection that waits for requests of that revision and principal.
fn pooled(shared: &Shared, of: &Kind) -> Option<Arc<Entry>> {
    let mut pool = shared.legacy_pool();
    let waiting = pool.get_mut(of)?;
    let entry = waiting.pop();
    if waiting.is_empty() {
        pool.remove(of);
    }
    entry
}

/// Opens the session on a connection in the client's place.
async fn agree(shared: &Shared, entry: &Arc<Entry>, version: &Version, origin: &Arc<Origin>) -> Option<()> {
    let initialize = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{{\"protocolVersion\":\"{version}\",\
         \"capabilities\":{{}},\"clientInfo\":{{\"name\":\"\",\"version\":\"\"}}}}}}"
    );
    let initialize = decode(&Bytes::from(initialize), &shared.limits.decode).ok()?;
    let (ids, _) = owed(&initialize);
    let holder = entry.wire.begin(&ids, inbound(initialize, origin.clone()), 0).ok()?;
    let exchange = Exchange::new(holder, Owner::Once(entry.clone()));
    entry.run();
    // A server's session has answered this by itself by now; a gateway has to start a server first.
    let Head::Json { .. } = exchange.head(None).await else { return None };
    drop(exchange);
    let initialized: Decoded = decode(&Bytes::from_static(INITIALIZED), &shared.limits.decode).ok()?;
    entry.wire.tell(inbound(initialized, origin.clone()), 0).ok()?;
    entry.run();
    entry.served().version().map(|_| ())
}

/// A connection whose exchange is complete.
pub(super) fn give_back(shared: &Shared, entry: &Arc<Entry>, of: &Kind) {
    let mut pool = shared.legacy_pool();
    let room = pool.values().map(Vec::len).sum::<usize>() < POOL;
    if room && !shared.ending.load(std::sync::atomic::Ordering::Acquire) {
        pool.entry(of.clone()).or_default().push(entry.clone());
        return;
    }
    drop(pool);
    entry.stop();
}
