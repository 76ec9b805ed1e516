//! Whether an object has a key twice.
//!
//! Few keys are compared with each other; more are kept as places and sorted once at the end of the object, so
//! that a million keys cost n log n and twelve bytes each.

use alloc::string::String;
use alloc::vec::Vec;

use super::walk::unescape_into;

/// Where a key lies in the text, without its quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    start: u32,
    end: u32,
    escaped: bool,
}

impl Key {
    /// The scanner has checked that the text's length fits.
    #[inline]
    pub(super) const fn new(start: usize, end: usize, escaped: bool) -> Self {
        Self { start: start as u32, end: end as u32, escaped }
    }

    /// The byte at which the key begins, behind its quote.
    pub(crate) const fn at(&self) -> usize {
        self.start as usize
    }

    /// The key as it is written, when that is also what it means; `None` when it has escapes.
    #[inline]
    pub(crate) fn plain<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        if self.escaped { None } else { text.get(self.start as usize..self.end as usize) }
    }

    /// What the key means.
    #[cold]
    pub(crate) fn unescaped(&self, text: &[u8]) -> String {
        let mut out = String::new();
        let written = text.get(self.start as usize..self.end as usize).unwrap_or_default();
        // The scanner has checked the bytes; a key that is not UTF-8 never gets here.
        unescape_into(core::str::from_utf8(written).unwrap_or_default(), &mut out);
        out
    }
}

/// A key among others: the place of its meaning in the text or, for one with escapes, in the store behind the
/// text, and the place where it was written.
#[derive(Clone, Copy, Default)]
struct Entry {
    start: u32,
    end: u32,
    at: u32,
}

/// How many keys are compared with each other before they are sorted instead.
const FEW: usize = 16;

/// The keys of one object.
pub(super) struct Keys {
    few: [Entry; FEW],
    count: usize,
    many: Vec<Entry>,
    store: Vec<u8>,
    duplicate: Option<Key>,
}

impl Keys {
    #[inline]
    pub(super) fn new() -> Self {
        Self { few: [Entry::default(); FEW], count: 0, many: Vec::new(), store: Vec::new(), duplicate: None }
    }

    #[inline]
    pub(super) fn add(&mut self, text: &[u8], key: Key) {
        let entry = if key.escaped {
            self.keep(text, key)
        } else {
            Entry { start: key.start, end: key.end, at: key.start }
        };
        if self.count < FEW {
            let length = entry.end - entry.start;
            for other in &self.few[..self.count] {
                // Keys of one object seldom have one length.
                if other.end - other.start == length
                    && meaning(text, &self.store, other) == meaning(text, &self.store, &entry)
                    && self.duplicate.is_none()
                {
                    self.duplicate = Some(key);
                }
            }
            self.few[self.count] = entry;
            self.count += 1;
        } else {
            self.add_to_many(entry);
        }
    }

    #[cold]
    fn add_to_many(&mut self, entry: Entry) {
        if self.many.is_empty() {
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(entry);
    }

    #[cold]
    fn keep(&mut self, text: &[u8], key: Key) -> Entry {
        let start = text.len() + self.store.len();
        self.store.extend_from_slice(key.unescaped(text).as_bytes());
        // Unescaping never lengthens and the text is shorter than 2 GiB, so both places fit 32 bits.
        Entry { start: start as u32, end: (text.len() + self.store.len()) as u32, at: key.start }
    }

    /// The first key, in the order of the text, that repeats an earlier one.
    #[inline]
    pub(super) fn duplicate(&mut self, text: &[u8]) -> Option<Key> {
        if self.many.is_empty() { self.duplicate } else { self.sorted_duplicate(text) }
    }

    #[cold]
    fn sorted_duplicate(&mut self, text: &[u8]) -> Option<Key> {
        let store = &self.store;
        self.many.sort_unstable_by(|a, b| {
            meaning(text, store, a).cmp(meaning(text, store, b)).then_with(|| a.at.cmp(&b.at))
        });
        let repeated = self
            .many
            .windows(2)
            .filter(|pair| meaning(text, store, &pair[0]) == meaning(text, store, &pair[1]));
        let at = repeated.map(|pair| pair[1].at as usize).min()?;
        let (end, escaped) = super::string_end(text, at);
        Some(Key::new(at, end, escaped))
    }
}

#[inline]
fn meaning<'a>(text: &'a [u8], store: &'a [u8], entry: &Entry) -> &'a [u8] {
    let (start, end) = (entry.start as usize, entry.end as usize);
    let found = if start < text.len() {
        text.get(start..end)
    } else {
        store.get(start - text.len()..end - text.len())
    };
    found.unwrap_or_default()
}
