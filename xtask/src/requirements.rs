//! The requirements R1 to R86 of the project's source documents, each with the test that shows it.
//!
//! The table is `crates/mcpjoin/tests/requirements/table.txt`. A requirement is shown by a test function whose name
//! begins with its number, `r14_...` or `r14_r22_...`, in the sources or tests of any crate. The table and the tests must
//! agree in both directions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::tree;

const TABLE: &str = "crates/mcpjoin/tests/requirements/table.txt";
const LAST: u16 = 86;
/// The conflicts C1 to C19 and the notes S1 to S22 that can override a requirement.
const CONFLICTS: u16 = 19;
const SPECIFICATION: u16 = 22;
/// The parts of the project that may have requirements without a test.
const OWING: [&str; 4] = ["stdio", "HTTP", "Orchestra", "CLI"];

#[derive(Debug, PartialEq)]
enum Status {
    Shown,
    /// Overridden by a conflict (`C3`) or a note on today's specification (`S16`). It may have tests of the chosen reading.
    Overridden(String),
    NotYet(String),
}

#[derive(Debug, PartialEq)]
struct Row {
    number: u16,
    status: Status,
    sentence: String,
}

/// A test that shows requirements: their numbers, its name, and its file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    numbers: Vec<u16>,
    pub(crate) name: String,
    pub(crate) file: PathBuf,
}

/// Prints the whole table, and fails if the table and the tests do not agree.
pub(crate) fn print(root: &Path) -> Result<()> {
    let (rows, tests) = (rows(root)?, tests(root)?);
    for row in &rows {
        println!("{}", line(row, &tests));
    }
    println!();
    judge(&rows, &tests)
}

/// Fails if the table and the tests do not agree; prints only the counts.
pub(crate) fn check(root: &Path) -> Result<()> {
    judge(&rows(root)?, &tests(root)?)
}

fn rows(root: &Path) -> Result<Vec<Row>> {
    let text = std::fs::read_to_string(root.join(TABLE)).with_context(|| format!("cannot read {TABLE}"))?;
    parse(&text).context(TABLE)
}

fn judge(rows: &[Row], tests: &[Shown]) -> Result<()> {
    let gaps = gaps(rows, tests);
    let count = |wanted: fn(&Status) -> bool| rows.iter().filter(|row| wanted(&row.status)).count();
    println!(
        "    {} to be shown, {} overridden, {} not yet; {} gaps",
        count(|status| *status == Status::Shown),
        count(|status| matches!(status, Status::Overridden(_))),
        count(|status| matches!(status, Status::NotYet(_))),
        gaps.len()
    );
    if gaps.is_empty() { Ok(()) } else { bail!("{} gaps:\n    {}", gaps.len(), gaps.join("\n    ")) }
}

/// Every test in the sources that is named after a requirement.
pub(crate) fn tests(root: &Path) -> Result<Vec<Shown>> {
    let mut found = Vec::new();
    for (file, source) in sources(root)? {
        found.extend(named(&source).into_iter().map(|(numbers, name)| Shown {
            numbers,
            name,
            file: file.clone(),
        }));
    }
    Ok(found)
}

/// The names of all tests in the sources of the crates and of `xtask`.
pub(crate) fn names(root: &Path) -> Result<BTreeSet<String>> {
    let own = root.join("xtask/src");
    let mut files = Vec::new();
    tree::collect(&own, "rs", &mut files)?;
    let own = files
        .iter()
        .map(|path| std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display())));
    let sources = sources(root)?.into_iter().map(|(_, source)| Ok(source));
    let mut names = BTreeSet::new();
    for source in sources.chain(own) {
        let source = source?;
        names.extend(functions(&source));
        names.extend(listed(&source));
    }
    Ok(names)
}

/// The sources and tests of the crates, each with its path relative to the project's folder.
fn sources(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    let crates = root.join("crates");
    for folder in std::fs::read_dir(&crates).with_context(|| format!("cannot list {}", crates.display()))? {
        let folder = folder?.file_name();
        for part in ["src", "tests"] {
            let part = crates.join(&folder).join(part);
            if part.is_dir() {
                tree::collect(&part, "rs", &mut files)?;
            }
        }
    }
    tree::collect(&root.join("interop/tests"), "rs", &mut files)?;
    files.sort();
    let read = |path: PathBuf| {
        let source =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok((path.strip_prefix(root).unwrap_or(&path).to_path_buf(), source))
    };
    files.into_iter().map(read).collect()
}

/// The test functions of a source file that begin with requirement numbers.
fn named(source: &str) -> Vec<(Vec<u16>, String)> {
    let numbered = functions(source).into_iter().map(|name| (numbers(&name), name));
    numbered.filter(|(numbers, _)| !numbers.is_empty()).collect()
}

/// The names in a list of tests, with `("d85_...", function),` on a line of its own. A test program with its own runner
/// has such a list.
fn listed(source: &str) -> Vec<String> {
    let entry = |line: &str| Some(line.trim().strip_prefix("(\"")?.split_once("\", ")?.0.to_owned());
    source.lines().filter_map(entry).collect()
}

/// The names of the test functions of a source file.
fn functions(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    // Whether the previous line is a test attribute.
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[") {
            let path = line.trim_start_matches("#[");
            let path = path.split([']', '(']).next().unwrap_or_default().trim();
            is_test |= path == "test" || path.ends_with("::test");
        }
        let function = line.split_once("fn ").filter(|(before, _)| {
            before.split_whitespace().all(|word| ["pub", "async", "const", "unsafe"].contains(&word))
        });
        if let Some((_, rest)) = function {
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if is_test {
                found.push(name);
            }
        }
        // Only attributes and comments may be between a test's attribute and its name.
        if !line.is_empty() && !line.starts_with("#[") && !line.starts_with("//") {
            is_test = false;
        }
    }
    found
}

/// The numbers in a name: `r14_r22_late_reply` has 14 and 22.
fn numbers(name: &str) -> Vec<u16> {
    let words: Vec<&str> = name.split('_').collect();
    let number = |word: &&str| word.strip_prefix('r').and_then(|digits| digits.parse::<u16>().ok());
    let numbers: Vec<u16> = words.iter().map_while(number).collect();
    // A name that consists only of numbers describes nothing, so it does not count.
    if numbers.len() < words.len() { numbers } else { Vec::new() }
}

fn parse(text: &str) -> Result<Vec<Row>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows =
        lines.map(|line| row(line).with_context(|| format!("`{line}`"))).collect::<Result<Vec<_>>>()?;
    let numbers: Vec<u16> = rows.iter().map(|row| row.number).collect();
    if numbers != (1..=LAST).collect::<Vec<_>>() {
        let listed: BTreeSet<u16> = numbers.iter().copied().collect();
        let missing: Vec<u16> = (1..=LAST).filter(|number| !listed.contains(number)).collect();
        bail!("not R1 to R{LAST}, once each and in order; missing: {missing:?}");
    }
    Ok(rows)
}

fn row(line: &str) -> Result<Row> {
    let mut parts = line.splitn(3, '|').map(str::trim);
    let (Some(number), Some(status), Some(sentence)) = (parts.next(), parts.next(), parts.next()) else {
        bail!("not `NUMBER | STATUS | SENTENCE`");
    };
    let number =
        number.strip_prefix('R').and_then(|digits| digits.parse().ok()).context("not a number R1")?;
    if sentence.is_empty() {
        bail!("no sentence");
    }
    Ok(Row { number, status: self::status(status)?, sentence: sentence.to_owned() })
}

fn status(text: &str) -> Result<Status> {
    if text == "shown" {
        return Ok(Status::Shown);
    }
    if let Some(owing) = text.strip_prefix("not yet: ") {
        if OWING.contains(&owing) {
            return Ok(Status::NotYet(owing.to_owned()));
        }
        bail!("`not yet` is followed by one of {OWING:?}");
    }
    if let Some(by) = text.strip_prefix("overridden by ") {
        let within = |letter, last| {
            let number = by.strip_prefix(letter).and_then(|digits: &str| digits.parse::<u16>().ok());
            number.is_some_and(|number| (1..=last).contains(&number))
        };
        if within('C', CONFLICTS) || within('S', SPECIFICATION) {
            return Ok(Status::Overridden(by.to_owned()));
        }
        bail!("`overridden by` is followed by C1 to C{CONFLICTS} or S1 to S{SPECIFICATION}");
    }
    bail!("the status is `shown`, `overridden by C3` or `not yet: HTTP`")
}

fn line(row: &Row, tests: &[Shown]) -> String {
    let shown: Vec<String> = tests
        .iter()
        .filter(|test| test.numbers.contains(&row.number))
        .map(|test| format!("{}::{}", test.file.display(), test.name))
        .collect();
    let verdict = match (&row.status, shown.as_slice()) {
        (Status::NotYet(owing), []) => format!("not yet: {owing}"),
        (Status::Overridden(by), []) => format!("overridden by {by}"),
        (Status::Overridden(by), [first, ..]) => format!("overridden by {by}; {first}"),
        (_, [first]) => first.clone(),
        (_, [first, more @ ..]) => format!("{first} and {} more", more.len()),
        (Status::Shown, []) => "NO TEST".to_owned(),
    };
    format!("R{:<3} {}\n     {verdict}", row.number, row.sentence)
}

/// The differences between the table and the tests.
fn gaps(rows: &[Row], tests: &[Shown]) -> Vec<String> {
    let mut by_number: BTreeMap<u16, Vec<&Shown>> = BTreeMap::new();
    for test in tests {
        for number in &test.numbers {
            by_number.entry(*number).or_default().push(test);
        }
    }
    let mut gaps = Vec::new();
    for row in rows {
        let number = row.number;
        match (&row.status, by_number.remove(&number).as_deref()) {
            (Status::Shown, None) => {
                gaps.push(format!("R{number} is to be shown and no test is named r{number}_..."));
            }
            (Status::NotYet(owing), Some([test, ..])) => gaps.push(format!(
                "R{number} has the test {} and is still `not yet: {owing}` in {TABLE}",
                test.name
            )),
            _ => {}
        }
    }
    for (number, tests) in by_number {
        let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        gaps.push(format!("there is no R{number}, named by {}", names.join(", ")));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_of(number: u16, status: Status) -> Row {
        Row { number, status, sentence: "something".to_owned() }
    }

    fn test_of(numbers: &[u16]) -> Shown {
        Shown { numbers: numbers.to_vec(), name: "a_test".to_owned(), file: PathBuf::from("a.rs") }
    }

    #[test]
    fn rows_are_read_and_wrong_ones_refused() {
        assert_eq!(row("R14 | shown | something").unwrap(), row_of(14, Status::Shown));
        let overridden = row_of(3, Status::Overridden("C13".to_owned()));
        assert_eq!(row("R3|overridden by C13|something").unwrap(), overridden);
        let not_yet = row_of(58, Status::NotYet("HTTP".to_owned()));
        assert_eq!(row("R58 | not yet: HTTP | something").unwrap(), not_yet);
        for wrong in [
            "R14 | shown",
            "R14 | shown |",
            "14 | shown | something",
            "R14 | maybe | something",
            "R14 | not yet | something",
            "R14 | not yet: Gopher | something",
            "R14 | overridden by C20 | something",
            "R14 | overridden by S0 | something",
            "R14 | overridden by X1 | something",
        ] {
            assert!(row(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_table_is_complete_and_in_order() {
        let line = |number: u16| format!("R{number} | shown | something\n");
        let whole: String = (1..=LAST).map(line).collect();
        assert_eq!(parse(&format!("# a comment\n\n{whole}")).unwrap().len(), 86);
        assert!(parse(&whole.replace("R40 |", "R41 |")).is_err());
        assert!(parse(&whole.replace("R86 | shown | something\n", "")).is_err());
        assert!(parse(&(whole + "R87 | shown | something\n")).is_err());
    }

    #[test]
    fn only_test_functions_show_a_requirement() {
        let source = r#"
            #[test]
            fn r14_timeouts() {}
            #[tokio::test(flavor = "current_thread")]
            // a remark
            async fn r15_r16_two_at_once() {}
            fn r17_is_no_test() {}
            // #[test]
            // fn r18_is_a_comment() {}
            #[test]
            fn r19() {}
            #[test]
            fn other_r20_name() {}
            #[test]
            const X: u8 = 1;
            fn r21_the_attribute_was_for_something_else() {}
        "#;
        let found = named(source);
        assert_eq!(
            found,
            [(vec![14], "r14_timeouts".to_owned()), (vec![15, 16], "r15_r16_two_at_once".to_owned())]
        );
    }

    #[test]
    fn table_and_tests_must_agree_both_ways() {
        let rows = [
            row_of(1, Status::Shown),
            row_of(2, Status::NotYet("HTTP".to_owned())),
            row_of(3, Status::Overridden("C13".to_owned())),
        ];
        assert!(gaps(&rows, &[test_of(&[1])]).is_empty());
        assert!(gaps(&rows, &[test_of(&[1, 3])]).is_empty());
        assert_eq!(gaps(&rows, &[]).len(), 1, "R1 has no test");
        assert_eq!(gaps(&rows, &[test_of(&[1, 2])]).len(), 1, "R2 has one");
        assert_eq!(gaps(&rows, &[test_of(&[1, 99])]).len(), 1, "R99 does not exist");
    }
}
