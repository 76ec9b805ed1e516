//! Makes what a terminal would obey or hide visible: control characters, direction marks, characters without
//! width. What a server sends is shown through here, so that no name or description can move the cursor, write to
//! the clipboard or read differently from what it is.
//!
//! Called by `ui`, `failure` and the commands. It never prints.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Whether a terminal would obey the character or show nothing for it.
fn hidden(character: char) -> bool {
    matches!(
        character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}'    // C0, DEL, C1: escape sequences begin here
        | '\u{ad}'                                  // soft hyphen
        | '\u{61c}' | '\u{200e}' | '\u{200f}'       // direction marks
        | '\u{202a}'..='\u{202e}'                   // direction embeddings and overrides
        | '\u{2066}'..='\u{206f}'                   // direction isolates, deprecated controls
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' // no width
        | '\u{180e}' | '\u{2028}' | '\u{2029}'      // separators that few show
        | '\u{fff9}'..='\u{fffb}'                   // interlinear annotations
        | '\u{e0000}'..='\u{e007f}'                 // tags: text that no font shows
    )
}

/// A text of any number of lines: line feeds and tabs stay, what else is hidden becomes `\u{..}`.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    escape(text, |character| hidden(character) && character != '\n' && character != '\t')
}

/// A text that must stay on its line.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape(text, hidden)
}

/// The first line of a text that has one.
pub(crate) fn first_line(text: &str) -> Cow<'_, str> {
    line(text.trim().lines().next().unwrap_or_default().trim_end())
}

/// As much of a text as there is room for, in columns; `…` stands for the rest.
pub(crate) fn cut(text: &str, room: usize) -> Cow<'_, str> {
    if text.width() <= room {
        return Cow::Borrowed(text);
    }
    let mut used = 1;
    let fits = text.find(|character: char| {
        used += character.width().unwrap_or_default();
        used > room
    });
    Cow::Owned(format!("{}…", &text[..fits.unwrap_or(text.len())]))
}

fn escape(text: &str, escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    let Some(first) = text.find(&escaped) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for character in text[first..].chars() {
        if escaped(character) {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    Cow::Owned(out)
}

/// A JSON text, indented, with everything hidden written as an escape: another spelling of the same value.
/// Numbers, strings and the order of members stay as they are. The text must be valid JSON; of another text some
/// other text is made.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
            if hidden(character) {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            } else {
                out.push(character);
            }
            continue;
        }
        match character {
            ' ' | '\t' | '\n' | '\r' => {}
            '"' => {
                in_string = true;
                out.push(character);
            }
            '{' | '[' => {
                out.push(character);
                while characters.next_if(|next| matches!(next, ' ' | '\t' | '\n' | '\r')).is_some() {}
                if let Some(end) = characters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(character);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => out.push(character),
        }
    }
    out
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth {
        out.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use super::{first_line, json, line, text};

    #[test]
    fn i167_what_a_terminal_would_obey_or_hide_is_shown() {
        for (given, shown) in [
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("\u{1b}]8;;http://x\u{7}", "\\u{1b}]8;;http://x\\u{7}"),
            ("\u{1b}]52;c;aGk=\u{9c}", "\\u{1b}]52;c;aGk=\\u{9c}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{200b}b", "a\\u{200b}b"),
            ("\u{e0041}", "\\u{e0041}"),
            ("a\rb", "a\\u{d}b"),
        ] {
            assert_eq!(text(given), shown);
            assert_eq!(line(given), shown);
        }
        assert_eq!(text("a\tb\nc é 漢 😀"), "a\tb\nc é 漢 😀");
        assert_eq!(line("a\nb"), "a\\u{a}b");
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
    }

    #[test]
    fn no_text_makes_json_fail() {
        for given in ["", "}", "]]]", "\"", "\"\\", "{", ":,"] {
            json(given);
        }
    }
}
