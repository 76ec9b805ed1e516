//! A connection over HTTP/1.1, and the streams on it that last.
//!
//! A stream that a client listens on may be open for a day and say nothing, and hyper keeps 16 KiB of buffers for its
//! connection meanwhile. So hyper reads the request and writes the head of the response, and then the connection is
//! taken out of its hands: what is left to do is to write chunks
//! (<https://www.rfc-editor.org/rfc/rfc9112#name-chunked-transfer-coding>) until one side ends. The connection ends with
//! the stream, which the response says. Used by `serve` alone: in somebody else's server, hyper keeps such streams.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf as _, Bytes};
use http::header::CONNECTION;
use http::{HeaderValue, Method, Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::HttpBody;
use super::outflow::{Outflow, Piece};
use super::watch::{Answering, Use, Watched};

/// What the end of a chunked body is.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// How the body of a lasting stream gets from hyper to us. All of it happens in the task of the connection.
#[derive(Default)]
pub(super) struct Handover {
    given: Mutex<Option<Lasting>>,
    /// hyper has the head in its buffer.
    written: AtomicBool,
    /// It has sent everything that was in its buffer.
    sent: AtomicBool,
}

/// A body that is written here, and whether in chunks.
struct Lasting {
    body: HttpBody,
    chunked: bool,
    _answering: Answering,
}

impl Handover {
    fn given(&self) -> MutexGuard<'_, Option<Lasting>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// hyper flushes what is below it, as it does only when its own buffer is empty.
    pub(super) fn flushed(&self) {
        if self.written.load(Ordering::Relaxed) {
            self.sent.store(true, Ordering::Relaxed);
        }
    }

    /// The stream that hyper has nothing to do with any more.
    fn take(&self) -> Option<Lasting> {
        if self.sent.load(Ordering::Relaxed) { self.given().take() } else { None }
    }
}

/// What a request says of how its response is to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// With GET: a stream that answers it lasts.
    listens: bool,
    /// Whether a body without a known length goes in chunks; `None` where it is not for us to write one.
    chunked: Option<bool>,
}

impl Asked {
    pub(super) fn new<B>(request: &Request<B>) -> Self {
        let chunked = match request.version() {
            Version::HTTP_11 => Some(true),
            Version::HTTP_10 => Some(false),
            _ => None,
        };
        Self { listens: request.method() == Method::GET, chunked }
    }
}

/// Says of a response that it lasts although nobody has asked with GET.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listens;

/// The body of a response on a connection of ours.
pub(super) enum Sending {
    Here {
        body: HttpBody,
        /// Over HTTP/2.
        outflow: Option<Arc<Outflow>>,
        #[expect(dead_code, reason = "the request is answered when it is dropped")]
        answering: Answering,
    },
    /// It is written here as soon as hyper has written the head.
    Handed(Handed),
}

/// What hyper has of a body that is written here.
pub(super) struct Handed(Arc<Use>);

impl Drop for Handed {
    /// hyper has given the response up before its head was sent, or the body is with us by now.
    fn drop(&mut self) {
        let given = self.0.handover.given().take();
        drop(given);
    }
}

impl Sending {
    /// The response as hyper gets it.
    pub(super) fn response(
        mut response: Response<HttpBody>,
        asked: Asked,
        answering: Answering,
    ) -> Response<Self> {
        let is_stream = response.body().size_hint().exact().is_none();
        let listens = asked.listens || response.extensions().get::<Listens>().is_some();
        let Some(chunked) = asked.chunked.filter(|_| is_stream && listens) else {
            return response.map(|body| Self::Here { body, outflow: Outflow::current(), answering });
        };
        let connection = answering.connection().clone();
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response.map(|body| {
            *connection.handover.given() = Some(Lasting { body, chunked, _answering: answering });
            Self::Handed(Handed(connection))
        })
    }
}

impl Body for Sending {
    type Data = Piece;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Infallible>>> {
        match self.get_mut() {
            Self::Here { body, outflow, .. } => match ready!(Pin::new(body).poll_frame(cx)) {
                Some(frame) => {
                    let piece = |bytes| Piece::new(bytes, outflow.as_ref());
                    Poll::Ready(Some(frame.map(|frame| frame.map_data(piece))))
                }
                None => match outflow {
                    Some(outflow) => outflow.poll_empty(cx).map(|()| None),
                    None => Poll::Ready(None),
                },
            },
            Self::Handed(Handed(connection)) => {
                // Asked for when the head is written.
                connection.handover.written.store(true, Ordering::Relaxed);
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Here { body, outflow, .. } => {
                body.is_end_stream() && outflow.as_ref().is_none_or(|outflow| outflow.is_empty())
            }
            Self::Handed(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Here { body, .. } => body.size_hint(),
            Self::Handed(_) => SizeHint::new(),
        }
    }
}

/// A connection over HTTP/1.1: hyper's, and from a stream that lasts on its own.
pub(super) enum Connection<S, T>
where
    S: Service<Request<Incoming>, Response = Response<Sending>, Error = Infallible>,
    T: AsyncRead + AsyncWrite + Unpin,
{
    Hyper { served: Box<http1::Connection<TokioIo<Watched<T>>, S>>, connection: Arc<Use> },
    Stream(Box<Stream<T>>),
    Over,
}

impl<S, T> Connection<S, T>
where
    S: Service<Request<Incoming>, Response = Response<Sending>, Error = Infallible>,
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    pub(super) fn new(served: http1::Connection<TokioIo<Watched<T>>, S>, connection: Arc<Use>) -> Self {
        Self::Hyper { served: Box::new(served), connection }
    }

    /// No request is answered behind those that are. A stream is ended by whoever sends on it.
    pub(super) fn end(&mut self) {
        if let Self::Hyper { served, .. } = self {
            Pin::new(served.as_mut()).graceful_shutdown();
        }
    }
}

impl<S, T> Unpin for Connection<S, T>
where
    S: Service<Request<Incoming>, Response = Response<Sending>, Error = Infallible>,
    T: AsyncRead + AsyncWrite + Unpin,
{
}

impl<S, T> Future for Connection<S, T>
where
    S: Service<Request<Incoming>, Response = Response<Sending>, Error = Infallible>,
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    type Output = Result<(), Box<dyn Error + Send + Sync>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Self::Hyper { served, connection } = this {
            let served = served.as_mut();
            if let Poll::Ready(ended) = Pin::new(served).poll(cx) {
                return Poll::Ready(ended.map_err(Into::into));
            }
            let Some(lasting) = connection.handover.take() else { return Poll::Pending };
            if let Self::Hyper { served, .. } = mem::replace(this, Self::Over) {
                let io = served.into_parts().io.into_inner();
                *this = Self::Stream(Box::new(Stream::new(io, lasting)));
            }
        }
        match this {
            Self::Stream(stream) => stream.poll(cx).map_err(Into::into),
            _ => Poll::Ready(Ok(())),
        }
    }
}

/// A stream on a connection of its own.
pub(super) struct Stream<T> {
    io: Watched<T>,
    lasting: Lasting,
    /// What is to be sent before there is more.
    out: Chunk,
    ended: bool,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream<T> {
    fn new(io: Watched<T>, lasting: Lasting) -> Self {
        Self { io, lasting, out: plain(Bytes::new()), ended: false }
    }

    /// Sends what there is. Ready when one side has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.poll_left(cx)?.is_ready() {
            return Poll::Ready(Ok(()));
        }
        loop {
            while self.out.has_remaining() {
                let mut slices = [IoSlice::new(&[]); 3];
                let count = self.out.chunks_vectored(&mut slices);
                let sent = ready!(Pin::new(&mut self.io).poll_write_vectored(cx, &slices[..count]))?;
                if sent == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.out.advance(sent);
            }
            self.out = plain(Bytes::new());
            if self.ended {
                return Pin::new(&mut self.io).poll_shutdown(cx);
            }
            let Lasting { body, chunked, .. } = &mut self.lasting;
            self.out = match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if *chunked => chunk(data),
                    Ok(data) => plain(data),
                    Err(_) => continue,
                },
                Some(Err(never)) => match never {},
                None => {
                    self.ended = true;
                    plain(if *chunked { Bytes::from_static(LAST_CHUNK) } else { Bytes::new() })
                }
            };
        }
    }

    /// Ready when the client has left. It has been told that nothing more is read here.
    fn poll_left(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut ignored = [0; 256];
        loop {
            let mut read = ReadBuf::new(&mut ignored);
            ready!(Pin::new(&mut self.io).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// What stands around the data, and the data, which is not copied: it is counted as long as it waits.
type Chunk = Chain<Chain<Bytes, Bytes>, Bytes>;

/// One chunk of a body. An empty one would be its end.
fn chunk(data: Bytes) -> Chunk {
    if data.is_empty() {
        return plain(data);
    }
    let head = Bytes::from(format!("{:x}\r\n", data.len()));
    head.chain(data).chain(Bytes::from_static(b"\r\n"))
}

fn plain(data: Bytes) -> Chunk {
    Bytes::new().chain(data).chain(Bytes::new())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_stream_whose_head_is_never_sent_leaves_nothing_behind() {
        let connection = Use::new();
        let asked = Asked::new(&Request::get("/").body(()).expect("a request"));
        let body = HttpBody::stream([], None, Duration::from_secs(1));
        let response = Sending::response(Response::new(body), asked, Answering::new(&connection, false));
        assert!(connection.handover.given().is_some());
        drop(response);
        assert!(connection.handover.given().is_none(), "the body keeps the connection, which keeps the body");
        assert_eq!(Arc::strong_count(&connection), 1);
    }
}
