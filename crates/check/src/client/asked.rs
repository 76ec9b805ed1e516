//! What a client answers when it is asked for its roots, for a message of its model, or for what its user knows: as a
//! response in the legacy era, inside another request in the modern one.

use mcpjoin_proto::{Kind, Method, Needs, Payload, Raw, code};

use super::cancelling::goes_on;
use super::lifecycle::{has, sent};
use super::talk::{Asked, Needed, Ours, Retry, Said, Talk, Told};
use super::tasks::created;
use super::utilities::{CROSSING, is_string};
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::{elements, member, members, strings, text};
use crate::trace::Probe;

pub(super) static RULES: [Rule; 15] = [
    Rule {
        slug: "client-roots-declared",
        chapter: Chapter::ClientFeatures,
        sentence: "A client that gives its roots has declared the capability.",
        sources: &[Source::new(Revisions::ALL, Must, "client/roots#capabilities")],
        judge: |seen| declared(seen.talk(), &Method::ListRoots),
    },
    Rule {
        slug: "client-sampling-declared",
        chapter: Chapter::ClientFeatures,
        sentence: "A client that gives messages of its model has declared the capability.",
        sources: &[Source::new(Revisions::ALL, Must, "client/sampling#capabilities")],
        judge: |seen| declared(seen.talk(), &Method::CreateMessage),
    },
    Rule {
        slug: "client-elicitation-declared",
        chapter: Chapter::ClientFeatures,
        sentence: "A client that gives what its user enters has declared the capability.",
        sources: &[Source::new(Revisions::SINCE_THIRD, Must, "client/elicitation#capabilities")],
        judge: |seen| declared(seen.talk(), &Method::Elicit),
    },
    Rule {
        slug: "client-elicitation-has-mode",
        chapter: Chapter::ClientFeatures,
        sentence: "A client that declares elicitation has a form or a URL, or says nothing more, which means a form.",
        sources: &[Source::new(Revisions::SINCE_FOURTH, Must, "client/elicitation#capabilities")],
        judge: |seen| {
            let talk = seen.talk();
            let says =
                talk.asked.iter().filter(|asked| talk.is_modern() || asked.what.method == Method::Initialize);
            let judged = says.filter_map(|asked| {
                let declared = talk.capabilities(Some(asked))?;
                let modes = members(&member(&declared, "elicitation")?)?;
                let has = |mode| modes.get(mode).is_some_and(|mode| mode.kind() == Kind::Object);
                let wrong = !modes.is_empty() && !has("form") && !has("url");
                Some(wrong.then(|| asked.finding("elicitation has neither form nor url")))
            });
            Outcome::of(judged, "the client declared no elicitation")
        },
    },
    Rule {
        slug: "client-undeclared-refused",
        chapter: Chapter::ClientFeatures,
        sentence: "A client without roots answers roots/list with the error -32601.",
        sources: &[Source::new(Revisions::LEGACY, Should, "client/roots#error-handling")],
        judge: |seen| {
            let talk = seen.talk();
            if declares(talk, None, "roots") {
                return Outcome::Skipped("the client has roots");
            }
            let judged = answered(talk, &Method::ListRoots).filter_map(|(ours, said)| {
                let code = said.outcome.as_ref().err()?.code;
                Some((code != code::METHOD_NOT_FOUND).then(|| {
                    ours.finding(format!("the code is {code}, not {}", code::METHOD_NOT_FOUND), said.line)
                }))
            });
            Outcome::of(judged, "the client was not asked for roots")
        },
    },
    Rule {
        slug: "client-root-is-file",
        chapter: Chapter::ClientFeatures,
        sentence: "Each root of a client has a URI, which begins with file://.",
        sources: &[Source::new(Revisions::ALL, Must, "client/roots#root")],
        judge: |seen| {
            replies(seen.talk(), &Method::ListRoots, "the client named no roots", |_, result| {
                let Some(roots) = member(result, "roots").as_ref().and_then(elements) else {
                    return Some("roots is missing or no array".into());
                };
                roots.iter().find_map(|root| match text(root, "uri") {
                    Some(uri) if uri.starts_with("file://") => None,
                    Some(uri) => Some(format!("a root is {uri:?}")),
                    None => Some("a root has no uri that is a string".into()),
                })
            })
        },
    },
    Rule {
        slug: "client-root-change-told",
        chapter: Chapter::ClientFeatures,
        sentence: "A client that has declared it tells when its roots have changed.",
        sources: &[Source::new(Revisions::LEGACY, Must, "client/roots#root-list-changes")],
        judge: |seen| {
            let talk = seen.talk();
            if !declares(talk, None, "roots.listChanged") {
                return Outcome::Skipped("the client has not declared roots.listChanged");
            }
            let looks: Vec<(usize, Said<'_>, Vec<String>)> = answered(talk, &Method::ListRoots)
                .filter_map(|(ours, said)| {
                    Some((ours.place, said, roots(said.outcome.as_ref().ok()?.raw())?))
                })
                .collect();
            let changes: Vec<&Told<'_>> =
                talk.told.iter().filter(|told| told.what.method == Method::RootsListChanged).collect();
            let judged = looks.windows(2).filter_map(|pair| {
                let [(asked, before, old), (_, after, new)] = pair else { return None };
                if old == new {
                    return None;
                }
                // What is told while the first list is under way may be of what comes after it.
                let next = changes.get(changes.partition_point(|told| told.place <= *asked));
                let told = next.is_some_and(|told| told.at <= after.at + CROSSING);
                // It may be on its way.
                let waited = talk.here.saturating_sub(after.at) >= CROSSING;
                let problem = || {
                    let problem = "its roots are others than before, and it has not told";
                    Finding::new(problem, Some(before.line.bytes()), Some(after.line.bytes()))
                };
                if told { Some(None) } else { waited.then(|| Some(problem())) }
            });
            Outcome::of(judged, "its roots did not change while it was looked at")
        },
    },
    Rule {
        slug: "client-sampling-result",
        chapter: Chapter::ClientFeatures,
        sentence: "A message of a client's model has a role, a content and the name of the model.",
        sources: &[Source::new(Revisions::ALL, Must, "client/sampling#creating-messages")],
        judge: |seen| {
            let many = Revisions::SINCE_FOURTH.contains(&seen.run.version);
            replies(seen.talk(), &Method::CreateMessage, "the client gave no message", |_, result| {
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
        },
    },
    Rule {
        slug: "client-refuses-undeclared-sampling-tools",
        chapter: Chapter::ClientFeatures,
        sentence: "A client that has not declared sampling.tools answers a request for a message with tools with an error.",
        sources: &[Source::new(Revisions::SINCE_FOURTH, Must, "schema#createmessagerequestparams")],
        judge: |seen| {
            let talk = seen.talk();
            if !talk.is_modern() {
                if !declares(talk, None, "sampling") || declares(talk, None, "sampling.tools") {
                    return Outcome::Skipped("the client has no sampling, or takes tools");
                }
                let asked = answered(talk, &Method::CreateMessage).filter(|(ours, _)| {
                    ours.what.params.as_ref().is_some_and(|params| has_tools(params.raw()))
                });
                let judged = asked.map(|(ours, said)| {
                    said.outcome.is_ok().then(|| ours.finding("it brought a result", said.line))
                });
                return Outcome::of(
                    judged,
                    "the client was asked for no message with tools, or did not answer",
                );
            }
            let judged = talk.retries().filter_map(|(retry, needed)| {
                let again = &talk.asked[retry.asked];
                if !declares(talk, Some(again), "sampling") || declares(talk, Some(again), "sampling.tools") {
                    return None;
                }
                let mut questions = needed.requests.iter().flat_map(|asked| asked.iter());
                let (key, _) = questions.find(|(_, question)| {
                    text(question, "method").as_deref() == Some(Method::CreateMessage.as_str())
                        && member(question, "params").is_some_and(|params| has_tools(&params))
                })?;
                let given = retry.given.as_ref()?.get(key)?;
                let problem = || again.finding(format!("{key:?} brought a message"));
                Some(member(given, "content").map(|_| problem()))
            });
            Outcome::of(judged, "the client was asked for no message with tools, or did not answer")
        },
    },
    Rule {
        slug: "client-sampling-results-checked",
        chapter: Chapter::ClientFeatures,
        sentence: "A client refuses messages in which the result of a tool is missing, or among other content, with -32602.",
        sources: &[Source::new(Revisions::LAST_LEGACY, Should, "client/sampling#error-handling")],
        judge: |seen| {
            let probes = [Probe::MissingToolResult, Probe::MixedToolResult];
            let talk = seen.talk();
            let asked = answered(talk, &Method::CreateMessage);
            let judged = asked.filter(|(ours, _)| probes.contains(&ours.probe)).map(|(ours, said)| {
                let code = said.outcome.as_ref().err().map(|error| error.code);
                let what = || code.map_or_else(|| "a result".into(), |code| format!("the error {code}"));
                (code != Some(code::INVALID_PARAMS))
                    .then(|| ours.finding(format!("it brought {}", what()), said.line))
            });
            Outcome::of(judged, "the client takes no tools, or was not asked so")
        },
    },
    Rule {
        slug: "client-elicitation-action",
        chapter: Chapter::ClientFeatures,
        sentence: "What a user makes of a question is accept, decline or cancel, and what is entered is an object of \
                   plain values.",
        sources: &[Source::new(Revisions::SINCE_THIRD, Must, "client/elicitation#response-actions")],
        judge: |seen| {
            replies(seen.talk(), &Method::Elicit, "the client answered no question", |_, result| {
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
        },
    },
    Rule {
        slug: "client-elicitation-conforms",
        chapter: Chapter::ClientFeatures,
        sentence: "What a user enters is what the schema of the question asks for.",
        sources: &[
            Source::new(Revisions::THIRD, Should, "client/elicitation#security-considerations"),
            Source::new(Revisions::SINCE_FOURTH, Should, "client/elicitation#form-mode-security"),
        ],
        judge: |seen| {
            replies(seen.talk(), &Method::Elicit, "the client answered no question", |params, result| {
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
        },
    },
    Rule {
        slug: "client-refuses-undeclared-mode",
        chapter: Chapter::ClientFeatures,
        sentence: "A client answers a question in a mode that it has not declared with the error -32602.",
        sources: &[Source::new(Revisions::LAST_LEGACY, Must, "client/elicitation#error-handling")],
        judge: |seen| {
            let talk = seen.talk();
            let judged = answered(talk, &Method::Elicit).filter_map(|(ours, said)| {
                let mode = mode(ours);
                if !declares(talk, None, "elicitation") || has_mode(talk, &mode) {
                    return None;
                }
                let code = said.outcome.as_ref().err().map(|error| error.code);
                Some((code != Some(code::INVALID_PARAMS)).then(|| {
                    let what = code.map_or_else(|| "a result".into(), |code| format!("the error {code}"));
                    ours.finding(format!("a question in the mode {mode:?} brought {what}"), said.line)
                }))
            });
            Outcome::of(judged, "the client was asked in no mode that it has not declared")
        },
    },
    Rule {
        slug: "client-unknown-completion-ignored",
        chapter: Chapter::ClientFeatures,
        sentence: "A client passes over the news that somebody has done what it knows of no question.",
        sources: &[Source::new(
            Revisions::LAST_LEGACY,
            Must,
            "client/elicitation#completion-notifications-for-url-mode-elicitation",
        )],
        judge: |seen| goes_on(seen, Probe::AfterElicitation, "notifications/elicitation/complete"),
    },
    Rule {
        slug: "client-mode-may-lack",
        chapter: Chapter::ClientFeatures,
        sentence: "A client takes a question without a mode for a form.",
        sources: &[Source::new(Revisions::LAST_LEGACY, Must, "client/elicitation#elicitation-requests")],
        judge: |seen| {
            let talk = seen.talk();
            let judged = answered(talk, &Method::Elicit).filter_map(|(ours, said)| {
                let named = ours.what.params.as_ref().and_then(|params| member(params.raw(), "mode"));
                if named.is_some() || !has_mode(talk, "form") {
                    return None;
                }
                let code = said.outcome.as_ref().err().map(|error| error.code);
                Some((code == Some(code::INVALID_PARAMS)).then(|| ours.finding("it was refused", said.line)))
            });
            Outcome::of(judged, "the client was asked for no form, or has none")
        },
    },
];

/// Whether the client has declared what it gives.
fn declared(talk: &Talk<'_>, method: &Method) -> Outcome {
    let path = match method.facts().map(|facts| facts.needs) {
        Some(Needs::Client(path)) => path,
        _ => "",
    };
    let mut judged = Vec::new();
    if talk.is_modern() {
        for (retry, needed) in talk.retries() {
            let again = &talk.asked[retry.asked];
            judged.extend(brings(retry, needed, method).then(|| {
                (!declares(talk, Some(again), path))
                    .then(|| again.finding(format!("{path} is not declared in this request")))
            }));
        }
        return Outcome::of(judged, "the client gave none");
    }
    for (ours, said) in answered(talk, method).filter(|(_, said)| said.outcome.is_ok()) {
        judged.push(
            (!declares(talk, None, path))
                .then(|| ours.finding(format!("{path} was not declared, and is there"), said.line)),
        );
    }
    if *method == Method::ListRoots {
        let told = sent(talk).filter(|(method, _)| **method == Method::RootsListChanged);
        judged.extend(told.map(|(_, line)| {
            (!declares(talk, None, "roots.listChanged"))
                .then(|| talk.finding("roots.listChanged was not declared", line))
        }));
    }
    Outcome::of(judged, "the client gave none")
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
fn answered<'t, 'a>(talk: &'t Talk<'a>, method: &Method) -> impl Iterator<Item = (&'t Ours<'a>, Said<'a>)> {
    talk.ours
        .iter()
        .filter(move |ours| ours.what.method == *method)
        .filter_map(|ours| Some((ours, ours.answer?)))
}

/// Looks at every answer to a question of that kind, with the parameters of the question.
fn replies(
    talk: &Talk<'_>,
    method: &Method,
    nothing: &'static str,
    look: impl Fn(Option<&Raw>, &Raw) -> Option<String>,
) -> Outcome {
    let replies = talk.replies(method);
    // A task is no answer yet.
    let replies = replies.iter().filter(|(_, result, ..)| created(result).is_none());
    let judged = replies.map(|(params, result, asked, said)| {
        let problem = look(params.as_ref(), result)?;
        Some(Finding::new(problem, Some(asked.bytes()), Some(said.bytes())))
    });
    Outcome::of(judged, nothing)
}

fn declares(talk: &Talk<'_>, asked: Option<&Asked<'_>>, path: &str) -> bool {
    let capabilities = talk.capabilities(asked).as_ref().and_then(members);
    capabilities.is_some_and(|capabilities| has(&capabilities, path))
}

/// The mode of a question: a form, where it does not say.
fn mode(ours: &Ours<'_>) -> String {
    let params = ours.what.params.as_ref().map(Payload::raw);
    params.and_then(|params| text(params, "mode")).unwrap_or_else(|| "form".into())
}

/// Whether the client has declared a mode: without any, it is the form.
fn has_mode(talk: &Talk<'_>, mode: &str) -> bool {
    declares(talk, None, &format!("elicitation.{mode}"))
        || mode == "form" && declares(talk, None, "elicitation") && !declares(talk, None, "elicitation.url")
}

/// Whether a retry brings an answer to a question of that kind.
fn brings(retry: &Retry, needed: &Needed<'_>, method: &Method) -> bool {
    needed.requests.iter().flat_map(|asked| asked.iter()).any(|(key, question)| {
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
