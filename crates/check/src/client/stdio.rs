//! What a client writes to the standard input of a server, and how it ends it.

use std::time::Duration;

use mcpjoin_proto::scan::{Encoding, ScanErrorKind};
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_proto::{DecodeErrorKind, Message, Method, Raw};

use super::replies::is_modern;
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

const SHUTDOWN: &[Source] = &[
    Source::new(Revisions::LEGACY, Should, "basic/lifecycle#shutdown"),
    Source::new(Revisions::MODERN, Should, "basic/transports/stdio#shutdown"),
];

/// A signal that comes so soon after the end of standard input has been sent without waiting.
const AT_ONCE: Duration = Duration::from_millis(100);

pub(super) static RULES: [Rule; 10] = [
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
        sentence: "A client ends a server by closing its standard input, before it sends any signal.",
        sources: SHUTDOWN,
        judge: |seen| {
            let end = match leaving(seen) {
                (None, None) => None,
                (None, Some((_, signal))) => {
                    let problem = format!("signal {signal} came, and standard input was not closed");
                    Some(Some(Finding::new(problem, None, None)))
                }
                (Some(_), _) => Some(None),
            };
            Outcome::of(end, "the client had not left yet")
        },
    },
    Rule {
        slug: "client-waits-for-exit",
        chapter: Chapter::Stdio,
        sentence: "A client that has closed the standard input of a server gives it time before it sends a signal.",
        sources: SHUTDOWN,
        judge: |seen| {
            let (Some(closed), signal) = leaving(seen) else {
                return Outcome::Skipped("the client did not close standard input");
            };
            let early = signal.filter(|(at, _)| at.abs_diff(closed) < AT_ONCE);
            let early = early.map(|(_, signal)| {
                let problem = format!("signal {signal} came with the end of standard input");
                Finding::new(problem, None, None)
            });
            Outcome::of([early], "the client had not left yet")
        },
    },
    Rule {
        slug: "client-cancels-by-notification",
        chapter: Chapter::Stdio,
        sentence: "Over stdio a client gives up a request with notifications/cancelled, and with nothing else.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic/transports/stdio#cancellation")],
        judge: |seen| {
            let judged = seen.talk().told.iter().filter_map(|told| {
                if told.what.method == Method::Cancelled {
                    return Some(None);
                }
                let unknown = told.what.method.facts().is_none();
                let other = unknown && told.what.method.as_str().to_ascii_lowercase().contains("cancel");
                other.then(|| Some(seen.talk().finding("no revision has such a notification", told.line)))
            });
            Outcome::of(judged, "the client gave up nothing")
        },
    },
    Rule {
        slug: "client-discovers-first",
        chapter: Chapter::Stdio,
        sentence: "The first request of a client to a server that it does not know is server/discover.",
        sources: &[Source::new(Revisions::MODERN, Should, "basic/transports/stdio#backward-compatibility")],
        judge: |seen| {
            let talk = seen.talk();
            let first = talk.asked.first().and_then(|first| {
                if first.what.method == Method::Discover {
                    return Some(None);
                }
                // Whoever knows the server from before needs not ask, and does not fall back.
                let asked_later = talk.calls(&Method::Discover).next().is_some();
                let problem = || format!("{} was first, and it did not know the server", first.what.method);
                (asked_later || opened_later(seen)).then(|| Some(first.finding(problem())))
            });
            Outcome::of(first, "the client sent no request, or knew the server from before")
        },
    },
    Rule {
        slug: "client-falls-back-on-any-error",
        chapter: Chapter::Stdio,
        sentence: "A client takes any error of no modern code in answer to server/discover for a server of the legacy era.",
        sources: &[Source::new(Revisions::MODERN, Must, "basic/transports/stdio#backward-compatibility")],
        judge: |seen| {
            let talk = seen.talk();
            let judged = talk.calls(&Method::Discover).filter_map(|asked| {
                let said = asked.answer?;
                let error = said.outcome.as_ref().err().filter(|error| !is_modern(error.code))?;
                // Requests that were on their way say nothing, nor does one that asks whether the server is there.
                let next = talk.asked.iter().find(|next| next.place > said.place);
                match next {
                    Some(next)
                        if next.at.saturating_sub(said.at) > AT_ONCE
                            || next.what.method == Method::Discover =>
                    {
                        Some(Some(next.finding(format!("it came after the error {}", error.code))))
                    }
                    _ => opened_later(seen).then_some(None),
                }
            });
            Outcome::of(judged, "server/discover did not bring such an error, or the client left")
        },
    },
];

/// When standard input was closed, and when a signal came, and which.
fn leaving(seen: &Seen<'_>) -> (Option<Duration>, Option<(Duration, i32)>) {
    let signal = seen.run.events.iter().find_map(|event| match &event.what {
        What::Ended(ended) => match ended.exit {
            Some(ProcessExit::Signal(signal)) => Some((event.at, signal)),
            _ => None,
        },
        _ => None,
    });
    let closed = seen.run.events.iter().find(|event| matches!(event.what, What::InputClosed));
    (closed.map(|event| event.at), signal)
}

/// Whether the client has opened a session after this run, over the same connection.
fn opened_later(seen: &Seen<'_>) -> bool {
    let later = seen.trace.runs.iter().skip_while(|run| !std::ptr::eq(*run, seen.run)).skip(1);
    let mut requests = later.flat_map(|run| &run.events).filter_map(|event| match &event.what {
        What::Received(line) => Some(line),
        _ => None,
    });
    requests.any(|line| {
        line.parts().filter_map(Result::ok).any(
            |message| matches!(message, Message::Request(request) if request.method == Method::Initialize),
        )
    })
}

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
