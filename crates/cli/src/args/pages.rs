//! The help pages: usage, examples, and the options of a verb. Options that verbs share have pages of their own.
//!
//! Called by `help` and wherever `-h` or `--help` is typed; the declarations of the options are in the files beside this one, and
//! clap prints them. A shared option whose text differs for a verb is on the page of the verb.

use std::borrow::Cow;

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// The maximum number of examples on a short page.
const MAX_SHORT_EXAMPLES: usize = 3;
/// The longest line of an example: a terminal has 80 columns.
const MAX_EXAMPLE_BYTES: usize = 80;
/// The line break in a longer one.
const CONTINUATION: &str = " \\\n      ";
/// The verb with every option that is shared, and the verb whose texts of them count.
const EVERY_OPTION: &str = "bridge";
const SHARED_TEXTS: &str = "call";
/// The page of a verb: what it does, usage, examples, options.
const VERB: &str = "{before-help}{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}";
/// The page of a topic.
const TOPIC: &str = "{about-with-newline}\n{all-args}";

/// How much a page says: `-h` or `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Short,
    Long,
}

/// A page of options that several verbs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topic {
    Options,
    Quic,
    Orchestra,
}

impl Topic {
    const ALL: [Self; 3] = [Self::Options, Self::Quic, Self::Orchestra];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Options => "options",
            Self::Quic => "quic",
            Self::Orchestra => "orchestra",
        }
    }

    /// The name of its manual page.
    pub(crate) const fn man_name(self) -> &'static str {
        match self {
            Self::Options => "mcpjoin-options",
            Self::Quic => "mcpjoin-quic",
            Self::Orchestra => "mcpjoin-orchestra",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.name() == name)
    }

    const fn about(self) -> &'static str {
        match self {
            Self::Options => "The options that the verbs share: configuration, connection and output",
            Self::Quic => {
                "The options for QUIC: quic://host:port as a server, and with --listen; of https:// with --listen, too"
            }
            Self::Orchestra => {
                "The options for Orchestra: orchestra://host:port as a server, with --listen, and --orchestrator-addr"
            }
        }
    }

    /// The page on which an option is; `None` for an option of one verb.
    fn of(arg: &Arg) -> Option<Self> {
        match (arg.get_id().as_str(), arg.get_help_heading()) {
            (_, Some("Orchestra" | "Orchestrator")) => Some(Self::Orchestra),
            ("pin" | "cert" | "key" | "client_ca", _) => Some(Self::Quic),
            (_, Some("Connection" | "Output" | "Authorization")) => Some(Self::Options),
            _ => None,
        }
    }

    /// The command whose help is the page.
    pub(crate) fn command(self) -> Command {
        let all = built();
        let texts = all.find_subcommand(SHARED_TEXTS);
        let Some(base) = all.find_subcommand(EVERY_OPTION).cloned() else { return all };
        base.mut_args(|arg| {
            let text = texts.and_then(|verb| shared(verb, &arg));
            let arg = if Self::of(&arg) == Some(self) { arg } else { arg.hide(true) };
            match text {
                Some((help, long)) => arg.help(help).long_help(long),
                None => arg,
            }
        })
        .about(self.about())
        .long_about(self.about())
        .after_help(None::<&str>)
        .help_template(TOPIC)
    }

    /// The page as text with styles.
    pub(crate) fn page(self) -> String {
        self.command().render_long_help().ansi().to_string()
    }
}

/// All verbs, with their options and full names.
fn built() -> Command {
    let mut all = Cli::command();
    all.build();
    all
}

/// The texts of an option on the page of its topic.
fn shared(texts: &Command, arg: &Arg) -> Option<(String, String)> {
    let shared =
        texts.get_arguments().find(|one| one.get_id() == arg.get_id() && Topic::of(one).is_some())?;
    let help = shared.get_help()?.to_string();
    let long = shared.get_long_help().map_or_else(|| help.clone(), ToString::to_string);
    Some((help, long))
}

/// A verb as its page has it: without the options of the topics, and for a short page with one sentence for each of the others.
/// `path`: its words, none for the program itself.
pub(crate) fn verb(path: &[String], extent: Extent) -> Option<Command> {
    let all = built();
    let texts = all.find_subcommand(SHARED_TEXTS)?;
    let found = path.iter().try_fold(&all, |command, word| command.find_subcommand(word))?;
    let mut topics: Vec<Topic> = Vec::new();
    let command = found.clone().mut_args(|arg| {
        let text = arg.get_help().map(ToString::to_string);
        let is_shared = extent == Extent::Short
            || shared(texts, &arg).is_none_or(|(help, _)| text.as_ref() == Some(&help));
        match Topic::of(&arg).filter(|_| is_shared) {
            Some(topic) => {
                if !topics.contains(&topic) {
                    topics.push(topic);
                }
                arg.hide(true)
            }
            None if extent == Extent::Short => {
                let text = text.unwrap_or_default();
                arg.help(first_sentence(&text))
            }
            None => arg,
        }
    });
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = if extent == Extent::Short { short_examples(&examples) } else { examples };
    let examples = examples.lines().map(continued).collect::<Vec<_>>().join("\n");
    let more: Vec<String> = Topic::ALL
        .into_iter()
        .filter(|topic| topics.contains(topic))
        .map(|topic| format!("mcpjoin help {}", topic.name()))
        .collect();
    let mut template = VERB.to_owned();
    if !more.is_empty() {
        template.push_str(&format!("\n\nMore options: {}", more.join(", ")));
    }
    match (extent, path) {
        (Extent::Short, []) => {
            template.push_str("\n\nDetails: mcpjoin help VERB, mcpjoin help targets, mcpjoin help options");
        }
        (Extent::Short, _) => template.push_str(&format!("\nDetails: mcpjoin help {}", path.join(" "))),
        (Extent::Long, _) => {}
    }
    template.push('\n');
    let command = command.after_help(examples);
    // On the long page of the program, the verbs come before the examples and the exit codes.
    let is_overview = path.is_empty() && extent == Extent::Long;
    Some(if is_overview { command } else { command.help_template(template) })
}

/// The page of a verb as text with styles.
pub(crate) fn verb_page(path: &[String], extent: Extent) -> Option<String> {
    let mut command = verb(path, extent)?;
    let page = if extent == Extent::Short { command.render_help() } else { command.render_long_help() };
    Some(page.ansi().to_string())
}

/// The page that a command line asks for, with `-h` or `--help` in it.
pub(crate) fn requested(words: impl IntoIterator<Item = impl AsRef<str>>) -> Option<String> {
    let all = built();
    let (mut command, mut path, mut extent) = (&all, Vec::new(), Extent::Short);
    for word in words {
        let word = word.as_ref();
        if word == "--help" {
            extent = Extent::Long;
            break;
        }
        if word == "-h" {
            break;
        }
        if let Some(below) = command.find_subcommand(word) {
            path.push(below.get_name().to_owned());
            command = below;
        }
    }
    verb_page(&path, extent)
}

/// The first sentence of a help text, up to a semicolon, and its default.
fn first_sentence(text: &str) -> String {
    let end = [". ", "; "].iter().filter_map(|end| text.find(end)).min();
    let (first, rest) = end.map_or((text, ""), |end| text.split_at(end));
    match rest.rfind("[default: ") {
        Some(at) => format!("{first} {}", &rest[at..]),
        None => first.to_owned(),
    }
}

/// The first examples that fit into a line, and nothing else.
fn short_examples(text: &str) -> String {
    let examples =
        text.split("\n\n").find(|paragraph| paragraph.starts_with("Examples:")).unwrap_or_default();
    let short = examples.lines().filter(|line| line.len() <= MAX_EXAMPLE_BYTES);
    short.take(MAX_SHORT_EXAMPLES + 1).collect::<Vec<_>>().join("\n")
}

/// An example that is too long for a line, with a backslash before each line break, so that what is copied runs.
fn continued(line: &str) -> Cow<'_, str> {
    if line.len() <= MAX_EXAMPLE_BYTES || !line.starts_with("  mcpjoin ") {
        return line.into();
    }
    let mut continued = String::new();
    let (mut width, mut is_quoted) = (0, false);
    for word in line.trim_start().split(' ') {
        let needed = 1 + word.len() + " \\".len();
        if continued.is_empty() {
            (continued, width) = ("  ".to_owned(), "  ".len());
        } else if width + needed > MAX_EXAMPLE_BYTES && !is_quoted {
            continued.push_str(CONTINUATION);
            width = CONTINUATION.len() - " \\\n".len();
        } else {
            continued.push(' ');
            width += 1;
        }
        continued.push_str(word);
        width += word.len();
        is_quoted ^= word.matches('\'').count() % 2 == 1;
    }
    continued.into()
}

#[cfg(test)]
mod tests {
    use anstream::adapter::strip_str;
    use clap::Command;

    use super::{Extent, Topic, built, first_sentence, verb_page};

    /// The most lines of a short page.
    const MAX_SHORT_LINES: usize = 40;

    /// The paths of all commands that have a page.
    fn paths(command: &Command, path: &[String]) -> Vec<Vec<String>> {
        let mut all = vec![path.to_vec()];
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            all.extend(paths(below, &[path, &[below.get_name().to_owned()]].concat()));
        }
        all
    }

    #[test]
    fn a_short_page_has_at_most_40_lines_and_examples_follow_the_usage() {
        let mut long = Vec::new();
        for path in paths(&built(), &[]) {
            let page = verb_page(&path, Extent::Short).unwrap();
            let page = strip_str(&page).to_string();
            if page.lines().count() > MAX_SHORT_LINES {
                long.push(format!("{}: {} lines\n{page}", path.join(" "), page.lines().count()));
            }
            let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}: {page}"));
            assert!(at("Usage: ") < at("Examples:") && at("Examples:") < at("-h, --help"), "{page}");
        }
        assert!(long.is_empty(), "{}", long.join("\n"));
    }

    /// What is copied runs as it is written, also from a terminal of 80 columns.
    #[test]
    fn an_example_that_does_not_fit_into_a_line_goes_on_behind_a_backslash() {
        let all = built();
        for path in paths(&all, &[]) {
            let command = path.iter().fold(&all, |command, word| command.find_subcommand(word).unwrap());
            let written = command.get_after_help().unwrap().to_string();
            let shown = super::verb(&path, Extent::Long).unwrap().get_after_help().unwrap().to_string();
            assert_eq!(shown.replace(super::CONTINUATION, " "), written);
            let examples = shown.split("\n\n").find(|part| part.starts_with("Examples:")).unwrap();
            let long: Vec<&str> = examples.lines().filter(|line| line.len() > 80).collect();
            assert!(long.is_empty(), "{long:#?}");
        }
    }

    #[test]
    fn every_option_is_on_the_page_of_its_verb_or_of_a_topic() {
        let topics = Topic::ALL.map(|topic| strip_str(&topic.page()).to_string());
        let all = built();
        for path in paths(&all, &[]) {
            let command = path.iter().fold(&all, |command, word| command.find_subcommand(word).unwrap());
            let page = verb_page(&path, Extent::Long).unwrap();
            let page = strip_str(&page).to_string();
            let options = command.get_arguments().filter(|arg| !arg.is_hide_set());
            for option in options.filter_map(|arg| arg.get_long()) {
                let has = |page: &str| {
                    page.lines().any(|line| {
                        let words = line.split([' ', ',', '=']);
                        let mut words = words.take_while(|word| word.is_empty() || word.starts_with('-'));
                        words.any(|word| word.trim_end_matches(['.', '[']).strip_prefix("--") == Some(option))
                    })
                };
                let is_there = has(&page) || topics.iter().any(|page| has(page));
                assert!(is_there, "--{option} of {} is on no page", path.join(" "));
            }
        }
    }

    #[test]
    fn a_short_text_is_the_first_sentence_with_its_default() {
        for (text, short) in [
            ("One", "One"),
            ("One. Two", "One"),
            ("One. Two [default: 3]", "One [default: 3]"),
            ("One; two. Three", "One"),
            ("One [default: 3]", "One [default: 3]"),
        ] {
            assert_eq!(first_sentence(text), short);
        }
    }
}
