//! Foreign clients that start a process for each request, at the joined endpoint of the demonstration server and a server on
//! rmcp: the Inspector's command line and mcporter. Each has the outcomes of `interop/clients/table.md`, as those in
//! `interop/tests/gateway`.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use interop::{Client, NODE, Way};

fn client(name: &str, script: &str) -> Client {
    Client::installed(name, NODE).script(script).by(Way::Http).joined()
}

#[test]
fn inspector_in_the_legacy_era() {
    client("@modelcontextprotocol/inspector", "inspector.mjs").is_as_the_table_says("legacy");
}

#[test]
fn inspector_in_the_modern_era() {
    client("@modelcontextprotocol/inspector", "inspector.mjs").is_as_the_table_says("modern");
}

#[test]
fn mcporter() {
    client("mcporter", "mcporter.mjs").is_as_the_table_says("legacy");
}
