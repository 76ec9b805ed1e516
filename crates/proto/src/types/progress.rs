//! How far a request is.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress>. Used by the session, which
//! holds senders to growing values.

use alloc::string::String;

use super::number;
use crate::ProgressToken;

record! {
    /// Parameters of `notifications/progress`.
    ProgressParams [notification] {
        /// The name that the request gave for this.
        progress_token: ProgressToken,
        /// How far it is; more each time, even when the total is not known.
        #[serde(serialize_with = "number::write")]
        progress: f64,
        ---
        /// How far it has to go, in the same unit.
        #[serde(serialize_with = "number::write_option")]
        total: f64 => with_total,
        /// What is being done, for a person; since 2025-03-26.
        message: String => with_message,
    }
}

impl ProgressParams {
    /// The same with or without a total and a message.
    #[must_use]
    pub fn with_total_and_message(mut self, total: Option<f64>, message: Option<String>) -> Self {
        self.total = total;
        self.message = message;
        self
    }
}
