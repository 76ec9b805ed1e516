//! Tasks, as 2025-11-25 tries them: what can be seen without a call.
//!
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks>

use mcpjoin_proto::Method;

use crate::base::refused;
use crate::revisions::Revisions;
use crate::rule::Level::Must;
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::member;
use crate::trace::Probe;

const ERRORS: &[Source] =
    &[Source::new(Revisions::LAST_LEGACY, Must, "basic/utilities/tasks#protocol-errors")];
const NOT_DECLARED: &str = "the server declares no tasks";

pub(super) static RULES: [Rule; 3] = [
    Rule {
        slug: "unknown-task-refused",
        chapter: Chapter::Patterns,
        sentence: "Asking for a task that does not exist brings the error -32602.",
        sources: ERRORS,
        judge: |seen| refused(seen, Probe::NoTask, NOT_DECLARED),
    },
    Rule {
        slug: "bad-task-cursor-refused",
        chapter: Chapter::Patterns,
        sentence: "A cursor of tasks that the server has never given brings the error -32602.",
        sources: ERRORS,
        judge: |seen| refused(seen, Probe::BadTaskCursor, "the server lists no tasks"),
    },
    Rule {
        slug: "task-capability-declared",
        chapter: Chapter::Patterns,
        sentence: "A server that makes a task of a request declares tasks.",
        sources: &[Source::new(Revisions::LAST_LEGACY, Must, "basic/utilities/tasks#capabilities")],
        judge: |seen| {
            let Some(declared) = seen.declared() else { return Outcome::Skipped("nothing was declared") };
            let results = seen.results().filter(|(asked, _, result)| {
                asked.method == Some(&Method::CallTool) && member(result.raw(), "task").is_some()
            });
            let judged = results.map(|(asked, answer, _)| {
                (!declared.contains_key("tasks")).then(|| asked.finding("tasks is not declared", answer.line))
            });
            Outcome::of(judged, "no request became a task")
        },
    },
];
