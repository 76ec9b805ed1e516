//! `mcpjoin info`: a server, and the number of items that it has.

use std::fmt::Write;

use mcpjoin::client::Client;
use mcpjoin::proto::{Kind, Raw};

use super::lists::{ALL, MAX_PAGES, Part, era, error_of, read, server_name};
use super::{print_page, report_failures, target_of};
use crate::args::Info;
use crate::connect::{About, Place, with_server};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::object::{self, Object};
use crate::progress::Waiting;
use crate::target::path_shown;
use crate::ui::{FAINT, HEADING, Ui};
use crate::visible;

/// Shows the server. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: Info, escaped: bool) -> Result<Exit, Failure> {
    let target = target_of(ui, "info", &args.connect, args.words, escaped)?;
    let connect = args.connect.answering(args.questions);
    Ok(with_server(ui, &target, &connect, async |client, about| info(ui, client, about).await))
}

/// The number of items of each list of [`ALL`]; `None` where the server has no such list, or it could not be read.
type Counts = [Option<usize>; ALL.len()];

/// Shows the server of a client.
pub(super) async fn info(ui: &Ui, client: &Client, about: &About) -> Result<Exit, Failure> {
    let mut counts = Counts::default();
    let (mut errors, mut failures) = (Vec::new(), Vec::new());
    let mut read_so_far = [0_usize; ALL.len()];
    let reading = read(ui, client, &about.tools, &ALL, MAX_PAGES, async |part| {
        let place = |member: &str| ALL.iter().position(|list| list.member == member).unwrap_or_default();
        match part {
            Part::Page(section, items) => read_so_far[place(section.member)] += items.len(),
            Part::End(section) => {
                let place = place(section.member);
                counts[place] = Some(read_so_far[place]);
            }
            Part::Failed(section, failure) => {
                errors.push(error_of(ui, section, &failure));
                failures.push(*failure);
            }
            Part::Pause => {}
        }
        Ok(())
    });
    // A failure that ends the connection is among the failures, too.
    let _ = Waiting::new(ui, "counting").wait(reading).await;
    let text = if ui.json {
        document(ui, client, about, &counts, &errors)
    } else {
        page(ui, client, about, &counts, !errors.is_empty())
    };
    match print_page(ui, text).await {
        Exit::Done => report_failures(ui, failures),
        exit => Ok(exit),
    }
}

/// The capabilities of the server, each with its enabled parts: `resources (subscribe)`.
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

/// A line for each fact. `has_failed`: a list could not be read.
fn page(ui: &Ui, client: &Client, about: &About, counts: &Counts, has_failed: bool) -> String {
    let peer = client.peer();
    let mut out = String::new();
    let _ = writeln!(out, "{HEADING}{}{HEADING:#}", server_name(client));
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
        row("entry", &format!("{}, {}:{}", visible::line(name), path_shown(&place.file), place.line));
    }
    let able = capabilities(client);
    row("capabilities", if able.is_empty() { "none".into() } else { able.join(", ") }.as_str());
    let counted = ALL.iter().zip(counts).filter_map(|(list, count)| {
        let (many, count) = (list.heading.to_lowercase(), (*count)?);
        Some(format!("{count} {}", if count == 1 { many.trim_end_matches('s') } else { &many }))
    });
    let mut counted: Vec<String> = counted.collect();
    if has_failed {
        counted.push(if counted.is_empty() { "not known" } else { "the rest is not known" }.into());
    }
    row("offers", if counted.is_empty() { "nothing".into() } else { counted.join(", ") }.as_str());
    if let Some(instructions) = peer.instructions.as_deref().filter(|text| !text.trim().is_empty()) {
        row("instructions", instructions.trim());
    }
    out
}

/// The facts as one object, in the shapes of the specification where it has them.
fn document(ui: &Ui, client: &Client, about: &About, counts: &Counts, errors: &[String]) -> String {
    let peer = client.peer();
    let text = |text: &str| Some(Raw::string(text).to_string());
    let raw = |raw: Option<Raw>| raw.map(|raw| raw.to_string());
    let entry = about.entry.as_ref().map(|(name, Place { file, line })| {
        object::write_known([
            ("name", text(name)),
            ("file", text(&file.to_string_lossy())),
            ("line", Some(line.to_string())),
        ])
    });
    visible::json(&object::write_known([
        ("server", text(&ui.hidden(&about.shown))),
        ("transport", text(about.transport)),
        ("entry", entry),
        ("protocolVersion", text(peer.profile.version.as_str())),
        ("era", text(&era(client))),
        ("serverInfo", raw(peer.info.as_ref().and_then(|info| Raw::from_value(info.as_ref()).ok()))),
        ("capabilities", raw(peer.server_capabilities().and_then(|server| Raw::from_value(server).ok()))),
        ("instructions", peer.instructions.as_deref().and_then(text)),
        ("counts", Some(object::write_known(ALL.iter().map(|list| list.member).zip(*counts)))),
        ("errors", (!errors.is_empty()).then(|| format!("[{}]", errors.join(",")))),
    ]))
}
