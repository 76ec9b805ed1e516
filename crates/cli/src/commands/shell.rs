//! `mcpjoin shell`: one session with a server, in which the user types commands, or a script gives them.
//!
//! Each line is parsed as the command line of its verb, and runs the code of that verb: nothing is rendered here but what a shell has
//! besides (`watch`, `log`, `help`).

mod completion;
mod editor;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::Arc;

use clap::{Command, FromArgMatches as _, Subcommand as _};
use mcpjoin::client::{Client, ClientBuilder};
use mcpjoin::proto::Method;
use mcpjoin::proto::types::{LoggingLevel, ProtocolType, ResourceUpdatedParams, SubscriptionFilter};

use self::completion::{Catalogue, VERBS};
use self::editor::{Line, Lines};
use super::call::CurrentTask;
use super::lists::{ALL, MAX_PAGES, PROMPTS, RESOURCES, Section, TEMPLATES, TOOLS, server_name};
use super::{call, complete, info, list, ping, prompt, read, target_of, tool};
use crate::args::{Connect, Questions, Shell, Verb};
use crate::connect::{About, Session, Signals, with_session};
use crate::events::show_log_message;
use crate::exit::{Exit, Signal};
use crate::failure::{Failure, Phase};
use crate::target::shown;
use crate::ui::{HEADING, NAME, Ui};

/// The text before each line.
const PROMPT: &str = "mcpjoin> ";

/// Opens the session. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: Shell, escaped: bool) -> Result<Exit, Failure> {
    let target = target_of(ui, "shell", &args.connect, args.words, escaped)?;
    let connect = args.connect.answering(args.questions);
    let catalogue = Arc::<Catalogue>::default();
    let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let prepare = |client| if is_terminal { observed(ui, client, &catalogue) } else { client };
    Ok(with_session(ui, &target, &connect, prepare, async |session, signals| {
        let shell = Running { ui, session, is_terminal };
        let outcome = shell.run(&catalogue, signals).await;
        outcome.unwrap_or_else(|failure| super::exit_of(ui, Err(session.explain(failure))))
    }))
}

/// Shows what the server says on its own, and reads its lists again when they change.
fn observed(ui: &Ui, client: ClientBuilder, catalogue: &Arc<Catalogue>) -> ClientBuilder {
    let of = |what: &'static str| {
        let (ui, catalogue) = (ui.clone(), catalogue.clone());
        move |client: Client| {
            ui.note(&format!("the server's {what} have changed"));
            let catalogue = catalogue.clone();
            async move { catalogue.read(&client).await }
        }
    };
    let logs = ui.clone();
    client
        .on_notification(move |notification| show_log_message(&logs, &notification))
        .on_tools_changed(of("tools"))
        .on_prompts_changed(of("prompts"))
        .on_resources_changed(of("resources"))
}

/// A line that was understood.
enum Input {
    Nothing,
    Exit,
    Help,
    Watch(String),
    Log(LoggingLevel),
    List(Vec<&'static Section>),
    Verb(Box<Verb>),
    /// Its help, or why it was not understood; both were printed.
    Printed(Exit),
}

struct Running<'a> {
    ui: &'a Ui,
    session: &'a Session,
    is_terminal: bool,
}

impl Running<'_> {
    async fn run(&self, catalogue: &Arc<Catalogue>, signals: &mut Signals) -> Result<Exit, Failure> {
        let system = |problem: String| {
            Failure::usage(format!("commands cannot be read: {problem}"), "mcpjoin help shell")
        };
        if !self.is_terminal {
            let mut lines = Lines::script().map_err(system)?;
            return self.script(&mut lines, signals).await;
        }
        let client = self.session.client().await?;
        self.ui.note(&format!("connected to {}; help lists the commands", server_name(&client)));
        let (filled, of) = (catalogue.clone(), client.clone());
        tokio::spawn(async move { filled.read(&of).await });
        drop(client);
        let mut lines = Lines::edited(PROMPT, catalogue.clone()).map_err(system)?;
        signals.spare_command(true);
        let exit = self.lines(&mut lines, signals).await;
        signals.spare_command(false);
        lines.restore();
        exit
    }

    /// Runs the lines that the user types. A command that fails does not end the shell.
    async fn lines(&self, lines: &mut Lines, signals: &mut Signals) -> Result<Exit, Failure> {
        loop {
            // A question that came while a line was edited is asked before the next line.
            if let Err(signal) = signals.until(self.ui.answered()).await {
                self.ui.stop_asking().await;
                if signal != Signal::Interrupt {
                    return Ok(Exit::Signal(signal));
                }
            }
            let line = tokio::select! {
                biased;
                // An interrupt while a line is edited is a key.
                signal = ending(signals) => return Ok(Exit::Signal(signal)),
                failure = self.session.given_up() => return Err(failure),
                line = lines.next(self.ui) => line,
            };
            match line {
                Line::Text(line) => match self.input(&line, signals).await {
                    Ok(None | Some(Exit::Signal(Signal::Interrupt))) => {}
                    Ok(Some(exit @ Exit::Signal(_))) => return Ok(exit),
                    Ok(Some(Exit::Done)) if is_exit(&line) => return Ok(Exit::Done),
                    Ok(Some(_)) => {}
                    Err(failure) => self.ui.failure(&self.session.explain(failure)),
                },
                Line::Interrupted => {}
                Line::End => return Ok(Exit::Done),
                Line::Failed(problem) => return Err(Failure::usage(problem, "mcpjoin help shell")),
            }
        }
    }

    /// Runs the lines of a script, up to the first that fails.
    async fn script(&self, lines: &mut Lines, signals: &mut Signals) -> Result<Exit, Failure> {
        loop {
            let line = match signals.until(lines.next(self.ui)).await {
                Ok(line) => line,
                Err(signal) => return Ok(Exit::Signal(signal)),
            };
            match line {
                Line::Text(line) => match self.input(&line, signals).await? {
                    None => {}
                    Some(Exit::Done) if is_exit(&line) => return Ok(Exit::Done),
                    Some(Exit::Done) => {}
                    Some(exit) => return Ok(exit),
                },
                Line::Interrupted | Line::End => return Ok(Exit::Done),
                Line::Failed(problem) => return Err(Failure::usage(problem, "mcpjoin help shell")),
            }
        }
    }

    /// Runs a line. A signal ends what it does. `None`: there was nothing to do.
    async fn input(&self, line: &str, signals: &mut Signals) -> Result<Option<Exit>, Failure> {
        let input = parse(self.ui, line)?;
        let ui = match &input {
            Input::Nothing => return Ok(None),
            Input::Exit => return Ok(Some(Exit::Done)),
            Input::Help => return Ok(Some(super::print_page(self.ui, help()).await)),
            Input::Printed(exit) => return Ok(Some(*exit)),
            Input::Verb(verb) => output(verb).map_or_else(|| self.ui.clone(), |output| self.ui.with(output)),
            Input::Watch(_) | Input::Log(_) | Input::List(_) => self.ui.clone(),
        };
        let current = CurrentTask::default();
        let about = &self.session.about;
        let session = self.session;
        let work = async {
            let client = session.client().await?;
            match input {
                Input::Watch(uri) => watch(&ui, &client, uri).await,
                Input::Log(level) => log(&client, level).await,
                Input::List(wanted) => {
                    list::list(&ui, &client, about, &wanted, list::Detail::Rows, MAX_PAGES).await
                }
                Input::Verb(verb) => {
                    let line =
                        |verb: &str, operands: &str| format!("{verb} {operands}").trim_end().to_owned();
                    let outcome = verb_in_session(&ui, &client, about, *verb, &current).await;
                    outcome.map_err(|failure| failure.completed_by(line))
                }
                _ => Ok(Exit::Done),
            }
        };
        match signals.until(work).await {
            Ok(outcome) => outcome.map(Some),
            Err(signal) => {
                self.ui.stop_asking().await;
                if signal == Signal::Interrupt && self.is_terminal {
                    self.ui.note("cancelled");
                }
                drop(current.cancel().await);
                Ok(Some(Exit::Signal(signal)))
            }
        }
    }
}

/// The next signal that ends the shell.
async fn ending(signals: &mut Signals) -> Signal {
    loop {
        match signals.next().await {
            Signal::Interrupt => {}
            signal => return signal,
        }
    }
}

fn is_exit(line: &str) -> bool {
    matches!(line.trim(), "exit" | "quit")
}

/// Parses a line. Options that belong to the session are refused.
fn parse(ui: &Ui, line: &str) -> Result<Input, Failure> {
    let line = line.trim();
    if line.starts_with('#') {
        return Ok(Input::Nothing);
    }
    let Some(words) = shlex::split(line) else {
        return Err(Failure::usage("a quotation mark is not closed", "quote as in a shell: 'two words'"));
    };
    let operands = words.get(1..).unwrap_or_default();
    let one = |what: &str| match operands {
        [word] => Ok(word.clone()),
        _ => Err(usage(format!("{} takes {what}", words[0]), &words[0])),
    };
    let lists = |lists: &[&'static Section]| match operands {
        [] => Ok(Input::List(lists.to_vec())),
        [word, ..] => {
            Err(usage(format!("{} takes no argument, but got {}", words[0], shown(word.as_ref())), &words[0]))
        }
    };
    match words.first().map(String::as_str) {
        None => Ok(Input::Nothing),
        Some("exit" | "quit") => Ok(Input::Exit),
        Some("help" | "?") => Ok(Input::Help),
        Some("watch") => one("a URI").map(Input::Watch),
        Some("log") => {
            let level = one("a level")?;
            let names: Vec<&str> = LoggingLevel::ALL.iter().map(|level| level.as_str()).collect();
            let problem = || usage(format!("{} is not a level", shown(level.as_ref())), &names.join(", "));
            LoggingLevel::parse(&level).map(Input::Log).ok_or_else(problem)
        }
        Some("tools") => lists(&[&TOOLS]),
        Some("resources") => lists(&[&RESOURCES, &TEMPLATES]),
        Some("prompts") => lists(&[&PROMPTS]),
        Some(_) => verb(ui, &words),
    }
}

/// Parses the words as the command line of a verb that the shell has.
fn verb(ui: &Ui, words: &[String]) -> Result<Input, Failure> {
    const OF_SHELL: [&str; 8] = ["list", "info", "tool", "call", "read", "prompt", "complete", "ping"];
    if !OF_SHELL.contains(&words[0].as_str()) {
        let known = VERBS.iter().map(|(verb, ..)| *verb);
        let hint = match crate::config::similar(&words[0], known) {
            Some(similar) => format!("did you mean {similar}? help lists the commands"),
            None => "help lists the commands".into(),
        };
        return Err(Failure::usage(
            format!("{} is not a command of the shell", shown(words[0].as_ref())),
            hint,
        ));
    }
    let command = Command::new("mcpjoin").no_binary_name(true).disable_help_subcommand(true);
    let parsed = Verb::augment_subcommands(command).try_get_matches_from(words);
    let parsed = parsed.and_then(|matches| Verb::from_arg_matches(&matches));
    let verb = match parsed {
        Ok(verb) => verb,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            let printed = super::written(ui, ui.clap(&error));
            return Ok(Input::Printed(if printed == Exit::Done { exit } else { printed }));
        }
    };
    if let Some((connect, questions)) = of_session(&verb) {
        let given = connect.given().next();
        if let Some(option) =
            given.or_else(|| questions.is_some_and(Questions::is_given).then_some("--answer"))
        {
            let problem = format!("{option} applies to the whole session");
            return Err(Failure::usage(problem, format!("mcpjoin shell {option} ... TARGET")));
        }
    }
    Ok(Input::Verb(Box::new(verb)))
}

/// The options of a verb that belong to the session.
const fn of_session(verb: &Verb) -> Option<(&Connect, Option<&Questions>)> {
    match verb {
        Verb::List(args) => Some((&args.connect, Some(&args.questions))),
        Verb::Info(args) => Some((&args.connect, Some(&args.questions))),
        Verb::Tool(args) => Some((&args.connect, Some(&args.questions))),
        Verb::Call(args) => Some((&args.connect, Some(&args.questions))),
        Verb::Read(args) => Some((&args.connect, Some(&args.questions))),
        Verb::Prompt(args) => Some((&args.connect, Some(&args.questions))),
        Verb::Complete(args) => Some((&args.connect, None)),
        Verb::Ping(args) => Some((&args.connect, None)),
        _ => None,
    }
}

const fn output(verb: &Verb) -> Option<&crate::args::Output> {
    match verb {
        Verb::List(args) => Some(&args.output),
        Verb::Info(args) => Some(&args.output),
        Verb::Tool(args) => Some(&args.output),
        Verb::Call(args) => Some(&args.output),
        Verb::Read(args) => Some(&args.output),
        Verb::Prompt(args) => Some(&args.output),
        Verb::Complete(args) => Some(&args.output),
        Verb::Ping(args) => Some(&args.output),
        _ => None,
    }
}

/// Runs a verb with the client of the session.
async fn verb_in_session(
    ui: &Ui,
    client: &Client,
    about: &About,
    verb: Verb,
    current: &CurrentTask,
) -> Result<Exit, Failure> {
    match verb {
        Verb::List(args) => {
            no_words("list", &args.words)?;
            let max_pages = args.max_pages.map_or(MAX_PAGES, |pages| pages as usize);
            list::list(ui, client, about, &ALL, list::detail(&args), max_pages).await
        }
        Verb::Info(args) => {
            no_words("info", &args.words)?;
            info::info(ui, client, about).await
        }
        Verb::Ping(args) => {
            no_words("ping", &args.words)?;
            ping::ping(ui, client, args.count, args.interval).await
        }
        Verb::Tool(args) => tool::show(ui, client, &about.tools, args.words.of_session("tool")?).await,
        Verb::Call(args) => call::in_session(ui, client, &about.tools, args, current).await,
        Verb::Read(args) => {
            let uri = read::uri(args.words.of_session("read")?)?;
            read::read(ui, client, uri, args.file).await
        }
        Verb::Prompt(args) => prompt::in_session(ui, client, args).await,
        Verb::Complete(args) => {
            let params = complete::params(args.words.of_session("complete")?, &args.context)?;
            complete::complete(ui, client, &params).await
        }
        _ => Ok(Exit::Done),
    }
}

fn no_words(verb: &str, words: &[OsString]) -> Result<(), Failure> {
    match words.first() {
        None => Ok(()),
        Some(word) => {
            Err(usage(format!("{verb} takes no server here, and {} is an extra word", shown(word)), verb))
        }
    }
}

fn usage(problem: String, verb: &str) -> Failure {
    let hint =
        VERBS.iter().find(|(name, ..)| *name == verb).map(|(_, operands, _)| format!("{verb} {operands}"));
    Failure::usage(problem, hint.unwrap_or_else(|| verb.to_owned()).trim_end())
}

async fn log(client: &Client, level: LoggingLevel) -> Result<Exit, Failure> {
    client.set_level(level).await.map_err(|error| Failure::client(&error, Phase::Call))?;
    Ok(Exit::Done)
}

/// Shows the resource each time the server says that it has changed, until a signal.
async fn watch(ui: &Ui, client: &Client, uri: String) -> Result<Exit, Failure> {
    let failed = |error: &mcpjoin::client::ClientError| Failure::client(error, Phase::Read);
    let filter = SubscriptionFilter::default().with_resource_subscriptions(vec![uri.clone()]);
    let mut changes = client.listen(filter).await.map_err(|error| failed(&error))?;
    let honoured = changes.acknowledged().resource_subscriptions.as_ref();
    if honoured.is_none_or(|honoured| !honoured.contains(&uri)) {
        let problem = format!("the server does not announce changes of {}", shown(uri.as_ref()));
        return Err(Failure::new("E_NOT_OFFERED", Exit::ServerError, Phase::Read, problem)
            .hint("info shows whether the server supports subscriptions (resources: subscribe)"));
    }
    ui.remark(&format!("watching {}; Ctrl-C ends it", shown(uri.as_ref())));
    while let Some(change) = changes.next().await {
        let change = change.map_err(|error| failed(&error))?;
        if change.method != Method::ResourceUpdated {
            continue;
        }
        let params = change.params.and_then(|params| ResourceUpdatedParams::read(params.raw()).ok());
        // It may be a part of the resource that has changed.
        let changed = params.map_or_else(|| uri.clone(), |params| params.uri);
        ui.remark(&format!("{} has changed:", shown(changed.as_ref())));
        let exit = read::read(ui, client, changed, None).await?;
        if exit != Exit::Done {
            return Ok(exit);
        }
    }
    ui.remark("the server has ended the subscription");
    Ok(Exit::Done)
}

/// The list of the commands.
fn help() -> String {
    let mut out = format!("{HEADING}Commands{HEADING:#}\n");
    for (verb, operands, about) in VERBS.iter().filter(|(.., about)| !about.is_empty()) {
        let columns = 36_usize.saturating_sub(verb.len());
        let _ = writeln!(out, "  {NAME}{verb}{NAME:#} {operands:<columns$} {about}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Input, Ui, help, parse};

    #[test]
    fn a_line_is_a_command_or_says_why_not() {
        let parse = |line: &str| parse(&Ui::plain(), line);
        for line in ["", "  ", "# note", "#"] {
            assert!(matches!(parse(line), Ok(Input::Nothing)), "{line}");
        }
        assert!(matches!(parse("exit"), Ok(Input::Exit)) && matches!(parse(" quit "), Ok(Input::Exit)));
        assert!(matches!(parse("help"), Ok(Input::Help)));
        assert!(matches!(parse("watch test://a"), Ok(Input::Watch(uri)) if uri == "test://a"));
        assert!(matches!(parse("log warning"), Ok(Input::Log(level)) if level.as_str() == "warning"));
        assert!(matches!(parse("tools"), Ok(Input::List(lists)) if lists.len() == 1));
        for line in [
            "call add a=1 'b=two words'",
            "call --json add",
            "read -o f test://a",
            "list --describe",
            "ping -n 3",
        ] {
            assert!(matches!(parse(line), Ok(Input::Verb(_))), "{line}");
        }
        for (line, problem) in [
            ("call 'x", "a quotation mark is not closed"),
            ("validate", "validate is not a command of the shell"),
            ("cal add", "cal is not a command of the shell"),
            ("watch", "watch takes a URI"),
            ("log loud", "loud is not a level"),
            ("tools x", "tools takes no argument, but got x"),
            ("call --timeout 3s add", "--timeout applies to the whole session"),
            ("call --answer {} add", "--answer applies to the whole session"),
        ] {
            let failure = parse(line).err().unwrap_or_else(|| panic!("{line} is accepted"));
            assert_eq!(failure.message, problem, "{line}");
        }
    }

    #[test]
    fn the_help_fits_on_a_terminal() {
        let help = anstream::adapter::strip_str(&help()).to_string();
        assert!(help.lines().all(|line| line.chars().count() <= 110), "{help}");
        assert!(help.contains("  call TOOL [name=value]...") && help.contains("  exit"), "{help}");
    }
}
