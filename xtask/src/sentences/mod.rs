//! `cargo xtask sentences`: compares the list of normative sentences (`crates/rules/sentences`) with the specification.
//!
//! Run by contributors with a checkout of <https://github.com/modelcontextprotocol/modelcontextprotocol>: the
//! specification is not part of this repository. Pages that only describe changes are ignored.

#[path = "../../../crates/rules/tests/sentences/list.rs"]
mod list;
mod markdown;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use list::{Fate, Line, REVISIONS};
use sha2::{Digest as _, Sha256};

use crate::tree;

const FOLDER: &str = "crates/rules/sentences";
const RULES: &str = "crates/rules/src";
/// The sentences that have a rule, to the letter.
const QUOTES: &str = "crates/rules/src/quotes.txt";
/// The file of the rules that are not based on such a sentence.
const BEYOND: &str = "beyond.txt";
/// The number of bytes of the digest that identify a sentence.
const DIGEST_BYTES: usize = 4;

/// A sentence of the specification.
#[derive(Clone, Debug, PartialEq)]
struct Sentence {
    /// Its place in the newest revision that has it.
    place: String,
    revisions: Vec<usize>,
    text: String,
}

/// The sentences of each area, by their digests, in the order of the newest revision.
type Areas = BTreeMap<&'static str, Vec<(String, Sentence)>>;

/// Prints how many sentences have a rule, and why the others have none.
pub(crate) fn counts(root: &Path) -> Result<()> {
    println!("{}\n", list::counts(&kept(root)?));
    for (reason, meaning) in list::REASONS {
        println!("{reason:<14}{meaning}");
    }
    Ok(())
}

/// Fails on any difference between the list and a checkout of the specification.
pub(crate) fn check(root: &Path, specification: &Path) -> Result<()> {
    let (areas, kept) = (areas(specification)?, kept(root)?);
    let differences = differences(&areas, &kept);
    let count: usize = areas.values().map(Vec::len).sum();
    println!("{count} sentences, {} differences", differences.len());
    if differences.is_empty() {
        Ok(())
    } else {
        bail!("the list is not up to date:\n    {}", differences.join("\n    "))
    }
}

/// Rewrites the list: existing entries stay; new sentences become `unread` and are printed in full.
pub(crate) fn write(root: &Path, specification: &Path) -> Result<()> {
    let (areas, kept) = (areas(specification)?, kept(root)?);
    for (area, sentences) in &areas {
        let mut lines = Vec::new();
        for (digest, sentence) in sentences {
            let old = kept.get(*area).and_then(|lines| lines.iter().find(|line| line.digest == *digest));
            if old.is_none() {
                println!("{area} {digest} {} {}", sentence.place, sentence.text);
            }
            lines.push(Line {
                place: sentence.place.clone(),
                digest: digest.clone(),
                revisions: sentence.revisions.clone(),
                level: markdown::level(&sentence.text).to_owned(),
                binds: old.map_or_else(|| "?".to_owned(), |old| old.binds.clone()),
                fates: old.map_or_else(|| vec![Fate::Unread], |old| old.fates.clone()),
                wording: old.map_or_else(|| "?".to_owned(), |old| old.wording.clone()),
            });
        }
        store(root, area, &lines)?;
    }
    Ok(())
}

/// Writes the sentences that have a rule, for the reports of `validate`, which quote them.
pub(crate) fn quotes(root: &Path, specification: &Path) -> Result<()> {
    let (areas, kept) = (areas(specification)?, kept(root)?);
    let path = root.join(QUOTES);
    std::fs::write(&path, quoted(&areas, &kept)).with_context(|| format!("cannot write {}", path.display()))
}

/// A line for each sentence with a rule: its place, its revisions, the rules and the sentence.
fn quoted(areas: &Areas, kept: &BTreeMap<String, Vec<Line>>) -> String {
    let mut text = String::new();
    for (area, sentences) in areas {
        for (digest, sentence) in sentences {
            let line = kept.get(*area).and_then(|lines| lines.iter().find(|line| line.digest == *digest));
            let rules: Vec<&str> = line
                .iter()
                .flat_map(|line| &line.fates)
                .filter_map(|fate| if let Fate::Rule(slugs) = fate { Some(slugs) } else { None })
                .flatten()
                .map(String::as_str)
                .collect();
            if !rules.is_empty() {
                let mut revisions = sentence.revisions.clone();
                revisions.sort_unstable();
                let revisions: Vec<&str> = revisions.iter().map(|revision| REVISIONS[*revision]).collect();
                let Sentence { place, text: words, .. } = sentence;
                // A row of a table has its cells in the sentence.
                let words = words.replace(" | ", ": ");
                let _ = writeln!(text, "{place} | {} | {} | {words}", revisions.join(" "), rules.join(" "));
            }
        }
    }
    text
}

/// Replaces planned rules by rules, where the crate `rules` has them now.
pub(crate) fn settle(root: &Path) -> Result<()> {
    let mut book = String::new();
    let mut folders = vec![root.join(RULES)];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                book += &std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read {}", path.display()))?;
            }
        }
    }
    let has = |slug: &String| book.contains(&format!("\n    \"{slug}\", "));
    for (area, mut lines) in kept(root)? {
        for line in &mut lines {
            line.fates = settled(std::mem::take(&mut line.fates), has);
        }
        store(root, &area, &lines)?;
    }
    Ok(())
}

/// Sorts the entries: rules first, then planned rules, then reasons.
fn settled(fates: Vec<Fate>, has: impl Fn(&String) -> bool) -> Vec<Fate> {
    let (mut rules, mut owed, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for fate in fates {
        match fate {
            Fate::Rule(slugs) => rules.extend(slugs),
            Fate::Owed(slugs) => {
                let (now, later): (Vec<_>, Vec<_>) = slugs.into_iter().partition(&has);
                rules.extend(now);
                owed.extend(later);
            }
            fate => rest.push(fate),
        }
    }
    let some = |slugs: Vec<String>, fate: fn(Vec<String>) -> Fate| (!slugs.is_empty()).then(|| fate(slugs));
    some(rules, Fate::Rule).into_iter().chain(some(owed, Fate::Owed)).chain(rest).collect()
}

/// The normative sentences of all revisions.
fn areas(specification: &Path) -> Result<Areas> {
    let mut areas = Areas::new();
    // The newest first: the list takes the place and the order from it.
    for (revision, name) in REVISIONS.iter().enumerate().rev() {
        let folder = specification.join("docs/specification").join(name);
        let mut pages = Vec::new();
        tree::collect(&folder, "mdx", &mut pages)?;
        pages.sort();
        for path in pages {
            let page = path.strip_prefix(&folder)?.with_extension("");
            let page = page.to_string_lossy().replace('\\', "/");
            let page = page.strip_suffix("index").map_or(page.as_str(), |page| page.trim_end_matches('/'));
            // The changelog only describes changes, and the schema page is generated from the schema's comments, which are
            // read directly.
            if !["changelog", "schema"].contains(&page) {
                add(&mut areas, revision, page, markdown::of_page(&read(&path)?));
            }
        }
        let schema = specification.join("schema").join(name).join("schema.ts");
        add(&mut areas, revision, "schema", markdown::of_schema(&read(&schema)?));
    }
    for (_, sentence) in areas.values_mut().flatten() {
        sentence.revisions.reverse();
    }
    Ok(areas)
}

fn add(areas: &mut Areas, revision: usize, page: &str, found: Vec<markdown::Normative>) {
    let sentences = areas.entry(area(page)).or_default();
    for one in found {
        // A sentence that names its own revision counts as the same sentence in each revision.
        let text = one.text.replace(REVISIONS[revision], "REVISION");
        let digest = digest(&text);
        match sentences.iter_mut().find(|(known, _)| *known == digest) {
            Some((_, known)) if known.revisions.contains(&revision) => {}
            Some((_, known)) => known.revisions.push(revision),
            None => {
                let place = format!("{page}#{}", one.anchor);
                sentences.push((digest, Sentence { place, revisions: vec![revision], text }));
            }
        }
    }
}

/// The file of a page's sentences: the same in all revisions, although pages have moved.
fn area(page: &str) -> &'static str {
    match page {
        "schema" => "schema",
        "basic" | "basic/messages" => "base",
        "basic/lifecycle" | "basic/versioning" | "server/discover" => "lifecycle",
        "basic/utilities/tasks" => "tasks",
        page => match page.split('/').collect::<Vec<_>>()[..] {
            ["basic", "authorization", ..] => "authorization",
            ["basic", "transports", ..] => "transports",
            ["basic", "utilities" | "patterns", ..] => "patterns",
            ["server", "utilities", ..] => "utilities",
            ["server", ..] => "server",
            ["client", ..] => "client",
            _ => "overview",
        },
    }
}

fn digest(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    digest[..DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads the list from its files.
fn kept(root: &Path) -> Result<BTreeMap<String, Vec<Line>>> {
    let folder = root.join(FOLDER);
    let mut kept = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name != BEYOND {
            let lines = list::parse(&read(&path)?).map_err(|error| anyhow::anyhow!("{name}, {error}"))?;
            kept.insert(name.trim_end_matches(".txt").to_owned(), lines);
        }
    }
    Ok(kept)
}

fn differences(areas: &Areas, kept: &BTreeMap<String, Vec<Line>>) -> Vec<String> {
    let mut differences = Vec::new();
    for (area, sentences) in areas {
        let lines = kept.get(*area).map_or(&[][..], Vec::as_slice);
        for (digest, sentence) in sentences {
            match lines.iter().find(|line| line.digest == *digest) {
                None => {
                    differences.push(format!("{area}: new: {digest} {} {}", sentence.place, sentence.text));
                }
                Some(line) => {
                    let level = markdown::level(&sentence.text);
                    let same = (&*line.place, &line.revisions, &*line.level)
                        == (&*sentence.place, &sentence.revisions, level);
                    if !same {
                        let now = span(&sentence.revisions);
                        differences
                            .push(format!("{area}: {digest} is {level} in {now} at {}", sentence.place));
                    }
                }
            }
        }
    }
    for (area, lines) in kept {
        let sentences = areas.get(area.as_str()).map_or(&[][..], Vec::as_slice);
        let gone = lines.iter().filter(|line| !sentences.iter().any(|(digest, _)| *digest == line.digest));
        differences.extend(gone.map(|line| format!("{area}: gone: {} {}", line.digest, line.wording)));
    }
    differences
}

fn store(root: &Path, area: &str, lines: &[Line]) -> Result<()> {
    let mut text =
        format!("# The normative sentences of the area {area}: see crates/rules/tests/sentences/list.rs\n");
    let mut place = "";
    for line in lines {
        if line.place != place {
            place = &line.place;
            write!(text, "\n## {place}\n")?;
        }
        let fates: Vec<String> = line.fates.iter().map(fate).collect();
        let revisions = span(&line.revisions);
        let [level, binds, fates, wording] = [&line.level, &line.binds, &fates.join("; "), &line.wording];
        writeln!(text, "{} | {revisions} | {level} | {binds} | {fates} | {wording}", line.digest)?;
    }
    let path = root.join(FOLDER).join(format!("{area}.txt"));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn fate(fate: &Fate) -> String {
    match fate {
        Fate::Rule(slugs) => format!("rule {}", slugs.join(" ")),
        Fate::Owed(slugs) => format!("owed {}", slugs.join(" ")),
        Fate::Reason(reason) => (*reason).to_owned(),
        Fate::Unread => "unread".to_owned(),
    }
}

/// Revisions in the format of the list.
fn span(revisions: &[usize]) -> String {
    let ranges = revisions.chunk_by(|one, next| one + 1 == *next).map(|range| match range {
        [first, .., last] => format!("{}..{}", REVISIONS[*first], REVISIONS[*last]),
        _ => range.iter().map(|only| REVISIONS[*only]).collect(),
    });
    ranges.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Vec<markdown::Normative> {
        vec![markdown::Normative { anchor: "a".to_owned(), text: text.to_owned() }]
    }

    #[test]
    fn a_sentence_is_one_over_revisions_and_moved_pages() {
        let mut areas = Areas::new();
        add(&mut areas, 4, "basic/patterns/progress", one("In 2026-07-28 it MUST be."));
        add(&mut areas, 3, "basic/utilities/progress", one("In 2025-11-25 it MUST be."));
        let [(digest, sentence)] = &areas["patterns"][..] else { panic!("{areas:?}") };
        assert_eq!(sentence.revisions, [4, 3]);
        assert_eq!(sentence.place, "basic/patterns/progress#a");
        assert_eq!(digest.len(), 8);
    }

    #[test]
    fn every_difference_is_reported() {
        let mut areas = Areas::new();
        add(&mut areas, 4, "basic", one("It MUST be."));
        let digest = areas["base"][0].0.clone();
        let line = |digest: &str, revision: &str, level: &str| {
            list::parse(&format!("## basic#a\n{digest} | {revision} | {level} | both | unseen | So.\n"))
                .unwrap()
        };
        let told =
            |lines: Vec<Line>| differences(&areas, &BTreeMap::from([("base".to_owned(), lines)])).len();
        assert_eq!(told(line(&digest, "2026-07-28", "MUST")), 0);
        assert_eq!(told(line(&digest, "2025-11-25", "MUST")), 1);
        assert_eq!(told(line(&digest, "2026-07-28", "SHOULD")), 1);
        // One sentence was removed, and one is new.
        assert_eq!(told(line("00000000", "2026-07-28", "MUST")), 2);
    }

    #[test]
    fn what_has_a_rule_is_quoted_with_its_rules_and_revisions() {
        let mut areas = Areas::new();
        add(&mut areas, 4, "basic", one("It MUST be | so."));
        add(&mut areas, 4, "basic", one("That MUST be."));
        let kept = areas["base"].iter().zip(["rule x y; unseen", "unseen"]).map(|((digest, _), fates)| {
            format!("## basic#a\n{digest} | 2026-07-28 | MUST | both | {fates} | So.\n")
        });
        let kept = list::parse(&kept.collect::<String>()).unwrap();
        let kept = BTreeMap::from([("base".to_owned(), kept)]);
        assert_eq!(quoted(&areas, &kept), "basic#a | 2026-07-28 | x y | It MUST be: so.\n");
    }

    #[test]
    fn what_the_book_has_is_no_longer_owed() {
        let owed = |slugs: &[&str]| Fate::Owed(slugs.iter().map(|slug| (*slug).to_owned()).collect());
        let fates = vec![Fate::Rule(vec!["a".to_owned()]), owed(&["b", "c"]), Fate::Reason("unseen")];
        let fates: Vec<String> = settled(fates, |slug| slug == "b").iter().map(fate).collect();
        assert_eq!(fates, ["rule a b", "owed c", "unseen"]);
    }

    #[test]
    fn revisions_are_written_as_they_are_read() {
        assert_eq!(span(&[0, 1, 2, 4]), "2024-11-05..2025-06-18 2026-07-28");
        assert_eq!(span(&[3]), "2025-11-25");
    }
}
