//! What can be typed: verbs, options and their help. clap reads the words; what they mean together is decided in
//! `target` (which server) and in the commands (which operands).
//!
//! An option stands here only when it does something.

mod bridge;
mod call;
mod complete;
mod completions;
mod connect;
mod doctor;
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

pub(crate) use bridge::{Bridge, Poll};
pub(crate) use call::Call;
pub(crate) use complete::Complete;
pub(crate) use completions::Completions;
pub(crate) use connect::{Configured, Connect};
pub(crate) use doctor::Doctor;
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
    /// Joins MCP and Orchestra, in either direction
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
pub(crate) struct Help {
    /// A verb, or `targets`
    pub(crate) topic: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn clap_accepts_what_is_declared() {
        Cli::command().debug_assert();
    }
}
