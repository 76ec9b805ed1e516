//! What can be typed: verbs, options and their help. clap reads the words; what they mean together is decided in
//! `target` (which server) and in the commands (which operands).
//!
//! An option stands here only when it does something.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Effects, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};
use mcpjoin::proto::Version;

use crate::exit;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .usage(AnsiColor::Green.on_default().effects(Effects::BOLD))
    .literal(AnsiColor::Cyan.on_default().effects(Effects::BOLD))
    .placeholder(AnsiColor::Cyan.on_default())
    .error(AnsiColor::Red.on_default().effects(Effects::BOLD))
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Yellow.on_default());

/// The longest time that can be asked for, in seconds: a day. Whoever asks for more has mistyped.
const LONGEST: f64 = 86_400.0;
/// The largest message that can be asked for, in bytes: 1 GiB.
const LARGEST: u64 = 1 << 30;

const CALL: &str = "\
Calls a tool of a server and prints its result

Text is printed as it is; a picture, a sound or a resource as one line that describes it. With --json the result is \
the object that the server sent.

Arguments are given one by one, or together:
  name=value    a value of the type that the tool's input schema asks for
  name:=JSON    a value in JSON
  @FILE         an object in JSON, read from a file
  -             an object in JSON, read from standard input";

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
         mcpjoin list demo:\n  \
         mcpjoin list npx -y @modelcontextprotocol/server-everything\n  \
         mcpjoin call demo: echo message=hi\n  \
         mcpjoin call echo message=hi -- npx -y @modelcontextprotocol/server-everything\n\n\
         Exit codes:\n{}\n\n\
         `mcpjoin help targets` says how a server is named.",
        exit::TABLE
    )
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    List(List),
    Call(Call),
    Serve(Serve),
    Help(Help),
}

/// Lists the tools, resources, resource templates and prompts of a server
///
/// Everything that the server says it has is asked for, page by page. With --json the result is one object with
/// protocolVersion, serverInfo, capabilities, instructions, and, where the server has them, tools, resources,
/// resourceTemplates and prompts, each entry exactly as the server sent it.
#[derive(Debug, Args)]
#[command(
    override_usage = "mcpjoin list [OPTIONS] TARGET\n       mcpjoin list [OPTIONS] [--] COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin list demo:\n  \
        mcpjoin list ./my-server --verbose\n  \
        mcpjoin list --json npx -y @modelcontextprotocol/server-everything\n\n\
        Options stand before the server's command: what follows its first word is its own."
)]
pub(crate) struct List {
    /// The server: `demo:`, or a command and its arguments
    #[arg(trailing_var_arg = true, value_name = "TARGET or COMMAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// Calls a tool of a server and prints its result
#[derive(Debug, Args)]
#[command(
    long_about = CALL,
    override_usage = "mcpjoin call [OPTIONS] TARGET TOOL [ARGUMENT]...\n       \
                      mcpjoin call [OPTIONS] TOOL [ARGUMENT]... -- COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin call demo: echo message=hi\n  \
        mcpjoin call get-sum a=2 b=40 -- npx -y @modelcontextprotocol/server-everything\n  \
        mcpjoin call --json ./my-server search 'filter:={\"lang\":\"en\"}'\n  \
        mcpjoin call --args '{\"message\":\"hi\"}' demo: echo"
)]
pub(crate) struct Call {
    /// The server (`demo:` or the path of a program) unless a COMMAND follows `--`, the tool, its arguments
    #[arg(value_name = "OPERAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// The server's command
    #[arg(last = true, value_name = "COMMAND", help_heading = "Arguments")]
    pub(crate) command: Vec<OsString>,
    /// The arguments as one JSON object; single ones that are given beside it win
    #[arg(long, value_name = "JSON")]
    pub(crate) args: Option<String>,
    /// The tool, in place of the operand TOOL: for a name that begins with a dash (`--tool=--x`)
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}

/// Runs a built-in server on standard input and output
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  mcpjoin list mcpjoin serve demo")]
pub(crate) struct Serve {
    /// Which server
    pub(crate) server: Served,
    /// The largest message, each way: bytes, or with KiB, MiB, GiB [default: 10MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_message_size: Option<usize>,
}

/// The servers inside this program.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Served {
    /// A server with a tool, a resource or a prompt for each thing that the protocol has
    Demo,
}

/// Explains a verb, or how a server is named (`targets`)
#[derive(Debug, Args)]
pub(crate) struct Help {
    /// A verb, or `targets`
    pub(crate) topic: Option<String>,
}

/// How results and diagnostics are shown.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Prints the result as one JSON document, and a failure as one JSON object on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows the server's standard error and log messages; twice: also what it does against the specification
    #[arg(short, long, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Shows nothing but results and failures
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// When to use colours; `auto` looks at the terminal, at NO_COLOR and at TERM
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: When,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum When {
    Auto,
    Always,
    Never,
}

/// How the server is started and talked to.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Connect {
    /// Sets a variable for the server; NAME alone passes ours on. Values are never shown
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<OsString>,
    /// Passes on no variable of ours but those that programs need to run (PATH, HOME, LANG ...)
    #[arg(long)]
    pub(crate) env_clean: bool,
    /// The server's working directory
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The era of the protocol to speak: with `initialize` (legacy), without (modern), or what the server speaks
    #[arg(long, value_name = "ERA", default_value = "auto")]
    pub(crate) era: EraChoice,
    /// The one version of the protocol to speak
    #[arg(long, value_name = "DATE", value_parser = version)]
    pub(crate) protocol_version: Option<Version>,
    /// How long an answer may take; progress starts it again. Seconds, or with ms, s, m, h [default: 60s]
    #[arg(short, long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) timeout: Option<Duration>,
    /// How long the answer to the opening request may take [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    pub(crate) connect_timeout: Option<Duration>,
    /// The largest message, each way: bytes, or with KiB, MiB, GiB [default: 10MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_message_size: Option<usize>,
}

/// The era of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraChoice {
    Auto,
    Legacy,
    Modern,
}

fn version(word: &str) -> Result<Version, String> {
    let version = Version::parse(word);
    if version.era().is_some() {
        return Ok(version);
    }
    let known: Vec<&str> = Version::ALL.iter().map(Version::as_str).collect();
    Err(format!("the versions are {}", known.join(", ")))
}

/// A time above nothing and up to a day.
fn duration(word: &str) -> Result<Duration, String> {
    let end = word.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("write seconds, or a number with ms, s, m or h".into()),
    };
    // Digits and a point alone: no sign, no exponent, no `inf`.
    let number: f64 = Some(number)
        .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        .and_then(|number| number.parse().ok())
        .ok_or("write seconds, or a number with ms, s, m or h")?;
    let asked = number * seconds;
    if !(0.001..=LONGEST).contains(&asked) {
        return Err("from 1ms to 24h".into());
    }
    Ok(Duration::from_secs_f64(asked))
}

/// A number of bytes above nothing and up to a GiB.
fn size(word: &str) -> Result<usize, String> {
    let end = word.find(|character: char| !character.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let unit: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err("write bytes, or a number with KiB, MiB or GiB".into()),
    };
    let number: u64 = number.parse().map_err(|_| "write bytes, or a number with KiB, MiB or GiB")?;
    number
        .checked_mul(unit)
        .filter(|bytes| (1..=LARGEST).contains(bytes))
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| "from 1 byte to 1GiB".into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;

    use super::{Cli, duration, size, version};

    #[test]
    fn clap_accepts_what_is_declared() {
        Cli::command().debug_assert();
    }

    #[test]
    fn b177_times_that_cannot_be_meant_are_refused() {
        for word in
            ["0", "-1", "1e18", "1000000000000000000", "inf", "NaN", "", "s", "+5", "0.0001", "25h", "5 s"]
        {
            assert!(duration(word).is_err(), "{word}");
        }
        for (word, time) in
            [("30", 30_000), ("0.5", 500), ("250ms", 250), ("2m", 120_000), ("24h", 86_400_000)]
        {
            assert_eq!(duration(word), Ok(Duration::from_millis(time)), "{word}");
        }
    }

    #[test]
    fn sizes_have_units_and_bounds() {
        for word in ["0", "-1", "", "KiB", "1.5MiB", "2GiB", "99999999999999999999", "1TB"] {
            assert!(size(word).is_err(), "{word}");
        }
        for (word, bytes) in [("1", 1), ("64KiB", 65_536), ("10MiB", 10_485_760), ("1gib", 1 << 30)] {
            assert_eq!(size(word), Ok(bytes), "{word}");
        }
    }

    #[test]
    fn a_version_is_one_that_exists() {
        assert!(version("2025-06-18").is_ok());
        assert!(version("2025-06-19").unwrap_err().contains("2026-07-28"));
    }
}
