//! A server as a child process: one message per line over its standard input and output.
//!
//! Made by [`ChildCommand::start`]. The [specification](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio)
//! says how a client uses and ends such a process. `process` starts and ends it; this module joins it to a stream.

mod program;

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use crate::sync::Mutex;
use bytes::Bytes;
use mcpjoin_proto::session::{
    Inbound, Limits, Origin, Outbound, ProcessExit, TransportCaps, TransportEnd, TransportEndKind,
    TransportError,
};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep};

pub use self::program::ProgramOutput;
use super::inspect::{Direction, Inspected, Inspector};
use super::stream::Stream;
use super::{Link, Transport};
use crate::background;
use crate::process::{
    self, Forced, Grace, Phase, Process, ShutdownReport, SpawnError, SpawnErrorKind, Spec, StderrLines,
    StderrTail,
};

/// How long the output of an exited child is still read: a grandchild may hold the pipes open for ever. With the other steps
/// it stays below the 500 ms within which the exit is reported.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
/// How long to wait for the exit status after the end of the child's standard output.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_millis(400);

/// How to start a server as a child process. Arguments are passed as they are; no shell is involved.
///
/// ```no_run
/// # async fn f() -> Result<(), mcpjoin::transport::SpawnError> {
/// use mcpjoin::transport::ChildCommand;
///
/// let command = ChildCommand::new("my-server").arg("--verbose").env("API_KEY", "secret");
/// let handle = command.handle();
/// let link = command.start().await?;
/// println!("{:?}", handle.pid());
/// # drop(link);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ChildCommand {
    spec: Spec,
    lines: Option<StderrLines>,
    inspector: Option<CommandInspector>,
    grace: Grace,
    handle: ChildHandle,
}

/// Observes every link of a command and of its clones.
type CommandInspector = Arc<dyn Fn(Direction, Inspected<'_>) + Send + Sync>;

/// Observes a child from outside its link. Cheap to clone; outlives the link. After a restart it shows the new child.
#[derive(Clone)]
pub struct ChildHandle(Arc<Mutex<Option<Watched>>>);

/// One run of the program.
#[derive(Clone)]
struct Watched {
    pid: u32,
    phase: watch::Receiver<Phase>,
    stderr: StderrTail,
    unfinished: UnfinishedLine,
}

/// The start of what a child has written behind its last line feed. It is no message before the line feed follows.
#[derive(Clone, Default)]
struct UnfinishedLine(Arc<Mutex<Bytes>>);

impl UnfinishedLine {
    /// Stores the text. Called at each pause of the child's output, so an equal text is not copied again.
    fn set(&self, text: &[u8]) {
        let mut known = self.0.lock();
        if **known != *text {
            *known = Bytes::copy_from_slice(text);
        }
    }
}

impl ChildCommand {
    /// A command for the program `program`: a path when it contains a path separator (a relative path is resolved from the
    /// child's working directory), otherwise a name that is searched for in the `PATH` of the child. Empty entries of `PATH`
    /// are skipped.
    ///
    /// The child inherits our environment and working directory unless told otherwise. It inherits no file descriptor but its
    /// three standard streams.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            spec: Spec {
                program: program.into(),
                args: Vec::new(),
                env: std::collections::BTreeMap::new(),
                env_clear: false,
                current_dir: None,
                new_session: false,
            },
            lines: None,
            inspector: None,
            grace: Grace::default(),
            handle: ChildHandle(Arc::default()),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.spec.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.spec.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable in the child's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.spec.env.insert(name.into(), Some(value.into()));
        self
    }

    /// Removes a variable from the child's environment.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.spec.env.insert(name.into(), None);
        self
    }

    /// Makes the child inherit no variable: it gets only those of [`env`](Self::env), and `MCPJOIN_CHILD`, which identifies its
    /// descendants.
    #[must_use]
    pub const fn env_clear(mut self) -> Self {
        self.spec.env_clear = true;
        self
    }

    /// Sets the child's working directory.
    #[must_use]
    pub fn current_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.spec.current_dir = Some(path.into());
        self
    }

    /// Starts the child in a session of its own, without a controlling terminal: it cannot prompt there, and the terminal
    /// cannot stop it for being in the background.
    #[doc(hidden)]
    #[must_use]
    pub const fn new_session(mut self) -> Self {
        self.spec.new_session = true;
        self
    }

    /// Calls `lines` with each line that the child writes to standard error, without its line end. A line may contain any bytes
    /// and is split into pieces of 8 KiB. Without it the lines are read all the same, and the last 64 KiB are kept for error
    /// messages.
    ///
    /// It is called in a task of its own. While it blocks, nothing is read, the child blocks once its pipe is full, and the
    /// runtime lacks a thread, which may be the one that waits for input and output: a callback that blocks for long does so in
    /// `tokio::task::block_in_place`. If it panics, it is not called again.
    #[must_use]
    pub fn stderr(mut self, line: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        self.lines = Some(Arc::new(line));
        self
    }

    /// Calls `inspector` with everything that crosses the links of this command and of its clones, as [`Link::inspected`] does: for
    /// programs that start the command more than once.
    #[must_use]
    pub fn inspected(mut self, inspector: impl Fn(Direction, Inspected<'_>) + Send + Sync + 'static) -> Self {
        self.inspector = Some(Arc::new(inspector));
        self
    }

    /// Sets the grace of a shutdown: the time from closing standard input to SIGTERM, and from there to SIGKILL. 2 s each by
    /// default; with the last steps, closing takes at most 5 s.
    #[must_use]
    pub const fn shutdown(mut self, end_of_input: Duration, terminate: Duration) -> Self {
        self.grace = Grace { end_of_input, terminate };
        self
    }

    /// Returns a handle of the child that this command starts. All clones of a command share it.
    #[must_use]
    pub fn handle(&self) -> ChildHandle {
        self.handle.clone()
    }

    /// Returns the file that [`start`](Self::start) would start now. Starts nothing.
    ///
    /// # Errors
    /// [`SpawnError`] names the program and the reason why it cannot be started, as far as it can be known beforehand.
    #[doc(hidden)]
    pub fn resolve(&self) -> Result<PathBuf, SpawnError> {
        self.spec.resolve().map_err(|kind| self.spec.error(kind))
    }

    /// What is started, for programs that show it beforehand.
    #[doc(hidden)]
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Another program with the same settings, and a handle of its own.
    #[doc(hidden)]
    pub fn beside(&self, program: impl Into<OsString>, argument: &str) -> Self {
        let spec = Spec { program: program.into(), args: vec![argument.into()], ..self.spec.clone() };
        Self { spec, lines: None, inspector: None, grace: self.grace, handle: ChildHandle(Arc::default()) }
    }

    /// Starts the program. Needs a tokio runtime with I/O and time, which reads standard error from then on.
    ///
    /// Dropping the future before it is ready leaves no process. The link can be reopened, which restarts the program. Dropping
    /// the link kills the program and its process group at once.
    ///
    /// ```no_run
    /// use mcpjoin::Client;
    /// use mcpjoin::transport::ChildCommand;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let link = ChildCommand::new("npx")
    ///     .args(["-y", "@modelcontextprotocol/server-everything"])
    ///     .env("LOG_LEVEL", "debug")
    ///     .stderr(|line| eprintln!("server: {}", String::from_utf8_lossy(line)))
    ///     .start()
    ///     .await?;
    /// let client = Client::builder("example", "1.0.0").connect(link).await?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SpawnError`] names the program and the reason why it did not start.
    ///
    /// # Panics
    /// Outside a tokio runtime, and on one without time.
    pub async fn start(self) -> Result<Link, SpawnError> {
        let spec = Arc::new(self.spec);
        let run = launch(&spec, self.lines.as_ref(), &self.handle).await?;
        let link = Link::new(Child {
            spec,
            lines: self.lines,
            grace: self.grace,
            handle: self.handle,
            limits: Limits::default(),
            inspector: None,
            run: Some(run),
            sent_before: 0,
            opening: None,
        });
        Ok(match self.inspector {
            Some(inspector) => link.inspected(move |direction, inspected| inspector(direction, inspected)),
            None => link,
        })
    }
}

impl ChildHandle {
    fn watched(&self) -> Option<Watched> {
        self.0.lock().clone()
    }

    /// The child's process id, also after its exit; `None` before it was started.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.watched().map(|watched| watched.pid)
    }

    /// Whether it was started and has not exited.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.watched().is_some_and(|watched| !watched.phase.borrow().ended)
    }

    /// Its exit status; `None` while it runs.
    #[must_use]
    pub fn exit(&self) -> Option<ProcessExit> {
        self.watched().and_then(|watched| watched.phase.borrow().exit)
    }

    /// The last bytes that it wrote to standard error, at most 64 KiB.
    #[must_use]
    pub fn stderr(&self) -> Bytes {
        self.watched().map(|watched| watched.stderr.bytes()).unwrap_or_default()
    }

    /// The start of the text that it wrote to standard output behind its last line feed, at most 200 bytes. Empty if there is
    /// none.
    #[doc(hidden)]
    #[must_use]
    pub fn unfinished_line(&self) -> Bytes {
        self.watched().map(|watched| watched.unfinished.0.lock().clone()).unwrap_or_default()
    }

    /// Waits until its standard error has been read to the end. Call it after the exit, in the runtime of the child.
    #[doc(hidden)]
    pub async fn stderr_read(&self) {
        let Some(watched) = self.watched() else { return };
        watched.stderr.ended().await;
    }

    /// The report of its shutdown; `None` until that is finished.
    #[must_use]
    pub fn report(&self) -> Option<ShutdownReport> {
        self.watched().and_then(|watched| watched.phase.borrow().report.as_deref().cloned())
    }

    /// Waits until the child and its processes are gone, for whatever reason, and the child is reaped. `None` when it was not
    /// started. Waits for the run that is current when it is called. Cancel-safe.
    pub async fn ended(&self) -> Option<ShutdownReport> {
        process::reported(self.watched()?.phase).await
    }
}

/// One run of the program.
struct Run {
    stream: Stream<pipe::Receiver, pipe::Sender>,
    process: Process,
    stderr: StderrTail,
    unfinished: UnfinishedLine,
    ending: Ending,
    closing: bool,
}

/// How far the end of the child was observed.
enum Ending {
    /// It runs.
    No,
    /// It has exited or closed its standard output with this kind of end. `wait` limits reading what is left.
    Noticed { wait: Pin<Box<Sleep>>, after_exit: bool, kind: Option<TransportEndKind> },
}

type Opening = Pin<Box<dyn Future<Output = Result<Run, SpawnError>> + Send>>;

/// The transport.
struct Child {
    spec: Arc<Spec>,
    lines: Option<StderrLines>,
    grace: Grace,
    handle: ChildHandle,
    limits: Limits,
    /// Shared by the streams of all runs.
    inspector: Option<Arc<Mutex<Inspector>>>,
    run: Option<Run>,
    /// Bytes that were sent to earlier runs.
    sent_before: u64,
    opening: Option<Opening>,
}

async fn launch(
    spec: &Arc<Spec>,
    lines: Option<&StderrLines>,
    handle: &ChildHandle,
) -> Result<Run, SpawnError> {
    let spawned = process::spawn(Arc::clone(spec)).await?;
    let pipes = || -> io::Result<_> {
        Ok((
            pipe::Receiver::from_owned_fd(spawned.stdout)?,
            pipe::Sender::from_owned_fd(spawned.stdin)?,
            pipe::Receiver::from_owned_fd(spawned.stderr)?,
        ))
    };
    // If this fails, dropping the process ends it.
    let (stdout, stdin, stderr) = pipes().map_err(|error| spec.error(SpawnErrorKind::System(error)))?;
    let tail = StderrTail::default();
    let process = spawned.process;
    background::spawn(process::drain(stderr, tail.clone(), lines.cloned(), process.observe()));
    let unfinished = UnfinishedLine::default();
    *handle.0.lock() = Some(Watched {
        pid: process.pid(),
        phase: process.observe(),
        stderr: tail.clone(),
        unfinished: unfinished.clone(),
    });
    Ok(Run {
        stream: Stream::new(stdout, stdin, origin(spec)),
        process,
        stderr: tail,
        unfinished,
        ending: Ending::No,
        closing: false,
    })
}

fn origin(spec: &Spec) -> Origin {
    Origin { peer: Some(spec.program.to_string_lossy().into()), ..Origin::new("child") }
}

impl Run {
    fn end(&self, kind: TransportEndKind) -> TransportEnd {
        TransportEnd { kind, exit: self.process.phase().exit, stderr: self.stderr.bytes() }
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        loop {
            if matches!(self.ending, Ending::No) && self.process.has_ended() {
                let wait = Box::pin(sleep(DRAIN_TIMEOUT));
                self.ending = Ending::Noticed { wait, after_exit: true, kind: None };
            }
            if let Ending::Noticed { wait, kind: None, .. } = &mut self.ending
                && wait.as_mut().poll(cx).is_ready()
            {
                // What is in the pipe is still read, and no more: another process may never stop writing.
                self.stream.limit_reading(process::LARGE_PIPE_BYTES);
            }
            if matches!(&self.ending, Ending::No | Ending::Noticed { kind: None, .. }) {
                let inbound = self.stream.poll_inbound(cx);
                if matches!(inbound, Poll::Pending | Poll::Ready(Inbound::Closed { .. })) {
                    self.unfinished.set(self.stream.unfinished());
                }
                match inbound {
                    Poll::Ready(Inbound::Closed { cause }) => match &mut self.ending {
                        Ending::Noticed { kind, .. } => *kind = Some(cause.kind),
                        Ending::No => {
                            self.ending = Ending::Noticed {
                                wait: Box::pin(sleep(EXIT_STATUS_TIMEOUT)),
                                after_exit: false,
                                kind: Some(cause.kind),
                            };
                        }
                    },
                    Poll::Ready(inbound) => return Poll::Ready(inbound),
                    Poll::Pending => {}
                }
            }
            // Registered before the check, so that no event is missed in between.
            self.process.register(cx.waker());
            let ended = self.process.has_ended();
            match &mut self.ending {
                Ending::No if !ended => return Poll::Pending,
                Ending::No => {}
                Ending::Noticed { wait, after_exit, kind } => {
                    if ended && !*after_exit {
                        *wait = Box::pin(sleep(DRAIN_TIMEOUT));
                        *after_exit = true;
                    }
                    let late = wait.as_mut().poll(cx).is_ready();
                    let complete = ended && kind.is_some() && self.stderr.poll_ended(cx.waker());
                    match kind {
                        Some(kind) if late || complete => {
                            let kind = kind.clone();
                            return Poll::Ready(Inbound::Closed { cause: self.end(kind) });
                        }
                        // Another process holds the pipe. A partial last line is delivered first.
                        None if late => self.stream.end_reading(TransportEndKind::EndOfStream),
                        _ => return Poll::Pending,
                    }
                }
            }
        }
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, grace: Grace) -> Poll<TransportEnd> {
        self.process.register(cx.waker());
        if !self.closing {
            self.closing = true;
            // What was pushed is sent if the pipe has room: a child that does not read gets no more time than the shutdown has.
            let _ = self.stream.poll_flush(cx);
            // If the pipe cannot be handed over, it is closed here, which has the same effect.
            let stdin = self.stream.take_writer().and_then(|stdin| stdin.into_nonblocking_fd().ok());
            self.process.close(grace, stdin);
        }
        // A child that is blocked by a full pipe could not exit by itself.
        let _ = self.stream.poll_discard(cx);
        // What it has written last may still be in the pipe. Reading ends a moment after the child's end.
        let Some(report) = self.process.phase().report else { return Poll::Pending };
        if !self.stderr.poll_ended(cx.waker()) {
            return Poll::Pending;
        }
        let mut end = self.end(TransportEndKind::EndOfStream);
        // It ended by closing its output; a signal of ours after that does not say how it would have exited.
        if report.forced != Forced::No && matches!(self.ending, Ending::Noticed { after_exit: false, .. }) {
            end.exit = None;
        }
        Poll::Ready(end)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stderr.release();
    }
}

impl Child {
    fn prepare(&self, run: &mut Run) {
        run.stream.configure(&self.limits);
        if let Some(inspector) = &self.inspector {
            let inspector = Arc::clone(inspector);
            // A stream accepts every inspector.
            let _ = run.stream.inspect(Box::new(move |direction: Direction, inspected: Inspected<'_>| {
                (inspector.lock())(direction, inspected);
            }));
        }
    }

    fn not_running() -> TransportEnd {
        TransportEnd::failed(TransportError::new("the program has not been started again", false))
    }
}

impl Transport for Child {
    fn caps(&self) -> TransportCaps {
        TransportCaps { reopens: true, ..TransportCaps::default() }
    }

    fn origin(&self) -> Option<Arc<Origin>> {
        Some(Arc::new(origin(&self.spec)))
    }

    fn configure(&mut self, limits: &Limits) {
        self.limits = limits.clone();
        if let Some(run) = &mut self.run {
            run.stream.configure(limits);
        }
    }

    fn poll_inbound(&mut self, cx: &mut Context<'_>) -> Poll<Inbound> {
        match &mut self.run {
            Some(run) => run.poll_inbound(cx),
            None => Poll::Ready(Inbound::Closed { cause: Self::not_running() }),
        }
    }

    fn has_room(&self) -> bool {
        self.run.as_ref().is_none_or(|run| run.stream.has_room())
    }

    fn push(&mut self, outbound: Outbound) {
        if let Some(run) = &mut self.run {
            run.stream.push(outbound);
        }
    }

    fn push_bytes(&mut self, bytes: &Bytes) -> bool {
        self.run.as_mut().is_none_or(|run| run.stream.push_bytes(bytes))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        match &mut self.run {
            Some(run) => run.stream.poll_flush(cx).map_err(|end| run.end(end.kind)),
            None => Poll::Ready(Ok(())),
        }
    }

    fn discard(&mut self) {
        if let Some(run) = &mut self.run {
            run.stream.discard();
        }
    }

    fn sent(&self) -> u64 {
        self.sent_before.saturating_add(self.run.as_ref().map_or(0, |run| run.stream.sent()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<TransportEnd> {
        self.opening = None;
        match &mut self.run {
            Some(run) => run.poll_close(cx, self.grace),
            None => Poll::Ready(TransportEnd::end_of_stream()),
        }
    }

    /// The processes of the last run are ended at once.
    fn poll_reopen(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportEnd>> {
        self.sent_before = self.sent();
        self.run = None;
        let opening = self.opening.get_or_insert_with(|| {
            let (spec, lines, handle) = (Arc::clone(&self.spec), self.lines.clone(), self.handle.clone());
            Box::pin(async move { launch(&spec, lines.as_ref(), &handle).await })
        });
        let outcome = ready!(opening.as_mut().poll(cx));
        self.opening = None;
        match outcome {
            Ok(mut run) => {
                self.prepare(&mut run);
                self.run = Some(run);
                Poll::Ready(Ok(()))
            }
            Err(error) => {
                let retryable = matches!(error.kind, SpawnErrorKind::System(_));
                Poll::Ready(Err(TransportEnd::failed(TransportError::new(error.to_string(), retryable))))
            }
        }
    }

    fn child(&self) -> Option<ChildHandle> {
        Some(self.handle.clone())
    }

    fn inspect(&mut self, inspector: Inspector) -> Result<(), Inspector> {
        self.inspector = Some(Arc::new(Mutex::new(match self.inspector.take() {
            None => inspector,
            Some(first) => {
                let mut second = inspector;
                Box::new(move |direction: Direction, inspected: Inspected<'_>| {
                    (first.lock())(direction, inspected);
                    second(direction, inspected);
                })
            }
        })));
        if let Some(mut run) = self.run.take() {
            run.stream.remove_inspector();
            self.prepare(&mut run);
            self.run = Some(run);
        }
        Ok(())
    }
}

impl fmt::Debug for ChildCommand {
    /// Shows no arguments and no values of variables: they may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildCommand")
            .field("program", &self.spec.program)
            .field("args", &self.spec.args.len())
            .field("env", &self.spec.env.keys().collect::<Vec<_>>())
            .field("current_dir", &self.spec.current_dir)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ChildHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildHandle")
            .field("pid", &self.pid())
            .field("exit", &self.exit())
            .finish_non_exhaustive()
    }
}
