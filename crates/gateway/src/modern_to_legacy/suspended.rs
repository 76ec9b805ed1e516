//! Calls whose clients have left to answer questions.
//!
//! A modern client is asked by ending its request: the result `input_required` carries the questions, and the client
//! repeats the request with the answers and the `requestState` that it received
//! (<https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>). Meanwhile the call to the legacy
//! server stays open. It is stored here under a handle, which is the `requestState`. Used by `rounds`.
//!
//! A handle is valid once, for the client that received it, with the same request. It cannot be guessed: it has 128
//! random bits. The stored calls are limited in number, in bytes and in time. A call is given up earlier if another call
//! of the client needs its server ([`Suspended::give_up_oldest`]).

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mcpjoin_proto::ErrorObject;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, sleep};

use crate::errors::failure;

/// How long a client may take to return: as long as a server of this library accepts a sealed state, and long enough
/// for a person to fill in a form.
pub(super) const MAX_ABSENCE: Duration = Duration::from_secs(600);

/// How long a client is waited for while another of its calls needs the server: long enough for a program and for a quick
/// person, and half of the minute after which usual clients stop waiting for that other call.
pub(super) const MIN_ABSENCE: Duration = Duration::from_secs(30);

/// Calls that may be suspended at once: each keeps a call to the server open, and a connection has at most 10,000.
pub(super) const MAX_SUSPENDED_CALLS: usize = 1_000;

/// Bytes of questions of all suspended calls together: less than a message may have (10 MiB), so that one round always
/// fits into a message.
pub(super) const MAX_SUSPENDED_BYTES: usize = 8 * 1024 * 1024;

/// Invalid handles of which the reason is remembered.
const MAX_INVALID_HANDLES: usize = 1_024;

/// Why a handle is refused that is none, or is another principal's.
const UNKNOWN: &str = "is unknown to this bridge; send the call again without it";

/// What a client must match to resume a call.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Owner {
    /// The digest of the method, its target and its arguments.
    pub(super) request: [u8; 32],
    /// The authenticated principal, if there is one.
    pub(super) principal: Option<Box<str>>,
}

/// The limits of the stored calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) calls: usize,
    pub(super) bytes: usize,
    pub(super) absence: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { calls: MAX_SUSPENDED_CALLS, bytes: MAX_SUSPENDED_BYTES, absence: MAX_ABSENCE }
    }
}

/// The suspended calls.
pub(super) struct Suspended<T> {
    bounds: Bounds,
    /// Ends a call that its client does not resume, for this reason.
    abandon: fn(T, &str),
    entries: Mutex<Entries<T>>,
}

struct Entries<T> {
    by_handle: HashMap<Box<str>, Entry<T>>,
    last_number: u64,
    bytes: usize,
    /// Handles that were valid once, the oldest first.
    invalid: VecDeque<(Box<str>, Invalid)>,
}

struct Entry<T> {
    call: T,
    owner: Owner,
    bytes: usize,
    /// Counts up, so that the smallest number is that of the oldest call.
    number: u64,
    since: Instant,
    /// Abandons the call when its client has been away too long.
    timer: AbortHandle,
}

/// Why a handle is not valid any more.
#[derive(Clone, Copy)]
enum Invalid {
    Used,
    Expired,
    GivenUp,
}

impl<T> Entries<T> {
    fn remove(&mut self, handle: &str, why: Invalid) -> Option<T> {
        let (handle, entry) = self.by_handle.remove_entry(handle)?;
        entry.timer.abort();
        self.bytes -= entry.bytes;
        if self.invalid.len() == MAX_INVALID_HANDLES {
            self.invalid.pop_front();
        }
        self.invalid.push_back((handle, why));
        Some(entry.call)
    }
}

impl<T: Send + 'static> Suspended<T> {
    pub(super) fn new(bounds: Bounds, abandon: fn(T, &str)) -> Self {
        let entries =
            Entries { by_handle: HashMap::new(), last_number: 0, bytes: 0, invalid: VecDeque::new() };
        Self { bounds, abandon, entries: Mutex::new(entries) }
    }

    /// Stores a call until its client returns, and gives the handle for that. `bytes`: the size of its questions.
    ///
    /// # Errors
    /// If a limit is reached: the error names it, and the call is abandoned.
    pub(super) fn add(self: &Arc<Self>, call: T, owner: Owner, bytes: usize) -> Result<String, ErrorObject> {
        let mut entries = self.entries.lock();
        match self.reserve(&entries, bytes) {
            Ok(handle) => {
                let name: Box<str> = handle.as_str().into();
                let absence = sleep(self.bounds.absence);
                let expire = expire(Arc::downgrade(self), name.clone(), absence);
                let timer = tokio::spawn(expire).abort_handle();
                entries.bytes += bytes;
                entries.last_number += 1;
                let (number, since) = (entries.last_number, Instant::now());
                entries.by_handle.insert(name, Entry { call, owner, bytes, number, since, timer });
                Ok(handle)
            }
            Err(error) => {
                drop(entries);
                (self.abandon)(call, &error.message);
                Err(error)
            }
        }
    }

    /// A new handle, if there is room for one more call.
    fn reserve(&self, entries: &Entries<T>, bytes: usize) -> Result<String, ErrorObject> {
        let Bounds { calls, bytes: most_bytes, .. } = self.bounds;
        if entries.by_handle.len() >= calls {
            return Err(full("parked_calls", calls, "calls that wait for input responses"));
        }
        if entries.bytes.saturating_add(bytes) > most_bytes {
            return Err(full("parked_bytes", most_bytes, "bytes of input requests that wait for responses"));
        }
        random_handle()
    }

    /// Removes the call of that handle for the client that resumes it.
    ///
    /// # Errors
    /// If the handle was used already, has expired, belongs to another client or request, or is unknown. A call of
    /// another client or request stays stored.
    pub(super) fn take(&self, handle: &str, owner: &Owner) -> Result<T, ErrorObject> {
        let mut entries = self.entries.lock();
        let Some(entry) = entries.by_handle.get(handle) else {
            let invalid = entries.invalid.iter().find_map(|(name, why)| (**name == *handle).then_some(*why));
            return Err(refused(match invalid {
                Some(Invalid::Used) => "was used already: each value is valid for one request",
                Some(Invalid::Expired) => {
                    "has expired: the call to the server was cancelled because no input response arrived"
                }
                Some(Invalid::GivenUp) => {
                    "is over: the call was given up because further calls of this client needed its server"
                }
                None => UNKNOWN,
            }));
        };
        if entry.owner.principal != owner.principal {
            return Err(refused(UNKNOWN));
        }
        if entry.owner.request != owner.request {
            return Err(refused("belongs to another request: method, target and arguments must be the same"));
        }
        entries.remove(handle, Invalid::Used).ok_or_else(|| refused("was used already"))
    }

    /// Gives up the oldest of the calls that `may` be given up, once its client has been away for [`MIN_ABSENCE`].
    ///
    /// # Errors
    /// When this is possible for one of the stored calls; `None` if it is not for any.
    pub(super) fn give_up_oldest(&self, may: impl Fn(&T) -> bool) -> Result<(), Option<Instant>> {
        let mut entries = self.entries.lock();
        let candidates = entries.by_handle.iter().filter(|(_, entry)| may(&entry.call));
        let (handle, entry) = candidates.min_by_key(|(_, entry)| entry.number).ok_or(None)?;
        let at = entry.since + MIN_ABSENCE;
        if at > Instant::now() {
            return Err(Some(at));
        }
        let handle = handle.clone();
        let given_up = entries.remove(&handle, Invalid::GivenUp);
        drop(entries);
        if let Some(call) = given_up {
            (self.abandon)(call, "the client sent no input response, and its further calls need the server");
        }
        Ok(())
    }

    /// Gives up a call whose client does not receive its handle.
    pub(super) fn give_up(&self, handle: &str, why: &str) {
        let given_up = self.entries.lock().remove(handle, Invalid::GivenUp);
        if let Some(call) = given_up {
            (self.abandon)(call, why);
        }
    }

    /// How many calls are stored.
    pub(super) fn len(&self) -> usize {
        self.entries.lock().by_handle.len()
    }
}

impl<T> Drop for Suspended<T> {
    fn drop(&mut self) {
        for entry in self.entries.get_mut().by_handle.values() {
            entry.timer.abort();
        }
    }
}

/// Abandons a call when its client has been away for the whole time.
async fn expire<T: Send + 'static>(calls: Weak<Suspended<T>>, handle: Box<str>, absence: Sleep) {
    absence.await;
    let Some(calls) = calls.upgrade() else { return };
    let expired = calls.entries.lock().remove(&handle, Invalid::Expired);
    if let Some(call) = expired {
        let why = format!("the client sent no input response within {} s", calls.bounds.absence.as_secs());
        (calls.abandon)(call, &why);
    }
}

/// A handle that cannot be guessed.
fn random_handle() -> Result<String, ErrorObject> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| {
        ErrorObject::internal("this system provides no random numbers for the name of a waiting call")
    })?;
    Ok(format!("mcpjoin-{:032x}", u128::from_be_bytes(random)))
}

fn refused(why: &str) -> ErrorObject {
    ErrorObject::invalid_params(format!("`requestState` {why}"))
}

fn full(limit: &str, value: usize, of: &str) -> ErrorObject {
    let text = format!("too many {of}: the limit `{limit}` of {value} is reached");
    failure("tooManyWait", &text, &[("limit", value.to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that writes into a list why it was abandoned.
    #[derive(Debug)]
    struct Noted(&'static str, Arc<Mutex<Vec<String>>>);

    fn abandon(call: Noted, why: &str) {
        call.1.lock().push(format!("{}: {why}", call.0));
    }

    fn owner(request: u8, principal: Option<&str>) -> Owner {
        Owner { request: [request; 32], principal: principal.map(Into::into) }
    }

    fn suspended(calls: usize, bytes: usize) -> (Arc<Suspended<Noted>>, Arc<Mutex<Vec<String>>>) {
        (Arc::new(Suspended::new(Bounds { calls, bytes, ..Bounds::default() }, abandon)), Arc::default())
    }

    #[tokio::test]
    async fn a_handle_is_good_once_and_for_the_same_request_of_the_same_client() {
        let (calls, abandoned) = suspended(9, 99);
        let handle = calls.add(Noted("a", abandoned.clone()), owner(1, Some("x")), 1).expect("room");
        for (other, why) in [
            (owner(2, Some("x")), "belongs to another request"),
            (owner(1, Some("y")), "is unknown to this bridge"),
            (owner(1, None), "is unknown to this bridge"),
        ] {
            let error = calls.take(&handle, &other).expect_err("another's");
            assert_eq!(error.code, mcpjoin_proto::code::INVALID_PARAMS);
            assert!(error.message.contains(why), "{}", error.message);
        }
        assert_eq!(calls.take(&handle, &owner(1, Some("x"))).expect("its own").0, "a");
        let error = calls.take(&handle, &owner(1, Some("x"))).expect_err("used");
        assert!(error.message.contains("was used already"), "{}", error.message);
        let error = calls.take("mcpjoin-0", &owner(1, None)).expect_err("unknown");
        assert!(error.message.contains("is unknown to this bridge"), "{}", error.message);
        assert!(abandoned.lock().is_empty());
    }

    #[tokio::test]
    async fn handles_differ_and_have_128_random_bits() {
        let (calls, abandoned) = suspended(100, 99);
        let handles: std::collections::BTreeSet<String> = (0..100)
            .map(|_| calls.add(Noted("a", abandoned.clone()), owner(1, None), 0).expect("room"))
            .collect();
        assert_eq!(handles.len(), 100);
        assert!(handles.iter().all(|handle| handle.len() == "mcpjoin-".len() + 32));
    }

    #[tokio::test]
    async fn each_bound_is_named_by_the_error_and_room_comes_back() {
        let (calls, abandoned) = suspended(2, 10);
        let first = calls.add(Noted("a", abandoned.clone()), owner(1, None), 6).expect("room");
        let error = calls.add(Noted("b", abandoned.clone()), owner(1, None), 5).expect_err("too many bytes");
        assert!(error.message.contains("`parked_bytes` of 10"), "{}", error.message);
        calls.add(Noted("c", abandoned.clone()), owner(1, None), 4).expect("just fits");
        let error = calls.add(Noted("d", abandoned.clone()), owner(1, None), 0).expect_err("too many calls");
        assert!(error.message.contains("`parked_calls` of 2"), "{}", error.message);
        let messages = abandoned.lock().clone();
        assert_eq!(messages.len(), 2);
        assert!(messages[0].starts_with("b: ") && messages[1].starts_with("d: "), "{messages:?}");
        calls.take(&first, &owner(1, None)).expect("its own");
        calls.add(Noted("e", abandoned), owner(1, None), 6).expect("room again");
    }

    #[tokio::test]
    async fn questions_of_8_mib_wait_at_once() {
        let (calls, abandoned) = (Arc::new(Suspended::new(Bounds::default(), abandon)), Arc::default());
        let add = |bytes| calls.add(Noted("a", Arc::clone(&abandoned)), owner(1, None), bytes);
        add(8 << 20).expect("room");
        let error = add(1).expect_err("too many bytes");
        assert!(error.message.contains("`parked_bytes` of 8388608"), "{}", error.message);
    }

    #[tokio::test]
    async fn remembered_used_handles_are_limited_and_the_oldest_is_dropped() {
        let (calls, abandoned) = suspended(1, 0);
        let handles: Vec<String> = (0..=MAX_INVALID_HANDLES)
            .map(|_| {
                let handle = calls.add(Noted("a", abandoned.clone()), owner(1, None), 0).expect("room");
                calls.take(&handle, &owner(1, None)).expect("its own");
                handle
            })
            .collect();
        let why = |handle: &String| calls.take(handle, &owner(1, None)).expect_err("it is over").message;
        assert!(why(&handles[0]).contains("is unknown to this bridge"), "{}", why(&handles[0]));
        for handle in &handles[1..] {
            assert!(why(handle).contains("was used already"), "{}", why(handle));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_comes_back_is_given_up_after_ten_minutes() {
        let (calls, abandoned) = suspended(2, 10);
        let handle = calls.add(Noted("a", abandoned.clone()), owner(1, None), 6).expect("room");
        let begun = Instant::now();
        tokio::time::advance(MAX_ABSENCE - Duration::from_millis(1)).await;
        assert_eq!(calls.len(), 1);
        tokio::time::advance(Duration::from_millis(2)).await;
        while calls.len() == 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(begun.elapsed().as_secs(), 600);
        assert_eq!(*abandoned.lock(), ["a: the client sent no input response within 600 s"]);
        let error = calls.take(&handle, &owner(1, None)).expect_err("too late");
        assert!(error.message.contains("has expired"), "{}", error.message);
        calls.add(Noted("b", abandoned), owner(1, None), 10).expect("its bytes are free again");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_taken_is_not_given_up_later() {
        let (calls, abandoned) = suspended(2, 10);
        let handle = calls.add(Noted("a", abandoned.clone()), owner(1, None), 6).expect("room");
        calls.take(&handle, &owner(1, None)).expect("its own");
        tokio::time::advance(MAX_ABSENCE * 2).await;
        tokio::task::yield_now().await;
        assert!(abandoned.lock().is_empty());
    }
}
