//! A connection over HTTP/1.1, and the long-lived streams on it.
//!
//! Used by `serve` alone; in another program's server hyper keeps such streams. A client may keep a stream open for a day
//! without a single event, and hyper keeps 16 KiB of buffers for its connection meanwhile. So hyper reads the request and
//! writes the head of the response, and then this module takes the connection from hyper: all that is left to do is to write
//! chunks (<https://www.rfc-editor.org/rfc/rfc9112#name-chunked-transfer-coding>) until one side ends. The connection ends
//! with the stream, as the head of the response says.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use crate::sync::Mutex;
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
use super::response_progress::{Piece, ResponseProgress};
use super::time_limits::{ActiveRequest, Activity, ActivityIo};

/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Takes the body of a long-lived stream from hyper. Everything happens in the task of the connection.
#[derive(Default)]
pub(super) struct Handover {
    given: Mutex<Option<LongLived>>,
    /// hyper has the head in its buffer.
    written: AtomicBool,
    /// hyper has sent everything that was in its buffer.
    sent: AtomicBool,
}

/// A body that this module writes, and whether in chunks.
struct LongLived {
    body: HttpBody,
    chunked: bool,
    _answering: ActiveRequest,
}

impl Handover {
    /// Called when hyper flushes the connection below it, which it does only when its own buffer is empty.
    pub(super) fn flushed(&self) {
        if self.written.load(Ordering::Relaxed) {
            self.sent.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the stream once hyper is finished with the connection.
    fn take(&self) -> Option<LongLived> {
        if self.sent.load(Ordering::Relaxed) { self.given.lock().take() } else { None }
    }
}

/// What a request says about how its response must be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseFraming {
    /// The method is GET: a stream that answers it is long-lived.
    listens: bool,
    /// Whether a body without a known length is sent in chunks; `None` where this module must not write one.
    chunked: Option<bool>,
}

impl ResponseFraming {
    pub(super) fn new<B>(request: &Request<B>) -> Self {
        let chunked = match request.version() {
            Version::HTTP_11 => Some(true),
            Version::HTTP_10 => Some(false),
            _ => None,
        };
        Self { listens: request.method() == Method::GET, chunked }
    }
}

/// An extension of a response: it is long-lived although the method was not GET.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listens;

/// The body of a response on a connection of this server.
pub(super) enum ResponseBody {
    Here {
        body: HttpBody,
        /// The progress of the response, over HTTP/2.
        progress: Option<Arc<ResponseProgress>>,
        #[expect(dead_code, reason = "the request is answered when it is dropped")]
        answering: ActiveRequest,
    },
    /// This module writes the body as soon as hyper has written the head.
    HandedOver(HandedOver),
}

/// The placeholder that hyper gets for a body that this module writes.
pub(super) struct HandedOver(Arc<Activity>);

impl Drop for HandedOver {
    /// hyper has dropped the response before its head was sent, or this module has taken the connection.
    fn drop(&mut self) {
        let given = self.0.handover.given.lock().take();
        drop(given);
    }
}

impl ResponseBody {
    /// The response as hyper gets it.
    pub(super) fn response(
        mut response: Response<HttpBody>,
        framing: ResponseFraming,
        answering: ActiveRequest,
    ) -> Response<Self> {
        let is_stream = response.body().size_hint().exact().is_none();
        let listens = framing.listens || response.extensions().get::<Listens>().is_some();
        let Some(chunked) = framing.chunked.filter(|_| is_stream && listens) else {
            return response.map(|body| Self::Here {
                body,
                progress: ResponseProgress::current(),
                answering,
            });
        };
        let connection = answering.connection().clone();
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response.map(|body| {
            *connection.handover.given.lock() = Some(LongLived { body, chunked, _answering: answering });
            Self::HandedOver(HandedOver(connection))
        })
    }
}

impl Body for ResponseBody {
    type Data = Piece;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Infallible>>> {
        match self.get_mut() {
            Self::Here { body, progress, .. } => match ready!(Pin::new(body).poll_frame(cx)) {
                Some(frame) => {
                    let piece = |bytes| Piece::new(bytes, progress.as_ref());
                    Poll::Ready(Some(frame.map(|frame| frame.map_data(piece))))
                }
                None => match progress {
                    Some(progress) => progress.poll_empty(cx).map(|()| None),
                    None => Poll::Ready(None),
                },
            },
            Self::HandedOver(HandedOver(connection)) => {
                // hyper asks for the length when it has written the head.
                connection.handover.written.store(true, Ordering::Relaxed);
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Here { body, progress, .. } => {
                body.is_end_stream() && progress.as_ref().is_none_or(|progress| progress.is_empty())
            }
            Self::HandedOver(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Here { body, .. } => body.size_hint(),
            Self::HandedOver(_) => SizeHint::new(),
        }
    }
}

/// A connection over HTTP/1.1: hyper's, or a long-lived stream that this module writes.
pub(super) enum Connection<S, T>
where
    S: Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible>,
    T: AsyncRead + AsyncWrite + Unpin,
{
    Hyper { served: Box<http1::Connection<TokioIo<ActivityIo<T>>, S>>, connection: Arc<Activity> },
    Stream(Box<Stream<T>>),
    Over,
}

impl<S, T> Connection<S, T>
where
    S: Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible>,
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    pub(super) fn new(
        served: http1::Connection<TokioIo<ActivityIo<T>>, S>,
        connection: Arc<Activity>,
    ) -> Self {
        Self::Hyper { served: Box::new(served), connection }
    }

    /// Ends the connection after the responses in progress. A long-lived stream is ended by its sender.
    pub(super) fn end(&mut self) {
        if let Self::Hyper { served, .. } = self {
            Pin::new(served.as_mut()).graceful_shutdown();
        }
    }
}

impl<S, T> Unpin for Connection<S, T>
where
    S: Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible>,
    T: AsyncRead + AsyncWrite + Unpin,
{
}

impl<S, T> Future for Connection<S, T>
where
    S: Service<Request<Incoming>, Response = Response<ResponseBody>, Error = Infallible>,
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

/// A long-lived stream, which has the connection for itself.
pub(super) struct Stream<T> {
    io: ActivityIo<T>,
    lasting: LongLived,
    /// The bytes to write next.
    out: Chunk,
    ended: bool,
}

impl<T: AsyncRead + AsyncWrite + Unpin> Stream<T> {
    fn new(io: ActivityIo<T>, lasting: LongLived) -> Self {
        Self { io, lasting, out: plain(Bytes::new()), ended: false }
    }

    /// Writes what there is. Ready when one side has ended.
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
            let LongLived { body, chunked, .. } = &mut self.lasting;
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

    /// Ready when the client has closed the connection. The head of the response has said that nothing more is read here.
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

/// Framing and data of one chunk. The data is not copied: it counts as long as it waits.
type Chunk = Chain<Chain<Bytes, Bytes>, Bytes>;

/// One chunk of a body. An empty one would end the body.
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
        let connection = Activity::new();
        let asked = ResponseFraming::new(&Request::get("/").body(()).expect("a request"));
        let body = HttpBody::stream([], None, Duration::from_secs(1));
        let response =
            ResponseBody::response(Response::new(body), asked, ActiveRequest::new(&connection, false));
        assert!(connection.handover.given.lock().is_some());
        drop(response);
        assert!(
            connection.handover.given.lock().is_none(),
            "the body keeps the connection, which keeps the body"
        );
        assert_eq!(Arc::strong_count(&connection), 1);
    }
}
