//! `initialize`: its result, the messages around it, and the negotiation of a version.

use mcpjoin_proto::{Kind, Method, Raw, Version};

use crate::base::goes_on;
use crate::json::{has_kind, member, members, text};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Outcome, Source};
use crate::server_view::{Reply, ServerView};
use crate::trace::{Event, Probe, What};

const INITIALIZATION: &[Source] = sources![LEGACY Must "basic/lifecycle#initialization"];
const PING: &[Source] = sources![LEGACY Must "basic/utilities/ping#behavior-requirements"];
const NEGOTIATION: &[Source] = sources![LEGACY Must "basic/lifecycle#version-negotiation"];

rules! {
    pub(crate) RULES for Server in Chapter::Lifecycle;

    "silent-before-initialize", INITIALIZATION,
        "The first message is the client's initialize.",
        else "",
        |view| {
            if view.run.is_http() {
                return Outcome::Skipped("over HTTP the server cannot send before a request");
            }
            let is_opening = |event: &Event| {
                matches!(event.what, What::Sent(Probe::Initialize | Probe::UnknownVersion, _))
            };
            let Some(opened) = view.run.events.iter().position(is_opening) else {
                return Outcome::Skipped("no session was opened");
            };
            // A line that is no message violates another rule.
            let early = view.lines.iter().filter(move |(place, line)| *place < opened && line.messages().next().is_some());
            early.map(|(_, line)| Some(line.finding("this came before the client's first message"))).chain([None])
        };
    "initialize-version", INITIALIZATION,
        "The response to initialize names a protocol version.",
        |view| opened(view, |result| {
            (!has_kind(result, "protocolVersion", Kind::String)).then_some("protocolVersion is missing or \
                not a string")
        });
    "initialize-capabilities", INITIALIZATION,
        "The response to initialize has the server's capabilities.",
        |view| opened(view, |result| {
            (!has_kind(result, "capabilities", Kind::Object)).then_some("capabilities is missing or not an \
                object")
        });
    "initialize-server-info", INITIALIZATION,
        "The response to initialize has serverInfo with the name and version of the server.",
        |view| opened(view, |result| {
            let Some(info) = member(result, "serverInfo") else { return Some("serverInfo is missing") };
            if !has_kind(&info, "name", Kind::String) {
                return Some("serverInfo has no string `name`");
            }
            (!has_kind(&info, "version", Kind::String)).then_some("serverInfo has no string `version`")
        });
    "ping-empty", PING,
        "The response to ping is an empty result.",
        else "no ping got a response",
        |view| {
            let pings = view.our_requests.iter().filter(|request| request.method == Some(&Method::Ping));
            pings.filter(|request| !request.probe.is_about_http()).filter_map(|request| {
                let (reply, outcome) = request.answer()?;
                let Ok(result) = outcome else { return Some(Some(reply.finding("ping returned an error"))) };
                // `_meta` may be in every result.
                let has_others = members(result.raw())?.keys().any(|name| name != "_meta");
                Some(reply.finding_if(has_others, "the result of ping is not empty"))
            })
        };
    "ping-before-initialized", PING,
        "A ping before notifications/initialized also gets a response.",
        |view| goes_on(view, Probe::EarlyPing, "no ping was sent before notifications/initialized");
    "no-request-before-initialized", [LEGACY Should "basic/lifecycle#initialization"],
        "Before notifications/initialized the server sends no request except ping.",
        else "",
        |view| {
            let opened = view.our_notifications.iter().find(|it| it.what.method == Method::Initialized);
            let Some(opened) = opened.map(|notification| notification.place) else {
                return Outcome::Skipped("no session was opened");
            };
            let early = view.requests.iter().filter(move |it| it.place < opened && it.what.method != Method::Ping);
            early
                .map(|it| Some(it.finding(format_args!("{} came before notifications/initialized", it.what.method))))
                .chain([None])
        };
    "unknown-version-not-accepted", NEGOTIATION,
        "A server answers an unsupported version with a version that it supports.",
        else "no session was opened with a version that does not exist",
        |view| {
            let invented = everywhere(view, |wanted, given| {
                (wanted != given && Revisions::never_existed(given)).then(|| given.clone())
            });
            openings(view).filter_map(move |(reply, wanted, given)| {
                if invented.iter().flatten().any(|known| *known == given) {
                    return Some(Some(reply.finding(format_args!(
                        "the response has the version {given}, which does not exist"
                    ))));
                }
                let is_unknown = reply.request.probe == Probe::UnknownVersion;
                is_unknown.then(|| {
                    reply.finding_if(
                        wanted == given,
                        format_args!("the version {wanted}, which does not exist, was accepted"),
                    )
                })
            })
        };
    "offered-version-spoken", NEGOTIATION,
        "A server answers a supported version with the same version.",
        else "no version was requested that the server had offered",
        |view| openings(view).filter_map(|(reply, wanted, given)| {
            if !everywhere(view, |_, given| given.clone()).contains(&wanted) {
                return None;
            }
            Some(reply.finding_if(
                wanted != given,
                format_args!("the response to {wanted} has {given}, although the server offers {wanted} \
                    elsewhere"),
            ))
        });
    "latest-version-offered", [LEGACY Should "basic/lifecycle#version-negotiation"],
        "A server answers an unsupported version with the latest one that it supports.",
        else "no unsupported version was requested",
        |view| {
            let spoken = everywhere(view, |wanted, given| (wanted == given).then(|| given.clone()));
            openings(view).filter(|(_, wanted, given)| wanted != given).map(move |(reply, _, given)| {
                let later = spoken.iter().flatten().find(|known| Revisions::is_older(&given, known))?;
                Some(reply.finding(format_args!("the server offered {given}, but also supports {later}")))
            })
        };
}

/// Checks each result of `initialize` that is an object: `check` returns the problem of one.
fn opened(view: &ServerView<'_>, check: impl Fn(&Raw) -> Option<&'static str>) -> Outcome {
    let results = view.results_by(&Method::Initialize).filter(|(_, result)| result.kind() == Kind::Object);
    let findings = results.map(|(reply, result)| check(result).map(|problem| reply.finding(problem)));
    Outcome::of(findings, "initialize returned no result")
}

/// The responses to `initialize` that name a version: the requested version and the version in the response.
fn openings<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = (Reply<'s, 'a>, Version, Version)> {
    view.results_by(&Method::Initialize).filter_map(|(reply, result)| {
        let wanted = text(&reply.request.params()?, "protocolVersion")?;
        let given = text(result, "protocolVersion")?;
        Some((reply, Version::parse(&wanted), Version::parse(&given)))
    })
}

/// Reads the responses to `initialize` of every run.
fn everywhere<T>(view: &ServerView<'_>, read: impl Fn(&Version, &Version) -> T) -> Vec<T> {
    let mut found = Vec::new();
    for run in &view.trace.runs {
        let view = ServerView::of(view.trace, run);
        found.extend(openings(&view).map(|(_, wanted, given)| read(&wanted, &given)));
    }
    found
}
