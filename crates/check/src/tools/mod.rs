//! The chapter of tools: how they are described, and what calling one brings.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools>

mod calls;
mod list;
mod schemas;

use crate::rule::Rule;

/// The rules, file by file.
pub(crate) static RULES: [&[Rule]; 3] = [&list::RULES, &schemas::RULES, &calls::RULES];
