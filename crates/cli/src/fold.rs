//! Texts in lines that fit: whatever is shown to a person is broken between its words here.
//!
//! Called by `ui` and by the pages. What stands in the texts has been made visible (`visible`); our own styles take no room.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

/// How much room the lines of a paragraph have, in columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// The first line.
    pub(crate) first: usize,
    /// Each of the others. Where that is more, a first word that does not fit begins there.
    pub(crate) rest: usize,
    /// A first line with so little on it is not left.
    pub(crate) kept: usize,
}

/// What becomes of a word that is wider than a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wide {
    /// It stays whole, so that it can be copied.
    Whole,
    /// It goes on in the next line.
    Broken,
}

/// The text in lines, broken between words. There is one at least.
pub(crate) fn lines(text: &str, room: Room, wide: Wide) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut left, mut begun) = (String::new(), room.first, false);
    let mut written = 0;
    for mut word in text.split(' ') {
        loop {
            let columns = columns(word);
            let taken = columns + usize::from(begun);
            let may_go_below = match wide {
                Wide::Broken => true,
                Wide::Whole if lines.is_empty() => room.first < room.rest || written > room.kept,
                Wide::Whole => begun,
            };
            if taken <= left || !may_go_below {
                if begun {
                    line.push(' ');
                }
                line.push_str(word);
                left = left.saturating_sub(taken);
                written += taken;
                begun = true;
                break;
            }
            if wide == Wide::Broken && !begun {
                let at = end(word, left);
                line.push_str(&word[..at]);
                word = &word[at..];
            }
            lines.push(std::mem::take(&mut line));
            (left, begun) = (room.rest.max(1), false);
            // Of a word that is empty the space before it is all there is: a gap between columns.
            if word.is_empty() {
                break;
            }
        }
    }
    lines.push(line);
    lines
}

/// Where a word ends that has this room: behind one character at least.
fn end(word: &str, room: usize) -> usize {
    let mut used = 0;
    let end = word.char_indices().find(|(at, character)| {
        used += character.to_string().width();
        used > room && *at > 0
    });
    end.map_or(word.len(), |(at, _)| at)
}

/// The text with lines that are no wider than this: what does not fit goes on below, under where it began. A word that is
/// wider stays whole.
pub(crate) fn fold(text: &str, width: usize) -> Cow<'_, str> {
    if text.lines().all(|line| columns(line) <= width) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for (place, line) in text.split('\n').enumerate() {
        if place > 0 {
            out.push('\n');
        }
        if columns(line) <= width {
            out.push_str(line);
            continue;
        }
        let below = hanging(line, width);
        let room = Room { first: width, rest: width - below, kept: below };
        for (place, line) in lines(line, room, Wide::Whole).iter().enumerate() {
            if place > 0 {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', below));
            }
            out.push_str(line);
        }
    }
    Cow::Owned(out)
}

/// Where the rest of a line goes on: under its second column, or a little to the right of its first.
fn hanging(line: &str, width: usize) -> usize {
    let plain = anstream::adapter::strip_str(line).to_string();
    let start = plain.len() - plain.trim_start_matches(' ').len();
    let second = plain[start..].find("  ").and_then(|gap| {
        let rest = plain[start + gap..].trim_start_matches(' ');
        Some(plain[..plain.len() - rest.len()].width()).filter(|_| !rest.is_empty())
    });
    second.filter(|second| *second <= width / 2).unwrap_or_else(|| (start + 2).min(width / 2))
}

/// How many columns a line takes, our own styles left out.
fn columns(line: &str) -> usize {
    if line.contains('\u{1b}') {
        anstream::adapter::strip_str(line).to_string().width()
    } else {
        line.width()
    }
}

#[cfg(test)]
mod tests {
    use super::{Room, Wide, fold, lines};

    #[test]
    fn i175_lines_are_no_wider_than_the_terminal() {
        for (width, given, folded) in [
            (80, "short\n\n  stays\n", "short\n\n  stays\n"),
            (12, "error: one two three four", "error: one\n  two three\n  four"),
            (
                24,
                "  NAME      one two three four five",
                "  NAME      one two\n            three four\n            five",
            ),
            (10, "averyverylongword x", "averyverylongword\n  x"),
            (8, "漢字漢字 漢字", "漢字漢字\n  漢字"),
            (6, "\u{1b}[1mone two\u{1b}[0m", "\u{1b}[1mone\n  two\u{1b}[0m"),
        ] {
            assert_eq!(fold(given, width), folded, "{given}");
        }
        for width in 0..30 {
            let text = fold("  a  some words that are to be told\nand more of them   here ", width);
            let words: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(words.join(" "), "a some words that are to be told and more of them here", "{width}");
            let fits = |line: &str| line.len() <= width.max(20) || !line.trim().contains(' ');
            assert!(text.lines().all(fits), "{width}: {text}");
        }
    }

    #[test]
    fn words_go_on_in_the_next_line() {
        let wrapped = |text, first, rest| lines(text, Room { first, rest, kept: 0 }, Wide::Broken);
        assert_eq!(wrapped("one two three", 80, 80), ["one two three"]);
        assert_eq!(wrapped("one two three", 7, 5), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 3, 9), ["one", "two three"]);
        assert_eq!(wrapped("abcdefgh ij", 3, 4), ["abc", "defg", "h ij"]);
        assert_eq!(wrapped("漢字漢字", 4, 4), ["漢字", "漢字"]);
        let bold = "\u{1b}[1mno fault\u{1b}[0m: none";
        assert_eq!(wrapped(bold, 9, 9), ["\u{1b}[1mno fault\u{1b}[0m:", "none"]);
    }
}
