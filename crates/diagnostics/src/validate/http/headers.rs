//! Requests of the modern era whose headers lack something, differ from the body, or are written in another way.

use http::Method as Verb;
use mcpjoin_proto::http::headers::name;
use mcpjoin_proto::{Era, Method, Version};
use mcpjoin_rules::Probe;

use super::super::features::Marked;
use super::super::probes;
use crate::engine::Session as _;
use crate::engine::http::{Head, HttpSession, Until};
use crate::engine::message::Question;

/// Requests whose headers lack something, differ from the body, or are written in another way.
pub(super) async fn changed(session: &mut HttpSession) {
    type Change = fn(Head) -> Head;
    let changes: [(Probe, Change); 9] = [
        (Probe::NoVersionHeader, |head| head.without(name::PROTOCOL_VERSION)),
        (Probe::OtherVersionHeader, |head| {
            head.with(name::PROTOCOL_VERSION, Version::newest(Era::Legacy).as_str())
        }),
        (Probe::NoMethodHeader, |head| head.without(name::METHOD)),
        (Probe::OtherMethodHeader, |head| head.with(name::METHOD, Method::ListTools.as_str())),
        (Probe::CapitalMethodHeader, |head| head.with(name::METHOD, "SERVER/DISCOVER")),
        (Probe::HeaderLetters, Head::in_title_case),
        (Probe::HeaderSpace, |head| head.with(name::METHOD, " \t server/discover \t ")),
        (Probe::EarlierHeaders, |head| {
            head.with(name::SESSION_ID, probes::NO_SESSION).with(name::LAST_EVENT_ID, "1")
        }),
        // The last one shows that the others have changed nothing.
        (Probe::Ping, |head| head),
    ];
    for (probe, change) in changes {
        let line = session.line(session.control());
        session.post_as(probe, line, change).await;
    }
    for (probe, verb) in [(Probe::EarlierGet, Verb::GET), (Probe::EarlierDelete, Verb::DELETE)] {
        session.send_as(probe, verb, Until::Closed, |head| head).await;
    }
}

/// Requests for a prompt that does not exist, with and without its name in the headers.
pub(super) async fn names(session: &mut HttpSession, version: &Version) {
    for (probe, named) in [
        (Probe::NoNameHeader, None),
        (Probe::OtherNameHeader, Some(probes::OTHER_PROMPT)),
        (Probe::EncodedNameHeader, Some(probes::NO_PROMPT_ENCODED)),
        (Probe::BadNameHeader, Some(probes::NO_BASE64)),
    ] {
        let line = probes::no_prompt(&session.next_id(), version);
        let change = |head: Head| match named {
            Some(named) => head.with(name::NAME, named),
            None => head.without(name::NAME),
        };
        session.post_as(probe, line, change).await;
    }
}

/// Calls with the headers of their arguments missing, with another value, unreadable, and written in other ways; then
/// without the arguments.
pub(super) async fn params(session: &mut HttpSession, marked: &Marked<'_>) {
    type Change = fn(&str) -> Option<&str>;
    let full = &marked.full;
    let mut changes: Vec<(Probe, &Question<'_>, Change)> = vec![
        (Probe::NoParamHeader, full, |_| None),
        (Probe::OtherParamHeader, full, |_| Some(probes::OTHER_VALUE)),
        (Probe::BadParamHeader, full, |_| Some(probes::NO_BASE64)),
        (Probe::EncodedParamHeader, full, |value| Some(probes::encoded(value))),
    ];
    if full.headers.iter().any(|(_, value)| value == probes::ONE) {
        changes.push((Probe::NumberParamHeader, full, |value| Some(probes::as_number(value))));
    }
    changes.push((Probe::NoParamExpected, &marked.null, |_| None));
    changes.push((Probe::NoParamExpected, &marked.empty, |_| None));
    for (probe, question, change) in changes {
        let id = session.next_id();
        let line = question.line(&session.state().manner, &id);
        session
            .post_as(probe, line, |head| {
                question.headers.iter().fold(head, |head, (name, value)| match change(value) {
                    Some(value) => head.and(name, value),
                    None => head,
                })
            })
            .await;
    }
}
