//! How a client reads lists of several pages, and how long it caches them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcpjoin_proto::{Direction, Kind, Method};

use crate::client_view::{ClientRequest, ClientView, RecordedResponse};
use crate::json::{member, plain};
use crate::rule::{Evidence, Outcome};

const GUIDELINES: &str = "server/utilities/pagination#implementation-guidelines";
/// A client that repeats a request this often does not do so by chance.
const MIN_REPEATS: usize = 3;
/// A client does within this time what it does because of a response.
const SOON: Duration = Duration::from_secs(1);
/// A shorter `ttlMs` cannot be told from repeating without a pause.
const MIN_TTL: Duration = Duration::from_millis(200);

rules! {
    pub(crate) RULES for Client in Chapter::Utilities;

    "client-lists-all-pages", [ALL Should GUIDELINES],
        "A client reads the second page of a list that has more than one.",
        else "no list had a second page, or the client read only the first",
        |view| lists(view).into_values().filter_map(|pages| {
            if pages.iter().any(|page| page.cursor.is_some()) {
                return Some(None);
            }
            // A client that reads the first page alone may have found there what it needs. Requests within a short time
            // count as one.
            let mut looks: Vec<&Page<'_, '_>> = Vec::new();
            for page in pages.iter().filter(|page| page.next.as_deref().is_some_and(|next| next != EMPTY)) {
                let is_soon = |before: &&Page<'_, '_>| page.request.at < before.response.at + SOON;
                if !looks.last().is_some_and(is_soon) {
                    looks.push(page);
                }
            }
            let (count, last) = (looks.len(), looks.last().filter(|_| looks.len() >= MIN_REPEATS)?);
            let problem = format!("the first page was requested {count} times, and no other page");
            Some(Some(last.request.finding(problem)))
        });
    "client-stops-without-cursor", [ALL Should GUIDELINES],
        "A client treats a page without nextCursor as the last one.",
        else "the client read no list to its end",
        |view| lists(view).into_values().filter_map(|pages| {
            pages.iter().find(|page| page.next.is_none())?;
            // The same page again and again, as if another would follow.
            let mut rows = pages.windows(MIN_REPEATS);
            // A page that is no longer fresh may be requested again.
            let is_repeated = |before: &Page<'_, '_>, page: &Page<'_, '_>| {
                before.next.is_none()
                    && page.next.is_none()
                    && page.cursor.is_some()
                    && page.cursor == before.cursor
                    && page.request.at < before.response.at + SOON
            };
            let row = rows.find(|row| row.is_sorted_by(is_repeated));
            Some(row.and_then(|row| Some(row.last()?.request.finding(format_args!(
                "the last page was requested {MIN_REPEATS} times in a row"
            )))))
        });
    "client-empty-cursor-goes-on", [MODERN Must GUIDELINES],
        "A client that reads a list page by page uses an empty cursor like any other.",
        else "no page had an empty cursor, or the client reads only first pages",
        |view| {
            let lists = lists(view);
            let is_empty = |cursor: &Option<String>| cursor.as_deref() == Some(EMPTY);
            if lists.values().flatten().any(|page| is_empty(&page.cursor)) {
                return Outcome::Passed;
            }
            // A client may want one page alone, and may stop anywhere, but not twice at an empty cursor.
            let stops = lists.values().flatten().filter(|page| is_empty(&page.next) && page.cursor.is_some());
            let stops = stops.filter(|page| {
                let has_next = view.requests.last().is_some_and(|next| next.place > page.response.place);
                has_next && view.has_waited(page.response.at, SOON)
            });
            let stops: Vec<&ClientRequest<'_>> = stops.map(|page| page.request).collect();
            let last = stops.last().filter(|_| stops.len() > 1);
            last.map(|it| Some(it.finding("the next page after the empty cursor was never requested")))
        };
    "client-restarts-list-after-bad-cursor", [MODERN Should "server/utilities/caching#interaction-with-pagination"],
        "After a rejected cursor, a client reads the list from its beginning.",
        else "no cursor was rejected, or the list was not requested again",
        |view| {
            let pages = lists(view).into_values().flatten();
            let given = pages.filter_map(|page| Some((page.request.what.method.as_str(), page.next?)));
            let given: BTreeSet<(&str, String)> = given.collect();
            view.requests.iter().filter_map(move |request| {
                let response = request.response.filter(|response| response.error().is_some())?;
                // An unknown cursor has a rule of its own.
                if !given.contains(&(request.what.method.as_str(), cursor(request)?)) {
                    return None;
                }
                let next = view.calls(&request.what.method).find(|next| next.place > response.place)?;
                let problem = "it continues with a cursor, although the one before was rejected";
                Some(next.finding_if(cursor(next).is_some(), problem))
            })
        };
    "client-no-polling-by-ttl", [MODERN Should "server/utilities/caching#freshness-calculation"],
        "A client does not request a list again each time ttlMs expires.",
        else "no list had a ttlMs, or the client disconnected before it expired",
        |view| {
            let mut findings = Vec::new();
            for pages in lists(view).values() {
                let mut by_cursor: BTreeMap<Option<&str>, Vec<&Page<'_, '_>>> = BTreeMap::new();
                for page in pages {
                    by_cursor.entry(page.cursor.as_deref()).or_default().push(page);
                }
                for same in by_cursor.values() {
                    let Some((last, ttl)) = same.last().and_then(|last| Some((last, last.ttl()?))) else { continue };
                    let repeats = same.windows(2).rev().take_while(|pair| pair[0].is_due_with(pair[1])).count();
                    if repeats >= MIN_REPEATS {
                        let interval = ttl.as_millis();
                        let problem = format!("it is repeated every {interval} ms, which is ttlMs");
                        findings.push(Some(last.request.finding(problem)));
                    } else if last.response.at + ttl * 3 <= view.last_present {
                        findings.push(None);
                    }
                }
            }
            findings
        };
}

/// The empty cursor, as JSON.
const EMPTY: &str = "\"\"";

/// A page of a list.
struct Page<'t, 'a> {
    request: &'t ClientRequest<'a>,
    response: RecordedResponse<'a>,
    /// The cursor in the request, and the cursor of the next page.
    cursor: Option<String>,
    next: Option<String>,
}

impl Page<'_, '_> {
    fn ttl(&self) -> Option<Duration> {
        let ttl = member(self.response.result()?, "ttlMs")?.as_str().parse::<u32>().ok()?;
        Some(Duration::from_millis(ttl.into())).filter(|ttl| *ttl >= MIN_TTL)
    }

    /// Whether the other page was requested when the `ttlMs` of this one was over.
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
        let Some(result) = response.result() else { continue };
        let next = member(result, "nextCursor").filter(|next| next.kind() != Kind::Null);
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

/// The cursor in a request, as JSON.
fn cursor(request: &ClientRequest<'_>) -> Option<String> {
    let cursor = request.param("cursor").filter(|cursor| cursor.kind() != Kind::Null)?;
    Some(plain(&cursor).to_string())
}
