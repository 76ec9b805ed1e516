//! `mcpjoin list` without a server: a line for each server of the configuration, with its state, how long it took to answer, the
//! number of its tools, its protocol, and what is wrong.
//!
//! Used by `list`. A failed server has its block on standard error only with `-v`: `mcpjoin doctor NAME` says more. Failures of
//! the configuration and of authorization always have theirs, because they name what to do. With `--watch` it repeats until a
//! signal, or until its output is closed.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::time::Duration;

use mcpjoin::client::Client;
use tokio::sync::mpsc;
use tokio::time::sleep;
use unicode_width::UnicodeWidthStr;

use crate::args::{Configured, Connect};
use crate::commands::lists::{ALL, Part, TOOLS, read, report_server_failures, server_name};
use crate::commands::{refuse_trace, written};
use crate::config::{self, ToolFilter};
use crate::connect::{ServerOutput, Stop, with_each_server, with_plans};
use crate::exit::Exit;
use crate::failure::{Failure, seconds};
use crate::target::{Target, shown};
use crate::ui::{BAD, FAINT, NAME, Ui, Unwritten};
use crate::visible::{self, counted};

/// The width of the column of names at most.
const MAX_NAME_COLUMNS: usize = 24;
/// The least that is left for the rest of a line behind its columns, and the indentation of a rest below it.
const MIN_REST_COLUMNS: usize = 14;
const BELOW: &str = "    ";
/// The width of the columns of states, times and tools.
const STATE_COLUMNS: usize = 6;
const TIME_COLUMNS: usize = 7;
const TOOLS_COLUMNS: usize = 9;

/// A server that has answered.
struct Answered {
    /// From the start of the program, or of the connection, to the end of the opening.
    took: Duration,
    tools: usize,
    /// Its name, its version, and the version of the protocol, escaped.
    about: String,
    /// The first list that could not be read, though others could.
    failure: Option<Failure>,
}

/// Prints the lines. `watch`: the time between two rounds.
pub(super) fn run(
    ui: &Ui,
    connect: &Connect,
    max_pages: usize,
    watch: Option<Duration>,
) -> Result<Exit, Failure> {
    refuse_trace(connect, "the command applies to all servers of the configuration")?;
    let targets = config::all(ui, &connect.configured, watch.is_none())?;
    loop {
        let (exit, is_read) = round(ui, connect, &targets, max_pages, watch);
        let Some(interval) = watch.filter(|_| is_read && !matches!(exit, Exit::Signal(_))) else {
            return Ok(exit);
        };
        let waited =
            with_plans(ui, &[], connect, async |_, mut signals| match signals.until(sleep(interval)).await {
                Ok(()) => Exit::Done,
                Err(signal) => Exit::Signal(signal),
            });
        if waited != Exit::Done {
            return Ok(waited);
        }
    }
}

/// Asks every server once. Returns the exit code of the first that failed, and whether the output was written.
fn round(
    ui: &Ui,
    connect: &Connect,
    targets: &[Target],
    max_pages: usize,
    watch: Option<Duration>,
) -> (Exit, bool) {
    let mut is_read = true;
    let exit = with_each_server(
        ui,
        targets,
        connect,
        move |ui: Ui, client: Client, filter: ToolFilter, parts: mpsc::Sender<Answered>, took: Duration| async move {
            let answered = ask(&ui, &client, &filter, max_pages, took).await?;
            // The receiver is gone if the command was stopped.
            let _ = parts.send(answered).await;
            Ok(())
        },
        async |servers, _: &Stop| {
            let outcome = show(ui, servers, watch, &connect.configured).await;
            is_read = outcome.is_ok();
            ControlFlow::Continue(outcome.unwrap_or_else(|error| written(ui, Err(error))))
        },
    );
    (exit, is_read)
}

async fn ask(
    ui: &Ui,
    client: &Client,
    filter: &ToolFilter,
    max_pages: usize,
    took: Duration,
) -> Result<Answered, Failure> {
    let version = client.peer().profile.version.as_str().to_owned();
    let about = format!("{}, {version}", server_name(client));
    let mut answered = Answered { took, tools: 0, about, failure: None };
    let on_part = async |part| {
        match part {
            Part::Page(section, items) if section.member == TOOLS.member => answered.tools += items.len(),
            Part::Failed(_, failure) => answered.failure = answered.failure.take().or(Some(*failure)),
            _ => {}
        }
        Ok(())
    };
    read(ui, client, filter, &ALL, max_pages, on_part).await?;
    Ok(answered)
}

/// Prints a line for each server as it answers, in their order. On a terminal that is redrawn, all of them at once.
async fn show(
    ui: &Ui,
    servers: Vec<ServerOutput<Answered>>,
    watch: Option<Duration>,
    configured: &Configured,
) -> Result<Exit, Unwritten> {
    let redrawn = watch.filter(|_| ui.width().is_some());
    let names = servers.iter().map(|server| visible::line(&server.name).width()).max().unwrap_or_default();
    let names = names.min(MAX_NAME_COLUMNS);
    let (mut exit, mut failures, mut page) = (Exit::Done, Vec::new(), String::new());
    for server in servers {
        let name = server.name.clone();
        let outcome = server.result(ui).await;
        let line = line(&name, names, &outcome, ui.width());
        let failure = match outcome {
            Ok(answered) => answered.failure,
            Err(failure) => Some(failure),
        };
        if let Some(failure) = failure {
            exit = if exit == Exit::Done { failure.exit } else { exit };
            failures.push((name, failure));
        }
        page.push_str(&ui.hidden_whole(&line));
        if redrawn.is_none() {
            let line = std::mem::take(&mut page);
            ui.aside(move |ui| ui.piece(&line)).await?;
        }
    }
    if let Some(interval) = redrawn {
        let page = format!("{page}{FAINT}again in {}; Ctrl-C ends{FAINT:#}\n", seconds(interval));
        ui.aside(move |ui| ui.clear().and_then(|()| ui.piece(&page))).await?;
    }
    let is_to_do = |failure: &Failure| matches!(failure.exit, Exit::Usage | Exit::Authorization);
    let is_shortened = ui.verbosity() == 0 && failures.iter().any(|(_, failure)| !is_to_do(failure));
    failures.retain(|(_, failure)| ui.verbosity() > 0 || is_to_do(failure));
    report_server_failures(ui, &failures);
    if is_shortened && watch.is_none() {
        // JSON of the command line may be long.
        let from = match &configured.config {
            Some(file) => format!(" --config {}", shown(file.as_os_str())),
            None if configured.is_named() => " --mcp-config ...".to_owned(),
            None => String::new(),
        };
        ui.note(&format!("mcpjoin doctor{from} NAME shows the cause and the fix"));
    }
    Ok(exit)
}

/// The line of a server. `names`: the width of the column of names; `width`: of the terminal.
fn line(name: &str, names: usize, outcome: &Result<Answered, Failure>, width: Option<usize>) -> String {
    let (state, is_bad, took, tools, rest) = match outcome {
        Ok(Answered { took, tools, about, failure }) => {
            let state = if failure.is_some() { "partly" } else { "ok" };
            let problem = failure.as_ref().map(|failure| format!("; {}", visible::line(&failure.message)));
            let rest = format!("{about}{}", problem.unwrap_or_default());
            (state, failure.is_some(), Some(*took), count(*tools), rest)
        }
        Err(failure) => ("failed", true, failure.seen.took, String::new(), problem(failure)),
    };
    let took = took.map(seconds).unwrap_or_default();
    let name = visible::line(name);
    let name = visible::cut(&name, names);
    let padding = " ".repeat(names.saturating_sub(name.width()));
    let columns = names + STATE_COLUMNS + TIME_COLUMNS + TOOLS_COLUMNS + 8;
    // In a narrow terminal the rest is a line of its own: hardly a word of it would be left.
    let (rest, between) = match width {
        Some(width) if width < columns + MIN_REST_COLUMNS => {
            let rest = visible::cut(&rest, width.saturating_sub(BELOW.len()).max(1));
            let between = if rest.is_empty() { String::new() } else { format!("\n{BELOW}") };
            (rest, between)
        }
        Some(width) => (visible::cut(&rest, width - columns), "  ".to_owned()),
        None => (rest.into(), "  ".to_owned()),
    };
    let tools = if between.starts_with('\n') { tools } else { format!("{tools:<TOOLS_COLUMNS$}") };
    let style = if is_bad { format!("{BAD}") } else { String::new() };
    let end = if is_bad { format!("{BAD:#}") } else { String::new() };
    let mut out = String::new();
    let _ = write!(
        out,
        "{NAME}{name}{NAME:#}{padding}  {style}{state:<STATE_COLUMNS$}{end}  {took:>TIME_COLUMNS$}  {tools}{between}"
    );
    let shown = if is_bad { rest.into_owned() } else { format!("{FAINT}{rest}{FAINT:#}") };
    out.push_str(&shown);
    out.push('\n');
    out
}

fn count(tools: usize) -> String {
    match tools {
        0 => "no tools".to_owned(),
        tools => counted(tools, "tool"),
    }
}

/// What is wrong with a server, in one line: its last words say more than that it has ended.
fn problem(failure: &Failure) -> String {
    let message = visible::line(&failure.message);
    match failure.seen.stderr.last() {
        Some(last) => format!("{message}: {}", visible::line(last)),
        None => message.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Answered, line};
    use crate::exit::Exit;
    use crate::failure::{Failure, Phase};

    fn plain(name: &str, outcome: &Result<Answered, Failure>, width: Option<usize>) -> String {
        anstream::adapter::strip_str(&line(name, 6, outcome, width)).to_string()
    }

    #[test]
    fn a_server_is_one_line_of_any_width() {
        let answered = |tools, failure| {
            let about = "memory-server 0.6.3, 2025-11-25".to_owned();
            Ok(Answered { took: Duration::from_millis(412), tools, about, failure })
        };
        let failure = || {
            let mut failure = Failure::new("E_X", Exit::Connection, Phase::List, "it ended");
            failure.seen.stderr = vec!["no key".to_owned(), "bye\u{1b}[31m".to_owned()];
            failure
        };
        let ok = answered(9, None);
        assert_eq!(
            plain("memory", &ok, None),
            "memory  ok       412 ms  9 tools    memory-server 0.6.3, 2025-11-25\n"
        );
        assert_eq!(
            plain("a", &answered(1, None), Some(50)),
            "a       ok       412 ms  1 tool     memory-server…\n"
        );
        assert_eq!(
            plain("a", &answered(1, None), Some(40)),
            "a       ok       412 ms  1 tool\n    memory-server 0.6.3, 2025-11-25\n"
        );
        let partly = plain("a", &answered(0, Some(failure())), None);
        assert!(partly.contains("  partly  ") && partly.ends_with("2025-11-25; it ended\n"), "{partly}");
        let failed = plain("a", &Err(failure()), None);
        assert_eq!(failed.lines().count(), 1);
        assert!(failed.ends_with("it ended: bye\\u{1b}[31m\n"), "{failed}");
    }
}
