//! What the host answers when it has no answer: Orchestra's error envelope.

use mcpjoin_proto::session::{CallError, CallRefused};
use mcpjoin_proto::{ErrorObject, Raw};
use serde::Serialize;

use crate::value::{Numbers, Struct};
use crate::wire::ToolResponse;
use mcpjoin::client::ClientError;

/// The words of the envelope. Those that Orchestra's own programs have are theirs.
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

/// Why there is no answer.
#[derive(Debug)]
pub(super) struct RequestError {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) result: Option<Struct>,
}

/// A JSON-RPC error as a member of `result`, so that its code and data are kept.
#[derive(Serialize)]
struct ErrorMember<'a> {
    error: &'a ErrorObject,
}

impl RequestError {
    pub(super) const fn new(code: &'static str, message: String) -> Self {
        Self { code, message, result: None }
    }

    /// The original's words.
    pub(super) fn unknown_request() -> Self {
        Self::new(code::UNKNOWN_REQUEST, "unrecognized request type".to_owned())
    }

    pub(super) fn with_result(mut self, result: Option<Struct>) -> Self {
        self.result = result;
        self
    }

    /// What a server did not answer, or answered with an error.
    pub(super) fn of(server: &str, error: &ClientError) -> Self {
        if let Some(remote) = error.remote() {
            // -32602 is the one code of which Orchestra has a word of its own.
            let code = match remote.code {
                mcpjoin_proto::code::INVALID_PARAMS => code::VALIDATION,
                _ => code::HANDLER,
            };
            let json = Raw::from_value(&ErrorMember { error: remote }).ok();
            // What it says of numbers that Orchestra does not have is no reason to say nothing of it.
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
            ClientError::Call(CallError::BadReply { .. } | CallError::ReplyTooLarge { .. })
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
