//! The chapter of what several features have in common: pages of lists, hints for those who keep results, completion,
//! log messages.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>

mod completion;
mod logging;
mod pages;

use crate::rule::Rule;

/// The rules, file by file.
pub(crate) static RULES: [&[Rule]; 3] = [&pages::RULES, &completion::RULES, &logging::RULES];
