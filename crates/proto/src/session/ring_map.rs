//! A map with ascending integer keys, for short-lived entries: pending calls.
//!
//! Used by `calls`, and by the connection for its data of each call. A lookup is an index into a ring of places. Places
//! are reused, so an entry allocates nothing. Long-lived entries move to a sorted map, so that the size of the ring stays
//! proportional to the number of entries.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::sorted_map::SortedMap;

/// The maximum number of finished places in the ring, beside one per entry.
const MAX_SPARE_PLACES: usize = 64;

/// A map with ascending integer keys.
#[derive(Debug)]
pub struct RingMap<T> {
    /// Allocated for the first entry: most server sessions never call their client.
    inner: Option<Box<Inner<T>>>,
}

#[derive(Debug)]
struct Inner<T> {
    /// The key of the first place in the ring.
    first: i64,
    ring: VecDeque<Option<usize>>,
    /// Entries older than the ring.
    older: SortedMap<i64, usize>,
    values: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for RingMap<T> {
    fn default() -> Self {
        Self { inner: None }
    }
}

impl<T> RingMap<T> {
    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.as_ref().map_or(0, |inner| inner.len())
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Inserts a value. A key that does not ascend is accepted, with a slower lookup.
    pub fn insert(&mut self, key: i64, value: T) {
        self.inner.get_or_insert_default().insert(key, value);
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: i64) -> Option<&T> {
        let inner = self.inner.as_ref()?;
        inner.values.get(inner.place(key)?)?.as_ref()
    }

    /// The value of a key, mutable.
    pub fn get_mut(&mut self, key: i64) -> Option<&mut T> {
        let inner = self.inner.as_mut()?;
        let place = inner.place(key)?;
        inner.values.get_mut(place)?.as_mut()
    }

    /// All entries, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, &T)> {
        self.inner.iter().flat_map(|inner| {
            let recent = (inner.first..).zip(&inner.ring).filter_map(|(key, place)| Some((key, (*place)?)));
            let older = inner.older.iter().map(|(key, place)| (*key, *place));
            recent.chain(older).filter_map(|(key, place)| Some((key, inner.values.get(place)?.as_ref()?)))
        })
    }

    /// Removes a value.
    pub fn remove(&mut self, key: i64) -> Option<T> {
        let inner = self.inner.as_mut()?;
        let value = inner.remove(key);
        if inner.values.len() > MAX_SPARE_PLACES && inner.len() == 0 {
            self.inner = None;
        }
        value
    }

    /// Removes all values, in the order of their keys.
    pub fn take_all(&mut self) -> impl Iterator<Item = (i64, T)> + use<T> {
        let Inner { first, ring, mut older, mut values, .. } =
            self.inner.take().map_or_else(Inner::default, |inner| *inner);
        let recent = ring.into_iter().enumerate().filter_map(move |(index, place)| {
            let key = first.checked_add(i64::try_from(index).ok()?)?;
            Some((key, place?))
        });
        for (key, place) in recent {
            older.insert(key, place);
        }
        core::iter::from_fn(move || older.pop_first())
            .filter_map(move |(key, place)| Some((key, values.get_mut(place)?.take()?)))
    }
}

impl<T> Default for Inner<T> {
    fn default() -> Self {
        Self {
            first: 0,
            ring: VecDeque::new(),
            older: SortedMap::new(),
            values: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Inner<T> {
    fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    fn insert(&mut self, key: i64, value: T) {
        self.remove(key);
        let place = match self.free.pop() {
            Some(place) => {
                self.values[place] = Some(value);
                place
            }
            None => {
                self.values.push(Some(value));
                self.values.len() - 1
            }
        };
        if self.ring.is_empty() {
            self.first = key;
        }
        match self.index(key).and_then(|index| index.checked_sub(self.ring.len())) {
            // Some keys are never inserted.
            Some(gap) if gap <= MAX_SPARE_PLACES => {
                self.ring.extend(core::iter::repeat_n(None, gap));
                self.ring.push_back(Some(place));
            }
            _ => {
                self.older.insert(key, place);
            }
        }
        while self.ring.len() > 2 * self.len() + MAX_SPARE_PLACES {
            if let Some(place) = self.ring.pop_front().flatten() {
                self.older.insert(self.first, place);
            }
            self.first = self.first.saturating_add(1);
        }
    }

    fn remove(&mut self, key: i64) -> Option<T> {
        let place = match self.index(key).and_then(|index| self.ring.get_mut(index)) {
            Some(place) => place.take(),
            None => None,
        };
        let place = match place {
            Some(place) => place,
            None if self.older.is_empty() => return None,
            None => self.older.remove(&key)?,
        };
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.first = self.first.saturating_add(1);
        }
        self.free.push(place);
        self.values.get_mut(place)?.take()
    }

    fn index(&self, key: i64) -> Option<usize> {
        usize::try_from(key.checked_sub(self.first)?).ok()
    }

    fn place(&self, key: i64) -> Option<usize> {
        match self.index(key).and_then(|index| self.ring.get(index)) {
            Some(Some(place)) => Some(*place),
            _ if self.older.is_empty() => None,
            _ => self.older.get(&key).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_long_is_found_and_the_ring_stays_short() {
        let mut values = RingMap::default();
        for key in 1..=10_000 {
            values.insert(key, key);
            let ring = values.inner.as_ref().map_or(0, |inner| inner.ring.len());
            assert!(ring <= 2 * values.len() + MAX_SPARE_PLACES, "{ring}");
            if key % 1000 != 0 {
                assert_eq!(values.remove(key), Some(key));
            }
        }
        assert_eq!(values.len(), 10);
        let places = values.inner.as_ref().map(|inner| inner.values.len());
        assert_eq!(places, Some(10), "places are used again");
        assert_eq!(values.get(3000), Some(&3000));
        assert_eq!(values.get(3001), None);
        let mut known: Vec<_> = values.iter().map(|(key, value)| (key, *value)).collect();
        known.sort_unstable();
        assert_eq!(known, (1..=10).map(|key| (1000 * key, 1000 * key)).collect::<Vec<_>>());
        assert_eq!(values.remove(4000), Some(4000));
        assert_eq!(values.remove(4000), None);
        let rest: Vec<i64> = values.take_all().map(|(key, _)| key).collect();
        assert_eq!(rest, [1000, 2000, 3000, 5000, 6000, 7000, 8000, 9000, 10_000]);
        assert!(values.is_empty());
    }

    #[test]
    fn numbers_may_be_left_out_and_need_not_grow() {
        let mut values = RingMap::default();
        for key in [5, 9, 5000, 7, i64::MAX, 9] {
            values.insert(key, key);
        }
        assert_eq!(values.len(), 5);
        for key in [5, 7, 9, 5000, i64::MAX] {
            assert_eq!(values.get_mut(key).copied(), Some(key));
        }
        let all: Vec<i64> = values.take_all().map(|(key, _)| key).collect();
        assert_eq!(all, [5, 7, 9, 5000, i64::MAX]);
    }
}
