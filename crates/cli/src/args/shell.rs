//! The arguments of `mcpjoin shell`.

use std::ffi::OsString;

use clap::Args;

use super::{Connect, Output, Questions};

const SHELL_LONG: &str = "\
Opens one session with a server, and runs commands in it

The server is started once, so it keeps its state from one call to the next (an open page of a browser, a counter). The \
commands are the verbs without TARGET: `list`, `tool NAME`, `call TOOL name=value`, `read URI`, `prompt NAME`, `complete`, \
`ping`, `info`; and `watch URI`, `log LEVEL`, `help`, `exit`. The Tab key completes verbs, tools, their arguments, prompts \
and resources. Ctrl-C cancels the current command, Ctrl-D ends the shell.

If standard input is not a terminal, its lines are a script: the shell ends at the first command that fails, with its exit \
code. Empty lines and lines that begin with # are skipped.";

#[derive(Debug, Args)]
#[command(
    long_about = SHELL_LONG,
    override_usage = "mcpjoin shell [OPTIONS] TARGET\n       mcpjoin shell [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin shell demo:\n  \
        mcpjoin shell npx -y @playwright/mcp\n  \
        mcpjoin shell --root . files\n  \
        mcpjoin shell demo: < commands.txt"
)]
pub(crate) struct Shell {
    /// The server: a URL, `demo:`, quic://host:port, tcp://host:port, unix:/path, an entry of a configuration, or a
    /// command and its arguments
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) questions: Questions,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
