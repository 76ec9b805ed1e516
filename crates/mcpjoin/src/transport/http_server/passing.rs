//! Passes a request to the process that has its session, and the response back.
//!
//! Called by `endpoint` and `http_sse` for a session whose id names another process ([`Replicas`]). Nothing is buffered: each part
//! of a response is sent on as it comes, and not read before the client takes it. A request is sent once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, ORIGIN, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body::{Body, SizeHint};
use mcpjoin_proto::codec::sse::OutgoingEvent;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::http::origin::MediaType;
use mcpjoin_proto::session::Origin;
use mcpjoin_proto::{ErrorObject, Message, RequestId, encode};
use tokio::time::{Sleep, sleep, timeout};

use super::body::HttpBody;
use super::events::EventId;
use super::head::Answer;
use super::http_sse::session_parameter;
use super::memory::Account;
use super::replicas::{PASSED, Replica};
use super::sessions::Problem;
use super::{Shared, gone, reply};
use crate::BoxError;

/// How long connecting to another process may take.
#[cfg(feature = "http-client")]
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// After how many times the interval of its comments another process is regarded as gone if it is silent.
const MISSED_COMMENTS: u32 = 3;

/// Headers that concern one connection only ([RFC 9110, 7.6.1](https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1)).
const OF_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    CONTENT_LENGTH,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
];

/// Headers of a request that are not passed: its host and its origin are checked already.
const OF_FIRST_PROCESS: [HeaderName; 5] = [HOST, ORIGIN, EXPECT, ACCEPT_ENCODING, PASSED];

/// Sends requests to other processes.
pub(super) trait Sender: Send + Sync {
    /// Sends a request, and returns when the head of its response has come. Dropping the future ends the exchange.
    fn send(&self, request: Request<Bytes>) -> Sending<'_>;
}

pub(super) type Sending<'a> =
    Pin<Box<dyn Future<Output = Result<Response<ReceivedBody>, SendError>> + Send + 'a>>;

/// The body of a response as it comes.
pub(super) type ReceivedBody = Pin<Box<dyn Body<Data = Bytes, Error = BoxError> + Send>>;

/// Why there is no response.
#[derive(Debug)]
pub(super) enum SendError {
    /// Nothing listens there.
    Refused,
    /// No connection was made: the request was not sent.
    Unreachable(Box<str>),
    /// The request may have been processed.
    Lost(Box<str>),
}

/// A request to be passed.
pub(super) struct Passing<'a> {
    pub(super) parts: &'a Parts,
    pub(super) body: Bytes,
    /// The requests in its body, whose responses the client waits for.
    pub(super) pending: Vec<RequestId>,
    pub(super) origin: &'a Origin,
    pub(super) account: &'a Arc<Account>,
    /// What in the request names the other process.
    pub(super) by: NamedBy,
}

/// What names the process that a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamedBy {
    /// The id of a session.
    Session,
    /// The `requestState` of a call that waits there.
    State,
    /// The id of the question that it answers.
    Question,
}

impl NamedBy {
    /// The response to a request whose process has ended.
    fn ended(self, id: Option<RequestId>) -> Response<HttpBody> {
        const STATE: &str = "`requestState` is of a process that has ended, and the call with it: send the call again without it";
        match self {
            Self::Session => reply::error(404, id, gone()),
            Self::State => reply::error(200, id, ErrorObject::invalid_params(STATE)),
            // The question is over. The session of the answer may go on here, which 404 would end.
            Self::Question => reply::bare(202),
        }
    }
}

/// Passes a request to another process, and returns the response.
pub(super) async fn pass(shared: &Arc<Shared>, to: &Replica, passing: Passing<'_>) -> Answer {
    let Passing { parts, body, pending, origin, account, by } = passing;
    let replicas = shared.options.replicas.as_ref().ok_or_else(|| reply::bare(500))?;
    let seal = replicas.seal(session_name(parts).unwrap_or_default(), origin);
    let seal = seal.and_then(|seal| HeaderValue::try_from(seal).ok()).ok_or_else(|| reply::bare(500))?;
    let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let uri = Uri::try_from(format!("{}{path}", to.url)).map_err(|_| reply::bare(400))?;
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = without(&parts.headers, &[&OF_CONNECTION[..], &OF_FIRST_PROCESS].concat());
    request.headers_mut().insert(PASSED, seal);
    let first = pending.first().cloned();
    let silence = shared.options.keep_alive * MISSED_COMMENTS;
    let sent = replicas.sender().send(request);
    // Where responses are JSON only, one comes when its call has ended.
    let sent = match shared.options.json_only {
        true => sent.await,
        false => timeout(silence, sent).await.unwrap_or_else(|_| {
            Err(SendError::Lost(format!("it did not answer within {} s", silence.as_secs()).into()))
        }),
    };
    let warn = |why: &str| shared.sessions.warn(Problem::NotPassed, account, &format!("{}: {why}", to.url));
    let response = match sent {
        Ok(response) => response,
        Err(SendError::Refused) => {
            warn("nothing listens there now");
            return Err(by.ended(first).into());
        }
        Err(SendError::Unreachable(why)) => {
            warn(&why);
            return Err(match replicas.not_reached(&to.process) {
                true => by.ended(first),
                false => reply::unavailable("the process that has this session is not reached"),
            }
            .into());
        }
        Err(SendError::Lost(why)) => {
            warn(&why);
            let text = format!(
                "the process that has this session gave no response, and may have processed the request: {why}"
            );
            return Err(reply::error(502, first, ErrorObject::internal(text)).into());
        }
    };
    replicas.reached(&to.process);
    let (head, body) = response.into_parts();
    let is_stream = MediaType::of(head.headers.get(name::CONTENT_TYPE).map(HeaderValue::as_bytes))
        == MediaType::EventStream;
    // A stream without an end of its own ends with this process.
    let until = (is_stream && parts.method == Method::GET).then(|| shared.clone());
    let errors = if is_stream { errors(&pending, WHY, None) } else { Bytes::new() };
    let mut body = PassedBody::new(body, errors, silence);
    body.ending = until.map(|shared| Box::pin(async move { shared.until_ending().await }) as Pin<Box<_>>);
    let mut passed = Response::new(HttpBody::passed(body));
    *passed.status_mut() = head.status;
    *passed.headers_mut() = without(&head.headers, &OF_CONNECTION);
    Ok(passed)
}

/// The id of the session of a request: in its header, or over HTTP+SSE in its URL.
pub(super) fn session_name(parts: &Parts) -> Option<&str> {
    match parts.headers.get(name::SESSION_ID) {
        Some(name) => name.to_str().ok(),
        None => session_parameter(parts),
    }
}

fn without(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let mut headers = headers.clone();
    for name in names {
        headers.remove(name);
    }
    headers
}

/// Why a stream that is passed on has broken off.
const WHY: &str =
    "the process of this session has ended or cannot be reached, and may have processed the request";

/// The events that end requests whose process has ended. `id`: of the last of them.
pub(super) fn errors(pending: &[RequestId], why: &str, id: Option<EventId>) -> Bytes {
    let last = id.map(|id| id.to_string());
    let mut events = BytesMut::new();
    for (place, id) in (1..).zip(pending) {
        let error =
            mcpjoin_proto::Response { id: Some(id.clone()), outcome: Err(ErrorObject::internal(why)) };
        let mut text = BytesMut::new();
        encode::message(&Message::Response(error), &mut text);
        // A message is a line, which an event can contain.
        let _ = OutgoingEvent {
            id: last.as_deref().filter(|_| place == pending.len()),
            data: &text,
            ..OutgoingEvent::default()
        }
        .write(&mut events);
    }
    events.freeze()
}

/// The body of a response of another process.
pub(super) struct PassedBody {
    /// `None` after its end.
    body: Option<ReceivedBody>,
    /// Sent if a stream breaks off between two events.
    errors: Bytes,
    /// What was passed ends with the end of an event.
    ends_an_event: bool,
    /// How long nothing may come.
    silence: Duration,
    timer: Pin<Box<Sleep>>,
    /// When the stream ends although more may come.
    ending: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl PassedBody {
    fn new(body: ReceivedBody, errors: Bytes, silence: Duration) -> Self {
        let timer = Box::pin(sleep(silence));
        Self { body: Some(body), errors, ends_an_event: true, silence, timer, ending: None }
    }

    /// The next part; `None` at the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(ending) = &mut self.ending
            && ending.as_mut().poll(cx).is_ready()
        {
            (self.body, self.ending) = (None, None);
            return Poll::Ready(None);
        }
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            let Poll::Ready(frame) = body.as_mut().poll_frame(cx) else {
                ready!(self.timer.as_mut().poll(cx));
                return Poll::Ready(self.broken());
            };
            match frame {
                Some(Ok(frame)) => {
                    // Trailers are ignored.
                    let Ok(data) = frame.into_data() else { continue };
                    self.timer.as_mut().reset(tokio::time::Instant::now() + self.silence);
                    self.ends_an_event = data.ends_with(b"\n\n");
                    return Poll::Ready(Some(data));
                }
                Some(Err(_)) => return Poll::Ready(self.broken()),
                None => self.body = None,
            }
        }
    }

    /// Ends a body that has broken off.
    fn broken(&mut self) -> Option<Bytes> {
        self.body = None;
        let errors = std::mem::take(&mut self.errors);
        // Behind a part of an event they would become a part of it. A client ignores that part when the stream ends.
        (self.ends_an_event && !errors.is_empty()).then_some(errors)
    }

    pub(super) fn is_end(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), |body| body.size_hint())
    }
}

/// The HTTP client that sends to other processes. They are never behind a proxy.
#[cfg(feature = "http-client")]
pub(super) fn client(authorities: &[Vec<u8>]) -> Result<impl Sender + use<>, crate::http::HttpSetupError> {
    let mut tls = crate::http::tls_config(authorities)?;
    // A connection of HTTP/2 has a limit of streams, and each open session may have one.
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(crate::http::Client::new(crate::http::ClientOptions::new(tls, CONNECT_TIMEOUT)))
}

#[cfg(feature = "http-client")]
impl Sender for crate::http::Client {
    fn send(&self, request: Request<Bytes>) -> Sending<'_> {
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let unsent = |why: &dyn ToString| SendError::Unreachable(why.to_string().into());
            let url = url::Url::parse(&parts.uri.to_string()).map_err(|error| unsent(&error))?;
            let sent = Self::send(self, parts.method, &url, parts.headers, body).await;
            let response = sent.map_err(|error| {
                if crate::http::is_refused(&error) {
                    return SendError::Refused;
                }
                let why = crate::http::describe(&error, &url, CONNECT_TIMEOUT, false).message;
                match error.is_connect() {
                    true => SendError::Unreachable(why.into()),
                    false => SendError::Lost(why.into()),
                }
            })?;
            Ok(response.into_http())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;

    use http_body::Frame;

    use super::*;

    /// Gives these parts, and then breaks off, or is silent.
    struct Parted {
        parts: VecDeque<&'static str>,
        silent: bool,
    }

    impl Body for Parted {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            match self.parts.pop_front() {
                Some(part) => Poll::Ready(Some(Ok(Frame::data(part.into())))),
                None if self.silent => Poll::Pending,
                None => Poll::Ready(Some(Err("reset".into()))),
            }
        }
    }

    fn passed(parts: &[&'static str], silent: bool) -> PassedBody {
        let parts = parts.iter().copied().collect();
        PassedBody::new(
            Box::pin(Parted { parts, silent }),
            errors(&[RequestId::from(7)], WHY, None),
            Duration::from_secs(45),
        )
    }

    async fn whole(mut body: PassedBody) -> Vec<String> {
        let mut parts = Vec::new();
        while let Some(part) = poll_fn(|cx| body.poll_next(cx)).await {
            parts.push(String::from_utf8(part.to_vec()).expect("a text"));
        }
        parts
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_breaks_off_between_two_events_ends_with_the_errors_of_its_requests() {
        let parts = whole(passed(&["data: 1\n\n"], false)).await;
        assert_eq!(parts.len(), 2);
        assert!(
            parts[1].starts_with("data: {") && parts[1].contains("\"id\":7") && parts[1].contains("-32603"),
            "{parts:?}"
        );
        // An error in the middle of an event would not be read.
        assert_eq!(whole(passed(&["data: 1\n\n", "data: {"], false)).await.len(), 2);
        assert_eq!(whole(passed(&[], false)).await.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_silent_for_three_comments_is_gone() {
        let began = tokio::time::Instant::now();
        let parts = whole(passed(&[": \n\n"], true)).await;
        assert_eq!((parts.len(), began.elapsed().as_secs()), (2, 45), "{parts:?}");
    }

    #[cfg(feature = "http-client")]
    #[tokio::test]
    async fn connecting_to_a_process_that_accepts_nothing_ends_after_a_second() {
        // A listening socket with a full backlog accepts no connection.
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
        let listener = socket.listen(1).expect("a listener");
        let address = listener.local_addr().expect("an address");
        let mut callers = Vec::new();
        while let Ok(Ok(caller)) =
            timeout(Duration::from_millis(300), tokio::net::TcpStream::connect(address)).await
        {
            callers.push(caller);
        }
        let client = client(&[]).expect("authorities");
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = format!("http://{address}/mcp").parse().expect("a URL");
        // From here on the time passes as soon as nothing else is to be done.
        tokio::time::pause();
        let began = tokio::time::Instant::now();
        let sent = client.send(request).await.map(drop);
        assert!(
            matches!(&sent, Err(SendError::Unreachable(why)) if why.contains("no connection within 1000 ms")),
            "{sent:?}"
        );
        assert_eq!(began.elapsed().as_secs(), CONNECT_TIMEOUT.as_secs());
    }

    #[test]
    fn headers_of_one_connection_are_not_passed() {
        let all =
            ["connection", "content-length", "te", "keep-alive", "transfer-encoding", "accept", "x-own"];
        let headers: HeaderMap =
            all.iter().map(|name| (HeaderName::from_static(name), HeaderValue::from_static("1"))).collect();
        let mut left: Vec<String> =
            without(&headers, &OF_CONNECTION).keys().map(ToString::to_string).collect();
        left.sort();
        assert_eq!(left, ["accept", "x-own"]);
    }
}
