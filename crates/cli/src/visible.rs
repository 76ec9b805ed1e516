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
    match character {
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true, // C0, DEL, C1: escape sequences begin here
        ..'\u{ad}' => false,
        '\u{2028}' | '\u{2029}'                           // separators that few show
        | '\u{fff9}'..='\u{fffb}' => true,                // interlinear annotations
        _ => is_ignorable(character),
    }
}

/// Whether it has the property `Default_Ignorable_Code_Point`: what does not know it shows nothing for it. The table is that
/// of Unicode 16.0, <https://www.unicode.org/Public/16.0.0/ucd/DerivedCoreProperties.txt>.
const fn is_ignorable(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'                                  // soft hyphen
        | '\u{34f}'                               // combining grapheme joiner
        | '\u{61c}'                               // direction mark
        | '\u{115f}' | '\u{1160}'                 // fillers of Hangul
        | '\u{17b4}' | '\u{17b5}'                 // vowels of Khmer that are inherent
        | '\u{180b}'..='\u{180f}'                 // selectors of variations of Mongolian, and its separator
        | '\u{200b}'..='\u{200f}'                 // no width, joiners, direction marks
        | '\u{202a}'..='\u{202e}'                 // direction embeddings and overrides
        | '\u{2060}'..='\u{206f}'                 // no width, direction isolates, deprecated controls
        | '\u{3164}' | '\u{ffa0}'                 // fillers of Hangul
        | '\u{fe00}'..='\u{fe0f}'                 // selectors of variations
        | '\u{feff}'                              // byte order mark
        | '\u{fff0}'..='\u{fff8}'                 // not assigned
        | '\u{1bca0}'..='\u{1bca3}'               // controls of shorthand
        | '\u{1d173}'..='\u{1d17a}'               // controls of musical notation
        | '\u{e0000}'..='\u{e0fff}'               // tags, more selectors of variations
    )
}

/// Whether it does nothing but have the character before it drawn as a picture: `☀️` stays as it is. What it selects is how
/// the emoji looks, so that at most one of them behind each can be there, and none that can be seen for another text. The
/// digits with it are left out: they look the same without.
fn selects_picture(before: Option<char>, character: char) -> bool {
    character == '\u{fe0f}'
        && matches!(
            before,
            Some(
                '©' | '®' | '‼' | '⁉' | '™' | 'ℹ'
                | '\u{2194}'..='\u{21aa}'             // arrows
                | '\u{231a}'..='\u{23ff}' | 'Ⓜ'      // technical signs
                | '\u{25aa}'..='\u{27bf}'             // shapes, weather, dingbats
                | '\u{2934}' | '\u{2935}' | '\u{2b05}'..='\u{2b55}'
                | '〰' | '〽' | '㊗' | '㊙'
                | '\u{1f000}'..='\u{1faff}'           // the blocks of emoji
            )
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

/// The same, and no two texts are shown alike: the backslash of a text that looks like an escape becomes one itself.
pub(crate) fn word(text: &str) -> Cow<'_, str> {
    if text.contains("\\u{") {
        line(&text.replace("\\u{", "\\u{5c}u{")).into_owned().into()
    } else {
        line(text)
    }
}

/// A text of any number of lines with our own styles in it: escape sequences that select colours and the like (SGR) stay.
pub(crate) fn styled(text: &str) -> Cow<'_, str> {
    if !text.contains(|character| hidden(character) && character != '\n') {
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

/// How long the sequence is that begins the text and does nothing but select a style (ECMA-48, 8.3.117).
fn style(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|character: char| !character.is_ascii_digit() && character != ';')?;
    parameters[end..].starts_with('m').then_some("\u{1b}[".len() + end + 1)
}

/// A JSON document, as it is, with everything hidden written as an escape. Between its values nothing is hidden but line
/// feeds, which stay.
pub(crate) fn document(json: &str) -> Cow<'_, str> {
    let escaped = |character: char| hidden(character) && character != '\n';
    if !json.contains(escaped) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    let mut before = None;
    for character in json.chars() {
        if escaped(character) && !selects_picture(before, character) {
            units(&mut out, character);
        } else {
            out.push(character);
        }
        before = Some(character);
    }
    Cow::Owned(out)
}

/// Writes a character as the escapes of JSON.
fn units(out: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing to a string does not fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
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
        // What it is behind is drawn in two columns with it.
        used += if character == '\u{fe0f}' { 1 } else { character.width().unwrap_or_default() };
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
    let mut before = text[..first].chars().next_back();
    for character in text[first..].chars() {
        if escaped(character) && !selects_picture(before, character) {
            // Writing to a string does not fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        } else {
            out.push(character);
        }
        before = Some(character);
    }
    Cow::Owned(out)
}

/// A JSON text, indented, with everything hidden written as an escape: another spelling of the same value.
/// Numbers, strings and the order of members stay as they are. The text must be valid JSON; of another text some
/// other text is made.
pub(crate) fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    Indented::default().push(&mut out, text);
    out
}

/// The same, piece by piece: a document of any length that is never there as a whole. The pieces may end anywhere.
#[derive(Default)]
pub(crate) struct Indented {
    depth: usize,
    in_string: bool,
    /// The character before was a backslash in a string.
    escaped: bool,
    /// An object or an array has begun, and nothing in it has come yet.
    opened: bool,
    /// The character before.
    before: Option<char>,
}

impl Indented {
    /// Adds the next piece of the text to what is written.
    pub(crate) fn push(&mut self, out: &mut String, text: &str) {
        for character in text.chars() {
            let before = self.before.replace(character);
            if self.in_string {
                self.in_string = self.escaped || character != '"';
                self.escaped = !self.escaped && character == '\\';
                if hidden(character) && !selects_picture(before, character) {
                    units(out, character);
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
    for _ in 0..depth {
        out.push_str("  ");
    }
}

#[cfg(test)]
mod tests {
    use super::{Indented, document, first_line, json, line, styled, text};

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
        for plain in ["a\tb\nc é 漢 😀", "☀\u{fe0f} ok", "✅ 🅰\u{fe0f}", "👍🏽", "한글 ខ្មែរ ᠮᠣᠩᠭᠣᠯ"]
        {
            assert_eq!(text(plain), plain);
        }
        assert_eq!(line("a\nb"), "a\\u{a}b");
        assert_eq!(first_line("\n  one \r\ntwo"), "one");
        assert_eq!(first_line(""), "");
    }

    #[test]
    fn i167_what_shows_nothing_is_shown_wherever_unicode_has_it() {
        let ranges = [
            (0xad, 0xad),
            (0x34f, 0x34f),
            (0x61c, 0x61c),
            (0x115f, 0x1160),
            (0x17b4, 0x17b5),
            (0x180b, 0x180f),
            (0x200b, 0x200f),
            (0x202a, 0x202e),
            (0x2060, 0x206f),
            (0x3164, 0x3164),
            (0xfe00, 0xfe0f),
            (0xfeff, 0xfeff),
            (0xffa0, 0xffa0),
            (0xfff0, 0xfff8),
            (0x1bca0, 0x1bca3),
            (0x1d173, 0x1d17a),
            (0xe0000, 0xe0fff),
        ];
        // Each alone, behind a letter, and in a JSON text, where the value stays the same.
        for code in ranges.into_iter().flat_map(|(first, last)| first..=last) {
            let character = char::from_u32(code).unwrap();
            assert_eq!(line(&format!("a{character}")), format!("a\\u{{{code:x}}}"));
            let given = format!("\"a{character}\"");
            let shown = json(&given);
            assert!(!shown.contains(character), "{code:x}");
            assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), format!("a{character}"));
        }
        // What selects a picture stays behind an emoji, once.
        assert_eq!(line("☀\u{fe0f}\u{fe0f}"), "☀\u{fe0f}\\u{fe0f}");
        assert_eq!(line("☀\u{fe0e}"), "☀\\u{fe0e}");
        assert_eq!(line("1\u{fe0f}"), "1\\u{fe0f}");
        assert_eq!(json("\"☀\u{fe0f}x\u{fe0f}\""), "\"☀\u{fe0f}x\\ufe0f\"");
        for room in 1..6 {
            let cut = super::cut("☀\u{fe0f}☀\u{fe0f}☀\u{fe0f}", room).into_owned();
            assert!(unicode_width::UnicodeWidthStr::width(&*cut) <= room, "{room}: {cut}");
        }
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
        // In pieces it is the same, wherever they end.
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
    fn a_document_keeps_its_value_and_its_form() {
        let given = "{\n  \"a\u{9b}\": \"\u{e0041} ☀\u{fe0f} \\n\u{202e}\"\n}\n";
        let shown = document(given);
        assert_eq!(shown, "{\n  \"a\\u009b\": \"\\udb40\\udc41 ☀\u{fe0f} \\n\\u202e\"\n}\n");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(given), value(&shown));
    }

    #[test]
    fn no_text_makes_json_fail() {
        for given in ["", "}", "]]]", "\"", "\"\\", "{", ":,"] {
            json(given);
        }
    }
}
