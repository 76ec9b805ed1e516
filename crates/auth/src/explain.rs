//! Goes through an authorization without performing it, for users who need to find out why it fails.
//!
//! Called by `mcpjoin auth explain`. It runs the same discovery as `login`, and continues with the next steps of a login: how
//! the client would get an id, and which scopes it would request. It registers nothing and needs no user.
//!
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::discovery::{Discovered, Discovery, DiscoveryError, Wanted, discover};
use super::fetch::{FetchOptions, Fetcher, cut};
use super::registration::{ClientIdentity, Way, choose};
use super::rules;
use super::steps::{DiscoveryReport, Step, StepResult, StepSubject};
use mcpjoin::transport::HttpSetupError;

/// Called with each step of the discovery.
pub type OnStep = Arc<dyn Fn(&Step) + Send + Sync>;

/// The options of [`explain`].
#[derive(Clone, Default)]
pub struct ExplainOptions {
    /// The client identity.
    pub client: ClientIdentity,
    /// Trusted certificates beside those of the system, each PEM.
    pub extra_ca: Vec<Vec<u8>>,
    /// How long connecting may take; 10 s by default.
    pub connect_timeout: Option<Duration>,
    /// Called with each step of the discovery.
    pub on_step: Option<OnStep>,
}

impl fmt::Debug for ExplainOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExplainOptions")
            .field("client", &self.client)
            .field("connect_timeout", &self.connect_timeout)
            .finish_non_exhaustive()
    }
}

/// Sends a request without authorization to a server, and finds out how to authorize: every step, the rule it was checked
/// against, and advice. Each request takes 30 s at most. Dropping the future cancels it; nothing is stored.
///
/// # Errors
/// When the URL or a certificate cannot be used. The errors of servers are in the result.
pub async fn explain(url: &str, options: ExplainOptions) -> Result<DiscoveryReport, HttpSetupError> {
    let ExplainOptions { client, extra_ca, connect_timeout, on_step } = options;
    let mut fetching = FetchOptions { extra_ca, ..FetchOptions::default() };
    if let Some(timeout) = connect_timeout {
        fetching.connect_timeout = timeout;
    }
    Ok(climbed(&Fetcher::new(url, fetching)?, url, &client, on_step.as_deref()).await)
}

async fn climbed(
    fetcher: &Fetcher,
    server: &str,
    client: &ClientIdentity,
    on_step: Option<&(dyn Fn(&Step) + Send + Sync)>,
) -> DiscoveryReport {
    let issuer = match client {
        ClientIdentity::Registered { issuer, .. } => issuer.as_deref(),
        _ => None,
    };
    let discovery = Discovery { fetcher, server, wanted: Wanted::Code, issuer, on_step };
    let mut report = discover(&discovery, None).await;
    if let [
        Step {
            subject: StepSubject::Server,
            status: Some(500..),
            result: StepResult::Failed(what),
            rule,
            advice,
            ..
        },
        ..,
    ] = report.steps.as_slice()
    {
        // The document may be valid; whether a client can use it is unknown.
        let message = what.clone();
        let (rule, advice) = (*rule, advice.clone());
        report.outcome =
            Err(DiscoveryError { subject: StepSubject::Server, message, rule, advice, outage: None });
    }
    // Where the endpoints are only assumed, nothing is known about them.
    if let Ok(discovered) = report.outcome.as_ref()
        && !discovered.assumed
    {
        for step in [registration(discovered, client), scopes(discovered)] {
            if let Some(told) = on_step {
                told(&step);
            }
            report.steps.push(step);
        }
    }
    report
}

/// How the client would get an id.
fn registration(discovered: &Discovered, client: &ClientIdentity) -> Step {
    let open: Vec<&str> = discovered
        .ways()
        .into_iter()
        .map(|way| match way {
            Way::PreRegistered => "a client registered by hand",
            Way::Document => "a client ID metadata document",
            Way::Dynamic => "a client that registers itself",
        })
        .collect();
    let open = format!("it takes {}", open.join(", "));
    match choose(discovered, client) {
        Ok(way) => {
            let taken = match way {
                Way::PreRegistered => "the given client id is used",
                Way::Document => "the URL of the client's metadata document is used",
                Way::Dynamic => "the client would register itself",
            };
            Step::new(StepSubject::Registration, rules::REGISTRATION, format!("{open}; {taken}"))
        }
        Err(error) => Step::new(StepSubject::Registration, rules::REGISTRATION, open)
            .failed(error.to_string())
            .advice("register a client with the authorization server, and use its id"),
    }
}

/// The scopes that a login would request.
fn scopes(discovered: &Discovered) -> Step {
    let found = match discovered.scopes(&[], true) {
        Some(scopes) => format!("scopes to request: {}", cut(&scopes.join(" "))),
        None => "no scopes to request: neither the challenge nor the metadata names one".into(),
    };
    Step::new(StepSubject::Scopes, rules::SCOPES, found)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::StepResult;
    use crate::scripted_server::{ScriptedServer, answer, json, not_found, run};

    #[test]
    fn it_says_what_would_be_done_and_does_none_of_it() {
        run(async {
            let at = ScriptedServer::new(|seen, own| match seen.line.as_str() {
                "POST /mcp" => answer("401 Unauthorized", "www-authenticate: Bearer scope=read\r\n", ""),
                "GET /.well-known/oauth-protected-resource" => {
                    json(format!(r#"{{"resource":"{own}","authorization_servers":["{own}"]}}"#))
                }
                "GET /.well-known/oauth-authorization-server" => json(format!(
                    r#"{{"issuer":"{own}","authorization_endpoint":"{own}/a","token_endpoint":"{own}/t",
                    "registration_endpoint":"{own}/r","code_challenge_methods_supported":["S256"],
                    "scopes_supported":["offline_access"]}}"#
                )),
                _ => not_found(),
            })
            .await;
            let told = Arc::new(Mutex::new(Vec::new()));
            let all = Arc::clone(&told);
            let on_step: OnStep = Arc::new(move |step| all.lock().unwrap().push(step.clone()));
            let options = ExplainOptions { on_step: Some(on_step), ..ExplainOptions::default() };
            let report = explain(&at.url(), options).await.unwrap();
            assert_eq!(report.steps, *told.lock().unwrap());
            let [.., registration, scopes] = report.steps.as_slice() else { panic!("{:?}", report.steps) };
            assert_eq!(
                registration.found,
                "it takes a client registered by hand, a client that registers itself; the client would register itself"
            );
            assert_eq!(scopes.found, "scopes to request: read offline_access");
            assert!(
                at.lines().iter().all(|line| line == "POST /mcp" || line.starts_with("GET /.well-known/"))
            );

            let issuer = Some("https://other.example".to_owned());
            let client = ClientIdentity::Registered { id: "x".into(), secret: None, issuer };
            let report =
                explain(&at.url(), ExplainOptions { client, ..ExplainOptions::default() }).await.unwrap();
            let step = report.steps.iter().find(|step| step.subject == StepSubject::Registration).unwrap();
            assert!(
                matches!(&step.result, StepResult::Failed(what) if what.contains("other.example")),
                "{step:?}"
            );
            assert!(explain("ftp://x", ExplainOptions::default()).await.is_err());
        });
    }

    #[test]
    fn of_a_server_that_fails_it_is_not_said_that_a_client_can_log_in() {
        run(async {
            for (status, known) in [("500 Internal Server Error", false), ("401 Unauthorized", true)] {
                let at = ScriptedServer::new(move |seen, own| match seen.line.as_str() {
                    "POST /mcp" => answer(status, "", ""),
                    "GET /.well-known/oauth-protected-resource" => {
                        json(format!(r#"{{"resource":"{own}","authorization_servers":["{own}"]}}"#))
                    }
                    "GET /.well-known/oauth-authorization-server" => json(format!(
                        r#"{{"issuer":"{own}","authorization_endpoint":"{own}/a","token_endpoint":"{own}/t",
                        "registration_endpoint":"{own}/r","code_challenge_methods_supported":["S256"]}}"#
                    )),
                    _ => not_found(),
                })
                .await;
                let report = explain(&at.url(), ExplainOptions::default()).await.unwrap();
                match report.outcome {
                    Ok(_) => assert!(known),
                    Err(error) => {
                        assert!(!known && error.subject == StepSubject::Server, "{error:?}");
                        assert!(error.message.contains("it is not known whether"), "{error}");
                    }
                }
            }
        });
    }
}
