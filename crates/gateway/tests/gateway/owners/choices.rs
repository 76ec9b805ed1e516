//! The choices that a schedule consists of, and the marks of its clients.

use std::fmt::Write as _;

/// Decides everything in a schedule. After the last number, the first option is chosen each time.
pub(super) struct Choices(Box<dyn Iterator<Item = u64> + Send>);

impl Choices {
    pub(super) fn new(numbers: impl Iterator<Item = u64> + Send + 'static) -> Self {
        Self(Box::new(numbers))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next().unwrap_or(0)
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
