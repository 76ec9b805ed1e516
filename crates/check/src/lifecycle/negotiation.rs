//! The version of a legacy session: what a server answers when asked for one, seen over several runs.

use mcpjoin_proto::{Method, Version};

use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::{Answer, Asked, Seen, text};
use crate::trace::Probe;

const NEGOTIATION: &[Source] = &[Source::new(Revisions::LEGACY, Must, "basic/lifecycle#version-negotiation")];

pub(super) static RULES: [Rule; 3] = [
    Rule {
        slug: "unknown-version-not-accepted",
        chapter: Chapter::Lifecycle,
        sentence: "Asked for a version that it does not speak, a server answers with one that it does.",
        sources: NEGOTIATION,
        judge: |seen| {
            let judged = openings(seen).filter(|(asked, ..)| asked.probe == Probe::UnknownVersion).map(
                |(asked, answer, wanted, given)| {
                    (wanted == given).then(|| {
                        asked.finding(
                            format!("the version {wanted}, which does not exist, was accepted"),
                            answer.line,
                        )
                    })
                },
            );
            Outcome::of(judged, "no session was opened with a version that does not exist")
        },
    },
    Rule {
        slug: "offered-version-spoken",
        chapter: Chapter::Lifecycle,
        sentence: "Asked for a version that it speaks, a server answers with the same.",
        sources: NEGOTIATION,
        judge: |seen| {
            let judged = openings(seen).filter_map(|(asked, answer, wanted, given)| {
                if !everywhere(seen, |_, given| given.clone()).contains(&wanted) {
                    return None;
                }
                let problem = || {
                    format!("{wanted} was answered with {given}, and elsewhere the server offers {wanted}")
                };
                Some((wanted != given).then(|| asked.finding(problem(), answer.line)))
            });
            Outcome::of(judged, "the server was asked for no version that it had offered")
        },
    },
    Rule {
        slug: "latest-version-offered",
        chapter: Chapter::Lifecycle,
        sentence: "Asked for a version that it does not speak, a server offers the latest that it does.",
        sources: &[Source::new(Revisions::LEGACY, Should, "basic/lifecycle#version-negotiation")],
        judge: |seen| {
            let spoken: Vec<Version> =
                everywhere(seen, |wanted, given| (wanted == given).then(|| given.clone()))
                    .into_iter()
                    .flatten()
                    .collect();
            let judged = openings(seen).filter(|(_, _, wanted, given)| wanted != given).map(
                |(asked, answer, _, given)| {
                    let later = spoken.iter().find(|known| Revisions::is_older(&given, known))?;
                    Some(asked.finding(
                        format!("{given} was offered, and the server also speaks {later}"),
                        answer.line,
                    ))
                },
            );
            Outcome::of(judged, "the server was asked for no version that it does not speak")
        },
    },
];

/// The answers to `initialize` that name a version, with the version that was asked for.
fn openings<'s, 'a>(
    seen: &'s Seen<'a>,
) -> impl Iterator<Item = (&'s Asked<'a>, &'s Answer<'a>, Version, Version)> {
    seen.results().filter(|(asked, ..)| asked.method == Some(&Method::Initialize)).filter_map(
        |(asked, answer, result)| {
            let sent = crate::seen::of_line(asked.line.bytes())?;
            let wanted = text(&crate::seen::member(&sent, "params")?, "protocolVersion")?;
            let given = text(result.raw(), "protocolVersion")?;
            Some((asked, answer, Version::parse(&wanted), Version::parse(&given)))
        },
    )
}

/// The same over every run.
fn everywhere<T>(seen: &Seen<'_>, read: impl Fn(&Version, &Version) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for run in &seen.trace.runs {
        let seen = Seen::of(seen.trace, run);
        found.extend(openings(&seen).map(|(_, _, wanted, given)| read(&wanted, &given)));
    }
    found
}
