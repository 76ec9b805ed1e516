//! The connection to Redis, which one task opens, checks and opens again. Used by `events`, `sessions` and `tasks`.
//!
//! All commands of a process share one connection, and what is ready together is sent together. A connection that does not answer
//! in time is left: then commands fail at once until another one answers. What checks it says that the process is there. This module
//! knows no record.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mcpjoin::internal::WarningRate;
use mcpjoin::server::SealingKeys;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, Pipeline,
    RedisResult, TlsCertificates, Value, cmd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::events::RedisEvents;
use crate::sessions::{RedisSessions, hex, millis};
use crate::tasks::{self, LEASE, RedisTasks, process_key};

/// How long a request or an event of a stream waits for Redis, unless [`Redis::patience`] says otherwise: 50 ms. In a data centre
/// an answer takes less than 1 ms.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// How long opening a connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(1);

/// How often the connection is checked, so that [`Redis::is_available`] is true for no longer than that after the end.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The time between two attempts to connect: at first, and at most.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// Appends an event to the stream of a session, trims the stream, and sets its expiry. The ids are ours: the bytes until the end of
/// the entry, so that the ids below a number are those of the oldest bytes.
const APPEND: &str = "
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local size = #ARGV[7] + 96
local total = size
if last then total = total + tonumber(string.match(last[1], '^%d+')) end
redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[3], string.format('%.0f-0', total),
  's', ARGV[4], 'n', ARGV[5], 'k', ARGV[6], 'r', ARGV[7])
local floor = total - math.max(tonumber(ARGV[2]), size)
if floor > 0 then redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f-1', floor)) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1";

/// Returns the entries of one stream. Reads in small parts, and gives up beyond a number of bytes or entries: others may have
/// written more than APPEND does.
const READ: &str = "
local bytes, seen, found, start = 0, 0, {}, '-'
while true do
  local part = redis.call('XRANGE', KEYS[1], start, '+', 'COUNT', 32)
  if #part == 0 then return found end
  for _, entry in ipairs(part) do
    start, seen = '(' .. entry[1], seen + 1
    local record = {}
    for i = 1, #entry[2], 2 do
      record[entry[2][i]] = entry[2][i + 1]
      bytes = bytes + #entry[2][i + 1]
    end
    if bytes > tonumber(ARGV[2]) or seen > tonumber(ARGV[3]) then return redis.error_reply('TOOLARGE beyond the limits') end
    if record['s'] == ARGV[1] then
      found[#found + 1] = {record.n or '', record.k or '', record.r or ''}
    end
  end
end";

/// The scripts of this crate.
#[derive(Clone, Copy)]
pub(crate) enum Script {
    Append = 0,
    Read = 1,
    PutTask = 2,
    OpenTask = 3,
    ListTasks = 4,
    SendMessage = 5,
    Attend = 6,
}

/// Their texts, in this order.
const SCRIPTS: [&str; 7] = [APPEND, READ, tasks::PUT, tasks::OPEN, tasks::LIST, tasks::SEND, tasks::ATTEND];

/// A Redis or Valkey server, with which several processes share legacy sessions, the events of their streams, and tasks. Cheap to
/// clone.
///
/// A connection is opened when it is first needed, and again whenever it breaks. `Debug` shows no password and no key.
#[derive(Clone)]
pub struct Redis(Arc<Inner>);

struct Inner {
    client: Client,
    shown: Box<str>,
    keys: SealingKeys,
    /// The name of this run of the process. Empty without random numbers: then its streams never count as ended.
    process: Box<str>,
    state: watch::Sender<State>,
    broken: Arc<Notify>,
    started: AtomicBool,
    patience: AtomicU64,
    counts: [AtomicU64; 4],
    warnings: WarningRate<Problem>,
}

/// What has failed since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisCounts {
    /// Round trips for which there was no connection or no answer in time.
    pub unanswered: u64,
    /// Commands that Redis has refused, for example because it is full.
    pub refused: u64,
    /// Records that were refused, because they were not written by a process with our keys for this session.
    pub foreign: u64,
    /// Events that were sent without being stored: their streams cannot be resumed before them.
    pub events_not_stored: u64,
}

/// What is counted, in the order of [`RedisCounts`].
#[derive(Clone, Copy)]
pub(crate) enum Counted {
    Unanswered = 0,
    Refused = 1,
    Foreign = 2,
    EventNotStored = 3,
}

#[derive(Clone, Default)]
struct State {
    /// Counts connections.
    number: u64,
    connection: Option<Open>,
    /// The last attempt to connect has failed.
    has_failed: bool,
}

#[derive(Clone)]
struct Open {
    commands: MultiplexedConnection,
    /// The names by which Redis knows the scripts.
    scripts: [Arc<str>; SCRIPTS.len()],
    since: Instant,
}

/// What goes wrong, logged once a minute at most for each kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Problem {
    /// Redis is not reached, or too slow.
    Unavailable,
    /// Redis refuses a command, for example because it is full.
    Refused,
    /// A record is not ours.
    Record(&'static str),
    /// A record would be too large.
    TooLarge,
}

/// Redis gives no answer, or gives it too late.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Redis at {at} {why}")]
pub struct Unavailable {
    at: Box<str>,
    why: Box<str>,
}

/// The text is not the URL of a Redis server. It is not shown, because it may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UrlError(Box<str>);

impl Redis {
    /// Uses the server at a URL, `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS. `keys` are those that
    /// all processes share. Connects when it is first used.
    ///
    /// # Errors
    /// When the URL has another form, or turns the check of certificates off.
    pub fn new(url: &str, keys: SealingKeys) -> Result<Self, UrlError> {
        let info = parse(url)?;
        Ok(Self::of(Client::open(info.clone()).map_err(|_| not_a_url())?, &info, keys))
    }

    /// The same, and TLS accepts these authorities only: certificates in PEM. [`new`](Self::new) accepts those of the system.
    ///
    /// # Errors
    /// When the URL is not one of `rediss://`, or the text has no certificates.
    pub fn with_authorities(url: &str, keys: SealingKeys, pem: Vec<u8>) -> Result<Self, UrlError> {
        let info = parse(url)?;
        if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Err(UrlError("certificates are for rediss:// only".into()));
        }
        let no_certificates = || UrlError("there are no certificates in PEM".into());
        // The client takes a text without certificates for no authority at all.
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        if read.map_or(0, |read| read.len()) == 0 {
            return Err(no_certificates());
        }
        let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem) };
        let client = Client::build_with_tls(info.clone(), certificates).map_err(|_| no_certificates())?;
        Ok(Self::of(client, &info, keys))
    }

    fn of(client: Client, info: &ConnectionInfo, keys: SealingKeys) -> Self {
        let mut random = [0; 16];
        let process = getrandom::fill(&mut random).map_or_else(|_| "".into(), |()| hex(&random).into());
        let inner = Inner {
            client,
            shown: info.addr().to_string().into(),
            keys,
            process,
            state: watch::Sender::default(),
            broken: Arc::default(),
            started: AtomicBool::new(false),
            patience: AtomicU64::new(millis(PATIENCE)),
            counts: Default::default(),
            warnings: WarningRate::default(),
        };
        Self(Arc::new(inner))
    }

    /// Stores legacy sessions there, each until it was not used for `idle`
    /// ([`HttpOptions::session_idle`](mcpjoin::transport::HttpOptions::session_idle)).
    #[must_use]
    pub fn sessions(&self, idle: Duration) -> RedisSessions {
        RedisSessions::new(self.clone(), idle)
    }

    /// Stores the events of legacy sessions there, each session's until it had no event for `idle`.
    #[must_use]
    pub fn events(&self, idle: Duration) -> RedisEvents {
        RedisEvents::new(self.clone(), idle)
    }

    /// Stores the tasks of servers there, each for its time.
    #[must_use]
    pub fn tasks(&self) -> RedisTasks {
        RedisTasks::new(self.clone())
    }

    /// Waits for an answer of Redis up to this time, at least 1 ms, in place of [`PATIENCE`]: in all clones.
    #[must_use]
    pub fn patience(self, time: Duration) -> Self {
        self.0.patience.store(millis(time).max(1), Ordering::Relaxed);
        self
    }

    /// What has failed since the start.
    #[must_use]
    pub fn counts(&self) -> RedisCounts {
        let [unanswered, refused, foreign, events_not_stored] =
            std::array::from_fn(|place| self.0.counts[place].load(Ordering::Relaxed));
        RedisCounts { unanswered, refused, foreign, events_not_stored }
    }

    /// Where it is: host and port, without a password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.0.shown
    }

    /// Whether Redis has answered within the last seconds. False before it was first used.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.0.state.borrow().connection.is_some()
    }

    /// Connects, and waits for it up to `time`. Must be called within a runtime. Cancel-safe.
    ///
    /// # Errors
    /// When Redis does not answer in this time.
    pub async fn connect(&self, time: Duration) -> Result<(), Unavailable> {
        self.opened(time).await.map(drop)
    }

    pub(crate) fn waits(&self) -> Duration {
        Duration::from_millis(self.0.patience.load(Ordering::Relaxed))
    }

    pub(crate) fn count(&self, what: Counted) {
        self.0.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn keys(&self) -> &SealingKeys {
        &self.0.keys
    }

    /// The name of this run of the process, which others find in Redis until [`LEASE`] after its last sign.
    pub(crate) fn process(&self) -> &str {
        &self.0.process
    }

    pub(crate) fn warn(&self, problem: Problem, why: &dyn fmt::Display) {
        match problem {
            Problem::Refused => self.count(Counted::Refused),
            Problem::Record(_) => self.count(Counted::Foreign),
            Problem::Unavailable | Problem::TooLarge => {}
        }
        let Some(left_out) = self.0.warnings.due(problem) else { return };
        let at = &*self.0.shown;
        match problem {
            Problem::Unavailable => {
                tracing::warn!(target: "mcpjoin", at, %why, left_out, "Redis is not available");
            }
            Problem::Refused => {
                tracing::warn!(target: "mcpjoin", at, %why, left_out, "Redis has refused to store something");
            }
            Problem::Record(what) => {
                tracing::warn!(target: "mcpjoin", at, what, %why, left_out, "a record in Redis was refused");
            }
            Problem::TooLarge => {
                tracing::warn!(target: "mcpjoin", at, %why, left_out, "something is too large for Redis");
            }
        }
    }

    /// Whether there is a connection, or the first one is being opened: then it is worth to wait for it.
    pub(crate) fn is_reached(&self) -> bool {
        let state = self.0.state.borrow();
        state.connection.is_some() || state.number == 0 && !state.has_failed
    }

    /// Whether the connection has been open for this time.
    pub(crate) fn is_open_for(&self, time: Duration) -> bool {
        self.0.state.borrow().connection.as_ref().is_some_and(|open| open.since.elapsed() >= time)
    }

    fn unavailable(&self, why: &str) -> Unavailable {
        self.count(Counted::Unanswered);
        Unavailable { at: self.0.shown.clone(), why: why.into() }
    }

    /// Starts the task that connects. Must be called within a runtime.
    pub(crate) fn start(&self) {
        if !self.0.started.swap(true, Ordering::Relaxed) {
            tokio::spawn(keep_connected(self.clone()));
        }
    }

    /// Waits until Redis is available. Never fails; cancel-safe.
    pub(crate) async fn available(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.state.subscribe().wait_for(|state| state.connection.is_some()).await;
    }

    async fn opened(&self, time: Duration) -> Result<(u64, Open), Unavailable> {
        self.start();
        let mut state = self.0.state.subscribe();
        let opened = timeout(time, state.wait_for(|state| state.connection.is_some())).await;
        let opened = opened.ok().and_then(Result::ok);
        opened
            .and_then(|state| Some((state.number, state.connection.clone()?)))
            .ok_or_else(|| self.unavailable("is not reached"))
    }

    /// Runs commands in one round trip. Returns the answer to each of them.
    pub(crate) async fn run(
        &self,
        time: Duration,
        commands: impl FnOnce(&mut Pipeline, &dyn Fn(Script) -> Arc<str>),
    ) -> Result<Vec<RedisResult<Value>>, Unavailable> {
        let began = Instant::now();
        let (number, mut open) = self.opened(time).await?;
        let mut pipeline = Pipeline::new();
        pipeline.ignore_errors();
        commands(&mut pipeline, &|script| open.scripts[script as usize].clone());
        let left = time.saturating_sub(began.elapsed());
        let answers =
            timeout(left, pipeline.query_async::<Vec<RedisResult<Value>>>(&mut open.commands)).await;
        match answers {
            Ok(Ok(answers)) => {
                if answers.iter().flat_map(|answer| answer.as_ref().err()).any(needs_connection) {
                    self.left(number, "has lost the scripts of this program");
                }
                Ok(answers)
            }
            Ok(Err(error)) => Err(self.left(number, &format!("has failed: {error}"))),
            Err(_) => Err(self.left(number, &format!("has not answered within {} ms", time.as_millis()))),
        }
    }

    /// An attempt to connect has failed.
    fn failed(&self, why: &dyn fmt::Display) {
        self.0.state.send_modify(|state| state.has_failed = true);
        self.warn(Problem::Unavailable, why);
    }

    /// Leaves a connection.
    fn left(&self, number: u64, why: &str) -> Unavailable {
        let left = self.0.state.send_if_modified(|state| {
            let is_open = state.number == number && state.connection.is_some();
            if is_open {
                state.connection = None;
            }
            is_open
        });
        let unavailable = self.unavailable(why);
        if left {
            self.warn(Problem::Unavailable, &unavailable);
            self.0.broken.notify_one();
        }
        unavailable
    }
}

/// Whether only another connection helps: it loads the scripts, and may reach another server.
fn needs_connection(error: &redis::RedisError) -> bool {
    matches!(code(error), "NOSCRIPT" | "READONLY" | "MASTERDOWN")
}

/// The word that names an error of Redis. Before Redis 7.0 the error of a command in a script is `ERR`, and its own word follows in
/// the text: `ERR Error running script (call to f_...): @user_script:47: @user_script: 47: -READONLY You can't write ...`
pub(crate) fn code(error: &redis::RedisError) -> &str {
    let code = error.code().unwrap_or("unknown");
    let in_script = || error.detail()?.split_once(": -")?.1.split(' ').next();
    if code == "ERR" { in_script().unwrap_or(code) } else { code }
}

/// Opens a connection whenever there is none, as long as the server is used.
async fn keep_connected(redis: Redis) {
    let (broken, weak) = (redis.0.broken.clone(), Arc::downgrade(&redis.0));
    drop(redis);
    let [first_delay, longest_delay] = RETRY_DELAYS;
    let mut delay = first_delay;
    loop {
        let Some(redis) = weak.upgrade().map(Redis) else { return };
        let (number, is_open) = {
            let state = redis.0.state.borrow();
            (state.number, state.connection.is_some())
        };
        if is_open {
            let check = |pipeline: &mut Pipeline, _: &dyn Fn(Script) -> Arc<str>| {
                pipeline.add_command(sign(redis.process()));
            };
            // `run` leaves the connection if it fails.
            let _ = redis.run(redis.waits(), check).await;
        } else {
            let opening = open(&redis.0.client, redis.process());
            match timeout(CONNECT_TIME.max(2 * redis.waits()), opening).await {
                Ok(Ok(open)) => {
                    tracing::debug!(target: "mcpjoin", at = &*redis.0.shown, "Redis is available");
                    let state = State { number: number + 1, connection: Some(open), has_failed: false };
                    redis.0.state.send_replace(state);
                    delay = first_delay;
                }
                Ok(Err(error)) => redis.failed(&error),
                Err(_) => redis.failed(&"it does not answer"),
            }
        }
        let is_open = redis.is_available();
        drop(redis);
        if is_open {
            // Either time passes, or the connection was left.
            let _ = timeout(CHECK_INTERVAL, broken.notified()).await;
        } else {
            sleep(delay).await;
            delay = (2 * delay).min(longest_delay);
        }
    }
}

/// Says that a process is there.
fn sign(process: &str) -> Cmd {
    let mut sign = cmd("SET");
    sign.arg(process_key(process)).arg(1).arg("PX").arg(millis(LEASE));
    sign
}

async fn open(client: &Client, process: &str) -> RedisResult<Open> {
    // The times are those of this module.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
    let mut commands = client.get_multiplexed_async_connection_with_config(&config).await?;
    let mut loading = Pipeline::new();
    for script in SCRIPTS {
        loading.add_command(cmd("SCRIPT")).arg("LOAD").arg(script);
    }
    let scripts = loading.query_async::<[String; SCRIPTS.len()]>(&mut commands).await?;
    // Before anything is stored: what names a process that is not there counts as ended. A Redis that is full refuses it.
    let _ = sign(process).query_async::<Value>(&mut commands).await;
    Ok(Open { commands, scripts: scripts.map(Into::into), since: Instant::now() })
}

fn not_a_url() -> UrlError {
    UrlError("this is not redis://[user:password@]host[:port][/database] or rediss://...".into())
}

fn parse(url: &str) -> Result<ConnectionInfo, UrlError> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    if !["redis", "rediss"].contains(&scheme) {
        return Err(not_a_url());
    }
    let info = url.into_connection_info().map_err(|_| not_a_url())?;
    if let ConnectionAddr::TcpTls { insecure, .. } = info.addr() {
        if *insecure {
            return Err(UrlError("#insecure would accept every certificate".into()));
        }
        // The client has no default of its own where several are compiled in. Another one that is installed stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    Ok(info)
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("at", &self.0.shown).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin::server::StateKey;

    use super::*;

    fn redis(url: &str) -> Result<Redis, UrlError> {
        Redis::new(url, SealingKeys::new(StateKey::from_bytes([1; 32]), []))
    }

    #[test]
    fn a_url_is_redis_or_rediss_and_its_password_is_not_shown() {
        for url in ["redis://127.0.0.1", "redis://ada:secret@cache:7000/3", "rediss://:secret@cache"] {
            let redis = redis(url).expect("a URL");
            let shown = format!("{redis:?} {}", redis.address());
            assert!(!shown.contains("secret") && !redis.is_available(), "{shown}");
        }
        assert_eq!(redis("redis://ada:secret@cache:7000").expect("a URL").address(), "cache:7000");
        for url in [
            "",
            "cache",
            "http://cache",
            "unix:/run/redis",
            "redis://",
            "redis://secret@cache:x",
            "rediss://c/#insecure",
        ] {
            let error = redis(url).expect_err(url).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        let keys = || SealingKeys::new(StateKey::from_bytes([1; 32]), []);
        for (url, pem) in
            [("redis://cache", ""), ("rediss://cache", ""), ("rediss://cache", "no certificate")]
        {
            assert!(Redis::with_authorities(url, keys(), pem.into()).is_err(), "{url} {pem}");
        }
    }
}
