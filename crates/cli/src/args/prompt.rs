//! `mcpjoin prompt`: what can be typed.

use clap::Args;

use super::{Connect, Output, Words};

const LONG: &str = "\
Has a server fill in a prompt, and prints its messages

Each message begins with a line that names its role. Text is printed as it is; a picture, a sound or a resource as one \
line that describes it. On a terminal control characters in a text are made visible. With --json the result is the object that the server sent. When an argument is missing that \
the prompt requires, it is not asked for at all.

Arguments are texts, given one by one, or together:
  name=value    a text
  name:=JSON    a text in JSON (\"two\\nlines\")
  @FILE         an object in JSON, read from a file
  -             an object in JSON, read from standard input";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin prompt [OPTIONS] TARGET NAME [ARGUMENT]...\n       \
                      mcpjoin prompt [OPTIONS] NAME [ARGUMENT]... -- COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin prompt demo: test_simple_prompt\n  \
        mcpjoin prompt demo: test_prompt_with_arguments arg1=hello arg2=world\n  \
        mcpjoin prompt args-prompt city=Paris -- npx -y @modelcontextprotocol/server-everything\n\n\
        `mcpjoin list` shows the prompts of a server; `mcpjoin list --json` shows what each takes."
)]
pub(crate) struct Prompt {
    #[command(flatten)]
    pub(crate) words: Words,
    /// The arguments as one JSON object of texts; single ones that are given beside it win
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
