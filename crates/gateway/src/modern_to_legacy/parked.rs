//! Calls that wait for the answers of a client which has left with the questions.
//!
//! A modern client is asked by ending its request: `input_required` carries the questions, and the client comes back with
//! another request that has the answers and the `requestState` that it was given
//! (<https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr>). Meanwhile the call to the legacy
//! server stays open; it is kept here, and the `requestState` is its handle. Called by `rounds`. Nothing here knows what
//! is kept, and nothing here speaks to a client or a server.
//!
//! A handle is good for one use, by the one who was given it, with the same request. It cannot be guessed: 128 random
//! bits. What is kept is bounded in number, in bytes and in time.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpjoin_proto::ErrorObject;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::relaying::failure;

/// How long a client may stay away: the time for which a server of ours seals a state, too, and long enough for a person
/// to fill in a form.
pub(super) const AWAY: Duration = Duration::from_secs(600);

/// How many calls may wait at once: each holds a call to the server open, of which a connection has 10,000 at most.
pub(super) const PARKED_CALLS: usize = 1_000;

/// How many bytes of questions may wait at once, all calls together: below what one message may have (10 MiB), so that a
/// round always fits into its message.
pub(super) const PARKED_BYTES: usize = 8 * 1024 * 1024;

/// Of so many handles that are not good any more it is remembered why.
const REMEMBERED: usize = 1_024;

/// Whose a parked call is: who comes back must be the same and ask the same.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Owner {
    /// The digest of the method, of what is called and of its arguments.
    pub(super) request: [u8; 32],
    /// In whose name it was asked, where that is proved.
    pub(super) principal: Option<Box<str>>,
}

/// What can be parked.
pub(super) trait Waits: Send + 'static {
    /// Nobody comes back for it.
    fn given_up(self, why: &str);
}

/// The bounds of what is parked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) calls: usize,
    pub(super) bytes: usize,
    pub(super) away: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { calls: PARKED_CALLS, bytes: PARKED_BYTES, away: AWAY }
    }
}

/// The calls that wait for their clients.
pub(super) struct Parking<T> {
    bounds: Bounds,
    places: Mutex<Places<T>>,
}

struct Places<T> {
    taken: HashMap<Box<str>, Place<T>>,
    bytes: usize,
    /// Handles that were good once, the oldest first.
    gone: VecDeque<(Box<str>, Gone)>,
}

struct Place<T> {
    waits: T,
    owner: Owner,
    bytes: usize,
    /// Ends the waiting.
    timer: AbortHandle,
}

/// Why a handle is not good any more.
#[derive(Clone, Copy)]
enum Gone {
    Used,
    Late,
}

impl<T> Places<T> {
    fn leave(&mut self, handle: &str, why: Gone) -> Option<T> {
        let (handle, place) = self.taken.remove_entry(handle)?;
        place.timer.abort();
        self.bytes -= place.bytes;
        if self.gone.len() == REMEMBERED {
            self.gone.pop_front();
        }
        self.gone.push_back((handle, why));
        Some(place.waits)
    }
}

impl<T: Waits> Parking<T> {
    pub(super) fn new(bounds: Bounds) -> Self {
        let places = Places { taken: HashMap::new(), bytes: 0, gone: VecDeque::new() };
        Self { bounds, places: Mutex::new(places) }
    }

    fn places(&self) -> MutexGuard<'_, Places<T>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a call until its client comes back, and gives the handle under which it does. `bytes`: how large what is kept
    /// for it is.
    ///
    /// # Errors
    /// When one of the bounds is reached: the error says which, and the call is given up.
    pub(super) fn park(
        self: &Arc<Self>,
        waits: T,
        owner: Owner,
        bytes: usize,
    ) -> Result<String, ErrorObject> {
        let Bounds { calls, bytes: limit, away } = self.bounds;
        let handle = match handle() {
            Ok(handle) => handle,
            Err(error) => {
                waits.given_up(&error.message);
                return Err(error);
            }
        };
        let full = {
            let mut places = self.places();
            if places.taken.len() >= calls {
                Some(full("parked_calls", calls, "calls that wait for their clients' answers"))
            } else if places.bytes.saturating_add(bytes) > limit {
                Some(full("parked_bytes", limit, "bytes of questions that wait for answers"))
            } else {
                let parking = Arc::downgrade(self);
                let name: Box<str> = handle.as_str().into();
                let timer = tokio::spawn({
                    let (name, away) = (name.clone(), sleep(away));
                    async move {
                        away.await;
                        if let Some(parking) = parking.upgrade() {
                            parking.give_up(&name);
                        }
                    }
                })
                .abort_handle();
                places.bytes += bytes;
                places.taken.insert(name, Place { waits, owner, bytes, timer });
                return Ok(handle);
            }
        };
        match full {
            Some(error) => {
                waits.given_up(&error.message);
                Err(error)
            }
            None => Ok(handle),
        }
    }

    /// The call of that handle, for whoever comes back.
    ///
    /// # Errors
    /// When the handle was used already, is too old, is another's or is none. A call that is another's stays.
    pub(super) fn take(&self, handle: &str, owner: &Owner) -> Result<T, ErrorObject> {
        let mut places = self.places();
        let Some(place) = places.taken.get(handle) else {
            let gone = places.gone.iter().find_map(|(name, why)| (**name == *handle).then_some(*why));
            return Err(refused(match gone {
                Some(Gone::Used) => "was used already: each is good for one request",
                Some(Gone::Late) => "is too old: the call to the server was cancelled when no answer came",
                None => "is not one that this bridge has given, or not one that it still knows",
            }));
        };
        if place.owner.principal != owner.principal {
            return Err(refused("is not one that this bridge has given, or not one that it still knows"));
        }
        if place.owner.request != owner.request {
            return Err(refused("belongs to another request: method, target and arguments must be the same"));
        }
        places.leave(handle, Gone::Used).ok_or_else(|| refused("was used already"))
    }

    fn give_up(&self, handle: &str) {
        let waits = self.places().leave(handle, Gone::Late);
        if let Some(waits) = waits {
            waits.given_up(&format!(
                "the client did not come back with an answer within {} s",
                self.bounds.away.as_secs()
            ));
        }
    }

    /// How many calls wait.
    pub(super) fn len(&self) -> usize {
        self.places().taken.len()
    }
}

impl<T> Drop for Parking<T> {
    fn drop(&mut self) {
        for place in self.places.get_mut().unwrap_or_else(PoisonError::into_inner).taken.values() {
            place.timer.abort();
        }
    }
}

impl<T: Waits> fmt::Debug for Parking<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parking").field("waiting", &self.len()).finish_non_exhaustive()
    }
}

/// A name that nobody can guess.
fn handle() -> Result<String, ErrorObject> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| {
        ErrorObject::internal("this system gives no random numbers to name a waiting call with")
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

    /// Says into a list what becomes of it.
    #[derive(Debug)]
    struct Told(&'static str, Arc<Mutex<Vec<String>>>);

    impl Waits for Told {
        fn given_up(self, why: &str) {
            self.1.lock().unwrap().push(format!("{}: {why}", self.0));
        }
    }

    fn owner(request: u8, principal: Option<&str>) -> Owner {
        Owner { request: [request; 32], principal: principal.map(Into::into) }
    }

    fn parking(calls: usize, bytes: usize) -> (Arc<Parking<Told>>, Arc<Mutex<Vec<String>>>) {
        (Arc::new(Parking::new(Bounds { calls, bytes, ..Bounds::default() })), Arc::default())
    }

    #[tokio::test]
    async fn a_handle_is_good_once_and_for_the_same_request_of_the_same_client() {
        let (parking, told) = parking(9, 99);
        let handle = parking.park(Told("a", told.clone()), owner(1, Some("x")), 1).expect("room");
        for (other, why) in [
            (owner(2, Some("x")), "belongs to another request"),
            (owner(1, Some("y")), "is not one that this bridge has given"),
            (owner(1, None), "is not one that this bridge has given"),
        ] {
            let error = parking.take(&handle, &other).expect_err("another's");
            assert_eq!(error.code, mcpjoin_proto::code::INVALID_PARAMS);
            assert!(error.message.contains(why), "{}", error.message);
        }
        assert_eq!(parking.take(&handle, &owner(1, Some("x"))).expect("its own").0, "a");
        let error = parking.take(&handle, &owner(1, Some("x"))).expect_err("used");
        assert!(error.message.contains("was used already"), "{}", error.message);
        let error = parking.take("mcpjoin-0", &owner(1, None)).expect_err("unknown");
        assert!(error.message.contains("is not one that this bridge has given"), "{}", error.message);
        assert!(told.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn handles_differ_and_have_128_random_bits() {
        let (parking, told) = parking(100, 99);
        let handles: std::collections::BTreeSet<String> = (0..100)
            .map(|_| parking.park(Told("a", told.clone()), owner(1, None), 0).expect("room"))
            .collect();
        assert_eq!(handles.len(), 100);
        assert!(handles.iter().all(|handle| handle.len() == "mcpjoin-".len() + 32));
    }

    #[tokio::test]
    async fn each_bound_is_named_by_the_error_and_room_comes_back() {
        let (parking, told) = parking(2, 10);
        let first = parking.park(Told("a", told.clone()), owner(1, None), 6).expect("room");
        let error = parking.park(Told("b", told.clone()), owner(1, None), 5).expect_err("too many bytes");
        assert!(error.message.contains("`parked_bytes` of 10"), "{}", error.message);
        parking.park(Told("c", told.clone()), owner(1, None), 4).expect("just fits");
        let error = parking.park(Told("d", told.clone()), owner(1, None), 0).expect_err("too many calls");
        assert!(error.message.contains("`parked_calls` of 2"), "{}", error.message);
        let told_of = told.lock().unwrap().clone();
        assert_eq!(told_of.len(), 2);
        assert!(told_of[0].starts_with("b: ") && told_of[1].starts_with("d: "), "{told_of:?}");
        parking.take(&first, &owner(1, None)).expect("its own");
        parking.park(Told("e", told), owner(1, None), 6).expect("room again");
    }

    #[tokio::test]
    async fn questions_of_8_mib_wait_at_once() {
        let (parking, told) = (Arc::new(Parking::new(Bounds::default())), Arc::default());
        let park = |bytes| parking.park(Told("a", Arc::clone(&told)), owner(1, None), bytes);
        park(8 << 20).expect("room");
        let error = park(1).expect_err("too many bytes");
        assert!(error.message.contains("`parked_bytes` of 8388608"), "{}", error.message);
    }

    #[tokio::test]
    async fn so_many_handles_that_are_over_are_remembered_and_the_oldest_is_forgotten() {
        let (parking, told) = parking(1, 0);
        let handles: Vec<String> = (0..=REMEMBERED)
            .map(|_| {
                let handle = parking.park(Told("a", told.clone()), owner(1, None), 0).expect("room");
                parking.take(&handle, &owner(1, None)).expect("its own");
                handle
            })
            .collect();
        let why = |handle: &String| parking.take(handle, &owner(1, None)).expect_err("it is over").message;
        assert!(why(&handles[0]).contains("not one that it still knows"), "{}", why(&handles[0]));
        for handle in &handles[1..] {
            assert!(why(handle).contains("was used already"), "{}", why(handle));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_comes_back_is_given_up_after_ten_minutes() {
        let (parking, told) = parking(2, 10);
        let handle = parking.park(Told("a", told.clone()), owner(1, None), 6).expect("room");
        let begun = tokio::time::Instant::now();
        tokio::time::advance(AWAY - Duration::from_millis(1)).await;
        assert_eq!(parking.len(), 1);
        tokio::time::advance(Duration::from_millis(2)).await;
        while parking.len() == 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(begun.elapsed().as_secs(), 600);
        assert_eq!(*told.lock().unwrap(), ["a: the client did not come back with an answer within 600 s"]);
        let error = parking.take(&handle, &owner(1, None)).expect_err("too late");
        assert!(error.message.contains("is too old"), "{}", error.message);
        parking.park(Told("b", told), owner(1, None), 10).expect("its bytes are free again");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_taken_is_not_given_up_later() {
        let (parking, told) = parking(2, 10);
        let handle = parking.park(Told("a", told.clone()), owner(1, None), 6).expect("room");
        parking.take(&handle, &owner(1, None)).expect("its own");
        tokio::time::advance(AWAY * 2).await;
        tokio::task::yield_now().await;
        assert!(told.lock().unwrap().is_empty());
    }
}
