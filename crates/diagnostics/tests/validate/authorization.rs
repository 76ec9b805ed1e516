//! Tests of the authorization rules for servers that require a token. Each fault is found by its rule and by no other, the
//! token is sent to no other address, and a server that requires no token is checked by none of these rules.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use mcpjoin::Link;
use mcpjoin::proto::Version;
use mcpjoin::transport::{AuthorizationRequest, Credentials, CredentialsError};
use mcpjoin_diagnostics::validate::{ValidateError, Validator};

use super::fault::Fault;
use super::front::{Front, Reply, checked, failed, full, looked, outcome, server};
use mcpjoin_rules::{Chapter, Outcome, Report, Trace, rules};

const TOKEN: &str = "Bearer the-token-of-the-user";
const RESOURCE: &str = "/.well-known/oauth-protected-resource/mcp";
const SERVER: &str = "/.well-known/oauth-authorization-server/as";

/// A request.
struct Asked {
    method: String,
    path: String,
    query: bool,
    /// The `Authorization` header, valid or not.
    authorization: Option<String>,
    /// The number of earlier requests without a token.
    nth: usize,
}

/// A correct response of the server, which a fault can change.
#[derive(Clone, Default)]
struct Answer {
    status: u16,
    challenge: Option<String>,
    kind: &'static str,
    body: String,
}

impl Answer {
    fn document(body: String) -> Self {
        Self { status: 200, kind: "application/json", body, ..Self::default() }
    }

    fn of(status: u16) -> Self {
        Self { status, kind: "text/plain", ..Self::default() }
    }

    fn reply(self) -> Reply {
        let mut reply = full(self.status, self.kind, &self.body);
        if let Some(challenge) = self.challenge {
            reply.headers_mut().insert("www-authenticate", challenge.parse().unwrap());
        }
        reply
    }

    /// Replaces a text in the challenge and the body.
    fn swap(&mut self, one: &str, other: &str) {
        assert!(self.body.contains(one), "{} has no {one}", self.body);
        self.body = self.body.replace(one, other);
    }
}

/// The correct response of a protected server to a request without a token; `None` for a request with one.
fn right(asked: &Asked, origin: &str) -> Option<Answer> {
    let metadata = || {
        format!(
            concat!(
                r#"{{"issuer":"{0}/as","authorization_endpoint":"{0}/as/authorize","token_endpoint":"{0}/as/token","#,
                r#""registration_endpoint":"{0}/as/register","response_types_supported":["code"],"#,
                r#""code_challenge_methods_supported":["S256"],"authorization_response_iss_parameter_supported":true,"#,
                r#""client_id_metadata_document_supported":true}}"#
            ),
            origin
        )
    };
    Some(match asked.path.as_str() {
        "/mcp" if asked.authorization.as_deref() == Some(TOKEN) => return None,
        "/mcp" => {
            let error = asked.authorization.as_ref().map_or("", |_| r#"error="invalid_token", "#);
            let challenge = format!(r#"Bearer {error}scope="read", resource_metadata="{origin}{RESOURCE}""#);
            Answer { challenge: Some(challenge), ..Answer::of(401) }
        }
        RESOURCE => Answer::document(format!(
            r#"{{"resource":"{origin}/mcp","authorization_servers":["{origin}/as"],"scopes_supported":["read"]}}"#
        )),
        SERVER | "/.well-known/oauth-authorization-server" => Answer::document(metadata()),
        _ => Answer::of(404),
    })
}

type Change = fn(&Asked, &mut Answer);

/// A protected server with a fault, and the requests that it received: path, and `Authorization`.
async fn guarded(change: Change) -> (Front, Arc<Mutex<Vec<(String, Option<String>)>>>) {
    let came = Arc::<Mutex<Vec<(String, Option<String>)>>>::default();
    let noted = Arc::clone(&came);
    let front = Front::of(
        &server(&[]),
        Fault {
            instead: Arc::new(move |head: &Parts, _: &str| {
                let value = |name: &str| head.headers.get(name).map(|it| it.to_str().unwrap().to_owned());
                let (path, authorization) = (head.uri.path().to_owned(), value("authorization"));
                let mut came = noted.lock().unwrap();
                let nth = came.iter().filter(|(known, token)| *known == path && token.is_none()).count();
                came.push((path.clone(), authorization.clone()));
                let (method, query) = (head.method.to_string(), head.uri.query().is_some());
                let asked = Asked { method, path, query, authorization, nth };
                let mut answer = right(&asked, &format!("http://{}", value("host").unwrap()))?;
                change(&asked, &mut answer);
                Some(answer.reply())
            }),
            ..Fault::default()
        },
    )
    .await;
    (front, came)
}

/// The report on a server that requires a token, for a validator without one.
async fn kept_out(validator: Validator) -> Report {
    match looked(validator).await {
        Err(ValidateError::Unauthorized { seen, .. }) => {
            assert!(seen.runs.is_empty() && seen.authorization.is_some());
            checked(&seen)
        }
        other => panic!("{other:?}"),
    }
}

fn in_version(front: &Front, version: &str) -> Validator {
    let version = Version::parse(version);
    match version.era() {
        Some(mcpjoin::proto::Era::Modern) => front.validator().without_legacy(),
        _ => front.validator().without_modern().legacy_version(version),
    }
}

/// A rule, the protocol version of the requests, and the fault that the rule must find.
struct Row(&'static str, &'static str, Change);

fn challenged(asked: &Asked) -> bool {
    asked.path == "/mcp" && asked.authorization.is_none() && asked.method == "POST"
}

fn named(answer: &mut Answer, one: &str, other: &str) {
    answer.challenge = answer.challenge.take().map(|challenge| challenge.replace(one, other));
}

/// Removes `resource_metadata`, so that the well-known address is used.
fn unnamed(answer: &mut Answer) {
    answer.challenge = Some(r#"Bearer scope="read""#.into());
}

fn rows() -> Vec<Row> {
    const NEW: &str = "2026-07-28";
    const LAST: &str = "2025-11-25";
    const THIRD: &str = "2025-06-18";
    const SECOND: &str = "2025-03-26";
    fn at(path: &'static str, asked: &Asked) -> bool {
        asked.path == path
    }
    vec![
        Row("missing-token-unauthorized", NEW, |asked, answer| {
            if challenged(asked) {
                answer.status = 403;
            }
        }),
        Row("missing-token-unauthorized", SECOND, |asked, answer| {
            if challenged(asked) && asked.nth > 1 {
                answer.status = 400;
            }
        }),
        Row("bearer-challenge", LAST, |asked, answer| {
            if challenged(asked) {
                answer.challenge = None;
            }
        }),
        Row("bearer-challenge", NEW, |asked, answer| {
            if challenged(asked) {
                answer.challenge = Some("Bearer".into());
            }
        }),
        Row("invalid-token-unauthorized", NEW, |asked, answer| {
            if asked.authorization.as_deref() == Some("Bearer mcpjoin-no-token") {
                answer.status = 403;
            }
        }),
        Row("invalid-token-error", LAST, |_, answer| named(answer, r#"error="invalid_token", "#, "")),
        Row("malformed-authorization-refused", NEW, |asked, answer| {
            if asked.authorization.as_deref() == Some("Bearer mcpjoin no token") {
                answer.status = 500;
            }
        }),
        Row("query-token-ignored", NEW, |asked, answer| {
            if asked.query {
                named(answer, "Bearer ", r#"Bearer error="invalid_token", "#);
            }
        }),
        Row("every-method-authorized", LAST, |asked, answer| {
            if at("/mcp", asked) && asked.method == "DELETE" {
                *answer = Answer::of(200);
            }
        }),
        Row("every-method-authorized", NEW, |asked, answer| {
            if at("/mcp", asked) && asked.method == "GET" {
                *answer = Answer { kind: "text/event-stream", ..Answer::of(200) };
            }
        }),
        Row("challenge-scope-named", NEW, |_, answer| named(answer, r#"scope="read", "#, "")),
        Row("challenge-scope-consistent", LAST, |asked, answer| {
            if challenged(asked) && asked.nth == 2 {
                named(answer, "read\"", "read more\"");
            }
        }),
        Row("resource-metadata-in-challenge", THIRD, |asked, answer| {
            if challenged(asked) {
                unnamed(answer);
            }
        }),
        Row("resource-metadata-found", NEW, |asked, answer| {
            if at(RESOURCE, asked) {
                *answer = Answer::of(404);
            }
        }),
        Row("resource-metadata-found", LAST, |asked, answer| {
            if challenged(asked) {
                unnamed(answer);
            } else if at(RESOURCE, asked) {
                *answer = Answer::of(404);
            }
        }),
        Row("resource-metadata-document", NEW, |asked, answer| {
            if at(RESOURCE, asked) {
                answer.kind = "text/plain";
            }
        }),
        Row("resource-identifier", NEW, |asked, answer| {
            if at(RESOURCE, asked) {
                answer.swap("/mcp\"", "/other\"");
            }
        }),
        Row("resource-without-slash", NEW, |asked, answer| {
            if at(RESOURCE, asked) {
                answer.swap("/mcp\"", "/\"");
            }
        }),
        Row("authorization-servers-named", THIRD, |asked, answer| {
            if at(RESOURCE, asked) {
                answer.swap("authorization_servers", "servers");
            }
        }),
        Row("offline-access-not-asked", NEW, |asked, answer| {
            if at(RESOURCE, asked) {
                answer.swap("[\"read\"", "[\"offline_access\"");
            }
        }),
        Row("server-metadata-found", NEW, |asked, answer| {
            if at(SERVER, asked) {
                *answer = Answer::of(404);
            }
        }),
        Row("server-metadata-complete", LAST, |asked, answer| {
            if at(SERVER, asked) {
                answer.swap("response_types_supported", "response_types");
            }
        }),
        Row("issuer-identical", NEW, |asked, answer| {
            if at(SERVER, asked) {
                answer.swap("/as\",\"authorization_endpoint", "/as/\",\"authorization_endpoint");
            }
        }),
        Row("authorization-over-https", NEW, |asked, answer| {
            if at(SERVER, asked) {
                answer.swap("\"token_endpoint\":\"http://", "\"token_endpoint\":\"http://as.example/");
            }
        }),
        Row("authorization-over-https", LAST, |asked, answer| {
            // No request is sent to the wrong address.
            if at(RESOURCE, asked) {
                answer.swap("[\"http://", "[\"http://as.invalid/");
            }
        }),
        Row("pkce-s256", NEW, |asked, answer| {
            if at(SERVER, asked) {
                answer.swap("S256", "plain");
            }
        }),
        Row("response-iss-supported", NEW, |asked, answer| {
            if at(SERVER, asked) {
                answer.swap("iss_parameter_supported\":true", "iss_parameter_supported\":false");
            }
        }),
        Row("client-id-documents-supported", LAST, |asked, answer| {
            if at(SERVER, asked) {
                answer.swap("document_supported\":true", "document_supported\":false");
            }
        }),
        Row("registration-supported", SECOND, |asked, answer| {
            if at("/.well-known/oauth-authorization-server", asked) {
                answer.swap("registration_endpoint", "no_endpoint");
            }
        }),
        Row("base-metadata-found", SECOND, |asked, answer| match &*asked.path {
            "/.well-known/oauth-authorization-server" => *answer = Answer::of(404),
            "/authorize" => *answer = Answer::of(400),
            _ => {}
        }),
        Row("default-endpoint-found", SECOND, |asked, answer| {
            if asked.path.starts_with("/.well-known") {
                *answer = Answer::of(404);
            }
        }),
    ]
}

#[tokio::test]
async fn f27_each_fault_of_authorization_is_found_by_its_rule_and_by_no_other() {
    let mut wrong = Vec::new();
    for Row(rule, version, change) in rows() {
        let (front, _) = guarded(change).await;
        let report = kept_out(in_version(&front, version)).await;
        // Without metadata, the rule that requires them fails as well.
        let also = (rule == "default-endpoint-found").then_some("base-metadata-found");
        let wanted: BTreeSet<&str> = also.into_iter().chain([rule]).collect();
        let found: BTreeSet<&str> = failed(&report).into_iter().collect();
        if found != wanted {
            let text = format!("{:?}", report.failed().collect::<Vec<_>>());
            wrong.push(format!("{rule} in {version}: {found:?} {:?}\n  {text:.900}", outcome(&report, rule)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known: BTreeSet<&str> = rows().iter().map(|row| row.0).collect();
    let chapter = rules().filter(|rule| rule.chapter == Chapter::Authorization).map(|rule| rule.slug);
    assert_eq!(chapter.collect::<BTreeSet<_>>(), known, "each rule has a fault");
}

/// Credentials from a store.
struct Stored;

impl Credentials for Stored {
    async fn authorization(
        &self,
        _: AuthorizationRequest<'_>,
    ) -> Result<Option<HeaderValue>, CredentialsError> {
        Ok(Some(HeaderValue::from_static(TOKEN)))
    }
}

fn authorization(report: &Report) -> Vec<&Outcome> {
    let of = report.results.iter().filter(|result| result.rule.chapter == Chapter::Authorization);
    of.map(|result| &result.outcome).collect()
}

#[tokio::test]
async fn r71_a_server_that_wants_a_token_is_clean_without_one_and_with_one() {
    for version in ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"] {
        let (front, came) = guarded(|_, _| {}).await;
        let report = kept_out(in_version(&front, version)).await;
        assert_eq!(failed(&report), [""; 0], "{version}: {:#?}", report.failed().collect::<Vec<_>>());
        assert!(report.ran() > 7, "{version}: {}", report.ran());
        let Outcome::Skipped(why) = outcome(&report, "ping-empty") else { panic!("it was checked") };
        assert!(why.contains("use --header") && why.contains("mcpjoin auth login"), "{why}");
        // One request is refused, and fifteen find out what the server requires.
        assert!(came.lock().unwrap().len() <= 16, "{:?}", came.lock().unwrap());
    }
    let (front, came) = guarded(|_, _| {}).await;
    let with = Validator::http(Link::http(&front.url).header("Authorization", TOKEN));
    let trace: Trace = looked(with).await.unwrap();
    let report = checked(&trace);
    assert_eq!(failed(&report), [""; 0], "{:#?}", report.failed().collect::<Vec<_>>());
    assert!(report.ran() > 130, "{}", report.ran());
    assert!(!format!("{trace:?}").contains("the-token-of-the-user"));
    for slug in ["missing-token-unauthorized", "query-token-ignored", "pkce-s256", "resource-identifier"] {
        assert_eq!(*outcome(&report, slug), Outcome::Passed, "{slug}");
    }
    // The same with credentials, which are asked for each request.
    let with = Validator::http(Link::http(&front.url).credentials(Stored));
    let report = checked(&looked(with.without_modern()).await.unwrap());
    assert_eq!(failed(&report), [""; 0], "{:#?}", report.failed().collect::<Vec<_>>());
    assert_eq!(*outcome(&report, "missing-token-unauthorized"), Outcome::Passed);
    // The token is sent to the server, and to no other path.
    for (path, token) in came.lock().unwrap().iter() {
        assert!(path == "/mcp" || token.is_none(), "{path} {token:?}");
    }
}

#[tokio::test]
async fn a_server_that_requires_no_token_is_checked_by_none_of_these_rules() {
    let front = Front::new(Fault::default()).await;
    let with = Validator::http(Link::http(&front.url).header("Authorization", TOKEN));
    for validator in [front.validator(), with] {
        let trace = looked(validator.without_legacy()).await.unwrap();
        assert!(trace.authorization.is_none());
        let report = checked(&trace);
        assert!(authorization(&report).iter().all(|it| matches!(it, Outcome::Skipped(_))));
    }
    // A server that requires another scheme than an OAuth token.
    let (front, _) = guarded(|asked, answer| match &*asked.path {
        "/mcp" => answer.challenge = Some("Basic realm=\"house\"".into()),
        _ => *answer = Answer::of(404),
    })
    .await;
    let outcome = looked(front.validator()).await;
    let Err(ValidateError::Unauthorized { seen, .. }) = outcome else { panic!("{outcome:?}") };
    assert!(seen.authorization.is_none());
}

#[tokio::test]
async fn a_server_that_requires_no_token_is_checked_by_the_documents_that_it_has() {
    let front = Front::of(
        &server(&[]),
        Fault {
            instead: Arc::new(|head: &Parts, _: &str| {
                let path = head.uri.path().to_owned();
                let host = host(&head.headers);
                let asked = Asked { method: String::new(), path, query: false, authorization: None, nth: 0 };
                let mut answer = right(&asked, &format!("http://{host}")).filter(|_| asked.path != "/mcp")?;
                if asked.path == RESOURCE {
                    answer.swap("/mcp\"", "/other\"");
                }
                Some(answer.reply())
            }),
            ..Fault::default()
        },
    )
    .await;
    let report = checked(&looked(front.validator().without_legacy()).await.unwrap());
    assert_eq!(failed(&report), ["resource-identifier"]);
    assert!(matches!(outcome(&report, "missing-token-unauthorized"), Outcome::Skipped(_)));
}

fn host(headers: &HeaderMap) -> String {
    headers["host"].to_str().unwrap().to_owned()
}
