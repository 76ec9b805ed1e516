//! A tool's JSON Schema for a person: as a tree, as a signature, and as example arguments.
//!
//! Used by `commands` where a tool is shown. Members keep their order. References inside the document are followed. Steps, depth
//! and lines have limits, because a schema is a stranger's and may refer to itself. It validates nothing, and escapes all texts.

mod example;
mod kind;
mod signature;
mod tree;

use std::collections::{BTreeSet, HashSet};

use mcpjoin::proto::types::Members;
use mcpjoin::proto::{Kind, Raw, Walk};

use crate::visible;

/// A larger schema is not shown. `mcpjoin-schema` does not validate with it either.
const MAX_SCHEMA_BYTES: usize = 1 << 18;
/// The schemas that are visited for one tree, signature or example.
const MAX_STEPS: usize = 5_000;
/// The schemas that describe one value: the schema itself, and those that it refers to and combines.
const MAX_PARTS: usize = 64;
/// How deep values in values are shown.
const MAX_DEPTH: usize = 8;
/// The values of an enumeration that are shown, and the alternatives.
const MAX_VALUES: usize = 24;
/// The most characters of a value or a pattern.
const MAX_VALUE_CHARS: usize = 80;

/// A value of JSON whose members keep their order.
#[derive(Debug)]
enum Node {
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    /// Any other value, and an object with a name twice.
    Leaf(Raw),
}

static NOTHING: Node = Node::Array(Vec::new());

impl Node {
    fn read(raw: &Raw) -> Self {
        match raw.kind() {
            Kind::Object => match raw.decode::<Members<Raw>>() {
                Ok(members) => Self::Object(
                    members.into_iter().map(|(name, member)| (name, Self::read(&member))).collect(),
                ),
                Err(_) => Self::Leaf(raw.clone()),
            },
            Kind::Array => match raw.decode::<Vec<Raw>>() {
                Ok(items) => Self::Array(items.iter().map(Self::read).collect()),
                Err(_) => Self::Leaf(raw.clone()),
            },
            _ => Self::Leaf(raw.clone()),
        }
    }

    fn members(&self) -> &[(String, Self)] {
        if let Self::Object(members) = self { members } else { &[] }
    }

    fn items(&self) -> &[Self] {
        if let Self::Array(items) = self { items } else { &[] }
    }

    fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|(known, _)| known == name).map(|(_, member)| member)
    }

    fn list(&self, name: &str) -> &[Self] {
        self.get(name).unwrap_or(&NOTHING).items()
    }

    fn text(&self) -> Option<String> {
        if let Self::Leaf(raw) = self { raw.to_string_value().map(|text| text.into_owned()) } else { None }
    }

    fn is(&self, json: &str) -> bool {
        matches!(self, Self::Leaf(raw) if raw.as_str() == json)
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Leaf(raw) if raw.kind() == Kind::Number => raw.as_str().parse().ok(),
            _ => None,
        }
    }

    /// The value as JSON.
    fn json(&self) -> String {
        match self {
            Self::Leaf(raw) => raw.to_string(),
            Self::Array(items) => {
                let items: Vec<String> = items.iter().map(Self::json).collect();
                format!("[{}]", items.join(","))
            }
            Self::Object(members) => {
                crate::object::write(members.iter().map(|(name, member)| (name, member.json())))
            }
        }
    }

    /// The value as JSON in a line: escaped, and only its beginning where it is long.
    fn shown(&self) -> String {
        visible::cut_chars(&visible::line(&self.json()), MAX_VALUE_CHARS)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

/// A schema that was read.
#[derive(Debug)]
pub(crate) struct Schema {
    root: Node,
}

/// All that a schema says of a value: with the schemas that it refers to and combines.
#[derive(Default)]
struct View<'a> {
    parts: Vec<&'a Node>,
    /// Several schemas of which one describes the value.
    alternatives: Vec<&'a Node>,
    /// Alternatives that only require members: of each list one must be there.
    choices: Vec<Vec<Vec<String>>>,
    /// The constants that alternatives name.
    constants: Vec<&'a Node>,
    is_nullable: bool,
    /// A reference that leads to no place in the document.
    lost: Option<String>,
}

impl Schema {
    /// `None` where the schema is too large to be shown.
    pub(crate) fn read(raw: &Raw) -> Option<Self> {
        (raw.len() <= MAX_SCHEMA_BYTES).then(|| Self { root: Node::read(raw) })
    }

    /// The schema that a reference inside the document points to.
    fn follow(&self, reference: &str) -> Option<&Node> {
        let pointer = reference.strip_prefix('#')?;
        let mut node = &self.root;
        if pointer.is_empty() {
            return Some(node);
        }
        for step in pointer.strip_prefix('/')?.split('/') {
            let step = step.replace("~1", "/").replace("~0", "~");
            node = match node {
                Node::Array(items) => items.get(step.parse::<usize>().ok()?)?,
                node => node.get(&step)?,
            };
        }
        Some(node)
    }

    /// What a schema says, with the schemas that it refers to and combines.
    fn view<'a>(&'a self, node: &'a Node, walk: &mut Walk) -> View<'a> {
        let mut view = View::default();
        let mut seen = BTreeSet::new();
        let mut waiting = vec![node];
        while let Some(node) = waiting.pop() {
            if view.parts.len() == MAX_PARTS || !walk.step() {
                break;
            }
            if !seen.insert(node.address()) {
                continue;
            }
            view.parts.push(node);
            let mut next = Vec::new();
            if let Some(reference) = node.get("$ref").and_then(Node::text) {
                match self.follow(&reference) {
                    Some(node) => next.push(node),
                    None => view.lost = Some(reference),
                }
            }
            next.extend(node.list("allOf"));
            for keyword in ["anyOf", "oneOf"] {
                next.extend(view.add_alternatives(node.list(keyword)));
            }
            waiting.extend(next.into_iter().rev());
        }
        view
    }
}

impl<'a> View<'a> {
    /// Adds alternatives. Returns the one that is no alternative, since the others allow only null.
    fn add_alternatives(&mut self, all: &'a [Node]) -> Option<&'a Node> {
        let is_null = |node: &&Node| node.get("type").is_some_and(|name| name.is("\"null\""));
        let (nulls, others): (Vec<&Node>, Vec<&Node>) = all.iter().partition(is_null);
        self.is_nullable |= !nulls.is_empty();
        if let [one] = others[..] {
            return Some(one);
        }
        if others.is_empty() {
            return None;
        }
        let constants: Vec<&Node> = others.iter().filter_map(|node| node.get("const")).collect();
        let only_requires = |node: &&Node| matches!(node.members(), [(name, _)] if name == "required");
        if constants.len() == others.len() {
            self.constants.extend(constants);
        } else if others.iter().all(only_requires) {
            let choice = others.iter().map(|node| texts(node.list("required")).collect());
            self.choices.push(choice.collect());
        } else if self.alternatives.is_empty() {
            self.alternatives = others;
        }
        None
    }

    /// The value of a keyword: that of the first schema which has it.
    fn get(&self, name: &str) -> Option<&'a Node> {
        self.parts.iter().find_map(|part| part.get(name))
    }

    fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.get(name).is_some())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.get(name)?.text().filter(|text| !text.trim().is_empty())
    }

    /// The names of the types, without `null`.
    fn types(&self) -> Vec<String> {
        let named = match self.get("type") {
            Some(Node::Array(names)) => texts(names).collect(),
            Some(name) => name.text().into_iter().collect(),
            None => Vec::new(),
        };
        let types: Vec<String> = named.into_iter().filter(|name| name != "null").collect();
        match () {
            () if !types.is_empty() || self.get("type").is_some() => types,
            () if self.has(&["properties"]) => vec!["object".into()],
            () if self.has(&["items", "prefixItems"]) => vec!["array".into()],
            () => types,
        }
    }

    fn is_nullable(&self) -> bool {
        let is_null = |node: &Node| node.is("\"null\"");
        self.is_nullable
            || self.get("type").is_some_and(|name| name.items().iter().any(is_null))
            || self.get("enum").is_some_and(|values| values.items().iter().any(|value| value.is("null")))
    }

    /// The values that are allowed, where the schema lists them.
    fn values(&self) -> Vec<&'a Node> {
        let listed = match (self.get("const"), self.get("enum")) {
            (Some(value), _) => vec![value],
            (None, Some(values)) => values.items().iter().collect(),
            (None, None) => self.constants.clone(),
        };
        listed.into_iter().filter(|value| !value.is("null")).collect()
    }

    /// The properties of all parts, each name once.
    fn properties(&self) -> Vec<(&'a str, &'a Node)> {
        let mut seen = HashSet::new();
        let all = self.parts.iter().filter_map(|part| part.get("properties")).flat_map(Node::members);
        all.filter(|(name, _)| seen.insert(name.as_str())).map(|(name, node)| (name.as_str(), node)).collect()
    }

    fn required(&self) -> HashSet<String> {
        self.parts.iter().flat_map(|part| texts(part.list("required"))).collect()
    }

    /// The schema of the items of an array.
    fn items(&self) -> Option<&'a Node> {
        self.get("items").filter(|items| matches!(items, Node::Object(_)))
    }

    /// The schema of members that are not named.
    fn other_members(&self) -> Option<&'a Node> {
        self.get("additionalProperties").filter(|other| !other.members().is_empty())
    }
}

fn texts(nodes: &[Node]) -> impl Iterator<Item = String> {
    nodes.iter().filter_map(Node::text)
}

/// A name in a line.
fn named(name: &str) -> String {
    visible::cut_chars(&visible::line(name), MAX_VALUE_CHARS)
}

#[cfg(test)]
mod tests;
