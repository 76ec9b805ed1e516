//! Wraps text: pages to 80 columns or to a narrower terminal, everything else to the width of the terminal.
//!
//! Called by `ui` and by the pages. The text has been escaped (`visible`). Our own styles have no width. `textwrap` makes other
//! lines: it drops blanks at the end of a line, breaks a long word at the width of the second line, and cannot move the first
//! word to a wider second line.

use std::borrow::Cow;
use std::fmt::Write;
use std::io::IsTerminal;

use unicode_width::UnicodeWidthStr;

/// The beginning of a command that people copy.
const COMMAND: &str = "mcpjoin ";
/// The width of a page.
pub(crate) const PAGE_COLUMNS: usize = 80;
/// The narrowest line of a page. Narrower lines of single words cannot be read, so the line may be wider than the page.
const MIN_COLUMNS: usize = 24;

/// The widths of the lines of a paragraph, in columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widths {
    /// The first line.
    pub(crate) first: usize,
    /// Each of the other lines. Where they are wider, a first word that does not fit moves to the second line.
    pub(crate) rest: usize,
    /// The first line has more columns than this before it is broken.
    pub(crate) kept: usize,
}

/// What happens to a word that is wider than a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LongWord {
    /// It stays whole, so that the user can copy it.
    Whole,
    /// It is broken.
    Broken,
}

/// Wraps the text between words. A command of ours is one word, and stays whole: a broken one cannot be pasted. Returns at least one
/// line.
pub(crate) fn lines(text: &str, widths: Widths, long: LongWord) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut left, mut begun) = (String::new(), widths.first, false);
    let mut written = 0;
    let (text, command) = text.split_at(command_at(text));
    let text = if command.is_empty() { text } else { text.strip_suffix(' ').unwrap_or(text) };
    let words = text.split(' ').filter(|_| !text.is_empty() || command.is_empty());
    let words =
        words.map(|word| (word, long)).chain((!command.is_empty()).then_some((command, LongWord::Whole)));
    for (mut word, long) in words {
        loop {
            let columns = columns(word);
            let taken = columns + usize::from(begun);
            let may_go_below = match long {
                LongWord::Broken => true,
                LongWord::Whole if lines.is_empty() => widths.first < widths.rest || written > widths.kept,
                LongWord::Whole => begun,
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
            if long == LongWord::Broken && !begun {
                let at = end(word, left);
                line.push_str(&word[..at]);
                word = &word[at..];
            }
            lines.push(std::mem::take(&mut line));
            (left, begun) = (widths.rest.max(1), false);
            // An empty word is a second space, part of a gap between columns: its line break replaces it.
            if word.is_empty() {
                break;
            }
        }
    }
    lines.push(line);
    lines
}

/// Where a command begins that goes to the end of the text: `mcpjoin` at the beginning, behind a gap or behind a colon. The end of
/// the text where there is none.
fn command_at(text: &str) -> usize {
    let found = text.match_indices(COMMAND).map(|(at, _)| at).find(|at| {
        let before = anstream::adapter::strip_str(&text[..*at]).to_string();
        before.trim().is_empty() || before.ends_with("  ") || before.ends_with(": ")
    });
    found.unwrap_or(text.len())
}

/// How much of a word fits into that many columns: at least one character.
fn end(word: &str, max_columns: usize) -> usize {
    let mut used = 0;
    let end = word.char_indices().find(|(at, character)| {
        used += character.to_string().width();
        used > max_columns && *at > 0
    });
    end.map_or(word.len(), |(at, _)| at)
}

/// Wraps the lines of a text to that width. A continued line is indented to the second column of its text. A wider word stays
/// whole.
pub(crate) fn fold(text: &str, width: usize) -> Cow<'_, str> {
    fold_except(text, width, |_| false)
}

/// [`fold`] without the lines that have to stay whole.
pub(crate) fn fold_except(text: &str, width: usize, stays: impl Fn(&str) -> bool) -> Cow<'_, str> {
    if text.lines().all(|line| columns(line) <= width) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for (place, line) in text.split('\n').enumerate() {
        if place > 0 {
            out.push('\n');
        }
        if columns(line) <= width || stays(line) {
            out.push_str(line);
            continue;
        }
        let below = hanging(line, width);
        let widths = Widths { first: width, rest: width - below, kept: below };
        for (place, line) in lines(line, widths, LongWord::Whole).iter().enumerate() {
            if place > 0 {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', below));
            }
            out.push_str(line);
        }
    }
    Cow::Owned(out)
}

/// The indentation of a continued line: the second column, or two more than the indentation of the line.
fn hanging(line: &str, width: usize) -> usize {
    let plain = anstream::adapter::strip_str(line).to_string();
    let start = plain.len() - plain.trim_start_matches(' ').len();
    let second = plain[start..].find("  ").and_then(|gap| {
        let rest = plain[start + gap..].trim_start_matches(' ');
        Some(plain[..plain.len() - rest.len()].width()).filter(|_| !rest.is_empty())
    });
    second.filter(|second| *second <= width / 2).unwrap_or_else(|| (start + 2).min(width / 2))
}

/// The width of a line without our own styles.
fn columns(line: &str) -> usize {
    if line.contains('\u{1b}') {
        anstream::adapter::strip_str(line).to_string().width()
    } else {
        line.width()
    }
}

/// The text before a paragraph of a page.
pub(crate) struct Head<'a> {
    /// With styles.
    pub(crate) text: &'a str,
    /// The width without styles.
    pub(crate) columns: usize,
    /// The indentation of the other lines.
    pub(crate) indent: usize,
}

/// The width of the terminal for results, in columns; `None` where they do not go to one.
pub(crate) fn terminal_columns() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    asked.or_else(|| terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)))
}

/// Writes a paragraph in lines of [`PAGE_COLUMNS`], or of a narrower terminal. A long word, such as an address, stays whole.
pub(crate) fn prose(out: &mut String, head: &Head<'_>, text: &str) {
    // The tests of pages do not depend on the terminal of the developer.
    let terminal = if cfg!(test) { None } else { terminal_columns() };
    prose_in(terminal.map_or(PAGE_COLUMNS, |columns| columns.min(PAGE_COLUMNS)), out, head, text);
}

fn prose_in(columns: usize, out: &mut String, head: &Head<'_>, text: &str) {
    let rest = columns.saturating_sub(head.indent).max(MIN_COLUMNS);
    let widths = Widths { first: columns.saturating_sub(head.columns), rest, kept: 0 };
    out.push_str(head.text);
    for (place, line) in lines(text, widths, LongWord::Whole).iter().enumerate() {
        if place > 0 {
            // The first line is the head alone where the first word does not fit behind it.
            out.truncate(out.trim_end_matches(' ').len());
            let _ = write!(out, "\n{:indent$}", "", indent = head.indent);
        }
        out.push_str(line);
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::{Head, LongWord, PAGE_COLUMNS, Widths, fold, fold_except, lines, prose, prose_in};

    const HEAD: Head<'_> = Head { text: "    sent     ", columns: 13, indent: 13 };

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
        let wrapped = |text, first, rest| lines(text, Widths { first, rest, kept: 0 }, LongWord::Broken);
        assert_eq!(wrapped("one two three", 80, 80), ["one two three"]);
        assert_eq!(wrapped("one two three", 7, 5), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 3, 9), ["one", "two three"]);
        assert_eq!(wrapped("abcdefgh ij", 3, 4), ["abc", "defg", "h ij"]);
        assert_eq!(wrapped("漢字漢字", 4, 4), ["漢字", "漢字"]);
        let bold = "\u{1b}[1mno fault\u{1b}[0m: none";
        assert_eq!(wrapped(bold, 9, 9), ["\u{1b}[1mno fault\u{1b}[0m:", "none"]);
    }

    #[test]
    fn no_line_is_wider_than_a_page_and_nothing_is_lost() {
        let words = "a tool has been called that nobody has asked for ".repeat(7);
        let (words, mut out) = (words.trim_end(), String::new());
        prose(&mut out, &Head { text: "  MUST x: ", columns: 10, indent: 4 }, words);
        assert!(out.lines().all(|line| line.width() <= PAGE_COLUMNS), "{out}");
        let mut narrow = String::new();
        prose_in(60, &mut narrow, &HEAD, &"some words ".repeat(20));
        assert!(narrow.lines().all(|line| line.width() <= 60), "{narrow}");
        assert_eq!(out.split_whitespace().skip(2).collect::<Vec<_>>().join(" "), words);
        assert!(
            out.lines().skip(1).all(|line| line.starts_with("    ") && !line.starts_with("     ")),
            "{out}"
        );
    }

    #[test]
    fn a_line_that_has_to_stay_whole_is_not_wrapped() {
        let folded = fold_except("keep one two\nfold one two", 8, |line| line.starts_with("keep"));
        assert_eq!(folded, "keep one two\nfold one\n  two");
    }

    #[test]
    fn no_line_of_a_page_ends_with_a_blank() {
        let mut out = String::new();
        prose_in(24, &mut out, &HEAD, &format!("{} one  two", "x".repeat(40)));
        assert_eq!(out, format!("    sent\n             {}\n             one  two\n", "x".repeat(40)));
    }

    #[test]
    fn a_command_that_can_be_pasted_is_not_broken() {
        let line = "  \u{1b}[2mtry     \u{1b}[0m mcpjoin call echo message=hi -- npx -y pkg";
        assert_eq!(fold(line, 30), line);
        let note = "note: for clients over HTTP: mcpjoin serve demo --listen http://localhost:8080/mcp";
        let folded =
            "note: for clients\n  over HTTP:\n  mcpjoin serve demo --listen http://localhost:8080/mcp";
        assert_eq!(fold(note, 20), folded);
        let widths = Widths { first: 8, rest: 8, kept: 0 };
        assert_eq!(
            lines("see averylongword: mcpjoin list demo:", widths, LongWord::Broken),
            ["see", "averylon", "gword:", "mcpjoin list demo:"]
        );
        assert_eq!(fold("mcpjoin is one two", 8), "mcpjoin is one two");
        assert_eq!(fold("what mcpjoin is", 8), "what\n  mcpjoin\n  is");
    }

    #[test]
    fn an_address_stays_whole() {
        let (address, mut out) = (format!("https://example.org/{}", "x".repeat(90)), String::new());
        prose(&mut out, &HEAD, &format!("see {address} there"));
        assert!(out.contains(&format!("\n             {address}\n")), "{out}");
    }
}
