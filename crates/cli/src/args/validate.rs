//! `mcpjoin validate`: what can be typed.

use std::ffi::OsString;

use clap::Args;

use super::{Connect, Output};

const LONG: &str = "\
Judges a server by the specification's own sentences

The server is started several times: for a session in each era that it speaks, for each version of the legacy era, and \
for lines that are no messages. One that is reached over HTTP is asked in as many sessions, and beside that without \
headers, with wrong ones, as a page of another origin would ask it, and in sessions that have ended. No tool is called, \
no resource read, no prompt filled in. Rules that need what the server does not declare are skipped, and the report \
says why.

A MUST that is broken makes the exit code 1; a SHOULD does so with --strict; advice never does. An answer that takes \
longer than --timeout (here 10s by default) is not waited for.

With --json the result is one object:
  command, runs   what was started, and each run's name and protocolVersion
  ran, passed, failed, skipped   numbers of rules
  rules           one object for each rule: rule, chapter, level, sentence, address, outcome (passed, failed or \
skipped), why (of one that was skipped), and findings (of one that failed): problem, run, protocolVersion, level, \
address, and the lines sent and received (over HTTP, the beginning of the request and of the response), where there \
are any, cut after 4096 characters";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin validate [OPTIONS] TARGET\n       mcpjoin validate [OPTIONS] [--] COMMAND [ARG]...\n       \
                      mcpjoin validate --rules",
    after_help = "Examples:\n  \
        mcpjoin validate demo:\n  \
        mcpjoin validate --strict ./my-server --verbose\n  \
        mcpjoin validate --era legacy --skip stdio npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin validate http://localhost:8080/mcp\n  \
        mcpjoin validate --rules\n\n\
        Options stand before the server's command: what follows its first word is its own."
)]
pub(crate) struct Validate {
    /// The server: a URL, `demo:`, an entry of a configuration, or a command and its arguments
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// Applies this rule, or the rules of this chapter, and no other; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) rule: Vec<String>,
    /// Leaves out this rule, or the rules of this chapter; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) skip: Vec<String>,
    /// Lets a SHOULD that is broken count as a fault
    #[arg(long)]
    pub(crate) strict: bool,
    /// Prints the rules, with their addresses, and looks at no server
    #[arg(long)]
    pub(crate) rules: bool,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
