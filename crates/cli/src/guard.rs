//! Our guard: should we be killed with SIGKILL, it ends what the servers have left behind.
//!
//! Called by `connect` around everything that starts a server, and by `main`, because a guard is this program once
//! more. What a guard is and does stands in `mcpjoin::guard`; elsewhere than on Linux there is none, and servers see
//! the end of their input.

use std::ffi::OsString;

#[cfg(target_os = "linux")]
use std::thread::JoinHandle;

/// A guard, from its start on. Dropping it dismisses it.
pub(crate) struct Guarded {
    #[cfg(target_os = "linux")]
    starting: Option<JoinHandle<Option<mcpjoin::guard::Guard>>>,
}

impl Guarded {
    /// Begins to start a guard, beside what comes next: nobody waits for it. A system that starts no process more has
    /// none; that the server cannot be started either, is told then.
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
impl Drop for Guarded {
    fn drop(&mut self) {
        let started = self.starting.take().map(JoinHandle::join);
        drop(started);
    }
}

/// Stands guard, when that is what this process was started for.
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
