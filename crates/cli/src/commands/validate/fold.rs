//! Lines of at most 80 columns behind heads: prose, and what was sent and received, which is broken where it can be read on.
//!
//! Called by the pages for a person; where words go is `crate::fold`'s. What stands in the texts is made visible before; styles are in heads alone.

use std::fmt::Write;

use unicode_width::UnicodeWidthChar;

use crate::fold::{Room, Wide, lines};

/// As wide as a page is.
pub(super) const PAGE: usize = 80;
/// Where there is less room than this, a line is longer: nobody reads single words below one another.
const LEAST: usize = 24;

/// What a line begins with.
pub(super) struct Head<'a> {
    /// With its styles.
    pub(super) text: &'a str,
    /// How wide it is.
    pub(super) columns: usize,
    /// So far from the edge the next lines begin.
    pub(super) indent: usize,
}

/// Writes prose behind its head. A word that is too long, an address as a rule, stays whole.
pub(super) fn prose(out: &mut String, head: &Head<'_>, text: &str) {
    let rest = PAGE.saturating_sub(head.indent).max(LEAST);
    let room = Room { first: PAGE.saturating_sub(head.columns), rest, kept: 0 };
    out.push_str(head.text);
    for (place, line) in lines(text, room, Wide::Whole).iter().enumerate() {
        if place > 0 {
            let _ = write!(out, "\n{:indent$}", "", indent = head.indent);
        }
        out.push_str(line);
    }
    out.push('\n');
}

/// Writes what crossed behind its head: `text` is the beginning of it, which is told where there is more.
pub(super) fn quoted(out: &mut String, head: &Head<'_>, text: &str, cut: Option<&str>) {
    let room = PAGE.saturating_sub(head.indent).max(LEAST);
    let mut left = PAGE.saturating_sub(head.columns).max(LEAST);
    out.push_str(head.text);
    let mut rest = text;
    loop {
        let (line, next) = rest.split_at(end(rest, left));
        out.push_str(line);
        rest = next;
        if rest.is_empty() {
            break;
        }
        let _ = write!(out, "\n{:indent$}", "", indent = head.indent);
        left = room;
    }
    out.push('\n');
    if let Some(cut) = cut {
        let _ = writeln!(out, "{:indent$}[{cut}]", "", indent = head.indent);
    }
}

/// Where a line of that many columns ends: behind a comma or a space, where one is near.
fn end(text: &str, room: usize) -> usize {
    let (mut columns, mut good) = (0, None);
    for (at, character) in text.char_indices() {
        columns += character.width().unwrap_or_default();
        if columns > room && at > 0 {
            return good.unwrap_or(at);
        }
        if matches!(character, ',' | ' ') && columns * 3 > room * 2 {
            good = Some(at + character.len_utf8());
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::{Head, PAGE, prose, quoted};

    const HEAD: Head<'_> = Head { text: "    sent     ", columns: 13, indent: 13 };

    #[test]
    fn no_line_is_wider_than_a_page_and_nothing_is_lost() {
        let words = "a tool has been called that nobody has asked for ".repeat(7);
        let (words, mut out) = (words.trim_end(), String::new());
        prose(&mut out, &Head { text: "  MUST x: ", columns: 10, indent: 4 }, words);
        assert!(out.lines().all(|line| line.width() <= PAGE), "{out}");
        assert_eq!(out.split_whitespace().skip(2).collect::<Vec<_>>().join(" "), words);
        assert!(
            out.lines().skip(1).all(|line| line.starts_with("    ") && !line.starts_with("     ")),
            "{out}"
        );

        for json in [r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.repeat(9), "ä世".repeat(200)] {
            let mut out = String::new();
            quoted(&mut out, &HEAD, &json, None);
            assert!(out.lines().all(|line| line.width() <= PAGE), "{out}");
            assert_eq!(out.lines().map(|line| &line[13..]).collect::<String>(), json);
        }
    }

    #[test]
    fn an_address_stays_whole_and_what_is_missing_is_told() {
        let (address, mut out) = (format!("https://example.org/{}", "x".repeat(90)), String::new());
        prose(&mut out, &HEAD, &format!("see {address} there"));
        assert!(out.contains(&format!("\n             {address}\n")), "{out}");
        let mut out = String::new();
        quoted(&mut out, &HEAD, "{}", Some("the first 2 of 9 characters"));
        assert_eq!(out, "    sent     {}\n             [the first 2 of 9 characters]\n");
        let mut out = String::new();
        quoted(&mut out, &HEAD, "", None);
        assert_eq!(out, "    sent     \n");
    }
}
