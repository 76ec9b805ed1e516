//! Clients on rmcp, the official Rust SDK, as crates.io publishes it, against `mcpjoin serve demo --full`: every check, in each
//! era that the client supports, must have the outcome in the table.

#![cfg(target_os = "linux")]

use interop::{Client, Way, rows_are};

fn current() -> Client {
    Client::installed("rmcp", "rmcp/target/debug/client-current")
}

/// The last version with only the legacy era.
fn old() -> Client {
    Client::installed("rmcp 2", "rmcp/target/debug/client-old")
}

#[test]
fn no_row_is_without_a_test() {
    let tested = [
        ("rmcp", "legacy", Way::Stdio),
        ("rmcp", "legacy", Way::Http),
        ("rmcp", "modern", Way::Stdio),
        ("rmcp", "modern", Way::Http),
        ("rmcp 2", "legacy", Way::Stdio),
        ("rmcp 2", "legacy", Way::Http),
    ];
    rows_are("rust", &tested);
}

#[test]
fn rmcp_legacy() {
    current().is_as_the_table_says("legacy");
}

#[test]
fn rmcp_legacy_over_http() {
    current().by(Way::Http).is_as_the_table_says("legacy");
}

#[test]
fn rmcp_modern() {
    current().is_as_the_table_says("modern");
}

#[test]
fn rmcp_modern_over_http() {
    current().by(Way::Http).is_as_the_table_says("modern");
}

#[test]
fn rmcp_2_legacy() {
    old().is_as_the_table_says("legacy");
}

#[test]
fn rmcp_2_legacy_over_http() {
    old().by(Way::Http).is_as_the_table_says("legacy");
}
