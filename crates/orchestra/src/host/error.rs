//! Errors of the host, in Orchestra's error envelope.

use mcpjoin_proto::session::{CallError, CallRefused};
use mcpjoin_proto::{ErrorObject, Raw};
use serde::Serialize;

use crate::value::{Numbers, Struct};
use crate::wire::ToolResponse;
use mcpjoin::client::ClientError;

/// The error codes. Those that Orchestra's own programs use have the same text.
pub(super) mod code {
    pub(crate) const TOOL_NOT_FOUND: &str = "tool_not_found";
    pub(crate) const TOOL_ERROR: &str = "tool_error";
    pub(crate) const VALIDATION: &str = "validation_error";
    pub(crate) const HANDLER: &str = "handler_error";
    pub(crate) const TIMEOUT: &str = "timeout";
    pub(crate) const ROUTING: &str = "routing_error";
    pub(crate) const INVALID_RESPONSE: &str = "invalid_response";
    pub(crate) const NOT_FOUND: &str = "not_found";
    pub(crate) const STORAGE: &str = "storage_error";
    pub(crate) const UNKNOWN_REQUEST: &str = "unknown_request";
}

/// An error response.
#[derive(Debug)]
pub(super) struct RequestError {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) result: Option<Struct>,
}

/// A JSON-RPC error as a member of `result`, which keeps its code and data.
#[derive(Serialize)]
struct ErrorMember<'a> {
    error: &'a ErrorObject,
}

impl RequestError {
    pub(super) const fn new(code: &'static str, message: String) -> Self {
        Self { code, message, result: None }
    }

    /// The text is that of Orchestra's own orchestrator.
    pub(super) fn unknown_request() -> Self {
        Self::new(code::UNKNOWN_REQUEST, "unrecognized request type".to_owned())
    }

    pub(super) fn with_result(mut self, result: Option<Struct>) -> Self {
        self.result = result;
        self
    }

    /// Converts the error of an MCP call.
    pub(super) fn of(server: &str, error: &ClientError) -> Self {
        if let Some(remote) = error.remote() {
            // -32602 is the only code that has an Orchestra counterpart.
            let code = match remote.code {
                mcpjoin_proto::code::INVALID_PARAMS => code::VALIDATION,
                _ => code::HANDLER,
            };
            let json = Raw::from_value(&ErrorMember { error: remote }).ok();
            // Numbers that Orchestra cannot represent are rounded here rather than losing the data.
            let result = json.and_then(|json| Struct::from_json(&json, Numbers::Lossy).ok());
            return Self::new(code, remote.message.clone()).with_result(result);
        }
        let (code, what) = match error {
            ClientError::Call(CallError::TimedOut { .. }) => (code::TIMEOUT, ""),
            ClientError::Call(CallError::Closed(_) | CallError::Lost(_)) => {
                (code::ROUTING, " (whether it was done all the same is not known)")
            }
            ClientError::Call(CallError::Refused(CallRefused::TooLarge { .. })) => (code::VALIDATION, ""),
            ClientError::Call(CallError::Refused(_)) => (code::ROUTING, ""),
            ClientError::Call(CallError::InvalidResponse { .. } | CallError::ResponseTooLarge { .. })
            | ClientError::BadResult { .. } => (code::INVALID_RESPONSE, ""),
            _ => (code::HANDLER, ""),
        };
        Self::new(code, format!("the MCP server `{server}`: {error}{what}"))
    }

    pub(super) fn into_response(self) -> ToolResponse {
        ToolResponse {
            success: false,
            result: self.result,
            error_code: self.code.to_owned(),
            error_message: self.message,
        }
    }
}
