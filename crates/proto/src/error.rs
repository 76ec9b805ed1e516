//! The error object of JSON-RPC and every code that a revision of the specification gives a meaning.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes>

use alloc::string::String;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::Raw;

/// The codes by name. A code that is not here is a peer's own and carries no meaning for us.
pub mod code {
    /// The bytes are not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// JSON, but not a message of the protocol, or not one that may be sent now.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method, or one that was not offered.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit the method. Also unknown tools, prompts and cursors, and from 2026-07-28 on
    /// unknown resources.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The receiver failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Resource not found, up to 2025-11-25. Never sent from 2026-07-28 on, still understood.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// The request can go on only after the user has visited a URL: 2025-11-25 alone.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// 2026-07-28: an HTTP header and the body disagree.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// 2026-07-28: the request needs a client capability that it did not declare.
    pub const MISSING_REQUIRED_CLIENT_CAPABILITY: i64 = -32021;
    /// 2026-07-28: the receiver does not speak the version of the request.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

/// The `error` member of a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// What kind of error it is; see [`code`].
    pub code: i64,
    /// One sentence for a person.
    pub message: String,
    /// What the sender adds, in a shape of its own. `null` is `Some`, an absent member is `None`.
    #[serde(
        default,
        deserialize_with = "crate::types::record::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<Raw>,
}

impl ErrorObject {
    /// An error with a code and a message, without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with `data` beside it.
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

    /// [`code::METHOD_NOT_FOUND`] for the method of that name.
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
