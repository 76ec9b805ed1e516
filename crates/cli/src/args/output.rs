//! The options that every verb with a result has: how it is shown.

use clap::{Args, ValueEnum};

// How results and diagnostics are shown. No doc comment: clap would have a verb say it of itself.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Prints the result as one JSON document, and a failure as one JSON object on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows the server's standard error and log messages, and what is done about a connection in trouble; twice: also
    /// what the connection notices, like messages against the specification
    #[arg(short, long, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Shows nothing but results, warnings and failures
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
