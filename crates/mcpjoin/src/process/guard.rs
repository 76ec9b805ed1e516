//! A guard process, which ends the processes of our children when this process is killed.
//!
//! A process that is killed with SIGKILL runs no shutdown. The kernel kills its direct children with it, and servers that
//! follow the [specification](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio) exit when
//! their standard input ends. Processes that such a child has started, and servers that ignore the end of their input,
//! would run for ever. A program that does not accept that starts a guard: a second process of the same program that only
//! waits for the end of the first.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     // First of all: in the guard's process this returns when there is nothing left to do.
//!     if mcpjoin::guard::stand(std::env::args_os()) {
//!         return ExitCode::SUCCESS;
//!     }
//!     let guard = mcpjoin::guard::Guard::start();
//!     // ... connects to servers that are children, and closes them ...
//!     drop(guard);
//!     ExitCode::SUCCESS
//! }
//! ```
//!
//! This library never starts a guard by itself: only the program can decide that it may have one more process. Linux only,
//! because it needs `/proc` to find the processes of a child.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::child_state::{POLL_INTERVAL, RESCAN_INTERVAL};
use super::env_tag::{EnvTag, VARIABLE};
use super::spawn;
use super::tree::{Completeness, Family, Processes, Relative, Scope};

/// The guard's first argument, which lists of processes show. No user types it.
const NAME: &str = "mcpjoin: guard";
/// The running program, even if its file has been replaced or removed meanwhile.
const SELF_EXE: &str = "/proc/self/exe";

/// From the end of its standard input to SIGTERM. Shorter than for a child of a living process, because no program is left
/// that could ask for more time.
const END_OF_INPUT: Duration = Duration::from_millis(300);
/// From SIGTERM to SIGKILL. Everything is finished within 2 s.
const TERMINATE: Duration = Duration::from_millis(500);
/// How long a process may take to die of SIGKILL: longer only when it hangs in the kernel.
const SIGKILL_TIMEOUT: Duration = Duration::from_millis(500);

/// A running guard. Dropping it ends the guard process and waits for its exit.
#[derive(Debug)]
pub struct Guard {
    /// Holds our end of its standard input. The guard relies on it that no other process holds that end open.
    process: Child,
}

impl Guard {
    /// Starts the running program once more, as a guard of all present and future children of this process.
    ///
    /// The guard has a process group of its own, so signals that a terminal sends to ours do not reach it. It inherits no file
    /// descriptor and no working directory. Of the environment it inherits only the variable that identifies our own
    /// ancestors among processes of this library. It takes about a megabyte of memory and no processor time.
    ///
    /// Takes about as long as starting any program (less than a millisecond). May be called on any thread, also on one that
    /// ends.
    ///
    /// ```no_run
    /// use mcpjoin::guard::{self, Guard};
    ///
    /// fn main() -> std::io::Result<()> {
    ///     // The guard is this program, started once more.
    ///     if guard::stand(std::env::args_os()) {
    ///         return Ok(());
    ///     }
    ///     let _guard = Guard::start()?;
    ///     // Children that are started from here on do not outlive this process, even if it is killed.
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When the system cannot start another process.
    pub fn start() -> io::Result<Self> {
        let mut command = Command::new(SELF_EXE);
        command
            .arg0(NAME)
            .arg(EnvTag::of_ours().as_str())
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        if let Some(names) = std::env::var_os(VARIABLE) {
            command.env(VARIABLE, names);
        }
        spawn::without_descriptors(&mut command);
        Ok(Self { process: command.spawn()? })
    }

    /// Its process id.
    #[doc(hidden)]
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Killed, not asked to exit: that works at any moment, also when it is stopped or has not begun.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the guard if `arguments` are those of a guard; returns false otherwise. Call it before anything else in `main`.
///
/// Waits for the end of the process that has started the guard. The processes that its children have left behind then have
/// 0.3 s to exit, receive SIGTERM, and SIGKILL 0.5 s later. Only processes whose environment shows that they descend from
/// one of those children, or that have such a process as parent, are signalled. A process that has cleared its environment
/// and lost its parent is not found.
pub fn stand(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let mut arguments = arguments.into_iter();
    if arguments.next().as_deref() != Some(OsStr::new(NAME)) {
        return false;
    }
    let Some(tag) = arguments.next().and_then(|name| EnvTag::of_children(name.to_str()?)) else {
        return false;
    };
    // The kernel's default is "exe", the name of the file. Not by a system call: the feature `thread` of rustix takes longer to
    // compile than all its others.
    let _ = std::fs::write("/proc/self/comm", "mcpjoin-guard");
    // Nothing is ever written: this waits for the end of the input.
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    end_all(tag);
    true
}

/// Ends all processes with this tag.
fn end_all(tag: EnvTag) {
    let mut family = Family::tagged(tag);
    for (signal, time) in
        [(None, END_OF_INPUT), (Some(Signal::TERM), TERMINATE), (Some(Signal::KILL), SIGKILL_TIMEOUT)]
    {
        let due = Instant::now() + time;
        let mut told = HashSet::new();
        loop {
            let found = family.living(&Processes::look(Scope::All));
            if found.living.is_empty() && found.completeness != Completeness::Partial {
                return;
            }
            if let Some(signal) = signal {
                for relative in &found.living {
                    // A stopped process could handle nothing but SIGKILL.
                    if told.insert(relative.identity) {
                        relative.signal(signal);
                        relative.signal(Signal::CONT);
                    }
                }
            }
            let now = Instant::now();
            if now >= due {
                break;
            }
            let soon = if found.completeness == Completeness::Partial {
                RESCAN_INTERVAL
            } else if found.living.iter().any(|relative| relative.handle.is_none()) {
                POLL_INTERVAL
            } else {
                due - now
            };
            wait(&found.living, soon.min(due - now));
        }
    }
}

/// Waits until one of them exits, or for `time`.
fn wait(living: &[Relative], time: Duration) {
    let mut handles: Vec<_> = living
        .iter()
        .filter_map(|relative| relative.handle.as_ref())
        .map(|handle| PollFd::new(handle, PollFlags::IN))
        .collect();
    let time = Timespec::try_from(time).ok();
    if poll(&mut handles, time.as_ref()).is_err() {
        // Interrupted, or out of memory for so many handles: scanned again a little later.
        std::thread::sleep(RESCAN_INTERVAL);
    }
}
