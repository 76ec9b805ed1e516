//! Every message is marked with the client that it belongs to, and no client may receive the mark of another.
//!
//! A schedule is random: clients of both eras, on connections of their own and over HTTP, of several addresses and principals;
//! a server of either era, which logs, reports progress, asks and notifies while it works on their requests, in any order. All of
//! it follows from one number, which a failure prints.

#[cfg(feature = "http")]
mod over_http;
mod peers;
mod schedule;

use std::fmt::Write as _;

/// SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    /// True in `part` of 100 cases.
    pub(super) fn percent(&mut self, part: usize) -> bool {
        self.below(100) < part
    }

    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// The mark of a client on a message.
pub(super) fn mark(client: usize) -> String {
    let mut mark = String::new();
    write!(mark, "~c{client}~").unwrap();
    mark
}

/// The clients whose marks a text has.
pub(super) fn marks(text: &str) -> impl Iterator<Item = usize> + '_ {
    text.match_indices("~c").filter_map(move |(at, _)| {
        let digits = text[at + 2..].split('~').next()?;
        digits.parse().ok()
    })
}

#[test]
fn marks_are_found_wherever_they_are() {
    let text = format!(r#"{{"a":"{}","b":["x{}y"],"c":"~c"}}"#, mark(3), mark(12));
    assert_eq!(marks(&text).collect::<Vec<_>>(), [3, 12]);
}
