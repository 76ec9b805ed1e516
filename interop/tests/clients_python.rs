//! Clients of the Python family, as PyPI publishes them, against `mcpjoin serve demo --full`: every check, in each era that the
//! client supports, must have the outcome in the table.

#![cfg(target_os = "linux")]

use interop::{Client, Way, rows_are};

/// The last version of the official SDK's client without the modern era.
fn mcp_1() -> Client {
    Client::installed("mcp 1", "venv/bin/python").script("python-sdk-1.py")
}

/// The current version of the official SDK's client.
fn mcp() -> Client {
    Client::installed("mcp", "venv/bin/python").script("python-sdk.py")
}

/// The client of a framework that builds on it.
fn fastmcp() -> Client {
    Client::installed("fastmcp", "venv/bin/python").script("fastmcp-client.py")
}

#[test]
fn no_row_is_without_a_test() {
    let tested = [
        ("mcp 1", "legacy", Way::Stdio),
        ("mcp 1", "legacy", Way::Http),
        ("mcp 1", "legacy", Way::Sse),
        ("mcp", "legacy", Way::Stdio),
        ("mcp", "legacy", Way::Http),
        ("mcp", "legacy", Way::Sse),
        ("mcp", "modern", Way::Stdio),
        ("mcp", "modern", Way::Http),
        ("fastmcp", "legacy", Way::Stdio),
        ("fastmcp", "legacy", Way::Http),
        ("fastmcp", "legacy", Way::Sse),
        ("fastmcp", "modern", Way::Stdio),
        ("fastmcp", "modern", Way::Http),
    ];
    rows_are("python", &tested);
}

#[test]
fn mcp_1_legacy() {
    mcp_1().is_as_the_table_says("legacy");
}

#[test]
fn mcp_1_legacy_over_http() {
    mcp_1().by(Way::Http).is_as_the_table_says("legacy");
}

#[test]
fn mcp_1_legacy_over_http_sse() {
    mcp_1().by(Way::Sse).is_as_the_table_says("legacy");
}

#[test]
fn mcp_legacy() {
    mcp().is_as_the_table_says("legacy");
}

#[test]
fn mcp_legacy_over_http() {
    mcp().by(Way::Http).is_as_the_table_says("legacy");
}

#[test]
fn mcp_legacy_over_http_sse() {
    mcp().by(Way::Sse).is_as_the_table_says("legacy");
}

#[test]
fn mcp_modern() {
    mcp().is_as_the_table_says("modern");
}

#[test]
fn mcp_modern_over_http() {
    mcp().by(Way::Http).is_as_the_table_says("modern");
}

#[test]
fn fastmcp_legacy() {
    fastmcp().is_as_the_table_says("legacy");
}

#[test]
fn fastmcp_legacy_over_http() {
    fastmcp().by(Way::Http).is_as_the_table_says("legacy");
}

#[test]
fn fastmcp_legacy_over_http_sse() {
    fastmcp().by(Way::Sse).is_as_the_table_says("legacy");
}

#[test]
fn fastmcp_modern() {
    fastmcp().is_as_the_table_says("modern");
}

#[test]
fn fastmcp_modern_over_http() {
    fastmcp().by(Way::Http).is_as_the_table_says("modern");
}
