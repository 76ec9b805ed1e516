//! `mcpjoin man`: the manual pages, made from the same declarations as the help.

use clap::CommandFactory;
use clap_mangen::Man as Page;

use super::written;
use crate::args::{Cli, Man};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::shown;
use crate::ui::Ui;

/// Prints a page.
pub(crate) fn run(args: &Man) -> Exit {
    let ui = Ui::plain();
    let mut all = Cli::command();
    // Gives each verb its full name, by which its page is called: `mcpjoin-call`, as those of git are.
    all.build();
    let below = args.verb.iter().try_fold(&all, |command, verb| command.find_subcommand(verb));
    let Some(command) = below.cloned() else {
        let words: Vec<String> = args.verb.iter().map(|word| shown(word.as_ref())).collect();
        let failure = Failure::usage(format!("there is no verb {}", words.join(" ")), "mcpjoin help");
        ui.failure(&failure);
        return failure.exit;
    };
    let mut page = Vec::new();
    match Page::new(command).render(&mut page) {
        Ok(()) => written(&ui, ui.data(&String::from_utf8_lossy(&page))),
        Err(error) => {
            let failure = Failure::system(Phase::Output, &error);
            ui.failure(&failure);
            failure.exit
        }
    }
}
