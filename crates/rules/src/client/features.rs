//! The features of a client: roots, sampling and elicitation, as responses in the legacy era, and as input that a repeated
//! request brings in the modern era.

use mcpjoin_proto::{Kind, Method, Needs, Payload, Raw, code};

use super::CROSSING;
use super::tasks::created;
use super::utilities::goes_on;
use crate::client_view::{Answer, ClientView, OurRequest};
use crate::json::{elements, float, has_kind, list, member, members, object, string, strings, text, texts};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::trace::Probe;

const REQUIREMENTS: &[Source] =
    sources![MODERN Must "basic/patterns/mrtr#client-requirements-basic-workflow"];
const NO_INPUT: &str = "the client sent no input responses";
/// The error of a sampling request that a person has rejected.
const USER_REJECTED: i64 = -1;
const NO_TOOLS_ASKED: &str = "the client received no sampling request with tools, or did not answer it";

rules! {
    pub(crate) RULES for Client in Chapter::ClientFeatures;

    "client-roots-declared", [ALL Must "client/roots#capabilities"],
        "A client that lists roots has declared the capability roots.",
        |view| declared(view, &Method::ListRoots);
    "client-sampling-declared", [ALL Must "client/sampling#capabilities"],
        "A client that answers sampling requests has declared the capability sampling.",
        |view| declared(view, &Method::CreateMessage);
    "client-elicitation-declared", [SINCE_THIRD Must "client/elicitation#capabilities"],
        "A client that answers elicitation requests has declared the capability elicitation.",
        |view| declared(view, &Method::Elicit);
    "client-elicitation-has-mode", [SINCE_FOURTH Must "client/elicitation#capabilities"],
        "A client that declares elicitation names form or url; an empty object means form.",
        else "the client declared no elicitation",
        |view| {
            let requests = view.requests.iter();
            let declaring = requests.filter(|it| view.is_modern() || it.what.method == Method::Initialize);
            declaring.filter_map(|request| {
                let elicitation = member(&view.capabilities(Some(request))?, "elicitation")?;
                let is_empty = members(&elicitation)?.is_empty();
                let has_mode = ["form", "url"].iter().any(|mode| has_kind(&elicitation, mode, Kind::Object));
                Some(request.finding_if(!is_empty && !has_mode, "elicitation contains neither form nor url"))
            })
        };
    "client-undeclared-refused", [LEGACY Should "client/roots#error-handling"],
        "A client without roots rejects roots/list with the error -32601.",
        else "the client received no roots/list",
        |view| {
            if view.declares(None, "roots") {
                return Outcome::Skipped("the client has roots");
            }
            view.answers_to(&Method::ListRoots).filter_map(|it| it.error_other_than(code::METHOD_NOT_FOUND))
        };
    "client-root-is-file", [ALL Must "client/roots#root"],
        "Each root of a client has a URI that begins with file://.",
        |view| replies(view, &Method::ListRoots, "the client listed no roots", |_, result| {
            let Some(roots) = list(result, "roots") else { return Some("roots is missing or not an array".into()) };
            roots.iter().find_map(|root| match text(root, "uri") {
                Some(uri) if uri.starts_with("file://") => None,
                Some(uri) => Some(format!("the URI of a root is {uri:?}")),
                None => Some("a root has no string `uri`".into()),
            })
        });
    "client-root-change-told", [LEGACY Must "client/roots#root-list-changes"],
        "A client that declares roots.listChanged sends a notification when its roots change.",
        |view| {
            if !view.declares(None, "roots.listChanged") {
                return Outcome::Skipped("the client has not declared roots.listChanged");
            }
            let lists = view.answers_to(&Method::ListRoots);
            let lists = lists.filter_map(|answer| Some((answer, roots(answer.response.result()?)?)));
            let lists: Vec<(Answer<'_, '_>, Vec<String>)> = lists.collect();
            let changes: Vec<_> = view.notified(&Method::RootsListChanged).collect();
            let findings = lists.windows(2).filter_map(|pair| {
                let [(before, old), (after, new)] = pair else { return None };
                if old == new {
                    return None;
                }
                // A notification during the first list may be about the roots after it.
                let next = changes.partition_point(|change| change.place <= before.request.place);
                let (before, after) = (before.response, after.response);
                if changes.get(next).is_some_and(|change| change.at <= after.at + CROSSING) {
                    return Some(None);
                }
                let problem = "the roots changed without a notification";
                // The notification may have crossed with the list.
                view.has_waited(after.at, CROSSING).then(|| {
                    Some(Finding::new(problem, Some(before.line.bytes()), Some(after.line.bytes())))
                })
            });
            Outcome::of(findings, "the roots did not change during the check")
        };
    "client-sampling-result", [ALL Must "client/sampling#creating-messages"],
        "A sampling result has a role, content and the name of the model.",
        |view| replies(view, &Method::CreateMessage, "the client returned no sampling result", |_, result| {
            if !matches!(text(result, "role").as_deref(), Some("user" | "assistant")) {
                return Some("role is neither user nor assistant".into());
            }
            if !has_kind(result, "model", Kind::String) {
                return Some("model is missing or not a string".into());
            }
            let content = member(result, "content");
            let may_be_array = Revisions::SINCE_FOURTH.contains(view.version());
            let blocks = match content.as_ref().map(Raw::kind) {
                Some(Kind::Object) => content.into_iter().collect(),
                Some(Kind::Array) if may_be_array => content.as_ref().and_then(elements).unwrap_or_default(),
                _ => return Some("content is missing or has the wrong type".into()),
            };
            let is_typed = blocks.iter().all(|block| has_kind(block, "type", Kind::String));
            (!is_typed).then(|| "a content block has no type".into())
        });
    "client-refuses-undeclared-sampling-tools", [SINCE_FOURTH Must "schema#createmessagerequestparams"],
        "A client that does not declare sampling.tools rejects sampling requests with tools.",
        |view| {
            if !view.is_modern() {
                if !view.declares(None, "sampling") || view.declares(None, "sampling.tools") {
                    return Outcome::Skipped("the client has no sampling, or supports tools");
                }
                let answers = view.answers_to(&Method::CreateMessage);
                let answers =
                    answers.filter(|it| it.request.what.params.as_ref().is_some_and(|params| has_tools(params.raw())));
                let findings = answers
                    .map(|answer| answer.finding_if(answer.response.outcome.is_ok(), "it returned a result"));
                return Outcome::of(findings, NO_TOOLS_ASKED);
            }
            let findings = view.retries().filter_map(|(retry, needed)| {
                let again = view.retry(retry);
                if !view.declares(Some(again), "sampling") || view.declares(Some(again), "sampling.tools") {
                    return None;
                }
                let mut requests = needed.requests_by(&Method::CreateMessage);
                let (key, _) =
                    requests.find(|(_, request)| member(request, "params").is_some_and(|it| has_tools(&it)))?;
                let has_content = member(retry.given.as_ref()?.get(key)?, "content").is_some();
                Some(again.finding_if(has_content, format_args!("a request with {key:?} returned a result")))
            });
            Outcome::of(findings, NO_TOOLS_ASKED)
        };
    "client-sampling-results-checked", [LAST_LEGACY Should "client/sampling#error-handling"],
        "A client rejects sampling requests with missing or mixed tool results with the error -32602.",
        else "the client does not support tools, or received no such request",
        |view| {
            let probes = [Probe::MissingToolResult, Probe::MixedToolResult];
            let answers = view.answers_to(&Method::CreateMessage);
            answers.filter(move |answer| probes.contains(&answer.request.probe)).filter_map(|answer| {
                let code = answer.response.error().map(|error| error.code);
                // A person may reject the request first.
                if code == Some(USER_REJECTED) {
                    return None;
                }
                let is_good = code == Some(code::INVALID_PARAMS);
                Some(answer.finding_if(!is_good, format_args!("it returned {}", answer.outcome())))
            })
        };
    "client-elicitation-action", [SINCE_THIRD Must "client/elicitation#response-actions"],
        "The action of an elicitation result is accept, decline or cancel, and its content is an object of \
         primitive values.",
        |view| replies(view, &Method::Elicit, "the client answered no elicitation request", |_, result| {
            if !matches!(text(result, "action").as_deref(), Some("accept" | "decline" | "cancel")) {
                return Some("action is not accept, decline or cancel".into());
            }
            let content = member(result, "content")?;
            let Some(fields) = members(&content) else { return Some("content is not an object".into()) };
            fields.iter().find_map(|(name, value)| {
                let is_plain = match value.kind() {
                    Kind::Null | Kind::Object => false,
                    Kind::Array => strings(value).is_some(),
                    _ => true,
                };
                (!is_plain).then(|| format!("{name:?} is not a primitive value"))
            })
        });
    "client-elicitation-conforms", [
        THIRD Should "client/elicitation#security-considerations",
        SINCE_FOURTH Should "client/elicitation#form-mode-security",
    ],
        "The content of an elicitation result conforms to the requested schema.",
        |view| replies(view, &Method::Elicit, "the client answered no elicitation request", |params, result| {
            if text(result, "action").as_deref() != Some("accept") {
                return None;
            }
            let schema = member(params?, "requestedSchema")?;
            let content = object(result, "content").unwrap_or_default();
            let required = texts(&schema, "required").unwrap_or_default();
            if let Some(name) = required.iter().find(|name| !content.contains_key(name)) {
                return Some(format!("{name:?} is required but missing"));
            }
            object(&schema, "properties")?.iter().find_map(|(name, schema)| {
                let value = content.get(name)?;
                (!conforms(schema, value)).then(|| format!("{name:?} is {value}, which the schema does not \
                    allow"))
            })
        });
    "client-refuses-undeclared-mode", [LAST_LEGACY Must "client/elicitation#error-handling"],
        "A client rejects elicitation in an undeclared mode with the error -32602.",
        else "the client received no elicitation request in an undeclared mode",
        |view| view.answers_to(&Method::Elicit).filter_map(|answer| {
            let mode = mode(answer.request);
            if !view.declares(None, "elicitation") || has_mode(view, &mode) {
                return None;
            }
            let is_good = answer.response.error().is_some_and(|error| error.code == code::INVALID_PARAMS);
            let outcome = answer.outcome();
            Some(answer
                .finding_if(!is_good, format_args!("elicitation in the mode {mode:?} returned {outcome}")))
        });
    "client-unknown-completion-ignored", [
        LAST_LEGACY Must "client/elicitation#completion-notifications-for-url-mode-elicitation",
    ],
        "A client ignores the completion of an unknown elicitation.",
        |view| goes_on(view, Probe::AfterElicitation, "notifications/elicitation/complete");
    "client-mode-may-lack", [LAST_LEGACY Must "client/elicitation#elicitation-requests"],
        "A client treats an elicitation request without a mode as a form.",
        else "the client received no form, or does not support forms",
        |view| view.answers_to(&Method::Elicit).filter_map(|answer| {
            if answer.request.param("mode").is_some() || !has_mode(view, "form") {
                return None;
            }
            let is_refused = answer.response.error().is_some_and(|error| error.code == code::INVALID_PARAMS);
            Some(answer.finding_if(is_refused, "it was rejected"))
        });
    "client-echoes-state", REQUIREMENTS,
        "A client repeats the requestState of a result unchanged when it sends the request again.",
        else NO_INPUT,
        |view| view.retries().filter(|(retry, _)| !retry.is_of_another).filter_map(|(retry, needed)| {
            let wanted = needed.state.as_ref()?;
            Some(match &retry.state {
                None => Some(view.retry(retry).finding("requestState is missing")),
                // The same request may have several such responses, and be repeated for each.
                Some(given) => view
                    .retry(retry)
                    .finding_if(given != wanted && !retry.is_known, "requestState differs from the one in \
                        the result"),
            })
        });
    "client-adds-no-state", REQUIREMENTS,
        "A client sends no requestState when the result had none.",
        else NO_INPUT,
        |view| {
            let has_state = |it: &&_| view.needed_for(it).is_some_and(|needed| needed.state.is_some());
            view.bringing().filter(move |retry| !has_state(retry)).map(|retry| {
                let is_invented = retry.state.is_some() && !retry.is_known;
                view.retry(retry).finding_if(is_invented, "no result had this requestState")
            })
        };
    "client-retry-has-new-id", REQUIREMENTS,
        "A request that is sent again with input responses has a new id.",
        else NO_INPUT,
        |view| view.retries().map(|(retry, needed)| {
            let again = view.retry(retry);
            let id = &again.what.id;
            again.finding_if(needed.id == id, format_args!("its id is {id}, as before"))
        });
    "client-answers-inputs", REQUIREMENTS,
        "A client sends a request again with a response to each input request, under the same key.",
        else NO_INPUT,
        |view| view.retries().filter_map(|(retry, needed)| {
            let wanted = needed.requests.as_ref()?;
            // With another known state, it is for an earlier response.
            if retry.state != needed.state && retry.is_known {
                return None;
            }
            let missing = wanted.keys().find(|key| !retry.brings(key));
            Some(missing.map(|key| view.retry(retry).finding(format_args!("inputResponses has no {key:?}"))))
        });
    "client-state-for-its-request-alone", REQUIREMENTS,
        "A client sends requestState and inputResponses only with the request that they belong to.",
        else NO_INPUT,
        |view| view.bringing().map(|retry| {
            let is_needed = view.needed_for(retry).is_some();
            let is_stray = !is_needed && (retry.state.is_none() || retry.is_known);
            view.retry(retry)
                .finding_if(is_stray || retry.is_of_another, "this request was not answered with input \
                    requests")
        });
}

/// Checks that the client has declared the feature of the results that it gives.
fn declared(view: &ClientView<'_>, method: &Method) -> Outcome {
    const NOTHING: &str = "the client sent none";
    let path = match method.facts().map(|facts| facts.needs) {
        Some(Needs::Client(path)) => path,
        _ => "",
    };
    if view.is_modern() {
        let findings = view.retries().filter_map(|(retry, needed)| {
            needed.requests_by(method).find(|(key, _)| retry.brings(key))?;
            let again = view.retry(retry);
            let is_declared = view.declares(Some(again), path);
            Some(again.finding_if(!is_declared, format_args!("{path} is not declared in this request")))
        });
        return Outcome::of(findings, NOTHING);
    }
    let (is_declared, tells) = (view.declares(None, path), view.declares(None, "roots.listChanged"));
    let answers = view.answers_to(method).filter(|answer| answer.response.outcome.is_ok());
    let problem = format_args!("{path} was not declared, but is supported");
    let answers = answers.map(|answer| answer.finding_if(!is_declared, problem));
    let notifications =
        view.methods().filter(|(sent, _)| *method == Method::ListRoots && **sent == Method::RootsListChanged);
    let notifications =
        notifications.map(|(_, line)| line.finding_if(!tells, "roots.listChanged was not declared"));
    Outcome::of(answers.chain(notifications), NOTHING)
}

/// The sorted addresses of roots.
fn roots(result: &Raw) -> Option<Vec<String>> {
    let mut roots: Vec<String> = list(result, "roots")?.iter().filter_map(|root| text(root, "uri")).collect();
    roots.sort_unstable();
    Some(roots)
}

fn has_tools(params: &Raw) -> bool {
    ["tools", "toolChoice"].iter().any(|name| member(params, name).is_some_and(|it| it.kind() != Kind::Null))
}

/// Checks every result for a request of that method: `check` takes the parameters and the result, and returns their problem.
fn replies(
    view: &ClientView<'_>,
    method: &Method,
    nothing: &'static str,
    check: impl Fn(Option<&Raw>, &Raw) -> Option<String>,
) -> Outcome {
    let replies = view.replies(method);
    // A task is not a result yet.
    let replies = replies.iter().filter(|(_, result, ..)| created(result).is_none());
    let findings = replies.map(|(params, result, request, response)| {
        let problem = check(params.as_ref(), result)?;
        Some(Finding::new(problem, Some(request.bytes()), Some(response.bytes())))
    });
    Outcome::of(findings, nothing)
}

/// The mode of a question; the default is a form.
fn mode(request: &OurRequest<'_>) -> String {
    let params = request.what.params.as_ref().map(Payload::raw);
    params.and_then(|params| text(params, "mode")).unwrap_or_else(|| "form".into())
}

/// Whether the client has declared a mode; elicitation without modes is a form.
fn has_mode(view: &ClientView<'_>, mode: &str) -> bool {
    view.declares(None, &format!("elicitation.{mode}"))
        || mode == "form" && view.declares(None, "elicitation") && !view.declares(None, "elicitation.url")
}

/// Whether a plain value conforms to the schema of a field: its type, its choices and its limits.
fn conforms(schema: &Raw, value: &Raw) -> bool {
    let is_typed = match text(schema, "type").as_deref() {
        Some("string") => value.kind() == Kind::String,
        Some("number") => value.kind() == Kind::Number,
        Some("integer") => value.as_str().parse::<f64>().is_ok_and(|value| value.fract() == 0.0),
        Some("boolean") => matches!(value.as_str(), "true" | "false"),
        Some("array") => {
            let Some(values) = elements(value) else { return false };
            return member(schema, "items").is_none_or(|items| values.iter().all(|it| conforms(&items, it)));
        }
        _ => true,
    };
    let is_outside = |value: f64, least, most| {
        float(schema, least).is_some_and(|least| value < least)
            || float(schema, most).is_some_and(|most| value > most)
    };
    let is_outside = match string(value) {
        Some(text) => is_outside(text.chars().count() as f64, "minLength", "maxLength"),
        None => value.as_str().parse().is_ok_and(|value| is_outside(value, "minimum", "maximum")),
    };
    is_typed && !is_outside && is_choice(schema, value)
}

/// Whether a value is one of the choices of a schema, if it has choices.
fn is_choice(schema: &Raw, value: &Raw) -> bool {
    let is_same = |choice: &Raw| {
        choice == value || string(choice).is_some_and(|choice| string(value).as_ref() == Some(&choice))
    };
    let titled = member(schema, "oneOf").or_else(|| member(schema, "anyOf")).as_ref().and_then(elements);
    let is_titled = |choice: &Raw| member(choice, "const").is_none_or(|choice| is_same(&choice));
    list(schema, "enum").is_none_or(|choices| choices.iter().any(is_same))
        && titled.is_none_or(|choices| choices.iter().any(is_titled))
}
