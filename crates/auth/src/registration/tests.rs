//! Tests of the choice and the registration of a client, with a scripted authorization server.

use std::time::Duration;

use super::*;
use crate::scripted_server::{Answer, ScriptedServer, answer, json, run};

const BACK: &str = "http://127.0.0.1:4711/callback";
const NOW: SystemTime = UNIX_EPOCH;

fn discovered(at: &ScriptedServer) -> Discovered {
    Discovered {
        resource: at.url(),
        protected_resource: None,
        issuer: at.origin.clone(),
        server: AuthorizationServer {
            issuer: at.origin.clone(),
            registration_endpoint: Some(format!("{}/register", at.origin)),
            ..AuthorizationServer::default()
        },
        assumed: false,
        challenged_scopes: None,
    }
}

async fn registered(at: &ScriptedServer, found: &Discovered) -> Result<Registration, RegistrationError> {
    let identity = ClientIdentity::default();
    register(&at.fetcher(), found, &identity, Some(BACK), None, None, NOW).await
}

fn created(body: &'static str) -> Answer {
    answer("201 Created", "content-type: application/json\r\n", body)
}

#[test]
fn pre_registered_comes_before_a_document_and_that_before_registering() {
    run(async {
        let at = ScriptedServer::new(|_, _| created(r#"{"client_id":"new"}"#)).await;
        let mut found = discovered(&at);
        let secret = Some(Secret::from("hunter2"));
        let issuer = Some(at.origin.clone());
        let given = ClientIdentity::Registered { id: "given".into(), secret, issuer };
        let document = ClientIdentity::Document { url: "https://me.example/client.json".into() };
        let fetcher = at.fetcher();
        let registered = async |found: &Discovered, identity: &ClientIdentity| {
            let registration = register(&fetcher, found, identity, Some(BACK), None, None, NOW).await;
            assert!(!format!("{registration:?}").contains("hunter2"));
            registration.map(|one| (one.client_id, one.way, one.token_auth))
        };
        let basic = ("given".to_owned(), Way::PreRegistered, TokenAuth::Basic);
        assert_eq!(registered(&found, &given).await, Ok(basic));
        let dynamic = Ok(("new".to_owned(), Way::Dynamic, TokenAuth::None));
        assert_eq!(registered(&found, &document).await, dynamic);
        assert_eq!(at.lines(), ["POST /register"]);
        found.server.client_id_metadata_document_supported = true;
        let by_url = ("https://me.example/client.json".to_owned(), Way::Document, TokenAuth::None);
        assert_eq!(registered(&found, &document).await, Ok(by_url));
        assert_eq!(registered(&found, &ClientIdentity::default()).await, dynamic);
        assert_eq!(found.ways(), [Way::PreRegistered, Way::Document, Way::Dynamic]);

        found.server.registration_endpoint = None;
        let error = registered(&found, &ClientIdentity::default()).await.unwrap_err();
        let origin = &at.origin;
        assert_eq!(
            error.to_string(),
            format!(
                "{origin} has no dynamic registration, but accepts a client ID metadata document: register a client \
                 there, and use its id"
            )
        );
        assert_eq!(at.lines().len(), 2, "nothing else was asked");
    });
}

#[test]
fn g136_a_client_of_one_issuer_is_not_shown_to_another() {
    run(async {
        let at = ScriptedServer::new(|_, _| created(r#"{"client_id":"new"}"#)).await;
        let found = discovered(&at);
        for given in [format!("{}/", at.origin), "https://other.example".to_owned()] {
            let secret = Some(Secret::from("hunter2"));
            let identity = ClientIdentity::Registered { id: "given".into(), secret, issuer: Some(given) };
            let outcome = register(&at.fetcher(), &found, &identity, Some(BACK), None, None, NOW).await;
            assert!(matches!(outcome, Err(RegistrationError::IssuerDiffers { .. })), "{outcome:?}");
        }
        assert!(at.seen().is_empty());

        let first = registered(&at, &found).await.unwrap();
        let stored = |change: fn(&mut Registration)| {
            let mut stored = Registration { client_id: "old".into(), ..first.clone() };
            change(&mut stored);
            stored
        };
        for (stored, expected) in [
            (stored(|_| {}), "old"),
            (stored(|one| one.issuer.push('/')), "new"),
            (stored(|one| one.issuer = "https://other.example".into()), "new"),
            (stored(|one| one.redirect_uris = vec!["http://127.0.0.1:1/callback".into()]), "new"),
            (stored(|one| one.secret_expires = Some(0)), "new"),
            (stored(|one| one.way = Way::PreRegistered), "new"),
        ] {
            let identity = ClientIdentity::default();
            let fetcher = at.fetcher();
            let used = register(&fetcher, &found, &identity, Some(BACK), Some(&stored), None, NOW).await;
            assert_eq!(used.unwrap().client_id, expected, "{stored:?}");
        }
    });
}

#[test]
fn a_secret_that_is_over_is_not_used() {
    let stored = |expires| Registration {
        issuer: "https://as.example".into(),
        client_id: "x".into(),
        client_secret: Some("hunter2".into()),
        secret_expires: expires,
        token_auth: TokenAuth::Basic,
        way: Way::Dynamic,
        redirect_uris: vec![BACK.into()],
    };
    let now = UNIX_EPOCH + Duration::from_secs(1000);
    for (expires, usable) in [(None, true), (Some(1001), true), (Some(1000), false), (Some(u64::MAX), true)] {
        assert_eq!(stored(expires).is_usable("https://as.example", None, now), usable, "{expires:?}");
    }
    assert!(stored(None).is_usable("https://as.example", Some(BACK), UNIX_EPOCH - Duration::from_secs(1)));
}

#[test]
fn a_client_registers_as_what_it_is() {
    run(async {
        let at = ScriptedServer::new(|_, _| created(r#"{"client_id":"new"}"#)).await;
        let mut found = discovered(&at);
        let scopes = ["a".to_owned(), "b".to_owned()];
        let mut asked = Vec::new();
        for (known, back) in [
            (None, BACK),
            (Some(vec!["client_secret_post", "none"]), "http://localhost:1/callback"),
            (Some(vec!["client_secret_post"]), "http://[::1]:1/callback"),
            (Some(vec!["private_key_jwt"]), "https://app.example/back"),
        ] {
            let known = known.map(|known| known.into_iter().map(str::to_owned).collect());
            found.server.token_endpoint_auth_methods_supported = known;
            let identity = ClientIdentity::Dynamic { name: "Me".into() };
            register(&at.fetcher(), &found, &identity, Some(back), None, Some(&scopes), NOW).await.unwrap();
            let body: serde_json::Value = serde_json::from_str(&at.seen().last().unwrap().body).unwrap();
            assert_eq!(body["client_name"], "Me");
            assert_eq!(body["redirect_uris"][0], back);
            assert_eq!(body["scope"], "a b");
            assert_eq!(body["grant_types"][1], "refresh_token");
            let text = |member: &str| body[member].as_str().unwrap().to_owned();
            asked.push(format!("{} {}", text("token_endpoint_auth_method"), text("application_type")));
        }
        let basic = "client_secret_basic native";
        assert_eq!(asked, [basic, "none native", "client_secret_post native", "client_secret_basic web"]);
        assert!(at.seen()[0].head.contains("content-type: application/json"));
        found.assumed = true;
        found.server.token_endpoint_auth_methods_supported = None;
        assert_eq!(asked_token_auth(&found), TokenAuth::None);
    });
}

#[test]
fn an_answer_is_taken_for_what_it_says() {
    run(async {
        for (body, expected) in [
            (r#"{"client_id":"x"}"#, Ok((TokenAuth::None, None))),
            (r#"{"client_id":"x","client_secret":"s"}"#, Ok((TokenAuth::Basic, None))),
            (
                r#"{"client_id":"x","client_secret":"s","client_secret_expires_at":0}"#,
                Ok((TokenAuth::Basic, None)),
            ),
            (
                r#"{"client_id":"x","client_secret":"s","client_secret_expires_at":-5}"#,
                Ok((TokenAuth::Basic, None)),
            ),
            (
                r#"{"client_id":"x","client_secret":"s","client_secret_expires_at":"soon"}"#,
                Ok((TokenAuth::Basic, None)),
            ),
            (
                r#"{"client_id":"x","client_secret":"s","client_secret_expires_at":1e30}"#,
                Ok((TokenAuth::Basic, Some(u64::MAX))),
            ),
            (
                r#"{"client_id":"x","client_secret":"s","client_secret_expires_at":1700000000,"token_endpoint_auth_method":"client_secret_post"}"#,
                Ok((TokenAuth::Post, Some(1_700_000_000))),
            ),
            (
                r#"{"client_id":"x","token_endpoint_auth_method":"client_secret_post"}"#,
                Ok((TokenAuth::None, None)),
            ),
            (
                r#"{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"none"}"#,
                Ok((TokenAuth::None, None)),
            ),
            (
                r#"{"client_id":"x","client_secret":"s","token_endpoint_auth_method":"tls_client_auth"}"#,
                Err("it requires tls_client_auth, which is not supported"),
            ),
            ("{}", Err("the response has no `client_id`")),
            (r#"{"client_id":""}"#, Err("the response has no `client_id`")),
            (r#"{"client_id":7}"#, Err("the response has no `client_id`")),
            ("<html>", Err("the body is HTML or XML (it begins with `<`), not JSON")),
        ] {
            let at = ScriptedServer::new(move |_, _| created(body)).await;
            let found = registered(&at, &discovered(&at)).await;
            let found =
                found.map(|one| (one.token_auth, one.secret_expires)).map_err(|error| error.to_string());
            let expected =
                expected.map_err(|what| format!("{} did not register the client: {what}", at.origin));
            assert_eq!(found, expected, "{body}");
        }
    });
}

#[test]
fn g143_an_id_or_a_secret_of_more_than_16_kib_is_refused() {
    run(async {
        for member in ["client_id", "client_secret", "token_endpoint_auth_method"] {
            for (bytes, refused) in [(16_384, false), (16_385, true)] {
                let mut body = serde_json::json!({ "client_id": "x" });
                body[member] = "s".repeat(bytes).into();
                let at = ScriptedServer::new(move |_, _| answer("201 Created", "", body.to_string())).await;
                let words = format!(
                    "{} did not register the client: its `{member}` is longer than 16384 bytes",
                    at.origin
                );
                let error = registered(&at, &discovered(&at)).await.err().map(|error| error.to_string());
                assert_eq!(error, refused.then_some(words), "{bytes}");
            }
        }
    });
}

#[test]
fn a_refusal_is_said_in_words_that_no_terminal_obeys() {
    run(async {
        let at = ScriptedServer::new(|_, _| {
            let body = "{\"error\":\"invalid_redirect_uri\",\"error_description\":\"no\\u001b[31m native\\nclients\"}";
            answer("400 Bad Request", "content-type: application/json\r\n", body)
        })
        .await;
        let error = registered(&at, &discovered(&at)).await.unwrap_err().to_string();
        let origin = &at.origin;
        assert_eq!(
            error,
            format!(
                "{origin} did not register the client: {origin}/register answered 400 Bad Request, and says: \
                 invalid_redirect_uri: no\\u{{1b}}[31m native\\nclients"
            )
        );
        let at = ScriptedServer::new(|_, _| json("x".repeat(2 << 20))).await;
        let error = registered(&at, &discovered(&at)).await.unwrap_err().to_string();
        assert!(error.contains("exceeds 1048576 bytes"), "{error}");
    });
}

#[test]
fn the_url_of_a_document_has_one_meaning() {
    for (url, expected) in [
        ("https://me.example/client.json", true),
        ("https://me.example/a/b?c", true),
        ("https://me.example", false),
        ("https://me.example/", false),
        ("http://me.example/client.json", false),
        ("http://127.0.0.1/client.json", false),
        ("https://me.example/client.json#x", false),
        ("https://me.example/../client.json", false),
        ("https://u:p@me.example/client.json", false),
        ("me.example/client.json", false),
    ] {
        assert_eq!(check_document(url).is_ok(), expected, "{url}");
    }
}
