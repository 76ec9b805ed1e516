//! Values under numbers that count up, for what is made in order and is mostly over soon: the calls under way.
//!
//! Used by `calls` and by whoever keeps something beside each call. Finding one is an index into a ring of places, not
//! a search; a place is used again, so that a call costs no memory of its own. What outlives most of its time is moved
//! to a map, so that the ring stays in proportion to what is there.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

/// The ring may have so many places that are over, beside as many as are not.
const MAX_SPARE_PLACES: usize = 64;

/// Values under numbers that count up.
#[derive(Debug)]
pub struct RingMap<T> {
    /// Made for the first of them: most sessions of a server never ask their client anything.
    kept: Option<Box<Kept<T>>>,
}

#[derive(Debug)]
struct Kept<T> {
    /// The number of the first place in the ring.
    first: i64,
    ring: VecDeque<Option<usize>>,
    /// What was made before that.
    older: BTreeMap<i64, usize>,
    values: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for RingMap<T> {
    fn default() -> Self {
        Self { kept: None }
    }
}

impl<T> RingMap<T> {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.len())
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a value in. Numbers only grow; one that does not is taken in all the same, and found more slowly.
    pub fn insert(&mut self, number: i64, value: T) {
        self.kept.get_or_insert_default().insert(number, value);
    }

    /// The value of that number.
    #[must_use]
    pub fn get(&self, number: i64) -> Option<&T> {
        let kept = self.kept.as_ref()?;
        kept.values.get(kept.place(number)?)?.as_ref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, number: i64) -> Option<&mut T> {
        let kept = self.kept.as_mut()?;
        let place = kept.place(number)?;
        kept.values.get_mut(place)?.as_mut()
    }

    /// Takes a value out.
    pub fn remove(&mut self, number: i64) -> Option<T> {
        let kept = self.kept.as_mut()?;
        let value = kept.remove(number);
        if kept.values.len() > MAX_SPARE_PLACES && kept.len() == 0 {
            self.kept = None;
        }
        value
    }

    /// Takes everything out, in the order of the numbers.
    pub fn take_all(&mut self) -> impl Iterator<Item = (i64, T)> + use<T> {
        let Kept { first, ring, older, mut values, .. } =
            self.kept.take().map_or_else(Kept::default, |kept| *kept);
        let recent = ring.into_iter().enumerate().filter_map(move |(index, place)| {
            let number = first.checked_add(i64::try_from(index).ok()?)?;
            Some((number, place?))
        });
        let places: BTreeMap<i64, usize> = older.into_iter().chain(recent).collect();
        places.into_iter().filter_map(move |(number, place)| Some((number, values.get_mut(place)?.take()?)))
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { first: 0, ring: VecDeque::new(), older: BTreeMap::new(), values: Vec::new(), free: Vec::new() }
    }
}

impl<T> Kept<T> {
    fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    fn insert(&mut self, number: i64, value: T) {
        self.remove(number);
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
            self.first = number;
        }
        match self.index(number).and_then(|index| index.checked_sub(self.ring.len())) {
            // Some numbers are left out: those of what was never put in here.
            Some(gap) if gap <= MAX_SPARE_PLACES => {
                self.ring.extend(core::iter::repeat_n(None, gap));
                self.ring.push_back(Some(place));
            }
            _ => {
                self.older.insert(number, place);
            }
        }
        while self.ring.len() > 2 * self.len() + MAX_SPARE_PLACES {
            if let Some(place) = self.ring.pop_front().flatten() {
                self.older.insert(self.first, place);
            }
            self.first = self.first.saturating_add(1);
        }
    }

    fn remove(&mut self, number: i64) -> Option<T> {
        let place = match self.index(number).and_then(|index| self.ring.get_mut(index)) {
            Some(place) => place.take(),
            None => None,
        };
        let place = match place {
            Some(place) => place,
            None if self.older.is_empty() => return None,
            None => self.older.remove(&number)?,
        };
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.first = self.first.saturating_add(1);
        }
        self.free.push(place);
        self.values.get_mut(place)?.take()
    }

    fn index(&self, number: i64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    fn place(&self, number: i64) -> Option<usize> {
        match self.index(number).and_then(|index| self.ring.get(index)) {
            Some(Some(place)) => Some(*place),
            _ if self.older.is_empty() => None,
            _ => self.older.get(&number).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_long_is_found_and_the_ring_stays_short() {
        let mut values = RingMap::default();
        for number in 1..=10_000 {
            values.insert(number, number);
            let ring = values.kept.as_ref().map_or(0, |kept| kept.ring.len());
            assert!(ring <= 2 * values.len() + MAX_SPARE_PLACES, "{ring}");
            if number % 1000 != 0 {
                assert_eq!(values.remove(number), Some(number));
            }
        }
        assert_eq!(values.len(), 10);
        let places = values.kept.as_ref().map(|kept| kept.values.len());
        assert_eq!(places, Some(10), "places are used again");
        assert_eq!(values.get(3000), Some(&3000));
        assert_eq!(values.get(3001), None);
        assert_eq!(values.remove(4000), Some(4000));
        assert_eq!(values.remove(4000), None);
        let rest: Vec<i64> = values.take_all().map(|(number, _)| number).collect();
        assert_eq!(rest, [1000, 2000, 3000, 5000, 6000, 7000, 8000, 9000, 10_000]);
        assert!(values.is_empty());
    }

    #[test]
    fn numbers_may_be_left_out_and_need_not_grow() {
        let mut values = RingMap::default();
        for number in [5, 9, 5000, 7, i64::MAX, 9] {
            values.insert(number, number);
        }
        assert_eq!(values.len(), 5);
        for number in [5, 7, 9, 5000, i64::MAX] {
            assert_eq!(values.get_mut(number).copied(), Some(number));
        }
        let all: Vec<i64> = values.take_all().map(|(number, _)| number).collect();
        assert_eq!(all, [5, 7, 9, 5000, i64::MAX]);
    }
}
