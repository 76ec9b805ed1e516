//! Serves clients over HTTP: records each request, gives it to the server unchanged, and records the response on its
//! way back. Probes are added to streams that stay open.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, Limited};
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
        let Some((run, number)) = self.record(&parts, line.clone()) else {
            return empty(StatusCode::SERVICE_UNAVAILABLE);
        };
        self.shared.lock().queue_probes(run);
        if ours {
            let response = empty(StatusCode::ACCEPTED);
            self.head(run, number, &response, opens);
            return response;
        }
        if let Some(response) = self.own(run, number, &parts, line.as_ref()) {
            return response;
        }
        let mut in_flight = InFlight { shared: self.shared.clone(), run, exchange: number, finished: false };
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
        in_flight.finished = true;
        self.body(run, number, response, How { opens, carries_probes, streams }).await
    }

    /// Our own response, where the server does not see the request.
    fn own(
        &self,
        run: usize,
        number: u32,
        parts: &Parts,
        line: Option<&Line>,
    ) -> Option<Response<RecordedBody>> {
        let mut sessions = self.shared.lock();
        let modern = sessions.recorder.is_modern(run);
        if self.disturb && sessions.loses(run, parts, line) {
            drop(sessions);
            let response = empty(StatusCode::NOT_FOUND);
            self.head(run, number, &response, false);
            return Some(response);
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
        drop(sessions);
        let mut response = Response::new(RecordedBody::Whole(Bytes::from(answer.clone())));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.head(run, number, &response, false);
        let mut sessions = self.shared.lock();
        sessions.recorder.sent(run, Some(number), probe, Line::new(answer));
        sessions.recorder.note_in(run, number, What::BodyEnded(BodyEnd::Complete));
        Some(response)
    }

    /// Records a request and its message. `None` when a limit is reached: the server does not get it then.
    fn record(&self, parts: &Parts, line: Option<Line>) -> Option<(usize, u32)> {
        let mut sessions = self.shared.lock();
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
        Some((run, number))
    }

    /// Records the head of a response.
    fn head<B>(&self, run: usize, number: u32, response: &Response<B>, opens: bool) {
        let mut sessions = self.shared.lock();
        if opens && let Some(id) = response.headers().get(name::SESSION_ID) {
            sessions.begins(run, id.as_bytes());
        }
        let head = HttpResponse { status: response.status().as_u16(), headers: recorded(response.headers()) };
        sessions.recorder.note_in(run, number, What::Responded(head));
    }

    async fn body(
        &self,
        run: usize,
        number: u32,
        response: Response<HttpBody>,
        how: How,
    ) -> Response<RecordedBody> {
        let kind = |response: &Response<_>| {
            MediaType::of(response.headers().get(CONTENT_TYPE).map(|value| value.as_bytes()))
        };
        let kind = kind(&response);
        if kind == MediaType::EventStream {
            self.head(run, number, &response, how.opens);
            let (parts, body) = response.into_parts();
            let body = RecordedBody::stream(body, self.shared.clone(), run, number, how.carries_probes);
            return Response::from_parts(parts, body);
        }
        let (parts, body) = response.into_parts();
        let mut whole = match body.collect().await {
            Ok(body) => body.to_bytes(),
            Err(never) => match never {},
        };
        let mut sessions = self.shared.lock();
        let mut probe = Probe::Answer;
        let mut line = Line::new(whole.clone());
        let modern = sessions.recorder.is_modern(run);
        let cut = sessions.pages.split(run, modern, &line);
        let refusal = (self.refuse && sessions.recorder.opens(run, &line)).then(|| probes::refusal(&whole));
        if let Some(refusal) = refusal.flatten() {
            (whole, probe) = (refusal.into(), Probe::UnknownVersion);
        } else if let Some(cut) = cut {
            whole = cut.into();
        }
        line = if whole == line.bytes() { line } else { Line::new(whole.clone()) };
        let mut response = Response::from_parts(parts, ());
        response.headers_mut().remove(CONTENT_LENGTH);
        let is_message = kind == MediaType::Json && !whole.is_empty();
        if is_message && how.streams && response.status() == StatusCode::OK {
            let replies = sessions.replies.entry(run).or_default();
            *replies += 1;
            // Every other response is sent as an event.
            if replies.is_multiple_of(2)
                && let Ok(text) = std::str::from_utf8(&whole)
                && !text.contains(['\n', '\r'])
            {
                whole = event(text);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            }
        }
        drop(sessions);
        self.head(run, number, &response, how.opens);
        let mut sessions = self.shared.lock();
        if is_message {
            sessions.recorder.sent(run, Some(number), probe, line);
        }
        sessions.recorder.note_in(run, number, What::BodyEnded(BodyEnd::Complete));
        response.map(|()| RecordedBody::Whole(whole))
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

/// A request without a response: when it is dropped, the client has left its response.
struct InFlight {
    shared: Shared,
    run: usize,
    exchange: u32,
    finished: bool,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.finished {
            self.shared.lock().recorder.note_in(self.run, self.exchange, What::BodyEnded(BodyEnd::Left));
        }
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
    let mut response = Response::new(RecordedBody::Whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

fn recorded(headers: &HeaderMap) -> Vec<(Box<str>, Bytes)> {
    let headers = headers.iter().filter(|(header, _)| {
        RECORDED_HEADERS.contains(&header.as_str()) || header.as_str().starts_with(name::PARAM_PREFIX)
    });
    headers
        .map(|(header, value)| (header.as_str().into(), Bytes::copy_from_slice(value.as_bytes())))
        .collect()
}

/// A message as an event of a stream.
fn event(line: &str) -> Bytes {
    format!("event: message\ndata: {line}\n\n").into()
}

/// The body of a response, which is recorded on its way to the client.
enum RecordedBody {
    Whole(Bytes),
    Stream(Box<EventStream>),
}

struct EventStream {
    inner: HttpBody,
    decoder: SseDecoder,
    shared: Shared,
    run: usize,
    exchange: u32,
    /// Whether our probes are sent on it.
    carries_probes: bool,
    /// Our events that are sent before the next piece.
    queued: VecDeque<Bytes>,
    ended: bool,
}

impl RecordedBody {
    fn stream(inner: HttpBody, shared: Shared, run: usize, exchange: u32, carries_probes: bool) -> Self {
        let decoder = SseDecoder::new(MAX_EVENT_BYTES);
        let queued = VecDeque::new();
        Self::Stream(Box::new(EventStream {
            inner,
            decoder,
            shared,
            run,
            exchange,
            carries_probes,
            queued,
            ended: false,
        }))
    }
}

impl EventStream {
    /// Queues our probes before the next piece.
    fn queue_probes(&mut self, waker: &Waker) {
        let mut shared = self.shared.lock();
        if !self.carries_probes {
            return;
        }
        for (probe, line) in shared.take(self.run, waker) {
            // Without an id: a resumed stream does not repeat it.
            self.queued.push_back(event(&line));
            shared.recorder.sent(self.run, Some(self.exchange), probe, Line::new(line));
        }
    }

    fn record(&mut self, piece: &Bytes) {
        self.decoder.push(piece.clone());
        let mut shared = self.shared.lock();
        while let Some(event) = self.decoder.poll_event() {
            let event = match event {
                SseEvent::Event(event) => event,
                SseEvent::Id(id) => Event { id: Some(id), ..Event::default() },
                SseEvent::Retry(milliseconds) => {
                    let retry = What::Retry(Duration::from_millis(milliseconds));
                    shared.recorder.note_in(self.run, self.exchange, retry);
                    continue;
                }
                _ => continue,
            };
            let data = event.data.clone();
            if event.name.as_deref() == Some(b"endpoint") {
                shared.set_endpoint(self.run, &data);
            }
            let is_message = event.name.as_ref().is_none_or(|name| name == "message") && !data.is_empty();
            shared.recorder.note_in(self.run, self.exchange, What::Streamed(event));
            if is_message {
                shared.recorder.sent(self.run, Some(self.exchange), Probe::Answer, Line::new(data));
            }
        }
    }

    fn end(&mut self, how: BodyEnd) {
        if !std::mem::replace(&mut self.ended, true) {
            self.shared.lock().recorder.note_in(self.run, self.exchange, What::BodyEnded(how));
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.end(BodyEnd::Left);
    }
}

impl Body for RecordedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let stream = match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Self::Whole(bytes) => return Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(stream) => stream,
        };
        stream.queue_probes(cx.waker());
        if let Some(bytes) = stream.queued.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        let polled = Pin::new(&mut stream.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(piece) = frame.data_ref() {
                    stream.record(piece);
                }
            }
            Poll::Ready(_) => stream.end(BodyEnd::Complete),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::new(),
        }
    }
}
