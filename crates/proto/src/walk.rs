//! The limit of a walk over data of another party: a schema with references, a configuration that names files.
//!
//! Such data may refer to itself. A walk without a limit does not end, and a walk with a depth limit takes exponential
//! time. Used by every crate that follows references or evaluates a schema.

use alloc::collections::BTreeSet;

/// The remaining steps of a walk, and the visited places.
///
/// `P` identifies a place, for instance by its address. A walk that may visit a place repeatedly only counts steps and
/// leaves `P` as it is.
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

    /// Takes a step. Returns false when none was left.
    pub fn step(&mut self) -> bool {
        self.steps(1)
    }

    /// Takes several steps, for work of that cost. Returns false when fewer were left, and none is left then.
    pub fn steps(&mut self, count: usize) -> bool {
        let left = self.left.checked_sub(count);
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    /// Takes a step to a place. Returns false when the place was visited before, or when no step was left.
    pub fn visit(&mut self, place: P) -> bool {
        self.step() && self.visited.insert(place)
    }

    /// The number of steps that are left. Zero does not mean that the walk is incomplete.
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
