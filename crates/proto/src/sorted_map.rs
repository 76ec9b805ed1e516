//! A map of few entries, or of entries whose keys ascend: a sorted queue.
//!
//! Used by sessions and connections in place of `BTreeMap`, which generates thirty times as much code for each pair of
//! types. Finding an entry costs the same. Adding and removing one moves the entries on its shorter side, so both
//! ends are cheap; a map of many entries in random order belongs into a tree.

use alloc::collections::VecDeque;
use core::borrow::Borrow;

/// Room that an empty map keeps, in entries: a map that is filled and emptied again and again allocates nothing.
const MAX_EMPTY_CAPACITY: usize = 16;

/// A map sorted by its keys.
#[derive(Clone, Debug)]
pub struct SortedMap<K, V>(VecDeque<(K, V)>);

/// A set sorted by its keys.
pub type SortedSet<K> = SortedMap<K, ()>;

impl<K, V> SortedMap<K, V> {
    /// An empty map. Allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(VecDeque::new())
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The keys in their order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }

    /// The values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    /// The values, without their keys.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.0.into_iter().map(|(_, value)| value)
    }

    /// The keys, without their values.
    pub fn into_keys(self) -> impl Iterator<Item = K> {
        self.0.into_iter().map(|(key, _)| key)
    }

    /// The greatest key.
    #[must_use]
    pub fn last(&self) -> Option<&K> {
        self.0.back().map(|(key, _)| key)
    }

    /// Removes the entry with the least key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        let first = self.0.pop_front();
        self.shrink();
        first
    }

    /// Gives back most of the room of a map that has become empty.
    fn shrink(&mut self) {
        if self.0.is_empty() && self.0.capacity() > MAX_EMPTY_CAPACITY {
            self.0 = VecDeque::new();
        }
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.0.binary_search_by(|(known, _)| known.borrow().cmp(key))
    }

    /// Whether there is an entry with this key.
    #[must_use]
    pub fn contains<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_ok()
    }

    /// The value of a key.
    #[must_use]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key).ok()?;
        self.0.get(place).map(|(_, value)| value)
    }

    /// The value of a key, mutable.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key).ok()?;
        self.0.get_mut(place).map(|(_, value)| value)
    }

    /// Sets the value of a key. Returns the value before.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(place) => self.0.get_mut(place).map(|(_, known)| core::mem::replace(known, value)),
            Err(place) => {
                self.0.insert(place, (key, value));
                None
            }
        }
    }

    /// The value of a key, which is inserted if it is missing.
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        let place = self.place(&key).unwrap_or_else(|place| {
            self.0.insert(place, (key, V::default()));
            place
        });
        &mut self.0[place].1
    }

    /// Removes an entry. Returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let place = self.place(key).ok()?;
        let removed = self.0.remove(place);
        self.shrink();
        removed.map(|(_, value)| value)
    }
}

impl<K: Ord> SortedSet<K> {
    /// Adds a key. Returns whether it is new.
    pub fn add(&mut self, key: K) -> bool {
        self.insert(key, ()).is_none()
    }
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_replaced_and_removed_in_any_order_and_read_in_theirs() {
        let mut map = SortedMap::new();
        for key in [5, 1, 9, 3, 7] {
            assert_eq!(map.insert(key, key * 10), None);
        }
        assert_eq!((map.insert(3, 33), map.get(&3), map.get(&4)), (Some(30), Some(&33), None));
        *map.get_or_default(9) += 1;
        *map.get_or_default(11) += 1;
        assert_eq!((map.remove(&5), map.remove(&5), map.contains(&7)), (Some(50), None, true));
        assert!(map.keys().eq(&[1, 3, 7, 9, 11]) && map.values().eq(&[10, 33, 70, 91, 1]));
        assert_eq!((map.last(), map.len()), (Some(&11), 5));
        assert_eq!((map.pop_first(), map.len()), (Some((1, 10)), 4));
        assert!(map.into_values().eq([33, 70, 91, 1]));
    }

    #[test]
    fn a_map_that_was_large_gives_its_room_back_and_a_small_one_keeps_it() {
        let mut map = SortedMap::new();
        (0..1000).for_each(|key| drop(map.insert(key, ())));
        (0..1000).for_each(|key| drop(map.remove(&key)));
        assert_eq!(map.0.capacity(), 0);
        map.insert(1, ());
        map.pop_first();
        assert!((1..=MAX_EMPTY_CAPACITY).contains(&map.0.capacity()));
        let mut set = SortedSet::new();
        assert_eq!((set.add("a"), set.add("a"), set.len()), (true, false, 1));
    }
}
