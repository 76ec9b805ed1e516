//! A server that is a child process: the program and its interpreter, its start, and its exit.
//!
//! Called by [`Doctor::examine`](super::Doctor::examine). The program is looked up as the child will see it: a script's first
//! line as the system reads it (execve(2), "Interpreter scripts"), and `env` in it as env(1) reads its words. Only
//! well-known runtimes are run, with `--version`.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio>

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcpjoin_proto::session::{CloseCause, NegotiationFailure, ProcessExit, TransportEnd, TransportEndKind};

use super::diagnosis;
use super::environment::version_manager;
use super::examination::{EXITED, Examination, counted};
use super::findings::*;
use super::report::{Check, Finding, Outcome, Phase, Transport};
use super::stderr_patterns::last_lines;
use mcpjoin::client::{Client, ClientBuilder};
use mcpjoin::transport::{ChildCommand, ChildHandle, Forced, ShutdownReport, SpawnError, SpawnErrorKind};

/// How much of a script's first line the system reads (Linux since 5.1).
const MAX_FIRST_LINE_BYTES: u64 = 256;
/// How long a runtime may take to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// From SIGTERM to SIGKILL for a runtime that does not print its version in time.
const VERSION_KILL_AFTER: Duration = Duration::from_millis(500);
/// Characters of a version that are shown.
const MAX_VERSION_CHARS: usize = 80;
/// The folders of `PATH` that a finding names.
const MAX_SHOWN_FOLDERS: usize = 6;
/// Runtimes that print their version with `--version`, and do nothing else then.
const RUNTIMES: [&str; 9] = ["node", "nodejs", "bun", "deno", "ruby", "php", "uv", "uvx", "pipx"];

/// Added to the end of a program whose last message was complete.
const LAST_WITHOUT_NEWLINE: &str = "; its last message had no newline at its end";

/// Runs all phases.
pub(super) async fn examine(exam: &mut Examination, command: ChildCommand, client: ClientBuilder) {
    let handle = command.handle();
    exam.begin(Phase::Resolve);
    exam.report.notes = notes(&command);
    let program = match Program::resolve(&command).await {
        Ok(program) => program,
        Err(finding) => {
            if finding.check == Check::Runtime {
                exam.pass([Check::Program]);
            }
            return exam.fail(*finding);
        }
    };
    exam.pass([Check::Program]);
    if program.runtime.is_none() && program.interpreter.is_none() {
        exam.not_run([Check::Runtime], "the program needs no runtime");
    } else {
        // The start shows whether an interpreter that is named by its path exists.
        exam.pass([Check::Runtime]);
    }
    exam.end(program.detail());

    exam.begin(Phase::Spawn);
    let began = exam.since;
    exam.fetches = is_fetched(&command);
    let lacks_input = is_container_without_input(&command);
    let link = match command.start().await {
        Ok(link) => link,
        Err(error) => {
            let interpreter = program.interpreter.as_deref();
            return exam.fail(not_started(Phase::Spawn, &error, interpreter));
        }
    };
    exam.pass([Check::Start]);
    let pid = handle.pid();
    exam.end(pid.map_or_else(String::new, |pid| format!("process {pid}")));

    match exam.open(link, client, began, Some((&handle, pid))).await {
        Ok(client) => {
            exam.read_lists(&client).await;
            let unfinished = handle.unfinished_line();
            if !unfinished.is_empty() {
                let unanswered = exam.findings_of(&LIST_TIMED_OUT);
                unanswered.for_each(|finding| has_no_newline(finding, &LIST_NO_NEWLINE, &unfinished));
            }
            shut_down(exam, client, &handle).await;
            if !handle.unfinished_line().is_empty() {
                let died = exam.findings_of(&RETURNED_EARLY);
                died.for_each(|finding| finding.seen.push_str(LAST_WITHOUT_NEWLINE));
            }
            exam.add_violations();
        }
        Err(cause) => {
            let observed = exam.observer.observed();
            let phase = exam.phase;
            let mut finding = diagnosis::child_not_opened(phase, &cause, &observed, &handle.stderr());
            let unfinished = handle.unfinished_line();
            if finding.id == PROGRAM_SILENT.id && !unfinished.is_empty() {
                has_no_newline(&mut finding, &NO_NEWLINE, &unfinished);
            } else if finding.id == NO_SERVER.id && !unfinished.is_empty() && !is_cut_off(&cause) {
                finding.seen.push_str(LAST_WITHOUT_NEWLINE);
            }
            if finding.id == NO_SERVER.id && lacks_input {
                finding.becomes(&DOCKER_WITHOUT_INPUT, &[]);
            } else if finding.check == Check::Life
                && let Some(system) = foreign_system(&program.file)
            {
                // A shell has tried to read it as a script.
                finding.seen = format!("{} is a program for {system}", program.file.display());
                finding.becomes(&EXEC_FORMAT, &[]);
            }
            exam.fail(finding);
        }
    }
    exam.report.stderr = last_lines(&handle.stderr());
}

/// Whether the output of the program ended in a message, which is another fault than a message without a newline.
const fn is_cut_off(cause: &CloseCause) -> bool {
    let (CloseCause::Link(end) | CloseCause::Opening(NegotiationFailure::Ended { last: end, .. })) = cause
    else {
        return false;
    };
    matches!(end.kind, TransportEndKind::CutOff { .. })
}

/// The program has written a message, but no newline behind it.
fn has_no_newline(finding: &mut Finding, kind: &Kind<Check>, text: &[u8]) {
    finding.seen.push_str("; the program has written a text without a newline at its end");
    finding.evidence.stdout = last_lines(text);
    finding.becomes(kind, &[]);
}

/// A program and its interpreter.
struct Program {
    file: PathBuf,
    /// The interpreter in its first line, as it is written there.
    interpreter: Option<PathBuf>,
    /// The file of the interpreter that `env` finds.
    runtime: Option<PathBuf>,
    /// The version that the runtime prints.
    version: Option<String>,
}

impl Program {
    /// Finds the program of the command.
    async fn resolve(command: &ChildCommand) -> Result<Self, Box<Finding>> {
        let spec = command.spec();
        let missing = |kind| {
            let finding = command_line(command);
            Box::new(finding.unwrap_or_else(|| not_started(Phase::Resolve, &spec.error(kind), None)))
        };
        let file = spec.resolve().map_err(missing)?;
        let mut program = Self { file, interpreter: None, runtime: None, version: None };
        if let Some(line) = first_line(&program.file) {
            program.find_interpreter(command, &line)?;
        }
        let runtime = match (&program.runtime, &program.interpreter) {
            (Some(runtime), _) => Some(runtime),
            (None, None) => Some(&program.file),
            (None, Some(interpreter)) => Some(interpreter).filter(|interpreter| interpreter.exists()),
        };
        if let Some(runtime) = runtime.filter(|runtime| prints_version(runtime)) {
            program.version = version(command, runtime).await;
        }
        Ok(program)
    }

    /// Finds the interpreter of a script, by its first line.
    fn find_interpreter(&mut self, command: &ChildCommand, line: &[u8]) -> Result<(), Box<Finding>> {
        let has_carriage_return = line.ends_with(b"\r");
        let mut words = line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
        let Some(interpreter) = words.next().map(|word| PathBuf::from(OsStr::from_bytes(word))) else {
            return Ok(());
        };
        let arguments: Vec<&[u8]> = words.collect();
        let is_env = interpreter.file_name() == Some(OsStr::new("env"));
        let file = self.file.display();
        if has_carriage_return && (arguments.is_empty() || is_env) {
            let seen = format!("the first line of {file} ends with a carriage return");
            return Err(Box::new(WINDOWS_LINE_ENDS.at(Phase::Resolve, seen)));
        }
        self.interpreter = Some(interpreter);
        let name = arguments.iter().find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
        if let Some(name) = name.filter(|_| is_env) {
            let runtime = command.beside(OsStr::from_bytes(name), "--version");
            let found = runtime.spec().resolve();
            self.runtime = Some(found.map_err(|kind| {
                let (kind, name) = (command.spec().error(kind).kind, String::from_utf8_lossy(name));
                let seen = format!("{file} needs {name}, which cannot be run: {kind}");
                let runtime = ("runtime", product_of(&name).unwrap_or(&name));
                Box::new(RUNTIME_MISSING.with(Phase::Resolve, seen, &[runtime]))
            })?);
        }
        Ok(())
    }

    /// The file, the target of its link, and its runtime, in one line.
    fn detail(&self) -> String {
        let mut detail = self.file.display().to_string();
        if let Some(real) = self.file.canonicalize().ok().filter(|real| *real != self.file) {
            detail += &format!(" -> {}", real.display());
        }
        let runtime = self.runtime.as_deref();
        if let Some(manager) = version_manager(&self.file).or_else(|| runtime.and_then(version_manager)) {
            detail += &format!(" ({manager})");
        }
        if let Some(runtime) = runtime.or(self.interpreter.as_deref()) {
            detail += &format!(", run by {}", runtime.display());
        }
        if let Some(version) = &self.version {
            detail += &format!(" ({version})");
        }
        detail
    }
}

/// The first line of a script, after its `#!`; `None` for another file.
fn first_line(file: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(file).ok()?.take(MAX_FIRST_LINE_BYTES).read_to_end(&mut bytes).ok()?;
    let line = bytes.strip_prefix(b"#!")?;
    let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
    Some(line[..end].to_vec())
}

fn prints_version(runtime: &Path) -> bool {
    let name = runtime.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let python = name.strip_prefix("python");
    RUNTIMES.contains(&name)
        || python.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// The first line that a runtime prints when it is run with `--version`.
async fn version(command: &ChildCommand, runtime: &Path) -> Option<String> {
    // A relative path counts from the working directory of the command, where it was found.
    let runtime = std::path::absolute(runtime).ok()?;
    let asked = command.beside(runtime, "--version").shutdown(Duration::ZERO, VERSION_KILL_AFTER);
    let output = asked.output(VERSION_TIMEOUT).await.ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line: String = text.lines().next()?.trim().chars().take(MAX_VERSION_CHARS).collect();
    (!output.timed_out && !line.is_empty()).then_some(line)
}

/// The notes about the `PATH` in which the program is looked for.
fn notes(command: &ChildCommand) -> Vec<String> {
    let spec = command.spec();
    if spec.program.as_bytes().contains(&b'/') {
        return Vec::new();
    }
    let Some(path) = spec.variable("PATH").map(OsStringExt::into_vec) else {
        return vec![
            "PATH is missing in the server's environment: programs are searched in /bin and \
            /usr/bin"
                .to_owned(),
        ];
    };
    let mut notes = Vec::new();
    let entries = || path.split(|byte| *byte == b':');
    if entries().any(<[u8]>::is_empty) {
        notes.push(
            "PATH has an empty entry, which is the working directory for other programs; mcpjoin skips it"
                .to_owned(),
        );
    }
    if entries().any(|entry| !entry.is_empty() && entry[0] != b'/') {
        notes.push(
            "PATH has a relative entry: the programs found there depend on the working directory".to_owned(),
        );
    }
    notes
}

/// The program cannot be started. `interpreter`: the one in its first line.
fn not_started(phase: Phase, error: &SpawnError, interpreter: Option<&Path>) -> Finding {
    let shown = interpreter.map(|path| path.display().to_string());
    let kind = match &error.kind {
        SpawnErrorKind::NotFound { searched } if searched.is_empty() => PROGRAM_PATH_MISSING,
        SpawnErrorKind::NotFound { .. } => match product_of(&error.command) {
            Some("Node.js") => NODE_MISSING,
            Some("uv") => UV_MISSING,
            Some("Python") => PYTHON_MISSING,
            _ => PROGRAM_MISSING,
        },
        SpawnErrorKind::NotExecutable { .. } => NOT_EXECUTABLE,
        SpawnErrorKind::IsDirectory { .. } => DIRECTORY,
        SpawnErrorKind::WorkingDirectory { .. } => WORKING_DIRECTORY,
        SpawnErrorKind::NoInterpreter { .. } if shown.is_some() => INTERPRETER_MISSING,
        SpawnErrorKind::NoInterpreter { .. } => LOADER_MISSING,
        SpawnErrorKind::System(error) if is_exec_format(error) => EXEC_FORMAT,
        _ => NOT_STARTED,
    };
    let seen = match &error.kind {
        SpawnErrorKind::NotFound { searched } if searched.len() > MAX_SHOWN_FOLDERS => {
            let (shown, others) = searched.split_at(MAX_SHOWN_FOLDERS);
            let shown: Vec<_> = shown.iter().map(|folder| folder.display().to_string()).collect();
            let (program, shown, more) = (&error.command, shown.join(", "), others.len());
            format!("cannot start {program}: no such program; searched in {shown} and {more} more")
        }
        _ => error.to_string(),
    };
    kind.with(phase, seen, &[("interpreter", shown.as_deref().unwrap_or_default())])
}

/// The system for which a file was built, where it is no script and not for this one. By its first bytes: ELF (with the
/// processor in bytes 18 and 19), Mach-O, PE.
fn foreign_system(file: &Path) -> Option<&'static str> {
    /// The processors of the programs that this one can run, by the table of ELF.
    const RUNNABLE: &[u16] = if cfg!(target_arch = "x86_64") {
        &[62, 3]
    } else if cfg!(target_arch = "aarch64") {
        &[183, 40]
    } else {
        &[]
    };
    let mut head = [0; 20];
    let read = std::fs::File::open(file).ok()?.read(&mut head).ok()?;
    let machine = u16::from_le_bytes([head[18], head[19]]);
    match &head[..read] {
        [0x7F, b'E', b'L', b'F', ..] if cfg!(target_os = "linux") => {
            (!RUNNABLE.is_empty() && !RUNNABLE.contains(&machine)).then_some("another processor")
        }
        [b'M', b'Z', ..] => Some("Windows"),
        [0xCF | 0xCE, 0xFA, 0xED, 0xFE, ..] if !cfg!(target_os = "macos") => Some("macOS"),
        _ => None,
    }
}

fn is_exec_format(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error())
}

/// The finding of a command that is a whole command line, of which the first word is a program.
fn command_line(command: &ChildCommand) -> Option<Finding> {
    let program = command.spec().program.to_str()?;
    let (first, rest) = program.split_once(char::is_whitespace)?;
    command.beside(first, "--version").spec().resolve().ok()?;
    let args: Vec<String> = rest.split_whitespace().map(|word| format!("{word:?}")).collect();
    let values = [("first", first), ("rest", rest.trim()), ("args", &args.join(", "))];
    Some(COMMAND_LINE.with(Phase::Resolve, format!("no program is called \"{program}\""), &values))
}

/// Whether the program is one that runs a package of a registry.
fn is_fetched(command: &ChildCommand) -> bool {
    let spec = command.spec();
    let name = Path::new(&spec.program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let verb = spec.args.first().and_then(|verb| verb.to_str()).unwrap_or_default();
    matches!(name, "npx" | "uvx" | "bunx" | "pnpx")
        || matches!(
            (name, verb),
            ("npm", "exec") | ("pnpm" | "yarn", "dlx") | ("uv", "tool") | ("pipx", "run")
        )
}

/// Whether a container is started without standard input: its program ends at once, mostly with exit code 0.
fn is_container_without_input(command: &ChildCommand) -> bool {
    let spec = command.spec();
    let name = Path::new(&spec.program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let mut args = spec.args.iter().map(|arg| arg.to_string_lossy());
    let is_interactive = |arg: &str| {
        let is_short = arg.starts_with('-') && !arg.starts_with("--") && arg.len() <= 4;
        arg.starts_with("--interactive") || is_short && arg.contains('i')
    };
    matches!(name, "docker" | "podman")
        && args.next().is_some_and(|verb| verb == "run")
        && !args.any(|arg| is_interactive(&arg))
}

/// The product that a well-known program comes with.
fn product_of(program: &str) -> Option<&'static str> {
    match program {
        "node" | "nodejs" | "npm" | "npx" => Some("Node.js"),
        "uv" | "uvx" => Some("uv"),
        "python" | "python3" | "pip" => Some("Python"),
        _ => None,
    }
}

/// Closes the standard input of the child and waits for its exit.
async fn shut_down(exam: &mut Examination, client: Client, handle: &ChildHandle) {
    // A child that exited did so before its input is closed, even if no request has failed because of it.
    let noticed = exam.has_failed(Check::Life);
    let exited = noticed || !handle.is_running();
    exam.begin(Phase::ShutDown);
    client.close().await;
    drop(client);
    let report = handle.ended().await.unwrap_or_default();
    // Findings quote the text that it writes at its exit.
    handle.stderr_read().await;
    let checks = [Check::EndOfInput, Check::ExitStatus, Check::Family];
    if exited {
        if !noticed {
            let kind = TransportEndKind::EndOfStream;
            let end = TransportEnd { kind, exit: report.exit, stderr: handle.stderr() };
            exam.add(diagnosis::ended(Transport::Child, Phase::ShutDown, &end));
        }
        exam.not_run(checks, EXITED);
        return exam.skip(Phase::ShutDown, EXITED);
    }
    exam.pass([Check::Life]);
    exam.pass(checks);
    if !report.complete {
        exam.not_run([Check::Family], "this system does not show every process");
    }
    if report.forced != Forced::No {
        exam.not_run([Check::ExitStatus], "the server was killed by a signal");
    }
    let findings = exit_findings(&report, &handle.stderr());
    let outcome = if findings.is_empty() { Outcome::Passed } else { Outcome::Failed };
    findings.into_iter().for_each(|finding| exam.add(finding));
    let how = match report.forced {
        Forced::No => "exited at the end of its input",
        Forced::Terminated => "exited on SIGTERM",
        _ => "killed with SIGKILL",
    };
    let detail = report.exit.map_or_else(|| how.to_owned(), |exit| format!("{how}, {exit}"));
    exam.step(outcome, exam.since, tokio::time::Instant::now(), detail);
}

/// The faults in the exit of a child after its input was closed.
fn exit_findings(report: &ShutdownReport, stderr: &[u8]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if report.forced == Forced::No {
        if let Some(exit) = report.exit.filter(|exit| *exit != ProcessExit::Code(0)) {
            let seen = format!("the server ended with {exit} at the end of its standard input");
            let stderr = last_lines(stderr);
            let kind = if stderr.is_empty() { EXIT_STATUS_SILENTLY } else { EXIT_STATUS };
            let mut finding = kind.at(Phase::ShutDown, seen);
            finding.evidence.exit = report.exit;
            finding.evidence.stderr = stderr;
            findings.push(finding);
        }
        if !report.left_behind.is_empty() {
            let count = counted(report.left_behind.len(), "process");
            let mut finding =
                LEFT_BEHIND.at(Phase::ShutDown, format!("the server exited and left {count} running"));
            finding.evidence.processes.clone_from(&report.left_behind);
            findings.push(finding);
        }
    } else {
        let (what, how) = match report.forced {
            Forced::Killed => ("neither at the end of its standard input nor on SIGTERM", "SIGKILL"),
            _ => ("not at the end of its standard input", "SIGTERM"),
        };
        findings.push(DEAF.at(Phase::ShutDown, format!("the server exited {what}, but on {how}")));
    }
    if !report.survivors.is_empty() {
        let count = counted(report.survivors.len(), "process");
        let mut finding = SURVIVORS.at(Phase::ShutDown, format!("{count} could not be killed"));
        finding.evidence.processes.clone_from(&report.survivors);
        findings.push(finding);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{ChildCommand, is_container_without_input, is_fetched};

    fn command(line: &str) -> ChildCommand {
        let mut words = line.split(' ');
        let program = ChildCommand::new(words.next().unwrap_or_default());
        words.fold(program, |command, word| command.arg(word))
    }

    #[test]
    fn programs_that_fetch_a_package_are_known() {
        for line in [
            "npx -y pkg",
            "/usr/bin/uvx pkg",
            "npm exec pkg",
            "pnpm dlx pkg",
            "uv tool run pkg",
            "pipx run pkg",
        ] {
            assert!(is_fetched(&command(line)), "{line}");
        }
        for line in ["node x.js", "uv run x", "npm start", "/opt/npx-server", "sh -c npx"] {
            assert!(!is_fetched(&command(line)), "{line}");
        }
    }

    #[test]
    fn a_container_has_input_with_i_in_any_form() {
        for line in ["docker run --rm x", "podman run -e A=B x", "/usr/bin/docker run x --init"] {
            assert!(is_container_without_input(&command(line)), "{line}");
        }
        for line in [
            "docker run -i x",
            "docker run -it x",
            "docker run --rm --interactive x",
            "docker ps",
            "sh run x",
        ] {
            assert!(!is_container_without_input(&command(line)), "{line}");
        }
    }
}
