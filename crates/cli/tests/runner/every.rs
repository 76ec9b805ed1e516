//! Tests of verbs that run over a whole configuration, and of verbs for one tool.

use std::io::{BufRead, BufReader};

use super::config::Folder;
use super::support::start;
use super::terminal::typed;

const BINARY: &str = env!("CARGO_BIN_EXE_mcpjoin");

/// Two servers that work, one of which hides most of its tools, one that exits, and one that is disabled.
fn configured(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.file(
        ".mcp.json",
        format!(
            r#"{{"mcpServers": {{
              "one": {{"command": "{BINARY}", "args": ["serve", "demo"], "allowedTools": ["add", "echo"]}},
              "dead": {{"command": "sh", "args": ["-c", "echo why-it-died >&2; exit 3"]}},
              "two": {{"command": "{BINARY}", "args": ["serve", "demo"], "allowed_tools": ["add"]}},
              "off": {{"command": "false", "disabled": true}}
            }}}}"#
        ),
    );
    folder
}

#[test]
fn every_server_of_the_configuration_has_a_line_and_a_dead_one_hides_none() {
    let folder = configured("every-health");
    let ran = folder.run(&["list"]).exits(4);
    let lines: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let [one, dead, two] = &lines[..] else { panic!("{}", ran.stdout) };
    assert_eq!((one[0], one[1], one[4], one[5]), ("one", "ok", "2", "tools"), "{}", ran.stdout);
    assert_eq!((two[0], two[1], two[4], two[5]), ("two", "ok", "1", "tool"), "{}", ran.stdout);
    assert!(two.ends_with(&["2026-07-28"]), "{}", ran.stdout);
    assert_eq!((dead[0], dead[1]), ("dead", "failed"), "{}", ran.stdout);
    assert!(dead.ends_with(&["why-it-died"]), "{}", ran.stdout);
    // The block of the failure is for those who ask for it.
    assert!(!ran.stderr.contains("E_SERVER_EXITED"), "{}", ran.stderr);
    ran.says(&["off is disabled and skipped", "mcpjoin doctor NAME"]);
    let named = folder.run(&["list", "-c", ".mcp.json"]).exits(4);
    named.says(&["mcpjoin doctor --config .mcp.json NAME shows the cause and the fix"]);
    folder.run(&["list", "-v"]).exits(4).says(&["error: dead: ", "why-it-died", "(E_SERVER_EXITED)"]);
    folder.run(&["list", "--watch", "demo:"]).exits(2).says(&["one server is named", "mcpjoin list --watch"]);
    folder.run(&["list", "--watch", "--json"]).exits(2);
}

#[test]
fn watching_repeats_the_lines_until_a_signal() {
    let folder = configured("every-watch");
    let mut running = start(folder.command(&["list", "--watch=10ms", "-q"]));
    let lines = BufReader::new(running.child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // Three servers a round, and no clearing of a screen where there is no terminal.
    let lines: Vec<String> = lines.take(9).collect();
    for (place, name) in ["one ", "dead", "two "].into_iter().cycle().take(9).enumerate() {
        assert!(lines[place].starts_with(name), "{lines:#?}");
    }
    running.signal("INT");
    running.finish().exits(130);
}

#[test]
fn watching_redraws_a_terminal_from_its_top() {
    /// To the first place, and everything behind it away.
    const CLEARED: &str = "\u{1b}[H\u{1b}[2J";
    let folder = configured("every-redraw");
    // The second round is waited for, and then ended: keys are typed only while nothing is shown for 20 ms.
    let steps = r#"[["again in", ""], ["again in", "^C"]]"#;
    let mut command = typed("steps", steps, &["list", "--watch=100ms"]);
    folder.place(&mut command);
    command.env("NO_COLOR", "1");
    let told = start(command).finish().exits(0).json();
    assert_eq!((&told["exit"], &told["restored"]), (&130.into(), &true.into()), "{told}");
    let shown = told["shown"].as_str().unwrap();
    let mut rounds = shown.split(CLEARED);
    assert!(rounds.next().is_some_and(|before| !before.contains("again in")), "{shown:?}");
    let rounds: Vec<&str> = rounds.filter(|round| round.contains("again in 100 ms; Ctrl-C ends")).collect();
    assert!(rounds.len() >= 2, "{shown:?}");
    for round in rounds {
        let names: Vec<&str> = round.lines().take(4).filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, ["one", "dead", "two", "again"], "{shown:?}");
    }
}

#[test]
fn every_server_of_the_configuration_is_listed_in_full_when_it_is_asked_for() {
    let folder = configured("every-list");
    let ran = folder.run(&["list", "-d"]).exits(4);
    let (one, two) = (ran.stdout.find("one: ").unwrap(), ran.stdout.find("two: ").unwrap());
    assert!(one < two && ran.stdout[one..two].contains("\n  echo"), "{}", ran.stdout);
    assert!(
        ran.stdout[two..].contains("\n  add") && !ran.stdout[two..].contains("\n  echo"),
        "{}",
        ran.stdout
    );
    let ran = ran.says(&["error: dead: ", "why-it-died", "(E_SERVER_EXITED)", "off is disabled and skipped"]);
    drop(ran);
    let json = folder.run(&["list", "--json", "-q"]).exits(4).json();
    let names: Vec<&str> =
        json["servers"].as_array().unwrap().iter().map(|server| server["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one", "dead", "two"]);
    assert_eq!(json["servers"][1]["error"]["id"], "E_SERVER_EXITED");
    assert_eq!(json["servers"][2]["server"]["tools"].as_array().unwrap().len(), 1);
    let none = Folder::new("every-none");
    none.run(&["list"])
        .exits(2)
        .says(&["no server is named, and there is no configuration", "name a server, or"]);
    // These refuse a server that is named.
    for words in [&["search", "add"][..], &["list", "--watch"]] {
        let ran =
            none.run(words).exits(2).says(&["error: there is no configuration", "name one: --config FILE"]);
        assert!(!ran.stderr.contains("server"), "{}", ran.stderr);
    }
}

#[test]
fn tools_are_found_by_their_names_in_every_server() {
    let folder = configured("every-search");
    for (pattern, found) in [
        ("ADD", &["one/add", "two/add"][..]),
        ("ech?", &["one/echo"]),
        ("two/*", &["two/add"]),
        ("e?h", &[]),
        ("cho", &["one/echo"]),
    ] {
        let ran = folder.run(&["search", pattern]).exits(4);
        let names: Vec<&str> = ran.stdout.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(names, found, "{pattern}: {}", ran.stdout);
        assert!(ran.stderr.contains("why-it-died"), "{}", ran.stderr);
    }
    let json = folder.run(&["grep", "--json", "add"]).exits(4).json();
    assert_eq!(json["tools"][1]["server"], "two");
    assert_eq!(json["tools"][1]["tool"]["name"], "add");
    assert_eq!(json["errors"][0]["server"], "dead");
    folder.run(&["search", "[a"]).exits(2).says(&["the pattern is invalid"]);
}

#[test]
fn a_tool_is_shown_with_its_parameters() {
    let folder = configured("every-tool");
    let ran = folder.run(&["tool", "one/add"]).exits(0);
    for part in ["add", "Parameters\n", "  a  number, required\n", "  b  number, required\n"] {
        assert!(ran.stdout.contains(part), "{part} is not in {}", ran.stdout);
    }
    let json = folder.run(&["tool", "--json", "demo:", "add"]).exits(0).json();
    assert_eq!(json["inputSchema"]["type"], "object");
    folder.run(&["tool", "two/echo"]).exits(2).says(&["the configuration does not allow the tool echo"]);
    folder
        .run(&["tool", "demo:", "nothing"])
        .exits(5)
        .says(&["the server has no tool nothing", "(E_NO_TOOL)"]);
    folder.run(&["tool", "demo:", "add", "x"]).exits(2).says(&["x is an extra word"]);
}
