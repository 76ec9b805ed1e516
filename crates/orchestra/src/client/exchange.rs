//! One exchange: sends a frame and reads the response frame, on a QUIC stream or a TCP connection of its own. Called by the
//! client and by `reconnect`, which probes with it. It never sends a frame twice.

use bytes::Bytes;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::super::wire::{self, HealthRequest, PluginRequest, WireError, plugin_request::Request};
use super::error::AttemptError;
use super::reconnect::{Reconnector, attempt_error};
use mcpjoin_quic::endpoint::{Connection, QuicError, QuicErrorKind, RecvStream, SendStream};

/// A bidirectional stream. Dropping it before the response resets it, which tells the server to stop.
#[derive(Debug)]
pub(super) struct Stream {
    send: SendStream,
    pub(super) receive: RecvStream,
    /// The response is complete.
    pub(super) answered: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.answered {
            // These fail only if the direction has already ended.
            let _ = self.send.reset(0u32.into());
            let _ = self.receive.stop(0u32.into());
        }
    }
}

/// Opens a stream and sends a frame on it.
pub(super) async fn send_request(connection: &Connection, frame: &Bytes) -> Result<Stream, AttemptError> {
    let (send, receive) = connection.open().await?;
    let mut stream = Stream { send, receive, answered: false };
    let mut unsent = &frame[..];
    while !unsent.is_empty() {
        match stream.send.write(unsent).await {
            Ok(written) => unsent = unsent.get(written..).unwrap_or_default(),
            Err(_) => {
                let sent = unsent.len() < frame.len();
                if let error @ (AttemptError::Unsent(_) | AttemptError::Lost(_)) =
                    attempt_error(connection, sent, || AttemptError::Answer(WireError::Empty))
                {
                    return Err(error);
                }
                // The server stopped reading the request. It may still have sent a response.
                break;
            }
        }
    }
    // This fails only if the stream has already ended.
    let _ = stream.send.finish();
    Ok(stream)
}

/// Sends a frame on a new stream and returns the response frame. Dropping the future resets the stream.
pub(super) async fn over_quic(connection: &Connection, frame: &Bytes) -> Result<Bytes, AttemptError> {
    let mut stream = send_request(connection, frame).await?;
    let answer = wire::read_frame(&mut stream.receive).await;
    stream.answered = answer.is_ok();
    answer.map_err(|error| read_error(connection, error))
}

/// The error for a response that could not be read.
pub(super) fn read_error(connection: &Connection, error: WireError) -> AttemptError {
    attempt_error(connection, true, || AttemptError::Answer(error))
}

/// Sends a frame on this TCP connection and returns the response frame.
pub(super) async fn over_tcp(mut stream: TcpStream, frame: &Bytes) -> Result<Bytes, AttemptError> {
    send_request_over_tcp(&mut stream, frame).await?;
    wire::read_frame(&mut stream).await.map_err(tcp_read_error)
}

pub(super) async fn send_request_over_tcp(stream: &mut TcpStream, frame: &Bytes) -> Result<(), AttemptError> {
    let mut unsent = &frame[..];
    while !unsent.is_empty() {
        match stream.write(unsent).await {
            Ok(0) => break,
            Ok(written) => unsent = unsent.get(written..).unwrap_or_default(),
            Err(error) if unsent.len() == frame.len() => return Err(AttemptError::Unsent(error.to_string())),
            Err(error) => return Err(AttemptError::Lost(error.to_string())),
        }
    }
    stream.flush().await.map_err(|error| AttemptError::Lost(error.to_string()))
}

/// The error for a response over TCP that could not be read.
pub(super) fn tcp_read_error(error: WireError) -> AttemptError {
    match error {
        WireError::Io(error) => AttemptError::Lost(error.to_string()),
        error => AttemptError::Answer(error),
    }
}

/// Runs an exchange and watches its connection. If nothing at all is received within [`Reconnector::silence`], the
/// reconnector is notified; while the exchange goes on, the reconnector keeps watching.
pub(super) async fn watched<T>(
    reconnector: &Reconnector,
    connection: &Connection,
    exchange: impl Future<Output = Result<T, AttemptError>>,
) -> Result<T, AttemptError> {
    let received = connection.received();
    let watch = async {
        tokio::time::sleep(reconnector.silence(connection)).await;
        if connection.received() == received {
            reconnector.report_silence();
        }
        let _long = reconnector.count_long();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        // If the reconnector closed the connection, it knows the reason.
        outcome = exchange => outcome.map_err(|error| match (error, connection.ended()) {
            (AttemptError::Lost(_), Some(QuicError { kind: QuicErrorKind::ClosedByUs, .. })) => {
                AttemptError::Lost(reconnector.close_reason())
            }
            (error, _) => error,
        }),
        () = watch => Err(AttemptError::Lost("it was given up".to_owned())),
    }
}

/// Sends a health request. Any response will do: it shows that the server is alive.
pub(super) async fn health(connection: &Connection) {
    let request = Some(Request::Health(HealthRequest {}));
    if let Ok(frame) = wire::encode(&PluginRequest { request_id: "health".to_owned(), request }) {
        let _ = over_quic(connection, &frame).await;
    }
}
