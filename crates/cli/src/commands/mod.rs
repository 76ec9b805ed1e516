//! The verbs, one file each, what they share, and the dispatch from the command line to them.

mod auth;
mod bridge;
mod call;
mod complete;
mod diff;
mod doctor;
mod help;
mod info;
mod items;
mod list;
mod listening;
mod lists;
mod next_command;
mod ping;
mod prompt;
mod read;
mod request;
mod result_content;
mod search;
mod serve;
mod servers;
mod shell;
mod tool;
mod validate;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;

use clap::error::{ContextKind, ErrorKind};
use clap::{CommandFactory, Parser};
use mcpjoin::proto::Raw;
use serde::Serialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use self::bridge::Typed;
use crate::args::{AuthWhat, Cli, Configured, Connect, Output, Verb, What, When, Words, pages};
use crate::command_line;
use crate::completion;
use crate::config;
use crate::connect::Signals;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::{self, Invocation, Known, Target, shown, words_shown};
use crate::ui::{Ui, Unwritten};
use crate::visible;

/// Runs the command line. Its first word is the name of the program.
pub(crate) fn run(argv: Vec<OsString>) -> Exit {
    if let Some(candidates) = completion::answer(&argv) {
        let ui = Ui::plain();
        return written(&ui, ui.bytes(&candidates));
    }
    let argv = match bridge::read_go_flags(argv) {
        Typed::Words(argv) => argv,
        // On standard error and with the exit codes of the original program.
        Typed::Help(text) => return print_go_usage(&text, Exit::Done),
        Typed::Wrong(text) => return print_go_usage(&text, Exit::Usage),
    };
    let argv = match command_line::canonical(argv) {
        Ok(argv) => argv,
        Err(refused) => return report_refused(&refused.argv, &refused.failure),
    };
    let cli = match Cli::try_parse_from(&argv) {
        Ok(cli) => cli,
        Err(error) => return report_clap(&argv, error),
    };
    let separated = argv.iter().any(|word| word == "--");
    // clap does not report whether `--` stands before the trailing words, which are the last words of the command line.
    let escaped = |words: &[OsString]| {
        let before = argv.len().checked_sub(words.len() + 1).and_then(|before| argv.get(before));
        before.is_some_and(|word| word == "--")
    };
    match cli.verb {
        Verb::Validate(args) => {
            let escaped = escaped(&args.words);
            run_verb(&Ui::new(&args.shown()), |ui| validate::run(ui, args, escaped))
        }
        Verb::List(args) => {
            let escaped = escaped(&args.words);
            run_verb(&Ui::new(&args.output), |ui| list::run(ui, args, escaped))
        }
        Verb::Info(args) => {
            let escaped = escaped(&args.words);
            run_verb(&Ui::new(&args.output), |ui| info::run(ui, args, escaped))
        }
        Verb::Ping(args) => {
            let escaped = escaped(&args.words);
            run_verb(&Ui::new(&args.output), |ui| ping::run(ui, args, escaped))
        }
        Verb::Shell(args) => {
            let escaped = escaped(&args.words);
            run_verb(&Ui::new(&args.output), |ui| shell::run(ui, args, escaped))
        }
        Verb::Doctor(args) => {
            let escaped = escaped(&args.words);
            run_verb(&Ui::new(&args.output), |ui| doctor::run(ui, args, escaped))
        }
        Verb::Bridge(args) => {
            let escaped = escaped(&args.words);
            run_verb(&Ui::new(&args.output), |ui| bridge::run(ui, *args, escaped))
        }
        Verb::Diff(args) => run_verb(&Ui::new(&args.output), |ui| diff::run(ui, args, separated)),
        Verb::Search(args) => run_verb(&Ui::new(&args.output), |ui| search::run(ui, &args)),
        Verb::Tool(args) => run_verb(&Ui::new(&args.output), |ui| tool::run(ui, args, &argv, separated)),
        Verb::Call(args) => run_verb(&Ui::new(&args.output), |ui| call::run(ui, args, &argv, separated)),
        Verb::Read(args) => run_verb(&Ui::new(&args.output), |ui| read::run(ui, args, &argv, separated)),
        Verb::Prompt(args) => run_verb(&Ui::new(&args.output), |ui| prompt::run(ui, args, &argv, separated)),
        Verb::Complete(args) => {
            run_verb(&Ui::new(&args.output), |ui| complete::run(ui, args, &argv, separated))
        }
        Verb::Auth(args) => {
            let output = match &args.what {
                AuthWhat::Login(args) => &args.output,
                AuthWhat::Status(args) => &args.output,
                AuthWhat::Logout(args) => &args.output,
                AuthWhat::Explain(args) => &args.output,
            };
            run_verb(&Ui::new(output), |ui| auth::run(ui, args))
        }
        Verb::Servers(args) => {
            let output = match &args.what {
                Some(What::Convert { shown, .. }) => &shown.output,
                Some(
                    What::Trust { output, .. } | What::Untrust { output, .. } | What::Trusted { output },
                ) => output,
                Some(What::Add(args)) => &args.output,
                Some(What::Remove(args)) => &args.output,
                None => &args.shown.output,
            };
            run_verb(&Ui::new(output), |ui| servers::run(ui, args))
        }
        Verb::Serve(args) => serve::run(&args),
        Verb::Completions(args) => help::completions(&args),
        Verb::Man(args) => help::man(&args),
        Verb::Help(args) => help::help(&args),
    }
}

/// Prints the usage of `transport-stdio` on standard error: its standard output is for messages.
fn print_go_usage(text: &str, exit: Exit) -> Exit {
    Ui::plain().note_lines(text.trim_end());
    exit
}

/// A document for a program: indented JSON, with members in the order of their names.
fn document_of(document: &impl Serialize) -> String {
    // A value of texts, numbers and lists can always be written as JSON.
    visible::json(&serde_json::to_value(document).unwrap_or_default().to_string())
}

/// An object without its members that are null: an unknown value is absent.
fn present(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, value| !value.is_null());
    }
    object
}

/// A list for [`present`], where an empty one is absent.
fn filled<T>(list: &[T]) -> Option<&[T]> {
    Some(list).filter(|list| !list.is_empty())
}

/// The members of both objects in one.
fn joined(mut object: Value, other: Value) -> Value {
    if let (Value::Object(members), Value::Object(others)) = (&mut object, other) {
        members.extend(others);
    }
    object
}

/// Reports a command line that clap cannot parse, or prints the help that it requests.
fn report_clap(argv: &[OsString], mut error: clap::Error) -> Exit {
    let ui = Ui::plain();
    if !error.use_stderr() {
        let words = argv.iter().skip(1).filter_map(|word| word.to_str());
        let page = (error.kind() == ErrorKind::DisplayHelp).then(|| pages::requested(words)).flatten();
        return written(&ui, page.map_or_else(|| ui.clap(&error), |page| ui.result(&page)));
    }
    if let Some(failure) = command_line::answer(argv, error.kind()) {
        return report_refused(argv, &failure);
    }
    let verb = argv.get(1).and_then(|word| word.to_str()).filter(|word| !word.starts_with('-'));
    if error.kind() == ErrorKind::UnknownArgument {
        // clap suggests to write it behind `--`, where it would be part of the server's command.
        error.remove(ContextKind::Suggested);
    }
    if wants_json(argv) {
        let text = error.render().to_string();
        let words: Vec<&str> =
            text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
        let message = words.join(" ");
        let hint = match verb.filter(|verb| Cli::command().find_subcommand(verb).is_some()) {
            Some(verb) => format!("mcpjoin help {verb}"),
            None => "mcpjoin help".into(),
        };
        return report_refused(
            argv,
            &Failure::usage(message.strip_prefix("error: ").unwrap_or(&message), hint),
        );
    }
    // A closed standard error changes nothing.
    let _ = ui.clap(&error);
    Exit::Usage
}

/// Whether a command line that was not parsed asks for JSON.
fn wants_json(argv: &[OsString]) -> bool {
    argv.iter().take_while(|word| *word != "--").any(|word| word == "--json")
}

/// Prints the failure of a command line that was not parsed.
fn report_refused(argv: &[OsString], failure: &Failure) -> Exit {
    let output = Output { json: wants_json(argv), verbose: 0, quiet: false, color: When::Auto };
    exit_of(&Ui::new(&output), Err(failure.clone()))
}

/// Runs a verb.
///
/// Each verb has its own stack frame: in one frame all verbs together take a dozen pages of the stack, which the system
/// would have to map at every start.
#[inline(never)]
fn run_verb(ui: &Ui, run: impl FnOnce(&Ui) -> Result<Exit, Failure>) -> Exit {
    exit_of(ui, run(ui))
}

/// Returns the exit code of a command. Prints the failure if there is one.
fn exit_of(ui: &Ui, outcome: Result<Exit, Failure>) -> Exit {
    outcome.unwrap_or_else(|failure| {
        ui.failure(&failure);
        failure.exit
    })
}

/// Prints all failures of a command but the last, which is returned. Without failures the exit code is that of success.
fn report_failures(ui: &Ui, mut failures: Vec<Failure>) -> Result<Exit, Failure> {
    let Some(last) = failures.pop() else { return Ok(Exit::Done) };
    failures.iter().for_each(|failure| ui.failure(failure));
    Err(last)
}

/// Returns a runtime on this thread. `phase`: the phase of its failure.
fn runtime(phase: Phase) -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::system(phase, &error))
}

/// Starts to receive signals. `phase`: the phase of its failure.
fn listen_for_signals(phase: Phase) -> Result<Signals, Failure> {
    Signals::listen().map_err(|error| Failure::system(phase, &error))
}

/// Refuses an orchestrator for a verb that would examine our own bridge instead.
fn refuse_orchestrator(target: &Target, verb: &str) -> Result<(), Failure> {
    if !matches!(target, Target::Orchestrator(_)) {
        return Ok(());
    }
    let problem = format!("{verb} would show mcpjoin's bridge, and not the orchestrator behind it");
    Err(Failure::usage(problem, "mcpjoin doctor orchestra://HOST:PORT checks the orchestrator"))
}

/// Refuses `--trace`, which writes one connection to a file, for several servers. `why`: how they were selected.
fn refuse_trace(connect: &Connect, why: &str) -> Result<(), Failure> {
    if connect.trace.is_none() {
        return Ok(());
    }
    let problem = format!("--trace records the messages of one server, and {why}");
    Err(Failure::usage(problem, "leave out --trace, or name one server"))
}

/// Runs `work` with what a word could be besides its spelling. An entry is searched in the configuration of these options.
fn with_known<T>(ui: &Ui, configured: &Configured, work: impl FnOnce(&Known<'_>) -> T) -> T {
    work(&Known {
        entry: &|name| config::has_entry(ui, configured, name),
        program: &|word| config::is_program(word),
        file: &Path::is_file,
    })
}

/// Returns the server that the words of a verb without operands name. Prints notes on the words. `escaped`: `--` stood
/// before the first word.
fn target_of(
    ui: &Ui,
    verb: &str,
    connect: &Connect,
    words: Vec<OsString>,
    escaped: bool,
) -> Result<Target, Failure> {
    named_by(ui, verb, connect, connect.server(), words, escaped)
}

/// [`target_of`] with another name in the place of `--server`.
fn named_by(
    ui: &Ui,
    verb: &str,
    connect: &Connect,
    server: Option<&str>,
    words: Vec<OsString>,
    escaped: bool,
) -> Result<Target, Failure> {
    let invocation = with_known(ui, &connect.configured, |known| {
        target::without_operands(verb, server, words, escaped, known)
    })?;
    invocation.notes.iter().for_each(|note| ui.note(note));
    Ok(invocation.target)
}

/// Returns the servers of a verb that takes several: those of the words, then each of `also`. `escaped`: as for [`target_of`].
fn targets_of(
    ui: &Ui,
    verb: &str,
    connect: &Connect,
    mut words: Vec<OsString>,
    also: Vec<OsString>,
    escaped: bool,
) -> Result<Vec<Target>, Failure> {
    let mut targets = Vec::new();
    // A server that takes no arguments ends where the next one begins. An option behind it is misplaced.
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    while let [first, next, ..] = &*words
        && !escaped
        && target::stands_alone(first)
        && !is_option(next)
    {
        targets.push(named_by(ui, verb, connect, None, vec![words.remove(0)], false)?);
    }
    if !words.is_empty() || connect.server().is_some() || also.is_empty() {
        targets.push(target_of(ui, verb, connect, words, escaped)?);
    }
    for word in also {
        targets.push(named_by(ui, verb, connect, None, vec![word], false)?);
    }
    Ok(targets)
}

/// Says on a terminal what a server on standard input waits for. `listens`: the command that waits for clients over HTTP.
fn note_terminal(ui: &Ui, listens: &str) {
    if std::io::stdin().is_terminal() {
        ui.note("reading MCP messages from standard input: a client starts this command (Ctrl-C ends it)");
        ui.note(&format!("for clients over HTTP: {listens}"));
    }
}

/// The operands of a verb are not valid.
fn misuse(verb: &str, problem: impl Into<String>) -> Failure {
    Failure::usage(problem, format!("mcpjoin help {verb}"))
}

/// Parses the words of a verb with operands. `separated`: `--` stood between the words and the server's command.
fn operands(
    ui: &Ui,
    verb: &str,
    connect: &Connect,
    words: Words,
    separated: bool,
) -> Result<Invocation, Failure> {
    let server = match (connect.server(), separated) {
        (Some(name), _) => format!("--server {}", shown(name.as_ref())),
        (None, true) => words_shown(&words.command),
        (None, false) => words_shown(words.words.get(..1).unwrap_or_default()),
    };
    let after = separated.then_some(words.command);
    let invocation = with_known(ui, &connect.configured, |known| {
        target::with_operands(verb, connect.server(), words.words, after, known)
    })?;
    let needed = match verb {
        "tool" => Some(("the name of the tool", "tools")),
        "read" => Some(("the resource's URI", "resources")),
        "prompt" => Some(("the prompt's name", "prompts")),
        _ => None,
    };
    if let Some((what, items)) = needed.filter(|_| invocation.operands.is_empty()) {
        return Err(Failure::usage(
            format!("{what} is missing"),
            format!("see the {items}: mcpjoin list {server}"),
        ));
    }
    invocation.notes.iter().for_each(|note| ui.note(note));
    Ok(invocation)
}

/// Returns a required operand, which must be Unicode. `what`: its name for messages, with an article.
fn unicode(verb: &str, what: &str, word: Option<OsString>) -> Result<String, Failure> {
    match word.map(OsString::into_string) {
        Some(Ok(word)) if !word.is_empty() => Ok(word),
        Some(Ok(_)) | None => Err(misuse(verb, format!("{what} is missing"))),
        Some(Err(word)) => Err(misuse(verb, format!("{what} {} is not Unicode", shown(&word)))),
    }
}

/// Prints a result: with `--json` as the server sent it, otherwise as a page for a person.
async fn printed(ui: &Ui, result: &Raw, page: impl FnOnce() -> String) -> Exit {
    let outcome = if ui.json {
        let text = visible::json(result.as_str());
        ui.aside(move |ui| ui.result(&text)).await
    } else {
        let text = page();
        ui.aside(move |ui| ui.data(&text)).await
    };
    written(ui, outcome)
}

/// Prints text in one piece. Returns the exit code of the command.
async fn print_page(ui: &Ui, text: String) -> Exit {
    written(ui, ui.aside(move |ui| ui.page(&text)).await)
}

/// Prints a short result: a sentence for a person, or JSON.
fn print_now(ui: &Ui, text: &str) -> Exit {
    let text = if ui.json { visible::json(text) } else { text.to_owned() };
    written(ui, ui.page(&text))
}

/// Returns the exit code of a command that ends with output.
fn written(ui: &Ui, outcome: Result<(), Unwritten>) -> Exit {
    match outcome {
        Ok(()) | Err(Unwritten::Gone) => Exit::Done,
        Err(Unwritten::Failed(error)) => {
            let failure = unwritten("the result", &error);
            ui.failure(&failure);
            failure.exit
        }
    }
}

/// The output could not be written. `what`: the output, or its file.
fn unwritten(what: &str, error: &std::io::Error) -> Failure {
    Failure::new("E_OUTPUT", Exit::Usage, Phase::Output, format!("{what} could not be written: {error}"))
        .hint("free some space, or use another place")
}
