//! Finds the end of a run of plain string bytes, 16 or 64 bytes at a time.
//!
//! Used by the scanner, the reader and the writer of strings. It only knows the three kinds of byte that end a run:
//! <https://www.rfc-editor.org/rfc/rfc8259#section-7>.

use wide::u8x16;

/// Bytes in a block.
pub(crate) const WIDTH: usize = 16;
/// Bytes in a wide block.
pub(crate) const WIDE: usize = 4 * WIDTH;

/// A block of bytes that the processor compares at once.
pub(crate) trait Block: Copy {
    /// The number of bytes.
    const WIDTH: usize;

    /// Loads the bytes at `at`; `None` when fewer are left.
    fn load(text: &[u8], at: usize) -> Option<Self>;

    /// One bit for each quote, backslash and control character.
    fn stops(self) -> u64;

    /// One bit for each quote and backslash: enough for validated text.
    fn ends(self) -> u64;

    /// All bytes combined with OR: a high bit means that a byte is not ASCII.
    fn merged(self) -> u8x16;
}

/// All ones at a quote, a backslash or a control character.
#[inline(always)]
fn special(block: u8x16) -> u8x16 {
    let control = block.min(u8x16::splat(0x1f)).cmp_eq(block);
    block.cmp_eq(u8x16::splat(b'"')) | block.cmp_eq(u8x16::splat(b'\\')) | control
}

/// All ones at a quote or a backslash.
#[inline(always)]
fn end(block: u8x16) -> u8x16 {
    block.cmp_eq(u8x16::splat(b'"')) | block.cmp_eq(u8x16::splat(b'\\'))
}

/// One bit for each byte with a high bit.
#[inline(always)]
fn bits(block: u8x16) -> u64 {
    u64::from(block.move_mask() as u32)
}

impl Block for u8x16 {
    const WIDTH: usize = WIDTH;

    #[inline(always)]
    fn load(text: &[u8], at: usize) -> Option<Self> {
        let chunk = text.get(at..)?.first_chunk::<WIDTH>()?;
        Some(Self::from(*chunk))
    }

    #[inline(always)]
    fn stops(self) -> u64 {
        bits(special(self))
    }

    #[inline(always)]
    fn ends(self) -> u64 {
        bits(end(self))
    }

    #[inline(always)]
    fn merged(self) -> u8x16 {
        self
    }
}

/// Four blocks, for long texts: one test usually serves for all four.
#[derive(Clone, Copy)]
pub(crate) struct Wide([u8x16; 4]);

impl Wide {
    #[inline(always)]
    pub(crate) fn new(bytes: &[u8; WIDE]) -> Self {
        // Arrays, not slices: without optimisation of the whole program, a copy of a slice is a call.
        let block = |chunk: Option<&[u8; WIDTH]>| u8x16::from(*chunk.expect("four are in a wide block"));
        Self([
            block(bytes.first_chunk()),
            block(bytes[WIDTH..].first_chunk()),
            block(bytes[2 * WIDTH..].first_chunk()),
            block(bytes[3 * WIDTH..].first_chunk()),
        ])
    }

    #[inline(always)]
    fn all(self, which: impl Fn(u8x16) -> u8x16) -> u64 {
        // Not `map`: without optimisation of the whole program it is a loop over an iterator and takes three times as
        // long.
        let [a, b, c, d] = self.0;
        let (a, b, c, d) = (which(a), which(b), which(c), which(d));
        if ((a | b) | (c | d)).move_mask() == 0 {
            return 0;
        }
        bits(a) | bits(b) << WIDTH | bits(c) << (2 * WIDTH) | bits(d) << (3 * WIDTH)
    }
}

impl Block for Wide {
    const WIDTH: usize = WIDE;

    #[inline(always)]
    fn load(text: &[u8], at: usize) -> Option<Self> {
        text.get(at..)?.first_chunk::<WIDE>().map(Self::new)
    }

    #[inline(always)]
    fn stops(self) -> u64 {
        self.all(special)
    }

    #[inline(always)]
    fn ends(self) -> u64 {
        self.all(end)
    }

    #[inline(always)]
    fn merged(self) -> u8x16 {
        let [a, b, c, d] = self.0;
        (a | b) | (c | d)
    }
}

/// Whether a byte of the combined blocks is not ASCII.
#[inline(always)]
pub(crate) fn is_high(merged: u8x16) -> bool {
    merged.move_mask() != 0
}

/// The first quote, backslash or control character at or after `at`; the length of the text if there is none.
#[inline]
pub(crate) fn next_stop(text: &[u8], mut at: usize) -> usize {
    let found = next::<Wide>(text, &mut at, Wide::stops) || next::<u8x16>(text, &mut at, u8x16::stops);
    if !found {
        at += text.get(at..).unwrap_or_default().iter().take_while(|byte| !is_stop(**byte)).count();
    }
    at.min(text.len())
}

/// The first quote or backslash at or after `at`; the length of the text if there is none.
#[inline]
pub(crate) fn next_end(text: &[u8], mut at: usize) -> usize {
    // Most strings are short, so one block is enough.
    if let Some(block) = u8x16::load(text, at) {
        let ends = block.ends();
        if ends != 0 {
            return at + ends.trailing_zeros() as usize;
        }
        at += WIDTH;
    }
    let found = next::<Wide>(text, &mut at, Wide::ends) || next::<u8x16>(text, &mut at, u8x16::ends);
    if !found {
        let rest = text.get(at..).unwrap_or_default();
        at += rest.iter().take_while(|byte| !matches!(byte, b'"' | b'\\')).count();
    }
    at.min(text.len())
}

/// Searches whole blocks. Returns whether the byte is at `at`; otherwise no whole block is left there.
#[inline(always)]
fn next<B: Block>(text: &[u8], at: &mut usize, which: impl Fn(B) -> u64) -> bool {
    while let Some(block) = B::load(text, *at) {
        let found = which(block);
        if found != 0 {
            *at += found.trailing_zeros() as usize;
            return true;
        }
        *at += B::WIDTH;
    }
    false
}

/// Whether a byte is a quote, a backslash or a control character.
const fn is_stop(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_next_stop_is_found_at_every_place_in_every_length() {
        for length in 0..150 {
            for place in 0..length {
                for stop in [b'"', b'\\', 0, 0x1f, b'\n'] {
                    let mut text = vec![b'a'; length];
                    text[place] = stop;
                    assert_eq!(next_stop(&text, 0), place);
                    assert_eq!(next_stop(&text, place + 1), length);
                }
            }
            assert_eq!(next_stop(&vec![0xff; length], 0), length);
            assert_eq!(next_stop(&vec![0x20; length], 0), length);
            assert_eq!(next_stop(&vec![0x7f; length], 0), length);
        }
    }

    #[test]
    fn a_byte_that_is_not_ascii_is_seen_at_every_place() {
        assert!(!is_high(Wide::new(&[b'a'; WIDE]).merged()));
        for place in 0..WIDE {
            let mut text = [b'a'; WIDE];
            text[place] = 0x80;
            assert!(is_high(Wide::new(&text).merged()));
        }
    }

    #[test]
    fn the_two_widths_say_the_same_of_every_byte() {
        for byte in 0..=u8::MAX {
            for place in 0..WIDE {
                let mut text = [b'a'; WIDE];
                text[place] = byte;
                let stop = byte < 0x20 || byte == b'"' || byte == b'\\';
                let end = byte == b'"' || byte == b'\\';
                let (wide, bit) = (Wide::new(&text), 1 << place);
                assert_eq!((wide.stops(), wide.ends()), (bit * u64::from(stop), bit * u64::from(end)));
                let (at, bit) = (place / WIDTH * WIDTH, 1 << (place % WIDTH));
                let block = u8x16::load(&text, at).expect("a whole block");
                assert_eq!((block.stops(), block.ends()), (bit * u64::from(stop), bit * u64::from(end)));
            }
        }
    }
}
