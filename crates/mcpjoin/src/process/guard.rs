//! What ends our children's families when this process cannot do it any more.
//!
//! A process that is killed with SIGKILL walks no ladder. The kernel kills its direct children with it, and servers
//! that keep to the
//! [specification](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio) leave when their
//! standard input ends; what such a child has started and what heeds nothing goes on for ever. A program that does
//! not want that starts a guard: itself once more, with nothing to do but to wait for the end of the first.
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
//! Nothing in this library starts a guard by itself: whether there may be a process more is for the program to say.
//! Only on Linux, where `/proc` shows whose child a process is.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use super::kept::{RELOOK, TICK};
use super::mark::{Mark, VARIABLE};
use super::spawn;
use super::tree::{Family, Relative, Scope, Sight, World};

/// What stands in place of the guard's name, and what the system's lists of processes show. Nobody types that.
const NAME: &str = "mcpjoin: guard";
/// The program that runs, also when its file has been replaced or removed meanwhile.
const OURSELVES: &str = "/proc/self/exe";

/// From the end of its standard input to SIGTERM. Shorter than for a child whose owner lives, because nobody is left
/// who could be asked to wait.
const END_OF_INPUT: Duration = Duration::from_millis(300);
/// From SIGTERM to SIGKILL. With the rest everything is over within 2 s.
const TERMINATE: Duration = Duration::from_millis(500);
/// How long something may take to die of SIGKILL: longer only when it hangs in the kernel.
const DEATH: Duration = Duration::from_millis(500);

/// A guard that stands by. Dropping it dismisses it: it is gone when that returns.
#[derive(Debug)]
pub struct Guard {
    /// Our end of its standard input is in here. That nobody else holds it open is what the guard relies on.
    process: Child,
}

impl Guard {
    /// Starts the program that runs as a guard of all children that this process has, or will have.
    ///
    /// The guard has a process group of its own, so that what a terminal sends to ours does not reach it. It has none
    /// of our file descriptors, holds no folder, and gets no variable but the one by which those above us find what
    /// we have started. It takes about a megabyte of memory and no time.
    ///
    /// Takes about as long as starting any program (less than a millisecond here); may be called on any thread,
    /// also one that ends.
    ///
    /// # Errors
    /// The system starts no process more.
    pub fn start() -> io::Result<Self> {
        let mut command = Command::new(OURSELVES);
        command
            .arg0(NAME)
            .arg(Mark::of_ours().as_str())
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
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Not asked to leave but ended: that is right at every moment, also when it is stopped or has not begun.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Stands guard, when these are the arguments of a guard; false when they are not. To be called before anything else.
///
/// Waits for the process that has started the guard to end. What its children have started and left behind has 0.3 s
/// to end by itself, then gets SIGTERM, and SIGKILL 0.5 s later. Nobody is signalled who does not carry in its
/// environment that it comes from one of those children, or has a parent that does. Not found is whoever has cleared
/// its environment and lost its parent.
pub fn stand(arguments: impl IntoIterator<Item = OsString>) -> bool {
    let mut arguments = arguments.into_iter();
    if arguments.next().as_deref() != Some(OsStr::new(NAME)) {
        return false;
    }
    let Some(mark) = arguments.next().and_then(|name| Mark::of_children(name.to_str()?)) else {
        return false;
    };
    // The kernel says "exe", from the name of the file.
    let _ = rustix::thread::set_name(c"mcpjoin-guard");
    // Nothing is ever written: what is waited for is the end.
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
    end_all(mark);
    true
}

/// Ends whoever carries the mark.
fn end_all(mark: Mark) {
    let mut family = Family::marked(mark);
    for (signal, time) in [(None, END_OF_INPUT), (Some(Signal::TERM), TERMINATE), (Some(Signal::KILL), DEATH)]
    {
        let due = Instant::now() + time;
        let mut told = HashSet::new();
        loop {
            let found = family.living(&World::look(Scope::Everybody));
            if found.living.is_empty() && found.sight != Sight::Partial {
                return;
            }
            if let Some(signal) = signal {
                for relative in &found.living {
                    // Whoever is stopped could take nothing but SIGKILL.
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
            let soon = if found.sight == Sight::Partial {
                RELOOK
            } else if found.living.iter().any(|relative| relative.handle.is_none()) {
                TICK
            } else {
                due - now
            };
            wait(&found.living, soon.min(due - now));
        }
    }
}

/// Waits until one of them ends, or for so long.
fn wait(living: &[Relative], time: Duration) {
    let mut handles: Vec<_> = living
        .iter()
        .filter_map(|relative| relative.handle.as_ref())
        .map(|handle| PollFd::new(handle, PollFlags::IN))
        .collect();
    let time = Timespec::try_from(time).ok();
    if poll(&mut handles, time.as_ref()).is_err() {
        // Interrupted, or no memory for so many: looked at again a little later.
        std::thread::sleep(RELOOK);
    }
}
