//! The chapter of the server utilities: pages of lists, cache hints, completion and logging.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion>
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>

use std::collections::BTreeMap;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Raw, code};

use crate::base::{refused, refused_with};
use crate::features::{LISTS, is_kind, listed, pages};
use crate::json::{is_integer, list, member, members, text, texts};
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::server_view::{OurRequest, Reply, ServerView};
use crate::trace::Probe;

const ERRORS: &[Source] = sources![SINCE_SECOND Should "server/utilities/completion#error-handling"];
const NOTHING: &str = "nothing was listed";
const NO_SECOND_PAGE: &str = "no list had a second page";
const NO_COMPLETION: &str = "no completion was requested";
const NO_LOGGING: &str = "no log messages were requested: logging is not declared";

/// How many values a completion may have.
const MAX_COMPLETION_VALUES: usize = 100;

/// The levels of log messages, the least urgent first.
pub(crate) const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

rules! {
    pub(crate) RULES for Server in Chapter::Utilities;

    "next-cursor-is-string", [ALL Must "server/utilities/pagination#pagination-model"],
        "A nextCursor is a string.",
        else NOTHING,
        |view| LISTS.iter().flat_map(|method| pages(view, method)).map(|(reply, page)| {
            let cursor = member(page, "nextCursor")?;
            // Some servers write null for no cursor; clients accept that.
            let is_good = matches!(cursor.kind(), Kind::String | Kind::Null);
            reply.finding_if(!is_good, format_args!("nextCursor is {cursor}"))
        });
    "pages-end", [ALL Advice "server/utilities/pagination#implementation-guidelines"],
        "A list ends: no page has a cursor that led to an earlier page.",
        else NOTHING,
        |view| LISTS.iter().flat_map(|method| {
            let mut used = Vec::new();
            pages(view, method).map(move |(reply, page)| {
                if matches!(reply.request.probe, Probe::List | Probe::Templates) {
                    used.clear();
                }
                used.extend(cursor_of(reply.request));
                let next = text(page, "nextCursor").filter(|next| used.contains(next))?;
                Some(reply.finding(format_args!("{next:?} led to this page before")))
            })
        });
    "cursor-stable", [ALL Should "server/utilities/pagination#implementation-guidelines"],
        "The same cursor leads to the same page.",
        else NO_SECOND_PAGE,
        |view| {
            // Looked up once for each request, which may have many responses.
            let mut first = BTreeMap::new();
            view.results_of(Probe::SamePage).filter_map(move |(reply, result)| {
                let method = reply.request.method?;
                let first = first.entry(reply.request.place).or_insert_with(|| {
                    let cursor = cursor_of(reply.request);
                    let (_, first) = pages(view, method).find(|(page, _)| cursor_of(page.request) == cursor)?;
                    names(method, first)
                });
                let differs = *first.as_ref()? != names(method, result)?;
                Some(reply.finding_if(differs, "the page differs"))
            })
        };
    "bad-cursor-code", [ALL Should "server/utilities/pagination#error-handling"],
        "An invalid cursor returns the error -32602.",
        |view| refused(view, Probe::BadCursor, "no list was requested with an invalid cursor");
    "cache-scope-of-pages", [MODERN Must "server/utilities/caching#interaction-with-pagination"],
        "All pages of a list have the same cacheScope.",
        else NO_SECOND_PAGE,
        |view| LISTS.iter().flat_map(|method| {
            let mut first: Option<String> = None;
            pages(view, method).filter_map(move |(reply, page)| {
                let scope = text(page, "cacheScope")?;
                if reply.request.probe != Probe::NextPage {
                    first = Some(scope);
                    return None;
                }
                let differs = first.as_ref() != Some(&scope);
                Some(reply.finding_if(differs, format_args!("it is {scope:?}, and different on the first \
                    page")))
            })
        });
    "completion-values", [ALL Must "server/utilities/completion#completeresult"],
        "A completion has at most 100 values, which are strings; total is an integer, hasMore true or false.",
        else "no completion was requested: none is declared, or nothing has arguments",
        |view| view.results_of(Probe::Complete).map(|(reply, result)| completion_fault(reply, result));
    "completion-refused-as-undeclared", ERRORS,
        "A server that does not declare completions rejects completion/complete with the error -32601.",
        |view| {
            let nothing = "the server declares completions, or received no completion/complete";
            refused_with(view, Probe::UndeclaredCompletion, code::METHOD_NOT_FOUND, nothing)
        };
    "completion-unknown-prompt-code", ERRORS,
        "Completing an argument of an unknown prompt returns the error -32602.",
        |view| refused(view, Probe::UnknownCompletion, NO_COMPLETION);
    "completion-missing-argument-code", ERRORS,
        "A completion request without an argument returns the error -32602.",
        |view| refused(view, Probe::NoArgument, NO_COMPLETION);
    "unknown-log-level-code", [ALL Should "server/utilities/logging#error-handling"],
        "An unknown log level returns the error -32602.",
        |view| refused(view, Probe::BadLevel, NO_LOGGING);
    "set-level-empty", [LEGACY Must "server/utilities/logging#message-flow"],
        "The result of logging/setLevel is empty except for _meta.",
        else NO_LOGGING,
        |view| view.results_of(Probe::SetLevel).filter_map(|(reply, result)| {
            let members = members(result)?;
            let strange = members.keys().find(|name| *name != "_meta");
            Some(strange.map(|name| reply.finding(format_args!("it contains {name}"))))
        });
    "log-message-complete", [ALL Must "server/utilities/logging#log-message-notifications"],
        "A log message has one of the eight levels, and data; its logger is a string.",
        |view| logged(view, |params, _| {
            if !text(params, "level").is_some_and(|level| LEVELS.contains(&&*level)) {
                return Some("its level is missing or not one of the eight".into());
            }
            if member(params, "data").is_none() {
                return Some("it has no data".into());
            }
            is_kind(params, "logger", Kind::String)
        });
    "log-level-kept", [
        LEGACY Advice "server/utilities/logging#setting-log-level",
        MODERN Advice "server/utilities/logging#per-request-log-level",
    ],
        "No log message is below the requested level.",
        |view| {
            let urgency = |level: &str| LEVELS.iter().position(|known| *known == level);
            let levels = view.results_of(Probe::SetLevel).filter_map(|(reply, _)| {
                Some((reply.response.place, urgency(&text(&reply.request.params()?, "level")?)?))
            });
            let levels: BTreeMap<usize, usize> = levels.collect();
            logged(view, |params, place| {
                let (_, least) = levels.range(..place).next_back()?;
                let level = text(params, "level")?;
                (urgency(&level)? < *least).then(|| format!("its level is {level:?}"))
            })
        };
    "log-asked-for", [MODERN Must "server/utilities/logging#per-request-log-level"],
        "Log messages are sent only for requests that ask for them, in _meta under \
         io.modelcontextprotocol/logLevel.",
        |view| {
            if view.run.is_http() {
                return Outcome::Skipped("over HTTP, the rule notifications-relate checks this");
            }
            let first = view.our_requests.iter().find(|request| request.meta(key::LOG_LEVEL).is_some());
            logged(view, |_, place| {
                let is_asked_for = first.is_some_and(|first| first.place < place);
                (!is_asked_for).then(|| "no request asked for it".into())
            })
        };
}

fn completion_fault(reply: Reply<'_, '_>, result: &Raw) -> Option<Finding> {
    let Some(completion) = member(result, "completion") else {
        return Some(reply.finding("completion is missing"));
    };
    let Some(values) = texts(&completion, "values") else {
        return Some(reply.finding("values is not an array of strings"));
    };
    if values.len() > MAX_COMPLETION_VALUES {
        return Some(reply.finding(format_args!("there are {} values", values.len())));
    }
    if member(&completion, "total").is_some_and(|total| !is_integer(&total)) {
        return Some(reply.finding("total is not an integer"));
    }
    let more = member(&completion, "hasMore").filter(|more| more.kind() != Kind::Bool)?;
    Some(reply.finding(format_args!("hasMore is {more}")))
}

/// The cursor that a request of ours has.
fn cursor_of(request: &OurRequest<'_>) -> Option<String> {
    text(&request.params()?, "cursor")
}

/// The names of the items on a page.
fn names(method: &Method, result: &Raw) -> Option<Vec<Option<String>>> {
    Some(list(result, listed(method).0)?.iter().map(|item| text(item, "name")).collect())
}

/// Checks the parameters of each log message: `check` takes them with the place of the message, and returns their problem.
fn logged(view: &ServerView<'_>, check: impl Fn(&Raw, usize) -> Option<String>) -> Outcome {
    let none = Raw::empty_object();
    let findings = view.notified(&Method::LogMessage).map(|notification| {
        let params = notification.what.params.as_ref().map_or(&none, |params| params.raw());
        check(params, notification.place).map(|problem| notification.finding(problem))
    });
    Outcome::of(findings, "received no log message")
}
