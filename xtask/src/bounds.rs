//! `cargo xtask bounds`: everything that a peer, a file or a user can make mcpjoin store or do, each with its limit, its
//! total and its test. The table is `xtask/bounds.toml`.
//!
//! The command reads the number of a limit from the source file that the table names, so the number is always current. A
//! row whose source, name or test does not exist is an error, and so is a field of the structs in `complete` without a
//! row.

mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::requirements;

const FILE: &str = "xtask/bounds.toml";

/// The parties that can reach a limit.
const WHO: [&str; 6] = ["client", "server", "peer", "authorization server", "file", "us"];

/// A row of the table.
#[derive(Debug, PartialEq)]
struct Bound {
    place: String,
    who: String,
    what: String,
    /// The place of its number: `crates/proto/src/session/limits.rs:message`.
    at: String,
    /// The total over all of them.
    total: String,
    /// The share of the total for one principal or address.
    share: String,
    tests: Vec<String>,
}

struct Table {
    bounds: Vec<Bound>,
    /// Structs whose fields are all limits: `crates/proto/src/session/limits.rs:Limits`.
    complete: Vec<String>,
}

/// Prints every limit, and fails where the table is wrong.
pub(crate) fn print(root: &Path) -> Result<()> {
    let table = read(root)?;
    let numbers = hold(root, &table)?;
    let mut place = "";
    for (bound, number) in table.bounds.iter().zip(numbers) {
        if bound.place != place {
            place = &bound.place;
            println!("\n{place}");
        }
        let Bound { who, what, at, total, share, tests, .. } = bound;
        println!("  {what}: {number}");
        println!("      from    {who}, {at}");
        for (name, text) in [("total", total), ("share", share)] {
            if !text.is_empty() {
                println!("      {name}   {text}");
            }
        }
        let tests = if tests.is_empty() { "none".to_owned() } else { tests.join(", ") };
        println!("      test    {tests}");
    }
    println!("\n{}", figures(&table.bounds));
    Ok(())
}

/// Fails where the table is wrong; prints only the counts.
pub(crate) fn check(root: &Path) -> Result<()> {
    let table = read(root)?;
    hold(root, &table)?;
    println!("    {}", figures(&table.bounds));
    Ok(())
}

fn figures(bounds: &[Bound]) -> String {
    let without = bounds.iter().filter(|bound| bound.tests.is_empty()).count();
    format!("{} bounds, {without} of them without a test", bounds.len())
}

fn read(root: &Path) -> Result<Table> {
    let text = std::fs::read_to_string(root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
    parse(&text).context(FILE)
}

/// Returns the number of each limit, or everything in the table that is wrong.
fn hold(root: &Path, table: &Table) -> Result<Vec<String>> {
    let tests = requirements::names(root)?;
    let mut files: BTreeMap<&str, Option<String>> = BTreeMap::new();
    let named = table.bounds.iter().map(|bound| &bound.at).chain(&table.complete);
    for (path, _) in named.filter_map(|at| at.rsplit_once(':')) {
        files.entry(path).or_insert_with(|| std::fs::read_to_string(root.join(path)).ok());
    }
    let source = |path: &str| files.get(path)?.as_deref();
    let mut faults = untrue(table, &tests, source);
    let mut numbers = Vec::new();
    for bound in &table.bounds {
        match number(&bound.at, source) {
            Ok(number) => numbers.push(number),
            Err(error) => faults.push(format!("{}: {error:#}", bound.what)),
        }
    }
    if faults.is_empty() { Ok(numbers) } else { bail!("{FILE} is not true:\n    {}", faults.join("\n    ")) }
}

/// Finds tests that do not exist, fields without a row, and duplicate rows.
fn untrue<'a>(
    table: &Table,
    tests: &BTreeSet<String>,
    source: impl Fn(&str) -> Option<&'a str>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let mut places = BTreeSet::new();
    for bound in &table.bounds {
        let gone = bound.tests.iter().filter(|test| !tests.contains(*test));
        faults.extend(gone.map(|test| format!("{}: there is no test {test}", bound.what)));
        if !places.insert(&bound.at) {
            faults.push(format!("{}: {} stands twice", bound.what, bound.at));
        }
    }
    for complete in &table.complete {
        let fields = complete.rsplit_once(':').and_then(|(path, name)| source::fields(source(path)?, name));
        match (fields, complete.rsplit_once(':')) {
            (Some(fields), Some((path, _))) => {
                let missing = fields.into_iter().map(|field| format!("{path}:{field}"));
                let missing = missing.filter(|at| !places.contains(at));
                faults.extend(missing.map(|at| format!("{at} has no row")));
            }
            _ => faults.push(format!("there is no struct {complete}")),
        }
    }
    faults
}

fn number<'a>(at: &str, source: impl Fn(&str) -> Option<&'a str>) -> Result<String> {
    let (path, name) = at.rsplit_once(':').with_context(|| format!("{at} is not PATH:NAME"))?;
    let text = source(path).with_context(|| format!("there is no {path}"))?;
    source::value(text, name).with_context(|| format!("{path} gives {name} no value"))
}

fn parse(text: &str) -> Result<Table> {
    let mut table: toml::Table = text.parse()?;
    let complete = match table.remove("complete") {
        None => Vec::new(),
        Some(list) => strings(&list).context("complete")?,
    };
    let Some(toml::Value::Array(rows)) = table.remove("bound") else { bail!("there is no [[bound]]") };
    if let Some(key) = table.keys().next() {
        bail!("`{key}` is not known");
    }
    let bounds = rows
        .iter()
        .zip(1..)
        .map(|(row, number)| bound(row).with_context(|| format!("[[bound]] number {number}")));
    Ok(Table { bounds: bounds.collect::<Result<_>>()?, complete })
}

fn bound(row: &toml::Value) -> Result<Bound> {
    let known = ["place", "who", "what", "where", "total", "share", "test"];
    let row = row.as_table().context("not a table")?;
    if let Some(key) = row.keys().find(|key| !known.contains(&key.as_str())) {
        bail!("`{key}` is not known");
    }
    let optional = |key: &str| -> Result<String> {
        let text = row.get(key).map_or(Some(""), toml::Value::as_str);
        Ok(text.with_context(|| format!("`{key}` is not a text"))?.to_owned())
    };
    let text = |key: &str| -> Result<String> {
        let text = optional(key)?;
        if text.is_empty() { bail!("`{key}` is missing") } else { Ok(text) }
    };
    let bound = Bound {
        place: text("place")?,
        who: text("who")?,
        what: text("what")?,
        at: text("where")?,
        total: optional("total")?,
        share: optional("share")?,
        tests: strings(row.get("test").context("`test` is missing; [] where there is none")?)?,
    };
    if let Some(who) = bound.who.split(", ").find(|who| !WHO.contains(who)) {
        bail!("`{who}` is none of {}", WHO.join(", "));
    }
    Ok(bound)
}

fn strings(value: &toml::Value) -> Result<Vec<String>> {
    let array = value.as_array().context("not a list")?;
    array.iter().map(|item| item.as_str().map(str::to_owned).context("not a list of texts")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{figures, number, parse, untrue};

    const ROW: &str = "[[bound]]\nplace = \"session\"\nwho = \"peer\"\nwhat = \"bytes of a message\"\n\
                       where = \"a.rs:message\"\ntotal = \"x\"\ntest = [\"one\"]\n";
    const SOURCE: &str = "pub struct Limits {\n    pub message: usize,\n    pub other: usize,\n}\n\
                          fn new() -> Limits {\n    Limits { message: 10 * MIB, other: 1 }\n}\n";

    fn source(path: &str) -> Option<&'static str> {
        (path == "a.rs").then_some(SOURCE)
    }

    fn faults(text: &str, tests: &[&str]) -> Vec<String> {
        let tests: BTreeSet<String> = tests.iter().map(|&name| name.to_owned()).collect();
        untrue(&parse(text).unwrap(), &tests, source)
    }

    #[test]
    fn a_true_table_has_no_faults_and_its_numbers() {
        assert!(faults(ROW, &["one", "two"]).is_empty());
        assert_eq!(number("a.rs:message", source).unwrap(), "10 * MIB");
        let two = format!("{ROW}{}", ROW.replace("message\"", "other\"").replace("\"one\"", ""));
        assert_eq!(figures(&parse(&two).unwrap().bounds), "2 bounds, 1 of them without a test");
    }

    #[test]
    fn what_is_gone_is_a_fault() {
        assert_eq!(faults(ROW, &[]), ["bytes of a message: there is no test one"]);
        assert!(number("b.rs:message", source).unwrap_err().to_string().contains("there is no b.rs"));
        assert!(number("a.rs:messages", source).is_err());
        assert!(number("a.rs", source).is_err());
        let twice = ROW.repeat(2);
        assert_eq!(faults(&twice, &["one"]), ["bytes of a message: a.rs:message stands twice"]);
    }

    #[test]
    fn a_field_without_a_row_is_a_fault() {
        let complete = format!("complete = [\"a.rs:Limits\"]\n{ROW}");
        assert_eq!(faults(&complete, &["one"]), ["a.rs:other has no row"]);
        let gone = complete.replace("Limits", "Bounds");
        assert_eq!(faults(&gone, &["one"]), ["there is no struct a.rs:Bounds"]);
    }

    #[test]
    fn rows_of_another_form_are_refused() {
        for (part, other) in [
            ("test = [\"one\"]", ""),
            ("test = [\"one\"]", "test = [1]"),
            ("what = \"bytes of a message\"", ""),
            ("who = \"peer\"", "who = \"nobody\""),
            ("total", "sum"),
            ("[[bound]]", "[[bounds]]"),
        ] {
            assert!(ROW.contains(part), "{part}");
            assert!(parse(&ROW.replacen(part, other, 1)).is_err(), "{part} as {other}");
        }
        assert!(parse("").is_err());
    }
}
