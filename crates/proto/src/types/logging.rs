//! Log messages from a server.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging>. Used by the session, which
//! passes only what was asked for. Deprecated in 2026-07-28.

use alloc::borrow::Cow;
use alloc::string::String;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Raw;

/// How serious a log message is, from the least to the most; the levels of
/// [RFC 5424](https://www.rfc-editor.org/rfc/rfc5424#section-6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoggingLevel {
    /// For whoever looks for a fault.
    Debug,
    /// All is well.
    Info,
    /// All is well, but something out of the ordinary has happened.
    Notice,
    /// Something may go wrong.
    Warning,
    /// Something has gone wrong.
    Error,
    /// A part does not work.
    Critical,
    /// Somebody has to do something at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LoggingLevel {
    /// All levels, from the least serious to the most.
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

    /// The level of that name; `None` for another word.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// The name as it stands on the wire.
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
        /// The least serious level that the client wants to hear of.
        level: LoggingLevel,
        ---
    }
}

record! {
    /// Parameters of `notifications/message`.
    LogMessageParams [notification] {
        /// How serious it is.
        level: LoggingLevel,
        /// What there is to say: any value.
        data: Raw,
        ---
        /// Which part of the server says it.
        logger: String => with_logger,
    }
}
