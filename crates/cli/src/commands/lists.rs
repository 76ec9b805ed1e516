//! The lists of a server: tools, resources, resource templates and prompts, read page by page.
//!
//! Used by `list`, `info`, `search` and `diff`, which read whole lists, and by the verbs that look for one item. Paging is
//! the library's ([`RawPages`]). At most one page of each list is in memory. Prints only a note on tools that the
//! configuration hides. <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::time::Duration;

use mcpjoin::client::{Client, ClientError, RawPages};
use mcpjoin::proto::{Raw, code};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::refuse_trace;
use crate::args::Connect;
use crate::config::{self, ToolFilter};
use crate::connect::{ServerOutput, Stop, with_each_server};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::object::Object;
use crate::ui::{HEADING, Ui};
use crate::visible::{self, cut_chars};

/// The maximum number of pages of a list without `--max-pages`.
pub(super) const MAX_PAGES: usize = 1000;
const MORE_PAGES: &str =
    "mcpjoin list --max-pages NUMBER reads more; a list without an end is a bug in the server";
/// The names of a list that are compared with each other.
const MAX_COMPARED_NAMES: usize = 10_000;
/// The repeated names that a note repeats, and the length of each.
const MAX_REPEATED_SHOWN: usize = 5;
const MAX_REPEATED_CHARS: usize = 60;
/// When the next page takes longer than this, the items that were read so far are shown.
const PAGE_PAUSE: Duration = Duration::from_millis(250);

/// A list that a server may have.
pub(super) struct Section {
    pub(super) heading: &'static str,
    pub(super) method: &'static str,
    /// The member that holds the items: in a result, and in our documents.
    pub(super) member: &'static str,
    /// The member of an item that identifies it.
    pub(super) name: &'static str,
}

pub(super) static TOOLS: Section =
    Section { heading: "Tools", method: "tools/list", member: "tools", name: "name" };
pub(super) static RESOURCES: Section =
    Section { heading: "Resources", method: "resources/list", member: "resources", name: "uri" };
pub(super) static TEMPLATES: Section = Section {
    heading: "Resource templates",
    method: "resources/templates/list",
    member: "resourceTemplates",
    name: "uriTemplate",
};
pub(super) static PROMPTS: Section =
    Section { heading: "Prompts", method: "prompts/list", member: "prompts", name: "name" };

/// All lists, in the order in which they are shown.
pub(super) static ALL: [&Section; 4] = [&TOOLS, &RESOURCES, &TEMPLATES, &PROMPTS];

impl Section {
    /// Whether the server declares that it has this list.
    pub(super) fn is_declared(&self, client: &Client) -> bool {
        client.peer().server_capabilities().is_some_and(|server| match self.member {
            "tools" => server.tools.is_some(),
            "prompts" => server.prompts.is_some(),
            _ => server.resources.is_some(),
        })
    }

    pub(super) fn pages(&self, client: &Client, max_pages: usize) -> RawPages {
        match self.member {
            "tools" => client.list_tools().max_pages(max_pages).raw(),
            "resources" => client.list_resources().max_pages(max_pages).raw(),
            "resourceTemplates" => client.list_resource_templates().max_pages(max_pages).raw(),
            _ => client.list_prompts().max_pages(max_pages).raw(),
        }
    }

    fn failure(&self, error: &ClientError) -> Failure {
        let problem = match error {
            ClientError::RepeatedCursor { .. } => "its pages form a loop".to_owned(),
            ClientError::TooManyPages { limit, .. } => format!("it has more pages than the limit of {limit}"),
            ClientError::BadResult { what, .. } => what.clone(),
            error => return Failure::client(error, Phase::List),
        };
        let failure = Failure::bad_reply(format!("the result of {}: {problem}", self.method), Phase::List);
        match error {
            // The limit is ours.
            ClientError::TooManyPages { .. } => failure.hint(MORE_PAGES),
            _ => failure,
        }
    }
}

/// A part of a list.
pub(super) enum Part {
    /// The items of a page, as the server sent them.
    Page(&'static Section, Vec<Raw>),
    /// The next page takes longer than [`PAGE_PAUSE`].
    Pause,
    /// The list is complete.
    End(&'static Section),
    /// The list was not read, or not to its end.
    Failed(&'static Section, Box<Failure>),
}

/// The receiver of the parts wants no more of them.
pub(super) struct Stopped;

/// Reads all lists among `wanted` that the server declares, one after another, and passes their parts to `on_part`. A list
/// that fails does not end the others. Each list has at most `max_pages` pages.
///
/// # Errors
/// The connection is broken. The list that was being read has been reported as failed.
pub(super) async fn read(
    ui: &Ui,
    client: &Client,
    filter: &ToolFilter,
    wanted: &[&'static Section],
    max_pages: usize,
    mut on_part: impl AsyncFnMut(Part) -> Result<(), Stopped>,
) -> Result<(), Failure> {
    // The first pages of all lists are requested at once: a distant server costs one round trip and not four.
    let first: Vec<_> = wanted
        .iter()
        .copied()
        .filter(|section| section.is_declared(client))
        .map(|section| {
            let mut pages = section.pages(client, max_pages);
            let first = async move {
                let page = pages.next().await;
                (page, pages)
            };
            (section, tokio::spawn(first))
        })
        .collect();
    for (section, first) in first {
        let outcome = match first.await {
            Ok((page, pages)) => {
                let mut names = Names::default();
                let outcome = read_one(ui, filter, section, page, pages, &mut names, &mut on_part).await;
                if let Some(note) = names.note(section, client.server_name()) {
                    ui.note(&note);
                }
                outcome
            }
            Err(_) => {
                Err(Failure::bad_reply("the connection failed before the list was complete", Phase::List)
                    .into())
            }
        };
        let failure = match outcome {
            Ok(()) => continue,
            Err(Unread::Stopped) => return Ok(()),
            Err(Unread::Failed(failure)) if client.child().is_none() => failure.over_a_socket(),
            Err(Unread::Failed(failure)) => *failure,
        };
        let received = on_part(Part::Failed(section, Box::new(failure.clone()))).await;
        if !failure.is_of_one_request() {
            return Err(failure);
        }
        if let Err(Stopped) = received {
            return Ok(());
        }
    }
    Ok(())
}

/// Why a list was not read to its end.
enum Unread {
    Stopped,
    Failed(Box<Failure>),
}

impl From<Stopped> for Unread {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<Failure> for Unread {
    fn from(failure: Failure) -> Self {
        Self::Failed(Box::new(failure))
    }
}

/// The names of a list, which should be different ones: of two tools of one name a client can call only one.
#[derive(Default)]
struct Names {
    hasher: RandomState,
    /// The hashes of the names.
    known: HashSet<u64>,
    /// The first of the names that come again.
    repeated: Vec<String>,
    has_more: bool,
}

impl Names {
    fn add(&mut self, section: &Section, item: &Raw) {
        let Some(name) = Object::of(item).and_then(|item| item.text(section.name)) else { return };
        let hash = self.hasher.hash_one(&name);
        if !self.known.contains(&hash) {
            if self.known.len() < MAX_COMPARED_NAMES {
                self.known.insert(hash);
            }
            return;
        }
        let name = cut_chars(&name, MAX_REPEATED_CHARS);
        if self.repeated.contains(&name) {
            return;
        }
        if self.repeated.len() < MAX_REPEATED_SHOWN {
            self.repeated.push(name);
        } else {
            self.has_more = true;
        }
    }

    /// The names that the list contains more than once. `server`: its own name.
    fn note(&self, section: &Section, server: Option<&str>) -> Option<String> {
        if self.repeated.is_empty() {
            return None;
        }
        let more = if self.has_more { " and others" } else { "" };
        let (what, names) = (section.method, self.repeated.join(", "));
        Some(format!("{what} of {} contains {names}{more} more than once", server.unwrap_or("the server")))
    }
}

/// Reads one list. `page`: its first page, which has been received.
async fn read_one(
    ui: &Ui,
    filter: &ToolFilter,
    section: &'static Section,
    mut page: Option<Result<Vec<Raw>, ClientError>>,
    mut pages: RawPages,
    names: &mut Names,
    on_part: &mut impl AsyncFnMut(Part) -> Result<(), Stopped>,
) -> Result<(), Unread> {
    // Many servers declare resources and do not know the method for templates: they have none.
    let is_unknown = matches!(&page, Some(Err(error)) if is_unknown_method(error));
    if is_unknown && section.member == TEMPLATES.member {
        return Ok(on_part(Part::End(section)).await?);
    }
    let (mut hidden, mut all) = (0, 0);
    while let Some(items) = page {
        let mut items = items.map_err(|error| section.failure(&error))?;
        if section.member == TOOLS.member {
            let received = items.len();
            // A tool without a name cannot be called. It is shown.
            items.retain(|tool| {
                Object::of(tool)
                    .and_then(|tool| tool.text(TOOLS.name))
                    .is_none_or(|name| filter.allows(&name))
            });
            all += received;
            hidden += received - items.len();
        }
        items.iter().for_each(|item| names.add(section, item));
        on_part(Part::Page(section, items)).await?;
        page = match timeout(PAGE_PAUSE, pages.next()).await {
            Ok(next) => next,
            Err(_) => {
                on_part(Part::Pause).await?;
                pages.next().await
            }
        };
    }
    if hidden > 0 {
        ui.note(&format!("the configuration hides {hidden} of {all} tools"));
    }
    Ok(on_part(Part::End(section)).await?)
}

fn is_unknown_method(error: &ClientError) -> bool {
    error.remote().is_some_and(|error| error.code == code::METHOD_NOT_FOUND)
}

/// The server lists no item of a name.
pub(super) struct Absent {
    /// The most similar name that it lists.
    pub(super) similar: Option<String>,
    /// Why the list was not read to its end, so that the item may exist.
    pub(super) unread: Option<String>,
}

/// Returns the item of that name as the server lists it. Reads no page behind the one that has it. A list that does not
/// end is read up to its limit.
pub(super) async fn find(
    client: &Client,
    section: &'static Section,
    name: &str,
) -> Result<Result<Object, Absent>, Failure> {
    let mut pages = section.pages(client, MAX_PAGES);
    let mut similar: Option<String> = None;
    loop {
        let items = match pages.next().await {
            Some(Ok(items)) => items,
            None => return Ok(Err(Absent { similar, unread: None })),
            Some(Err(error)) => {
                let failure = section.failure(&error);
                return match error {
                    ClientError::RepeatedCursor { .. }
                    | ClientError::TooManyPages { .. }
                    | ClientError::BadResult { .. } => {
                        Ok(Err(Absent { similar, unread: Some(failure.message) }))
                    }
                    _ => Err(failure),
                };
            }
        };
        let mut names: Vec<String> = similar.take().into_iter().collect();
        for item in items.iter().filter_map(Object::of) {
            match item.text(section.name) {
                Some(known) if known == name => return Ok(Ok(item)),
                known => names.extend(known),
            }
        }
        similar = config::similar(name, names.iter().map(String::as_str)).map(str::to_owned);
    }
}

/// A member of `errors` in a document: the method of the list, and why it failed. The failure contains standard error of
/// the server, which may contain secrets.
pub(super) fn error_of(ui: &Ui, section: &Section, failure: &Failure) -> String {
    let mut error = failure.json()["error"].take();
    error["method"] = section.method.into();
    ui.hide_in(&mut error);
    error.to_string()
}

/// What a server says about itself.
pub(super) struct ServerFacts {
    /// In one line.
    pub(super) header: String,
    /// The members of a document, as the specification defines them.
    pub(super) members: Vec<(&'static str, Raw)>,
}

impl ServerFacts {
    pub(super) fn of(client: &Client) -> Self {
        let peer = client.peer();
        let version = peer.profile.version.as_str();
        let members = [
            ("protocolVersion", Some(Raw::string(version))),
            ("serverInfo", peer.info.as_ref().and_then(|info| Raw::from_value(info.as_ref()).ok())),
            ("capabilities", peer.server_capabilities().and_then(|server| Raw::from_value(server).ok())),
            ("instructions", peer.instructions.as_deref().map(Raw::string)),
        ];
        Self {
            header: format!(
                "{HEADING}{}{HEADING:#}, protocol {version} ({})",
                server_name(client),
                era(client)
            ),
            members: members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
        }
    }
}

/// The name and the version of a server, escaped.
pub(super) fn server_name(client: &Client) -> String {
    client.peer().info.as_ref().map_or_else(
        || "an unnamed server".to_owned(),
        |info| format!("{} {}", visible::line(&info.name), visible::line(&info.version)),
    )
}

/// `legacy` or `modern`.
pub(super) fn era(client: &Client) -> String {
    format!("{:?}", client.profile().era).to_lowercase()
}

/// A part of what one of several servers has.
pub(super) enum ServerPart {
    Facts(Box<ServerFacts>),
    List(Part),
}

/// Reads these lists of each server of the configuration. `on_servers` receives the servers in their order.
pub(super) fn read_each(
    ui: &Ui,
    connect: &Connect,
    wanted: &'static [&'static Section],
    max_pages: usize,
    takes_server: bool,
    on_servers: impl AsyncFnOnce(Vec<ServerOutput<ServerPart>>, &Stop) -> ControlFlow<Exit, Exit>,
) -> Result<Exit, Failure> {
    refuse_trace(connect, "the command applies to all servers of the configuration")?;
    let targets = config::all(ui, &connect.configured, takes_server)?;
    let work = move |ui: Ui,
                     client: Client,
                     filter: ToolFilter,
                     parts: mpsc::Sender<ServerPart>,
                     _: Duration| async move {
        if parts.send(ServerPart::Facts(Box::new(ServerFacts::of(&client)))).await.is_err() {
            return Ok(());
        }
        let on_part = async |part| parts.send(ServerPart::List(part)).await.map_err(|_| Stopped);
        read(&ui, &client, &filter, wanted, max_pages, on_part).await
    };
    Ok(with_each_server(ui, &targets, connect, work, on_servers))
}

/// Prints why some of the servers could not be read. Returns the exit code of the first of them. With `--json` the
/// failures are in the document, and nothing is printed.
pub(super) fn report_server_failures(ui: &Ui, failures: &[(String, Failure)]) -> Exit {
    let mut rest: Vec<&(String, Failure)> = failures.iter().filter(|_| !ui.json).collect();
    while let Some((_, failure)) = rest.first().copied() {
        // A failure that several servers have in common, for example a file that is not trusted, is printed once.
        let same = |other: &Failure| {
            (other.id, &other.message, &other.seen.server)
                == (failure.id, &failure.message, &failure.seen.server)
        };
        let (alike, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(_, other)| same(other));
        rest = others;
        let names: Vec<&str> = alike.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!("{}: {}", names.join(", "), failure.message);
        ui.failure(&Failure { message, ..failure.clone() });
    }
    failures.first().map_or(Exit::Done, |(_, failure)| failure.exit)
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;

    use super::{MAX_COMPARED_NAMES, MAX_REPEATED_SHOWN, Names, TOOLS};

    fn tool(name: &str) -> Raw {
        Raw::parse(format!("{{\"name\":\"{name}\"}}")).unwrap()
    }

    #[test]
    fn names_that_come_again_are_noted_up_to_a_number() {
        let mut names = Names::default();
        let listed = |names: &mut Names, range: std::ops::Range<usize>| {
            range.for_each(|place| names.add(&TOOLS, &tool(&format!("t{place}"))));
        };
        listed(&mut names, 0..MAX_COMPARED_NAMES);
        assert_eq!(names.note(&TOOLS, None), None);
        // A name above the number is not compared.
        listed(&mut names, MAX_COMPARED_NAMES..MAX_COMPARED_NAMES + 1);
        listed(&mut names, MAX_COMPARED_NAMES..MAX_COMPARED_NAMES + 1);
        assert_eq!((names.note(&TOOLS, None), names.known.len()), (None, MAX_COMPARED_NAMES));
        listed(&mut names, 0..2);
        listed(&mut names, 0..2);
        let note = names.note(&TOOLS, Some("x"));
        assert_eq!(note.as_deref(), Some("tools/list of x contains t0, t1 more than once"));
        listed(&mut names, 0..MAX_REPEATED_SHOWN + 1);
        let note = names.note(&TOOLS, None);
        assert_eq!(
            note.as_deref(),
            Some("tools/list of the server contains t0, t1, t2, t3, t4 and others more than once")
        );
    }
}
