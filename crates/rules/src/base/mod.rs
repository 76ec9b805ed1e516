//! The chapter of the base protocol: JSON-RPC 2.0 as the specification narrows it.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic#messages>

pub(crate) mod errors;
pub(crate) mod messages;
pub(crate) mod responses;

pub(crate) use errors::{code_of, refused, refused_with};
pub(crate) use responses::{goes_on, is_sent_again, silence};

use crate::rule::Source;

/// The paragraph that demands JSON-RPC 2.0.
pub(crate) const MESSAGES: &[Source] = sources![
    FIRST Must "basic/messages",
    SINCE_SECOND Must "basic#messages",
];

/// The paragraph on requests.
pub(crate) const REQUESTS: &[Source] = sources![
    FIRST Must "basic/messages#requests",
    SINCE_SECOND Must "basic#requests",
];

/// The paragraphs on results.
const RESULTS: &[Source] = sources![
    FIRST Must "basic/messages#responses",
    SECOND_AND_THIRD Must "basic#responses",
    SINCE_FOURTH Must "basic#result-responses",
];

/// The paragraphs on errors.
const ERRORS: &[Source] = sources![
    FIRST Must "basic/messages#responses",
    SECOND_AND_THIRD Must "basic#responses",
    SINCE_FOURTH Must "basic#error-responses",
];

/// The paragraphs on responses of both kinds.
const RESPONSES: &[Source] = sources![
    FIRST Must "basic/messages#responses",
    SINCE_SECOND Must "basic#responses",
];
