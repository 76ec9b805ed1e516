//! Tests that the list of the specification's normative sentences agrees with the book of rules: no sentence without a
//! rule or a reason, no rule without a sentence or another source.

mod list;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use list::{Fate, Line, REVISIONS};
use mcpjoin_proto::Version;
use mcpjoin_rules::{Level, Rule, client_rules, rules};

const BEYOND: &str = "beyond.txt";

/// The files, except the file of rules without a sentence.
fn areas() -> BTreeMap<String, Vec<Line>> {
    let mut areas = BTreeMap::new();
    for file in std::fs::read_dir(folder()).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if name != BEYOND {
            let text = std::fs::read_to_string(file.path()).unwrap();
            let lines = list::parse(&text).unwrap_or_else(|error| panic!("{name}, {error}"));
            areas.insert(name.trim_end_matches(".txt").to_owned(), lines);
        }
    }
    assert!(!areas.is_empty());
    areas
}

/// Every rule.
fn book() -> impl Iterator<Item = &'static Rule> {
    rules().chain(client_rules())
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sentences")
}

fn slugs(lines: &[Line], of: impl Fn(&Fate) -> Option<&Vec<String>>) -> BTreeSet<&str> {
    lines.iter().flat_map(|line| line.fates.iter().filter_map(&of).flatten()).map(String::as_str).collect()
}

#[test]
fn the_book_and_the_list_of_sentences_agree() {
    let areas = areas();
    let lines: Vec<Line> = areas.values().flatten().cloned().collect();
    let mut wrong = Vec::new();
    let mut digests = BTreeSet::new();
    for (area, lines) in &areas {
        for line in lines {
            if !digests.insert((area, &line.digest)) {
                wrong.push(format!("{area}: {} stands twice", line.digest));
            }
            if line.fates.contains(&Fate::Unread) {
                wrong.push(format!("{area}: nobody has read {}", line.digest));
            }
        }
    }
    let book: BTreeSet<&str> = book().map(|rule| rule.slug).collect();
    let named = slugs(&lines, |fate| if let Fate::Rule(slugs) = fate { Some(slugs) } else { None });
    wrong.extend(named.difference(&book).map(|slug| format!("{slug} is named and no rule")));
    let owed = slugs(&lines, |fate| if let Fate::Owed(slugs) = fate { Some(slugs) } else { None });
    let paid = owed.intersection(&book);
    wrong
        .extend(paid.map(|slug| format!("{slug} is a rule, and still owed: cargo xtask sentences --settle")));

    let beyond = list::parse_beyond(&std::fs::read_to_string(folder().join(BEYOND)).unwrap()).unwrap();
    let unknown = beyond.iter().filter(|rule| !book.contains(&*rule.slug));
    wrong.extend(unknown.map(|rule| format!("{} has a ground and is no rule", rule.slug)));
    for rule in self::book() {
        for source in rule.sources.iter().filter(|source| source.level != Level::Advice) {
            for (place, _) in REVISIONS.iter().enumerate().filter(|(_, name)| has(source, name)) {
                let says = |line: &&Line| {
                    let names = |fate: &Fate| matches!(fate, Fate::Rule(slugs) if slugs.iter().any(|slug| slug == rule.slug));
                    line.revisions.contains(&place) && line.fates.iter().any(names)
                };
                let grounded =
                    |other: &list::Beyond| other.slug == rule.slug && other.revisions.contains(&place);
                if beyond.iter().any(grounded) {
                    continue;
                }
                let sentences: Vec<&Line> = lines.iter().filter(says).collect();
                let level = source.level.as_str();
                if sentences.is_empty() {
                    wrong.push(format!("{}: no sentence of {} says it", rule.slug, REVISIONS[place]));
                } else if !sentences.iter().any(|line| line.level.split(' ').any(|word| word == level)) {
                    wrong.push(format!("{}: no sentence of {} says {level}", rule.slug, REVISIONS[place]));
                }
            }
        }
    }
    wrong.extend(lines.iter().flat_map(unchecked));
    print(&areas);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Errors for the revisions of a sentence in which none of its rules applies, if rules are its only fate.
fn unchecked(line: &Line) -> Vec<String> {
    let [Fate::Rule(slugs)] = &line.fates[..] else { return Vec::new() };
    let is_checked = |place: &usize| {
        let named = book().filter(|rule| slugs.iter().any(|slug| slug == rule.slug));
        let mut sources = named.flat_map(|rule| rule.sources);
        sources.any(|source| has(source, REVISIONS[*place]) && source.level != Level::Advice)
    };
    let places = line.revisions.iter().filter(|place| !is_checked(place));
    places
        .map(|place| format!("{} is checked by none of its rules in {}", line.digest, REVISIONS[*place]))
        .collect()
}

fn has(source: &mcpjoin_rules::Source, revision: &str) -> bool {
    source.revisions.contains(&Version::parse(revision))
}

/// Prints the counts, for information only.
#[allow(clippy::print_stdout, reason = "shown with --no-capture")]
fn print(areas: &BTreeMap<String, Vec<Line>>) {
    println!("{}", list::counts(areas));
}

#[test]
fn a_wrong_line_of_the_list_is_refused() {
    let good = "## basic#requests\n0123abcd | 2024-11-05..2025-06-18 2026-07-28 | MUST | both | rule a b; unseen | It is so.\n";
    let [line] = &list::parse(good).unwrap()[..] else { panic!("one line") };
    assert_eq!(line.revisions, [0, 1, 2, 4]);
    assert_eq!(line.fates, [Fate::Rule(vec!["a".into(), "b".into()]), Fate::Reason("unseen")]);
    for (from, to) in [
        ("## basic#requests\n", ""),
        ("0123abcd", "0123abcx"),
        ("2026-07-28", "2026-07-29"),
        ("2025-06-18 2026-07-28", "2025-06-18 2025-03-26"),
        ("MUST", "MAY"),
        ("both", "all"),
        ("rule a b", "rule"),
        ("unseen", "unclear"),
        ("unseen", "unseen a"),
        ("It is so.", "It is so"),
    ] {
        assert!(list::parse(&good.replace(from, to)).is_err(), "{from} -> {to}");
    }
    assert!(list::parse_beyond("a | 2024-11-05 | schema | It is so.").is_ok());
    assert!(list::parse_beyond("a | 2024-11-05 | hearsay | It is so.").is_err());
}
