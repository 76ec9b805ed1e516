//! One exchange: a request is read, answered, and the answer written. The same on a QUIC stream and on a TCP connection.

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

/// In what pieces the room for requests is given out, in bytes.
pub(super) const UNIT_BYTES: usize = 4096;

/// At least the largest frame fits.
pub(super) fn units(bytes: usize) -> usize {
    bytes.max(MAX_FRAME).div_ceil(UNIT_BYTES)
}

/// A request, and the room that it takes.
type Received = (PluginRequest, Option<OwnedSemaphorePermit>);

impl Host {
    /// One stream of a connection.
    pub(super) async fn on_stream(self, mut send: SendStream, mut receive: RecvStream) {
        let write = self.inner.limits.write;
        let (request, room) = match self.read(&mut receive).await {
            Ok(received) => received,
            Err(error) => {
                tracing::warn!(target: "mcpjoin", "a request that is none: {error}");
                // As the original does: no byte, and the connection goes on.
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
            // Nobody wants it any more, or nobody takes it.
            Ok(Err(_)) | Err(_) => {
                let _ = send.reset(0_u32.into());
            }
        }
    }

    /// A whole connection over TCP: it carries one exchange.
    pub(super) async fn on_tcp(self, mut stream: TcpStream, mut ending: watch::Receiver<bool>) {
        let write = self.inner.limits.write;
        let mut first = [0];
        let first_byte = timeout(self.inner.limits.read, stream.peek(&mut first));
        tokio::select! {
            biased;
            // Who has not said a byte yet has nothing in progress.
            first_byte = first_byte => if !matches!(first_byte, Ok(Ok(_))) { return },
            _ = ending.wait_for(|over| *over) => return,
        }
        // It matters only for speed.
        let _ = stream.set_nodelay(true);
        let (mut receive, mut send) = stream.split();
        let (request, room) = match self.read(&mut receive).await {
            Ok(received) => received,
            Err(error) => {
                tracing::warn!(target: "mcpjoin", "a request over TCP that is none: {error}");
                // As the original does: no byte.
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
        // Whoever does not take the answer does not get it.
        let _ = timeout(write, async {
            send.write_all(&frame(answer)).await?;
            send.shutdown().await
        })
        .await;
    }

    /// In time.
    async fn read(&self, from: &mut (impl AsyncRead + Unpin)) -> Result<Received, WireError> {
        let after = self.inner.limits.read;
        timeout(after, self.received(from)).await.unwrap_or_else(|_| {
            let late = format!("no whole request came within {} s", after.as_secs_f64());
            Err(io::Error::new(io::ErrorKind::TimedOut, late).into())
        })
    }

    /// Room is taken for what the length says, before anything of it is read.
    async fn received(&self, from: &mut (impl AsyncRead + Unpin)) -> Result<Received, WireError> {
        let mut prefix = [0; 4];
        let mut read = 0;
        while read < prefix.len() {
            match from.read(prefix.get_mut(read..).unwrap_or_default()).await? {
                0 => break,
                more => read += more,
            }
        }
        // What is too long is refused before it is waited for.
        let length = usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX);
        let mut room = None;
        if read == prefix.len() && length <= MAX_FRAME {
            let units = u32::try_from(length.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
            // It is never closed.
            room = self.inner.room.clone().acquire_many_owned(units).await.ok();
        }
        let mut whole = prefix.get(..read).unwrap_or_default().chain(from);
        Ok((wire::read(&mut whole).await?, room))
    }
}

/// The frame of an answer; of one that is too long, of an error that says so.
fn frame(answer: PluginResponse) -> bytes::Bytes {
    wire::encode(&answer).unwrap_or_else(|error| {
        let refusal =
            RequestError::new(code::INVALID_RESPONSE, format!("the answer cannot be sent: {error}"));
        let response = Some(Response::ToolCall(refusal.into_response()));
        let said = PluginResponse { request_id: answer.request_id, response };
        // An id that fills a frame by itself is all that this can fail for.
        wire::encode(&said).unwrap_or_default()
    })
}

/// Ends our side, and waits until the peer has all of it: what is under way is lost when the connection is closed.
async fn finish_stream(mut send: SendStream, most: Duration) {
    if send.finish().is_ok() {
        let _ = timeout(most, send.stopped()).await;
    }
}

/// Ready when nobody waits for the answer any more: the client has reset the stream, will not read it, or is gone.
async fn cancelled(send: &SendStream, receive: &mut RecvStream) {
    let reset = async {
        // `None`: it has said all, which is how a request ends.
        if let Ok(None) = receive.received_reset().await {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = reset => {}
        _ = send.stopped() => {}
    }
}

/// Ready when the connection has failed. Its end is none: that is how a client says that the request is whole.
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

    /// A request whose frame has so many bytes behind its length.
    fn request(bytes: usize) -> bytes::Bytes {
        // What stands beside the id: a tag, and its length in as many bytes as that takes.
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
        // One that has said how long it is, and no more, has all room but one unit.
        let (mut slow, mut hears) = duplex(64);
        slow.write_all(&u32::try_from(MAX_FRAME - UNIT_BYTES).expect("it fits").to_be_bytes())
            .await
            .expect("room");
        let slowly = tokio::spawn({
            let host = host.clone();
            async move { host.read(&mut hears).await.err().map(|error| error.to_string()) }
        });
        while host.inner.room.available_permits() > 1 {
            tokio::task::yield_now().await;
        }
        advance(Duration::from_secs(10)).await;
        let small = host.read(&mut &request(UNIT_BYTES)[..]).await.expect("room for one unit");
        assert_eq!((began.elapsed().as_secs(), host.inner.room.available_permits()), (10, 0));
        drop(small);
        // Another one, larger by a byte, waits until the slow one has had its time.
        host.read(&mut &request(UNIT_BYTES + 1)[..]).await.expect("room again");
        assert_eq!(began.elapsed().as_secs(), 30);
        let late = slowly.await.expect("no panic").expect("it never came");
        assert!(late.contains("no whole request came within 30 s"), "{late}");
        assert_eq!(host.inner.room.available_permits(), units(MAX_FRAME));
    }

    /// Over TCP, in real time: a virtual clock does not wait for a socket.
    #[tokio::test]
    async fn an_answer_that_nobody_takes_is_given_up() {
        let host = host(|limits| limits.write = Duration::from_millis(50));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("an address")).await.expect("accepted");
        let (stream, _) = listener.accept().await.expect("a client");
        let (_ending, ended) = watch::channel(false);
        // Its id comes back: more than any socket holds.
        let asked = request(MAX_FRAME - 4096);
        let answering = timeout(Duration::from_secs(30), host.on_tcp(stream, ended));
        let (sent, cancelled) = tokio::join!(client.write_all(&asked), answering);
        cancelled.expect("it is not waited for");
        sent.expect("it was read");
        let mut taken = Vec::new();
        // What is cut off may end with a reset.
        let _ = client.read_to_end(&mut taken).await;
        assert!(taken.len() < asked.len(), "{}", taken.len());
    }
}
