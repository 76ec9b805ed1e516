//! One exchange: reads a request, handles it and writes the response, on a QUIC stream or a TCP connection.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::budget::{Room, Share};
use super::error::{RequestError, code};
use super::{Host, Inner};
use crate::wire::plugin_response::Response;
use crate::wire::{self, MAX_FRAME, PluginRequest, PluginResponse, WireError};
use mcpjoin_quic::endpoint::{RecvStream, SendStream};

/// A request, and its room in the byte budget.
type Received = (PluginRequest, Option<Room>);

/// What one connection may take of the byte budgets.
#[derive(Clone)]
pub(super) struct Shares {
    requests: Share,
    responses: Share,
}

impl Host {
    /// The shares of one more connection from this address.
    pub(super) fn shares(&self, client: IpAddr) -> Shares {
        let Inner { requests, responses, .. } = &*self.inner;
        Shares { requests: requests.share(client), responses: responses.share(client) }
    }

    /// Handles one stream of a QUIC connection.
    pub(super) async fn on_stream(self, shares: Shares, mut send: SendStream, mut receive: RecvStream) {
        let write = self.inner.limits.write;
        let (request, room) = match self.read(&shares, &mut receive).await {
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
        let written = timeout(write, async {
            let frame = frame(answer);
            let _room = shares.responses.take(frame.len()).await;
            send.write_all(&frame).await
        });
        match written.await {
            Ok(Ok(())) => finish_stream(send, write).await,
            // The client cancelled, or does not read.
            Ok(Err(_)) | Err(_) => {
                let _ = send.reset(0_u32.into());
            }
        }
    }

    /// Handles one TCP connection, which carries one exchange.
    pub(super) async fn on_tcp(
        self,
        shares: Shares,
        mut stream: TcpStream,
        mut ending: watch::Receiver<bool>,
    ) {
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
        let (request, room) = match self.read(&shares, &mut receive).await {
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
            let frame = frame(answer);
            let _room = shares.responses.take(frame.len()).await;
            send.write_all(&frame).await?;
            send.shutdown().await
        })
        .await;
    }

    /// Reads a request within the time limit.
    async fn read(
        &self,
        shares: &Shares,
        from: &mut (impl AsyncRead + Unpin),
    ) -> Result<Received, WireError> {
        let after = self.inner.limits.read;
        timeout(after, received(shares, from)).await.unwrap_or_else(|_| {
            let late = format!("no whole request came within {} s", after.as_secs_f64());
            Err(io::Error::new(io::ErrorKind::TimedOut, late).into())
        })
    }
}

/// Reads a request. Its room in the byte budget is taken as soon as the length is known.
async fn received(shares: &Shares, from: &mut (impl AsyncRead + Unpin)) -> Result<Received, WireError> {
    let mut prefix = [0; 4];
    let mut read = 0;
    while read < prefix.len() {
        match from.read(prefix.get_mut(read..).unwrap_or_default()).await? {
            0 => break,
            more => read += more,
        }
    }
    // A frame above the limit is rejected below without waiting for room.
    let length = usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX);
    let mut room = None;
    if read == prefix.len() && length <= MAX_FRAME {
        room = shares.requests.take(length).await;
    }
    let mut whole = prefix.get(..read).unwrap_or_default().chain(from);
    Ok((wire::read(&mut whole).await?, room))
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
    use std::net::Ipv4Addr;

    use tokio::io::duplex;
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;
    use tokio::time::{Instant, advance};

    use super::super::HostLimits;
    use super::super::budget::{UNIT_BYTES, units};
    use super::*;

    const ONE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

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

    /// A client that announces a request of this many bytes and then nothing, once the host holds room for it.
    async fn announced(host: &Host, shares: &Shares, bytes: usize) -> JoinHandle<Option<String>> {
        let before = host.inner.requests.free_units();
        let (mut slow, mut receiver) = duplex(64);
        slow.write_all(&u32::try_from(bytes).expect("it fits").to_be_bytes()).await.expect("room");
        let (reading, shares) = (host.clone(), shares.clone());
        let slowly = tokio::spawn(async move {
            let outcome = reading.read(&shares, &mut receiver).await;
            drop(slow);
            outcome.err().map(|error| error.to_string())
        });
        while host.inner.requests.free_units() > before - bytes.div_ceil(UNIT_BYTES) {
            tokio::task::yield_now().await;
        }
        slowly
    }

    #[tokio::test(start_paused = true)]
    async fn requests_share_room_in_bytes_and_one_that_finds_none_waits() {
        assert_eq!(units(HostLimits::default().request_bytes), 32_768);
        let host = host(|limits| limits.request_bytes = MAX_FRAME);
        let shares = host.shares(ONE);
        let began = Instant::now();
        // A client that sends only its length holds all of the budget but one unit.
        let slowly = announced(&host, &shares, MAX_FRAME - UNIT_BYTES).await;
        advance(Duration::from_secs(10)).await;
        let small = host.read(&shares, &mut &request(UNIT_BYTES)[..]).await.expect("room for one unit");
        assert_eq!((began.elapsed().as_secs(), host.inner.requests.free_units()), (10, 0));
        drop(small);
        // A request that is one byte larger waits until the slow client has timed out.
        host.read(&shares, &mut &request(UNIT_BYTES + 1)[..]).await.expect("room again");
        assert_eq!(began.elapsed().as_secs(), 30);
        let late = slowly.await.expect("no panic").expect("it never came");
        assert!(late.contains("no whole request came within 30 s"), "{late}");
        assert_eq!(host.inner.requests.free_units(), units(MAX_FRAME));
    }

    #[tokio::test(start_paused = true)]
    async fn who_announces_more_than_it_sends_delays_no_request_of_another_connection_or_address() {
        let host = host(|limits| limits.request_bytes = 8 * MAX_FRAME);
        let (first, second) = (host.shares(ONE), host.shares(ONE));
        let began = Instant::now();
        // Half of the budget is one connection's, and a quarter more that of its address.
        let mut slow = Vec::new();
        for shares in [&first, &first, &first, &first, &second, &second] {
            slow.push(announced(&host, shares, MAX_FRAME).await);
            if slow.len() == 4 {
                host.read(&second, &mut &request(MAX_FRAME)[..]).await.expect("room for another connection");
            }
        }
        let other = host.shares(OTHER);
        host.read(&other, &mut &request(MAX_FRAME)[..]).await.expect("room for another address");
        assert_eq!(began.elapsed(), Duration::ZERO);
        // Another connection of the first address waits until the slow ones have timed out.
        advance(Duration::from_secs(10)).await;
        host.read(&host.shares(ONE), &mut &request(1 << 10)[..]).await.expect("room again");
        assert_eq!(began.elapsed().as_secs(), 30);
        for slowly in slow {
            assert!(slowly.await.expect("no panic").is_some());
        }
        assert_eq!(host.inner.requests.free_units(), units(8 * MAX_FRAME));
    }

    /// Over TCP and in real time: a paused clock does not wait for a socket.
    #[tokio::test]
    async fn a_response_that_is_not_taken_is_counted_until_it_is_dropped() {
        let host = host(|limits| {
            (limits.write, limits.response_bytes) = (Duration::from_millis(50), MAX_FRAME);
        });
        let free = || host.inner.responses.free_units();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let mut client =
            TcpStream::connect(listener.local_addr().expect("an address")).await.expect("accepted");
        let (stream, _) = listener.accept().await.expect("a client");
        let (_ending, ended) = watch::channel(false);
        // The response repeats the id, which exceeds all socket buffers.
        let asked = request(MAX_FRAME - 4096);
        let shares = host.shares(ONE);
        let answering = timeout(Duration::from_secs(30), host.clone().on_tcp(shares, stream, ended));
        let counted = timeout(Duration::from_secs(30), async {
            while free() == units(MAX_FRAME) {
                tokio::task::yield_now().await;
            }
        });
        let (sent, cancelled, counted) = tokio::join!(client.write_all(&asked), answering, counted);
        cancelled.expect("it is not waited for");
        counted.expect("its bytes count");
        assert_eq!(free(), units(MAX_FRAME));
        sent.expect("it was read");
        let mut taken = Vec::new();
        // A connection that is cut off may end with a reset.
        let _ = client.read_to_end(&mut taken).await;
        assert!(taken.len() < asked.len(), "{}", taken.len());
    }
}
