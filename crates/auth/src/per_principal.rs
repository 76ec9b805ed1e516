//! Values by principal, bounded in number and in bytes: beyond a limit, the value that was unused for longest is dropped.
//!
//! Holds the tokens of clients (`subject_tokens`) and what they were exchanged for (`token_exchange`). A caller
//! must be able to go on without a value: it is made again when it is needed.

use std::collections::HashMap;

/// Principals with a value: ten times the sessions of a large gateway.
const MAX_PRINCIPALS: usize = 10_000;
/// Bytes of all principals and values together.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The values of at most [`MAX_PRINCIPALS`] principals, of at most [`MAX_BYTES`].
pub(super) struct PerPrincipal<V> {
    table: HashMap<Box<str>, Held<V>>,
    bytes: usize,
    /// Counts the uses.
    uses: u64,
}

struct Held<V> {
    value: V,
    bytes: usize,
    last_use: u64,
}

impl<V> Default for PerPrincipal<V> {
    fn default() -> Self {
        Self { table: HashMap::new(), bytes: 0, uses: 0 }
    }
}

impl<V> PerPrincipal<V> {
    /// The value of a principal. Counts as a use.
    pub(super) fn find(&mut self, principal: &str) -> Option<&mut V> {
        self.uses += 1;
        let held = self.table.get_mut(principal)?;
        held.last_use = self.uses;
        Some(&mut held.value)
    }

    /// Sets the value of a principal, which holds so many bytes.
    pub(super) fn insert(&mut self, principal: &str, value: V, bytes: usize) {
        let bytes = bytes.saturating_add(principal.len());
        self.uses += 1;
        let held = Held { value, bytes, last_use: self.uses };
        if let Some(before) = self.table.insert(principal.into(), held) {
            self.bytes -= before.bytes;
        }
        self.bytes += bytes;
        while self.table.len() > MAX_PRINCIPALS || self.bytes > MAX_BYTES {
            let unused = self.table.iter().min_by_key(|(_, held)| held.last_use);
            let Some(principal) = unused.map(|(principal, _)| principal.clone()) else { return };
            self.bytes -= self.table.remove(&principal).map_or(0, |held| held.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_are_limited_and_the_value_unused_for_longest_is_dropped() {
        let mut values = PerPrincipal::default();
        for number in 0..MAX_PRINCIPALS {
            values.insert(&number.to_string(), number, 1);
        }
        // The first one is used again, so the second one is unused for longest.
        assert_eq!(values.find("0").copied(), Some(0));
        values.insert("more", 7, 1);
        assert_eq!(values.table.len(), MAX_PRINCIPALS);
        assert_eq!((values.find("1").copied(), values.find("0").copied()), (None, Some(0)));
        assert_eq!(values.find("more").copied(), Some(7));
    }

    #[test]
    fn the_total_size_of_all_values_is_limited() {
        let mut values = PerPrincipal::default();
        let most = MAX_BYTES - "a".len() - "b".len();
        values.insert("a", (), most - 1);
        values.insert("b", (), 1);
        assert_eq!(values.bytes, MAX_BYTES);
        // A value that is replaced does not count twice.
        values.insert("b", (), 1);
        assert!(values.find("a").is_some() && values.find("b").is_some());
        values.insert("b", (), 2);
        assert!(values.find("a").is_none() && values.find("b").is_some());
        assert_eq!(values.bytes, "b".len() + 2);
        // One that is too large alone is not kept either.
        values.insert("c", (), MAX_BYTES);
        assert!(values.find("c").is_none());
        assert_eq!((values.bytes, values.table.len()), (0, 0));
    }
}
