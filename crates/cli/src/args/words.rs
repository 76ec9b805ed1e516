//! The words of a verb with operands.

use std::ffi::OsString;

use clap::Args;

// What was typed beside the options. No doc comment: clap would have a verb say it of itself.
#[derive(Clone, Debug, Args)]
pub(crate) struct Words {
    /// As in the usage: the server (a URL, `demo:`, quic://host:port, tcp://host:port, unix:/path, an entry of a configuration
    /// or the path of a program), unless its COMMAND follows `--`, and then what is asked of it
    #[arg(value_name = "OPERAND", help_heading = "Arguments")]
    pub(crate) words: Vec<OsString>,
    /// The server's command
    #[arg(last = true, value_name = "COMMAND", help_heading = "Arguments")]
    pub(crate) command: Vec<OsString>,
}
