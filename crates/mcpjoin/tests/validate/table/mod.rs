//! The faults, a file for each chapter of the book.

mod base;
mod http;
mod http_modern;
mod http_sse;
mod lifecycle;
mod modern;
mod stdio;

use super::fault::{Over, Row};

/// Every fault.
pub(super) fn rows() -> Vec<Row> {
    let files = [
        base::rows(),
        lifecycle::rows(),
        modern::rows(),
        stdio::rows(),
        http::rows(),
        http_modern::rows(),
        http_sse::rows(),
    ];
    files.into_iter().flatten().collect()
}

/// Where a rule has no fault in the table, and why.
pub(super) const NONE: &[(&str, Over, &str)] = &[
    (
        "notification-not-answered",
        Over::Http,
        "what a notification is answered with is its response, of which notification-accepted judges",
    ),
    ("silent-before-initialize", Over::Http, "nothing can come before something was asked"),
    (
        "sse-endpoint-here",
        Over::Sse,
        "a look ends there, with this as its error: see outcomes::an_endpoint_elsewhere_is_not_posted_to",
    ),
    ("ends-with-its-input", Over::Stdio, "a process of its own: crates/cli/tests/runner/validate.rs"),
    ("ends-in-order", Over::Stdio, "a process of its own: crates/cli/tests/runner/validate.rs"),
];
