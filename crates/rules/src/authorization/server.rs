//! The authorization servers that the resource's metadata name: their discovery and their metadata.
//!
//! <https://www.rfc-editor.org/rfc/rfc8414>

use bytes::Bytes;
use mcpjoin_proto::{Kind, Raw};

use super::{address, answered, object, resource, statuses};
use crate::exchange::Exchange;
use crate::json::{member, strings, text};
use crate::revisions::Revisions;
use crate::rule::{Finding, Outcome, Source};
use crate::server_view::ServerView;
use crate::trace::Probe;

const OVERVIEW: &str = "basic/authorization#overview";
const DISCOVERY: &str = "basic/authorization#authorization-server-metadata-discovery";
const MODERN_DISCOVERY: &str =
    "basic/authorization/authorization-server-discovery#authorization-server-metadata-discovery";
const NO_DOCUMENT: &str = "no metadata of an authorization server were found";
const NO_CODES: &str = "the authorization server gives no codes, or its metadata were not found";

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

/// Where the revisions say that an authorization server has metadata.
const PROVIDED: &[Source] = sources![THIRD Must OVERVIEW, SINCE_FOURTH Must OVERVIEW];

rules! {
    pub(crate) RULES for Server in Chapter::Authorization;

    "server-metadata-found", PROVIDED,
        "The metadata of an authorization server are found at a well-known address of its issuer.",
        found;
    "server-metadata-complete", PROVIDED,
        "An authorization server's metadata have its issuer, response types and endpoints.",
        |view| {
            let findings = documents(view).filter(|it| it.issuer.is_some());
            Outcome::of(
                findings.map(|it| incomplete(&it).map(|problem| it.exchange.finding(problem))),
                NO_DOCUMENT,
            )
        };
    "issuer-identical", [THIRD Must OVERVIEW, LAST_LEGACY Must DISCOVERY, MODERN Must MODERN_DISCOVERY],
        "The issuer in an authorization server's metadata is the one that they were fetched for.",
        |view| {
            let findings = documents(view).filter_map(|it| {
                let (issuer, given) = (it.issuer.clone()?, text(&it.document, "issuer")?);
                let problem = || format!("the issuer is {given:?}, and the resource names {issuer:?}");
                Some((given != issuer).then(|| it.exchange.finding(problem())))
            });
            Outcome::of(findings, NO_DOCUMENT)
        };
    "authorization-over-https", [
        BATCHING Must "basic/authorization#security-considerations",
        LEGACY_SINCE_THIRD Must "basic/authorization#communication-security",
        MODERN Must "basic/authorization/security-considerations#communication-security",
    ],
        "Authorization servers and their endpoints have addresses of https, but on the same machine.",
        |view| {
            let named = resource::documents(view).flat_map(|exchange| {
                let servers = exchange.body.map(address::named_servers).unwrap_or_default();
                servers.into_iter().map(move |server| insecure(exchange, "authorization_servers", &server))
            });
            let endpoints = documents(view).flat_map(|it| {
                let given = ENDPOINTS.map(|name| Some((name, text(&it.document, name)?)));
                given.into_iter().flatten().map(move |(name, url)| insecure(it.exchange, name, &url))
            });
            Outcome::of(named.chain(endpoints), "no authorization server is named")
        };
    "pkce-s256", [
        LAST_LEGACY Must "basic/authorization#authorization-code-protection",
        MODERN Must "basic/authorization/security-considerations#authorization-code-protection",
    ],
        "An authorization server's metadata list S256 in code_challenge_methods_supported.",
        |view| {
            let findings = documents(view).filter(gives_codes).map(|it| {
                let problem = match member(&it.document, "code_challenge_methods_supported") {
                    None => "there are no code_challenge_methods_supported",
                    Some(methods) => match strings(&methods) {
                        Some(methods) if methods.iter().any(|method| method == "S256") => return None,
                        _ => "code_challenge_methods_supported has no S256",
                    },
                };
                Some(it.exchange.finding(problem))
            });
            Outcome::of(findings, NO_CODES)
        };
    "response-iss-supported", [MODERN Should "basic/authorization#authorization-response-validation"],
        "An authorization server names itself (iss) in its responses, and says so in its metadata.",
        |view| {
            let findings = documents(view).filter(gives_codes).map(|it| {
                let problem = "authorization_response_iss_parameter_supported is not true";
                (!flag(&it, "authorization_response_iss_parameter_supported"))
                    .then(|| it.exchange.finding(problem))
            });
            Outcome::of(findings, NO_CODES)
        };
    "client-id-documents-supported", [SINCE_FOURTH Should OVERVIEW],
        "An authorization server takes Client ID Metadata Documents, and says so in its metadata.",
        |view| {
            let findings = documents(view).filter(gives_codes).map(|it| {
                let problem = "client_id_metadata_document_supported is not true";
                (!flag(&it, "client_id_metadata_document_supported")).then(|| it.exchange.finding(problem))
            });
            Outcome::of(findings, NO_CODES)
        };
    "registration-supported", [SECOND_AND_THIRD Should "basic/authorization#dynamic-client-registration"],
        "An authorization server lets clients register by themselves.",
        |view| {
            let findings = documents(view).filter(gives_codes).map(|it| {
                let lacks = text(&it.document, "registration_endpoint").is_none();
                lacks.then(|| it.exchange.finding("there is no registration_endpoint"))
            });
            Outcome::of(findings, NO_CODES)
        };
    "base-metadata-found", [BATCHING Should "basic/authorization#server-metadata-discovery"],
        "A server that wants tokens has metadata of its authorization server at the root of its origin.",
        |view| {
            let findings = answered(view, Probe::BaseMetadata)
                .map(|exchange| object(exchange).is_none().then(|| exchange.finding(exchange.outcome())));
            Outcome::of(findings, "the root was not asked for metadata")
        };
    "default-endpoint-found", [BATCHING Must "basic/authorization#fallbacks-for-servers-without-metadata-discovery"],
        "Without such metadata the authorization endpoint is at /authorize.",
        |view| {
            let findings = answered(view, Probe::DefaultEndpoint).map(|exchange| {
                let absent = matches!(exchange.status(), Some(404 | 405));
                absent.then(|| exchange.finding(exchange.outcome()))
            });
            Outcome::of(findings, "the server has metadata of its authorization server")
        };
}

/// The metadata of an authorization server.
struct Document<'s, 'a> {
    exchange: &'s Exchange<'a>,
    document: Raw,
    /// For which it was fetched; `None` for one that stands at the root of the server.
    issuer: Option<String>,
}

/// The authorization servers that are named, as many as are looked at.
fn issuers(view: &ServerView<'_>) -> Vec<String> {
    let documents = resource::documents(view).filter_map(|exchange| exchange.body);
    documents.flat_map(|body: &Bytes| address::named_servers(body)).take(address::MOST_SERVERS).collect()
}

/// What was fetched for an issuer.
fn fetched<'s, 'a>(view: &'s ServerView<'a>, issuer: &str) -> Vec<&'s Exchange<'a>> {
    let addresses = address::server_metadata_addresses(issuer);
    let fetched = view.exchanges.values().filter(|exchange| {
        exchange.probe == Probe::ServerMetadata && addresses.iter().any(|it| **it == *exchange.request.url)
    });
    fetched.collect()
}

/// The documents that were found.
fn documents<'s, 'a>(view: &'s ServerView<'a>) -> impl Iterator<Item = Document<'s, 'a>> {
    let read = |exchange: &'s Exchange<'a>, issuer: Option<String>| {
        Some(Document { document: object(exchange)?, exchange, issuer })
    };
    let named = issuers(view).into_iter().filter_map(move |issuer| {
        fetched(view, &issuer).into_iter().find_map(|exchange| read(exchange, Some(issuer.clone())))
    });
    let base = answered(view, Probe::BaseMetadata).filter_map(move |exchange| read(exchange, None));
    named.chain(base)
}

fn found(view: &ServerView<'_>) -> Outcome {
    // The first revision with such documents knows those of OAuth alone.
    let oauth_alone = Revisions::THIRD.contains(&view.run.version);
    let findings = issuers(view).into_iter().filter_map(|issuer| {
        let mut fetched = fetched(view, &issuer);
        if oauth_alone {
            fetched.retain(|exchange| exchange.request.url.contains("/oauth-authorization-server"));
        }
        if fetched.iter().any(|exchange| object(exchange).is_some()) {
            return Some(None);
        }
        // Who was not reached is not accused.
        let first = fetched.first().filter(|_| fetched.iter().all(|exchange| exchange.response.is_some()))?;
        let problem = format!("no metadata of {issuer:?}: {}", statuses(fetched.iter().copied()));
        Some(Some(first.finding(problem)))
    });
    Outcome::of(findings, "no authorization server is named, or none was reached")
}

fn incomplete(it: &Document<'_, '_>) -> Option<String> {
    let lacks = |name: &str| text(&it.document, name).is_none();
    let types = member(&it.document, "response_types_supported").and_then(|types| strings(&types));
    if lacks("issuer") {
        return Some("it has no issuer".into());
    }
    if types.is_none() {
        return Some("it has no response_types_supported".into());
    }
    // A server that gives no codes needs no such endpoint; one that gives tokens in another way than by the first has one.
    let needed = ["authorization_endpoint", "token_endpoint"].into_iter().skip(usize::from(!gives_codes(it)));
    needed.filter(|name| lacks(name)).map(|name| format!("it has no {name}")).next()
}

/// Whether it has the grant of codes: by default it has.
fn gives_codes(it: &Document<'_, '_>) -> bool {
    let grants = member(&it.document, "grant_types_supported").and_then(|grants| strings(&grants));
    grants.is_none_or(|grants| grants.iter().any(|grant| grant == "authorization_code"))
}

fn flag(it: &Document<'_, '_>, name: &str) -> bool {
    member(&it.document, name).is_some_and(|value| value.kind() == Kind::Bool && value.as_str() == "true")
}

fn insecure(exchange: &Exchange<'_>, name: &str, url: &str) -> Option<Finding> {
    (!address::is_secure(url)).then(|| exchange.finding(format!("{name} has {url:?}")))
}
