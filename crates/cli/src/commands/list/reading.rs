//! What a server has, page by page: each page is told as it comes, and no more than one of each list is kept.
//!
//! Called by `list`, `info` and `search`, and by whoever looks for one item. It prints nothing but what the configuration
//! hides. <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::time::Duration;

use mcpjoin::client::Client;
use mcpjoin::proto::{Raw, code};
use tokio::time::timeout;

use crate::config::{self, ToolFilter};
use crate::failure::{Failure, Phase};
use crate::object::{self, Object};
use crate::ui::Ui;

/// A list has at most so many pages, unless more are asked for.
pub(crate) const PAGES: usize = 1000;
/// A next page that takes longer than this is worth showing what is there.
const PAUSE: Duration = Duration::from_millis(250);

/// One of the lists that a server may have.
pub(crate) struct Section {
    pub(super) heading: &'static str,
    pub(super) method: &'static str,
    /// The member of the result, and of ours.
    pub(super) member: &'static str,
    /// The member of an item by which it is called.
    pub(super) name: &'static str,
}

pub(crate) static TOOLS: Section =
    Section { heading: "Tools", method: "tools/list", member: "tools", name: "name" };
pub(crate) static RESOURCES: Section =
    Section { heading: "Resources", method: "resources/list", member: "resources", name: "uri" };
pub(crate) static TEMPLATES: Section = Section {
    heading: "Resource templates",
    method: "resources/templates/list",
    member: "resourceTemplates",
    name: "uriTemplate",
};
pub(crate) static PROMPTS: Section =
    Section { heading: "Prompts", method: "prompts/list", member: "prompts", name: "name" };

impl Section {
    /// The member of a document that it is, and of a result.
    pub(crate) const fn member(&self) -> &'static str {
        self.member
    }
}

/// What is told of a list.
pub(crate) enum Part {
    /// The items of a page, as the server sent them.
    Page(&'static Section, Vec<Raw>),
    /// The next page takes a while.
    Pause,
    /// There are no more.
    Over(&'static Section),
    /// It was not read, or not to its end.
    Broken(&'static Section, Box<Failure>),
}

/// Nobody wants to know more.
pub(crate) struct Enough;

/// Tells of everything among `wanted` that the server says it has, list after list; what one lacks hides nothing of the
/// others. Each list has at most so many `pages`.
///
/// # Errors
/// The connection is of no use any more. The list that was being read has been told to be broken.
pub(crate) async fn read(
    ui: &Ui,
    client: &Client,
    filter: &ToolFilter,
    wanted: &[&'static Section],
    pages: usize,
    mut tell: impl AsyncFnMut(Part) -> Result<(), Enough>,
) -> Result<(), Failure> {
    let peer = client.peer();
    let has = |section: &Section| {
        peer.server_capabilities().is_some_and(|server| match section.member {
            "tools" => server.tools.is_some(),
            "prompts" => server.prompts.is_some(),
            _ => server.resources.is_some(),
        })
    };
    // Their first pages are asked for at once: a server that is far away is asked once and not four times.
    let first: Vec<_> = wanted
        .iter()
        .filter(|section| has(section))
        .map(|section| {
            let (client, section) = (client.clone(), *section);
            (section, tokio::spawn(async move { page_of(&client, section, None).await }))
        })
        .collect();
    for (section, first) in first {
        let first = async {
            first
                .await
                .unwrap_or_else(|_| Err(Failure::bad_reply("the list was lost on the way", Phase::List)))
        };
        let outcome = one(ui, client, filter, section, first, pages, &mut tell).await;
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(Enough)) => return Ok(()),
            Err(failure) => {
                let failure = if client.child().is_none() { failure.over_a_socket() } else { failure };
                let goes_on = failure.is_of_one_request();
                let told = tell(Part::Broken(section, Box::new(failure.clone()))).await;
                match (goes_on, told) {
                    (true, Ok(())) => {}
                    (true, Err(Enough)) => return Ok(()),
                    (false, _) => return Err(failure),
                }
            }
        }
    }
    Ok(())
}

/// One list, its first page being under way.
async fn one(
    ui: &Ui,
    client: &Client,
    filter: &ToolFilter,
    section: &'static Section,
    first: impl Future<Output = Result<Object, Failure>>,
    pages: usize,
    tell: &mut impl AsyncFnMut(Part) -> Result<(), Enough>,
) -> Result<Result<(), Enough>, Failure> {
    let bad =
        |what: &str| Failure::bad_reply(format!("the result of {}: {what}", section.method), Phase::List);
    let mut reading = Reading::new(section);
    let (mut hidden, mut all) = (0, 0);
    let mut page = match first.await {
        // Many a server has resources and does not know the method for templates: it has none.
        Err(failure) if section.member == TEMPLATES.member && is_unknown_method(&failure) => {
            return Ok(tell(Part::Over(section)).await);
        }
        page => page?,
    };
    loop {
        let next = page.text("nextCursor");
        let items = page.items(section.member);
        // The page itself is not kept while its items are shown.
        drop(page);
        let mut items = items.ok_or_else(|| bad(&format!("it has no array {}", section.member)))?;
        reading.told_anew(&mut items);
        if section.member == TOOLS.member {
            let came = items.len();
            // What has no name cannot be called, and is shown for what it is.
            items.retain(|tool| {
                Object::of(tool)
                    .and_then(|tool| tool.text(TOOLS.name))
                    .is_none_or(|name| filter.allows(&name))
            });
            all += came;
            hidden += came - items.len();
        }
        if let Err(enough) = tell(Part::Page(section, items)).await {
            return Ok(Err(enough));
        }
        let Some(next) = next else { break };
        reading.turn(&next, pages).map_err(|problem| bad(&problem))?;
        let mut coming = pin!(page_of(client, section, Some(&next)));
        let came = match timeout(PAUSE, &mut coming).await {
            Ok(came) => came,
            Err(_) => {
                if let Err(enough) = tell(Part::Pause).await {
                    return Ok(Err(enough));
                }
                coming.await
            }
        };
        page = match came {
            Err(failure) if reading.begins_again(&failure) => page_of(client, section, None).await?,
            came => came?,
        };
    }
    if hidden > 0 {
        ui.note(&format!("the configuration hides {hidden} of {all} tools"));
    }
    Ok(tell(Part::Over(section)).await)
}

fn is_unknown_method(failure: &Failure) -> bool {
    failure.seen.remote.as_ref().is_some_and(|error| error.code == code::METHOD_NOT_FOUND)
}

/// How far a list has been read. Of the cursors and of the items no more than a number each is kept.
struct Reading {
    section: &'static Section,
    seen: HashSet<u64>,
    /// What was told before the list was begun again.
    told: HashSet<u64>,
    /// A cursor was refused, and the list begun again for it.
    has_restarted: bool,
    numbers: RandomState,
}

impl Reading {
    fn new(section: &'static Section) -> Self {
        let (seen, told) = (HashSet::new(), HashSet::new());
        Self { section, seen, told, has_restarted: false, numbers: RandomState::new() }
    }

    /// Leaves out what was told before the list was begun again, and remembers the rest as long as that may happen.
    fn told_anew(&mut self, items: &mut Vec<Raw>) {
        let (numbers, name) = (&self.numbers, self.section.name);
        let number = |item: &Raw| match Object::of(item).and_then(|item| item.text(name)) {
            Some(name) => numbers.hash_one(name.as_str()),
            None => numbers.hash_one(item.as_str()),
        };
        if self.has_restarted {
            items.retain(|item| !self.told.contains(&number(item)));
        } else {
            self.told.extend(items.iter().map(number));
        }
    }

    /// Whether the list is begun again, because its cursor was refused:
    /// [once](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#interaction-with-pagination).
    fn begins_again(&mut self, failure: &Failure) -> bool {
        let refused = failure.seen.remote.as_ref().is_some_and(|error| error.code == code::INVALID_PARAMS);
        let begins = refused && !std::mem::replace(&mut self.has_restarted, true);
        if begins {
            self.seen.clear();
        }
        begins
    }

    /// Goes on with the page behind this cursor. Says why not.
    fn turn(&mut self, cursor: &str, pages: usize) -> Result<(), String> {
        if !self.seen.insert(self.numbers.hash_one(cursor)) {
            return Err("its pages go round in a circle".into());
        }
        if self.seen.len() >= pages {
            return Err(format!("it has more pages than the limit of {pages} (--max-pages)"));
        }
        Ok(())
    }
}

async fn page_of(client: &Client, section: &Section, cursor: Option<&str>) -> Result<Object, Failure> {
    let cursor = cursor.map(Raw::string);
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

/// The server lists no item of a name.
pub(crate) struct Absent {
    /// The name of one that may have been meant.
    pub(crate) similar: Option<String>,
}

/// The item of that name as the server lists it. Reads no further than it must.
pub(crate) async fn find(
    client: &Client,
    section: &'static Section,
    name: &str,
) -> Result<Result<Object, Absent>, Failure> {
    let mut reading = Reading::new(section);
    let mut cursor: Option<String> = None;
    let mut similar: Option<String> = None;
    loop {
        let page = match page_of(client, section, cursor.as_deref()).await {
            Err(failure) if cursor.is_some() && reading.begins_again(&failure) => {
                cursor = None;
                continue;
            }
            page => page?,
        };
        let mut names = similar.take().into_iter().collect::<Vec<_>>();
        for item in page.items(section.member).unwrap_or_default().iter().filter_map(Object::of) {
            match item.text(section.name) {
                Some(known) if known == name => return Ok(Ok(item)),
                known => names.extend(known),
            }
        }
        similar = config::similar(name, names.iter().map(String::as_str)).map(str::to_owned);
        cursor = page.text("nextCursor").filter(|next| reading.turn(next, PAGES).is_ok());
        if cursor.is_none() {
            return Ok(Err(Absent { similar }));
        }
    }
}

/// A member of `errors`: which list it is about, and what went wrong. What the server wrote to standard error is in it, and
/// may hold what it was told.
pub(crate) fn broken(ui: &Ui, section: &Section, failure: &Failure) -> String {
    let mut error = failure.json()["error"].take();
    error["method"] = section.method.into();
    ui.hide_in(&mut error);
    error.to_string()
}
