//! Test of case A23: the n-th operation of a stream fails, is short, is interrupted or is pending, for every n until no
//! operation has that number. There is no panic and no hang, and the received messages are the sent ones, in order.
#![allow(clippy::panic, reason = "a test fails by panicking")]

use mcpjoin_test_support as support;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use mcpjoin::proto::session::Inbound;
use mcpjoin::proto::{Message, Method};
use mcpjoin::transport::{Link, RawLink};
use support::{bare, note, run};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, ReadHalf, WriteHalf, duplex, split};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error,
    Short,
    Interrupted,
    Pending,
    /// A write accepts no byte; a read returns the end of the stream.
    Nothing,
}

/// Counts operations; the operation with this number is faulty.
#[derive(Clone)]
struct Plan {
    fault: Fault,
    left: Arc<AtomicUsize>,
}

impl Plan {
    fn new(number: usize, fault: Fault) -> Self {
        Self { fault, left: Arc::new(AtomicUsize::new(number + 1)) }
    }

    fn due(&self) -> Option<Fault> {
        let last = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        (last == Ok(1)).then_some(self.fault)
    }

    fn fired(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

struct Faulty<T> {
    inner: T,
    plan: Plan,
}

fn failed() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "on purpose")
}

impl AsyncRead for Faulty<ReadHalf<DuplexStream>> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.plan.due() {
            Some(Fault::Error) => Poll::Ready(Err(failed())),
            Some(Fault::Interrupted) => Poll::Ready(Err(io::ErrorKind::Interrupted.into())),
            Some(Fault::Nothing) => Poll::Ready(Ok(())),
            Some(Fault::Pending) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Some(Fault::Short) => {
                let mut byte = [0];
                let mut one = ReadBuf::new(&mut byte);
                let read = Pin::new(&mut self.inner).poll_read(cx, &mut one);
                buf.put_slice(one.filled());
                read
            }
            None => Pin::new(&mut self.inner).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Faulty<WriteHalf<DuplexStream>> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.plan.due() {
            Some(Fault::Error) => Poll::Ready(Err(failed())),
            Some(Fault::Interrupted) => Poll::Ready(Err(io::ErrorKind::Interrupted.into())),
            Some(Fault::Nothing) => Poll::Ready(Ok(0)),
            Some(Fault::Pending) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Some(Fault::Short) => Pin::new(&mut self.inner).poll_write(cx, &bytes[..1]),
            None => Pin::new(&mut self.inner).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.plan.left.load(Ordering::Relaxed) == 1 {
            let first = slices.iter().find(|slice| !slice.is_empty()).expect("something to write");
            return self.poll_write(cx, first);
        }
        let _ = self.plan.due();
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.plan.due() {
            Some(Fault::Error) => Poll::Ready(Err(failed())),
            Some(Fault::Interrupted) => Poll::Ready(Err(io::ErrorKind::Interrupted.into())),
            Some(Fault::Pending) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Pin::new(&mut self.inner).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.plan.due() {
            Some(Fault::Error) => Poll::Ready(Err(failed())),
            Some(Fault::Pending) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Pin::new(&mut self.inner).poll_shutdown(cx),
        }
    }
}

/// The sizes of the messages: small ones, one that does not fit the pipe, and one that the link does not copy.
fn sizes() -> impl Iterator<Item = usize> {
    [1, 1, 700, 5000, 20_000, 1, 30, 1].into_iter()
}

/// Sends all messages, then closes; returns whether everything was sent.
async fn say(mut link: RawLink) -> bool {
    for (number, size) in sizes().enumerate() {
        let text = "y".repeat(size);
        if link.send(note(&format!("{{\"n\":{number},\"y\":\"{text}\"}}"))).await.is_err() {
            return false;
        }
    }
    link.close().await;
    true
}

/// Checks that the received messages are the first of the sent ones, and returns their number.
async fn receive(mut link: RawLink) -> usize {
    let mut received = 0;
    let sizes: Vec<_> = sizes().collect();
    loop {
        match link.recv().await {
            Inbound::Message { message: Message::Notification(note), .. } => {
                assert_eq!(note.method, Method::parse("test/note"));
                let said: serde_json::Value = note.params.expect("params").raw().decode().expect("JSON");
                assert_eq!(said["n"], received);
                assert_eq!(said["y"].as_str().map(str::len), Some(sizes[received]));
                received += 1;
            }
            // Half a line before the end: it is reported as malformed, and the end follows.
            Inbound::Malformed { .. } => {
                assert!(matches!(link.recv().await, Inbound::Closed { .. }));
                return received;
            }
            Inbound::Closed { .. } => return received,
            other => panic!("{other:?}"),
        }
    }
}

/// One run, with the fault in the sender's writes or in the receiver's reads. Returns whether the faulty operation was
/// reached.
fn once(number: usize, fault: Fault, reading: bool) -> bool {
    run(async {
        let (left, right) = duplex(4096);
        let never = Plan::new(usize::MAX - 1, fault);
        let plan = Plan::new(number, fault);
        let (read_plan, write_plan) = if reading { (plan.clone(), never) } else { (never, plan.clone()) };
        let (left_reader, left_writer) = split(left);
        let (right_reader, right_writer) = split(right);
        let sender =
            bare(Link::stream(left_reader, Faulty { inner: left_writer, plan: write_plan }, "sender"));
        let receiver =
            bare(Link::stream(Faulty { inner: right_reader, plan: read_plan }, right_writer, "receiver"));
        let (said, received) = tokio::join!(say(sender), receive(receiver));
        let deadly = plan.fired()
            && match fault {
                Fault::Error | Fault::Nothing => true,
                Fault::Short | Fault::Interrupted | Fault::Pending => false,
            };
        if !deadly {
            assert!(said, "{fault:?} at {number}");
            assert_eq!(received, sizes().count(), "{fault:?} at {number}");
        }
        plan.fired()
    })
}

#[test]
fn a23_every_operation_fails_once_in_every_way() {
    let mut faults = 0;
    for reading in [true, false] {
        for fault in [Fault::Error, Fault::Short, Fault::Interrupted, Fault::Pending, Fault::Nothing] {
            let mut number = 0;
            while once(number, fault, reading) {
                number += 1;
            }
            assert!(number > 5, "{fault:?}: {number}");
            faults += number;
        }
    }
    println!("{faults} faults");
    assert!(faults > 100, "{faults}");
}
