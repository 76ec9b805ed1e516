//! Log messages of a server.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging>. Used by the session, which
//! sends only the levels that the client requested. Deprecated in 2026-07-28.

use alloc::borrow::Cow;
use alloc::string::String;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Raw;

/// The severity of a log message, in ascending order: the levels of [RFC
/// 5424](https://www.rfc-editor.org/rfc/rfc5424#section-6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoggingLevel {
    /// Debugging information.
    Debug,
    /// Normal operation.
    Info,
    /// Normal but significant.
    Notice,
    /// A problem may occur.
    Warning,
    /// A problem has occurred.
    Error,
    /// A component does not work.
    Critical,
    /// Immediate action is required.
    Alert,
    /// The system does not work.
    Emergency,
}

impl LoggingLevel {
    /// All levels in ascending order.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The level with this name; `None` for any other name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The name of the level.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }
}

impl Serialize for LoggingLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for LoggingLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&name).ok_or_else(|| de::Error::custom("expected one of the eight levels of RFC 5424"))
    }
}

record! {
    /// Parameters of `logging/setLevel`, until 2025-11-25.
    SetLevelParams [request] {
        /// The minimum level of the messages to send.
        level: LoggingLevel,
        ---
    }
}

record! {
    /// Parameters of `notifications/message`.
    LogMessageParams [notification] {
        /// The severity.
        level: LoggingLevel,
        /// The message: any JSON value.
        data: Raw,
        ---
        /// The component of the server that logs.
        logger: String => with_logger,
    }
}
