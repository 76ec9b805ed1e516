//! Whether a client could log in to a server that wants to know who asks: the ladder that `mcpjoin auth explain` climbs, in
//! an examination.
//!
//! Called by [`examine`](super::examine) where the server has answered 401 and nobody has typed who we are. It registers
//! nothing, asks nobody and sends no token.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use tokio::time::Instant;

use super::super::course::Course;
use super::super::report::{Check, Finding, Outcome, Phase};
use mcpjoin::link::HttpConnect;
use mcpjoin_auth::{ExplainOptions, Ladder, Step, Verdict, explain};

/// So many requests are shown beside a finding.
const SHOWN: usize = 12;

/// Climbs it, and says in the finding that is there what to do, or in one more which rung is broken.
pub(super) async fn examine(course: &mut Course, connect: &HttpConnect, server: &str) {
    course.begin(Phase::Authorization);
    let options = ExplainOptions {
        extra_ca: connect.authorities().to_vec(),
        connect_timeout: Some(connect.connect_within()),
        ..ExplainOptions::default()
    };
    // What cannot be set up has been told by whoever made the link.
    let Ok(ladder) = explain(connect.url(), options).await else { return };
    match &ladder.outcome {
        Ok(found) => {
            for finding in course.findings_mut().iter_mut().filter(|finding| finding.id == "not-authorized") {
                finding.advice = format!(
                    "mcpjoin auth login {server} (with a token of your own: --header 'Authorization: Bearer TOKEN', or @FILE)"
                );
            }
            course.end(format!("a client can log in at {}", found.issuer));
        }
        Err(error) => {
            let mut finding = Finding::new(
                "login-broken",
                Check::Authorization,
                Phase::Authorization,
                format!("{}: {}", error.rung, error.message),
                format!("no client can log in to this server: {} ({})", error.rule.text, error.rule.source),
                error.advice.clone().unwrap_or_else(|| "tell those who run the server".to_owned()),
            );
            finding.evidence.requests = requests(&ladder);
            let detail = finding.id.to_owned();
            course.fault(finding);
            course.step(Outcome::Failed, course.since, Instant::now(), detail);
        }
    }
}

/// What was asked, and what came of it.
fn requests(ladder: &Ladder) -> Vec<String> {
    let asked = |step: &Step| {
        let tried = step.tried.as_ref()?;
        let what = match &step.verdict {
            Verdict::Held => &step.found,
            Verdict::Skipped(why) | Verdict::Broken(why) => why,
        };
        let status = step.status.map(|status| format!(" {status}")).unwrap_or_default();
        Some(format!("{} {}{status}: {what}", tried.method, tried.url))
    };
    ladder.steps.iter().filter_map(asked).take(SHOWN).collect()
}
