//! A program that is no server: run to its end, or ended, with what it wrote.
//!
//! Used by `doctor` for runtimes and login shells, and by callers of [`ChildCommand::run`]. The process is kept by `process`.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::unix::pipe;
use tokio::time::sleep;

use super::{ChildCommand, Watched};
use crate::process::{self, ShutdownReport, SpawnError, SpawnErrorKind, StderrTail};

impl ChildCommand {
    /// Runs a program that is no server: nothing crosses to it or from it. Its standard input is at its end from the
    /// beginning, and [`stderr`](Self::stderr) is called with the lines of both of its outputs. Needs a tokio runtime
    /// with I/O and time.
    ///
    /// It is waited for until the program and everything that it has started are gone. When `end` is ready before, they
    /// are ended as by closing a link, with the times of [`shutdown`](Self::shutdown). Dropped, it kills its group at once.
    ///
    /// # Errors
    /// [`SpawnError`] names the program and says why it did not start.
    ///
    /// # Panics
    /// Outside a tokio runtime, and on one without time.
    pub async fn run(self, end: impl Future<Output = ()>) -> Result<ShutdownReport, SpawnError> {
        Ok(self.run_to_end(end).await?.report)
    }

    /// Runs a program that is no server as [`run`](Self::run) does, for at most this long, and gives what it wrote.
    #[doc(hidden)]
    pub async fn output(self, timeout: Duration) -> Result<ProgramOutput, SpawnError> {
        let timed_out = AtomicBool::new(false);
        let timer = async {
            sleep(timeout).await;
            timed_out.store(true, Ordering::Relaxed);
        };
        let output = self.run_to_end(timer).await?;
        Ok(ProgramOutput { timed_out: timed_out.into_inner(), ..output })
    }

    async fn run_to_end(self, end: impl Future<Output = ()>) -> Result<ProgramOutput, SpawnError> {
        let process::Spawned { process, stdin, stdout, stderr } =
            process::spawn(Arc::new(self.spec.clone())).await?;
        drop(stdin);
        // When this fails, dropping the process ends it.
        let reading = |output| {
            let opened = pipe::Receiver::from_owned_fd(output);
            opened.map_err(|error| self.spec.error(SpawnErrorKind::System(error)))
        };
        let (stdout, stderr) = (reading(stdout)?, reading(stderr)?);
        let (printed, tail) = (StderrTail::default(), StderrTail::default());
        *self.handle.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Watched { pid: process.pid(), phase: process.observe(), stderr: tail.clone() });
        let over = async {
            let mut reported = pin!(process::reported(process.observe()));
            tokio::select! {
                biased;
                report = &mut reported => report,
                () = end => {
                    process.close(self.grace, None);
                    reported.await
                }
            }
        };
        let stdout = process::drain(stdout, printed.clone(), self.lines.clone(), process.observe());
        let stderr = process::drain(stderr, tail.clone(), self.lines.clone(), process.observe());
        let (report, (), ()) = tokio::join!(over, stdout, stderr);
        Ok(ProgramOutput {
            report: report.unwrap_or_default(),
            timed_out: false,
            stdout: printed.bytes(),
            stderr: tail.bytes(),
        })
    }
}

/// What a program that is no server came to.
#[derive(Debug)]
pub struct ProgramOutput {
    /// How it ended, and what had to be killed.
    pub report: ShutdownReport,
    /// It did not end in time, and was ended.
    pub timed_out: bool,
    /// The last bytes that it wrote to standard output, at most 64 KiB.
    pub stdout: Bytes,
    /// The last bytes that it wrote to standard error, at most 64 KiB.
    pub stderr: Bytes,
}
