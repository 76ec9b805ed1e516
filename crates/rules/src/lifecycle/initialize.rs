//! `initialize`: its result, what follows it, and how server and client agree on a version.

use mcpjoin_proto::{Kind, Method, Raw, Version};

use crate::base::silence;
use crate::json::{member, members, text};
use crate::revisions::Revisions;
use crate::rule::{Finding, Outcome, Source};
use crate::server_view::{OurRequest, ReceivedResponse, ServerView};
use crate::trace::{Channel, Event, Line, Probe, What};

const INITIALIZATION: &[Source] = sources![LEGACY Must "basic/lifecycle#initialization"];
const PING: &[Source] = sources![LEGACY Must "basic/utilities/ping#behavior-requirements"];

const NEGOTIATION: &[Source] = sources![LEGACY Must "basic/lifecycle#version-negotiation"];

rules! {
    pub(crate) RULES for Server in Chapter::Lifecycle;

    "silent-before-initialize", INITIALIZATION,
        "The first thing that is said is the client's initialize.",
        |view| {
            if view.run.channel == Channel::StreamableHttp {
                return Outcome::Skipped("over HTTP nothing can come before something was asked");
            }
            let opening = |event: &Event| {
                matches!(event.what, What::Sent(Probe::Initialize | Probe::UnknownVersion, _))
            };
            let Some(opened) = view.run.events.iter().position(opening) else {
                return Outcome::Skipped("no session was opened");
            };
            let early = view.lines.iter().filter(|(place, line)| {
                // What is no message breaks another rule.
                *place < opened && line.parts().any(|part| part.is_ok())
            });
            let early = early.map(|(_, line)| {
                Some(Finding::new("this came before we had said anything", None, Some(line.bytes())))
            });
            Outcome::of(early.chain([None]), "")
        };
    "initialize-version", INITIALIZATION,
        "The answer to initialize names a protocol version.",
        |view| {
            opened(view, |request, response, result| {
                (kind(result, "protocolVersion") != Some(Kind::String))
                    .then(|| request.finding("protocolVersion is missing or no string", response.line))
            })
        };
    "initialize-capabilities", INITIALIZATION,
        "The answer to initialize has the server's capabilities.",
        |view| {
            opened(view, |request, response, result| {
                (kind(result, "capabilities") != Some(Kind::Object))
                    .then(|| request.finding("capabilities are missing or no object", response.line))
            })
        };
    "initialize-server-info", INITIALIZATION,
        "The answer to initialize has serverInfo with the name and the version of the server.",
        |view| {
            opened(view, |request, response, result| {
                let info = member(result, "serverInfo");
                let string = |name| info.as_ref().and_then(|info| kind(info, name)) == Some(Kind::String);
                let problem = if info.is_none() {
                    "serverInfo is missing"
                } else if !string("name") {
                    "serverInfo has no name that is a string"
                } else if !string("version") {
                    "serverInfo has no version that is a string"
                } else {
                    return None;
                };
                Some(request.finding(problem, response.line))
            })
        };
    "ping-empty", PING,
        "The answer to ping is an empty result.",
        |view| {
            let pings = view
                .our_requests
                .iter()
                .filter(|request| request.method == Some(&Method::Ping) && !request.probe.is_about_http());
            let findings = pings.filter_map(|request| {
                let (response, outcome) = request.response()?;
                let problem = match outcome {
                    Err(_) => "ping brought an error",
                    Ok(result) => {
                        let members = members(result.raw())?;
                        // `_meta` may stand in every result.
                        if members.keys().all(|name| name == "_meta") {
                            return Some(None);
                        }
                        "the result of ping is not empty"
                    }
                };
                Some(Some(request.finding(problem, response.line)))
            });
            Outcome::of(findings, "no ping was answered")
        };
    "ping-before-initialized", PING,
        "A ping is answered before notifications/initialized, too.",
        |view| {
            let pings = view.probed(Probe::EarlyPing);
            let findings =
                pings.filter(|request| !request.responses.is_empty() || !view.may_be_answered(request));
            Outcome::of(
                findings.map(|request| request.responses.is_empty().then(|| silence(view, request))),
                "no ping was sent before notifications/initialized",
            )
        };
    "no-request-before-initialized", [LEGACY Should "basic/lifecycle#initialization"],
        "Before notifications/initialized the server sends no request but ping.",
        |view| {
            let opened = view.our_notifications.iter().find(|notification| is_initialized(notification.line));
            let Some(opened) = opened.map(|notification| notification.place) else {
                return Outcome::Skipped("no session was opened");
            };
            let early = view.requests.iter().filter(|request| request.place < opened);
            let early = early.filter(|request| request.what.method != Method::Ping).map(|request| {
                let problem = format!("{} came before notifications/initialized", request.what.method);
                Some(Finding::new(problem, None, Some(request.line.bytes())))
            });
            Outcome::of(early.chain([None]), "")
        };
    "unknown-version-not-accepted", NEGOTIATION,
        "Asked for a version that it does not speak, a server answers with one that it does.",
        |view| {
            let findings = openings(view).filter(|(request, ..)| request.probe == Probe::UnknownVersion).map(
                |(request, response, wanted, given)| {
                    (wanted == given).then(|| {
                        request.finding(
                            format!("the version {wanted}, which does not exist, was accepted"),
                            response.line,
                        )
                    })
                },
            );
            Outcome::of(findings, "no session was opened with a version that does not exist")
        };
    "offered-version-spoken", NEGOTIATION,
        "Asked for a version that it speaks, a server answers with the same.",
        |view| {
            let findings = openings(view).filter_map(|(request, response, wanted, given)| {
                if !everywhere(view, |_, given| given.clone()).contains(&wanted) {
                    return None;
                }
                let problem = || {
                    format!("{wanted} was answered with {given}, and elsewhere the server offers {wanted}")
                };
                Some((wanted != given).then(|| request.finding(problem(), response.line)))
            });
            Outcome::of(findings, "the server was asked for no version that it had offered")
        };
    "latest-version-offered", [LEGACY Should "basic/lifecycle#version-negotiation"],
        "Asked for a version that it does not speak, a server offers the latest that it does.",
        |view| {
            let spoken: Vec<Version> =
                everywhere(view, |wanted, given| (wanted == given).then(|| given.clone()))
                    .into_iter()
                    .flatten()
                    .collect();
            let findings = openings(view).filter(|(_, _, wanted, given)| wanted != given).map(
                |(request, response, _, given)| {
                    let later = spoken.iter().find(|known| Revisions::is_older(&given, known))?;
                    Some(request.finding(
                        format!("{given} was offered, and the server also speaks {later}"),
                        response.line,
                    ))
                },
            );
            Outcome::of(findings, "the server was asked for no version that it does not speak")
        };
}

fn is_initialized(line: &Line) -> bool {
    line.parts().any(|part| {
        matches!(part, Ok(mcpjoin_proto::Message::Notification(notification)) if notification.method == Method::Initialized)
    })
}

fn kind(object: &Raw, name: &str) -> Option<Kind> {
    member(object, name).map(|value| value.kind())
}

/// Looks at each result of `initialize` that is an object.
fn opened(
    view: &ServerView<'_>,
    look: impl Fn(&OurRequest<'_>, &ReceivedResponse<'_>, &Raw) -> Option<Finding>,
) -> Outcome {
    let results = view.results().filter(|(request, ..)| request.method == Some(&Method::Initialize));
    let findings = results
        .filter(|(.., result)| result.raw().kind() == Kind::Object)
        .map(|(request, response, result)| look(request, response, result.raw()));
    Outcome::of(findings, "initialize brought no result")
}

/// The answers to `initialize` that name a version, with the version that was asked for.
fn openings<'s, 'a>(
    view: &'s ServerView<'a>,
) -> impl Iterator<Item = (&'s OurRequest<'a>, &'s ReceivedResponse<'a>, Version, Version)> {
    view.results().filter(|(request, ..)| request.method == Some(&Method::Initialize)).filter_map(
        |(request, response, result)| {
            let sent = crate::json::of_line(request.line.bytes())?;
            let wanted = text(&member(&sent, "params")?, "protocolVersion")?;
            let given = text(result.raw(), "protocolVersion")?;
            Some((request, response, Version::parse(&wanted), Version::parse(&given)))
        },
    )
}

/// The same over every run.
fn everywhere<T>(view: &ServerView<'_>, read: impl Fn(&Version, &Version) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for run in &view.trace.runs {
        let view = ServerView::of(view.trace, run);
        found.extend(openings(&view).map(|(_, _, wanted, given)| read(&wanted, &given)));
    }
    found
}
