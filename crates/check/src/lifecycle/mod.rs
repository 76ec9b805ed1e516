//! The chapter of the lifecycle: how the two sides agree on a version and on what each may use, in both eras.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>

mod capabilities;
mod initialize;
mod modern;
mod negotiation;

use crate::rule::Rule;

/// The rules, file by file.
pub(crate) static RULES: [&[Rule]; 4] =
    [&initialize::RULES, &negotiation::RULES, &capabilities::RULES, &modern::RULES];
