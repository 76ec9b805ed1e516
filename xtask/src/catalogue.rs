//! The adversarial cases 1 to 180 and the faults F1 to F36 of other tools, each with the tests that show it.
//!
//! The table is `crates/mcpjoin/tests/catalogue.txt`; its first lines describe the format. Called by `cargo xtask
//! requirements` and by `cargo xtask test`. Every test in the table must exist, and a line without a test must say which
//! part of the project has to add it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::requirements;

const TABLE: &str = "crates/mcpjoin/tests/catalogue.txt";
const CASES: u16 = 180;
const FAULTS: u16 = 36;
/// The last case of each group, and the letter with which the names of its tests begin.
const GROUPS: [(u16, char); 9] =
    [(24, 'a'), (53, 'b'), (67, 'c'), (88, 'd'), (100, 'e'), (128, 'f'), (145, 'g'), (165, 'h'), (180, 'i')];
/// The parts of the project that may have cases without a test; or `later: issue 9`.
const OWING: [&str; 2] = ["HTTP", "Orchestra"];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Subject {
    Case(u16),
    Fault(u16),
}

#[derive(Debug, PartialEq)]
struct Row {
    subject: Subject,
    tests: Vec<String>,
    owed: Option<String>,
    what: String,
}

impl Subject {
    /// The prefix of the names of its tests.
    fn prefix(self) -> String {
        match self {
            Self::Fault(number) => format!("f{number}_"),
            Self::Case(number) => {
                let group = GROUPS.iter().find(|(last, _)| number <= *last);
                format!("{}{number}_", group.map_or('i', |(_, letter)| *letter))
            }
        }
    }

    fn shown(self) -> String {
        match self {
            Self::Case(number) => number.to_string(),
            Self::Fault(number) => format!("F{number}"),
        }
    }
}

/// Prints the whole table, and fails if the table and the tests do not agree.
pub(crate) fn print(root: &Path) -> Result<()> {
    let (rows, tests) = (rows(root)?, requirements::names(root)?);
    for row in &rows {
        let owed = row.owed.as_ref().map(|owed| format!("owed: {owed}"));
        let shown: Vec<&str> = row.tests.iter().chain(&owed).map(String::as_str).collect();
        println!("{:<4} {}\n     {}", row.subject.shown(), row.what, shown.join("\n     "));
    }
    println!();
    judge(&rows, &tests)
}

/// Fails if the table and the tests do not agree; prints only the counts.
pub(crate) fn check(root: &Path) -> Result<()> {
    judge(&rows(root)?, &requirements::names(root)?)
}

/// Every test in the table.
pub(crate) fn tests(root: &Path) -> Result<BTreeSet<String>> {
    Ok(rows(root)?.into_iter().flat_map(|row| row.tests).collect())
}

fn rows(root: &Path) -> Result<Vec<Row>> {
    let text = std::fs::read_to_string(root.join(TABLE)).with_context(|| format!("cannot read {TABLE}"))?;
    parse(&text).context(TABLE)
}

fn judge(rows: &[Row], tests: &BTreeSet<String>) -> Result<()> {
    let gaps = gaps(rows, tests);
    let count = |wanted: fn(&Row) -> bool| rows.iter().filter(|row| wanted(row)).count();
    println!(
        "    {} cases and faults shown, {} in part, {} owed; {} gaps",
        count(|row| row.owed.is_none()),
        count(|row| row.owed.is_some() && !row.tests.is_empty()),
        count(|row| row.tests.is_empty()),
        gaps.len()
    );
    if gaps.is_empty() { Ok(()) } else { bail!("{} gaps:\n    {}", gaps.len(), gaps.join("\n    ")) }
}

fn parse(text: &str) -> Result<Vec<Row>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows =
        lines.map(|line| row(line).with_context(|| format!("`{line}`"))).collect::<Result<Vec<_>>>()?;
    let wanted = (1..=CASES).map(Subject::Case).chain((1..=FAULTS).map(Subject::Fault));
    if !wanted.clone().eq(rows.iter().map(|row| row.subject)) {
        let missing: Vec<String> = wanted
            .filter(|subject| !rows.iter().any(|row| row.subject == *subject))
            .map(Subject::shown)
            .collect();
        bail!("not 1 to {CASES} and F1 to F{FAULTS}, once each and in order; missing: {missing:?}");
    }
    Ok(rows)
}

fn row(line: &str) -> Result<Row> {
    let mut parts = line.splitn(3, '|').map(str::trim);
    let (Some(number), Some(shown), Some(what)) = (parts.next(), parts.next(), parts.next()) else {
        bail!("not `NUMBER | WHERE | WHAT`");
    };
    let subject = match number.strip_prefix('F') {
        Some(fault) => Subject::Fault(fault.parse().context("not a number F1")?),
        None => Subject::Case(number.parse().context("not a number")?),
    };
    if what.is_empty() {
        bail!("it does not say what");
    }
    let (mut tests, mut owed) = (Vec::new(), None);
    for word in shown.split(',').map(str::trim) {
        if owed.is_some() {
            bail!("what is owed stands at the end");
        }
        if is_owed(word) {
            owed = Some(word.to_owned());
        } else if !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            tests.push(word.to_owned());
        } else {
            bail!("`{word}` is no test, none of {OWING:?}, and no `later: issue 9`");
        }
    }
    Ok(Row { subject, tests, owed, what: what.to_owned() })
}

fn is_owed(word: &str) -> bool {
    let issue = word.strip_prefix("later: issue ");
    OWING.contains(&word) || issue.is_some_and(|number| number.parse::<u16>().is_ok())
}

/// The differences between the table and the tests.
fn gaps(rows: &[Row], tests: &BTreeSet<String>) -> Vec<String> {
    let mut gaps = Vec::new();
    for row in rows {
        let subject = row.subject.shown();
        for test in row.tests.iter().filter(|test| !tests.contains(*test)) {
            gaps.push(format!("{subject} names the test {test}, which does not exist"));
        }
        let prefix = row.subject.prefix();
        if row.tests.is_empty()
            && let Some(test) = tests.iter().find(|test| test.starts_with(&prefix))
        {
            gaps.push(format!("{subject} has the test {test}, and {TABLE} names none"));
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::{Row, Subject, gaps, parse, row};

    fn row_of(number: u16, tests: &[&str], owed: Option<&str>) -> Row {
        Row {
            subject: Subject::Case(number),
            tests: tests.iter().map(|test| (*test).to_owned()).collect(),
            owed: owed.map(str::to_owned),
            what: "something".to_owned(),
        }
    }

    #[test]
    fn lines_of_the_catalogue_are_read_and_wrong_ones_refused() {
        assert_eq!(row("1 | a1_x | something").unwrap(), row_of(1, &["a1_x"], None));
        assert_eq!(
            row("7|a7_x, a7_y, later: issue 5|something").unwrap(),
            row_of(7, &["a7_x", "a7_y"], Some("later: issue 5"))
        );
        assert_eq!(row("101 | HTTP | something").unwrap(), row_of(101, &[], Some("HTTP")));
        assert_eq!(row("F3 | f3_x | something").unwrap().subject, Subject::Fault(3));
        for wrong in [
            "1 | a1_x",
            "1 | a1_x |",
            "one | a1_x | something",
            "1 | | something",
            "1 | HTTP, a1_x | something",
            "1 | later: soon | something",
            "1 | Gopher! | something",
        ] {
            assert!(row(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_catalogue_is_complete_and_in_order() {
        let cases: String = (1..=180).map(|number| format!("{number} | HTTP | something\n")).collect();
        let faults: String = (1..=36).map(|number| format!("F{number} | HTTP | something\n")).collect();
        assert_eq!(parse(&format!("# a comment\n\n{cases}{faults}")).unwrap().len(), 216);
        assert!(parse(&cases).is_err());
        assert!(parse(&format!("{faults}{cases}")).is_err());
        assert!(parse(&(cases.replace("\n40 |", "\n41 |") + &faults)).is_err());
    }

    #[test]
    fn the_catalogue_and_the_tests_must_agree() {
        let tests = ["a1_one", "f101_slow", "f1_other"].map(str::to_owned).into();
        assert!(gaps(&[row_of(1, &["a1_one"], None)], &tests).is_empty());
        assert!(gaps(&[row_of(100, &[], Some("HTTP"))], &tests).is_empty());
        assert_eq!(gaps(&[row_of(2, &["a2_lost"], Some("HTTP"))], &tests).len(), 1, "it does not exist");
        assert_eq!(gaps(&[row_of(101, &[], Some("HTTP"))], &tests).len(), 1, "it has one");
    }
}
