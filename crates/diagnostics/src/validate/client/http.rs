//! Clients over HTTP: each request is noted, given to the server as it is, and its response noted on its way back.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::{MediaType, accepts};
use mcpjoin_proto::{Era, Message, Method, Version};
use mcpjoin_rules::{BodyEnd, Ended, HttpRequest, HttpResponse, Line, Probe, Trace, What};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower_service::Service as _;

use super::body::{NotedBody, written};
use super::recorder::{Recorder, is_modern, requests};
use super::sessions::Shared;
use super::{ClientValidator, HELD, Leaving, probes};
use crate::engine::only_request;
use mcpjoin::link::HttpService;
use mcpjoin::link::{HttpListener, HttpOptions};

/// Connections at once.
const CONNECTIONS: usize = 1000;
/// What is under way at the end is given so long.
const FAREWELL: Duration = Duration::from_millis(300);

/// The headers of a client that say something to the rules, and let nobody in.
const NOTED: [&str; 8] = [
    name::ACCEPT,
    name::CONTENT_TYPE,
    name::SESSION_ID,
    name::PROTOCOL_VERSION,
    name::METHOD,
    name::NAME,
    name::LAST_EVENT_ID,
    name::ORIGIN,
];

/// What answers every request.
#[derive(Clone)]
struct Front {
    service: HttpService,
    shared: Shared,
    refuse: bool,
    disturb: bool,
    limit: usize,
}

/// Who is connected.
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
    end: impl Future<Output = Leaving>,
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
        let mut alone = pin!(alone(presence.clone(), idle));
        loop {
            tokio::select! {
                biased;
                leaving = &mut end => break leaving,
                () = full.notified() => break Leaving::Over,
                () = &mut alone => break Leaving::Over,
                Some(_) = tasks.join_next() => {}
                accepted = socket.accept(), if tasks.len() < CONNECTIONS => {
                    if let Ok((stream, _)) = accepted {
                        let _ = stream.set_nodelay(true);
                        let present = Present::new(presence.clone());
                        tasks.spawn(connection(stream, front.clone(), present));
                    } else {
                        // For open files, for memory.
                        sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        }
    };
    drop(socket);
    // What a client that has gone has left behind is still on its way to us.
    let _ = timeout(FAREWELL, async { while tasks.join_next().await.is_some() {} }).await;
    tasks.shutdown().await;
    let mut sessions = shared.lock();
    let exit = match leaving {
        Leaving::Gone(exit) => Some(exit),
        _ => None,
    };
    if let Some(exit) = exit {
        sessions.recorder.note_end(&What::Ended(Ended { exit, forced: false }));
    }
    std::mem::replace(&mut sessions.recorder, Recorder::new(answer)).into_trace()
}

/// Ready when somebody has been here, and nobody has for that long.
async fn alone(presence: Arc<Presence>, idle: Option<Duration>) {
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

/// A connection, as long as it lasts.
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
    // How a connection breaks off is told by what it has carried.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answers).await;
    drop(present);
}

impl Front {
    async fn answer(mut self, request: Request<Incoming>) -> Response<NotedBody> {
        let (parts, body) = request.into_parts();
        let Ok(body) = Limited::new(body, self.limit).collect().await else {
            return bare(StatusCode::PAYLOAD_TOO_LARGE);
        };
        let body = body.to_bytes();
        let line = (!body.is_empty()).then(|| Line::new(body.clone()));
        let opens =
            line.as_ref().is_some_and(|line| requests(line).any(|asked| asked.method == Method::Initialize));
        let ours = line.as_ref().is_some_and(is_for_us);
        let Some((run, number)) = self.note(&parts, line.clone()) else {
            return bare(StatusCode::SERVICE_UNAVAILABLE);
        };
        self.shared.lock().goes_on(run);
        if ours {
            let response = bare(StatusCode::ACCEPTED);
            self.head(run, number, &response, opens);
            return response;
        }
        if let Some(response) = self.own(run, number, &parts, line.as_ref()) {
            return response;
        }
        let mut waiting = Waiting { shared: self.shared.clone(), run, exchange: number, over: false };
        if opens {
            sleep(HELD).await;
        }
        let stands = parts.method == http::Method::GET;
        let streams = !self.refuse && !opens && accepts_events(&parts);
        let answered = self.service.call(Request::from_parts(parts, Full::new(body))).await;
        let response = match answered {
            Ok(response) => response,
            Err(never) => match never {},
        };
        waiting.over = true;
        self.body(run, number, response, How { opens, stands, streams }).await
    }

    /// The response, where it is ours to give.
    fn own(
        &self,
        run: usize,
        number: u32,
        parts: &Parts,
        line: Option<&Line>,
    ) -> Option<Response<NotedBody>> {
        let mut sessions = self.shared.lock();
        let modern = sessions.recorder.is_modern(run);
        if self.disturb && sessions.loses(run, parts, line) {
            drop(sessions);
            let response = bare(StatusCode::NOT_FOUND);
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
            (StatusCode::OK, Probe::Answer, sessions.pages.asked(run, modern, line?)?)
        };
        drop(sessions);
        let mut response = Response::new(NotedBody::Whole(Bytes::from(answer.clone())));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.head(run, number, &response, false);
        let mut sessions = self.shared.lock();
        sessions.recorder.said(run, Some(number), probe, Line::new(answer));
        sessions.recorder.note_in(run, number, What::BodyEnded(BodyEnd::Complete));
        Some(response)
    }

    /// The request, and the message in it. `None` when no more is noted: it gets nothing from the server then.
    fn note(&self, parts: &Parts, line: Option<Line>) -> Option<(usize, u32)> {
        let mut sessions = self.shared.lock();
        if sessions.recorder.is_full() {
            return None;
        }
        let (run, number) = sessions.of(parts, line.as_ref());
        let request = HttpRequest {
            method: parts.method.as_str().into(),
            url: parts.uri.to_string().into(),
            headers: noted(&parts.headers),
        };
        sessions.recorder.requested(run, number, request, line);
        Some((run, number))
    }

    /// The head of a response.
    fn head<B>(&self, run: usize, number: u32, response: &Response<B>, opens: bool) {
        let mut sessions = self.shared.lock();
        if opens && let Some(id) = response.headers().get(name::SESSION_ID) {
            sessions.begins(run, id.as_bytes());
        }
        let head = HttpResponse { status: response.status().as_u16(), headers: noted(response.headers()) };
        sessions.recorder.note_in(run, number, What::Responded(head));
    }

    async fn body(
        &self,
        run: usize,
        number: u32,
        response: Response<mcpjoin::link::HttpBody>,
        how: How,
    ) -> Response<NotedBody> {
        let kind = |response: &Response<_>| {
            MediaType::of(response.headers().get(CONTENT_TYPE).map(|value| value.as_bytes()))
        };
        let kind = kind(&response);
        if kind == MediaType::EventStream {
            self.head(run, number, &response, how.opens);
            let (parts, body) = response.into_parts();
            let body = NotedBody::stream(body, self.shared.clone(), run, number, how.stands);
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
        let cut = sessions.pages.answered(run, modern, &line);
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
            // Every other answer comes as an event.
            if replies.is_multiple_of(2)
                && let Ok(text) = std::str::from_utf8(&whole)
                && !text.contains(['\n', '\r'])
            {
                whole = written(text);
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            }
        }
        drop(sessions);
        self.head(run, number, &response, how.opens);
        let mut sessions = self.shared.lock();
        if is_message {
            sessions.recorder.said(run, Some(number), probe, line);
        }
        sessions.recorder.note_in(run, number, What::BodyEnded(BodyEnd::Complete));
        response.map(|()| NotedBody::Whole(whole))
    }
}

/// How a request is answered.
struct How {
    /// It is `initialize`.
    opens: bool,
    /// Its stream may bring our probes.
    stands: bool,
    /// Its answer may come on a stream.
    streams: bool,
}

/// A request that is not answered yet: who leaves it leaves its response.
struct Waiting {
    shared: Shared,
    run: usize,
    exchange: u32,
    over: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.over {
            self.shared.lock().recorder.note_in(self.run, self.exchange, What::BodyEnded(BodyEnd::Left));
        }
    }
}

fn accepts_events(parts: &Parts) -> bool {
    parts.method == http::Method::POST && accepts(&noted(&parts.headers)[..], &[MediaType::EventStream])
}

/// Whether it is the answer to a request of ours, and nothing else.
fn is_for_us(line: &Line) -> bool {
    let mut parts = line.parts().peekable();
    parts.peek().is_some()
        && parts.all(|part| {
            matches!(part, Ok(Message::Response(response)) if response.id.as_ref().is_some_and(probes::is_ours))
        })
}

fn bare(status: StatusCode) -> Response<NotedBody> {
    let mut response = Response::new(NotedBody::Whole(Bytes::new()));
    *response.status_mut() = status;
    response
}

fn noted(headers: &HeaderMap) -> Vec<(Box<str>, Bytes)> {
    let headers = headers.iter().filter(|(header, _)| {
        NOTED.contains(&header.as_str()) || header.as_str().starts_with(name::PARAM_PREFIX)
    });
    headers
        .map(|(header, value)| (header.as_str().into(), Bytes::copy_from_slice(value.as_bytes())))
        .collect()
}
