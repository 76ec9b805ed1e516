//! The arguments of `mcpjoin servers`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};

use super::{Configured, Output};
use crate::config::PROGRAM_NAMES;

const LONG: &str = "\
Shows the configuration, edits it, or writes it in another dialect

Every file in which an entry would be looked for is shown, in that order, with each entry, the line of each of its values, \
and why it cannot be used: what is wrong with it, the variables that are not set, or an entry of the same name that comes \
first. Values of variables and headers are not shown, and nothing is started. The exit code is 2 when a file cannot be used, or \
an entry that is neither disabled nor behind another of its name; with warnings alone it is 0. On the same faults mcpjoin \
doctor, which looks for the programs, too, ends with 1.

In texts, ${NAME}, ${NAME:-default}, ${env:NAME} and {env:NAME} stand for variables, ${workspaceFolder} and ${userHome} for \
folders, {file:PATH} of opencode for the text of a file. An input of VS Code, ${input:ID}, is taken from the variable \
MCPJOIN_INPUT_ID (the id in capitals, with _ for what is no letter and no digit), or is its default. What envFile names is \
read for more variables.

A program gets those of your variables alone that programs need to run (see --env-clean), those that env, env_vars and envFile name, and \
all of them with --inherit-env, or where you name the file (--config).

A url can also be quic://host:port, with the members pin or ca, and cert with key, which mean what the options of these names \
do, or tcp://host:port or unix:/path. Beside a url of https:// there can be ca. Files are found from the folder that the \
configuration is about.

With --json the result is one object with files; each has file, trusted, dialect, problem (of one that cannot be read), warnings and \
servers; each of these has name, line, trusted, changes (since it was trusted), transport, description, values (what, text, \
line, and file where that is another one), disabled (the line that says so), \
shadowedBy, problems and warnings.";

const TRUST: &str = "\
Trusts the entries in a folder as they are now, and shows them

Configurations in the working directory can be the work of others. Before an entry of such a file is used, the entry is \
shown as the file has it, and you are asked; without a terminal, the entry is refused. An entry that you have trusted is used \
without a question until its definition changes: the command, its arguments, variables and directory, the URL, headers \
and login, the filters of tools, and the values in the files that envFile and {file:PATH} name. Then you are asked again and \
shown what has changed. The file of the program itself is not part of the definition.

Not asked about are files that you name (--config FILE, --mcp-config, FILE#NAME, MCP_CONFIG_PATH), and files in your home and in \
your folder of configurations.

What is trusted stands in mcpjoin/trusted.json in your folder of configurations. Secrets stand there as SHA-256 digests \
alone. A list that is damaged, or that others can write to, trusts nothing. The list of folders of earlier versions, \
mcpjoin/trusted, is not used.";

const UNTRUST: &str = "\
Trusts the entries in a folder, and in folders below it, no longer

The next use of such an entry asks again. The folder itself need not exist any more.";

const CONVERT: &str = "\
Writes entries in another dialect, to standard output

Variables are spelled as the other program reads them. In the place of each value of a variable or a header, and of each \
secret among arguments and in a url, a variable is written, and standard error says which of them have to be set; --values \
writes all of it as it stands. What the other dialect has no word for is told on standard error, too. No file is changed.

An entry that cannot be converted is left out and told; one that is named is an error. With --json, which is for the dialects \
in JSON, what is wrong is told as JSON, too: the result is the same.";

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
    /// Shows the entries of these names alone
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
        /// Writes the values of variables and headers, and secrets among arguments, as they stand
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
    /// Trusts the entries in a folder as they are now, and shows them
    #[command(long_about = TRUST, after_help = "Examples:\n  mcpjoin servers trust\n  mcpjoin servers trust ~/work files")]
    Trust {
        /// The folder; without it, the working directory
        #[arg(value_name = "DIR", help_heading = "Arguments")]
        folder: Option<PathBuf>,
        /// The entries of these names alone
        #[arg(value_name = "NAME", help_heading = "Arguments")]
        names: Vec<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Trusts the entries in a folder, and in folders below it, no longer
    #[command(
        long_about = UNTRUST,
        after_help = "Examples:\n  mcpjoin servers untrust\n  mcpjoin servers untrust /"
    )]
    Untrust {
        /// The folder; without it, the working directory
        #[arg(value_name = "DIR", help_heading = "Arguments")]
        folder: Option<PathBuf>,
        /// The entries of these names alone
        #[arg(value_name = "NAME", help_heading = "Arguments")]
        names: Vec<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Shows which entries are trusted
    #[command(after_help = "Examples:\n  mcpjoin servers trusted --json")]
    Trusted {
        #[command(flatten)]
        output: Output,
    },
}

const ADD: &str = "\
Adds an entry to a configuration file, in the dialect of the file

The server is a URL, an address, or the command after --. The entry is written to .mcp.json in the working directory, or to the \
file of --config, or with --to to the file of a program: in the working directory where the program has one there, otherwise, \
and with --user, to the file for all folders. A file that does not exist is made.

Values of variables and headers, and secrets among arguments, are not written: a variable stands in their place, and standard \
error says which of them have to be set; --values writes all of it as it is typed. -e NAME passes a variable of yours on.

The change is shown, and you are asked; without a terminal, --yes is needed. Comments, order and layout of the file stay. The \
file is replaced at once, and its old content is kept beside it under the same name with .mcpjoin-backup.";

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
    /// Sets a variable for the server; NAME alone passes yours on
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<OsString>,
    /// A header for a server over HTTP: 'Name: value'
    #[arg(short = 'H', long, value_name = "HEADER")]
    pub(crate) header: Vec<String>,
    /// The server's working directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Writes the values of variables and headers, and secrets among arguments, as they are typed
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

The entry is removed from the first file in which `mcpjoin servers` finds it, from the file of --config, or with --from from the \
file of a program. The change is shown, and you are asked; without a terminal, --yes is needed. Comments, order and layout of \
the rest stay. The file is replaced at once, and its old content is kept beside it under the same name with .mcpjoin-backup.";

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
