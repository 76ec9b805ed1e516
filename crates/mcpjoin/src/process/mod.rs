//! Child processes: starting them, reading their standard error, and ending them with everything that they have started.
//!
//! Used by `transport::child`. It knows pipes, signals and `/proc`. It never reads what goes through the pipes, never runs a
//! shell and never downloads anything.
//!
//! One thread, the supervisor, starts every child, watches it, runs its
//! [shutdown](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio) and reaps it.
//! It is a thread and not a task because the kernel's parent-death signal follows the *thread* that forked, because a
//! transport may be dropped when its runtime is gone, and because the shutdown must go on when the future that waits for it
//! is dropped.
//!
//! What holds on which system:
//!
//! | | Linux | other Unix |
//! |---|---|---|
//! | the whole process group is ended | yes | yes |
//! | processes that left the group are found and ended | yes, by `/proc` | no, and the report says so |
//! | the child dies when this process is killed | yes, by the kernel's parent-death signal | its standard input ends |
//! | and the processes that it has started | when there is a [guard] | no |
//!
//! On other systems (Windows) children cannot be started: [`ChildCommand`](crate::transport::ChildCommand) does not exist there.

mod child_state;
mod command;
mod env_tag;
#[cfg(target_os = "linux")]
pub mod guard;
mod spawn;
mod stderr;
mod supervisor;
mod tree;

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use crate::sync::Mutex;
use futures_util::task::AtomicWaker;
use mcpjoin_proto::session::ProcessExit;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::sync::watch;

pub(crate) use command::Spec;
pub use command::{SpawnError, SpawnErrorKind};
pub(crate) use stderr::{StderrLines, StderrTail, drain};
pub(crate) use supervisor::{LARGE_PIPE_BYTES, Spawned, spawn};

/// How long each step of the shutdown lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grace {
    /// From closing standard input to SIGTERM.
    pub(crate) end_of_input: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) terminate: Duration,
}

impl Default for Grace {
    /// 2 s each: with the steps after SIGKILL at most 5 s in all.
    fn default() -> Self {
        Self { end_of_input: Duration::from_secs(2), terminate: Duration::from_secs(2) }
    }
}

/// The signal that was needed to end a child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Forced {
    /// None: it exited by itself, or when its standard input was closed.
    #[default]
    No,
    /// SIGTERM.
    Terminated,
    /// SIGKILL.
    Killed,
}

/// A process that a child had started and that was still alive after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Its process id.
    pub pid: u32,
    /// Its name, as the system shows it (at most 15 bytes on Linux).
    pub name: String,
}

/// How a child was ended, and which of its processes are left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// How the child itself ended. `None` when that is unknown: another part of this process has reaped it, or it could not
    /// be killed.
    pub exit: Option<ProcessExit>,
    /// The signal that was needed.
    pub forced: Forced,
    /// The processes that the child had started and that were still alive when it had exited. They received SIGTERM then,
    /// and SIGKILL half a second later. Empty for a child that cleans up its own processes.
    pub left_behind: Vec<Survivor>,
    /// The known processes of the child that are still alive. Normally empty: only a process of another user, or one that
    /// hangs in the kernel, survives. A process that had left both the process group and our environment before it was
    /// first seen is not known.
    pub survivors: Vec<Survivor>,
    /// Every process could be examined. False where there is no `/proc`, and when no file descriptor was free to read it for
    /// half a second: then the process group was ended, and a process that had left it may be alive.
    pub complete: bool,
}

/// How far a child's end has got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Phase {
    /// The child itself has exited.
    pub(crate) ended: bool,
    pub(crate) exit: Option<ProcessExit>,
    /// The child is reaped and its processes are ended.
    pub(crate) report: Option<Arc<ShutdownReport>>,
}

/// Completes when a child and its processes are gone.
pub(crate) async fn reported(mut phase: watch::Receiver<Phase>) -> Option<ShutdownReport> {
    let phase = phase.wait_for(|phase| phase.report.is_some()).await.ok()?;
    phase.report.as_deref().cloned()
}

/// The state that the supervisor and the handles of one child share.
struct Shared {
    pid: Pid,
    /// Set when the child has been reaped: from then on its id may be reused, and no signal is sent to it. Locked while a
    /// signal is sent.
    reaped: Mutex<bool>,
    phase: watch::Sender<Phase>,
    /// The same as `phase.ended`, without its lock.
    ended: AtomicBool,
    /// The child was killed because its transport was dropped: the supervisor may observe its death before it gets the order.
    dropped: AtomicBool,
    /// The task that drives the transport of this child.
    link: AtomicWaker,
}

impl Shared {
    /// The state of a child that runs and is not reaped.
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

    /// Sends a signal to the child's process group, as long as its id cannot have been reused.
    fn signal_group(&self, signal: Signal) {
        let reaped = self.reaped.lock();
        if !*reaped {
            // An error means that the group is empty or may not be signalled: the next scan shows which.
            let _ = kill_process_group(self.pid, signal);
        }
    }

    fn publish(&self, change: impl FnOnce(&mut Phase)) {
        self.phase.send_modify(change);
        self.ended.store(self.phase.borrow().ended, Ordering::Release);
        self.link.wake();
    }
}

/// A running child. Dropping it kills the process group at once; the supervisor ends and reaps the rest.
pub(crate) struct Process {
    shared: Arc<Shared>,
}

impl Process {
    /// The child's process id, which is also the id of its process group.
    pub(crate) fn pid(&self) -> u32 {
        self.shared.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns a receiver that follows the end of the child.
    pub(crate) fn observe(&self) -> watch::Receiver<Phase> {
        self.shared.phase.subscribe()
    }

    /// Whether the child itself has exited.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire)
    }

    pub(crate) fn phase(&self) -> Phase {
        self.shared.phase.borrow().clone()
    }

    /// Wakes this task when the child's exit is observed, and when its shutdown is finished.
    pub(crate) fn register(&self, waker: &Waker) {
        self.shared.link.register(waker);
    }

    /// Begins the shutdown by closing our end of standard input. Idempotent.
    pub(crate) fn close(&self, grace: Grace, stdin: Option<OwnedFd>) {
        supervisor::close(&self.shared, grace, stdin);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A waker keeps its runtime's driver alive; the supervisor and the handles may live longer than that.
        drop(self.shared.link.take());
        let (ended, over) = {
            let phase = self.shared.phase.borrow();
            (phase.ended, phase.report.is_some())
        };
        if !over {
            self.shared.dropped.store(!ended, Ordering::Release);
            self.shared.signal_group(Signal::KILL);
            supervisor::kill(&self.shared);
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("pid", &self.pid()).field("phase", &self.phase()).finish()
    }
}
