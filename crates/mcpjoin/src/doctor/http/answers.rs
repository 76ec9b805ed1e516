//! From what came back over HTTP to findings: what a status, a type or a body means, and one thing to do.

use mcpjoin_proto::code;
use mcpjoin_proto::session::{CloseCause, LinkErrorKind, OpeningFailure};

use super::super::diagnosis::{self, AUTHORS, cut};
use super::super::remote::{self, ITS_LOG};
use super::super::report::{Check, Finding, Phase};
use super::super::wire::Seen;
use super::exchanges::{Came, Exchange, lines};
use crate::link::readable;

/// What is known when client and server have not agreed.
pub(super) struct Unopened<'a> {
    pub(super) phase: Phase,
    pub(super) cause: &'a CloseCause,
    pub(super) exchanges: &'a [Exchange],
    pub(super) seen: &'a Seen,
    /// The way is HTTP+SSE, as it was asked for.
    pub(super) sse: bool,
    /// We say who we are.
    pub(super) authorized: bool,
}

impl Unopened<'_> {
    pub(super) fn finding(&self) -> Finding {
        let text = self.cause.to_string();
        let mut found =
            self.by_words().or_else(|| self.by_head(&text)).unwrap_or_else(|| self.by_cause(&text));
        found.evidence.body = found.evidence.body.or_else(|| excerpt(&text));
        found.evidence.requests = lines(self.exchanges);
        found
    }

    /// The exchange that decides: the last one that opens a connection.
    fn decisive(&self) -> Option<&Exchange> {
        let mut opening = self.exchanges.iter().rev();
        match self.sse {
            true => opening.next(),
            false => opening.find(|exchange| exchange.is_request()),
        }
    }

    /// Both sides speak MCP, and say why they do not agree.
    fn by_words(&self) -> Option<Finding> {
        let CloseCause::Opening(failure) = self.cause else { return None };
        match failure {
            OpeningFailure::Refused { error, .. } => {
                let mut found = coded(self.phase, error.code, &failure.to_string())
                    .or_else(|| {
                        self.decisive().and_then(|exchange| {
                            refused(self.phase, exchange, &error.message, self.authorized)
                        })
                    })
                    .unwrap_or_else(|| diagnosis::opening(self.phase, failure, self.seen));
                found.evidence.error = Some(error.clone());
                Some(found)
            }
            OpeningFailure::UnsupportedVersion { .. } | OpeningFailure::NoCommonVersion { .. } => {
                Some(diagnosis::opening(self.phase, failure, self.seen))
            }
            OpeningFailure::BadReply { .. } => {
                let foreign = self.seen.last_foreign.as_ref().and_then(|began| {
                    let mut found = unlike_a_body(self.phase, self.decisive()?)?;
                    found.evidence.body = Some(cut(&readable(began))).filter(|began| !began.is_empty());
                    Some(found)
                });
                Some(foreign.unwrap_or_else(|| diagnosis::opening(self.phase, failure, self.seen)))
            }
            _ => None,
        }
    }

    fn by_head(&self, text: &str) -> Option<Finding> {
        let exchange = self.decisive()?;
        if let Came::Nothing { kind, what } = &exchange.came {
            return Some(unanswered(self.phase, *kind, what));
        }
        refused(self.phase, exchange, words(text), self.authorized)
            .or_else(|| unlike_a_body(self.phase, exchange))
    }

    fn by_cause(&self, text: &str) -> Finding {
        let answered = self.decisive().is_some();
        match self.cause {
            CloseCause::Opening(OpeningFailure::TimedOut { .. }) => {
                let meaning = match answered {
                    true => "the server begins a response and does not end it with a reply",
                    false => {
                        "something takes the request and does not answer: it is busy, hangs, or is no MCP server"
                    }
                };
                Finding::new(
                    "silent",
                    Check::Opening,
                    self.phase,
                    text,
                    meaning,
                    "look at the server's own log; a slow one needs more time (--connect-timeout 2m)",
                )
            }
            _ if answered => Finding::new(
                "no-reply",
                Check::Body,
                self.phase,
                text,
                "the response ends, and the reply was not in it: the server or something before it has cut it off",
                ITS_LOG,
            ),
            cause => remote::unopened(self.phase, cause, self.seen),
        }
    }
}

/// What a code of an error says that belongs to HTTP.
fn coded(phase: Phase, error: i64, text: &str) -> Option<Finding> {
    (error == code::HEADER_MISMATCH).then(|| {
        Finding::new(
            "header-mismatch",
            Check::Headers,
            phase,
            text,
            "the headers of a request do not say what its body says, for the server: something on the way has changed \
             or dropped them, or the server reads them wrongly",
            "ask the server without the proxy or gateway before it; if it stays, tell the server's authors",
        )
    })
}

/// No response came.
fn unanswered(phase: Phase, kind: LinkErrorKind, what: &str) -> Finding {
    let small = what.to_ascii_lowercase();
    let proxied = small.contains("through the proxy ");
    if proxied && small.contains("proxy authorization required") {
        return proxy_authorization(phase, what);
    }
    if proxied && (small.contains("unsuccessful") || small.contains("made no connection")) {
        return Finding::new(
            "proxy-refused",
            Check::Proxy,
            phase,
            what,
            "the proxy does not let this connection through, or does not reach the host",
            "have the host allowed at the proxy, or name it in NO_PROXY where it is reached without one",
        );
    }
    match kind {
        LinkErrorKind::Untrusted => Finding::new(
            "certificate-refused",
            Check::ServerCertificate,
            phase,
            what,
            "whoever answers is not known to be the server, or somebody stands in between",
            "--ca FILE with the certificate of the authority that has signed it, once you know whose it is",
        ),
        LinkErrorKind::Unauthorized => Finding::new(
            "not-authorized",
            Check::Authorization,
            phase,
            what,
            "there is nothing that could be shown to the server",
            "send a token: --header 'Authorization: Bearer TOKEN'",
        ),
        _ if small.contains("redirects")
            || small.contains(" leads to ")
            || small.contains("without a location") =>
        {
            Finding::new(
                "redirected",
                Check::Endpoint,
                phase,
                what,
                "the server has moved, or the URL is not the one of the server itself; a request is not sent to another \
                 place by itself, since it may carry secrets",
                "write the URL that it leads to",
            )
        }
        _ => Finding::new(
            "broken",
            Check::Protocol,
            phase,
            what,
            "the connection ends before a response: the server died of the request, or what listens there does not \
             speak HTTP",
            ITS_LOG,
        ),
    }
}

fn proxy_authorization(phase: Phase, seen: &str) -> Finding {
    Finding::new(
        "proxy-authorization",
        Check::Proxy,
        phase,
        seen,
        "the proxy wants to know who asks (407)",
        "put user and password into the variable that names the proxy: http://USER:PASSWORD@proxy:3128",
    )
}

/// Whether words are in a text, whatever their letters.
fn says(text: &str, words: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    words.iter().any(|word| text.contains(word))
}

/// What a status says that is no success. `said`: what the server says in the body, and nothing beside: a URL may have
/// any word in it.
pub(super) fn refused(phase: Phase, exchange: &Exchange, said: &str, authorized: bool) -> Option<Finding> {
    let head = exchange.head()?;
    let seen = exchange.to_string();
    let finding = |id, check, meaning: &str, advice: &str| {
        Some(Finding::new(id, check, phase, seen.clone(), meaning, advice))
    };
    if says(said, &["plain http request was sent to https", "http request to an https server"]) {
        return finding(
            "tls-port",
            Check::Tls,
            "the server speaks TLS on that port, and the URL says http",
            "write https:// in the URL",
        );
    }
    match head.status {
        401 => {
            let wants = head.reason.as_ref().or(head.wants.as_ref());
            let wants = wants.map_or_else(String::new, |wants| format!("; it says: {wants}"));
            let meaning = match authorized {
                true => format!("the server does not accept the authorization that was sent{wants}"),
                false => format!("the server wants to know who asks{wants}"),
            };
            let advice = match authorized {
                true => "get a new token: it has expired, is for another server, or lacks a scope",
                false => {
                    "send a token: --header 'Authorization: Bearer TOKEN', or @FILE that holds the header"
                }
            };
            finding("not-authorized", Check::Authorization, &meaning, advice)
        }
        403 | 421 if head.status == 421 || says(said, &["host", "origin", "rebinding"]) => finding(
            "host-refused",
            Check::Headers,
            "the server, or a proxy before it, takes requests for certain names of hosts alone: a guard against pages \
             that a browser shows, set for another name than the one in the URL",
            "allow this host in the server's settings (allowed hosts, allowed origins), or use the name that it knows",
        ),
        403 => {
            let reason =
                head.reason.as_ref().map_or_else(String::new, |reason| format!("; it says: {reason}"));
            let meaning = match authorized {
                true => format!("who we are is known, and may not do this{reason}"),
                false => format!(
                    "the server, or something before it, lets nobody in who does not say who asks{reason}"
                ),
            };
            let advice = match authorized {
                true => "get a token with the scope that the server asks for, or have this user let in",
                false => "send a token: --header 'Authorization: Bearer TOKEN'; or have this address let in",
            };
            finding("forbidden", Check::Authorization, &meaning, advice)
        }
        404 | 410 => finding(
            "wrong-path",
            Check::Endpoint,
            "a web server answers, but there is no MCP server at this path",
            "check the path: most servers have theirs at /mcp, those of 2024 at /sse",
        ),
        405 | 501 => finding(
            "wrong-path",
            Check::Endpoint,
            "what is at this path takes no POST: it is a page, or another part of the server",
            "check the path: most servers have theirs at /mcp, those of 2024 at /sse",
        ),
        300..=399 => finding(
            "redirected",
            Check::Endpoint,
            "the server has moved, or wants its users to log in first",
            &head.location.as_ref().map_or_else(
                || "look at the server's settings: it does not say where to".to_owned(),
                |location| format!("write {location}, if that is the server and no page for people"),
            ),
        ),
        406 => finding(
            "not-acceptable",
            Check::Headers,
            "the server wants another Accept than `application/json, text/event-stream`, which is what the specification \
             has there; or something on the way has changed it",
            AUTHORS,
        ),
        407 => Some(proxy_authorization(phase, &seen)),
        413 => finding(
            "too-large",
            Check::Size,
            "the server, or a proxy before it, takes only shorter bodies, and this one is hardly a kilobyte long",
            "raise the limit of bodies there (client_max_body_size, bodyParser, and the like)",
        ),
        414 => finding(
            "too-large",
            Check::Size,
            "the URL is longer than the server takes",
            "write a shorter URL: what is long in it is better sent as a header",
        ),
        415 => finding(
            "not-acceptable",
            Check::Headers,
            "the server does not take application/json: it is no MCP server, or another part of one",
            "check the path: most servers have theirs at /mcp",
        ),
        431 => finding(
            "headers-too-large",
            Check::Size,
            "the headers of the request are longer than the server takes: mostly a token is very long",
            "send fewer or shorter headers, or raise the limit of headers at the server",
        ),
        429 => {
            let wait = head.retry_after.as_ref();
            let meaning = match wait {
                Some(wait) => {
                    format!("the server has had too many requests, and says when to come again: {wait}")
                }
                None => "the server has had too many requests, from us or from others".to_owned(),
            };
            finding(
                "too-many-requests",
                Check::Capacity,
                &meaning,
                "wait, and try again; or ask for a higher limit",
            )
        }
        502 | 504 => finding(
            "gateway",
            Check::Capacity,
            "a proxy or gateway answers in place of the server, which it does not reach",
            "see that the server behind it runs, and that the gateway has its right address",
        ),
        503 => finding(
            "unavailable",
            Check::Capacity,
            "the server is starting, overloaded or being mended, or a gateway has none behind it",
            "try again in a while, then look at the server's own log",
        ),
        500..=599 => finding(
            "server-error",
            Check::Capacity,
            "the server fails in answering: it is broken, or not set up to its end",
            ITS_LOG,
        ),
        400 if says(said, &["session"]) => finding(
            "session-wanted",
            Check::Session,
            "the server wants a session before one can be opened: something before it keeps none, or sends requests to \
             several servers in turn",
            "let the balancer send one client to one server, or let the server keep no sessions",
        ),
        400..=499 => finding(
            "request-refused",
            Check::Headers,
            "the server takes the request for wrong: it may be no MCP server, want another header, or know only another \
             version",
            "do what its answer says; another --era or --protocol-version may be let in",
        ),
        _ => None,
    }
}

/// What is wrong with a response that is a success.
fn unlike_a_body(phase: Phase, exchange: &Exchange) -> Option<Finding> {
    let head = exchange.head()?;
    let seen = exchange.to_string();
    let finding = |id, check, meaning: &str, advice: &str| {
        Some(Finding::new(id, check, phase, seen.clone(), meaning, advice))
    };
    if head.is("text/html") {
        return finding(
            "html",
            Check::Endpoint,
            "a web page is at this path: the page of the server, a login, or one of a proxy",
            "check the path: most servers have theirs at /mcp; open the URL in a browser to see whose page it is",
        );
    }
    if head.is("text/event-stream") {
        return finding(
            "stream-ended",
            Check::Body,
            "the event stream ended before the reply was in it: the server died, or something on the way cuts streams off",
            "look at the server's own log; at a proxy before it turn off buffering and short times (proxy_buffering off)",
        );
    }
    match (&head.content_type, head.status) {
        (None, _) | (_, 202 | 204) => finding(
            "empty-body",
            Check::Body,
            "the server accepts the request and gives no reply to it",
            AUTHORS,
        ),
        (Some(_), _) if head.is("application/json") => finding(
            "no-message",
            Check::Body,
            "the body is no message of JSON-RPC: another interface is at this path, or the reply was cut off",
            "check the path; if it is the right one, tell the server's authors",
        ),
        _ => finding(
            "content-type",
            Check::Body,
            "a reply is application/json or text/event-stream: with another type clients do not read it",
            "correct Content-Type at the server, or check the path",
        ),
    }
}

/// How the body begins, as the link's words have it.
pub(super) fn excerpt(text: &str) -> Option<String> {
    let (_, from) = text.split_once("it begins `")?;
    let end = from.find("`;").or_else(|| from.rfind('`')).unwrap_or(from.len());
    Some(cut(&from[..end]))
}

/// What the server itself says, as far as the link's words tell it: how the body begins, or the error that it is. What
/// stands before that names the request, and in a URL there may be any word.
pub(super) fn words(text: &str) -> &str {
    let text = text.split_once("; and as HTTP+SSE: ").map_or(text, |(first, _)| first);
    let after = |mark| text.split_once(mark).map(|(_, after)| after);
    after("it begins `").or_else(|| after("): ")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{excerpt, words};

    #[test]
    fn what_a_server_says_is_told_apart_from_what_it_was_asked() {
        let text = "POST http://localhost/session (initialize): forbidden: 403 Forbidden with an empty body; and as \
                    HTTP+SSE: GET http://localhost/session (the stream): 404 Not Found; it begins `host`";
        assert_eq!(words(text), "forbidden: 403 Forbidden with an empty body");
        let text =
            "POST http://localhost/mcp (initialize): 400 Bad Request text/html; it begins `no session`";
        assert_eq!(words(text), "no session`");
        let text = "POST http://localhost/mcp (initialize): 403 Forbidden: error -32000: Invalid Host";
        assert_eq!(words(text), "403 Forbidden: error -32000: Invalid Host");
        assert_eq!(words("the server ended"), "");
    }

    #[test]
    fn the_beginning_of_a_body_is_found_in_the_words_of_the_link() {
        let text = "POST http://a/ (initialize): 404 Not Found text/html; it begins `<p>`x`</p>`";
        assert_eq!(excerpt(text).as_deref(), Some("<p>`x`</p>"));
        let text = "200 OK text/plain; it begins `hello`; and as HTTP+SSE: 404 with `x`";
        assert_eq!(excerpt(text).as_deref(), Some("hello"));
        assert_eq!(excerpt("404 Not Found with an empty body"), None);
    }
}
