//! The chapter of the base protocol: JSON-RPC 2.0 as the specification narrows it.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic#messages>

mod answers;
mod errors;
mod input;
mod messages;

pub(crate) use answers::{goes_on, is_sent_again, silence};
pub(crate) use errors::{code_of, refused, refused_with};

use crate::revisions::Revisions;
use crate::rule::Level::Must;
use crate::rule::{Rule, Source};

/// The rules, file by file.
pub(crate) static RULES: [&[Rule]; 4] = [&messages::RULES, &answers::RULES, &errors::RULES, &input::RULES];

/// The paragraph that demands JSON-RPC 2.0.
pub(crate) const MESSAGES: &[Source] = &[
    Source::new(Revisions::FIRST, Must, "basic/messages"),
    Source::new(Revisions::SINCE_SECOND, Must, "basic#messages"),
];

/// The paragraph on requests.
pub(crate) const REQUESTS: &[Source] = &[
    Source::new(Revisions::FIRST, Must, "basic/messages#requests"),
    Source::new(Revisions::SINCE_SECOND, Must, "basic#requests"),
];

/// The paragraphs on results.
const RESULTS: &[Source] = &[
    Source::new(Revisions::FIRST, Must, "basic/messages#responses"),
    Source::new(Revisions::SECOND_AND_THIRD, Must, "basic#responses"),
    Source::new(Revisions::SINCE_FOURTH, Must, "basic#result-responses"),
];

/// The paragraphs on errors.
const ERRORS: &[Source] = &[
    Source::new(Revisions::FIRST, Must, "basic/messages#responses"),
    Source::new(Revisions::SECOND_AND_THIRD, Must, "basic#responses"),
    Source::new(Revisions::SINCE_FOURTH, Must, "basic#error-responses"),
];

/// The paragraphs on responses of both kinds.
const RESPONSES: &[Source] = &[
    Source::new(Revisions::FIRST, Must, "basic/messages#responses"),
    Source::new(Revisions::SINCE_SECOND, Must, "basic#responses"),
];
