//! The arguments of `mcpjoin diff`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use mcpjoin_rules::ChangeClass;

use super::values::count;
use super::{Connect, Output};

const LONG: &str = "\
Shows what changed in a server's tools, resources and prompts, and what would break callers

OLD and NEW are each a server (`mcpjoin help targets`) or a file written by `mcpjoin list --json`: a path, a word that \
ends in .json, or - for standard input. `mcpjoin list --json TARGET > pinned.json` pins a server; `mcpjoin diff \
pinned.json TARGET` compares it later. Two servers are read at the same time, with the same options: a --header goes \
to both.

Order does not count. Each change has one class:
breaks  a call that worked may be rejected now, or its result may lack something
reads   the text or meaning of an existing item changed: descriptions, instructions, annotations, defaults, optional \
parameters, allowed values
adds    a new item, or a wider limit
Changes without a meaning of their own (the version of the server or protocol, the size and modification time of a \
resource) are shown but do not count.

The exit code is 0 if nothing that counts changed, and 1 otherwise. If one side cannot be read, it is the code of that \
failure.

With --json the result is one object with old and new (source, protocolVersion, serverInfo), changed, counts of each \
class, and changes: class, kind, of (server, tool, resource, resourceTemplate or prompt), name, path (a JSON pointer; \
for an argument of a prompt, its name), and old and new where they exist.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin diff [OPTIONS] OLD NEW\n       mcpjoin diff [OPTIONS] OLD -- COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin diff pinned.json files\n  \
        mcpjoin diff pinned.json https://example.com/mcp\n  \
        mcpjoin diff --only breaks,reads pinned.json -- npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin diff --json old.json new.json\n  \
        mcpjoin diff ./server-1.0 ./server-1.1\n\n\
        `mcpjoin list --json TARGET > pinned.json` writes what a server offers now."
)]
pub(crate) struct Diff {
    /// Two servers (`mcpjoin help targets`) or files of `list --json`. The second may also be a COMMAND after `--`, or
    /// the entry named by --server
    #[arg(value_name = "SIDE", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// The command of the second server
    #[arg(last = true, value_name = "COMMAND", help_heading = "Arguments")]
    pub(crate) command: Vec<OsString>,
    /// Counts and shows only changes of these classes. Repeatable, or separated by commas
    #[arg(long, value_name = "CLASS", value_enum, value_delimiter = ',', hide_possible_values = false)]
    pub(crate) only: Vec<Counted>,
    /// The maximum number of pages of a list [default: 1000]
    #[arg(long, value_name = "NUMBER", value_parser = count, allow_hyphen_values = true)]
    pub(crate) max_pages: Option<u32>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// A class of changes that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Counted {
    /// A call that worked may be rejected, or its result may lack something
    Breaks,
    /// The text or meaning of an existing item changed
    Reads,
    /// A new item, or a wider limit
    Adds,
}

impl Counted {
    pub(crate) const fn class(self) -> ChangeClass {
        match self {
            Self::Breaks => ChangeClass::Breaks,
            Self::Reads => ChangeClass::Reads,
            Self::Adds => ChangeClass::Adds,
        }
    }
}
