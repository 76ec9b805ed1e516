//! The command line of another command for the same server: with the server and the options of the connection as they were
//! typed.
//!
//! Used by `call` for the line that continues a task and the line that shows the parameters, by `tool` for the example, and by
//! the verbs with operands for the command in the hint of a failure. Does no I/O.

use std::ffi::OsString;

use clap::CommandFactory;

use crate::args::{Cli, Words};
use crate::command_line::option;
use crate::failure::Failure;
use crate::target::{Target, shown};

/// Options that describe one call.
const CALL_OPTIONS: [&str; 4] = ["detach", "task", "tool", "args"];
/// Options of the output, which another verb does not need.
const OUTPUT_OPTIONS: [&str; 4] = ["json", "verbose", "quiet", "color"];

/// A command line that was typed.
pub(super) struct CommandLine<'a> {
    /// Its words, with the name of the program.
    pub(super) argv: &'a [OsString],
    /// Its verb.
    pub(super) verb: &'static str,
    /// Its operands.
    pub(super) words: &'a Words,
    /// `--` stood between the operands and the server's command.
    pub(super) separated: bool,
    /// The server that it names.
    pub(super) target: &'a Target,
}

impl CommandLine<'_> {
    /// A line that continues a task, quoted for a shell.
    pub(super) fn resuming(&self, id: &str) -> String {
        self.line(self.verb, &format!(" --task {}", shown(id.as_ref())), "")
    }

    /// Adds the server to the command in the hint of a failure.
    pub(super) fn complete(&self, failure: Failure) -> Failure {
        failure.completed_by(|verb, operands| self.of_verb(verb, operands))
    }

    /// A line of another verb, quoted for a shell. `operands`: what follows the server, quoted.
    pub(super) fn of_verb(&self, verb: &str, operands: &str) -> String {
        self.line(verb, "", operands)
    }

    fn line(&self, verb: &str, leading: &str, operands: &str) -> String {
        let mut line = format!("mcpjoin {verb}{leading}");
        let mut push = |word: &str| {
            if !word.is_empty() {
                line.push(' ');
                line.push_str(word);
            }
        };
        let (options, named) = self.options(verb);
        options.iter().for_each(|option| push(&shown(option)));
        if self.separated {
            push(operands);
            push("--");
            self.words.command.iter().for_each(|word| push(&shown(word)));
            return line;
        }
        if !named && let Some(first) = self.words.words.first() {
            match self.target {
                // The word may name a tool behind the entry, too.
                Target::Entry(entry) => {
                    let mut word = entry.file.clone().unwrap_or_default();
                    if entry.file.is_some() {
                        word.push("#");
                    }
                    word.push(&entry.name);
                    push(&shown(&word));
                }
                _ => push(&shown(first)),
            }
        }
        push(operands);
        line
    }

    /// The options that the line of another verb has, too, and whether one of them names the server.
    fn options(&self, other: &str) -> (Vec<OsString>, bool) {
        let (mut kept, mut named) = (Vec::new(), false);
        let mut cli = Cli::command();
        cli.build();
        let (Some(verb), Some(other_verb)) = (cli.find_subcommand(self.verb), cli.find_subcommand(other))
        else {
            return (kept, named);
        };
        let is_kept = |name: &str| {
            let is_known = other_verb.get_arguments().any(|option| option.get_id() == name);
            is_known
                && !CALL_OPTIONS.contains(&name)
                && (other == self.verb || !OUTPUT_OPTIONS.contains(&name))
        };
        let mut words = self.argv.iter().skip(2).take_while(|word| *word != "--");
        while let Some(word) = words.next() {
            let Some((name, apart)) = option(verb, &word.to_string_lossy()) else { continue };
            let value = if apart { words.next() } else { None };
            named |= name == "server";
            if is_kept(name) {
                kept.push(word.clone());
                kept.extend(value.cloned());
            }
        }
        (kept, named)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{CommandLine, OsString};
    use crate::args::{Cli, Verb};
    use crate::target::{Known, with_operands};

    fn other(typed: &[&str], line: impl FnOnce(CommandLine<'_>) -> String) -> String {
        let argv: Vec<OsString> = ["mcpjoin", "call"].iter().chain(typed).map(OsString::from).collect();
        let Verb::Call(call) = Cli::try_parse_from(&argv).unwrap().verb else { panic!("another verb") };
        let separated = typed.contains(&"--");
        let after = separated.then(|| call.words.command.clone());
        let server = call.connect.server();
        let known = Known { entry: &|name| Ok(name == "name"), program: &|_| false, file: &|_| false };
        let target = with_operands("call", server, call.words.words.clone(), after, &known).unwrap().target;
        line(CommandLine { argv: &argv, verb: "call", words: &call.words, separated, target: &target })
    }

    #[test]
    fn the_line_has_the_same_server_and_the_same_options() {
        for (typed, line) in [
            (&["--detach", "http://h/mcp", "t", "a=1"][..], "http://h/mcp"),
            (&["http://h/mcp", "--detach", "t", "-", "--json"], "--json http://h/mcp"),
            (
                &["--detach", "-vH", "A: b", "--args", "{}", "--tool=-x", "http://h/mcp"],
                "-vH 'A: b' http://h/mcp",
            ),
            (&["--detach", "--era=modern", "-t5s", "unix:/s", "t"], "--era=modern -t5s unix:/s"),
            (&["--detach", "--cwd", "t", "t", "--", "t", "--detach"], "--cwd t -- t --detach"),
            (&["--detach", "-c", "a b", "name/t"], "-c 'a b' name"),
            (&["--detach", "a.json#b/t", "a=1"], "a.json#b"),
            (&["--detach", "a.json#b", "t"], "a.json#b"),
            (&["--detach", "--server", "a/b", "t"], "--server a/b"),
            (&["--detach", "demo:", "t"], "demo:"),
        ] {
            let again = other(typed, |typed| typed.resuming("a-1"));
            assert_eq!(again, format!("mcpjoin call --task a-1 {line}"), "{typed:?}");
        }
    }

    #[test]
    fn the_line_of_another_verb_has_only_the_options_that_it_knows() {
        for (typed, line) in [
            (&["-v", "--spill=1", "http://h/mcp", "t", "a=1"][..], "http://h/mcp t"),
            (
                &["--era", "legacy", "-H", "A: b", "t", "a=1", "--", "sh", "-c", "x y"],
                "--era legacy -H 'A: b' t -- sh -c 'x y'",
            ),
            (&["-c", "a.json", "name/t", "a=1"], "-c a.json name t"),
            (&["--server", "a b", "t"], "--server 'a b' t"),
        ] {
            let shown = other(typed, |typed| typed.of_verb("tool", "t"));
            assert_eq!(shown, format!("mcpjoin tool {line}"), "{typed:?}");
        }
    }
}
