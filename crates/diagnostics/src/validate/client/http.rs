//! Serves clients over HTTP: records each request, gives it to the server unchanged, and records the response on its
//! way back. Probes are added to streams that stay open.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Either, Full, Limited, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use mcpjoin_proto::codec::sse::{Event, SseDecoder, SseEvent};
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::{MediaType, accepts};
use mcpjoin_proto::{Era, Message, Method, Version};
use mcpjoin_rules::{BodyEnd, Ended, HttpRequest, HttpResponse, Line, Probe, Trace, What};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower_service::Service as _;

use super::recorder::{Recorder, is_modern, requests};
use super::sessions::Shared;
use super::{ClientValidator, INITIALIZE_DELAY, StopReason, probes};
use crate::engine::http::pairs;
use crate::engine::only_request;
use mcpjoin::transport::{HttpBody, HttpListener, HttpOptions, HttpService};

/// Connections at once.
const CONNECTIONS: usize = 1000;
/// How long connections may take to end, when the validation ends.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);
/// How long to wait after a connection that could not be accepted: for open files, for memory.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// The longest event of a response, in bytes.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// The headers of a client that the rules read. None of them authorizes it.
const RECORDED_HEADERS: [&str; 8] = [
    name::ACCEPT,
    name::CONTENT_TYPE,
    name::SESSION_ID,
    name::PROTOCOL_VERSION,
    name::METHOD,
    name::NAME,
    name::LAST_EVENT_ID,
    name::ORIGIN,
];

/// Handles every request.
#[derive(Clone)]
struct Front {
    service: HttpService,
    shared: Shared,
    refuse: bool,
    disturb: bool,
    limit: usize,
}

/// The connections of clients.
#[derive(Default)]
struct Presence {
    connections: AtomicUsize,
    requests: AtomicUsize,
    changed: Notify,
}

pub(super) async fn serve(
    of: ClientValidator,
    listener: HttpListener,
    options: HttpOptions,
    idle: Option<Duration>,
    end: impl Future<Output = StopReason>,
) -> Trace {
    let ClientValidator { server, limits, answer, refuse, disturb } = of;
    let options = listener.options(if refuse { options.json_only(true) } else { options });
    let shared = Shared::new(Recorder::new(answer), disturb);
    let service = server.http(options);
    let front = Front { service, shared: shared.clone(), refuse, disturb, limit: limits.message };
    let full = shared.lock().recorder.full();
    let presence = Arc::new(Presence::default());
    let socket = listener.into_socket();
    let mut tasks = JoinSet::new();
    let leaving = {
        let mut end = pin!(end);
        let mut unused = pin!(unused(presence.clone(), idle));
        loop {
            tokio::select! {
                biased;
                leaving = &mut end => break leaving,
                () = full.notified() => break StopReason::Over,
                () = &mut unused => break StopReason::Over,
                Some(_) = tasks.join_next() => {}
                accepted = socket.accept(), if tasks.len() < CONNECTIONS => {
                    if let Ok((stream, _)) = accepted {
                        let _ = stream.set_nodelay(true);
                        let present = Present::new(presence.clone());
                        tasks.spawn(connection(stream, front.clone(), present));
                    } else {
                        sleep(ACCEPT_RETRY_DELAY).await;
                    }
                }
            }
        }
    };
    drop(socket);
    // Requests of a client that has disconnected are still on their way.
    let _ = timeout(CLOSE_TIMEOUT, async { while tasks.join_next().await.is_some() {} }).await;
    tasks.shutdown().await;
    let mut sessions = shared.lock();
    let exit = match leaving {
        StopReason::Gone(exit) => Some(exit),
        _ => None,
    };
    if let Some(exit) = exit {
        sessions.recorder.note_end(&What::Ended(Ended { exit, forced: false }));
    }
    std::mem::replace(&mut sessions.recorder, Recorder::new(answer)).into_trace()
}

/// Ready when there was a request, and no connection for `idle`.
async fn unused(presence: Arc<Presence>, idle: Option<Duration>) {
    let Some(idle) = idle else { return std::future::pending().await };
    loop {
        let changed = presence.changed.notified();
        let quiet =
            presence.requests.load(Ordering::SeqCst) > 0 && presence.connections.load(Ordering::SeqCst) == 0;
        if !quiet {
            changed.await;
        } else if timeout(idle, changed).await.is_err() {
            return;
        }
    }
}

/// Counts a connection, until it is dropped.
struct Present(Arc<Presence>);

impl Present {
    fn new(presence: Arc<Presence>) -> Self {
        presence.connections.fetch_add(1, Ordering::SeqCst);
        presence.changed.notify_one();
        Self(presence)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_one();
    }
}

async fn connection(stream: tokio::net::TcpStream, front: Front, present: Present) {
    let presence = present.0.clone();
    let answers = hyper::service::service_fn(move |request: Request<Incoming>| {
        presence.requests.fetch_add(1, Ordering::SeqCst);
        let front = front.clone();
        async move { Ok::<_, Infallible>(front.answer(request).await) }
    });
    // How a connection breaks is recorded with its exchanges.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answers).await;
    drop(present);
}

impl Front {
    async fn answer(mut self, request: Request<Incoming>) -> Response<RecordedBody> {
        let (parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, self.limit).collect().await else {
            return empty(StatusCode::PAYLOAD_TOO_LARGE);
        };
        let body = body.to_bytes();
        let line = (!body.is_empty()).then(|| Line::new(body.clone()));
        let opens =
            line.as_ref().is_some_and(|line| requests(line).any(|asked| asked.method == Method::Initialize));
        let ours = line.as_ref().is_some_and(is_for_us);
        let Some(mut exchange) = Exchange::begin(&self.shared, &parts, line.clone()) else {
            return empty(StatusCode::SERVICE_UNAVAILABLE);
        };
        self.shared.lock().queue_probes(exchange.run);
        let own = if ours {
            Some(Own::empty(StatusCode::ACCEPTED))
        } else {
            self.own(exchange.run, &parts, line.as_ref())
        };
        if let Some(Own { response, sent }) = own {
            exchange.head(&response, opens);
            if let Some((probe, line)) = sent {
                exchange.sent(probe, line);
            }
            exchange.end(BodyEnd::Complete);
            return response;
        }
        if opens {
            sleep(INITIALIZE_DELAY).await;
        }
        let carries_probes = parts.method == http::Method::GET;
        let streams = !self.refuse && !opens && accepts_events(&parts);
        let answered = self.service.call(Request::from_parts(parts, Full::new(body))).await;
        let response = match answered {
            Ok(response) => response,
            Err(never) => match never {},
        };
        self.body(exchange, response, How { opens, carries_probes, streams }).await
    }

    /// Our own response, where the server does not see the request.
    fn own(&self, run: usize, parts: &Parts, line: Option<&Line>) -> Option<Own> {
        let mut sessions = self.shared.lock();
        let modern = sessions.recorder.is_modern(run);
        if self.disturb && sessions.loses(run, parts, line) {
            return Some(Own::empty(StatusCode::NOT_FOUND));
        }
        let request = only_request(line?)?;
        let (status, probe, answer) = if self.refuse && modern && is_modern(request) {
            let refusal = probes::unsupported(&request.id, &Version::newest(Era::Modern))?;
            (StatusCode::BAD_REQUEST, Probe::UnknownVersion, refusal)
        } else if self.disturb && request.method == Method::CallTool && sessions.mismatches(run, parts) {
            (StatusCode::BAD_REQUEST, Probe::Answer, probes::mismatch(&request.id)?)
        } else {
            (StatusCode::OK, Probe::Answer, sessions.pages.response_to(run, modern, line?)?)
        };
        let mut response = Response::new(whole(answer.clone()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Some(Own { response, sent: Some((probe, Line::new(answer))) })
    }

    /// Forwards a response of the server.
    async fn body(
        &self,
        mut exchange: Exchange,
        response: Response<HttpBody>,
        how: How,
    ) -> Response<RecordedBody> {
        let run = exchange.run;
        let kind = response.headers().get(CONTENT_TYPE).map(|value| value.as_bytes());
        let kind = MediaType::of(kind);
        if kind == MediaType::EventStream {
            exchange.head(&response, how.opens);
            return response.map(|body| EventStream::body(body, exchange, how.carries_probes));
        }
        let (parts, body) = response.into_parts();
        let mut bytes = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(never) => match never {},
        };
        let mut sessions = self.shared.lock();
        let mut probe = Probe::Answer;
        let mut line = Line::new(bytes.clone());
        let modern = sessions.recorder.is_modern(run);
        let cut = sessions.pages.split(run, modern, &line);
        let refusal = (self.refuse && sessions.recorder.opens(run, &line)).then(|| probes::refusal(&bytes));
        if let Some(refusal) = refusal.flatten() {
            (bytes, probe) = (refusal.into(), Probe::UnknownVersion);
        } else if let Some(cut) = cut {
            bytes = cut.into();
        }
        line = if bytes == line.bytes() { line } else { Line::new(bytes.clone()) };
        let mut response = Response::from_parts(parts, ());
        response.headers_mut().remove(CONTENT_LENGTH);
        let is_message = kind == MediaType::Json && !bytes.is_empty();
        if is_message && how.streams && response.status() == StatusCode::OK {
            let replies = sessions.replies.entry(run).or_default();
            *replies += 1;
            // Every other response is sent as an event.
            if replies.is_multiple_of(2)
                && let Ok(text) = std::str::from_utf8(&bytes)
                && !text.contains(['\n', '\r'])
            {
                bytes = event(text);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            }
        }
        drop(sessions);
        exchange.head(&response, how.opens);
        if is_message {
            exchange.sent(probe, line);
        }
        exchange.end(BodyEnd::Complete);
        response.map(|()| whole(bytes))
    }
}

/// How the response of the server is forwarded.
struct How {
    /// The request is `initialize`.
    opens: bool,
    /// A stream may carry our probes.
    carries_probes: bool,
    /// A message may be sent on a stream.
    streams: bool,
}

/// A response of our own, and the message in it.
struct Own {
    response: Response<RecordedBody>,
    sent: Option<(Probe, Line)>,
}

impl Own {
    fn empty(status: StatusCode) -> Self {
        Self { response: empty(status), sent: None }
    }
}

/// An exchange with a client. When it is dropped before its end, the client has left its response.
struct Exchange {
    shared: Shared,
    run: usize,
    number: u32,
    ended: bool,
}

impl Exchange {
    /// Records a request and its message. `None` when a limit is reached: the server does not get it then.
    fn begin(shared: &Shared, parts: &Parts, line: Option<Line>) -> Option<Self> {
        let mut sessions = shared.lock();
        if sessions.recorder.is_full() {
            return None;
        }
        let (run, number) = sessions.of(parts, line.as_ref());
        let request = HttpRequest {
            method: parts.method.as_str().into(),
            url: parts.uri.to_string().into(),
            headers: recorded(&parts.headers),
        };
        sessions.recorder.requested(run, number, request, line);
        Some(Self { shared: shared.clone(), run, number, ended: false })
    }

    /// Records the head of a response.
    fn head<B>(&self, response: &Response<B>, opens: bool) {
        if opens && let Some(id) = response.headers().get(name::SESSION_ID) {
            self.shared.lock().begins(self.run, id.as_bytes());
        }
        let (status, headers) = (response.status().as_u16(), recorded(response.headers()));
        self.note(What::Responded(HttpResponse { status, headers }));
    }

    fn note(&self, what: What) {
        self.shared.lock().recorder.note_in(self.run, self.number, what);
    }

    fn sent(&self, probe: Probe, line: Line) {
        self.shared.lock().recorder.sent(self.run, Some(self.number), probe, line);
    }

    fn end(&mut self, how: BodyEnd) {
        if !std::mem::replace(&mut self.ended, true) {
            self.note(What::BodyEnded(how));
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end(BodyEnd::Left);
    }
}

fn accepts_events(parts: &Parts) -> bool {
    parts.method == http::Method::POST && accepts(&recorded(&parts.headers)[..], &[MediaType::EventStream])
}

/// Whether a line has responses to our requests, and nothing else.
fn is_for_us(line: &Line) -> bool {
    let mut parts = line.parts().peekable();
    parts.peek().is_some()
        && parts.all(|part| {
            matches!(part, Ok(Message::Response(response)) if response.id.as_ref().is_some_and(probes::is_ours))
        })
}

fn empty(status: StatusCode) -> Response<RecordedBody> {
    let mut response = Response::new(whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

fn recorded(headers: &HeaderMap) -> Vec<(Box<str>, Bytes)> {
    pairs(headers.iter().filter(|(header, _)| {
        RECORDED_HEADERS.contains(&header.as_str()) || header.as_str().starts_with(name::PARAM_PREFIX)
    }))
}

/// A message as an event of a stream.
fn event(line: &str) -> Bytes {
    format!("event: message\ndata: {line}\n\n").into()
}

/// The body of a response, which is recorded on its way to the client.
type RecordedBody = Either<Full<Bytes>, StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

fn whole(body: impl Into<Bytes>) -> RecordedBody {
    Either::Left(Full::new(body.into()))
}

struct EventStream {
    inner: HttpBody,
    decoder: SseDecoder,
    exchange: Exchange,
    /// Whether our probes are sent on it.
    carries_probes: bool,
    /// Our events that are sent before the next piece.
    queued: VecDeque<Bytes>,
}

impl EventStream {
    fn body(inner: HttpBody, exchange: Exchange, carries_probes: bool) -> RecordedBody {
        let decoder = SseDecoder::new(MAX_EVENT_BYTES);
        let stream = Self { inner, decoder, exchange, carries_probes, queued: VecDeque::new() };
        let frames = stream::unfold(stream, |mut stream| async move {
            let frame = stream.next().await?;
            Some((Ok(frame), stream))
        });
        Either::Right(StreamBody::new(frames.boxed()))
    }

    /// The next piece: a probe of ours, or what the server sends. `None` at the end.
    async fn next(&mut self) -> Option<Frame<Bytes>> {
        loop {
            let queued = self.exchange.shared.queued();
            let queued = queued.notified();
            self.queue_probes();
            if let Some(event) = self.queued.pop_front() {
                return Some(Frame::data(event));
            }
            let frame = tokio::select! {
                biased;
                () = queued => continue,
                frame = self.inner.frame() => frame,
            };
            let Some(Ok(frame)) = frame else {
                self.exchange.end(BodyEnd::Complete);
                return None;
            };
            if let Some(piece) = frame.data_ref() {
                self.record(piece);
            }
            return Some(frame);
        }
    }

    /// Queues our probes before the next piece.
    fn queue_probes(&mut self) {
        if !self.carries_probes {
            return;
        }
        let Exchange { shared, run, number, .. } = &self.exchange;
        let mut sessions = shared.lock();
        for (probe, line) in sessions.take(*run) {
            // Without an id: a resumed stream does not repeat it.
            self.queued.push_back(event(&line));
            sessions.recorder.sent(*run, Some(*number), probe, Line::new(line));
        }
    }

    fn record(&mut self, piece: &Bytes) {
        self.decoder.push(piece.clone());
        while let Some(event) = self.decoder.poll_event() {
            let event = match event {
                SseEvent::Event(event) => event,
                SseEvent::Id(id) => Event { id: Some(id), ..Event::default() },
                SseEvent::Retry(milliseconds) => {
                    self.exchange.note(What::Retry(Duration::from_millis(milliseconds)));
                    continue;
                }
                _ => continue,
            };
            let data = event.data.clone();
            if event.name.as_deref() == Some(b"endpoint") {
                self.exchange.shared.lock().set_endpoint(self.exchange.run, &data);
            }
            let is_message = event.name.as_ref().is_none_or(|name| name == "message") && !data.is_empty();
            self.exchange.note(What::Streamed(event));
            if is_message {
                self.exchange.sent(Probe::Answer, Line::new(data));
            }
        }
    }
}
