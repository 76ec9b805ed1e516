//! The fuzz targets of mcpjoin: functions that take any bytes and panic when a promise is broken.
//!
//! `tests/corpus.rs` runs each on its corpus with every test run. The program in `libfuzzer/` looks for new inputs.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a target reports a broken promise by a panic, as tests do"
)]

mod auth;
mod consent;
pub mod corpus;
mod decode;
mod gateway;
mod http;
mod lines;
mod prefixed;
mod rules;
mod schemas;
mod session;
mod sse;
mod values;

/// A function that panics when an input breaks a promise.
pub type Target = fn(&[u8]);

/// The targets by name. `corpus/NAME.txt` is the corpus of `NAME`.
pub const TARGETS: [(&str, Target); 12] = [
    ("auth", auth::run),
    ("consent", consent::run),
    ("decode", decode::run),
    ("gateway", gateway::run),
    ("http", http::run),
    ("lines", lines::run),
    ("prefixed", prefixed::run),
    ("rules", rules::run),
    ("schemas", schemas::run),
    ("session", session::run),
    ("sse", sse::run),
    ("values", values::run),
];

/// Reads an input from the front, to take decisions and data from it.
#[derive(Debug)]
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// A reader at the beginning of the input.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte; 0 when there is none.
    pub(crate) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// Selects one of the values.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()]
    }

    /// The bytes up to the next line feed, or the rest.
    pub(crate) fn line(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == b'\n');
        let (line, rest) = match end {
            Some(end) => (&self.0[..end], &self.0[end + 1..]),
            None => (self.0, &[][..]),
        };
        self.0 = rest;
        line
    }

    /// Reads how to split the rest: one byte for the number of sizes, and the sizes.
    pub(crate) fn plan(&mut self) -> Plan {
        let sizes = usize::from(self.byte()) % 16;
        Plan((0..sizes).map(|_| self.byte()).collect())
    }

    /// The rest of the input.
    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }
}

impl Iterator for Input<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }
}

/// The sizes of the pieces in which a stream arrives, repeated.
#[derive(Clone, Debug)]
pub(crate) struct Plan(Vec<u8>);

impl Plan {
    /// Splits a stream. Sizes below 128 are bytes; larger values are steps of 256 bytes. The pieces of a long stream grow,
    /// because small pieces show nothing new after the beginning.
    pub(crate) fn pieces<'a>(&self, stream: &'a [u8]) -> Vec<&'a [u8]> {
        let mut sizes = self.0.iter().cycle();
        let mut rest = stream;
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let size = match sizes.next() {
                None => 1,
                Some(&size @ 0..128) => usize::from(size),
                Some(&size) => usize::from(size - 127) * 256,
            };
            let size = (size << (pieces.len() / 128).min(8)).min(Self::LARGEST);
            // Two empty pieces in a row show no more than one, and the loop would never end.
            let size = if size == 0 && pieces.last().is_none_or(|piece: &&[u8]| piece.is_empty()) {
                1
            } else {
                size
            };
            let (piece, left) = rest.split_at(size.min(rest.len()));
            pieces.push(piece);
            rest = left;
        }
        pieces
    }

    /// The largest piece of [`Plan::pieces`], in bytes: half of a link's read.
    pub(crate) const LARGEST: usize = 32 * 1024;
}

/// The largest result of [`expand`], in bytes: more than every size limit of the codecs.
const MOST_EXPANDED: usize = 300_000;

/// Replaces 0x1A and the byte N behind it with N times 257 bytes of `x`, so that a short input can be a long stream.
pub(crate) fn expand(input: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(input.len());
    let mut bytes = input.iter();
    while let Some(&byte) = bytes.next() {
        if byte == 0x1A {
            let times = bytes.next().copied().unwrap_or(0);
            let wanted = out.len() + usize::from(times) * 257;
            if wanted <= MOST_EXPANDED {
                out.resize(wanted, b'x');
            }
        } else {
            out.push(byte);
        }
    }
    out
}
