//! `mcpjoin help`, `mcpjoin completions` and `mcpjoin man`: what the declarations of the arguments say, for people and
//! shells.

use std::fmt::Write;

use clap::{CommandFactory, Parser};
use clap_mangen::Man as Page;

use super::written;
use crate::args::{Cli, Completions, Help, Man};
use crate::command_line::verb_meant;
use crate::completion;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::{TARGETS, shown};
use crate::ui::{HEADING, NAME, Ui};

/// Prints the help of a verb, or how a server is named.
pub(crate) fn help(args: &Help) -> Exit {
    let ui = Ui::plain();
    if args.topic == ["targets"] {
        return written(&ui, ui.page(&targets()));
    }
    // The text of `VERB --help`.
    let mut root = Cli::command();
    root.build();
    let mut command = &root;
    for (place, topic) in args.topic.iter().enumerate() {
        let Some(below) = command.find_subcommand(topic) else {
            let hint = match &args.topic[..place] {
                [] => match verb_meant(args.topic.iter().map(String::as_str)) {
                    Some((verb, _)) => format!("mcpjoin help {verb}"),
                    None => "mcpjoin help".to_owned(),
                },
                above => format!("mcpjoin help {}", above.join(" ")),
            };
            let words: Vec<String> = args.topic.iter().map(|word| shown(word.as_ref())).collect();
            let failure = Failure::usage(format!("there is no help on {}", words.join(" ")), hint);
            ui.failure(&failure);
            return failure.exit;
        };
        command = below;
    }
    let words = ["mcpjoin"].into_iter().chain(args.topic.iter().map(String::as_str)).chain(["--help"]);
    match Cli::try_parse_from(words) {
        Ok(_) => Exit::Done,
        Err(help) => written(&ui, ui.clap(&help)),
    }
}

/// The page `mcpjoin help targets`.
fn targets() -> String {
    let mut out = format!(
        "{HEADING}How a server is named{HEADING:#}\n\n  \
         mcpjoin VERB [OPTIONS] TARGET [OPERANDS]              TARGET is one word\n  \
         mcpjoin VERB [OPTIONS] [OPERANDS] -- COMMAND ARG...   what follows -- is the server's command\n  \
         mcpjoin list [OPTIONS] COMMAND ARG...                 a verb without operands needs no --\n\n"
    );
    let width = TARGETS.iter().map(|(form, _)| form.len()).max().unwrap_or_default();
    for (form, meaning) in TARGETS {
        let _ = writeln!(out, "  {NAME}{form:<width$}{NAME:#}  {meaning}");
    }
    out.push_str(
        "\nOptions stand before a COMMAND: everything after its first word is passed to it. With any other TARGET they\n\
         may stand anywhere, also before the verb.\n\
         validate and bridge --listen orchestra://... take several servers: after a URL, demo: or FILE#NAME more of\n\
         them may follow, and --also TARGET names one more by one word. validate --config FILE alone means\n\
         every entry of the file.\n",
    );
    out
}

/// Prints the script with which a shell completes verbs, options, entries and tools.
pub(crate) fn completions(args: &Completions) -> Exit {
    let ui = Ui::plain();
    match completion::script(args.shell) {
        Ok(script) => written(&ui, ui.data(&String::from_utf8_lossy(&script))),
        Err(error) => {
            let failure = Failure::system(Phase::Output, &error);
            ui.failure(&failure);
            failure.exit
        }
    }
}

/// Prints a manual page.
pub(crate) fn man(args: &Man) -> Exit {
    let ui = Ui::plain();
    let mut all = Cli::command();
    // Gives each verb its full name, which is the name of its page: `mcpjoin-call`.
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
