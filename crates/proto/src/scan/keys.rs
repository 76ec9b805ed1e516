//! Detects repeated keys of an object.
//!
//! A few keys are compared with each other. More keys are stored as positions and sorted once at the end of the object,
//! so that a million keys take n log n time and 12 bytes each.

use alloc::string::String;
use alloc::vec::Vec;

use super::walk::unescape_into;

/// The position of a key in the text, without its quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Key {
    start: u32,
    end: u32,
    escaped: bool,
}

impl Key {
    /// The scanner has checked that the length of the text fits.
    #[inline]
    pub(super) const fn new(start: usize, end: usize, escaped: bool) -> Self {
        Self { start: start as u32, end: end as u32, escaped }
    }

    /// The first byte of the key, behind its quote.
    pub(crate) const fn at(&self) -> usize {
        self.start as usize
    }

    /// The key as written, if it has no escapes.
    #[inline]
    pub(crate) fn plain<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        if self.escaped { None } else { text.get(self.start as usize..self.end as usize) }
    }

    /// The unescaped key.
    #[cold]
    pub(crate) fn unescaped(&self, text: &[u8]) -> String {
        let mut out = String::new();
        let written = text.get(self.start as usize..self.end as usize).unwrap_or_default();
        // The scanner has validated the bytes as UTF-8.
        unescape_into(core::str::from_utf8(written).unwrap_or_default(), &mut out);
        out
    }
}

/// A key in a list: the position of its unescaped form in the text or, for a key with escapes, in the store behind the
/// text; and its position in the text.
#[derive(Clone, Copy, Default)]
struct Entry {
    start: u32,
    end: u32,
    at: u32,
}

/// The number of keys that are compared with each other before they are sorted.
const MAX_COMPARED_KEYS: usize = 16;

/// The keys of one object.
pub(super) struct Keys {
    few: [Entry; MAX_COMPARED_KEYS],
    count: usize,
    many: Vec<Entry>,
    store: Vec<u8>,
    duplicate: Option<Key>,
}

impl Keys {
    #[inline]
    pub(super) fn new() -> Self {
        Self {
            few: [Entry::default(); MAX_COMPARED_KEYS],
            count: 0,
            many: Vec::new(),
            store: Vec::new(),
            duplicate: None,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, text: &[u8], key: Key) {
        let entry = if key.escaped {
            self.keep(text, key)
        } else {
            Entry { start: key.start, end: key.end, at: key.start }
        };
        if self.count < MAX_COMPARED_KEYS {
            let length = entry.end - entry.start;
            for other in &self.few[..self.count] {
                // Keys of one object rarely have the same length.
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
        // Unescaping never lengthens, and the text is shorter than 2 GiB, so both positions fit 32 bits.
        Entry { start: start as u32, end: (text.len() + self.store.len()) as u32, at: key.start }
    }

    /// The first repeated key in the order of the text.
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
