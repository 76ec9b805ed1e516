//! `_meta`: metadata of a request, a result, a notification or an object inside them.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>. Used by the session, which splices in its own
//! keys, and by every reader or writer of a key. Unknown keys are kept.

use alloc::string::String;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::capability::ClientCapabilities;
use super::lifecycle::Implementation;
use super::logging::LoggingLevel;
use super::members::Members;
use super::task::RelatedTask;
use crate::{ProgressToken, Raw, RequestId, Version};

/// The keys that the specification defines.
pub mod key {
    /// The revision of a request; in every request since 2026-07-28.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// The capabilities of the client; in every request since 2026-07-28.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// The name and version of the client; since 2026-07-28.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// The minimum level of log messages for a request; since 2026-07-28.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// The name and version of the server; in every result since 2026-07-28.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// The `subscriptions/listen` request that a notification belongs to; since 2026-07-28.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// The task that a message belongs to; 2025-11-25 alone.
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// Marks a structured result that is wrapped in an object, as its member `result`, because the revision requires an
    /// object. The value is `true`. Defined by this library and not by the specification.
    pub const WRAPPED_RESULT: &str = "io.github.mcpjoin/wrapped-result";
    /// The token for progress notifications of a request.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// The position in a trace ([W3C Trace Context](https://www.w3.org/TR/trace-context/)).
    pub const TRACEPARENT: &str = "traceparent";
    /// Vendor data of a trace.
    pub const TRACESTATE: &str = "tracestate";
    /// Application data of a trace ([W3C Baggage](https://www.w3.org/TR/baggage/)).
    pub const BAGGAGE: &str = "baggage";
}

/// All keys and values of a `_meta` object, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(transparent)]
pub struct Meta(Members<Raw>);

impl Meta {
    /// An empty object.
    #[must_use]
    pub const fn new() -> Self {
        Self(Members::new())
    }

    /// The value of a key.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<&Raw> {
        self.0.get(key)
    }

    /// Inserts a value and returns the object. Replaces a value with the same key.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: Raw) -> Self {
        self.insert(key, value);
        self
    }

    /// Inserts a value and returns the one that it replaces.
    pub fn insert(&mut self, key: impl Into<String>, value: Raw) -> Option<Raw> {
        self.0.insert(key, value)
    }

    /// Removes a value.
    pub fn remove(&mut self, key: &str) -> Option<Raw> {
        self.0.remove(key)
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Raw)> {
        self.0.iter()
    }

    /// The decoded value of a key; `None` when it is invalid.
    fn read<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.member(key)?.decode().ok()
    }

    /// The revision of a request.
    #[must_use]
    pub fn protocol_version(&self) -> Option<Version> {
        self.read(key::PROTOCOL_VERSION)
    }

    /// The capabilities of the client.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<ClientCapabilities> {
        self.read(key::CLIENT_CAPABILITIES)
    }

    /// The name and version of the client. For display, so an invalid value is `None`.
    #[must_use]
    pub fn client_info(&self) -> Option<Implementation> {
        self.read(key::CLIENT_INFO)
    }

    /// The minimum level of log messages.
    #[must_use]
    pub fn log_level(&self) -> Option<LoggingLevel> {
        self.read(key::LOG_LEVEL)
    }

    /// The name and version of the server. For display, so an invalid value is `None`.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.read(key::SERVER_INFO)
    }

    /// The subscription that a notification or the end of a stream belongs to.
    #[must_use]
    pub fn subscription_id(&self) -> Option<RequestId> {
        self.read(key::SUBSCRIPTION_ID)
    }

    /// The token for progress notifications.
    #[must_use]
    pub fn progress_token(&self) -> Option<ProgressToken> {
        self.read(key::PROGRESS_TOKEN)
    }

    /// The task that a message belongs to.
    #[must_use]
    pub fn related_task(&self) -> Option<RelatedTask> {
        self.read(key::RELATED_TASK)
    }

    /// Whether a key has the form that the specification requires: an optional prefix with a slash, and a name. The
    /// prefix consists of labels joined by dots; a label starts with a letter, ends with a letter or digit, and may
    /// contain hyphens. The name starts and ends with a letter or digit, may contain `-`, `_` and `.`, and may be
    /// empty.
    #[must_use]
    pub fn key_is_valid(key: &str) -> bool {
        let (prefix, name) = match key.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, key),
        };
        prefix.is_none_or(|prefix| prefix.split('.').all(label_is_valid)) && name_is_valid(name)
    }
}

fn label_is_valid(label: &str) -> bool {
    label.starts_with(|c: char| c.is_ascii_alphabetic())
        && label.ends_with(|c: char| c.is_ascii_alphanumeric())
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn name_is_valid(name: &str) -> bool {
    name.is_empty()
        || name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.ends_with(|c: char| c.is_ascii_alphanumeric())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

impl<N: Into<String>> FromIterator<(N, Raw)> for Meta {
    fn from_iter<I: IntoIterator<Item = (N, Raw)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

record! {
    /// Parameters with `_meta` only: `ping`, `server/discover`.
    #[derive(Default)]
    RequestParams [request] {
        ---
    }
}

record! {
    /// Parameters with `_meta` only: `notifications/initialized` and the list changes.
    #[derive(Default)]
    NotificationParams [notification] {
        ---
    }
}

record! {
    /// A result with `_meta` only.
    #[derive(Default)]
    EmptyResult [result] {
        ---
    }
}
