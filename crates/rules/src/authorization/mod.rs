//! The chapter of authorization: how a server over HTTP refuses requests without a token, and its metadata about tokens.
//!
//! Its rules apply to [`Trace::authorization`](crate::Trace::authorization) alone, and no other rule applies to it: the
//! requests in it were sent without a token, and its documents were fetched from the addresses that the server names.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

pub(crate) mod address;
pub(crate) mod metadata;

use std::collections::BTreeSet;

use mcpjoin_proto::Raw;

pub use address::{
    MAX_AUTHORIZATION_SERVERS, base_address, named_metadata, named_servers, resource_metadata_addresses,
    server_metadata_addresses, wants_token,
};

use crate::exchange::Exchange;
use crate::json::{of_line, texts};
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::server_view::ServerView;
use crate::trace::Probe;

const ERRORS: &str = "basic/authorization#error-handling";
const HANDLING: &str = "basic/authorization#token-handling";
const REQUIREMENTS: &str = "basic/authorization#protected-resource-metadata-discovery-requirements";
const SCOPES: &[Source] =
    sources![LAST_LEGACY Should REQUIREMENTS, MODERN Should "basic/authorization#scope-selection-strategy"];
const NO_CHALLENGE: &str = "no response had a challenge for tokens";
/// The reason for skipping where no request was refused.
const LET_IN: &str = "the server accepts requests without a token";

rules! {
    pub(crate) RULES for Server in Chapter::Authorization;

    "missing-token-unauthorized", [SINCE_SECOND Must ERRORS],
        "A request without a required token is rejected with the status 401.",
        else LET_IN,
        |view| {
            let answered = all_answered(view, [Probe::NoToken, Probe::NoTokenAgain]);
            answered.filter(|exchange| !exchange.has_result()).map(is_unauthorized)
        };
    "bearer-challenge", [SINCE_SECOND Must HANDLING],
        "A 401 has a WWW-Authenticate challenge of the scheme Bearer, with parameters.",
        else "no request was rejected with the status 401",
        |view| {
            let answered = all_answered(view, [Probe::NoToken, Probe::NoTokenAgain, Probe::BadToken]);
            answered.filter(|exchange| exchange.status() == Some(401)).map(unchallenged)
        };
    "invalid-token-unauthorized", [SINCE_SECOND Must HANDLING],
        "A request with an invalid token is rejected with the status 401.",
        else LET_IN,
        |view| answered(view, Probe::BadToken).filter(|_| refused(view).is_some()).map(is_unauthorized);
    "invalid-token-error", [
        SINCE_SECOND Should "https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1-13#section-5.3.1",
    ],
        "The challenge after a rejected token has error=\"invalid_token\".",
        else NO_CHALLENGE,
        |view| {
            let unauthorized = answered(view, Probe::BadToken).filter(|exchange| exchange.status() == Some(401));
            unauthorized.filter(|exchange| is_challenged(exchange)).map(|exchange| {
                let Some(error) = parameter(exchange, "error") else {
                    return Some(exchange.finding("the challenge has no error"));
                };
                exchange.finding_if(error != "invalid_token", format_args!("the error is {error:?}"))
            })
        };
    "malformed-authorization-refused", [SINCE_SECOND Must ERRORS],
        "A request with a malformed Authorization header is rejected with the status 400 or 401.",
        else LET_IN,
        |view| answered(view, Probe::BadAuthorization).filter(|_| refused(view).is_some()).map(|exchange| {
            let is_good = matches!(exchange.status(), Some(400 | 401)) && !exchange.has_result();
            (!is_good).then(|| exchange.finding(format_args!("{}, expected 400 or 401", exchange.outcome())))
        });
    "query-token-ignored", [
        SINCE_SECOND Must "https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1-13#section-5.1",
    ],
        "A token in the query of the URL is ignored: the request counts as one without a token.",
        else LET_IN,
        |view| {
            let Some(without) = refused(view) else { return Outcome::Skipped(LET_IN) };
            answered(view, Probe::TokenInQuery).map(|exchange| {
                if exchange.has_result() {
                    return Some(exchange.finding(exchange.outcome()));
                }
                let (before, now) = (parameter(without, "error"), parameter(exchange, "error"));
                exchange.finding_if(
                    now.as_deref() == Some("invalid_token") && before != now,
                    "with a token in the query the error is invalid_token, without it another error or none",
                )
            })
        };
    "every-method-authorized", [
        BATCHING Must ERRORS,
        LEGACY_SINCE_THIRD Must "basic/authorization#access-token-privilege-restriction",
        MODERN Must "basic/authorization/security-considerations#access-token-privilege-restriction",
    ],
        "A GET and a DELETE without a token are rejected like a POST.",
        else LET_IN,
        |view| {
            let others = all_answered(view, [Probe::NoTokenGet, Probe::NoTokenDelete]);
            others.filter(|_| refused(view).is_some()).map(|exchange| {
                let problem = || format!("{}, expected 401", exchange.outcome());
                exchange.is_success().then(|| exchange.finding(problem()))
            })
        };
    "challenge-scope-named", SCOPES,
        "The challenge of a server with scopes names the scopes that the request needs.",
        else NO_CHALLENGE,
        |view| {
            let scopes = metadata::documents(view).filter_map(|it| texts(&object(it)?, "scopes_supported"));
            if scopes.flatten().next().is_none() {
                return Outcome::Skipped("the server's metadata names no scopes");
            }
            refused(view).filter(|exchange| is_challenged(exchange)).map(|exchange| {
                let has_scope = parameter(exchange, "scope").is_some();
                exchange.finding_if(!has_scope, "the challenge has no scope, although the metadata lists \
                    scopes")
            })
        };
    "challenge-scope-consistent", SCOPES,
        "A repeated request without a token gets a challenge with the same scopes.",
        else NO_CHALLENGE,
        |view| refused(view).filter(|exchange| is_challenged(exchange)).into_iter().flat_map(|first| {
            answered(view, Probe::NoTokenAgain).filter(|exchange| is_challenged(exchange)).map(|again| {
                let scope = |exchange| parameter(exchange, "scope").unwrap_or_default();
                let problem = || format!("{:?}, before that {:?}", scope(again), scope(first));
                (scopes(first) != scopes(again)).then(|| again.finding(problem()))
            })
        });
}

/// The exchanges of a probe that have a response, unless the server is busy.
fn answered<'s, 'a>(view: &'s ServerView<'a>, probe: Probe) -> impl Iterator<Item = &'s Exchange<'a>> {
    view.exchanged(probe).filter(|exchange| is_answered(exchange))
}

fn is_answered(exchange: &Exchange<'_>) -> bool {
    exchange.response.is_some() && !exchange.is_busy()
}

/// The same for several probes.
fn all_answered<'s, 'a, const N: usize>(
    view: &'s ServerView<'a>,
    probes: [Probe; N],
) -> impl Iterator<Item = &'s Exchange<'a>> {
    probes.into_iter().flat_map(move |probe| answered(view, probe))
}

/// The request without a token that was refused.
fn refused<'s, 'a>(view: &'s ServerView<'a>) -> Option<&'s Exchange<'a>> {
    answered(view, Probe::NoToken).find(|exchange| !exchange.is_success() || exchange.error().is_some())
}

/// A parameter of the challenges for tokens.
fn parameter(exchange: &Exchange<'_>, name: &str) -> Option<String> {
    exchange.response.and_then(|response| address::parameter(response, name))
}

/// Whether there is a challenge for tokens with a parameter.
fn is_challenged(exchange: &Exchange<'_>) -> bool {
    let challenges = exchange.response.map(address::challenges).unwrap_or_default();
    challenges.iter().any(|challenge| !challenge.parameters.is_empty())
}

/// A fetched document that is an object.
fn object(exchange: &Exchange<'_>) -> Option<Raw> {
    exchange.body.filter(|_| exchange.is_success()).and_then(of_line)
}

fn is_unauthorized(exchange: &Exchange<'_>) -> Option<Finding> {
    let is_good = exchange.status() == Some(401) && !exchange.has_result();
    (!is_good).then(|| exchange.finding(format_args!("{}, expected 401", exchange.outcome())))
}

/// A finding if a 401 has no challenge for tokens with a parameter.
fn unchallenged(exchange: &Exchange<'_>) -> Option<Finding> {
    if is_challenged(exchange) {
        return None;
    }
    let challenges = exchange.response.map(address::challenges).unwrap_or_default();
    Some(match (challenges.first(), exchange.header("www-authenticate")) {
        (Some(challenge), _) => {
            exchange.finding(format_args!("the challenge {} has no parameter", challenge.scheme))
        }
        (None, Some(_)) => exchange.finding("WWW-Authenticate has no Bearer challenge"),
        (None, None) => exchange.finding("WWW-Authenticate is missing"),
    })
}

fn scopes(exchange: &Exchange<'_>) -> BTreeSet<String> {
    let scopes = parameter(exchange, "scope").unwrap_or_default();
    scopes.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
}

/// The refused requests without a token whose challenge has a scope.
fn scoped<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = &'s Exchange<'a>> {
    let answered = all_answered(view, [Probe::NoToken, Probe::NoTokenAgain]);
    answered.filter(|exchange| parameter(exchange, "scope").is_some())
}
