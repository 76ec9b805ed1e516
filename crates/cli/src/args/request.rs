//! The arguments of the verbs that make one request with operands: `call`, `read`, `prompt` and `complete`.

use std::path::PathBuf;

use clap::Args;

use mcpjoin::proto::types::LoggingLevel;

use super::values::{log_level, size};
use super::{Connect, Output, Questions, Words};

const CALL_LONG: &str = "\
Calls a tool of a server and prints its result

Text is printed unchanged, also that of an embedded resource; images, audio and links are described in one line. On a \
terminal control characters are made visible. With --json the result is the object that the server sent.

On a terminal, a part of a result that is larger than 1 MiB is not printed: its bytes are written to a file in a new folder \
(below TMPDIR), and a line names the file. Into a pipe or a file everything is printed. --spill SIZE sets another limit, \
for both; with --spill 1 each part goes to a file, with images and audio decoded.

Arguments can be given one by one or together:
  name=value    a value of the type in the tool's input schema; repeat it for the items of an array
  name=@FILE    the content of a file (name=@@x is the text @x)
  name:=JSON    a value in JSON; name:=@FILE reads it from a file
  '{...}'       an object in JSON
  @FILE         an object in JSON, read from a file
  -             an object in JSON, read from standard input

Arguments that violate the tool's schema (a wrong type, a value outside its enumeration or bounds, a missing required \
argument, or an argument that is not allowed) are rejected, and nothing is sent: exit code 2. --force sends them anyway. An \
argument that the schema allows but does not declare is sent with a note. If mcpjoin cannot evaluate the schema, the \
arguments are sent.

If the server runs the tool as a task, the command waits for its end. Ctrl-C cancels the task. With --detach the task keeps \
running, and its id is printed; --task ID resumes it and prints the result of the call. The server decides how long it \
keeps a task and its result.

The server is started only for this call. `mcpjoin shell` and `mcpjoin bridge --listen` keep it for several calls \
(docs/sessions.md).";

#[derive(Debug, Args)]
#[command(
    long_about = CALL_LONG,
    override_usage = "mcpjoin call [OPTIONS] TARGET TOOL [ARGUMENT]...\n       \
                      mcpjoin call [OPTIONS] TOOL [ARGUMENT]... -- COMMAND [ARG]...\n       \
                      mcpjoin call [OPTIONS] --task ID TARGET",
    after_help = "Examples:\n  \
        mcpjoin call demo: echo message=hi\n  \
        mcpjoin call get-sum a=2 b=40 -- npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin call files edit_file path=a.txt 'edits:=[{\"oldText\":\"a\",\"newText\":\"b\"}]'\n  \
        mcpjoin call files read_multiple_files paths=a.txt paths=b.txt\n  \
        mcpjoin call files write_file path=notes.md content=@notes.md\n  \
        mcpjoin call --json ./my-server search '{\"filter\":{\"lang\":\"en\"}}'\n  \
        mcpjoin call --args '{\"message\":\"hi\"}' demo: echo\n  \
        mcpjoin call --output pictures demo:full test_image_content\n  \
        mcpjoin call ./my-server import @rows.json\n  \
        mcpjoin call --detach http://127.0.0.1:8080/mcp slow_compute seconds=600\n  \
        mcpjoin call --task 0f6e http://127.0.0.1:8080/mcp"
)]
pub(crate) struct Call {
    #[command(flatten)]
    pub(crate) words: Words,
    /// The arguments as one JSON object; arguments given as name=value override it
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// Sends the call even if its arguments violate the tool's schema
    #[arg(long)]
    pub(crate) force: bool,
    /// The tool, for a name that begins with a dash (`--tool=--x`)
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    /// Starts the call as a task and prints its id, without waiting for the result
    #[arg(long, conflicts_with = "task")]
    pub(crate) detach: bool,
    /// Waits for the task with this id and prints its result
    #[arg(long, value_name = "ID", conflicts_with_all = ["args", "tool"])]
    pub(crate) task: Option<String>,
    /// Writes parts of the result that are larger than this to files, and prints their names. Bytes, or with KiB, MiB, GiB
    /// [default: 1MiB on a terminal, otherwise none]
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "json")]
    pub(crate) spill: Option<usize>,
    /// Writes images, audio and other binary parts to files in this folder. They are named 1.png, 2.wav; a missing folder is
    /// created
    #[arg(short = 'o', long = "output", value_name = "DIR", conflicts_with = "json")]
    pub(crate) folder: Option<PathBuf>,
    /// Asks the server for log messages of this level and above, and shows them. debug, info, notice, warning, error, critical,
    /// alert or emergency [default: info with -v, otherwise none]
    #[arg(long, value_name = "LEVEL", value_parser = log_level)]
    pub(crate) log_level: Option<LoggingLevel>,
    #[command(flatten)]
    pub(crate) questions: Questions,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

const READ_LONG: &str = "\
Reads a resource of a server

A single content is printed unchanged, byte for byte: text as text, and binary data decoded. On a terminal control \
characters in text are made visible, and binary data is described in one line. If there are several contents, each text is \
printed on its own lines, and binary data is described. With --json the result is the object that the server sent.";

#[derive(Debug, Args)]
#[command(
    long_about = READ_LONG,
    override_usage = "mcpjoin read [OPTIONS] TARGET URI\n       \
                      mcpjoin read [OPTIONS] URI -- COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin read demo: demo://about\n  \
        mcpjoin read -o picture.png demo:full test://static-binary\n  \
        mcpjoin read --json demo: demo://greeting/French\n  \
        mcpjoin read demo://resource/dynamic/text/1 -- npx -y @modelcontextprotocol/server-everything\n\n\
        `mcpjoin list` shows the resources of a server."
)]
pub(crate) struct Read {
    #[command(flatten)]
    pub(crate) words: Words,
    /// Writes the bytes of the single content to a file; `-` is standard output, even if it is a terminal
    #[arg(short = 'o', long = "output", value_name = "FILE", conflicts_with = "json")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) questions: Questions,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

const PROMPT_LONG: &str = "\
Gets a prompt from a server and prints its messages

Each message begins with a line with its role. Text is printed unchanged, also that of an embedded resource; images, audio \
and links are described in one line. On a terminal control characters are made visible. With --json the result is the \
object that the server sent. If a required argument is missing, nothing is sent.

Arguments are texts. They can be given one by one or together:
  name=value    a text
  name=@FILE    the content of a file (name=@@x is the text @x)
  name:=JSON    a text in JSON (\"two\\nlines\")
  '{...}'       an object in JSON
  @FILE         an object in JSON, read from a file
  -             an object in JSON, read from standard input";

#[derive(Debug, Args)]
#[command(
    long_about = PROMPT_LONG,
    override_usage = "mcpjoin prompt [OPTIONS] TARGET NAME [ARGUMENT]...\n       \
                      mcpjoin prompt [OPTIONS] NAME [ARGUMENT]... -- COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin prompt demo: translate text=Hello\n  \
        mcpjoin prompt demo: translate text=Hello language=German\n  \
        mcpjoin prompt args-prompt city=Paris -- npx -y @modelcontextprotocol/server-everything\n\n\
        `mcpjoin list` shows the prompts of a server; `mcpjoin list --json` shows what each takes."
)]
pub(crate) struct Prompt {
    #[command(flatten)]
    pub(crate) words: Words,
    /// The arguments as one JSON object of texts; arguments given as name=value override it
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// Requests the prompt even if a required argument is missing
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) questions: Questions,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

const COMPLETE_LONG: &str = "\
Asks a server to complete a prompt or resource argument

Prints one proposal per line. On a terminal control characters are made visible. With --json the result is the object that \
the server sent.

The argument belongs to a prompt or to a resource template:
  prompt:NAME     the prompt of that name
  URI-TEMPLATE    the resource template, as `mcpjoin list` shows it
  resource:URI-TEMPLATE
                  the same, for a template that begins with prompt: or has no scheme";

#[derive(Debug, Args)]
#[command(
    long_about = COMPLETE_LONG,
    override_usage = "mcpjoin complete [OPTIONS] TARGET prompt:NAME ARGUMENT[=VALUE]\n       \
                      mcpjoin complete [OPTIONS] TARGET URI-TEMPLATE ARGUMENT[=VALUE]\n       \
                      mcpjoin complete [OPTIONS] prompt:NAME ARGUMENT[=VALUE] -- COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin complete demo: prompt:translate language=g\n  \
        mcpjoin complete demo: 'demo://greeting/{language}' language=f\n  \
        mcpjoin complete --context text=Hello demo: prompt:translate language=g"
)]
pub(crate) struct Complete {
    #[command(flatten)]
    pub(crate) words: Words,
    /// Another argument and its known value. Repeatable
    #[arg(long, value_name = "ARGUMENT=VALUE")]
    pub(crate) context: Vec<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
