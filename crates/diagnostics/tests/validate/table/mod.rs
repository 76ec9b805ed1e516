//! The table of faults, with a file for each chapter of the rules. `faults.rs` runs it.

mod base;
mod content;
mod http;
mod http_modern;
mod http_sse;
mod lifecycle;
mod lists;
mod modern;
mod patterns;
mod stdio;
mod utilities;

use std::collections::BTreeSet;

use super::fault::{HTTP, Look, Over, Row, STDIO};

/// Every fault.
pub(super) fn rows() -> Vec<Row> {
    [protocol(), features(), http()].into_iter().flatten().collect()
}

/// Messages, lines and the lifecycle.
pub(super) fn protocol() -> Vec<Row> {
    let files = [base::rows(), lifecycle::rows(), modern::rows(), stdio::rows()];
    by_turns(files.into_iter().flatten().collect())
}

/// Tools, prompts, resources, and what else servers offer.
pub(super) fn features() -> Vec<Row> {
    let files = [lists::rows(), content::rows(), utilities::rows(), patterns::rows()];
    by_turns(files.into_iter().flatten().collect())
}

/// Faults of HTTP.
pub(super) fn http() -> Vec<Row> {
    [http::rows(), http_modern::rows(), http_sse::rows()].into_iter().flatten().collect()
}

/// Where a rule has a fault in each era, one era is tested over lines and the other over HTTP, to save time.
fn by_turns(rows: Vec<Row>) -> Vec<Row> {
    let both = |row: &Row, modern: bool| row.over.len() > 1 && matches!(row.look, Look::Modern) == modern;
    let of = |modern: bool| -> BTreeSet<&str> {
        rows.iter().filter(|row| both(row, modern)).map(|row| row.rule).collect()
    };
    let rules: BTreeSet<&str> = of(false).intersection(&of(true)).copied().collect();
    let turned = rows.into_iter().map(|row| match (rules.contains(row.rule), &row.look) {
        (true, Look::Modern) if row.over.len() > 1 => row.over(HTTP),
        (true, _) if row.over.len() > 1 => row.over(STDIO),
        _ => row,
    });
    turned.collect()
}

/// The rules without a fault in the table, and why.
pub(super) const NONE: &[(&str, Over, &str)] = &[
    (
        "notification-not-answered",
        Over::Http,
        "what a notification is answered with is its response, of which notification-accepted checks",
    ),
    ("silent-before-initialize", Over::Http, "the server cannot send before a request"),
    (
        "sse-endpoint-here",
        Over::Sse,
        "a look ends there, with this as its error: see outcomes::an_endpoint_elsewhere_is_not_posted_to",
    ),
    ("list-not-by-connection", Over::Stdio, "there is one connection"),
    ("log-asked-for", Over::Http, "what comes before a response is checked by notifications-relate"),
    ("cancelled-not-answered", Over::Http, "shown over lines, on a clock that only waiting moves"),
    ("ends-with-its-input", Over::Stdio, "a process of its own: crates/cli/tests/runner/validate.rs"),
    ("ends-in-order", Over::Stdio, "a process of its own: crates/cli/tests/runner/validate.rs"),
];
