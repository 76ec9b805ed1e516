//! From what went wrong to findings: what it means, and one thing to do.

use std::path::Path;
use std::time::Duration;

use mcpjoin_proto::scan::Encoding;
use mcpjoin_proto::session::{
    CallError, CloseCause, LinkEnd, LinkEndKind, OpeningFailure, ProcessExit, foreign_protocol,
};
use mcpjoin_proto::{ErrorObject, Method};

use super::report::{Check, Finding, Phase};
use super::way::Way;
use super::wire::Seen;
use super::{remote, words};
use mcpjoin::client::ClientError;
use mcpjoin::link::{SpawnError, SpawnErrorKind};

/// Lines of standard error that are kept.
const STDERR: usize = 12;
/// The longest line that is kept, in characters.
const LONGEST: usize = 400;

const BY_HAND: &str = "run the command by itself in a terminal, and mend what it says";
pub(super) const AUTHORS: &str = "tell the server's authors";

/// The last lines of what a server wrote to standard error.
pub(super) fn last_lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(STDERR)..].iter().map(|line| cut(line)).collect()
}

pub(super) fn cut(line: &str) -> String {
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

pub(super) fn lines(noise: &[bytes::Bytes]) -> Vec<String> {
    noise.iter().map(|line| cut(String::from_utf8_lossy(line).trim_end())).collect()
}

pub(super) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

// ---- before anything runs ----

/// The program cannot be started. `interpreter`: what its first line names.
pub(super) fn unstarted(phase: Phase, error: &SpawnError, interpreter: Option<&Path>) -> Box<Finding> {
    let seen = error.to_string();
    let (id, check, meaning, advice) = match &error.kind {
        SpawnErrorKind::NotFound { searched } if searched.is_empty() => (
            "program-missing",
            Check::Program,
            "there is no file at this path, which counts from the server's working directory".to_owned(),
            "correct the path",
        ),
        SpawnErrorKind::NotFound { .. } => (
            "program-missing",
            Check::Program,
            "no folder of the PATH that the server gets has a program of this name".to_owned(),
            match comes_with(&error.command) {
                Some("Node.js") => {
                    "install Node.js, or add its folder to that PATH (version managers set it in shells alone)"
                }
                Some("uv") => "install uv, or add its folder to that PATH (its installer takes ~/.local/bin)",
                Some("Python") => {
                    "install Python, or name the one that there is (python3, or the path of one)"
                }
                _ => "install the program, or give its path in place of its name",
            },
        ),
        SpawnErrorKind::NotExecutable { .. } => (
            "not-executable",
            Check::Program,
            "the file is there, and this user may not run it".to_owned(),
            "chmod +x the file, or name its interpreter first",
        ),
        SpawnErrorKind::IsDirectory { .. } => {
            ("directory", Check::Program, "a directory cannot be run".to_owned(), "name a program inside it")
        }
        SpawnErrorKind::WorkingDirectory { .. } => (
            "working-directory",
            Check::Program,
            "the server cannot be started where it is told to work".to_owned(),
            "name a working directory that exists and that this user may enter",
        ),
        SpawnErrorKind::NoInterpreter { .. } => (
            "interpreter-missing",
            Check::Start,
            match interpreter {
                Some(interpreter) => {
                    format!("its first line asks for {}, which is not there", interpreter.display())
                }
                None => {
                    "the loader that this binary names is not there: it was built for another system".into()
                }
            },
            "install what is missing, or name another interpreter first",
        ),
        // What the system says, and kinds of later versions.
        _ => (
            "not-started",
            Check::Start,
            "the system refuses to start it".to_owned(),
            "look at the limits of this system (ulimit -a), and whether the file was built for it",
        ),
    };
    Box::new(Finding::new(id, check, phase, seen, meaning, advice))
}

/// What brings a well-known program.
fn comes_with(program: &str) -> Option<&'static str> {
    match program {
        "node" | "nodejs" | "npm" | "npx" => Some("Node.js"),
        "uv" | "uvx" => Some("uv"),
        "python" | "python3" | "pip" => Some("Python"),
        _ => None,
    }
}

/// A script is run by `env NAME`, and there is no such program.
pub(super) fn runtime_missing(file: &Path, kind: &SpawnErrorKind, name: &str) -> Box<Finding> {
    Box::new(Finding::new(
        "runtime-missing",
        Check::Runtime,
        Phase::Resolve,
        format!("{} is run by {name}, which cannot be run: {kind}", file.display()),
        "the script is there, but what runs it is not on the PATH that the server gets",
        format!("install {}, or add its folder to that PATH", comes_with(name).unwrap_or(name)),
    ))
}

/// A script's first line ends in a carriage return.
pub(super) fn windows_line_ends(file: &Path) -> Box<Finding> {
    Box::new(Finding::new(
        "windows-line-ends",
        Check::Runtime,
        Phase::Resolve,
        format!("the first line of {} ends in a carriage return", file.display()),
        "the system takes it for a part of the interpreter's name, which nothing has",
        "save the file with Unix line ends",
    ))
}

// ---- the opening ----

/// There is no connection.
pub(super) fn unopened(phase: Phase, cause: &CloseCause, seen: &Seen, stderr: &[u8]) -> Finding {
    let mut found = match cause {
        CloseCause::Opening(OpeningFailure::Ended { last, .. }) | CloseCause::Link(last) => {
            ended(Way::Child, phase, last)
        }
        CloseCause::Opening(failure) => opening(phase, failure, seen),
        other => unclear(phase, &other.to_string()),
    };
    if let CloseCause::Opening(OpeningFailure::Ended { probe: Some(probe), .. }) = cause
        && found.evidence.stderr.is_empty()
    {
        found.evidence.stderr = last_lines(&probe.stderr);
    }
    if found.evidence.stderr.is_empty() {
        found.evidence.stderr = last_lines(stderr);
    }
    found.evidence.stdout = lines(&seen.noise);
    if found.id == "silent"
        && let Some(url) = words::listening(&found.evidence.stderr)
    {
        found.id = "listens-elsewhere";
        found.meaning = format!("the program serves somebody else: it says that it listens at {url}");
        found.advice = format!(
            "name that as the server ({url}, mostly with the path /mcp), or look for its option that serves MCP over stdio"
        );
    }
    found
}

/// Client and server do not agree. Where nothing is said of a program, it is the same for every way to a server.
pub(super) fn opening(phase: Phase, failure: &OpeningFailure, seen: &Seen) -> Finding {
    let what = failure.to_string();
    let mut error: Option<&ErrorObject> = None;
    if matches!(failure, OpeningFailure::TimedOut { .. } | OpeningFailure::Garbage { .. })
        && let Some(found) = written(phase, seen)
    {
        return found;
    }
    let (id, check, meaning, advice) = match failure {
        OpeningFailure::TimedOut { .. } if seen.noise_lines > 0 => (
            "not-mcp",
            Check::Opening,
            "the program writes to its standard output, but no messages: it is no MCP server on standard input and \
             output, or it is not told to be one",
            "look for the option or the program that serves MCP over stdio",
        ),
        OpeningFailure::Garbage { .. } => (
            "not-mcp",
            Check::Opening,
            "the program writes text where only messages may be: it is no MCP server on standard input and output, or \
             it logs to standard output",
            "look for the option that serves MCP over stdio, or send the log to standard error",
        ),
        OpeningFailure::TimedOut { .. } => (
            "silent",
            Check::Opening,
            "the program runs, and has written no whole line: it is no MCP server on standard input and output, waits \
             for something else, or starts too slowly",
            "run it by itself in a terminal and see what it waits for; a slow one needs more time \
             (--connect-timeout 2m)",
        ),
        OpeningFailure::UnsupportedVersion { .. } | OpeningFailure::NoCommonVersion { .. } => (
            "version",
            Check::Opening,
            "client and server have no version of the protocol in common",
            "ask for no version in particular, or update the server",
        ),
        OpeningFailure::UnknownReply { asked, given, .. } => (
            "other-id",
            Check::Opening,
            if given.as_str().is_some_and(|given| given == asked.to_string()) {
                "a number came back as a string: a response has the id of its request, of the same type, or nobody knows \
                 which request it answers"
            } else {
                "a response has the id of its request, or nobody knows which request it answers: clients wait until \
                 their patience ends"
            },
            "let the server send back each id as it came",
        ),
        OpeningFailure::Echo { .. } => (
            "echo",
            Check::Opening,
            "whatever runs or listens there sends back what it reads, and understands nothing of it",
            "look at what runs there, or listens there; it may need an option to serve MCP",
        ),
        OpeningFailure::Refused { error: answered, .. } => {
            error = Some(answered);
            (
                "refused",
                Check::Opening,
                "the server answers, and does not let this client in",
                "do what its error says; another --era may be let in",
            )
        }
        OpeningFailure::BadReply { .. } => (
            "bad-reply",
            Check::Opening,
            "the server's answer to the opening request is not what the specification has there",
            AUTHORS,
        ),
        OpeningFailure::Unsent { .. } => (
            "not-sent",
            Check::Opening,
            "the limit of a message is below the opening request",
            "raise the limit of a message (--max-message-size)",
        ),
        _ => return unclear(phase, &what),
    };
    let mut found = Finding::new(id, check, phase, what, meaning, advice);
    found.evidence.error = error.cloned();
    found
}

/// Messages that came, and are written in a way in which nobody can read them.
pub(super) fn written(phase: Phase, seen: &Seen) -> Option<Finding> {
    if seen.late_marks > 0 {
        return Some(late_mark(phase, seen.late_marks));
    }
    // The beginning of other protocols may look like a text.
    let first = seen.noise.first().filter(|first| foreign_protocol(first).is_none());
    if let Some(encoding) = first.and_then(|first| Encoding::of(first)) {
        return Some(Finding::new(
            "encoding",
            Check::Output,
            phase,
            format!("what the server writes is {encoding}"),
            "messages are plain UTF-8: nothing of what it writes can be read",
            "have it write UTF-8, without a byte order mark",
        ));
    }
    seen.is_spread().then(|| {
        Finding::new(
            "several-lines",
            Check::Output,
            phase,
            "a message is spread over several lines",
            "one message is one line: each line is read by itself, and none of these is a message",
            "write each message without line ends and indentation, and one line end after it",
        )
    })
}

/// A byte order mark where none is looked for.
fn late_mark(phase: Phase, count: usize) -> Finding {
    Finding::new(
        "byte-order-mark",
        Check::ByteOrderMark,
        phase,
        format!(
            "{count} {} that the server writes later than the first {} with a byte order mark",
            plural(count, "line"),
            begins(count)
        ),
        "such a line is no JSON: what it says is read by nobody, and whoever waits for it waits in vain",
        "write UTF-8 without a byte order mark; it mostly comes of a stream that is opened anew for each message",
    )
}

pub(super) fn unclear(phase: Phase, what: &str) -> Finding {
    Finding::new("not-opened", Check::Opening, phase, what, "there is no connection", BY_HAND)
}

/// The server has ended before it was told to.
pub(super) fn ended(way: Way, phase: Phase, end: &LinkEnd) -> Finding {
    if way.is_remote() {
        return remote::closed(phase, end);
    }
    let how =
        end.exit.map_or_else(|| "closed its standard output".to_owned(), |exit| format!("ended: {exit}"));
    let early = !matches!(phase, Phase::Health | Phase::List | Phase::ShutDown);
    let when = match phase {
        Phase::Health | Phase::List | Phase::ShutDown => "in the middle of the conversation",
        _ => "before it could be talked to",
    };
    let (meaning, advice) = match (&end.kind, end.exit) {
        (LinkEndKind::Failed(error), None) => (format!("the connection failed: {error}"), "try again"),
        (LinkEndKind::CutOff { received }, _) => (
            format!("it has ended in the middle of a message, after {received} bytes of it"),
            "let it write its last message to the end before it exits; its standard error may say why it ended",
        ),
        (_, Some(ProcessExit::Code(126 | 127))) => (
            "exit codes 126 and 127 mean that a command inside this one was not found or may not be run"
                .into(),
            "check the command's words, and the PATH that the server gets",
        ),
        (_, Some(ProcessExit::Signal(9))) => (
            "it was killed; without anybody's doing that means that memory ran out".into(),
            "look at the system's log",
        ),
        (_, Some(ProcessExit::Signal(signal))) if words::crash(signal).is_some() => (
            format!("it crashed: {}", words::crash(signal).unwrap_or_default()),
            BY_HAND,
        ),
        (_, Some(ProcessExit::Signal(_))) => ("it crashed, or somebody has ended it".into(), BY_HAND),
        (_, Some(ProcessExit::Code(0))) if !early => (
            "it ended as if all were done, and was not told to: mostly its main function returns while a request is still \
             handled, or something that it calls exits (sys.exit(), process.exit()) with 0"
                .into(),
            "let main wait for the server's end, and look at what it does last; its standard error may tell",
        ),
        (_, Some(ProcessExit::Code(0))) => (
            "it thinks that it is done: it is no server, or was given words that make it print and end"
                .into(),
            "look for the option that serves MCP over stdio",
        ),
        (_, Some(ProcessExit::Code(_))) => {
            ("it gave up: its standard error should say why".into(), "mend what its standard error names")
        }
        (_, None) => ("without standard output nothing can be answered".into(), BY_HAND),
    };
    let mut found =
        Finding::new("died", Check::Life, phase, format!("the server {how}, {when}"), meaning, advice);
    found.evidence.exit = end.exit;
    found.evidence.stderr = last_lines(&end.stderr);
    if matches!(end.exit, Some(ProcessExit::Code(1..)))
        && let Some((id, meaning, advice)) = words::last(&found.evidence.stderr)
    {
        found.id = id;
        meaning.clone_into(&mut found.meaning);
        advice.clone_into(&mut found.advice);
    }
    found
}

/// The server ended when the probe came first.
pub(super) fn killed_by_probe(way: Way) -> Finding {
    let seen = match way.is_remote() {
        true => {
            "the server closed the connection when server/discover came first, and was called a second time"
        }
        false => "the server ended when server/discover came first, and was started a second time",
    };
    Finding::new(
        "probe-fatal",
        Check::ProbeSurvived,
        Phase::Probe,
        seen,
        "it knows the legacy era alone and takes a request that it does not know for fatal: a client that speaks both \
         eras pays for a second start each time",
        "update the server's SDK, or go straight to initialize (--era legacy)",
    )
}

/// The probe was never answered, and `initialize` was.
pub(super) fn mute(waited: Duration) -> Finding {
    Finding::new(
        "mute",
        Check::ProbeAnswered,
        Phase::Probe,
        format!("no answer to server/discover within {}, and one to initialize", seconds(waited)),
        "it does not answer requests that it does not know: a client that speaks both eras waits so long at each start",
        "update the server's SDK, or go straight to initialize (--era legacy)",
    )
}

/// The first answer was late.
pub(super) fn slow(way: Way, phase: Phase, took: Duration, bound: Duration) -> Finding {
    Finding::new(
        "slow-start",
        Check::Speed,
        phase,
        format!("the first answer came after {}, more than {}", seconds(took), seconds(bound)),
        "clients with little patience give up before the server is ready",
        match way.is_remote() {
            true => "see what the server waits for before it answers, or give clients a longer start-up time",
            false => {
                "install the server in place of fetching it at each start (npx, uvx), or give clients a longer \
                 start-up time"
            }
        },
    )
}

// ---- the conversation ----

/// Lines that were no messages.
pub(super) fn noise(way: Way, phase: Phase, seen: &Seen) -> Finding {
    let count = seen.noise_lines;
    if way.is_remote() {
        let mut found = Finding::new(
            "noise",
            Check::Output,
            phase,
            format!("{count} {} between the messages that {} none", plural(count, "text"), is(count)),
            "the connection is for messages alone; clients that are less patient end it here",
            AUTHORS,
        );
        found.evidence.received = lines(&seen.noise);
        return found;
    }
    let mut found = Finding::new(
        "stdout-noise",
        Check::Output,
        phase,
        format!("{count} {} on standard output that {} no message", plural(count, "line"), is(count)),
        "standard output is for messages alone; clients that are less patient end the connection here",
        "send the server's log to standard error",
    );
    found.evidence.stdout = lines(&seen.noise);
    found
}

/// A byte order mark.
pub(super) fn byte_order_mark(phase: Phase) -> Finding {
    Finding::new(
        "byte-order-mark",
        Check::ByteOrderMark,
        phase,
        "what the server writes begins with a byte order mark",
        "many clients cannot read the first message then, and time out",
        "write UTF-8 without a byte order mark",
    )
}

/// Rules that were broken.
pub(super) fn violations(phase: Phase, seen: &Seen) -> Finding {
    let first = seen.violations.first().map(ToString::to_string).unwrap_or_default();
    let more = seen.broken.saturating_sub(1);
    let mut found = Finding::new(
        "violations",
        Check::Rules,
        phase,
        if more == 0 { first } else { format!("{first}, and {more} more") },
        "this is against the specification; other clients may not go on here",
        AUTHORS,
    );
    found.evidence.violations.clone_from(&seen.violations);
    found
}

/// A list could not be read.
pub(super) fn list(way: Way, method: &Method, error: &ClientError) -> Finding {
    if let Some(CloseCause::Link(end)) = error.close_cause() {
        return ended(way, Phase::List, end);
    }
    let (id, meaning, advice) = match error {
        ClientError::Call(CallError::TimedOut { .. }) => (
            "list-unanswered",
            "the server declares this list and does not give it in time",
            "see what it waits for, or give it more time (--timeout 5m)",
        ),
        ClientError::Call(CallError::Remote(_)) => {
            ("list-refused", "the server declares this list and refuses it", "do what its error says")
        }
        ClientError::Call(CallError::BadReply { .. })
        | ClientError::BadResult { .. }
        | ClientError::RepeatedCursor { .. }
        | ClientError::TooManyPages { .. } => (
            "list-invalid",
            "the list is not what the specification has there: clients show nothing of it, or leave parts out",
            AUTHORS,
        ),
        ClientError::Call(CallError::ReplyTooLarge { .. }) => (
            "list-too-large",
            "it is longer than what is taken here, which no rule forbids; other clients have bounds of their own",
            "take more (--max-message-size 64MiB), or have the server give it in pages",
        ),
        ClientError::Call(CallError::Lost(lost)) if lost.message.contains("the body broke off") => (
            "list-failed",
            "the reply was cut off: the server died in the middle of it, says a wrong Content-Length, or something on the way \
             cuts it off",
            "look at the server's own log; if there is a proxy before it, ask the server without that",
        ),
        _ if way.is_remote() => ("list-failed", "the list could not be read", "look at the server's own log"),
        _ => ("list-failed", "the list could not be read", BY_HAND),
    };
    let what = error.to_string();
    let seen = if what.contains(method.as_str()) { what } else { format!("{}: {what}", method.as_str()) };
    let mut found = Finding::new(id, Check::Lists, Phase::List, seen, meaning, advice);
    found.evidence.error = error.remote().cloned();
    found
}

/// An answer has come that nobody can read: how it is written is told by a finding of its own.
pub(super) fn unreadable(method: &Method) -> Finding {
    Finding::new(
        "list-unanswered",
        Check::Lists,
        Phase::List,
        format!("{}: what came for it is no message", method.as_str()),
        "the server has answered in a way in which nobody can read it, and no other answer comes",
        "write each message as one line of JSON",
    )
}

/// A list goes on and on.
pub(super) fn endless(method: &Method, bound: Duration) -> Finding {
    Finding::new(
        "list-unanswered",
        Check::Lists,
        Phase::List,
        format!("{} was not read to its end within {}", method.as_str(), seconds(bound)),
        "the server gives page after page, and each of them slowly",
        AUTHORS,
    )
}

/// Nothing is in the lists.
pub(super) fn nothing(tools: bool) -> Finding {
    if tools {
        return Finding::new(
            "no-tools",
            Check::Offer,
            Phase::List,
            "the server declares tools and lists none",
            "a model can call nothing of it; often a key or a setting is missing",
            "check the server's variables and arguments, and what it writes to standard error",
        );
    }
    Finding::new(
        "nothing-offered",
        Check::Offer,
        Phase::List,
        "the server offers neither tools nor resources nor prompts",
        "there is nothing to do with it",
        "check the server's variables and arguments",
    )
}

fn plural(count: usize, what: &str) -> String {
    if count == 1 { what.to_owned() } else { format!("{what}s") }
}

const fn begins(count: usize) -> &'static str {
    if count == 1 { "begins" } else { "begin" }
}

const fn is(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}
