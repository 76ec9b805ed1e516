//! The chapter of what goes on beside a request and its answer: progress, cancellation, streams of changes, and what a
//! server asks of its client.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns>

mod cancellation;
mod elicitation;
mod input;
mod progress;
mod sampling;
mod subscriptions;
mod task_life;
mod tasks;

use crate::rule::Rule;

/// The rules, file by file.
pub(crate) static RULES: [&[Rule]; 8] = [
    &progress::RULES,
    &cancellation::RULES,
    &subscriptions::RULES,
    &input::RULES,
    &elicitation::RULES,
    &sampling::RULES,
    &tasks::RULES,
    &task_life::RULES,
];
