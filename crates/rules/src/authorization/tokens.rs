//! The responses of a server to requests without a token and with an invalid one.

use std::collections::BTreeSet;

use super::{LET_IN, address, answered, object, refused, resource};
use crate::exchange::Exchange;
use crate::json::{member, strings};
use crate::rule::{Finding, Outcome};
use crate::server_view::ServerView;
use crate::trace::Probe;

const ERRORS: &str = "basic/authorization#error-handling";
const HANDLING: &str = "basic/authorization#token-handling";
const SCOPES: &str = "basic/authorization#scope-selection-strategy";
const NO_CHALLENGE: &str = "no response had a challenge for tokens";

rules! {
    pub(crate) RULES for Server in Chapter::Authorization;

    "missing-token-unauthorized", [SINCE_SECOND Must ERRORS],
        "A request without a token, where one is needed, is answered with the status 401.",
        |view| {
            let kept_out =
                [Probe::NoToken, Probe::NoTokenAgain].into_iter().flat_map(|probe| answered(view, probe));
            let kept_out = kept_out.filter(|exchange| !exchange.has_result());
            Outcome::of(kept_out.map(|exchange| is_unauthorized(exchange)), LET_IN)
        };
    "bearer-challenge", [SINCE_SECOND Must HANDLING],
        "A 401 has a challenge of the scheme Bearer in WWW-Authenticate, with parameters.",
        |view| {
            let unauthorized = [Probe::NoToken, Probe::NoTokenAgain, Probe::BadToken]
                .into_iter()
                .flat_map(|probe| answered(view, probe))
                .filter(|exchange| exchange.status() == Some(401));
            Outcome::of(unauthorized.map(unchallenged), "no request was answered with the status 401")
        };
    "invalid-token-unauthorized", [SINCE_SECOND Must HANDLING],
        "A request with a token that is none is answered with the status 401.",
        |view| {
            if refused(view).is_none() {
                return Outcome::Skipped(LET_IN);
            }
            Outcome::of(answered(view, Probe::BadToken).map(is_unauthorized), LET_IN)
        };
    "invalid-token-error", [
        SINCE_SECOND Should "https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1-13#section-5.3.1",
    ],
        "The challenge for a token that is refused says error=\"invalid_token\".",
        |view| {
            let challenged = answered(view, Probe::BadToken)
                .filter(|exchange| exchange.status() == Some(401) && is_challenged(exchange));
            let findings = challenged.map(|exchange| match parameter(exchange, "error") {
                Some(error) if error == "invalid_token" => None,
                Some(error) => Some(exchange.finding(format!("the error is {error:?}"))),
                None => Some(exchange.finding("the challenge has no error")),
            });
            Outcome::of(findings, NO_CHALLENGE)
        };
    "malformed-authorization-refused", [SINCE_SECOND Must ERRORS],
        "A request whose Authorization is malformed is refused: with the status 400, or 401.",
        |view| {
            if refused(view).is_none() {
                return Outcome::Skipped(LET_IN);
            }
            let findings = answered(view, Probe::BadAuthorization).map(|exchange| {
                let good = matches!(exchange.status(), Some(400 | 401)) && !exchange.has_result();
                (!good).then(|| exchange.finding(format!("{}; 400 or 401 is due", exchange.outcome())))
            });
            Outcome::of(findings, LET_IN)
        };
    "query-token-ignored", [
        SINCE_SECOND Must "https://datatracker.ietf.org/doc/html/draft-ietf-oauth-v2-1-13#section-5.1",
    ],
        "A token in the query of the address is ignored: the request is one without a token.",
        |view| {
            let Some(without) = refused(view) else { return Outcome::Skipped(LET_IN) };
            let findings = answered(view, Probe::TokenInQuery).map(|exchange| {
                let (before, now) = (parameter(without, "error"), parameter(exchange, "error"));
                let problem = if exchange.has_result() {
                    exchange.outcome()
                } else if now.as_deref() == Some("invalid_token") && before != now {
                    "it is refused with the error invalid_token, and without it with another or none".into()
                } else {
                    return None;
                };
                Some(exchange.finding(problem))
            });
            Outcome::of(findings, LET_IN)
        };
    "every-method-authorized", [
        BATCHING Must ERRORS,
        LEGACY_SINCE_THIRD Must "basic/authorization#access-token-privilege-restriction",
        MODERN Must "basic/authorization/security-considerations#access-token-privilege-restriction",
    ],
        "A GET and a DELETE without a token are kept out like a POST.",
        |view| {
            if refused(view).is_none() {
                return Outcome::Skipped(LET_IN);
            }
            let others = [Probe::NoTokenGet, Probe::NoTokenDelete].into_iter();
            let findings = others.flat_map(|probe| answered(view, probe)).map(|exchange| {
                exchange.is_success().then(|| exchange.finding(format!("{}; 401 is due", exchange.outcome())))
            });
            Outcome::of(findings, LET_IN)
        };
    "challenge-scope-named", [SINCE_FOURTH Should SCOPES],
        "The challenge of a server that has scopes names those that the request needs.",
        |view| {
            let supported = resource::documents(view).filter_map(object).any(|it| {
                member(&it, "scopes_supported").and_then(|it| strings(&it)).is_some_and(|it| !it.is_empty())
            });
            if !supported {
                return Outcome::Skipped("the server names no scopes in its metadata");
            }
            let challenged = refused(view).filter(|exchange| is_challenged(exchange));
            let findings = challenged.into_iter().map(|exchange| {
                let named = parameter(exchange, "scope").is_some();
                (!named).then(|| exchange.finding("the challenge has no scope, and the metadata list some"))
            });
            Outcome::of(findings, NO_CHALLENGE)
        };
    "challenge-scope-consistent", [SINCE_FOURTH Should SCOPES],
        "The same request without a token is challenged with the same scopes each time.",
        |view| {
            let first = refused(view).filter(|exchange| is_challenged(exchange));
            let findings = first.into_iter().flat_map(|first| {
                answered(view, Probe::NoTokenAgain).filter(|exchange| is_challenged(exchange)).map(|again| {
                    let differ = scopes(first) != scopes(again);
                    let scope = |exchange| parameter(exchange, "scope").unwrap_or_default();
                    differ
                        .then(|| again.finding(format!("{:?}, and before {:?}", scope(again), scope(first))))
                })
            });
            Outcome::of(findings, NO_CHALLENGE)
        };
}

fn is_unauthorized(exchange: &Exchange<'_>) -> Option<Finding> {
    let good = exchange.status() == Some(401) && !exchange.has_result();
    (!good).then(|| exchange.finding(format!("{}; 401 is due", exchange.outcome())))
}

/// Whether there is a challenge that says something.
pub(super) fn is_challenged(exchange: &Exchange<'_>) -> bool {
    let challenges = exchange.response.map(address::challenges).unwrap_or_default();
    challenges.iter().any(|challenge| !challenge.parameters.is_empty())
}

pub(super) fn parameter(exchange: &Exchange<'_>, name: &str) -> Option<String> {
    exchange.response.and_then(|response| address::parameter(response, name))
}

/// What is wrong with the challenge of a 401.
fn unchallenged(exchange: &Exchange<'_>) -> Option<Finding> {
    if is_challenged(exchange) {
        return None;
    }
    let challenges = exchange.response.map(address::challenges).unwrap_or_default();
    let problem = match (challenges.first(), exchange.header("www-authenticate")) {
        (Some(challenge), _) => format!("the challenge {} has no parameter", challenge.scheme),
        (None, Some(_)) => "WWW-Authenticate has no challenge Bearer".into(),
        (None, None) => "there is no WWW-Authenticate".into(),
    };
    Some(exchange.finding(problem))
}

fn scopes(exchange: &Exchange<'_>) -> BTreeSet<String> {
    let scopes = parameter(exchange, "scope").unwrap_or_default();
    scopes.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
}

/// Looked at by the rule about what no server asks for.
pub(super) fn challenged_scopes(view: &ServerView<'_>) -> impl Iterator<Item = (Finding, BTreeSet<String>)> {
    let challenged =
        [Probe::NoToken, Probe::NoTokenAgain].into_iter().flat_map(|probe| answered(view, probe));
    let challenged = challenged.filter(|exchange| parameter(exchange, "scope").is_some());
    challenged.map(|exchange| (exchange.finding(""), scopes(exchange)))
}
