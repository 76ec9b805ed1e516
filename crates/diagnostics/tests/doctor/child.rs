//! Tests of servers that are child processes: a shell script for each fault, which is the only finding, and healthy servers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::Client;
use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::session::{EraChoice, Limits, ProcessExit};
use mcpjoin::proto::{Era, Method};
use mcpjoin::transport::ChildCommand;
use mcpjoin_diagnostics::doctor::{Check, Doctor, Finding, Outcome, Phase, Report};

use crate::support::{lives, run, sh};

/// A server in shell, of the legacy era unless a part is replaced.
#[derive(Clone, Copy)]
pub(crate) struct Shell {
    /// Run before the first line is read.
    pub(crate) first: &'static str,
    /// Run for `server/discover`, `initialize` and `tools/list`; `$id` is that of the request.
    pub(crate) probe: &'static str,
    pub(crate) initialize: &'static str,
    pub(crate) list: &'static str,
    /// Run after the end of input.
    pub(crate) last: &'static str,
}

const UNKNOWN: &str = r#"say '"error":{"code":-32601,"message":"unknown"}'"#;
const OPEN: &str = r#"say '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}'"#;
const TOOLS: &str = r#"say '"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}}]}'"#;
pub(crate) const HEALTHY: Shell =
    Shell { first: ":", probe: UNKNOWN, initialize: OPEN, list: TOOLS, last: "exit 0" };

impl Shell {
    pub(crate) fn command(&self) -> ChildCommand {
        let Self { first, probe, initialize, list, last } = self;
        sh(&format!(
            r#"say() {{ printf '{{"jsonrpc":"2.0","id":%s,%s}}\n' "$id" "$1"; }}
            {first}
            while read -r line; do
                id=${{line#*'"id":'}}; id=${{id%%[,\}}]*}}
                case $line in
                    *'"server/discover"'*) {probe} ;;
                    *'"initialize"'*) {initialize} ;;
                    *'"tools/list"'*) {list} ;;
                esac
            done
            {last}"#
        ))
    }

    fn examine(&self) -> Report {
        examine(self.command())
    }
}

/// The phases of a child.
const PHASES: [Phase; 6] =
    [Phase::Resolve, Phase::Spawn, Phase::Probe, Phase::Initialize, Phase::List, Phase::ShutDown];

fn client() -> ClientBuilder {
    Client::builder("test", "1.0.0")
}

/// A client with this timeout for `initialize`, and a short one for the probe.
fn with_timeout(initialize: Duration) -> ClientBuilder {
    let mut limits = Limits::default();
    limits.probe = Duration::from_millis(200);
    limits.initialize = initialize;
    client().limits(limits)
}

fn examine(command: ChildCommand) -> Report {
    run(Doctor::new(command, client()).examine())
}

/// The one finding of that id, and no other.
#[track_caller]
fn only<'a>(report: &'a Report, id: &str, check: Check, phase: Phase) -> &'a Finding {
    let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, [id], "{report:#?}");
    let finding = &report.findings[0];
    assert_eq!((finding.check, finding.phase), (check, phase), "{finding:#?}");
    assert!(!finding.seen.is_empty() && !finding.meaning.is_empty() && !finding.advice.is_empty());
    // Every check that failed has a finding, and every finding a check.
    let failed: Vec<Check> =
        report.checks.iter().filter(|(_, outcome)| *outcome == Outcome::Failed).map(|(c, _)| *c).collect();
    assert_eq!(failed, [check]);
    let phases: Vec<Phase> = report.steps.iter().map(|step| step.phase).collect();
    assert_eq!(phases, PHASES);
    finding
}

/// An executable file with these contents, removed on drop.
pub(crate) struct Script(pub(crate) PathBuf);

impl Script {
    fn new(name: &str, text: &str) -> Self {
        Self::at(std::env::temp_dir().join(format!("mcpjoin-doctor-{name}-{}", std::process::id())), text)
    }

    pub(crate) fn at(path: PathBuf, text: &str) -> Self {
        write(&path, text);
        Self(path)
    }
}

/// Writes an executable file, in another process: a child that another test starts at that moment could inherit our open file,
/// and a file that is open for writing cannot be run.
fn write(path: &Path, text: &str) {
    let script = r#"printf %s "$2" >"$1" && chmod 755 "$1""#;
    let written = Command::new("sh").args(["-c", script, "sh"]).arg(path).arg(text).status().unwrap();
    assert!(written.success());
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn r72_a_healthy_server_has_no_fault_and_every_phase_has_its_time() {
    let began = Arc::new(Mutex::new(Vec::new()));
    let noted = began.clone();
    let doctor =
        Doctor::new(HEALTHY.command(), client()).on_phase(move |phase| noted.lock().unwrap().push(phase));
    let report = run(doctor.examine());
    assert!(report.is_healthy(), "{report:#?}");
    assert_eq!(*began.lock().unwrap(), PHASES);
    for (step, phase) in report.steps.iter().zip(PHASES) {
        assert_eq!((step.phase, step.outcome), (phase, Outcome::Passed), "{step:?}");
        assert!(step.took.is_some_and(|took| took <= report.took), "{step:?}");
    }
    assert_eq!(report.steps[2].detail, "JSON-RPC error -32601: speaks the older protocol (initialize)");
    assert_eq!(report.steps[3].detail, "shell 1, protocol 2025-11-25");
    assert_eq!(report.steps[4].detail, "2 tools");
    assert_eq!(report.steps[5].detail, "exited at the end of its input, exit code 0");
    assert_eq!((&report.lists[0].method, report.lists[0].items), (&Method::ListTools, 2));
    // The shell needs no runtime; all other checks are run.
    let not_run: Vec<Check> = report.checks_not_run().map(|(check, _)| check).collect();
    assert_eq!(not_run, [Check::Runtime]);
    assert_eq!(report.checks_run(), 15);
}

#[test]
fn only_the_legacy_era_is_examined_when_it_is_asked_for() {
    let client = client().era(EraChoice::Only(Era::Legacy));
    let report = run(Doctor::new(HEALTHY.command(), client).examine());
    assert!(report.is_healthy(), "{report:#?}");
    assert_eq!(report.steps[2].outcome, Outcome::NotRun("the older protocol was requested (--era legacy)"));
    assert!(report.checks.contains(&(Check::ProbeAnswered, Outcome::NotRun("the protocol was not probed"))));
}

const MODERN: &str = r#"say '"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}'"#;
const MODERN_TOOLS: &str = r#"say '"result":{"resultType":"complete","tools":[{"name":"a","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}'"#;

#[test]
fn an_answer_to_the_probe_decides_also_when_it_is_late() {
    let server = Shell { probe: MODERN, initialize: ":", list: MODERN_TOOLS, ..HEALTHY };
    let slow = Shell { first: "sleep 0.5", ..server };
    for report in
        [server.examine(), run(Doctor::new(slow.command(), with_timeout(Duration::from_secs(20))).examine())]
    {
        assert!(report.is_healthy(), "{report:#?}");
        let phases: Vec<Phase> = report.steps.iter().map(|step| step.phase).collect();
        assert_eq!(phases, PHASES);
        assert!(report.steps[2].detail.ends_with("protocol 2026-07-28"), "{report:#?}");
        assert_eq!(report.steps[3].outcome, Outcome::NotRun("this protocol version has no initialize"));
    }
}

#[test]
fn writing_to_standard_error_is_no_fault_and_is_shown() {
    let report = Shell { first: "echo starting >&2; echo ready >&2", ..HEALTHY }.examine();
    assert!(report.is_healthy(), "{report:#?}");
    assert_eq!(report.stderr, ["starting", "ready"]);
}

#[test]
fn a_missing_program_is_found_before_anything_is_started() {
    let report = examine(ChildCommand::new("mcpjoin-no-such-program").arg("x"));
    let finding = only(&report, "program-missing", Check::Program, Phase::Resolve);
    assert!(finding.seen.contains("mcpjoin-no-such-program") && finding.seen.contains("/bin"), "{finding:?}");
    assert_eq!(report.checks_run(), 1);
    for (program, brings) in [("npx", "Node.js"), ("uvx", "uv"), ("python", "Python")] {
        let report = examine(ChildCommand::new(program).env("PATH", "/no/such/folder"));
        let finding = only(&report, "program-missing", Check::Program, Phase::Resolve);
        assert!(finding.advice.contains(&format!("install {brings},")), "{finding:?}");
    }
    let report = examine(ChildCommand::new("./nope/server"));
    only(&report, "program-missing", Check::Program, Phase::Resolve);
}

#[test]
fn a_path_with_an_empty_entry_is_noted() {
    let report = examine(ChildCommand::new("mcpjoin-no-such-program").env("PATH", "/usr/bin::bin"));
    only(&report, "program-missing", Check::Program, Phase::Resolve);
    assert_eq!(report.notes.len(), 2, "{:?}", report.notes);
    let report = examine(HEALTHY.command().env("PATH", "/usr/bin::"));
    assert!(report.is_healthy() && report.notes.is_empty(), "a path is not searched for: {report:#?}");
}

#[test]
fn a_program_that_cannot_be_run_is_found() {
    only(&examine(ChildCommand::new("/etc/passwd")), "not-executable", Check::Program, Phase::Resolve);
    only(&examine(ChildCommand::new("/usr/bin/")), "directory", Check::Program, Phase::Resolve);
    let report = examine(HEALTHY.command().current_dir("/no/such/place"));
    only(&report, "working-directory", Check::Program, Phase::Resolve);
    let report = examine(sh("a\0b"));
    only(&report, "not-started", Check::Start, Phase::Spawn);
}

#[test]
fn a_missing_interpreter_is_named() {
    let script = Script::new("interpreter", "#!/no/such/interpreter -x\n");
    let report = examine(ChildCommand::new(&script.0));
    let finding = only(&report, "interpreter-missing", Check::Start, Phase::Spawn);
    assert!(finding.meaning.contains("/no/such/interpreter"), "{finding:?}");
}

#[test]
fn a_missing_runtime_is_named() {
    for line in
        ["#!/usr/bin/env mcpjoin-no-such-runtime", "#! /usr/bin/env -S mcpjoin-no-such-runtime --flag"]
    {
        let script = Script::new("runtime", &format!("{line}\n"));
        let report = examine(ChildCommand::new(&script.0));
        let finding = only(&report, "runtime-missing", Check::Runtime, Phase::Resolve);
        assert!(finding.advice.contains("mcpjoin-no-such-runtime"), "{finding:?}");
    }
}

#[test]
fn windows_line_ends_are_found() {
    for line in ["#!/bin/sh", "#!/usr/bin/env sh"] {
        let script = Script::new("windows", &format!("{line}\r\nexit 0\r\n"));
        let report = examine(ChildCommand::new(&script.0));
        only(&report, "windows-line-ends", Check::Runtime, Phase::Resolve);
    }
}

#[test]
fn the_interpreter_of_a_script_is_shown() {
    let script = Script::new("script", "#!/usr/bin/env sh\nexit 9\n");
    let report = examine(ChildCommand::new(&script.0));
    only(&report, "died", Check::Life, Phase::Initialize);
    let detail = &report.steps[0].detail;
    assert!(detail.contains(", run by /") && detail.ends_with("/sh"), "{detail}");
    assert!(report.checks.contains(&(Check::Runtime, Outcome::Passed)));
}

#[test]
fn a_runtime_is_asked_for_its_version() {
    // A stand-in, so that the machine needs no runtime.
    let folder = std::env::temp_dir().join(format!("mcpjoin-doctor-runtimes-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let node = folder.join("node");
    write(&node, "#!/bin/sh\necho v0.0.7\necho more\n");
    let script = Script::new("version", "#!/usr/bin/env node\n");
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let report = examine(ChildCommand::new(&script.0).env("PATH", path));
    std::fs::remove_dir_all(&folder).unwrap();
    let detail = &report.steps[0].detail;
    assert!(detail.ends_with(&format!("run by {} (v0.0.7)", node.display())), "{detail}");
}

#[test]
fn a_server_that_exits_at_once_has_its_stderr_shown() {
    let report = examine(sh("echo one >&2; echo fatal >&2; exit 7"));
    let finding = only(&report, "died", Check::Life, Phase::Initialize);
    assert_eq!(finding.evidence.exit, Some(ProcessExit::Code(7)));
    assert_eq!(finding.evidence.stderr, ["one", "fatal"]);
    let report = examine(sh("kill -9 $$"));
    let finding = only(&report, "died", Check::Life, Phase::Initialize);
    assert_eq!(finding.evidence.exit, Some(ProcessExit::Signal(9)));
    let report = examine(sh("mcpjoin-no-such-command"));
    let finding = only(&report, "command-missing", Check::Life, Phase::Initialize);
    assert_eq!(finding.evidence.exit, Some(ProcessExit::Code(127)));
    assert!(finding.seen.contains("mcpjoin-no-such-command"), "{finding:?}");
}

#[test]
fn a_silent_program_is_found() {
    let report = run(Doctor::new(sh("cat >/dev/null"), with_timeout(Duration::from_millis(200))).examine());
    only(&report, "silent", Check::Opening, Phase::Initialize);
}

#[test]
fn a_program_that_is_no_server_is_found() {
    let banners = "i=0; while [ $i -lt 40 ]; do echo banner $i; i=$((i+1)); done; cat >/dev/null";
    let report = examine(sh(banners));
    let finding = only(&report, "not-mcp", Check::Opening, Phase::Probe);
    assert_eq!(finding.evidence.stdout, ["banner 0", "banner 1", "banner 2", "banner 3", "banner 4"]);
    // Long enough for the line to arrive.
    let client = with_timeout(Duration::from_secs(2));
    let report = run(Doctor::new(sh("echo Welcome; cat >/dev/null"), client).examine());
    let finding = only(&report, "not-mcp", Check::Opening, Phase::Initialize);
    assert_eq!(finding.evidence.stdout, ["Welcome"]);
}

#[test]
fn noise_before_the_first_message_is_found() {
    let report = Shell { first: "echo banner; echo '{\"level\":\"info\"}'", ..HEALTHY }.examine();
    let finding = only(&report, "stdout-noise", Check::Output, Phase::Initialize);
    assert_eq!(finding.evidence.stdout, ["banner", r#"{"level":"info"}"#]);
    assert_eq!(report.lists.len(), 1);
}

#[test]
fn noise_in_the_conversation_is_found() {
    let list = r#"echo listing; say '"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}'"#;
    let report = Shell { list, ..HEALTHY }.examine();
    let finding = only(&report, "stdout-noise", Check::Output, Phase::List);
    assert_eq!(finding.evidence.stdout, ["listing"]);
}

#[test]
fn a_byte_order_mark_is_found() {
    let report = Shell { first: r"printf '\357\273\277'", ..HEALTHY }.examine();
    only(&report, "byte-order-mark", Check::ByteOrderMark, Phase::Initialize);
}

#[test]
fn a_broken_rule_is_found() {
    let list = r#"printf '{"jsonrpc":"2.0","id":99,"result":{}}\n'; say '"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}'"#;
    let report = Shell { list, ..HEALTHY }.examine();
    let finding = only(&report, "violations", Check::Rules, Phase::List);
    assert_eq!(finding.evidence.violations.len(), 1);
    assert!(finding.seen.contains("request 99"), "{finding:?}");
}

#[test]
fn a_server_that_is_mute_until_initialize_is_found() {
    let client = with_timeout(Duration::from_secs(20));
    let report = run(Doctor::new(Shell { probe: ":", ..HEALTHY }.command(), client).examine());
    only(&report, "mute", Check::ProbeAnswered, Phase::Probe);
    assert!(report.steps[2].took.is_some_and(|took| took >= Duration::from_millis(200)), "{report:#?}");
}

#[test]
fn a_server_that_exits_at_the_probe_is_found() {
    let report = Shell { probe: "exit 1", ..HEALTHY }.examine();
    only(&report, "probe-fatal", Check::ProbeSurvived, Phase::Probe);
    assert_eq!(report.steps[2].detail, "the server exited, and was started a second time");
}

#[test]
fn a_slow_start_is_found() {
    let command = Shell { first: "sleep 0.3", ..HEALTHY }.command();
    let report = run(Doctor::new(command, client()).slow_start(Duration::from_millis(200)).examine());
    only(&report, "slow-start", Check::Speed, Phase::Initialize);
}

#[test]
fn a_server_that_does_not_agree_is_found() {
    let refuses = r#"say '"error":{"code":-32000,"message":"no key"}'"#;
    let report = Shell { initialize: refuses, ..HEALTHY }.examine();
    let finding = only(&report, "refused", Check::Opening, Phase::Initialize);
    assert_eq!(finding.evidence.error.as_ref().map(|error| &*error.message), Some("no key"));
    let other = r#"say '"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}'"#;
    only(&Shell { initialize: other, ..HEALTHY }.examine(), "version", Check::Opening, Phase::Initialize);
    let nothing = r#"say '"result":{}'"#;
    only(&Shell { initialize: nothing, ..HEALTHY }.examine(), "bad-reply", Check::Opening, Phase::Initialize);
}

#[test]
fn a_program_that_echoes_its_input_is_found() {
    only(&run(Doctor::new(sh("exec cat"), client()).examine()), "echo", Check::Opening, Phase::Probe);
}

#[test]
fn a_response_with_another_id_is_found() {
    // A number that comes back as a string, and one that is always the same.
    for (id, given) in [("id=\\\"$id\\\"", r#""2""#), ("id=7000", "7000")] {
        let probe = format!("{id}; {UNKNOWN}").leak();
        let initialize = format!("{id}; {OPEN}").leak();
        let server = Shell { probe, initialize, ..HEALTHY };
        let report = run(Doctor::new(server.command(), with_timeout(Duration::from_secs(2))).examine());
        let finding = only(&report, "other-id", Check::Opening, Phase::Initialize);
        assert!(finding.seen.contains(&format!("the unknown id {given}")), "{finding:?}");
    }
    // The same after the opening. The request has a minute.
    let list = format!("id=7000; {TOOLS}").leak();
    let report = Shell { list, ..HEALTHY }.examine();
    let list = report.steps.iter().find(|step| step.phase == Phase::List).and_then(|step| step.took);
    assert!(list.is_some_and(|took| took < Duration::from_secs(30)), "{list:?}");
    let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, ["list-unanswered", "violations"], "{report:#?}");
    assert!(report.findings[0].seen.contains("one has the unknown id 7000"), "{report:#?}");
}

#[test]
fn messages_in_a_wrong_encoding_are_no_noise() {
    const INDENTED: &str =
        r#"printf '{\n  "jsonrpc": "2.0",\n  "id": %s,\n  "result": {"tools": []}\n}\n' "$id""#;
    const MARKED: &str = r#"printf '\357\273\277{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}\n' "$id""#;
    let limits = Limits::default();
    for (how, id, check) in
        [(INDENTED, "several-lines", Check::Output), (MARKED, "byte-order-mark", Check::ByteOrderMark)]
    {
        // In the opening and in the conversation.
        let server = Shell { initialize: how, ..HEALTHY };
        let report = run(Doctor::new(server.command(), with_timeout(Duration::from_secs(2))).examine());
        let finding = only(&report, id, check, Phase::Initialize);
        assert!(!finding.evidence.stdout.is_empty(), "{finding:?}");
        let patient = client().limits(limits.clone());
        let report = run(Doctor::new(Shell { list: how, ..HEALTHY }.command(), patient).examine());
        let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id).collect();
        assert_eq!(ids, ["list-unanswered", id], "{report:#?}");
        // An unreadable response ends the wait: the timeout of a request, a minute, is longer than this test may take.
        assert!(report.findings[0].seen.contains("the response is not a message"), "{report:#?}");
    }
    // An indented log is noise.
    let log = Shell { first: r#"printf '{\n  "level": "info"\n}\n'"#, ..HEALTHY };
    only(&log.examine(), "stdout-noise", Check::Output, Phase::Initialize);
}

#[test]
fn text_in_another_encoding_is_found() {
    const LITTLE: &str = r#"printf '{"jsonrpc":"2.0","id":1,"result":{}}\n' | iconv -t UTF-16LE"#;
    const BIG: &str = r#"printf '{"jsonrpc":"2.0","id":1,"result":{}}\n' | iconv -t UTF-16BE"#;
    const WIDE: &str = r#"printf '{"jsonrpc":"2.0","id":1,"result":{}}\n' | iconv -t UTF-32LE"#;
    for (encoding, initialize) in [("UTF-16LE", LITTLE), ("UTF-16BE", BIG), ("UTF-32LE", WIDE)] {
        let server = Shell { initialize, ..HEALTHY };
        let report = run(Doctor::new(server.command(), with_timeout(Duration::from_secs(2))).examine());
        let finding = only(&report, "encoding", Check::Output, Phase::Initialize);
        assert_eq!(finding.seen, format!("the output of the server is {encoding}"));
    }
}

#[test]
fn a_list_that_cannot_be_read_is_found() {
    let refuses = r#"say '"error":{"code":-32603,"message":"out of order"}'"#;
    let report = Shell { list: refuses, ..HEALTHY }.examine();
    let finding = only(&report, "list-refused", Check::Lists, Phase::List);
    assert!(finding.seen.contains("tools/list") && finding.seen.contains("out of order"), "{finding:?}");
    let invalid = r#"say '"result":{"tools":[{"title":"no name"}]}'"#;
    only(&Shell { list: invalid, ..HEALTHY }.examine(), "list-invalid", Check::Lists, Phase::List);
    let mut limits = Limits::default();
    limits.request = Duration::from_millis(200);
    let doctor = Doctor::new(Shell { list: ":", ..HEALTHY }.command(), client().limits(limits));
    only(&run(doctor.examine()), "list-unanswered", Check::Lists, Phase::List);
    let mut limits = Limits::default();
    limits.message = 1000;
    let long = r#"say "\"result\":{\"tools\":[{\"name\":\"$(printf %1000s)\"}]}""#;
    let doctor = Doctor::new(Shell { list: long, ..HEALTHY }.command(), client().limits(limits));
    only(&run(doctor.examine()), "list-too-large", Check::Lists, Phase::List);
}

#[test]
fn a_server_that_exits_in_the_conversation_is_found() {
    let report = Shell { list: "echo 'no more' >&2; exit 4", ..HEALTHY }.examine();
    let finding = only(&report, "died", Check::Life, Phase::List);
    assert_eq!(finding.evidence.exit, Some(ProcessExit::Code(4)));
    assert_eq!(finding.evidence.stderr, ["no more"]);
    assert_eq!(report.steps[5].outcome, Outcome::NotRun("the server has exited"));
    // A server that exits with 0 was a server until then.
    let report = Shell { list: "exit 0", ..HEALTHY }.examine();
    let finding = only(&report, "died", Check::Life, Phase::List);
    assert!(finding.meaning.contains("main function"), "{finding:?}");
    assert!(!finding.advice.contains("option that serves MCP"), "{finding:?}");
}

#[test]
fn each_step_is_reported_at_once() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let noted = told.clone();
    let doctor = Doctor::new(HEALTHY.command(), client())
        .on_step(move |step| noted.lock().unwrap().push(step.clone()));
    let report = run(doctor.examine());
    assert_eq!(*told.lock().unwrap(), report.steps);
}

#[test]
fn a_value_of_a_wrong_type_is_named_as_in_json() {
    let null = r#"say '"result":{"protocolVersion":null,"capabilities":{},"serverInfo":{"name":"x","version":"1"}}'"#;
    let report = Shell { initialize: null, ..HEALTHY }.examine();
    let finding = only(&report, "bad-reply", Check::Opening, Phase::Initialize);
    assert!(finding.seen.contains("protocolVersion: invalid type: null, expected"), "{finding:?}");
}

#[test]
fn a_server_with_nothing_to_offer_is_found() {
    let report = Shell { list: r#"say '"result":{"tools":[]}'"#, ..HEALTHY }.examine();
    only(&report, "no-tools", Check::Offer, Phase::List);
    let bare = r#"say '"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}'"#;
    only(&Shell { initialize: bare, ..HEALTHY }.examine(), "nothing-offered", Check::Offer, Phase::List);
}

#[test]
fn a_server_that_ignores_the_end_of_its_input_is_found() {
    let soon = Duration::from_millis(100);
    let deaf = Shell { last: "exec sleep 1000", ..HEALTHY }.command().shutdown(soon, Duration::from_secs(5));
    let report = examine(deaf);
    let finding = only(&report, "deaf", Check::EndOfInput, Phase::ShutDown);
    assert!(finding.seen.ends_with("but on SIGTERM"), "{finding:?}");
    assert_eq!(report.steps[5].detail, "exited on SIGTERM, signal 15");

    let stubborn = Shell { first: "trap '' TERM", last: "exec sleep 1000", ..HEALTHY };
    let report = examine(stubborn.command().shutdown(soon, soon));
    let finding = only(&report, "deaf", Check::EndOfInput, Phase::ShutDown);
    assert!(finding.seen.ends_with("but on SIGKILL"), "{finding:?}");
}

#[test]
fn a_process_that_is_left_behind_is_found_and_ended() {
    let first = "sleep 1000 </dev/null >/dev/null 2>&1 &";
    let report = Shell { first, ..HEALTHY }.examine();
    let finding = only(&report, "left-behind", Check::Family, Phase::ShutDown);
    let [process] = &finding.evidence.processes[..] else { unreachable!("{finding:?}") };
    assert!(!lives(process.pid), "{process:?}");
}

#[test]
fn an_exit_status_that_is_not_0_is_found() {
    let report = Shell { last: "echo 'cannot save' >&2; exit 3", ..HEALTHY }.examine();
    let finding = only(&report, "exit-status", Check::ExitStatus, Phase::ShutDown);
    assert_eq!(finding.evidence.exit, Some(ProcessExit::Code(3)));
    assert_eq!(finding.evidence.stderr, ["cannot save"]);
    assert_eq!(finding.advice, "fix the error shown in stderr");

    let report = Shell { last: "exit 3", ..HEALTHY }.examine();
    let finding = only(&report, "exit-status", Check::ExitStatus, Phase::ShutDown);
    assert!(finding.evidence.stderr.is_empty() && !finding.advice.contains("stderr"), "{finding:#?}");
}

#[test]
fn several_faults_are_several_findings() {
    let report = Shell { first: "echo banner", last: "exit 3", ..HEALTHY }.examine();
    let ids: Vec<&str> = report.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(ids, ["exit-status", "stdout-noise"], "{report:#?}");
}

#[test]
fn an_examination_that_is_dropped_leaves_no_process() {
    run(async {
        let command = sh("exec sleep 1000");
        let handle = command.handle();
        let (reached, probe) = tokio::sync::oneshot::channel();
        let reached = Mutex::new(Some(reached));
        let doctor = Doctor::new(command, client()).on_phase(move |phase| {
            if phase == Phase::Probe {
                let _ = reached.lock().unwrap().take().map(|reached| reached.send(()));
            }
        });
        tokio::select! {
            report = doctor.examine() => unreachable!("{report:?}"),
            _ = probe => {}
        }
        let pid = handle.pid().unwrap();
        handle.ended().await;
        assert!(!lives(pid));
    });
}

/// The errors that users report most. The server's own lines are shown with the finding.
#[test]
fn well_known_errors_on_stderr_are_recognised() {
    for (words, id, advised) in [
        ("Error: listen EADDRINUSE: address already in use :::3000", "port-in-use", "ss -ltnp"),
        ("OSError: [Errno 98] Address already in use", "port-in-use", "ss -ltnp"),
        ("ModuleNotFoundError: No module named 'mcp'", "module-missing", "environment"),
        ("Error: Cannot find module '/x/dist/index.js'", "module-missing", "install"),
    ] {
        let report = examine(sh("echo \"$1\" >&2; exit 1").arg("sh").arg(words));
        let finding = only(&report, id, Check::Life, Phase::Initialize);
        assert_eq!(finding.evidence.stderr, [words]);
        assert!(finding.advice.contains(advised), "{finding:?}");
    }
    let report = examine(sh("kill -SEGV $$"));
    let finding = only(&report, "died", Check::Life, Phase::Initialize);
    assert!(finding.meaning.contains("SIGSEGV"), "{finding:?}");
}

#[test]
fn a_program_that_listens_on_a_port_is_not_silent() {
    let says =
        "echo 'INFO: Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)' >&2; cat >/dev/null";
    let report = run(Doctor::new(sh(says), with_timeout(Duration::from_secs(1))).examine());
    let finding = only(&report, "listens-elsewhere", Check::Opening, Phase::Initialize);
    assert!(finding.advice.contains("http://127.0.0.1:8000"), "{finding:?}");
    // A URL in another line is not where it listens.
    let says = "echo 'fetching http://example.com/list' >&2; cat >/dev/null";
    let report = run(Doctor::new(sh(says), with_timeout(Duration::from_secs(1))).examine());
    only(&report, "silent", Check::Opening, Phase::Initialize);
}
