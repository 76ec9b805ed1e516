//! The options that answer what a server asks its client: input of the user, the roots, a message of a model.

use std::path::PathBuf;

use clap::Args;

// What answers the requests of a server. No doc comment: clap would add it to the help of a verb.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Questions of the server")]
pub(crate) struct Questions {
    /// Answers the server's questions with this JSON, or a file of it. An object has the values of a form's fields; a list
    /// has one answer for each question, in their order
    #[arg(long, value_name = "JSON or FILE", conflicts_with = "no_input")]
    pub(crate) answer: Option<String>,
    /// Declines every question, and asks nothing on the terminal
    #[arg(long)]
    pub(crate) no_input: bool,
    /// A folder that the server may work in (a root); may be repeated
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Vec<PathBuf>,
    /// A shell command that answers for a language model (sampling). It gets the request as JSON on standard input, and
    /// prints a text, or the result as JSON
    #[arg(long, value_name = "COMMAND")]
    pub(crate) sampler: Option<String>,
}

impl Questions {
    /// Whether one of the options is given.
    pub(crate) const fn is_given(&self) -> bool {
        self.answer.is_some() || self.no_input || !self.root.is_empty() || self.sampler.is_some()
    }
}
