//! The chapter of the server utilities: pages of lists, cache hints, completion and logging.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/pagination>
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion>
//! <https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/logging>

use std::collections::BTreeMap;

use mcpjoin_proto::types::meta::key;
use mcpjoin_proto::{Kind, Method, Raw, code};

use crate::base::{refused, refused_with};
use crate::features::{Page, listed, pages};
use crate::json::{elements, is_integer, member, strings, text};
use crate::rule::{Finding, Outcome, Source};
use crate::server_view::{OurRequest, ServerView};
use crate::trace::{Channel, Probe};

const LISTS: [Method; 4] =
    [Method::ListTools, Method::ListPrompts, Method::ListResources, Method::ListResourceTemplates];
const NOTHING: &str = "nothing was listed";

const ERRORS: &[Source] = sources![SINCE_SECOND Should "server/utilities/completion#error-handling"];
/// So many values a response may have.
const MOST: usize = 100;

/// The levels, the least urgent first.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
const NONE_CAME: &str = "no log message came";

rules! {
    pub(crate) RULES for Server in Chapter::Utilities;

    "next-cursor-is-string", [ALL Must "server/utilities/pagination#pagination-model"],
        "A nextCursor is a string.",
        |view| {
            let findings = all_pages(view).map(|page| {
                let cursor = member(page.result, "nextCursor")?;
                // Some write null where there is none; clients take it so.
                let good = matches!(cursor.kind(), Kind::String | Kind::Null);
                (!good).then(|| page.request.finding(format!("nextCursor is {cursor}"), page.response.line))
            });
            Outcome::of(findings, NOTHING)
        };
    "pages-end", [ALL Advice "server/utilities/pagination#implementation-guidelines"],
        "A list comes to its end: no page names a cursor that has led to an earlier page.",
        |view| {
            let findings = LISTS.iter().flat_map(|method| {
                let mut used = Vec::new();
                let list: Vec<Option<_>> = pages(view, method)
                    .map(|page| {
                        if matches!(page.request.probe, Probe::List | Probe::Templates) {
                            used.clear();
                        }
                        used.extend(cursor_of(page.request));
                        let next = text(page.result, "nextCursor").filter(|next| used.contains(next))?;
                        Some(
                            page.request.finding(format!("{next:?} has led here before"), page.response.line),
                        )
                    })
                    .collect();
                list
            });
            Outcome::of(findings, NOTHING)
        };
    "cursor-stable", [ALL Should "server/utilities/pagination#implementation-guidelines"],
        "The same cursor leads to the same page.",
        |view| {
            let again = view.results().filter(|(request, ..)| request.probe == Probe::SamePage);
            // Looked for once: one request may have many answers.
            let mut first = BTreeMap::new();
            let findings = again.filter_map(|(request, response, result)| {
                let method = request.method?;
                let first = first.entry(request.place).or_insert_with(|| {
                    let cursor = cursor_of(request);
                    let first = pages(view, method).find(|page| cursor_of(page.request) == cursor)?;
                    names(method, first.result)
                });
                // What has changed meanwhile is no other page.
                let differs = *first.as_ref()? != names(method, result.raw())?;
                Some(differs.then(|| request.finding("the page is another one", response.line)))
            });
            Outcome::of(findings, "no list had a second page")
        };
    "bad-cursor-code", [ALL Should "server/utilities/pagination#error-handling"],
        "A cursor that the server has never given brings the error -32602.",
        |view| refused(view, Probe::BadCursor, "no list was asked for by a cursor that does not exist");
    "cache-scope-of-pages", [MODERN Must "server/utilities/caching#interaction-with-pagination"],
        "All pages of a list have the same cacheScope.",
        |view| {
            let findings = LISTS.iter().flat_map(|method| {
                let mut first: Option<String> = None;
                let list: Vec<Option<_>> = pages(view, method)
                    .filter_map(|page| {
                        let scope = text(page.result, "cacheScope")?;
                        if page.request.probe != Probe::NextPage {
                            first = Some(scope);
                            return None;
                        }
                        let differs = first.as_ref() != Some(&scope);
                        let problem = || format!("it is {scope:?}, and of the first page another");
                        Some(differs.then(|| page.request.finding(problem(), page.response.line)))
                    })
                    .collect();
                list
            });
            Outcome::of(findings, "no list had a second page")
        };
    "completion-values", [ALL Must "server/utilities/completion#completeresult"],
        "A completion has at most 100 values, which are strings; total is an integer, hasMore true or false.",
        |view| {
            let findings = view.results().filter(|(request, ..)| request.probe == Probe::Complete).map(
                |(request, response, result)| {
                    let found = |problem: String| Some(request.finding(problem, response.line));
                    let Some(completion) = member(result.raw(), "completion") else {
                        return found("completion is missing".into());
                    };
                    match member(&completion, "values").and_then(|values| strings(&values)) {
                        None => return found("values is no array of strings".into()),
                        Some(values) if values.len() > MOST => {
                            return found(format!("there are {} values", values.len()));
                        }
                        Some(_) => {}
                    }
                    let total = member(&completion, "total");
                    if total.is_some_and(|total| !is_integer(&total)) {
                        return found("total is no integer".into());
                    }
                    let more = member(&completion, "hasMore").filter(|more| more.kind() != Kind::Bool)?;
                    found(format!("hasMore is {more}"))
                },
            );
            Outcome::of(
                findings,
                "no completion was asked for: none is declared, or nothing that has arguments",
            )
        };
    "completion-refused-as-undeclared", ERRORS,
        "A server that does not declare completions answers completion/complete with the error -32601.",
        |view| {
            refused_with(
                view,
                Probe::UndeclaredCompletion,
                code::METHOD_NOT_FOUND,
                "the server declares completions, or was not asked for one",
            )
        };
    "completion-unknown-prompt-code", ERRORS,
        "Completing an argument of a prompt that does not exist brings the error -32602.",
        |view| refused(view, Probe::UnknownCompletion, "no completion was asked for");
    "completion-missing-argument-code", ERRORS,
        "Asking for a completion without saying of which argument brings the error -32602.",
        |view| refused(view, Probe::NoArgument, "no completion was asked for");
    "unknown-log-level-code", [ALL Should "server/utilities/logging#error-handling"],
        "A level of log messages that does not exist brings the error -32602.",
        |view| refused(view, Probe::BadLevel, "no log messages were asked for: logging is not declared");
    "set-level-empty", [LEGACY Must "server/utilities/logging#message-flow"],
        "The answer to logging/setLevel is empty: nothing is in it but _meta.",
        |view| {
            let findings = view
                .results()
                .filter(|(request, ..)| request.probe == Probe::SetLevel)
                .filter_map(|(request, response, result)| {
                    let members = crate::json::members(result.raw())?;
                    let strange = members.keys().find(|name| *name != "_meta").map(str::to_owned);
                    Some(strange.map(|name| request.finding(format!("{name} is in it"), response.line)))
                });
            Outcome::of(findings, "no log messages were asked for: logging is not declared")
        };
    "log-message-complete", [ALL Must "server/utilities/logging#log-message-notifications"],
        "A log message has a level, one of the eight, and data; its logger is a string.",
        |view| {
            logged(view, |params, _| {
                let level = text(params, "level");
                if !level.is_some_and(|level| LEVELS.contains(&&*level)) {
                    return Some("its level is missing or none of the eight".into());
                }
                if member(params, "data").is_none() {
                    return Some("it has no data".into());
                }
                crate::features::is_kind(params, "logger", Kind::String)
            })
        };
    "log-level-kept", [
        LEGACY Advice "server/utilities/logging#setting-log-level",
        MODERN Advice "server/utilities/logging#per-request-log-level",
    ],
        "No log message comes that is less urgent than the level that was asked for.",
        |view| {
            let urgency = |level: &str| LEVELS.iter().position(|known| *known == level);
            let request: BTreeMap<usize, usize> = view
                .results()
                .filter(|(request, ..)| request.probe == Probe::SetLevel)
                .filter_map(|(request, response, _)| {
                    Some((response.place, urgency(&text(&request.params()?, "level")?)?))
                })
                .collect();
            logged(view, |params, place| {
                let (_, least) = request.range(..place).next_back()?;
                let level = text(params, "level")?;
                (urgency(&level)? < *least).then(|| format!("its level is {level:?}"))
            })
        };
    "log-asked-for", [MODERN Must "server/utilities/logging#per-request-log-level"],
        "No log message comes where no request has asked for them, in _meta under io.modelcontextprotocol/logLevel.",
        |view| {
            if view.run.channel == Channel::StreamableHttp {
                return Outcome::Skipped("over HTTP, notifications-relate says it");
            }
            let first = view.our_requests.iter().find(|request| request.meta(key::LOG_LEVEL).is_some());
            logged(view, |_, place| {
                let request = first.is_some_and(|first| first.place < place);
                (!request).then(|| "no request has asked for it".into())
            })
        };
}

fn all_pages<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = Page<'s, 'a>> {
    LISTS.iter().flat_map(move |method| pages(view, method))
}

/// The cursor that a request of ours has.
fn cursor_of(request: &OurRequest<'_>) -> Option<String> {
    text(&request.params()?, "cursor")
}

/// What is on a page, by the names.
fn names(method: &Method, result: &Raw) -> Option<Vec<Option<String>>> {
    let (list, _) = listed(method)?;
    let items = elements(&member(result, list)?)?;
    Some(items.iter().map(|item| text(item, "name")).collect())
}

/// Looks at the parameters of each log message.
fn logged(view: &ServerView<'_>, look: impl Fn(&Raw, usize) -> Option<String>) -> Outcome {
    let messages =
        view.notifications.iter().filter(|notification| notification.what.method == Method::LogMessage);
    let findings = messages.map(|notification| {
        let none = Raw::empty_object();
        let params = notification.what.params.as_ref().map_or(&none, |params| params.raw());
        look(params, notification.place)
            .map(|problem| Finding::new(problem, None, Some(notification.line.bytes())))
    });
    Outcome::of(findings, NONE_CAME)
}
