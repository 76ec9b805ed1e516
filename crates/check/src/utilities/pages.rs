//! Pages: cursors, and what all pages of a list have in common.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>

use std::collections::BTreeMap;

use mcpjoin_proto::{Kind, Method, Raw};

use crate::base::refused;
use crate::features::{Page, listed, pages};
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must, Should};
use crate::rule::{Chapter, Outcome, Rule, Source};
use crate::seen::{Asked, Seen, elements, member, text};
use crate::trace::Probe;

const LISTS: [Method; 4] =
    [Method::ListTools, Method::ListPrompts, Method::ListResources, Method::ListResourceTemplates];
const NOTHING: &str = "nothing was listed";

pub(super) static RULES: [Rule; 5] = [
    Rule {
        slug: "next-cursor-is-string",
        chapter: Chapter::Utilities,
        sentence: "A nextCursor is a string.",
        sources: &[Source::new(Revisions::ALL, Must, "server/utilities/pagination#pagination-model")],
        judge: |seen| {
            let judged = all_pages(seen).map(|page| {
                let cursor = member(page.result, "nextCursor")?;
                // Some write null where there is none; clients take it so.
                let good = matches!(cursor.kind(), Kind::String | Kind::Null);
                (!good).then(|| page.asked.finding(format!("nextCursor is {cursor}"), page.answer.line))
            });
            Outcome::of(judged, NOTHING)
        },
    },
    Rule {
        slug: "pages-end",
        chapter: Chapter::Utilities,
        sentence: "A list comes to its end: no page names a cursor that has led to an earlier page.",
        sources: &[Source::new(
            Revisions::ALL,
            Advice,
            "server/utilities/pagination#implementation-guidelines",
        )],
        judge: |seen| {
            let judged = LISTS.iter().flat_map(|method| {
                let mut used = Vec::new();
                let list: Vec<Option<_>> = pages(seen, method)
                    .map(|page| {
                        if matches!(page.asked.probe, Probe::List | Probe::Templates) {
                            used.clear();
                        }
                        used.extend(cursor_of(page.asked));
                        let next = text(page.result, "nextCursor").filter(|next| used.contains(next))?;
                        Some(page.asked.finding(format!("{next:?} has led here before"), page.answer.line))
                    })
                    .collect();
                list
            });
            Outcome::of(judged, NOTHING)
        },
    },
    Rule {
        slug: "cursor-stable",
        chapter: Chapter::Utilities,
        sentence: "The same cursor leads to the same page.",
        sources: &[Source::new(
            Revisions::ALL,
            Should,
            "server/utilities/pagination#implementation-guidelines",
        )],
        judge: |seen| {
            let again = seen.results().filter(|(asked, ..)| asked.probe == Probe::SamePage);
            // Looked for once: one request may have many answers.
            let mut first = BTreeMap::new();
            let judged = again.filter_map(|(asked, answer, result)| {
                let method = asked.method?;
                let first = first.entry(asked.place).or_insert_with(|| {
                    let cursor = cursor_of(asked);
                    let first = pages(seen, method).find(|page| cursor_of(page.asked) == cursor)?;
                    names(method, first.result)
                });
                // What has changed meanwhile is no other page.
                let differs = *first.as_ref()? != names(method, result.raw())?;
                Some(differs.then(|| asked.finding("the page is another one", answer.line)))
            });
            Outcome::of(judged, "no list had a second page")
        },
    },
    Rule {
        slug: "bad-cursor-code",
        chapter: Chapter::Utilities,
        sentence: "A cursor that the server has never given brings the error -32602.",
        sources: &[Source::new(Revisions::ALL, Should, "server/utilities/pagination#error-handling")],
        judge: |seen| {
            refused(seen, Probe::BadCursor, "no list was asked for by a cursor that does not exist")
        },
    },
    Rule {
        slug: "cache-scope-of-pages",
        chapter: Chapter::Utilities,
        sentence: "All pages of a list have the same cacheScope.",
        sources: &[Source::new(
            Revisions::MODERN,
            Must,
            "server/utilities/caching#interaction-with-pagination",
        )],
        judge: |seen| {
            let judged = LISTS.iter().flat_map(|method| {
                let mut first: Option<String> = None;
                let list: Vec<Option<_>> = pages(seen, method)
                    .filter_map(|page| {
                        let scope = text(page.result, "cacheScope")?;
                        if page.asked.probe != Probe::NextPage {
                            first = Some(scope);
                            return None;
                        }
                        let differs = first.as_ref() != Some(&scope);
                        let problem = || format!("it is {scope:?}, and of the first page another");
                        Some(differs.then(|| page.asked.finding(problem(), page.answer.line)))
                    })
                    .collect();
                list
            });
            Outcome::of(judged, "no list had a second page")
        },
    },
];

fn all_pages<'s, 'a>(seen: &'s Seen<'a>) -> impl Iterator<Item = Page<'s, 'a>> {
    LISTS.iter().flat_map(move |method| pages(seen, method))
}

/// The cursor that a request of ours has.
fn cursor_of(asked: &Asked<'_>) -> Option<String> {
    text(&asked.params()?, "cursor")
}

/// What is on a page, by the names.
fn names(method: &Method, result: &Raw) -> Option<Vec<Option<String>>> {
    let (list, _) = listed(method)?;
    let items = elements(&member(result, list)?)?;
    Some(items.iter().map(|item| text(item, "name")).collect())
}
