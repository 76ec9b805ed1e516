//! Which tools of a list can be used.
//!
//! Over HTTP a modern client repeats arguments in headers, where a tool's schema marks them. A tool whose marks are
//! invalid cannot be called so: it is left out of every list, and that is told.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#http-headers>

use mcpjoin_proto::http::params::header_marks;
use mcpjoin_proto::session::Violation;
use mcpjoin_proto::types::Tool;

use crate::connection::OnViolation;

/// Leaves tools out.
pub(super) struct Catalogue {
    /// Marks matter here.
    pub(super) marks: bool,
    pub(super) on_violation: Option<OnViolation>,
}

impl Catalogue {
    /// Keeps the tools that can be called.
    pub(super) fn retain(&self, tools: &mut Vec<Tool>) {
        if !self.marks {
            return;
        }
        tools.retain(|tool| {
            let Err(problem) = header_marks(&tool.input_schema) else { return true };
            let violation =
                Violation::HeaderMark { tool: tool.name.as_str().into(), problem: problem.into() };
            tracing::warn!(target: "mcpjoin", %violation, "the peer broke a rule");
            if let Some(on_violation) = &self.on_violation {
                on_violation(&violation);
            }
            false
        });
    }
}
