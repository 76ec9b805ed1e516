//! Starts tasks that run beside a connection: those that read a child's standard error, keep a stream open, or do the work
//! of a protocol task.
//!
//! Used by the client, the server and the child transport. Each type of future that is spawned is about 6 KB of tokio's
//! code in a user's build (`cargo xtask weight`), so these futures are boxed to one type. What runs for each message is not
//! spawned here.

use std::future::Future;

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
#[cfg(feature = "client")]
use tokio::task::JoinSet;

/// Spawns a task in the current runtime.
///
/// # Panics
/// Outside of a tokio runtime.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(task.boxed())
}

/// As [`spawn`], in a set that ends its tasks when it is dropped.
#[cfg(feature = "client")]
pub(crate) fn spawn_in(tasks: &mut JoinSet<()>, task: impl Future<Output = ()> + Send + 'static) {
    tasks.spawn(task.boxed());
}
