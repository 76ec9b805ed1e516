//! The form of a client's messages.

use std::collections::BTreeMap;

use mcpjoin_proto::{DecodeError, DecodeErrorKind, Kind, Raw};

use crate::base::{MESSAGES, REQUESTS};
use crate::client_view::ClientView;
use crate::json::{member, of_line};
use crate::rule::{Finding, Outcome, Source};
use crate::trace::Line;

/// Of the modern era a client sends no response at all.
pub(super) const RESPONSES: &[Source] = sources![
    FIRST Must "basic/messages#responses",
    LEGACY_SINCE_SECOND Must "basic#responses",
];
const NOTHING: &str = "the client sent no message";

rules! {
    pub(crate) RULES for Client in Chapter::Base;

    "client-jsonrpc-version", MESSAGES,
        "Each message of the client has the member jsonrpc with the value \"2.0\".",
        |view| each(view, |kind, _| *kind == DecodeErrorKind::JsonRpcVersion);
    "client-message-shape", MESSAGES,
        "A message is a request, a notification or a response, with a method that is a string and parameters that \
         are an object, or with an outcome.",
        |view| {
            each(view, |kind, _| {
                matches!(
                    kind,
                    DecodeErrorKind::MethodMissing
                        | DecodeErrorKind::MethodType
                        | DecodeErrorKind::MethodAndOutcome
                        | DecodeErrorKind::ParamsType
                )
            })
        };
    "client-unique-members", [ALL Should "https://www.rfc-editor.org/rfc/rfc8259#section-4"],
        "No member stands twice in a JSON object of the client's.",
        |view| each(view, |kind, _| matches!(kind, DecodeErrorKind::DuplicateMember { .. }));
    "client-request-id", REQUESTS,
        "The id of a client's request is a string or an integer, and never null.",
        |view| {
            each(view, |kind, line| {
                matches!(kind, DecodeErrorKind::IdNull | DecodeErrorKind::IdType)
                    && line.is_some_and(|line| member(line, "method").is_some())
            })
        };
    "client-request-id-not-reused", REQUESTS,
        "A client uses no id again: in one session of the legacy era, or while it waits for its answer in the modern \
         one.",
        |view| {
            if view.is_modern() && view.is_http() {
                // Each request stands for itself: two clients that come at once are two senders.
                return Outcome::Skipped("over HTTP nobody knows which requests are of one sender");
            }
            let mut earlier = BTreeMap::new();
            let findings = view.requests.iter().map(|request| {
                let before = earlier.insert(&request.what.id, request)?;
                let open = before.response.is_none_or(|response| response.place > request.place);
                (!view.is_modern() || open).then(|| {
                    let problem = format!(
                        "{} has the id {}, which {} had before it",
                        request.what.method, request.what.id, before.what.method
                    );
                    request.finding(problem)
                })
            });
            Outcome::of(findings, "the client sent no request")
        };
    "client-result-or-error", RESPONSES,
        "A client's response has a result or an error, and not both.",
        |view| {
            let broken = |kind: &DecodeErrorKind, _: Option<&Raw>| {
                matches!(kind, DecodeErrorKind::ResultAndError | DecodeErrorKind::NoOutcome)
            };
            response(view, broken)
        };
    "client-result-is-object", RESPONSES,
        "A client's result is a JSON object.",
        |view| {
            let responses =
                view.our_requests.iter().filter_map(|our_request| Some((our_request, our_request.response?)));
            let findings = responses.filter_map(|(our_request, response)| {
                let result = response.outcome.as_ref().ok()?;
                let good = result.raw().kind() == Kind::Object;
                Some((!good).then(|| our_request.finding("the result is no object", response.line)))
            });
            Outcome::of(findings, "the client gave no result")
        };
    "client-error-shape", RESPONSES,
        "A client's error is an object with a code that is an integer and a message that is a string.",
        |view| response(view, |kind, _| matches!(kind, DecodeErrorKind::Error { .. }));
    "client-notification-without-id", [
        FIRST Must "basic/messages#notifications",
        SINCE_SECOND Must "basic#notifications",
    ],
        "A client's notification has no id.",
        |view| {
            let good = view.notifications.iter().map(|_| None);
            let with = view
                .requests
                .iter()
                .filter(|request| request.what.method.as_str().starts_with("notifications/"));
            let with =
                with.map(|request| Some(request.finding(format!("{} has an id", request.what.method))));
            Outcome::of(good.chain(with), "the client sent no notification")
        };
}

/// Everything that came held, but for what is no message for this reason.
fn each(view: &ClientView<'_>, broken: impl Fn(&DecodeErrorKind, Option<&Raw>) -> bool) -> Outcome {
    let good = view.lines.iter().filter(|(_, line)| line.parts().all(|part| part.is_ok())).map(|_| None);
    Outcome::of(good.chain(invalid(view, &broken).map(Some)), NOTHING)
}

/// The same of its responses alone.
fn response(view: &ClientView<'_>, broken: impl Fn(&DecodeErrorKind, Option<&Raw>) -> bool) -> Outcome {
    let good = view.our_requests.iter().filter(|our_request| our_request.response.is_some()).map(|_| None);
    Outcome::of(good.chain(invalid(view, &broken).map(Some)), "the client answered nothing")
}

fn invalid(
    view: &ClientView<'_>,
    broken: &impl Fn(&DecodeErrorKind, Option<&Raw>) -> bool,
) -> impl Iterator<Item = Finding> {
    let broken = move |(_, line, error): &&(usize, &Line, &DecodeError)| {
        broken(&error.kind, of_line(line.bytes()).as_ref())
    };
    view.invalid.iter().filter(broken).map(|(_, line, error)| view.finding(error.kind.to_string(), line))
}
