//! What people type who know other programs: their verbs and options, answered with the command of mcpjoin that does the same.
//!
//! Used by `command_line` where clap refuses the words, and by `help`. It reads nothing but the words.

use std::ffi::{OsStr, OsString};

use clap::CommandFactory;

use crate::args::Cli;
use crate::config::{self, similar};
use crate::failure::Failure;
use crate::target::{is_launcher, shown, stands_alone, words_shown};

/// Words of other programs in the place of a verb, and ours. Of two words the second one is part of the verb.
const VERBS: [(&str, &str); 80] = [
    ("tools list", "list"),
    ("tools call", "call"),
    ("tools get", "tool"),
    ("resources list", "list"),
    ("resources read", "read"),
    ("prompts list", "list"),
    ("prompts get", "prompt"),
    ("config list", "servers"),
    ("config get", "servers"),
    ("config add", "servers add"),
    ("config remove", "servers remove"),
    ("config import", "servers convert"),
    ("mcp list", "servers"),
    ("mcp get", "servers"),
    ("mcp add", "servers add"),
    ("mcp remove", "servers remove"),
    ("tools", "list"),
    ("tools/list", "list"),
    ("list-tools", "list"),
    ("list_tools", "list"),
    ("ls", "list"),
    ("resources", "list"),
    ("resources/list", "list"),
    ("prompts", "list"),
    ("prompts/list", "list"),
    ("templates", "list"),
    ("status", "list"),
    ("health", "list"),
    ("connect", "list"),
    ("open", "list"),
    ("run", "call"),
    ("exec", "call"),
    ("execute", "call"),
    ("invoke", "call"),
    ("use", "call"),
    ("tools/call", "call"),
    ("call-tool", "call"),
    ("call_tool", "call"),
    ("schema", "tool"),
    ("describe", "tool"),
    ("show", "info"),
    ("inspect", "info"),
    ("inspector", "info"),
    ("about", "info"),
    ("discover", "info"),
    ("cat", "read"),
    ("get", "read"),
    ("fetch", "read"),
    ("resource", "read"),
    ("resources/read", "read"),
    ("prompts/get", "prompt"),
    ("check", "validate"),
    ("test", "validate"),
    ("lint", "validate"),
    ("verify", "validate"),
    ("conformance", "validate"),
    ("debug", "doctor"),
    ("diagnose", "doctor"),
    ("why", "doctor"),
    ("compare", "diff"),
    ("find", "search"),
    ("proxy", "bridge"),
    ("gateway", "bridge"),
    ("expose", "bridge"),
    ("remote", "bridge"),
    ("start", "bridge"),
    ("chat", "shell"),
    ("repl", "shell"),
    ("console", "shell"),
    ("interactive", "shell"),
    ("login", "auth login"),
    ("logout", "auth logout"),
    ("config", "servers"),
    ("mcp", "servers"),
    ("add", "servers add"),
    ("remove", "servers remove"),
    ("rm", "servers remove"),
    ("convert", "servers convert"),
    ("trust", "servers trust"),
    ("completion", "completions"),
];

/// Options of other programs, and what they name.
const OPTIONS: [(&str, Names); 10] = [
    ("--stdio", Names::Command),
    ("--command", Names::Command),
    ("--cmd", Names::Command),
    ("--url", Names::Url),
    ("--http-url", Names::Url),
    ("--server-url", Names::Url),
    ("--port", Names::Port),
    ("--sse", Names::Url),
    ("--http", Names::Port),
    ("--all", Names::Everything),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// The command of the server, in one word.
    Command,
    /// The address of the server.
    Url,
    /// The port to listen at.
    Port,
    /// What is listed without a server.
    Everything,
}

/// The verb that a word of another program means, and how many words that was.
pub(crate) fn verb_meant<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<(&'static str, usize)> {
    let mut words = words.into_iter();
    let first = words.next()?.to_ascii_lowercase();
    let both = format!("{first} {}", words.next().unwrap_or_default());
    let meant = |typed: &str| VERBS.iter().find(|(known, _)| *known == typed).map(|(_, verb)| *verb);
    meant(&both).map(|verb| (verb, 2)).or_else(|| Some((meant(&first)?, 1)))
}

/// What to type for a word in the place of the verb that is none.
pub(super) fn verb(argv: &[OsString]) -> Option<Failure> {
    let at = 1;
    let (word, rest) = (argv.get(at)?, &argv[at + 1..]);
    let no_verb =
        |line: String| Some(Failure::usage(format!("{} is not a verb of mcpjoin", shown(word)), line));
    let behind = |rest: &[OsString]| match rest {
        [] => String::new(),
        rest => format!(" {}", words_shown(rest)),
    };
    let names = [Some(word), rest.first()].into_iter().flatten().filter_map(|word| word.to_str());
    if let Some((verb, count)) = verb_meant(names) {
        let rest = &argv[at + count..];
        // A server alone has no tool and no URI.
        let verb = match rest {
            [server]
                if matches!(verb, "tool" | "read")
                    && (stands_alone(server) || is_entry(server))
                    && !is_uri(server) =>
            {
                "info"
            }
            _ => verb,
        };
        return no_verb(format!("mcpjoin {verb}{}", behind(rest)));
    }
    if word.eq_ignore_ascii_case("version") {
        return no_verb("mcpjoin --version".into());
    }
    let is_target =
        stands_alone(word) || is_launcher(word) || word.to_string_lossy().starts_with(['.', '/', '@']);
    if stands_alone(word) || is_entry(word) {
        return no_verb(verb_behind_target(word, rest));
    }
    if is_target || config::is_program(word.clone()) {
        return no_verb(verb_behind_command(&argv[at..]));
    }
    let root = Cli::command();
    let verbs: Vec<&str> = root.get_subcommands().map(clap::Command::get_name).collect();
    match similar(&word.to_string_lossy(), verbs) {
        Some(verb) => no_verb(format!("mcpjoin {verb}{}", behind(rest))),
        None => no_verb("mcpjoin help".into()),
    }
}

/// Whether a word may be the URI of a resource: the schemes of servers are those of [`stands_alone`], too.
fn is_uri(word: &OsStr) -> bool {
    word.to_str().is_some_and(|text| text.contains("://") && !text.starts_with("http"))
}

/// The line for a target without arguments in the place of the verb: a verb may follow it, or a tool.
fn verb_behind_target(target: &OsStr, rest: &[OsString]) -> String {
    let target = words_shown(&[target.to_owned()]);
    let line = |verb: &str, rest: &[OsString]| match rest {
        [] => format!("mcpjoin {verb} {target}"),
        rest => format!("mcpjoin {verb} {target} {}", words_shown(rest)),
    };
    let Some(first) = rest.first().and_then(|word| word.to_str()) else { return line("list", &[]) };
    if Cli::command().find_subcommand(first).is_some() {
        return line(first, &rest[1..]);
    }
    match verb_meant(rest.iter().filter_map(|word| word.to_str())) {
        Some((verb, count)) => line(verb, &rest[count..]),
        None if first.starts_with('-') => line("list", rest),
        None => line("call", rest),
    }
}

/// The line for a command in the place of the verb. A verb without operands may be its last word, or `call` may follow it.
fn verb_behind_command(words: &[OsString]) -> String {
    if let [command @ .., last] = words
        && let Some(verb) =
            ["list", "info", "ping", "validate", "doctor", "shell"].into_iter().find(|verb| last == verb)
        && command.len() > 1
    {
        return format!("mcpjoin {verb} {}", words_shown(command));
    }
    let call = words.iter().position(|word| word == "call").filter(|at| (2..words.len() - 1).contains(at));
    match call {
        Some(at) => {
            format!("mcpjoin call {} -- {}", words_shown(&words[at + 1..]), words_shown(&words[..at]))
        }
        None => format!("mcpjoin list {}", words_shown(words)),
    }
}

fn is_entry(word: &OsStr) -> bool {
    word.to_str().is_some_and(|name| config::is_entry(name, &crate::args::Configured::default()))
}

/// What to type for an option that another program has.
pub(super) fn option(argv: &[OsString]) -> Option<Failure> {
    let verb = Cli::command().find_subcommand(argv.get(1)?)?.get_name().to_owned();
    let end = argv.iter().position(|word| word == "--").unwrap_or(argv.len());
    let is_known = |word: &OsString| {
        let text = word.to_str()?;
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let names = OPTIONS.iter().find(|(known, _)| *known == name)?.1;
        Some((name.to_owned(), value.map(OsString::from), names))
    };
    let (at, (name, joined, names)) =
        argv[..end].iter().enumerate().skip(2).find_map(|(at, word)| Some((at, is_known(word)?)))?;
    let port = |word: &OsString| word.to_str()?.parse::<u16>().ok();
    let is_apart = joined.is_none()
        && match names {
            Names::Everything => false,
            // The port may be left out.
            Names::Port if name == "--http" => argv[..end].get(at + 1).and_then(port).is_some(),
            _ => true,
        };
    let value = match is_apart {
        true => argv[..end].get(at + 1).cloned()?,
        false if name == "--http" => joined.unwrap_or_else(|| "8080".into()),
        false => joined.unwrap_or_default(),
    };
    let mut others = [&argv[2..at], &argv[at + 1 + usize::from(is_apart)..end]].concat();
    let host = if names == Names::Port { take_host(&mut others) } else { None };
    let others = if others.is_empty() { String::new() } else { format!(" {}", words_shown(&others)) };
    let no_option =
        |line: String| Some(Failure::usage(format!("{name} is not an option of mcpjoin {verb}"), line));
    let has_operands = ["call", "tool", "read", "prompt", "complete"].contains(&&*verb);
    match names {
        Names::Command => {
            let words = shlex::split(value.to_str()?)?.into_iter().map(OsString::from).collect::<Vec<_>>();
            let dashes = if has_operands { " --" } else { "" };
            no_option(format!("mcpjoin {verb}{others}{dashes} {}", words_shown(&words)))
        }
        Names::Url if verb != "serve" => {
            no_option(format!("mcpjoin {verb} {}{others}", words_shown(std::slice::from_ref(&value))))
        }
        Names::Port if ["bridge", "serve"].contains(&&*verb) => {
            let (host, port) = (host.unwrap_or_else(|| "localhost".into()), port(&value)?);
            no_option(format!("mcpjoin {verb} --listen http://{host}:{port}/mcp{others}"))
        }
        Names::Everything if ["list", "doctor"].contains(&&*verb) => {
            no_option(format!("mcpjoin {verb}{others}"))
        }
        Names::Url | Names::Port | Names::Everything => None,
    }
}

/// Takes `--host HOST` out of the words.
fn take_host(words: &mut Vec<OsString>) -> Option<String> {
    let at = words.iter().position(|word| word == "--host" || word == "--hostname")?;
    let host = words.get(at + 1)?.to_str()?.to_owned();
    words.drain(at..at + 2);
    Some(if host.contains(':') { format!("[{host}]") } else { host })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory;

    use super::{Cli, VERBS, option, verb, verb_meant};

    fn argv(line: &str) -> Vec<OsString> {
        std::iter::once("mcpjoin").chain(line.split(' ')).map(OsString::from).collect()
    }

    #[test]
    fn what_other_programs_call_a_verb_is_answered_with_ours() {
        let mut root = Cli::command();
        root.build();
        for (typed, ours) in VERBS {
            let first = typed.split(' ').next().unwrap();
            assert!(root.find_subcommand(first).is_none(), "{first} is a verb");
            let mut command = &root;
            for word in ours.split(' ') {
                command = command.find_subcommand(word).unwrap_or_else(|| panic!("there is no verb {ours}"));
            }
        }
        for (typed, line) in [
            ("tools demo:", "mcpjoin list demo:"),
            ("tools call demo: echo a=1", "mcpjoin call demo: echo a=1"),
            ("ls", "mcpjoin list"),
            ("Tools demo:", "mcpjoin list demo:"),
            ("lsit demo:", "mcpjoin list demo:"),
            ("demo:", "mcpjoin list demo:"),
            ("http://h/mcp", "mcpjoin list http://h/mcp"),
            ("npx -y pkg", "mcpjoin list npx -y pkg"),
            ("xyzzy", "mcpjoin help"),
        ] {
            assert_eq!(verb(&argv(typed)).unwrap().hint, line, "{typed}");
        }
        assert_eq!(verb_meant(["list"]), None);
    }

    #[test]
    fn options_of_other_programs_are_answered_with_what_does_the_same() {
        let mut line = argv("call --stdio x echo a=1");
        line[3] = "npx -y pkg".into();
        assert_eq!(option(&line).unwrap().hint, "mcpjoin call echo a=1 -- npx -y pkg");
        for (typed, right) in [
            ("list --stdio sh", "mcpjoin list sh"),
            ("list --json --url http://h/mcp", "mcpjoin list http://h/mcp --json"),
            ("call --http-url=http://h/mcp echo", "mcpjoin call http://h/mcp echo"),
            ("serve demo --port 9402", "mcpjoin serve --listen http://localhost:9402/mcp demo"),
            ("bridge --port 9402 demo:", "mcpjoin bridge --listen http://localhost:9402/mcp demo:"),
        ] {
            assert_eq!(option(&argv(typed)).unwrap().hint, right, "{typed}");
        }
        for typed in
            ["list --nonsense demo:", "list --port 1 demo:", "list demo: --stdio", "serve demo --port x"]
        {
            assert!(option(&argv(typed)).is_none(), "{typed}");
        }
    }
}
