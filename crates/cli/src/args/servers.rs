//! `mcpjoin servers`: what can be typed.

use clap::{Args, Subcommand, ValueEnum};

use super::{Configured, Output};

const LONG: &str = "\
Shows what the configuration holds, or writes it in another dialect

Every file in which an entry would be looked for is shown, in that order, with each entry, the line of each of its values, \
and why it cannot be used: what is wrong with it, the variables that are not set, or an entry of the same name that comes \
first. Values of variables and headers are not shown, and nothing is started. The exit code is 2 when an entry cannot be \
used.

In texts, ${NAME}, ${NAME:-default}, ${env:NAME} and {env:NAME} stand for variables, ${workspaceFolder} and ${userHome} for \
folders, {file:PATH} of opencode for the text of a file. An input of VS Code, ${input:ID}, is taken from the variable \
MCPJOIN_INPUT_ID (the id in capitals, with _ for what is no letter and no digit), or is its default.

With --json the result is one object with files; each has file, dialect, problem (of one that cannot be read), warnings and \
servers; each of these has name, line, transport, description, values (what, text, line), disabled (the line that says so), \
shadowedBy, problems and warnings.";

const CONVERT: &str = "\
Writes entries in another dialect, to standard output

Texts are written as they stand: with their variables, and with secrets, if there are any. What the other dialect has no \
word for is told on standard error. No file is changed.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        mcpjoin servers\n  \
        mcpjoin servers --config .vscode/mcp.json --json\n  \
        mcpjoin servers convert --to codex --config .mcp.json"
)]
pub(crate) struct Servers {
    #[command(subcommand)]
    pub(crate) convert: Option<Convert>,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// Shows the entries of these names alone
    #[arg(value_name = "NAME", help_heading = "Arguments")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) configured: Configured,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Convert {
    /// Writes entries in another dialect, to standard output
    #[command(
        long_about = CONVERT,
        after_help = "Examples:\n  \
            mcpjoin servers convert --to vscode > .vscode/mcp.json\n  \
            mcpjoin servers convert --to servers-toml --config claude_desktop_config.json files"
    )]
    Convert {
        /// The dialect: mcpServers in JSON, servers of VS Code, mcp of opencode, [[servers]] in TOML, [mcp_servers.NAME] of
        /// Codex
        #[arg(long, value_name = "DIALECT")]
        to: WrittenAs,
        #[command(flatten)]
        shown: Shown,
    },
}

/// The dialects that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WrittenAs {
    McpServers,
    Vscode,
    Opencode,
    ServersToml,
    Codex,
}
