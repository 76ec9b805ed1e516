//! The event store in Redis: one Redis stream for each session, with the events of all its streams.
//!
//! One task writes: what is ready when Redis has answered is sent together. Each event is sealed for its session, its stream, its
//! number and its kind. So a record that was moved, or written by another process, is refused, and the numbers show what is missing,
//! stands twice or in another order. The beginning of a stream names its requests and its process. A process says each second that it is
//! there (`connection`); without that, its requests get no response. One Redis stream for each session, in place of one for each of
//! its streams, has the limits and the expiry of the session, and one command removes it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcpjoin::transport::{
    Confirm, Confirmation, Event, EventId, EventStore, EventStoreError, Replay, Replayed, SessionId,
    StreamEnd,
};
use mcpjoin_proto::{Raw, RequestId};
use parking_lot::Mutex;
use redis::{FromRedisValue as _, Pipeline, RedisError, Value};
use sha2::{Digest as _, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::connection::{Counted, Problem, Redis, Script};
use crate::sessions::{hex, millis};
use crate::tasks::{LEASE, process_key};

/// Bytes of an event that is stored: 1 MiB.
const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// Bytes of the sealed events of a session, beside its newest event: 2 MiB.
const MAX_SESSION_BYTES: usize = 2 * 1024 * 1024;

/// Events of a session.
const MAX_SESSION_EVENTS: usize = 1_000;

/// Bytes that are read to resume a stream: what a session has at most, and the names of the fields.
const MAX_READ_BYTES: usize = 2 * MAX_SESSION_BYTES;

/// Entries that are read to resume a stream.
const MAX_READ_ENTRIES: usize = 2 * MAX_SESSION_EVENTS;

/// Events that wait to be stored. Beyond, an event is not stored.
const MAX_QUEUED: usize = 4_096;

/// Their bytes, in units of 1 KiB: 16 MiB.
const MAX_QUEUED_KIB: usize = 16 * 1024;

/// Events that are sent together, and their bytes.
const MAX_BATCH: usize = 256;
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Streams of which this process remembers that an event was sent without being stored, until Redis knows it.
const MAX_LOST: usize = 10_000;

/// Sessions of which it remembers the same, where there are more streams. Redis then forgets all of their events.
const MAX_LOST_SESSIONS: usize = 100_000;

/// The time between two attempts to tell Redis of them, where nothing else is to be stored: it may be full.
const LOST_DELAY: Duration = Duration::from_millis(100);

/// How long a client that resumes a stream waits for Redis.
const REPLAY_TIME: Duration = Duration::from_secs(1);

/// Bytes of the ids of requests with which a stream begins. Without them a client that resumes the stream of a process that is gone
/// gets 400 in place of an error for each request.
const MAX_REQUEST_BYTES: usize = 4 * 1024;

const PURPOSE: &str = "event in Redis";

/// What the beginning of a stream says: its process, and the requests that it answers.
type Beginning = (Box<str>, Vec<RequestId>);

/// A record of a stream as Redis returns it: its number, its kind and the sealed text.
type Record = (Vec<u8>, Vec<u8>, Vec<u8>);

/// Stores the events of legacy sessions in Redis or Valkey, so that a client can resume a stream at any process.
///
/// Only sessions of a [`SessionStore`](mcpjoin::transport::SessionStore) have their events there, because no other process
/// serves the others. A session keeps its newest 1,000 events within 2 MiB, and an event above 1 MiB is not stored.
///
/// An event waits for Redis for 50 ms at most ([`Redis::patience`]). If Redis is gone or slower, or refuses the event, it is sent
/// without an id: its stream goes on, and a client that has lost it before that event gets 400. While Redis is known to be gone
/// nothing waits.
#[derive(Clone)]
pub struct RedisEvents(Arc<Inner>);

struct Inner {
    redis: Redis,
    expiry: Duration,
    jobs: mpsc::Sender<Job>,
    /// The other end, until the writer has started.
    unwritten: Mutex<Option<mpsc::Receiver<Job>>>,
    room: Arc<Semaphore>,
    lost: Mutex<Lost>,
}

/// What was sent without being stored. Redis may have stored it too late.
#[derive(Default)]
struct Lost {
    /// The last such event, by session and stream.
    streams: BTreeMap<(SessionId, u64), u64>,
    /// The number of such events of sessions of which no stream is remembered.
    sessions: BTreeMap<SessionId, u64>,
}

impl Lost {
    fn note(&mut self, session: SessionId, id: EventId) {
        let key = (session, id.stream);
        if let Some(events) = self.sessions.get_mut(&session) {
            *events += 1;
        } else if self.streams.len() < MAX_LOST || self.streams.contains_key(&key) {
            let last = self.streams.entry(key).or_default();
            *last = (*last).max(id.number);
        } else if self.sessions.len() < MAX_LOST_SESSIONS {
            let own = self.streams.range((session, 0)..=(session, u64::MAX)).map(|(key, _)| *key);
            for key in own.collect::<Vec<_>>() {
                self.streams.remove(&key);
            }
            self.sessions.insert(session, 1);
        }
    }

    fn is_empty(&self) -> bool {
        self.streams.is_empty() && self.sessions.is_empty()
    }

    /// Whether an event of the stream after this one was lost, or may have been.
    fn is_after(&self, session: &SessionId, id: EventId) -> bool {
        self.sessions.contains_key(session)
            || self.streams.get(&(*session, id.stream)).is_some_and(|lost| *lost > id.number)
    }
}

/// The first entries of a table.
fn first<K: Copy>(table: &BTreeMap<K, u64>) -> Vec<(K, u64)> {
    table.iter().take(MAX_BATCH).map(|(key, number)| (*key, *number)).collect()
}

/// Removes an entry that has not changed since.
fn remove_known<K: Ord>(table: &mut BTreeMap<K, u64>, (key, number): &(K, u64)) {
    if table.get(key) == Some(number) {
        table.remove(key);
    }
}

/// What the writer does, in order.
enum Job {
    Append {
        session: SessionId,
        event: Event,
        confirm: Confirm,
        since: Instant,
        room: OwnedSemaphorePermit,
    },
    Forget(SessionId),
    /// Confirms that everything before is stored or lost.
    Flush(oneshot::Sender<()>),
}

/// The kind of a record. A part of what it is sealed for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Event,
    /// The last event of its stream.
    Last,
    /// An event with this number was sent without its id, so no stream is resumed before it.
    Lost,
}

impl Kind {
    const fn letter(self) -> u8 {
        match self {
            Self::Event => b'e',
            Self::Last => b'l',
            Self::Lost => b'x',
        }
    }

    fn of(letter: &[u8]) -> Option<Self> {
        [Self::Event, Self::Last, Self::Lost].into_iter().find(|kind| letter == [kind.letter()])
    }
}

impl RedisEvents {
    pub(crate) fn new(redis: Redis, idle: Duration) -> Self {
        let (jobs, unwritten) = mpsc::channel(MAX_QUEUED);
        let expiry = idle.max(Duration::from_millis(1));
        let room = Arc::new(Semaphore::new(MAX_QUEUED_KIB));
        let (unwritten, lost) = (Mutex::new(Some(unwritten)), Mutex::default());
        Self(Arc::new(Inner { redis, expiry, jobs, unwritten, room, lost }))
    }

    /// Starts the writer. Must be called within a runtime.
    fn start(&self) {
        if let Some(jobs) = self.0.unwritten.lock().take() {
            tokio::spawn(write(Arc::downgrade(&self.0), jobs));
        }
    }

    async fn read(
        &self,
        session: &SessionId,
        after: EventId,
        before: u64,
    ) -> Result<Option<Replayed>, EventStoreError> {
        if after.number.checked_add(1) == Some(before) {
            return Ok(Some(Replayed { events: Vec::new(), end: StreamEnd::Open }));
        }
        let Inner { redis, jobs, lost, .. } = &*self.0;
        self.start();
        let failed = |why: &str| EventStoreError(why.into());
        let (flushed, flush) = oneshot::channel();
        jobs.try_send(Job::Flush(flushed)).map_err(|_| failed("too many events wait for Redis"))?;
        let flush = timeout(REPLAY_TIME, flush).await;
        flush.ok().and_then(Result::ok).ok_or_else(|| failed("Redis takes no events"))?;
        if lost.lock().is_after(session, after) {
            return Ok(None);
        }
        let Some(records) = self.records(session, after.stream).await? else { return Ok(None) };
        let events = self.opened(session, after, before, &records).unwrap_or_else(|why| {
            redis.warn(Problem::Record("event"), &why);
            None
        });
        let Some(events) = events else { return Ok(None) };
        // Otherwise a process that has the stream asks, which knows its end.
        let end = if before == u64::MAX {
            self.end(session, after.stream, &records).await?
        } else {
            StreamEnd::Open
        };
        Ok(Some(Replayed { events, end }))
    }

    /// Reads the records of a stream. `None`: what stands there is not ours, which is logged.
    async fn records(
        &self,
        session: &SessionId,
        stream: u64,
    ) -> Result<Option<Vec<Record>>, EventStoreError> {
        let redis = &self.0.redis;
        let read = |pipeline: &mut Pipeline, name: &dyn Fn(Script) -> Arc<str>| {
            let command = pipeline.cmd("EVALSHA").arg(&*name(Script::Read)).arg(1).arg(key(session));
            command.arg(stream).arg(MAX_READ_BYTES).arg(MAX_READ_ENTRIES);
        };
        let value = match self.answer(read).await? {
            Ok(value) => value,
            Err(error) => {
                redis.warn(Problem::Record("events of a session"), &error);
                return Ok(None);
            }
        };
        let records = <Vec<Record>>::from_redis_value(value);
        Ok(records.inspect_err(|_| redis.warn(Problem::Record("event"), &"it has another form")).ok())
    }

    /// Runs a command for a client that resumes a stream. The inner error is about what stands there.
    async fn answer(
        &self,
        command: impl FnOnce(&mut Pipeline, &dyn Fn(Script) -> Arc<str>),
    ) -> Result<Result<Value, RedisError>, EventStoreError> {
        let redis = &self.0.redis;
        let failed = |why: &str| EventStoreError(why.into());
        match redis.run(REPLAY_TIME, command).await.map_err(|error| failed(&error.to_string()))?.pop() {
            Some(Err(error)) if !is_about_record(&error) => {
                redis.warn(Problem::Refused, &error);
                Err(failed("Redis has refused a command"))
            }
            Some(answer) => Ok(answer),
            None => Err(failed("Redis has not answered")),
        }
    }

    /// How the stream with these records ends.
    async fn end(
        &self,
        session: &SessionId,
        stream: u64,
        records: &[Record],
    ) -> Result<StreamEnd, EventStoreError> {
        if records.iter().any(|(_, letter, _)| Kind::of(letter) == Some(Kind::Last)) {
            return Ok(StreamEnd::Ended);
        }
        let beginning = records
            .iter()
            .rfind(|(number, letter, _)| digits(number) == Some(0) && Kind::of(letter) == Some(Kind::Event));
        let owner = owner(session, EventId { stream, number: 0 }, Kind::Event);
        let beginning = beginning.and_then(|(_, _, sealed)| {
            let text = self.0.redis.keys().open(PURPOSE, &owner, str::from_utf8(sealed).ok()?).ok()?;
            Raw::parse(text).ok()?.decode::<Beginning>().ok()
        });
        let Some((process, requests)) = beginning.filter(|(process, _)| !process.is_empty()) else {
            return Ok(StreamEnd::Open);
        };
        let exists = |pipeline: &mut Pipeline, _: &dyn Fn(Script) -> Arc<str>| {
            pipeline.cmd("EXISTS").arg(process_key(&process));
        };
        let is_there = !matches!(self.answer(exists).await?, Ok(Value::Int(0)));
        // After an outage the others have as much time to say that they are there as they have otherwise.
        let is_gone = !is_there && self.0.redis.is_open_for(LEASE);
        Ok(if is_gone { StreamEnd::ProcessGone(requests) } else { StreamEnd::Open })
    }

    /// Opens the records of a stream in the order of Redis. Fails with the reason why they are not ours; `None` if one of those
    /// after `after` is missing.
    fn opened(
        &self,
        session: &SessionId,
        after: EventId,
        before: u64,
        records: &[Record],
    ) -> Result<Option<Vec<Event>>, String> {
        let (mut events, mut previous, mut lost) = (Vec::new(), None, 0);
        let mut is_begun = false;
        for (number, letter, sealed) in records {
            let (Some(number), Some(kind), Ok(sealed)) =
                (digits(number), Kind::of(letter), str::from_utf8(sealed))
            else {
                return Err("it has another form".to_owned());
            };
            let id = EventId { stream: after.stream, number };
            let bytes = self.0.redis.keys().open(PURPOSE, &owner(session, id, kind), sealed);
            let bytes = Bytes::from(bytes.map_err(|why| why.to_string())?);
            if kind == Kind::Lost {
                lost = lost.max(number);
                continue;
            }
            // A stream may begin more than once as long as it has no event.
            if previous.is_some_and(|previous| number <= previous) && (previous, number) != (Some(0), 0) {
                return Err(format!("the event {number} is there twice or in another order"));
            }
            previous = Some(number);
            is_begun |= number == after.number;
            if number > after.number && number < before {
                events.push(Event { id, bytes, last: kind == Kind::Last });
            }
        }
        let numbers = events.iter().map(|event| event.id.number);
        let unbroken = numbers.eq((after.number.saturating_add(1)..).take(events.len()));
        let whole = match events.last() {
            Some(last) => before == u64::MAX || last.id.number + 1 == before,
            None => before == u64::MAX && is_begun,
        };
        Ok((unbroken && whole && lost <= after.number).then_some(events))
    }
}

impl EventStore for RedisEvents {
    fn append(&self, session: &SessionId, event: Event) -> Option<Confirmation> {
        let (confirm, confirmation) = Confirm::new();
        self.start();
        let Inner { redis, jobs, room, .. } = &*self.0;
        redis.start();
        let (id, size) = (event.id, event.bytes.len());
        let kib = u32::try_from(size.div_ceil(1024)).unwrap_or(u32::MAX).max(1);
        let place = if size > MAX_EVENT_BYTES {
            redis.warn(
                Problem::TooLarge,
                &format_args!("an event of {size} bytes; its stream cannot be resumed before it"),
            );
            None
        } else {
            room.clone().try_acquire_many_owned(kib).ok()
        };
        let job =
            place.map(|room| Job::Append { session: *session, event, confirm, since: Instant::now(), room });
        // Without the job, `confirm` is dropped: the event is not stored.
        if job.is_none_or(|job| jobs.try_send(job).is_err()) {
            self.0.lose(*session, id);
        }
        Some(confirmation)
    }

    fn begin(&self, session: &SessionId, id: EventId, requests: &[RequestId]) -> Option<Confirmation> {
        let text = |requests: &[RequestId]| Raw::from_value(&(self.0.redis.process(), requests)).ok();
        let text = text(requests).filter(|text| text.len() <= MAX_REQUEST_BYTES).or_else(|| text(&[]));
        let bytes = text.map_or_else(Bytes::new, |text| Bytes::copy_from_slice(text.as_bytes()));
        self.append(session, Event { id, bytes, last: false })
    }

    fn replay<'a>(&'a self, session: &'a SessionId, after: EventId, before: u64) -> Replay<'a> {
        Box::pin(self.read(session, after, before))
    }

    fn forget(&self, session: &SessionId) {
        self.start();
        // If it is not forgotten now, it expires.
        let _ = self.0.jobs.try_send(Job::Forget(*session));
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl Inner {
    /// An event is sent without being stored.
    fn lose(&self, session: SessionId, id: EventId) {
        self.redis.count(Counted::EventNotStored);
        self.lost.lock().note(session, id);
    }

    /// Adds the command that stores a record. False if it cannot be sealed.
    fn add(
        &self,
        pipeline: &mut Pipeline,
        script: &str,
        session: &SessionId,
        id: EventId,
        kind: Kind,
        bytes: &[u8],
    ) -> bool {
        let Ok(sealed) = self.redis.keys().seal(PURPOSE, &owner(session, id, kind), bytes) else {
            return false;
        };
        let command = pipeline.cmd("EVALSHA").arg(script).arg(1).arg(key(session));
        command.arg(millis(self.expiry)).arg(MAX_SESSION_BYTES).arg(MAX_SESSION_EVENTS);
        command.arg(id.stream).arg(id.number).arg(&[kind.letter()][..]).arg(sealed);
        true
    }

    /// Stores what is ready, in one round trip.
    async fn store(&self, jobs: Vec<Job>) {
        let (mut lost, mut lost_sessions) = {
            let lost = self.lost.lock();
            (first(&lost.streams), first(&lost.sessions))
        };
        let (mut appended, mut forgotten, mut flushed) = (Vec::new(), Vec::new(), Vec::new());
        let patience = self.redis.waits();
        let mut deadline = Instant::now() + patience;
        for job in jobs {
            match job {
                Job::Append { session, event, confirm, since, room } => {
                    let latest = since + patience;
                    // Too late before it is sent: then Redis has nothing of it, and the others have time for an answer.
                    if since.elapsed() > patience / 2 || !self.redis.is_reached() {
                        self.lose(session, event.id);
                        continue;
                    }
                    deadline = deadline.min(latest);
                    appended.push((session, event, confirm, room));
                }
                Job::Forget(session) => forgotten.push(session),
                Job::Flush(flush) => flushed.push(flush),
            }
        }
        if !self.redis.is_reached() {
            (lost, lost_sessions) = Default::default();
        }
        if appended.is_empty() && forgotten.is_empty() && lost.is_empty() && lost_sessions.is_empty() {
            return confirm(flushed);
        }
        let mut sealed = Vec::with_capacity(appended.len());
        let left = deadline.saturating_duration_since(Instant::now());
        let answers = self.redis.run(left, |pipeline, name| {
            let script = name(Script::Append);
            for ((session, stream), number) in &lost {
                let id = EventId { stream: *stream, number: *number };
                self.add(pipeline, &script, session, id, Kind::Lost, &[]);
            }
            // Before what follows in the same sessions.
            for (session, _) in &lost_sessions {
                pipeline.cmd("UNLINK").arg(key(session));
            }
            for (session, event, ..) in &appended {
                let kind = if event.last { Kind::Last } else { Kind::Event };
                sealed.push(self.add(pipeline, &script, session, event.id, kind, &event.bytes));
            }
            for session in &forgotten {
                pipeline.cmd("UNLINK").arg(key(session));
            }
        });
        let mut answers = match answers.await {
            Ok(answers) => answers.into_iter(),
            // The connection has logged why.
            Err(_) => Vec::new().into_iter(),
        };
        for known in lost {
            if matches!(answers.next(), Some(Ok(_))) {
                remove_known(&mut self.lost.lock().streams, &known);
            }
        }
        for known in lost_sessions {
            if matches!(answers.next(), Some(Ok(_))) {
                remove_known(&mut self.lost.lock().sessions, &known);
            }
        }
        for (place, (session, event, confirm, _)) in appended.into_iter().enumerate() {
            let answer = if sealed.get(place) == Some(&true) { answers.next() } else { None };
            match answer {
                Some(Ok(_)) => confirm.stored(),
                Some(Err(error)) => {
                    self.redis.warn(Problem::Refused, &error);
                    self.lose(session, event.id);
                }
                None => self.lose(session, event.id),
            }
        }
        confirm(flushed);
    }
}

/// Everything before was stored or lost.
fn confirm(flushed: Vec<oneshot::Sender<()>>) {
    for flush in flushed {
        // Who has asked may have gone.
        let _ = flush.send(());
    }
}

/// Stores events until no handle can append any.
async fn write(inner: std::sync::Weak<Inner>, mut jobs: mpsc::Receiver<Job>) {
    let mut retry = Instant::now();
    loop {
        let Some(known) = inner.upgrade() else { return };
        let (redis, none_is_lost) = (known.redis.clone(), known.lost.lock().is_empty());
        drop(known);
        let first = tokio::select! {
            job = jobs.recv() => match job {
                Some(job) => Some(job),
                None => return,
            },
            // Redis is available again, and learns what was lost meanwhile.
            () = async { sleep_until(retry).await; redis.available().await }, if !none_is_lost => None,
        };
        drop(redis);
        retry = Instant::now() + LOST_DELAY;
        let mut batch: Vec<Job> = first.into_iter().collect();
        let mut bytes = 0;
        while batch.len() < MAX_BATCH && bytes < MAX_BATCH_BYTES {
            if let Some(Job::Append { event, .. }) = batch.last() {
                bytes += event.bytes.len();
            }
            let Ok(job) = jobs.try_recv() else { break };
            batch.push(job);
        }
        let Some(inner) = inner.upgrade() else { return };
        inner.store(batch).await;
    }
}

impl fmt::Debug for RedisEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisEvents").field("redis", &self.0.redis).finish_non_exhaustive()
    }
}

/// Whether Redis says that something else stands at the key, or more than this program writes.
pub(crate) fn is_about_record(error: &RedisError) -> bool {
    let text = error.to_string();
    ["WRONGTYPE", "TOOLARGE"].iter().any(|code| error.code() == Some(code) || text.contains(code))
}

/// What a record is sealed for. Each part has a fixed length.
fn owner(session: &SessionId, id: EventId, kind: Kind) -> Vec<u8> {
    let mut owner = session.as_bytes().to_vec();
    owner.extend_from_slice(&id.stream.to_be_bytes());
    owner.extend_from_slice(&id.number.to_be_bytes());
    owner.push(kind.letter());
    owner
}

fn digits(text: &[u8]) -> Option<u64> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// The key in Redis: a digest, because the name of a session may be its id.
fn key(session: &SessionId) -> String {
    let digest: [u8; 32] = Sha256::digest(session.as_bytes()).into();
    format!("mcpjoin:events:{}", hex(&digest[..16]))
}

#[cfg(test)]
mod tests {
    use mcpjoin::server::{SealingKeys, StateKey};

    use super::*;

    const SESSION: SessionId = SessionId::from_bytes([1; 16]);

    /// A store whose writer never takes anything.
    fn unwritten() -> (RedisEvents, Option<mpsc::Receiver<Job>>) {
        let keys = SealingKeys::new(StateKey::from_bytes([1; 32]), []);
        let redis = Redis::new("redis://127.0.0.1:1", keys).expect("a URL");
        let events = RedisEvents::new(redis, Duration::from_secs(1));
        let jobs = events.0.unwritten.lock().take();
        (events, jobs)
    }

    /// Whether an event of this size waits to be stored.
    async fn waits(events: &RedisEvents, number: u64, bytes: usize) -> bool {
        let event = Event { id: EventId { stream: 1, number }, bytes: vec![b'x'; bytes].into(), last: false };
        let mut confirmation = events.append(&SESSION, event).expect("it is shared");
        tokio::select! {
            biased;
            stored = confirmation.wait() => { assert!(!stored); false }
            () = std::future::ready(()) => true,
        }
    }

    #[tokio::test]
    async fn events_that_wait_for_redis_have_a_limit_in_number_and_bytes() {
        let (events, _jobs) = unwritten();
        for number in 1..=MAX_QUEUED as u64 {
            assert!(waits(&events, number, 10).await, "{number}");
        }
        assert!(!waits(&events, 5_000, 10).await);
        let (events, _jobs) = unwritten();
        for number in 1..=16 {
            assert!(waits(&events, number, 1024 * 1024).await, "{number}");
        }
        assert!(!waits(&events, 17, 1).await);
        assert_eq!(events.0.lost.lock().streams.get(&(SESSION, 1)), Some(&17));
    }

    #[test]
    fn remembered_streams_with_a_lost_event_are_limited_and_beyond_it_their_sessions_are_remembered() {
        let (other, mut lost) = (SessionId::from_bytes([2; 16]), Lost::default());
        for stream in 0..MAX_LOST as u64 {
            lost.note(SESSION, EventId { stream, number: 1 });
        }
        // Of one that is remembered the last number counts.
        for number in [3, 2] {
            lost.note(SESSION, EventId { stream: 0, number });
        }
        let is_after =
            |lost: &Lost, session, stream, number| lost.is_after(session, EventId { stream, number });
        assert_eq!((lost.streams.len(), lost.sessions.len()), (MAX_LOST, 0));
        assert!(is_after(&lost, &SESSION, 0, 2) && !is_after(&lost, &SESSION, 0, 3));
        // The session of one stream more is remembered as a whole, and the others keep what they have.
        assert!(!is_after(&lost, &other, 7, 0));
        lost.note(other, EventId { stream: 7, number: 1 });
        assert!(is_after(&lost, &other, 7, 0) && is_after(&lost, &other, 8, 0));
        assert!(is_after(&lost, &SESSION, 0, 2) && !is_after(&lost, &SESSION, 0, 3));
        assert_eq!((lost.streams.len(), lost.sessions.len()), (MAX_LOST, 1));
        lost.note(SESSION, EventId { stream: MAX_LOST as u64, number: 1 });
        assert!(is_after(&lost, &SESSION, 0, 3) && is_after(&lost, &SESSION, MAX_LOST as u64, 0));
        assert_eq!((lost.streams.len(), lost.sessions.len()), (0, 2));
        // An entry that has changed since it was told is told again.
        let told = first(&lost.sessions);
        lost.note(SESSION, EventId { stream: 1, number: 2 });
        told.iter().for_each(|known| remove_known(&mut lost.sessions, known));
        assert!(is_after(&lost, &SESSION, 1, 1) && !is_after(&lost, &other, 7, 0));
    }

    #[test]
    fn the_number_of_remembered_sessions_with_a_lost_event_is_limited() {
        let mut lost = Lost::default();
        let session = |number: usize| SessionId::from_bytes((number as u128).to_be_bytes());
        for stream in 0..MAX_LOST as u64 {
            lost.note(session(0), EventId { stream, number: 1 });
        }
        (1..=MAX_LOST_SESSIONS + 1)
            .for_each(|number| lost.note(session(number), EventId { stream: 1, number: 1 }));
        assert_eq!((lost.streams.len(), lost.sessions.len()), (MAX_LOST, MAX_LOST_SESSIONS));
    }
}
