//! What has changed, as one JSON document. Called by `diff`.

use mcpjoin::check::{Change, ChangeClass};
use mcpjoin::proto::Raw;

use super::Found;
use super::side::Said;
use crate::object;

/// The whole document.
pub(super) fn document(found: &Found) -> String {
    let shown = found.changes.iter().filter(|change| found.is_shown(change.class));
    let changes: Vec<String> = shown.map(change).collect();
    let classes = [ChangeClass::Breaks, ChangeClass::Reads, ChangeClass::Adds, ChangeClass::Noted];
    let counts = classes.map(|class| (class.as_str(), found.count(class).to_string()));
    object::write([
        ("old", side(&found.old).as_str()),
        ("new", side(&found.new).as_str()),
        ("changed", if found.has_changed() { "true" } else { "false" }),
        ("counts", &object::write(counts.iter().map(|(class, count)| (*class, count.as_str())))),
        ("changes", &format!("[{}]", changes.join(","))),
    ])
}

fn side(said: &Said) -> String {
    let source = Raw::string(&said.source);
    let members = [
        ("source", Some(&source)),
        ("protocolVersion", said.offer.protocol_version.as_ref()),
        ("serverInfo", said.offer.server_info.as_ref()),
    ];
    object::write(members.iter().filter_map(|(name, value)| Some((*name, (*value)?.as_str()))))
}

fn change(change: &Change) -> String {
    let text = |text: &str| Some(Raw::string(text));
    let members = [
        ("class", text(change.class.as_str())),
        ("kind", text(change.kind.as_str())),
        ("of", text(change.of.as_str())),
        ("name", change.name.as_deref().map(Raw::string)),
        ("path", text(&change.path)),
        ("old", change.old.clone()),
        ("new", change.new.clone()),
    ];
    object::write(members.iter().filter_map(|(name, value)| Some((*name, value.as_ref()?.as_str()))))
}
