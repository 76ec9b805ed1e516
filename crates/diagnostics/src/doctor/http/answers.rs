//! From what came back over HTTP to findings: what a status, a type or a body means, and one thing to do.

use mcpjoin_proto::code;
use mcpjoin_proto::session::{CloseCause, LinkErrorKind, OpeningFailure, Violation};

use super::super::course::Course;
use super::super::diagnosis::{self, AUTHORS, cut};
use super::super::remote::{self, ITS_LOG};
use super::super::report::{Check, Finding, Phase};
use super::super::wire::Seen;
use super::exchanges::{Came, Exchange, lines};
use super::statuses::{proxy_authorization, refused};
use mcpjoin::internal::http::Proxy;
use mcpjoin::internal::readable;

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
    /// The proxy that could answer in the server's place.
    pub(super) proxy: Option<&'a Proxy>,
}

impl Unopened<'_> {
    pub(super) fn finding(&self) -> Finding {
        let text = self.cause.to_string();
        let mut found =
            self.by_words().or_else(|| self.by_head(&text)).unwrap_or_else(|| self.by_cause(&text));
        found.evidence.body = found.evidence.body.or_else(|| excerpt(&text));
        found.evidence.requests = lines(self.exchanges);
        if let Some(proxy) = self.proxy {
            self.by_proxy(proxy, &mut found);
        }
        found
    }

    /// What is not encrypted may be the proxy's own answer.
    fn by_proxy(&self, proxy: &Proxy, found: &mut Finding) {
        let Some(head) = self.decisive().and_then(Exchange::head).filter(|head| head.status >= 400) else {
            return;
        };
        match &head.proxy {
            Some(program) => {
                (found.id, found.check) = ("proxy-answered", Check::Proxy);
                found.meaning = format!(
                    "the answer is the proxy's own ({program}, {proxy}): it does not reach the server, or does not let this \
                     request through"
                );
                "look at the proxy and its log; NO_PROXY names the hosts that are reached without one"
                    .clone_into(&mut found.advice);
            }
            None => {
                found.meaning.push_str("; the answer came ");
                found.meaning.push_str(&proxy.to_string());
                found.meaning.push_str(", and may be the proxy's own");
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
            OpeningFailure::UnsupportedVersion { .. }
            | OpeningFailure::NoCommonVersion { .. }
            | OpeningFailure::UnknownReply { .. }
            | OpeningFailure::Echo { .. } => Some(diagnosis::opening(self.phase, failure, self.seen)),
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
        if exchange.status() == Some(200) && text.contains("the Mcp-Session-Id `") {
            return Some(Finding::new(
                "session-id-malformed",
                Check::Session,
                self.phase,
                text,
                "an id of a session is visible ASCII, without blanks: no client can send this one back",
                AUTHORS,
            ));
        }
        if let Came::Nothing { kind, what } = &exchange.came {
            return Some(unanswered(self.phase, *kind, what));
        }
        circle(self.phase, self.exchanges, exchange)
            .or_else(|| refused(self.phase, exchange, words(text), self.authorized))
            .or_else(|| self.foreign_events(exchange))
            .or_else(|| unlike_a_body(self.phase, exchange))
    }

    /// An event stream in which something came that is no message, or a reply that is one of several.
    fn foreign_events(&self, exchange: &Exchange) -> Option<Finding> {
        if self.seen.violations.contains(&Violation::Batch) {
            return Some(Finding::new(
                "batch",
                Check::Rules,
                self.phase,
                format!("{exchange}, with an array in place of a message"),
                "one request is answered with one message: a batch is known in 2025-03-26 alone, and read by hardly any client",
                "let the server send the message itself, without the brackets around it",
            ));
        }
        if self.seen.noise_lines == 0 || !exchange.head()?.is("text/event-stream") {
            return None;
        }
        let mut found = Finding::new(
            "no-message",
            Check::Body,
            self.phase,
            format!("{exchange}, with events that are no messages"),
            "the data of each event is a message of JSON-RPC: this is the event stream of another interface, or the server \
             writes its messages wrongly",
            "check the path; if it is the right one, tell the server's authors",
        );
        found.evidence.received = diagnosis::lines(&self.seen.noise);
        Some(found)
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

/// Redirects that lead back to where they began.
fn circle(phase: Phase, all: &[Exchange], last: &Exchange) -> Option<Finding> {
    let to = last.head()?.location.as_ref()?;
    let (about, method) = (&last.about, &last.method);
    let of_this = all.iter().filter(|exchange| exchange.about == *about && exchange.method == *method);
    let been: Vec<&str> = of_this
        .filter(|exchange| matches!(exchange.status(), Some(300..=399)))
        .map(|exchange| exchange.url.as_str())
        .collect();
    let start = been.iter().position(|url| url == to)?;
    let mut round: Vec<&str> = been[start..].to_vec();
    if let Some(again) = round.iter().skip(1).position(|url| url == to) {
        round.truncate(again + 1);
    }
    let seen = match &round[..] {
        [_] => format!("{to} redirects to itself"),
        round => format!("redirects go round in a circle: {}, {to}", round.join(", ")),
    };
    Some(Finding::new(
        "redirect-circle",
        Check::Endpoint,
        phase,
        seen,
        "nobody ever answers there: mostly a proxy before the server wants https:// (or a path with or without `/` at its \
         end) and the server the other, or both of them rewrite the path",
        "try the URL with https://, and with and without the `/` at its end; then look at the rules of the proxy",
    ))
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
    if proxied && small.contains("unsupported scheme socks") {
        return Finding::new(
            "proxy-scheme",
            Check::Proxy,
            phase,
            what,
            "the variable names a SOCKS proxy, which is not spoken here; nothing was sent",
            "name a proxy that speaks HTTP (http://HOST:PORT), or the host in NO_PROXY where it is reached without one",
        );
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
    // So begins what the credentials have said.
    if small.contains("not sent, no authorization: ") && kind != LinkErrorKind::Unauthorized {
        return Finding::new(
            "authorization-unreached",
            Check::Authorization,
            phase,
            what,
            "the stored token has to be renewed, and whoever renews it is not there; the server itself may be in order",
            "see that the authorization server runs and can be reached from here, and then do it again; --no-auth asks without a token",
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

/// What to do where none of the usual paths is one either.
pub(super) const NOWHERE: &str = "look for the path in the server's settings or its first lines of output, and check the \
                                  port: neither /mcp nor /sse nor / answers as an MCP server";

/// Whatever is asked with whichever method, the answer is 405.
pub(super) fn no_method(phase: Phase, all: &[Exchange]) -> Finding {
    let mut found = Finding::new(
        "no-mcp",
        Check::Endpoint,
        phase,
        "every request is answered with 405 Method Not Allowed: GET and POST, at every path that was tried",
        "nothing speaks MCP there: another program has that port, or what stands before the server lets no method through",
        "check the host and the port; `ss -ltnp` shows which program listens on which",
    );
    found.evidence.requests = lines(all);
    found
}

/// HTTP+SSE was asked for, and it is the other one.
pub(super) fn streamable(phase: Phase, url: &str, all: &[Exchange]) -> Finding {
    let mut found = Finding::new(
        "streamable-http",
        Check::Endpoint,
        phase,
        format!("{url} answers a POST with a message: it is a Streamable HTTP server"),
        "sse+http:// and sse+https:// are for the HTTP+SSE of 2024-11-05, which it does not speak there",
        format!("write {url}"),
    );
    found.evidence.requests = lines(all);
    found
}

/// What the opening came to that was answered, and not with a message.
pub(super) fn opening(course: &mut Course, all: &[Exchange]) {
    let of_probe = all.iter().filter(|exchange| exchange.about == "server/discover");
    let statuses: Vec<u16> = of_probe.filter_map(Exchange::status).filter(|status| *status >= 300).collect();
    if let (true, Some(last)) = (course.is_unanswered(Phase::Probe), statuses.last()) {
        let times = match statuses.iter().filter(|status| *status == last).count() {
            1 => String::new(),
            count => format!(", {count} times"),
        };
        course.told(Phase::Probe, format!("no message in answer, but {last}{times}"));
    }
    course.stopped = Some(match all.iter().rev().filter(|one| one.is_request()).find_map(Exchange::status) {
        Some(401) => "the server answered 401",
        Some(403) => "the server answered 403",
        Some(404) => "the server answered 404",
        Some(405) => "the server answered 405",
        Some(300..=399) => "the server redirects",
        Some(400..=499) => "the server refused the request",
        Some(500) => "the server answered 500",
        Some(502) => "the server answered 502",
        Some(503) => "the server answered 503",
        Some(_) => "client and server did not agree",
        None => return,
    });
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
            "the event stream ended before the reply was in it: the server died, its event has no empty line at its end, or \
             something on the way cuts streams off",
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
