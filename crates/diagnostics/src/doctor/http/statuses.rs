//! From the status of a response that is no success to a finding: what it means, and one thing to do.
//!
//! Called by [`answers`](super::answers), for what opens a connection, and by
//! [`conversation`](super::conversation), for what comes after.

use super::super::diagnosis::AUTHORS;
use super::super::remote::ITS_LOG;
use super::super::report::{Check, Finding, Phase};
use super::exchanges::Exchange;

/// A proxy that lets nobody through who does not say who asks.
pub(super) fn proxy_authorization(phase: Phase, seen: &str) -> Finding {
    Finding::new(
        "proxy-authorization",
        Check::Proxy,
        phase,
        seen,
        "the proxy wants to know who asks (407)",
        "put user and password into the variable that names the proxy: http://USER:PASSWORD@proxy:3128",
    )
}

/// It knows who asks, and does not let them through.
pub(super) fn not_let_through(finding: &mut Finding) {
    "the proxy takes neither the user nor the password that it is told (407)"
        .clone_into(&mut finding.meaning);
    "mend user and password in the variable that names the proxy; in them, @ is written %40, : %3A and / %2F"
        .clone_into(&mut finding.advice);
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
        101 | 426 => finding(
            "not-mcp",
            Check::Protocol,
            "the server wants another protocol on this connection, WebSocket as a rule, which MCP is not spoken over here",
            "look for its path for Streamable HTTP (mostly /mcp), or for an option that serves it",
        ),
        403 | 429 | 503
            if says(
                said,
                &["just a moment", "attention required", "captcha", "cf-chl", "are you a robot"],
            ) =>
        {
            finding(
                "robots-refused",
                Check::Authorization,
                "what stands before the server wants a browser with a person before it: a guard against robots, through \
                 which no MCP client comes",
                "have this path left out of that guard's rules, or reach the server by a name that it does not stand before",
            )
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
                    // A number of seconds, or a date.
                    let when = match wait.parse::<u64>() {
                        Ok(seconds) => format!("in {seconds} s"),
                        Err(_) => wait.clone(),
                    };
                    format!("the server has had too many requests, and says when to come again: {when}")
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
