//! A table of the tools that a server lists, by name.
//!
//! The server chooses the number of tools, their names and their data, so the table is limited in number and in bytes.
//! A tool that does not fit is treated like one that was not listed.

use std::collections::BTreeMap;

/// Maximum number of tools in one table: ten on each of the 1,000 pages that a list may have, and more than a model can
/// choose from.
pub const MAX_TOOLS: usize = 10_000;

/// Maximum bytes of the names and the data of all tools in one table: 400 for each. The specification recommends names
/// of at most 128 characters.
pub const MAX_TOOL_BYTES: usize = 4 * 1024 * 1024;

/// A table of tools.
#[derive(Debug)]
pub struct KnownTools<V> {
    tools: BTreeMap<Box<str>, Known<V>>,
    bytes: usize,
}

#[derive(Debug)]
struct Known<V> {
    value: V,
    bytes: usize,
}

impl<V> Default for KnownTools<V> {
    fn default() -> Self {
        Self { tools: BTreeMap::new(), bytes: 0 }
    }
}

impl<V> KnownTools<V> {
    /// Stores `value` for a tool. `bytes` is how many bytes of it the server has chosen. Returns whether it fits; if
    /// not, the tool is removed.
    pub fn insert(&mut self, name: &str, value: V, bytes: usize) -> bool {
        self.remove(name);
        let bytes = bytes.saturating_add(name.len());
        let has_room = self.tools.len() < MAX_TOOLS && bytes <= MAX_TOOL_BYTES - self.bytes;
        if has_room {
            self.bytes += bytes;
            self.tools.insert(name.into(), Known { value, bytes });
        }
        has_room
    }

    /// Removes a tool.
    pub fn remove(&mut self, name: &str) {
        if let Some(known) = self.tools.remove(name) {
            self.bytes -= known.bytes;
        }
    }

    /// Returns the value of a tool.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.tools.get(name).map(|known| &known.value)
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Returns the bytes of the names and the data of all tools.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{KnownTools, MAX_TOOL_BYTES, MAX_TOOLS};

    #[test]
    fn known_tools_are_limited_and_a_dropped_one_makes_room() {
        let mut tools = KnownTools::default();
        assert!((0..MAX_TOOLS).all(|name| tools.insert(&name.to_string(), (), 0)));
        assert!(!tools.insert("more", (), 0));
        assert!(tools.insert("0", (), 0), "it has its place");
        tools.remove("0");
        assert!(tools.insert("more", (), 0) && tools.get("more").is_some() && tools.get("0").is_none());
    }

    #[test]
    fn names_and_what_is_known_of_them_have_a_total_in_bytes() {
        let mut tools = KnownTools::default();
        assert!(!tools.insert(&"x".repeat(MAX_TOOL_BYTES + 1), 0, 0) && tools.is_empty());
        assert!(!tools.insert("", 0, usize::MAX));
        let long = "x".repeat(MAX_TOOL_BYTES / 4);
        assert!(tools.insert(&long, 1, MAX_TOOL_BYTES / 4));
        assert!(tools.insert("b", 2, MAX_TOOL_BYTES / 2 - 1));
        assert!(!tools.insert("c", 3, 0), "its name has no room");
        // An entry that has grown over the limit is removed.
        assert!(!tools.insert("b", 4, MAX_TOOL_BYTES / 2) && tools.get("b").is_none());
        tools.remove(&long);
        assert!(tools.insert("b", 5, MAX_TOOL_BYTES - 1) && tools.get("b") == Some(&5));
    }
}
