//! `mcpjoin help`, `mcpjoin completions` and `mcpjoin man`: what the declarations of the arguments say, for people and
//! shells.

use std::fmt::Write as _;
use std::io::{self, Write as _};

use clap::{Command, CommandFactory};
use clap_mangen::Man as Page;

use super::written;
use crate::args::pages::{self, Extent, Topic};
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
    if let [topic] = &args.topic[..]
        && let Some(topic) = Topic::named(topic)
    {
        return written(&ui, ui.result(&topic.page()));
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
    let page = pages::verb_page(&args.topic, Extent::Long).unwrap_or_default();
    written(&ui, ui.result(&page))
}

/// The page `mcpjoin help targets`.
fn targets() -> String {
    let mut out = format!(
        "{HEADING}How to name a server{HEADING:#}\n\n  \
         mcpjoin VERB [OPTIONS] TARGET [OPERANDS]              TARGET is one word\n  \
         mcpjoin VERB [OPTIONS] [OPERANDS] -- COMMAND ARG...   the server's command follows --\n  \
         mcpjoin list [OPTIONS] COMMAND ARG...                 a verb without operands needs no --\n\n"
    );
    let width = TARGETS.iter().map(|(form, _)| form.len()).max().unwrap_or_default();
    for (form, meaning) in TARGETS {
        let _ = writeln!(out, "  {NAME}{form:<width$}{NAME:#}  {meaning}");
    }
    out.push_str(
        "\nOptions come before a COMMAND: everything after its first word is passed to it. With any other TARGET they\n\
         may stand anywhere, also before the verb.\n\
         validate and bridge --listen orchestra://... take several servers: more may follow a URL, demo: or\n\
         FILE#NAME, and --also TARGET adds one. validate --config FILE without a target checks every entry of\n\
         the file.\n",
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
    let topic = if let [name] = &args.verb[..] { Topic::named(name) } else { None };
    let command = topic.map_or_else(|| pages::verb(&args.verb, Extent::Long), |topic| Some(topic.command()));
    let Some(command) = command else {
        let words: Vec<String> = args.verb.iter().map(|word| shown(word.as_ref())).collect();
        let failure = Failure::usage(format!("there is no verb {}", words.join(" ")), "mcpjoin help");
        ui.failure(&failure);
        return failure.exit;
    };
    let mut page = Vec::new();
    match man_page(command, topic, &mut page) {
        Ok(()) => written(&ui, ui.data(&String::from_utf8_lossy(&page))),
        Err(error) => {
            let failure = Failure::system(Phase::Output, &error);
            ui.failure(&failure);
            failure.exit
        }
    }
}

/// A manual page in the order of the help: examples before options.
fn man_page(command: Command, topic: Option<Topic>, out: &mut Vec<u8>) -> io::Result<()> {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_verbs = command.has_subcommands();
    let command = match topic {
        Some(topic) => command.name(topic.man_name()).display_name(topic.man_name()),
        None => command,
    };
    let page =
        Page::new(command.after_help(None::<&str>)).source(concat!("mcpjoin ", env!("CARGO_PKG_VERSION")));
    page.render_title(out)?;
    page.render_name_section(out)?;
    if topic.is_none() {
        page.render_synopsis_section(out)?;
        page.render_description_section(out)?;
    }
    if !examples.is_empty() {
        writeln!(out, ".SH EXAMPLES\n.nf")?;
        let text = examples.strip_prefix("Examples:\n").unwrap_or(&examples);
        for line in text.lines() {
            // A dot or a quote at the beginning of a line would be a command of roff.
            writeln!(out, "\\&{}", line.replace('\\', "\\\\").replace('-', "\\-"))?;
        }
        writeln!(out, ".fi")?;
    }
    page.render_options_section(out)?;
    if has_verbs {
        page.render_subcommands_section(out)?;
    }
    writeln!(
        out,
        ".SH \"SEE ALSO\"\nmcpjoin man options, mcpjoin man quic, mcpjoin man orchestra, mcpjoin help targets"
    )
}
