//! Lists that are looked up by name and read in pages, in insertion order. `mount` joins the pages of several
//! servers; this is the only other paginator of servers.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination>. A cursor names the last
//! entry of its page, so pages stay correct when entries are added and removed between them.

use std::sync::Arc;

use mcpjoin_proto::sorted_map::SortedMap;
use mcpjoin_proto::types::PageParams;
use mcpjoin_proto::{ErrorObject, Payload, Raw, Request};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::{decode_params, encode_value};

/// A list of named entries.
pub(super) struct List<E> {
    /// The entries with their numbers, which only increase.
    entries: Vec<(u64, Arc<E>)>,
    /// The number of each entry.
    by_name: SortedMap<Box<str>, u64>,
    last: u64,
}

impl<E> Default for List<E> {
    fn default() -> Self {
        Self { entries: Vec::new(), by_name: SortedMap::new(), last: 0 }
    }
}

impl<E> List<E> {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<E>> {
        let number = self.by_name.get(name)?;
        let place = self.entries.binary_search_by_key(number, |(number, _)| *number).ok()?;
        self.entries.get(place).map(|(_, entry)| entry)
    }

    /// Returns the entries with their numbers, and the greatest number so far.
    pub(super) fn numbered(&self) -> (Vec<(u64, Arc<E>)>, u64) {
        (self.entries.clone(), self.last)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<E>> {
        self.entries.iter().map(|(_, entry)| entry)
    }

    /// Adds an entry, or replaces the one with its name. Returns whether the name was new.
    pub(super) fn insert(&mut self, name: &str, entry: E) -> bool {
        let entry = Arc::new(entry);
        if let Some(number) = self.by_name.get(name)
            && let Ok(place) = self.entries.binary_search_by_key(number, |(number, _)| *number)
        {
            self.entries[place].1 = entry;
            return false;
        }
        self.last += 1;
        self.by_name.insert(name.into(), self.last);
        self.entries.push((self.last, entry));
        true
    }

    pub(super) fn remove(&mut self, name: &str) -> bool {
        let Some(old) = self.by_name.remove(name) else { return false };
        self.entries.retain(|(number, _)| *number != old);
        true
    }

    /// Returns the requested page, as a result with the items in `member`.
    pub(super) fn page(
        &self,
        request: &Request,
        member: &'static str,
        size: usize,
        show: impl Fn(&E) -> Raw,
    ) -> Result<Raw, ErrorObject> {
        page_of(&self.entries, self.last, request.params.as_ref(), member, size, show)
    }
}

/// Returns the requested page of entries in the order of their numbers. `last` is the greatest number so far.
pub(super) fn page_of<E>(
    entries: &[(u64, Arc<E>)],
    last: u64,
    params: Option<&Payload>,
    member: &'static str,
    size: usize,
    show: impl Fn(&E) -> Raw,
) -> Result<Raw, ErrorObject> {
    let after = match cursor(params)? {
        None => 0,
        Some(cursor) => read_cursor(member, &cursor, last)?,
    };
    let start = entries.partition_point(|(number, _)| *number <= after);
    let rest = &entries[start..];
    let page = &rest[..rest.len().min(size)];
    let next_cursor = match page.last() {
        Some((number, _)) if page.len() < rest.len() => Some(write_cursor(member, *number)),
        _ => None,
    };
    self::page(member, page.iter().map(|(_, entry)| show(entry)).collect(), next_cursor)
}

/// Encodes a page, as a result with the items in `member`.
pub(super) fn page(
    member: &'static str,
    items: Vec<Raw>,
    next_cursor: Option<String>,
) -> Result<Raw, ErrorObject> {
    encode_value(&Page { member, items, next_cursor })
}

fn read_cursor(member: &str, cursor: &str, last: u64) -> Result<u64, ErrorObject> {
    cursor
        .strip_prefix(member)
        .and_then(|rest| rest.strip_prefix('-'))
        .and_then(|number| u64::from_str_radix(number, 16).ok())
        .filter(|number| *number <= last && write_cursor(member, *number) == cursor)
        .ok_or_else(|| ErrorObject::invalid_params("`cursor` is not one that this server has given"))
}

fn write_cursor(member: &str, number: u64) -> String {
    format!("{member}-{number:x}")
}

/// Returns the cursor of a request for a page.
pub(super) fn cursor(params: Option<&Payload>) -> Result<Option<String>, ErrorObject> {
    match params {
        None => Ok(None),
        Some(_) => decode_params::<PageParams>(params).map(|params| params.cursor),
    }
}

struct Page {
    member: &'static str,
    items: Vec<Raw>,
    next_cursor: Option<String>,
}

impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry(self.member, &self.items)?;
        if let Some(cursor) = &self.next_cursor {
            object.serialize_entry("nextCursor", cursor)?;
        }
        object.end()
    }
}
