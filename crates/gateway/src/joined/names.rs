//! The names and URIs of all targets, as one client has seen them.
//!
//! Filled from the lists that pass on their way to the client, and by `router`, which reads the lists of all targets
//! when a name is not known yet. It never asks a server by itself and never splits a name.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use mcpjoin::server::catalogue::{
    Catalogue, Claim, Collision, Kind, MAX_SOURCE_BYTES, MAX_SOURCE_ENTRIES, Position, Source,
};
use mcpjoin_proto::{ErrorObject, Method, Payload, Raw};
use memchr::memmem;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Pages of one list of a target that are read. A target may give a cursor with each page, without end.
pub(super) const MAX_PAGES: usize = 1000;
/// URIs of links in results whose target is remembered for one client. Beyond it, the oldest is forgotten.
const MAX_LINKS: usize = 1000;
/// The longest URI of a link that is remembered: longer ones are data.
const MAX_LINK_BYTES: usize = 2048;

/// The names of all targets.
pub(super) struct Names(Mutex<State>);

struct State {
    catalogue: Catalogue,
    /// For each target and kind, what was read of its list.
    lists: Vec<[Listed; Kind::ALL.len()]>,
    links: Links,
    /// The user interfaces of tools. Apart from `links`, so that no result takes one from the target of the tool.
    interfaces: Links,
    /// Makes numbers of cursors.
    hasher: RandomState,
}

#[derive(Clone, Default)]
struct Listed {
    /// The names, each with the number of the page that has it. At most [`MAX_SOURCE_ENTRIES`].
    names: HashMap<Box<str>, u64>,
    /// The bytes of the names, at most [`MAX_SOURCE_BYTES`].
    bytes: usize,
    /// The numbers of the pages that were read. At most [`MAX_PAGES`].
    pages: HashSet<u64>,
    /// The time at which the last page was read. `None`: the list is not known, or has changed.
    complete: Option<Instant>,
    /// The last joined list did not contain it.
    is_left_out: bool,
}

/// What is new about a page of a list.
pub(super) struct Learned {
    /// Its items, without those whose name an earlier one has.
    pub(super) items: Vec<Raw>,
    /// The first name that an earlier item has, too.
    pub(super) repeated: Option<String>,
    /// The list is longer than what is offered of it.
    pub(super) left_out: bool,
    /// The names of it that another target offers, too.
    pub(super) collisions: Vec<Collision>,
}

/// The targets whose results contained a link.
#[derive(Default)]
struct Links {
    targets: HashMap<Box<str>, usize>,
    oldest_first: VecDeque<Box<str>>,
}

impl Links {
    fn insert(&mut self, uri: &str, target: usize) {
        if uri.len() > MAX_LINK_BYTES {
            return;
        }
        if self.targets.insert(uri.into(), target).is_none() {
            self.oldest_first.push_back(uri.into());
        }
        if self.oldest_first.len() > MAX_LINKS
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.targets.remove(&oldest);
        }
    }

    /// Remembers a URI that a list contains. Of two targets with the same one, the first owns it.
    fn insert_listed(&mut self, uri: &str, target: usize) {
        if self.targets.get(uri).is_none_or(|known| target < *known) {
            self.insert(uri, target);
        }
    }
}

/// Returns the URIs of the user interface of a tool, which need not be in the list of resources
/// (<https://github.com/modelcontextprotocol/ext-apps>).
fn interfaces(tool: &Raw) -> impl Iterator<Item = String> {
    let meta = tool.member("_meta");
    let nested = meta.as_ref().and_then(|meta| meta.member("ui")?.member("resourceUri"));
    let flat = meta.as_ref().and_then(|meta| meta.member("ui/resourceUri"));
    [nested, flat].into_iter().flatten().filter_map(|uri| Some(uri.to_string_value()?.into_owned()))
}

/// Returns the pieces of content in a result of a tool or a prompt.
fn pieces(result: &Raw) -> Vec<Raw> {
    let list = |member: &str| result.member(member).and_then(|list| list.decode::<Vec<Raw>>().ok());
    let of_messages = list("messages").into_iter().flatten().filter_map(|message| message.member("content"));
    list("content").into_iter().flatten().chain(of_messages).collect()
}

impl Names {
    pub(super) fn new(sources: impl IntoIterator<Item = Source>) -> Self {
        let catalogue = Catalogue::new(sources);
        let lists = vec![Default::default(); catalogue.sources().len()];
        let (links, interfaces) = (Links::default(), Links::default());
        Self(Mutex::new(State { catalogue, lists, links, interfaces, hasher: RandomState::new() }))
    }

    /// Learns the page of a list that this cursor led to. `last`: no page follows.
    ///
    /// Several clients may read one list at the same time, so a page that is read again replaces itself.
    pub(super) fn learn(
        &self,
        target: usize,
        kind: Kind,
        cursor: Option<&str>,
        mut items: Vec<Raw>,
        last: bool,
    ) -> Learned {
        let mut state = self.0.lock();
        let State { catalogue, lists, interfaces: known, hasher, .. } = &mut *state;
        let mut learned =
            Learned { items: Vec::new(), repeated: None, left_out: false, collisions: Vec::new() };
        let Some(listed) = lists.get_mut(target).map(|lists| &mut lists[kind as usize]) else {
            return learned;
        };
        let page = hasher.hash_one(cursor);
        if cursor.is_none() {
            *listed = Listed::default();
        }
        let before: HashSet<Box<str>> = match listed.pages.contains(&page) {
            true => listed.names.extract_if(|_, known| *known == page).map(|(name, _)| name).collect(),
            false => HashSet::new(),
        };
        listed.bytes -= before.iter().map(|name| name.len()).sum::<usize>();
        let mut new: Vec<Box<str>> = Vec::new();
        items.retain(|item| {
            let name = item.member(kind.name_member());
            let Some(name) = name.as_ref().and_then(Raw::to_string_value) else { return false };
            if listed.names.contains_key(&*name) {
                learned.repeated.get_or_insert_with(|| name.into_owned());
                return false;
            }
            if listed.names.len() >= MAX_SOURCE_ENTRIES || listed.bytes + name.len() > MAX_SOURCE_BYTES {
                learned.left_out = true;
                return false;
            }
            listed.bytes += name.len();
            listed.names.insert((&*name).into(), page);
            new.push((&*name).into());
            if kind == Kind::Tool {
                interfaces(item).for_each(|uri| known.insert_listed(&uri, target));
            }
            true
        });
        learned.items = items;
        // A page that says what it said before changes nothing.
        let replaced = if cursor.is_none() {
            Some(catalogue.replace(target, kind, &new))
        } else if before.is_empty() {
            Some(catalogue.add(target, kind, &new))
        } else if new.len() == before.len() && new.iter().all(|name| before.contains(name)) {
            None
        } else {
            Some(catalogue.replace(target, kind, listed.names.keys()))
        };
        if let Some(replaced) = replaced {
            learned.left_out |= replaced.left_out > 0;
            learned.collisions = replaced.collisions;
        }
        // Pages after a full list, or after `MAX_PAGES`, are not read.
        if listed.pages.len() < MAX_PAGES {
            listed.pages.insert(page);
        }
        if !last {
            learned.left_out |= listed.names.len() >= MAX_SOURCE_ENTRIES || listed.pages.len() >= MAX_PAGES;
        }
        listed.complete = (last || learned.left_out).then(Instant::now);
        learned
    }

    /// Returns when the whole list of a target was read. `None`: it was not, or has changed since.
    pub(super) fn complete(&self, target: usize, kind: Kind) -> Option<Instant> {
        self.0.lock().lists.get(target)?[kind as usize].complete
    }

    /// The lists of a target may have changed. Its names stay known until they are read again.
    pub(super) fn outdate(&self, target: usize) {
        if let Some(lists) = self.0.lock().lists.get_mut(target) {
            lists.iter_mut().for_each(|listed| listed.complete = None);
        }
    }

    /// A joined list is sent without this target.
    pub(super) fn leave_out(&self, target: usize, kind: Kind) {
        if let Some(lists) = self.0.lock().lists.get_mut(target) {
            lists[kind as usize].is_left_out = true;
        }
    }

    /// Returns whether the client has seen a list without this target.
    pub(super) fn is_left_out(&self, target: usize) -> bool {
        self.0.lock().lists.get(target).is_some_and(|lists| lists.iter().any(|listed| listed.is_left_out))
    }

    pub(super) fn find(&self, kind: Kind, joined: &str) -> Option<Claim> {
        self.0.lock().catalogue.find(kind, joined).cloned()
    }

    /// Returns whether the joined name of a tool or prompt begins as those of this target do.
    pub(super) fn may_have(&self, target: usize, joined: &str) -> bool {
        let state = self.0.lock();
        let source = state.catalogue.sources().nth(target);
        source.is_some_and(|source| joined.starts_with(&*source.joined("")))
    }

    /// Returns the target that owns a URI: by the lists, otherwise by the interface of a tool, otherwise by a link in a result.
    pub(super) fn owner(&self, uri: &str) -> Option<usize> {
        let state = self.0.lock();
        let by_lists = state.catalogue.owner(uri).map(|owner| owner.source);
        let by_links =
            || [&state.interfaces, &state.links].into_iter().find_map(|links| links.targets.get(uri));
        by_lists.or_else(|| by_links().copied())
    }

    /// Returns the items of a page as they are offered. Items that another target owns are left out.
    pub(super) fn offered(&self, target: usize, kind: Kind, page: Vec<Raw>) -> Vec<Raw> {
        let state = self.0.lock();
        page.into_iter().filter_map(|item| state.catalogue.offered(target, kind, item)).collect()
    }

    pub(super) fn write_cursor(&self, method: &Method, at: &Position) -> Result<String, ErrorObject> {
        self.0.lock().catalogue.write_cursor(method, at)
    }

    pub(super) fn read_cursor(&self, method: &Method, cursor: &str) -> Result<Position, ErrorObject> {
        self.0.lock().catalogue.read_cursor(method, cursor)
    }

    /// Returns the names of a target that another target owns.
    pub(super) fn collisions(&self, target: usize) -> Vec<Collision> {
        let state = self.0.lock();
        state.catalogue.collisions().filter(|collision| collision.other.source == target).collect()
    }

    /// Remembers the links in a result of a target.
    pub(super) fn learn_links(&self, target: usize, result: &Payload) {
        if memmem::find(result.raw().as_bytes(), b"\"resource").is_none() {
            return;
        }
        let mut state = self.0.lock();
        for piece in pieces(result.raw()) {
            let kind = piece.member("type");
            let uri = match kind.as_ref().and_then(Raw::to_string_value).as_deref() {
                Some("resource_link") => piece.member("uri"),
                Some("resource") => piece.member("resource").and_then(|resource| resource.member("uri")),
                _ => None,
            };
            if let Some(uri) = uri.as_ref().and_then(Raw::to_string_value) {
                state.links.insert(&uri, target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_links_are_limited_and_the_oldest_is_dropped() {
        let mut links = Links::default();
        links.insert(&"x".repeat(MAX_LINK_BYTES + 1), 0);
        (0..=MAX_LINKS).for_each(|uri| links.insert(&uri.to_string(), 1));
        links.insert("1", 2);
        assert_eq!((links.targets.len(), links.oldest_first.len()), (MAX_LINKS, MAX_LINKS));
        assert_eq!((links.targets.get("0"), links.targets.get("1")), (None, Some(&2)));
    }

    #[test]
    fn the_names_of_one_target_are_bounded() {
        let names = Names::new([Source::new("a")]);
        let tool = |number: usize| Raw::parse(format!(r#"{{"name":"{number}"}}"#)).expect("JSON");
        let page: Vec<Raw> = (0..=MAX_SOURCE_ENTRIES).map(tool).collect();
        let learned = names.learn(0, Kind::Tool, None, page, false);
        assert!(learned.left_out && learned.items.len() == MAX_SOURCE_ENTRIES);
        assert!(names.find(Kind::Tool, &format!("a__{}", MAX_SOURCE_ENTRIES - 1)).is_some());
        assert!(names.find(Kind::Tool, &format!("a__{MAX_SOURCE_ENTRIES}")).is_none());
        assert!(!names.learn(0, Kind::Tool, None, vec![tool(7)], true).left_out);
        assert!(names.find(Kind::Tool, "a__7").is_some() && names.find(Kind::Tool, "a__8").is_none());
    }

    #[test]
    fn a_page_that_is_read_again_replaces_itself_alone() {
        let names = Names::new([Source::new("a")]);
        let tool = |name: &&str| Raw::parse(format!(r#"{{"name":"{name}"}}"#)).expect("JSON");
        let learn = |cursor: Option<&str>, tools: &[&str]| {
            let learned =
                names.learn(0, Kind::Tool, cursor, tools.iter().map(tool).collect(), cursor.is_some());
            (learned.items.len(), learned.repeated)
        };
        let offered = |name: &str| names.find(Kind::Tool, &format!("a__{name}")).is_some();
        assert_eq!(learn(None, &["x", "y"]), (2, None));
        assert_eq!(learn(Some("2"), &["y", "z"]), (1, Some("y".into())));
        assert_eq!(learn(Some("2"), &["z", "z"]), (1, Some("z".into())));
        assert!(offered("x") && offered("y") && offered("z"));
        assert_eq!(learn(Some("2"), &["w"]), (1, None));
        assert!(offered("x") && offered("w") && !offered("z"));
        assert_eq!(learn(None, &["z"]), (1, None));
        assert!(offered("z") && !offered("x") && !offered("w"));
    }

    #[test]
    fn the_names_of_one_target_are_bounded_in_bytes() {
        let names = Names::new([Source::new("")]);
        let long =
            |c: &str| Raw::parse(format!(r#"{{"uri":"{}"}}"#, c.repeat(MAX_SOURCE_BYTES / 2))).expect("JSON");
        let learned = names.learn(0, Kind::Resource, None, vec![long("x"), long("y"), long("z")], false);
        assert!(learned.left_out && learned.items.len() == 2);
        assert!(names.0.lock().lists[0][Kind::Resource as usize].bytes <= MAX_SOURCE_BYTES);
    }
}
