//! What is remembered of the tools that a server lists, by their names.
//!
//! The server chooses how many there are, their names and what is to be remembered of them, so a table has a bound in
//! number and one in bytes. A tool that finds no room is treated as one that nobody has listed.

use std::collections::BTreeMap;

/// Tools that one table remembers: as many as the pages of a list may bring ten of, and more than a model can choose from.
pub const MOST: usize = 10_000;

/// Bytes of their names and of what is remembered of them: 400 for each, where names have 128 characters at most as the
/// specification recommends.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;

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
    /// Remembers `value` of a tool, of which the server has chosen so many bytes. Says whether there is room; where there
    /// is none, the tool is forgotten.
    pub fn insert(&mut self, name: &str, value: V, bytes: usize) -> bool {
        self.remove(name);
        let bytes = bytes.saturating_add(name.len());
        let has_room = self.tools.len() < MOST && bytes <= MOST_BYTES - self.bytes;
        if has_room {
            self.bytes += bytes;
            self.tools.insert(name.into(), Known { value, bytes });
        }
        has_room
    }

    /// Forgets a tool.
    pub fn remove(&mut self, name: &str) {
        if let Some(known) = self.tools.remove(name) {
            self.bytes -= known.bytes;
        }
    }

    /// What is known of a tool.
    pub fn get(&self, name: &str) -> Option<&V> {
        self.tools.get(name).map(|known| &known.value)
    }

    /// Whether no tool is known.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{KnownTools, MOST, MOST_BYTES};

    #[test]
    fn so_many_tools_are_known_and_one_that_is_forgotten_makes_room() {
        let mut tools = KnownTools::default();
        assert!((0..MOST).all(|name| tools.insert(&name.to_string(), (), 0)));
        assert!(!tools.insert("more", (), 0));
        assert!(tools.insert("0", (), 0), "it has its place");
        tools.remove("0");
        assert!(tools.insert("more", (), 0) && tools.get("more").is_some() && tools.get("0").is_none());
    }

    #[test]
    fn names_and_what_is_known_of_them_have_a_total_in_bytes() {
        let mut tools = KnownTools::default();
        assert!(!tools.insert(&"x".repeat(MOST_BYTES + 1), 0, 0) && tools.is_empty());
        assert!(!tools.insert("", 0, usize::MAX));
        let long = "x".repeat(MOST_BYTES / 4);
        assert!(tools.insert(&long, 1, MOST_BYTES / 4));
        assert!(tools.insert("b", 2, MOST_BYTES / 2 - 1));
        assert!(!tools.insert("c", 3, 0), "its name has no room");
        // What has grown is not kept as it was.
        assert!(!tools.insert("b", 4, MOST_BYTES / 2) && tools.get("b").is_none());
        tools.remove(&long);
        assert!(tools.insert("b", 5, MOST_BYTES - 1) && tools.get("b") == Some(&5));
    }
}
