use mcpjoin_proto::Raw;

use super::{CLIENT_LIMITS, ClientResult, Compatibility, Consequence, Day, compatibility};

fn tool(text: &str) -> Raw {
    Raw::parse(text.to_owned()).unwrap()
}

fn good(name: &str) -> Raw {
    tool(&format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{}}}}}}"#))
}

fn with_input(input: &str) -> Raw {
    tool(&format!(r#"{{"name":"a","inputSchema":{input}}}"#))
}

#[track_caller]
fn result<'r>(report: &'r Compatibility, client: &str) -> &'r ClientResult {
    report.clients.iter().find(|result| result.client == client).unwrap()
}

/// The clients that find something, with what becomes of it.
fn found(report: &Compatibility) -> Vec<(&'static str, Consequence)> {
    let findings = report.clients.iter().flat_map(|result| &result.findings);
    findings.map(|finding| (finding.limit.client, finding.limit.then)).collect()
}

#[test]
fn a_plain_tool_is_taken_by_every_client() {
    let report = compatibility("demo", &[good("add"), good("sub_tract-2")]);
    // Codex writes the hyphen otherwise.
    assert_eq!(found(&report), [("Codex", Consequence::Renamed)]);
    assert!(report.clients.iter().all(|result| result.usable == 2), "{report:?}");
    assert_eq!(report.tools, 2);
}

#[test]
fn a_dot_in_a_name_costs_one_tool_here_and_all_of_them_there() {
    let report = compatibility("demo", &[good("look.up"), good("add")]);
    assert_eq!(result(&report, "Claude Code").usable, 1);
    assert_eq!(result(&report, "Claude Desktop").usable, 0);
    assert_eq!(result(&report, "Gemini CLI").usable, 2);
    let finding = &result(&report, "Claude Code").findings[0];
    assert_eq!(
        (finding.tool.as_deref(), &*finding.problem),
        (Some("look.up"), "the name contains the character '.'")
    );
}

#[test]
fn the_length_of_a_name_counts_with_the_name_of_the_server() {
    let name = "n".repeat(55);
    let by = |server: &str| found(&compatibility(server, &[good(&name)]));
    // mcp_ser_ and 55 are 63, which is the most; 4 + 55 are 59, which is the most for the other.
    assert_eq!(by("ser"), []);
    assert_eq!(by("serv"), [("Gemini CLI", Consequence::Renamed)]);
    assert_eq!(by("serve"), [("Cursor", Consequence::Dropped), ("Gemini CLI", Consequence::Renamed)]);
}

#[test]
fn a_top_level_any_of_is_reported_for_each_client_that_refuses_it() {
    let report =
        compatibility("demo", &[with_input(r#"{"type":"object","properties":{},"anyOf":[{}]}"#), good("b")]);
    assert_eq!(
        found(&report),
        [
            ("Claude Code", Consequence::Dropped),
            ("Anthropic API", Consequence::RequestsRejected),
            ("OpenAI API", Consequence::RequestsRejected),
        ]
    );
    assert_eq!(result(&report, "Claude Code").usable, 1);
    assert_eq!(result(&report, "VS Code").usable, 2);
}

#[test]
fn a_missing_type_costs_the_whole_list() {
    for input in ["{}", r#"{"type":"string"}"#, "true", r#"{"type":["object"]}"#] {
        let report = compatibility("demo", &[with_input(input), good("b"), good("c")]);
        assert_eq!(result(&report, "Claude Code").usable, 0, "{input}");
    }
    let none = tool(r#"{"name":"a"}"#);
    assert_eq!(result(&compatibility("demo", &[none]), "Claude Code").usable, 0);
    let output =
        tool(r#"{"name":"a","inputSchema":{"type":"object","properties":{}},"outputSchema":{"anyOf":[]}}"#);
    let report = compatibility("demo", &[output, good("b")]);
    for client in ["Claude Code", "Claude Desktop", "Cursor"] {
        assert_eq!(result(&report, client).usable, 0, "{client}");
    }
}

#[test]
fn an_older_draft_of_the_output_is_reported() {
    let with = |dialect: &str| {
        let text = format!(
            r#"{{"name":"a","inputSchema":{{"type":"object","properties":{{}}}},
                "outputSchema":{{"$schema":"{dialect}","type":"object"}}}}"#
        );
        found(&compatibility("demo", &[tool(&text)]))
    };
    assert_eq!(with("https://json-schema.org/draft/2020-12/schema"), []);
    assert_eq!(
        with("http://json-schema.org/draft-07/schema#"),
        [("Claude Code", Consequence::CallsFail), ("Claude Desktop", Consequence::Dropped)]
    );
}

#[test]
fn an_array_without_items_is_found_wherever_it_stands() {
    let bare = r#"{"type":"array"}"#;
    for around in [
        format!(r#"{{"x":{bare}}}"#),
        format!(r#"{{"x":{{"type":"object","properties":{{"y":{bare}}}}}}}"#),
        format!(r#"{{"x":{{"type":"array","items":{bare}}}}}"#),
        format!(r#"{{"x":{{"anyOf":[{{"type":"null"}},{bare}]}}}}"#),
        format!(r#"{{"x":{{"additionalProperties":{bare}}}}}"#),
    ] {
        let report =
            compatibility("demo", &[with_input(&format!(r#"{{"type":"object","properties":{around}}}"#))]);
        assert_eq!(
            found(&report),
            [("VS Code", Consequence::Dropped), ("OpenAI API", Consequence::RequestsRejected)],
            "{around}"
        );
    }
    // A property may be called so, and an example may hold anything.
    let fine = r#"{"type":"object","properties":{"type":{"enum":["array"]}},"examples":[{"type":"array"}]}"#;
    assert_eq!(found(&compatibility("demo", &[with_input(fine)])), []);
}

#[test]
fn properties_and_required_are_looked_at() {
    let report = compatibility("demo", &[with_input(r#"{"type":"object"}"#)]);
    assert_eq!(found(&report), [("OpenAI API", Consequence::RequestsRejected)]);
    let report = compatibility("demo", &[with_input(r#"{"type":"object","properties":{},"required":null}"#)]);
    assert_eq!(found(&report), [("Claude Code", Consequence::ListRejected)]);
}

#[test]
fn too_many_tools_and_too_long_ones_are_reported_and_cost_nothing() {
    let many: Vec<Raw> = (0..129).map(|number| good(&format!("t{number}"))).collect();
    let report = compatibility("demo", &many);
    assert_eq!(
        found(&report),
        [
            ("Cursor", Consequence::Crowded),
            ("VS Code", Consequence::Crowded),
            ("Windsurf", Consequence::Crowded)
        ]
    );
    assert!(report.clients.iter().all(|result| result.usable == 129));
    assert!(result(&report, "Cursor").findings[0].tool.is_none());

    let long = |length: usize| {
        let text = "é".repeat(length);
        tool(&format!(
            r#"{{"name":"a","description":"{text}","inputSchema":{{"type":"object","properties":{{}}}}}}"#
        ))
    };
    assert_eq!(found(&compatibility("demo", &[long(2048)])), []);
    assert_eq!(found(&compatibility("demo", &[long(2049)])), [("Claude Code", Consequence::Shortened)]);
    let report = compatibility("demo", &[long(60_000)]);
    assert!(report.tokens > 25_000 && found(&report).contains(&("Claude Code", Consequence::Crowded)));
}

#[test]
fn what_is_no_tool_is_looked_at_like_any_other() {
    for text in ["null", "[]", "\"a\"", "{}", r#"{"name":7,"inputSchema":[1]}"#] {
        let report = compatibility("", &[tool(text)]);
        assert_eq!(result(&report, "Claude Code").usable, 0, "{text}");
    }
    let none = compatibility("demo", &[]);
    assert_eq!((none.tools, none.tokens, found(&none)), (0, 0, Vec::new()));
}

#[test]
fn a_huge_nested_schema_is_looked_at_soon() {
    let mut schema = r#"{"type":"array"}"#.to_owned();
    for _ in 0..60 {
        schema = format!(r#"{{"anyOf":[{schema}]}}"#);
    }
    let wide: Vec<String> = (0..2_000).map(|number| format!(r#""p{number}":{{"type":"string"}}"#)).collect();
    let input = format!(r#"{{"type":"object","properties":{{{},"deep":{schema}}}}}"#, wide.join(","));
    let report = compatibility("demo", &[with_input(&input)]);
    assert_eq!(result(&report, "VS Code").usable, 0);
}

#[test]
fn every_limit_says_where_and_when_it_was_seen() {
    for limit in CLIENT_LIMITS {
        assert!(limit.source.starts_with("https://"), "{limit:?}");
        let days = Day { year: 2025, month: 1, day: 1 }..Day { year: 2027, month: 1, day: 1 };
        assert!(days.contains(&limit.seen), "{limit:?}");
        assert!((1..=12).contains(&limit.seen.month) && (1..=31).contains(&limit.seen.day), "{limit:?}");
    }
    assert_eq!(Day { year: 2026, month: 8, day: 7 }.to_string(), ["2026", "08", "07"].join("-"));
    let mut clients: Vec<&str> = CLIENT_LIMITS.iter().map(|limit| limit.client).collect();
    clients.dedup();
    let mut once = clients.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(clients.len(), once.len(), "the limits of the client are separate");
}

#[test]
fn many_tools_that_each_spoil_the_list_are_counted_in_time() {
    let tools: Vec<Raw> = (0..20_000)
        .map(|n| tool(&format!(r#"{{"name":"t{n}","inputSchema":{{"type":"object"}}}}"#)))
        .collect();
    let report = compatibility("s", &tools);
    assert!(report.clients.iter().any(|result| result.usable == 0 && result.findings.len() >= tools.len()));
}
