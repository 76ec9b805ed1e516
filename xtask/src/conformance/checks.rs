//! The result of one scenario: the suite's `checks.json`, and how its process ended.

use anyhow::{Context, Result, bail};
use serde_json::Value as Json;

use super::suite::Side;

/// One check whose result is not success.
#[derive(Clone, Debug, PartialEq)]
struct Red {
    id: String,
    warning: bool,
    message: String,
}

/// The checks of one run of one scenario.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Checks {
    succeeded: usize,
    red: Vec<Red>,
}

impl Checks {
    /// Reads `checks.json`. Informational and skipped checks are not counted.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let all: Vec<Json> = serde_json::from_str(text).context("checks.json is no list")?;
        let mut checks = Self::default();
        for check in &all {
            let word = |key: &str| check[key].as_str();
            let id = word("id").context("a check without an id")?.to_owned();
            let status = word("status").with_context(|| format!("the check {id} has no status"))?;
            match status {
                "SUCCESS" => checks.succeeded += 1,
                "FAILURE" | "WARNING" => {
                    let message = word("errorMessage").or_else(|| word("description")).unwrap_or_default();
                    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
                    checks.red.push(Red { id, warning: status == "WARNING", message });
                }
                "SKIPPED" | "INFO" => {}
                other => bail!("the check {id} has the unknown outcome `{other}`"),
            }
        }
        Ok(checks)
    }
}

/// The result of one run of one scenario.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// The checks, or the reason why they could not be read.
    pub(crate) checks: Result<Checks, String>,
    /// How the suite's process ended, if it did not end with success.
    pub(crate) ended: Option<String>,
}

impl Outcome {
    /// The reasons why the run failed; empty when it passed. A run without a successful check has shown nothing and fails. A
    /// client must also be without warnings: the suite has the same rule.
    pub(crate) fn faults(&self, side: Side) -> Vec<String> {
        let mut faults = Vec::new();
        match &self.checks {
            Ok(checks) => {
                let counts = |red: &&Red| !red.warning || side == Side::Client;
                faults.extend(checks.red.iter().filter(counts).map(|Red { id, warning, message }| {
                    format!("{id}{}: {message}", if *warning { " (a warning)" } else { "" })
                }));
                if checks.succeeded == 0 {
                    faults.push("no check succeeded".to_owned());
                }
            }
            Err(why) => faults.push(why.clone()),
        }
        faults.extend(self.ended.clone());
        faults
    }

    /// The number of successful checks.
    pub(crate) fn succeeded(&self) -> usize {
        self.checks.as_ref().map_or(0, |checks| checks.succeeded)
    }
}

#[cfg(test)]
mod tests {
    use super::{Checks, Outcome};
    use crate::conformance::suite::Side;

    fn outcome(text: &str) -> Outcome {
        Outcome { checks: Ok(Checks::parse(text).unwrap()), ended: None }
    }

    const GOOD: &str = r#"{"id":"a","name":"A","status":"SUCCESS","timestamp":"t","details":{"x":[1]}}"#;

    #[test]
    fn a_success_without_a_failure_is_green() {
        let outcome = outcome(&format!(r#"[{{"id":"traffic","status":"INFO"}},{GOOD}]"#));
        assert!(outcome.faults(Side::Server).is_empty());
        assert!(outcome.faults(Side::Client).is_empty());
        assert_eq!(outcome.succeeded(), 1);
    }

    #[test]
    fn nothing_checked_is_red() {
        let nothing = ["[]", r#"[{"id":"a","status":"SKIPPED"},{"id":"b","status":"INFO"}]"#];
        for text in nothing {
            assert_eq!(outcome(text).faults(Side::Server), ["no check succeeded"], "{text}");
        }
    }

    #[test]
    fn a_failure_is_red_beside_any_number_of_successes() {
        let text = format!(
            r#"[{GOOD},{{"id":"b","status":"FAILURE","description":"d","errorMessage":"line one\n  line two"}}]"#
        );
        for side in [Side::Server, Side::Client] {
            assert_eq!(outcome(&text).faults(side), ["b: line one line two"]);
        }
    }

    #[test]
    fn a_warning_is_red_for_a_client_alone() {
        let text = format!(r#"[{GOOD},{{"id":"b","status":"WARNING","description":"SHOULD"}}]"#);
        assert!(outcome(&text).faults(Side::Server).is_empty());
        assert_eq!(outcome(&text).faults(Side::Client), ["b (a warning): SHOULD"]);
    }

    #[test]
    fn a_run_that_ends_badly_is_red_whatever_it_has_written() {
        let mut outcome = outcome(&format!("[{GOOD}]"));
        outcome.ended = Some("the client ended with 1".into());
        assert_eq!(outcome.faults(Side::Client), ["the client ended with 1"]);
        outcome.checks = Err("nothing was written".into());
        assert_eq!(outcome.faults(Side::Client), ["nothing was written", "the client ended with 1"]);
    }

    #[test]
    fn what_is_no_list_of_checks_is_an_error() {
        for text in [
            "",
            "{}",
            "[1]",
            r#"[{"id":"a"}]"#,
            r#"[{"status":"SUCCESS"}]"#,
            r#"[{"id":"a","status":"success"}]"#,
        ] {
            assert!(Checks::parse(text).is_err(), "{text}");
        }
    }
}
