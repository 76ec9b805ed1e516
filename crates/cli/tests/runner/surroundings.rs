//! Tests of the program's environment: terminals, locales, variables and pipes.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

use super::config::Folder;
use super::support::{command, legacy, run, scratch, start};

#[test]
fn f32_words_and_variables_that_are_not_unicode_are_passed_on() {
    let odd = OsString::from_vec(b"od\xffd".to_vec());
    let mut variable = OsString::from("ODD=");
    variable.push(&odd);
    let mut command = command(["list", "-v", "-e"]);
    command.arg(&variable).args([
        "sh",
        "-c",
        "printf '%s %s %s' \"$1\" \"$ODD\" \"$OURS\" | od -An -c >&2; exit 1",
        "sh",
    ]);
    command.arg(&odd).env("OURS", &odd);
    let ran = start(command).finish().exits(4);
    let last = ran.stderr.lines().find(|line| line.contains("stderr ")).unwrap_or_default();
    assert_eq!(last.matches("o   d 377   d").count(), 3, "{}", ran.stderr);

    let mut command = super::support::command(["call", "demo:"]);
    command.arg(&odd);
    start(command).finish().exits(2).says(&["is not Unicode"]);
    let mut command = super::support::command(["help"]);
    command.arg(&odd);
    start(command).finish().exits(2);
    let mut command = super::support::command(["list"]);
    command.arg(&odd);
    start(command).finish().exits(4).says(&["(E_SPAWN_NOT_FOUND)"]);
}

#[test]
fn the_environment_is_passed_on_or_kept_back() {
    let script = "echo \"[$OURS][$NAMED][$HOME]\" >&2; exit 1";
    for (options, shown) in [
        (&["-e", "NAMED=n"][..], "[ours][n][/h]"),
        (&["--env-clean", "-e", "NAMED=n"], "[][n][/h]"),
        (&["--env-clean", "-e", "OURS"], "[***][][/h]"),
        (&["--env-clean", "-e", "OURS", "-e", "HOME=/x"], "[***][][/x]"),
    ] {
        let mut command = command(["list"]);
        command.args(options).args(["sh", "-c", script]).env("OURS", "ours").env("HOME", "/h");
        start(command).finish().exits(4).says(&[shown]);
    }
}

/// Variables that mcpjoin reads for itself are not passed to a server, by any option, unless they are named.
#[test]
fn d84_no_server_gets_a_secret_that_is_for_this_program() {
    let script = "echo \"[$MCPJOIN_CLIENT_SECRET][$MCPJOIN_INPUT_KEY][$OTHER]\" >&2; exit 1";
    for (options, shown) in [
        (&[][..], "[][][o]"),
        (&["--inherit-env"], "[][][o]"),
        (&["-e", "MCPJOIN_CLIENT_SECRET"], "[***][][o]"),
        (&["-e", "MCPJOIN_INPUT_KEY=n", "--env-clean"], "[][n][]"),
    ] {
        let mut command = command(["list"]);
        command.args(options).args(["sh", "-c", script]).env("OTHER", "o");
        command.env("MCPJOIN_CLIENT_SECRET", "hunter2").env("MCPJOIN_INPUT_KEY", "hunter3");
        start(command).finish().exits(4).says(&[shown]);
    }
}

/// The clients of a listener are not its operator. They may see the variables that the server gets, so the server gets only
/// named variables of the operator.
#[test]
fn d84_a_server_behind_a_listener_gets_the_variables_that_are_named_alone() {
    let seen = scratch("listener-environment");
    let script = format!(
        "printf '[%s][%s][%s]' \"$OURS\" \"$NAMED\" \"${{PATH:+path}}\" > '{}'; exec '{}' serve demo",
        seen.display(),
        env!("CARGO_BIN_EXE_mcpjoin"),
    );
    for (listen, options, shown) in [
        ("http://127.0.0.1:0/mcp", &[][..], "[][n][path]"),
        ("http://127.0.0.1:0/mcp", &["--inherit-env"], "[ours][n][path]"),
        ("http://127.0.0.1:0/mcp", &["-e", "OURS"], "[ours][n][path]"),
        ("tcp://127.0.0.1:0", &[], "[][n][path]"),
        ("orchestra+tcp://127.0.0.1:0", &[], "[][n][path]"),
        ("orchestra+tcp://127.0.0.1:0", &["--inherit-env"], "[ours][n][path]"),
    ] {
        let mut bridge = command(["bridge", "--listen", listen, "-e", "NAMED=n"]);
        bridge.args(options).args(["sh", "-c", &script]).env("OURS", "ours");
        let mut bridge = start(bridge);
        let mut said = BufReader::new(bridge.child.stderr.take().unwrap()).lines();
        let address = said.find_map(|line| line.unwrap().strip_prefix("listening on ").map(str::to_owned));
        let address = address.unwrap();
        // An orchestrator has started its servers before it listens.
        if !listen.starts_with("orchestra") {
            run(["ping", "-n", "1", &address]).exits(0);
        }
        assert_eq!(std::fs::read_to_string(&seen).unwrap(), shown, "{listen} {options:?}");
        std::fs::remove_file(&seen).unwrap();
        bridge.signal("TERM");
        bridge.finish().exits(143);
    }
    // On standard input and output, the only client is the user who typed the command.
    let mut bridge = command(["ping", "-n", "1", "--", env!("CARGO_BIN_EXE_mcpjoin"), "bridge", "sh", "-c"]);
    bridge.arg(&script).env("OURS", "ours");
    start(bridge).finish().exits(0);
    assert_eq!(std::fs::read_to_string(&seen).unwrap(), "[ours][][path]");
}

#[test]
fn d84_an_entry_of_a_file_that_was_found_gets_the_variables_that_are_named_alone() {
    const WITHHELD: &str =
        "the program did not get all of your variables: -e NAME passes one on, --inherit-env all of them";
    let folder = Folder::new("found-environment");
    let script = "[ -n \"$PATH\" ] && P=path; echo \"[$OURS][$NAMED][$GIVEN][$P]\" >&2; exit 1";
    let server = |name: &str| {
        let server =
            serde_json::json!({ "command": "sh", "args": ["-c", script], "env": { "NAMED": "named" } });
        serde_json::json!({ "mcpServers": { name: server } }).to_string()
    };
    folder.file(".mcp.json", server("here"));
    folder.file("../.cursor/mcp.json", server("user"));
    for (words, shown, is_withheld) in [
        (&["here"][..], "[][***][][path]", true),
        (&["user"], "[][***][][path]", true),
        (&["-e", "GIVEN", "here"], "[][***][***][path]", true),
        (&["--inherit-env", "here"], "[ours][***][given][path]", false),
        (&["--inherit-env", "user"], "[ours][***][given][path]", false),
        (&["--config", ".mcp.json", "here"], "[ours][***][given][path]", false),
        (&[".mcp.json#here"], "[ours][***][given][path]", false),
        (&["--mcp-config", &server("typed"), "typed"], "[ours][***][given][path]", false),
        (&["sh", "-c", script], "[ours][][given][path]", false),
    ] {
        let mut command = folder.command(&[&["list"], words].concat());
        command.env("OURS", "ours").env("GIVEN", "given");
        let ran = start(command).finish().exits(4).says(&[shown]);
        assert_eq!(ran.stderr.contains(WITHHELD), is_withheld, "{words:?}: {}", ran.stderr);
    }
    for target in [&["doctor", "here"][..], &["doctor"]] {
        let withheld = folder.run(target).exits(1).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(withheld.contains(WITHHELD), "{withheld}");
        let inherited = folder.run(&[target, &["--inherit-env"]].concat()).stdout;
        assert!(!inherited.contains("--inherit-env"), "{inherited}");
    }
    folder.run(&["list", "--env-clean", "--inherit-env", "here"]).exits(2).says(&["cannot be used with"]);
}

#[test]
fn the_working_directory_is_the_one_that_is_asked_for() {
    run(["list", "--cwd", "/usr", "sh", "-c", "pwd >&2; exit 1"]).exits(4).says(&["stderr   /usr"]);
}

/// Lists one tool.
fn one_tool() -> String {
    legacy(
        r#"while read -r line; do case "$line" in *tools/list*)
printf '%s\n' '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"plain","description":"A tool.\nMore.","inputSchema":{"type":"object"}}]}}';;
esac; done"#,
    )
}

#[test]
fn i175_odd_terminals_change_no_word() {
    let script = one_tool();
    let expected = "Tools\n  plain  A tool.\n";
    for variables in [
        &[("COLUMNS", "1")][..],
        &[("COLUMNS", "0")],
        &[("COLUMNS", "99999999999999999999")],
        &[("TERM", "dumb")],
        &[("NO_COLOR", "1")],
        &[("LC_ALL", "C")],
        &[("LC_ALL", "tlh_KX.KOI8-R")],
    ] {
        let mut command = command(["list", "--era", "legacy", "sh", "-c", &script]);
        command.envs(variables.iter().copied());
        let ran = start(command).finish().exits(0);
        assert_eq!(ran.stdout, expected, "{variables:?}");
    }
}

#[test]
fn colours_are_there_when_asked_for_and_only_then() {
    let script = one_tool();
    let colored = |options: &[&str], variables: &[(&str, &str)]| {
        let mut command = command(["list", "--era", "legacy"]);
        command.args(options).args(["sh", "-c", &script]).envs(variables.iter().copied());
        start(command).finish().exits(0).stdout.contains('\u{1b}')
    };
    assert!(!colored(&[], &[]));
    assert!(colored(&["--color", "always"], &[]));
    assert!(colored(&["--color", "always"], &[("NO_COLOR", "1")]));
    assert!(!colored(&["--color", "never"], &[("CLICOLOR_FORCE", "1")]));
    assert!(!colored(&["--json", "--color", "always"], &[]));
}

#[test]
fn i169_a_reader_that_goes_away_ends_it_quietly() {
    // More than a pipe can hold, without a reader.
    let script = legacy(
        r#"read -r line; printf '{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"%0200000d"}]}}\n' 1; cat >/dev/null"#,
    );
    let mut running = start(command(["call", "--era", "legacy", "--force", "x", "--", "sh", "-c", &script]));
    let mut first = [0; 10];
    let mut stdout = running.child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let ran = running.finish().exits(0);
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_full_disk_is_reported_with_the_exit_code_of_the_documentation() {
    let script = one_tool();
    for words in [&["list", "-q", "--era", "legacy", "sh", "-c", &script][..], &["--help"], &["servers"]] {
        let mut command = command(words);
        command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        start(command).finish().exits(2).says(&["(E_OUTPUT)"]);
    }
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md")).unwrap();
    for (table, row) in [(run(["--help"]).stdout, "  2    "), (readme, "| 2 | ")] {
        let row = table.lines().find(|line| line.starts_with(row)).unwrap();
        assert!(row.contains("output that cannot be written"), "{row}");
    }
}

#[test]
fn i176_it_works_without_a_home() {
    let script = one_tool();
    let mut command = command(["list", "--era", "legacy", "sh", "-c", &script]);
    command.env("HOME", "/no/such/home").env_remove("XDG_CACHE_HOME").env("TMPDIR", "/no/such/folder");
    start(command).finish().exits(0);
}

#[test]
fn i171_standard_input_that_is_closed_is_no_argument() {
    let mut command = command(["call", "demo:", "echo", "-"]);
    command.stdin(Stdio::null());
    start(command).finish().exits(2).says(&["standard input is not JSON"]);
}
