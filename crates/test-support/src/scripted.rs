//! A scripted server: a test decides every message that it sends, and sees every message that it receives.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use mcpjoin::Client;
use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::session::{Inbound, Limits, Outbound, Route, Violation};
use mcpjoin::proto::{
    ErrorObject, Message, Method, Notification, Payload, Raw, Request, RequestId, Response,
};
use mcpjoin::transport::{Link, RawLink};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub struct Scripted {
    pub link: RawLink,
    pub capabilities: Value,
}

/// The answer of a scripted server to a request.
pub type Said = Result<Value, ErrorObject>;

pub fn raw(value: &Value) -> Raw {
    Raw::parse(value.to_string()).expect("what serde_json writes is JSON")
}

pub fn value(payload: Option<&Payload>) -> Value {
    payload.map_or(Value::Null, |payload| serde_json::from_str(payload.raw().as_str()).expect("JSON"))
}

pub fn builder() -> ClientBuilder {
    Client::builder("test", "1.0.0")
}

/// Polls a future once, with a waker that does nothing.
pub fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Records the rule violations of the server.
pub fn note_violations(builder: ClientBuilder) -> (ClientBuilder, Arc<Mutex<Vec<Violation>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    (
        builder.on_violation(move |violation| {
            noted.lock().expect("no holder panics").push(violation.clone());
        }),
        seen,
    )
}

/// Records the notifications that the client receives.
pub fn note_notifications(
    builder: ClientBuilder,
) -> (ClientBuilder, tokio::sync::mpsc::UnboundedReceiver<Notification>) {
    let (received, receiver) = tokio::sync::mpsc::unbounded_channel();
    (builder.on_notification(move |notification| drop(received.send(notification))), receiver)
}

impl Scripted {
    /// A server with all capabilities, and the link to it.
    pub fn pair() -> (Link, Self) {
        let (ours, theirs) = Link::memory();
        let capabilities = json!({
            "tools": {"listChanged": true},
            "resources": {"listChanged": true, "subscribe": true},
            "prompts": {"listChanged": true},
            "completions": {},
            "logging": {},
        });
        (ours, Self { link: theirs.raw(&Limits::default()), capabilities })
    }

    /// The next message; `None` when the client has closed.
    pub async fn message(&mut self) -> Option<Message> {
        match self.link.recv().await {
            Inbound::Message { message, .. } => Some(message),
            Inbound::Closed { .. } => None,
            other => panic!("a client sends messages: {other:?}"),
        }
    }

    pub async fn request(&mut self) -> Request {
        match self.message().await {
            Some(Message::Request(request)) => request,
            other => panic!("expected a request: {other:?}"),
        }
    }

    /// The next request, which must have this method.
    pub async fn expect(&mut self, method: &str) -> Request {
        let request = self.request().await;
        assert_eq!(request.method.as_str(), method);
        request
    }

    pub async fn notification(&mut self) -> Notification {
        match self.message().await {
            Some(Message::Notification(notification)) => notification,
            other => panic!("expected a notification: {other:?}"),
        }
    }

    pub async fn response(&mut self) -> Response {
        match self.message().await {
            Some(Message::Response(response)) => response,
            other => panic!("expected a response: {other:?}"),
        }
    }

    pub async fn send(&mut self, message: impl Into<Message>) {
        let outbound = Outbound::Message { message: message.into(), route: Route::Session };
        self.link.send(outbound).await.expect("the client is there");
    }

    pub async fn say(&mut self, id: RequestId, said: Said) {
        let outcome = said.map(|result| Payload::from_raw(raw(&result)));
        self.send(Response { id: Some(id), outcome }).await;
    }

    pub async fn result(&mut self, id: RequestId, result: Value) {
        self.say(id, Ok(result)).await;
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        let params = Some(Payload::from_raw(raw(&params)));
        self.send(Notification { method: Method::parse(method), params }).await;
    }

    pub async fn ask(&mut self, id: i64, method: &str, params: Value) -> Response {
        let params = Some(Payload::from_raw(raw(&params)));
        self.send(Request { id: id.into(), method: Method::parse(method), params }).await;
        self.response().await
    }

    pub async fn open_legacy(&mut self, version: &str) {
        let mut request = self.request().await;
        if request.method == Method::Discover {
            self.say(request.id, Err(ErrorObject::method_not_found("server/discover"))).await;
            request = self.request().await;
        }
        assert_eq!(request.method, Method::Initialize);
        let result = json!({
            "protocolVersion": version,
            "capabilities": self.capabilities,
            "serverInfo": {"name": "scripted", "version": "1"},
        });
        self.result(request.id, result).await;
        assert_eq!(self.notification().await.method, Method::Initialized);
    }

    pub async fn open_modern(&mut self) {
        let request = self.expect("server/discover").await;
        let result = json!({
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "supportedVersions": ["2026-07-28"],
            "capabilities": self.capabilities,
        });
        self.result(request.id, result).await;
    }

    /// Answers all further requests with `answer`, in a task; the task returns the server when the client has closed.
    pub fn serve(mut self, mut answer: impl FnMut(&Request) -> Said + Send + 'static) -> JoinHandle<Self> {
        tokio::spawn(async move {
            while let Some(message) = self.message().await {
                if let Message::Request(request) = message {
                    let said = answer(&request);
                    self.say(request.id, said).await;
                }
            }
            self
        })
    }
}

pub async fn legacy(builder: ClientBuilder) -> (Client, Scripted) {
    let (link, mut server) = Scripted::pair();
    let (client, ()) = tokio::join!(builder.connect(link), server.open_legacy("2025-11-25"));
    (client.expect("connects"), server)
}

pub async fn modern(builder: ClientBuilder) -> (Client, Scripted) {
    let (link, mut server) = Scripted::pair();
    let (client, ()) = tokio::join!(builder.connect(link), server.open_modern());
    (client.expect("connects"), server)
}

/// The result of a tool with this text.
pub fn text(text: &str) -> Value {
    json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
}
