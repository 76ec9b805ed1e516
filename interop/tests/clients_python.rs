//! Clients of the Python family, as PyPI publishes them, against `mcpjoin serve demo`: every check, in each era that the
//! client speaks, comes out as the table says.

#![cfg(target_os = "linux")]

use interop::{Client, rows_are};

/// The official SDK's client before the modern era.
fn mcp_1() -> Client {
    Client::installed("mcp 1", "venv/bin/python").script("python-sdk-1.py")
}

/// The official SDK's client.
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
        ("mcp 1", "legacy"),
        ("mcp", "legacy"),
        ("mcp", "modern"),
        ("fastmcp", "legacy"),
        ("fastmcp", "modern"),
    ];
    rows_are("python", &tested);
}

#[test]
fn mcp_1_legacy() {
    mcp_1().is_as_the_table_says("legacy");
}

#[test]
fn mcp_legacy() {
    mcp().is_as_the_table_says("legacy");
}

#[test]
fn mcp_modern() {
    mcp().is_as_the_table_says("modern");
}

#[test]
fn fastmcp_legacy() {
    fastmcp().is_as_the_table_says("legacy");
}

#[test]
fn fastmcp_modern() {
    fastmcp().is_as_the_table_says("modern");
}
