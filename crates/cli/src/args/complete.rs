//! `mcpjoin complete`: what can be typed.

use clap::Args;

use super::{Connect, Output, Words};

const LONG: &str = "\
Asks a server what a value may be, as far as it is typed

Prints one proposal a line. On a terminal control characters in it are made visible. With --json the result is the object that the server sent.

The argument is one of a prompt or of a resource template:
  prompt:NAME     the prompt of that name
  URI-TEMPLATE    the resource template, as `mcpjoin list` shows it
  resource:URI-TEMPLATE
                  the same, for one that begins with prompt: or has no scheme";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin complete [OPTIONS] TARGET prompt:NAME ARGUMENT[=VALUE]\n       \
                      mcpjoin complete [OPTIONS] TARGET URI-TEMPLATE ARGUMENT[=VALUE]\n       \
                      mcpjoin complete [OPTIONS] prompt:NAME ARGUMENT[=VALUE] -- COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin complete demo: prompt:test_prompt_with_arguments arg1=he\n  \
        mcpjoin complete demo: 'test://template/{id}/data' id=4\n  \
        mcpjoin complete --context arg1=hello demo: prompt:test_prompt_with_arguments arg2=w"
)]
pub(crate) struct Complete {
    #[command(flatten)]
    pub(crate) words: Words,
    /// Another argument and its value, which is known already; can be given several times
    #[arg(long, value_name = "ARGUMENT=VALUE")]
    pub(crate) context: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
