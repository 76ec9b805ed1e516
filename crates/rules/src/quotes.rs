//! The specification's own sentences for the rules, without their markup.
//!
//! Called by the reports of `validate`. `quotes.txt` is written by `cargo xtask sentences SPECIFICATION --quotes`, never by hand:
//! one line for each normative sentence that has a rule, with its place, its revisions and the rules.

use mcpjoin_proto::Version;

use crate::rule::{Level, Rule};

const QUOTES: &str = include_str!("quotes.txt");
/// Stands in `quotes.txt` for the revision that a sentence names.
const REVISION: &str = "REVISION";

impl Rule {
    /// The sentence of the specification that the rule checks in this revision. `None` for a rule that is based on something
    /// else: the schema, JSON-RPC, an RFC, or a sentence without a key word.
    #[must_use]
    pub fn quote(&self, version: &Version) -> Option<String> {
        let source = self.source(version)?;
        let address = source.address(version);
        let score = |place: &str, text: &str| {
            let at_place = usize::from(address.ends_with(&format!("/{place}")));
            let of_level = usize::from(has_level(text, source.level));
            (of_level, at_place, shared_words(self.sentence, text))
        };
        QUOTES
            .lines()
            .filter_map(|line| {
                let mut parts = line.splitn(4, " | ");
                let (place, revisions, slugs) = (parts.next()?, parts.next()?, parts.next()?);
                let is_of = |list: &str, word: &str| list.split(' ').any(|one| one == word);
                let text = parts.next()?;
                (is_of(slugs, self.slug) && is_of(revisions, version.as_str())).then_some((place, text))
            })
            // The first of equals: `max_by_key` takes the last.
            .rev()
            .max_by_key(|(place, text)| score(place, text))
            .map(|(_, text)| text.replace(REVISION, version.as_str()))
    }
}

/// Whether a sentence has a key word of this level.
fn has_level(text: &str, level: Level) -> bool {
    let words: &[&str] = match level {
        Level::Must => &["MUST", "SHALL", "REQUIRED"],
        Level::Should => &["SHOULD", "RECOMMENDED"],
        Level::Advice => return true,
    };
    text.split(|c: char| !c.is_ascii_alphabetic()).any(|word| words.contains(&word))
}

/// How many words two texts share. Numbers and names count more: they say most about what a sentence is about.
fn shared_words(one: &str, other: &str) -> usize {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric() && !"-_/.".contains(c));
        let words = words.map(|word| word.trim_matches(['.', '-', '/']).to_lowercase());
        words.filter(|word| word.len() > 2).collect()
    };
    let others = words(other);
    let mut shared: Vec<String> = words(one).into_iter().filter(|word| others.contains(word)).collect();
    shared.sort_unstable();
    shared.dedup();
    let weight = |word: &String| if word.contains(|c: char| c.is_ascii_digit() || c == '/') { 4 } else { 1 };
    shared.iter().map(weight).sum()
}

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Version;

    use crate::book::{client_rules, rules};
    use crate::rule::Rule;

    fn rule(slug: &str) -> &'static Rule {
        rules().chain(client_rules()).find(|rule| rule.slug == slug).unwrap()
    }

    #[test]
    fn the_sentence_is_quoted_to_the_letter() {
        for (slug, version, quote) in [
            (
                "bad-cursor-code",
                "2025-11-25",
                Some("Invalid cursors SHOULD result in an error with code -32602 (Invalid params)."),
            ),
            // Based on the schema.
            ("tools-listed", "2025-11-25", None),
            // Only in a later revision.
            ("unsupported-version-code", "2024-11-05", None),
        ] {
            assert_eq!(rule(slug).quote(&Version::parse(version)).as_deref(), quote, "{slug}");
        }
    }

    #[test]
    fn no_quote_keeps_the_place_of_a_revision() {
        for rule in rules().chain(client_rules()) {
            for source in rule.sources {
                let quote = rule.quote(source.revisions.last()).unwrap_or_default();
                assert!(!quote.contains("REVISION") && !quote.contains(" | "), "{}: {quote}", rule.slug);
            }
        }
    }
}
