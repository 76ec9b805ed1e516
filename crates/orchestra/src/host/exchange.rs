//! One exchange: reads a request, handles it and writes the response, on a QUIC stream or a TCP connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use super::Host;
use super::error::{RequestError, code};
use crate::wire::plugin_response::Response;
use crate::wire::{self, MAX_FRAME, PluginRequest, PluginResponse, WireError};
use mcpjoin_quic::endpoint::{RecvStream, SendStream};

/// The unit of the byte budget for requests, in bytes.
pub(super) const UNIT_BYTES: usize = 4096;

/// The budget in units. It has room for the largest frame at least.
pub(super) fn units(bytes: usize) -> usize {
    bytes.max(MAX_FRAME).div_ceil(UNIT_BYTES)
}

/// A request, and its share of the byte budget.
type Received = (PluginRequest, Option<OwnedSemaphorePermit>);

impl Host {
    /// Handles one stream of a QUIC connection.
    pub(super) async fn on_stream(self, mut send: SendStream, mut receive: RecvStream) {
        let write = self.inner.limits.write;
        let (request, room) = match self.read(&mut receive).await {
            Ok(received) => received,
            Err(error) => {
                tracing::warn!(target: "mcpjoin", "an invalid request: {error}");
                // Like Orchestra's own orchestrator: end the stream without a byte, keep the connection.
                let _ = receive.stop(0_u32.into());
                finish_stream(send, write).await;
                return;
            }
        };
        let answer = tokio::select! {
            biased;
            () = cancelled(&send, &mut receive) => {
                let _ = send.reset(0_u32.into());
                return;
            }
            answer = self.answer(request) => answer,
        };
        drop(room);
        let written = timeout(write, async { send.write_all(&frame(answer)).await }).await;
        match written {
            Ok(Ok(())) => finish_stream(send, write).await,
            // The client cancelled, or does not read.
            Ok(Err(_)) | Err(_) => {
                let _ = send.reset(0_u32.into());
            }
        }
    }

    /// Handles one TCP connection, which carries one exchange.
    pub(super) async fn on_tcp(self, mut stream: TcpStream, mut ending: watch::Receiver<bool>) {
        let write = self.inner.limits.write;
        let mut first = [0];
        let first_byte = timeout(self.inner.limits.read, stream.peek(&mut first));
        tokio::select! {
            biased;
            // Before its first byte a client has nothing in progress.
            first_byte = first_byte => if !matches!(first_byte, Ok(Ok(_))) { return },
            _ = ending.wait_for(|over| *over) => return,
        }
        // This only affects latency.
        let _ = stream.set_nodelay(true);
        let (mut receive, mut send) = stream.split();
        let (request, room) = match self.read(&mut receive).await {
            Ok(received) => received,
            Err(error) => {
                tracing::warn!(target: "mcpjoin", "an invalid request over TCP: {error}");
                // Like Orchestra's own orchestrator: end without a byte.
                let _ = timeout(write, send.shutdown()).await;
                return;
            }
        };
        let answer = tokio::select! {
            biased;
            () = connection_failed(&mut receive) => return,
            answer = self.answer(request) => answer,
        };
        drop(room);
        // A client that does not read in time loses the response.
        let _ = timeout(write, async {
            send.write_all(&frame(answer)).await?;
            send.shutdown().await
        })
        .await;
    }

    /// Reads a request within the time limit.
    async fn read(&self, from: &mut (impl AsyncRead + Unpin)) -> Result<Received, WireError> {
        let after = self.inner.limits.read;
        timeout(after, self.received(from)).await.unwrap_or_else(|_| {
            let late = format!("no whole request came within {} s", after.as_secs_f64());
            Err(io::Error::new(io::ErrorKind::TimedOut, late).into())
        })
    }

    /// Reads a request. Its share of the byte budget is acquired as soon as the length is known.
    async fn received(&self, from: &mut (impl AsyncRead + Unpin)) -> Result<Received, WireError> {
        let mut prefix = [0; 4];
        let mut read = 0;
        while read < prefix.len() {
            match from.read(prefix.get_mut(read..).unwrap_or_default()).await? {
                0 => break,
                more => read += more,
            }
        }
        // A frame above the limit is rejected below without waiting for budget.
        let length = usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX);
        let mut room = None;
        if read == prefix.len() && length <= MAX_FRAME {
            let units = u32::try_from(length.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
            // The semaphore is never closed.
            room = self.inner.room.clone().acquire_many_owned(units).await.ok();
        }
        let mut whole = prefix.get(..read).unwrap_or_default().chain(from);
        Ok((wire::read(&mut whole).await?, room))
    }
}

/// Encodes a response. One that is too long is replaced by an error.
fn frame(answer: PluginResponse) -> bytes::Bytes {
    wire::encode(&answer).unwrap_or_else(|error| {
        let error_response =
            RequestError::new(code::INVALID_RESPONSE, format!("the answer cannot be sent: {error}"));
        let response = Some(Response::ToolCall(error_response.into_response()));
        let response = PluginResponse { request_id: answer.request_id, response };
        // This fails only if the id alone fills a frame.
        wire::encode(&response).unwrap_or_default()
    })
}

/// Finishes the stream and waits until the client has received everything. Closing the connection earlier would lose
/// it.
async fn finish_stream(mut send: SendStream, limit: Duration) {
    if send.finish().is_ok() {
        let _ = timeout(limit, send.stopped()).await;
    }
}

/// Waits until the client has cancelled: it reset the stream, stopped reading, or is gone.
async fn cancelled(send: &SendStream, receive: &mut RecvStream) {
    let reset = async {
        // `None` is the normal end of a request.
        if let Ok(None) = receive.received_reset().await {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = reset => {}
        _ = send.stopped() => {}
    }
}

/// Waits until the connection fails. Its end is not a failure: it marks the end of the request.
async fn connection_failed(receive: &mut (impl AsyncRead + Unpin)) {
    let mut more = [0; 256];
    loop {
        match receive.read(&mut more).await {
            Ok(0) => std::future::pending::<()>().await,
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio::net::TcpListener;
    use tokio::time::{Instant, advance};

    use super::super::HostLimits;
    use super::*;

    fn host(change: impl FnOnce(&mut HostLimits)) -> Host {
        let mut limits = HostLimits::default();
        change(&mut limits);
        Host::new([], limits)
    }

    /// A request whose frame has this many bytes after its length.
    fn request(bytes: usize) -> bytes::Bytes {
        // The bytes besides the id: a tag, and the length of the id as a varint.
        let beside = (1..=6).find(|beside| {
            let request_id = "x".repeat(bytes - beside);
            wire::encode(&PluginRequest { request_id, request: None })
                .is_ok_and(|frame| frame.len() == 4 + bytes)
        });
        let request_id = "x".repeat(bytes - beside.expect("such an id"));
        wire::encode(&PluginRequest { request_id, request: None }).expect("a frame")
    }

    #[tokio::test(start_paused = true)]
    async fn requests_share_room_in_bytes_and_one_that_finds_none_waits() {
        assert_eq!(units(HostLimits::default().request_bytes), 32_768);
        let host = host(|limits| limits.request_bytes = MAX_FRAME);
        let began = Instant::now();
        // A client that sends only its length holds all of the budget but one unit.
        let (mut slow, mut receiver) = duplex(64);
        slow.write_all(&u32::try_from(MAX_FRAME - UNIT_BYTES).expect("it fits").to_be_bytes())
            .await
            .expect("room");
        let slowly = tokio::spawn({
            let host = host.clone();
            async move { host.read(&mut receiver).await.err().map(|error| error.to_string()) }
        });
        while host.inner.room.available_permits() > 1 {
            tokio::task::yield_now().await;
        }
        advance(Duration::from_secs(10)).await;
        let small = host.read(&mut &request(UNIT_BYTES)[..]).await.expect("room for one unit");
        assert_eq!((began.elapsed().as_secs(), host.inner.room.available_permits()), (10, 0));
        drop(small);
        // A request that is one byte larger waits until the slow client has timed out.
        host.read(&mut &request(UNIT_BYTES + 1)[..]).await.expect("room again");
        assert_eq!(began.elapsed().as_secs(), 30);
        let late = slowly.await.expect("no panic").expect("it never came");
        assert!(late.contains("no whole request came within 30 s"), "{late}");
        assert_eq!(host.inner.room.available_permits(), units(MAX_FRAME));
    }

    /// Over TCP and in real time: a paused clock does not wait for a socket.
    #[tokio::test]
    async fn a_response_that_is_not_taken_is_dropped() {
        let host = host(|limits| limits.write = Duration::from_millis(50));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("an address")).await.expect("accepted");
        let (stream, _) = listener.accept().await.expect("a client");
        let (_ending, ended) = watch::channel(false);
        // The response repeats the id, which exceeds all socket buffers.
        let asked = request(MAX_FRAME - 4096);
        let answering = timeout(Duration::from_secs(30), host.on_tcp(stream, ended));
        let (sent, cancelled) = tokio::join!(client.write_all(&asked), answering);
        cancelled.expect("it is not waited for");
        sent.expect("it was read");
        let mut taken = Vec::new();
        // A connection that is cut off may end with a reset.
        let _ = client.read_to_end(&mut taken).await;
        assert!(taken.len() < asked.len(), "{}", taken.len());
    }
}
