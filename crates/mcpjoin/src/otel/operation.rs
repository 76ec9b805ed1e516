//! One request, from its start to its end, as a span and as a value of a histogram.
//!
//! Made by the layers of `mod`. An operation that is dropped before its end has been cancelled.

use std::borrow::Cow;
use std::sync::Arc;

use mcpjoin_proto::session::{Call, CallError, CallRefused, Reply};
use mcpjoin_proto::{ErrorObject, Method, Raw, Request, code};
use opentelemetry::trace::Status;
use opentelemetry::{KeyValue, Value};
use tokio::time::Instant;
use tracing::Span;
use tracing::field::Empty;
use tracing::span::Id;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use super::attributes::{MAX_NAME_BYTES, MAX_TEXT_BYTES, Network, Target, bounded};
use super::instruments::{Instruments, Metric};
use super::propagation;
use crate::connection::{Context, Next, SentId};

/// A request that is being measured.
pub(super) struct Operation {
    span: Span,
    instruments: Arc<Instruments>,
    metric: Metric,
    started: Instant,
    /// Those of the measurement, which has no ids and no URIs.
    attributes: Vec<KeyValue>,
    /// Where the id of a request of ours will be.
    sent: Option<SentId>,
    is_over: bool,
}

/// How a request has failed.
struct Failure<'a> {
    kind: Cow<'static, str>,
    message: &'a str,
    /// The code of the peer's error.
    code: Option<i64>,
}

impl Failure<'_> {
    const fn of(kind: &'static str) -> Self {
        Self { kind: Cow::Borrowed(kind), message: "", code: None }
    }
}

impl<'a> From<&'a ErrorObject> for Failure<'a> {
    fn from(error: &'a ErrorObject) -> Self {
        let message = bounded(&error.message, MAX_TEXT_BYTES);
        Self { kind: error.code.to_string().into(), message, code: Some(error.code) }
    }
}

impl<'a> From<&'a CallError> for Failure<'a> {
    fn from(error: &'a CallError) -> Self {
        match error {
            CallError::Remote(error) => error.into(),
            CallError::TimedOut { .. } => Self::of("timeout"),
            CallError::Cancelled => Self::of("cancelled"),
            CallError::Closed(_) | CallError::Refused(CallRefused::Closed) => Self::of("connection_closed"),
            CallError::Lost(_) => Self::of("response_lost"),
            CallError::Refused(_) => Self::of("not_sent"),
            CallError::InvalidResponse { .. } => Self::of("invalid_response"),
            CallError::ResponseTooLarge { .. } => Self::of("response_too_large"),
            _ => Self::of("_OTHER"),
        }
    }
}

impl Operation {
    /// A request that this side sends.
    pub(super) fn sent(instruments: Arc<Instruments>, call: &Call, next: &Next) -> Self {
        let target = Target::of(&call.method, call.params.as_ref());
        let parent = Span::current().id();
        let mut operation = Self::new(instruments, Metric::ClientOperation, parent, &call.method, &target);
        propagation::adopt_current(&operation.span);
        operation.sent = Some(next.sent_id());
        if let Some(peer) = next.peer() {
            operation.measured("mcp.protocol.version", peer.profile.version.as_str().to_owned());
        }
        if let Some(origin) = next.origin() {
            let network = Network::of(origin);
            operation.travels(&network);
            if let Some(address) = network.address {
                operation.measured("server.address", address.to_owned());
            }
            if let Some(port) = network.port {
                operation.measured("server.port", i64::from(port));
            }
        }
        operation
    }

    /// A request that has arrived.
    pub(super) fn received(instruments: Arc<Instruments>, request: &Request, cx: &Context) -> Self {
        let target = Target::of(&request.method, request.params.as_ref());
        // An HTTP request may be polled in the task of another one, whose span is current then.
        let parent = Span::current().id().filter(|_| !propagation::is_http(cx));
        let mut operation = Self::new(instruments, Metric::ServerOperation, parent, &request.method, &target);
        propagation::adopt(&operation.span, request.params.as_ref(), cx);
        let id = request.id.as_str().map_or_else(|| request.id.to_string(), ToOwned::to_owned);
        operation.span.record("jsonrpc.request.id", bounded(&id, MAX_NAME_BYTES));
        if let Some(profile) = cx.profile() {
            operation.measured("mcp.protocol.version", profile.version.as_str().to_owned());
        }
        if let Some(origin) = cx.origin() {
            let network = Network::of(origin);
            operation.travels(&network);
            if let (Some(address), Some(port)) = (network.address, network.port) {
                operation.span.record("client.address", address);
                operation.span.record("client.port", i64::from(port));
            }
        }
        #[cfg(feature = "http-server")]
        if let Some(http) = cx.http() {
            if let Some(version) = http_version(http.version) {
                operation.measured("network.protocol.version", version);
            }
            let session = http.headers.get(mcpjoin_proto::http::headers::name::SESSION_ID);
            if let Some(session) = session.and_then(|session| session.to_str().ok()) {
                operation.span.record("mcp.session.id", bounded(session, MAX_NAME_BYTES));
            }
        }
        operation
    }

    fn new(
        instruments: Arc<Instruments>,
        metric: Metric,
        parent: Option<Id>,
        method: &Method,
        target: &Target<'_>,
    ) -> Self {
        let method_name = bounded(method.as_str(), MAX_NAME_BYTES);
        let name = match target.in_name() {
            Some(target) => Cow::Owned(format!("{method_name} {target}")),
            None => Cow::Borrowed(method_name),
        };
        let span = tracing::info_span!(
            target: "mcpjoin",
            parent: parent,
            "mcp",
            otel.name = &*name,
            otel.kind = metric.span_kind(),
            mcp.method.name = method_name,
            mcp.protocol.version = Empty,
            mcp.resource.uri = Empty,
            mcp.session.id = Empty,
            gen_ai.operation.name = Empty,
            gen_ai.prompt.name = Empty,
            gen_ai.tool.name = Empty,
            jsonrpc.request.id = Empty,
            rpc.response.status_code = Empty,
            error.type = Empty,
            network.transport = Empty,
            network.protocol.name = Empty,
            network.protocol.version = Empty,
            server.address = Empty,
            server.port = Empty,
            client.address = Empty,
            client.port = Empty,
        );
        // A peer may make up any number of methods.
        let measured = if method.facts().is_some() { method_name.to_owned() } else { "_OTHER".to_owned() };
        let mut operation = Self {
            span,
            instruments,
            metric,
            started: Instant::now(),
            attributes: vec![KeyValue::new("mcp.method.name", measured)],
            sent: None,
            is_over: false,
        };
        match target {
            Target::Tool(name) => {
                operation.measured("gen_ai.operation.name", "execute_tool");
                operation.measured("gen_ai.tool.name", name.to_string());
            }
            Target::Prompt(name) => operation.measured("gen_ai.prompt.name", name.to_string()),
            Target::Resource(uri) => {
                operation.span.record("mcp.resource.uri", &**uri);
            }
            Target::Nothing => {}
        }
        operation
    }

    pub(super) const fn span(&self) -> &Span {
        &self.span
    }

    /// Sets an attribute of the span and of the measurement.
    fn measured(&mut self, key: &'static str, value: impl Into<Value>) {
        let value = value.into();
        match &value {
            Value::I64(number) => self.span.record(key, *number),
            text => self.span.record(key, &*text.as_str()),
        };
        self.attributes.push(KeyValue::new(key, value));
    }

    fn travels(&mut self, network: &Network<'_>) {
        if let Some(transport) = network.transport {
            self.measured("network.transport", transport);
        }
        if let Some(protocol) = network.protocol {
            self.measured("network.protocol.name", protocol);
        }
    }

    pub(super) fn end_sent(mut self, method: &Method, outcome: &Result<Reply, CallError>) {
        match outcome {
            Ok(reply) => self.end(failed_tool(method, reply)),
            Err(error) => self.end(Some(error.into())),
        }
    }

    pub(super) fn end_received(mut self, method: &Method, response: &Result<Reply, ErrorObject>) {
        match response {
            Ok(reply) => self.end(failed_tool(method, reply)),
            Err(error) => {
                if error.code == code::INVALID_PARAMS {
                    // It may be that of no tool, and a peer may make up any number of names.
                    let is_name = |key: &str| matches!(key, "gen_ai.tool.name" | "gen_ai.prompt.name");
                    self.attributes.retain(|attribute| !is_name(attribute.key.as_str()));
                }
                self.end(Some(error.into()));
            }
        }
    }

    fn end(&mut self, failure: Option<Failure<'_>>) {
        self.is_over = true;
        if let Some(id) = self.sent.as_ref().and_then(SentId::read) {
            self.span.record("jsonrpc.request.id", id.to_string());
        }
        if let Some(Failure { kind, message, code }) = failure {
            if let Some(code) = code {
                self.measured("rpc.response.status_code", code.to_string());
            }
            self.measured("error.type", kind.into_owned());
            self.span.set_status(Status::error(message.to_owned()));
        }
        self.instruments.record(self.metric, self.started, &self.attributes);
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(Some(Failure::of("cancelled")));
        }
    }
}

/// A tool that has failed, which is no error of the protocol.
fn failed_tool(method: &Method, reply: &Reply) -> Option<Failure<'static>> {
    let is_error = |result: &Raw| result.member("isError").is_some_and(|value| value.as_str() == "true");
    let has_failed = *method == Method::CallTool
        && match reply {
            Reply::Complete(result) => is_error(result),
            Reply::Verbatim(result) => is_error(result.raw()),
            Reply::NeedInput(_) | Reply::Task(_) => false,
        };
    has_failed.then(|| Failure::of("tool_error"))
}

#[cfg(feature = "http-server")]
fn http_version(version: http::Version) -> Option<&'static str> {
    match version {
        http::Version::HTTP_10 => Some("1.0"),
        http::Version::HTTP_11 => Some("1.1"),
        http::Version::HTTP_2 => Some("2"),
        _ => None,
    }
}
