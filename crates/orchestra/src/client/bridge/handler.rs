//! Which request becomes what.

use std::sync::Arc;

use mcpjoin_proto::session::Reply;
use mcpjoin_proto::types::LoggingLevel;
use mcpjoin_proto::{ErrorObject, Method, Profile, Raw, Request};

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
        let asked = Asked { shared: &self.0, profile, request: &request, cx: &cx };
        match request.method {
            Method::ListTools => tools::list(asked).await,
            Method::CallTool => tools::call(asked).await,
            Method::ListPrompts => prompts::list(asked).await,
            Method::GetPrompt => prompts::fill_in(asked).await,
            Method::ListResources => resources::list(asked).await,
            Method::ListResourceTemplates => resources::templates(asked),
            Method::ReadResource => resources::read(asked).await,
            _ => return Err(ErrorObject::method_not_found(request.method.as_str())),
        }
        .map(Reply::Complete)
    }
}

/// A request, and what is needed to answer it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) shared: &'a Shared,
    pub(super) profile: &'static Profile,
    pub(super) request: &'a Request,
    pub(super) cx: &'a Context,
}

impl Asked<'_> {
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
pub(in super::super) fn failed(exchange: &str, error: &OrchestratorError) -> ErrorObject {
    let message = format!("orchestrator {exchange} failed: {error}");
    match &error.kind {
        // What does not fit into a frame is wrong with the request.
        OrchestratorErrorKind::Request(_) => ErrorObject::invalid_params(message),
        OrchestratorErrorKind::Remote { code, .. } if !code.is_empty() => {
            let data = Raw::from_value(&std::collections::BTreeMap::from([("errorCode", code)]));
            let error = ErrorObject::internal(message);
            match data {
                Ok(data) => error.with_data(data),
                Err(_) => error,
            }
        }
        _ => ErrorObject::internal(message),
    }
}
