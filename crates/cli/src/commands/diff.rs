//! `mcpjoin diff`: compares what a server offers with an earlier snapshot, or with another server. `mcpjoin_rules`
//! finds the changes; this module reads both sides and prints the result.

mod line_diff;
mod page;
mod sentences;
mod side;

use std::ops::ControlFlow;
use std::time::Duration;

use mcpjoin::client::Client;
use mcpjoin::proto::Raw;
use mcpjoin_rules::{Change, ChangeClass, changes};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

pub(super) use self::line_diff::{Line, line_diff};
pub(super) use self::sentences::{Detail, details, sentence};
use self::side::{Side, Snapshot};
use super::lists::MAX_PAGES;
use super::written;
use crate::args::{Counted, Diff};
use crate::config::ToolFilter;
use crate::connect::{ServerOutput, Stop, lost, with_each_server};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object;
use crate::target::{Target, shown};
use crate::ui::{Ui, Unwritten};

/// Compares both sides. `separated`: `--` stood between the first side and the command of the second.
pub(crate) fn run(ui: &Ui, args: Diff, separated: bool) -> Result<Exit, Failure> {
    let Diff { words, command, only, max_pages, connect, .. } = args;
    let sides = side::of_words(ui, &connect, words, separated.then_some(command))?;
    let targets: Vec<Target> = sides
        .iter()
        .filter_map(|side| match side {
            Side::Server(target) => Some((**target).clone()),
            Side::File(_) => None,
        })
        .collect();
    let pages = max_pages.map_or(MAX_PAGES, |pages| pages as usize);
    if targets.is_empty()
        && let Some(option) = connect.given().next().or_else(|| max_pages.map(|_| "--max-pages"))
    {
        let problem = format!("{option} applies to servers, but both sides are files");
        return Err(Failure::usage(problem, format!("leave out {option}")));
    }
    if targets.len() == 2 && connect.trace.is_some() {
        let problem = "--trace records one server, but there are two";
        let hint = "leave out --trace, or save one side first: mcpjoin list --json TARGET > old.json";
        return Err(Failure::usage(problem, hint));
    }
    let [old, new] = match sides {
        [Side::File(old), Side::File(new)] => {
            let found = Comparison::between(*old, *new, only);
            found.remark(ui);
            let outcome = found.print(ui);
            return Ok(found.exit(written(ui, outcome)));
        }
        sides => sides,
    };
    let work = move |ui: Ui,
                     client: Client,
                     filter: ToolFilter,
                     parts: mpsc::Sender<Snapshot>,
                     _: Duration| async move {
        let snapshot = side::ask(&ui, &client, &filter, pages).await?;
        // The receiver is gone if the comparison was stopped.
        let _ = parts.send(snapshot).await;
        Ok(())
    };
    Ok(with_each_server(ui, &targets, &connect, work, async move |servers, _: &Stop| {
        let mut servers = servers.into_iter();
        let old = read(ui, "OLD", old, &mut servers).await;
        let new = read(ui, "NEW", new, &mut servers).await;
        match (old, new) {
            (Ok(old), Ok(new)) => ControlFlow::Continue(compare(ui, old, new, only).await),
            (Err(exit), _) | (_, Err(exit)) => ControlFlow::Continue(exit),
        }
    }))
}

/// Reads a side. Prints the failure and returns its exit code if it cannot be read.
async fn read(
    ui: &Ui,
    which: &str,
    side: Side,
    servers: &mut impl Iterator<Item = ServerOutput<Snapshot>>,
) -> Result<Snapshot, Exit> {
    let outcome = match side {
        Side::File(snapshot) => return Ok(*snapshot),
        Side::Server(target) => match servers.next() {
            Some(server) => {
                let source = source(&target);
                server.result(ui).await.map(|snapshot| Snapshot { source, ..snapshot })
            }
            None => Err(lost()),
        },
    };
    outcome.map_err(|failure| {
        ui.failure(&Failure { message: format!("{which}: {}", failure.message), ..failure.clone() });
        failure.exit
    })
}

/// The name of a server. A command is shown with all its words, and its secrets are hidden on output.
fn source(target: &Target) -> String {
    match target {
        Target::Command { program, args } => {
            std::iter::once(program).chain(args).map(|word| shown(word)).collect::<Vec<_>>().join(" ")
        }
        target => target.label(),
    }
}

/// Compares on a blocking thread: lists may be long, and signals must be handled meanwhile.
async fn compare(ui: &Ui, old: Snapshot, new: Snapshot, only: Vec<Counted>) -> Exit {
    let found = spawn_blocking(move || Comparison::between(old, new, only)).await;
    let Ok(found) = found else {
        let failure = Failure::new("E_INTERNAL", Exit::Connection, Phase::List, "the comparison failed")
            .hint("this is a bug in mcpjoin: report it to its authors");
        ui.failure(&failure);
        return failure.exit;
    };
    found.remark(ui);
    let counted = found.exit(Exit::Done);
    let outcome = ui.aside(move |ui| found.print(ui)).await;
    match written(ui, outcome) {
        Exit::Done => counted,
        exit => exit,
    }
}

/// The changes from one side to the other.
struct Comparison {
    old: Snapshot,
    new: Snapshot,
    changes: Vec<Change>,
    /// The classes to show and to count; all if empty.
    only: Vec<Counted>,
}

impl Comparison {
    fn between(old: Snapshot, new: Snapshot, only: Vec<Counted>) -> Self {
        let changes = changes(&old.offer, &new.offer);
        Self { old, new, changes, only }
    }

    /// Whether the class is selected.
    fn is_shown(&self, class: ChangeClass) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only.class() == class)
    }

    fn count(&self, class: ChangeClass) -> usize {
        self.changes.iter().filter(|change| change.class == class).count()
    }

    /// Whether there is a change that counts.
    fn has_changed(&self) -> bool {
        self.changes.iter().any(|change| change.class != ChangeClass::Noted && self.is_shown(change.class))
    }

    /// The exit code. `printed`: the exit code of the output.
    fn exit(&self, printed: Exit) -> Exit {
        if printed == Exit::Done && self.has_changed() { Exit::Faults } else { printed }
    }

    /// Remarks which sides are compared.
    fn remark(&self, ui: &Ui) {
        for (which, side) in [("OLD", &self.old), ("NEW", &self.new)] {
            ui.styled_remark(&page::header(which, side));
        }
    }

    /// Prints the changes. Secrets that were given to either server are hidden: a snapshot may contain what the other
    /// server said.
    fn print(&self, ui: &Ui) -> Result<(), Unwritten> {
        if ui.json {
            let text = document(self);
            return ui.result(&crate::visible::json(&ui.hidden_json(&text)));
        }
        ui.page(&ui.hidden_whole(&page::page(self)))
    }
}

/// The comparison for a program. Values of a server are copied unchanged.
fn document(found: &Comparison) -> String {
    let shown = found.changes.iter().filter(|change| found.is_shown(change.class));
    let changes: Vec<String> = shown.map(change_of).collect();
    let classes = [ChangeClass::Breaks, ChangeClass::Reads, ChangeClass::Adds, ChangeClass::Noted];
    object::write([
        ("old", side_of(&found.old)),
        ("new", side_of(&found.new)),
        ("changed", found.has_changed().to_string()),
        ("counts", object::write(classes.map(|class| (class.as_str(), found.count(class))))),
        ("changes", format!("[{}]", changes.join(","))),
    ])
}

fn side_of(snapshot: &Snapshot) -> String {
    let source = Raw::string(&snapshot.source);
    object::write_known([
        ("source", Some(&source)),
        ("protocolVersion", snapshot.offer.protocol_version.as_ref()),
        ("serverInfo", snapshot.offer.server_info.as_ref()),
    ])
}

fn change_of(change: &Change) -> String {
    let text = |text: &str| Some(Raw::string(text));
    object::write_known([
        ("class", text(change.class.as_str())),
        ("kind", text(change.kind.as_str())),
        ("of", text(change.of.as_str())),
        ("name", change.name.as_deref().map(Raw::string)),
        ("path", text(&change.path)),
        ("old", change.old.clone()),
        ("new", change.new.clone()),
    ])
}
