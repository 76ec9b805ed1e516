//! `mcpjoin list`: what a server has.

use std::fmt::Write;

use mcpjoin::client::Client;
use mcpjoin::proto::{Raw, code};
use unicode_width::UnicodeWidthStr;

use super::{misused, written};
use crate::args::{Connect, List};
use crate::config::{self, ToolFilter};
use crate::connect::{Answer, with_each_server, with_tools};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object::{self, Object};
use crate::progress::Waiting;
use crate::target;
use crate::ui::{HEADING, NAME, Ui};
use crate::visible;

/// A list has at most so many pages.
const PAGES: usize = 1000;
/// Names are aligned up to this width; longer ones push their description away.
const NAMES: usize = 56;
/// Below this width descriptions stand under their names.
const NARROW: usize = 50;

/// One of the lists that a server may have.
pub(super) struct Section {
    heading: &'static str,
    method: &'static str,
    /// The member of the result, and of ours.
    member: &'static str,
    /// The member of an item by which it is called.
    name: &'static str,
}

pub(super) const TOOLS: Section =
    Section { heading: "Tools", method: "tools/list", member: "tools", name: "name" };
const RESOURCES: Section =
    Section { heading: "Resources", method: "resources/list", member: "resources", name: "uri" };
const TEMPLATES: Section = Section {
    heading: "Resource templates",
    method: "resources/templates/list",
    member: "resourceTemplates",
    name: "uriTemplate",
};
pub(super) const PROMPTS: Section =
    Section { heading: "Prompts", method: "prompts/list", member: "prompts", name: "name" };

/// Lists what the server has, or every server of the configuration. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: List, escaped: bool) -> Result<Exit, Failure> {
    if args.words.is_empty() && args.connect.server.is_none() {
        return every(ui, &args.connect);
    }
    let invocation = target::without_operands("list", args.connect.server.as_deref(), args.words, escaped)
        .map_err(misused)?;
    invocation.notes.iter().for_each(|note| ui.note(note));
    Ok(with_tools(ui, &invocation.target, &args.connect, async |client, tools| {
        Waiting::new(ui, "waiting").wait(list(ui, client, tools)).await
    }))
}

/// What a server has, as far as it could be read.
pub(super) struct Listed {
    /// Which server it is, in one line.
    header: String,
    /// Everything as one JSON object.
    document: String,
    lists: Vec<(&'static Section, Vec<Raw>)>,
    /// What one list lacks hides nothing of the others.
    failures: Vec<Failure>,
}

impl Listed {
    /// Its tools, as it sent them.
    pub(super) fn tools(&self) -> &[Raw] {
        self.lists
            .iter()
            .find(|(section, _)| section.member == TOOLS.member)
            .map_or(&[], |(_, tools)| tools.as_slice())
    }
}

async fn list(ui: &Ui, client: &Client, filter: &ToolFilter) -> Result<Exit, Failure> {
    let Listed { header, document, lists, failures } = gather(ui, client, filter).await?;
    let text = if ui.json {
        document
    } else {
        ui.note(&header);
        // Where there is only a failure to tell, nothing else is told.
        if lists.is_empty() && !failures.is_empty() { String::new() } else { page(&lists, ui.width()) }
    };
    let outcome = ui.aside(move |ui| ui.result(&text)).await;
    let exit = written(ui, outcome);
    if exit != Exit::Done {
        return Ok(exit);
    }
    let mut failures = failures.into_iter();
    match failures.next_back() {
        Some(last) => {
            failures.for_each(|failure| ui.failure(&failure));
            Err(last)
        }
        None => Ok(exit),
    }
}

/// Asks for everything that the server says it has.
async fn gather(ui: &Ui, client: &Client, filter: &ToolFilter) -> Result<Listed, Failure> {
    let peer = client.peer();
    let (tools, resources, prompts) = peer.server_capabilities().map_or((false, false, false), |server| {
        (server.tools.is_some(), server.resources.is_some(), server.prompts.is_some())
    });
    let wanted = |section, wanted: bool| async move {
        if wanted { Some((section, items(client, section).await)) } else { None }
    };
    let (tools, resources, templates, prompts) = tokio::join!(
        wanted(&TOOLS, tools),
        wanted(&RESOURCES, resources),
        wanted(&TEMPLATES, resources),
        wanted(&PROMPTS, prompts),
    );
    let mut lists: Vec<(&Section, Vec<Raw>)> = Vec::new();
    let mut failures = Vec::new();
    for (section, outcome) in [tools, resources, templates, prompts].into_iter().flatten() {
        match outcome {
            Ok(items) if section.member == TOOLS.member => {
                lists.push((section, allowed(ui, items, filter)));
            }
            Ok(items) => lists.push((section, items)),
            Err(failure) if failure.exit == Exit::ServerError => failures.push(failure),
            Err(failure) => return Err(failure),
        }
    }
    Ok(Listed { header: header(client), document: document(client, &lists), lists, failures })
}

/// What each server of the configuration has.
pub(super) fn gather_each(
    ui: &Ui,
    connect: &Connect,
    told: impl AsyncFnOnce(Vec<Answer<Listed>>) -> Exit,
) -> Result<Exit, Failure> {
    if connect.trace.is_some() {
        let problem =
            "--trace writes down what crosses to one server, and all of the configuration are meant";
        return Err(Failure::usage(problem, "leave out --trace, or name one server"));
    }
    let targets = config::all(ui, &connect.configured)?;
    Ok(with_each_server(
        ui,
        &targets,
        connect,
        |ui, client, tools| Box::pin(async move { gather(&ui, &client, &tools).await }),
        told,
    ))
}

/// Tells why some of them could not be read; the exit is that of the first.
pub(super) fn told(ui: &Ui, failures: &[(String, Failure)]) -> Exit {
    // In a document they stand with the others.
    for (name, failure) in failures.iter().filter(|_| !ui.json) {
        let message = format!("{name}: {}", failure.message);
        ui.failure(&Failure { message, ..failure.clone() });
    }
    failures.first().map_or(Exit::Done, |(_, failure)| failure.exit)
}

fn every(ui: &Ui, connect: &Connect) -> Result<Exit, Failure> {
    gather_each(ui, connect, async |answers| {
        let mut failures = Vec::new();
        let (mut documents, mut pages) = (Vec::new(), Vec::new());
        for Answer { name, outcome } in answers {
            let quoted = Raw::string(&name);
            let member = match outcome {
                Ok(listed) => {
                    let page = page(&listed.lists, ui.width());
                    pages.push(format!("{NAME}{}{NAME:#}: {}\n{page}", visible::line(&name), listed.header));
                    failures.extend(listed.failures.into_iter().map(|failure| (name.clone(), failure)));
                    ("server", listed.document)
                }
                Err(failure) => {
                    let error = failure.json()["error"].to_string();
                    failures.push((name, failure));
                    ("error", error)
                }
            };
            documents.push(object::write([("name", quoted.as_str()), (member.0, &member.1)]));
        }
        let text = if ui.json {
            visible::json(&format!("{{\"servers\":[{}]}}", documents.join(",")))
        } else {
            pages.join("\n")
        };
        let text = ui.hidden(&text).into_owned();
        let exit = written(ui, ui.aside(move |ui| ui.result(&text)).await);
        let failed = told(ui, &failures);
        if exit == Exit::Done { failed } else { exit }
    })
}

/// The tools that the configuration allows.
fn allowed(ui: &Ui, mut tools: Vec<Raw>, filter: &ToolFilter) -> Vec<Raw> {
    let all = tools.len();
    // What has no name cannot be called, and is shown for what it is.
    tools.retain(|tool| {
        Object::of(tool).and_then(|tool| tool.text(TOOLS.name)).is_none_or(|name| filter.allows(&name))
    });
    if tools.len() < all {
        ui.note(&format!("the configuration hides {} of {all} tools", all - tools.len()));
    }
    tools
}

/// Every item of a list, as the server sent it.
async fn items(client: &Client, section: &Section) -> Result<Vec<Raw>, Failure> {
    let mut items = Vec::new();
    let mut cursors: Vec<String> = Vec::new();
    loop {
        let page = match page_of(client, section, cursors.last()).await {
            Ok(page) => page,
            // Many a server has resources and does not know the method for templates: it has none.
            Err(failure)
                if section.member == TEMPLATES.member
                    && failure
                        .seen
                        .remote
                        .as_ref()
                        .is_some_and(|error| error.code == code::METHOD_NOT_FOUND) =>
            {
                return Ok(items);
            }
            Err(failure) => return Err(failure),
        };
        let bad =
            |what: &str| Failure::bad_reply(format!("the result of {}: {what}", section.method), Phase::List);
        items.extend(
            page.items(section.member).ok_or_else(|| bad(&format!("it has no array {}", section.member)))?,
        );
        let Some(next) = page.text("nextCursor") else {
            return Ok(items);
        };
        if cursors.contains(&next) {
            return Err(bad("its pages go round in a circle"));
        }
        if cursors.len() + 1 >= PAGES {
            return Err(bad(&format!("it has more pages than the limit of {PAGES}")));
        }
        cursors.push(next);
    }
}

async fn page_of(client: &Client, section: &Section, cursor: Option<&String>) -> Result<Object, Failure> {
    let cursor = cursor.map(|cursor| Raw::string(cursor));
    let params = cursor.as_ref().map(|cursor| object::write([("cursor", cursor.as_str())]));
    let params = params.and_then(|params| Raw::parse(params).ok());
    let result = client
        .send_request(section.method, params)
        .await
        .map_err(|error| Failure::client(&error, Phase::List))?;
    Object::of(&result).ok_or_else(|| {
        Failure::bad_reply(format!("the result of {} is no object", section.method), Phase::List)
    })
}

/// The item of that name as the server lists it; `None` when it lists no such item. Reads no further than it must.
pub(super) async fn find(client: &Client, section: &Section, name: &str) -> Result<Option<Object>, Failure> {
    let mut cursors: Vec<String> = Vec::new();
    loop {
        let page = page_of(client, section, cursors.last()).await?;
        let found = page.items(section.member).unwrap_or_default().iter().find_map(|item| {
            Object::of(item).filter(|item| item.text(section.name).as_deref() == Some(name))
        });
        if found.is_some() {
            return Ok(found);
        }
        match page.text("nextCursor").filter(|next| !cursors.contains(next) && cursors.len() < PAGES) {
            Some(next) => cursors.push(next),
            None => return Ok(None),
        }
    }
}

/// Everything as one JSON object, in the specification's own shapes.
fn document(client: &Client, lists: &[(&Section, Vec<Raw>)]) -> String {
    let peer = client.peer();
    let version = Raw::string(peer.profile.version.as_str());
    let info = peer.info.as_ref().and_then(|info| Raw::from_value(info.as_ref()).ok());
    let capabilities = peer.server_capabilities().and_then(|server| Raw::from_value(server).ok());
    let instructions = peer.instructions.as_deref().map(Raw::string);
    let arrays: Vec<(&str, String)> =
        lists.iter().map(|(section, items)| (section.member, object::write_array(items))).collect();
    let facts = [
        ("protocolVersion", Some(&version)),
        ("serverInfo", info.as_ref()),
        ("capabilities", capabilities.as_ref()),
        ("instructions", instructions.as_ref()),
    ];
    let facts = facts.into_iter().filter_map(|(name, value)| Some((name, value?.as_str())));
    visible::json(&object::write(facts.chain(arrays.iter().map(|(name, array)| (*name, array.as_str())))))
}

/// Which server it is, in one line.
fn header(client: &Client) -> String {
    let peer = client.peer();
    let server = peer.info.as_ref().map_or_else(
        || "a server without a name".to_owned(),
        |info| format!("{} {}", visible::line(&info.name), visible::line(&info.version)),
    );
    let era = format!("{:?}", peer.profile.era).to_lowercase();
    format!("{HEADING}{server}{HEADING:#}, protocol {} ({era})", peer.profile.version.as_str())
}

/// Everything for a person. `width`: of the terminal, in columns; without one nothing is cut.
fn page(lists: &[(&Section, Vec<Raw>)], width: Option<usize>) -> String {
    let sections: Vec<String> = lists
        .iter()
        .filter(|(_, items)| !items.is_empty())
        .map(|(section, items)| {
            let rows: Vec<(String, String)> = items.iter().map(|item| row(section, item)).collect();
            let mut out = format!("{HEADING}{}{HEADING:#}\n", section.heading);
            table(&mut out, &rows, width);
            out
        })
        .collect();
    if sections.is_empty() {
        return "nothing is offered\n".into();
    }
    sections.join("\n")
}

/// By what it is called, and the first line of what is said about it.
fn row(section: &Section, item: &Raw) -> (String, String) {
    let Some(item) = Object::of(item) else {
        return ("(not an object)".into(), String::new());
    };
    let text = |member: &str| item.text(member).filter(|text| !text.trim().is_empty());
    let name = text(section.name)
        .map_or_else(|| "(without a name)".into(), |name| visible::line(&name).into_owned());
    let said = text("description").or_else(|| text("title")).or_else(|| {
        // A resource is called by its address, and its name says what it is.
        if section.name == "name" { None } else { text("name") }
    });
    (name, said.map_or_else(String::new, |said| visible::first_line(&said).into_owned()))
}

/// Two columns, or one below the other where there is little room.
fn table(out: &mut String, rows: &[(String, String)], width: Option<usize>) {
    let names =
        rows.iter().map(|(name, _)| name.width()).filter(|width| *width <= NAMES).max().unwrap_or_default();
    for (name, said) in rows {
        let _ = write!(out, "  {NAME}{name}{NAME:#}");
        if !said.is_empty() {
            let used = match width {
                Some(width) if width < NARROW => {
                    out.push_str("\n    ");
                    4
                }
                _ => {
                    let gap = names.saturating_sub(name.width()) + 2;
                    out.push_str(&" ".repeat(gap));
                    2 + name.width() + gap
                }
            };
            match width {
                Some(width) => out.push_str(&visible::cut(said, width.saturating_sub(used).max(1))),
                None => out.push_str(said),
            }
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;

    use super::{RESOURCES, TOOLS, page};

    fn items(json: &str) -> Vec<Raw> {
        Raw::parse(json.as_bytes().to_vec()).unwrap().decode().unwrap()
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn names_and_first_lines_are_aligned() {
        let tools = items(
            r#"[{"name":"add","description":"Adds.\nAnd more."},{"name":"漢字","title":"Signs"},
                {"name":"bare"},{"name":"\u001b[31mred","description":"x\u202ey"},7,{"description":"?"}]"#,
        );
        let resources = items(r#"[{"uri":"a://b","name":"first"}]"#);
        let expected = "\
Tools
  add               Adds.
  漢字              Signs
  bare
  \\u{1b}[31mred     x\\u{202e}y
  (not an object)
  (without a name)  ?

Resources
  a://b  first
";
        assert_eq!(plain(&page(&[(&TOOLS, tools), (&RESOURCES, resources)], None)), expected);
    }

    #[test]
    fn i175_every_width_is_possible() {
        let long = "x".repeat(200);
        let tools = items(&format!(
            r#"[{{"name":"{long}","description":"{long}漢"}},{{"name":"a","description":"b c"}}]"#
        ));
        for width in (0..120).chain([usize::MAX]) {
            let text = plain(&page(&[(&TOOLS, tools.clone())], Some(width)));
            assert!(text.starts_with("Tools\n"), "{width}");
        }
        let text = plain(&page(&[(&TOOLS, items(r#"[{"name":"a","description":"bcd"}]"#))], Some(1)));
        assert_eq!(text, "Tools\n  a\n    …\n");
        assert_eq!(page(&[], None), "nothing is offered\n");
    }
}
