//! Draws a random sample; the same seed gives the same sample.

/// The state of the generator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed(pub(super) u64);

impl Seed {
    /// The next number of SplitMix64 (<https://prng.di.unimi.it/splitmix64.c>), which produces each of the 2^64 numbers once.
    /// It is written here because the next release of a crate might draw other numbers.
    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A uniformly distributed number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        // Numbers above the last multiple of `end` would make small results more likely.
        let fair = u64::MAX - u64::MAX % end;
        loop {
            let number = self.next();
            if number < fair {
                return number % end;
            }
        }
    }
}

/// Draws `wanted` items, or all if there are fewer, and sorts them by name. The order of the input does not matter.
pub(super) fn draw(mut from: Vec<String>, wanted: usize, mut seed: Seed) -> Vec<String> {
    from.sort();
    let wanted = wanted.min(from.len());
    for place in 0..wanted {
        let left = u64::try_from(from.len() - place).unwrap_or(u64::MAX);
        let drawn = usize::try_from(seed.below(left)).unwrap_or_default();
        from.swap(place, place + drawn);
    }
    from.truncate(wanted);
    from.sort();
    from
}

/// A regular expression that matches exactly this text.
pub(super) fn literally(text: &str) -> String {
    let mut expression = String::new();
    for c in text.chars() {
        // The crate `regex` allows a backslash before any ASCII character but letters, digits, `<` and `>`. Those two are
        // literal.
        if c.is_ascii_punctuation() && !matches!(c, '<' | '>') {
            expression.push('\\');
        }
        expression.push(c);
    }
    expression
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::{Seed, draw, literally};

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{number:03}")).collect()
    }

    #[test]
    fn a_seed_draws_the_same_whatever_the_order() {
        let drawn = draw(names(500), 60, Seed(7));
        assert_eq!(drawn.len(), 60);
        assert_eq!(drawn.iter().collect::<BTreeSet<_>>().len(), 60, "none twice");
        assert_eq!(drawn, draw(names(500).into_iter().rev().collect(), 60, Seed(7)));
        assert_ne!(drawn, draw(names(500), 60, Seed(8)));
        // Fixed, so that a table can be reproduced years later.
        assert_eq!(draw(names(500), 4, Seed(20_261_123)), ["077", "125", "157", "473"]);
    }

    #[test]
    fn where_there_are_fewer_all_are_drawn() {
        assert_eq!(draw(names(3), 60, Seed(1)), names(3));
        assert!(draw(Vec::new(), 60, Seed(1)).is_empty());
    }

    #[test]
    fn each_is_as_likely_as_any_other() {
        let mut times: BTreeMap<String, u32> = BTreeMap::new();
        for seed in 0..2000 {
            for name in draw(names(10), 3, Seed(seed)) {
                *times.entry(name).or_default() += 1;
            }
        }
        // 600 each are expected, with a standard deviation of 20.5.
        assert_eq!(times.len(), 10);
        assert!(times.values().all(|times| (500..700).contains(times)), "{times:?}");
    }

    #[test]
    fn a_name_is_matched_literally() {
        assert_eq!(
            literally("a/b.rs:1:2: <T>::x -> &'_ (+) {}"),
            r"a\/b\.rs\:1\:2\: <T>\:\:x \-> \&\'\_ \(\+\) \{\}"
        );
    }
}
