//! The HTTP requests of a client, in both eras: how messages are posted and streams are opened.

use mcpjoin_proto::http::headers::{Headers, name};
use mcpjoin_proto::http::origin::{MediaType, accepts, has_json_body};
use mcpjoin_proto::scan::ScanErrorKind;
use mcpjoin_proto::{DecodeErrorKind, Message, Method};

use super::talk::Post;
use crate::revisions::Revisions;
use crate::rule::Level::{Advice, Must};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::Seen;

const SENDING: &[Source] = &[
    Source::new(Revisions::LEGACY_SINCE_SECOND, Must, "basic/transports#sending-messages-to-the-server"),
    Source::new(Revisions::MODERN, Must, "basic/transports/streamable-http#sending-messages"),
];
const NOTHING: &str = "the client posted nothing";

pub(super) static RULES: [Rule; 5] = [
    Rule {
        slug: "client-accepts-both",
        chapter: Chapter::StreamableHttp,
        sentence: "A client's POST accepts application/json and text/event-stream.",
        sources: SENDING,
        judge: |seen| {
            posts(seen, |post| {
                let good = accepts(&post.request.headers[..], &[MediaType::Json, MediaType::EventStream]);
                (!good).then(|| post.finding(format!("Accept is {}", shown(post, name::ACCEPT))))
            })
        },
    },
    Rule {
        slug: "client-get-accepts-events",
        chapter: Chapter::StreamableHttp,
        sentence: "A client's GET accepts text/event-stream.",
        sources: &[Source::new(
            Revisions::LEGACY_SINCE_SECOND,
            Must,
            "basic/transports#listening-for-messages-from-the-server",
        )],
        judge: |seen| {
            let gets = seen.talk().posts.values().filter(|post| post.is("GET"));
            let judged = gets.map(|post| {
                let good = accepts(&post.request.headers[..], &[MediaType::EventStream]);
                (!good).then(|| post.finding(format!("Accept is {}", shown(post, name::ACCEPT))))
            });
            Outcome::of(judged, "the client opened no stream")
        },
    },
    Rule {
        slug: "client-posts-json",
        chapter: Chapter::StreamableHttp,
        sentence: "A client says that what it posts is application/json.",
        sources: &[
            Source::new(
                Revisions::LEGACY_SINCE_SECOND,
                Advice,
                "basic/transports#sending-messages-to-the-server",
            ),
            Source::new(
                Revisions::MODERN,
                Advice,
                "basic/transports/streamable-http#standard-request-headers",
            ),
        ],
        judge: |seen| {
            posts(seen, |post| {
                (!has_json_body(&post.request.headers[..]))
                    .then(|| post.finding(format!("Content-Type is {}", shown(post, name::CONTENT_TYPE))))
            })
        },
    },
    Rule {
        slug: "client-posts-each-message",
        chapter: Chapter::StreamableHttp,
        sentence: "The body of a client's POST is one message.",
        sources: SENDING,
        judge: |seen| {
            let batches = Revisions::BATCHING.contains(&seen.run.version);
            posts(seen, |post| {
                let Some(body) = post.body else { return Some(post.finding("it has no body")) };
                if body.is_array() {
                    return (!batches).then(|| post.finding("it is an array"));
                }
                let fault = body.parts().find_map(Result::err)?;
                is_no_message(&fault.kind).then(|| post.finding(fault.kind.to_string()))
            })
        },
    },
    Rule {
        slug: "client-posts-no-cancellation",
        chapter: Chapter::StreamableHttp,
        sentence: "A client gives up a request by closing its response, and posts no notifications/cancelled.",
        sources: &[Source::new(
            Revisions::MODERN,
            Advice,
            "basic/patterns/cancellation#transport-specific-cancellation",
        )],
        judge: |seen| {
            posts(seen, |post| {
                let told = post.messages().find(|message| {
                    matches!(message, Message::Notification(told) if told.method == Method::Cancelled)
                });
                told.map(|_| post.finding("no such notification is expected"))
            })
        },
    },
];

/// Looks at what was posted.
pub(super) fn posts(seen: &Seen<'_>, look: impl Fn(&Post<'_>) -> Option<Finding>) -> Outcome {
    let posts = seen.talk().posts.values().filter(|post| post.is("POST"));
    Outcome::of(posts.map(look), NOTHING)
}

/// A header as it came, for a finding.
pub(super) fn shown(post: &Post<'_>, name: &str) -> String {
    let value = post.request.headers.value(name);
    value.map_or_else(|| "missing".into(), |value| format!("{:?}", String::from_utf8_lossy(value)))
}

fn is_no_message(kind: &DecodeErrorKind) -> bool {
    match kind {
        DecodeErrorKind::NotAnObject => true,
        // Deeper than we read, and keys to be judged elsewhere.
        DecodeErrorKind::Json(
            ScanErrorKind::Depth(_) | ScanErrorKind::TooLong | ScanErrorKind::DuplicateKey,
        ) => false,
        DecodeErrorKind::Json(_) => true,
        _ => false,
    }
}
