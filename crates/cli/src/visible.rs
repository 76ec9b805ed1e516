//! Text for a terminal: escapes, our styles, the width of a line, and indented JSON.
//!
//! Control characters, direction marks and characters without width are escaped (`mcpjoin_proto::text`), so that no name or
//! description of a server can move the cursor, write to the clipboard or look like another text. Called by `ui`, `failure` and
//! the commands. It never prints.

use std::borrow::Cow;

use clap::builder::styling::{AnsiColor, Color, Style};
pub(crate) use mcpjoin::proto::text::{
    escape_json as document, escape_line as line, escape_lines as text, escape_word as word,
};
use mcpjoin::proto::text::{is_hidden, push_json_escape, selects_picture};
pub(crate) use mcpjoin_diagnostics::doctor::counted;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The styles of output in colour.
pub(crate) const HEADING: Style = Style::new().bold();
pub(crate) const NAME: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Cyan)));
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const BAD: Style = Style::new().bold().fg_color(Some(Color::Ansi(AnsiColor::Red)));

/// Escapes a text that contains our own styles: escape sequences that select colours and the like (SGR) stay.
pub(crate) fn styled(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| is_hidden(character) && character != '\n') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        out.push_str(&self::text(&rest[..at]));
        let length = style(&rest[at..]).unwrap_or(1);
        match length {
            1 => out.push_str(&line(&rest[at..=at])),
            _ => out.push_str(&rest[at..at + length]),
        }
        rest = &rest[at + length..];
    }
    out.push_str(&self::text(rest));
    Cow::Owned(out)
}

/// The length of the escape sequence at the beginning of the text, where it only selects a style (ECMA-48, 8.3.117).
fn style(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|character: char| !character.is_ascii_digit() && character != ';')?;
    parameters[end..].starts_with('m').then_some("\u{1b}[".len() + end + 1)
}

/// The first line of a text, escaped. Empty lines before it do not count.
pub(crate) fn first_line(text: &str) -> Cow<'_, str> {
    line(text.trim().lines().next().unwrap_or_default().trim_end())
}

/// Truncates a text to a number of characters; `…` stands for the rest.
pub(crate) fn cut_chars(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Truncates a text to a width in columns; `…` stands for the rest.
pub(crate) fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 1;
    let fits = text.find(|character: char| {
        // With it the emoji before takes two columns.
        used += if character == '\u{fe0f}' { 1 } else { character.width().unwrap_or_default() };
        used > columns
    });
    Cow::Owned(format!("{}…", &text[..fits.unwrap_or(text.len())]))
}

/// Indents a JSON text and escapes hidden characters. The value, the spelling of numbers and the order of members stay the same.
/// The text must be valid JSON; the result for another text is unspecified.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    Indented::default().push(&mut out, text);
    out
}

/// [`json`] piece by piece, for a document of any length. A piece may end anywhere.
#[derive(Default)]
pub(crate) struct Indented {
    depth: usize,
    in_string: bool,
    /// The last character was a backslash in a string.
    escaped: bool,
    /// The last token has opened an object or an array.
    opened: bool,
    /// The last character.
    before: Option<char>,
}

impl Indented {
    /// Writes the next piece of the text.
    pub(crate) fn push(&mut self, out: &mut String, text: &str) {
        for character in text.chars() {
            let before = self.before.replace(character);
            if self.in_string {
                self.in_string = self.escaped || character != '"';
                self.escaped = !self.escaped && character == '\\';
                if is_hidden(character) && !selects_picture(before, character) {
                    push_json_escape(out, character);
                } else {
                    out.push(character);
                }
                continue;
            }
            let ends = matches!(character, '}' | ']');
            if matches!(character, ' ' | '\t' | '\n' | '\r') {
                continue;
            }
            let opened = std::mem::take(&mut self.opened);
            if opened && !ends {
                self.depth += 1;
                new_line(out, self.depth);
            } else if ends && !opened {
                self.depth = self.depth.saturating_sub(1);
                new_line(out, self.depth);
            }
            match character {
                ':' => out.push_str(": "),
                ',' => {
                    out.push(character);
                    new_line(out, self.depth);
                }
                _ => {
                    self.in_string = character == '"';
                    self.opened = matches!(character, '{' | '[');
                    out.push(character);
                }
            }
        }
    }
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::{Indented, first_line, json, styled};

    #[test]
    fn what_selects_a_picture_stays_with_it() {
        assert_eq!(json("\"☀\u{fe0f}x\u{fe0f}\""), "\"☀\u{fe0f}x\\ufe0f\"");
        for room in 1..6 {
            let cut = super::cut("☀\u{fe0f}☀\u{fe0f}☀\u{fe0f}", room).into_owned();
            assert!(unicode_width::UnicodeWidthStr::width(&*cut) <= room, "{room}: {cut}");
        }
        assert_eq!(first_line("\n  one \r\ntwo"), "one");
        assert_eq!(first_line(""), "");
    }

    #[test]
    fn json_keeps_its_value_when_it_is_indented() {
        let given =
            "{\"a\" : [ 1.50 , 9007199254740993,{} , [ ]],\"\u{202e}k\\\"\\\\\":\"x\u{9b}\u{e0041}{,}\"}";
        let shown = json(given);
        assert_eq!(
            shown,
            "{\n  \"a\": [\n    1.50,\n    9007199254740993,\n    {},\n    []\n  ],\n  \
             \"\\u202ek\\\"\\\\\": \"x\\u009b\\udb40\\udc41{,}\"\n}"
        );
        let (before, after): (serde_json::Value, serde_json::Value) =
            (serde_json::from_str(given).unwrap(), serde_json::from_str(&shown).unwrap());
        assert_eq!(before, after);
        // The pieces may end anywhere.
        for length in 1..7 {
            let characters: Vec<char> = given.chars().collect();
            let (mut indented, mut out) = (Indented::default(), String::new());
            for piece in characters.chunks(length) {
                indented.push(&mut out, &piece.iter().collect::<String>());
            }
            assert_eq!(out, shown, "{length}");
        }
    }

    #[test]
    fn nothing_but_a_style_stays_in_a_page() {
        for style in ["\u{1b}[m", "\u{1b}[0m", "\u{1b}[1;31m"] {
            assert_eq!(styled(&format!("a\n\tb{style}c")), format!("a\n\tb{style}c"));
        }
        for (given, shown) in [
            ("\u{1b}", "\\u{1b}"),
            ("\u{1b}[", "\\u{1b}["),
            ("\u{1b}[2J\u{1b}[1mx", "\\u{1b}[2J\u{1b}[1mx"),
            ("\u{1b}[1;", "\\u{1b}[1;"),
            ("\u{1b}]0;m\u{7}é", "\\u{1b}]0;m\\u{7}é"),
            ("\u{1b}\u{1b}[m\u{9b}31m", "\\u{1b}\u{1b}[m\\u{9b}31m"),
            ("a\r\u{202e}", "a\\u{d}\\u{202e}"),
        ] {
            assert_eq!(styled(given), shown);
        }
    }

    #[test]
    fn no_text_makes_json_fail() {
        for given in ["", "}", "]]]", "\"", "\"\\", "{", ":,"] {
            json(given);
        }
    }
}
