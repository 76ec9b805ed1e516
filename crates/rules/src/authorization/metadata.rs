//! The metadata of the protected resource and of its authorization servers: their addresses and their members.
//!
//! <https://www.rfc-editor.org/rfc/rfc9728>, <https://www.rfc-editor.org/rfc/rfc8414>

use mcpjoin_proto::Raw;
use mcpjoin_proto::http::origin::{MediaType, Origin};
use mcpjoin_proto::http::resource::covers;

use super::address::{MAX_AUTHORIZATION_SERVERS, bare, is_secure, named_servers, server_metadata_addresses};
use super::{
    LET_IN, REQUIREMENTS, answered, is_answered, is_challenged, object, parameter, refused, scoped, scopes,
};
use crate::exchange::Exchange;
use crate::json::{is_true, member, strings, text, texts};
use crate::revisions::Revisions;
use crate::rule::{Evidence, Finding, Outcome, Source};
use crate::server_view::ServerView;
use crate::trace::{Event, Probe, What};

const LOCATION: &str = "basic/authorization#authorization-server-location";
const MODERN_LOCATION: &str =
    "basic/authorization/authorization-server-discovery#authorization-server-location";
const MODERN_REQUIREMENTS: &str =
    "basic/authorization/authorization-server-discovery#protected-resource-metadata-discovery-requirements";
const CANONICAL: &str = "basic/authorization#canonical-server-uri";
const OVERVIEW: &str = "basic/authorization#overview";
const DISCOVERY: &str = "basic/authorization#authorization-server-metadata-discovery";
const MODERN_DISCOVERY: &str =
    "basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery";

/// Where the revisions with metadata of resources say how authorization servers are found.
const LOCATED: &[Source] = sources![LEGACY_SINCE_THIRD Must LOCATION, MODERN Must MODERN_LOCATION];
/// Where the revisions say that an authorization server has metadata.
const PROVIDED: &[Source] = sources![THIRD Must OVERVIEW, SINCE_FOURTH Must OVERVIEW];

const NO_RESOURCE: &str = "no metadata of the protected resource was found";
const NO_SERVER: &str = "no metadata of an authorization server was found";
const NO_CODES: &str = "the authorization server issues no codes, or its metadata was not found";

/// The endpoints that metadata of an authorization server may have.
const ENDPOINTS: [&str; 8] = [
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
    "introspection_endpoint",
    "pushed_authorization_request_endpoint",
    "userinfo_endpoint",
    "jwks_uri",
];

rules! {
    pub(crate) RULES for Server in Chapter::Authorization;

    "resource-metadata-in-challenge", [THIRD Must LOCATION],
        "The challenge of a 401 names the URL of the resource's metadata.",
        else "no 401 had a challenge for tokens",
        |view| {
            let unauthorized = answered(view, Probe::NoToken).filter(|exchange| exchange.status() == Some(401));
            unauthorized.filter(|exchange| is_challenged(exchange)).map(|exchange| {
                let is_named = parameter(exchange, "resource_metadata").is_some();
                exchange.finding_if(!is_named, "the challenge has no resource_metadata")
            })
        };
    "resource-metadata-found", [THIRD Must LOCATION, LAST_LEGACY Must REQUIREMENTS, MODERN Must MODERN_REQUIREMENTS],
        "The resource's metadata is at the URL in the challenge, or at a well-known URL.",
        resource_found;
    "resource-metadata-document", LOCATED,
        "The resource's metadata is a JSON object with `resource`, of the type application/json.",
        else NO_RESOURCE,
        |view| documents(view).map(misshapen);
    "resource-identifier", LOCATED,
        "The `resource` in the metadata is the URL of this server, or a parent of it.",
        else NO_RESOURCE,
        |view| resources(view).map(|(exchange, resource)| {
            let url = server_url(view)?;
            exchange.finding_if(
                !covers(&resource, url),
                format_args!("resource is {resource:?}, but the server is {:?}", bare(url)),
            )
        });
    "resource-without-slash", [SINCE_THIRD Should CANONICAL],
        "The `resource` in the metadata does not end with a slash.",
        else NO_RESOURCE,
        |view| resources(view).map(|(exchange, resource)| {
            // If the server's own URL ends with a slash, the slash is part of the resource.
            let is_meant = server_url(view).is_some_and(|url| bare(url).ends_with('/'));
            exchange.finding_if(
                resource.ends_with('/') && !is_meant,
                format_args!("resource is {resource:?}"),
            )
        });
    "authorization-servers-named", LOCATED,
        "The resource's metadata names at least one authorization server.",
        else NO_RESOURCE,
        |view| documents(view).filter_map(|exchange| {
            let problem = match member(&object(exchange)?, "authorization_servers") {
                None => "authorization_servers is missing",
                Some(servers) => match strings(&servers) {
                    None => "authorization_servers is not an array of strings",
                    Some(servers) if servers.is_empty() => "authorization_servers is empty",
                    Some(_) => return Some(None),
                },
            };
            Some(Some(exchange.finding(problem)))
        });
    "offline-access-not-asked", [MODERN Should "basic/authorization#refresh-tokens"],
        "Neither the challenge nor the resource's metadata requests the scope offline_access.",
        else "neither the challenge nor the metadata name scopes",
        |view| {
            const SCOPE: &str = "offline_access";
            let supported = documents(view).filter_map(|exchange| {
                let has_it = texts(&object(exchange)?, "scopes_supported")?.iter().any(|scope| scope == SCOPE);
                Some(exchange.finding_if(has_it, "scopes_supported contains offline_access"))
            });
            let challenged = scoped(view).map(|exchange| {
                exchange.finding_if(scopes(exchange).contains(SCOPE), "the challenge requests offline_access")
            });
            supported.chain(challenged)
        };
    "server-metadata-found", PROVIDED,
        "The metadata of an authorization server is at a well-known URL of its issuer.",
        server_found;
    "server-metadata-complete", PROVIDED,
        "An authorization server's metadata has its issuer, response types and endpoints.",
        else NO_SERVER,
        |view| server_documents(view).filter(|it| it.issuer.is_some()).map(|it| {
            incomplete(&it).map(|problem| it.exchange.finding(problem))
        });
    "issuer-identical", [THIRD Must OVERVIEW, LAST_LEGACY Must DISCOVERY, MODERN Must MODERN_DISCOVERY],
        "The issuer in an authorization server's metadata equals the issuer for which it was fetched.",
        else NO_SERVER,
        |view| server_documents(view).filter_map(|it| {
            let (issuer, given) = (it.issuer.clone()?, text(&it.document, "issuer")?);
            Some(it.exchange.finding_if(
                given != issuer,
                format_args!("the issuer is {given:?}, but the resource names {issuer:?}"),
            ))
        });
    "authorization-over-https", [
        BATCHING Must "basic/authorization#security-considerations",
        LEGACY_SINCE_THIRD Must "basic/authorization#communication-security",
        MODERN Must "basic/authorization/security-considerations#communication-security",
    ],
        "URLs of authorization servers and their endpoints use https, except on the same machine.",
        else "no authorization server is named",
        |view| {
            let named = documents(view).flat_map(|exchange| {
                let servers = exchange.body.map(named_servers).unwrap_or_default();
                servers.into_iter().map(move |server| insecure(exchange, "authorization_servers", &server))
            });
            let endpoints = server_documents(view).flat_map(|it| {
                let given = ENDPOINTS.map(|name| Some((name, text(&it.document, name)?)));
                given.into_iter().flatten().map(move |(name, url)| insecure(it.exchange, name, &url))
            });
            named.chain(endpoints)
        };
    "pkce-s256", [
        LAST_LEGACY Must "basic/authorization#authorization-code-protection",
        MODERN Must "basic/authorization/security-considerations#authorization-code-protection",
    ],
        "An authorization server's metadata lists S256 in code_challenge_methods_supported.",
        else NO_CODES,
        |view| server_documents(view).filter(gives_codes).map(|it| {
            if member(&it.document, "code_challenge_methods_supported").is_none() {
                return Some(it.exchange.finding("code_challenge_methods_supported is missing"));
            }
            let methods = texts(&it.document, "code_challenge_methods_supported").unwrap_or_default();
            let has_it = methods.iter().any(|method| method == "S256");
            it.exchange.finding_if(!has_it, "code_challenge_methods_supported does not contain S256")
        });
    "response-iss-supported", [MODERN Should "basic/authorization#authorization-response-validation"],
        "An authorization server adds iss to its responses, and announces this in its metadata.",
        |view| supported(view, "authorization_response_iss_parameter_supported");
    "client-id-documents-supported", [SINCE_FOURTH Should OVERVIEW],
        "An authorization server accepts Client ID Metadata Documents, and announces this in its metadata.",
        |view| supported(view, "client_id_metadata_document_supported");
    "registration-supported", [SECOND_AND_THIRD Should "basic/authorization#dynamic-client-registration"],
        "An authorization server supports dynamic client registration.",
        else NO_CODES,
        |view| server_documents(view).filter(gives_codes).map(|it| {
            let is_missing = text(&it.document, "registration_endpoint").is_none();
            it.exchange.finding_if(is_missing, "registration_endpoint is missing")
        });
    "base-metadata-found", [BATCHING Should "basic/authorization#server-metadata-discovery"],
        "A server that requires tokens has metadata of its authorization server at the root of its origin.",
        else "the metadata at the root was not requested",
        |view| answered(view, Probe::BaseMetadata).map(|exchange| {
            object(exchange).is_none().then(|| exchange.finding(exchange.outcome()))
        });
    "default-endpoint-found", [BATCHING Must "basic/authorization#fallbacks-for-servers-without-metadata-discovery"],
        "Without this metadata the authorization endpoint is at /authorize.",
        else "the server has metadata of its authorization server",
        |view| answered(view, Probe::DefaultEndpoint).map(|exchange| {
            let is_missing = matches!(exchange.status(), Some(404 | 405));
            is_missing.then(|| exchange.finding(exchange.outcome()))
        });
}

/// The fetched documents that stand for the metadata of the resource.
pub(super) fn documents<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = &'s Exchange<'a>> {
    let named = answered(view, Probe::NamedMetadata).filter(|exchange| exchange.is_success());
    named.chain(answered(view, Probe::WellKnownMetadata).filter(|exchange| is_document(exchange)))
}

/// Whether a response stands for a document: an object, or a body that is declared as JSON.
fn is_document(exchange: &Exchange<'_>) -> bool {
    exchange.is_success() && (exchange.media_type() == MediaType::Json || object(exchange).is_some())
}

/// The addresses and their responses, for a finding.
fn statuses(exchanges: &[&Exchange<'_>]) -> String {
    let statuses = exchanges.iter().map(|it| format!("{} {}", it.request.url, it.outcome()));
    statuses.collect::<Vec<_>>().join("; ")
}

/// The resource in each document.
fn resources<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = (&'s Exchange<'a>, String)> {
    documents(view).filter_map(|exchange| Some((exchange, text(&object(exchange)?, "resource")?)))
}

/// The URL of the server, as the user named it.
fn server_url<'a>(view: &ServerView<'a>) -> Option<&'a str> {
    let exchanges = view.exchanged(Probe::NoToken).chain(view.exchanged(Probe::NoTokenAgain));
    let here = exchanges.map(|exchange| &*exchange.request.url).next();
    // Without authorization, no request was sent as one without a token.
    here.or_else(|| {
        let of = |event: &'a Event| match &event.what {
            What::Requested(_, request) if &*request.method == "POST" => Some(&*request.url),
            _ => None,
        };
        view.trace.runs.iter().flat_map(|run| &run.events).find_map(of)
    })
}

fn resource_found(view: &ServerView<'_>) -> Outcome {
    let refused = refused(view);
    if let Some((exchange, named)) = refused.and_then(|it| Some((it, parameter(it, "resource_metadata")?))) {
        if Origin::of(&named).is_err() {
            let problem = format!("resource_metadata is {named:?}, which is not a valid https URL");
            return Outcome::Failed(vec![exchange.finding(problem)]);
        }
        let fetched = answered(view, Probe::NamedMetadata).map(|exchange| {
            let problem = || format!("the challenge names {named:?}: {}", exchange.outcome());
            (!exchange.is_success()).then(|| exchange.finding(problem()))
        });
        return Outcome::of(fetched, "the URL in the challenge was not reached");
    }
    let known: Vec<&Exchange<'_>> = answered(view, Probe::WellKnownMetadata).collect();
    if known.iter().any(|exchange| is_document(exchange)) {
        return Outcome::Passed;
    }
    let is_lost = view.exchanged(Probe::WellKnownMetadata).any(|exchange| !is_answered(exchange));
    match known.first().filter(|_| !is_lost) {
        Some(first) => {
            let why = if refused.is_some() { "the challenge names no metadata" } else { LET_IN };
            let problem = format!("{why}, and there is none at {}", statuses(&known));
            Outcome::Failed(vec![first.finding(problem)])
        }
        None => Outcome::Skipped("the well-known URLs were not reached"),
    }
}

/// Checks the form of a document.
fn misshapen(exchange: &Exchange<'_>) -> Option<Finding> {
    if exchange.status() != Some(200) {
        return Some(exchange.finding(format_args!("{}, expected 200", exchange.outcome())));
    }
    let Some(document) = object(exchange) else {
        let is_empty = exchange.body.is_none_or(|body| body.trim_ascii().is_empty());
        return Some(exchange.finding(if is_empty {
            "the body is empty"
        } else {
            "it is not a JSON object"
        }));
    };
    if exchange.media_type() != MediaType::Json {
        let kind = String::from_utf8_lossy(exchange.header("content-type").unwrap_or_default());
        return Some(exchange.finding(format_args!("the content type is {kind:?}")));
    }
    exchange.finding_if(text(&document, "resource").is_none(), "it has no `resource`")
}

/// The metadata of an authorization server.
struct Document<'s, 'a> {
    exchange: &'s Exchange<'a>,
    document: Raw,
    /// The issuer for which it was fetched; `None` for the document at the root of the server.
    issuer: Option<String>,
}

/// The authorization servers that are checked.
fn issuers(view: &ServerView<'_>) -> Vec<String> {
    let bodies = documents(view).filter_map(|exchange| exchange.body);
    bodies.flat_map(named_servers).take(MAX_AUTHORIZATION_SERVERS).collect()
}

/// The fetched documents of an issuer.
fn fetched<'s, 'a>(view: &'s ServerView<'a>, issuer: &str) -> Vec<&'s Exchange<'a>> {
    let addresses = server_metadata_addresses(issuer);
    let fetched = view.exchanged(Probe::ServerMetadata);
    fetched.filter(|exchange| addresses.iter().any(|it| **it == *exchange.request.url)).collect()
}

fn server_documents<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = Document<'s, 'a>> {
    let read = |exchange: &'s Exchange<'a>, issuer: Option<String>| {
        Some(Document { document: object(exchange)?, exchange, issuer })
    };
    let named = issuers(view).into_iter().filter_map(move |issuer| {
        fetched(view, &issuer).into_iter().find_map(|exchange| read(exchange, Some(issuer.clone())))
    });
    let base = answered(view, Probe::BaseMetadata).filter_map(move |exchange| read(exchange, None));
    named.chain(base)
}

fn server_found(view: &ServerView<'_>) -> Outcome {
    // The first revision with such documents has those of OAuth alone.
    let is_oauth_alone = Revisions::THIRD.contains(&view.run.version);
    let findings = issuers(view).into_iter().filter_map(|issuer| {
        let mut fetched = fetched(view, &issuer);
        if is_oauth_alone {
            fetched.retain(|exchange| exchange.request.url.contains("/oauth-authorization-server"));
        }
        if fetched.iter().any(|exchange| object(exchange).is_some()) {
            return Some(None);
        }
        // A server that was not reached has no finding.
        let first = fetched.first().filter(|_| fetched.iter().all(|exchange| is_answered(exchange)))?;
        Some(Some(first.finding(format_args!("no metadata of {issuer:?}: {}", statuses(&fetched)))))
    });
    Outcome::of(findings, "no authorization server is named, or none was reached")
}

fn incomplete(it: &Document<'_, '_>) -> Option<String> {
    let lacks = |name: &str| text(&it.document, name).is_none();
    if lacks("issuer") {
        return Some("issuer is missing".into());
    }
    if texts(&it.document, "response_types_supported").is_none() {
        return Some("response_types_supported is missing".into());
    }
    // Without the grant of codes, a server needs no authorization endpoint.
    let needed = ["authorization_endpoint", "token_endpoint"].into_iter().skip(usize::from(!gives_codes(it)));
    needed.filter(|name| lacks(name)).map(|name| format!("{name} is missing")).next()
}

/// Whether an authorization server has the grant of codes, which is the default.
fn gives_codes(it: &Document<'_, '_>) -> bool {
    let grants = texts(&it.document, "grant_types_supported");
    grants.is_none_or(|grants| grants.iter().any(|grant| grant == "authorization_code"))
}

/// Checks that a flag in the metadata of authorization servers is true.
fn supported(view: &ServerView<'_>, name: &str) -> Outcome {
    let findings = server_documents(view)
        .filter(gives_codes)
        .map(|it| it.exchange.finding_if(!is_true(&it.document, name), format_args!("{name} is not true")));
    Outcome::of(findings, NO_CODES)
}

fn insecure(exchange: &Exchange<'_>, name: &str, url: &str) -> Option<Finding> {
    exchange.finding_if(!is_secure(url), format_args!("{name} is {url:?}"))
}
