//! Makes text of a peer safe to display: escapes characters that control a terminal or are invisible, and truncates
//! long text.
//!
//! Used by every error, report and page that shows a name, a description, a header or a line of another program. It
//! never prints. Escapes have the form `\u{..}` of Rust. Escaped are control characters, line separators, and the
//! default ignorable characters of Unicode (<https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point>).

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt::{self, Write};

/// Text of a peer on one line: escaped, and truncated by [`truncated`](Self::truncated).
///
/// ```
/// use mcpjoin_proto::text::Line;
///
/// assert_eq!(Line::of("a\nb\u{1b}[2J").to_string(), "a\\nb\\u{1b}[2J");
/// assert_eq!(Line::of("abcdef").truncated(3).to_string(), "abc…");
/// assert_eq!(Line::of_bytes(b"a\xff").to_string(), "a\u{fffd}");
/// ```
#[derive(Clone, Debug)]
pub struct Line<'a> {
    text: Cow<'a, str>,
    max_chars: usize,
}

impl<'a> Line<'a> {
    /// The complete text.
    #[must_use]
    pub const fn of(text: &'a str) -> Self {
        Self { text: Cow::Borrowed(text), max_chars: usize::MAX }
    }

    /// Bytes that may be invalid UTF-8; each invalid part becomes U+FFFD.
    #[must_use]
    pub fn of_bytes(bytes: &'a [u8]) -> Self {
        Self { text: String::from_utf8_lossy(bytes), max_chars: usize::MAX }
    }

    /// Limits the number of characters, counted before escaping. `…` replaces the rest.
    #[must_use]
    pub const fn truncated(mut self, max_chars: usize) -> Self {
        self.max_chars = max_chars;
        self
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.char_indices().nth(self.max_chars) {
            Some((end, _)) => write!(f, "{}…", line(&self.text[..end])),
            None => f.write_str(&line(&self.text)),
        }
    }
}

/// As [`escape_line`], with short escapes for line feeds, carriage returns and tabs, which are common in the output of
/// servers.
fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_hidden, |out, character| match character {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        _ => push_escape(out, character),
    })
}

/// A part of a longer text on one line: text is escaped as by [`Line`], and each byte that is not UTF-8 is `\xff`. A character
/// that the end cuts in two is left out.
///
/// ```
/// use mcpjoin_proto::text::escape_excerpt;
///
/// assert_eq!(escape_excerpt(b"{\"a\": \"n\xc3\xb6\xff\n\"\xc3"), "{\"a\": \"n\u{f6}\\xff\\n\"");
/// ```
#[must_use]
pub fn escape_excerpt(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(&line(chunk.valid()));
        let is_cut = core::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
        for byte in chunk.invalid().iter().filter(|_| !is_cut) {
            // Writing to a string does not fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// The start of a text: at most `max_bytes`, ending between two characters.
#[must_use]
pub fn prefix(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Escapes a text for one line.
#[must_use]
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape(text, is_hidden, push_escape)
}

/// Escapes a text of several lines: line feeds and tabs are kept.
#[must_use]
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape(text, |character| is_hidden(character) && character != '\n' && character != '\t', push_escape)
}

/// Escapes a text unambiguously: a backslash that starts the form of an escape is escaped itself.
#[must_use]
pub fn escape_word(text: &str) -> Cow<'_, str> {
    if text.contains("\\u{") {
        escape_line(&text.replace("\\u{", "\\u{5c}u{")).into_owned().into()
    } else {
        escape_line(text)
    }
}

/// Escapes a JSON document with JSON escapes, which changes no value. Line feeds between values are kept.
#[must_use]
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let escaped = |character: char| is_hidden(character) && character != '\n';
    if !json.contains(escaped) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    let mut before = None;
    for character in json.chars() {
        if escaped(character) && !selects_picture(before, character) {
            push_json_escape(&mut out, character);
        } else {
            out.push(character);
        }
        before = Some(character);
    }
    Cow::Owned(out)
}

/// Writes a character as one JSON escape, or as two for a surrogate pair.
pub fn push_json_escape(out: &mut String, character: char) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        // Writing to a string does not fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

/// Whether a character controls a terminal or is invisible.
#[must_use]
pub const fn is_hidden(character: char) -> bool {
    match character {
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true, // C0, DEL, C1: escape sequences begin here
        ..'\u{ad}' => false,
        '\u{2028}' | '\u{2029}'                           // separators that few programs show
        | '\u{fff9}'..='\u{fffb}' => true,                // interlinear annotations
        _ => is_ignorable(character),
    }
}

/// Whether a character has the property `Default_Ignorable_Code_Point`: programs that do not support it display
/// nothing. From Unicode 16.0, <https://www.unicode.org/Public/16.0.0/ucd/DerivedCoreProperties.txt>.
const fn is_ignorable(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'                                  // soft hyphen
        | '\u{34f}'                               // combining grapheme joiner
        | '\u{61c}'                               // direction mark
        | '\u{115f}' | '\u{1160}'                 // fillers of Hangul
        | '\u{17b4}' | '\u{17b5}'                 // inherent vowels of Khmer
        | '\u{180b}'..='\u{180f}'                 // variation selectors of Mongolian, and its separator
        | '\u{200b}'..='\u{200f}'                 // no width, joiners, direction marks
        | '\u{202a}'..='\u{202e}'                 // direction embeddings and overrides
        | '\u{2060}'..='\u{206f}'                 // no width, direction isolates, deprecated controls
        | '\u{3164}' | '\u{ffa0}'                 // fillers of Hangul
        | '\u{fe00}'..='\u{fe0f}'                 // variation selectors
        | '\u{feff}'                              // byte order mark
        | '\u{fff0}'..='\u{fff8}'                 // not assigned
        | '\u{1bca0}'..='\u{1bca3}'               // controls of shorthand
        | '\u{1d173}'..='\u{1d17a}'               // controls of musical notation
        | '\u{e0000}'..='\u{e0fff}'               // tags, more variation selectors
    )
}

/// Whether a character only selects the emoji presentation of the character before it: `☀️` is kept. At most one is
/// kept per emoji, so the text stays unambiguous. After a digit it is escaped, because both forms look the same.
#[must_use]
pub const fn selects_picture(before: Option<char>, character: char) -> bool {
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

fn push_escape(out: &mut String, character: char) {
    // Writing to a string does not fail.
    let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool, push: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let Some(first) = text.find(&is_escaped) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    let mut before = text[..first].chars().next_back();
    for character in text[first..].chars() {
        if is_escaped(character) && !selects_picture(before, character) {
            push(&mut out, character);
        } else {
            out.push(character);
        }
        before = Some(character);
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use alloc::borrow::ToOwned;
    use alloc::format;
    use alloc::string::{String, ToString};

    use super::{Line, escape_json, escape_line, escape_lines, escape_word, prefix};

    #[test]
    fn i167_what_a_terminal_obeys_or_hides_is_escaped() {
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
            assert_eq!(escape_lines(given), shown);
            assert_eq!(escape_line(given), shown);
        }
        for plain in ["a\tb\nc é 漢 😀", "☀\u{fe0f} ok", "✅ 🅰\u{fe0f}", "👍🏽", "한글 ខ្មែរ ᠮᠣᠩᠭᠣᠯ"]
        {
            assert_eq!(escape_lines(plain), plain);
        }
        assert_eq!(escape_line("a\nb"), "a\\u{a}b");
        assert_eq!(escape_word("\\u{1b}"), "\\u{5c}u{1b}");
    }

    #[test]
    fn i167_what_shows_nothing_is_escaped_wherever_unicode_has_it() {
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
        for code in ranges.into_iter().flat_map(|(first, last)| first..=last) {
            let character = char::from_u32(code).unwrap();
            assert_eq!(escape_line(&format!("a{character}")), format!("a\\u{{{code:x}}}"));
            let document = escape_json(&format!("\"a{character}\"")).into_owned();
            assert!(!document.contains(character), "{code:x}");
            assert_eq!(serde_json::from_str::<String>(&document).unwrap(), format!("a{character}"));
        }
        // What selects a picture stays behind an emoji, once.
        assert_eq!(escape_line("☀\u{fe0f}\u{fe0f}"), "☀\u{fe0f}\\u{fe0f}");
        assert_eq!(escape_line("☀\u{fe0e}"), "☀\\u{fe0e}");
        assert_eq!(escape_line("1\u{fe0f}"), "1\\u{fe0f}");
    }

    #[test]
    fn a_document_keeps_its_value_and_its_form() {
        let given = "{\n  \"a\u{9b}\": \"\u{e0041} ☀\u{fe0f} \\n\u{202e}\"\n}\n";
        let shown = escape_json(given);
        assert_eq!(shown, "{\n  \"a\\u009b\": \"\\udb40\\udc41 ☀\u{fe0f} \\n\\u202e\"\n}\n");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(given), value(&shown));
    }

    #[test]
    fn a_long_text_is_truncated_between_characters() {
        for (text, max_chars, shown) in
            [("", 0, ""), ("a", 0, "…"), ("añb", 3, "añb"), ("añb", 2, "añ…"), ("\u{1b}xy", 1, "\\u{1b}…")]
        {
            assert_eq!(Line::of(text).truncated(max_chars).to_string(), shown);
        }
        for (text, max_bytes, shown) in [("", 3, ""), ("añb", 4, "añb"), ("añb", 2, "a"), ("ñ", 1, "")] {
            assert_eq!(prefix(text, max_bytes), shown.to_owned() as String);
        }
    }
}
