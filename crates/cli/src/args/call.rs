//! `mcpjoin call`: what can be typed.

use clap::Args;

use super::values::size;
use super::{Connect, Output, Words};

const LONG: &str = "\
Calls a tool of a server and prints its result

Text is printed as it is; a picture, a sound or a resource as one line that describes it. On a terminal control \
characters in a text are made visible. With --json the result is the object that the server sent.

A part of a result that is larger than a MiB is not printed on a terminal: its bytes are written to a file in a new \
folder (below TMPDIR), and the line in its place says which. Into a pipe or a file everything is printed. --spill SIZE is \
another limit, for both; with --spill 1 each part goes to a file, pictures and sounds decoded.

Arguments are given one by one, or together:
  name=value    a value of the type that the tool's input schema asks for
  name:=JSON    a value in JSON
  @FILE         an object in JSON, read from a file
  -             an object in JSON, read from standard input

A tool that the server runs as a task is followed to its end. Ctrl-C calls the task off. With --detach it is left to \
run, and its id is printed; --task ID takes it up again, and prints the result as if it had been waited for. How long a \
task and its result are kept is the server's choice.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin call [OPTIONS] TARGET TOOL [ARGUMENT]...\n       \
                      mcpjoin call [OPTIONS] TOOL [ARGUMENT]... -- COMMAND [ARG]...\n       \
                      mcpjoin call [OPTIONS] --task ID TARGET",
    after_help = "Examples:\n  \
        mcpjoin call demo: echo message=hi\n  \
        mcpjoin call get-sum a=2 b=40 -- npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin call --json ./my-server search 'filter:={\"lang\":\"en\"}'\n  \
        mcpjoin call --args '{\"message\":\"hi\"}' demo: echo\n  \
        mcpjoin call --spill 1 demo: test_image_content\n  \
        mcpjoin call ./my-server import @rows.json\n  \
        mcpjoin call --detach http://127.0.0.1:8080/mcp slow_compute seconds=600\n  \
        mcpjoin call --task 0f6e http://127.0.0.1:8080/mcp"
)]
pub(crate) struct Call {
    #[command(flatten)]
    pub(crate) words: Words,
    /// The arguments as one JSON object; single ones that are given beside it win
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// The tool, in place of the operand TOOL: for a name that begins with a dash (`--tool=--x`)
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Begins the call and leaves it to run as a task: prints the task's id and waits for no result
    #[arg(long, conflicts_with = "task")]
    pub(crate) detach: bool,
    /// Takes up the task with this id, in place of a tool: waits for its end and prints its result
    #[arg(long, value_name = "ID", conflicts_with_all = ["args", "tool"])]
    pub(crate) task: Option<String>,
    /// Writes each part of the result that is larger than this to a file, and prints the file's name in its place: bytes, or
    /// with KiB, MiB, GiB [default: 1MiB on a terminal, otherwise none]
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "json")]
    pub(crate) spill: Option<usize>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
