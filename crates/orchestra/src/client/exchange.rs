//! One exchange: a frame there, a frame back, over a stream or a connection of its own.

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::super::wire::{self, HealthRequest, PluginRequest, WireError, plugin_request::Request};
use super::error::Fault;
use super::keeping::{Keeping, fault_of};
use mcpjoin_quic::endpoint::{Connection, QuicError, QuicErrorKind, RecvStream, SendStream};

/// A stream in both directions, which is reset when the exchange is given up: the far end learns that nobody waits.
#[derive(Debug)]
pub(super) struct Stream {
    send: SendStream,
    pub(super) receive: RecvStream,
    /// All that was waited for has come.
    pub(super) answered: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.answered {
            // Either may be over already, and then there is nothing to give up.
            let _ = self.send.reset(0u32.into());
            let _ = self.receive.stop(0u32.into());
        }
    }
}

/// Sends a frame on a stream of its own, and gives that.
pub(super) async fn begin(connection: &Connection, frame: &Bytes) -> Result<Stream, Fault> {
    let (send, receive) = connection.open().await?;
    let mut stream = Stream { send, receive, answered: false };
    let mut left = &frame[..];
    while !left.is_empty() {
        match stream.send.write(left).await {
            Ok(written) => left = left.get(written..).unwrap_or_default(),
            Err(_) => {
                let sent = left.len() < frame.len();
                if let fault @ (Fault::Unsent(_) | Fault::Lost(_)) =
                    fault_of(connection, sent, || Fault::Answer(WireError::Empty))
                {
                    return Err(fault);
                }
                // It wants no more of the request; an answer may stand there all the same.
                break;
            }
        }
    }
    // Only a stream that is over already cannot be finished.
    let _ = stream.send.finish();
    Ok(stream)
}

/// Sends a frame on a stream of its own and gives the one that comes back. Dropped before it is ready, it resets the
/// stream.
pub(super) async fn over_quic(connection: &Connection, frame: &Bytes) -> Result<Bytes, Fault> {
    let mut stream = begin(connection, frame).await?;
    let answer = wire::read_frame(&mut stream.receive).await;
    stream.answered = answer.is_ok();
    answer.map_err(|error| fault_of_reading(connection, error))
}

/// What reading the answer has failed with.
pub(super) fn fault_of_reading(connection: &Connection, error: WireError) -> Fault {
    fault_of(connection, true, || Fault::Answer(error))
}

/// The same over a connection of its own.
pub(super) async fn over_tcp(mut stream: TcpStream, frame: &Bytes) -> Result<Bytes, Fault> {
    begin_over_tcp(&mut stream, frame).await?;
    wire::read_frame(&mut stream).await.map_err(fault_over_tcp)
}

pub(super) async fn begin_over_tcp(stream: &mut TcpStream, frame: &Bytes) -> Result<(), Fault> {
    let mut left = &frame[..];
    while !left.is_empty() {
        match stream.write(left).await {
            Ok(0) => break,
            Ok(written) => left = left.get(written..).unwrap_or_default(),
            Err(error) if left.len() == frame.len() => return Err(Fault::Unsent(error.to_string())),
            Err(error) => return Err(Fault::Lost(error.to_string())),
        }
    }
    stream.flush().await.map_err(|error| Fault::Lost(error.to_string()))
}

/// What reading the answer over a connection of its own has failed with.
pub(super) fn fault_over_tcp(error: WireError) -> Fault {
    match error {
        WireError::Io(error) => Fault::Lost(error.to_string()),
        error => Fault::Answer(error),
    }
}

/// An exchange, watched from the moment at which it is sent: when nothing at all comes after that, the keeper hears of it,
/// and when it takes longer, the keeper goes on watching.
pub(super) async fn watched<T>(
    keeping: &Keeping,
    connection: &Connection,
    exchange: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let heard = connection.received();
    let watch = async {
        tokio::time::sleep(keeping.silence(connection)).await;
        if connection.received() == heard {
            keeping.suspect();
        }
        let _lasting = keeping.lasting();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        // Of a connection that the keeper has given up, it alone knows why.
        outcome = exchange => outcome.map_err(|fault| match (fault, connection.ended()) {
            (Fault::Lost(_), Some(QuicError { kind: QuicErrorKind::ClosedByUs, .. })) => {
                Fault::Lost(keeping.given_up())
            }
            (fault, _) => fault,
        }),
        () = watch => Err(Fault::Lost("it was given up".to_owned())),
    }
}

/// Asks how the far end is. What it answers does not matter, only that it does.
pub(super) async fn health(connection: &Connection) {
    let request = Some(Request::Health(HealthRequest {}));
    if let Ok(frame) = wire::encode(&PluginRequest { request_id: "health".to_owned(), request }) {
        let _ = over_quic(connection, &frame).await;
    }
}
