//! The life of a child process: how it starts, what it leaves on standard error, how it and everything it has
//! started is ended.
//!
//! Called by `link::child`. It knows pipes, signals and `/proc`; it never looks at what goes through the pipes,
//! never asks a shell and never downloads anything.
//!
//! One thread, the keeper, starts every child, watches it, walks the
//! [shutdown ladder](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio) and reaps it.
//! It is a thread of its own and not a task because the kernel's parent-death signal follows the *thread* that
//! forked, because a link may be dropped when its runtime is gone, and because the ladder must go on when the
//! future that waits for it is dropped.
//!
//! What holds on which system:
//!
//! | | Linux | other Unix |
//! |---|---|---|
//! | the whole process group is ended | yes | yes |
//! | what left the group is found and ended | yes, by `/proc` | no, and the report says so |
//! | the child dies when this process is killed | yes, by the kernel's parent-death signal | it sees the end of its input |
//! | and what it had started | when there is a [guard] | no |
//!
//! Elsewhere (Windows) starting children is not built yet: [`ChildCommand`](crate::link::ChildCommand) does not
//! exist there.

mod command;
#[cfg(target_os = "linux")]
pub mod guard;
mod keeper;
mod kept;
mod mark;
mod spawn;
mod stderr;
mod tree;

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use mcpjoin_proto::session::ProcessExit;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::watch;

pub(crate) use command::Spec;
pub use command::{SpawnError, SpawnErrorKind};
pub(crate) use keeper::{Spawned, spawn};
pub(crate) use stderr::{StderrLines, StderrTail, drain};

/// How long each step of the shutdown ladder lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grace {
    /// From closing standard input to SIGTERM.
    pub(crate) end_of_input: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) terminate: Duration,
}

impl Default for Grace {
    /// 2 s each: with the rest at most 5 s in all.
    fn default() -> Self {
        Self { end_of_input: Duration::from_secs(2), terminate: Duration::from_secs(2) }
    }
}

/// What had to be done to end a child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Forced {
    /// Nothing: it ended by itself, or when its standard input was closed.
    #[default]
    No,
    /// SIGTERM.
    Terminated,
    /// SIGKILL.
    Killed,
}

/// A process that a child has started and that was there after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its process id.
    pub pid: u32,
    /// Its name, as the system shows it (at most 15 bytes on Linux).
    pub name: String,
}

/// How a child was ended, and what is left of what it had started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// How the child itself has ended; `None` when that was lost, because somebody else in this process has
    /// waited for it, or because it could not even be killed.
    pub exit: Option<ProcessExit>,
    /// What it took.
    pub forced: Forced,
    /// What the child had started and was still there when the child itself had ended: asked to end then, and
    /// killed half a second later. Empty for a child that cleans up behind it.
    pub left_behind: Vec<Survivor>,
    /// What was started by the child, is known, and is still there. Normally empty: only what runs as another
    /// user or hangs in the kernel survives. What has left both the process group and our environment before it
    /// was first seen is not known.
    pub survivors: Vec<Survivor>,
    /// Everybody could be looked for. False where there is no `/proc`, and when a file descriptor to read it with was
    /// not to be had for half a second: then the process group was ended, and whoever had left it may be there.
    pub complete: bool,
}

/// What is known of a child's end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phase {
    /// The child itself has ended.
    pub(crate) ended: bool,
    pub(crate) exit: Option<ProcessExit>,
    /// The child is reaped and what it had started is ended.
    pub(crate) report: Option<Arc<ShutdownReport>>,
}

/// Ready when a child and what it has started are gone.
pub(crate) async fn reported(mut phase: watch::Receiver<Phase>) -> Option<ShutdownReport> {
    let phase = phase.wait_for(|phase| phase.report.is_some()).await.ok()?;
    phase.report.as_deref().cloned()
}

/// What the keeper and the handles of one child share.
struct Shared {
    pid: Pid,
    /// Set when the child has been waited for: from then on its id may belong to somebody else, and no signal
    /// goes to it. Held while a signal is sent.
    reaped: Mutex<bool>,
    phase: watch::Sender<Phase>,
    /// Says the same as `phase.ended`, without its lock.
    ended: AtomicBool,
    /// The child was killed because its link was dropped: the keeper may see its death before it hears why.
    dropped: AtomicBool,
    /// The link that drives this child.
    link: AtomicWaker,
}

impl Shared {
    /// Of a child that runs and is not reaped.
    fn new(pid: Pid) -> Self {
        Self {
            pid,
            reaped: Mutex::new(false),
            phase: watch::Sender::new(Phase::default()),
            ended: AtomicBool::new(false),
            dropped: AtomicBool::new(false),
            link: AtomicWaker::new(),
        }
    }

    /// Sends a signal to the child's process group, as long as its id is certainly its own.
    fn signal_group(&self, signal: Signal) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            // Nobody left in the group, or nobody whom we may signal: the look at what is left tells.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    fn publish(&self, change: impl FnOnce(&mut Phase)) {
        self.phase.send_modify(change);
        self.ended.store(self.phase.borrow().ended, Ordering::Release);
        self.link.wake();
    }
}

/// A running child. Dropping it kills the whole process group at once and leaves the rest to the keeper.
pub(crate) struct Process {
    shared: Arc<Shared>,
}

impl Process {
    /// The child's process id, which is also the id of its process group.
    pub(crate) fn pid(&self) -> u32 {
        self.shared.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Watches the child from elsewhere.
    pub(crate) fn observe(&self) -> watch::Receiver<Phase> {
        self.shared.phase.subscribe()
    }

    /// Has the child itself ended?
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.shared.phase.borrow().clone()
    }

    /// Wakes this task when the child's end becomes known, and when all of it is over.
    pub(crate) fn register(&self, waker: &Waker) {
        self.shared.link.register(waker);
    }

    /// Begins the shutdown ladder with closing our end of standard input. Idempotent.
    pub(crate) fn close(&self, grace: Grace, stdin: Option<OwnedFd>) {
        keeper::close(&self.shared, grace, stdin);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A waker keeps its runtime's driver alive; the keeper and the handles may live longer than that.
        drop(self.shared.link.take());
        let (ended, over) = {
            let phase = self.shared.phase.borrow();
            (phase.ended, phase.report.is_some())
        };
        if !over {
            self.shared.dropped.store(!ended, Ordering::Release);
            self.shared.signal_group(Signal::KILL);
            keeper::kill(&self.shared);
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("pid", &self.pid()).field("phase", &self.phase()).finish()
    }
}
