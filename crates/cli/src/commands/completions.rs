//! `mcpjoin completions`: what makes a shell complete our words.

use clap::CommandFactory;

use super::written;
use crate::args::{Cli, Completions};
use crate::exit::Exit;
use crate::ui::Ui;

/// Prints the script.
pub(crate) fn run(args: &Completions) -> Exit {
    let ui = Ui::plain();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "mcpjoin", &mut script);
    written(&ui, ui.data(&String::from_utf8_lossy(&script)))
}
