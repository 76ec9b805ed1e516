//! The list in `conformance/expected.toml`: the expected result of each scenario. The list is compared with the suite's
//! own lists before the first run, and with the result of every run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::suite::{Leg, REVISIONS, Scenarios, Side};

/// The expected result of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// The suite scores it, and it passes.
    Required,
    /// The suite does not score it, and it passes.
    Unscored,
    /// It passes, but shows nothing.
    Trivial,
    /// It cannot pass, with the reason.
    Impossible(String),
}

impl Expectation {
    pub(crate) const fn passes(&self) -> bool {
        matches!(self, Self::Required | Self::Unscored | Self::Trivial)
    }
}

/// The whole list.
#[derive(Debug, PartialEq)]
pub(crate) struct Expected(pub(crate) BTreeMap<Leg, BTreeMap<String, Expectation>>);

impl Expected {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let path = root.join("conformance/expected.toml");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        let document: toml::Table = text.parse()?;
        let mut legs = BTreeMap::new();
        for (side, revisions) in &document {
            let known = Side::ALL.into_iter().find(|known| known.name() == side);
            let side = known.with_context(|| format!("`{side}` is no side"))?;
            for (revision, kinds) in table(revisions)? {
                let leg = Leg { side, revision: revision.clone() };
                let scenarios = scenarios(kinds).with_context(|| leg.to_string())?;
                legs.insert(leg, scenarios);
            }
        }
        Ok(Self(legs))
    }

    /// The scenarios and requirements on which the list and the suite disagree.
    pub(crate) fn faults(&self, suite: &Scenarios) -> Vec<String> {
        let mut faults = Vec::new();
        let none = BTreeSet::new();
        for side in Side::ALL {
            for (name, tags) in suite.all.get(&side).into_iter().flatten() {
                let listed: Vec<&str> =
                    self.legs(side).filter(|(_, all)| all.contains_key(name)).map(|(r, _)| r).collect();
                for revision in REVISIONS {
                    let leg = Leg { side, revision: revision.to_owned() };
                    let runs = tags.iter().any(|tag| tag == revision)
                        || [&suite.scored, &suite.unscored]
                            .into_iter()
                            .any(|of| of.get(&leg).unwrap_or(&none).contains(name));
                    if runs && !listed.contains(&revision) {
                        faults.push(format!("{leg} {name}: the suite has it, and the list does not"));
                    }
                }
                let elsewhere = !REVISIONS.iter().any(|revision| tags.iter().any(|tag| tag == revision));
                if listed.is_empty() && elsewhere {
                    faults.push(format!("{side} {name}: the suite has it, and the list does not"));
                }
            }
        }
        for (leg, listed) in &self.0 {
            let scored = suite.scored.get(leg).unwrap_or(&none);
            for (name, expectation) in listed {
                if !suite.all.get(&leg.side).is_some_and(|all| all.contains_key(name)) {
                    faults.push(format!("{leg} {name}: the list has it, and the suite does not"));
                    continue;
                }
                let wrong = match expectation {
                    Expectation::Required => !scored.contains(name),
                    Expectation::Unscored | Expectation::Trivial | Expectation::Impossible(_) => {
                        scored.contains(name)
                    }
                };
                if wrong {
                    faults.push(format!("{leg} {name}: listed among what it is not"));
                }
            }
        }
        faults
    }

    fn legs(&self, side: Side) -> impl Iterator<Item = (&str, &BTreeMap<String, Expectation>)> {
        let of_side = self.0.iter().filter(move |(leg, _)| leg.side == side);
        of_side.map(|(leg, all)| (leg.revision.as_str(), all))
    }
}

/// Compares a run with the list. `faults` are the reasons why the run failed; it is empty when the run passed.
pub(crate) fn held(expectation: &Expectation, faults: &[String]) -> Result<(), String> {
    match (expectation.passes(), faults) {
        (true, []) => Ok(()),
        (true, faults) => Err(faults.join("\n        ")),
        (false, []) => {
            Err("passes although the list expects that it fails: the list is out of date".to_owned())
        }
        (false, _) => Ok(()),
    }
}

fn scenarios(kinds: &toml::Value) -> Result<BTreeMap<String, Expectation>> {
    let mut scenarios = BTreeMap::new();
    let mut add = |name: &str, expectation: Expectation| match scenarios.insert(name.to_owned(), expectation)
    {
        None => Ok(()),
        Some(_) => bail!("{name} is listed twice"),
    };
    for (kind, names) in table(kinds)? {
        let expectation = match kind.as_str() {
            "required" => Expectation::Required,
            "unscored" => Expectation::Unscored,
            "trivial" => Expectation::Trivial,
            "impossible" => {
                for (name, why) in table(names)? {
                    let why = why.as_str().filter(|why| !why.is_empty());
                    let why = why.with_context(|| format!("why is {name} impossible?"))?;
                    add(name, Expectation::Impossible(why.to_owned()))?;
                }
                continue;
            }
            other => bail!("`{other}` is nothing that a scenario comes to"),
        };
        for name in names.as_array().with_context(|| format!("`{kind}` is no list"))? {
            let name = name.as_str().with_context(|| format!("`{kind}` is no list of names"))?;
            add(name, expectation.clone())?;
        }
    }
    Ok(scenarios)
}

fn table(value: &toml::Value) -> Result<&toml::Table> {
    value.as_table().context("there is no table where one is expected")
}

#[cfg(test)]
mod tests;
