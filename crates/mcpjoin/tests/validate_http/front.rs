//! Our own server with a fault in front of it: what comes and what goes out is changed on the way.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use mcpjoin::Link;
use mcpjoin::check::{Outcome, Report, Selection, Trace, judge};
use mcpjoin::link::{HttpOptions, HttpService};
use mcpjoin::proto::Version;
use mcpjoin::proto::types::Prompt;
use mcpjoin::server::{NoArguments, Server, tool};
use mcpjoin::validate::{ValidateError, Validator};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tower_service::Service as _;

/// No look takes as long as this.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) type Reply = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// What is changed on the way. By default nothing.
#[derive(Clone, Copy)]
pub(super) struct Fault {
    /// Changes what comes. `body` is that of the request.
    pub(super) before: fn(&mut Parts, body: &str),
    /// Answers in place of the server.
    pub(super) instead: fn(&Parts, body: &str) -> Option<Reply>,
    /// Changes a whole response. `sent` is the head of the request.
    pub(super) after: fn(sent: &Parts, status: &mut u16, headers: &mut HeaderMap, body: &mut String),
    /// Changes the head of a stream.
    pub(super) head: fn(&mut HeaderMap),
    /// Changes what comes on a stream.
    pub(super) frame: fn(String) -> String,
}

impl Default for Fault {
    fn default() -> Self {
        Self {
            before: |_, _| {},
            instead: |_, _| None,
            after: |_, _, _, _| {},
            head: |_| {},
            frame: |frame| frame,
        }
    }
}

/// A server on a port of this machine, until it is dropped.
pub(super) struct Front {
    pub(super) url: String,
    /// The bodies that have come, and the values of `x-secret`.
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
        .tool(tool("one"), async |_: NoArguments, _| "done")
        .tool(tool("two"), async |_: NoArguments, _| "done");
    let builder = if versions.is_empty() { builder } else { builder.versions(versions.to_vec()) };
    builder.build().unwrap()
}

impl Front {
    pub(super) async fn new(fault: Fault) -> Self {
        Self::of(&server(&[]), fault).await
    }

    pub(super) async fn of(server: &Server, fault: Fault) -> Self {
        let service = server.http(HttpOptions::new());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let came = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&came);
        let accepting = tokio::spawn(async move {
            // Ended with this task.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (service, noted) = (service.clone(), Arc::clone(&noted));
                let answer = hyper::service::service_fn(move |request| {
                    let (service, noted) = (service.clone(), Arc::clone(&noted));
                    async move { Ok::<_, Infallible>(changed(request, service, noted, fault).await) }
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
    fault: Fault,
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
    let response = service.call(Request::from_parts(parts, Full::new(body))).await.unwrap();
    let (mut head, body) = response.into_parts();
    let kind = head.headers.get("content-type").map(HeaderValue::as_bytes);
    if kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
        (fault.head)(&mut head.headers);
        let body = Changed { body: Box::pin(body), change: fault.frame };
        return Response::from_parts(head, body.boxed_unsync());
    }
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let (mut status, mut text) = (head.status.as_u16(), String::from_utf8(body.to_vec()).unwrap());
    (fault.after)(&sent, &mut status, &mut head.headers, &mut text);
    head.status = status.try_into().unwrap();
    head.headers.remove("content-length");
    Response::from_parts(head, Full::from(text).boxed_unsync())
}

/// A stream that is changed on its way.
struct Changed<B> {
    body: Pin<Box<B>>,
    change: fn(String) -> String,
}

impl<B: Body<Data = Bytes>> Body for Changed<B> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let change = self.change;
        self.body.as_mut().poll_frame(cx).map(|frame| {
            let data = frame?.ok()?.into_data().ok()?;
            let text = String::from_utf8(data.to_vec()).unwrap();
            Some(Ok(Frame::data(change(text).into())))
        })
    }
}

/// A body that is all there.
pub(super) fn full(status: u16, kind: &str, body: &str) -> Reply {
    let body = Full::from(body.to_owned()).boxed_unsync();
    Response::builder().status(status).header("content-type", kind).body(body).unwrap()
}

/// A body that begins so, and never ends.
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

/// Looks, within the time that every test has.
pub(super) async fn looked(validator: Validator) -> Result<Trace, ValidateError> {
    tokio::time::timeout(LIMIT, validator.run()).await.unwrap()
}

pub(super) fn judged(trace: &Trace) -> Report {
    judge(trace, &Selection::default())
}

/// The rules that were broken.
pub(super) fn failed(report: &Report) -> Vec<&'static str> {
    report.failed().map(|verdict| verdict.rule.slug).collect()
}

/// What a rule says.
pub(super) fn outcome<'r>(report: &'r Report, slug: &str) -> &'r Outcome {
    &report.verdicts.iter().find(|verdict| verdict.rule.slug == slug).unwrap().outcome
}
