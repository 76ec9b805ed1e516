//! What a shell completes: verbs and options, entries of the configuration, the tools that a server has listed before (`tool_names`),
//! `demo:` with its tools, and the topics of `help`.
//!
//! `completions` prints the script, which runs this program with [`VARIABLE`] at each Tab key; `commands::run` then calls [`answer`].
//! No server is started or reached for that: only the demonstration server is asked, within this process. Nothing is completed
//! where a file cannot be read.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::Shells;
use mcpjoin::Link;
use mcpjoin::client::Client;
use mcpjoin::proto::session::Limits;

use crate::args::{Cli, Configured};
use crate::command_line;
use crate::config;
use crate::demo::Demo;
use crate::target::{self, Invocation, Known, Target};
use crate::tool_names::ToolNames;
use crate::visible;

/// The variable with the name of the shell that asks.
const VARIABLE: &str = "MCPJOIN_COMPLETE";
/// The variable with the place of the word to complete, where it is not the last one.
const INDEX: &str = "_CLAP_COMPLETE_INDEX";
/// The variable with what separates candidates for bash.
const SEPARATOR: &str = "_CLAP_IFS";
/// How many entries are suggested.
const MAX_ENTRIES: usize = 1000;

/// The script for a shell.
pub(crate) fn script(shell: Shell) -> io::Result<Vec<u8>> {
    let name = shell.to_string();
    let unknown = || io::Error::other(format!("there is no completion script for {name}"));
    let mut script = Vec::new();
    let shells = Shells::builtins();
    let writer = shells.completer(&name).ok_or_else(unknown)?;
    writer.write_registration(VARIABLE, "mcpjoin", "mcpjoin", "mcpjoin", &mut script)?;
    if shell == Shell::Zsh {
        // As a file of `fpath` the script runs at the first Tab key, which is to complete, too.
        script.extend_from_slice(b"[[ $funcstack[1] == _mcpjoin ]] && _clap_dynamic_completer_mcpjoin\n");
    }
    Ok(script)
}

/// The candidates for the shell that runs this program at a Tab key; `None` in every other run.
pub(crate) fn answer(argv: &[OsString]) -> Option<Vec<u8>> {
    let shell = std::env::var(VARIABLE).ok().filter(|shell| !shell.is_empty())?;
    let words = argv.iter().position(|word| word == "--").map_or(&[][..], |at| &argv[at + 1..]).to_vec();
    let index = std::env::var(INDEX).ok().and_then(|index| index.parse().ok());
    let index = index.unwrap_or_else(|| words.len().saturating_sub(1));
    let mut out = Vec::new();
    // Without candidates the shell completes nothing, and its user sees no message.
    let _ = if shell == "bash" {
        for_bash(words, index, &mut out)
    } else {
        let mut command = command(words.get(..index).unwrap_or_default());
        let here = std::env::current_dir().ok();
        let shells = Shells::builtins();
        shells
            .completer(&shell)
            .map_or(Ok(()), |shell| shell.write_complete(&mut command, words, here.as_deref(), &mut out))
    };
    Some(out)
}

/// The candidates for bash, which takes a `:` for a word of its own: `demo:` and URLs are put together again, and of a candidate
/// only what follows the last `:` is replaced.
fn for_bash(words: Vec<OsString>, index: usize, out: &mut dyn io::Write) -> io::Result<()> {
    let (words, index) = joined(words, index);
    let current = words.get(index).map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let replaced = current.rfind(':').map_or(0, |at| at + 1);
    let separator = std::env::var(SEPARATOR).unwrap_or_else(|_| "\n".into());
    let here = std::env::current_dir().ok();
    let mut command = command(words.get(..index).unwrap_or_default());
    let candidates = clap_complete::engine::complete(&mut command, words, index, here.as_deref())?;
    // bash puts a candidate into the line as it is: with the name of a file, too, a shell would run what is in it.
    let texts = candidates.iter().filter_map(|candidate| candidate.get_value().to_str());
    for (place, text) in texts.filter(|text| is_plain(text)).enumerate() {
        let text = if text.starts_with(&current[..replaced]) { &text[replaced..] } else { text };
        write!(out, "{}{text}", if place == 0 { "" } else { &separator })?;
    }
    Ok(())
}

/// Whether a shell takes a word as it is.
fn is_plain(word: &str) -> bool {
    word.chars().all(|c| c.is_alphanumeric() || "_-./:=@%+,~#".contains(c))
}

/// Words that bash has split at each `:`, put together again, and the place of the word to complete among them.
fn joined(words: Vec<OsString>, index: usize) -> (Vec<OsString>, usize) {
    let (mut out, mut place): (Vec<OsString>, usize) = (Vec::new(), 0);
    let mut is_open = false;
    for (at, word) in words.into_iter().enumerate() {
        let text = word.to_string_lossy();
        let last = out.last().map(|last| last.to_string_lossy().into_owned()).unwrap_or_default();
        let is_colon = text.starts_with(':') && !last.is_empty() && out.len() > 1;
        // `demo: echo` is two words.
        let is_rest = is_open
            && (text.starts_with("//")
                || last.contains("//") && text.starts_with(|c: char| c.is_ascii_digit())
                || format!("{last}{text}") == Demo::Full.word());
        is_open = text.ends_with(':');
        match out.last_mut().filter(|_| is_colon || is_rest) {
            Some(last) => last.push(&word),
            None => out.push(word),
        }
        if at == index {
            place = out.len() - 1;
        }
    }
    (out, place)
}

/// The declaration of the command line, with what completes its words. `before`: the words before the one to complete.
fn command(before: &[OsString]) -> Command {
    let mut command = Cli::command();
    command.build();
    let names: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for name in names {
        command = command.mut_subcommand(name, |verb| with_completers(verb, before));
    }
    command
}

fn with_completers(mut verb: Command, before: &[OsString]) -> Command {
    let kinds = [
        ("words", Kind::Operands),
        ("target", Kind::Targets),
        ("server", Kind::Entries),
        ("names", Kind::Entries),
        ("name", Kind::Entries),
        ("topic", Kind::Topics),
        ("verb", Kind::Topics),
    ];
    let has = |verb: &Command, id: &str| {
        // The server of `serve` is no entry, and the name for `servers add` is a new one.
        let is_new = (verb.get_name(), id) == ("add", "name");
        !is_new && verb.get_arguments().any(|arg| arg.get_id() == id && arg.get_possible_values().is_empty())
    };
    // Otherwise an alias is suggested in the place of its verb.
    verb = verb.visible_alias(None::<&str>);
    for (id, kind) in kinds {
        if has(&verb, id) {
            let words = Words { kind, before: before.to_vec() };
            verb = verb.mut_arg(id, |arg| arg.add(ArgValueCompleter::new(words)));
        }
    }
    let below: Vec<String> = verb.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for name in below {
        verb = verb.mut_subcommand(name, |verb| with_completers(verb, before));
    }
    verb
}

/// What a word can be.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A target, and then what the verb takes.
    Operands,
    Targets,
    Entries,
    /// A verb, and what is below it.
    Topics,
}

/// Completes the words of an argument.
struct Words {
    kind: Kind,
    before: Vec<OsString>,
}

impl ValueCompleter for Words {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        let Some(text) = current.to_str() else { return Vec::new() };
        let mut operands = command_line::operands(&self.before);
        // The option is in the place of the target.
        let server = command_line::server(&self.before);
        operands.splice(..0, server.as_ref().map(OsString::from));
        let has_operands =
            |verb: &OsStr| ["call", "tool", "read", "prompt"].iter().any(|known| verb == *known);
        let verb = self.before.get(1).cloned().unwrap_or_default();
        let has_tools = verb == "call" || verb == "tool";
        if has_tools
            && server.is_none()
            && let Some(words) = operands.first().and_then(|word| split_tool(&self.before, word))
        {
            operands.splice(..1, words);
        }
        let candidates = match (self.kind, operands.as_slice()) {
            (Kind::Operands, []) | (Kind::Targets, _) => {
                if text.starts_with(['.', '/', '~']) {
                    return PathCompleter::any().complete(current);
                }
                let mut targets = entries(&self.before);
                let about = ["a small server inside this program", "the same with every feature"];
                targets
                    .extend(Demo::ALL.map(|demo| demo.word().into()).into_iter().zip(about.map(Into::into)));
                if has_tools && let Some((name, _)) = text.rsplit_once('/') {
                    let tools = listed(&self.before, name.as_ref(), None).into_iter();
                    targets.extend(tools.map(|(tool, _)| (format!("{name}/{tool}"), String::new())));
                }
                targets
            }
            (Kind::Operands, [target, rest @ ..]) => {
                let demo = Demo::ALL.into_iter().find(|demo| target == demo.word());
                match (demo, rest) {
                    (Some(demo), []) if has_operands(&verb) => demo_offers(demo, &verb),
                    (Some(demo), [tool, ..]) if verb == "call" => demo_arguments(demo, tool),
                    (None, []) if has_tools => {
                        let listed = listed(&self.before, target, server.as_deref()).into_iter();
                        listed.map(|(tool, _)| (tool, String::new())).collect()
                    }
                    (None, [tool, ..]) if verb == "call" => {
                        let listed = listed(&self.before, target, server.as_deref()).into_iter();
                        let of_tool = listed.filter(|(known, _)| tool == known.as_str());
                        of_tool
                            .flat_map(|(_, names)| names)
                            .map(|name| (format!("{name}="), String::new()))
                            .collect()
                    }
                    _ => Vec::new(),
                }
            }
            (Kind::Entries, _) => entries(&self.before),
            (Kind::Topics, _) => topics(self.before.get(2..).unwrap_or_default(), &verb),
        };
        let shown = candidates.into_iter().filter(|(name, _)| name.starts_with(text));
        let help = |about: String| Some(about).filter(|about| !about.is_empty()).map(Into::into);
        shown.map(|(name, about)| CompletionCandidate::new(name).help(help(about))).collect()
    }
}

/// The entries of the configuration that the words name, with where each is from. Names that a shell or a terminal does not take
/// as they are stay out: a configuration that lies in a folder may be written by anybody.
fn entries(before: &[OsString]) -> Vec<(String, String)> {
    let configured: Configured = command_line::configuration(before);
    let names = config::entry_names(&configured).into_iter();
    let is_word = |name: &str| is_plain(name) && !name.starts_with(['-', '=', '~', '#']);
    names.filter(|(name, _)| is_word(name)).take(MAX_ENTRIES).collect()
}

/// The tools that the target has listed before, each with the names of its parameters. `server`: the name behind `--server`.
fn listed(before: &[OsString], target: &OsStr, server: Option<&str>) -> Vec<(String, Vec<String>)> {
    let configured = command_line::configuration(before);
    let words = if server.is_none() { vec![target.to_owned()] } else { Vec::new() };
    let Some(invocation) = invocation(&configured, server, words) else { return Vec::new() };
    let entry = match &invocation.target {
        Target::Entry(named) => config::path_of_entry(named.file.as_deref(), &named.name, &configured),
        _ => None,
    };
    let names = ToolNames::of(&invocation.target, entry.as_deref());
    names.map(|names| names.read()).unwrap_or_default()
}

/// The two words that a word `NAME/TOOL` or `NAME.TOOL` stands for.
fn split_tool(before: &[OsString], word: &OsStr) -> Option<[OsString; 2]> {
    let invocation = invocation(&command_line::configuration(before), None, vec![word.to_owned()])?;
    let [tool] = <[OsString; 1]>::try_from(invocation.operands).ok()?;
    let name = word.to_str()?.strip_suffix(tool.to_str()?)?.strip_suffix(['/', '.'])?;
    Some([name.into(), tool])
}

/// What a call of these words means, with the entries and programs that exist.
fn invocation(configured: &Configured, server: Option<&str>, words: Vec<OsString>) -> Option<Invocation> {
    let known = Known {
        entry: &|name| Ok(config::is_entry(name, configured)),
        program: &|word| config::is_program(word),
        file: &Path::is_file,
    };
    target::with_operands("call", server, words, None, &known).ok()
}

/// The verbs, or what is below those that are typed, with what each does.
fn topics(typed: &[OsString], verb: &OsStr) -> Vec<(String, String)> {
    let mut root = Cli::command();
    root.build();
    let mut command = &root;
    for word in typed {
        match command.find_subcommand(word) {
            Some(below) => command = below,
            None => return Vec::new(),
        }
    }
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut topics: Vec<(String, String)> =
        command.get_subcommands().map(|command| (command.get_name().to_owned(), about(command))).collect();
    if typed.is_empty() && verb == "help" {
        topics.push(("targets".into(), "how to name a server".into()));
    }
    topics
}

/// The names that a demonstration server has for the verb, with what each is.
fn demo_offers(demo: Demo, verb: &OsStr) -> Vec<(String, String)> {
    let verb = verb.to_string_lossy().into_owned();
    ask_demo(demo, async move |client| {
        let of = |name: String, about: Option<String>| {
            (name, visible::first_line(&about.unwrap_or_default()).to_string())
        };
        match &*verb {
            "read" => {
                let found = client.list_resources().all().await.unwrap_or_default();
                found.into_iter().map(|one| of(one.uri, one.description)).collect()
            }
            "prompt" => {
                let found = client.list_prompts().all().await.unwrap_or_default();
                found.into_iter().map(|one| of(one.name, one.description)).collect()
            }
            _ => {
                let found = client.list_tools().all().await.unwrap_or_default();
                found.into_iter().map(|one| of(one.name, one.description)).collect()
            }
        }
    })
}

/// The arguments of a tool of a demonstration server.
fn demo_arguments(demo: Demo, tool: &OsStr) -> Vec<(String, String)> {
    let tool = tool.to_string_lossy().into_owned();
    ask_demo(demo, async move |client| {
        let tools = client.list_tools().all().await.unwrap_or_default();
        let schema = tools.into_iter().find(|one| one.name == tool).map(|one| one.input_schema);
        let schema = schema.and_then(|schema| serde_json::to_value(schema).ok()).unwrap_or_default();
        let properties = schema["properties"].as_object().into_iter().flatten();
        let about =
            |property: &serde_json::Value| property["description"].as_str().unwrap_or_default().to_owned();
        properties.map(|(name, property)| (format!("{name}="), about(property))).collect()
    })
}

/// Runs `ask` with a client of a demonstration server within this process.
fn ask_demo(demo: Demo, ask: impl AsyncFnOnce(Client) -> Vec<(String, String)>) -> Vec<(String, String)> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let Ok(server) = demo.server(Limits::default()) else { return Vec::new() };
    runtime.block_on(async {
        let (ours, theirs) = Link::memory();
        let asked = async {
            match Client::builder("mcpjoin", env!("CARGO_PKG_VERSION")).connect(ours).await {
                Ok(client) => ask(client).await,
                Err(_) => Vec::new(),
            }
        };
        tokio::select! {
            found = asked => found,
            _ = server.serve(theirs) => Vec::new(),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{MAX_ENTRIES, for_bash, joined};

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn what_bash_splits_at_a_colon_is_one_word() {
        for (split, index, whole, place) in [
            ("mcpjoin call demo : echo", 4, "mcpjoin call demo: echo", 3),
            ("mcpjoin call demo :", 3, "mcpjoin call demo:", 2),
            ("mcpjoin call demo : full echo", 5, "mcpjoin call demo:full echo", 3),
            ("mcpjoin list http : //h : 80/mcp", 6, "mcpjoin list http://h:80/mcp", 2),
            ("mcpjoin list http ://h", 3, "mcpjoin list http://h", 2),
            ("mcpjoin call demo : echo a : b", 6, "mcpjoin call demo: echo a: b", 4),
        ] {
            let (joined, at) = joined(words(split), index);
            assert_eq!((joined, at), (words(whole), place), "{split}");
        }
    }

    #[test]
    fn no_more_entries_are_suggested_than_the_bound() {
        let entries: Vec<String> =
            (0..=MAX_ENTRIES).map(|n| format!(r#""e{n}": {{"command": "x"}}"#)).collect();
        let typed = format!(r#"{{"mcpServers": {{{}}}}}"#, entries.join(","));
        let before = ["mcpjoin", "list", "--mcp-config", &typed].map(OsString::from);
        assert_eq!(super::entries(&before).len(), MAX_ENTRIES);
    }

    #[test]
    fn verbs_options_and_the_tools_of_the_demonstration_server_are_completed() {
        let completed = |line: &str, index| {
            let mut out = Vec::new();
            for_bash(words(line), index, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        for (line, index, candidate) in [
            ("mcpjoin ca", 1, "call"),
            ("mcpjoin call de", 2, "demo:"),
            ("mcpjoin call demo : ech", 4, "echo"),
            ("mcpjoin call demo : echo mes", 5, "message="),
            ("mcpjoin call demo : full test_ima", 5, "test_image_content"),
            ("mcpjoin call demo : full echo mes", 6, "message="),
            ("mcpjoin read demo : demo : //ab", 6, "//about"),
            ("mcpjoin prompt demo : tra", 4, "translate"),
            ("mcpjoin help cal", 2, "call"),
            ("mcpjoin help targ", 2, "targets"),
            ("mcpjoin help servers conv", 3, "convert"),
            ("mcpjoin man serv", 2, "servers"),
            ("mcpjoin list --conn", 2, "--connect-timeout"),
        ] {
            assert!(
                completed(line, index).iter().any(|known| known == candidate),
                "{line}: {:?}",
                completed(line, index)
            );
        }
        assert!(!completed("mcpjoin list demo : ech", 4).contains(&"echo".to_owned()));
    }
}
