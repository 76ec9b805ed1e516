//! Which request becomes what.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::LoggingLevel;
use mcpjoin_proto::{ErrorObject, Method, Profile, Raw, Request};
use serde::Serialize;
use tokio::time::{Instant, Interval, interval_at};

use super::super::{OrchestratorError, OrchestratorErrorKind};
use super::{Shared, prompts, resources, tools};
use mcpjoin::Handler;
use mcpjoin::connection::Context;

/// Answers the requests of every client of the bridge.
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

/// A request, and what is needed to answer it.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) shared: &'a Shared,
    pub(super) profile: &'static Profile,
    pub(super) request: &'a Request,
    pub(super) cx: &'a Context,
}

impl Call<'_> {
    /// Tells the client, if it wants to hear of it.
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

    /// A parameter that must be there, and text.
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

/// The error of an exchange, as the client is told.
pub(in super::super) fn exchange_error(exchange: &str, error: &OrchestratorError) -> ErrorObject {
    let message = format!("orchestrator {exchange} failed: {error}");
    match &error.kind {
        // What does not fit into a frame is wrong with the request.
        OrchestratorErrorKind::Request(_) => ErrorObject::invalid_params(message),
        OrchestratorErrorKind::Remote { code, .. } if !code.is_empty() => {
            with_member(ErrorObject::internal(message), "errorCode", code)
        }
        _ => ErrorObject::internal(message),
    }
}

/// The error with this member as its `data`.
pub(super) fn with_member(error: ErrorObject, name: &str, value: &str) -> ErrorObject {
    match Raw::from_value(&BTreeMap::from([(name, value)])) {
        Ok(data) => error.with_data(data),
        Err(_) => error,
    }
}

/// A result as JSON.
pub(in super::super) fn to_raw(value: &impl Serialize) -> Result<Raw, ErrorObject> {
    Raw::from_value(value).map_err(|error| ErrorObject::internal(error.to_string()))
}

/// What is told while nothing else is known.
const WORKING_MESSAGE: &str = "the orchestrator is working on it";

/// The progress of one call, in seconds.
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

    /// Waits for that, and says now and then that it still does.
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
        // It has to grow, also when two things come at once.
        self.last = self.started.elapsed().as_secs_f64().max(self.last.next_up());
        // Not sent when nobody asked for it, or when nobody waits any more.
        let _ = self.call.cx.progress(self.last, None, Some(message));
    }
}
