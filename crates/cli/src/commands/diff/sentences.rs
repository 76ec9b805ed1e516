//! Changes in words: a sentence for each change, and the lines below it.
//!
//! Used by `page`. Escapes all texts of a server.

use std::borrow::Cow;

use mcpjoin::proto::{Kind, Raw};
use mcpjoin_rules::{Change, ChangeKind, ChangeOf};
use unicode_width::UnicodeWidthStr;

use super::line_diff::{Line, line_diff};
use crate::object::Object;
use crate::visible::{self, counted};

/// The widest value within a sentence. A wider value is shown below it.
const MAX_VALUE_COLUMNS: usize = 60;
/// The longest part of a line that is shown. The document has all of it.
const MAX_LINE_CHARS: usize = 1000;
/// The part of a long line that is shown before its first change.
const CHARS_BEFORE_CHANGE: usize = 60;

/// A line below a sentence, escaped.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) enum Detail {
    Removed(String),
    Added(String),
    /// Text of ours.
    Note(String),
}

/// The place of a change in an item.
struct Place {
    /// For example `parameter a.b`; empty for the item itself.
    owner: String,
    /// The member, or the keyword of a schema; empty for the owner itself.
    member: String,
}

impl Place {
    fn of(change: &Change) -> Self {
        let tokens: Vec<String> =
            change.path.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
        let rest = tokens.get(1..).unwrap_or_default();
        match (change.of, tokens.first().map(String::as_str)) {
            (ChangeOf::Tool, Some(schema @ ("inputSchema" | "outputSchema"))) if rest.is_empty() => {
                Self { owner: String::new(), member: schema.to_owned() }
            }
            (ChangeOf::Tool, Some("inputSchema")) => Self::in_schema("parameter", "the arguments", rest),
            (ChangeOf::Tool, Some("outputSchema")) => Self::in_schema("result", "the result", rest),
            (ChangeOf::Prompt, Some("arguments")) => match rest {
                [] => Self { owner: "the arguments".into(), member: String::new() },
                [name, rest @ ..] => {
                    Self { owner: format!("argument {}", plain(name)), member: dotted(rest) }
                }
            },
            (_, Some("serverInfo" | "capabilities" | "annotations" | "execution")) => {
                Self { owner: String::new(), member: dotted(rest) }
            }
            _ => Self { owner: String::new(), member: dotted(&tokens) },
        }
    }

    /// `one`: what a named value is called; `all`: what all values together are called.
    fn in_schema(one: &str, all: &str, tokens: &[String]) -> Self {
        let mut name = String::new();
        let mut rest = tokens;
        loop {
            rest = match rest {
                [keyword, property, rest @ ..]
                    if matches!(&**keyword, "properties" | "patternProperties" | "dependentSchemas") =>
                {
                    name.push_str(if name.is_empty() { "" } else { "." });
                    name.push_str(&plain(property));
                    rest
                }
                [keyword, definition, rest @ ..] if matches!(&**keyword, "$defs" | "definitions") => {
                    name = format!("{keyword}.{}", plain(definition));
                    rest
                }
                // One of several alternatives for the same value.
                [keyword, _, rest @ ..]
                    if matches!(&**keyword, "anyOf" | "oneOf" | "allOf") && !rest.is_empty() =>
                {
                    rest
                }
                [keyword, rest @ ..]
                    if matches!(&**keyword, "items" | "prefixItems" | "additionalItems" | "contains")
                        && !rest.is_empty() =>
                {
                    name.push_str("[]");
                    // The index of a schema in a list.
                    let is_place = rest.len() > 1 && rest[0].bytes().all(|byte| byte.is_ascii_digit());
                    if is_place { &rest[1..] } else { rest }
                }
                [keyword, rest @ ..]
                    if matches!(&**keyword, "additionalProperties" | "unevaluatedProperties")
                        && !rest.is_empty() =>
                {
                    name.push_str(".*");
                    rest
                }
                _ => break,
            };
        }
        let owner = if name.is_empty() { all.to_owned() } else { format!("{one} {name}") };
        Self { owner, member: dotted(rest) }
    }

    /// `minLength of parameter a`, or the part of it that is known.
    fn shown(&self) -> String {
        match (self.member.is_empty(), self.owner.is_empty()) {
            (true, true) => "definition".into(),
            (true, false) => self.owner.clone(),
            (false, true) => self.member.clone(),
            (false, false) => format!("{} of {}", self.member, self.owner),
        }
    }
}

fn dotted(tokens: &[String]) -> String {
    tokens.iter().map(|token| plain(token)).collect::<Vec<_>>().join(".")
}

/// A name as it is if it cannot be mistaken for our words, otherwise quoted.
fn plain(name: &str) -> Cow<'_, str> {
    let is_plain = |character: char| character.is_alphanumeric() || "_-$@".contains(character);
    if !name.is_empty() && name.chars().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let quoted = Raw::string(name);
    Cow::Owned(visible::cut(&visible::line(quoted.as_str()), MAX_VALUE_COLUMNS).into_owned())
}

/// The change in one line.
pub(in crate::commands) fn sentence(change: &Change) -> String {
    let place = Place::of(change);
    let what = place.shown();
    match change.kind {
        ChangeKind::Added => "added".into(),
        ChangeKind::Removed => "removed".into(),
        ChangeKind::Repeated => match change.new.is_some() {
            true => "added a second time, so calls by this name are ambiguous".into(),
            false => "removed, but another one of the same name remains".into(),
        },
        ChangeKind::PropertyAdded => format!("{} added, optional", place.owner),
        ChangeKind::RequiredPropertyAdded => format!("{} added, required", place.owner),
        ChangeKind::PropertyRemoved => format!("{} removed", place.owner),
        ChangeKind::NowRequired => format!("{} is now required", place.owner),
        ChangeKind::NoLongerRequired => format!("{} is now optional", place.owner),
        ChangeKind::TypeNarrowed => format!("{what} narrowed: {}", types(change)),
        ChangeKind::TypeWidened => format!("{what} widened: {}", types(change)),
        ChangeKind::TypeChanged => format!("{what} changed: {}", types(change)),
        ChangeKind::ValueAdded | ChangeKind::ValueRemoved => {
            let came = change.new.is_some();
            let value = change.new.as_ref().or(change.old.as_ref());
            let shown = value.and_then(short).map(|value| format!(": {value}")).unwrap_or_default();
            format!("a value of {} {}{shown}", place.owner, if came { "added" } else { "removed" })
        }
        ChangeKind::LimitTightened => format!("{what} tightened{}", limits(change)),
        ChangeKind::LimitLoosened => format!("{what} loosened{}", limits(change)),
        ChangeKind::Text => format!("{what} {}", done(change)),
        ChangeKind::CapabilityAdded | ChangeKind::CapabilityRemoved | ChangeKind::CapabilityChanged => {
            format!("capability {what} {}{}", done(change), values(change))
        }
        ChangeKind::Annotation => {
            let remark = remark(change).map(|remark| format!("; {remark}")).unwrap_or_default();
            format!("annotation {what} {}{}{remark}", done(change), values(change))
        }
        _ => format!("{what} {}{}", done(change), values(change)),
    }
}

const fn done(change: &Change) -> &'static str {
    match (&change.old, &change.new) {
        (None, Some(_)) => "added",
        (Some(_), None) => "removed",
        _ => "changed",
    }
}

/// A remark on a hint that a host may have relied on and that is no longer given.
fn remark(change: &Change) -> Option<&'static str> {
    let is = |value: &Option<Raw>, word: &str| value.as_ref().is_some_and(|value| value.as_str() == word);
    match &*change.path {
        "/annotations/readOnlyHint" if is(&change.old, "true") => Some("it was marked as read-only"),
        "/annotations/destructiveHint" if is(&change.old, "false") => {
            Some("it was marked as not destructive")
        }
        _ => None,
    }
}

/// `: 1 -> 2`, or the only value, if they are short.
fn values(change: &Change) -> String {
    let shown = |value: &Option<Raw>| value.as_ref().and_then(short);
    match (&change.old, &change.new, shown(&change.old), shown(&change.new)) {
        (Some(_), Some(_), Some(old), Some(new)) => format!(": {old} -> {new}"),
        (Some(_), None, Some(value), _) | (None, Some(_), _, Some(value)) => format!(": {value}"),
        _ => String::new(),
    }
}

/// `: none -> 2`, if both are short.
fn limits(change: &Change) -> String {
    let shown = |value: &Option<Raw>| value.as_ref().map_or_else(|| Some("none".into()), short);
    match (shown(&change.old), shown(&change.new)) {
        (Some(old), Some(new)) if change.old.is_some() || change.new.is_some() => format!(": {old} -> {new}"),
        _ => String::new(),
    }
}

/// A value that fits into a sentence. An object is shown below it.
fn short(value: &Raw) -> Option<String> {
    if value.len() > 4 * MAX_VALUE_COLUMNS || value.kind() == Kind::Object && value.as_str() != "{}" {
        return None;
    }
    Some(visible::line(value.as_str()).into_owned()).filter(|shown| shown.width() <= MAX_VALUE_COLUMNS)
}

fn types(change: &Change) -> String {
    let one = |value: &Option<Raw>| match value {
        None => "any".to_owned(),
        Some(value) => match (value.to_string_value(), value.decode::<Vec<String>>()) {
            (Some(one), _) => plain(&one).into_owned(),
            (None, Ok(several)) => several.iter().map(|one| plain(one)).collect::<Vec<_>>().join(" or "),
            (None, Err(_)) => short(value).unwrap_or_else(|| "something else".into()),
        },
    };
    format!("{} -> {}", one(&change.old), one(&change.new))
}

/// The lines below a sentence.
pub(in crate::commands) fn details(change: &Change) -> Vec<Detail> {
    let described = |item: &Option<Raw>| {
        let item = item.as_ref().and_then(Object::of);
        item.and_then(|item| item.text("description").or_else(|| item.text("title"))).unwrap_or_default()
    };
    match change.kind {
        ChangeKind::Added
        | ChangeKind::Repeated
        | ChangeKind::PropertyAdded
        | ChangeKind::RequiredPropertyAdded => {
            described(&change.new).lines().map(|line| Detail::Added(around(line, 0))).collect()
        }
        // The sentence says all, or the value is a schema, which does not fit in one line: the document has it.
        ChangeKind::Removed
        | ChangeKind::PropertyRemoved
        | ChangeKind::TypeNarrowed
        | ChangeKind::TypeWidened
        | ChangeKind::TypeChanged
        | ChangeKind::SchemaAdded
        | ChangeKind::SchemaRemoved => Vec::new(),
        _ => match (&change.old, &change.new) {
            (None, None) => Vec::new(),
            (old, new)
                if [old, new].into_iter().flatten().all(|value| short(value).is_some())
                    && change.kind != ChangeKind::Text =>
            {
                Vec::new()
            }
            (old, new) => {
                let text = |value: &Option<Raw>| {
                    value.as_ref().map(|value| match value.to_string_value() {
                        Some(text) => text.into_owned(),
                        None => value.as_str().to_owned(),
                    })
                };
                compared(text(old).as_deref(), text(new).as_deref())
            }
        },
    }
}

/// Compares both texts line by line. One of them may be absent.
fn compared(old: Option<&str>, new: Option<&str>) -> Vec<Detail> {
    let (Some(old), Some(new)) = (old, new) else {
        let gone = old.into_iter().flat_map(str::lines).map(|line| Detail::Removed(around(line, 0)));
        return gone
            .chain(new.into_iter().flat_map(str::lines).map(|line| Detail::Added(around(line, 0))))
            .collect();
    };
    let lines = line_diff(old, new);
    let mut out = Vec::new();
    let mut place = 0;
    while let Some(line) = lines.get(place) {
        match (line, lines.get(place + 1)) {
            // A changed line is shown from its first change on.
            (Line::Removed(gone), Some(Line::Added(come))) => {
                let same = gone.chars().zip(come.chars()).take_while(|(gone, come)| gone == come).count();
                out.push(Detail::Removed(around(gone, same)));
                out.push(Detail::Added(around(come, same)));
                out.extend(unseen(gone, come, same));
                place += 1;
            }
            (Line::Removed(gone), _) => out.push(Detail::Removed(around(gone, 0))),
            (Line::Added(come), _) => out.push(Detail::Added(around(come, 0))),
            (Line::Same(count), _) => {
                out.push(Detail::Note(format!("({} unchanged)", counted(count, "line"))));
            }
        }
        place += 1;
    }
    out
}

/// The first characters that differ, if the difference is hard to see: blanks, or letters that look alike.
fn unseen(gone: &str, come: &str, same: usize) -> Option<Detail> {
    let letters = |text: &str| text.split_whitespace().collect::<String>();
    let is_blank_space = letters(gone) == letters(come);
    let (gone, come) = (gone.chars().nth(same), come.chars().nth(same));
    if !is_blank_space && [gone, come].iter().flatten().all(char::is_ascii) {
        return None;
    }
    let code = |character: Option<char>| {
        character.map_or_else(|| "the end".to_owned(), |character| format!("U+{:04X}", u32::from(character)))
    };
    Some(Detail::Note(format!(
        "(first difference at character {}: {} -> {})",
        same + 1,
        code(gone),
        code(come)
    )))
}

/// A line, escaped. A long line is shown around the character at `place`.
fn around(line: &str, place: usize) -> String {
    let start = place.saturating_sub(CHARS_BEFORE_CHANGE);
    let (begins, start) = match line.char_indices().nth(MAX_LINE_CHARS) {
        None => (true, 0),
        Some(_) => (start == 0, line.char_indices().nth(start).map_or(line.len(), |(start, _)| start)),
    };
    let rest = &line[start..];
    let end = rest.char_indices().nth(MAX_LINE_CHARS).map(|(end, _)| end);
    let text = visible::line(&rest[..end.unwrap_or(rest.len())]);
    format!("{}{text}{}", if begins { "" } else { "…" }, if end.is_some() { "…" } else { "" })
}

#[cfg(test)]
mod tests {
    use mcpjoin::proto::Raw;
    use mcpjoin_rules::{Offer, changes};

    use super::{Detail, MAX_LINE_CHARS, details, sentence};

    /// The sentence and the details of each change from one definition of a tool to another.
    fn changes_of(old: &str, new: &str) -> Vec<(String, Vec<Detail>)> {
        let offer = |tool: &str| {
            let tool = format!(r#"{{"name":"x",{tool}}}"#);
            Offer { tools: vec![Raw::parse(tool).unwrap()], ..Offer::default() }
        };
        changes(&offer(old), &offer(new)).iter().map(|change| (sentence(change), details(change))).collect()
    }

    fn sentences(old: &str, new: &str) -> Vec<String> {
        changes_of(old, new).into_iter().map(|(sentence, _)| sentence).collect()
    }

    fn input(schema: &str) -> String {
        format!(r#""inputSchema":{schema}"#)
    }

    #[test]
    fn i179_each_change_is_said_in_words() {
        for (old, new, sentence) in [
            ("{}", r#"{"properties":{"a":{}}}"#, "parameter a added, optional"),
            ("{}", r#"{"properties":{"a":{}},"required":["a"]}"#, "parameter a added, required"),
            (r#"{"properties":{"a":{}}}"#, "{}", "parameter a removed"),
            (
                r#"{"properties":{"a":{}}}"#,
                r#"{"properties":{"a":{}},"required":["a"]}"#,
                "parameter a is now required",
            ),
            (
                r#"{"properties":{"a":{"items":{"properties":{"b c":{"type":["string","null"]}}}}}}"#,
                r#"{"properties":{"a":{"items":{"properties":{"b c":{"type":"string"}}}}}}"#,
                r#"type of parameter a[]."b c" narrowed: string or null -> string"#,
            ),
            (
                r#"{"properties":{"a":{"type":"object"}}}"#,
                r#"{"properties":{"a":{}}}"#,
                "type of parameter a widened: object -> any",
            ),
            (r#"{"enum":["a"]}"#, r#"{"enum":["a","b"]}"#, r#"a value of the arguments added: "b""#),
            (
                r#"{"properties":{"properties":{"maximum":1}}}"#,
                r#"{"properties":{"properties":{"maximum":2}}}"#,
                "maximum of parameter properties loosened: 1 -> 2",
            ),
            (
                r#"{"properties":{"a":{"anyOf":[{"default":1},{"const":2}]}}}"#,
                r#"{"properties":{"a":{"anyOf":[{"default":3},{"const":2}]}}}"#,
                "default of parameter a changed: 1 -> 3",
            ),
            (
                r#"{"additionalProperties":{"minimum":1}}"#,
                r#"{"additionalProperties":{"minimum":2}}"#,
                "minimum of parameter .* tightened: 1 -> 2",
            ),
            (
                "{}",
                r#"{"additionalProperties":false}"#,
                "additionalProperties of the arguments tightened: none -> false",
            ),
            (
                r#"{"$defs":{"a":{"format":"x"}}}"#,
                r#"{"$defs":{"a":{"format":"y"}}}"#,
                r#"format of parameter $defs.a changed: "x" -> "y""#,
            ),
            (
                r#"{"prefixItems":[{"minimum":1}]}"#,
                r#"{"prefixItems":[{"minimum":2}]}"#,
                "minimum of parameter [] tightened: 1 -> 2",
            ),
        ] {
            assert_eq!(sentences(&input(old), &input(new)), [sentence], "{old} -> {new}");
        }
        assert_eq!(
            sentences(
                r#""annotations":{"readOnlyHint":true}"#,
                r#""annotations":{"readOnlyHint":false,"openWorldHint":false}"#
            ),
            [
                "annotation openWorldHint added: false",
                "annotation readOnlyHint changed: true -> false; it was marked as read-only"
            ]
        );
        assert_eq!(
            sentences(r#""outputSchema":{},"title":"t""#, r#""_meta":{"a":1}"#),
            ["_meta added", "outputSchema removed: {}", "title removed"]
        );
    }

    #[test]
    fn i179_of_a_text_the_lines_that_have_changed_are_shown() {
        let text = |text: &str| format!(r#""description":{}"#, Raw::string(text).as_str());
        let (old, new) = (text("One.\nTwo.\nThree."), text("One.\nTwo!\u{1b}[2J\nThree."));
        let (gone, come) = (Detail::Removed("Two.".into()), Detail::Added("Two!\\u{1b}[2J".into()));
        let note = |text: &str| Detail::Note(text.into());
        assert_eq!(
            changes_of(&old, &new),
            [(
                "description changed".to_owned(),
                vec![note("(1 line unchanged)"), gone, come, note("(1 line unchanged)")]
            )]
        );
        assert_eq!(changes_of(&text("a"), r#""title":"t""#)[0].1, [Detail::Removed("a".into())]);
        // A letter of another alphabet, and a space at the end.
        assert_eq!(
            changes_of(&text("safe"), &text("s\u{430}fe"))[0].1[2],
            note("(first difference at character 2: U+0061 -> U+0430)")
        );
        assert_eq!(
            changes_of(&text("safe"), &text("safe "))[0].1[2],
            note("(first difference at character 5: the end -> U+0020)")
        );
        for seen in ["sane", "safe one"] {
            assert_eq!(changes_of(&text("safe"), &text(seen))[0].1.len(), 2, "{seen}");
        }
    }

    #[test]
    fn i179_what_has_changed_at_the_end_of_a_long_line_is_shown() {
        let text = |end: &str| format!(r#""description":"{}{end}""#, "é".repeat(9 * MAX_LINE_CHARS));
        let changes_of = changes_of(&text("old"), &text("new"));
        let [Detail::Removed(gone), Detail::Added(come)] = &changes_of[0].1[..] else {
            panic!("{changes_of:?}")
        };
        assert!(gone.starts_with("…é") && gone.ends_with("éold") && gone.chars().count() < 100, "{gone}");
        assert!(come.ends_with("énew"), "{come}");
    }

    #[test]
    fn i179_i167_a_name_drives_no_terminal_and_passes_for_no_words_of_ours() {
        let name = "a added, optional\u{1b}[2J\u{202e}";
        let new = input(&format!(r#"{{"properties":{{{}:{{}}}}}}"#, Raw::string(name).as_str()));
        assert_eq!(
            sentences(&input("{}"), &new),
            ["parameter \"a added, optional\\u001b[2J\\u{202e}\" added, optional"]
        );
    }
}
