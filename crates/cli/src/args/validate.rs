//! The arguments of `mcpjoin validate`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mcpjoin::proto::{Kind, Raw};

use super::values::duration;
use super::{Connect, Output};

const LONG: &str = "\
Checks a server, or a client, against the MCP specification

A server is started several times: once for each revision that it speaks, and once for invalid messages. Over HTTP it \
is tested in as many sessions, and also without headers, with wrong headers, with the origin of another page, and in \
ended sessions. If it requires a token, only its responses without one are checked. No tool is called, no resource \
read and no prompt filled in unless --call or --read-only-tools is given. Rules about features that the server does \
not declare are skipped.

The exit code is 1 if a MUST is broken; with --strict also for a SHOULD; never for advice or for findings in the \
baseline. --timeout limits each response (here 10s by default).

Several servers are checked four at a time: TARGET... after a URL, `demo:` or FILE#NAME, --also TARGET, or --config \
FILE without a target for all entries of the file. There is one report, an unreachable server hides none of the \
others, and the exit code is the highest of all.

With --format json (or --json) the result is one object:
command, runs   the command or URL, and each run's name and protocolVersion
ran, passed, failed, skipped   numbers of rules; with --baseline also known: failed rules without new findings
rules           for each rule: rule, chapter, level, sentence, address, outcome (passed, failed or skipped), why (if \
skipped), findings (if failed): problem, run, protocolVersion, level, address, count, fingerprint (the same in each \
run), sent and received (up to 4096 characters; over HTTP the beginning of request and response), and with --baseline \
known. leftOut: the number of findings beyond 500
calls           with --call: tool, problem and listed, of each call that did not show what it should
clients         with --compatibility: tools and tokens (numbers), and clients: client, usable, and findings: tool, \
problem, consequence, source and seen (the page and its date)
openers         with --eras, instead of all that: for each opening request: method, protocolVersion, opens, answer \
(version, versions, result, refused, unreadable, lost, closed or silent), elapsedMs, and what was received: version, \
versions, code, message
error           if every request without a token was rejected: only the rules of authorization were checked
baseline        with --baseline: file, and stale: its findings that were not found again
For several servers it is an object with servers: an array of these objects, each with server (its name), and error \
instead of runs and rules if it was not checked.

With --client a client is checked: configure `mcpjoin validate --client` as its server, or use --listen and give the \
client the address. It serves the tools of `demo:full`. The run ends when the client disconnects (over HTTP: after 5s \
without a connection, or when the command after -- has exited; {url} in that command is the address), after --for, or \
at a signal. In the older protocol the client also receives pings, an unknown request, unknown notifications, late and \
malformed cancellations, a request for its roots, and sampling requests that it must reject. Lists have an extra page, \
and over HTTP every other response is a stream. On standard input and output the report is written to standard error \
unless --report is given.

--format sarif writes SARIF 2.1.0: a MUST is an error, a SHOULD a warning, advice a note. --format junit writes JUnit \
XML: a suite for each chapter, a case for each rule.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin validate [OPTIONS] TARGET...\n       mcpjoin validate [OPTIONS] [--] COMMAND [ARG]...\n       \
                      mcpjoin validate [OPTIONS] --config FILE\n       mcpjoin validate --client [OPTIONS] \
                      [-- COMMAND [ARG]...]\n       mcpjoin validate --rules",
    after_help = "Examples:\n  \
        mcpjoin validate demo:\n  \
        mcpjoin validate --strict ./my-server\n  \
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
        Options must come before the server's command; everything after its first word is passed to it."
)]
pub(crate) struct Validate {
    /// The servers: a URL, `demo:`, an entry of a configuration, or a command and its arguments (`mcpjoin help targets`).
    /// After a URL, `demo:` or FILE#NAME more of them may follow
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// Also checks this server: one word, as TARGET. Repeatable
    #[arg(long, value_name = "TARGET")]
    pub(crate) also: Vec<OsString>,
    /// Applies only this rule, or the rules of this chapter. Repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Vec<String>,
    /// Skips this rule, or the rules of this chapter. Repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) skip: Vec<String>,
    /// Also runs stress tests. On stdio: many requests at once, slow reading, a request of 1 MiB, the end of input at bad
    /// moments, a signal. Over HTTP: many requests at once, slow and late reading, aborted and fragmented requests, many
    /// sessions, an interrupted and resumed stream
    #[arg(long, conflicts_with_all = ["eras", "client"])]
    pub(crate) resilience: bool,
    /// Also exits with 1 if a SHOULD is broken
    #[arg(long)]
    pub(crate) strict: bool,
    /// Also calls this tool, once in each era, with these arguments: a JSON object. Repeatable. A tool that the server
    /// does not list, and a rejected call, are shown; if no server lists the tool, the exit code is 2
    #[arg(long, value_name = "TOOL[=JSON]", value_parser = call)]
    pub(crate) call: Vec<ToolCall>,
    /// Also calls read-only tools, reads resources and gets prompts. Read-only are the tools marked `readOnlyHint`; used
    /// are listed resources and prompts without required arguments; up to twenty of each in each era, some of them
    /// several times. Tools with required arguments are called without them and must reject that. The server decides what
    /// it marks as read-only: use this with servers that you trust
    #[arg(long)]
    pub(crate) read_only_tools: bool,
    /// Also shows which tools well-known clients would omit, rename or reject. Names, schemas and the number of tools are
    /// compared with the limits of each client, with the source of each limit. Does not change the exit code
    #[arg(long, conflicts_with = "client")]
    pub(crate) compatibility: bool,
    /// Findings in this file are known: they are counted but are not faults. Entries that were not found again are shown
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// Writes all findings to the baseline; removes those that were not found again. Creates a missing file
    #[arg(long, requires = "baseline")]
    pub(crate) update_baseline: bool,
    /// Only shows which opening requests the server accepts. Sent are `server/discover`, `initialize` with each version,
    /// an unknown one and none, and a request without either
    #[arg(long, conflicts_with_all = ["rule", "skip", "strict", "baseline", "rules", "call", "read_only_tools", "compatibility"])]
    pub(crate) eras: bool,
    /// Prints the rules and their addresses; connects to no server
    #[arg(long, conflicts_with_all = ["baseline", "strict", "call", "read_only_tools", "compatibility"])]
    pub(crate) rules: bool,
    /// The format of the report [default: text]
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
    /// Checks a client: this process is its server. On standard input and output, or with --listen
    #[arg(long, conflicts_with_all = ["also", "baseline", "eras", "call", "read_only_tools"])]
    pub(crate) client: bool,
    /// Waits for clients at http://host:port/path until they disconnect. Port 0 is any free one
    #[arg(long, value_name = "ADDRESS", requires = "client", hide_short_help = true)]
    pub(crate) listen: Option<String>,
    /// Runs for this time, even if the client disconnects: seconds, or with ms, s, m, h
    #[arg(long = "for", value_name = "TIME", requires = "client", value_parser = duration, hide_short_help = true)]
    pub(crate) during: Option<Duration>,
    /// Writes the report to this file instead of standard output (on stdio: standard error). `{pid}` is replaced by the
    /// id of this process
    #[arg(long, value_name = "FILE", requires = "client", hide_short_help = true)]
    pub(crate) report: Option<PathBuf>,
    /// Answers initialize with a version that does not exist, after which a client should disconnect; in the modern era
    /// rejects the version of each request
    #[arg(long, requires = "client", hide_short_help = true)]
    pub(crate) refuse_version: bool,
    /// Does what a client must tolerate: rejects a cursor of a list, loses a session, and over HTTP rejects a call
    /// because of its headers. The work of the client may fail
    #[arg(long, requires = "client", conflicts_with = "refuse_version", hide_short_help = true)]
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
        Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
    });
    Ok(ToolCall { tool: tool.to_owned(), arguments: arguments.transpose()? })
}

/// How the report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For a person
    Text,
    /// The same as --json
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
