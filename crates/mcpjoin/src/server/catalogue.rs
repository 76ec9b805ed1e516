//! The names under which several servers are offered as one.
//!
//! [`ServerBuilder::mount`](super::ServerBuilder::mount) and gateways enter the lists of their servers in a
//! [`Catalogue`], and ask it which of them owns a name or a URI. It does no I/O, never splits a name at a
//! separator, and never reads descriptions.
//!
//! - Tools and prompts are offered as `PREFIX__name` ([`Source`]). They are looked up, never parsed.
//! - URIs stay unchanged. A URI belongs to the source that lists it, otherwise to one that has a matching template.
//! - If several sources offer the same name or URI, the first source owns it. [`Catalogue::replace`] and
//!   [`Catalogue::collisions`] report who collides with whom.
//! - A cursor of the joined list contains the generation of the catalogue, the source, and the cursor of that source.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/tools>,
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>
//!
//! ```
//! use mcpjoin::server::catalogue::{Catalogue, Kind, Source};
//!
//! let mut catalogue = Catalogue::new([Source::new("git"), Source::new("").separator("")]);
//! catalogue.replace(0, Kind::Tool, ["log", "diff"]);
//! let replaced = catalogue.replace(1, Kind::Tool, ["log", "git__log"]);
//!
//! let log = catalogue.find(Kind::Tool, "git__log").expect("it is offered");
//! assert_eq!((log.source, &*log.name), (0, "log"));
//! assert_eq!(replaced.collisions[0].other.source, 1);
//! assert_eq!(catalogue.joined(1, Kind::Tool, "log").as_deref(), Some("log"));
//! assert_eq!(catalogue.joined(1, Kind::Tool, "git__log"), None, "the first source owns it");
//! ```

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcpjoin_proto::{ErrorObject, Method, Payload, Raw};
use sha2::{Digest as _, Sha256};

use super::template::Template;

/// Maximum number of characters of a name with a prefix. Several clients and models refuse longer names of tools.
pub const MAX_NAME_CHARS: usize = 64;

/// Characters of the hash at the end of a name that was cut: 30 bits.
const HASH_CHARS: usize = 6;

/// Maximum number of entries of one source, of all kinds: as many as a table of tools has.
pub const MAX_SOURCE_ENTRIES: usize = crate::known_tools::MAX_TOOLS;

/// Maximum bytes of the names of one source, before and after joining.
pub const MAX_SOURCE_BYTES: usize = crate::known_tools::MAX_TOOL_BYTES;

/// Maximum number of entries of a catalogue: those of ten sources of maximum size.
pub const MAX_ENTRIES: usize = 10 * MAX_SOURCE_ENTRIES;

/// Maximum bytes of the names of a catalogue.
pub const MAX_BYTES: usize = 10 * MAX_SOURCE_BYTES;

/// Maximum bytes of a URI that is compared with templates. Each of them may search the whole URI.
pub const MAX_MATCHED_URI_BYTES: usize = 64 * 1024;

/// Maximum bytes of the cursor of a source within a cursor of the joined list.
pub const MAX_CURSOR_BYTES: usize = 2048;

/// Maximum bytes of joined instructions: they are part of every conversation.
pub const MAX_INSTRUCTION_BYTES: usize = 8 * 1024;

/// Maximum number of servers whose instructions are joined: each keeps at least 120 bytes.
const MAX_SECTIONS: usize = 64;

/// The key in `_meta` of a tool or prompt whose joined name was cut. The value is the name that its own server
/// gives it.
pub const ORIGINAL_NAME: &str = "io.github.mcpjoin/original-name";

/// Bytes before the cursor of the source: the tag, the source, and whether there is a cursor.
const CURSOR_HEADER_BYTES: usize = TAG_BYTES + 4 + 1;

/// Bytes of the hash that binds a cursor to its catalogue and its list.
const TAG_BYTES: usize = 8;

/// How the names of one server are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    prefix: String,
    separator: String,
}

impl Source {
    /// A source with this prefix and the separator `__`. With an empty prefix its names stay unchanged.
    #[must_use]
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), separator: "__".to_owned() }
    }

    /// Sets the separator between prefix and name.
    #[must_use]
    pub fn separator(mut self, separator: impl Into<String>) -> Self {
        self.separator = separator.into();
        self
    }

    /// Returns the prefix.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns the joined name of a tool or prompt.
    ///
    /// A joined name of more than [`MAX_NAME_CHARS`] characters is cut, and ends with `_` and six characters of a
    /// hash of the whole name. So every replica cuts it to the same name.
    #[must_use]
    pub fn joined<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.prefix.is_empty() {
            return Cow::Borrowed(name);
        }
        let mut joined = [&*self.prefix, &self.separator, name].concat();
        if self.cuts(name) {
            let hash = hash(&joined);
            let end = joined.char_indices().nth(MAX_NAME_CHARS - HASH_CHARS - 1);
            joined.truncate(end.map_or(joined.len(), |(end, _)| end));
            joined.push('_');
            joined.push_str(&hash);
        }
        Cow::Owned(joined)
    }

    /// Returns whether the joined name of this name is cut.
    fn cuts(&self, name: &str) -> bool {
        let chars = self.prefix.chars().chain(self.separator.chars()).chain(name.chars());
        !self.prefix.is_empty() && chars.take(MAX_NAME_CHARS + 1).count() > MAX_NAME_CHARS
    }

    /// Returns the name under which an entry is found.
    fn key<'a>(&self, kind: Kind, name: &'a str) -> Cow<'a, str> {
        match kind {
            Kind::Tool | Kind::Prompt => self.joined(name),
            Kind::Resource | Kind::ResourceTemplate => Cow::Borrowed(name),
        }
    }
}

impl From<&str> for Source {
    fn from(prefix: &str) -> Self {
        Self::new(prefix)
    }
}

impl From<String> for Source {
    fn from(prefix: String) -> Self {
        Self::new(prefix)
    }
}

/// Returns lower-case letters and digits of a hash of this name.
fn hash(name: &str) -> String {
    const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let digest: [u8; 32] = Sha256::digest(name.as_bytes()).into();
    digest.iter().take(HASH_CHARS).map(|byte| char::from(DIGITS[usize::from(byte % 32)])).collect()
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A tool, by its name.
    Tool,
    /// A prompt, by its name.
    Prompt,
    /// A resource, by its URI.
    Resource,
    /// A resource template, by its URI template.
    ResourceTemplate,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Resource, Self::ResourceTemplate];

    /// Returns the member of an item of this kind that has its name, its URI or its URI template.
    #[doc(hidden)]
    #[must_use]
    pub const fn name_member(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::ResourceTemplate => "uriTemplate",
        }
    }

    /// Returns the member of the result of a list with entries of this kind.
    #[doc(hidden)]
    #[must_use]
    pub const fn list_member(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource => "resources",
            Self::ResourceTemplate => "resourceTemplates",
        }
    }

    /// Returns the kind that this method lists. `None` for other methods.
    #[doc(hidden)]
    #[must_use]
    pub const fn of_list(method: &Method) -> Option<Self> {
        Some(match method {
            Method::ListTools => Self::Tool,
            Method::ListPrompts => Self::Prompt,
            Method::ListResources => Self::Resource,
            Method::ListResourceTemplates => Self::ResourceTemplate,
            _ => return None,
        })
    }

    /// Returns the method that lists this kind.
    #[doc(hidden)]
    #[must_use]
    pub const fn list_method(self) -> Method {
        match self {
            Self::Tool => Method::ListTools,
            Self::Prompt => Method::ListPrompts,
            Self::Resource => Method::ListResources,
            Self::ResourceTemplate => Method::ListResourceTemplates,
        }
    }

    /// Returns the name of the list with entries of this kind.
    #[must_use]
    pub const fn list(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource => "resources",
            Self::ResourceTemplate => "resource templates",
        }
    }
}

/// One entry of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The index of the source.
    pub source: usize,
    /// The name, URI or URI template that the source itself uses.
    pub name: Arc<str>,
}

/// Two entries with the same joined name or URI.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collision {
    /// Their kind.
    pub kind: Kind,
    /// The joined name, the URI or the URI template.
    pub name: String,
    /// The entry that is offered.
    pub owner: Claim,
    /// The entry that is not offered.
    pub other: Claim,
}

/// What [`Catalogue::replace`] or [`Catalogue::add`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replaced {
    /// The collisions of names that the source did not have before.
    pub collisions: Vec<Collision>,
    /// The number of names that stood in the list more than once.
    pub repeated: usize,
    /// The number of names that did not fit the limits. They are not offered.
    pub left_out: usize,
}

/// The source that owns a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Owner {
    /// The index of the source.
    pub source: usize,
    /// Another source that lists the URI or has a matching template as well.
    pub contested_by: Option<usize>,
}

/// Where a page of a joined list begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The index of the source.
    pub source: usize,
    /// The cursor of that source. `None` for its first page.
    pub cursor: Option<String>,
}

/// The entries of several sources, by joined name. A source has the index at which it was given.
#[derive(Debug)]
pub struct Catalogue {
    sources: Vec<Entries>,
    index: Index,
    size: Size,
    /// A hash of the prefixes and separators of all sources in their order. It is the same on all replicas. A changed list
    /// keeps it, because each source keeps its own cursors valid.
    generation: u64,
}

/// For each kind the entries by joined name; those of the first source first.
type Index = [BTreeMap<Box<str>, Vec<Claim>>; Kind::ALL.len()];

/// The entries of one source.
#[derive(Debug)]
struct Entries {
    source: Source,
    names: [HashSet<Arc<str>>; Kind::ALL.len()],
    templates: Vec<Pattern>,
    size: Size,
}

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    entries: usize,
    bytes: usize,
}

impl Size {
    fn has_room(self, bytes: usize, most_entries: usize, most_bytes: usize) -> bool {
        self.entries < most_entries && bytes <= most_bytes.saturating_sub(self.bytes)
    }

    fn add(&mut self, bytes: usize) {
        self.entries += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.entries -= 1;
        self.bytes -= bytes;
    }
}

/// A URI template of a source.
#[derive(Debug)]
enum Pattern {
    Template(Template),
    /// The text before the first expression of a template that we cannot match.
    Start(Box<str>),
}

impl Pattern {
    fn new(template: &str) -> Self {
        Template::parse(template).map_or_else(
            |_| Self::Start(template.split('{').next().unwrap_or_default().into()),
            Self::Template,
        )
    }

    /// `exactly`: by a template that can be matched, otherwise by the start of another one.
    fn matches(&self, uri: &str, exactly: bool) -> bool {
        match self {
            Self::Template(template) => exactly && template.matches(uri).is_some(),
            Self::Start(start) => !exactly && !start.is_empty() && uri.starts_with(&**start),
        }
    }
}

impl Catalogue {
    /// A catalogue of these sources, in the order of their precedence, without entries.
    #[must_use]
    pub fn new(sources: impl IntoIterator<Item = Source>) -> Self {
        let entries = |source| Entries {
            source,
            names: Default::default(),
            templates: Vec::new(),
            size: Size::default(),
        };
        let sources: Vec<Entries> = sources.into_iter().map(entries).collect();
        let mut digest = Sha256::new();
        for Entries { source, .. } in &sources {
            for text in [&source.prefix, &source.separator] {
                digest.update((text.len() as u64).to_be_bytes());
                digest.update(text);
            }
        }
        let generation = first_bytes(digest);
        Self { sources, index: Index::default(), size: Size::default(), generation }
    }

    /// Returns the sources in their order.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = &Source> {
        self.sources.iter().map(|entries| &entries.source)
    }

    /// Replaces the names of one kind of a source: its whole list. Does nothing if there is no such source.
    ///
    /// A source has at most [`MAX_SOURCE_ENTRIES`] entries with [`MAX_SOURCE_BYTES`] bytes, and all sources
    /// together [`MAX_ENTRIES`] with [`MAX_BYTES`]. Names beyond that are left out.
    pub fn replace<N: AsRef<str>>(
        &mut self,
        source: usize,
        kind: Kind,
        names: impl IntoIterator<Item = N>,
    ) -> Replaced {
        let before = self.remove(source, kind);
        self.insert(source, kind, names, &before)
    }

    /// Adds names of one kind to those of a source: one more page of its list. The limits are those of
    /// [`replace`](Self::replace).
    pub fn add<N: AsRef<str>>(
        &mut self,
        source: usize,
        kind: Kind,
        names: impl IntoIterator<Item = N>,
    ) -> Replaced {
        self.insert(source, kind, names, &HashSet::new())
    }

    /// Removes the names of one kind of a source, and returns them.
    fn remove(&mut self, source: usize, kind: Kind) -> HashSet<Arc<str>> {
        let Some(entries) = self.sources.get_mut(source) else { return HashSet::new() };
        let index = &mut self.index[kind as usize];
        let before = std::mem::take(&mut entries.names[kind as usize]);
        for name in &before {
            let key = entries.source.key(kind, name);
            entries.size.remove(key.len() + name.len());
            self.size.remove(key.len() + name.len());
            if let Some(claims) = index.get_mut(&*key) {
                claims.retain(|claim| claim.source != source || claim.name != *name);
                if claims.is_empty() {
                    index.remove(&*key);
                }
            }
        }
        if kind == Kind::ResourceTemplate {
            entries.templates.clear();
        }
        before
    }

    /// `before`: the names whose collisions were reported already.
    fn insert<N: AsRef<str>>(
        &mut self,
        source: usize,
        kind: Kind,
        names: impl IntoIterator<Item = N>,
        before: &HashSet<Arc<str>>,
    ) -> Replaced {
        let mut replaced = Replaced::default();
        let Some(entries) = self.sources.get_mut(source) else { return replaced };
        let index = &mut self.index[kind as usize];
        for name in names {
            let name = name.as_ref();
            if entries.names[kind as usize].contains(name) {
                replaced.repeated += 1;
                continue;
            }
            let key = entries.source.key(kind, name);
            let bytes = key.len() + name.len();
            if !entries.size.has_room(bytes, MAX_SOURCE_ENTRIES, MAX_SOURCE_BYTES)
                || !self.size.has_room(bytes, MAX_ENTRIES, MAX_BYTES)
            {
                replaced.left_out += 1;
                continue;
            }
            entries.size.add(bytes);
            self.size.add(bytes);
            let new = Claim { source, name: name.into() };
            entries.names[kind as usize].insert(new.name.clone());
            if kind == Kind::ResourceTemplate {
                entries.templates.push(Pattern::new(name));
            }
            let claims = index.entry(key.as_ref().into()).or_default();
            let place = claims.partition_point(|claim| claim.source <= source);
            let is_new = !before.contains(name);
            claims.insert(place, new.clone());
            if let (true, [owner, second, ..]) = (is_new, &**claims) {
                let other = if place == 0 { second.clone() } else { new };
                let (name, owner) = (key.into_owned(), owner.clone());
                replaced.collisions.push(Collision { kind, name, owner, other });
            }
        }
        replaced
    }

    /// Returns all present collisions. With three entries of one name there are two.
    pub fn collisions(&self) -> impl Iterator<Item = Collision> {
        Kind::ALL.into_iter().zip(&self.index).flat_map(|(kind, index)| {
            index.iter().flat_map(move |(name, claims)| {
                claims.iter().skip(1).zip(claims.first().into_iter().cycle()).map(move |(other, owner)| {
                    Collision { kind, name: name.to_string(), owner: owner.clone(), other: other.clone() }
                })
            })
        })
    }

    /// Returns the joined names of a kind, each once.
    pub fn names(&self, kind: Kind) -> impl ExactSizeIterator<Item = &str> {
        self.index[kind as usize].keys().map(|name| &**name)
    }

    /// Returns the entry that is offered under this joined name, URI or URI template.
    #[must_use]
    pub fn find(&self, kind: Kind, joined: &str) -> Option<&Claim> {
        self.index[kind as usize].get(joined)?.first()
    }

    /// Returns the name under which an entry of a source is offered. `None` if the catalogue does not have the
    /// entry, or if another one owns the name.
    #[must_use]
    pub fn joined<'a>(&self, source: usize, kind: Kind, name: &'a str) -> Option<Cow<'a, str>> {
        let joined = self.sources.get(source)?.source.key(kind, name);
        let owner = self.find(kind, &joined)?;
        (owner.source == source && *owner.name == *name).then_some(joined)
    }

    /// Returns an item of a list of a source as it is offered: with its joined name, every other byte unchanged. `None`
    /// if the catalogue does not have the item, or if another one owns the name. If the name is cut, the original name
    /// goes into `_meta`, unless a server in between has written it there.
    #[must_use]
    pub fn offered(&self, source: usize, kind: Kind, item: Raw) -> Option<Raw> {
        let own = item.member(kind.name_member())?;
        let own = own.to_string_value()?;
        let joined = self.joined(source, kind, &own)?;
        if *joined == *own {
            return Some(item);
        }
        let item = Payload::from_raw(item).with_member("name", &Raw::string(&joined));
        let has_original = || item.meta().is_some_and(|meta| meta.member(ORIGINAL_NAME).is_some());
        let is_cut = self.sources.get(source).is_some_and(|entries| entries.source.cuts(&own));
        let item = if is_cut && !has_original() {
            item.with_meta_member(ORIGINAL_NAME, &Raw::string(&own))
        } else {
            item
        };
        Some(item.into_raw())
    }

    /// Returns the source that owns a URI: the first that lists it, otherwise the first with a template that it
    /// matches.
    ///
    /// A template with other expressions than `{name}` and one `{+name}` matches what begins with the text before
    /// its first expression, if no other template matches. A URI of more than [`MAX_MATCHED_URI_BYTES`] matches no
    /// template.
    #[must_use]
    pub fn owner(&self, uri: &str) -> Option<Owner> {
        if let Some(claims) = self.index[Kind::Resource as usize].get(uri) {
            return first_two(claims.iter().map(|claim| claim.source));
        }
        if uri.len() > MAX_MATCHED_URI_BYTES {
            return None;
        }
        [true, false].into_iter().find_map(|exactly| {
            let matches = |entries: &Entries| entries.templates.iter().any(|one| one.matches(uri, exactly));
            let matching = self.sources.iter().enumerate().filter(|(_, entries)| matches(entries));
            first_two(matching.map(|(source, _)| source))
        })
    }

    /// Returns the cursor of a joined list for this position. `method` is that of the list.
    ///
    /// It is opaque and not secret. A client can make one for any cursor of a source, which has to check its own
    /// cursors.
    ///
    /// # Errors
    /// [`ErrorObject`] (-32603) if the cursor of the source has more than [`MAX_CURSOR_BYTES`].
    pub fn write_cursor(&self, method: &Method, position: &Position) -> Result<String, ErrorObject> {
        let inner = position.cursor.as_deref().unwrap_or_default();
        let source = u32::try_from(position.source).ok().filter(|_| inner.len() <= MAX_CURSOR_BYTES);
        let source =
            source.ok_or_else(|| ErrorObject::internal("a cursor of a joined server is too long"))?;
        let mut body = source.to_be_bytes().to_vec();
        body.push(position.cursor.is_some().into());
        body.extend_from_slice(inner.as_bytes());
        let tag = self.tag(method, &body);
        Ok(URL_SAFE_NO_PAD.encode([&tag[..], &body].concat()))
    }

    /// Returns the position of a cursor of a joined list.
    ///
    /// # Errors
    /// [`ErrorObject`] (-32602) if the cursor was not written for this method by a catalogue of this generation.
    pub fn read_cursor(&self, method: &Method, cursor: &str) -> Result<Position, ErrorObject> {
        self.position(method, cursor)
            .ok_or_else(|| ErrorObject::invalid_params("`cursor` is not one that this server has given"))
    }

    fn position(&self, method: &Method, cursor: &str) -> Option<Position> {
        if cursor.len() > (CURSOR_HEADER_BYTES + MAX_CURSOR_BYTES).div_ceil(3) * 4 {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (tag, body) = bytes.split_first_chunk::<TAG_BYTES>()?;
        if *tag != self.tag(method, body) {
            return None;
        }
        let (source, rest) = body.split_first_chunk()?;
        let source =
            usize::try_from(u32::from_be_bytes(*source)).ok().filter(|at| *at < self.sources.len())?;
        let (has_cursor, inner) = rest.split_first()?;
        let inner = std::str::from_utf8(inner).ok()?;
        Some(Position { source, cursor: (*has_cursor == 1).then(|| inner.to_owned()) })
    }

    fn tag(&self, method: &Method, body: &[u8]) -> [u8; TAG_BYTES] {
        let mut digest = Sha256::new();
        digest.update(self.generation.to_be_bytes());
        digest.update((method.as_str().len() as u64).to_be_bytes());
        digest.update(method.as_str());
        digest.update(body);
        first_bytes(digest).to_be_bytes()
    }
}

fn first_bytes(digest: Sha256) -> u64 {
    let [a, b, c, d, e, f, g, h, ..]: [u8; 32] = digest.finalize().into();
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

fn first_two(mut sources: impl Iterator<Item = usize>) -> Option<Owner> {
    let source = sources.next()?;
    Some(Owner { source, contested_by: sources.next() })
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.list())
    }
}

/// Joins the instructions of several servers, each under its heading (none if the heading is empty).
///
/// At most [`MAX_INSTRUCTION_BYTES`]: beyond that the longest are cut, so that each keeps the same share. Only the
/// first 64 servers with instructions are part of it. `None` if no server has instructions.
#[must_use]
pub fn join_instructions<'a>(parts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<String> {
    const CUT: &str = "…";
    let section = |(heading, text): (&str, &str)| match heading {
        "" => text.to_owned(),
        heading => format!("## {heading}\n\n{text}"),
    };
    let mut sections: Vec<String> =
        parts.into_iter().filter(|(_, text)| !text.is_empty()).take(MAX_SECTIONS).map(section).collect();
    let mut shortest_first: Vec<&mut String> = sections.iter_mut().collect();
    shortest_first.sort_by_key(|section| section.len());
    let mut sharing = shortest_first.len();
    let mut left = MAX_INSTRUCTION_BYTES.saturating_sub("\n\n".len() * sharing.saturating_sub(1));
    for section in shortest_first {
        let share = left / sharing;
        if section.len() > share {
            let mut end = share.saturating_sub(CUT.len());
            while !section.is_char_boundary(end) {
                end -= 1;
            }
            section.truncate(end);
            section.push_str(CUT);
        }
        left = left.saturating_sub(section.len());
        sharing -= 1;
    }
    (!sections.is_empty()).then(|| sections.join("\n\n"))
}

#[cfg(test)]
mod tests;
