//! Sessions that only one of several processes can serve: names their process in their ids, and decides what becomes of their
//! requests at another process. `passing` sends them on.
//!
//! A session that is not stored, because a child process belongs to it for example, gets an id that contains the address of its
//! process, encrypted. The process that a request of it arrives at by chance asks `Replicas::home` where to pass it. The request
//! is passed with a seal that names its client, which [`Replicas::passed`] checks at the other end. A request is passed once at
//! most, so there are no loops.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::Mutex;
use http::HeaderName;
use http::request::Parts;
use mcpjoin_proto::Version;
use mcpjoin_proto::session::Origin;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::passing::{Sender, session_name};
use crate::seal::{SealingKeys, owner_of, unix_time};

/// The header with the seal of a passed request.
pub(super) const PASSED: HeaderName = HeaderName::from_static("mcpjoin-passed");

/// How long a seal is accepted: the clocks of two hosts may differ by a minute.
const SEAL_LIFETIME: Duration = Duration::from_secs(120);

/// How long a process may be unreachable before its sessions have ended. Until then clients are asked to try again.
const GONE_AFTER: Duration = Duration::from_secs(5);

/// Unreachable processes that are remembered. Only ids that were sealed with the shared keys add one.
const MAX_UNREACHABLE: usize = 1_000;

/// Bytes of the longest address of a process.
const MAX_URL_BYTES: usize = 512;

const ID_PURPOSE: &str = "session of one process";
const SEAL_PURPOSE: &str = "passed request";
const MARK_PURPOSE: &str = "text for one process";

/// Separates a text from the mark of its process. No seal contains it.
const MARK: char = '.';

/// Tells one run of a process from every other.
pub(super) type ProcessId = [u8; 16];

/// The processes behind one balancer, each of which has the same keys and is reached by the others at an address of its own.
///
/// With it, a balancer needs no stickiness for legacy sessions that only one process can serve: any process passes their requests to
/// that one by HTTP, and its responses back. Sessions of a [session store](super::HttpOptions::session_store) need none of it.
/// Given to [`HttpOptions::replicas`](super::HttpOptions::replicas); cheap to clone, and each clone is the same process.
///
/// The process that has the session sees the client's address and principal. Where there is an
/// [`Admission`](super::Admission), both processes ask it. A session whose process has ended answers 404, so that its client
/// initializes again; so does one whose process cannot be reached for 5 s. Until then its requests are refused with 503. A request
/// that was sent is never sent again: if its process ends meanwhile, it ends with an error.
#[derive(Clone)]
pub struct Replicas(Arc<Inner>);

struct Inner {
    /// Where the others reach this process, without a slash at the end.
    url: Box<str>,
    process: ProcessId,
    keys: SealingKeys,
    sender: Box<dyn Sender>,
    /// Since when processes are not reached.
    unreachable: Mutex<HashMap<ProcessId, Instant>>,
}

/// The address is not one at which other processes can reach this one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReplicasError(Box<str>);

/// Another process that has a session.
pub(super) struct Replica {
    pub(super) process: ProcessId,
    /// Where it is reached.
    pub(super) url: Box<str>,
    /// The revision of the session; `None` for 2024-11-05 over HTTP+SSE.
    pub(super) version: Option<Version>,
}

/// The seal of a passed request is not one of ours, is for another session, or has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the seal of a passed request is not valid")]
pub(super) struct SealError;

/// The client of a passed request, as the process that has passed it knows it.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Passed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<Box<str>>,
}

impl Replicas {
    /// The address of this process for the others, `http://host:port` or `https://host:port`, and the keys that all share. If a
    /// router removes the beginning of the path before a request reaches the service, it is part of the address. `https://` trusts
    /// the authorities of the system and `authorities`: certificates in PEM.
    ///
    /// The requests contain the tokens of clients. Use `https://`, or a private network.
    ///
    /// # Errors
    /// When the text has another form or more than 512 bytes, when a certificate cannot be read, or when the system gives no random
    /// numbers.
    #[cfg(feature = "http-client")]
    pub fn new(url: &str, keys: SealingKeys, authorities: &[Vec<u8>]) -> Result<Self, ReplicasError> {
        let url = address(url)?;
        let sender =
            super::passing::client(authorities).map_err(|error| ReplicasError(error.to_string().into()))?;
        Self::through(url, keys, sender)
    }

    #[cfg_attr(not(any(test, feature = "http-client")), allow(dead_code, reason = "`new` needs the client"))]
    pub(super) fn through(
        url: Box<str>,
        keys: SealingKeys,
        sender: impl Sender + 'static,
    ) -> Result<Self, ReplicasError> {
        let mut process = ProcessId::default();
        getrandom::fill(&mut process)
            .map_err(|_| ReplicasError("the system gives no random numbers".into()))?;
        let (sender, unreachable) = (Box::new(sender), Mutex::default());
        Ok(Self(Arc::new(Inner { url, process, keys, sender, unreachable })))
    }

    pub(super) fn sender(&self) -> &dyn Sender {
        &*self.0.sender
    }

    /// Makes the id of a session of this process. `None` if the system gives no random numbers.
    pub(super) fn session_id(&self, principal: Option<&str>, version: Option<&Version>) -> Option<String> {
        let version = version.map_or("", Version::as_str);
        let length = u8::try_from(version.len()).ok()?;
        let content = [&self.0.process[..], &[length], version.as_bytes(), self.0.url.as_bytes()].concat();
        self.0.keys.seal(ID_PURPOSE, &owner_of(principal), &content).ok()
    }

    /// Returns the other process that has a session which is not in the table of this one.
    pub(super) fn home(&self, id: &str, principal: Option<&str>) -> Option<Replica> {
        // Where it was this process, or an earlier one at this address, the session has ended.
        self.named(id, principal).and_then(|replica| self.other(replica))
    }

    /// Whether an id is one of a session of one process, this one included. No store has such a session.
    pub(super) fn is_session_id(&self, id: &str, principal: Option<&str>) -> bool {
        self.named(id, principal).is_some()
    }

    /// Returns the process that an id names.
    fn named(&self, id: &str, principal: Option<&str>) -> Option<Replica> {
        let content = self.0.keys.open(ID_PURPOSE, &owner_of(principal), id).ok()?;
        let (process, rest) = content.split_first_chunk()?;
        let ([length], rest) = rest.split_first_chunk()?;
        let (version, url) = rest.split_at_checked((*length).into())?;
        let [version, url] = [version, url].map(std::str::from_utf8);
        let version = version.ok().filter(|version| !version.is_empty()).map(Version::parse);
        Some(Replica { process: *process, url: url.ok()?.into(), version })
    }

    /// Adds to a text that a client will send back, such as a `requestState` or the id of a question, that it is for this process.
    /// A request with it that arrives at another process is passed here. Without random numbers the text stays as it is.
    #[doc(hidden)]
    #[must_use]
    pub fn mark(&self, text: &str) -> String {
        let content = [&self.0.process[..], self.0.url.as_bytes()].concat();
        match self.0.keys.seal(MARK_PURPOSE, b"", &content) {
            Ok(mark) => format!("{text}{MARK}{mark}"),
            Err(_) => text.to_owned(),
        }
    }

    /// Removes what [`mark`](Self::mark) has added here or in another process with these keys. A text without a mark stays as it is.
    #[doc(hidden)]
    #[must_use]
    pub fn unmarked<'a>(&self, text: &'a str) -> &'a str {
        self.marker(text).map_or(text, |(text, _)| text)
    }

    /// Returns the other process that has marked a text.
    pub(super) fn marked_by(&self, text: &str) -> Option<Replica> {
        self.marker(text).and_then(|(_, replica)| self.other(replica))
    }

    /// Returns a text without its mark, and the process that has marked it.
    fn marker<'a>(&self, text: &'a str) -> Option<(&'a str, Replica)> {
        let (text, mark) = text.rsplit_once(MARK)?;
        let content = self.0.keys.open(MARK_PURPOSE, b"", mark).ok()?;
        let (process, url) = content.split_first_chunk()?;
        let url = std::str::from_utf8(url).ok()?.into();
        Some((text, Replica { process: *process, url, version: None }))
    }

    /// A process, unless it is this one or an earlier one at this address.
    fn other(&self, replica: Replica) -> Option<Replica> {
        (replica.process != self.0.process && replica.url != self.0.url).then_some(replica)
    }

    /// Makes the seal of a request that is passed. `named`: the id of its session, or nothing.
    pub(super) fn seal(&self, named: &str, origin: &Origin) -> Option<String> {
        let Origin { peer, principal, .. } = origin.clone();
        let passed = serde_json::to_vec(&Passed { peer, principal }).ok()?;
        let expiry = (unix_time() + SEAL_LIFETIME).as_secs().to_be_bytes();
        self.0.keys.seal(SEAL_PURPOSE, named.as_bytes(), &[&expiry[..], &passed].concat()).ok()
    }

    /// Checks the seal of a request that another process has passed. `Ok(None)` if it has none.
    pub(super) fn passed(&self, parts: &Parts) -> Result<Option<Passed>, SealError> {
        let Some(seal) = parts.headers.get(PASSED) else { return Ok(None) };
        let opened = || {
            let name = session_name(parts).unwrap_or_default().as_bytes();
            let content = self.0.keys.open(SEAL_PURPOSE, name, seal.to_str().ok()?).ok()?;
            let (expiry, passed) = content.split_first_chunk()?;
            let is_current = unix_time().as_secs() < u64::from_be_bytes(*expiry);
            serde_json::from_slice(passed).ok().filter(|_| is_current)
        };
        opened().map(Some).ok_or(SealError)
    }

    /// A process was reached.
    pub(super) fn reached(&self, process: &ProcessId) {
        self.0.unreachable.lock().remove(process);
    }

    /// A process was not reached. Returns whether its sessions are to be regarded as ended.
    pub(super) fn not_reached(&self, process: &ProcessId) -> bool {
        let mut unreachable = self.0.unreachable.lock();
        if unreachable.len() >= MAX_UNREACHABLE && !unreachable.contains_key(process) {
            let oldest = unreachable.iter().min_by_key(|(_, since)| **since).map(|(process, _)| *process);
            oldest.and_then(|oldest| unreachable.remove(&oldest));
        }
        unreachable.entry(*process).or_insert_with(Instant::now).elapsed() >= GONE_AFTER
    }
}

/// Checks an address, and removes the slash at its end.
#[cfg(feature = "http-client")]
fn address(text: &str) -> Result<Box<str>, ReplicasError> {
    let bad = |why: &str| {
        ReplicasError(format!("other processes cannot reach this process at that address: {why}").into())
    };
    let url = url::Url::parse(text).map_err(|error| bad(&error.to_string()))?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_plain {
        return Err(bad("it has another form than http://host:port"));
    }
    let is_for_listening = match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_unspecified(),
        Some(url::Host::Ipv6(address)) => address.is_unspecified(),
        _ => false,
    };
    if is_for_listening || url.port_or_known_default() == Some(0) {
        return Err(bad("no process can connect to it"));
    }
    let address = url.as_str().trim_end_matches('/');
    match address.len() {
        0..=MAX_URL_BYTES => Ok(address.into()),
        _ => Err(bad("it has more than 512 bytes")),
    }
}

impl fmt::Debug for Replicas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replicas").field("url", &self.0.url).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::passing::Sending;
    use super::*;
    use crate::seal::StateKey;

    /// Never sends.
    struct Nowhere;

    impl Sender for Nowhere {
        fn send(&self, _: http::Request<bytes::Bytes>) -> Sending<'_> {
            Box::pin(std::future::pending())
        }
    }

    fn replicas(url: &str, key: u8) -> Replicas {
        let keys = SealingKeys::new(StateKey::from_bytes([key; 32]), []);
        Replicas::through(url.into(), keys, Nowhere).expect("random numbers")
    }

    #[test]
    fn an_id_names_its_process_for_one_principal() {
        let (one, other) = (replicas("http://one", 1), replicas("http://other", 1));
        let id = one.session_id(Some("ada"), Some(&Version::V2025_11_25)).expect("random numbers");
        let home = other.home(&id, Some("ada")).expect("a session of the first");
        assert_eq!(
            (&*home.url, home.process, home.version),
            ("http://one", one.0.process, Some(Version::V2025_11_25))
        );
        assert!(other.home(&id, None).is_none() && other.home(&id, Some("")).is_none());
        assert!(replicas("http://other", 2).home(&id, Some("ada")).is_none());
        assert!(one.is_session_id(&id, Some("ada")) && !one.is_session_id(&id, None));
        // The process itself, and one that was started again at its address, do not have it.
        assert!(
            one.home(&id, Some("ada")).is_none()
                && replicas("http://one", 1).home(&id, Some("ada")).is_none()
        );
        let of_2024 = one.session_id(None, None).expect("random numbers");
        assert_eq!(other.home(&of_2024, None).map(|home| home.version), Some(None));
        for changed in [&id[1..], &id[..id.len() - 1], &format!("{id}A"), ""] {
            assert!(other.home(changed, Some("ada")).is_none(), "{changed}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_seal_is_for_one_session_and_expires() {
        let (one, other) = (replicas("http://one", 1), replicas("http://other", 1));
        let origin =
            Origin { peer: Some("10.0.0.9:1".into()), principal: Some("ada".into()), ..Origin::new("http") };
        let seal = other.seal("session", &origin).expect("random numbers");
        let parts = |session: &str, seal: &str| {
            let request = http::Request::builder().header("mcp-session-id", session).header(PASSED, seal);
            request.body(()).expect("a request").into_parts().0
        };
        let client = Passed { peer: origin.peer.clone(), principal: origin.principal.clone() };
        assert_eq!(one.passed(&parts("session", &seal)), Ok(Some(client)));
        assert_eq!(one.passed(&http::Request::new(()).into_parts().0), Ok(None));
        for (session, seal) in [("another", &*seal), ("session", &seal[1..]), ("session", "")] {
            assert_eq!(one.passed(&parts(session, seal)), Err(SealError), "{session}");
        }
        tokio::time::advance(SEAL_LIFETIME + Duration::from_secs(1)).await;
        assert_eq!(one.passed(&parts("session", &seal)), Err(SealError));
    }

    #[tokio::test(start_paused = true)]
    async fn the_sessions_of_a_process_that_is_not_reached_for_5_s_have_ended() {
        let replicas = replicas("http://one", 1);
        assert!(!replicas.not_reached(&[1; 16]));
        tokio::time::advance(GONE_AFTER - Duration::from_millis(1)).await;
        assert!(!replicas.not_reached(&[1; 16]) && !replicas.not_reached(&[2; 16]));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(replicas.not_reached(&[1; 16]) && !replicas.not_reached(&[2; 16]));
        replicas.reached(&[1; 16]);
        assert!(!replicas.not_reached(&[1; 16]));
    }

    #[test]
    fn the_number_of_remembered_unreachable_processes_is_limited() {
        let replicas = replicas("http://one", 1);
        for number in 0..2 * MAX_UNREACHABLE as u128 {
            replicas.not_reached(&number.to_be_bytes());
        }
        assert_eq!(replicas.0.unreachable.lock().len(), MAX_UNREACHABLE);
    }
}
