//! The signals that end us, heard wherever a command waits.

use tokio::signal::unix::{Signal as Heard, SignalKind, signal};

use crate::exit::Signal;

/// The signals that end us.
pub(crate) struct Signals {
    hangup: Heard,
    interrupt: Heard,
    terminate: Heard,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::Hangup,
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}
