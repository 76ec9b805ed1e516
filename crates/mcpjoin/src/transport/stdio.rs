//! This process's own standard input and output: the transport of a server that a client has started.
//!
//! Used by servers, once per process. The
//! [specification](https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio) allows only messages on
//! standard output, and one stray `println!` of a library breaks that. So the transport takes both streams for itself, and
//! later output of the program goes to standard error.

use std::ffi::CStr;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::thread;

use bytes::Bytes;
use mcpjoin_proto::codec::READ_BYTES;
use mcpjoin_proto::codec::lines::LineDecoder;
use mcpjoin_proto::session::Origin;
use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec, read, write};
use tokio::io::AsyncWrite;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use super::Link;
use super::stream::{Source, Stream};

type AnySource = Box<dyn Source>;
type AnyWriter = Box<dyn AsyncWrite + Unpin + Send>;

impl Link {
    /// A link over this process's standard input and output. Needs a tokio runtime with I/O.
    ///
    /// From then on both streams belong to the link: what the program prints to standard output goes to standard error, and its
    /// standard input, also that of processes that it starts, is empty. This stays so when the link is dropped, and it can be
    /// done once per process.
    ///
    /// The runtime drives pipes and sockets. Files and terminals, which other processes may share, are never made non-blocking;
    /// a thread each reads and writes them.
    ///
    /// ```no_run
    /// # async fn example(server: mcpjoin::Server) -> std::io::Result<()> {
    /// server.serve(mcpjoin::Link::stdio()?).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When it was called before, or when one of the streams is closed or cannot be used. In the second case the streams may have
    /// been taken already.
    pub fn stdio() -> io::Result<Self> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if TAKEN.swap(true, Ordering::SeqCst) {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "standard input and output already belong to a link",
            ));
        }
        let reader = reader(rustix::stdio::stdin())?;
        let writer = writer(rustix::stdio::stdout())?;
        let nothing = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        rustix::stdio::dup2_stdin(&nothing)?;
        // Without a standard error, output is discarded.
        rustix::stdio::dup2_stdout(io::stderr()).or_else(|_| rustix::stdio::dup2_stdout(&nothing))?;
        Ok(Self::new(Stream::new(reader, writer, Origin::new("stdio"))))
    }
}

fn reader(input: BorrowedFd<'_>) -> io::Result<AnySource> {
    let kind = FileType::from_raw_mode(fstat(input)?.st_mode);
    if kind == FileType::Fifo
        && let Ok(own) = reopen(c"/proc/self/fd/0", OFlags::RDONLY)
    {
        return Ok(Box::new(pipe::Receiver::from_owned_fd_unchecked(own)?));
    }
    let input = fcntl_dupfd_cloexec(input, 3)?;
    match kind {
        FileType::Socket => Ok(Box::new(Socket::new(input)?)),
        _ => Ok(Box::new(ThreadReader::start(input)?)),
    }
}

fn writer(output: BorrowedFd<'_>) -> io::Result<AnyWriter> {
    let kind = FileType::from_raw_mode(fstat(output)?.st_mode);
    if kind == FileType::Fifo
        && let Ok(own) = reopen(c"/proc/self/fd/1", OFlags::WRONLY)
    {
        return Ok(Box::new(pipe::Sender::from_owned_fd_unchecked(own)?));
    }
    let output = fcntl_dupfd_cloexec(output, 3)?;
    match kind {
        FileType::Socket => Ok(Box::new(Socket::new(output)?)),
        _ => Ok(Box::new(ThreadWriter::start(output)?)),
    }
}

/// Opens the same pipe with a mode of its own. Whether a descriptor blocks is shared with every process that inherited it,
/// and a shell or another program whose pipe becomes non-blocking loses data. Possible on Linux only.
fn reopen(path: &CStr, access: OFlags) -> io::Result<OwnedFd> {
    Ok(open(path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?)
}

/// A socket, which some clients use instead of pipes (Node does). It cannot be opened again, so it is made non-blocking, and
/// restored when it is dropped.
struct Socket {
    stream: UnixStream,
    /// The same socket with its former flags, if it was blocking.
    found: Option<(OwnedFd, OFlags)>,
}

impl Socket {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        let flags = fcntl_getfl(&socket)?;
        let found = if flags.contains(OFlags::NONBLOCK) { None } else { Some((socket.try_clone()?, flags)) };
        // Reading and writing are the same for every kind of stream socket.
        let stream = StdUnixStream::from(socket);
        stream.set_nonblocking(true)?;
        Ok(Self { stream: UnixStream::from_std(stream)?, found })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some((socket, flags)) = &self.found {
            // There is no caller to report an error to.
            let _ = fcntl_setfl(socket, *flags);
        }
    }
}

impl Source for Socket {
    fn poll_fill(&mut self, cx: &mut Context<'_>, lines: &mut LineDecoder) -> Poll<io::Result<usize>> {
        self.stream.poll_fill(cx, lines)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A file or a terminal that a thread reads, one piece ahead. The thread ends with the input, or with the first read after
/// the link was dropped; it never keeps the process from exiting.
struct ThreadReader(mpsc::Receiver<io::Result<Bytes>>);

impl ThreadReader {
    fn start(input: OwnedFd) -> io::Result<Self> {
        let (pieces, received) = mpsc::channel(1);
        thread::Builder::new().name("mcpjoin-stdin".into()).spawn(move || {
            let mut buffer = vec![0; READ_BYTES];
            loop {
                let piece = match read(&input, &mut buffer) {
                    Ok(0) => return,
                    Ok(count) => Ok(Bytes::copy_from_slice(&buffer[..count])),
                    Err(Errno::INTR) => continue,
                    Err(error) => Err(error.into()),
                };
                let failed = piece.is_err();
                if pieces.blocking_send(piece).is_err() || failed {
                    return;
                }
            }
        })?;
        Ok(Self(received))
    }
}

impl Source for ThreadReader {
    fn poll_fill(&mut self, cx: &mut Context<'_>, lines: &mut LineDecoder) -> Poll<io::Result<usize>> {
        Poll::Ready(match ready!(self.0.poll_recv(cx)) {
            None => Ok(0),
            Some(Err(error)) => Err(error),
            Some(Ok(piece)) => {
                lines.push(&piece);
                Ok(piece.len())
            }
        })
    }
}

/// A file or a terminal that a thread writes, one piece at a time.
struct ThreadWriter(Arc<Desk>);

/// The state that the writer and its thread share.
#[derive(Default)]
struct Desk {
    state: Mutex<DeskState>,
    changed: Condvar,
}

#[derive(Default)]
struct DeskState {
    /// The piece that the thread has to write, or is writing.
    piece: Option<Bytes>,
    error: Option<io::Error>,
    over: bool,
    waker: Option<Waker>,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, DeskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of the thread.
    fn work(&self, output: &OwnedFd) {
        let mut state = self.lock();
        loop {
            if let Some(piece) = state.piece.clone() {
                drop(state);
                let outcome = write_all(output, &piece);
                state = self.lock();
                state.piece = None;
                state.error = outcome.err();
                if let Some(waker) = state.waker.take() {
                    // A waker is foreign code and may call this module.
                    drop(state);
                    waker.wake();
                    state = self.lock();
                }
            } else if state.over {
                return;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

fn write_all(output: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(output, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl ThreadWriter {
    fn start(output: OwnedFd) -> io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let worker = Arc::clone(&desk);
        thread::Builder::new().name("mcpjoin-stdout".into()).spawn(move || worker.work(&output))?;
        Ok(Self(desk))
    }

    /// Ready when the thread has nothing to write.
    fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<io::Result<MutexGuard<'_, DeskState>>> {
        let waker = cx.waker().clone();
        let mut state = self.0.lock();
        if state.piece.is_some() {
            let replaced = state.waker.replace(waker);
            drop(state);
            drop(replaced);
            return Poll::Pending;
        }
        match state.error.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Ready(Ok(state)),
        }
    }
}

impl AsyncWrite for ThreadWriter {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let piece = &bytes[..bytes.len().min(READ_BYTES)];
        ready!(self.poll_idle(cx))?.piece = Some(Bytes::copy_from_slice(piece));
        self.0.changed.notify_one();
        Poll::Ready(Ok(piece.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_idle(cx).map_ok(drop)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_idle(cx))?.over = true;
        self.0.changed.notify_one();
        Poll::Ready(Ok(()))
    }
}

impl Drop for ThreadWriter {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.changed.notify_one();
    }
}
