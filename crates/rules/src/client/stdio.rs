//! How a client writes to the standard input of a server, and how it ends the process.

use std::time::Duration;

use mcpjoin_proto::scan::{Encoding, ScanErrorKind};
use mcpjoin_proto::session::ProcessExit;
use mcpjoin_proto::{DecodeErrorKind, Message, Method, Raw};

use super::replies::is_modern;
use crate::client_view::ClientView;
use crate::rule::{Finding, Outcome, Source};
use crate::stdio::split_over_lines;
use crate::trace::What;

const STDIO: &[Source] = sources![
    LEGACY Must "basic/transports#stdio",
    MODERN Must "basic/transports/stdio",
];

const SHUTDOWN: &[Source] = sources![
    LEGACY Should "basic/lifecycle#shutdown",
    MODERN Should "basic/transports/stdio#shutdown",
];

/// A signal that comes so soon after the end of standard input has been sent without waiting.
const AT_ONCE: Duration = Duration::from_millis(100);

rules! {
    pub(crate) RULES for Client in Chapter::Stdio;

    "client-only-messages", STDIO,
        "A client writes nothing to the standard input of a server but messages.",
        |view| {
            let split = split_over_lines(&view.lines);
            lines(view, |place, kind| match kind {
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
        };
    "client-one-line-each", STDIO,
        "A client's message has no line break in it.",
        |view| {
            let split = split_over_lines(&view.lines);
            lines(view, |place, kind| {
                matches!(kind, DecodeErrorKind::Json(_)) && split.first() == Some(&place)
            })
        };
    "client-no-array", [LEGACY_SINCE_THIRD Must "basic/transports#stdio", MODERN Must "basic/transports/stdio"],
        "A line of a client is one message, and no array of messages.",
        |view| {
            let findings = view.lines.iter().map(|(_, line)| {
                let array = line.is_array() && Raw::parse(line.bytes().clone()).is_ok();
                array.then(|| Finding::new("the line is an array", None, Some(line.bytes())))
            });
            Outcome::of(findings, "the client wrote nothing")
        };
    "client-utf-8", [
        FIRST Must "https://www.rfc-editor.org/rfc/rfc8259#section-8.1",
        LEGACY_SINCE_SECOND Must "basic/transports",
        MODERN Must "basic/transports#messages",
    ],
        "A client writes its messages in UTF-8.",
        |view| {
            lines(view, |_, kind| match kind {
                DecodeErrorKind::Json(ScanErrorKind::Utf8) => true,
                DecodeErrorKind::Json(ScanErrorKind::Encoding(encoding)) => {
                    *encoding != Encoding::Utf8WithMark
                }
                _ => false,
            })
        };
    "client-no-byte-order-mark", [ALL Must "https://www.rfc-editor.org/rfc/rfc8259#section-8.1"],
        "A client writes no byte order mark before a message.",
        |view| {
            lines(view, |_, kind| {
                *kind == DecodeErrorKind::Json(ScanErrorKind::Encoding(Encoding::Utf8WithMark))
            })
        };
    "client-closes-input", SHUTDOWN,
        "A client ends a server by closing its standard input, before it sends any signal.",
        |view| {
            let end = match leaving(view) {
                (None, None) => None,
                (None, Some((_, signal))) => {
                    let problem = format!("signal {signal} came, and standard input was not closed");
                    Some(Some(Finding::new(problem, None, None)))
                }
                (Some(_), _) => Some(None),
            };
            Outcome::of(end, "the client had not left yet")
        };
    "client-waits-for-exit", SHUTDOWN,
        "A client that has closed the standard input of a server gives it time before it sends a signal.",
        |view| {
            let (Some(closed), signal) = leaving(view) else {
                return Outcome::Skipped("the client did not close standard input");
            };
            let early = signal.filter(|(at, _)| at.abs_diff(closed) < AT_ONCE);
            let early = early.map(|(_, signal)| {
                let problem = format!("signal {signal} came with the end of standard input");
                Finding::new(problem, None, None)
            });
            Outcome::of([early], "the client had not left yet")
        };
    "client-cancels-by-notification", [MODERN Must "basic/transports/stdio#cancellation"],
        "Over stdio a client gives up a request with notifications/cancelled, and with nothing else.",
        |view| {
            let findings = view.notifications.iter().filter_map(|notification| {
                if notification.what.method == Method::Cancelled {
                    return Some(None);
                }
                let unknown = notification.what.method.facts().is_none();
                let other =
                    unknown && notification.what.method.as_str().to_ascii_lowercase().contains("cancel");
                other.then(|| Some(view.finding("no revision has such a notification", notification.line)))
            });
            Outcome::of(findings, "the client gave up nothing")
        };
    "client-discovers-first", [MODERN Should "basic/transports/stdio#backward-compatibility"],
        "The first request of a client to a server that it does not know is server/discover.",
        |view| {
            let first = view.requests.first().and_then(|first| {
                if first.what.method == Method::Discover {
                    return Some(None);
                }
                // Whoever knows the server from before needs not ask, and does not fall back.
                let asked_later = view.calls(&Method::Discover).next().is_some();
                let problem = || format!("{} was first, and it did not know the server", first.what.method);
                (asked_later || opened_later(view)).then(|| Some(first.finding(problem())))
            });
            Outcome::of(first, "the client sent no request, or knew the server from before")
        };
    "client-falls-back-on-any-error", [MODERN Must "basic/transports/stdio#backward-compatibility"],
        "A client takes any error of no modern code in answer to server/discover for a server of the legacy era.",
        |view| {
            let findings = view.calls(&Method::Discover).filter_map(|request| {
                let response = request.response?;
                let error = response.outcome.as_ref().err().filter(|error| !is_modern(error.code))?;
                // Requests that were on their way say nothing, nor does one that asks whether the server is there.
                let next = view.requests.iter().find(|next| next.place > response.place);
                match next {
                    Some(next)
                        if next.at.saturating_sub(response.at) > AT_ONCE
                            || next.what.method == Method::Discover =>
                    {
                        Some(Some(next.finding(format!("it came after the error {}", error.code))))
                    }
                    _ => opened_later(view).then_some(None),
                }
            });
            Outcome::of(findings, "server/discover did not bring such an error, or the client left")
        };
}

/// When standard input was closed, and when a signal came, and which.
fn leaving(view: &ClientView<'_>) -> (Option<Duration>, Option<(Duration, i32)>) {
    let signal = view.run.events.iter().find_map(|event| match &event.what {
        What::Ended(ended) => match ended.exit {
            Some(ProcessExit::Signal(signal)) => Some((event.at, signal)),
            _ => None,
        },
        _ => None,
    });
    let closed = view.run.events.iter().find(|event| matches!(event.what, What::InputClosed));
    (closed.map(|event| event.at), signal)
}

/// Whether the client has opened a session after this run, over the same connection.
fn opened_later(view: &ClientView<'_>) -> bool {
    let later = view.trace.runs.iter().skip_while(|run| !std::ptr::eq(*run, view.run)).skip(1);
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
fn lines(view: &ClientView<'_>, broken: impl Fn(usize, &DecodeErrorKind) -> bool) -> Outcome {
    let findings = view.lines.iter().map(|(place, line)| {
        if line.is_array() {
            return None;
        }
        let fault = line.parts().find_map(Result::err)?;
        broken(*place, &fault.kind).then(|| Finding::new(fault.kind.to_string(), None, Some(line.bytes())))
    });
    Outcome::of(findings, "the client wrote nothing")
}
