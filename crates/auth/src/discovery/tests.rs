//! Tests of the discovery of an authorization server, with scripted servers.

use std::sync::Mutex;

use super::*;
use crate::scripted_server::{Answer, ScriptedServer, Seen, answer, json, not_found, run};

const PRM: &str = "GET /.well-known/oauth-protected-resource/mcp";
const ROOT_PRM: &str = "GET /.well-known/oauth-protected-resource";
const OAUTH: &str = "GET /.well-known/oauth-authorization-server";
const OPENID: &str = "GET /.well-known/openid-configuration";

fn refused(challenge: &str) -> Answer {
    answer("401 Unauthorized", &format!("www-authenticate: {challenge}\r\n"), "")
}

/// Metadata of an issuer whose endpoints are at this origin, with more members or replaced ones.
fn server(issuer: &str, origin: &str, more: &str) -> Answer {
    json(format!(
        r#"{{"issuer":"{issuer}","authorization_endpoint":"{origin}/a","token_endpoint":"{origin}/t"{more}}}"#
    ))
}

const S256: &str = r#","code_challenge_methods_supported":["S256"]"#;

/// A scripted server with correct answers, except where the test's script answers.
async fn played(script: impl Fn(&Seen, &str) -> Option<Answer> + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::new(move |seen, own| {
        if let Some(answer) = script(seen, own) {
            return answer;
        }
        match seen.line.as_str() {
            "POST /mcp" => refused("Bearer"),
            PRM => json(format!(r#"{{"resource":"{own}/mcp","authorization_servers":["{own}"]}}"#)),
            OAUTH => server(own, own, S256),
            _ => not_found(),
        }
    })
    .await
}

async fn climbed(server: &ScriptedServer) -> DiscoveryReport {
    climbed_for(server, Wanted::Code, None).await
}

async fn climbed_for(server: &ScriptedServer, wanted: Wanted, issuer: Option<&str>) -> DiscoveryReport {
    let (fetcher, url) = (server.fetcher(), server.url());
    let told = Mutex::new(Vec::new());
    let on_step = |step: &Step| told.lock().unwrap().push(step.clone());
    let discovery = Discovery { fetcher: &fetcher, server: &url, wanted, issuer, on_step: Some(&on_step) };
    let report = discover(&discovery, None).await;
    assert_eq!(report.steps, *told.lock().unwrap(), "each step is told, once");
    report
}

/// The steps as text: `subject result`, separated by commas.
fn summary(report: &DiscoveryReport) -> String {
    let one = |step: &Step| {
        let verdict = match step.result {
            StepResult::Passed => "held",
            StepResult::Skipped(_) => "skipped",
            StepResult::Failed(_) => "broken",
        };
        format!("{} {verdict}", step.subject)
    };
    report.steps.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Checks the step and the message of the final error; the server's address is written as `~`.
#[track_caller]
fn ended(played: &ScriptedServer, report: &DiscoveryReport, subject: StepSubject, words: &str) {
    let error = report.outcome.as_ref().expect_err("it ends");
    let message = error.message.replace(&played.origin, "~");
    assert_eq!((error.subject, message.as_str()), (subject, words), "{:#?}", report.steps);
}

#[test]
fn the_ladder_is_climbed_in_the_order_of_the_specification() {
    run(async {
        let at = played(|_, _| None).await;
        let report = climbed(&at).await;
        let found = report.outcome.as_ref().unwrap();
        assert_eq!(found.resource, at.url());
        assert_eq!((&*found.issuer, found.assumed), (&*at.origin, false));
        assert_eq!(found.scopes(&[], true), None);
        assert_eq!(at.lines(), ["POST /mcp", PRM, OAUTH]);
        let expected = "server held, challenge skipped, resource-metadata held, resource held, authorization-servers held, \
                        server-metadata held, issuer held, endpoints held, pkce held";
        assert_eq!(summary(&report), expected);
        let step = &report.steps[2];
        assert_eq!((step.status, step.content_type.as_deref()), (Some(200), Some("application/json")));
        assert!(step.rule.source.contains("https://"));
        // The requests contain nothing about the user.
        for seen in at.seen() {
            assert!(!seen.head.contains("authorization:") && !seen.head.contains("cookie"), "{}", seen.head);
        }
        assert!(at.seen()[1].head.contains("mcp-protocol-version: 2026-07-28"));
    });
}

#[test]
fn every_place_is_asked_in_its_turn() {
    run(async {
        // The resource metadata is at the root and not at the path, and the server metadata is at the last of its places.
        let at = played(|seen, own| match seen.line.as_str() {
            PRM => Some(not_found()),
            ROOT_PRM => {
                Some(json(format!(r#"{{"resource":"{own}","authorization_servers":["{own}/tenant1"]}}"#)))
            }
            "GET /tenant1/.well-known/openid-configuration" => {
                Some(server(&format!("{own}/tenant1"), own, S256))
            }
            OAUTH => Some(not_found()),
            _ => None,
        })
        .await;
        let report = climbed(&at).await;
        let found = report.outcome.as_ref().unwrap();
        // The resource is kept as it is written: a URL parser would have added a slash.
        assert_eq!(found.resource, at.origin);
        assert_eq!(found.issuer, format!("{}/tenant1", at.origin));
        let (oauth, openid) = (format!("{OAUTH}/tenant1"), format!("{OPENID}/tenant1"));
        let last = "GET /tenant1/.well-known/openid-configuration";
        assert_eq!(at.lines(), ["POST /mcp", PRM, ROOT_PRM, &oauth, &openid, last]);

        // Discovery uses only the place in the challenge, and the scopes of the challenge.
        let at = played(|seen, own| match seen.line.as_str() {
            "POST /mcp" => Some(refused(&format!(
                "Basic realm=x, Bearer scope=\"b a\", resource_metadata=\"{own}/here?x=hunter2\""
            ))),
            "GET /here?x=hunter2" => {
                let more = r#","scopes_supported":["a","c"]"#;
                Some(json(format!(r#"{{"resource":"{own}/mcp","authorization_servers":["{own}"]{more}}}"#)))
            }
            OAUTH => Some(server(own, own, &format!(r#"{S256},"scopes_supported":["a","offline_access"]"#))),
            _ => None,
        })
        .await;
        let report = climbed(&at).await;
        let found = report.outcome.as_ref().unwrap();
        assert_eq!(at.lines(), ["POST /mcp", "GET /here?x=hunter2", OAUTH]);
        let scopes = |more: &[&str], offline| {
            let more: Vec<String> = more.iter().map(ToString::to_string).collect();
            found.scopes(&more, offline).unwrap().join(" ")
        };
        assert_eq!(scopes(&[], false), "b a");
        assert_eq!(scopes(&["z", "a"], true), "b a z offline_access");
        let unchallenged = Discovered { challenged_scopes: None, ..found.clone() };
        assert_eq!(unchallenged.scopes(&[], false).unwrap(), ["a", "c"]);
        assert!(!format!("{:?}", report.steps).contains("hunter2"), "no query is told");
    });
}

#[test]
fn g129_metadata_and_endpoints_at_private_addresses_are_not_asked_for() {
    run(async {
        for (place, refusal) in [
            ("https://10.0.0.1/x", "an address in a private network"),
            ("https://169.254.169.254/latest/", "a link-local or cloud metadata address"),
            ("https://[::ffff:10.0.0.1]/x", "an address in a private network"),
            ("http://as.example/x", "it is http"),
            ("https://0x7f.1/x", "invalid URL"),
            ("file:///etc/passwd", "invalid URL"),
        ] {
            // The challenge contains the address: discovery tries no other place.
            let named = place.to_owned();
            let at = played(move |seen, _| {
                (seen.line == "POST /mcp").then(|| refused(&format!("Bearer resource_metadata=\"{named}\"")))
            })
            .await;
            let error = climbed(&at).await.outcome.unwrap_err();
            assert!(error.message.contains(refusal), "{error}");
            assert_eq!((error.subject, at.lines().len()), (StepSubject::ResourceMetadata, 1));

            // The metadata contains the address as an issuer.
            let named = place.to_owned();
            let at = played(move |seen, own| {
                let body = format!(r#"{{"resource":"{own}/mcp","authorization_servers":["{named}"]}}"#);
                (seen.line == PRM).then(|| json(body))
            })
            .await;
            let error = climbed(&at).await.outcome.unwrap_err();
            assert_eq!((error.subject, at.lines().len()), (StepSubject::ServerMetadata, 2), "{error}");

            // The metadata contains the address as an endpoint.
            for endpoint in
                ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"]
            {
                let named = place.to_owned();
                let at = played(move |seen, own| {
                    let body = format!(
                        r#"{{"issuer":"{own}","authorization_endpoint":"{own}/a","token_endpoint":"{own}/t","registration_endpoint":"{own}/r","revocation_endpoint":"{own}/v"{S256}}}"#
                    );
                    let mut body: serde_json::Value = serde_json::from_str(&body).unwrap();
                    body[endpoint] = named.clone().into();
                    (seen.line == OAUTH).then(|| json(body.to_string()))
                })
                .await;
                let error = climbed(&at).await.outcome.unwrap_err();
                assert_eq!(error.subject, StepSubject::Endpoints, "{error}");
                assert!(error.message.contains(endpoint) && error.message.contains(refusal), "{error}");
                assert!(error.advice.is_some());
            }
        }
    });
}

#[test]
fn g131_an_issuer_that_is_another_or_none_is_refused() {
    run(async {
        for (issuer, words) in [
            (
                r#""issuer":"https://honest.example","#,
                "`issuer` is https://honest.example, but ~ was requested",
            ),
            (r#""issuer":"~/","#, "`issuer` is ~/, but ~ was requested"),
            (r#""issuer":"","#, "GET ~/.well-known/oauth-authorization-server: it has no `issuer`"),
            ("", "GET ~/.well-known/oauth-authorization-server: it has no `issuer`"),
        ] {
            let at = played(move |seen, own| {
                let endpoints = r#""authorization_endpoint":"~/a","token_endpoint":"~/t""#;
                let body = format!("{{{issuer}{endpoints}{S256}}}").replace('~', own);
                (seen.line == OAUTH).then(|| json(body))
            })
            .await;
            let report = climbed(&at).await;
            ended(&at, &report, StepSubject::Issuer, words);
            let step = report.steps.iter().find(|step| step.subject == StepSubject::Issuer).unwrap();
            let is_slash = step.advice.as_ref().unwrap().contains("slash");
            assert_eq!(is_slash, issuer.contains('~'), "{step:?}");
            assert_eq!(
                at.lines(),
                ["POST /mcp", PRM, OAUTH, OPENID],
                "another place of the same issuer may be right"
            );
        }
    });
}

#[test]
fn g132_a_resource_that_is_another_server_is_refused() {
    run(async {
        for (resource, shown) in [
            ("https://evil.example/mcp", "https://evil.example/mcp"),
            ("~/other", "~/other"),
            ("~/mcp#x", "~/mcp#..."),
            ("~/mcpx", "~/mcpx"),
            ("mcp", "mcp"),
        ] {
            let at = played(move |seen, own| {
                let resource = resource.replace('~', own);
                let body = format!(r#"{{"resource":"{resource}","authorization_servers":["{own}"]}}"#);
                (seen.line == PRM).then(|| json(body))
            })
            .await;
            let report = climbed(&at).await;
            let words = format!("`resource` is {shown}, which is not this server, ~/mcp");
            ended(&at, &report, StepSubject::Resource, &words);
            assert_eq!(at.lines(), ["POST /mcp", PRM], "nobody else is asked");
        }
    });
}

#[test]
fn g134_an_authorization_server_without_pkce_is_refused() {
    run(async {
        for (more, words) in [
            ("", "`code_challenge_methods_supported` is missing"),
            (r#","code_challenge_methods_supported":null"#, "`code_challenge_methods_supported` is missing"),
            (r#","code_challenge_methods_supported":[]"#, "`code_challenge_methods_supported` has "),
            (
                r#","code_challenge_methods_supported":["plain","s256"]"#,
                "`code_challenge_methods_supported` has plain, s256",
            ),
        ] {
            let at = played(move |seen, own| (seen.line == OAUTH).then(|| server(own, own, more))).await;
            ended(&at, &climbed(&at).await, StepSubject::Pkce, words);
            // A grant without an authorization code needs no PKCE.
            assert!(climbed_for(&at, Wanted::TokenAlone, None).await.outcome.is_ok());
        }
    });
}

#[test]
fn g143_metadata_without_an_end_is_cut() {
    run(async {
        let at = played(|seen, _| {
            let gigabyte = "HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n";
            seen.line.starts_with("GET").then(|| Answer::Endless(gigabyte.into()))
        })
        .await;
        let words = "GET ~/.well-known/oauth-protected-resource/mcp: the response exceeds 1048576 bytes and was truncated";
        ended(&at, &climbed(&at).await, StepSubject::ResourceMetadata, words);
    });
}

#[test]
fn documents_that_are_none_are_said_to_be_none() {
    run(async {
        let body = |text: &'static str| move |_: &str| json(text);
        type Make = Box<dyn Fn(&str) -> Answer + Send + Sync>;
        let cases: [(&'static str, Make, StepSubject, &str); 8] = [
            (
                PRM,
                Box::new(body(r#"{"resource":"~/mcp","resource":"~/mcp"}"#)),
                StepSubject::ResourceMetadata,
                "not valid JSON",
            ),
            (PRM, Box::new(body("{}")), StepSubject::ResourceMetadata, "it has no `resource`"),
            (
                PRM,
                Box::new(|_| answer("500 Internal Server Error", "", "")),
                StepSubject::ResourceMetadata,
                "answered 500",
            ),
            (
                PRM,
                Box::new(|own| json(format!(r#"{{"resource":"{own}/mcp"}}"#))),
                StepSubject::AuthorizationServers,
                "names no authorization server",
            ),
            (
                PRM,
                Box::new(|own| json(format!(r#"{{"resource":"{own}/mcp","authorization_servers":[]}}"#))),
                StepSubject::AuthorizationServers,
                "names no authorization server",
            ),
            (OAUTH, Box::new(body("[]")), StepSubject::ServerMetadata, "the body is JSON, but not an object"),
            (
                OAUTH,
                Box::new(body(r#"{"issuer":"a","issuer":"b"}"#)),
                StepSubject::ServerMetadata,
                "not valid JSON",
            ),
            (
                OAUTH,
                Box::new(|_| answer("503 Service Unavailable", "", "")),
                StepSubject::ServerMetadata,
                "answered 503",
            ),
        ];
        for (line, make, subject, words) in cases {
            let at = played(move |seen, own| (seen.line == line).then(|| make(own))).await;
            let report = climbed(&at).await;
            // A body that is not JSON may be the error page of a server without metadata, as in 2025-03-26.
            if line == PRM && words.contains("not valid JSON") {
                assert!(summary(&report).contains("resource-metadata broken"), "{:?}", report.steps);
                assert!(report.outcome.unwrap().protected_resource.is_none());
                continue;
            }
            let error = report.outcome.unwrap_err();
            assert!(error.subject == subject && error.message.contains(words), "{error:?}");
        }
    });
}

#[test]
fn what_the_challenge_names_is_not_made_up_for() {
    run(async {
        for (answer, words) in [
            (not_found(), "the challenge names it, but it answered 404 Not Found"),
            (json("<html>"), "the body is HTML or XML (it begins with `<`), not JSON"),
        ] {
            let at = played(move |seen, own| match seen.line.as_str() {
                "POST /mcp" => Some(refused(&format!("Bearer resource_metadata={own}/here"))),
                "GET /here" => Some(answer.clone()),
                PRM => Some(not_found()),
                _ => None,
            })
            .await;
            ended(&at, &climbed(&at).await, StepSubject::ResourceMetadata, &format!("GET ~/here: {words}"));
            assert_eq!(
                at.lines(),
                ["POST /mcp", "GET /here", PRM, ROOT_PRM],
                "the well-known places may have it"
            );
        }
    });
}

#[test]
fn the_first_server_that_can_be_used_is_taken_and_the_others_are_noted() {
    run(async {
        let at = played(|seen, own| {
            let list = ["/a", "/b", "/c"].map(|path| format!(r#""{own}{path}""#)).join(",");
            match seen.line.as_str() {
                PRM => Some(json(format!(r#"{{"resource":"{own}/mcp","authorization_servers":[{list}]}}"#))),
                line => {
                    let path = line.strip_prefix(OAUTH).filter(|path| matches!(*path, "/b" | "/c"))?;
                    Some(server(&format!("{own}{path}"), own, S256))
                }
            }
        })
        .await;
        let report = climbed(&at).await;
        assert_eq!(report.outcome.as_ref().unwrap().issuer, format!("{}/b", at.origin));
        let last = report.steps.last().unwrap();
        assert_eq!(last.result, StepResult::Skipped("another one can be used".into()));
        assert_eq!(last.found, format!("{}/c is not tried", at.origin));
        assert!(summary(&report).contains("server-metadata broken"), "{:?}", report.steps);
        // Unless the client has a stored login or registration at another one.
        let wanted = format!("{}/c", at.origin);
        let report = climbed_for(&at, Wanted::Code, Some(&wanted)).await;
        assert_eq!(report.outcome.unwrap().issuer, wanted);
    });
}

#[test]
fn g143_eight_of_the_authorization_servers_that_a_server_names_are_asked() {
    run(async {
        let at = played(|seen, own| match seen.line.as_str() {
            PRM => {
                let list: Vec<_> = (0..20).map(|n| format!("{own}/{n}")).collect();
                let body =
                    serde_json::json!({ "resource": format!("{own}/mcp"), "authorization_servers": list });
                Some(json(body.to_string()))
            }
            // Only the last of them is an authorization server.
            line if line.ends_with("/19") => Some(server(&format!("{own}/19"), own, S256)),
            line => line.starts_with("GET").then(not_found),
        })
        .await;
        let report = climbed(&at).await;
        assert!(report.outcome.is_err());
        let asked = |n: usize| at.lines().contains(&format!("{OAUTH}/{n}"));
        assert_eq!((0..20).filter(|n| asked(*n)).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
        let skipped = StepResult::Skipped("only 8 are tried".into());
        let skipped = report.steps.iter().filter(|step| step.result == skipped).count();
        assert_eq!(skipped, 9, "nor is each of the others told of");
        // Unless the client has a stored login or registration at that one.
        let wanted = format!("{}/19", at.origin);
        assert!(climbed_for(&at, Wanted::Code, Some(&wanted)).await.outcome.is_ok());
    });
}

#[test]
fn a_server_of_2025_03_26_is_its_own_authorization_server() {
    run(async {
        let at = played(|seen, own| match seen.line.as_str() {
            PRM => Some(not_found()),
            OAUTH => Some(server(&format!("{own}/"), own, S256)),
            _ => None,
        })
        .await;
        let found = climbed(&at).await.outcome.unwrap();
        assert_eq!((found.resource, found.issuer), (at.url(), format!("{}/", at.origin)));
        assert!(!found.assumed && at.seen()[3].head.contains("mcp-protocol-version: 2025-03-26"));

        let at = played(|seen, _| (seen.line != "POST /mcp").then(not_found)).await;
        let report = climbed(&at).await;
        assert!(report.steps.last().unwrap().advice.as_ref().unwrap().contains("an API key"));
        let found = report.outcome.unwrap();
        assert!(found.assumed && found.protected_resource.is_none());
        assert_eq!(found.server.token_endpoint, Some(format!("{}/token", at.origin)));
        assert_eq!(at.lines(), ["POST /mcp", PRM, ROOT_PRM, OAUTH]);

        // The defaults are not used for a server that requires no authorization, or whose metadata fails with an error.
        let at =
            played(|seen, _| Some(if seen.line == "POST /mcp" { json("{}") } else { not_found() })).await;
        let words = "the server does not require authorization and names no authorization server";
        ended(&at, &climbed(&at).await, StepSubject::Server, words);
        // It is not known whether a server that fails requires authorization.
        let at = played(|seen, _| {
            Some(if seen.line == "POST /mcp" {
                answer("500 Internal Server Error", "", "")
            } else {
                not_found()
            })
        })
        .await;
        let words = "POST ~/mcp: the server fails, so it is not known whether it requires authorization";
        ended(&at, &climbed(&at).await, StepSubject::Server, words);
        // A page is there, and no MCP server.
        for status in ["404 Not Found", "405 Method Not Allowed", "501 Not Implemented"] {
            let at = played(move |seen, _| {
                Some(if seen.line == "POST /mcp" { answer(status, "", "") } else { not_found() })
            })
            .await;
            let words = "POST ~/mcp: the URL answers, but not as an MCP server";
            let report = climbed(&at).await;
            ended(&at, &report, StepSubject::Server, words);
            let error = report.outcome.expect_err("it ends");
            assert_eq!(error.advice.as_deref(), Some("check the path: usually /mcp"), "{status}");
        }
        let at = played(|seen, _| {
            let html = || answer("200 OK", "content-type: text/html; charset=utf-8\r\n", "<html>");
            Some(if seen.line == "POST /mcp" { html() } else { not_found() })
        })
        .await;
        let words =
            "POST ~/mcp: the URL answers, but not as an MCP server: it sends text/html; charset=utf-8";
        ended(&at, &climbed(&at).await, StepSubject::Server, words);
        let at =
            played(|seen, _| (seen.line != "POST /mcp").then(|| answer("500 Internal Server Error", "", "")))
                .await;
        let words = "GET ~/.well-known/oauth-protected-resource/mcp: answered 500 Internal Server Error";
        ended(&at, &climbed(&at).await, StepSubject::ResourceMetadata, words);
    });
}

#[test]
fn a_401_without_a_challenge_is_broken_and_made_up_for() {
    run(async {
        let at =
            played(|seen, _| (seen.line == "POST /mcp").then(|| answer("401 Unauthorized", "", ""))).await;
        let report = climbed(&at).await;
        assert!(summary(&report).starts_with("server held, challenge broken, resource-metadata held"));
        assert!(report.outcome.is_ok());
        let challenge = Challenged::of(401, &["DPoP algs=ES256", "Bearer scope=\"\", scope=x"]);
        assert_eq!(challenge.scopes(), Some(vec!["x".to_owned()]));
        assert_eq!(challenge.of_tokens().count(), 2);
        assert_eq!(Challenged::of(401, &["Basic scope=x"]).scopes(), None);
        // When the link supplies a challenge, discovery does not send another request to the server.
        let (fetcher, url) = (at.fetcher(), at.url());
        let discovery =
            Discovery { fetcher: &fetcher, server: &url, wanted: Wanted::Code, issuer: None, on_step: None };
        let before = at.lines().len();
        assert!(discover(&discovery, Some(&challenge)).await.outcome.is_ok());
        assert_eq!(at.lines()[before..], [PRM, OAUTH]);
        // A challenge for more scopes counts as a requirement of authorization, too.
        let bare = played(|seen, _| (seen.line != "POST /mcp").then(not_found)).await;
        let (fetcher, url) = (bare.fetcher(), bare.url());
        let discovery = Discovery { fetcher: &fetcher, server: &url, ..discovery };
        for (value, assumed) in [("Bearer error=insufficient_scope", true), ("Basic realm=x", false)] {
            let challenge = Challenged::of(403, &[value]);
            assert_eq!(discover(&discovery, Some(&challenge)).await.outcome.is_ok(), assumed, "{value}");
        }
    });
}

#[test]
fn a_server_that_is_not_reached_or_not_over_tls_is_said_to_be() {
    run(async {
        // The port is bound without a listener: connecting is refused, and no other process can take the port.
        let held = tokio::net::TcpSocket::new_v4().unwrap();
        held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let url = format!("http://{}/mcp", held.local_addr().unwrap());
        for (url, subject, words) in [
            (url.as_str(), StepSubject::Server, "connection refused"),
            ("http://10.0.0.1/mcp", StepSubject::Server, "it is http"),
        ] {
            let fetcher = Fetcher::new(url, super::super::fetch::FetchOptions::default()).unwrap();
            let discovery = Discovery {
                fetcher: &fetcher,
                server: url,
                wanted: Wanted::Code,
                issuer: None,
                on_step: None,
            };
            let error = discover(&discovery, None).await.outcome.unwrap_err();
            assert!(error.subject == subject && error.message.contains(words), "{error}");
        }
    });
}
