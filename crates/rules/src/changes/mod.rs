//! What has changed in what a server offers, between one time and another.
//!
//! Called by `mcpjoin diff`, for who pins what a server has said of itself (a definition that changes after somebody has agreed
//! to it is an attack with a name, rug pull), and for who publishes a server. It asks nobody and does no I/O. Order counts
//! nowhere, neither of lists nor of members, and numbers are compared by their value; of a schema it is said what has changed in
//! it, and whether that makes it narrower or wider.
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

/// What a server says of itself and what it offers, all pages of each list.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// The version that was agreed on, a string.
    pub protocol_version: Option<Raw>,
    /// Its name and version, an object.
    pub server_info: Option<Raw>,
    /// What it declares, an object.
    pub capabilities: Option<Raw>,
    /// What it tells models about itself, a string.
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
    /// What a change is about.
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
    /// The member of an item by which it is called.
    const fn key(self) -> &'static str {
        match self {
            Self::Resource => "uri",
            Self::ResourceTemplate => "uriTemplate",
            Self::Server | Self::Tool | Self::Prompt => "name",
        }
    }
}

named! {
    /// What a change means to whoever relied on what was there.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum ChangeClass {
        /// A call that was right may be refused now, or its result may lack what was relied on.
        Breaks = "breaks",
        /// What a model or a person reads of something that was there: texts, annotations, defaults, and parameters and values
        /// that may be given.
        Reads = "reads",
        /// Something new by itself, or a limit that is wider: nobody has to do anything.
        Adds = "adds",
        /// What differs between any two releases or moments, and is no change by itself: versions, the size of a resource.
        Noted = "noted",
    }
}

named! {
    /// What has happened to it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[non_exhaustive]
    pub enum ChangeKind {
        /// The item is new.
        Added = "added",
        /// The item is gone.
        Removed = "removed",
        /// The name is given to more or to fewer items than before, and to several before or now: which one is meant is anyone's
        /// guess.
        Repeated = "repeated",
        /// A text that is read: a description, a title, a name for people, instructions.
        Text = "text",
        /// A member of `annotations`.
        Annotation = "annotation",
        /// A parameter, or a member of a result, that was not there; it is optional.
        PropertyAdded = "property-added",
        /// The same, and it is required.
        RequiredPropertyAdded = "required-property-added",
        /// A parameter, or a member of a result, is gone.
        PropertyRemoved = "property-removed",
        /// What was optional is required.
        NowRequired = "now-required",
        /// What was required is optional.
        NoLongerRequired = "no-longer-required",
        /// A type that was allowed is so no longer.
        TypeNarrowed = "type-narrowed",
        /// A type is allowed that was not.
        TypeWidened = "type-widened",
        /// Both.
        TypeChanged = "type-changed",
        /// A value of an `enum` is new.
        ValueAdded = "value-added",
        /// A value of an `enum` is gone.
        ValueRemoved = "value-removed",
        /// The value that is taken where none is given.
        Default = "default",
        /// A limit is new, or narrower.
        LimitTightened = "limit-tightened",
        /// A limit is gone, or wider.
        LimitLoosened = "limit-loosened",
        /// A schema that was not there.
        SchemaAdded = "schema-added",
        /// A schema that is gone.
        SchemaRemoved = "schema-removed",
        /// What a schema asks for is something else, and whether that is more or less is not known.
        SchemaChanged = "schema-changed",
        /// A capability that the server did not declare.
        CapabilityAdded = "capability-added",
        /// A capability that it does not declare any more.
        CapabilityRemoved = "capability-removed",
        /// What it says of a capability.
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
    /// What has happened.
    pub kind: ChangeKind,
    /// To what.
    pub of: ChangeOf,
    /// What that is called by. `None` for the server, and for an item without a name.
    pub name: Option<String>,
    /// Where in it, as a JSON pointer; empty for all of it. For the server: in the document of `mcpjoin list --json`.
    pub path: String,
    /// What was there: the same value as the server sent, its members in the order of their names. `None` where nothing was.
    pub old: Option<Raw>,
    /// What is there.
    pub new: Option<Raw>,
}

/// What has changed from the one to the other, in the order of [`ChangeOf::ALL`], of names, of paths and of classes. Empty exactly when
/// nothing differs that has a meaning.
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

/// Compares two lists by what their items are called.
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
    if old.as_str() != new.as_str() {
        items::item(noting, &old, &new);
    }
    let place = |change: &Change| (change.path.clone(), change.class, change.kind);
    noting.out[begun..].sort_by_cached_key(place);
}

/// The items of one name, where there are several or none: those that are the same on both sides stand for each other, and
/// the others one for one.
fn several(noting: &mut Noting<'_>, old: &[&Raw], new: &[&Raw], is_named: bool) {
    // The same text again and again is counted once.
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
    // What has no name is told by itself: nothing says which of them are one.
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
        // With a name that is there already it may be taken for the other one.
        let (class, kind) = match repeats || is_named && new.len() > 1 {
            true => (ChangeClass::Breaks, ChangeKind::Repeated),
            false => (ChangeClass::Adds, ChangeKind::Added),
        };
        noting.note(class, kind, "", None, Some(&item));
    }
}

/// Where changes are noted, and of what.
struct Noting<'a> {
    out: &'a mut Vec<Change>,
    of: ChangeOf,
    name: Option<String>,
}

impl<'a> Noting<'a> {
    const fn new(out: &'a mut Vec<Change>, of: ChangeOf, name: Option<String>) -> Self {
        Self { out, of, name }
    }

    fn note(
        &mut self,
        class: ChangeClass,
        kind: ChangeKind,
        path: impl Into<String>,
        old: Option<&Raw>,
        new: Option<&Raw>,
    ) {
        self.out.push(Change {
            class,
            kind,
            of: self.of,
            name: self.name.clone(),
            path: path.into(),
            old: old.cloned(),
            new: new.cloned(),
        });
    }
}

/// The members of an object; `None` for anything else, and where a name stands twice.
fn object(raw: &Raw) -> Option<BTreeMap<String, Raw>> {
    Some(members(raw)?.into_iter().collect())
}

/// The names that either has.
fn names<'a, V>(old: &'a BTreeMap<String, V>, new: &'a BTreeMap<String, V>) -> BTreeSet<&'a str> {
    old.keys().chain(new.keys()).map(String::as_str).collect()
}

/// The pointer to a member.
fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}
