//! Tests of `mcpjoin info`.

use serde_json::json;

use super::config::Folder;
use super::support::{legacy, legacy_with, line, run};

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");

#[test]
fn a_server_is_shown_with_what_it_has() {
    let ran = line("info demo:full").exits(0);
    let version = env!("CARGO_PKG_VERSION");
    for part in [
        format!("mcpjoin-demo {version}\n").as_str(),
        "  protocol      2026-07-28 (modern)\n",
        "  transport     stdio\n",
        "  command       mcpjoin serve demo --full\n",
        "  offers        40 tools, 3 resources, 1 resource template, 5 prompts\n",
        "  instructions  ",
        "tools (listChanged)",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in {}", ran.stdout);
    }
    assert_eq!(ran.stderr, "");
    let info = line("info --json --era legacy demo:full").exits(0).json();
    assert_eq!(info["protocolVersion"], "2025-11-25");
    assert_eq!(info["era"], "legacy");
    assert_eq!(info["transport"], "stdio");
    assert_eq!(info["serverInfo"]["name"], "mcpjoin-demo");
    assert_eq!(info["counts"], json!({"tools": 40, "resources": 3, "resourceTemplates": 1, "prompts": 5}));
    assert!(info["capabilities"]["tools"].is_object() && info["instructions"].is_string(), "{info}");
    assert!(info.get("entry").is_none() && info.get("errors").is_none(), "{info}");
}

#[test]
fn of_an_entry_its_place_is_shown_and_no_secret() {
    let folder = Folder::new("info-entry");
    folder.file(
        ".mcp.json",
        format!(
            "{{\"mcpServers\": {{\n  \"one\": {{\"command\": \"{BINARY}\", \"args\": [\"serve\", \"demo\"],\n    \
             \"env\": {{\"TOKEN\": \"s3cr3t-of-info\"}}, \"allowedTools\": [\"add\"]}}\n}}}}"
        ),
    );
    let ran = folder.run(&["info", "one"]).exits(0);
    assert!(ran.stdout.contains("  entry         one, .mcp.json:2\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("  offers        1 tool, "), "{}", ran.stdout);
    assert!(!ran.stdout.contains("s3cr3t"), "{}", ran.stdout);
    let info = folder.run(&["info", "--json", "one"]).exits(0).json();
    assert_eq!(info["entry"], json!({"name": "one", "file": ".mcp.json", "line": 2}));
    assert_eq!(info["counts"]["tools"], 1);
}

#[test]
fn what_cannot_be_counted_is_reported_and_hides_nothing() {
    let script = legacy_with(
        r#""tools":{},"prompts":{}"#,
        r#"read -r line; read -r line
printf '%s\n' '{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"broken"}}' '{"jsonrpc":"2.0","id":3,"result":{"prompts":[{"name":"p"}]}}'
cat >/dev/null"#,
    );
    let ran = run(["info", "--era", "legacy", "sh", "-c", &script]).exits(5);
    assert!(ran.stdout.contains("  offers        1 prompt, the rest is not known\n"), "{}", ran.stdout);
    ran.says(&["broken", "(E_SERVER_ERROR)"]);
    let ran = run(["info", "--json", "--era", "legacy", "sh", "-c", &script]).exits(5);
    let info = ran.json();
    assert_eq!(info["counts"], json!({"prompts": 1}));
    assert_eq!(info["errors"][0]["method"], "tools/list");
    line("info").exits(2).says(&["no server is named", "mcpjoin info TARGET"]);
}

#[test]
fn what_a_server_offers_is_not_known_when_its_lists_cannot_be_read() {
    let script = legacy(
        r#"while read -r line; do id=${line#*'"id":'}; id=${id%%[,\}]*}
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"broken"}}\n' "$id"; done"#,
    );
    let ran = run(["info", "--era", "legacy", "sh", "-c", &script]).exits(5);
    assert!(ran.stdout.contains("offers        not known"), "{}", ran.stdout);
}
