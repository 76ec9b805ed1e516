//! Starts the tasks that run beside a connection for as long as it lives, such as the one that reads a child's standard
//! error.
//!
//! Used by client, server and process. Each type of future that is spawned is about 6 KB of tokio's code in a user's
//! build (`cargo xtask weight`), so these futures have one type. What runs for each message is not spawned here.

use std::future::Future;
use std::pin::Pin;

use tokio::task::JoinHandle;
#[cfg(feature = "client")]
use tokio::task::JoinSet;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Spawns a task in the current runtime.
///
/// # Panics
/// Outside of a tokio runtime.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let task: Task = Box::pin(task);
    tokio::spawn(task)
}

/// As [`spawn`], in a set that ends its tasks when it is dropped.
#[cfg(feature = "client")]
pub(crate) fn spawn_in(tasks: &mut JoinSet<()>, task: impl Future<Output = ()> + Send + 'static) {
    let task: Task = Box::pin(task);
    tasks.spawn(task);
}
