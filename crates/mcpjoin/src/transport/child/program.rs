//! Runs a program that is no server to its end, and collects what it writes.
//!
//! Used by `doctor` for runtimes and login shells, by the binary for the program that samples, and by callers of
//! [`ChildCommand::run`].

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::time::sleep;

use super::{ChildCommand, UnfinishedLine, Watched};
use crate::process::{self, ShutdownReport, SpawnError, SpawnErrorKind, StderrTail};

impl ChildCommand {
    /// Runs a program that is no server: no messages are exchanged. Its standard input is empty, and [`stderr`](Self::stderr) is
    /// called with the lines of both of its outputs. Needs a tokio runtime with I/O and time.
    ///
    /// Completes when the program and everything that it has started are gone. When `end` is ready before that, they are ended
    /// like the child of a closed link, with the times of [`shutdown`](Self::shutdown). Dropping the future kills its process
    /// group at once.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use mcpjoin::transport::ChildCommand;
    ///
    /// # async fn example() -> Result<(), mcpjoin::transport::SpawnError> {
    /// let build = ChildCommand::new("make").arg("server").stderr(|line| eprintln!("{}", String::from_utf8_lossy(line)));
    /// let report = build.run(tokio::time::sleep(Duration::from_secs(60))).await?;
    /// println!("{:?}", report.exit);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`] names the program and the reason why it did not start.
    ///
    /// # Panics
    /// Outside a tokio runtime, and on one without time.
    pub async fn run(self, end: impl Future<Output = ()>) -> Result<ShutdownReport, SpawnError> {
        Ok(self.run_to_end(Bytes::new(), end).await?.report)
    }

    /// Runs a program as [`run`](Self::run) does, for at most `time`, and returns what it wrote.
    #[doc(hidden)]
    pub async fn output(self, timeout: Duration) -> Result<ProgramOutput, SpawnError> {
        self.output_for(Bytes::new(), sleep(timeout)).await
    }

    /// [`output`](Self::output) of a program that gets these bytes on its standard input, which it need not read, and that is
    /// ended when `end` is ready.
    #[doc(hidden)]
    pub async fn output_for(
        self,
        input: Bytes,
        end: impl Future<Output = ()>,
    ) -> Result<ProgramOutput, SpawnError> {
        let was_ended = AtomicBool::new(false);
        let end = async {
            end.await;
            was_ended.store(true, Ordering::Relaxed);
        };
        let output = self.run_to_end(input, end).await?;
        Ok(ProgramOutput { timed_out: was_ended.into_inner(), ..output })
    }

    async fn run_to_end(
        self,
        input: Bytes,
        end: impl Future<Output = ()>,
    ) -> Result<ProgramOutput, SpawnError> {
        let process::Spawned { process, stdin, stdout, stderr } =
            process::spawn(Arc::new(self.spec.clone())).await?;
        let failed = |error| self.spec.error(SpawnErrorKind::System(error));
        // If this fails, dropping the process ends it.
        let sender = pipe::Sender::from_owned_fd(stdin).map_err(failed)?;
        let reading = |output| pipe::Receiver::from_owned_fd(output).map_err(failed);
        let (stdout, stderr) = (reading(stdout)?, reading(stderr)?);
        let (printed, tail) = (StderrTail::default(), StderrTail::default());
        *self.handle.0.lock() = Some(Watched {
            pid: process.pid(),
            phase: process.observe(),
            stderr: tail.clone(),
            unfinished: UnfinishedLine::default(),
        });
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
        let stdin = async {
            tokio::select! {
                // A program that exits without reading has no reader left.
                _ = process::reported(process.observe()) => {}
                () = feed(sender, &input) => {}
            }
        };
        let (report, (), (), ()) = tokio::join!(over, stdout, stderr, stdin);
        Ok(ProgramOutput {
            report: report.unwrap_or_default(),
            timed_out: false,
            stdout: printed.bytes(),
            stderr: tail.bytes(),
        })
    }
}

/// Writes the input, and closes it. A program that does not want all of it is no error.
async fn feed(mut stdin: pipe::Sender, input: &[u8]) {
    let _ = stdin.write_all(input).await;
}

/// The result of a program that is no server.
#[derive(Debug)]
pub struct ProgramOutput {
    /// How it ended, and which signal was needed.
    pub report: ShutdownReport,
    /// It did not exit in time, and was ended.
    pub timed_out: bool,
    /// The last bytes that it wrote to standard output, at most 64 KiB.
    pub stdout: Bytes,
    /// The last bytes that it wrote to standard error, at most 64 KiB.
    pub stderr: Bytes,
}
