//! What people type who know other programs: their verbs and options, answered with the command of mcpjoin that does the same.
//!
//! Used by `command_line` where clap refuses the words, and by `help`. It reads nothing but the words.

use std::ffi::{OsStr, OsString};

use clap::CommandFactory;

use super::{declared, is_option, takes_next};
use crate::args::Cli;
use crate::config::{self, similar};
use crate::failure::Failure;
use crate::target::{
    LISTED, behind, behind_dashes, function_call, is_argument, is_launcher, shown, stands_alone, url_meant,
    words_shown,
};

/// Words of other programs in the place of a verb, and ours. Of two words the second one is part of the verb.
const VERBS: [(&str, &str); 81] = [
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
    ("install", "servers add"),
    ("convert", "servers convert"),
    ("trust", "servers trust"),
    ("completion", "completions"),
];

/// Options of other programs, and what they name.
const OPTIONS: [(&str, Names); 12] = [
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
    ("--streamableHttp", Names::Url),
    ("--transport", Names::Transport),
];

/// Verbs that mean nothing without a server.
const NEEDS_TARGET: [&str; 8] =
    ["call", "tool", "read", "prompt", "info", "validate", "bridge", "auth login"];

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
    /// The transport, which the address of the server says here.
    Transport,
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
    if word == "auth" {
        return below_auth(rest);
    }
    let names = [Some(word), rest.first()].into_iter().flatten().filter_map(|word| word.to_str());
    if let Some((verb, count)) = verb_meant(names) {
        let rest = &argv[at + count..];
        if verb == "servers add" {
            return no_verb(added(rest));
        }
        if rest.is_empty() && NEEDS_TARGET.contains(&verb) {
            return no_verb(format!("mcpjoin {verb} TARGET"));
        }
        // A server alone has no tool and no URI.
        let verb = match rest {
            [server]
                if matches!(verb, "tool" | "read")
                    && (stands_alone(server) || is_entry(server))
                    && !is_uri(server) =>
            {
                "info"
            }
            // A server is run to see what it has.
            [_] if verb == "call" => "list",
            [program, rest @ ..] if verb == "call" && is_launcher(program) => {
                match rest.iter().any(|word| is_argument(word)) {
                    true => return no_verb(behind_dashes("call", &[], &argv[at + count..], |_| None).hint),
                    false => "list",
                }
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
    if let Some(url) = word.to_str().and_then(url_meant) {
        return no_verb(verb_behind_target(url.as_ref(), rest));
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
    if let Some(call) = function_call(&[&[OsString::from(&target)], rest].concat(), None) {
        return call.hint;
    }
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
    if let [command @ .., verb, noun] = words
        && !command.is_empty()
        && verb == "list"
        && LISTED.iter().any(|listed| noun == listed)
    {
        return format!("mcpjoin list {}", words_shown(command));
    }
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

/// What to type for a word behind `auth` that is none of its verbs.
fn below_auth(rest: &[OsString]) -> Option<Failure> {
    let word = rest.first()?.to_string_lossy();
    let meant = match &*word {
        "list" | "ls" => Some("status"),
        word => similar(word, ["login", "status", "logout", "explain"]),
    };
    let line = match meant {
        Some(verb) => [&[verb.into()], &rest[1..]].concat(),
        None => [&["login".into()], rest].concat(),
    };
    let problem = format!("{} is not a verb of mcpjoin auth", words_shown(&rest[..1]));
    Some(Failure::usage(problem, format!("mcpjoin auth {}", words_shown(&line))))
}

/// The line for what other programs add: `--transport http NAME URL`, `-s user NAME COMMAND`, `NAME --env A=b -- COMMAND`.
fn added(rest: &[OsString]) -> String {
    let (mut options, mut words) = (Vec::new(), Vec::new());
    let mut typed = rest.iter();
    while let Some(word) = typed.next() {
        match word.to_str() {
            Some("--") => {}
            // The address says the transport, and the file says for whom it is.
            Some("--transport" | "-t" | "--scope" | "-s") if words.len() < 2 => drop(typed.next()),
            Some("--env" | "-e" | "--header" | "-H") if words.len() < 2 => {
                options.extend([Some(word), typed.next()].into_iter().flatten().cloned());
            }
            _ => words.push(word.clone()),
        }
    }
    let words = match &words[..] {
        [] => "NAME -- COMMAND [ARG]...".into(),
        [package] if package.to_string_lossy().starts_with('@') => {
            format!("NAME -- npx -y {}", words_shown(&words))
        }
        [url] if stands_alone(url) => format!("NAME {}", words_shown(&words)),
        [name] => format!("{} -- COMMAND [ARG]...", shown(name)),
        [name, url] if stands_alone(url) => words_shown(&[name.clone(), url.clone()]),
        [name, command @ ..] => format!("{} -- {}", shown(name), words_shown(command)),
    };
    let options = if options.is_empty() { String::new() } else { format!("{} ", words_shown(&options)) };
    format!("mcpjoin servers add {options}{words}")
}

/// What to type for options that another program has. Without a verb it is a gateway.
pub(super) fn option(argv: &[OsString]) -> Option<Failure> {
    let (mut line, mut first) = (argv.to_vec(), None);
    let has_verb = Cli::command().find_subcommand(argv.get(1)?).is_some();
    if !has_verb {
        let has = |option: &str| argv.iter().any(|word| word == option);
        let is_gateway = ["--stdio", "--sse", "--streamableHttp"].into_iter().any(has);
        if has("--stdio") && !has("--port") {
            line.extend(["--port", "8000"].map(OsString::from));
        }
        line.insert(1, if is_gateway { "bridge" } else { "list" }.into());
    }
    while let Some((name, replaced)) = without_option(&line) {
        first.get_or_insert(name);
        line = replaced;
    }
    let problem = match has_verb {
        true => format!("{} is not an option of mcpjoin {}", first?, shown(&argv[1])),
        false => format!("{} needs a verb before it", first?),
    };
    Some(Failure::usage(problem, format!("mcpjoin {}", words_shown(&line[1..]))))
}

/// The line without the first option that another program has, and the name of that option.
fn without_option(argv: &[OsString]) -> Option<(String, Vec<OsString>)> {
    let verb = argv.get(1)?.to_str()?;
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
    let (front, back) = match names {
        Names::Command => {
            let words = shlex::split(value.to_str()?)?.into_iter().map(OsString::from);
            (Vec::new(), std::iter::once("--".into()).chain(words).collect())
        }
        Names::Url if verb != "serve" => (vec![value], Vec::new()),
        Names::Port if ["bridge", "serve"].contains(&verb) => {
            let host = take_host(&mut others).unwrap_or_else(|| "localhost".into());
            let url = format!("http://{host}:{}/mcp", port(&value)?);
            (vec!["--listen".into(), url.into()], Vec::new())
        }
        Names::Everything if ["list", "doctor"].contains(&verb) => Default::default(),
        Names::Transport if verb != "serve" => Default::default(),
        Names::Url | Names::Port | Names::Everything | Names::Transport => return None,
    };
    Some((name, [&argv[..2], &front, &others, &back, &argv[end..]].concat()))
}

/// Takes `--host HOST` out of the words.
fn take_host(words: &mut Vec<OsString>) -> Option<String> {
    let at = words.iter().position(|word| word == "--host" || word == "--hostname")?;
    let host = words.get(at + 1)?.to_str()?.to_owned();
    words.drain(at..at + 2);
    Some(if host.contains(':') { format!("[{host}]") } else { host })
}

/// What to type for another server than that of `serve`: `bridge` serves it.
pub(super) fn served(argv: &[OsString]) -> Option<Failure> {
    let declared = declared(argv.get(1).filter(|verb| *verb == "serve")?)?;
    let mut at = 2;
    while is_option(argv.get(at)?) {
        // An option that `serve` does not have is `--port`.
        at += 1 + usize::from(takes_next(&declared, &argv[at]).unwrap_or(true));
    }
    let server = argv.get(at).filter(|word| *word != "demo")?;
    let (options, mut line) = (&argv[2..at], vec!["mcpjoin".into(), "bridge".into()]);
    if !options.iter().any(|word| word == "--port" || word.to_string_lossy().starts_with("--listen")) {
        line.extend(["--port", "8080"].map(OsString::from));
    }
    line.extend_from_slice(options);
    if server != "--" && !stands_alone(server) && !is_entry(server) {
        line.push("--".into());
    }
    line.extend_from_slice(&argv[at..]);
    let line = without_option(&line).map_or(line, |(_, line)| line);
    let problem = format!("serve has no server but demo: bridge serves {}", words_shown(&argv[at..=at]));
    Some(Failure::usage(problem, words_shown(&line)))
}

/// What to type for the options of Inspector, behind its server: `--method tools/call --tool-name NAME --tool-arg NAME=VALUE`. `None`
/// without the method, and without the name of what is requested.
pub(super) fn inspector(argv: &[OsString]) -> Option<Failure> {
    let (mut method, mut options, mut server, mut operands) = (None, Vec::new(), Vec::new(), Vec::new());
    let mut words = argv.iter().skip(1).peekable();
    while let Some(word) = words.next() {
        let named = match word.to_str() {
            Some("--" | "--cli") => continue,
            Some("--method") => {
                method = Some(words.next()?.to_str().filter(|method| method.contains('/'))?);
                continue;
            }
            Some("--tool-name") => Some("tools/call"),
            Some("--prompt-name") => Some("prompts/get"),
            Some("--uri") => None,
            Some("--tool-arg" | "--prompt-args") => {
                operands.extend(std::iter::from_fn(|| words.next_if(|word| is_argument(word))).cloned());
                continue;
            }
            Some("--transport") => {
                words.next();
                continue;
            }
            Some("-e" | "--header" | "--config" | "--server") => {
                options.extend([Some(word), words.next()].into_iter().flatten().cloned());
                continue;
            }
            _ => {
                server.push(word.clone());
                continue;
            }
        };
        method = method.or(named);
        operands.splice(0..0, words.next().cloned());
    }
    let (verb, _) = verb_meant([method?])?;
    let is_verb = |word: &str| verb_meant([word]).is_some() || Cli::command().find_subcommand(word).is_some();
    if server.first().and_then(|word| word.to_str()).is_some_and(is_verb) {
        server.remove(0);
    }
    let line = match server.len() {
        0 | 1 => [&options[..], &server, &operands].concat(),
        _ if verb == "list" => [options, server].concat(),
        _ => [&options[..], &operands, &["--".into()], &server].concat(),
    };
    let problem = "the options of Inspector are words of mcpjoin";
    Some(Failure::usage(problem, format!("mcpjoin {verb} {}", words_shown(&line))))
}

/// What to type for arguments with dashes: `call TARGET TOOL --message hi`.
pub(super) fn dashed(argv: &[OsString]) -> Option<Failure> {
    let declared = declared(argv.get(1).filter(|verb| *verb == "call" || *verb == "prompt")?)?;
    let end = argv.iter().position(|word| word == "--").unwrap_or(argv.len());
    let (mut line, mut places, mut has_server) = (argv[1..2].to_vec(), Vec::new(), end < argv.len());
    let mut words = argv[2..end].iter().peekable();
    while let Some(word) = words.next() {
        let name = word.to_str()?.strip_prefix("--");
        match takes_next(&declared, word) {
            Some(apart) => {
                has_server |= word.to_string_lossy().starts_with("--server");
                line.push(word.clone());
                line.extend(words.next_if(|_| apart).cloned());
            }
            None if is_option(word) => {
                // It may name the server, which is missing.
                let is_missing = places.len() < 2 && !has_server;
                if is_missing && OPTIONS.iter().any(|(known, _)| word == known) {
                    return None;
                }
                let mut argument = OsString::from(name.filter(|_| !places.is_empty())?);
                if !name?.contains('=') {
                    let value = words.next_if(|next| !is_option(next) && !is_argument(next));
                    argument.push("=");
                    argument.push(value.map_or_else(|| OsStr::new("true"), |value| value.as_os_str()));
                }
                line.push(argument);
            }
            None => {
                places.push(line.len());
                line.push(word.clone());
            }
        }
    }
    if let ([place], false) = (&places[..], has_server) {
        let first = line[*place].clone();
        if stands_alone(&first) || is_entry(&first) {
            return None;
        }
        line.insert(*place, "TARGET".into());
    }
    line.extend_from_slice(&argv[end..]);
    let problem = "an argument has no dashes: NAME=VALUE";
    Some(Failure::usage(problem, format!("mcpjoin {}", words_shown(&line))))
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
            ("auth list", "mcpjoin auth status"),
            ("auth logn", "mcpjoin auth login"),
            ("auth http://h/mcp", "mcpjoin auth login http://h/mcp"),
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
            ("list --stdio sh", "mcpjoin list -- sh"),
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
