//! What a response over HTTP means in place of an open session: by its status, its type and its body.
//!
//! Used by the examination over HTTP for the opening, and by `session` for lists.

use std::borrow::Cow;

use mcpjoin_proto::session::{
    CloseCause, HttpBody, NegotiationFailure, TransportError, TransportErrorKind, TransportErrorReason,
    Violation,
};
use mcpjoin_proto::{DecodeErrorKind, code};

use super::super::diagnosis;
use super::super::examination::{Examination, NO_ANSWER, NOT_AGREED};
use super::super::findings::*;
use super::super::observer::Observed;
use super::super::report::{Check, Finding, Phase};
use super::super::stderr_patterns::truncate_line;
use super::exchanges::{Exchange, Outcome};
use mcpjoin::internal::http::Proxy;
use mcpjoin::internal::readable;

/// What is known of a session that did not open.
pub(super) struct NotOpened<'a> {
    pub(super) phase: Phase,
    pub(super) cause: &'a CloseCause,
    pub(super) exchanges: &'a [Exchange],
    pub(super) observed: &'a Observed,
    /// HTTP+SSE was asked for.
    pub(super) sse: bool,
    /// Requests have an `Authorization` header.
    pub(super) authorized: bool,
    /// The proxy that could have answered in place of the server.
    pub(super) proxy: Option<&'a Proxy>,
}

impl NotOpened<'_> {
    pub(super) fn finding(&self) -> Finding {
        let text = self.cause.to_string();
        let refused = self.cause.transport_error();
        let by_response = || self.by_response(self.decisive()?, refused, &text);
        let mut finding = self.by_failure().or_else(by_response).unwrap_or_else(|| self.by_cause(&text));
        finding.evidence.body = finding.evidence.body.or_else(|| excerpt(refused?));
        if let Some(proxy) = self.proxy {
            self.attribute_to_proxy(proxy, &mut finding);
        }
        finding.with_requests(self.exchanges)
    }

    /// Says that a response may be the proxy's own.
    fn attribute_to_proxy(&self, proxy: &Proxy, finding: &mut Finding) {
        let Some(head) = self.decisive().and_then(Exchange::head).filter(|head| head.status >= 400) else {
            return;
        };
        let proxy = proxy.to_string();
        match &head.proxy {
            Some(program) => {
                finding.becomes(&PROXY_ANSWERED, &[("program", program), ("proxy", &proxy)]);
            }
            None => {
                finding.meaning += &format!("; the response came {proxy}, and may be from the proxy");
            }
        }
    }

    /// The exchange that decides: the last one that opens a connection.
    fn decisive(&self) -> Option<&Exchange> {
        let mut opening = self.exchanges.iter().rev();
        match self.sse {
            true => opening.next(),
            false => opening.find(|exchange| exchange.is_request()),
        }
    }

    /// Both sides speak MCP, and the failure says why they do not agree.
    fn by_failure(&self) -> Option<Finding> {
        let CloseCause::Opening(failure) = self.cause else { return None };
        let general = || diagnosis::opening_failure(self.phase, failure, self.observed);
        match failure {
            NegotiationFailure::Refused { error, .. } if error.code == code::HEADER_MISMATCH => {
                let mut finding = HEADER_MISMATCH.at(self.phase, failure.to_string());
                finding.evidence.error = Some(error.clone());
                Some(finding)
            }
            NegotiationFailure::Refused { error, .. } => {
                let by_status = self
                    .decisive()
                    .and_then(|exchange| by_status(self.phase, exchange, &error.message, self.authorized));
                let mut finding = by_status.unwrap_or_else(general);
                finding.evidence.error = Some(error.clone());
                Some(finding)
            }
            NegotiationFailure::UnsupportedVersion { .. }
            | NegotiationFailure::NoCommonVersion { .. }
            | NegotiationFailure::UnknownResponse { .. }
            | NegotiationFailure::Echo { .. } => Some(general()),
            // Only a message of JSON-RPC is checked for that.
            NegotiationFailure::InvalidResponse { problem, .. }
                if matches!(problem.decode_error(), Some(DecodeErrorKind::DuplicateMember { .. })) =>
            {
                Some(general())
            }
            NegotiationFailure::InvalidResponse { problem, .. } => {
                if let Some(finding) = self.decisive().and_then(|exchange| self.unexpected_events(exchange)) {
                    return Some(finding);
                }
                let foreign = self.observed.last_foreign.as_ref().and_then(|began| {
                    let exchange = self.decisive()?;
                    let mut finding = unexpected_body(self.phase, exchange, None)?;
                    if let Some(kind) = problem.decode_error() {
                        finding.seen = format!("{exchange}, but {kind}");
                    }
                    let began = truncate_line(&readable(began));
                    finding.evidence.body = Some(began).filter(|began| !began.is_empty());
                    Some(finding)
                });
                Some(foreign.unwrap_or_else(general))
            }
            _ => None,
        }
    }

    /// `refused`: the failure of the link, where that is the cause.
    fn by_response(
        &self,
        exchange: &Exchange,
        refused: Option<&TransportError>,
        text: &str,
    ) -> Option<Finding> {
        if refused.and_then(TransportError::reason) == Some(TransportErrorReason::SessionIdInvalid) {
            return Some(SESSION_ID_MALFORMED.at(self.phase, text));
        }
        if let Outcome::Failed { error, .. } = &exchange.outcome {
            return Some(no_response(error).at(self.phase, &error.message));
        }
        redirect_circle(self.phase, self.exchanges, exchange)
            .or_else(|| {
                let said = refused.map(server_words).unwrap_or_default();
                by_status(self.phase, exchange, &said, self.authorized)
            })
            .or_else(|| {
                let has_no_events =
                    refused.and_then(TransportError::reason) == Some(TransportErrorReason::NoEvents);
                has_no_events.then(|| NO_EVENTS.at(self.phase, exchange.to_string()))
            })
            .or_else(|| self.unexpected_events(exchange))
            .or_else(|| unexpected_body(self.phase, exchange, refused))
    }

    /// A batch, or an event stream with text that is no message.
    fn unexpected_events(&self, exchange: &Exchange) -> Option<Finding> {
        if self.observed.violations.contains(&Violation::Batch) {
            let seen = format!("{exchange}, with an array instead of a message");
            return Some(BATCH.at(self.phase, seen));
        }
        if self.observed.noise_lines == 0 || !exchange.head()?.is("text/event-stream") {
            return None;
        }
        let seen = format!("{exchange}, with events that are not messages");
        let mut finding = EVENTS_NO_MESSAGES.at(self.phase, seen);
        finding.evidence.received = self.observed.noise_texts();
        Some(finding)
    }

    fn by_cause(&self, text: &str) -> Finding {
        let answered = self.decisive().is_some();
        let kind = match self.cause {
            CloseCause::Opening(NegotiationFailure::TimedOut { .. }) if answered => RESPONSE_UNFINISHED,
            CloseCause::Opening(NegotiationFailure::TimedOut { .. }) => REQUEST_UNANSWERED,
            _ if answered => NO_REPLY,
            cause => return diagnosis::remote_not_opened(self.phase, cause, self.observed),
        };
        kind.at(self.phase, text)
    }
}

/// Redirects that lead back to where they began.
fn redirect_circle(phase: Phase, all: &[Exchange], last: &Exchange) -> Option<Finding> {
    let to = last.head()?.location.as_ref()?;
    let is_redirect = |exchange: &&Exchange| {
        (&exchange.about, &exchange.method) == (&last.about, &last.method)
            && matches!(exchange.status(), Some(300..=399))
    };
    let visited: Vec<&str> = all.iter().filter(is_redirect).map(|exchange| exchange.url.as_str()).collect();
    let start = visited.iter().position(|url| url == to)?;
    let mut circle = visited[start..].to_vec();
    if let Some(again) = circle.iter().skip(1).position(|url| url == to) {
        circle.truncate(again + 1);
    }
    let seen = match &circle[..] {
        [_] => format!("{to} redirects to itself"),
        circle => format!("the redirects form a loop: {}, {to}", circle.join(", ")),
    };
    Some(REDIRECT_CIRCLE.at(phase, seen))
}

/// The kind of a request without a response.
fn no_response(error: &TransportError) -> Kind<Check> {
    use TransportErrorReason as Reason;
    match (error.kind, error.reason()) {
        (_, Some(Reason::ProxyAuthorization)) => PROXY_AUTHORIZATION,
        (_, Some(Reason::ProxyScheme)) => PROXY_SCHEME,
        (_, Some(Reason::ProxyRefused)) => PROXY_REFUSED,
        (TransportErrorKind::Unauthorized, _) => NO_CREDENTIALS,
        (_, Some(Reason::NoCredentials)) => AUTHORIZATION_UNREACHED,
        (TransportErrorKind::Untrusted, _) => CERTIFICATE_REFUSED,
        (_, Some(Reason::RedirectNotFollowed | Reason::RedirectToOtherOrigin | Reason::RedirectLoop)) => {
            REDIRECT_NOT_FOLLOWED
        }
        (_, Some(Reason::NoHttp)) => INVALID_HTTP,
        _ => BROKEN,
    }
}

/// Every request was answered with 405, whatever its method.
pub(super) fn no_method(phase: Phase, all: &[Exchange]) -> Finding {
    let seen = "every request gets 405 Method Not Allowed: GET and POST, at every path that was tried";
    NO_MCP.at(phase, seen).with_requests(all)
}

/// HTTP+SSE was asked for, and the server speaks Streamable HTTP.
pub(super) fn is_streamable(phase: Phase, url: &str, all: &[Exchange]) -> Finding {
    let seen = format!("{url} responds to a POST with a message: it is a Streamable HTTP server");
    STREAMABLE_HTTP.with(phase, seen, &[("url", url)]).with_requests(all)
}

/// Adds the statuses of an opening that failed to the steps.
pub(super) fn explain_opening(exam: &mut Examination, all: &[Exchange]) {
    let of_probe = all.iter().filter(|exchange| exchange.about == "server/discover");
    let statuses: Vec<u16> = of_probe.filter_map(Exchange::status).filter(|status| *status >= 300).collect();
    let probe = exam.step_of(Phase::Probe).filter(|step| step.detail == NO_ANSWER);
    if let (Some(step), Some(last)) = (probe, statuses.last()) {
        let times = match statuses.iter().filter(|status| *status == last).count() {
            1 => String::new(),
            count => format!(", {count} times"),
        };
        step.detail = format!("no message in the response, but {last}{times}");
    }
    let last = all.iter().rev().filter(|exchange| exchange.is_request()).find_map(Exchange::status);
    exam.stopped = last.map(|status| match status {
        401 => "the server answered 401",
        403 => "the server answered 403",
        404 => "the server answered 404",
        405 => "the server answered 405",
        300..=399 => "the server redirects",
        400..=499 => "the server refused the request",
        500 => "the server answered 500",
        502 => "the server answered 502",
        503 => "the server answered 503",
        _ => NOT_AGREED,
    });
}

/// Whether the server says one of these words, in small letters.
fn says(said: &str, words: &[&str]) -> bool {
    let said = said.to_ascii_lowercase();
    words.iter().any(|word| said.contains(word))
}

/// The finding of a status that is no success. `said`: the body alone, because a URL may contain any word.
pub(super) fn by_status(phase: Phase, exchange: &Exchange, said: &str, authorized: bool) -> Option<Finding> {
    const PLAIN_HTTP: [&str; 2] = ["plain http request was sent to https", "http request to an https server"];
    const ROBOTS: [&str; 5] = ["just a moment", "attention required", "captcha", "cf-chl", "are you a robot"];
    let head = exchange.head()?;
    let says_that = |text: &str| format!("; it responds: {text}");
    let reason = head.reason.as_deref();
    let wants = reason.or(head.wants.as_deref()).map(says_that).unwrap_or_default();
    let reason = reason.map(says_that).unwrap_or_default();
    let location = head.location.as_deref();
    // A number of seconds, or a date.
    let when = head.retry_after.as_ref().map(|wait| match wait.parse::<u64>() {
        Ok(seconds) => format!("in {seconds} s"),
        Err(_) => wait.clone(),
    });
    let kind = match head.status {
        _ if says(said, &PLAIN_HTTP) => PLAIN_HTTP_TO_TLS_PORT,
        401 if authorized => TOKEN_NOT_ACCEPTED,
        401 => NOT_AUTHORIZED,
        101 | 426 => WANTS_UPGRADE,
        403 | 429 | 503 if says(said, &ROBOTS) => ROBOTS_REFUSED,
        421 => HOST_REFUSED,
        403 if says(said, &["host", "origin", "rebinding"]) => HOST_REFUSED,
        403 if authorized => TOKEN_FORBIDDEN,
        403 => FORBIDDEN,
        404 | 410 => WRONG_PATH,
        405 | 501 => PATH_TAKES_NO_POST,
        300..=399 if location.is_some() => REDIRECTED,
        300..=399 => REDIRECTED_NOWHERE,
        406 => ACCEPT_REFUSED,
        407 => PROXY_AUTHORIZATION,
        413 => BODY_TOO_LARGE,
        414 => URL_TOO_LONG,
        415 => JSON_REFUSED,
        431 => HEADERS_TOO_LARGE,
        429 if when.is_some() => TOO_MANY_REQUESTS_UNTIL,
        429 => TOO_MANY_REQUESTS,
        502 | 504 => GATEWAY,
        503 => UNAVAILABLE,
        500..=599 => SERVER_ERROR,
        400 if says(said, &["session"]) => SESSION_WANTED,
        400..=499 => REQUEST_REFUSED,
        _ => return None,
    };
    let values = [
        ("wants", &*wants),
        ("reason", &reason),
        ("location", location.unwrap_or_default()),
        ("when", when.as_deref().unwrap_or_default()),
    ];
    Some(kind.with(phase, exchange.to_string(), &values))
}

/// The finding of a success whose body holds no response. `refused`: why the transport could not use it.
fn unexpected_body(phase: Phase, exchange: &Exchange, refused: Option<&TransportError>) -> Option<Finding> {
    let head = exchange.head()?;
    let reason = refused.and_then(TransportError::reason);
    let described = || refused.map_or_else(|| exchange.to_string(), |refused| refused.message.clone());
    let mut seen = exchange.to_string();
    let kind = if head.is("text/html") {
        HTML
    } else if reason == Some(TransportErrorReason::ContentEncoding) {
        // Only the transport knows why it has not read a body.
        seen = described();
        BODY_ENCODED
    } else if head.is("text/event-stream") {
        seen = described();
        STREAM_ENDED
    } else if reason == Some(TransportErrorReason::BodyCutOff) {
        seen = described();
        BODY_CUT_OFF
    } else if head.content_type.is_none()
        || matches!(head.status, 202 | 204)
        || reason == Some(TransportErrorReason::NoReply)
    {
        seen = described();
        EMPTY_BODY
    } else if head.is("application/json") {
        if refused.is_some_and(|refused| refused.http_body().is_none()) {
            seen = described();
        }
        BODY_NO_MESSAGE
    } else {
        CONTENT_TYPE
    };
    Some(kind.at(phase, seen))
}

/// The beginning of a body that is no message, as a finding shows it.
pub(super) fn excerpt(refused: &TransportError) -> Option<String> {
    match refused.http_body()? {
        HttpBody::Other(began) => Some(truncate_line(&readable(began))),
        _ => None,
    }
}

/// What the server says in the response that is the failure: its error of JSON-RPC, or the beginning of another body.
pub(super) fn server_words(refused: &TransportError) -> Cow<'_, str> {
    match refused.http_body() {
        Some(HttpBody::Error(error)) => Cow::Borrowed(&error.message),
        Some(HttpBody::Other(began)) => String::from_utf8_lossy(began),
        _ => Cow::Borrowed(""),
    }
}
