//! The arguments of `mcpjoin servers`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};

use super::{Configured, Output};
use crate::config::PROGRAM_NAMES;

const LONG: &str = "\
Shows the entries of the configuration, edits them, or writes them in another dialect

Shows every file in which an entry is looked up, in that order, with each entry, the line of each value, and why an \
entry cannot be used: an error, a missing variable, or an entry of the same name in an earlier file. The values of \
variables and headers are not shown, and nothing is started. The exit code is 2 if a file cannot be used, or an entry \
that is neither disabled nor shadowed; with only warnings it is 0. For the same faults `mcpjoin doctor`, which also \
looks up the programs, exits with 1.

${NAME}, ${NAME:-default}, ${env:NAME} and {env:NAME} are replaced by variables, ${workspaceFolder} and ${userHome} by \
folders, {file:PATH} of opencode by the text of a file. An input of VS Code, ${input:ID}, is the variable \
MCPJOIN_INPUT_ID (the id in capitals, with _ for everything but letters and digits), or its default. envFile names a \
file with more variables.

A program gets only the variables that programs need to run (see --env-clean), and those that env, env_vars and \
envFile name. With --inherit-env, or if you name the file with --config, it gets all variables.

A url may also be quic://host:port (with pin or ca, and cert with key, as the options of these names), tcp://host:port \
or unix:/path. An https:// entry may have ca. Relative paths start at the folder of the configuration.

With --json the result is one object with files: file, trusted, dialect, problem (if it cannot be read), warnings and \
servers: name, line, trusted, changes (since it was trusted), transport, description, values (what, text, line, and \
file if it is another one), disabled (the line), shadowedBy, problems and warnings.";

const TRUST: &str = "\
Trusts the current entries in a folder, and shows them

Configurations in the working directory may come from other people. Before an entry of such a file is used, it is \
shown unchanged, and you are asked; without a terminal it is rejected. A trusted entry is used without a \
question until its definition changes: command, arguments, variables and directory; URL, headers and login; tool \
filters; the values in the files that envFile and {file:PATH} name. Then you are asked again, with the changes. The \
program file itself is not part of the definition.

There is no question for files that you name (--config FILE, --mcp-config, FILE#NAME, MCP_CONFIG_PATH), and for files \
in your home folder and your folder of configurations.

The list is mcpjoin/trusted.json in your folder of configurations. It holds secrets only as SHA-256 digests. If the \
list is damaged, or writable by others, nothing is trusted. The list of earlier versions, mcpjoin/trusted, is not \
used.";

const UNTRUST: &str = "\
Stops trusting the entries in a folder and in the folders below it

The next use of such an entry asks again. The folder does not have to exist.";

const CONVERT: &str = "\
Writes entries in another dialect, to standard output

Variables are written as the other program reads them. Values of variables and headers, and secrets in arguments and \
URLs, are replaced by variables; standard error lists those that you have to set. --values writes the values \
themselves. Settings that the other dialect does not have are listed on standard error. No file is changed.

An entry that cannot be converted is left out with a warning; if you named it, that is an error. With --json (for the \
dialects in JSON) the warnings are JSON, too; the result is the same.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  \
        mcpjoin servers\n  \
        mcpjoin servers --config .vscode/mcp.json --json\n  \
        mcpjoin servers convert --to codex --config .mcp.json\n  \
        mcpjoin servers add --to cursor files -- npx -y @modelcontextprotocol/server-filesystem /srv\n  \
        mcpjoin servers remove files"
)]
pub(crate) struct Servers {
    #[command(subcommand)]
    pub(crate) what: Option<What>,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// Shows only the entries with these names
    #[arg(value_name = "NAME", help_heading = "Arguments")]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) configured: Configured,
}

#[derive(Debug, Subcommand)]
pub(crate) enum What {
    /// Writes entries in another dialect, to standard output
    #[command(
        long_about = CONVERT,
        after_help = "Examples:\n  \
            mcpjoin servers convert --to vscode > .vscode/mcp.json\n  \
            mcpjoin servers convert --to servers-toml --config claude_desktop_config.json files"
    )]
    Convert {
        /// The dialect: mcpServers in JSON, servers of VS Code, mcp of opencode, [[servers]] in TOML, or that of a program
        #[arg(long, value_name = "DIALECT")]
        to: WrittenAs,
        /// Writes the values of variables and headers, and secrets in arguments, instead of variables
        #[arg(long)]
        values: bool,
        #[command(flatten)]
        shown: Shown,
    },
    /// Adds an entry to a configuration file
    Add(Box<Add>),
    /// Removes an entry from its configuration file
    #[command(visible_alias = "rm")]
    Remove(Box<Remove>),
    /// Trusts the current entries in a folder, and shows them
    #[command(long_about = TRUST, after_help = "Examples:\n  mcpjoin servers trust\n  mcpjoin servers trust ~/work files")]
    Trust {
        /// The folder [default: the working directory]
        #[arg(value_name = "DIR", help_heading = "Arguments")]
        folder: Option<PathBuf>,
        /// Only the entries with these names
        #[arg(value_name = "NAME", help_heading = "Arguments")]
        names: Vec<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Stops trusting the entries in a folder and in the folders below it
    #[command(
        long_about = UNTRUST,
        after_help = "Examples:\n  mcpjoin servers untrust\n  mcpjoin servers untrust /"
    )]
    Untrust {
        /// The folder [default: the working directory]
        #[arg(value_name = "DIR", help_heading = "Arguments")]
        folder: Option<PathBuf>,
        /// Only the entries with these names
        #[arg(value_name = "NAME", help_heading = "Arguments")]
        names: Vec<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Lists the trusted entries
    #[command(after_help = "Examples:\n  mcpjoin servers trusted --json")]
    Trusted {
        #[command(flatten)]
        output: Output,
    },
}

const ADD: &str = "\
Adds an entry to a configuration file, in the dialect of the file

The server is a URL, an address, or the command after --. The entry is written to .mcp.json in the working directory, or to \
the file of --config. With --to it is written to the file of a program: the file in the working directory if the program \
has one there, otherwise (and with --user) the file for all folders. A missing file is created.

Values of headers, values of -e that may be secrets (by the name, or because they look like a token), and secrets in \
arguments are replaced by variables; standard error lists those that you have to set. --values writes the values \
themselves. Other values of -e are written as they were typed. -e NAME passes your variable on.

The change is shown, and you are asked; without a terminal, --yes is needed. Comments, order and layout of the file are \
kept. The file is replaced in one step, and its old content is kept next to it under the same name with .mcpjoin-backup.";

#[derive(Debug, Args)]
#[command(
    long_about = ADD,
    override_usage = "mcpjoin servers add [OPTIONS] NAME URL\n       \
                      mcpjoin servers add [OPTIONS] NAME -- COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin servers add files -- npx -y @modelcontextprotocol/server-filesystem /srv\n  \
        mcpjoin servers add --to cursor --user web https://example.com/mcp\n  \
        mcpjoin servers add --to codex -e API_KEY search -- uvx search-server"
)]
pub(crate) struct Add {
    /// The name of the entry
    #[arg(value_name = "NAME", help_heading = "Arguments")]
    pub(crate) name: String,
    /// The server: a URL, an address, or a program
    #[arg(value_name = "URL", help_heading = "Arguments")]
    pub(crate) target: Option<OsString>,
    /// The server's command
    #[arg(last = true, value_name = "COMMAND", help_heading = "Arguments")]
    pub(crate) command: Vec<OsString>,
    /// Writes to this file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Writes to the file of this program
    #[arg(long, value_name = "PROGRAM", value_parser = PossibleValuesParser::new(PROGRAM_NAMES), conflicts_with = "config")]
    pub(crate) to: Option<String>,
    /// Writes to the program's file for all folders
    #[arg(long, requires = "to")]
    pub(crate) user: bool,
    /// Sets a variable for the server; NAME alone passes your variable on
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<OsString>,
    /// A header for a server over HTTP: 'Name: value'
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// The server's working directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Writes the values of headers, and secrets among variables and arguments, themselves
    #[arg(long)]
    pub(crate) values: bool,
    /// Writes the file without a question
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

const REMOVE: &str = "\
Removes an entry from its configuration file

The entry is removed from the first file in which `mcpjoin servers` finds it, from the file of --config, or with --from \
from the file of a program. The change is shown, and you are asked; without a terminal, --yes is needed. Comments, order \
and layout of the rest are kept. The file is replaced in one step, and its old content is kept next to it under the same \
name with .mcpjoin-backup.";

#[derive(Debug, Args)]
#[command(
    long_about = REMOVE,
    after_help = "Examples:\n  \
        mcpjoin servers remove files\n  \
        mcpjoin servers remove --from cursor --user web"
)]
pub(crate) struct Remove {
    /// The name of the entry
    #[arg(value_name = "NAME", help_heading = "Arguments")]
    pub(crate) name: String,
    /// Removes it from this file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Removes it from the file of this program
    #[arg(long, value_name = "PROGRAM", value_parser = PossibleValuesParser::new(PROGRAM_NAMES), conflicts_with = "config")]
    pub(crate) from: Option<String>,
    /// Removes it from the program's file for all folders
    #[arg(long, requires = "from")]
    pub(crate) user: bool,
    /// Writes the file without a question
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) output: Output,
}

/// The dialects that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WrittenAs {
    McpServers,
    Vscode,
    Opencode,
    ServersToml,
    Codex,
    /// As mcp-servers
    Claude,
    Cursor,
    Gemini,
    Zed,
    Windsurf,
    /// As mcp-servers
    Mcporter,
}
