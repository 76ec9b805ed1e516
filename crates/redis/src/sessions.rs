//! The session store in Redis: one value for each legacy session, sealed for its id and its principal.
//!
//! The key in Redis is a digest of the id, so that who reads Redis cannot use a session.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin::internal::owner_of;
use mcpjoin::transport::{SessionRecord, SessionStore, SessionStoreError, Stored};
use mcpjoin_proto::Raw;
use parking_lot::Mutex;
use redis::Value;
use sha2::{Digest as _, Sha256};

use crate::connection::{Problem, Redis, Unavailable, code};

/// Bytes of a sealed record: 1 MiB. What a client and its targets say when a session begins has a few KiB.
const MAX_RECORD_BYTES: usize = 1024 * 1024;

/// How many expiries are set in one round trip.
const MAX_TOUCHED: usize = 1_000;

const PURPOSE: &str = "legacy session in Redis";

/// Stores legacy sessions in Redis or Valkey, so that any process with the same keys serves them.
///
/// A session is stored from its `initialize` until its client ends it, or until it was not used for its idle time. Its use costs no
/// command: the expiry is set again about ten times in the idle time. If Redis is not available, a new session, and one that this
/// process does not serve yet, is refused with 503 for now. A session that Redis has lost ends with 404 at every process that does
/// not serve it.
///
/// A session that only one process can serve, because a child process belongs to it, is not stored.
#[derive(Clone)]
pub struct RedisSessions(Arc<Inner>);

struct Inner {
    redis: Redis,
    expiry: Duration,
    /// The keys whose expiry is to be set again; `None` while no task does it.
    touched: Mutex<Option<HashSet<String>>>,
}

impl RedisSessions {
    pub(crate) fn new(redis: Redis, idle: Duration) -> Self {
        // It is set again after a tenth of the idle time at the latest.
        let expiry = idle.saturating_add(idle / 5).max(Duration::from_millis(1));
        Self(Arc::new(Inner { redis, expiry, touched: Mutex::default() }))
    }

    async fn command(&self, command: redis::Cmd) -> Result<Value, SessionStoreError> {
        let Inner { redis, .. } = &*self.0;
        let answers = redis.run(redis.waits(), |pipeline, _| {
            pipeline.add_command(command);
        });
        let answer = answers.await.map_err(|error| unavailable(&error))?.pop();
        match answer {
            Some(Ok(value)) => Ok(value),
            Some(Err(error)) => {
                redis.warn(Problem::Refused, &error);
                Err(SessionStoreError(format!("Redis has refused a command: {}", code(&error)).into()))
            }
            None => Err(SessionStoreError("Redis has not answered".into())),
        }
    }

    async fn put(&self, record: &SessionRecord) -> Result<Option<String>, SessionStoreError> {
        let Inner { redis, expiry, .. } = &*self.0;
        if record.state.is_none() {
            return Ok(None);
        }
        let failed = |why: String| SessionStoreError(why.into());
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| failed("this system gives no random numbers".into()))?;
        let id = hex(&random);
        let mut sealed = record.clone();
        // The principal need not be in the text, because it is sealed for the principal.
        sealed.principal = None;
        let text = Raw::from_value(&sealed).map_err(|error| failed(error.to_string()))?;
        let owner = owner(&id, record.principal.as_deref());
        let sealed = redis.keys().seal(PURPOSE, &owner, text.as_bytes());
        let sealed = sealed.map_err(|error| failed(error.message))?;
        if sealed.len() > MAX_RECORD_BYTES {
            redis.warn(
                Problem::TooLarge,
                &format_args!("a session with {} bytes; only this process serves it", sealed.len()),
            );
            return Ok(None);
        }
        let mut command = redis::cmd("SET");
        command.arg(key(&id)).arg(sealed).arg("PX").arg(millis(*expiry)).arg("NX");
        match self.command(command).await? {
            Value::Okay => Ok(Some(id)),
            _ => Err(failed("Redis has not stored it".into())),
        }
    }

    async fn take(
        &self,
        id: &str,
        principal: Option<&str>,
    ) -> Result<Option<SessionRecord>, SessionStoreError> {
        let Inner { redis, .. } = &*self.0;
        // Ours have this form. Anything else needs no look.
        if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let mut command = redis::cmd("GETRANGE");
        // One byte more tells that it is too long. Others may have written more than this process can hold.
        command.arg(key(id)).arg(0).arg(MAX_RECORD_BYTES);
        let refused = |why: &'static str| {
            redis.warn(Problem::Record("session"), &why);
            Ok(None)
        };
        let answers = redis.run(redis.waits(), |pipeline, _| {
            pipeline.add_command(command);
        });
        let answer = answers.await.map_err(|error| unavailable(&error))?.pop();
        let sealed = match answer {
            Some(Ok(Value::BulkString(sealed))) => sealed,
            Some(Err(error)) if error.code() == Some("WRONGTYPE") => return refused("it is not text"),
            Some(Err(error)) => {
                redis.warn(Problem::Refused, &error);
                return Err(SessionStoreError(
                    format!("Redis has refused a command: {}", code(&error)).into(),
                ));
            }
            _ => return Err(SessionStoreError("Redis has not answered".into())),
        };
        if sealed.is_empty() {
            return Ok(None);
        }
        if sealed.len() > MAX_RECORD_BYTES {
            return refused("it is larger than 1 MiB");
        }
        let Ok(sealed) = str::from_utf8(&sealed) else { return refused("it is not text") };
        let opened = redis.keys().open(PURPOSE, &owner(id, principal), sealed);
        let text = match opened {
            Ok(text) => text,
            Err(why) => {
                redis.warn(Problem::Record("session"), &why);
                return Ok(None);
            }
        };
        let Some(mut record) = Raw::parse(text).ok().and_then(|text| text.decode::<SessionRecord>().ok())
        else {
            return refused("it has another form");
        };
        record.principal = principal.map(Into::into);
        Ok(Some(record))
    }
}

impl SessionStore for RedisSessions {
    fn create<'a>(&'a self, record: &'a SessionRecord) -> Stored<'a, Option<String>> {
        Box::pin(self.put(record))
    }

    fn open<'a>(&'a self, id: &'a str, principal: Option<&'a str>) -> Stored<'a, Option<SessionRecord>> {
        Box::pin(self.take(id, principal))
    }

    fn touch(&self, id: &str) {
        let mut touched = self.0.touched.lock();
        let is_running = touched.is_some();
        touched.get_or_insert_default().insert(key(id));
        drop(touched);
        if !is_running {
            tokio::spawn(set_expiries(self.clone()));
        }
    }

    fn end<'a>(&'a self, id: &'a str) -> Stored<'a, ()> {
        let mut command = redis::cmd("UNLINK");
        command.arg(key(id));
        Box::pin(async move { self.command(command).await.map(drop) })
    }
}

/// Sets the expiries of the sessions that were used. What Redis does not take is set at the next use: an expiry is longer than the
/// time between two.
async fn set_expiries(sessions: RedisSessions) {
    let Inner { redis, expiry, touched } = &*sessions.0;
    loop {
        let Some(keys) = next_touched(touched) else { return };
        let answers = redis.run(redis.waits(), |pipeline, _| {
            for key in &keys {
                pipeline.cmd("PEXPIRE").arg(key).arg(millis(*expiry));
            }
        });
        // The connection has logged why.
        let _ = answers.await;
    }
}

/// Takes the keys for the next round trip. `None` if there are none: then no task does it any more.
fn next_touched(touched: &Mutex<Option<HashSet<String>>>) -> Option<Vec<String>> {
    let mut touched = touched.lock();
    let due = touched.get_or_insert_default();
    let keys: Vec<String> = due.iter().take(MAX_TOUCHED).cloned().collect();
    for key in &keys {
        due.remove(key);
    }
    if keys.is_empty() {
        *touched = None;
        return None;
    }
    Some(keys)
}

impl fmt::Debug for RedisSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSessions").field("redis", &self.0.redis).finish_non_exhaustive()
    }
}

fn unavailable(error: &Unavailable) -> SessionStoreError {
    SessionStoreError(error.to_string().into())
}

/// For whom a record is sealed. The id has a fixed length, and no principal differs from an empty one.
fn owner(id: &str, principal: Option<&str>) -> Vec<u8> {
    [id.as_bytes(), b" ", &owner_of(principal)].concat()
}

/// The key in Redis.
fn key(id: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(id.as_bytes()).into();
    format!("mcpjoin:session:{}", hex(&digest[..16]))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn millis(time: Duration) -> u64 {
    // Redis refuses what does not fit into a signed number after the time of today is added.
    u64::try_from(time.as_millis()).map_or(u64::MAX >> 8, |millis| millis.min(u64::MAX >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_expiries_set_in_one_round_trip_is_limited() {
        let touched = Mutex::new(Some((0..=MAX_TOUCHED).map(|number| number.to_string()).collect()));
        let lengths = [(); 3].map(|()| next_touched(&touched).map(|keys| keys.len()));
        assert_eq!(lengths, [Some(MAX_TOUCHED), Some(1), None]);
        assert!(touched.lock().is_none(), "the next use starts a task");
    }
}
