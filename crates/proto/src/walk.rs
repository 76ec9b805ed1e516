//! The bound of a walk over data that another party wrote: a schema with references, a configuration that names files.
//!
//! Such data can refer to itself, so that a walk without a bound has no end, and one that is bounded by its depth alone
//! takes exponential time. Used by every crate that follows references or evaluates a schema.

use alloc::collections::BTreeSet;

/// The steps that a walk may still take, and the places that it has visited.
///
/// `P` identifies a place, for instance by its address. A walk that has to come to the same place more than once takes
/// steps only, and leaves `P` as it is.
#[derive(Clone, Debug)]
pub struct Walk<P = ()> {
    left: usize,
    visited: BTreeSet<P>,
}

impl<P: Ord> Walk<P> {
    /// A walk of at most this many steps.
    #[must_use]
    pub const fn new(most_steps: usize) -> Self {
        Self { left: most_steps, visited: BTreeSet::new() }
    }

    /// Takes a step; false when none was left.
    pub fn step(&mut self) -> bool {
        self.steps(1)
    }

    /// Takes several steps at once, for work that costs as much; false when fewer were left. Then none is left.
    pub fn steps(&mut self, count: usize) -> bool {
        let left = self.left.checked_sub(count);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    /// Takes a step to a place; false when it was visited before, and when no step was left.
    pub fn visit(&mut self, place: P) -> bool {
        self.step() && self.visited.insert(place)
    }

    /// The steps that are left. Zero does not say whether the walk was complete.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::Walk;

    #[test]
    fn a_walk_ends_after_its_steps_and_visits_each_place_once() {
        let mut walk = Walk::new(4);
        assert!(walk.visit("a"));
        assert!(!walk.visit("a"), "visited before");
        assert!(walk.visit("b") && walk.step());
        assert!(!walk.visit("c"), "no step is left");
        assert!(!walk.step());

        let mut walk: Walk = Walk::new(4);
        assert!(walk.steps(3) && !walk.steps(2));
        assert_eq!(walk.left(), 0);
        assert!(walk.steps(0) && !walk.step());
    }
}
