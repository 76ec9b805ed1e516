//! Changes of the server itself, of a tool, a resource, a template or a prompt, member by member.
//!
//! Called by [`changes`](super::changes) with canonical values. An unknown member has the class
//! [`Reads`](ChangeClass::Reads).

use std::collections::BTreeMap;

use mcpjoin_proto::Raw;

use super::schema::{Flow, schema};
use super::{ChangeClass, ChangeKind, ChangeOf, Noting, Offer, below, differ, names, object};
use crate::json::{canonical, elements};

type Members = BTreeMap<String, Raw>;

/// Compares the descriptions of the server.
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
    let (was, is) = (same(&old.capabilities), same(&new.capabilities));
    let begun = noting.out.len();
    noting.limit([was.as_ref(), is.as_ref()]);
    capabilities(noting, "/capabilities", &of_members(&was), &of_members(&is));
    noting.end(begun, ChangeKind::CapabilityChanged, "/capabilities", was.as_ref(), is.as_ref());
}

/// Compares capabilities; `false` and an absent capability are the same.
fn capabilities(noting: &mut Noting<'_>, path: &str, old: &Members, new: &Members) {
    let stands_for_nothing = |value: &Option<&Raw>| value.is_none_or(|value| value.as_str() == "false");
    for name in names(old, new) {
        let (was, is) = (old.get(name), new.get(name));
        if !differ(was, is) || !noting.takes(path.len()) {
            continue;
        }
        let path = below(path, name);
        let of = |value: Option<&Raw>| value.and_then(object);
        match (of(was), of(is)) {
            (Some(old), Some(new)) => capabilities(noting, &path, &old, &new),
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

/// Compares two items that differ.
pub(super) fn item(noting: &mut Noting<'_>, old: &Raw, new: &Raw) {
    let (Some(was), Some(is)) = (object(old), object(new)) else {
        // Readers may read a duplicate member differently.
        return noting.note(ChangeClass::Breaks, ChangeKind::Member, "", Some(old), Some(new));
    };
    for name in names(&was, &is) {
        let (old, new) = (was.get(name), is.get(name));
        if !differ(old, new) {
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
            // Users may rely on the former type.
            (ChangeOf::Resource | ChangeOf::ResourceTemplate, "mimeType") if old.is_some() => {
                noting.note(ChangeClass::Breaks, ChangeKind::Member, path, old, new);
            }
            // The content changed, and not the item.
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
        // The content changed, and not the item.
        let class = if name == "lastModified" { ChangeClass::Noted } else { ChangeClass::Reads };
        member(noting, class, ChangeKind::Annotation, path, name, &was, &is);
    }
}

/// The default of an annotation of a tool:
/// <https://modelcontextprotocol.io/specification/2026-07-28/schema#toolannotations>.
fn unsaid(name: &str) -> Option<&'static str> {
    match name {
        "readOnlyHint" | "idempotentHint" => Some("false"),
        "destructiveHint" | "openWorldHint" => Some("true"),
        _ => None,
    }
}

/// Compares `execution`, which says whether a tool may or must be called as a task: 2025-11-25 alone.
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

/// Compares the arguments of a prompt by their names.
fn arguments(noting: &mut Noting<'_>, path: &str, old: Option<&Raw>, new: Option<&Raw>) {
    let (Some(was), Some(is)) = (by_name(old), by_name(new)) else {
        return noting.note(ChangeClass::Breaks, ChangeKind::SchemaChanged, path, old, new);
    };
    let required =
        |argument: &Members| argument.get("required").is_some_and(|value| value.as_str() == "true");
    for name in names(&was, &is) {
        // By the name, because the order does not count.
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

/// Objects by their names; `None` if the list is malformed, or two have one name.
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

/// Notes a member that differs.
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
    if differ(old, new) && noting.takes(path.len()) {
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
    if differ(old.as_ref(), new.as_ref()) {
        noting.note(class, kind, path, old.as_ref(), new.as_ref());
    }
}
