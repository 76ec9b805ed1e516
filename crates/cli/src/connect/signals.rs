//! The signals that end us, wherever a command waits.
//!
//! The first signal ends a command in order: requests are cancelled, servers are asked to exit. The second signal ends the
//! process, whatever the command does. A separate thread does that, because a command that computes, or that writes to a full
//! pipe, handles no signal. The guard then ends what the servers have started.
//!
//! A command may use several runtimes one after another, as `list --watch` does. A signal that comes between two of them is for the
//! next one.

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::sync::Notify;

use crate::exit::{Exit, Signal};

/// How long a command may take to react to the second signal. It takes microseconds, unless the command is stuck.
const REACTION_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a command may take to end after it has reacted to the second signal. Killing the servers and closing a trace have
/// 3.5 s together.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long work that waits for a [`Stop`] may take to end its output. A reader that does not read does not delay the exit longer.
pub(super) const PRINT_TIMEOUT: Duration = Duration::from_millis(500);

/// The number of commands that listen. Without one the command has ended, and the rest of the process has its own timeouts.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);
/// The number of signals to which commands have reacted.
static HANDLED: AtomicUsize = AtomicUsize::new(0);

/// An interrupt ends only what the command does at this moment. Set by the shell.
static SPARES_COMMAND: AtomicBool = AtomicBool::new(false);
/// A hangup makes the command read its files again, and ends nothing.
static SPARES_AT_HANGUP: AtomicBool = AtomicBool::new(false);

/// What the last listener listened with. It receives between two listeners, too.
static KEPT: Mutex<Option<Streams>> = Mutex::new(None);

/// The signals that end us, for a command that reacts to them. Signals that came since the last listener are the first.
pub(crate) struct Signals(Option<Streams>);

struct Streams {
    hangup: SignalStream,
    interrupt: SignalStream,
    terminate: SignalStream,
}

impl Signals {
    /// Listens and watches from now on. Must be called within a runtime.
    ///
    /// # Errors
    /// When the system has no resources for it.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let signals = Self::listen_unwatched()?;
        Self::watch()?;
        Ok(signals)
    }

    /// Listens from now on, for a command that has something more urgent to do than [`watch`](Self::watch), and does not block
    /// before.
    pub(super) fn listen_unwatched() -> std::io::Result<Self> {
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take();
        let streams = kept.map_or_else(Streams::new, Ok)?;
        LISTENERS.fetch_add(1, Ordering::Relaxed);
        Ok(Self(Some(streams)))
    }

    /// From now on the second signal ends the process, whatever the command does. Must be called within a runtime that listens, so
    /// that both see the same signals.
    ///
    /// # Errors
    /// When the system has no resources for a thread.
    pub(crate) fn watch() -> std::io::Result<()> {
        static WATCHED: Once = Once::new();
        let mut watched = Ok(());
        WATCHED.call_once(|| watched = watch());
        watched
    }

    /// From now on an interrupt ends only what the command does at this moment (`true`), or the command. However often it comes, it
    /// does not end the process then.
    pub(crate) fn spare_command(&self, spares: bool) {
        SPARES_COMMAND.store(spares, Ordering::Relaxed);
    }

    /// From now on a hangup is no signal that ends us. The caller listens to it.
    pub(crate) fn spare_hangups() {
        SPARES_AT_HANGUP.store(true, Ordering::Relaxed);
    }

    /// The next signal. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        let Some(streams) = &mut self.0 else { return pending().await };
        let signal = streams.next().await;
        HANDLED.fetch_add(1, Ordering::Relaxed);
        signal
    }

    /// Waits for the work; the error is the signal that ends it first, and drops it.
    pub(crate) async fn until<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Signal> {
        tokio::select! {
            biased;
            signal = self.next() => Err(signal),
            outcome = work => Ok(outcome),
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = self.0.take();
        LISTENERS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Streams {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Signal {
        loop {
            let signal = tokio::select! {
                _ = self.hangup.recv() => Signal::Hangup,
                _ = self.interrupt.recv() => Signal::Interrupt,
                _ = self.terminate.recv() => Signal::Terminate,
            };
            if signal != Signal::Hangup || !SPARES_AT_HANGUP.load(Ordering::Relaxed) {
                return signal;
            }
        }
    }
}

/// Starts the thread that ends the process at the second signal.
#[allow(clippy::exit, reason = "a command that is stuck never returns to `main`")]
fn watch() -> std::io::Result<()> {
    let mut signals = Streams::new()?;
    thread::Builder::new().name("signals".into()).stack_size(256 * 1024).spawn(move || {
        let Ok(runtime) = runtime::Builder::new_current_thread().enable_io().build() else { return };
        let first = runtime.block_on(async {
            let ends_us = |signal| signal != Signal::Interrupt || !SPARES_COMMAND.load(Ordering::Relaxed);
            let mut first = None;
            loop {
                let signal = signals.next().await;
                match first {
                    _ if !ends_us(signal) => {}
                    None => first = Some(signal),
                    Some(first) => break first,
                }
            }
        });
        thread::sleep(REACTION_TIMEOUT);
        let has_reacted = HANDLED.load(Ordering::Relaxed) > 1 || LISTENERS.load(Ordering::Relaxed) == 0;
        if has_reacted {
            thread::sleep(EXIT_TIMEOUT);
        }
        std::process::exit(Exit::Signal(first).code().into());
    })?;
    Ok(())
}

/// Notifies work in progress of a signal, so that a command that streams a document can end it properly. All clones are one.
#[derive(Clone, Default)]
pub(crate) struct Stop(Rc<StopState>);

#[derive(Default)]
struct StopState {
    signal: Cell<Option<Signal>>,
    has_listener: Cell<bool>,
    raised: Notify,
}

impl Stop {
    /// Waits for the signal. Cancel-safe.
    pub(crate) async fn raised(&self) -> Signal {
        self.0.has_listener.set(true);
        loop {
            let raised = self.0.raised.notified();
            if let Some(signal) = self.0.signal.get() {
                return signal;
            }
            raised.await;
        }
    }

    pub(super) fn raise(&self, signal: Signal) {
        self.0.signal.set(Some(signal));
        self.0.raised.notify_waiters();
    }

    /// Whether [`raised`](Self::raised) has been called: the work then gets [`PRINT_TIMEOUT`] to end by itself.
    pub(super) fn has_listener(&self) -> bool {
        self.0.has_listener.get()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open};
    use tokio::signal::unix::{SignalKind, signal};
    use tokio::time::timeout;

    use super::Signals;
    use crate::exit;

    /// Makes this test the process that is to be ended.
    const BUSY: &str = "MCPJOIN_TEST_BUSY";
    const MAX_TIME: Duration = Duration::from_secs(60);

    /// Runs the test of this name again, in a process of its own.
    fn again(name: &str) -> Command {
        let mut test = Command::new(std::env::current_exe().unwrap());
        test.args(["--exact", "--nocapture", &format!("connect::signals::tests::{name}")]).env(BUSY, "1");
        test
    }

    #[test]
    fn a_signal_between_two_runtimes_is_for_the_second() {
        let name = "a_signal_between_two_runtimes_is_for_the_second";
        if std::env::var_os(BUSY).is_none() {
            // Its output is not ours: it has a result of its own.
            let test = again(name).output().unwrap();
            assert!(test.status.success(), "{}", String::from_utf8_lossy(&test.stdout));
            return;
        }
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut other = runtime().block_on(async {
            drop(Signals::listen_unwatched().unwrap());
            signal(SignalKind::terminate()).unwrap()
        });
        kill_process(getpid(), Signal::TERM).unwrap();
        let signal = runtime().block_on(async {
            // Another listener has it first, as the thread that waits for the second signal may.
            assert_eq!(timeout(MAX_TIME, other.recv()).await, Ok(Some(())));
            let mut signals = Signals::listen_unwatched().unwrap();
            timeout(MAX_TIME, signals.next()).await
        });
        assert!(matches!(signal, Ok(exit::Signal::Terminate)));
    }

    #[test]
    fn the_second_signal_ends_a_process_whose_runtime_is_busy() {
        if std::env::var_os(BUSY).is_some() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let _signals = Signals::listen().unwrap();
                println!("\nbusy");
                // The runtime handles no signal, as in a loop that computes.
                loop {
                    std::thread::park();
                }
            });
        }
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
            let mut busy = again("the_second_signal_ends_a_process_whose_runtime_is_busy")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(busy.stdout.take().unwrap()).lines();
            assert!(lines.map_while(Result::ok).any(|line| line == "busy"), "it ended before it was busy");
            let pid = Pid::from_child(&busy);
            let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
            let began = Instant::now();
            // Signals of one kind that arrive together become one, so they are sent until the process has received two.
            while busy.try_wait().unwrap().is_none() {
                assert!(began.elapsed() < MAX_TIME || busy.kill().is_err(), "it is not ended");
                kill_process(pid, signal).unwrap();
                let pause = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
                poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&pause)).unwrap();
            }
            assert_eq!(busy.wait().unwrap().code(), Some(code));
        }
    }
}
