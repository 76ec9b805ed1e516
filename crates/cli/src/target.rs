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

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::config::similar;
use crate::demo::Demo;
use crate::failure::Failure;
use crate::folders;
use crate::secret;

pub(crate) use address::{Bound, Http, Quic, Socket};
pub(crate) use launcher::{behind_dashes, is_argument, is_launcher};

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

/// The kind of a word, by its spelling.
enum Word {
    /// It has a scheme.
    Url {
        scheme: String,
    },
    Demo(Demo),
    Path,
    /// `host:port`, with a path or without.
    Address,
    /// `@scope/name`: a package of npm.
    Package,
    /// `FILE#NAME`
    Entry {
        file: String,
        name: String,
    },
    Bare,
}

impl Word {
    fn of(word: &OsStr) -> Self {
        // A word that is not Unicode is the name of a file.
        let Some(text) = word.to_str() else {
            return Self::Path;
        };
        let bytes = text.as_bytes();
        let drive = bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.get(1) == Some(&b':')
            && !bytes.get(2).is_some_and(u8::is_ascii_digit);
        if text.starts_with(['.', '/', '\\']) || drive {
            return Self::entry(text).unwrap_or(Self::Path);
        }
        if let Some((scheme, rest)) = text.split_once(':') {
            let scheme = scheme.to_ascii_lowercase();
            let spelled_so = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
            let demo = Demo::ALL.into_iter().find(|demo| demo.word().eq_ignore_ascii_case(text));
            if let Some(demo) = demo {
                return Self::Demo(demo);
            }
            // One slash is a slip.
            let is_url =
                rest.starts_with("//") || rest.starts_with('/') && matches!(&*scheme, "http" | "https");
            if spelled_so && (is_url || matches!(&*scheme, "unix" | "tcp" | "demo")) {
                return Self::Url { scheme };
            }
        }
        if is_package(text) {
            return Self::Package;
        }
        if is_host_and_port(text) {
            return Self::Address;
        }
        Self::entry(text).unwrap_or(Self::Bare)
    }

    /// `FILE#NAME`: a name with a `/` or a `#` needs `--server`, so that files may have such names.
    fn entry(text: &str) -> Option<Self> {
        let (file, name) = text.rsplit_once('#')?;
        let named = !file.is_empty() && !name.is_empty() && !name.contains('/');
        named.then(|| Self::Entry { file: file.to_owned(), name: name.to_owned() })
    }
}

/// `host:port`, also with a path: an IPv6 address stands in brackets.
fn is_host_and_port(text: &str) -> bool {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((host, port)) = authority.rsplit_once(':') else { return false };
    let is_name = |host: &str| host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    let is_v6 = |host: &str| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        inner.is_some_and(|inner| inner.contains(':'))
    };
    !host.is_empty()
        && (is_name(host) || is_v6(host))
        && (1..=5).contains(&port.len())
        && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a word is an address apart from its port, as in `localhost:abc`. Another `host:word` may be the name of an entry or a program.
fn has_wrong_port(text: &str) -> bool {
    let authority = text.split(['/', '?', '#']).next().unwrap_or_default();
    let Some((host, _)) = authority.rsplit_once(':') else { return false };
    let is_host = host.eq_ignore_ascii_case("localhost") || host.starts_with('[') || host.contains('.');
    is_host && is_host_and_port(&format!("{host}:1")) && !is_host_and_port(text)
}

/// `@scope/name`, also with a version.
fn is_package(text: &str) -> bool {
    let Some((scope, name)) = text.strip_prefix('@').and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    let is_part = |part: &str| {
        let is_of_names = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        !part.is_empty() && part.chars().all(is_of_names)
    };
    let (name, version) = name.split_once('@').unwrap_or((name, "latest"));
    is_part(scope) && is_part(name) && is_part(version)
}

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
        let hint = format!("mcpjoin {verb} TARGET, or mcpjoin {verb} COMMAND [ARG]...");
        return Err(Failure::usage("no server is named", hint));
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

/// Whether a word is a complete target by its spelling, so that words behind it are no arguments of it.
pub(crate) fn stands_alone(word: &OsStr) -> bool {
    matches!(Word::of(word), Word::Demo(_) | Word::Url { .. } | Word::Address | Word::Entry { .. })
}

/// Whether a word is several words in one: a command line that was quoted, or the name of an entry with spaces.
pub(crate) fn is_quoted_line(word: &OsStr) -> bool {
    word.to_str().is_some_and(|text| text.trim().contains(char::is_whitespace))
}

/// Whether a word may be the name of an entry.
pub(crate) fn is_bare(word: &OsStr) -> bool {
    matches!(Word::of(word), Word::Bare)
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
    if let Some(after) = after {
        let mut after = after.into_iter();
        let Some(program) = after.next().filter(|word| !word.is_empty()) else {
            let hint = format!("mcpjoin {verb} ... -- COMMAND [ARG]...");
            return Err(Failure::usage("no command follows --", hint));
        };
        // Several words in one are no name of a program.
        let rest: Vec<OsString> = after.collect();
        let mut command = std::iter::once(&program).chain(&rest);
        if matches!(verb, "call" | "prompt") && words.len() > 1 && command.all(|word| is_argument(word)) {
            let problem = "what follows -- is the server's command, and not an argument";
            let line =
                format!("mcpjoin {verb}{}{}", behind(&words), behind(&[&[program], &rest[..]].concat()));
            return Err(Failure::usage(problem, line));
        }
        if rest.is_empty()
            && let Some(target) = command_line(verb, &behind(&words), &program, known)?
        {
            return Ok(Invocation::new(target, words));
        }
        return Ok(Invocation::command(program, rest, words));
    }
    let mut words = words.into_iter();
    let Some(first) = words.next().filter(|word| !word.is_empty()) else {
        let hint = format!("mcpjoin {verb} TARGET ..., or mcpjoin {verb} ... -- COMMAND [ARG]...");
        return Err(Failure::usage("no server is named", hint));
    };
    let operands: Vec<OsString> = words.collect();
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
fn behind(operands: &[OsString]) -> String {
    if operands.is_empty() { String::new() } else { format!(" {}", words_shown(operands)) }
}

/// Words that a shell obeys, and that mean nothing without one.
const OF_A_SHELL: [&str; 9] = ["|", "||", "&&", ";", "&", ">", ">>", "<", "2>&1"];

/// The command of a word that consists of several, split as a shell splits it; `None` where it is something else. `operands`: those
/// of the verb, for a line that is shown.
fn command_line(
    verb: &str,
    operands: &str,
    word: &OsStr,
    known: &Known<'_>,
) -> Result<Option<Target>, Failure> {
    let Some(text) = word.to_str().filter(|_| is_quoted_line(word)) else { return Ok(None) };
    let is_entry = match Word::of(word) {
        Word::Demo(_) | Word::Url { .. } | Word::Address => true,
        Word::Entry { file, .. } => (known.file)(Path::new(&file)),
        _ => {
            let entry = text.split_once('/').map_or(text, |(name, _)| name);
            (known.program)(word) || (known.entry)(text)? || (known.entry)(entry)?
        }
    };
    if is_entry {
        return Ok(None);
    }
    let escaped = if cfg!(windows) { Cow::Owned(text.replace('\\', r"\\")) } else { Cow::Borrowed(text) };
    let Some(words) = shlex::split(&escaped) else {
        let problem = "a quote in the command line of the server is not closed";
        return Err(Failure::usage(problem, format!("mcpjoin {verb}{operands} -- COMMAND [ARG]...")));
    };
    let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    let is_of_a_shell = |word: &str| OF_A_SHELL.contains(&word) || word.len() > 1 && word.ends_with(';');
    if words.iter().skip(1).any(|word| word.to_str().is_some_and(is_of_a_shell)) {
        let words: Vec<Cow<'_, str>> = words.iter().map(|word| word.to_string_lossy()).collect();
        let masked = secret::masked(words.iter().map(AsRef::as_ref));
        let word = |word: &String| if is_of_a_shell(word) { word.clone() } else { shown(word.as_ref()) };
        let line = masked.iter().map(word).collect::<Vec<_>>().join(" ");
        let problem = format!("{line} needs a shell, and mcpjoin runs none");
        return Err(Failure::usage(problem, format!("mcpjoin {verb}{operands} -- sh -c {}", exact(&line))));
    }
    if words.is_empty() {
        return Ok(None);
    }
    let program = words.remove(0);
    if let Some((name, _)) = program.to_string_lossy().split_once('=').filter(|(name, _)| !name.contains('/'))
    {
        let problem = format!("{} is a variable, which only a shell replaces", shown(name.as_ref()));
        let (name, command) = (shown(name.as_ref()), words_shown(&words));
        return Err(Failure::usage(
            problem,
            format!("mcpjoin {verb} -e {name}=VALUE{operands} -- {command}"),
        ));
    }
    Ok(Some(command(program, words)))
}

/// Whether a file has the extension of a configuration.
fn is_configuration(file: &str) -> bool {
    let extension = file.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    extension.is_some_and(|extension| matches!(&*extension, "json" | "jsonc" | "json5" | "toml"))
}

/// `FILE#NAME/TOOL`. A path may look like that, so the file must have the extension of a configuration.
fn tool_of_entry(word: &str) -> Option<(&str, &str, &str)> {
    let (at, _) = word.match_indices('#').find(|(at, _)| is_configuration(&word[..*at]))?;
    let (name, tool) = word[at + 1..].split_once('/')?;
    let spelled_so = !name.is_empty() && !tool.is_empty() && !word[..at].contains("://");
    spelled_so.then_some((&word[..at], name, tool))
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

/// A word as the user would type it in a shell, with `***` for the user information of a URL.
pub(crate) fn shown(word: &OsStr) -> String {
    exact(&without_userinfo(&word.to_string_lossy()))
}

/// A path as the user would type it in a shell, with `~` for the home folder.
pub(crate) fn path_shown(path: &Path) -> String {
    let below = folders::home().filter(|home| home.parent().is_some()).and_then(|home| {
        let below = path.strip_prefix(home).ok()?;
        Some(below.to_owned())
    });
    match below {
        Some(below) if below.as_os_str().is_empty() => "~".into(),
        Some(below) => format!("~/{}", shown(below.as_os_str())),
        None => shown(path.as_os_str()),
    }
}

/// A command as the user would type it, with `***` for the secrets among its arguments. The program is not changed.
pub(crate) fn command_shown<'a>(program: &str, args: impl IntoIterator<Item = &'a str>) -> String {
    let args = secret::masked(args).into_iter().map(|arg| exact(&arg));
    std::iter::once(exact(program)).chain(args).collect::<Vec<_>>().join(" ")
}

/// Words as the user would type them, with `***` for their secrets.
pub(crate) fn words_shown(words: &[OsString]) -> String {
    let words: Vec<Cow<'_, str>> = words.iter().map(|word| word.to_string_lossy()).collect();
    let masked = secret::masked(words.iter().map(AsRef::as_ref));
    masked.iter().map(|word| shown(word.as_ref())).collect::<Vec<_>>().join(" ")
}

/// A word as the user would type it in a shell. Only characters that a terminal obeys or hides are replaced, and text that looks
/// like their escapes.
pub(crate) fn exact(word: &str) -> String {
    let word = crate::visible::word(word);
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,#*".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Replaces the text between `://` and `@`.
fn without_userinfo(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        out.push_str(before);
        // The last `@`: a password may hold others.
        rest = match secret::authority(after).rfind('@') {
            Some(at) => {
                out.push_str("***");
                &after[at..]
            }
            None => after,
        };
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;
