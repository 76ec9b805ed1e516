//! How a client reads lists of several pages, and how long it caches them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcpjoin_proto::{Direction, Kind, Method};

use crate::client_view::{ClientRequest, ClientView, RecordedResponse};
use crate::json::{member, plain};
use crate::rule::Outcome;

const GUIDELINES: &str = "server/utilities/pagination#implementation-guidelines";
/// So often nobody asks for the same by chance.
const SEVERAL: usize = 3;
/// What a client does because of an answer it has done by then.
const SOON: Duration = Duration::from_secs(1);

rules! {
    pub(crate) RULES for Client in Chapter::Utilities;

    "client-lists-all-pages", [ALL Should GUIDELINES],
        "A client asks for the page after the first, where a list has more than one.",
        |view| {
            let lists = lists(view);
            let findings = lists.values().filter_map(|pages| {
                if pages.iter().any(|page| page.cursor.is_some()) {
                    return Some(None);
                }
                // One that has looked at the first page alone may have found there what it looked for, and what it asks
                // for many times at once is one look.
                let mut looks: Vec<&Page<'_, '_>> = Vec::new();
                let first =
                    pages.iter().filter(|page| page.next.as_deref().is_some_and(|next| next != "\"\""));
                for page in first {
                    let soon = |before: &&Page<'_, '_>| page.request.at < before.response.at + SOON;
                    if !looks.last().is_some_and(soon) {
                        looks.push(page);
                    }
                }
                let last = looks.last().filter(|_| looks.len() >= SEVERAL)?;
                let problem = format!("the first page was asked for {} times, and no other", looks.len());
                Some(Some(last.request.finding(problem)))
            });
            Outcome::of(findings, "no list had a second page, or the client looked at the first alone")
        };
    "client-stops-without-cursor", [ALL Should GUIDELINES],
        "A client takes a page without nextCursor for the last one.",
        |view| {
            let lists = lists(view);
            let findings = lists.values().filter_map(|pages| {
                pages.iter().find(|page| page.next.is_none())?;
                // The same page again and again, as if another would come.
                let again = pages.windows(SEVERAL).find(|pages| {
                    pages.iter().all(|page| {
                        page.next.is_none() && page.cursor.is_some() && page.cursor == pages[0].cursor
                    })
                });
                Some(again.and_then(|pages| {
                    let problem = format!("the last page was asked for {SEVERAL} times, one after the other");
                    Some(pages.last()?.request.finding(problem))
                }))
            });
            Outcome::of(findings, "the client read no list to its end")
        };
    "client-empty-cursor-goes-on", [MODERN Must GUIDELINES],
        "A client that reads a list page by page takes an empty cursor for one.",
        |view| {
            let lists = lists(view);
            let empty = |cursor: &Option<String>| cursor.as_deref() == Some("\"\"");
            if lists.values().flatten().any(|page| empty(&page.cursor)) {
                return Outcome::Passed;
            }
            // Whoever has read no other page may not want more than one; and who has what it wanted may stop anywhere,
            // but not twice where there is an empty cursor.
            let ends = lists.values().flatten().filter(|page| empty(&page.next) && page.cursor.is_some());
            let ended: Vec<&ClientRequest<'_>> = ends
                .filter(|page| {
                    let next = view.requests.last().filter(|next| next.place > page.response.place);
                    next.is_some() && view.last_present.saturating_sub(page.response.at) >= SOON
                })
                .map(|page| page.request)
                .collect();
            let last = ended.last().filter(|_| ended.len() > 1);
            let findings = last.map(|request| {
                let problem = "nobody has read on behind the empty cursor, here and before";
                Some(request.finding(problem))
            });
            Outcome::of(findings, "no page had an empty cursor, or the client reads no pages")
        };
    "client-restarts-list-after-bad-cursor", [MODERN Should "server/utilities/caching#interaction-with-pagination"],
        "A client whose cursor is refused reads the list from its beginning.",
        |view| {
            let lists = lists(view);
            let pages = lists.values().flatten();
            let given: BTreeSet<(&str, &String)> = pages
                .filter_map(|page| Some((page.request.what.method.as_str(), page.next.as_ref()?)))
                .collect();
            let refused = view.requests.iter().filter_map(|request| {
                let response = request.response.filter(|response| response.outcome.is_err())?;
                let cursor = cursor(request)?;
                // A cursor that was never given has a rule of its own.
                let known = given.contains(&(request.what.method.as_str(), &cursor));
                known.then_some((request, response))
            });
            let findings = refused.filter_map(|(request, response)| {
                let next = view.calls(&request.what.method).find(|next| next.place > response.place)?;
                let problem = "it goes on with a cursor, and the one before it was refused";
                Some(cursor(next).map(|_| next.finding(problem)))
            });
            Outcome::of(findings, "no cursor was refused, or the list was not asked for again")
        };
    "client-no-polling-by-ttl", [MODERN Should "server/utilities/caching#freshness-calculation"],
        "A client does not ask for a list again each time that ttlMs is over.",
        |view| {
            let mut findings = Vec::new();
            for pages in lists(view).values() {
                let mut times: BTreeMap<Option<&str>, Vec<&Page<'_, '_>>> = BTreeMap::new();
                for page in pages {
                    times.entry(page.cursor.as_deref()).or_default().push(page);
                }
                for same in times.values() {
                    let in_time = |pair: &&[&Page<'_, '_>]| pair[0].is_due_with(pair[1]);
                    let row = same.windows(2).rev().take_while(in_time).count();
                    let ttl = same.last().and_then(|page| page.ttl());
                    let Some(ttl) = ttl else { continue };
                    let looked = same.last().map_or(Duration::ZERO, |page| page.response.at) + ttl * 3
                        <= view.last_present;
                    let last = same.last().filter(|_| row >= SEVERAL);
                    if let Some(page) = last {
                        let problem = format!("it comes every {} ms, which is ttlMs", ttl.as_millis());
                        findings.push(Some(page.request.finding(problem)));
                    } else if looked {
                        findings.push(None);
                    }
                }
            }
            Outcome::of(findings, "no list had a ttlMs, or the client was gone before that was over")
        };
}

/// A page of a list.
struct Page<'t, 'a> {
    request: &'t ClientRequest<'a>,
    response: RecordedResponse<'a>,
    /// By which it was asked for.
    cursor: Option<String>,
    /// By which the next is.
    next: Option<String>,
}

impl Page<'_, '_> {
    fn ttl(&self) -> Option<Duration> {
        let ttl =
            member(self.response.outcome.as_ref().ok()?.raw(), "ttlMs")?.as_str().parse::<u32>().ok()?;
        // A shorter one cannot be told from asking without a pause.
        (ttl >= 200).then(|| Duration::from_millis(ttl.into()))
    }

    /// Whether the other was asked for when the time of this one was over.
    fn is_due_with(&self, next: &Self) -> bool {
        let Some(ttl) = self.ttl() else { return false };
        let waited = next.request.at.saturating_sub(self.response.at);
        waited >= ttl && waited <= ttl + (ttl / 10).max(Duration::from_millis(50))
    }
}

/// The pages that the client has got, list by list.
fn lists<'t, 'a>(view: &'t ClientView<'a>) -> BTreeMap<&'a str, Vec<Page<'t, 'a>>> {
    let mut lists: BTreeMap<&'a str, Vec<Page<'t, 'a>>> = BTreeMap::new();
    for request in view.requests.iter().filter(|request| is_list(&request.what.method)) {
        let Some(response) = request.response else { continue };
        let Ok(result) = response.outcome else { continue };
        let next = member(result.raw(), "nextCursor").filter(|next| next.kind() != Kind::Null);
        let next = next.map(|next| plain(&next).to_string());
        let page = Page { request, response, cursor: cursor(request), next };
        lists.entry(request.what.method.as_str()).or_default().push(page);
    }
    lists
}

fn is_list(method: &Method) -> bool {
    method.as_str().ends_with("/list")
        && method.facts().is_some_and(|facts| facts.direction != Direction::ToClient)
}

fn cursor(request: &ClientRequest<'_>) -> Option<String> {
    let cursor = member(request.what.params.as_ref()?.raw(), "cursor")?;
    (cursor.kind() != Kind::Null).then(|| plain(&cursor).to_string())
}
