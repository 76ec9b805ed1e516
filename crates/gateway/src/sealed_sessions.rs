//! Sessions whose ids contain everything that another process needs to go on with them: a session store without a store.
//!
//! An id is `base64url(version | key id | nonce | XChaCha20-Poly1305(expiry | record))`, sealed for the principal of its client.
//! The key is derived from the keys that the processes share. An operator gives it to the HTTP service; this module knows only
//! how the states look that `legacy` and `joined::legacy` make, to say which target makes an id too long.

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin::internal::{NotOpened, WarningRate, owner_of, unix_time};
use mcpjoin::server::SealingKeys;
use mcpjoin::transport::{SessionRecord, SessionStore, SessionStoreError, Stored};
use mcpjoin_proto::Raw;

/// How long an id is accepted. The id does not change while the session is used, so this is the longest life of a session. Its
/// client initializes again then.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Bytes of the longest id. Proxies and servers accept heads of 8 KiB at least.
const MAX_ID_BYTES: usize = 4 * 1024;

/// Bytes of the longest id of another store. A sealed one is longer.
const MAX_OTHER_ID_BYTES: usize = 64;

/// The purpose for which ids are sealed.
const PURPOSE: &str = "legacy session";

/// Bytes of the expiry: seconds since 1970.
const EXPIRY_BYTES: usize = size_of::<u64>();

/// Seals legacy sessions of a gateway into their ids, so that every process with the same keys serves them.
///
/// Sessions can be sealed if all their targets are servers over HTTP. Others get an ordinary id, and only the process that has
/// opened them serves them; so do sessions whose id would have more than 4 KiB, which is logged.
///
/// An id is accepted for 24 hours, and only for the principal that has opened the session. After a client has ended the session,
/// its id leads to sessions that the targets do not know any more, so the client gets 404.
///
/// ```
/// use mcpjoin::server::{SealingKeys, StateKey};
/// use mcpjoin::transport::HttpOptions;
/// use mcpjoin_gateway::SealedSessions;
///
/// # let secret = [7; 32];
/// let keys = SealingKeys::new(StateKey::from_bytes(secret), []);
/// let options = HttpOptions::new().session_store(SealedSessions::new(keys));
/// # drop(options);
/// ```
pub struct SealedSessions {
    keys: SealingKeys,
    /// Where sessions are stored that cannot be sealed.
    beyond: Option<Arc<dyn SessionStore>>,
    warnings: WarningRate<Problem>,
}

/// A kind of problem, logged once a minute at most.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Problem {
    TooLong,
    NotOpened(NotOpened),
    Expired,
}

impl SealedSessions {
    /// Seals with these keys.
    #[must_use]
    pub fn new(keys: SealingKeys) -> Self {
        Self { keys, beyond: None, warnings: WarningRate::default() }
    }

    /// Gives sessions that cannot be sealed to this store, for example because their ids would be too long. Its ids have at most 64
    /// bytes.
    #[must_use]
    pub fn beyond(mut self, store: impl SessionStore) -> Self {
        self.beyond = Some(Arc::new(store));
        self
    }

    /// The other store, if it has this id.
    fn other(&self, id: &str) -> Option<&dyn SessionStore> {
        self.beyond.as_deref().filter(|_| id.len() <= MAX_OTHER_ID_BYTES)
    }

    fn seal(&self, record: &SessionRecord) -> Result<Option<String>, SessionStoreError> {
        if record.state.is_none() {
            return Ok(None);
        }
        let failed = |why: String| SessionStoreError(why.into());
        let mut sealed = record.clone();
        // The principal need not be in the text, because it is sealed for the principal.
        sealed.principal = None;
        let sealed = Raw::from_value(&sealed).map_err(|error| failed(error.to_string()))?;
        let expiry = (unix_time() + LIFETIME).as_secs();
        let content = [&expiry.to_be_bytes()[..], sealed.as_bytes()].concat();
        let id = self.keys.seal(PURPOSE, &owner_of(record.principal.as_deref()), &content);
        let id = id.map_err(|error| failed(error.message))?;
        if id.len() > MAX_ID_BYTES {
            if self.beyond.is_none()
                && let Some(left_out) = self.warnings.due(Problem::TooLong)
            {
                let (bytes, limit, longest) = (id.len(), MAX_ID_BYTES, longest(record));
                tracing::warn!(target: "mcpjoin", bytes, limit, longest, left_out, "a session does not fit into its id, so only this process serves it");
            }
            return Ok(None);
        }
        Ok(Some(id))
    }

    fn unseal(&self, id: &str, principal: Option<&str>) -> Option<SessionRecord> {
        let content = match self.keys.open(PURPOSE, &owner_of(principal), id) {
            Ok(content) => content,
            Err(why) => {
                if let Some(left_out) = self.warnings.due(Problem::NotOpened(why)) {
                    tracing::warn!(target: "mcpjoin", %why, left_out, "the id of a session was refused");
                }
                return None;
            }
        };
        let (expiry, record) = content.split_first_chunk::<EXPIRY_BYTES>()?;
        if unix_time().as_secs() >= u64::from_be_bytes(*expiry) {
            if let Some(left_out) = self.warnings.due(Problem::Expired) {
                tracing::info!(target: "mcpjoin", left_out, "the id of a session has expired");
            }
            return None;
        }
        let mut record: SessionRecord = Raw::parse(record.to_vec()).ok()?.decode().ok()?;
        record.principal = principal.map(Into::into);
        Some(record)
    }
}

impl SessionStore for SealedSessions {
    fn create<'a>(&'a self, record: &'a SessionRecord) -> Stored<'a, Option<String>> {
        match (self.seal(record), &self.beyond) {
            (Ok(None), Some(beyond)) => beyond.create(record),
            (sealed, _) => Box::pin(ready(sealed)),
        }
    }

    fn open<'a>(&'a self, id: &'a str, principal: Option<&'a str>) -> Stored<'a, Option<SessionRecord>> {
        match self.other(id) {
            Some(other) => other.open(id, principal),
            None => Box::pin(ready(Ok(self.unseal(id, principal)))),
        }
    }

    fn touch(&self, id: &str) {
        if let Some(other) = self.other(id) {
            other.touch(id);
        }
    }

    /// The targets forget a sealed session, which is enough.
    fn end<'a>(&'a self, id: &'a str) -> Stored<'a, ()> {
        match self.other(id) {
            Some(other) => other.end(id),
            None => Box::pin(ready(Ok(()))),
        }
    }
}

impl fmt::Debug for SealedSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedSessions").field("beyond", &self.beyond.is_some()).finish_non_exhaustive()
    }
}

/// Names the largest part of a record, and its size: a target, or what the client has sent.
fn longest(record: &SessionRecord) -> String {
    let targets = record.state.as_ref().and_then(|state| state.member("targets"));
    let targets: Vec<Raw> = targets.and_then(|targets| targets.decode().ok()).unwrap_or_default();
    let single = record.state.iter().filter(|state| state.member("target").is_some());
    let sizes = targets.iter().chain(single).filter_map(|target| {
        let name = target.member("target")?;
        Some((target.len(), format!("the target {}", name.to_string_value()?)))
    });
    let client = (record.initialize.len(), "the `initialize` of the client".to_owned());
    let longest = sizes.chain([client]).max_by_key(|(bytes, _)| *bytes);
    longest.map_or_else(String::new, |(bytes, name)| format!("{name} with {bytes} bytes"))
}

#[cfg(test)]
mod tests {
    use mcpjoin::server::StateKey;
    use mcpjoin_test_support::events::{Told, hearing};
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    fn keys(number: u8) -> SealingKeys {
        SealingKeys::new(StateKey::from_bytes([number; 32]), [])
    }

    fn record(client: usize, target: usize) -> SessionRecord {
        let mut record = SessionRecord::new(Raw::string(&"c".repeat(client)));
        let target = format!(r#"{{"targets":[{{"target":"far","session":"{}"}}]}}"#, "t".repeat(target));
        record.state = Raw::parse(target).ok();
        record.principal = Some("ada".into());
        record
    }

    #[tokio::test(start_paused = true)]
    async fn an_id_is_for_one_principal_one_version_one_day_and_the_keys_that_open_it() {
        let sessions = SealedSessions::new(keys(1));
        let record = record(10, 10);
        let id = sessions.seal(&record).expect("random numbers").expect("it fits");
        assert_eq!(sessions.unseal(&id, Some("ada")), Some(record.clone()));
        assert_ne!(sessions.seal(&record).expect("random numbers"), Some(id.clone()), "not the same twice");
        for other in [None, Some(""), Some("bob")] {
            assert_eq!(sessions.unseal(&id, other), None, "{other:?}");
        }
        assert_eq!(SealedSessions::new(keys(2)).unseal(&id, Some("ada")), None);
        let mut both = SealingKeys::new(StateKey::from_bytes([2; 32]), [StateKey::from_bytes([1; 32])]);
        assert_eq!(SealedSessions::new(both.clone()).unseal(&id, Some("ada")), Some(record.clone()));
        both = SealingKeys::new(StateKey::from_bytes([1; 32]), []);
        assert!(both.open("another purpose", &owner_of(Some("ada")), &id).is_err());
        let other = |place: usize, byte: u8| {
            let mut other = id.clone().into_bytes();
            other[place] = if other[place] == byte { byte + 1 } else { byte };
            String::from_utf8(other).expect("ASCII")
        };
        for place in 0..id.len() {
            assert_eq!(sessions.unseal(&other(place, b'A'), Some("ada")), None, "{place}");
            assert_eq!(sessions.unseal(&id[..place], Some("ada")), None, "{place}");
        }
        assert_eq!(both.open(PURPOSE, &owner_of(Some("ada")), &other(0, b'C')), Err(NotOpened::OtherVersion));
        for longer in [format!("{id}A"), format!("{id}="), format!("A{id}"), [&*id, &*id].concat()] {
            assert_eq!(sessions.unseal(&longer, Some("ada")), None, "{longer}");
        }
        tokio::time::advance(LIFETIME - Duration::from_secs(2)).await;
        assert_eq!(sessions.unseal(&id, Some("ada")), Some(record));
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(sessions.unseal(&id, Some("ada")), None, "expired");
    }

    #[test]
    fn why_an_id_is_refused_is_named_in_the_log_once_a_minute() {
        let (tell, mut told) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        let mut id = String::new();
        hearing(Told(tell), || {
            runtime.expect("a runtime").block_on(async {
                let sessions = SealedSessions::new(keys(1));
                let sealed = |record: &SessionRecord| sessions.seal(record).expect("random numbers");
                id = sealed(&record(10, 10)).expect("it fits");
                let foreign = SealedSessions::new(keys(2)).seal(&record(10, 10));
                let foreign = foreign.expect("random numbers").expect("it fits");
                for _ in 0..3 {
                    for (id, principal) in [
                        (&*foreign, "ada"),
                        (&*id, "bob"),
                        (&id[..id.len() - 4], "ada"),
                        (&*format!("C{}", &id[1..]), "ada"),
                        ("no id", "ada"),
                        (&*"A".repeat(5 * 1024), "ada"),
                    ] {
                        assert_eq!(sessions.unseal(id, Some(principal)), None, "{id}");
                    }
                    assert_eq!(sealed(&record(10, 5 * 1024)), None);
                }
                tokio::time::advance(LIFETIME + Duration::from_secs(1)).await;
                assert_eq!(sessions.unseal(&id, Some("ada")), None);
            });
        });
        let told: Vec<String> = std::iter::from_fn(|| told.try_recv().ok()).collect();
        let named = |what: &str| told.iter().filter(|text| text.contains(what)).count();
        for why in [
            "a key that this process does not have",
            "changed, or given to another client",
            "another version of this program",
            "not a sealed text",
            "has expired",
            "the target far with 5",
        ] {
            assert_eq!(named(why), 1, "{why}: {told:#?}");
        }
        assert_eq!((told.len(), named(&id[8..40])), (6, 0), "{told:#?}");
    }

    /// A store that has every session, under one id.
    struct Other;

    impl SessionStore for Other {
        fn create<'a>(&'a self, _: &'a SessionRecord) -> Stored<'a, Option<String>> {
            Box::pin(ready(Ok(Some("other".to_owned()))))
        }

        fn open<'a>(&'a self, id: &'a str, _: Option<&'a str>) -> Stored<'a, Option<SessionRecord>> {
            Box::pin(ready(Ok(Some(SessionRecord::new(Raw::string(id))))))
        }

        fn end<'a>(&'a self, id: &'a str) -> Stored<'a, ()> {
            Box::pin(ready(Err(SessionStoreError(id.into()))))
        }
    }

    #[tokio::test]
    async fn what_cannot_be_sealed_is_given_to_the_other_store() {
        let sessions = SealedSessions::new(keys(1)).beyond(Other);
        let sealed = sessions.create(&record(10, 10)).await.expect("it fits").expect("an id");
        assert!(sealed.len() > MAX_OTHER_ID_BYTES);
        assert_eq!(sessions.open(&sealed, Some("ada")).await, Ok(Some(record(10, 10))));
        assert_eq!(sessions.open(&sealed, None).await, Ok(None), "the other store is not asked");
        assert_eq!(sessions.end(&sealed).await, Ok(()));
        let mut of_child = record(10, 10);
        of_child.state = None;
        for large in [record(10, MAX_ID_BYTES), of_child] {
            assert_eq!(sessions.create(&large).await, Ok(Some("other".to_owned())));
        }
        assert!(sessions.open("other", None).await.expect("it answers").is_some());
        assert!(sessions.end("other").await.is_err());
    }

    #[test]
    fn an_id_has_at_most_4_kib_and_what_does_not_fit_is_named() {
        let sessions = SealedSessions::new(keys(1));
        let seal = |record: &SessionRecord| sessions.seal(record).expect("random numbers").map(|id| id.len());
        let longest = (0..4096).rev().find_map(|bytes| seal(&record(10, bytes))).expect("some fit");
        assert!((MAX_ID_BYTES - 3..=MAX_ID_BYTES).contains(&longest), "{longest}");
        assert_eq!(seal(&record(10, MAX_ID_BYTES)), None);
        let mut of_child = record(10, 10);
        of_child.state = None;
        assert_eq!(seal(&of_child), None);
        assert!(super::longest(&record(10, 500)).starts_with("the target far with 5"));
        assert!(super::longest(&record(500, 10)).starts_with("the `initialize` of the client with 5"));
    }
}
