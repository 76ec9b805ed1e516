//! The pages of which the server has told that the user has done what they are for.
//!
//! Called by `rounds`, which makes a call again that the server has refused until the user has visited a page:
//! <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error>.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

/// So many are remembered, the newest: who comes back for one has been away for minutes.
const REMEMBERED: usize = 256;

/// How long a call that is made again waits for the user to be done. A server need not tell at all, so after that it is
/// tried once more all the same.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pages of one run of a server.
#[derive(Default)]
pub(super) struct Visited {
    /// Their ids as numbers, so that it does not matter how long an id is.
    done: Mutex<VecDeque<u64>>,
    state: RandomState,
    more: Notify,
}

impl Visited {
    /// The server says that this one is done.
    pub(super) fn note(&self, id: &str) {
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if done.len() == REMEMBERED {
            done.pop_front();
        }
        done.push_back(self.state.hash_one(id));
        drop(done);
        self.more.notify_waiters();
    }

    /// Waits until all of these are done, or until they have had their time.
    pub(super) async fn wait(&self, ids: &[String]) {
        let all = async {
            loop {
                let more = self.more.notified();
                if self.has(ids) {
                    return;
                }
                more.await;
            }
        };
        // Late or not, the call is made again.
        let _ = timeout(PATIENCE, all).await;
    }

    fn has(&self, ids: &[String]) -> bool {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        !ids.is_empty() && ids.iter().all(|id| done.contains(&self.state.hash_one(id.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_newest_visits_are_remembered() {
        let visited = Visited::default();
        for id in 0..=REMEMBERED {
            visited.note(&id.to_string());
        }
        let begun = Instant::now();
        for id in 1..=REMEMBERED {
            visited.wait(&[id.to_string()]).await;
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        visited.wait(&["0".to_owned()]).await;
        assert_eq!(begun.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn all_pages_are_waited_for_but_not_for_ever() {
        let visited = Visited::default();
        let begun = Instant::now();
        let ids = ["a".to_owned(), "b".to_owned()];
        visited.note("a");
        let (_, elapsed) = tokio::join!(
            async {
                tokio::time::advance(Duration::from_secs(7)).await;
                visited.note("b");
            },
            async {
                visited.wait(&ids).await;
                begun.elapsed()
            }
        );
        assert_eq!(elapsed, Duration::from_secs(7));
        visited.wait(&["c".to_owned()]).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(37));
    }
}
