//! Compares what a server offers with what it offered before.
//!
//! Called by `mcpjoin diff`: for users who pin the definitions of a server (a definition that changes after the user agreed to
//! it is the attack "rug pull"), and for authors of servers. It does no I/O. The order of lists and members does not count, and
//! numbers are compared by value. Changes of a schema are reported keyword by keyword, as narrower or wider.
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools#tool>
//!
//! ```
//! use mcpjoin_rules::{ChangeClass, ChangeKind, Offer, changes};
//! use mcpjoin_proto::Raw;
//!
//! let tool = |required: &str| {
//!     let tool = r#"{"name":"add","inputSchema":{"type":"object","properties":{"a":{},"b":{}},"required":REQUIRED}}"#;
//!     Raw::parse(tool.replace("REQUIRED", required)).expect("JSON")
//! };
//! let old = Offer { tools: vec![tool(r#"["a"]"#)], ..Offer::default() };
//! let new = Offer { tools: vec![tool(r#"["b","a"]"#)], ..Offer::default() };
//!
//! let changes = changes(&old, &new);
//! assert_eq!(changes.len(), 1);
//! assert_eq!((changes[0].class, changes[0].kind), (ChangeClass::Breaks, ChangeKind::NowRequired));
//! assert_eq!(changes[0].path, "/inputSchema/properties/b");
//! ```

mod items;
mod schema;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use mcpjoin_proto::Raw;

use crate::json::{canonical, members};

/// How many bytes the paths and names of the changes of a definition may have for each byte of its two versions. Otherwise a
/// long name with many members below it would be repeated for each of them.
const PATH_BYTES: usize = 32;

/// The description and the lists of a server, all pages of each list.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// The negotiated version, a string.
    pub protocol_version: Option<Raw>,
    /// Its name and version, an object.
    pub server_info: Option<Raw>,
    /// Its capabilities, an object.
    pub capabilities: Option<Raw>,
    /// Its instructions for models, a string.
    pub instructions: Option<Raw>,
    /// The items of `tools/list`.
    pub tools: Vec<Raw>,
    /// The items of `resources/list`.
    pub resources: Vec<Raw>,
    /// The items of `resources/templates/list`.
    pub resource_templates: Vec<Raw>,
    /// The items of `prompts/list`.
    pub prompts: Vec<Raw>,
}

named! {
    /// The subject of a change.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ChangeOf {
        /// The server itself.
        Server = "server",
        /// A tool, by its name.
        Tool = "tool",
        /// A resource, by its URI.
        Resource = "resource",
        /// A resource template, by its URI template.
        ResourceTemplate = "resourceTemplate",
        /// A prompt, by its name.
        Prompt = "prompt",
    }
}

impl ChangeOf {
    /// The member that identifies an item.
    const fn key(self) -> &'static str {
        match self {
            Self::Resource => "uri",
            Self::ResourceTemplate => "uriTemplate",
            Self::Server | Self::Tool | Self::Prompt => "name",
        }
    }
}

named! {
    /// What a change means to users of the former definition.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ChangeClass {
        /// A call that was valid may be refused, or its result may lack a part.
        Breaks = "breaks",
        /// A model or a person reads something else about an existing item: texts, annotations, defaults, optional parameters
        /// and values.
        Reads = "reads",
        /// A new item, or a wider limit: no user has to change anything.
        Adds = "adds",
        /// A difference between any two releases or moments: versions, the size of a resource.
        Noted = "noted",
    }
}

named! {
    /// The kind of a change.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum ChangeKind {
        /// The item is new.
        Added = "added",
        /// The item was removed.
        Removed = "removed",
        /// The number of items of this name changed, and several have or had it: which one a call means is not defined.
        Repeated = "repeated",
        /// A text: a description, a title, a name for people, instructions.
        Text = "text",
        /// A member of `annotations`.
        Annotation = "annotation",
        /// A new parameter, or member of a result, that is optional.
        PropertyAdded = "property-added",
        /// A new one that is required.
        RequiredPropertyAdded = "required-property-added",
        /// A parameter, or a member of a result, was removed.
        PropertyRemoved = "property-removed",
        /// An optional one became required.
        NowRequired = "now-required",
        /// A required one became optional.
        NoLongerRequired = "no-longer-required",
        /// A type is no longer allowed.
        TypeNarrowed = "type-narrowed",
        /// Another type is allowed.
        TypeWidened = "type-widened",
        /// Both.
        TypeChanged = "type-changed",
        /// A value of an `enum` is new.
        ValueAdded = "value-added",
        /// A value of an `enum` was removed.
        ValueRemoved = "value-removed",
        /// The default value.
        Default = "default",
        /// A limit is new, or narrower.
        LimitTightened = "limit-tightened",
        /// A limit was removed, or is wider.
        LimitLoosened = "limit-loosened",
        /// A new schema.
        SchemaAdded = "schema-added",
        /// A schema was removed.
        SchemaRemoved = "schema-removed",
        /// A schema changed, and whether it is narrower or wider is not known.
        SchemaChanged = "schema-changed",
        /// A newly declared capability.
        CapabilityAdded = "capability-added",
        /// A capability that is no longer declared.
        CapabilityRemoved = "capability-removed",
        /// The value of a capability.
        CapabilityChanged = "capability-changed",
        /// The server's version, or that of the protocol.
        Version = "version",
        /// Any other member.
        Member = "member",
    }
}

/// One change.
#[derive(Clone, Debug)]
pub struct Change {
    /// What it means.
    pub class: ChangeClass,
    /// Its kind.
    pub kind: ChangeKind,
    /// Its subject.
    pub of: ChangeOf,
    /// The name or address of the item. `None` for the server, and for an item without a name.
    pub name: Option<String>,
    /// The place in the item, as a JSON pointer; empty for the whole item. For the server: in the document of `mcpjoin list --json`.
    pub path: String,
    /// The former value, its members in the order of their names. `None` if there was none.
    pub old: Option<Raw>,
    /// The new value.
    pub new: Option<Raw>,
}

/// The changes between two offers, in the order of [`ChangeOf::ALL`], of names, of paths and of classes. Empty exactly if no
/// difference has a meaning.
#[must_use]
pub fn changes(old: &Offer, new: &Offer) -> Vec<Change> {
    let mut out = Vec::new();
    items::server(&mut Noting::new(&mut out, ChangeOf::Server, None), old, new);
    for (of, old, new) in [
        (ChangeOf::Tool, &old.tools, &new.tools),
        (ChangeOf::Resource, &old.resources, &new.resources),
        (ChangeOf::ResourceTemplate, &old.resource_templates, &new.resource_templates),
        (ChangeOf::Prompt, &old.prompts, &new.prompts),
    ] {
        list(&mut out, of, old, new);
    }
    out
}

/// Compares the items of two lists that have the same name.
fn list(out: &mut Vec<Change>, of: ChangeOf, old: &[Raw], new: &[Raw]) {
    let mut named: BTreeMap<Option<String>, (Vec<&Raw>, Vec<&Raw>)> = BTreeMap::new();
    let name = |item: &Raw| object(item)?.remove(of.key())?.to_string_value().map(|name| name.into_owned());
    for item in old {
        named.entry(name(item)).or_default().0.push(item);
    }
    for item in new {
        named.entry(name(item)).or_default().1.push(item);
    }
    for (name, (old, new)) in named {
        let is_named = name.is_some();
        let mut noting = Noting::new(out, of, name);
        match (&old[..], &new[..]) {
            ([old], [new]) if is_named => one(&mut noting, old, new),
            _ => several(&mut noting, &old, &new, is_named),
        }
    }
}

fn one(noting: &mut Noting<'_>, old: &Raw, new: &Raw) {
    if old.as_str() == new.as_str() {
        return;
    }
    let (old, new) = (canonical(old), canonical(new));
    let begun = noting.out.len();
    noting.limit([Some(&old), Some(&new)]);
    if old.as_str() != new.as_str() {
        items::item(noting, &old, &new);
    }
    noting.end(begun, ChangeKind::SchemaChanged, "", Some(&old), Some(&new));
    let place = |change: &Change| (change.path.clone(), change.class, change.kind);
    noting.out[begun..].sort_by_cached_key(place);
}

/// Compares several items of one name, or items without a name: equal items of both sides are pairs, and the others are paired
/// in order.
fn several(noting: &mut Noting<'_>, old: &[&Raw], new: &[&Raw], is_named: bool) {
    // Equal items are counted.
    let mut counts: BTreeMap<String, (Raw, usize, usize)> = BTreeMap::new();
    for (items, is_new) in [(old, false), (new, true)] {
        for item in items {
            let item = canonical(item);
            let (_, before, now) = counts.entry(item.as_str().to_owned()).or_insert((item, 0, 0));
            *(if is_new { now } else { before }) += 1;
        }
    }
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    for (item, before, now) in counts.into_values() {
        gone.extend(std::iter::repeat_n(item.clone(), before.saturating_sub(now)));
        come.extend(std::iter::repeat_n(item, now.saturating_sub(before)));
    }
    // Items without a name are not paired: nothing identifies them.
    let pairs = if is_named { gone.len().min(come.len()) } else { 0 };
    for (old, new) in gone.drain(..pairs).zip(come.drain(..pairs)) {
        one(noting, &old, &new);
    }
    let repeats = is_named && !old.is_empty() && !new.is_empty();
    for item in gone {
        let kind = if repeats { ChangeKind::Repeated } else { ChangeKind::Removed };
        noting.note(ChangeClass::Breaks, kind, "", Some(&item), None);
    }
    for item in come {
        // A second item of a name may be taken for the first.
        let (class, kind) = match repeats || is_named && new.len() > 1 {
            true => (ChangeClass::Breaks, ChangeKind::Repeated),
            false => (ChangeClass::Adds, ChangeKind::Added),
        };
        noting.note(class, kind, "", None, Some(&item));
    }
}

/// The list of changes, with the subject of the next ones.
struct Noting<'a> {
    out: &'a mut Vec<Change>,
    of: ChangeOf,
    name: Option<String>,
    /// The bytes that paths and names may still have; `None` if they were too long.
    room: Option<usize>,
}

impl<'a> Noting<'a> {
    const fn new(out: &'a mut Vec<Change>, of: ChangeOf, name: Option<String>) -> Self {
        Self { out, of, name, room: Some(usize::MAX) }
    }

    /// Begins the comparison of two values.
    fn limit(&mut self, values: [Option<&Raw>; 2]) {
        let bytes = values.into_iter().flatten().map(Raw::len).sum::<usize>();
        self.room = Some(bytes.saturating_mul(PATH_BYTES));
    }

    /// Whether there is room for a path or a name.
    fn takes(&mut self, bytes: usize) -> bool {
        self.room = self.room.and_then(|room| room.checked_sub(bytes));
        self.room.is_some()
    }

    /// Ends the comparison: one change stands for all if their paths were too long.
    fn end(&mut self, begun: usize, kind: ChangeKind, path: &str, old: Option<&Raw>, new: Option<&Raw>) {
        if self.room.replace(usize::MAX).is_none() {
            self.out.truncate(begun);
            self.note(ChangeClass::Breaks, kind, path, old, new);
        }
    }

    fn note(
        &mut self,
        class: ChangeClass,
        kind: ChangeKind,
        path: impl Into<String>,
        old: Option<&Raw>,
        new: Option<&Raw>,
    ) {
        let path = path.into();
        if !self.takes(path.len() + self.name.as_ref().map_or(0, String::len)) {
            return;
        }
        self.out.push(Change {
            class,
            kind,
            of: self.of,
            name: self.name.clone(),
            path,
            old: old.cloned(),
            new: new.cloned(),
        });
    }
}

/// The members of an object; `None` for anything else, and for an object in which a name occurs twice.
fn object(raw: &Raw) -> Option<BTreeMap<String, Raw>> {
    Some(members(raw)?.into_iter().collect())
}

/// The names in either object.
fn names<'a, V>(old: &'a BTreeMap<String, V>, new: &'a BTreeMap<String, V>) -> BTreeSet<&'a str> {
    old.keys().chain(new.keys()).map(String::as_str).collect()
}

fn differ(old: Option<&Raw>, new: Option<&Raw>) -> bool {
    old.map(Raw::as_str) != new.map(Raw::as_str)
}

/// The pointer to a member.
fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}
