//! One file for each verb, and what leads to them.

mod call;
mod help;
mod list;
mod serve;
mod validate;

use std::ffi::OsString;

use clap::Parser;

use crate::args::{Cli, Verb};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::Misuse;
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
        Verb::Validate(args) => {
            let escaped = is_escaped(&argv, args.words.len());
            validate::run(args, escaped)
        }
        Verb::List(args) => {
            let escaped = is_escaped(&argv, args.words.len());
            list::run(args, escaped)
        }
        Verb::Call(args) => {
            let separated = argv.iter().any(|word| word == "--");
            call::run(args, separated)
        }
        Verb::Serve(args) => serve::run(&args),
        Verb::Help(args) => help::run(&args),
    }
}

/// Whether `--` stands before the words that name the server, which are the last of all that was typed: clap does not
/// tell.
fn is_escaped(argv: &[OsString], words: usize) -> bool {
    let before = argv.len().checked_sub(words + 1).and_then(|before| argv.get(before));
    before.is_some_and(|word| word == "--")
}

/// What was typed names no server.
fn refused(ui: &Ui, misuse: Misuse) -> Exit {
    let mut failure = Failure::usage(misuse.problem, misuse.instead);
    if misuse.not_built {
        failure.id = "E_NOT_BUILT";
    }
    ui.failure(&failure);
    failure.exit
}

/// How a command went whose last deed was to write.
fn written(ui: &Ui, outcome: Result<(), Unwritten>) -> Exit {
    match outcome {
        Ok(()) | Err(Unwritten::Gone) => Exit::Done,
        Err(Unwritten::Failed(error)) => {
            let message = format!("the result could not be written: {error}");
            let failure = Failure::new("E_OUTPUT", Exit::Usage, Phase::Output, message)
                .hint("make room where standard output goes to");
            ui.failure(&failure);
            failure.exit
        }
    }
}
