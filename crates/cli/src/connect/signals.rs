//! The signals that end us, heard wherever a command waits.
//!
//! The first one ends a command in an orderly way: requests are cancelled, servers are asked to leave. The second one ends
//! the process, whatever the command does: a thread of its own sees to that, because a command that computes, or that
//! writes where nobody reads, hears nothing. What servers have started is then ended by the guard.

use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::signal::unix::{Signal as Heard, SignalKind, signal};

use crate::exit::{Exit, Signal};

/// How long a command may take to react to the second signal. It takes microseconds, unless the command is stuck.
const REACTION: Duration = Duration::from_millis(500);
/// How long a command may take to end after the second signal, once it has reacted: killing what it has started, and the
/// end of a trace, have 3.5 s together.
const FAREWELL: Duration = Duration::from_secs(5);

/// How many commands listen: without one, the command has ended, and what follows has its bounds.
static LISTENING: AtomicUsize = AtomicUsize::new(0);
/// How many signals commands have reacted to.
static HEARD: AtomicUsize = AtomicUsize::new(0);

/// The signals that end us, for a command that reacts to them.
pub(crate) struct Signals(Registered);

struct Registered {
    hangup: Heard,
    interrupt: Heard,
    terminate: Heard,
}

impl Signals {
    /// Listens from now on. To be called where a runtime is.
    ///
    /// # Errors
    /// The system has no resources for that.
    pub(crate) fn listen() -> std::io::Result<Self> {
        static WATCHED: Once = Once::new();
        let registered = Registered::new()?;
        // Counts with the first of them, so that it sees the same signals.
        let mut watched = Ok(());
        WATCHED.call_once(|| watched = watch());
        watched?;
        LISTENING.fetch_add(1, Ordering::Relaxed);
        Ok(Self(registered))
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        let signal = self.0.next().await;
        HEARD.fetch_add(1, Ordering::Relaxed);
        signal
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        LISTENING.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Registered {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::Hangup,
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

/// Starts the thread that ends the process at the second signal, for as long as the process lives.
#[allow(clippy::exit, reason = "a command that is stuck never comes back to `main`")]
fn watch() -> std::io::Result<()> {
    let mut signals = Registered::new()?;
    thread::Builder::new().name("signals".into()).stack_size(256 * 1024).spawn(move || {
        let Ok(runtime) = runtime::Builder::new_current_thread().enable_io().build() else { return };
        let first = runtime.block_on(async {
            let first = signals.next().await;
            signals.next().await;
            first
        });
        thread::sleep(REACTION);
        let has_reacted = HEARD.load(Ordering::Relaxed) > 1 || LISTENING.load(Ordering::Relaxed) == 0;
        if has_reacted {
            thread::sleep(FAREWELL);
        }
        std::process::exit(Exit::Signal(first).code().into());
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

    use super::Signals;

    /// Makes this test the process that is to be ended.
    const BUSY: &str = "MCPJOIN_TEST_BUSY";
    const LONGEST: Duration = Duration::from_secs(60);

    #[test]
    fn the_second_signal_ends_a_process_whose_runtime_is_busy() {
        if std::env::var_os(BUSY).is_some() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let _signals = Signals::listen().unwrap();
                println!("\nbusy");
                // The runtime hears nothing, as in a loop that computes.
                loop {
                    std::thread::park();
                }
            });
        }
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
            let mut busy = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "--nocapture",
                    "connect::signals::tests::the_second_signal_ends_a_process_whose_runtime_is_busy",
                ])
                .env(BUSY, "1")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(busy.stdout.take().unwrap()).lines();
            assert!(lines.map_while(Result::ok).any(|line| line == "busy"), "it ended before it was busy");
            let pid = Pid::from_child(&busy);
            let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
            let began = Instant::now();
            // Signals of one kind that come together become one, so it is told until it has heard two.
            while busy.try_wait().unwrap().is_none() {
                assert!(began.elapsed() < LONGEST || busy.kill().is_err(), "it is not ended");
                kill_process(pid, signal).unwrap();
                let pause = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
                poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&pause)).unwrap();
            }
            assert_eq!(busy.wait().unwrap().code(), Some(code));
        }
    }
}
