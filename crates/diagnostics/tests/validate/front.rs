//! An HTTP proxy in front of our own server that applies a fault to requests and responses. Most tests of this folder use it.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use mcpjoin::Link;
use mcpjoin::proto::Version;
use mcpjoin::proto::types::{ElicitFormParams, ElicitationSchema, Members, Prompt, StringSchema};
use mcpjoin::server::{Context as Calling, HandlerError, NoArguments, Server, tool};
use mcpjoin::transport::{HttpOptions, HttpService};
use mcpjoin_diagnostics::validate::{ValidateError, Validator};
use mcpjoin_rules::{Outcome, Report, Selection, Trace, check_server};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinHandle};
use tower_service::Service as _;

use super::fault::{Fault, Talk, fewer};

/// The timeout of a validation.
const LIMIT: Duration = Duration::from_secs(150);

/// The response timeout for a fault that exceeds it.
pub(super) const SLOW: Duration = Duration::from_secs(3);

pub(super) type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A server on a local port, ended when this is dropped.
pub(super) struct Front {
    pub(super) url: String,
    /// The bodies that were received, and the values of `x-secret`.
    pub(super) came: Arc<Mutex<Vec<String>>>,
    accepting: JoinHandle<()>,
}

impl Drop for Front {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

pub(super) fn server(versions: &[Version]) -> Server {
    let builder = Server::builder("front", "1")
        .dynamic_tools()
        .prompt(Prompt::new("hello"), async |_, _| "hello")
        .tool(tool("one").read_only(), async |_: NoArguments, _| "done")
        .tool(tool("two"), async |_: NoArguments, _| "done");
    let builder = if versions.is_empty() { builder } else { builder.versions(versions.to_vec()) };
    builder.build().unwrap()
}

#[derive(Deserialize, JsonSchema)]
struct Routed {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
    #[schemars(with = "i64", extend("x-mcp-header" = "Count"))]
    #[serde(default)]
    count: Option<i64>,
}

/// A server with one tool for each feature that is checked in detail, and nothing else.
pub(super) fn small() -> Server {
    let server = Server::builder("small", "1")
        .tool(tool("ask").read_only(), async |_: NoArguments, cx: Calling| {
            let name = Members::new().with("name", StringSchema::default().into());
            let answer = cx.elicit(ElicitFormParams::new("Who?", ElicitationSchema::new(name))).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .tool(tool("routed").read_only(), async |routed: Routed, _| {
            format!("{} {:?}", routed.region, routed.count)
        })
        .tool(tool("job").read_only().as_task(), async |_: NoArguments, cx: Calling| {
            // A call that will be cancelled requests no progress, and never completes.
            let asked = cx.params().is_some_and(|params| params.raw().as_str().contains("progressToken"));
            let time = if asked { Duration::from_millis(50) } else { Duration::from_secs(3600) };
            let called_off = tokio::time::timeout(time, cx.cancelled()).await;
            if called_off.is_ok() { "cancelled" } else { "done" }
        });
    server.build().unwrap()
}

impl Front {
    /// Ends the server and all of its connections at once.
    pub(super) fn end(&self) -> AbortHandle {
        self.accepting.abort_handle()
    }

    pub(super) async fn new(fault: Fault) -> Self {
        Self::of(&server(&[]), fault).await
    }

    pub(super) async fn of(server: &Server, fault: Fault) -> Self {
        let service = server.http(HttpOptions::new().stateless(fault.stateless));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let came = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&came);
        let (fault, talk) = (Arc::new(fault), Arc::<Mutex<Talk>>::default());
        let accepting = tokio::spawn(async move {
            // The connections end with this task.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let bytes = Arc::<Mutex<Vec<u8>>>::default();
                let stream = Watched { stream, bytes: Arc::clone(&bytes) };
                let (service, noted) = (service.clone(), Arc::clone(&noted));
                let (fault, talk) = (Arc::clone(&fault), Arc::clone(&talk));
                let answer = hyper::service::service_fn(move |mut request: Request<Incoming>| {
                    request.extensions_mut().insert(Raw(std::mem::take(&mut *bytes.lock().unwrap())));
                    let (service, noted) = (service.clone(), Arc::clone(&noted));
                    let (fault, talk) = (Arc::clone(&fault), Arc::clone(&talk));
                    async move { Ok::<_, Infallible>(changed(request, service, noted, &fault, &talk).await) }
                });
                connections.spawn(async move {
                    let served = hyper::server::conn::http1::Builder::new();
                    let _ = served.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Self { url, came, accepting }
    }

    pub(super) fn validator(&self) -> Validator {
        Validator::http(Link::http(&self.url))
    }
}

async fn changed(
    request: Request<Incoming>,
    mut service: HttpService,
    came: Arc<Mutex<Vec<String>>>,
    fault: &Fault,
    talk: &Mutex<Talk>,
) -> Reply {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&body).into_owned();
    {
        let mut came = came.lock().unwrap();
        came.push(text.clone());
        came.extend(parts.headers.get("x-secret").map(|value| value.to_str().unwrap().to_owned()));
    }
    if let Some(reply) = (fault.instead)(&parts, &text) {
        return reply;
    }
    (fault.before)(&mut parts, &text);
    let sent = parts.clone();
    let received = talk.lock().unwrap().record(&text);
    if fault.slow && received.method == "tools/list" && received.nth == 0 {
        let _ = tokio::time::timeout(SLOW + SLOW / 10, std::future::pending::<()>()).await;
    }
    let receiver = (fault.receive)(text);
    parts.headers.remove(CONTENT_LENGTH);
    let response = service.call(Request::from_parts(parts, Full::new(receiver.into()))).await.unwrap();
    let (mut head, body) = response.into_parts();
    let kind = head.headers.get("content-type").map(HeaderValue::as_bytes);
    if kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
        (fault.head)(&mut head.headers);
        let body = Changed { body: Box::pin(body), change: Arc::clone(&fault.frame) };
        return Response::from_parts(head, body.boxed_unsync());
    }
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let (mut status, mut text) = (head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap());
    if !fault.whole {
        text = fewer(text);
    }
    (fault.after)(&sent, &mut status, &mut head.headers, &mut text);
    head.status = status.try_into().unwrap();
    head.headers.remove(CONTENT_LENGTH);
    if !text.starts_with(['{', '[']) {
        return Response::from_parts(head, Full::from(text).boxed_unsync());
    }
    let was = text.contains("-32021");
    let said = (fault.say)(&received, text);
    if let [one] = said.as_slice() {
        // A result that replaces an error gets the status of a success.
        if one.windows(9).any(|window| window == b"\"result\":") {
            head.status = http::StatusCode::OK;
        }
        // This error gets its required status if the fault has added it.
        if !was && one.windows(6).any(|window| window == b"-32021") {
            head.status = http::StatusCode::BAD_REQUEST;
        }
        return Response::from_parts(head, Full::from(one.clone()).boxed_unsync());
    }
    // A single message is the body. No message or several are sent as a stream.
    let mut stream = Vec::new();
    for message in said {
        for line in message.split(|byte| *byte == b'\n') {
            stream.extend_from_slice(&[b"data: ", line, b"\n"].concat());
        }
        stream.push(b'\n');
    }
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    head.headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Response::from_parts(head, Full::from(stream).boxed_unsync())
}

/// The bytes of a request: its head, and whatever was read together with it.
#[derive(Clone)]
pub(super) struct Raw(pub(super) Vec<u8>);

/// A connection that records the bytes it reads.
struct Watched {
    stream: TcpStream,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.bytes.lock().unwrap().extend_from_slice(&buffer.filled()[before..]);
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A stream whose frames are changed.
struct Changed<B> {
    body: Pin<Box<B>>,
    change: Arc<dyn Fn(String) -> String + Send + Sync>,
}

impl<B: Body<Data = Bytes>> Body for Changed<B> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let change = Arc::clone(&self.change);
        self.body.as_mut().poll_frame(cx).map(|frame| {
            let data = frame?.ok()?.into_data().ok()?;
            let text = String::from_utf8(data.to_vec()).unwrap();
            Some(Ok(Frame::data(change(text).into())))
        })
    }
}

/// A response with a complete body.
pub(super) fn full(status: u16, kind: &str, body: &str) -> Reply {
    let body = Full::from(body.to_owned()).boxed_unsync();
    Response::builder().status(status).header("content-type", kind).body(body).unwrap()
}

/// A response whose body starts with this text and never ends.
pub(super) fn endless(kind: &str, body: &str) -> Reply {
    let body = Endless(Some(body.to_owned().into())).boxed_unsync();
    Response::builder().header("content-type", kind).body(body).unwrap()
}

struct Endless(Option<Bytes>);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Poll::Pending,
        }
    }
}

/// Runs a validation, within the timeout of every test.
pub(super) async fn looked(validator: Validator) -> Result<Trace, ValidateError> {
    tokio::time::timeout(LIMIT, validator.run()).await.unwrap()
}

pub(super) fn checked(trace: &Trace) -> Report {
    check_server(trace, &Selection::default())
}

/// The rules that failed.
pub(super) fn failed(report: &Report) -> Vec<&'static str> {
    report.failed().map(|result| result.rule.slug).collect()
}

/// The outcome of a rule.
pub(super) fn outcome<'r>(report: &'r Report, slug: &str) -> &'r Outcome {
    &report.results.iter().find(|result| result.rule.slug == slug).unwrap().outcome
}
