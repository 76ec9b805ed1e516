//! Progress of a request.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress>. Used by the session, which
//! requires growing values.

use alloc::string::String;

use crate::ProgressToken;

record! {
    /// Parameters of `notifications/progress`.
    ProgressParams [notification] {
        /// The token of the request.
        progress_token: ProgressToken,
        /// The progress so far. Each value is larger than the last, even without a known total.
        progress: f64 | number,
        ---
        /// The total, in the same unit.
        total: f64 | number => with_total,
        /// The current activity, for a person; since 2025-03-26.
        message: String => with_message,
    }
}

impl ProgressParams {
    /// Sets or removes the total and the message.
    #[must_use]
    pub fn with_total_and_message(mut self, total: Option<f64>, message: Option<String>) -> Self {
        self.total = total;
        self.message = message;
        self
    }
}
