//! The guard process: when this program is killed with SIGKILL, it ends the processes that the servers leave behind.
//!
//! Called by `connect` around everything that starts a server, and by `main`, since the guard is this program again. See
//! `mcpjoin::guard`. On systems other than Linux there is none, and servers see the end of their input.

use std::ffi::OsString;

#[cfg(target_os = "linux")]
use std::thread::JoinHandle;

/// A guard that is being started or runs. Dropping it ends it.
pub(crate) struct OrphanGuard {
    #[cfg(target_os = "linux")]
    starting: Option<JoinHandle<Option<mcpjoin::guard::Guard>>>,
}

impl OrphanGuard {
    /// Starts a guard on a separate thread, without waiting for it. When the system can start no process, there is none: starting
    /// the server then fails with a message.
    #[cfg(target_os = "linux")]
    pub(crate) fn start() -> Self {
        let starting = std::thread::Builder::new()
            .name("mcpjoin-guard".into())
            .stack_size(128 * 1024)
            .spawn(|| mcpjoin::guard::Guard::start().ok());
        Self { starting: starting.ok() }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn start() -> Self {
        Self {}
    }
}

#[cfg(target_os = "linux")]
impl Drop for OrphanGuard {
    fn drop(&mut self) {
        let started = self.starting.take().map(JoinHandle::join);
        drop(started);
    }
}

/// Runs as the guard, where this process was started as one.
pub(crate) fn stand(arguments: impl IntoIterator<Item = OsString>) -> bool {
    #[cfg(target_os = "linux")]
    {
        mcpjoin::guard::stand(arguments)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = arguments;
        false
    }
}
