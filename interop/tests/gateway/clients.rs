//! Foreign clients at the joined endpoint of the demonstration server and a server on rmcp, and behind nginx at two bridges with one
//! key, also with one Redis and a program of each bridge. Each has the outcomes of `interop/clients/table.md`: lists, calls, questions, subscriptions and progress are the same as at one server.

use interop::{Client, NODE, Way};

fn script(name: &str, program: &str, script: &str) -> Client {
    Client::installed(name, program).script(script)
}

#[test]
fn typescript_sdk_1() {
    let client = script("@modelcontextprotocol/sdk", NODE, "sdk-1.mjs");
    client.by(Way::Http).joined().is_as_the_table_says("legacy");
}

fn typescript_sdk_2() -> Client {
    script("@modelcontextprotocol/client", NODE, "sdk-2.mjs").joined()
}

#[test]
fn typescript_sdk_2_in_the_legacy_era_on_standard_input_and_output() {
    typescript_sdk_2().is_as_the_table_says("legacy");
}

#[test]
fn typescript_sdk_2_in_the_modern_era() {
    typescript_sdk_2().by(Way::Http).is_as_the_table_says("modern");
}

fn python_sdk() -> Client {
    script("mcp", "venv/bin/python", "python-sdk.py").by(Way::Http).joined()
}

#[test]
fn python_sdk_in_the_legacy_era() {
    python_sdk().is_as_the_table_says("legacy");
}

#[test]
fn python_sdk_in_the_modern_era() {
    python_sdk().is_as_the_table_says("modern");
}

fn rmcp() -> Client {
    Client::installed("rmcp", "rmcp/target/debug/client-current").by(Way::Http).joined()
}

#[test]
fn rmcp_in_the_legacy_era() {
    rmcp().is_as_the_table_says("legacy");
}

#[test]
fn rmcp_in_the_modern_era() {
    rmcp().is_as_the_table_says("modern");
}

#[test]
fn typescript_sdk_1_at_two_bridges() {
    script("@modelcontextprotocol/sdk", NODE, "sdk-1.mjs").at_two_bridges().is_as_the_table_says("legacy");
}

#[test]
fn typescript_sdk_2_at_two_bridges() {
    let client = script("@modelcontextprotocol/client", NODE, "sdk-2.mjs").at_two_bridges();
    client.is_as_the_table_says("legacy");
    client.is_as_the_table_says("modern");
}

#[test]
fn python_sdk_at_two_bridges() {
    let client = script("mcp", "venv/bin/python", "python-sdk.py").at_two_bridges();
    client.is_as_the_table_says("legacy");
    client.is_as_the_table_says("modern");
}

#[test]
fn rmcp_at_two_bridges() {
    let client = Client::installed("rmcp", "rmcp/target/debug/client-current").at_two_bridges();
    client.is_as_the_table_says("legacy");
    client.is_as_the_table_says("modern");
}

#[test]
fn typescript_sdk_1_at_two_bridges_of_a_program() {
    let client = script("@modelcontextprotocol/sdk", NODE, "sdk-1.mjs");
    client.at_two_bridges_of_a_program().is_as_the_table_says("legacy");
}

#[test]
fn typescript_sdk_2_at_two_bridges_of_a_program() {
    let client = script("@modelcontextprotocol/client", NODE, "sdk-2.mjs");
    let client = client.at_two_bridges_of_a_program();
    client.is_as_the_table_says("legacy");
    client.is_as_the_table_says("modern");
}

#[test]
fn python_sdk_at_two_bridges_of_a_program() {
    let client = script("mcp", "venv/bin/python", "python-sdk.py");
    let client = client.at_two_bridges_of_a_program();
    client.is_as_the_table_says("legacy");
    client.is_as_the_table_says("modern");
}

#[test]
fn rmcp_at_two_bridges_of_a_program() {
    let client = Client::installed("rmcp", "rmcp/target/debug/client-current");
    let client = client.at_two_bridges_of_a_program();
    client.is_as_the_table_says("legacy");
    client.is_as_the_table_says("modern");
}
