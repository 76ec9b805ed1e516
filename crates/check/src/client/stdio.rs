//! What a client writes to the standard input of a server, and how it ends it.

use std::time::Duration;

use mcpjoin_proto::scan::{Encoding, ScanErrorKind};
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_proto::{DecodeErrorKind, Raw};

use crate::revisions::Revisions;
use crate::rule::Level::{Must, Should};
use crate::rule::{Chapter, Finding, Outcome, Rule, Source};
use crate::seen::Seen;
use crate::stdio::split_over_lines;
use crate::trace::What;

const STDIO: &[Source] = &[
    Source::new(Revisions::LEGACY, Must, "basic/transports#stdio"),
    Source::new(Revisions::MODERN, Must, "basic/transports/stdio"),
];

/// A signal that comes so soon after the end of standard input has been sent without waiting.
const AT_ONCE: Duration = Duration::from_millis(100);

pub(super) static RULES: [Rule; 6] = [
    Rule {
        slug: "client-only-messages",
        chapter: Chapter::Stdio,
        sentence: "A client writes nothing to the standard input of a server but messages.",
        sources: STDIO,
        judge: |seen| {
            let split = split_over_lines(seen);
            lines(seen, |place, kind| match kind {
                DecodeErrorKind::NotAnObject => true,
                // These have rules of their own, or are deeper than we read.
                DecodeErrorKind::Json(kind) => {
                    let elsewhere = matches!(
                        kind,
                        ScanErrorKind::Utf8
                            | ScanErrorKind::Encoding(_)
                            | ScanErrorKind::Depth(_)
                            | ScanErrorKind::TooLong
                            | ScanErrorKind::DuplicateKey
                    );
                    !elsewhere && split.binary_search(&place).is_err()
                }
                _ => false,
            })
        },
    },
    Rule {
        slug: "client-one-line-each",
        chapter: Chapter::Stdio,
        sentence: "A client's message has no line break in it.",
        sources: STDIO,
        judge: |seen| {
            let split = split_over_lines(seen);
            lines(seen, |place, kind| {
                matches!(kind, DecodeErrorKind::Json(_)) && split.first() == Some(&place)
            })
        },
    },
    Rule {
        slug: "client-no-array",
        chapter: Chapter::Stdio,
        sentence: "A line of a client is one message, and no array of messages.",
        sources: &[
            Source::new(Revisions::LEGACY_SINCE_THIRD, Must, "basic/transports#stdio"),
            Source::new(Revisions::MODERN, Must, "basic/transports/stdio"),
        ],
        judge: |seen| {
            let judged = seen.talk().lines.iter().map(|(_, line)| {
                let array = line.is_array() && Raw::parse(line.bytes().clone()).is_ok();
                array.then(|| Finding::new("the line is an array", None, Some(line.bytes())))
            });
            Outcome::of(judged, "the client wrote nothing")
        },
    },
    Rule {
        slug: "client-utf-8",
        chapter: Chapter::Stdio,
        sentence: "A client writes its messages in UTF-8.",
        sources: &[
            Source::new(Revisions::FIRST, Must, "https://www.rfc-editor.org/rfc/rfc8259#section-8.1"),
            Source::new(Revisions::LEGACY_SINCE_SECOND, Must, "basic/transports"),
            Source::new(Revisions::MODERN, Must, "basic/transports#messages"),
        ],
        judge: |seen| {
            lines(seen, |_, kind| match kind {
                DecodeErrorKind::Json(ScanErrorKind::Utf8) => true,
                DecodeErrorKind::Json(ScanErrorKind::Encoding(encoding)) => {
                    *encoding != Encoding::Utf8WithMark
                }
                _ => false,
            })
        },
    },
    Rule {
        slug: "client-no-byte-order-mark",
        chapter: Chapter::Stdio,
        sentence: "A client writes no byte order mark before a message.",
        sources: &[Source::new(Revisions::ALL, Must, "https://www.rfc-editor.org/rfc/rfc8259#section-8.1")],
        judge: |seen| {
            lines(seen, |_, kind| {
                *kind == DecodeErrorKind::Json(ScanErrorKind::Encoding(Encoding::Utf8WithMark))
            })
        },
    },
    Rule {
        slug: "client-closes-input",
        chapter: Chapter::Stdio,
        sentence: "A client ends a server by closing its standard input, and sends a signal later, if that does not help.",
        sources: &[
            Source::new(Revisions::LEGACY, Should, "basic/lifecycle#shutdown"),
            Source::new(Revisions::MODERN, Should, "basic/transports/stdio#shutdown"),
        ],
        judge: |seen| {
            let signal = seen.run.events.iter().find_map(|event| match &event.what {
                What::Ended(ended) => match ended.exit {
                    Some(ProcessExit::Signal(signal)) => Some((event.at, signal)),
                    _ => None,
                },
                _ => None,
            });
            let closed = seen.run.events.iter().find(|event| matches!(event.what, What::InputClosed));
            let end = match (closed, signal) {
                (None, None) => None,
                (Some(closed), Some((at, _))) if at.saturating_sub(closed.at) >= AT_ONCE => Some(None),
                (Some(_), None) => Some(None),
                (_, Some((_, signal))) => {
                    let problem =
                        format!("signal {signal} came before the end of standard input, or with it");
                    Some(Some(Finding::new(problem, None, None)))
                }
            };
            Outcome::of(end, "the client had not left yet")
        },
    },
];

/// Every line that came, but for those that are no message for this reason.
fn lines(seen: &Seen<'_>, broken: impl Fn(usize, &DecodeErrorKind) -> bool) -> Outcome {
    let judged = seen.talk().lines.iter().map(|(place, line)| {
        if line.is_array() {
            return None;
        }
        let fault = line.parts().find_map(Result::err)?;
        broken(*place, &fault.kind).then(|| Finding::new(fault.kind.to_string(), None, Some(line.bytes())))
    });
    Outcome::of(judged, "the client wrote nothing")
}
