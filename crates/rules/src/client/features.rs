//! The features of a client: roots, sampling and elicitation, as responses in the legacy era, and as input that a repeated
//! request brings in the modern era.

use mcpjoin_proto::{Kind, Method, Needs, Payload, Raw, code};

use super::cancelling::goes_on;
use super::lifecycle::{has, sent};
use super::tasks::created;
use super::utilities::{CROSSING, is_string};
use crate::client_view::{
    ClientNotification, ClientRequest, ClientView, InputRequired, OurRequest, RecordedResponse, Retry,
};
use crate::json::{elements, member, members, strings, text};
use crate::revisions::Revisions;
use crate::rule::{Finding, Outcome, Source};
use crate::trace::Probe;

const REQUIREMENTS: &[Source] = sources![
    MODERN Must "basic/patterns/mrtr#client-requirements-basic-workflow",
];
const NOTHING: &str = "the client brought nothing that an answer had asked for";

rules! {
    pub(crate) RULES for Client in Chapter::ClientFeatures;

    "client-roots-declared", [ALL Must "client/roots#capabilities"],
        "A client that gives its roots has declared the capability.",
        |view| declared(view, &Method::ListRoots);
    "client-sampling-declared", [ALL Must "client/sampling#capabilities"],
        "A client that gives messages of its model has declared the capability.",
        |view| declared(view, &Method::CreateMessage);
    "client-elicitation-declared", [SINCE_THIRD Must "client/elicitation#capabilities"],
        "A client that gives what its user enters has declared the capability.",
        |view| declared(view, &Method::Elicit);
    "client-elicitation-has-mode", [SINCE_FOURTH Must "client/elicitation#capabilities"],
        "A client that declares elicitation has a form or a URL, or says nothing more, which means a form.",
        |view| {
            let says = view
                .requests
                .iter()
                .filter(|request| view.is_modern() || request.what.method == Method::Initialize);
            let findings = says.filter_map(|request| {
                let declared = view.capabilities(Some(request))?;
                let modes = members(&member(&declared, "elicitation")?)?;
                let has = |mode| modes.get(mode).is_some_and(|mode| mode.kind() == Kind::Object);
                let wrong = !modes.is_empty() && !has("form") && !has("url");
                Some(wrong.then(|| request.finding("elicitation has neither form nor url")))
            });
            Outcome::of(findings, "the client declared no elicitation")
        };
    "client-undeclared-refused", [LEGACY Should "client/roots#error-handling"],
        "A client without roots answers roots/list with the error -32601.",
        |view| {
            if declares(view, None, "roots") {
                return Outcome::Skipped("the client has roots");
            }
            let findings = answered(view, &Method::ListRoots).filter_map(|(our_request, response)| {
                let code = response.outcome.as_ref().err()?.code;
                Some((code != code::METHOD_NOT_FOUND).then(|| {
                    our_request
                        .finding(format!("the code is {code}, not {}", code::METHOD_NOT_FOUND), response.line)
                }))
            });
            Outcome::of(findings, "the client was not asked for roots")
        };
    "client-root-is-file", [ALL Must "client/roots#root"],
        "Each root of a client has a URI, which begins with file://.",
        |view| {
            replies(view, &Method::ListRoots, "the client named no roots", |_, result| {
                let Some(roots) = member(result, "roots").as_ref().and_then(elements) else {
                    return Some("roots is missing or no array".into());
                };
                roots.iter().find_map(|root| match text(root, "uri") {
                    Some(uri) if uri.starts_with("file://") => None,
                    Some(uri) => Some(format!("a root is {uri:?}")),
                    None => Some("a root has no uri that is a string".into()),
                })
            })
        };
    "client-root-change-told", [LEGACY Must "client/roots#root-list-changes"],
        "A client that has declared it tells when its roots have changed.",
        |view| {
            if !declares(view, None, "roots.listChanged") {
                return Outcome::Skipped("the client has not declared roots.listChanged");
            }
            let looks: Vec<(usize, RecordedResponse<'_>, Vec<String>)> = answered(view, &Method::ListRoots)
                .filter_map(|(our_request, response)| {
                    Some((our_request.place, response, roots(response.outcome.as_ref().ok()?.raw())?))
                })
                .collect();
            let changes: Vec<&ClientNotification<'_>> = view
                .notifications
                .iter()
                .filter(|notification| notification.what.method == Method::RootsListChanged)
                .collect();
            let findings = looks.windows(2).filter_map(|pair| {
                let [(request, before, old), (_, after, new)] = pair else { return None };
                if old == new {
                    return None;
                }
                // What is told while the first list is under way may be of what comes after it.
                let next =
                    changes.get(changes.partition_point(|notification| notification.place <= *request));
                let is_notified = next.is_some_and(|notification| notification.at <= after.at + CROSSING);
                // It may be on its way.
                let waited = view.last_present.saturating_sub(after.at) >= CROSSING;
                let problem = || {
                    let problem = "its roots are others than before, and it has not told";
                    Finding::new(problem, Some(before.line.bytes()), Some(after.line.bytes()))
                };
                if is_notified { Some(None) } else { waited.then(|| Some(problem())) }
            });
            Outcome::of(findings, "its roots did not change while it was looked at")
        };
    "client-sampling-result", [ALL Must "client/sampling#creating-messages"],
        "A message of a client's model has a role, a content and the name of the model.",
        |view| {
            let many = Revisions::SINCE_FOURTH.contains(&view.run.version);
            replies(view, &Method::CreateMessage, "the client gave no message", |_, result| {
                if !matches!(text(result, "role").as_deref(), Some("user" | "assistant")) {
                    return Some("role is neither user nor assistant".into());
                }
                if !is_string(member(result, "model").as_ref()) {
                    return Some("model is missing or no string".into());
                }
                let content = member(result, "content");
                let blocks = match content.as_ref().map(Raw::kind) {
                    Some(Kind::Object) => content.into_iter().collect(),
                    Some(Kind::Array) if many => content.as_ref().and_then(elements).unwrap_or_default(),
                    _ => return Some("content is missing or no content".into()),
                };
                let typed = blocks.iter().all(|block| is_string(member(block, "type").as_ref()));
                (!typed).then(|| "a content has no type".into())
            })
        };
    "client-refuses-undeclared-sampling-tools", [SINCE_FOURTH Must "schema#createmessagerequestparams"],
        "A client that has not declared sampling.tools answers a request for a message with tools with an error.",
        |view| {
            if !view.is_modern() {
                if !declares(view, None, "sampling") || declares(view, None, "sampling.tools") {
                    return Outcome::Skipped("the client has no sampling, or takes tools");
                }
                let request = answered(view, &Method::CreateMessage).filter(|(our_request, _)| {
                    our_request.what.params.as_ref().is_some_and(|params| has_tools(params.raw()))
                });
                let findings = request.map(|(our_request, response)| {
                    response
                        .outcome
                        .is_ok()
                        .then(|| our_request.finding("it brought a result", response.line))
                });
                return Outcome::of(
                    findings,
                    "the client was asked for no message with tools, or did not answer",
                );
            }
            let findings = view.retries().filter_map(|(retry, needed)| {
                let again = &view.requests[retry.request];
                if !declares(view, Some(again), "sampling") || declares(view, Some(again), "sampling.tools") {
                    return None;
                }
                let mut questions = needed.requests.iter().flat_map(|request| request.iter());
                let (key, _) = questions.find(|(_, question)| {
                    text(question, "method").as_deref() == Some(Method::CreateMessage.as_str())
                        && member(question, "params").is_some_and(|params| has_tools(&params))
                })?;
                let given = retry.given.as_ref()?.get(key)?;
                let problem = || again.finding(format!("{key:?} brought a message"));
                Some(member(given, "content").map(|_| problem()))
            });
            Outcome::of(findings, "the client was asked for no message with tools, or did not answer")
        };
    "client-sampling-results-checked", [LAST_LEGACY Should "client/sampling#error-handling"],
        "A client refuses messages in which the result of a tool is missing, or among other content, with -32602.",
        |view| {
            let probes = [Probe::MissingToolResult, Probe::MixedToolResult];

            let request = answered(view, &Method::CreateMessage);
            let findings = request.filter(|(our_request, _)| probes.contains(&our_request.probe)).map(
                |(our_request, response)| {
                    let code = response.outcome.as_ref().err().map(|error| error.code);
                    let what = || code.map_or_else(|| "a result".into(), |code| format!("the error {code}"));
                    (code != Some(code::INVALID_PARAMS))
                        .then(|| our_request.finding(format!("it brought {}", what()), response.line))
                },
            );
            Outcome::of(findings, "the client takes no tools, or was not asked so")
        };
    "client-elicitation-action", [SINCE_THIRD Must "client/elicitation#response-actions"],
        "What a user makes of a question is accept, decline or cancel, and what is entered is an object of plain \
         values.",
        |view| {
            replies(view, &Method::Elicit, "the client answered no question", |_, result| {
                let action = text(result, "action");
                if !matches!(action.as_deref(), Some("accept" | "decline" | "cancel")) {
                    return Some("action is none of accept, decline and cancel".into());
                }
                let content = member(result, "content")?;
                let Some(fields) = members(&content) else { return Some("content is no object".into()) };
                fields.iter().find_map(|(name, value)| {
                    let plain = match value.kind() {
                        Kind::Null | Kind::Object => false,
                        Kind::Array => strings(value).is_some(),
                        _ => true,
                    };
                    (!plain).then(|| format!("{name:?} is no plain value"))
                })
            })
        };
    "client-elicitation-conforms", [
        THIRD Should "client/elicitation#security-considerations",
        SINCE_FOURTH Should "client/elicitation#form-mode-security",
    ],
        "What a user enters is what the schema of the question asks for.",
        |view| {
            replies(view, &Method::Elicit, "the client answered no question", |params, result| {
                if text(result, "action").as_deref() != Some("accept") {
                    return None;
                }
                let schema = member(params?, "requestedSchema")?;
                let content = member(result, "content").as_ref().and_then(members).unwrap_or_default();
                let required = member(&schema, "required").as_ref().and_then(strings).unwrap_or_default();
                if let Some(name) = required.iter().find(|name| !content.contains_key(name)) {
                    return Some(format!("{name:?} is required and missing"));
                }
                let properties = members(&member(&schema, "properties")?)?;
                properties.iter().find_map(|(name, schema)| {
                    let value = content.get(name)?;
                    (!conforms(schema, value))
                        .then(|| format!("{name:?} is {value}, which its schema does not allow"))
                })
            })
        };
    "client-refuses-undeclared-mode", [LAST_LEGACY Must "client/elicitation#error-handling"],
        "A client answers a question in a mode that it has not declared with the error -32602.",
        |view| {
            let findings = answered(view, &Method::Elicit).filter_map(|(our_request, response)| {
                let mode = mode(our_request);
                if !declares(view, None, "elicitation") || has_mode(view, &mode) {
                    return None;
                }
                let code = response.outcome.as_ref().err().map(|error| error.code);
                Some((code != Some(code::INVALID_PARAMS)).then(|| {
                    let what = code.map_or_else(|| "a result".into(), |code| format!("the error {code}"));
                    our_request
                        .finding(format!("a question in the mode {mode:?} brought {what}"), response.line)
                }))
            });
            Outcome::of(findings, "the client was asked in no mode that it has not declared")
        };
    "client-unknown-completion-ignored", [
        LAST_LEGACY Must "client/elicitation#completion-notifications-for-url-mode-elicitation",
    ],
        "A client passes over the news that somebody has done what it knows of no question.",
        |view| goes_on(view, Probe::AfterElicitation, "notifications/elicitation/complete");
    "client-mode-may-lack", [LAST_LEGACY Must "client/elicitation#elicitation-requests"],
        "A client takes a question without a mode for a form.",
        |view| {
            let findings = answered(view, &Method::Elicit).filter_map(|(our_request, response)| {
                let named = our_request.what.params.as_ref().and_then(|params| member(params.raw(), "mode"));
                if named.is_some() || !has_mode(view, "form") {
                    return None;
                }
                let code = response.outcome.as_ref().err().map(|error| error.code);
                Some(
                    (code == Some(code::INVALID_PARAMS))
                        .then(|| our_request.finding("it was refused", response.line)),
                )
            });
            Outcome::of(findings, "the client was asked for no form, or has none")
        };
    "client-echoes-state", REQUIREMENTS,
        "A client gives the requestState of an answer back as it was, when it sends the request again.",
        |view| {
            let findings = view.retries().filter_map(|(retry, needed)| {
                let wanted = needed.state.as_ref()?;
                if retry.is_of_another {
                    return None;
                }
                let problem = match &retry.state {
                    None => Some("requestState is missing"),
                    // A request may have been answered so several times, and be sent again for each.
                    Some(given) if given != wanted && !retry.is_known => {
                        Some("requestState is not the one that came")
                    }
                    Some(_) => None,
                };
                Some(problem.map(|problem| view.requests[retry.request].finding(problem)))
            });
            Outcome::of(findings, NOTHING)
        };
    "client-adds-no-state", REQUIREMENTS,
        "A client sends no requestState when none came.",
        |view| {
            let findings = view.bringing().filter_map(|retry| {
                if view.needed_for(retry).is_some_and(|needed| needed.state.is_some()) {
                    return None;
                }
                let invented = retry.state.is_some() && !retry.is_known;
                Some(
                    invented.then(|| view.requests[retry.request].finding("no answer had this requestState")),
                )
            });
            Outcome::of(findings, NOTHING)
        };
    "client-retry-has-new-id", REQUIREMENTS,
        "A request that is sent again with what was asked for has another id.",
        |view| {
            let findings = view.retries().map(|(retry, needed)| {
                let again = &view.requests[retry.request];
                (*needed.id == again.what.id)
                    .then(|| again.finding(format!("its id is {}, as before", again.what.id)))
            });
            Outcome::of(findings, NOTHING)
        };
    "client-answers-inputs", REQUIREMENTS,
        "A client sends a request again with all that was asked for, under the names that it was asked by.",
        |view| {
            let findings = view.retries().filter_map(|(retry, needed)| {
                let wanted = needed.requests.as_ref()?;
                let is_this = retry.state == needed.state;
                if !is_this && retry.is_known {
                    // It is for an earlier answer of the same kind.
                    return None;
                }
                let lacks = wanted
                    .keys()
                    .find(|key| retry.given.as_ref().is_none_or(|given| !given.contains_key(key)));
                Some(lacks.map(|key| {
                    view.requests[retry.request].finding(format!("inputResponses has no {key:?}"))
                }))
            });
            Outcome::of(findings, NOTHING)
        };
    "client-state-for-its-request-alone", REQUIREMENTS,
        "A client sends requestState and inputResponses with the request that they are for, and no other.",
        |view| {
            let findings = view.bringing().map(|retry| {
                let fits = view.needed_for(retry).is_some();
                let stray = !fits && (retry.state.is_none() || retry.is_known);
                (stray || retry.is_of_another)
                    .then(|| view.requests[retry.request].finding("this request was not asked for input"))
            });
            Outcome::of(findings, NOTHING)
        };
}

/// Whether the client has declared what it gives.
fn declared(view: &ClientView<'_>, method: &Method) -> Outcome {
    let path = match method.facts().map(|facts| facts.needs) {
        Some(Needs::Client(path)) => path,
        _ => "",
    };
    let mut findings = Vec::new();
    if view.is_modern() {
        for (retry, needed) in view.retries() {
            let again = &view.requests[retry.request];
            findings.extend(brings(retry, needed, method).then(|| {
                (!declares(view, Some(again), path))
                    .then(|| again.finding(format!("{path} is not declared in this request")))
            }));
        }
        return Outcome::of(findings, "the client gave none");
    }
    for (our_request, response) in answered(view, method).filter(|(_, response)| response.outcome.is_ok()) {
        findings.push(
            (!declares(view, None, path)).then(|| {
                our_request.finding(format!("{path} was not declared, and is there"), response.line)
            }),
        );
    }
    if *method == Method::ListRoots {
        let notification = sent(view).filter(|(method, _)| **method == Method::RootsListChanged);
        findings.extend(notification.map(|(_, line)| {
            (!declares(view, None, "roots.listChanged"))
                .then(|| view.finding("roots.listChanged was not declared", line))
        }));
    }
    Outcome::of(findings, "the client gave none")
}

/// The addresses of roots, in their order.
fn roots(result: &Raw) -> Option<Vec<String>> {
    let mut roots: Vec<String> =
        elements(&member(result, "roots")?)?.iter().filter_map(|root| text(root, "uri")).collect();
    roots.sort_unstable();
    Some(roots)
}

fn has_tools(params: &Raw) -> bool {
    ["tools", "toolChoice"].iter().any(|name| member(params, name).is_some_and(|it| it.kind() != Kind::Null))
}

/// Our requests with that method that are answered.
fn answered<'t, 'a>(
    view: &'t ClientView<'a>,
    method: &Method,
) -> impl Iterator<Item = (&'t OurRequest<'a>, RecordedResponse<'a>)> {
    view.our_requests
        .iter()
        .filter(move |our_request| our_request.what.method == *method)
        .filter_map(|our_request| Some((our_request, our_request.response?)))
}

/// Looks at every answer to a question of that kind, with the parameters of the question.
fn replies(
    view: &ClientView<'_>,
    method: &Method,
    nothing: &'static str,
    look: impl Fn(Option<&Raw>, &Raw) -> Option<String>,
) -> Outcome {
    let replies = view.replies(method);
    // A task is no answer yet.
    let replies = replies.iter().filter(|(_, result, ..)| created(result).is_none());
    let findings = replies.map(|(params, result, request, response)| {
        let problem = look(params.as_ref(), result)?;
        Some(Finding::new(problem, Some(request.bytes()), Some(response.bytes())))
    });
    Outcome::of(findings, nothing)
}

fn declares(view: &ClientView<'_>, request: Option<&ClientRequest<'_>>, path: &str) -> bool {
    let capabilities = view.capabilities(request).as_ref().and_then(members);
    capabilities.is_some_and(|capabilities| has(&capabilities, path))
}

/// The mode of a question: a form, where it does not say.
fn mode(our_request: &OurRequest<'_>) -> String {
    let params = our_request.what.params.as_ref().map(Payload::raw);
    params.and_then(|params| text(params, "mode")).unwrap_or_else(|| "form".into())
}

/// Whether the client has declared a mode: without any, it is the form.
fn has_mode(view: &ClientView<'_>, mode: &str) -> bool {
    declares(view, None, &format!("elicitation.{mode}"))
        || mode == "form" && declares(view, None, "elicitation") && !declares(view, None, "elicitation.url")
}

/// Whether a retry brings an answer to a question of that kind.
fn brings(retry: &Retry, needed: &InputRequired<'_>, method: &Method) -> bool {
    needed.requests.iter().flat_map(|request| request.iter()).any(|(key, question)| {
        text(question, "method").as_deref() == Some(method.as_str())
            && retry.given.as_ref().is_some_and(|given| given.contains_key(key))
    })
}

/// Whether a plain value is what a field's schema asks for: as far as its type, its choices and its bounds go.
fn conforms(schema: &Raw, value: &Raw) -> bool {
    let typed = match text(schema, "type").as_deref() {
        Some("string") => value.kind() == Kind::String,
        Some("number") => value.kind() == Kind::Number,
        Some("integer") => value.as_str().parse::<f64>().is_ok_and(|value| value.fract() == 0.0),
        Some("boolean") => matches!(value.as_str(), "true" | "false"),
        Some("array") => return each(schema, value),
        _ => true,
    };
    let number = |name| member(schema, name).and_then(|bound| bound.as_str().parse::<f64>().ok());
    let outside = |value: f64, least, most| {
        number(least).is_some_and(|least| value < least) || number(most).is_some_and(|most| value > most)
    };
    let bounded = match value.to_string_value() {
        Some(text) => !outside(text.chars().count() as f64, "minLength", "maxLength"),
        None => !value.as_str().parse().is_ok_and(|value| outside(value, "minimum", "maximum")),
    };
    typed && bounded && is_choice(schema, value)
}

/// Whether a value is one of those that a schema allows, where it names them.
fn is_choice(schema: &Raw, value: &Raw) -> bool {
    let same = |choice: &Raw| {
        choice == value
            || choice.to_string_value().is_some() && choice.to_string_value() == value.to_string_value()
    };
    let listed = member(schema, "enum").as_ref().and_then(elements);
    let titled = member(schema, "oneOf").or_else(|| member(schema, "anyOf")).as_ref().and_then(elements);
    listed.is_none_or(|choices| choices.iter().any(same))
        && titled.is_none_or(|choices| {
            choices.iter().any(|choice| member(choice, "const").is_none_or(|choice| same(&choice)))
        })
}

/// Whether several choices are what a schema allows.
fn each(schema: &Raw, value: &Raw) -> bool {
    let Some(values) = elements(value) else { return false };
    let items = member(schema, "items");
    values.iter().all(|value| items.as_ref().is_none_or(|schema| conforms(schema, value)))
}
