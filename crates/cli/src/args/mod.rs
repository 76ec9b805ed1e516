//! What can be typed: verbs, options and their help. clap reads the words; what they mean together is decided in
//! `target` (which server) and in the commands (which operands).
//!
//! An option stands here only when it does something.

mod auth;
mod authorization;
mod bridge;
mod call;
mod complete;
mod completions;
mod connect;
mod diff;
mod doctor;
mod info;
mod list;
mod man;
mod output;
mod ping;
mod prompt;
mod read;
mod search;
mod serve;
mod servers;
mod tool;
mod validate;
mod values;
mod words;

use clap::builder::styling::{AnsiColor, Effects, Styles};
use clap::{Args, Parser, Subcommand};

pub(crate) use auth::{
    Auth, AuthWhat, Callback, Client as AuthClient, Explain, Login, Logout, Named, Reach, Status,
};
pub(crate) use authorization::Authorization;
pub(crate) use bridge::{Bridge, Poll};
pub(crate) use call::Call;
pub(crate) use complete::Complete;
pub(crate) use completions::Completions;
pub(crate) use connect::{Configured, Connect};
pub(crate) use diff::{Counted, Diff};
pub(crate) use doctor::Doctor;
pub(crate) use info::Info;
pub(crate) use list::List;
pub(crate) use man::Man;
pub(crate) use output::{Output, When};
pub(crate) use ping::Ping;
pub(crate) use prompt::Prompt;
pub(crate) use read::Read;
pub(crate) use search::Search;
pub(crate) use serve::{Serve, Served};
pub(crate) use servers::{Servers, Shown, What, WrittenAs};
pub(crate) use tool::Tool;
pub(crate) use validate::{ClientLook, Format, ToolCall, Validate};
pub(crate) use values::{Pin, pin};
pub(crate) use words::Words;

use crate::exit;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .usage(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .literal(AnsiColor::Cyan.on_default().effects(Effects::BOLD))
    .placeholder(AnsiColor::Cyan.on_default())
    .error(AnsiColor::Red.on_default().effects(Effects::BOLD))
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Yellow.on_default());

/// Talks to Model Context Protocol servers, whatever revision they speak.
#[derive(Debug, Parser)]
#[command(
    name = "mcpjoin",
    // However the file is called, or the link to it: what is shown can be typed.
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
         mcpjoin read demo: test://static-text\n  \
         mcpjoin call echo message=hi -- npx -y @modelcontextprotocol/server-everything\n\n\
         Exit codes:\n{}\n\n\
         `mcpjoin help targets` says how a server is named.",
        exit::TABLE
    )
}

/// What each verb says of itself in one line. The rest of it is not built before it is typed: that is most of what clap
/// would have to do at each start.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Verb {
    /// Judges a server by the specification's own sentences
    Validate(Validate),
    /// Lists the tools, resources, resource templates and prompts of a server
    List(List),
    /// Shows what a server is, and how much it has
    Info(Info),
    /// Says what has changed in what a server offers, and whether that harms anybody
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
    /// Has a server fill in a prompt, and prints its messages
    Prompt(Prompt),
    /// Asks a server what a value may be, as far as it is typed
    Complete(Complete),
    /// Asks a server whether it answers, and measures how long that takes
    Ping(Ping),
    /// Finds out what is wrong with a server, phase by phase
    Doctor(Doctor),
    /// Logs in to servers over HTTP, and explains why that fails
    Auth(Auth),
    /// Joins any client to any server: stdio, HTTP, sockets, QUIC, Orchestra
    Bridge(Bridge),
    /// Shows what the configuration holds, or writes it in another dialect
    Servers(Servers),
    /// Runs a built-in server on standard input and output, or on a socket
    Serve(Serve),
    /// Prints a script with which a shell completes verbs and options
    Completions(Completions),
    /// Prints the manual page of mcpjoin, or of one of its verbs
    Man(Man),
    /// Explains a verb, or how a server is named (`targets`)
    Help(Help),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  mcpjoin help call\n  mcpjoin help servers convert\n  mcpjoin help targets"
)]
pub(crate) struct Help {
    /// A verb, with what stands below it, or `targets`
    pub(crate) topic: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    /// The words of a line as a shell takes them apart, up to where it leads the output elsewhere.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for character in line.chars() {
            match (quote, character) {
                (Some(open), end) if open == end => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(character);
                    word.get_or_insert_default();
                }
                (None, ' ') => words.extend(word.take()),
                _ => word.get_or_insert_default().push(character),
            }
        }
        words.extend(word);
        words.into_iter().take_while(|word| word != "|" && word != ">").collect()
    }

    /// Whether there are examples below this command, all of which can be read.
    fn check(command: &mut clap::Command, name: &str) {
        let help = command.render_long_help().to_string();
        let examples = help.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{name} has no examples"));
        let examples: Vec<&str> = examples.lines().take_while(|line| line.starts_with("  ")).collect();
        assert!(!examples.is_empty(), "{name}");
        for line in examples {
            // What the server prints stands for itself.
            let words = words(&line.trim().replace("sha256:HEX", &format!("sha256:{}", "0".repeat(64))));
            assert_eq!(words[0], "mcpjoin", "{name}: {line}");
            // Help of help is what clap itself shows.
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
        // No line is folded.
        let mut command = Cli::command().term_width(0);
        command.build();
        check(&mut command, "mcpjoin");
    }

    #[test]
    fn clap_accepts_what_is_declared() {
        Cli::command().debug_assert();
    }
}
