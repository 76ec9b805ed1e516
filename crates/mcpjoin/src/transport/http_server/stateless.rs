//! Legacy requests at a server that keeps no sessions: each request is independent, as in the modern era.
//!
//! The specification leaves sessions to the server
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>). The connection for such
//! a request was initialized here on behalf of the client, with no capabilities, so the server sends it no requests: their
//! responses could not be routed back.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use mcpjoin_proto::decode::{Decoded, decode};
use mcpjoin_proto::http::classify::LegacyKind;
use mcpjoin_proto::session::Origin;
use mcpjoin_proto::{ErrorObject, Message, Method, Version};

use super::body::HttpBody;
use super::entry::Entry;
use super::exchange::{Exchange, Owner};
use super::head::{Answer, Refusal};
use super::legacy::{inbound, pending_requests};
use super::wire::{Head, Routing};
use super::{MAX_POOLED, Received, Shared, gone, reply};

const INITIALIZED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// Requests of one kind may use one connection one after the other.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Kind {
    version: Version,
    principal: Option<Box<str>>,
    /// Distinguishes clients without a principal.
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
    received: Received,
) -> Answer {
    if matches!(kind, LegacyKind::Stream | LegacyKind::End) {
        return Err(reply::not_allowed("POST").into());
    }
    let account = received.account.clone();
    let (decoded, size, origin) = received.into_decoded()?;
    let (ids, batch) = pending_requests(&decoded);
    if ids.is_empty() && !batch {
        // No later request could be affected by it.
        return Ok(reply::bare(202));
    }
    let first = ids.first().cloned();
    let (owner, entry) = if kind == LegacyKind::Initialize {
        let entry = shared.open(Routing::Session)?;
        (Owner::Once(entry.clone()), entry)
    } else {
        let entry = take(shared, &version, &origin).await?.ok_or_else(|| {
            let error = ErrorObject::internal("no connection could be opened");
            reply::error(500, first.clone(), error)
        })?;
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
    let reader = entry.wire.begin(&ids, inbound(decoded, origin), size);
    let reader = reader.map_err(|refused| shared.refused(refused, first.clone()))?;
    let exchange = Exchange::new(reader, owner);
    entry.run();
    drop(entry);
    let timeout = (!shared.options.json_only).then_some(shared.options.keep_alive);
    Ok(match exchange.head(timeout).await {
        Head::Json { status, body } => reply::json(status, body),
        Head::Stream => reply::stream(HttpBody::stream([], Some(exchange), shared.options.keep_alive)),
        Head::Nothing | Head::Closed | Head::Lost => reply::error(500, first, gone()),
    })
}

/// Whether a message changes state that would affect later requests, which may be another client's.
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

/// A connection that is initialized; `None` when initialization failed.
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

/// An idle connection for requests of that revision and principal.
fn pooled(shared: &Shared, of: &Kind) -> Option<Arc<Entry>> {
    let mut pool = shared.legacy_pool.lock();
    let newest = pool.iter().rposition(|(known, _)| known == of)?;
    pool.remove(newest).map(|(_, entry)| entry)
}

/// Initializes a connection on behalf of the client.
async fn agree(shared: &Shared, entry: &Arc<Entry>, version: &Version, origin: &Arc<Origin>) -> Option<()> {
    let initialize = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{{\"protocolVersion\":\"{version}\",\
         \"capabilities\":{{}},\"clientInfo\":{{\"name\":\"\",\"version\":\"\"}}}}}}"
    );
    let initialize = decode(&Bytes::from(initialize), &shared.limits.decode).ok()?;
    let (ids, _) = pending_requests(&initialize);
    let reader = entry.wire.begin(&ids, inbound(initialize, origin.clone()), 0).ok()?;
    let exchange = Exchange::new(reader, Owner::Once(entry.clone()));
    entry.run();
    // A server's session has replied by itself by now; a gateway has to start a server first.
    let Head::Json { .. } = exchange.head(None).await else { return None };
    drop(exchange);
    let initialized: Decoded = decode(&Bytes::from_static(INITIALIZED), &shared.limits.decode).ok()?;
    entry.wire.deliver(inbound(initialized, origin.clone()), 0).ok()?;
    entry.run();
    entry.served().version().map(|_| ())
}

/// Returns a connection to the pool once its exchange is complete. If there are too many, the one that was not used for the
/// longest time ends: its client may never come back.
pub(super) fn give_back(shared: &Shared, entry: &Arc<Entry>, of: &Kind) {
    let mut pool = shared.legacy_pool.lock();
    if shared.ending.load(std::sync::atomic::Ordering::Acquire) {
        drop(pool);
        return entry.stop();
    }
    pool.push_back((of.clone(), entry.clone()));
    let oldest = if pool.len() > MAX_POOLED { pool.pop_front() } else { None };
    drop(pool);
    if let Some((_, oldest)) = oldest {
        oldest.stop();
    }
}
