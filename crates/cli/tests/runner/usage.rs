//! Tests of invalid command lines: the exit code is 2, and nothing is started.

use serde_json::json;

use super::config::Folder;
use super::support::{line, run};

#[test]
fn i168_words_that_cannot_be_used_are_exit_2() {
    for words in [
        "",
        "nonsense",
        "list",
        "list --nonsense demo:",
        "list --",
        "list --json=maybe demo:",
        "list -q -v demo:",
        "list demo: more --json",
        "list http://me:hunter2@localhost/mcp",
        "list http://localhost:0/mcp",
        "list --header hunter2 http://localhost/mcp",
        "list --header A:b demo:",
        "list --ca /no/such/file https://localhost/mcp",
        "list -e A=b http://localhost/mcp",
        "list .mcp.json#files",
        "list --config /no/such/file x",
        "list --config /no/such/file demo:",
        "list -c a.json b.json#c",
        "list --server a b",
        "list --server a",
        "call --server a x -- sh",
        "list ftp://x",
        "list --era old demo:",
        "list --protocol-version 2020-01-01 demo:",
        "list --era modern --protocol-version 2025-06-18 demo:",
        "list -e =x demo:",
        "list -e MCPJOIN_NO_SUCH_VARIABLE demo:",
        "call",
        "call demo:",
        "call echo message=hi",
        "call files/read",
        "call demo: echo message",
        "call demo: echo a:={",
        "call demo: echo a=1 a=2",
        "call demo: echo --args [1]",
        "call demo: echo @/no/such/file",
        "call echo --",
        "read",
        "read demo:",
        "read demo: a:b c:d",
        "read test://static-text",
        "read -o x --json demo: a:b",
        "read demo: a:b --",
        "prompt",
        "prompt demo:",
        "prompt demo: p word",
        "prompt demo: p a=1 a=2",
        "complete",
        "complete demo:",
        "complete demo: prompt:p",
        "complete demo: p a=b",
        "complete demo: prompt:p =b",
        "complete demo: prompt:p a=b c=d",
        "complete demo: prompt:p a=b --context c",
        "complete demo: prompt:p a=b --context c=1 --context c=2",
        "ping",
        "ping demo: x",
        "ping -n 0 demo:",
        "ping -n 1e9 demo:",
        "ping -n 100001 demo:",
        "ping -i 0 demo:",
        "list --trace",
        "serve",
        "serve nothing",
        "serve demo --listen",
        "serve demo --listen http://localhost",
        "serve demo --listen http://me:hunter2@localhost:1/mcp",
        "serve demo --listen http://localhost:1/mcp?a=b",
        "serve demo --listen https://localhost:1/mcp",
        "serve demo --listen tcp://localhost",
        "serve demo --listen tcp://me:hunter2@localhost:1",
        "list tcp://localhost",
        "list tcp://localhost:1/mcp",
        "list unix:",
        "list -e A=1 tcp://localhost:1",
        "list --env-clean unix:/x",
        "call --cwd / unix:/x tool",
        "help nothing",
    ] {
        let words: Vec<&str> = words.split(' ').filter(|word| !word.is_empty()).collect();
        let ran = run(&words).exits(2);
        assert_eq!(ran.stdout, "", "{words:?}");
        assert!(!ran.stderr.is_empty() && !ran.stderr.contains("hunter2"), "{words:?}: {}", ran.stderr);
    }
}

#[test]
fn i177_times_and_sizes_that_cannot_be_meant_are_exit_2() {
    for option in ["--timeout", "--connect-timeout", "-t"] {
        for time in ["0", "-1", "1e18", "1000000000000000000", "", "soon"] {
            run(["list", option, time, "demo:"]).exits(2);
        }
    }
    for size in ["0", "-1", "1e18", "9GiB", "", "big"] {
        run(["list", "--max-message-size", size, "demo:"]).exits(2);
    }
}

#[test]
fn the_right_line_is_shown() {
    line("call echo message=hi")
        .exits(2)
        .says(&["try      mcpjoin call echo message=hi -- COMMAND [ARG]..."]);
    line("list --jsn demo:").exits(2).says(&["--json"]);
}

#[test]
fn rule_1_words_of_ours_after_the_command_are_reported_and_passed_on() {
    let ran = run(["list", "sh", "-c", "echo \"given $*\" >&2; exit 1", "sh", "--json"]).exits(4);
    ran.says(&[
        "--json is passed to sh: options of mcpjoin belong before the command",
        "stderr   given --json",
        "error:",
    ]);
    let ran = run(["list", "-q", "sh", "-c", "exit 1", "sh", "--json"]).exits(4);
    assert!(!ran.stderr.contains("options of mcpjoin"), "{}", ran.stderr);
}

#[test]
fn words_that_clap_refuses_are_one_json_object_with_json() {
    for (words, message) in [
        ("list --json --nonsense demo:", "unexpected argument '--nonsense' found"),
        ("call --json -t soon demo: echo", "invalid value 'soon' for '--timeout <TIME>'"),
        (
            "ping --json -n 0 demo:",
            "invalid value '0' for '--count <NUMBER>': write a number from 1 to 100000",
        ),
    ] {
        let verb = words.split(' ').next().unwrap();
        let failure = line(words).exits(2).failure();
        assert_eq!((&failure["id"], &failure["exitCode"]), (&json!("E_USAGE"), &json!(2)), "{failure}");
        assert!(failure["message"].as_str().unwrap().starts_with(message), "{failure}");
        assert_eq!(failure["hint"], format!("mcpjoin help {verb}"));
    }
    // After `--` the word belongs to the server's command.
    let ran = line("list --nonsense -- cat --json").exits(2);
    assert!(ran.stderr.starts_with("error: unexpected argument"), "{}", ran.stderr);
}

#[test]
fn a_misplaced_option_is_not_moved_behind_two_dashes() {
    // In that place it would be part of the server's command.
    let ran = line("list --nonsense demo:").exits(2);
    assert!(!ran.stderr.contains("-- --nonsense"), "{}", ran.stderr);
    let ran = line("--nonsense list demo:").exits(2);
    assert!(!ran.stderr.contains("tip:"), "{}", ran.stderr);
}

#[test]
fn a_word_too_many_is_left_out_of_the_right_line() {
    for (words, right) in [
        ("list demo: extra", "try      mcpjoin list demo:\n"),
        ("ping demo: extra", "try      mcpjoin ping demo:\n"),
        ("ping demo: extra -n 3", "try      mcpjoin ping demo:\n"),
        ("call demo:/echo message=hi", "try      mcpjoin call demo: ..., or demo:full\n"),
    ] {
        line(words).exits(2).says(&[right]);
    }
}

#[test]
fn the_list_of_rules_takes_no_server() {
    line("validate --rules demo:").exits(2).says(&["--rules takes no server", "(E_USAGE)"]);
    line("validate --rules --server x").exits(2).says(&["--rules takes no server"]);
}

#[test]
fn numbers_that_cannot_be_meant_name_the_bounds() {
    for number in ["0", "100001", "1e9", "99999999999999999999", "-1"] {
        line(&format!("ping -n {number} demo:")).exits(2).says(&["from 1 to 100000"]);
    }
}

#[test]
fn words_that_clap_refuses_have_their_id() {
    for (words, first) in [
        ("list --nonsense demo:", "error: unexpected argument '--nonsense' found (E_USAGE)\n"),
        ("call -t soon demo: echo", "error: invalid value 'soon' for '--timeout <TIME>'"),
        ("search", "error: the following required arguments were not provided (E_USAGE):\n"),
        ("serve", "error: no server is named (E_USAGE)\n"),
        ("nonsense", "error: nonsense is not a verb of mcpjoin (E_USAGE)\n"),
    ] {
        let ran = line(words).exits(2);
        assert!(ran.stderr.starts_with(first), "{words}: {}", ran.stderr);
        assert_eq!(ran.stderr.matches("(E_USAGE)").count(), 1, "{words}: {}", ran.stderr);
        assert!(ran.stderr.lines().next().unwrap().contains("(E_USAGE)"), "{words}: {}", ran.stderr);
    }
    // Help that is printed for an empty command line is not an error message.
    assert!(!run([""; 0]).exits(2).stderr.contains("E_USAGE"));
}

#[test]
fn with_json_a_tool_that_has_failed_says_so_on_standard_output_alone() {
    let ran = line("call --json demo:full test_error_handling").exits(5);
    assert_eq!((&ran.json()["isError"], ran.stderr.as_str()), (&json!(true), ""));
}

#[test]
fn a_tool_of_an_entry_of_a_file_is_called() {
    let folder = Folder::new("file-entry-tool");
    let entries = json!({"mcpServers": {"a": {
        "command": env!("CARGO_BIN_EXE_mcpjoin"), "args": ["serve", "demo"]}}});
    std::fs::write(folder.path().join("here/some.json"), entries.to_string()).unwrap();
    assert_eq!(folder.run(&["call", "some.json#a/echo", "message=hi"]).exits(0).stdout, "hi\n");
    assert_eq!(folder.run(&["call", "./some.json#a/echo", "message=hi"]).exits(0).stdout, "hi\n");
    folder.run(&["call", "some.json#b/echo", "message=hi"]).exits(2).says(&["b", "some.json"]);
}
