//! Changes of the server itself, of a tool, a resource, a template or a prompt, member by member.
//!
//! Called by [`changes`](super::changes) with canonical values. A member that it does not know is reported as one that is
//! read.

use std::collections::BTreeMap;

use mcpjoin_proto::Raw;

use super::schema::{Flow, schema};
use super::{ChangeClass, ChangeKind, ChangeOf, Noting, Offer, below, names, object};
use crate::json::{canonical, elements};

type Members = BTreeMap<String, Raw>;

/// What the server says of itself.
pub(super) fn server(noting: &mut Noting<'_>, old: &Offer, new: &Offer) {
    let same = |value: &Option<Raw>| value.as_ref().map(canonical);
    let of_members = |value: &Option<Raw>| same(value).as_ref().and_then(object).unwrap_or_default();
    let version = (same(&old.protocol_version), same(&new.protocol_version));
    changed(noting, ChangeClass::Noted, ChangeKind::Version, "/protocolVersion", &version.0, &version.1);
    let (was, is) = (of_members(&old.server_info), of_members(&new.server_info));
    for name in names(&was, &is) {
        let (class, kind) = match name {
            "version" => (ChangeClass::Noted, ChangeKind::Version),
            "name" | "title" | "description" => (ChangeClass::Reads, ChangeKind::Text),
            _ => (ChangeClass::Reads, ChangeKind::Member),
        };
        member(noting, class, kind, "/serverInfo", name, &was, &is);
    }
    let said = (same(&old.instructions), same(&new.instructions));
    changed(noting, ChangeClass::Reads, ChangeKind::Text, "/instructions", &said.0, &said.1);
    capabilities(noting, "/capabilities", &of_members(&old.capabilities), &of_members(&new.capabilities));
}

/// What is declared and what is `true` can be used; `false` and nothing are one.
fn capabilities(noting: &mut Noting<'_>, path: &str, old: &Members, new: &Members) {
    let stands_for_nothing = |value: &Option<&Raw>| value.is_none_or(|value| value.as_str() == "false");
    for name in names(old, new) {
        let (was, is, path) = (old.get(name), new.get(name), below(path, name));
        let of = |value: Option<&Raw>| value.and_then(object);
        match (of(was), of(is)) {
            (Some(old), Some(new)) => capabilities(noting, &path, &old, &new),
            _ if was.map(Raw::as_str) == is.map(Raw::as_str) => {}
            _ => {
                let (class, kind) = match (stands_for_nothing(&was), stands_for_nothing(&is)) {
                    (true, true) => continue,
                    (true, false) => (ChangeClass::Adds, ChangeKind::CapabilityAdded),
                    (false, true) => (ChangeClass::Breaks, ChangeKind::CapabilityRemoved),
                    (false, false) => (ChangeClass::Reads, ChangeKind::CapabilityChanged),
                };
                noting.note(class, kind, path, was, is);
            }
        }
    }
}

/// An item of a list, which differs.
pub(super) fn item(noting: &mut Noting<'_>, old: &Raw, new: &Raw) {
    let (Some(was), Some(is)) = (object(old), object(new)) else {
        // Two readers may take different things of it.
        return noting.note(ChangeClass::Breaks, ChangeKind::Member, "", Some(old), Some(new));
    };
    for name in names(&was, &is) {
        let (old, new) = (was.get(name), is.get(name));
        if old.map(Raw::as_str) == new.map(Raw::as_str) {
            continue;
        }
        let path = below("", name);
        match (noting.of, name) {
            (_, "description" | "title") | (ChangeOf::Resource | ChangeOf::ResourceTemplate, "name") => {
                noting.note(ChangeClass::Reads, ChangeKind::Text, path, old, new);
            }
            (_, "annotations") => annotations(noting, &path, old, new),
            (ChangeOf::Tool, "inputSchema" | "outputSchema") => {
                let flow = if name == "inputSchema" { Flow::In } else { Flow::Out };
                match (old, new) {
                    (Some(old), Some(new)) => schema(noting, flow, &path, old, new),
                    (None, _) if flow == Flow::Out => {
                        noting.note(ChangeClass::Reads, ChangeKind::SchemaAdded, path, old, new);
                    }
                    (_, None) => {
                        noting.note(ChangeClass::Breaks, ChangeKind::SchemaRemoved, path, old, new);
                    }
                    (None, _) => noting.note(ChangeClass::Breaks, ChangeKind::SchemaAdded, path, old, new),
                }
            }
            (ChangeOf::Tool, "execution") => execution(noting, &path, old, new),
            (ChangeOf::Prompt, "arguments") => arguments(noting, &path, old, new),
            // What was said of it is relied on; where nothing was, nothing was relied on.
            (ChangeOf::Resource | ChangeOf::ResourceTemplate, "mimeType") if old.is_some() => {
                noting.note(ChangeClass::Breaks, ChangeKind::Member, path, old, new);
            }
            // It is the content that has grown.
            (ChangeOf::Resource, "size") => {
                noting.note(ChangeClass::Noted, ChangeKind::Member, path, old, new);
            }
            _ => noting.note(ChangeClass::Reads, ChangeKind::Member, path, old, new),
        }
    }
}

fn annotations(noting: &mut Noting<'_>, path: &str, old: Option<&Raw>, new: Option<&Raw>) {
    let of = |value: Option<&Raw>| value.map_or_else(|| Some(Members::new()), object);
    let (Some(was), Some(is)) = (of(old), of(new)) else {
        return noting.note(ChangeClass::Reads, ChangeKind::Annotation, path, old, new);
    };
    if was.is_empty() && is.is_empty() {
        return;
    }
    for name in names(&was, &is) {
        let means = |members: &Members| members.get(name).map(|raw| raw.as_str().to_owned());
        let (before, now) = (means(&was), means(&is));
        if let Some(unsaid) = unsaid(name)
            && before.as_deref().unwrap_or(unsaid) == now.as_deref().unwrap_or(unsaid)
        {
            continue;
        }
        // When the content was changed last says nothing of what it is.
        let class = if name == "lastModified" { ChangeClass::Noted } else { ChangeClass::Reads };
        member(noting, class, ChangeKind::Annotation, path, name, &was, &is);
    }
}

/// What an annotation of a tool means where it is absent:
/// <https://modelcontextprotocol.io/specification/2026-07-28/schema#toolannotations>.
fn unsaid(name: &str) -> Option<&'static str> {
    match name {
        "readOnlyHint" | "idempotentHint" => Some("false"),
        "destructiveHint" | "openWorldHint" => Some("true"),
        _ => None,
    }
}

/// Whether a tool can be called as a task, or has to be: 2025-11-25 alone.
fn execution(noting: &mut Noting<'_>, path: &str, old: Option<&Raw>, new: Option<&Raw>) {
    let of = |value: Option<&Raw>| value.and_then(object).unwrap_or_default();
    let (was, is) = (of(old), of(new));
    for name in names(&was, &is) {
        let word = |members: &Members| {
            let word = members.get("taskSupport").and_then(Raw::to_string_value);
            word.map_or_else(|| "forbidden".to_owned(), |word| word.into_owned())
        };
        let (before, now) = (word(&was), word(&is));
        if name == "taskSupport" && before == now {
            continue;
        }
        let class = match (name, before.as_str(), now.as_str()) {
            ("taskSupport", _, "required") | ("taskSupport", "required" | "optional", "forbidden") => {
                ChangeClass::Breaks
            }
            ("taskSupport", "forbidden" | "required", "optional") => ChangeClass::Adds,
            _ => ChangeClass::Reads,
        };
        member(noting, class, ChangeKind::Member, path, name, &was, &is);
    }
}

/// The arguments of a prompt, by their names.
fn arguments(noting: &mut Noting<'_>, path: &str, old: Option<&Raw>, new: Option<&Raw>) {
    let (Some(was), Some(is)) = (by_name(old), by_name(new)) else {
        return noting.note(ChangeClass::Breaks, ChangeKind::SchemaChanged, path, old, new);
    };
    let required =
        |argument: &Members| argument.get("required").is_some_and(|value| value.as_str() == "true");
    for name in names(&was, &is) {
        // By its name: its place in the list says nothing.
        let path = below(path, name);
        match (was.get(name), is.get(name)) {
            (None, Some((raw, argument))) => {
                let (class, kind) = match required(argument) {
                    true => (ChangeClass::Breaks, ChangeKind::RequiredPropertyAdded),
                    false => (ChangeClass::Reads, ChangeKind::PropertyAdded),
                };
                noting.note(class, kind, path, None, Some(raw));
            }
            (Some((raw, _)), None) => {
                noting.note(ChangeClass::Breaks, ChangeKind::PropertyRemoved, path, Some(raw), None);
            }
            (Some((_, old)), Some((_, new))) => {
                match (required(old), required(new)) {
                    (false, true) => {
                        noting.note(ChangeClass::Breaks, ChangeKind::NowRequired, &*path, None, None);
                    }
                    (true, false) => {
                        noting.note(ChangeClass::Adds, ChangeKind::NoLongerRequired, &*path, None, None);
                    }
                    _ => {}
                }
                for name in names(old, new).into_iter().filter(|name| *name != "required") {
                    let text = matches!(name, "description" | "title");
                    let kind = if text { ChangeKind::Text } else { ChangeKind::Member };
                    member(noting, ChangeClass::Reads, kind, &path, name, old, new);
                }
            }
            (None, None) => {}
        }
    }
}

/// Objects by their names; `None` where they are no such list, or two have one name.
fn by_name(list: Option<&Raw>) -> Option<BTreeMap<String, (Raw, Members)>> {
    let Some(list) = list else { return Some(BTreeMap::new()) };
    let mut named = BTreeMap::new();
    for item in elements(list)? {
        let members = object(&item)?;
        let name = members.get("name")?.to_string_value()?.into_owned();
        if named.insert(name, (item, members)).is_some() {
            return None;
        }
    }
    Some(named)
}

/// A member of both objects, where it differs.
fn member(
    noting: &mut Noting<'_>,
    class: ChangeClass,
    kind: ChangeKind,
    path: &str,
    name: &str,
    old: &Members,
    new: &Members,
) {
    let (old, new) = (old.get(name), new.get(name));
    if old.map(Raw::as_str) != new.map(Raw::as_str) {
        noting.note(class, kind, below(path, name), old, new);
    }
}

fn changed(
    noting: &mut Noting<'_>,
    class: ChangeClass,
    kind: ChangeKind,
    path: &str,
    old: &Option<Raw>,
    new: &Option<Raw>,
) {
    if old.as_ref().map(Raw::as_str) != new.as_ref().map(Raw::as_str) {
        noting.note(class, kind, path, old.as_ref(), new.as_ref());
    }
}
