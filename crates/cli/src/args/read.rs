//! `mcpjoin read`: what can be typed.

use std::path::PathBuf;

use clap::Args;

use super::{Connect, Output, Words};

const LONG: &str = "\
Reads a resource of a server

A resource with one content is printed as it is, byte for byte: text as text, and binary data decoded. On a terminal \
control characters in a text are made visible, and binary data is described in one line. Of a resource with several \
contents each text stands on lines of its own, and binary data is described. With --json the result is the object \
that the server sent.";

#[derive(Debug, Args)]
#[command(
    long_about = LONG,
    override_usage = "mcpjoin read [OPTIONS] TARGET URI\n       \
                      mcpjoin read [OPTIONS] URI -- COMMAND [ARG]...",
    after_help = "Examples:\n  \
        mcpjoin read demo: test://static-text\n  \
        mcpjoin read -o picture.png demo: test://static-binary\n  \
        mcpjoin read --json demo: test://template/7/data\n  \
        mcpjoin read demo://resource/dynamic/text/1 -- npx -y @modelcontextprotocol/server-everything\n\n\
        `mcpjoin list` shows the resources of a server."
)]
pub(crate) struct Read {
    #[command(flatten)]
    pub(crate) words: Words,
    /// Writes the bytes of the one content to a file; `-` is standard output, also when it is a terminal
    #[arg(short = 'o', long = "output", value_name = "FILE", conflicts_with = "json")]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) connect: Connect,
}
