//! The words of the command line before clap parses them: brought into the order that clap expects, and answered where it refuses
//! them.
//!
//! Called by `commands::run`. It starts nothing; whether a word is an entry or a program is looked up only where an option, or a
//! launcher such as `npx`, follows it.

mod foreign;

use std::ffi::{OsStr, OsString};

use clap::error::ErrorKind;
use clap::{Command, CommandFactory, Parser};

use crate::args::{Cli, Configured, Verb};
use crate::config;
use crate::failure::Failure;
use crate::target::{behind_dashes, is_bare, is_launcher, is_quoted_line, stands_alone, words_shown};

pub(crate) use foreign::verb_meant;

/// Words that are refused before clap parses them.
pub(crate) struct Refused {
    /// The words as they would have been parsed.
    pub(crate) argv: Vec<OsString>,
    pub(crate) failure: Failure,
}

/// Brings the words into the order that clap expects: the verb, its options, everything else. Options may be typed before the verb,
/// and after a target that takes no arguments.
///
/// # Errors
/// When a command with arguments stands before operands, so that it is not certain where it ends.
pub(crate) fn canonical(argv: Vec<OsString>) -> Result<Vec<OsString>, Box<Refused>> {
    let argv = verb_first(argv);
    if argv.iter().any(|word| word == "--method")
        && let Some(failure) = foreign::inspector(&argv)
    {
        return Err(Box::new(Refused { argv, failure }));
    }
    if !may_need_order(&argv) {
        return Ok(argv);
    }
    let Some(verb) = argv.get(1).and_then(|word| declared(word)) else { return Ok(argv) };
    let Some(at) = first_operand(&verb, &argv) else { return Ok(argv) };
    if verb.get_positionals().any(clap::Arg::is_trailing_var_arg_set) {
        return Ok(options_first(&verb, argv, at));
    }
    match command_before_operands(&verb, &argv, at) {
        Some(failure) => Err(Box::new(Refused { argv, failure })),
        None => Ok(argv),
    }
}

/// What to type where clap refuses the words; `None` where its own message says it best.
pub(crate) fn answer(argv: &[OsString], refused: ErrorKind) -> Option<Failure> {
    match refused {
        ErrorKind::InvalidSubcommand => foreign::verb(argv),
        ErrorKind::InvalidValue => foreign::served(argv),
        ErrorKind::UnknownArgument => foreign::served(argv)
            .or_else(|| added_without_dashes(argv))
            .or_else(|| foreign::inspector(argv))
            .or_else(|| foreign::dashed(argv))
            .or_else(|| foreign::option(argv)),
        ErrorKind::MissingRequiredArgument
            if argv.get(1).is_some_and(|verb| verb == "serve") && operands(argv).is_empty() =>
        {
            let line = ["serve", "demo"].map(OsString::from);
            let line = [&line[..], argv.get(2..).unwrap_or_default()].concat();
            Some(Failure::usage("no server is named", format!("mcpjoin {}", words_shown(&line))))
        }
        _ => None,
    }
}

/// What to type for `servers add NAME npx -y PACKAGE`.
fn added_without_dashes(argv: &[OsString]) -> Option<Failure> {
    let verb: Vec<&OsStr> = argv.iter().skip(1).take(2).map(OsString::as_os_str).collect();
    if verb != ["servers", "add"] || argv.iter().any(|word| word == "--") {
        return None;
    }
    // The name stands before the command.
    let at = (4..argv.len()).find(|at| !is_option(&argv[*at]) && config::is_program(argv[*at].clone()))?;
    let (front, command) = (words_shown(&argv[3..at]), words_shown(&argv[at..]));
    let problem = "the command of the server goes at the end, after --";
    Some(Failure::usage(problem, format!("mcpjoin servers add {front} -- {command}")))
}

/// Whether a word is an option, and not the operand `-`.
fn is_option(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"-") && word.len() > 1 && word != "--"
}

/// Whether the order of the words may matter. Looking closer builds the declaration of a verb, which most lines do not need.
fn may_need_order(argv: &[OsString]) -> bool {
    let mut operand = false;
    argv.iter().skip(2).take_while(|word| *word != "--").any(|word| {
        if is_option(word) {
            return operand;
        }
        operand = true;
        is_launcher(word)
    })
}

/// The declaration of a verb, with its options.
fn declared(verb: &OsStr) -> Option<Command> {
    let mut verb = Cli::command().find_subcommand(verb)?.clone();
    verb.build();
    Some(verb)
}

/// The id of the option that a word is, and whether the next word is its value; `None` for an operand, and for an option that the
/// verb does not have.
pub(crate) fn option<'a>(verb: &'a Command, word: &str) -> Option<(&'a str, bool)> {
    if let Some(long) = word.strip_prefix("--") {
        let (name, joined) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
        let is_named = |option: &&clap::Arg| {
            let aliases = option.get_all_aliases().unwrap_or_default();
            option.get_long() == Some(name) || aliases.contains(&name)
        };
        let option = verb.get_arguments().find(is_named)?;
        return Some((option.get_id().as_str(), !joined && option.get_action().takes_values()));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    loop {
        let letter = letters.next()?;
        let option = verb.get_arguments().find(|option| option.get_short() == Some(letter))?;
        let (takes, last) = (option.get_action().takes_values(), letters.as_str().is_empty());
        if takes || last {
            return Some((option.get_id().as_str(), takes && last));
        }
    }
}

/// Whether the next word is the value of an option of the verb; `None` for other words.
fn takes_next(verb: &Command, word: &OsStr) -> Option<bool> {
    option(verb, word.to_str()?).map(|(_, apart)| apart)
}

/// Moves options that stand before the verb behind it. The words before it must all be options of that verb, with their values.
fn verb_first(mut argv: Vec<OsString>) -> Vec<OsString> {
    let of_the_program = ["-h", "--help", "-V", "--version"];
    if argv.get(1).is_none_or(|word| !is_option(word) || of_the_program.iter().any(|option| word == option)) {
        return argv;
    }
    let end = argv.iter().position(|word| word == "--").unwrap_or(argv.len());
    for at in 2..end {
        let Some(verb) = declared(&argv[at]) else { continue };
        let mut place = 1;
        while place < at
            && let Some(apart) = takes_next(&verb, &argv[place])
        {
            place += 1 + usize::from(apart);
        }
        if place == at {
            let verb = argv.remove(at);
            argv.insert(1, verb);
            break;
        }
    }
    argv
}

/// The place of the first word behind the verb that is no option; `None` without one, and behind an option that the verb does not
/// have.
fn first_operand(verb: &Command, argv: &[OsString]) -> Option<usize> {
    let mut place = 2;
    loop {
        let word = argv.get(place)?;
        if word == "--" {
            return None;
        }
        if !is_option(word) {
            return Some(place);
        }
        place += 1 + usize::from(takes_next(verb, word)?);
    }
}

/// Moves options before the first operand where that is a target without arguments.
fn options_first(verb: &Command, argv: Vec<OsString>, at: usize) -> Vec<OsString> {
    let (first, rest) = (&argv[at], &argv[at + 1..]);
    if !rest.iter().take_while(|word| *word != "--").any(|word| is_option(word)) {
        return argv;
    }
    let is_alone = stands_alone(first);
    if !is_alone && (config::is_program(first.clone()) || !is_quoted_line(first) && !is_bare(first)) {
        return argv;
    }
    let (mut front, mut back) = (argv[..at].to_vec(), vec![first.clone()]);
    let mut words = rest.iter();
    while let Some(word) = words.clone().next() {
        if !is_option(word) {
            // Of several targets the last may be a command, whose options are its own.
            if !stands_alone(word) {
                break;
            }
            back.push(word.clone());
            words.next();
            continue;
        }
        front.extend(words.next().cloned());
        if takes_next(verb, word) == Some(true) {
            front.extend(words.next().cloned());
        }
    }
    front.extend(back);
    front.extend(words.cloned());
    let is_entry = || is_entry(first, &front);
    if is_alone || is_quoted_line(first) || is_entry() { front } else { argv }
}

/// Whether a word is an entry of the configuration that this command line names.
fn is_entry(word: &OsStr, argv: &[OsString]) -> bool {
    word.to_str().is_some_and(|name| config::is_entry(name, &configuration(argv)))
}

/// The options for the configuration in a command line that may be incomplete.
pub(crate) fn configuration(argv: &[OsString]) -> Configured {
    let cli = Cli::try_parse_from(argv).ok();
    cli.and_then(|cli| configured(&cli.verb).cloned()).unwrap_or_default()
}

/// The name behind `--server` in a command line that may be incomplete.
pub(crate) fn server(argv: &[OsString]) -> Option<String> {
    match Cli::try_parse_from(argv).ok()?.verb {
        Verb::Call(args) => args.connect.server().map(str::to_owned),
        Verb::Tool(args) => args.connect.server().map(str::to_owned),
        _ => None,
    }
}

/// The words behind the verb that are neither options nor their values.
pub(crate) fn operands(argv: &[OsString]) -> Vec<OsString> {
    let Some(verb) = argv.get(1).and_then(|word| declared(word)) else { return Vec::new() };
    let (mut operands, mut words) = (Vec::new(), argv.iter().skip(2));
    while let Some(word) = words.next() {
        match takes_next(&verb, word) {
            Some(true) => drop(words.next()),
            Some(false) => {}
            None => operands.push(word.clone()),
        }
    }
    operands
}

/// The options for the configuration of a verb.
fn configured(verb: &Verb) -> Option<&Configured> {
    let connect = match verb {
        Verb::Validate(args) => &args.connect,
        Verb::List(args) => &args.connect,
        Verb::Info(args) => &args.connect,
        Verb::Diff(args) => &args.connect,
        Verb::Search(args) => &args.connect,
        Verb::Tool(args) => &args.connect,
        Verb::Call(args) => &args.connect,
        Verb::Read(args) => &args.connect,
        Verb::Prompt(args) => &args.connect,
        Verb::Complete(args) => &args.connect,
        Verb::Ping(args) => &args.connect,
        Verb::Shell(args) => &args.connect,
        Verb::Doctor(args) => &args.connect,
        Verb::Bridge(args) => &args.connect,
        Verb::Servers(args) => return Some(&args.shown.configured),
        Verb::Auth(_) | Verb::Serve(_) | Verb::Completions(_) | Verb::Man(_) | Verb::Help(_) => return None,
    };
    Some(&connect.configured)
}

/// The failure of a command with arguments before operands: clap would take its options for ours, or refuse them.
fn command_before_operands(verb: &Command, argv: &[OsString], at: usize) -> Option<Failure> {
    if !verb.get_positionals().any(clap::Arg::is_last_set) || argv.iter().any(|word| word == "--") {
        return None;
    }
    let name = verb.get_name();
    // The first operand of `diff` is the other side.
    let at = if name == "diff" { at + 1 } else { at };
    let (first, rest) = argv.get(at).map(|first| (first, &argv[at + 1..]))?;
    let is_unknown = |word: &OsString| is_option(word) && takes_next(verb, word).is_none();
    let starts = is_launcher(first) && !rest.is_empty();
    let is_command = starts || rest.iter().any(is_unknown) && config::is_program(first.clone());
    if !is_command || is_option(first) || stands_alone(first) || is_entry(first, &argv[..=at]) {
        return None;
    }
    if name == "diff" {
        let program = words_shown(std::slice::from_ref(first));
        let problem = format!("{program} and its arguments go at the end, after --");
        let (front, command) = (words_shown(&argv[2..at]), words_shown(&argv[at..]));
        return Some(Failure::usage(problem, format!("mcpjoin diff {front} -- {command}")));
    }
    Some(behind_dashes(name, &argv[2..at], &argv[at..], |word| takes_next(verb, word)))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::canonical;

    /// The words of a line in the order that clap parses, or the line that works.
    fn ordered(line: &str) -> String {
        let argv: Vec<OsString> =
            std::iter::once("mcpjoin").chain(line.split(' ')).map(OsString::from).collect();
        match canonical(argv) {
            Ok(argv) => {
                let words: Vec<_> = argv.iter().skip(1).map(|word| word.to_str().unwrap()).collect();
                words.join(" ")
            }
            Err(refused) => refused.failure.hint,
        }
    }

    #[test]
    fn options_stand_before_the_verb_and_after_a_target_that_takes_no_arguments() {
        for (typed, parsed) in [
            ("-v list demo:", "list -v demo:"),
            ("-v list demo: --json", "list -v --json demo:"),
            ("-t 5 --json list demo:", "list -t 5 --json demo:"),
            ("--timeout=5 ping demo: -n 3 -i 1s", "ping --timeout=5 -n 3 -i 1s demo:"),
            ("list demo: --json", "list --json demo:"),
            ("list http://h/mcp --header A:b -v", "list --header A:b -v http://h/mcp"),
            ("list h:80/mcp --json", "list --json h:80/mcp"),
            ("list tcp://h:1 --json", "list --json tcp://h:1"),
            ("list a.json#b --json", "list --json a.json#b"),
            ("bridge demo: --listen http://localhost:1/mcp", "bridge --listen http://localhost:1/mcp demo:"),
            ("validate demo: http://h/mcp --json", "validate --json demo: http://h/mcp"),
            ("grep -d x", "grep -d x"),
            // What is not known is left to clap.
            ("list demo: --nonsense", "list --nonsense demo:"),
            ("--nonsense list demo:", "--nonsense list demo:"),
            ("-v", "-v"),
            ("-h list", "-h list"),
            // Words of a command are its own.
            ("list sh -c x --json", "list sh -c x --json"),
            ("list ./server --json", "list ./server --json"),
            ("list -- demo: --json", "list -- demo: --json"),
            ("validate demo: sh -c --json", "validate demo: sh -c --json"),
            ("list demo: -v -- x --json", "list -v demo: -- x --json"),
            ("call demo: echo a=1 --json", "call demo: echo a=1 --json"),
            ("call --json demo: echo", "call --json demo: echo"),
        ] {
            assert_eq!(ordered(typed), parsed, "{typed}");
        }
        let quoted = ["mcpjoin", "list", "sh -c x", "--json"].map(OsString::from).to_vec();
        assert_eq!(canonical(quoted).ok().unwrap()[2], "--json");
    }

    #[test]
    fn a_command_before_operands_is_answered_with_the_line_that_works() {
        for (typed, line) in [
            ("call npx -y @a/b echo message=hi", "mcpjoin call echo message=hi -- npx -y @a/b"),
            (
                "call --json npx -y @a/b echo message=hi -v",
                "mcpjoin call --json -v echo message=hi -- npx -y @a/b",
            ),
            ("call npx pkg echo", "mcpjoin call echo -- npx pkg"),
            ("call cat --stdio echo a=1", "mcpjoin call echo a=1 -- cat --stdio"),
            ("read uvx pkg test://x", "mcpjoin read test://x -- uvx pkg"),
            ("tool docker run -i --rm img add", "mcpjoin tool add -- docker run -i --rm img"),
            ("diff old.json npx -y pkg", "mcpjoin diff old.json -- npx -y pkg"),
        ] {
            assert_eq!(ordered(typed), line, "{typed}");
        }
        for words in ["call npx", "call npx=1 x", "call echo -- npx -y pkg", "call demo: npx -y"] {
            assert_eq!(ordered(words), words);
        }
    }
}
