//! `mcpjoin diff`: what a server offers now beside what it offered before. What has changed, `mcpjoin_rules` finds out; here
//! both sides are read, and what was found is printed.

mod lines;
mod page;
mod side;
mod words;

use std::ops::ControlFlow;

use mcpjoin::client::Client;
use mcpjoin::proto::Raw;
use mcpjoin_rules::{Change, ChangeClass, changes};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use self::side::{Said, Side};
use super::list::PAGES;
use super::written;
use crate::args::{Counted, Diff};
use crate::config::ToolFilter;
use crate::connect::{ServerOutput, Stop, with_each_server};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object;
use crate::target::{Target, shown};
use crate::ui::{Ui, Unwritten};

/// Compares both sides. `separated`: `--` stood between the first and the command of the second.
pub(crate) fn run(ui: &Ui, args: Diff, separated: bool) -> Result<Exit, Failure> {
    let Diff { words, command, only, max_pages, connect, .. } = args;
    let sides = side::of_words(ui, connect.server.as_deref(), words, separated.then_some(command))?;
    let targets: Vec<Target> = sides
        .iter()
        .filter_map(|side| match side {
            Side::Server(target) => Some((**target).clone()),
            Side::Kept(_) => None,
        })
        .collect();
    let pages = max_pages.map_or(PAGES, |pages| pages as usize);
    if targets.is_empty()
        && let Some(option) = connect.given().or_else(|| max_pages.map(|_| "--max-pages"))
    {
        let problem = format!("{option} is for a server, and both sides are files");
        return Err(Failure::usage(problem, format!("leave out {option}")));
    }
    if targets.len() == 2 && connect.trace.is_some() {
        let problem = "--trace writes down what crosses to one server, and there are two";
        let hint = "leave out --trace, or write one of them down: mcpjoin list --json TARGET > old.json";
        return Err(Failure::usage(problem, hint));
    }
    let [old, new] = match sides {
        [Side::Kept(old), Side::Kept(new)] => {
            let found = Found::between(*old, *new, only);
            found.remark(ui);
            let outcome = found.print(ui);
            return Ok(found.exit(written(ui, outcome)));
        }
        sides => sides,
    };
    let work = move |ui: Ui, client: Client, filter: ToolFilter, parts: mpsc::Sender<Said>| async move {
        let said = side::ask(&ui, &client, &filter, pages).await?;
        // Closed when the comparison was stopped.
        let _ = parts.send(said).await;
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

/// What a side offers. Prints why there is nothing.
async fn read(
    ui: &Ui,
    which: &str,
    side: Side,
    servers: &mut impl Iterator<Item = ServerOutput<Said>>,
) -> Result<Said, Exit> {
    let lost =
        || Failure::new("E_INTERNAL", Exit::Connection, Phase::List, "this server was lost on the way");
    let outcome = match (side, servers) {
        (Side::Kept(said), _) => return Ok(*said),
        (Side::Server(target), servers) => match servers.next() {
            Some(mut server) => {
                let source = source(&target);
                let said = server.next(ui).await;
                let outcome = server.outcome(ui).await;
                outcome.and_then(|()| Ok(Said { source, ..said.ok_or_else(lost)? }))
            }
            None => Err(lost()),
        },
    };
    outcome.map_err(|failure| {
        ui.failure(&Failure { message: format!("{which}: {}", failure.message), ..failure.clone() });
        failure.exit
    })
}

/// What a server is called by: a command by all of its words, the secrets among which are hidden wherever it is printed.
fn source(target: &Target) -> String {
    match target {
        Target::Command { program, args } => {
            std::iter::once(program).chain(args).map(|word| shown(word)).collect::<Vec<_>>().join(" ")
        }
        target => target.label(),
    }
}

/// Compares on a blocking thread: lists may be long, and signals are handled meanwhile.
async fn compare(ui: &Ui, old: Said, new: Said, only: Vec<Counted>) -> Exit {
    let found = spawn_blocking(move || Found::between(old, new, only)).await;
    let Ok(found) = found else {
        let failure = Failure::new("E_INTERNAL", Exit::Connection, Phase::List, "the comparison was lost")
            .hint("this is a fault of mcpjoin: tell its authors");
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

/// What has changed from one side to the other.
struct Found {
    old: Said,
    new: Said,
    changes: Vec<Change>,
    /// The classes that count; without one, all that do.
    only: Vec<Counted>,
}

impl Found {
    fn between(old: Said, new: Said, only: Vec<Counted>) -> Self {
        let changes = changes(&old.offer, &new.offer);
        Self { old, new, changes, only }
    }

    /// Whether it is one of those that were asked for.
    fn is_shown(&self, class: ChangeClass) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only.class() == class)
    }

    fn count(&self, class: ChangeClass) -> usize {
        self.changes.iter().filter(|change| change.class == class).count()
    }

    /// Whether something has changed that counts.
    fn has_changed(&self) -> bool {
        self.changes.iter().any(|change| change.class != ChangeClass::Noted && self.is_shown(change.class))
    }

    /// `printed`: how printing it went.
    fn exit(&self, printed: Exit) -> Exit {
        if printed == Exit::Done && self.has_changed() { Exit::Faults } else { printed }
    }

    /// Which sides they are.
    fn remark(&self, ui: &Ui) {
        for (which, side) in [("OLD", &self.old), ("NEW", &self.new)] {
            ui.styled_remark(&page::header(which, side));
        }
    }

    /// Prints it, without what the servers were given to hide: what one of them says is in a pinned file, and not its own any
    /// more.
    fn print(&self, ui: &Ui) -> Result<(), Unwritten> {
        if ui.json {
            let text = document(self);
            return ui.result(&crate::visible::json(&ui.hidden_json(&text)));
        }
        ui.page(&ui.hidden_whole(&page::page(self)))
    }
}

/// The comparison for a program. It is put together from texts: what a server has sent is passed on untouched.
fn document(found: &Found) -> String {
    let shown = found.changes.iter().filter(|change| found.is_shown(change.class));
    let changes: Vec<String> = shown.map(change_of).collect();
    let classes = [ChangeClass::Breaks, ChangeClass::Reads, ChangeClass::Adds, ChangeClass::Noted];
    let counts = classes.map(|class| (class.as_str(), found.count(class).to_string()));
    object::write([
        ("old", side_of(&found.old).as_str()),
        ("new", side_of(&found.new).as_str()),
        ("changed", if found.has_changed() { "true" } else { "false" }),
        ("counts", &object::write(counts.iter().map(|(class, count)| (*class, count.as_str())))),
        ("changes", &format!("[{}]", changes.join(","))),
    ])
}

fn side_of(said: &Said) -> String {
    let source = Raw::string(&said.source);
    let members = [
        ("source", Some(&source)),
        ("protocolVersion", said.offer.protocol_version.as_ref()),
        ("serverInfo", said.offer.server_info.as_ref()),
    ];
    object::write(members.iter().filter_map(|(name, value)| Some((*name, (*value)?.as_str()))))
}

fn change_of(change: &Change) -> String {
    let text = |text: &str| Some(Raw::string(text));
    let members = [
        ("class", text(change.class.as_str())),
        ("kind", text(change.kind.as_str())),
        ("of", text(change.of.as_str())),
        ("name", change.name.as_deref().map(Raw::string)),
        ("path", text(&change.path)),
        ("old", change.old.clone()),
        ("new", change.new.clone()),
    ];
    object::write(members.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?.as_str()))))
}
