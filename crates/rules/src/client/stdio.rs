//! How a client writes to the standard input of a server, and how it ends the process.

use std::collections::BTreeSet;
use std::time::Duration;

use mcpjoin_proto::session::ProcessExit;
use mcpjoin_proto::{DecodeErrorKind, Method, Raw, RequestId};

use super::streams::is_modern;
use crate::client_view::ClientView;
use crate::json::members;
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::stdio::{
    BYTE_ORDER_MARK, NO_ARRAY, STDIO, array, has_byte_order_mark, is_no_message, is_other_encoding,
    split_over_lines,
};
use crate::trace::What;

const SHUTDOWN: &[Source] =
    sources![LEGACY Should "basic/lifecycle#shutdown", MODERN Should "basic/transports/stdio#shutdown"];
const NOT_LEFT: &str = "the client has not disconnected";

/// A client does within this time what it does without waiting.
const AT_ONCE: Duration = Duration::from_millis(100);

rules! {
    pub(crate) RULES for Client in Chapter::Stdio;

    "client-only-messages", STDIO,
        "A client writes only messages to the standard input of a server.",
        |view| {
            let split = split_over_lines(&view.lines);
            lines(view, |place, kind| {
                let is_json = is_no_message(kind) && !is_other_encoding(kind);
                *kind == DecodeErrorKind::NotAnObject || is_json && split.binary_search(&place).is_err()
            })
        };
    "client-one-line-each", STDIO,
        "A client's message contains no line break.",
        |view| {
            let split = split_over_lines(&view.lines);
            lines(view, |place, kind| matches!(kind, DecodeErrorKind::Json(_)) && split.first() == Some(&place))
        };
    "client-no-array", NO_ARRAY,
        "A line of a client is one message, and not an array of messages.",
        else "the client wrote nothing",
        |view| view.lines.iter().map(|(_, line)| array(line));
    "client-utf-8", [
        FIRST Must "https://www.rfc-editor.org/rfc/rfc8259#section-8.1",
        LEGACY_SINCE_SECOND Must "basic/transports",
        MODERN Must "basic/transports#messages",
    ],
        "A client writes its messages in UTF-8.",
        |view| lines(view, |_, kind| is_other_encoding(kind) && !has_byte_order_mark(kind));
    "client-no-byte-order-mark", BYTE_ORDER_MARK,
        "A client writes no byte order mark before a message.",
        |view| lines(view, |_, kind| has_byte_order_mark(kind));
    "client-closes-input", SHUTDOWN,
        "A client ends a server by closing its standard input, before it sends a signal.",
        else NOT_LEFT,
        |view| match leaving(view) {
            (None, None) => None,
            (Some(_), _) => Some(None),
            (None, Some((_, signal))) => {
                let problem = format!("signal {signal} came while standard input was open");
                Some(Some(Finding::new(problem, None, None)))
            }
        };
    "client-waits-for-exit", SHUTDOWN,
        "After closing standard input, a client gives the server time before it sends a signal.",
        else NOT_LEFT,
        |view| {
            let (Some(closed), signal) = leaving(view) else {
                return Outcome::Skipped("the client did not close standard input");
            };
            let early = signal.filter(|(at, _)| at.abs_diff(closed) < AT_ONCE);
            [early.map(|(_, signal)| {
                Finding::new(format_args!("signal {signal} came at the same time as the end of standard \
                    input"), None, None)
            })]
        };
    "client-cancels-by-notification", [MODERN Must "basic/transports/stdio#cancellation"],
        "Over stdio a client cancels a request only with notifications/cancelled.",
        else "the client cancelled nothing",
        |view| {
            let ids: BTreeSet<&RequestId> = view.requests.iter().map(|request| &request.what.id).collect();
            view.notifications.iter().filter_map(move |notification| {
                let method = &notification.what.method;
                if *method == Method::Cancelled {
                    return Some(None);
                }
                let is_other =
                    method.facts().is_none() && method.as_str().to_ascii_lowercase().contains("cancel");
                let params = members(notification.what.params.as_ref().filter(|_| is_other)?.raw())?;
                let is_id = |(_, value): (&str, &Raw)| value.decode().is_ok_and(|id: RequestId| ids.contains(&id));
                let names_request = params.iter().any(is_id);
                names_request.then(|| Some(notification.finding("no revision has such a notification")))
            })
        };
    "client-discovers-first", [MODERN Should "basic/transports/stdio#backward-compatibility"],
        "The first request of a client to an unknown server is server/discover.",
        else "the client sent no request, or knew the server already",
        |view| view.requests.first().and_then(|first| {
            let method = &first.what.method;
            if *method == Method::Discover {
                return Some(None);
            }
            // A client that knows the server does not ask later, and does not fall back.
            let is_asked_later = view.calls(&Method::Discover).next().is_some();
            let problem = || first.finding(format_args!("{method} was first, although the server was \
                unknown"));
            (is_asked_later || opened_later(view)).then(|| Some(problem()))
        });
    "client-falls-back-on-any-error", [MODERN Must "basic/transports/stdio#backward-compatibility"],
        "After an error for server/discover that is not specific to 2026-07-28, a client falls back to initialize.",
        else "server/discover did not return such an error, or the client never sent initialize",
        |view| view.calls(&Method::Discover).filter_map(|request| {
            let response = request.response?;
            let error = response.error().filter(|error| !is_modern(error.code))?;
            // A request that crossed with the error says nothing, nor does another server/discover.
            let next = view.requests.iter().find(|next| next.place > response.place);
            let next = next.filter(|next| {
                next.at.saturating_sub(response.at) > AT_ONCE || next.what.method == Method::Discover
            });
            // A client that never sends initialize supports only this era: it has nothing to fall back to.
            let problem = || format!("it came after the error {}", error.code);
            opened_later(view).then(|| next.map(|next| next.finding(problem())))
        });
}

/// The time at which standard input was closed, and the time and the number of a signal.
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
    let mut requests =
        view.later_runs().flat_map(|run| run.received_lines()).flat_map(|line| line.requests());
    requests.any(|request| request.method == Method::Initialize)
}

/// Checks every line: a violation is one that is no message for this reason.
fn lines(view: &ClientView<'_>, is_broken: impl Fn(usize, &DecodeErrorKind) -> bool) -> Outcome {
    let findings = view.lines.iter().map(|(place, line)| {
        if line.is_array() {
            return None;
        }
        let kind = &line.parts().find_map(Result::err)?.kind;
        line.finding_if(is_broken(*place, kind), kind)
    });
    Outcome::of(findings, "the client wrote nothing")
}
