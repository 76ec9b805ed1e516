//! The metadata of the protected resource: their address, and what they say about the server.
//!
//! <https://www.rfc-editor.org/rfc/rfc9728>

use mcpjoin_proto::http::origin::{MediaType, Origin};
use mcpjoin_proto::http::resource::covers;

use super::address::bare;
use super::tokens::{challenged_scopes, is_challenged, parameter};
use super::{LET_IN, answered, is_document, is_empty, object, refused, statuses};
use crate::exchange::Exchange;
use crate::json::{member, strings, text};
use crate::rule::{Finding, Outcome, Source};
use crate::server_view::ServerView;
use crate::trace::Probe;

const LOCATION: &str = "basic/authorization#authorization-server-location";
const MODERN_LOCATION: &str =
    "basic/authorization/authorization-server-discovery#authorization-server-location";
const REQUIREMENTS: &str = "basic/authorization#protected-resource-metadata-discovery-requirements";
const MODERN_REQUIREMENTS: &str =
    "basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements";
const CANONICAL: &str = "basic/authorization#canonical-server-uri";
const NO_DOCUMENT: &str = "no metadata of the protected resource were found";

/// Where the revisions with such metadata say where authorization servers stand.
const LOCATED: &[Source] = sources![LEGACY_SINCE_THIRD Must LOCATION, MODERN Must MODERN_LOCATION];

rules! {
    pub(crate) RULES for Server in Chapter::Authorization;

    "resource-metadata-in-challenge", [THIRD Must LOCATION],
        "The challenge of a 401 names the address of the resource's metadata.",
        |view| {
            let challenged = answered(view, Probe::NoToken)
                .filter(|exchange| exchange.status() == Some(401) && is_challenged(exchange));
            let findings = challenged.map(|exchange| {
                let named = parameter(exchange, "resource_metadata").is_some();
                (!named).then(|| exchange.finding("the challenge has no resource_metadata"))
            });
            Outcome::of(findings, "no 401 had a challenge for tokens")
        };
    "resource-metadata-found", [THIRD Must LOCATION, LAST_LEGACY Must REQUIREMENTS, MODERN Must MODERN_REQUIREMENTS],
        "The resource's metadata are found where the challenge says, or at a well-known address.",
        found;
    "resource-metadata-document", LOCATED,
        "The resource's metadata are a JSON object of the type application/json, with its resource.",
        |view| Outcome::of(documents(view).map(misshapen), NO_DOCUMENT);
    "resource-identifier", LOCATED,
        "The resource in its metadata is this server: its URL, or one above that.",
        |view| {
            let findings = resources(view).map(|(exchange, resource)| {
                let url = server_url(view)?;
                let problem = format!("the resource is {resource:?}, and the server {:?}", bare(url));
                (!covers(&resource, url)).then(|| exchange.finding(problem))
            });
            Outcome::of(findings, NO_DOCUMENT)
        };
    "resource-without-slash", [SINCE_THIRD Should CANONICAL],
        "The resource is written without a slash at its end.",
        |view| {
            let findings = resources(view).map(|(exchange, resource)| {
                // Where the server itself is at such an address, the slash means something.
                let meant = server_url(view).is_some_and(|url| bare(url).ends_with('/'));
                (resource.ends_with('/') && !meant)
                    .then(|| exchange.finding(format!("the resource is {resource:?}")))
            });
            Outcome::of(findings, NO_DOCUMENT)
        };
    "authorization-servers-named", LOCATED,
        "The resource's metadata name at least one authorization server.",
        |view| {
            let findings = documents(view).filter_map(|exchange| Some((exchange, object(exchange)?))).map(
                |(exchange, document)| {
                    let problem = match member(&document, "authorization_servers") {
                        None => "there are no authorization_servers",
                        Some(servers) => match strings(&servers) {
                            None => "authorization_servers is no array of strings",
                            Some(servers) if servers.is_empty() => "authorization_servers is empty",
                            Some(_) => return None,
                        },
                    };
                    Some(exchange.finding(problem))
                },
            );
            Outcome::of(findings, NO_DOCUMENT)
        };
    "offline-access-not-asked", [MODERN Should "basic/authorization#refresh-tokens"],
        "Neither the challenge nor the resource's metadata ask for offline_access.",
        |view| {
            const SCOPE: &str = "offline_access";
            let supported = documents(view).filter_map(|exchange| {
                let scopes = strings(&member(&object(exchange)?, "scopes_supported")?)?;
                let has = scopes.iter().any(|scope| scope == SCOPE);
                Some(has.then(|| exchange.finding("scopes_supported has offline_access")))
            });
            let challenged = challenged_scopes(view).map(|(finding, scopes)| {
                let problem = "the challenge asks for offline_access".into();
                scopes.contains(SCOPE).then_some(Finding { problem, ..finding })
            });
            Outcome::of(supported.chain(challenged), "neither the challenge nor the metadata name scopes")
        };
}

/// What was fetched and is meant for the metadata of the resource.
pub(super) fn documents<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = &'s Exchange<'a>> {
    let named = answered(view, Probe::NamedMetadata).filter(|exchange| exchange.is_success());
    named.chain(answered(view, Probe::WellKnownMetadata).filter(|exchange| is_document(exchange)))
}

/// The resource of each document that can be read.
fn resources<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = (&'s Exchange<'a>, String)> {
    documents(view).filter_map(|exchange| Some((exchange, text(&object(exchange)?, "resource")?)))
}

/// The URL that was asked, as it was named.
fn server_url<'a>(view: &ServerView<'a>) -> Option<&'a str> {
    let probes = [Probe::NoToken, Probe::NoTokenAgain].into_iter();
    let exchanges =
        probes.flat_map(|probe| view.exchanges.values().filter(move |exchange| exchange.probe == probe));
    let here = exchanges.map(|exchange| &*exchange.request.url).next();
    // Nobody was asked without a token where whoever comes is let in.
    here.or_else(|| {
        let of = |event: &'a crate::Event| match &event.what {
            crate::What::Requested(_, request) if &*request.method == "POST" => Some(&*request.url),
            _ => None,
        };
        view.trace.runs.iter().flat_map(|run| &run.events).find_map(of)
    })
}

fn found(view: &ServerView<'_>) -> Outcome {
    let named =
        refused(view).and_then(|exchange| Some((exchange, parameter(exchange, "resource_metadata")?)));
    if let Some((exchange, named)) = named {
        if Origin::of(&named).is_err() {
            let problem = format!("resource_metadata is {named:?}, which is no plain URL of https");
            return Outcome::Failed(vec![exchange.finding(problem)]);
        }
        let fetched = answered(view, Probe::NamedMetadata).map(|exchange| {
            let problem = || format!("the challenge names {named:?}: {}", exchange.outcome());
            (!exchange.is_success()).then(|| exchange.finding(problem()))
        });
        return Outcome::of(fetched, "what the challenge names was not reached");
    }
    let known: Vec<&Exchange<'_>> = answered(view, Probe::WellKnownMetadata).collect();
    if known.iter().any(|exchange| is_document(exchange)) {
        return Outcome::Passed;
    }
    let lost = view
        .exchanges
        .values()
        .any(|exchange| exchange.probe == Probe::WellKnownMetadata && exchange.response.is_none());
    match known.first().filter(|_| !lost) {
        Some(first) => {
            let where_ = if refused(view).is_some() { "the challenge names none" } else { LET_IN };
            let problem = format!("{where_}, and there are none at {}", statuses(known.iter().copied()));
            Outcome::Failed(vec![first.finding(problem)])
        }
        None => Outcome::Skipped("the well-known addresses were not reached"),
    }
}

/// What is wrong with the form of a document.
fn misshapen(exchange: &Exchange<'_>) -> Option<Finding> {
    let problem = match object(exchange) {
        _ if exchange.status() != Some(200) => format!("{}; 200 is due", exchange.outcome()),
        None if is_empty(exchange.body) => "there is nothing in it".into(),
        None => "it is no JSON object".into(),
        Some(_) if exchange.media_type() != MediaType::Json => {
            let kind = exchange.header("content-type").unwrap_or_default();
            format!("the content type is {:?}", String::from_utf8_lossy(kind))
        }
        Some(document) if text(&document, "resource").is_none() => "it has no resource".into(),
        Some(_) => return None,
    };
    Some(exchange.finding(problem))
}
