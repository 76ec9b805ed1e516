//! Dispatches MCP requests, and has the helpers that all of them share.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::LoggingLevel;
use mcpjoin_proto::{ErrorObject, Method, Profile, Raw, Request};
use serde::Serialize;
use tokio::time::{Instant, Interval, interval_at};

use super::super::{OrchestratorError, OrchestratorErrorKind, Unreached};
use super::{Shared, prompts, resources, tools};
use mcpjoin::Handler;
use mcpjoin::connection::Context;

/// Handles the requests of every client of the bridge.
pub(super) struct Translator(pub(super) Arc<Shared>);

impl Handler for Translator {
    async fn request(&self, request: Request, cx: Context) -> Result<Reply, ErrorObject> {
        let Some(profile) = cx.profile() else {
            return Err(ErrorObject::invalid_request("the session is not open"));
        };
        let call = Call { shared: &self.0, profile, request: &request, cx: &cx };
        match request.method {
            Method::ListTools => tools::list(call).await,
            Method::CallTool => tools::call(call).await,
            Method::ListPrompts => prompts::list(call).await,
            Method::GetPrompt => prompts::get(call).await,
            Method::ListResources => resources::list(call).await,
            Method::ListResourceTemplates => resources::templates(call),
            Method::ReadResource => resources::read(call).await,
            _ => return Err(ErrorObject::method_not_found(request.method.as_str())),
        }
        .map(Reply::Complete)
    }
}

/// A request with its context.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) shared: &'a Shared,
    pub(super) profile: &'static Profile,
    pub(super) request: &'a Request,
    pub(super) cx: &'a Context,
}

impl Call<'_> {
    /// Sends a warning to the client, if its log level includes warnings.
    pub(super) fn warn(&self, text: &str) {
        let sent = self.cx.log(LoggingLevel::Warning, Some("orchestra"), Raw::string(text));
        if let Err(refused) = sent {
            tracing::debug!(target: "mcpjoin", %refused, text, "a warning was not sent");
        }
    }

    pub(super) fn parameter(&self, name: &'static str) -> Result<Raw, ErrorObject> {
        let found = self.request.params.as_ref().and_then(|params| params.raw().member(name));
        found.ok_or_else(|| ErrorObject::invalid_params(format!("missing required parameter: {name}")))
    }

    /// A required parameter that must be a string and not empty.
    pub(super) fn text(&self, name: &'static str) -> Result<String, ErrorObject> {
        let value = self.parameter(name)?;
        match value.to_string_value() {
            Some(text) if text.is_empty() => {
                Err(ErrorObject::invalid_params(format!("missing required parameter: {name}")))
            }
            Some(text) => Ok(text.into_owned()),
            None => Err(ErrorObject::invalid_params(format!("`{name}` is not a string"))),
        }
    }
}

/// Converts the error of an exchange to a JSON-RPC error.
pub(in super::super) fn exchange_error(exchange: &str, error: &OrchestratorError) -> ErrorObject {
    let message = format!("orchestrator {exchange} failed: {error}");
    match &error.kind {
        // A request that exceeds the frame limit is the client's error.
        OrchestratorErrorKind::Request(_) => ErrorObject::invalid_params(message),
        OrchestratorErrorKind::Remote { code, .. } if !code.is_empty() => {
            with_member(ErrorObject::internal(message), "errorCode", code)
        }
        OrchestratorErrorKind::Unconnected { .. } => Unreached::add_to(ErrorObject::internal(message), error),
        _ => ErrorObject::internal(message),
    }
}

/// Adds `data` with this member to an error.
pub(super) fn with_member(error: ErrorObject, name: &str, value: &str) -> ErrorObject {
    match Raw::from_value(&BTreeMap::from([(name, value)])) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}

/// Serializes a result.
pub(in super::super) fn to_raw(value: &impl Serialize) -> Result<Raw, ErrorObject> {
    Raw::from_value(value).map_err(|error| ErrorObject::internal(error.to_string()))
}

/// The progress message while nothing else is known.
const WORKING_MESSAGE: &str = "the orchestrator is working on it";

/// Reports the progress of one call. Orchestra reports none, so the progress is the elapsed time in seconds, with the
/// text of a streamed result as message.
pub(super) struct Progress<'a> {
    call: Call<'a>,
    started: Instant,
    interval: Interval,
    last: f64,
}

impl<'a> Progress<'a> {
    pub(super) fn new(call: Call<'a>) -> Self {
        let started = Instant::now();
        let heartbeat = call.shared.heartbeat.max(Duration::from_millis(1));
        Self { call, started, interval: interval_at(started + heartbeat, heartbeat), last: 0.0 }
    }

    /// Awaits a future and reports progress at each interval.
    pub(super) async fn report_while<T>(&mut self, awaited: impl Future<Output = T>) -> T {
        let mut awaited = pin!(awaited);
        loop {
            tokio::select! {
                biased;
                outcome = &mut awaited => return outcome,
                _ = self.interval.tick() => self.send(WORKING_MESSAGE),
            }
        }
    }

    pub(super) fn send(&mut self, message: &str) {
        // Progress must increase, also if two reports coincide.
        self.last = self.started.elapsed().as_secs_f64().max(self.last.next_up());
        // Nothing is sent if the client did not request progress or has cancelled.
        let _ = self.call.cx.progress(self.last, None, Some(message));
    }
}
