//! The command line that continues a task: that of the call, with the id of the task in place of the tool.
//!
//! Used by `call`. Does no I/O.

use std::ffi::OsString;

use clap::CommandFactory;

use crate::args::{Cli, Words};
use crate::command_line::option;
use crate::target::{Target, shown};

/// The verb that takes up a task.
const VERB: &str = "call";
/// Options that describe the call, and not the connection or the output.
const CALL_OPTIONS: [&str; 4] = ["detach", "task", "tool", "args"];

/// The command line, quoted for a shell.
pub(super) fn line(argv: &[OsString], words: &Words, separated: bool, target: &Target, id: &str) -> String {
    let mut line = format!("mcpjoin {VERB} --task {}", shown(id.as_ref()));
    let mut push = |word: &OsString| {
        line.push(' ');
        line.push_str(&shown(word));
    };
    let (options, named) = options(argv);
    options.iter().for_each(&mut push);
    if separated {
        push(&"--".into());
        words.command.iter().for_each(push);
    } else if !named && let Some(first) = words.words.first() {
        match target {
            // The word may name a tool behind the entry, too.
            Target::Entry(entry) => {
                let mut word = entry.file.clone().unwrap_or_default();
                if entry.file.is_some() {
                    word.push("#");
                }
                word.push(&entry.name);
                push(&word);
            }
            _ => push(first),
        }
    }
    line
}

/// The options that are kept, and whether one of them names the server.
fn options(argv: &[OsString]) -> (Vec<OsString>, bool) {
    let (mut kept, mut named) = (Vec::new(), false);
    let mut cli = Cli::command();
    cli.build();
    let Some(verb) = cli.find_subcommand(VERB) else { return (kept, named) };
    let mut words = argv.iter().skip(2).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let Some((name, apart)) = option(verb, &word.to_string_lossy()) else { continue };
        let value = if apart { words.next() } else { None };
        named |= name == "server";
        if !CALL_OPTIONS.contains(&name) {
            kept.push(word.clone());
            kept.extend(value.cloned());
        }
    }
    (kept, named)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{OsString, line};
    use crate::args::{Cli, Verb};
    use crate::target::{Known, with_operands};

    fn again(typed: &[&str]) -> String {
        let argv: Vec<OsString> = ["mcpjoin", "call"].iter().chain(typed).map(OsString::from).collect();
        let Verb::Call(call) = Cli::try_parse_from(&argv).unwrap().verb else { panic!("another verb") };
        let separated = typed.contains(&"--");
        let after = separated.then(|| call.words.command.clone());
        let server = call.connect.server.as_deref();
        let known = Known { entry: &|name| Ok(name == "name"), program: &|_| false, file: &|_| false };
        let target = with_operands("call", server, call.words.words.clone(), after, &known).unwrap().target;
        line(&argv, &call.words, separated, &target, "a-1")
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
            assert_eq!(again(typed), format!("mcpjoin call --task a-1 {line}"), "{typed:?}");
        }
    }
}
