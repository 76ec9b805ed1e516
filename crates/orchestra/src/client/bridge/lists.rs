//! Pagination. Each page is taken from a fresh list sorted by name, and a cursor names the last entry of its page. So
//! the pages stay consistent when entries are added or removed in between.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination>

use super::handler::to_raw;
use mcpjoin_proto::{ErrorObject, Raw, Request};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// The requested page, as a result with the entries in `member`. `entries` must be sorted by name without duplicates.
pub(super) fn page(
    entries: &[(String, Raw)],
    request: &Request,
    member: &'static str,
    size: usize,
) -> Result<Raw, ErrorObject> {
    let rest = match after(request, member)? {
        None => entries,
        Some(name) => {
            let start = entries.partition_point(|(known, _)| *known <= name);
            entries.get(start..).unwrap_or_default()
        }
    };
    let page = rest.get(..size.min(rest.len())).unwrap_or_default();
    let next_cursor = match page.last() {
        Some((name, _)) if page.len() < rest.len() => Some(cursor(member, name)),
        _ => None,
    };
    let items = page.iter().map(|(_, entry)| entry).collect();
    to_raw(&Page { member, items, next_cursor })
}

/// The name in the request's cursor.
fn after(request: &Request, member: &str) -> Result<Option<String>, ErrorObject> {
    let given = request.params.as_ref().and_then(|params| params.raw().member("cursor"));
    let Some(given) = given.filter(|given| *given != Raw::null()) else { return Ok(None) };
    let wrong = || ErrorObject::invalid_params("`cursor` is not one that this server has given");
    let text = given.to_string_value().ok_or_else(wrong)?;
    let digits = text.strip_prefix(member).and_then(|rest| rest.strip_prefix('-')).ok_or_else(wrong)?;
    let bytes: Option<Vec<u8>> = digits
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2))
        .map(|pair| pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()))
        .collect();
    let name = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(wrong)?;
    if cursor(member, &name) == *text { Ok(Some(name)) } else { Err(wrong()) }
}

fn cursor(member: &str, name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{member}-{digits}")
}

/// Sorts by name and keeps the first entry of each name.
pub(super) fn sorted(mut entries: Vec<(String, Raw)>) -> Vec<(String, Raw)> {
    entries.sort_by(|(left, _), (right, _)| left.cmp(right));
    entries.dedup_by(|(later, _), (first, _)| later == first);
    entries
}

struct Page<'a> {
    member: &'static str,
    items: Vec<&'a Raw>,
    next_cursor: Option<String>,
}

impl Serialize for Page<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry(self.member, &self.items)?;
        if let Some(cursor) = &self.next_cursor {
            object.serialize_entry("nextCursor", cursor)?;
        }
        object.end()
    }
}
