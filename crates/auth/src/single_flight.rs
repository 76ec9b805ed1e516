//! Runs one operation for several waiters: a refresh, a login.
//!
//! A caller that comes while it runs waits for the same result. It runs as long as one caller waits, whichever began it; when
//! none waits any more it is dropped, unless it was spawned.

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;

use super::error::AuthError;

type Work = BoxFuture<'static, Result<(), AuthError>>;

/// At most one operation at a time.
#[derive(Default)]
pub(super) struct SingleFlight(Mutex<Option<WeakShared<Work>>>);

impl SingleFlight {
    /// Waits for the running operation, or begins one.
    pub(super) fn join<F>(&self, begin: impl FnOnce() -> F) -> Shared<Work>
    where
        F: Future<Output = Result<(), AuthError>> + Send + 'static,
    {
        let mut current = self.0.lock();
        if let Some(running) = current.as_ref().and_then(WeakShared::upgrade).filter(|it| it.peek().is_none())
        {
            return running;
        }
        let work: Work = Box::pin(begin());
        let work = work.shared();
        *current = work.downgrade();
        work
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn g140_the_work_goes_on_when_the_caller_that_began_it_has_gone() {
        let (flight, begun, go) =
            (SingleFlight::default(), Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let join = || {
            let (begun, go) = (begun.clone(), go.clone());
            flight.join(move || async move {
                begun.fetch_add(1, Ordering::SeqCst);
                go.notified().await;
                Ok(())
            })
        };
        let mut first = join();
        assert!((&mut first).now_or_never().is_none());
        let mut second = join();
        assert!((&mut second).now_or_never().is_none());
        drop(first);
        go.notify_one();
        second.await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        // When all waiters are dropped, the work is dropped, and the next caller begins a new one.
        let mut third = join();
        assert!((&mut third).now_or_never().is_none());
        drop(third);
        let mut fourth = join();
        assert!((&mut fourth).now_or_never().is_none());
        assert_eq!(begun.load(Ordering::SeqCst), 3);
    }
}
