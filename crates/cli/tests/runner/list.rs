//! Tests of `mcpjoin list`.

use serde_json::{Value, json};

use super::support::{legacy, line, run};

#[test]
fn the_demonstration_is_listed_for_a_person() {
    let ran = line("list demo:").exits(0);
    for part in [
        "Tools\n  echo    Returns the message\n",
        "\n\nResources\n  demo://about  What this server is\n",
        "\n\nResource templates\n  demo://greeting/{language}  A greeting in a language\n",
        "\n\nPrompts\n  translate  Asks a model to translate a text\n",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is missing in {}", ran.stdout);
    }
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(ran.stderr, format!("mcpjoin-demo {version}, protocol 2026-07-28 (modern)\n"));
    assert_eq!(line("list -q demo:").exits(0).stderr, "");
}

#[test]
fn f23_json_is_one_document_in_the_shapes_of_the_specification() {
    let ran = line("list --json demo:full").exits(0);
    assert_eq!(ran.stderr, "");
    let list = ran.json();
    assert_eq!(list["protocolVersion"], "2026-07-28");
    assert_eq!(list["serverInfo"]["name"], "mcpjoin-demo");
    assert!(list["instructions"].is_string());
    for (name, count) in [("tools", 40), ("resources", 3), ("resourceTemplates", 1), ("prompts", 5)] {
        assert_eq!(list[name].as_array().map(Vec::len), Some(count), "{name}");
    }
    assert_eq!(list["tools"][0]["inputSchema"]["properties"]["message"]["type"], "string");
    assert!(list["capabilities"]["logging"].is_object());
}

#[test]
fn every_version_can_be_asked_for() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let list = line(&format!("list --json --protocol-version {version} demo:full")).exits(0).json();
        assert_eq!(list["protocolVersion"], version);
        assert_eq!(list["tools"].as_array().map(Vec::len), Some(40));
    }
    assert_eq!(line("list --json --era legacy demo:").exits(0).json()["protocolVersion"], "2025-11-25");
    assert_eq!(line("list --json --era modern demo:").exits(0).json()["protocolVersion"], "2026-07-28");
}

#[test]
fn names_that_a_list_contains_twice_are_noted() {
    let tool = |name: &str| format!("{{\"name\":\"{name}\",\"inputSchema\":{{\"type\":\"object\"}}}}");
    let tools = |names: &[&str]| {
        let tools: Vec<String> = names.iter().map(|name| tool(name)).collect();
        format!("\"tools\":[{}]", tools.join(","))
    };
    let ran = listed(&[], &tools(&["a", "b", "a", "a", "c", "c"])).exits(0);
    assert_eq!(ran.stdout, "Tools\n  a\n  b\n  a\n  a\n  c\n  c\n");
    assert!(ran.stderr.ends_with("\ntools/list of shell contains a, c more than once\n"), "{}", ran.stderr);
    let ran = listed(&[], &tools(&["a", "b"])).exits(0);
    assert!(!ran.stderr.contains("more than once"), "{}", ran.stderr);
    assert_eq!(listed(&["-q"], &tools(&["a", "a"])).exits(0).stderr, "");
}

/// The output of `list` if the result of `tools/list` has these members.
fn listed(options: &[&str], members: &str) -> super::support::Ran {
    let script = legacy(&format!(
        "read -r line; printf '%s\\n' '{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{{{members}}}}}'; cat >/dev/null"
    ));
    let mut words = vec!["list", "--era", "legacy"];
    words.extend(options);
    words.extend(["sh", "-c", &script]);
    run(words)
}

#[test]
fn f19_nothing_that_a_server_sends_is_lost_or_refused() {
    let tools = r#"[{"name":"bare"},{"name":"odd","input_schema":{},"x-own":[1.50,9007199254740993]},7,{"description":5}]"#;
    let list = listed(&["--json"], &format!(r#""tools":{tools}"#)).exits(0);
    assert_eq!(list.json()["tools"], serde_json::from_str::<Value>(tools).unwrap());
    assert!(list.stdout.contains("1.50") && list.stdout.contains("9007199254740993"), "{}", list.stdout);
    let text = listed(&[], &format!(r#""tools":{tools}"#)).exits(0).stdout;
    assert_eq!(text, "Tools\n  bare\n  odd\n  (not an object)\n  (without a name)\n");
}

#[test]
fn a_result_without_its_list_is_reported() {
    listed(&[], r#""things":[]"#).exits(5).says(&["(E_BAD_REPLY)", "no array `tools`"]);
    let ran = listed(&[], r#""tools":{}"#).exits(5);
    assert_eq!(ran.stdout, "");
    assert_eq!(
        listed(&[], r#""tools":[]"#).exits(0).stdout,
        "the server has no tools, resources or prompts\n"
    );
}

#[test]
fn pages_are_followed_and_do_not_go_round() {
    // The client numbers its requests, and the first list has the id 2.
    let page = |id: u32, tool: &str, next: &str| {
        format!(
            "read -r line; printf '%s\\n' \
             '{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"tools\":[{{\"name\":\"{tool}\"}}]{next}}}}}'; "
        )
    };
    let more = r#","nextCursor":"more""#;
    let script = legacy(&format!("{}{}cat >/dev/null", page(2, "one", more), page(3, "two", "")));
    let list = run(["list", "--json", "--era", "legacy", "sh", "-c", &script]).exits(0).json();
    assert_eq!(list["tools"], json!([{"name": "one"}, {"name": "two"}]));
    let script = legacy(&format!("{}{}cat >/dev/null", page(2, "one", more), page(3, "two", more)));
    run(["list", "--era", "legacy", "sh", "-c", &script]).exits(5).says(&["(E_BAD_REPLY)", "form a loop"]);
}
