//! `cargo xtask size`: prints the number of lines of each crate beside the recorded numbers in `xtask/size.toml`, so that
//! growth is noticed.
//!
//! A line of source is code, documentation (`///`, `//!`), another comment, or blank. Lines of tests are counted separately:
//! files in `tests/`, files named `tests.rs`, and a module behind `#[cfg(test)]` at the end of a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps;

/// The file with the recorded numbers, relative to the project's folder.
const KEPT: &str = "xtask/size.toml";
/// The line before a module of tests.
const TEST: &str = "#[cfg(test)]";
/// A file with fewer lines counts as short.
const SHORT: usize = 100;

/// The lines of one crate, or of a part of one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lines {
    code: usize,
    docs: usize,
    comments: usize,
    blank: usize,
    tests: usize,
}

impl Lines {
    fn source(&self) -> usize {
        self.code + self.docs + self.comments + self.blank
    }

    fn add(&mut self, other: Self) {
        self.code += other.code;
        self.docs += other.docs;
        self.comments += other.comments;
        self.blank += other.blank;
        self.tests += other.tests;
    }
}

/// The counts of a crate.
#[derive(Default)]
struct Crate {
    lines: Lines,
    /// The number of lines of source of each file that has any.
    files: Vec<usize>,
}

/// The recorded numbers.
struct Kept {
    /// The date of the count.
    date: String,
    /// Lines of source of each crate.
    source: BTreeMap<String, usize>,
}

/// Prints the table.
pub(crate) fn print(root: &Path) -> Result<()> {
    let kept = kept(root).context(KEPT)?;
    let crates = count(root)?;
    println!(
        "{:<12} {:>6} {:>7} {:>6} {:>8} {:>8} {:>7} {:>9} {:>8}   source on {}",
        "crate", "files", "median", "short", "source", "code", "docs", "docs/100", "tests", kept.date
    );
    let mut all = Crate::default();
    for (name, counted) in &crates {
        println!("{}", row(name, counted, kept.source.get(name).copied()));
        all.lines.add(counted.lines);
        all.files.extend(&counted.files);
    }
    println!("{}", row("all", &all, Some(kept.source.values().sum())));
    println!(
        "\nshort: files with fewer than {SHORT} lines of source; docs/100: lines of documentation to 100 of code"
    );
    Ok(())
}

fn kept(root: &Path) -> Result<Kept> {
    let table: toml::Table = std::fs::read_to_string(root.join(KEPT))?.parse()?;
    let date = table.get("date").and_then(toml::Value::as_str).context("no `date`")?.to_owned();
    let source = table.get("source").and_then(toml::Value::as_table).context("no table `source`")?;
    let lines = |value: &toml::Value| value.as_integer().and_then(|lines| usize::try_from(lines).ok());
    let source = source.iter().map(|(name, value)| {
        lines(value).map(|lines| (name.clone(), lines)).with_context(|| format!("{name}: no number of lines"))
    });
    Ok(Kept { date, source: source.collect::<Result<_>>()? })
}

fn row(name: &str, counted: &Crate, before: Option<usize>) -> String {
    let Crate { lines, files } = counted;
    let mut sorted = files.clone();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let short = files.iter().filter(|file| **file < SHORT).count();
    let source = lines.source();
    let ratio = lines.docs * 100 / lines.code.max(1);
    let change = match before {
        Some(before) => {
            let change =
                i64::try_from(source).unwrap_or(i64::MAX) - i64::try_from(before).unwrap_or(i64::MAX);
            format!("{before} ({change:+})")
        }
        None => "new".to_owned(),
    };
    format!(
        "{name:<12} {:>6} {median:>7} {short:>6} {source:>8} {:>8} {:>7} {ratio:>9} {:>8}   {change}",
        files.len(),
        lines.code,
        lines.docs,
        lines.tests
    )
}

/// The crates in `crates/`, by the names of their folders.
fn count(root: &Path) -> Result<BTreeMap<String, Crate>> {
    let listed = steps::stdout(std::process::Command::new("git").current_dir(root).args([
        "ls-files",
        "--",
        "crates/*.rs",
    ]))?;
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    for file in listed.lines().map(PathBuf::from) {
        let mut parts = file.components().skip(1).map(|part| part.as_os_str().to_string_lossy());
        let (Some(name), Some(folder)) = (parts.next(), parts.next()) else {
            bail!("{} is in no crate", file.display());
        };
        let text = std::fs::read_to_string(root.join(&file))
            .with_context(|| format!("cannot read {}", file.display()))?;
        let is_test = folder != "src" || is_test(&file);
        let lines =
            if is_test { Lines { tests: text.lines().count(), ..Lines::default() } } else { lines(&text) };
        let counted = crates.entry(name.into_owned()).or_default();
        counted.lines.add(lines);
        if lines.source() > 0 {
            counted.files.push(lines.source());
        }
    }
    Ok(crates)
}

/// Whether a file below `src` contains only tests.
fn is_test(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name == "tests.rs")
        || file.components().any(|part| part.as_os_str() == "tests")
}

/// Counts the lines of a file. rustfmt has formatted it, so a `}` without indentation ends an unindented module.
fn lines(text: &str) -> Lines {
    let mut counted = Lines::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line == TEST && lines.peek().is_some_and(|next| next.contains("mod ")) {
            counted.tests += 1;
            for of_tests in lines.by_ref() {
                counted.tests += 1;
                if of_tests == "}" || of_tests.ends_with(';') && !of_tests.starts_with(' ') {
                    break;
                }
            }
            continue;
        }
        let line = line.trim_start();
        let kind = if line.is_empty() {
            &mut counted.blank
        } else if line.starts_with("///") || line.starts_with("//!") {
            &mut counted.docs
        } else if line.starts_with("//") {
            &mut counted.comments
        } else {
            &mut counted.code
        };
        *kind += 1;
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_by_what_they_are_and_those_of_tests_apart() {
        let text = "//! What.\n\n/// Doc.\nfn a() {\n    // Why.\n    b();\n}\n\n#[cfg(test)]\nmod tests {\n    fn t() {\n    }\n}\n";
        assert_eq!(lines(text), Lines { code: 3, docs: 2, comments: 1, blank: 2, tests: 5 });
        let outside = "fn a() {}\n#[cfg(test)]\nmod tests;\nfn b() {}\n#[cfg(test)]\nfn c() {}\n";
        assert_eq!(lines(outside), Lines { code: 4, tests: 2, ..Lines::default() });
    }

    #[test]
    fn files_of_tests_are_known_by_their_names() {
        assert!(is_test(Path::new("crates/a/src/b/tests.rs")));
        assert!(is_test(Path::new("crates/a/src/tests/b.rs")));
        assert!(!is_test(Path::new("crates/a/src/testing.rs")));
    }

    #[test]
    fn a_row_says_how_much_was_gained_or_lost() {
        let lines = Lines { code: 100, docs: 20, ..Lines::default() };
        let counted = Crate { lines, files: vec![20, 100] };
        let row = row("proto", &counted, Some(150));
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["proto", "2", "100", "1", "120", "100", "20", "20", "0", "150", "(-30)"]);
    }
}
