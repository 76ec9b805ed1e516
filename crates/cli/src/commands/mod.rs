//! One file for each verb, and what leads to them.

mod help;

use std::ffi::OsString;

use clap::Parser;

use crate::args::{Cli, Verb};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::ui::{Ui, Unwritten};

/// Runs what was typed, the program's own name first.
pub(crate) fn run(argv: Vec<OsString>) -> Exit {
    let cli = match Cli::try_parse_from(&argv) {
        Ok(cli) => cli,
        Err(error) => {
            let ui = Ui::plain();
            let asked_for = !error.use_stderr();
            let written = written(&ui, ui.clap(&error));
            return if asked_for { written } else { Exit::Usage };
        }
    };
    match cli.verb {
        Verb::Help(args) => help::run(&args),
        _ => Exit::Done,
    }
}

/// How a command went whose last deed was to write.
pub(crate) fn written(ui: &Ui, outcome: Result<(), Unwritten>) -> Exit {
    match outcome {
        Ok(()) | Err(Unwritten::Gone) => Exit::Done,
        Err(Unwritten::Failed(error)) => {
            let failure = Failure::new(
                "E_OUTPUT",
                Exit::Usage,
                Phase::Output,
                format!("the result could not be written: {error}"),
            )
            .hint("make room where standard output goes to");
            ui.failure(&failure);
            failure.exit
        }
    }
}
