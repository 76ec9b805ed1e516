//! Extracts the normative sentences from a page of the specification, or from the comments of its schema.
//!
//! Called only by `cargo xtask sentences`. A sentence is normative when it contains a key word in capitals
//! ([BCP 14](https://www.rfc-editor.org/info/bcp14)). A list item below a sentence with a key word that ends in a colon is
//! normative together with that sentence, unless the item has its own key word. Code, diagrams and link targets are ignored.

/// A normative sentence of a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Normative {
    /// The anchor of its heading; empty before the first heading.
    pub(super) anchor: String,
    /// The text without markup, on one line.
    pub(super) text: String,
}

/// The key words of a requirement.
const DEMANDING: [&str; 3] = ["MUST", "SHALL", "REQUIRED"];
/// The key words of a recommendation.
const ADVISING: [&str; 2] = ["SHOULD", "RECOMMENDED"];
/// The key words of a permission. An item with one is not normative, and does not inherit the key words of the sentence
/// above it.
const ALLOWING: [&str; 2] = ["MAY", "OPTIONAL"];

/// The level of a sentence: `MUST`, `SHOULD` or, when it has both, `MUST SHOULD`.
pub(super) fn level(text: &str) -> &'static str {
    match (has(text, &DEMANDING), has(text, &ADVISING)) {
        (true, false) => "MUST",
        (true, true) => "MUST SHOULD",
        (false, true) => "SHOULD",
        (false, false) => "",
    }
}

fn has(text: &str, key_words: &[&str]) -> bool {
    text.split(|c: char| !c.is_ascii_alphabetic()).any(|word| key_words.contains(&word))
}

fn is_normative(text: &str) -> bool {
    !level(text).is_empty()
}

#[derive(Debug, PartialEq)]
enum Block {
    Heading(String),
    /// Code, or a diagram: a sentence before it that ends in a colon introduces it, and not the text after it.
    Code,
    /// The indentation: for a paragraph one less than for an item, so that items are below it.
    Text {
        indent: isize,
        text: String,
    },
}

/// The normative sentences of a page.
pub(super) fn of_page(page: &str) -> Vec<Normative> {
    let mut found = Vec::new();
    let mut anchor = String::new();
    // The open blocks: the indentation of each, and the sentence that introduces the items below it.
    let mut above: Vec<(isize, Option<String>)> = Vec::new();
    let blocks = blocks(page);
    for (place, block) in blocks.iter().enumerate() {
        let (indent, text) = match block {
            Block::Heading(title) => {
                anchor = self::anchor(title);
                above.clear();
                continue;
            }
            Block::Code => continue,
            Block::Text { indent, text } => (*indent, text),
        };
        while above.last().is_some_and(|(open, _)| *open >= indent) {
            above.pop();
        }
        let mut sentences = sentences(text);
        let leads = sentences.last().is_some_and(|last| last.ends_with(':'))
            && matches!(blocks.get(place + 1), Some(Block::Text { indent: next, .. }) if *next > indent);
        let below = above.last().and_then(|(_, lead)| lead.as_deref());
        // The text before its own key words belongs to the introducing sentence.
        let own = sentences.iter().position(|sentence| is_normative(sentence) || has(sentence, &ALLOWING));
        let led = &sentences[..own.unwrap_or(sentences.len())];
        if let (Some(lead), false) = (below, led.is_empty()) {
            found.push(Normative { anchor: anchor.clone(), text: format!("{lead} {}", led.join(" ")) });
        }
        let lead = if leads { sentences.pop().filter(|lead| is_normative(lead)) } else { None };
        let normative = sentences.into_iter().filter(|sentence| is_normative(sentence));
        found.extend(normative.map(|text| Normative { anchor: anchor.clone(), text }));
        above.push((indent, lead));
    }
    for sentence in &mut found {
        sentence.text.retain(|c| c != '`');
    }
    found
}

/// The normative sentences in the comments of a TypeScript file, under the name of the exported item.
pub(super) fn of_schema(schema: &str) -> Vec<Normative> {
    let mut found = Vec::new();
    let mut exported = String::new();
    let mut lines = schema.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(name) = export(line) {
            exported = name.to_lowercase();
        }
        let Some(begun) = line.strip_prefix("/**") else { continue };
        let mut comment = String::new();
        let mut next = Some(begun);
        while let Some(line) = next {
            let (text, ended) = line.split_once("*/").map_or((line, false), |(text, _)| (text, true));
            let text = text
                .trim_start()
                .strip_prefix('*')
                .map_or(text, |text| text.strip_prefix(' ').unwrap_or(text));
            // Tags for the generator of the schema's pages.
            if !text.trim_start().starts_with('@') {
                comment.push_str(text);
            }
            comment.push('\n');
            next = if ended { None } else { lines.next() };
        }
        let mut sentences = of_page(&comment);
        if !sentences.is_empty() {
            // The comment describes the line after it.
            let following = lines.clone().find(|line| !line.is_empty());
            if let Some(name) = following.and_then(export) {
                exported = name.to_lowercase();
            }
        }
        for sentence in &mut sentences {
            sentence.anchor.clone_from(&exported);
        }
        found.extend(sentences);
    }
    found
}

/// The name that a line exports.
fn export(line: &str) -> Option<&str> {
    let mut words = line.strip_prefix("export ")?.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.next()?;
    words.next()
}

/// The paragraphs, items and table rows of a page, in their order.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    // The current block (its indentation and text), and the marker that ends it.
    let mut open: Option<(isize, String)> = None;
    let mut until: Option<&str> = None;
    let mut lines = page.lines().peekable();
    if lines.next_if(|line| line.trim() == "---").is_some() {
        lines.by_ref().find(|line| line.trim() == "---");
    }
    let close = |open: &mut Option<(isize, String)>, blocks: &mut Vec<Block>| {
        blocks.extend(open.take().map(|(indent, text)| Block::Text { indent, text }));
    };
    for line in lines {
        let text = line.trim();
        if let Some(end) = until {
            if text.contains(end) {
                until = None;
            }
            continue;
        }
        let opens = [("```", "```"), ("~~~", "~~~"), ("{/*", "*/}"), ("<!--", "-->")];
        if let Some((begin, end)) = opens.into_iter().find(|(begin, _)| text.starts_with(begin)) {
            close(&mut open, &mut blocks);
            if begin == end {
                blocks.push(Block::Code);
            }
            until = (!text[begin.len()..].contains(end)).then_some(end);
            continue;
        }
        let indent = isize::try_from(line.len() - line.trim_start().len()).unwrap_or(isize::MAX);
        let is_tag = text.starts_with('<') && text.ends_with('>') && !text.contains("> ");
        let is_reference =
            text.starts_with('[') && text.split_once("]: ").is_some_and(|(name, _)| !name.contains(']'));
        let is_rule = text.starts_with('|') && text.trim_matches(['|', '-', ':', ' ']).is_empty();
        if text.is_empty() || is_tag || is_reference || is_rule {
            close(&mut open, &mut blocks);
            if is_rule {
                // The previous row is the table's header.
                blocks.pop();
            }
        } else if text.starts_with('#') {
            close(&mut open, &mut blocks);
            blocks.push(Block::Heading(unmarked(text.trim_start_matches('#')).replace('`', "")));
        } else if let Some(item) = item(text) {
            close(&mut open, &mut blocks);
            open = Some((indent, item.to_owned()));
        } else if text.starts_with('|') {
            close(&mut open, &mut blocks);
            open = Some((
                indent,
                text.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(" | "),
            ));
        } else if let Some((_, begun)) = &mut open {
            begun.push(' ');
            begun.push_str(text);
        } else {
            open = Some((indent - 1, text.to_owned()));
        }
    }
    close(&mut open, &mut blocks);
    blocks
}

/// The text after a list marker.
fn item(text: &str) -> Option<&str> {
    let bullet =
        text.strip_prefix("- ").or_else(|| text.strip_prefix("* ")).or_else(|| text.strip_prefix("+ "));
    bullet.or_else(|| {
        let (number, rest) = text.split_once(". ")?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
    })
}

/// The anchor of a heading.
fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

/// The sentences of a text, still with code marks.
fn sentences(text: &str) -> Vec<String> {
    let text = unmarked(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut sentences = Vec::new();
    let mut sentence = String::new();
    for (place, word) in words.iter().enumerate() {
        if !sentence.is_empty() {
            sentence.push(' ');
        }
        sentence.push_str(word);
        let bare = word.trim_end_matches([')', '"', '\'', '”']);
        let ends = bare.ends_with(['.', '!', '?'])
            && !["e.g.", "i.e.", "etc.", "vs.", "cf."].contains(&bare.trim_start_matches('('));
        let begins = |next: &&str| {
            next.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit() || "`(\"“".contains(c))
        };
        if ends && words.get(place + 1).is_some_and(begins) {
            sentences.push(std::mem::take(&mut sentence));
        }
    }
    if !sentence.is_empty() {
        sentences.push(sentence);
    }
    sentences
}

/// Removes emphasis, tags and link targets; text in code marks stays unchanged, with its marks.
fn unmarked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = match c {
            '`' => {
                let end = after.find('`').map_or(rest.len(), |end| end + 2);
                out.push_str(&rest[..end]);
                &rest[end..]
            }
            '*' | '[' => after,
            '{' if after.starts_with("@link ") => {
                let (link, after) = after.split_once('}').unwrap_or((after, ""));
                let name = link.trim_start_matches("@link ");
                out.push_str(name.split_once('|').map_or(name, |(_, name)| name).trim());
                after
            }
            '_' if !(out.ends_with(char::is_alphanumeric) && after.starts_with(char::is_alphanumeric)) => {
                after
            }
            ']' => match after.chars().next() {
                Some('(') => after.find(')').map_or("", |end| &after[end + 1..]),
                Some('[') => after.find(']').map_or("", |end| &after[end + 1..]),
                _ => after,
            },
            '<' if after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') => {
                match after.find('>') {
                    Some(end) => &after[end + 1..],
                    None => after,
                }
            }
            '\u{2019}' => {
                out.push('\'');
                after
            }
            c => {
                out.push(c);
                after
            }
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &str) -> Vec<String> {
        of_page(page).into_iter().map(|sentence| sentence.text).collect()
    }

    #[test]
    fn a_sentence_with_a_key_word_counts() {
        let page = "---\ntitle: MUST\n---\n\n# Some *Thing*\n\nNothing here. Servers **MUST** do `a.b`, e.g. B.\n\
                    They [SHOULD\nnot](/MUST) wait.\n\n```\nMUST\n```\n";
        let found = of_page(page);
        assert_eq!(texts(page), ["Servers MUST do a.b, e.g. B.", "They SHOULD not wait."]);
        assert_eq!(found[0].anchor, "some-thing");
        assert_eq!((level(&found[0].text), level(&found[1].text)), ("MUST", "SHOULD"));
        assert_eq!(
            texts("| A | B |\n|---|:-:|\n| It MUST be | b |\n\n{@link Thing | Things} MUST be.\n"),
            ["It MUST be | b", "Things MUST be.",]
        );
        assert_eq!(level("This must not count, nor MUSTARD."), "");
    }

    #[test]
    fn items_count_with_what_leads_to_them() {
        let page = "Clients MUST:\n\n- do this\n  or that\n- do so:\n  - in this way\n- MAY do that\n- Do it. You SHOULD do more.\n\n\
                    They MUST say:\n\n```\nthis\n```\n\n1. Nothing.\n";
        assert_eq!(
            texts(page),
            [
                "Clients MUST: do this or that",
                "Clients MUST: do so:",
                "Clients MUST: Do it.",
                "You SHOULD do more.",
                "They MUST say:",
            ]
        );
    }

    #[test]
    fn comments_of_a_schema_stand_under_what_they_are_about() {
        let schema = "/**\n * It MUST be.\n *\n * @category MUST\n */\nexport interface Thing {\n  /** A SHOULD. */\n  a: 1;\n}\n";
        let found = of_schema(schema);
        let found: Vec<_> = found.iter().map(|one| (one.anchor.as_str(), one.text.as_str())).collect();
        assert_eq!(found, [("thing", "It MUST be."), ("thing", "A SHOULD.")]);
    }
}
