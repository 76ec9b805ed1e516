//! The sessions of Streamable HTTP in the legacy era, as a client keeps them.

use std::time::Duration;

use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::{Method, Version};

use super::exchanges::shown;
use super::talk::{Post, Talk};
use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::text;
use crate::trace::What;

const SESSIONS: &[Source] =
    &[Source::new(Revisions::LEGACY_SINCE_SECOND, Must, "basic/transports#session-management")];
const VERSION: &str = "basic/transports#protocol-version-header";
const NOTHING: &str = "nothing followed initialize";

pub(super) static RULES: [Rule; 5] = [
    Rule {
        slug: "client-sends-session-id",
        chapter: Chapter::StreamableHttp,
        sentence: "Each request of a client that follows initialize has the id of the session, if it got one.",
        sources: SESSIONS,
        judge: |seen| {
            let talk = seen.talk();
            let Some(session) = session(talk) else {
                return Outcome::Skipped("the client got no session");
            };
            following(talk, |post| {
                let given = post.request.headers.value(name::SESSION_ID);
                (given != Some(session)).then(|| {
                    post.finding(match given {
                        None => "Mcp-Session-Id is missing",
                        Some(_) => "Mcp-Session-Id is not the one that came with the answer to initialize",
                    })
                })
            })
        },
    },
    Rule {
        slug: "client-ends-session",
        chapter: Chapter::StreamableHttp,
        sentence: "A client that no longer needs a session ends it with DELETE.",
        sources: &[Source::new(
            Revisions::LEGACY_SINCE_SECOND,
            Should,
            "basic/transports#session-management",
        )],
        judge: |seen| {
            let talk = seen.talk();
            if session(talk).is_none() {
                return Outcome::Skipped("the client got no session");
            }
            let ended = talk.posts.values().any(|post| post.is("DELETE"));
            let gone = talk.run.events.iter().any(|event| matches!(event.what, What::Ended(_)));
            if !ended && !gone {
                return Outcome::Skipped("nobody knows whether the client still needs its session");
            }
            let lost =
                (!ended).then(|| Finding::new("the client is gone, and has sent no DELETE", None, None));
            Outcome::of([lost], NOTHING)
        },
    },
    Rule {
        slug: "client-new-session-after-404",
        chapter: Chapter::StreamableHttp,
        sentence: "A client whose session is not known any more begins a new one, and asks no more in the old one.",
        sources: SESSIONS,
        judge: |seen| {
            let talk = seen.talk();
            let Some(session) = session(talk) else {
                return Outcome::Skipped("the client got no session");
            };
            let Some(lost) = talk.posts.values().find(|post| {
                post.status() == Some(404) && post.request.headers.value(name::SESSION_ID) == Some(session)
            }) else {
                return Outcome::Skipped("the session lasted");
            };
            let answered = lost.place;
            let again = talk.asked.iter().find(|asked| {
                // What was sent at once may have crossed with it.
                asked.place > answered
                    && asked.at.saturating_sub(at(talk, answered)) > Duration::from_secs(1)
                    && asked.what.method != Method::Initialize
            });
            Outcome::of(
                [again.map(|asked| asked.finding("it asked again in the session that was lost"))],
                NOTHING,
            )
        },
    },
    Rule {
        slug: "client-version-header",
        chapter: Chapter::StreamableHttp,
        sentence: "Each request of a client that follows initialize has the header MCP-Protocol-Version.",
        sources: &[Source::new(Revisions::LEGACY_SINCE_THIRD, Must, VERSION)],
        judge: |seen| {
            following(seen.talk(), |post| {
                let given = post.request.headers.value(name::PROTOCOL_VERSION);
                given.is_none().then(|| post.finding("MCP-Protocol-Version is missing"))
            })
        },
    },
    Rule {
        slug: "client-version-header-negotiated",
        chapter: Chapter::StreamableHttp,
        sentence: "The version in a client's MCP-Protocol-Version is the one that was agreed on.",
        sources: &[Source::new(Revisions::LEGACY_SINCE_THIRD, Should, VERSION)],
        judge: |seen| {
            let talk = seen.talk();
            let Some((.., result)) = talk.opening() else {
                return Outcome::Skipped("no session was opened");
            };
            let agreed = text(result.raw(), "protocolVersion").map(|version| Version::parse(&version));
            let posts = after(talk).filter_map(|post| {
                let given = post.request.headers.value(name::PROTOCOL_VERSION)?;
                let good = agreed.as_ref().is_some_and(|agreed| agreed.as_str().as_bytes() == given);
                Some((!good).then(|| {
                    post.finding(format!("MCP-Protocol-Version is {}", shown(post, name::PROTOCOL_VERSION)))
                }))
            });
            Outcome::of(posts, NOTHING)
        },
    },
];

fn at(talk: &Talk<'_>, place: usize) -> Duration {
    talk.run.events.get(place).map_or(Duration::ZERO, |event| event.at)
}

fn is_opening(post: &Post<'_>) -> bool {
    post.requests().any(|request| request.method == Method::Initialize)
}

/// The id that came with the answer to `initialize`.
fn session<'a>(talk: &Talk<'a>) -> Option<&'a [u8]> {
    talk.posts
        .values()
        .filter(|post| is_opening(post))
        .find_map(|post| post.response?.headers.value(name::SESSION_ID))
}

/// The requests after the answer to `initialize`.
fn after<'t, 'a>(talk: &'t Talk<'a>) -> impl Iterator<Item = &'t Post<'a>> {
    let answered = talk.opening().map_or(usize::MAX, |(_, said, _)| said.place);
    talk.posts.values().filter(move |post| post.place > answered && !is_opening(post))
}

fn following(talk: &Talk<'_>, look: impl Fn(&Post<'_>) -> Option<Finding>) -> Outcome {
    Outcome::of(after(talk).map(look), NOTHING)
}
