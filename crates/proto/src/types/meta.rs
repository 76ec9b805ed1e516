//! `_meta`: what is said beside a request, a result, a notification or a thing inside them.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic#meta>. Used by the session, which puts its
//! own keys in by splicing text, and by everyone who reads or adds a key. Never drops a key that it does not know.

use alloc::string::String;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::capability::ClientCapabilities;
use super::lifecycle::Implementation;
use super::logging::LoggingLevel;
use super::members::Members;
use super::task::RelatedTask;
use crate::{ProgressToken, Raw, RequestId, Version};

/// The keys that the specification gives a meaning.
pub mod key {
    /// Which revision a request speaks; in every request from 2026-07-28 on.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// What the client can do; in every request from 2026-07-28 on.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Who the client is, from 2026-07-28 on.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// From which level on a request wants log messages, from 2026-07-28 on.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Who the server is; in every result from 2026-07-28 on.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// Which `subscriptions/listen` a notification belongs to, from 2026-07-28 on.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// Which task a message belongs to, in 2025-11-25.
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// That the structured result of a tool is a value inside an object, as its member `result`, because the revision wants
    /// an object: `true`. This library's own, and no word of the specification.
    pub const WRAPPED_RESULT: &str = "io.github.mcpjoin/wrapped-result";
    /// Under which name a request's progress is to be reported.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// The place in a trace ([W3C Trace Context](https://www.w3.org/TR/trace-context/)).
    pub const TRACEPARENT: &str = "traceparent";
    /// What the systems on the way add to the trace.
    pub const TRACESTATE: &str = "tracestate";
    /// What the application gives along ([W3C Baggage](https://www.w3.org/TR/baggage/)).
    pub const BAGGAGE: &str = "baggage";
}

/// The keys of a `_meta` object with their values, all of them, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, Deserialize)]
#[serde(transparent)]
pub struct Meta(Members<Raw>);

impl Meta {
    /// Without any key.
    #[must_use]
    pub const fn new() -> Self {
        Self(Members::new())
    }

    /// The value of a key.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<&Raw> {
        self.0.get(key)
    }

    /// The same with that value; it takes the place of one with the same key.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: Raw) -> Self {
        self.insert(key, value);
        self
    }

    /// Puts a value in; the one that had the key is given back.
    pub fn insert(&mut self, key: impl Into<String>, value: Raw) -> Option<Raw> {
        self.0.insert(key, value)
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &str) -> Option<Raw> {
        self.0.remove(key)
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Raw)> {
        self.0.iter()
    }

    /// The value of a key, when it has the right shape.
    fn read<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.member(key)?.decode().ok()
    }

    /// Which revision a request speaks.
    #[must_use]
    pub fn protocol_version(&self) -> Option<Version> {
        self.read(key::PROTOCOL_VERSION)
    }

    /// What the client can do.
    #[must_use]
    pub fn client_capabilities(&self) -> Option<ClientCapabilities> {
        self.read(key::CLIENT_CAPABILITIES)
    }

    /// Who the client is. `None` also when it does not say so in the right shape: it is for display only.
    #[must_use]
    pub fn client_info(&self) -> Option<Implementation> {
        self.read(key::CLIENT_INFO)
    }

    /// From which level on log messages are wanted.
    #[must_use]
    pub fn log_level(&self) -> Option<LoggingLevel> {
        self.read(key::LOG_LEVEL)
    }

    /// Who the server is. `None` also when it does not say so in the right shape: it is for display only.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.read(key::SERVER_INFO)
    }

    /// Which subscription a notification or the end of a stream belongs to.
    #[must_use]
    pub fn subscription_id(&self) -> Option<RequestId> {
        self.read(key::SUBSCRIPTION_ID)
    }

    /// Under which name progress is to be reported.
    #[must_use]
    pub fn progress_token(&self) -> Option<ProgressToken> {
        self.read(key::PROGRESS_TOKEN)
    }

    /// Which task a message belongs to.
    #[must_use]
    pub fn related_task(&self) -> Option<RelatedTask> {
        self.read(key::RELATED_TASK)
    }

    /// Whether a key has the form that the specification asks for: an optional prefix of labels joined by dots
    /// with a slash behind it (a label starts with a letter, ends with a letter or a digit, and has hyphens at
    /// most in between), then a name that starts and ends with a letter or a digit, has `-`, `_` and `.` at
    /// most in between, and may be empty.
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
    /// Parameters of a request that says nothing but its `_meta`: `ping`, `server/discover`.
    #[derive(Default)]
    RequestParams [request] {
        ---
    }
}

record! {
    /// Parameters of a notification that says nothing but its `_meta`: `notifications/initialized` and the
    /// list changes.
    #[derive(Default)]
    NotificationParams [notification] {
        ---
    }
}

record! {
    /// A result that says nothing but that it is one.
    #[derive(Default)]
    EmptyResult [result] {
        ---
    }
}
