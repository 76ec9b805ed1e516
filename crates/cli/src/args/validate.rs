//! The arguments of `mcpjoin validate`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mcpjoin::proto::{Kind, Raw};

use super::values::duration;
use super::{Connect, Output};

const LONG: &str = "\
Judges servers by the specification's own sentences

A server is started several times: for a session in each era that it speaks, for each version of the legacy era, and \
for lines that are no messages. One that is reached over HTTP is asked in as many sessions, and beside that without \
headers, with wrong ones, as a page of another origin would ask it, and in sessions that have ended; one that wants a token \
also as somebody who has none, who is told how it wants one and no more. No tool is called, \
no listed resource read, no listed prompt filled in, unless --call or --read-only-tools say so. Rules that need what the \
server does not declare are skipped, and the report says why.

A MUST that is broken makes the exit code 1; a SHOULD does so with --strict; advice never does; nor does what the \
baseline has. An answer that takes longer than --timeout (here 10s by default) is not waited for.

More servers than one are looked at four at a time: after a URL, `demo:` or FILE#NAME more of them may follow, --also \
names one more by one word, and --config FILE without any server means every entry of that file. There is one document \
then, a server that cannot be reached hides none of the others, and the exit code is the largest of theirs.

With --format json (or --json) the result is one object:
  command, runs   what was started, and each run's name and protocolVersion
  ran, passed, failed, skipped   numbers of rules; with --baseline also known, of those that failed
  rules           one object for each rule: rule, chapter, level, sentence, address, outcome (passed, failed or \
skipped), why (of one that was skipped), and findings (of one that failed): problem, run, protocolVersion, level, \
address, count (how often, with other ids), fingerprint (the same each time, as long as nothing changes), the lines sent and received (over HTTP, the \
beginning of the request and of the response), where there are any, cut after 4096 characters, and, with --baseline, \
known. Of more than 500 such places leftOut says how many are not there
  calls           with --call: tool, problem and listed, of each call that shows less than it was meant to
  clients         with --compatibility: tools and tokens, how many there are, and clients, one object for each: client, \
usable, and findings: tool, problem, consequence, source and seen (where and when that was seen)
  openers         with --eras, in place of all that: one object for each opener: method, protocolVersion, opens, \
answer (version, versions, result, refused, unreadable, lost, closed or silent), elapsedMs, and what came: version, \
versions, code, message
  error           where nobody was let in without a token: the rules of authorization are judged, and no others
  baseline        with --baseline: file, and stale, the findings that it has and nobody finds any more
Of several servers it is an object with servers, an array of these objects: each with server, its name, and, in place \
of runs and rules, error where it was not judged.

With --client it is a client that is judged, by the rules that bind clients: `mcpjoin validate --client` is what the client \
is to start as its server, and serves it what `demo:` has, or, with --listen, what it is to connect to. It ends when the client \
has left (over HTTP, when there has been no connection for 5s, or when the command after -- has ended, in whose words {url} is our \
address), after --for, or at a signal, which is what the exit code says then; what was seen is told all the same. Beside its \
server's own questions a client of the legacy era gets pings, a request and notifications that nobody knows, cancellations \
that are late or malformed, a question for its roots, and questions for its model that it has to refuse. Lists have one more \
page than they need, and over HTTP every other answer comes on a stream. On standard input and output the report goes \
to standard error, if there is no --report.

With --format sarif it is SARIF 2.1.0, where a MUST is an error, a SHOULD a warning and advice a note; with --format \
junit it is JUnit's XML, with a suite for each chapter and a case for each rule.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin validate [OPTIONS] TARGET...\n       mcpjoin validate [OPTIONS] [--] COMMAND [ARG]...\n       \
                      mcpjoin validate [OPTIONS] --config FILE\n       mcpjoin validate --client [OPTIONS] \
                      [-- COMMAND [ARG]...]\n       mcpjoin validate --rules",
    after_help = "Examples:\n  \
        mcpjoin validate demo:\n  \
        mcpjoin validate --strict ./my-server --verbose\n  \
        mcpjoin validate --era legacy --skip stdio npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin validate http://localhost:8080/mcp\n  \
        mcpjoin validate --format sarif --config .mcp.json > mcp.sarif\n  \
        mcpjoin validate --baseline known.json --update-baseline ./my-server\n  \
        mcpjoin validate --read-only-tools --call 'echo={\"message\": \"hi\"}' demo:\n  \
        mcpjoin validate --compatibility demo:\n  \
        mcpjoin validate --eras demo:\n  \
        mcpjoin validate --client --report client.txt\n  \
        mcpjoin validate --client --listen http://127.0.0.1:0/mcp -- my-client {url}\n  \
        mcpjoin validate --rules\n\n\
        Options stand before the server's command: what follows its first word is its own."
)]
pub(crate) struct Validate {
    /// The server: a URL, `demo:`, tcp://host:port, unix:/path, an entry of a configuration, or a command and its
    /// arguments. After a URL, `demo:` or FILE#NAME more of them may follow
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// One more server, named by one word: as TARGET. May be given more than once
    #[arg(long, value_name = "TARGET")]
    pub(crate) also: Vec<OsString>,
    /// Applies this rule, or the rules of this chapter, and no other; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Vec<String>,
    /// Leaves out this rule, or the rules of this chapter; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) skip: Vec<String>,
    /// Puts the server under stress as well: many requests at once, a reader that waits, a request of 1 MiB, the end of its
    /// input at bad moments, a signal. Over HTTP: many requests at once, answers that are read late and slowly, requests that
    /// are given up, broken off or sent in pieces, many sessions, a stream that is cut and resumed
    #[arg(long, conflicts_with_all = ["eras", "client"])]
    pub(crate) resilience: bool,
    /// Lets a SHOULD that is broken count as a fault
    #[arg(long)]
    pub(crate) strict: bool,
    /// Also calls this tool, with these arguments (a JSON object; without them none), once in each era; may be repeated. A
    /// tool that the server does not list, and a call that it refuses, are told; with one that no server lists the exit
    /// code is 2
    #[arg(long, value_name = "TOOL[=JSON]", value_parser = call)]
    pub(crate) call: Vec<ToolCall>,
    /// Also calls tools that say that they only read (`readOnlyHint`), reads listed resources, and has prompts filled in
    /// that need no argument: twenty of each at most, in each era; some a few times more, for what can only be seen so. A
    /// tool that must have arguments is called without them, which it has to refuse. It is the server that says what only
    /// reads: mind whose it is
    #[arg(long)]
    pub(crate) read_only_tools: bool,
    /// Also shows which tools well-known clients would leave out, rename or refuse, and where that is known from: by the
    /// length and the letters of names, by schemas, by how many there are. No fault by itself
    #[arg(long, conflicts_with = "client")]
    pub(crate) compatibility: bool,
    /// Takes the findings in this file for known: they are told, and are no faults. What is found no longer is told, too
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Writes what is found to the baseline, so that all of it is known from then on, and takes out what is found no
    /// longer; a file that is not there is made
    #[arg(long, requires = "baseline")]
    pub(crate) update_baseline: bool,
    /// Shows how the server opens, and judges nothing: what it makes of `server/discover` and of `initialize` with every
    /// version, with one that does not exist, without one, and of a request with nothing before it
    #[arg(long, conflicts_with_all = ["rule", "skip", "strict", "baseline", "rules", "call", "read_only_tools", "compatibility"])]
    pub(crate) eras: bool,
    /// Prints the rules, with their addresses, and looks at no server
    #[arg(long, conflicts_with_all = ["baseline", "strict", "call", "read_only_tools", "compatibility"])]
    pub(crate) rules: bool,
    /// How the report is written [default: text]
    #[arg(long, value_name = "FORMAT", value_enum, hide_possible_values = false, conflicts_with = "json")]
    pub(crate) format: Option<Format>,
    #[command(flatten)]
    pub(crate) client: ClientLook,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

// How a client is validated. No doc comment: clap would add it to the help of the verb.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Clients")]
pub(crate) struct ClientLook {
    /// Judges a client: this is the server that it connects to, on standard input and output or with --listen
    #[arg(long, conflicts_with_all = ["also", "baseline", "eras", "call", "read_only_tools"])]
    pub(crate) client: bool,
    /// Waits for clients there, http://host:port/path, until they have left; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", requires = "client")]
    pub(crate) listen: Option<String>,
    /// Looks for so long, whoever has left: seconds, or with ms, s, m, h
    #[arg(long = "for", value_name = "TIME", requires = "client", value_parser = duration)]
    pub(crate) during: Option<Duration>,
    /// Writes the report to this file, and not to standard output (on stdio: to standard error); `{pid}` stands for the
    /// id of this process
    #[arg(long, value_name = "FILE", requires = "client")]
    pub(crate) report: Option<PathBuf>,
    /// Answers initialize with a version that does not exist, at which a client is to leave; in the modern era refuses each
    /// request because of its version
    #[arg(long, requires = "client")]
    pub(crate) refuse_version: bool,
    /// Does what a server may do and a client is to bear: refuses one cursor of a list, and over HTTP one call because of its
    /// headers, and loses one session. What the client has wanted may fail then
    #[arg(long, requires = "client", conflicts_with = "refuse_version")]
    pub(crate) disturb: bool,
}

/// A tool that is to be called.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    pub(crate) tool: String,
    /// An object; `None` for none.
    pub(crate) arguments: Option<Raw>,
}

fn call(word: &str) -> Result<ToolCall, String> {
    let (tool, arguments) = word.split_once('=').map_or((word, None), |(tool, json)| (tool, Some(json)));
    if tool.is_empty() {
        return Err("the name of a tool is missing".into());
    }
    let arguments = arguments.map(|json| match Raw::parse(json.to_owned()) {
        Ok(raw) if raw.kind() == Kind::Object => Ok(raw),
        Ok(_) => Err("the arguments must be a JSON object: TOOL={\"name\": ...}".to_owned()),
        Err(error) => Err(format!("the arguments are no JSON: {error}")),
    });
    Ok(ToolCall { tool: tool.to_owned(), arguments: arguments.transpose()? })
}

/// How the report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For a person
    Text,
    /// As --json
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// JUnit's XML, for test reports
    Junit,
}

impl Validate {
    /// How the report is written, whichever option says so.
    pub(crate) fn form(&self) -> Format {
        self.format.unwrap_or(if self.output.json { Format::Json } else { Format::Text })
    }

    /// How everything else is shown: a failure is an object where the report is one.
    pub(crate) fn shown(&self) -> Output {
        let json = self.form() == Format::Json;
        Output { json, ..self.output.clone() }
    }
}
