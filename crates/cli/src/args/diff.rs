//! The arguments of `mcpjoin diff`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use mcpjoin_rules::ChangeClass;

use super::values::count;
use super::{Connect, Output};

const LONG: &str = "\
Says what has changed in what a server offers: its tools, resources, resource templates and prompts, its instructions and \
capabilities

Each of OLD and NEW is a server, named as everywhere (`mcpjoin help targets`), or a file that `mcpjoin list --json` has written: \
a path, a word that ends in .json, or - for standard input. `mcpjoin list --json TARGET > pinned.json` pins a server, and \
`mcpjoin diff pinned.json TARGET` checks it. Two servers are asked at the same time, and the options about servers are for \
both: a --header goes to each.

Order counts nowhere. Of a schema it is said what has changed in it: a parameter that is required now, a type that is narrower, a \
value that is gone. Every change is of one class. breaks: a call that was right may be refused now, or its result may lack what \
was relied on. reads: what a model or a person reads of something that was there has changed, as descriptions, instructions, \
annotations, defaults, and parameters and values that may be given. adds: something new by itself, as a tool, or a limit that \
is wider. What differs from release to release without a meaning of its own (the version of the server, that of the protocol, \
the size of a resource and when it was modified) is noted: shown, and not counted.

The exit code is 0 when nothing has changed that counts, and 1 when something has. A side that cannot be read is told as every \
failure is, with its own code.

With --json the result is one object with old and new (source, protocolVersion, serverInfo), changed, counts of each class, and \
changes: class, kind, of (server, tool, resource, resourceTemplate or prompt), name, path (a JSON pointer into it; an argument of \
a prompt by its name), and old and new as far as there is something.";

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
    /// As in the usage: two of servers (a URL, `demo:`, quic://host:port, tcp://host:port, unix:/path, an entry of a
    /// configuration or the path of a program) and files of `list --json`; the second may be a COMMAND behind `--`, or the
    /// entry that --server names
    #[arg(value_name = "SIDE", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// The command of the second server
    #[arg(last = true, value_name = "COMMAND", help_heading = "Arguments")]
    pub(crate) command: Vec<OsString>,
    /// Counts and shows changes of these classes alone; may be repeated, or several with commas
    #[arg(long, value_name = "CLASS", value_enum, value_delimiter = ',', hide_possible_values = false)]
    pub(crate) only: Vec<Counted>,
    /// How many pages a list may have [default: 1000]
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
    /// A call that was right may be refused, or its result lack something
    Breaks,
    /// What is read of something that was there
    Reads,
    /// Something new, or a limit that is wider
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
