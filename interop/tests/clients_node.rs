//! Clients on Node, as npm publishes them, against `mcpjoin serve demo --full`: the TypeScript SDK, old and new, the Inspector's
//! command line and mcporter, in each era that they support. `interop/clients/table.md` has the expected outcomes.

#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use interop::{Client, NODE, Way, rows_are};

const SDK_1: &str = "@modelcontextprotocol/sdk";
const SDK_2: &str = "@modelcontextprotocol/client";
const INSPECTOR: &str = "@modelcontextprotocol/inspector";
const MCPORTER: &str = "mcporter";

fn client(name: &str, script: &str) -> Client {
    Client::installed(name, NODE).script(script)
}

#[test]
fn no_row_of_the_table_is_without_a_test() {
    let tested = [
        (SDK_1, "legacy", Way::Stdio),
        (SDK_1, "legacy", Way::Http),
        (SDK_1, "legacy", Way::Sse),
        (SDK_2, "legacy", Way::Stdio),
        (SDK_2, "legacy", Way::Http),
        (SDK_2, "legacy", Way::Sse),
        (SDK_2, "modern", Way::Stdio),
        (SDK_2, "modern", Way::Http),
        (INSPECTOR, "legacy", Way::Stdio),
        (INSPECTOR, "legacy", Way::Http),
        (INSPECTOR, "legacy", Way::Sse),
        (INSPECTOR, "modern", Way::Stdio),
        (INSPECTOR, "modern", Way::Http),
        (MCPORTER, "legacy", Way::Stdio),
        (MCPORTER, "legacy", Way::Http),
        (MCPORTER, "legacy", Way::Sse),
    ];
    rows_are("node", &tested);
}

#[test]
fn typescript_sdk_1() {
    client(SDK_1, "sdk-1.mjs").is_as_the_table_says("legacy");
}

#[test]
fn typescript_sdk_1_over_http() {
    client(SDK_1, "sdk-1.mjs").by(Way::Http).is_as_the_table_says("legacy");
}

#[test]
fn typescript_sdk_1_over_http_sse() {
    client(SDK_1, "sdk-1.mjs").by(Way::Sse).is_as_the_table_says("legacy");
}

#[test]
fn typescript_sdk_2_in_the_legacy_era() {
    client(SDK_2, "sdk-2.mjs").is_as_the_table_says("legacy");
}

#[test]
fn typescript_sdk_2_in_the_legacy_era_over_http() {
    client(SDK_2, "sdk-2.mjs").by(Way::Http).is_as_the_table_says("legacy");
}

#[test]
fn typescript_sdk_2_in_the_legacy_era_over_http_sse() {
    client(SDK_2, "sdk-2.mjs").by(Way::Sse).is_as_the_table_says("legacy");
}

#[test]
fn typescript_sdk_2_in_the_modern_era() {
    client(SDK_2, "sdk-2.mjs").is_as_the_table_says("modern");
}

#[test]
fn typescript_sdk_2_in_the_modern_era_over_http() {
    client(SDK_2, "sdk-2.mjs").by(Way::Http).is_as_the_table_says("modern");
}

#[test]
fn inspector_in_the_legacy_era() {
    client(INSPECTOR, "inspector.mjs").is_as_the_table_says("legacy");
}

#[test]
fn inspector_in_the_legacy_era_over_http() {
    client(INSPECTOR, "inspector.mjs").by(Way::Http).is_as_the_table_says("legacy");
}

#[test]
fn inspector_in_the_legacy_era_over_http_sse() {
    client(INSPECTOR, "inspector.mjs").by(Way::Sse).is_as_the_table_says("legacy");
}

#[test]
fn inspector_in_the_modern_era() {
    client(INSPECTOR, "inspector.mjs").is_as_the_table_says("modern");
}

#[test]
fn inspector_in_the_modern_era_over_http() {
    client(INSPECTOR, "inspector.mjs").by(Way::Http).is_as_the_table_says("modern");
}

#[test]
fn mcporter() {
    client(MCPORTER, "mcporter.mjs").is_as_the_table_says("legacy");
}

#[test]
fn mcporter_over_http() {
    client(MCPORTER, "mcporter.mjs").by(Way::Http).is_as_the_table_says("legacy");
}

#[test]
fn mcporter_over_http_sse() {
    client(MCPORTER, "mcporter.mjs").by(Way::Sse).is_as_the_table_says("legacy");
}
