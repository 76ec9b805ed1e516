//! From the words of the command line to the server. It reads nothing but the words; what a word could be besides, [`Known`] says.
//!
//! The grammar, with the numbers of the project's interface page:
//!
//! 1. Our options stand before COMMAND; after its first word all words belong to it. (`command_line` moves options that stand
//!    after a target without arguments.)
//! 2. With `--` the target follows it, and all words before it are operands.
//! 3. Verbs with operands and without `--`: the first word is the target. A command with arguments is refused there.
//! 4. A word with a scheme is a URL; `host:port` is `http://` of it; one that begins with `.`, `/` or a drive letter is a path;
//!    several words in one are a command line; another single word is an entry of a configuration, or else a program.
//! 5. `NAME/TOOL`, `NAME.TOOL` and `FILE#NAME/TOOL` only where NAME is an entry; `--server NAME` for names that no word can be.
//! 6. What is refused has the line that works as its hint.

mod address;
mod launcher;
mod misplaced;
mod quoted;
mod shown;
mod spelling;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::config::similar;
use crate::demo::Demo;
use crate::failure::Failure;

pub(crate) use address::{Bound, Http, Quic, Socket};
pub(crate) use launcher::{behind_dashes, is_argument, is_launcher};
pub(crate) use misplaced::{LISTED, function_call};
pub(crate) use shown::{command_shown, exact, path_shown, shown, words_shown};
pub(crate) use spelling::{is_bare, is_quoted_line, stands_alone, url_meant};

use quoted::command_line;
use spelling::{Word, has_wrong_port, is_configuration, tool_of_entry};

/// The server of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A program and its arguments, run as a child.
    Command {
        /// A path, or a name that is searched on `PATH`.
        program: OsString,
        /// Its arguments.
        args: Vec<OsString>,
    },
    /// A built-in server, as a child.
    Demo(Demo),
    /// A server that listens on a socket.
    Socket(Socket),
    /// A server that is reached over QUIC.
    Quic(Quic),
    /// An orchestrator of Orchestra, through our bridge in this process.
    Orchestrator(Quic),
    /// A server that is reached over HTTP.
    Http(Http),
    /// An entry of a configuration.
    Entry(Named),
}

impl Target {
    /// A short name: of an entry its name, of a command its program, otherwise the address.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Command { program, .. } => shown(program),
            Self::Demo(demo) => demo.word().into(),
            Self::Socket(address) => shown(address.to_string().as_ref()),
            Self::Quic(address) => shown(address.to_string().as_ref()),
            Self::Orchestrator(address) => shown(format!("orchestra://{}", address.0).as_ref()),
            Self::Http(address) => shown(address.to_string().as_ref()),
            Self::Entry(named) => named.name.clone(),
        }
    }
}

/// The name of an entry. `config` finds out whether it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The file to search, of `FILE#NAME`.
    pub(crate) file: Option<OsString>,
    pub(crate) name: String,
    /// Where there is no such entry, it is a program.
    pub(crate) or_program: bool,
    /// What the user can type where there is no such entry.
    pub(crate) instead: String,
}

impl Demo {
    pub(crate) const ALL: [Self; 2] = [Self::Introduction, Self::Full];

    /// The word of the command line.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Introduction => "demo:",
            Self::Full => "demo:full",
        }
    }

    /// The arguments with which this program serves it.
    pub(crate) fn arguments(self) -> Vec<OsString> {
        let words: &[&str] = match self {
            Self::Introduction => &["serve", "demo"],
            Self::Full => &["serve", "demo", "--full"],
        };
        words.iter().map(OsString::from).collect()
    }
}

/// The parsed words after the options.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) target: Target,
    /// The words for the verb.
    pub(crate) operands: Vec<OsString>,
    /// Notes about the words.
    pub(crate) notes: Vec<String>,
}

impl Invocation {
    const fn new(target: Target, operands: Vec<OsString>) -> Self {
        Self { target, operands, notes: Vec::new() }
    }

    /// A command, with notes about those of its arguments that look like options of ours.
    fn command(program: OsString, args: Vec<OsString>, operands: Vec<OsString>) -> Self {
        Self { notes: notes(&program, &args), target: command(program, args), operands }
    }
}

/// What a word could be besides its spelling: asked only where the spelling does not decide.
pub(crate) struct Known<'a> {
    /// Whether it is an entry of a configuration.
    pub(crate) entry: &'a dyn Fn(&str) -> Result<bool, Failure>,
    /// Whether it is a program: a name that `PATH` has, or a file that can be executed.
    pub(crate) program: &'a dyn Fn(&OsStr) -> bool,
    /// Whether it is a file.
    pub(crate) file: &'a dyn Fn(&Path) -> bool,
}

/// The rows of `mcpjoin help targets`.
pub(crate) const TARGETS: &[(&str, &str)] = &[
    ("npx -y PACKAGE", "a command and its arguments, run as a child process"),
    ("'npx -y PACKAGE'", "the same in one quoted word, for verbs with more operands; not run by a shell"),
    ("./server, /path/server", "a program; if the path does not exist, nothing is downloaded"),
    ("NAME", "one bare word: an entry of a configuration file, otherwise a program on PATH"),
    ("NAME/TOOL, NAME.TOOL", "an entry and one of its tools, instead of TARGET TOOL"),
    ("FILE#NAME", "an entry of this file: mcpServers in JSON, or [[servers]] in TOML"),
    ("FILE#NAME/TOOL", "the same and one of its tools; FILE ends in .json, .jsonc, .json5 or .toml"),
    ("--server NAME", "an entry with any name: an option instead of TARGET"),
    (
        "http://..., https://...",
        "a server over HTTP, whatever revision it speaks; without a path, /mcp is tried after /",
    ),
    ("host:port, host:port/path", "the same as http://..."),
    ("sse+http://...", "HTTP+SSE of 2024-11-05, without trying newer transports; also sse+https://"),
    ("quic://host:port", "a server over QUIC, identified by --pin or --ca"),
    ("tcp://host:port", "a server on a TCP port, without encryption"),
    ("unix:/path", "a server on a Unix socket"),
    ("orchestra://host:port", "an orchestrator of Orchestra, with the certificates of ~/.orchestra/certs"),
    ("demo:", "a small server inside this program, started as a child process"),
    ("demo:full", "the same with a tool, a prompt or a resource for each feature of the protocol"),
];

/// Long options of ours that users often type after the server's command.
const OURS: [&str; 3] = ["--json", "--format", "--trace"];

/// Parses the words of a verb without operands. `escaped`: `--` stands before them. `server`: the name after `--server`.
pub(crate) fn without_operands(
    verb: &str,
    server: Option<&str>,
    words: Vec<OsString>,
    escaped: bool,
    known: &Known<'_>,
) -> Result<Invocation, Failure> {
    if let Some(name) = server {
        return match words.first() {
            None => Ok(of_server(name, words)),
            Some(word) => Err(named_twice(verb, name, word)),
        };
    }
    let mut words = words.into_iter();
    let Some(first) = words.next().filter(|word| !word.is_empty()) else {
        return Err(Failure::usage("no server is named", format!("mcpjoin {verb} TARGET"))
            .or(format!("mcpjoin {verb} COMMAND [ARG]...")));
    };
    let rest: Vec<OsString> = words.collect();
    if (rest.is_empty() || !escaped)
        && let Some(target) = command_line(verb, "", &first, known)?
    {
        return match rest.is_empty() {
            true => Ok(Invocation::new(target, Vec::new())),
            false => Err(too_many(verb, &first)),
        };
    }
    if escaped {
        return Ok(Invocation::command(first, rest, Vec::new()));
    }
    if let Some(failure) = misplaced::incomplete_address(verb, &first, &rest, known)? {
        return Err(failure);
    }
    if let Some(failure) = misplaced::listed(verb, &first, &rest, known)? {
        return Err(failure);
    }
    match Word::of(&first) {
        Word::Demo(_) | Word::Url { .. } | Word::Address if !rest.is_empty() => Err(too_many(verb, &first)),
        // A file with the extension of a configuration is no program.
        Word::Entry { file, .. } if !rest.is_empty() && is_configuration(&file) => {
            Err(too_many(verb, &first))
        }
        Word::Package => {
            let line = format!(
                "mcpjoin {verb} {}",
                words_shown(&[&["npx".into(), "-y".into(), first.clone()], &rest[..]].concat())
            );
            Err(package(&first, line))
        }
        Word::Bare if rest.is_empty() && names_tool(&first, known)? => {
            let word = words_shown(std::slice::from_ref(&first));
            let problem = format!("{word} is a tool of an entry, and {verb} takes a server");
            Err(Failure::usage(problem, format!("mcpjoin tool {word}")))
        }
        Word::Bare if rest.is_empty() && is_address_with_wrong_port(&first, known)? => {
            target(verb, "", Word::Address, &first, &[]).map(|target| Invocation::new(target, Vec::new()))
        }
        Word::Bare if rest.is_empty() && !first.as_encoded_bytes().contains(&b'/') => {
            let target = named(None, &first.to_string_lossy(), true, String::new());
            Ok(Invocation::new(target, Vec::new()))
        }
        Word::Path | Word::Bare | Word::Entry { .. } if !rest.is_empty() => {
            Ok(Invocation::command(first, rest, Vec::new()))
        }
        word => Ok(Invocation::new(target(verb, "", word, &first, &[])?, Vec::new())),
    }
}

/// Whether a word is `NAME/TOOL`, and no path of a program.
fn names_tool(word: &OsStr, known: &Known<'_>) -> Result<bool, Failure> {
    let text = word.to_string_lossy();
    let Some((name, tool)) = text.split_once('/') else { return Ok(false) };
    Ok(!name.is_empty() && !tool.is_empty() && !(known.program)(word) && (known.entry)(name)?)
}

/// Whether a word is [an address apart from its port](has_wrong_port), and nothing else.
fn is_address_with_wrong_port(word: &OsStr, known: &Known<'_>) -> Result<bool, Failure> {
    let text = word.to_string_lossy();
    Ok(has_wrong_port(&text) && !(known.program)(word) && !(known.entry)(&text)?)
}

/// Parses the words of a verb with operands. `after`: the words behind `--`, where there is one. `server`: the name after
/// `--server`.
pub(crate) fn with_operands(
    verb: &str,
    server: Option<&str>,
    words: Vec<OsString>,
    after: Option<Vec<OsString>>,
    known: &Known<'_>,
) -> Result<Invocation, Failure> {
    if let Some(name) = server {
        return match after.unwrap_or_default().first() {
            None => Ok(of_server(name, words)),
            Some(word) => Err(named_twice(verb, name, word)),
        };
    }
    if verb == "call"
        && let Some(failure) = function_call(&words, after.as_deref())
    {
        return Err(failure);
    }
    if let Some(after) = after {
        if after.first().is_none_or(|word| word.is_empty()) {
            let hint = format!("mcpjoin {verb} ... -- COMMAND [ARG]...");
            return Err(Failure::usage("no command follows --", hint));
        }
        if let Some(failure) = misplaced::server_in_front(verb, &words, &after, known)? {
            return Err(failure);
        }
        let mut after = after.into_iter();
        let program = after.next().unwrap_or_default();
        // Several words in one are no name of a program.
        let rest: Vec<OsString> = after.collect();
        if rest.is_empty()
            && let Some(target) = command_line(verb, &behind(&words), &program, known)?
        {
            return Ok(Invocation::new(target, words));
        }
        return Ok(Invocation::command(program, rest, words));
    }
    let mut words = words.into_iter();
    let Some(first) = words.next().filter(|word| !word.is_empty()) else {
        return Err(Failure::usage("no server is named", format!("mcpjoin {verb} TARGET ..."))
            .or(format!("mcpjoin {verb} ... -- COMMAND [ARG]...")));
    };
    let operands: Vec<OsString> = words.collect();
    if let Some(failure) = misplaced::target_last(verb, &first, &operands, known)? {
        return Err(failure);
    }
    if let Some((file, name, tool)) = first.to_str().and_then(tool_of_entry) {
        let operands = std::iter::once(OsString::from(tool)).chain(operands).collect();
        return Ok(Invocation::new(named(Some(file.into()), name, false, String::new()), operands));
    }
    if let Some(target) = command_line(verb, &behind(&operands), &first, known)? {
        return Ok(Invocation::new(target, operands));
    }
    match Word::of(&first) {
        Word::Package => {
            let mut words: Vec<OsString> = vec!["npx".into(), "-y".into(), first.clone()];
            words.extend(operands);
            Err(package(&first, behind_dashes(verb, &[], &words, |_| None).hint))
        }
        Word::Bare => bare(verb, first, operands, known),
        Word::Path if launcher::has_arguments(verb, &operands) && (known.program)(&first) => {
            Err(with_arguments(verb, first, operands))
        }
        word => Ok(Invocation::new(target(verb, " ...", word, &first, &operands)?, operands)),
    }
}

/// Parses a bare word before operands: an entry, `NAME/TOOL`, a program, or `NAME.TOOL`. Rule 5: a word with a `/` or a `.` is a tool
/// of an entry where there is such an entry.
fn bare(
    verb: &str,
    first: OsString,
    operands: Vec<OsString>,
    known: &Known<'_>,
) -> Result<Invocation, Failure> {
    let word = first.to_string_lossy();
    let (name, tool) = match word.split_once('/') {
        Some((name, tool)) if !name.is_empty() && !tool.is_empty() => (name, Some(tool)),
        _ => (&*word, None),
    };
    let is_entry = (known.entry)(name)?;
    if !is_entry && (known.program)(&first) {
        let takes_arguments =
            matches!(verb, "call" | "prompt") && operands.first().is_some_and(|word| is_argument(word));
        if takes_arguments {
            return Err(no_target(verb, &first, &operands));
        }
        if is_launcher(&first) && !operands.is_empty() || launcher::has_arguments(verb, &operands) {
            return Err(with_arguments(verb, first, operands));
        }
        return Ok(Invocation::new(command(first, Vec::new()), operands));
    }
    if let Some(failure) = misplaced::incomplete_address(verb, &first, &operands, known)? {
        return Err(failure);
    }
    if !is_entry && is_address_with_wrong_port(&first, known)? {
        return Ok(Invocation::new(target(verb, " ...", Word::Address, &first, &operands)?, operands));
    }
    if !is_entry && let Some((name, tool)) = dotted(&word, known.entry)? {
        let operands = std::iter::once(tool.into()).chain(operands).collect();
        return Ok(Invocation::new(named(None, name, false, String::new()), operands));
    }
    let instead = no_target(verb, &first, &operands).hint;
    let operands = tool.map(OsString::from).into_iter().chain(operands).collect();
    Ok(Invocation::new(named(None, name, is_entry && tool.is_none(), instead), operands))
}

/// The parts of `NAME.TOOL`, where NAME is an entry: the longest one, because names of entries and of tools may have dots.
pub(crate) fn dotted(
    word: &str,
    is_entry: impl Fn(&str) -> Result<bool, Failure>,
) -> Result<Option<(&str, &str)>, Failure> {
    for (at, _) in word.rmatch_indices('.') {
        let (name, tool) = (&word[..at], &word[at + 1..]);
        if !name.is_empty() && !tool.is_empty() && is_entry(name)? {
            return Ok(Some((name, tool)));
        }
    }
    Ok(None)
}

/// The failure of a program with arguments before the operands.
fn with_arguments(verb: &str, first: OsString, operands: Vec<OsString>) -> Failure {
    let words: Vec<OsString> = std::iter::once(first).chain(operands).collect();
    behind_dashes(verb, &[], &words, |_| None)
}

/// The failure of operands without a target. The first one is in the place of the target.
fn no_target(verb: &str, first: &OsStr, operands: &[OsString]) -> Failure {
    let (first, typed) = (shown(first), behind(operands));
    Failure::usage(
        format!("no server is named: {first} is in its place, followed by an argument"),
        format!("mcpjoin {verb} {first}{typed} -- COMMAND [ARG]..."),
    )
}

/// The failure of a package in the place of a program.
fn package(word: &OsStr, line: String) -> Failure {
    Failure::usage(format!("{} is an npm package, not a program: npx runs it", shown(word)), line)
}

/// Operands behind the verb of a line that is shown.
pub(crate) fn behind(operands: &[OsString]) -> String {
    if operands.is_empty() { String::new() } else { format!(" {}", words_shown(operands)) }
}

/// The target of a word. `operands`: the placeholder for operands in a usage line of the verb. `typed`: those that were typed.
fn target(
    verb: &str,
    operands: &str,
    word: Word,
    first: &OsStr,
    typed: &[OsString],
) -> Result<Target, Failure> {
    let text = first.to_string_lossy();
    let no_address = |hint: String| {
        // No secrets are known yet, so the word is masked by position.
        let word = words_shown(&[first.to_owned()]);
        Failure::usage(format!("{word} is not an address"), hint)
    };
    match word {
        Word::Demo(demo) => Ok(Target::Demo(demo)),
        Word::Path | Word::Bare | Word::Package => Ok(command(first.to_owned(), Vec::new())),
        Word::Address => Http::parse(&format!("http://{text}")).map(Target::Http).map_err(no_address),
        Word::Entry { file, name } => Ok(named(Some(file.into()), &name, false, String::new())),
        Word::Url { .. } if first.to_str().is_none() => Err(Failure::usage(
            format!("{} is not an address: it is not valid Unicode", words_shown(&[first.to_owned()])),
            "write other bytes of an address as %XX",
        )),
        Word::Url { scheme } => match scheme.as_str() {
            "http" | "https" if !text.contains("://") => {
                let line =
                    with_scheme(&scheme, &text, |url| format!("mcpjoin {verb} {url}{}", behind(typed)));
                Err(no_address(line.unwrap_or_else(|| "mcpjoin help targets".into())))
            }
            "http" | "https" | "sse+http" | "sse+https" => {
                Http::parse(&text).map(Target::Http).map_err(no_address)
            }
            "tcp" | "unix" => Socket::parse(&text).map(Target::Socket).map_err(no_address),
            "quic" => Quic::parse(&text).map(Target::Quic).map_err(no_address),
            "orchestra" => Quic::orchestrator(&text).map(Target::Orchestrator).map_err(no_address),
            "demo" => {
                let problem =
                    format!("{} is not a server inside this program", words_shown(&[first.to_owned()]));
                let [introduction, full] = Demo::ALL.map(Demo::word);
                let hint = format!("mcpjoin {verb} {introduction}{operands}, or {full}");
                Err(Failure::usage(problem, hint))
            }
            // A resource in the place of the server.
            _ if verb == "read" => {
                let line = format!("mcpjoin read TARGET {}", words_shown(&[first.to_owned()]));
                Err(Failure::usage(format!("the scheme {scheme}: is not supported"), line))
            }
            _ => {
                let line =
                    with_scheme(&scheme, &text, |url| format!("mcpjoin {verb} {url}{}", behind(typed)));
                let line = line.unwrap_or_else(|| "mcpjoin help targets".into());
                Err(Failure::usage(format!("the scheme {scheme}: is not supported"), line))
            }
        },
    }
}

/// The line with the scheme that a word may mean. MCP has no transport over WebSocket: such a server usually serves HTTP as well.
fn with_scheme(scheme: &str, word: &str, line: impl Fn(&str) -> String) -> Option<String> {
    let scheme_meant = match scheme {
        "ws" => "http",
        "wss" => "https",
        scheme => similar(scheme, ["http", "https", "quic", "orchestra"])?,
    };
    let rest = word.split_once(':')?.1.trim_start_matches('/');
    Some(line(&words_shown(&[format!("{scheme_meant}://{rest}").into()])))
}

fn named(file: Option<OsString>, name: &str, or_program: bool, instead: String) -> Target {
    Target::Entry(Named { file, name: name.to_owned(), or_program, instead })
}

/// The entry after `--server`. All words are operands.
fn of_server(name: &str, operands: Vec<OsString>) -> Invocation {
    Invocation::new(named(None, name, false, String::new()), operands)
}

/// The failure of words after a target that takes none.
fn too_many(verb: &str, first: &OsStr) -> Failure {
    let first = words_shown(&[first.to_owned()]);
    Failure::usage(format!("{verb} takes no words after {first}"), format!("mcpjoin {verb} {first}"))
}

fn named_twice(verb: &str, name: &str, word: &OsStr) -> Failure {
    let word = words_shown(&[word.to_owned()]);
    let problem = format!("--server {} and {word} are two servers", shown(name.as_ref()));
    Failure::usage(problem, format!("mcpjoin help {verb}"))
}

const fn command(program: OsString, args: Vec<OsString>) -> Target {
    Target::Command { program, args }
}

/// Rule 1: notes about arguments of the program that look like our options.
fn notes(program: &OsStr, args: &[OsString]) -> Vec<String> {
    OURS.iter()
        .filter(|ours| {
            args.iter().filter_map(|word| word.to_str()).any(|word| {
                word.strip_prefix(**ours).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            })
        })
        .map(|ours| {
            format!("{ours} is passed to {}: options of mcpjoin belong before the command", shown(program))
        })
        .collect()
}

#[cfg(test)]
mod tests;
