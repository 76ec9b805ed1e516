//! The command line: verbs, options and their help. clap parses it; `target` decides which server it names, and the
//! commands decide which operands it has.
//!
//! An option is declared only for verbs on which it has an effect.

mod auth;
mod bridge;
mod connect;
mod diff;
mod doctor;
pub(crate) mod pages;
mod questions;
mod request;
mod serve;
mod servers;
mod shared;
mod shell;
mod show;
mod validate;
mod values;

use clap::builder::styling::{AnsiColor, Effects, Styles};
use clap::{Args, Parser, Subcommand};

pub(crate) use auth::{
    Auth, AuthWhat, Callback, Client as AuthClient, Explain, Login, Logout, Named, Reach, Status,
};
pub(crate) use bridge::{Bridge, Poll};
pub(crate) use connect::{Configured, Connect};
pub(crate) use diff::{Counted, Diff};
pub(crate) use doctor::Doctor;
pub(crate) use questions::Questions;
pub(crate) use request::{Call, Complete, Prompt, Read};
pub(crate) use serve::{Serve, Served};
pub(crate) use servers::{Add, Remove, Servers, Shown, What, WrittenAs};
pub(crate) use shared::{Authorization, Output, When, Words};
pub(crate) use shell::Shell;
pub(crate) use show::{Info, List, Ping, Search, Tool};
pub(crate) use validate::{ClientLook, Format, ToolCall, Validate};
pub(crate) use values::{Pin, pin};

use crate::exit;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .usage(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .literal(AnsiColor::Cyan.on_default().effects(Effects::BOLD))
    .placeholder(AnsiColor::Cyan.on_default())
    .error(AnsiColor::Red.on_default().effects(Effects::BOLD))
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Yellow.on_default());

/// Connects any MCP client to any MCP server, of any revision: list, call, check, diagnose, bridge.
#[derive(Debug, Parser)]
#[command(
    name = "mcpjoin",
    // Whatever the name of the file, or of the link to it: examples can be typed as they are.
    bin_name = "mcpjoin",
    version,
    styles = STYLES,
    disable_help_subcommand = true,
    max_term_width = 100,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    after_help = after_help(),
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

fn after_help() -> String {
    format!(
        "Examples:\n  \
         mcpjoin validate demo:\n  \
         mcpjoin list demo:\n  \
         mcpjoin list npx -y @modelcontextprotocol/server-everything\n  \
         mcpjoin call demo: echo message=hi\n  \
         mcpjoin read demo: demo://about\n  \
         mcpjoin call echo message=hi -- npx -y @modelcontextprotocol/server-everything\n\n\
         Exit codes:\n{}\n\n\
         `mcpjoin help targets` shows how to name a server, `mcpjoin help options` the options that all verbs share.",
        exit::TABLE
    )
}

/// The verbs. The arguments of a verb are built when it is used: building all takes most of the time of clap at each start.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Verb {
    /// Checks a server against the MCP specification
    Validate(Validate),
    /// Lists the tools, resources, resource templates and prompts of a server
    List(List),
    /// Shows name, version, protocol and capabilities of a server
    Info(Info),
    /// Shows what changed in what a server offers, and what would break callers
    Diff(Diff),
    /// Finds tools by name in every server of the configuration
    #[command(visible_alias = "grep")]
    Search(Search),
    /// Shows a tool of a server, with its parameters
    Tool(Tool),
    /// Calls a tool of a server and prints its result
    Call(Call),
    /// Reads a resource of a server
    Read(Read),
    /// Gets a prompt from a server and prints its messages
    Prompt(Prompt),
    /// Asks a server to complete a prompt or resource argument
    Complete(Complete),
    /// Pings a server and measures the response time
    Ping(Ping),
    /// Opens one session with a server, and runs commands in it
    Shell(Shell),
    /// Finds why a connection does not work, phase by phase
    Doctor(Doctor),
    /// Logs in to HTTP servers that require authorization (OAuth 2.1)
    Auth(Auth),
    /// Bridges any MCP client to any MCP server: stdio, HTTP, sockets, QUIC, Orchestra
    Bridge(Box<Bridge>),
    /// Shows the entries of the configuration, edits them, or writes them in another dialect
    Servers(Servers),
    /// Runs a built-in server on standard input and output, or on a socket
    Serve(Serve),
    /// Prints a script with which a shell completes verbs, options, entries and tools
    Completions(Completions),
    /// Prints the manual page of mcpjoin, or of one of its verbs
    Man(Man),
    /// Explains a verb or a topic: targets, options, quic, orchestra
    Help(Help),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  mcpjoin help call\n  mcpjoin help servers convert\n  mcpjoin help targets"
)]
pub(crate) struct Help {
    /// A verb with its subcommand, or a topic: targets, options, quic, orchestra
    pub(crate) topic: Vec<String>,
}

const COMPLETIONS_LONG: &str = "\
Prints a script with which a shell completes verbs, options, entries and tools

No server is started or reached at a Tab key. The tools of a server and their parameters are completed once `list`, `call`, \
`tool`, `search` or `shell` has listed them: their names are stored in mcpjoin/tools in the cache folder (~/.cache). With --no-cache \
nothing is stored. Names with characters that a shell interprets are not completed.";

#[derive(Debug, Args)]
#[command(long_about = COMPLETIONS_LONG, after_help = "Examples:\n  \
    mcpjoin completions bash > ~/.local/share/bash-completion/completions/mcpjoin\n  \
    mcpjoin completions zsh > \"${fpath[1]}/_mcpjoin\"\n  \
    mcpjoin completions fish > ~/.config/fish/completions/mcpjoin.fish")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    mcpjoin man | man -l -\n  \
    mcpjoin man call > ~/.local/share/man/man1/mcpjoin-call.1\n  \
    mcpjoin man servers convert | man -l -")]
pub(crate) struct Man {
    /// A verb with its subcommand
    pub(crate) verb: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    /// The words of a line as a shell splits it, up to a pipe or a redirection.
    fn words(line: &str) -> Vec<String> {
        let words = shlex::split(line).unwrap_or_default();
        words.into_iter().take_while(|word| !["|", ">", "<"].contains(&word.as_str())).collect()
    }

    /// Checks that this command and those below it have examples, and that clap parses them.
    fn check(command: &mut clap::Command, name: &str) {
        let help = command.render_long_help().to_string();
        let examples = help.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{name} has no examples"));
        let examples: Vec<&str> = examples.lines().take_while(|line| line.starts_with("  ")).collect();
        assert!(!examples.is_empty(), "{name}");
        for line in examples {
            // A placeholder for what the server prints.
            let words = words(&line.trim().replace("sha256:HEX", &format!("sha256:{}", "0".repeat(64))));
            assert_eq!(words[0], "mcpjoin", "{name}: {line}");
            // The help of `help` is clap's own.
            if let Err(error) = Cli::try_parse_from(&words) {
                assert!(!error.use_stderr(), "{name}: {line}: {error}");
            }
        }
        for below in command.get_subcommands_mut().filter(|below| !below.is_hide_set()) {
            check(below, &format!("{name} {}", below.get_name().to_owned()));
        }
    }

    #[test]
    fn every_verb_has_examples_and_each_of_them_can_be_read() {
        // Lines are not wrapped.
        let mut command = Cli::command().term_width(0);
        command.build();
        check(&mut command, "mcpjoin");
    }

    #[test]
    fn clap_accepts_what_is_declared() {
        Cli::command().debug_assert();
    }
}
