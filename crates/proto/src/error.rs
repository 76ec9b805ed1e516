//! The error object of JSON-RPC, and the error codes of all revisions.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes>

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::Raw;

/// The defined codes. Any other code is specific to a peer.
pub mod code {
    /// The bytes are not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// JSON, but not a message of the protocol, or not allowed now.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist or is not offered.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params do not match the method. Also unknown tools, prompts and cursors, and since 2026-07-28 unknown
    /// resources.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The receiver failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Resource not found, until 2025-11-25. Not sent since 2026-07-28, but still understood.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The user must visit a URL before the request can continue: 2025-11-25 alone.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// 2026-07-28: an HTTP header does not match the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// 2026-07-28: the request needs an undeclared client capability.
    pub const MISSING_REQUIRED_CLIENT_CAPABILITY: i64 = -32021;
    /// 2026-07-28: the receiver does not support the version of the request.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

/// The `error` member of a response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// The kind of error; see [`code`].
    pub code: i64,
    /// A description for a person.
    pub message: String,
    /// Additional data of the sender, in any format. `null` is `Some`, an absent member is `None`.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub data: Option<Raw>,
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Adds `data`.
    #[must_use]
    pub fn with_data(mut self, data: Raw) -> Self {
        self.data = Some(data);
        self
    }

    /// [`code::INVALID_PARAMS`] with a message.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// [`code::INVALID_REQUEST`] with a message.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    /// [`code::INTERNAL_ERROR`] with a message.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(code::INTERNAL_ERROR, message)
    }

    /// [`code::METHOD_NOT_FOUND`] for a method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(code::METHOD_NOT_FOUND, alloc::format!("method not found: {method}"))
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JSON-RPC error {}: {}", self.code, self.message)
    }
}

impl core::error::Error for ErrorObject {}

/// Reads any value, so that `null` differs from an absent member.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Raw>, D::Error> {
    Raw::deserialize(deserializer).map(Some)
}
