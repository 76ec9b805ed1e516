//! The recorded number of tests per group, in `xtask/test-counts.toml`. A run with fewer tests fails, so that a lost test
//! is noticed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Group to number of tests.
pub(crate) type Counts = BTreeMap<String, u64>;

const FILE: &str = "xtask/test-counts.toml";

const HEAD: &str = "\
# The number of tests in each group. `cargo xtask test` fails when fewer ran; `cargo xtask test --update-counts` raises
# the numbers. Nothing lowers them but a person who edits this file and says why in the commit.
";

/// Reads the recorded numbers.
pub(crate) fn read(root: &Path) -> Result<Counts> {
    let path = root.join(FILE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| FILE.to_owned())
}

/// Raises the recorded numbers to those of this run.
pub(crate) fn raise(root: &Path, kept: &Counts, ran: &Counts) -> Result<()> {
    std::fs::write(root.join(FILE), print(&raised(kept, ran))).with_context(|| format!("cannot write {FILE}"))
}

/// Compares a run with the recorded numbers: no group may be missing, smaller, or unknown.
pub(crate) fn check(kept: &Counts, ran: &Counts) -> Result<()> {
    let mut faults = Vec::new();
    for (group, &least) in kept {
        let now = ran.get(group).copied().unwrap_or(0);
        if now < least {
            faults.push(format!("{group}: {now} ran, {least} are kept in {FILE}"));
        }
    }
    for (group, &now) in ran {
        if now > 0 && !kept.contains_key(group) {
            faults.push(format!("{group}: {now} ran and {FILE} does not know it (--update-counts adds it)"));
        }
    }
    if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n    ")) }
}

fn raised(kept: &Counts, ran: &Counts) -> Counts {
    let mut raised = kept.clone();
    for (group, &now) in ran.iter().filter(|(_, now)| **now > 0) {
        let least = raised.entry(group.clone()).or_insert(now);
        *least = now.max(*least);
    }
    raised
}

fn parse(text: &str) -> Result<Counts> {
    let table: toml::Table = text.parse()?;
    table
        .into_iter()
        .map(|(group, number)| {
            let number = number.as_integer().and_then(|number| u64::try_from(number).ok());
            Ok((group.clone(), number.with_context(|| format!("`{group}` is not a number of tests"))?))
        })
        .collect()
}

fn print(counts: &Counts) -> String {
    let lines = counts.iter().map(|(group, number)| format!("{group:?} = {number}\n"));
    std::iter::once(HEAD.to_owned()).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::{Counts, check, parse, print, raised};

    fn counts(pairs: &[(&str, u64)]) -> Counts {
        pairs.iter().map(|(group, number)| ((*group).to_owned(), *number)).collect()
    }

    #[test]
    fn fewer_tests_missing_groups_and_unknown_groups_fail() {
        let kept = counts(&[("proto unit", 10), ("proto doc", 2)]);
        assert!(check(&kept, &kept).is_ok());
        assert!(check(&kept, &counts(&[("proto unit", 12), ("proto doc", 2)])).is_ok());
        assert!(check(&kept, &counts(&[("proto unit", 9), ("proto doc", 2)])).is_err());
        assert!(check(&kept, &counts(&[("proto unit", 10)])).is_err());
        assert!(check(&kept, &counts(&[("proto unit", 10), ("proto doc", 2), ("new", 1)])).is_err());
        assert!(check(&kept, &counts(&[("proto unit", 10), ("proto doc", 2), ("empty", 0)])).is_ok());
    }

    #[test]
    fn counts_are_raised_and_never_lowered() {
        let kept = counts(&[("a", 10), ("b", 5), ("gone", 1)]);
        let ran = counts(&[("a", 8), ("b", 7), ("new", 3), ("empty", 0)]);
        let raised = raised(&kept, &ran);
        assert_eq!(raised, counts(&[("a", 10), ("b", 7), ("gone", 1), ("new", 3)]));
        assert_eq!(parse(&print(&raised)).unwrap(), raised);
    }
}
