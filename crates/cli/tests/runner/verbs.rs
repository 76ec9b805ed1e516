//! Tests that apply to every verb that talks to a server: one test of each kind for all verbs, so that a new verb is one line
//! here.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use super::support::{Ran, command, program, run, start};

struct Verb {
    name: &'static str,
    /// The words after the target.
    operands: &'static [&'static str],
    /// Whether the output is the same each time.
    same: bool,
}

const VERBS: [Verb; 9] = [
    Verb { name: "list", operands: &[], same: true },
    Verb { name: "info", operands: &[], same: true },
    Verb { name: "diff", operands: &["demo:full"], same: true },
    Verb { name: "call", operands: &["echo", "message=hi"], same: true },
    Verb { name: "tool", operands: &["echo"], same: true },
    Verb { name: "read", operands: &["test://static-text"], same: true },
    Verb { name: "prompt", operands: &["test_simple_prompt"], same: true },
    Verb { name: "complete", operands: &["prompt:test_prompt_with_arguments", "arg1=he"], same: true },
    Verb { name: "ping", operands: &[], same: false },
];

/// These verbs do not print a server's response: they report on a server, are placed in front of it, ask every server of
/// a configuration, or run other verbs. They have tests of their own.
const OTHERS: [&str; 5] = ["bridge", "doctor", "search", "shell", "validate"];

impl Verb {
    /// The command line for the demonstration server.
    fn demo<'a>(&self, options: &[&'a str]) -> Vec<&'a str> {
        [&[self.name], options, &["demo:full"], self.operands].concat()
    }

    /// The command line for this script.
    fn shell<'a>(&self, options: &[&'a str], script: &'a str) -> Vec<&'a str> {
        [&[self.name], options, self.operands, &["--", "sh", "-c", script]].concat()
    }
}

#[test]
fn every_verb_that_talks_to_a_server_is_here() {
    let help = run(["--help"]).exits(0).stdout;
    let verbs = help.lines().skip_while(|line| *line != "Verbs:").skip(1).take_while(|line| !line.is_empty());
    for verb in verbs.map(|line| line.split_whitespace().next().unwrap()) {
        let takes = run([verb, "--connect-timeout"]).stderr.contains("a value is required");
        let talks = takes && !OTHERS.contains(&verb);
        assert_eq!(VERBS.iter().any(|known| known.name == verb), talks, "{verb}");
    }
}

#[test]
fn i174_f23_nothing_but_the_result_is_on_standard_output_of_any_verb() {
    for verb in &VERBS {
        for json in [&[][..], &["--json"]] {
            let with = |option: &'static str| run(verb.demo(&[json, &[option][..]].concat())).exits(0).stdout;
            let (quiet, loud) = (with("-q"), with("-vv"));
            assert!(!quiet.is_empty(), "{}", verb.name);
            if verb.same {
                assert_eq!(quiet, loud, "{}", verb.name);
            }
            if !json.is_empty() {
                serde_json::from_str::<Value>(&quiet).unwrap();
                serde_json::from_str::<Value>(&loud).unwrap();
            }
        }
    }
}

#[test]
fn g5_every_verb_says_how_a_dead_server_ended() {
    let script = "echo 'no key' >&2; echo Hello; exit 7";
    for verb in &VERBS {
        let ran = run(verb.shell(&[], script)).exits(4);
        assert_eq!(ran.stdout, "", "{}", verb.name);
        ran.says(&[
            "(E_SERVER_EXITED)",
            "command  sh -c ",
            "ended    exit code 7",
            "stderr   no key",
            "stdout   Hello",
        ]);
        let ran = run(verb.shell(&["--json"], script)).exits(4);
        assert_eq!(ran.stdout, "", "{}", verb.name);
        let failure = ran.failure();
        assert_eq!(failure["status"]["code"], 7, "{failure}");
        assert_eq!(failure["stderr"][0], "no key", "{failure}");
    }
}

#[test]
fn i168_i177_no_verb_takes_times_and_sizes_that_cannot_be_meant() {
    for verb in &VERBS {
        for option in
            ["--timeout=0", "--timeout=-1", "--timeout=1e18", "--connect-timeout=0", "--max-message-size=0"]
        {
            let ran = run(verb.demo(&[option])).exits(2);
            assert_eq!(ran.stdout, "", "{} {option}", verb.name);
        }
    }
    for count in ["0", "-1", "1e18", "99999999999999999999"] {
        run(["ping", &format!("--count={count}"), "demo:"]).exits(2);
    }
}

#[test]
fn i171_i175_odd_surroundings_change_no_result_of_any_verb() {
    for verb in &VERBS {
        let plain = run(verb.demo(&["-q"])).exits(0).stdout;
        for variables in [
            &[("TERM", "dumb"), ("NO_COLOR", "1")][..],
            &[("COLUMNS", "1"), ("LC_ALL", "C")],
            &[("COLUMNS", "x"), ("LANG", "tlh_KX.KOI8-R"), ("TERM", "\u{1b}")],
        ] {
            let mut odd = command(verb.demo(&["-q"]));
            odd.envs(variables.iter().copied());
            let ran = start(odd).finish().exits(0);
            assert_eq!(ran.stderr, "", "{}", verb.name);
            if verb.same {
                assert_eq!(ran.stdout, plain, "{} {variables:?}", verb.name);
            }
        }
    }
}

/// The binary in a shell pipeline. Its own exit code is the last line on standard error.
fn piped(verb: &Verb, input: &str, reader: &str) -> Ran {
    let words: Vec<String> = verb.demo(&["-q"]).iter().map(|word| format!("'{word}'")).collect();
    let mcpjoin = env!("CARGO_BIN_EXE_mcpjoin");
    let line = format!("{{ '{mcpjoin}' {} {input}; echo \"exit $?\" >&2; }} | {reader}", words.join(" "));
    start(program("sh", ["-c", &line])).finish()
}

#[test]
fn i169_i171_every_verb_is_quiet_when_its_reader_goes_and_works_without_standard_input() {
    for verb in &VERBS {
        let ran = piped(verb, "", "true");
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", "exit 0\n"), "{}", verb.name);
        let ran = piped(verb, "<&-", "head -1");
        assert_eq!(ran.stderr, "exit 0\n", "{}", verb.name);
        assert_eq!(ran.stdout.lines().count(), 1, "{}", verb.name);
    }
}

#[test]
fn i170_f10_ctrl_c_ends_every_verb_and_leaves_nothing() {
    for verb in &VERBS {
        let hangs = "setsid sleep 1000 >/dev/null 2>&1 & echo ready >&2; cat >/dev/null";
        let mut running = start(command(verb.shell(&["-v", "--connect-timeout", "1h"], hangs)));
        let mut stderr = BufReader::with_capacity(1, running.child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert_ne!(
                stderr.read_line(&mut line).unwrap(),
                0,
                "{} ended before the server was there",
                verb.name
            );
        }
        running.child.stderr = Some(stderr.into_inner());
        running.signal("INT");
        running.finish().exits(130);
    }
}

#[test]
fn i173_names_of_every_kind_reach_the_server() {
    let long = "x".repeat(10_000);
    for name in ["two words", "a\nb", "'\"$(x)`y`", &long] {
        for verb in ["call", "prompt"] {
            let ran = run([verb, "demo:full", name]).exits(5);
            // The error code shows that the server received the request: it has no such item.
            assert!(ran.stderr.contains("-32602"), "{verb} {name}: {}", ran.stderr);
        }
        let uri = format!("test://{name}");
        let ran = run(["read", "demo:full", &uri]).exits(5);
        assert!(ran.stderr.contains("-3200") || ran.stderr.contains("-32602"), "{uri}: {}", ran.stderr);
    }
}
