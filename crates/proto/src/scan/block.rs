//! Sixteen bytes at a time: where a run of ordinary string bytes ends.
//!
//! Used by the scanner, by the reader and by the writer's escape. Knows no JSON beyond the three kinds of byte
//! that end a run inside a string: <https://www.rfc-editor.org/rfc/rfc8259#section-7>.

use wide::u8x16;

/// Bytes in a block.
pub(crate) const WIDTH: usize = 16;

/// The block that begins at `at`; `None` when fewer than [`WIDTH`] bytes are left.
#[inline(always)]
pub(crate) fn load(text: &[u8], at: usize) -> Option<u8x16> {
    let chunk = text.get(at..)?.first_chunk::<WIDTH>()?;
    Some(u8x16::from(*chunk))
}

/// All ones where a byte is a quote, a backslash or a control character.
#[inline(always)]
fn special(block: u8x16) -> u8x16 {
    let control = block.min(u8x16::splat(0x1f)).cmp_eq(block);
    block.cmp_eq(u8x16::splat(b'"')) | block.cmp_eq(u8x16::splat(b'\\')) | control
}

/// One bit for each byte that is a quote, a backslash or a control character.
#[inline(always)]
pub(crate) fn stops(block: u8x16) -> u32 {
    special(block).move_mask() as u32
}

/// One bit for each byte that is a quote or a backslash: enough for a text that has been checked.
#[inline(always)]
pub(crate) fn ends(block: u8x16) -> u32 {
    (block.cmp_eq(u8x16::splat(b'"')) | block.cmp_eq(u8x16::splat(b'\\'))).move_mask() as u32
}

/// One bit for each byte that is not ASCII.
#[inline(always)]
pub(crate) fn high(block: u8x16) -> u32 {
    block.move_mask() as u32
}

/// Passes 64 bytes at a time while none of them is special. Gives where it stopped, and whether one of the
/// bytes that it passed is not ASCII.
#[inline]
pub(crate) fn clean_run(text: &[u8], mut at: usize) -> (usize, bool) {
    let mut seen = u8x16::splat(0);
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<{ 4 * WIDTH }>()) {
        let block = |index: usize| -> u8x16 {
            let mut bytes = [0; WIDTH];
            bytes.copy_from_slice(&chunk[index * WIDTH..(index + 1) * WIDTH]);
            u8x16::from(bytes)
        };
        let (a, b, c, d) = (block(0), block(1), block(2), block(3));
        if ((special(a) | special(b)) | (special(c) | special(d))).move_mask() != 0 {
            break;
        }
        seen |= (a | b) | (c | d);
        at += 4 * WIDTH;
    }
    (at, high(seen) != 0)
}

/// Where the first quote, backslash or control character at or after `at` lies; the length of the text when
/// there is none.
#[inline]
pub(crate) fn next_stop(text: &[u8], mut at: usize) -> usize {
    while let Some(block) = load(text, at) {
        let stops = stops(block);
        if stops != 0 {
            return at + stops.trailing_zeros() as usize;
        }
        (at, _) = clean_run(text, at + WIDTH);
    }
    while let Some(&byte) = text.get(at) {
        if byte < 0x20 || byte == b'"' || byte == b'\\' {
            break;
        }
        at += 1;
    }
    at.min(text.len())
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
    fn a_clean_run_says_whether_it_passed_a_byte_that_is_not_ascii() {
        for place in 0..64 {
            let mut text = vec![b'a'; 64];
            text[place] = 0x80;
            assert_eq!(clean_run(&text, 0), (64, true));
        }
        assert_eq!(clean_run(&[b'a'; 200], 0), (192, false));
    }
}
