//! `mcpjoin info`: one server, and how much it has.

use std::fmt::Write;

use mcpjoin::client::Client;
use mcpjoin::proto::{Kind, Raw};

use super::list::{ALL, PAGES, Part, broken, failed, read};
use super::{misused, written};
use crate::args::Info;
use crate::connect::{About, with_about};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::object::{self, Object};
use crate::progress::Waiting;
use crate::target::{self, shown};
use crate::ui::{FAINT, HEADING, Ui};
use crate::visible;

/// Shows the server. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: Info, escaped: bool) -> Result<Exit, Failure> {
    let invocation = target::without_operands("info", args.connect.server.as_deref(), args.words, escaped)
        .map_err(misused)?;
    invocation.notes.iter().for_each(|note| ui.note(note));
    Ok(with_about(ui, &invocation.target, &args.connect, async |client, about| info(ui, client, about).await))
}

/// How many items a list has, in its words.
struct Count {
    member: &'static str,
    one: &'static str,
    many: &'static str,
    /// `None`: the server has no such list, or it could not be read.
    number: Option<usize>,
}

fn counts() -> [Count; 4] {
    [
        ("tools", "tool", "tools"),
        ("resources", "resource", "resources"),
        ("resourceTemplates", "resource template", "resource templates"),
        ("prompts", "prompt", "prompts"),
    ]
    .map(|(member, one, many)| Count { member, one, many, number: None })
}

async fn info(ui: &Ui, client: &Client, about: &About) -> Result<Exit, Failure> {
    let mut counts = counts();
    let (mut errors, mut failures) = (Vec::new(), Vec::new());
    let mut begun = [0_usize; 4];
    let reading = read(ui, client, &about.tools, &ALL, PAGES, async |part| {
        let place = |member: &str| counts.iter().position(|count| count.member == member).unwrap_or_default();
        match part {
            Part::Page(section, items) => begun[place(section.member())] += items.len(),
            Part::Over(section) => {
                let place = place(section.member());
                counts[place].number = Some(begun[place]);
            }
            Part::Broken(section, failure) => {
                errors.push(broken(ui, section, &failure));
                failures.push(*failure);
            }
            Part::Pause => {}
        }
        Ok(())
    });
    // What ends the connection is among the failures, too.
    let _ = Waiting::new(ui, "counting").wait(reading).await;
    let text = if ui.json {
        document(ui, client, about, &counts, &errors)
    } else {
        page(ui, client, about, &counts)
    };
    let outcome = ui.aside(move |ui| ui.page(&text)).await;
    match written(ui, outcome) {
        Exit::Done => failed(ui, failures),
        exit => Ok(exit),
    }
}

/// What the server can do, each with what it says of it: `resources (subscribe)`.
fn capabilities(client: &Client) -> Vec<String> {
    let peer = client.peer();
    let declared = peer.server_capabilities().and_then(|server| Raw::from_value(server).ok());
    let declared = declared.as_ref().and_then(Object::of);
    let one = |(name, value): (String, Raw)| {
        let parts: Vec<String> = Object::of(&value)
            .into_iter()
            .flatten()
            .filter(|(_, value)| value.kind() == Kind::Object || value.as_str() == "true")
            .map(|(name, _)| visible::line(&name).into_owned())
            .collect();
        let name = visible::line(&name).into_owned();
        if parts.is_empty() { name } else { format!("{name} ({})", parts.join(", ")) }
    };
    declared.into_iter().flatten().map(one).collect()
}

/// A line for each fact.
fn page(ui: &Ui, client: &Client, about: &About, counts: &[Count]) -> String {
    let peer = client.peer();
    let mut out = String::new();
    let name = peer.info.as_ref().map_or_else(
        || "a server without a name".to_owned(),
        |info| format!("{} {}", visible::line(&info.name), visible::line(&info.version)),
    );
    let _ = writeln!(out, "{HEADING}{name}{HEADING:#}");
    let mut row = |label: &str, text: &str| {
        for (place, line) in text.lines().enumerate() {
            let label = if place == 0 { label } else { "" };
            let _ = writeln!(out, "  {FAINT}{label:<13}{FAINT:#} {}", visible::line(line).trim_end());
        }
    };
    if let Some(title) = peer.info.as_ref().and_then(|info| info.title.as_deref()) {
        row("title", title);
    }
    row("protocol", &format!("{} ({})", peer.profile.version.as_str(), era(client)));
    row("transport", about.transport);
    row(if client.child().is_some() { "command" } else { "url" }, &ui.hidden(&about.shown));
    if let Some((name, place)) = &about.entry {
        row("entry", &format!("{}, {}:{}", visible::line(name), shown(place.file.as_ref()), place.line));
    }
    let able = capabilities(client);
    row("capabilities", if able.is_empty() { "none".into() } else { able.join(", ") }.as_str());
    let counted: Vec<String> = counts
        .iter()
        .filter_map(|count| {
            let number = count.number?;
            Some(format!("{number} {}", if number == 1 { count.one } else { count.many }))
        })
        .collect();
    row("offers", if counted.is_empty() { "nothing".into() } else { counted.join(", ") }.as_str());
    if let Some(instructions) = peer.instructions.as_deref().filter(|text| !text.trim().is_empty()) {
        row("instructions", instructions.trim());
    }
    out
}

fn era(client: &Client) -> String {
    format!("{:?}", client.profile().era).to_lowercase()
}

/// One object, in the specification's own shapes where it has one.
fn document(ui: &Ui, client: &Client, about: &About, counts: &[Count], errors: &[String]) -> String {
    let peer = client.peer();
    let entry = about.entry.as_ref().map(|(name, place)| {
        let (name, file) = (Raw::string(name), Raw::string(&place.file.to_string_lossy()));
        object::write([("name", name.as_str()), ("file", file.as_str()), ("line", &place.line.to_string())])
    });
    let numbers: Vec<(&str, String)> =
        counts.iter().filter_map(|count| Some((count.member, count.number?.to_string()))).collect();
    let numbers = object::write(numbers.iter().map(|(name, number)| (*name, number.as_str())));
    let text = |text: &str| Some(Raw::string(text).as_str().to_owned());
    let raw = |raw: Option<Raw>| raw.map(|raw| raw.as_str().to_owned());
    let members = [
        ("server", text(&ui.hidden(&about.shown))),
        ("transport", text(about.transport)),
        ("entry", entry),
        ("protocolVersion", text(peer.profile.version.as_str())),
        ("era", text(&era(client))),
        ("serverInfo", raw(peer.info.as_ref().and_then(|info| Raw::from_value(info.as_ref()).ok()))),
        ("capabilities", raw(peer.server_capabilities().and_then(|server| Raw::from_value(server).ok()))),
        ("instructions", peer.instructions.as_deref().and_then(text)),
        ("counts", Some(numbers)),
        ("errors", (!errors.is_empty()).then(|| format!("[{}]", errors.join(",")))),
    ];
    let members: Vec<(&str, String)> =
        members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    visible::json(&object::write(members.iter().map(|(name, value)| (*name, value.as_str()))))
}
