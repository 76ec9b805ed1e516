//! The capabilities that a server declares, and the features that it uses without declaring them.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Kind, Method, Needs, Raw, code};

use crate::json::{elements, has_path, member, members};
use crate::rule::{Finding, Outcome, Source};
use crate::server_view::ServerView;
use crate::trace::Probe;

/// The capabilities of the specification; a server may have others of its own, of any shape.
const KNOWN: [&str; 8] =
    ["experimental", "logging", "completions", "prompts", "resources", "tools", "tasks", "extensions"];
const FLAGS: [(&str, &str); 4] = [
    ("prompts", "listChanged"),
    ("resources", "subscribe"),
    ("resources", "listChanged"),
    ("tools", "listChanged"),
];

const SHAPE: &[Source] = sources![
    LEGACY Must "basic/lifecycle#capability-negotiation",
    MODERN Must "schema#servercapabilities",
];

rules! {
    pub(crate) RULES for Server in Chapter::Lifecycle;

    "capabilities-are-objects", SHAPE,
        "Each capability of the specification is an object.",
        |view| {
            declared(view, |declared| {
                KNOWN.into_iter().find_map(|name| {
                    let value = declared.get(name)?;
                    (value.kind() != Kind::Object).then(|| format!("{name} is {value}"))
                })
            })
        };
    "capability-flags-are-booleans", SHAPE,
        "listChanged and subscribe are true or false.",
        |view| {
            declared(view, |declared| {
                FLAGS.into_iter().find_map(|(name, flag)| {
                    let value = members(declared.get(name)?)?.get(flag)?.clone();
                    (value.kind() != Kind::Bool).then(|| format!("{name}.{flag} is {value}"))
                })
            })
        };
    "declared-list-exists", [
        LEGACY Should "basic/lifecycle#capability-negotiation",
        MODERN Must "server/tools#capabilities",
    ],
        "A server that declares tools, resources or prompts knows the method that lists them.",
        |view| {
            let findings = view.probed(Probe::List).filter_map(|request| {
                let (response, outcome) = request.response()?;
                let unknown = outcome.as_ref().is_err_and(|error| error.code == code::METHOD_NOT_FOUND);
                let problem = || format!("the capability is declared, and {} does not exist", request.name());
                Some(unknown.then(|| request.finding(problem(), response.line)))
            });
            Outcome::of(findings, "no list was declared")
        };
    "undeclared-list-unknown", [MODERN Should "schema#methodnotfounderror"],
        "A method whose capability is not declared is answered with the error -32601.",
        |view| {
            let findings = view.probed(Probe::UndeclaredList).filter_map(|request| {
                let (response, outcome) = request.response()?;
                let problem = match outcome {
                    // This has a rule of its own.
                    Ok(result) if offers(result.raw()) => return None,
                    Ok(_) => {
                        format!("{} brought a result, and its capability is not declared", request.name())
                    }
                    Err(error) if error.code == code::METHOD_NOT_FOUND => return Some(None),
                    Err(error) => format!("the code is {}, not {}", error.code, code::METHOD_NOT_FOUND),
                };
                Some(Some(request.finding(problem, response.line)))
            });
            Outcome::of(findings, "the server declares every list")
        };
    "features-declared", [ALL Must "server/tools#capabilities"],
        "A server that offers tools, resources, prompts or completion declares the capability.",
        |view| {
            let probed = [Probe::UndeclaredList, Probe::UndeclaredCompletion];
            let findings = view
                .our_requests
                .iter()
                .filter(|request| probed.contains(&request.probe))
                .filter_map(|request| {
                    let (response, outcome) = request.response()?;
                    let offered = outcome.as_ref().is_ok_and(|result| offers(result.raw()));
                    let problem = || {
                        format!("{} offers something, and nothing of the kind is declared", request.name())
                    };
                    Some(offered.then(|| request.finding(problem(), response.line)))
                });
            Outcome::of(findings, "the server declares everything")
        };
    "client-capability-respected", [
        FIRST_TWO Should "basic/lifecycle#operation",
        LEGACY_SINCE_THIRD Must "basic/lifecycle#operation",
    ],
        "The server asks nothing of the client that the client has not declared.",
        |view| {
            let findings = view.requests.iter().map(|request| {
                let Some(Needs::Client(capability)) = request.what.method.facts().map(|facts| facts.needs)
                else {
                    return None;
                };
                if view.client_capabilities().is_some_and(|ours| has_path(&ours, capability)) {
                    return None;
                }
                let problem =
                    format!("{} needs the capability {capability}, which we have not", request.what.method);
                Some(Finding::new(problem, None, Some(request.line.bytes())))
            });
            Outcome::of(findings.chain(view.opening().map(|_| None)), "no session was opened")
        };
    "notification-capability-declared", [
        FIRST_TWO Should "basic/lifecycle#operation",
        LEGACY_SINCE_THIRD Must "basic/lifecycle#operation",
    ],
        "The server notifies of what it has declared, and of nothing else.",
        |view| undeclared(view, |method| *method != Method::LogMessage);
    "logging-declared", [ALL Must "server/utilities/logging#capabilities"],
        "A server that sends log messages declares logging.",
        |view| undeclared(view, |method| *method == Method::LogMessage);
}

/// Whether a list has something in it.
fn offers(result: &Raw) -> bool {
    let completion = member(result, "completion").and_then(|completion| member(&completion, "values"));
    let lists = ["tools", "prompts", "resources", "resourceTemplates"].map(|name| member(result, name));
    let mut lists = lists.into_iter().chain([completion]).flatten().filter_map(|list| elements(&list));
    lists.any(|list| !list.is_empty())
}

/// Whether a capability, or a flag of one, is declared.
fn has(declared: &Members<Raw>, path: &str) -> bool {
    match path.split_once('.') {
        None => declared.contains_key(path),
        Some((name, flag)) => declared
            .get(name)
            .and_then(members)
            .is_some_and(|members| members.get(flag).is_some_and(|flag| flag.as_str() == "true")),
    }
}

/// The notifications of these methods need what is declared.
fn undeclared(view: &ServerView<'_>, of: impl Fn(&Method) -> bool) -> Outcome {
    let Some(declared) = view.declared() else {
        return Outcome::Skipped("nothing was declared");
    };
    let findings = view.notifications.iter().filter(|notification| of(&notification.what.method)).filter_map(
        |notification| {
            let Some(Needs::Server(capability)) = notification.what.method.facts().map(|facts| facts.needs)
            else {
                return None;
            };
            let problem = || {
                format!(
                    "{} needs the capability {capability}, which is not declared",
                    notification.what.method
                )
            };
            let missing = !has(&declared, capability);
            Some(missing.then(|| Finding::new(problem(), None, Some(notification.line.bytes()))))
        },
    );
    Outcome::of(findings, "the server notified of nothing that must be declared")
}

/// Looks at what the opening of a run has declared.
fn declared(view: &ServerView<'_>, look: impl Fn(&Members<Raw>) -> Option<String>) -> Outcome {
    let findings = view.opening().and_then(|(request, response, result)| {
        let declared = member(result.raw(), "capabilities")?;
        Some(look(&members(&declared)?).map(|problem| request.finding(problem, response.line)))
    });
    Outcome::of(findings, "nothing was declared")
}
