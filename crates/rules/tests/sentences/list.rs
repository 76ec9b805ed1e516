//! Parses the list of the specification's normative sentences, `crates/rules/sentences/*.txt`.
//!
//! Used by the test beside it, and by the command `cargo xtask sentences`, which compares the list with the specification
//! itself. The format of the files:
//!
//! ```text
//! ## basic#requests                                  the page and the heading, in the newest revision that has it
//! DIGEST | 2024-11-05..2025-11-25 | MUST | both | rule id-type; unseen | the requirement, in our words
//! ```
//!
//! The digest is the digest of the sentence as the command reads it. The sentences that have a rule are in `src/quotes.txt`. The fate of
//! a sentence is a rule (`rule SLUG SLUG`), a rule that is not written yet (`owed SLUG`), or one of the reasons for having
//! no rule. A sentence that binds two parties or contains two requirements has several fates, separated by `;`.

use std::collections::BTreeMap;

/// The revisions, oldest first.
pub(crate) const REVISIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The bound parties: the programs at both ends, and others beside them.
const BOUND: [&str; 4] = ["client", "server", "both", "others"];

/// The reasons why a sentence has no rule.
pub(crate) const REASONS: [(&str, &str); 9] = [
    ("unseen", "what a program does inside: nothing crosses the wire by which it could be told"),
    ("chance", "it shows only in a moment that cannot be brought about from outside"),
    ("user", "about a person, or what a person is shown"),
    ("intent", "depends on what the author of a server meant, or on what a text means"),
    ("host", "what the application, or its model, makes of what has come"),
    (
        "token",
        "shows with a token that nobody gives us: one of another audience, of somebody else, of fewer scopes, or one that has expired",
    ),
    ("client-oauth", "what a client does to get a token: validate --client plays no authorization server"),
    ("umbrella", "says no more than other sentences together, or explains one"),
    (
        "others",
        "binds those who write extensions, transports or documents, an authorization server, or a program in between",
    ),
];

/// The sources of rules without a sentence with a key word.
const GROUNDS: [&str; 4] = ["schema", "json-rpc", "rfc", "text"];

/// One sentence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    /// The page and heading in the newest revision that has the sentence.
    pub(crate) place: String,
    pub(crate) digest: String,
    /// Indices into [`REVISIONS`], in ascending order.
    pub(crate) revisions: Vec<usize>,
    /// `MUST`, `SHOULD` or `MUST SHOULD`.
    pub(crate) level: String,
    pub(crate) binds: String,
    pub(crate) fates: Vec<Fate>,
    pub(crate) wording: String,
}

/// How the rules cover a sentence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fate {
    Rule(Vec<String>),
    Owed(Vec<String>),
    Reason(&'static str),
    /// The fate that the command writes for a new sentence.
    Unread,
}

/// A rule of the book whose source is not a sentence with a key word.
#[derive(Clone, Debug, PartialEq)]
#[allow(dead_code, reason = "the chore does not look at them")]
pub(crate) struct Beyond {
    pub(crate) slug: String,
    pub(crate) revisions: Vec<usize>,
}

/// Parses the lines of one file.
pub(crate) fn parse(text: &str) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    let mut place = None;
    for (number, line) in
        text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with("# "))
    {
        if let Some(heading) = line.strip_prefix("## ") {
            place = Some(heading.to_owned());
            continue;
        }
        let read = place
            .clone()
            .ok_or_else(|| "no heading before it".to_owned())
            .and_then(|place| self::line(line, place));
        lines.push(read.map_err(|error| format!("line {}: {error}", number + 1))?);
    }
    Ok(lines)
}

fn line(line: &str, place: String) -> Result<Line, String> {
    let fields: Vec<&str> = line.splitn(6, " | ").collect();
    let [digest, revisions, level, binds, fates, wording] = fields[..] else {
        return Err("not `DIGEST | REVISIONS | LEVEL | BOUND | WHAT BECOMES OF IT | WORDING`".to_owned());
    };
    if digest.len() != 8 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("no digest: {digest}"));
    }
    if !["MUST", "SHOULD", "MUST SHOULD"].contains(&level) {
        return Err(format!("no level: {level}"));
    }
    let fates: Vec<Fate> = fates.split("; ").map(fate).collect::<Result<_, _>>()?;
    let unread = fates.contains(&Fate::Unread);
    if !unread && !BOUND.contains(&binds) {
        return Err(format!("binds one of {BOUND:?}, not {binds}"));
    }
    if !unread && !wording.ends_with('.') {
        return Err(format!("no sentence: {wording}"));
    }
    let revisions = self::revisions(revisions)?;
    let [digest, level, binds, wording] = [digest, level, binds, wording].map(str::to_owned);
    Ok(Line { place, digest, revisions, level, binds, fates, wording })
}

fn fate(text: &str) -> Result<Fate, String> {
    let (word, slugs) = text.split_once(' ').unwrap_or((text, ""));
    let slugs: Vec<String> = slugs.split_whitespace().map(str::to_owned).collect();
    match word {
        "rule" if !slugs.is_empty() => Ok(Fate::Rule(slugs)),
        "owed" if !slugs.is_empty() => Ok(Fate::Owed(slugs)),
        "unread" if slugs.is_empty() => Ok(Fate::Unread),
        _ => {
            let reason = REASONS.iter().find(|(reason, _)| *reason == word && slugs.is_empty());
            reason
                .map(|(reason, _)| Fate::Reason(reason))
                .ok_or_else(|| format!("no rule and no reason: {text}"))
        }
    }
}

/// Parses `2024-11-05`, `2024-11-05..2025-06-18`, or several of these, separated by spaces.
fn revisions(text: &str) -> Result<Vec<usize>, String> {
    let place = |name: &str| {
        REVISIONS.iter().position(|known| *known == name).ok_or_else(|| format!("no revision: {name}"))
    };
    let mut found = Vec::new();
    for range in text.split(' ') {
        let (first, last) = range.split_once("..").unwrap_or((range, range));
        found.extend(place(first)?..=place(last)?);
    }
    if found.is_empty() || !found.is_sorted_by(|one, next| one < next) {
        return Err(format!("no revisions in their order: {text}"));
    }
    Ok(found)
}

/// The number of sentences in each area, by fate: a sentence with several fates counts in each.
pub(crate) fn counts(areas: &BTreeMap<String, Vec<Line>>) -> String {
    let fates = ["rule", "owed"].into_iter().chain(REASONS.iter().map(|(reason, _)| *reason));
    let fates: Vec<&str> = fates.collect();
    let heads: String = fates.iter().map(|fate| format!("{fate:>14}")).collect();
    let mut out = format!("{:<14}{:>10}{heads}", "", "sentences");
    let whole: Vec<Line> = areas.values().flatten().cloned().collect();
    for (area, lines) in areas.iter().map(|(area, lines)| (area.as_str(), lines)).chain([("all", &whole)]) {
        let count = |wanted: &str| {
            let is = |fate: &Fate| match fate {
                Fate::Rule(_) => wanted == "rule",
                Fate::Owed(_) => wanted == "owed",
                Fate::Reason(reason) => *reason == wanted,
                Fate::Unread => false,
            };
            lines.iter().filter(|line| line.fates.iter().any(is)).count()
        };
        let counted: String = fates.iter().map(|fate| format!("{:>14}", count(fate))).collect();
        out += &format!("\n{area:<14}{:>10}{counted}", lines.len());
    }
    out
}

/// Parses the rules of `beyond.txt`: `SLUG | REVISIONS | GROUND | why`.
#[allow(dead_code, reason = "the chore does not look at them")]
pub(crate) fn parse_beyond(text: &str) -> Result<Vec<Beyond>, String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let read = |line: &str| {
        let [slug, revisions, ground, why] = line.splitn(4, " | ").collect::<Vec<_>>()[..] else {
            return Err(format!("not `SLUG | REVISIONS | GROUND | WHY`: {line}"));
        };
        if !GROUNDS.contains(&ground) || !why.ends_with('.') {
            return Err(format!("the ground is one of {GROUNDS:?}, and why is a sentence: {line}"));
        }
        Ok(Beyond { slug: slug.to_owned(), revisions: self::revisions(revisions)? })
    };
    lines.map(read).collect()
}
