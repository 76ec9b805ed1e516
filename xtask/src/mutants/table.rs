//! The results of mutants: reads them from cargo-mutants' report and prints them.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use serde_json::Value as Json;

/// The results of the mutants of one area.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcomes {
    caught: usize,
    unbuildable: usize,
    timeout: usize,
    /// The names of the mutants that survived.
    survived: Vec<String>,
    /// The time to build and test all of them, in seconds, without the first run, which tests the unchanged sources.
    seconds: f64,
}

impl Outcomes {
    /// Reads the results of the drawn mutants from `outcomes.json`.
    pub(super) fn parse(text: &str, drawn: impl Fn(&str) -> bool) -> Result<Self> {
        let document: Json = serde_json::from_str(text)?;
        let listed = document["outcomes"].as_array().context("no list of outcomes")?;
        let mut outcomes = Self::default();
        for outcome in listed.iter().filter(|outcome| outcome["scenario"] != "Baseline") {
            let name = outcome.pointer("/scenario/Mutant/name").and_then(Json::as_str);
            let name = name.context("an outcome without a mutant")?;
            if !drawn(name) {
                continue;
            }
            match outcome["summary"].as_str() {
                Some("CaughtMutant") => outcomes.caught += 1,
                Some("Unviable") => outcomes.unbuildable += 1,
                Some("Timeout") => outcomes.timeout += 1,
                Some("MissedMutant") => outcomes.survived.push(name.to_owned()),
                other => bail!("{name} came to {other:?}"),
            }
            let phases = outcome["phase_results"].as_array().map_or(&[][..], Vec::as_slice);
            outcomes.seconds += phases.iter().filter_map(|phase| phase["duration"].as_f64()).sum::<f64>();
        }
        Ok(outcomes)
    }

    pub(super) const fn all(&self) -> usize {
        self.caught + self.unbuildable + self.timeout + self.survived.len()
    }

    /// The mutants that no test caught, one line each.
    pub(super) fn survivors(&self) -> String {
        self.survived.iter().map(|name| format!("    survived: {name}")).collect::<Vec<_>>().join("\n")
    }

    const fn row(&self) -> [usize; 5] {
        [self.all(), self.unbuildable, self.caught, self.timeout, self.survived.len()]
    }
}

/// A line for each area, a line for all of them, and the share of caught mutants among those that build.
pub(super) fn print(rows: &[(&str, Outcomes)]) -> String {
    let mut text =
        String::from("| area | sampled | unbuildable | caught | timeout | survived | noticed | s each |\n");
    text += "|---|--:|--:|--:|--:|--:|--:|--:|\n";
    let mut all = ([0; 5], 0.0);
    for (name, outcomes) in rows {
        let row = outcomes.row();
        line(&mut text, name, row, outcomes.seconds);
        for (sum, number) in all.0.iter_mut().zip(row) {
            *sum += number;
        }
        all.1 += outcomes.seconds;
    }
    line(&mut text, "all", all.0, all.1);
    for (_, outcomes) in rows.iter().filter(|(_, outcomes)| !outcomes.survived.is_empty()) {
        text = text + "\n" + &outcomes.survivors();
    }
    text
}

fn line(text: &mut String, name: &str, row: [usize; 5], seconds: f64) {
    let [sampled, unbuildable, caught, timeout, survived] = row;
    let noticed = match sampled - unbuildable {
        0 => "-".to_owned(),
        built => format!("{} %", (caught + timeout) * 100 / built),
    };
    #[allow(clippy::cast_precision_loss, reason = "a few hundred mutants at most")]
    let each = seconds / (sampled.max(1) as f64);
    writeln!(
        text,
        "| {name} | {sampled} | {unbuildable} | {caught} | {timeout} | {survived} | {noticed} | {each:.0} |"
    )
    .expect("a string can be written to");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Outcomes, print};

    fn document(summaries: &[&str]) -> String {
        let mutant = |(number, summary): (usize, &&str)| {
            json!({
                "scenario": { "Mutant": { "name": format!("a.rs:{number}:1: replace == with !=") } },
                "summary": summary,
                "phase_results": [{ "phase": "Build", "duration": 1.5 }, { "phase": "Test", "duration": 2.5 }],
            })
        };
        let first = json!({
            "scenario": "Baseline", "summary": "Success",
            "phase_results": [{ "phase": "Build", "duration": 100.0 }],
        });
        let outcomes: Vec<_> = [first].into_iter().chain(summaries.iter().enumerate().map(mutant)).collect();
        json!({ "outcomes": outcomes }).to_string()
    }

    #[test]
    fn outcomes_are_counted_and_survivors_named() {
        // The fifth was not drawn.
        let summaries =
            ["CaughtMutant", "MissedMutant", "Unviable", "Timeout", "CaughtMutant", "CaughtMutant"];
        let outcomes = Outcomes::parse(&document(&summaries), |name| !name.starts_with("a.rs:4")).unwrap();
        assert_eq!((outcomes.all(), outcomes.caught, outcomes.seconds), (5, 2, 20.0));
        let table = print(&[("gateway", outcomes), ("auth", Outcomes::default())]);
        assert!(table.contains("| gateway | 5 | 1 | 2 | 1 | 1 | 75 % | 4 |"), "{table}");
        assert!(table.contains("| auth | 0 | 0 | 0 | 0 | 0 | - | 0 |"), "{table}");
        assert!(table.contains("| all | 5 | 1 | 2 | 1 | 1 | 75 % | 4 |"), "{table}");
        assert!(table.contains("survived: a.rs:1:1: replace == with !="), "{table}");
    }

    #[test]
    fn what_is_not_known_is_no_success() {
        assert!(Outcomes::parse(&document(&["Failure"]), |_| true).is_err());
        assert!(Outcomes::parse("{}", |_| true).is_err());
        assert!(
            Outcomes::parse(r#"{"outcomes":[{"scenario":{}, "summary":"CaughtMutant"}]}"#, |_| true).is_err()
        );
    }
}
