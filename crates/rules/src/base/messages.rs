//! The form of a server's messages.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{DecodeError, DecodeErrorKind, Kind, Raw};

use super::{ERRORS, MESSAGES, REQUESTS, RESPONSES, RESULTS};
use crate::json::{member, members, of_line};
use crate::rule::{Finding, Outcome};
use crate::server_view::ServerView;

rules! {
    pub(crate) RULES for Server in Chapter::Base;

    "jsonrpc-version", MESSAGES,
        "Each message has the member jsonrpc with the value \"2.0\".",
        |view| by_kind(view, |kind| *kind == DecodeErrorKind::JsonRpcVersion);
    "message-shape", MESSAGES,
        "A message is a request, a notification or a response: a method that is a string and parameters that are an \
         object, or the outcome of a request.",
        |view| {
            by_kind(view, |kind| {
                matches!(
                    kind,
                    DecodeErrorKind::MethodMissing
                        | DecodeErrorKind::MethodType
                        | DecodeErrorKind::MethodAndOutcome
                        | DecodeErrorKind::ParamsType
                )
            })
        };
    "unique-members", [ALL Should "https://www.rfc-editor.org/rfc/rfc8259#section-4"],
        "No member stands twice in a JSON object: what its reader takes it for is not defined.",
        |view| by_kind(view, |kind| matches!(kind, DecodeErrorKind::DuplicateMember { .. }));
    "result-or-error", RESPONSES,
        "A response has a result or an error, and not both.",
        |view| {
            by_kind(view, |kind| matches!(kind, DecodeErrorKind::ResultAndError | DecodeErrorKind::NoOutcome))
        };
    "result-has-id", RESULTS,
        "A result has the id of its request, which is never null.",
        |view| {
            let broken = |kind: &DecodeErrorKind, line: Option<&Members<Raw>>| {
                matches!(kind, DecodeErrorKind::IdMissing | DecodeErrorKind::IdNull)
                    && line.is_none_or(|line| !line.contains_key("method"))
            };
            by_line(view, broken)
        };
    "request-has-id", REQUESTS,
        "The id of a request is not null.",
        |view| {
            let request = view.requests.iter().map(|_| None);
            let broken = view.invalid.iter().filter(|fault| fault.what.kind == DecodeErrorKind::IdNull);
            let broken = broken
                .filter(|fault| {
                    of_line(fault.line.bytes()).is_some_and(|line| member(&line, "method").is_some())
                })
                .map(|fault| Some(finding(fault.what, fault.line.bytes())));
            Outcome::of(request.chain(broken), "the server sent no request")
        };
    "notification-without-id", [FIRST Must "basic/messages#notifications", SINCE_SECOND Must "basic#notifications"],
        "A notification has no id.",
        |view| {
            let good = view.notifications.iter().map(|_| None);
            let named = view
                .requests
                .iter()
                .filter(|request| request.what.method.as_str().starts_with("notifications/"));
            let broken = named.map(|request| {
                let problem = format!("{} has the id {}", request.what.method, request.what.id);
                Some(Finding::new(problem, None, Some(request.line.bytes())))
            });
            Outcome::of(good.chain(broken), "the server sent no notification")
        };
    "id-type", REQUESTS,
        "An id is a string or an integer.",
        |view| by_kind(view, |kind| *kind == DecodeErrorKind::IdType);
    "result-is-object", RESULTS,
        "A result is a JSON object.",
        |view| {
            let results = view.results().map(|(request, response, result)| {
                (result.raw().kind() != Kind::Object)
                    .then(|| request.finding("the result is no object", response.line))
            });
            Outcome::of(results, "no result was seen")
        };
    "error-members", ERRORS,
        "An error is an object with a code, and a message that is a string.",
        |view| {
            let good = view.errors().map(|_| None);
            let broken = broken_errors(view).filter_map(|(line, error)| {
                let problem = match members(&error) {
                    None => "the error is no object",
                    Some(error) if !error.contains_key("code") => "the error has no code",
                    Some(error) => match error.get("message").map(Raw::kind) {
                        None => "the error has no message",
                        Some(Kind::String) => return None,
                        Some(_) => "the error's message is no string",
                    },
                };
                Some(Some(Finding::new(problem, None, Some(line))))
            });
            Outcome::of(good.chain(broken), "no error was seen")
        };
    "error-code-integer", ERRORS,
        "The code of an error is an integer.",
        |view| {
            let good = view.errors().map(|_| None);
            let broken = broken_errors(view).filter_map(|(line, error)| {
                let code = member(&error, "code")?;
                let integral = code.as_str().parse::<f64>().is_ok_and(|value| value.fract() == 0.0);
                let broken = code.kind() != Kind::Number || !integral;
                broken.then(|| Some(Finding::new(format!("the code is {code}"), None, Some(line))))
            });
            Outcome::of(good.chain(broken), "no error was seen")
        };
}

/// The errors that the decoder refuses, with their lines.
fn broken_errors<'s>(view: &'s ServerView<'_>) -> impl Iterator<Item = (&'s bytes::Bytes, Raw)> {
    let invalid =
        view.invalid.iter().filter(|fault| matches!(fault.what.kind, DecodeErrorKind::Error { .. }));
    invalid.filter_map(|fault| {
        let line = of_line(fault.line.bytes())?;
        Some((fault.line.bytes(), member(&line, "error")?))
    })
}

fn finding(error: &DecodeError, line: &bytes::Bytes) -> Finding {
    Finding::new(error.kind.to_string(), None, Some(line))
}

/// Everything that came held, but for what is no message for this reason.
fn by_kind(view: &ServerView<'_>, broken: impl Fn(&DecodeErrorKind) -> bool) -> Outcome {
    by_line(view, |kind, _| broken(kind))
}

fn by_line(
    view: &ServerView<'_>,
    broken: impl Fn(&DecodeErrorKind, Option<&Members<Raw>>) -> bool,
) -> Outcome {
    let messages = view.lines.iter().flat_map(|(_, line)| line.parts().filter(Result::is_ok)).map(|_| None);
    let broken = view
        .invalid
        .iter()
        .filter(|fault| {
            let line = of_line(fault.line.bytes()).and_then(|line| members(&line));
            broken(&fault.what.kind, line.as_ref())
        })
        .map(|fault| Some(finding(fault.what, fault.line.bytes())));
    Outcome::of(messages.chain(broken), "the server sent no message")
}
