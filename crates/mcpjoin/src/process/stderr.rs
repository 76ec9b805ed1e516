//! The standard error of a child: read continuously, so that the child never blocks on it, and its last bytes kept.
//!
//! Used by the child transport. The specification lets a server log there and lets a client ignore it. A client that does not
//! read it stops the server once the pipe is full (64 KiB on Linux).

use std::future::poll_fn;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;

use crate::sync::Mutex;
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, watch};

use super::Phase;

/// How many of the last bytes are kept.
const MAX_TAIL_BYTES: usize = 64 * 1024;
/// The longest line that is passed on in one piece, in bytes; a longer line is split.
const MAX_LINE_BYTES: usize = 8 * 1024;
/// The size of a read.
const READ_BYTES: usize = 4 * 1024;
/// How long reading goes on after the child and its processes are gone: another process may hold the pipe open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// Called with each line, without its line feed. A line may contain any bytes.
pub(crate) type StderrLines = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// The last bytes that a child has written.
#[derive(Clone, Default)]
pub(crate) struct StderrTail(Arc<Tail>);

#[derive(Default)]
struct Tail {
    /// Up to twice the kept size, so that dropping the older half costs little per byte.
    bytes: Mutex<Vec<u8>>,
    ended: AtomicBool,
    link: AtomicWaker,
    others: Notify,
}

impl StderrTail {
    /// The last bytes, at most 64 KiB.
    pub(crate) fn bytes(&self) -> Bytes {
        let bytes = self.0.bytes.lock();
        Bytes::copy_from_slice(&bytes[bytes.len().saturating_sub(MAX_TAIL_BYTES)..])
    }

    /// Whether everything has been read. If not, wakes this task when it has.
    pub(crate) fn poll_ended(&self, waker: &Waker) -> bool {
        self.0.link.register(waker);
        self.0.ended.load(Ordering::Acquire)
    }

    /// Waits until everything has been read: a process can be gone before its last output has been read. Takes at most a
    /// moment after its end, even if another process holds the pipe open. The runtime in which the child was started must be
    /// running. Cancel-safe.
    pub(crate) async fn ended(&self) {
        let told = self.0.others.notified();
        tokio::pin!(told);
        // Registered before the check, so that no notification is missed in between.
        told.as_mut().enable();
        if !self.0.ended.load(Ordering::Acquire) {
            told.await;
        }
    }

    /// The transport no longer waits for the end.
    pub(crate) fn release(&self) {
        drop(self.0.link.take());
    }

    fn push(&self, new: &[u8]) {
        let mut bytes = self.0.bytes.lock();
        if bytes.len() + new.len() > 2 * MAX_TAIL_BYTES {
            let keep = MAX_TAIL_BYTES.saturating_sub(new.len());
            let old = bytes.len().saturating_sub(keep);
            bytes.drain(..old);
        }
        bytes.extend_from_slice(&new[new.len().saturating_sub(MAX_TAIL_BYTES)..]);
    }
}

/// Reports that nothing more will be read, also when the task is dropped with its runtime.
struct End(StderrTail);

impl Drop for End {
    fn drop(&mut self) {
        self.0.0.ended.store(true, Ordering::Release);
        self.0.0.link.wake();
        self.0.0.others.notify_waiters();
    }
}

/// Reads until the end of the pipe, or until the child has been gone for a moment.
pub(crate) async fn drain(
    pipe: pipe::Receiver,
    tail: StderrTail,
    lines: Option<StderrLines>,
    mut phase: watch::Receiver<Phase>,
) {
    let end = End(tail);
    let mut lines = lines.map(|tell| Lines { tell, line: Vec::new() });
    let over = async {
        // An error means that the supervisor has dropped the child, which is equivalent to its end.
        let _ = phase.wait_for(|phase| phase.report.is_some()).await;
        tokio::time::sleep(DRAIN_TIMEOUT).await;
    };
    tokio::pin!(over);
    // What is in the pipe when that time is over is read as well, and no more: another process may never stop writing.
    let mut left = None;
    loop {
        let ready = match left {
            None => tokio::select! {
                biased;
                () = &mut over => {
                    left = Some(MAX_TAIL_BYTES);
                    continue;
                }
                ready = poll_fn(|cx| pipe.poll_read_ready(cx)) => ready,
            },
            Some(0) => break,
            Some(_) => Ok(()),
        };
        // Only while it reads: a child that says nothing holds no buffer.
        let mut buffer = [0; READ_BYTES];
        let count = match ready.and_then(|()| pipe.try_read(&mut buffer)) {
            Ok(count @ 1..) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock && left.is_none() => continue,
            _ => break,
        };
        left = left.map(|left: usize| left.saturating_sub(count));
        end.0.push(&buffer[..count]);
        if lines.as_mut().is_some_and(|lines| lines.push(&buffer[..count]).is_err()) {
            lines = None;
        }
    }
    if let Some(mut lines) = lines {
        let _ = lines.flush();
    }
}

/// Splits bytes into lines.
struct Lines {
    tell: StderrLines,
    line: Vec<u8>,
}

/// The callback has panicked and is not called again.
struct Panicked;

impl Lines {
    fn push(&mut self, mut bytes: &[u8]) -> Result<(), Panicked> {
        while !bytes.is_empty() {
            let room = MAX_LINE_BYTES - self.line.len();
            let piece = &bytes[..bytes.len().min(room)];
            if let Some(end) = memchr::memchr(b'\n', piece) {
                self.line.extend_from_slice(&piece[..end]);
                bytes = &bytes[end + 1..];
                self.tell_line()?;
            } else {
                self.line.extend_from_slice(piece);
                bytes = &bytes[piece.len()..];
                if self.line.len() == MAX_LINE_BYTES {
                    self.tell_line()?;
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Panicked> {
        if self.line.is_empty() { Ok(()) } else { self.tell_line() }
    }

    fn tell_line(&mut self) -> Result<(), Panicked> {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let told = catch_unwind(AssertUnwindSafe(|| (self.tell)(line)));
        self.line.clear();
        told.map_err(|_| Panicked)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_reader_that_waits_for_the_end_has_all_of_it() {
        let tail = StderrTail::default();
        let mut waiting = [Box::pin(tail.ended()), Box::pin(tail.ended())];
        for waiting in &mut waiting {
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        let end = End(tail.clone());
        end.0.push(b"last words");
        drop(end);
        for waiting in waiting {
            waiting.await;
        }
        tail.ended().await;
        assert_eq!(tail.bytes(), "last words");
    }

    #[test]
    fn the_last_64_kib_are_kept() {
        let tail = StderrTail::default();
        for number in 0..100_000_u32 {
            tail.push(format!("{number:07}\n").as_bytes());
        }
        let bytes = tail.bytes();
        assert_eq!(bytes.len(), MAX_TAIL_BYTES);
        assert!(bytes.ends_with(b"0099999\n"));
        assert!(tail.0.bytes.lock().capacity() <= 4 * MAX_TAIL_BYTES);
        tail.push(&vec![b'x'; 10 * MAX_TAIL_BYTES]);
        assert_eq!(tail.bytes(), vec![b'x'; MAX_TAIL_BYTES]);
    }

    #[test]
    fn lines_are_cut_and_bounded() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        let tell: StderrLines = Arc::new(move |line| sink.lock().push(line.to_vec()));
        let mut lines = Lines { tell, line: Vec::new() };
        assert!(lines.push(b"one\r\n\ntw").is_ok());
        assert!(lines.push(b"o\n").is_ok());
        assert!(lines.push(&vec![b'x'; MAX_LINE_BYTES + 1]).is_ok());
        assert!(lines.flush().is_ok());
        let told = told.lock();
        assert_eq!(told[..3], [b"one".to_vec(), b"".to_vec(), b"two".to_vec()]);
        assert_eq!(told[3..].iter().map(Vec::len).collect::<Vec<_>>(), [MAX_LINE_BYTES, 1]);
    }
}
