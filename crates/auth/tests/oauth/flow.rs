//! Tests of the way from a 401 to a token, and of the errors on that way.

use std::sync::{Arc, Mutex};

use mcpjoin::client::{Client, ConnectError};
use mcpjoin::transport::Link;
use mcpjoin_auth::{
    AuthError, ClientIdentity, LocalBrowser, MemoryStore, OAuth, Secret, StepResult, StepSubject,
    TokenStore as _,
};
use serde_json::json;

use super::authority::{Iss, Robot, World, get, location_of};
use crate::scripted::{builder, call, run};

pub(super) async fn connect(world: &World, oauth: &OAuth) -> Result<Client, ConnectError> {
    builder().connect(Link::http(world.url()).credentials(oauth.clone()).build().unwrap()).await
}

#[test]
fn a_login_is_what_the_specification_says_and_the_token_is_used_from_then_on() {
    run(async {
        let world = World::with(|knobs| {
            knobs.challenge_scope = Some("read write".into());
            knobs.scopes_supported = Some(vec!["other".into()]);
        })
        .await;
        let oauth = world.asking().scope("mine").build().unwrap();
        assert_eq!(oauth.status().await.unwrap(), None);
        let client = connect(&world, &oauth).await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "a");

        let [asked] = &world.asked(0, "/authorize")[..] else { panic!("asked once") };
        assert_eq!(asked["resource"], world.url());
        assert_eq!(asked["scope"], "read write mine");
        assert_eq!(asked["client_id"], "client-1");
        let [token] = &world.asked(0, "/token")[..] else { panic!("exchanged once") };
        assert_eq!((token["resource"].as_str(), token["client_id"].as_str()), (&*world.url(), "client-1"));
        assert!(!token.contains_key("client_secret"));
        let login = oauth.status().await.unwrap().unwrap();
        assert_eq!((login.server.as_str(), login.resource.as_str()), (&*world.url(), &*world.url()));
        assert_eq!((login.issuer.as_str(), login.client_id.as_str()), (world.issuer(0), "client-1"));
        assert_eq!((login.scopes.join(" ").as_str(), login.refreshable), ("read write mine", true));
        assert!(login.expires.is_some());
        // Each later request of the link has the token in its header, and none has it in its URL.
        let seen = world.mcp.seen();
        let with = seen.iter().filter(|seen| seen.header("authorization").is_some()).count();
        assert_eq!(with, seen.iter().filter(|seen| seen.target == "/mcp").count() - 1, "all but the first");
        assert!(seen.iter().all(|seen| !seen.target.contains("hush")));

        // A second login keeps the client's registration; a logout removes it and revokes the tokens.
        oauth.login().await.unwrap();
        assert_eq!(world.authorities[0].seen().iter().filter(|seen| seen.target == "/register").count(), 1);
        let out = oauth.logout().await.unwrap();
        assert!(out.stored);
        assert_eq!(out.revoked, Some(Ok(())));
        assert_eq!(world.asked(0, "/revoke").len(), 2);
        assert_eq!(oauth.status().await.unwrap(), None);
        let out = oauth.logout().await.unwrap();
        assert_eq!((out.stored, out.revoked), (false, None));
    });
}

#[test]
fn the_local_browser_gets_the_response_of_a_real_redirect() {
    run(async {
        let world = World::new().await;
        let pages = Arc::new(Mutex::new(Vec::new()));
        let opened = pages.clone();
        let browser = LocalBrowser::new().opener(move |url| {
            let (url, opened) = (url.to_owned(), opened.clone());
            tokio::spawn(async move {
                let location = location_of(&url).await;
                let forged = location.replace("state=", "state=x");
                for page in [forged, location.clone()] {
                    let page = get(&page).await;
                    opened.lock().unwrap().push(page);
                }
            });
            Ok(())
        });
        let oauth = world.builder().user_agent(browser).build().unwrap();
        // The login starts before any request of the link.
        let login = oauth.login().await.unwrap();
        assert_eq!(login.issuer, world.issuer(0));
        let redirect = &world.asked(0, "/authorize")[0]["redirect_uri"];
        assert!(redirect.starts_with("http://127.0.0.1:") && redirect.ends_with("/callback"), "{redirect}");
        let forged = pages.lock().unwrap()[0].clone();
        assert!(forged.starts_with("HTTP/1.1 400 "), "{forged}");
        // The next login uses the same redirect URI, and so the same client.
        let before = redirect.clone();
        oauth.login().await.unwrap();
        let asked = world.asked(0, "/authorize");
        if asked[1]["redirect_uri"] == before {
            assert_eq!(asked[0]["client_id"], asked[1]["client_id"]);
        } else {
            // Another process has taken the port meanwhile: then a new client is registered.
            assert_ne!(asked[0]["client_id"], asked[1]["client_id"]);
        }
    });
}

#[test]
fn g133_an_answer_of_another_issuer_reaches_no_token_endpoint() {
    run(async {
        let world = World::new().await;
        let slash = format!("{}/", world.issuer(0));
        let upper = world.issuer(0).to_uppercase();
        let cases = [
            (true, Iss::Missing, false),
            (true, Iss::Other("https://evil.example".into()), false),
            (false, Iss::Other("https://evil.example".into()), false),
            (false, Iss::Other(slash), false),
            (true, Iss::Other(upper), false),
            (true, Iss::Right, true),
            (false, Iss::Right, true),
            (false, Iss::Missing, true),
        ];
        for (advertises, iss, accepted) in cases {
            for denies in [None, Some("evil_error".to_owned())] {
                let before = world.asked(0, "/token").len();
                world.turn(|knobs| {
                    knobs.advertises_iss = advertises;
                    knobs.iss = iss.clone();
                    knobs.denies = denies.clone();
                });
                let outcome = world.asking().build().unwrap().login().await;
                let exchanged = world.asked(0, "/token").len() - before;
                match (accepted, &denies, outcome) {
                    (true, None, Ok(_)) => assert_eq!(exchanged, 1),
                    (true, Some(_), Err(AuthError::Refused { error, .. })) => {
                        assert_eq!((error.as_str(), exchanged), ("evil_error", 0));
                    }
                    (false, _, Err(error @ AuthError::Response(_))) => {
                        assert_eq!(exchanged, 0);
                        assert!(!error.to_string().contains("evil_error"), "{error}");
                    }
                    (_, _, outcome) => panic!("{advertises} {iss:?} {denies:?}: {outcome:?}"),
                }
            }
        }
    });
}

#[test]
fn g135_an_answer_with_another_state_reaches_no_token_endpoint() {
    run(async {
        let world = World::new().await;
        for state in ["", "wrong", "<script>"] {
            world.turn(|knobs| knobs.state = Some(state.into()));
            let error = world.asking().build().unwrap().login().await.unwrap_err();
            assert!(matches!(error, AuthError::Response(_)), "{error}");
        }
        // The state of an earlier login is refused too.
        world.turn(|knobs| knobs.state = None);
        let oauth = world.asking().build().unwrap();
        oauth.login().await.unwrap();
        let used = world.asked(0, "/authorize").pop().unwrap().remove("state").unwrap();
        world.turn(|knobs| knobs.state = Some(used));
        assert!(matches!(oauth.login().await, Err(AuthError::Response(_))));
        assert_eq!(world.asked(0, "/token").len(), 1);
    });
}

#[test]
fn g137_an_authorization_endpoint_that_is_no_web_page_is_never_opened() {
    run(async {
        let world = World::new().await;
        let opened = Arc::new(Mutex::new(0));
        for endpoint in [
            "file:///bin/sh",
            "javascript:alert(1)",
            "a b",
            "a:$(calc)",
            "\\\\host\\share",
            "https://me:secret@as.example/",
            "http://as.example/",
            "https://as.example/a b",
        ] {
            world.turn(|knobs| knobs.authorization_endpoint = Some(endpoint.into()));
            let counted = opened.clone();
            let browser = LocalBrowser::new().opener(move |_| {
                *counted.lock().unwrap() += 1;
                Ok(())
            });
            let error = world.builder().user_agent(browser).build().unwrap().login().await.unwrap_err();
            assert!(matches!(error, AuthError::Endpoint(_) | AuthError::Discovery(_)), "{endpoint}: {error}");
        }
        assert_eq!(*opened.lock().unwrap(), 0);
        // In a web URL, characters with a meaning in shells are encoded.
        world.turn(|knobs| knobs.authorization_endpoint = Some("https://as.example/$(calc)`x`;'".into()));
        let urls = Arc::new(Mutex::new(Vec::new()));
        let seen = urls.clone();
        let browser = LocalBrowser::new()
            .opener(move |url| {
                seen.lock().unwrap().push(url.to_owned());
                Ok(())
            })
            .within(std::time::Duration::ZERO);
        world.builder().user_agent(browser).build().unwrap().login().await.unwrap_err();
        let urls = urls.lock().unwrap();
        assert!(urls[0].starts_with("https://as.example/%24%28calc%29%60x%60%3B%27?"), "{urls:?}");
    });
}

#[test]
fn g136_a_server_that_names_another_authorization_server_gets_nothing_of_the_first() {
    run(async {
        let world = World::with(|knobs| knobs.auth_methods = vec!["client_secret_post".into()]).await;
        let oauth = world.asking().build().unwrap();
        let client = connect(&world, &oauth).await.unwrap();
        world.turn(|knobs| knobs.named = 1);
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        // The client registers and logs in again; the refresh token is sent only to its issuer.
        assert_eq!(oauth.status().await.unwrap().unwrap().issuer, world.issuer(1));
        let at_second = world.authorities[1].seen();
        assert!(at_second.iter().any(|seen| seen.target.ends_with("/register")));
        let first: Vec<String> =
            world.asked(0, "/token").into_iter().flat_map(|form| form.into_values()).collect();
        let secrets: Vec<&String> = first.iter().filter(|value| value.contains("hush")).collect();
        assert!(!secrets.is_empty());
        for seen in &at_second {
            let all = format!("{seen:?}");
            assert!(secrets.iter().all(|secret| !all.contains(secret.as_str())), "{all}");
        }
        assert_eq!(world.asked(1, "/token").len(), 1);

        // A client that was registered by hand belongs to one issuer: the configured one, or else the first one.
        world.turn(|knobs| {
            knobs.named = 0;
            knobs.registers = false;
        });
        let store = MemoryStore::default();
        for issuer in [Some(world.issuer(0).to_owned()), None] {
            let registered = ClientIdentity::Registered {
                id: "by-hand".into(),
                secret: Some("hush-by-hand".into()),
                issuer,
            };
            world.turn(|knobs| knobs.named = 0);
            let oauth = world.asking().client(registered).store(store.clone()).build().unwrap();
            oauth.login().await.unwrap();
            world.turn(|knobs| knobs.named = 1);
            let error = oauth.login().await.unwrap_err();
            assert!(matches!(error, AuthError::Registration(_)), "{error}");
            assert!(!format!("{:?}", world.authorities[1].seen()).contains("by-hand"));
        }
    });
}

#[test]
fn without_anybody_to_ask_the_message_fails_and_says_what_is_missing() {
    run(async {
        let world = World::new().await;
        let oauth = world.builder().build().unwrap();
        let error = connect(&world, &oauth).await.unwrap_err().to_string();
        assert!(error.contains("not logged in") && error.contains("a login is needed"), "{error}");
        assert_eq!(world.mcp.seen().len(), 1, "nothing else was asked, nothing looked up");
        assert!(world.authorities[0].seen().is_empty());

        // Another program logs in: the next connection uses that login.
        let store = MemoryStore::default();
        let waiting = world.builder().store(store.clone()).build().unwrap();
        assert!(connect(&world, &waiting).await.is_err());
        world.asking().store(store.clone()).build().unwrap().login().await.unwrap();
        let client = connect(&world, &waiting).await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        assert!(store.load(&world.url()).await.unwrap().is_some());
    });
}

#[test]
fn the_resource_goes_out_byte_for_byte() {
    run(async {
        let world = World::new().await;
        let root = world.url().strip_suffix("/mcp").unwrap().to_owned();
        world.turn(|knobs| knobs.resource = Some(root.clone()));
        world.asking().build().unwrap().login().await.unwrap();
        assert_eq!(world.asked(0, "/authorize")[0]["resource"], root);
        assert_eq!(world.asked(0, "/token")[0]["resource"], root);
        // The resource of another server is refused before the login begins.
        world.turn(|knobs| knobs.resource = Some("https://evil.example/mcp".into()));
        let error = world.asking().build().unwrap().login().await.unwrap_err();
        assert!(matches!(error, AuthError::Discovery(_)), "{error}");
        assert_eq!(world.asked(0, "/authorize").len(), 1);
    });
}

#[test]
fn a_client_that_was_forgotten_is_registered_anew_once() {
    run(async {
        let world = World::new().await;
        let oauth = world.asking().build().unwrap();
        oauth.login().await.unwrap();
        world.turn(|knobs| knobs.forgets_clients = true);
        oauth.login().await.unwrap();
        let clients: Vec<_> =
            world.asked(0, "/authorize").iter().map(|asked| asked["client_id"].clone()).collect();
        assert_eq!(clients.len(), 3);
        assert_eq!(clients[0], clients[1]);
        assert_ne!(clients[1], clients[2]);
        // A new registration that is refused is not repeated: the login fails with the error.
        world.turn(|knobs| {
            knobs.token_reply = Some((401, json!({"error": "invalid_client"}).to_string()));
        });
        let fresh = world.asking().build().unwrap();
        assert!(matches!(fresh.login().await, Err(AuthError::Token(_))));
        assert_eq!(world.asked(0, "/authorize").len(), 4);
    });
}

#[test]
fn g142_a_login_that_is_given_up_frees_its_port() {
    run(async {
        let world = World::new().await;
        let (told, received) = tokio::sync::oneshot::channel();
        let told = Mutex::new(Some(told));
        let browser = LocalBrowser::new().without_opening().on_url(move |url| {
            told.lock().unwrap().take().unwrap().send(url.to_owned()).unwrap();
        });
        let oauth = world.builder().user_agent(browser).build().unwrap();
        let login = tokio::spawn(async move { oauth.login().await });
        let url = received.await.unwrap();
        let redirect = super::authority::form(url.split_once('?').unwrap().1)["redirect_uri"].clone();
        let port: u16 =
            redirect.rsplit(':').next().unwrap().strip_suffix("/callback").unwrap().parse().unwrap();
        assert!(get(&format!("http://127.0.0.1:{port}/")).await.starts_with("HTTP/1.1 404 "));
        login.abort();
        assert!(login.await.unwrap_err().is_cancelled());
        tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    });
}

#[test]
fn a_server_that_wants_requests_pushed_gets_them_and_the_browser_sees_nothing_of_them() {
    run(async {
        let world = World::with(|knobs| {
            knobs.pushes = true;
            knobs.auth_methods = vec!["client_secret_basic".into()];
        })
        .await;
        world.asking().scope("mine").build().unwrap().login().await.unwrap();
        let [pushed] = &world.asked(0, "/par")[..] else { panic!("pushed once") };
        for (name, value) in [
            ("client_id", "client-1"),
            ("scope", "mine"),
            ("response_type", "code"),
            ("resource", &*world.url()),
        ] {
            assert_eq!(pushed[name], value, "{name}");
        }
        let [asked] = &world.asked(0, "/authorize")[..] else { panic!("asked once") };
        let mut names: Vec<&str> = asked.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!((names, asked["client_id"].as_str()), (vec!["client_id", "request_uri"], "client-1"));
        let seen = world.authorities[0].seen();
        let par = seen.iter().find(|seen| seen.target == "/par").unwrap();
        assert!(par.header("authorization").unwrap().starts_with("Basic "), "the client says who it is");
    });
}

#[test]
fn an_access_token_that_cannot_be_taken_back_ends_by_itself() {
    run(async {
        let world = World::with(|knobs| knobs.signs_access = true).await;
        let oauth = world.asking().build().unwrap();
        oauth.login().await.unwrap();
        assert_eq!(oauth.logout().await.unwrap().revoked, Some(Ok(())));
        assert_eq!((world.refresh_tokens(), world.asked(0, "/revoke").len()), (0, 2));
    });
}

#[test]
fn a_revocation_endpoint_that_wants_the_field_of_a_secret_gets_an_empty_one() {
    run(async {
        let world = World::with(|knobs| knobs.revokes_with_secret = true).await;
        let oauth = world.asking().build().unwrap();
        oauth.login().await.unwrap();
        assert_eq!(oauth.logout().await.unwrap().revoked, Some(Ok(())));
        assert_eq!((world.access_tokens(), world.refresh_tokens()), (0, 0));
    });
}

#[test]
fn each_step_of_a_login_is_reported_without_secrets() {
    run(async {
        let world = World::with(|knobs| knobs.auth_methods = vec!["client_secret_post".into()]).await;
        let told = Arc::new(Mutex::new(Vec::new()));
        let all = told.clone();
        let oauth =
            world.asking().on_step(move |step| all.lock().unwrap().push(step.clone())).build().unwrap();
        oauth.login().await.unwrap();
        oauth.login().await.unwrap();
        world.turn(|knobs| knobs.token_reply = Some((400, json!({"error": "invalid_grant"}).to_string())));
        oauth.login().await.unwrap_err();
        let told = told.lock().unwrap();
        let of = |subject| {
            let of = told.iter().filter(|step| step.subject == subject);
            of.map(|step| (step.found.as_str(), &step.result)).collect::<Vec<_>>()
        };
        let [(first, _), (second, _), _] = of(StepSubject::Registration)[..] else { panic!("{told:?}") };
        assert_eq!(first, "the client client-1 was registered now");
        assert_eq!(second, "the client client-1 was registered earlier");
        let [(token, StepResult::Passed), _, (_, StepResult::Failed(why))] = of(StepSubject::Token)[..]
        else {
            panic!("{told:?}")
        };
        assert!(token.ends_with("/token issued a Bearer token"), "{token}");
        assert!(why.contains("invalid_grant"), "{why}");
        assert!(!format!("{told:?}").contains("hush"), "{told:?}");
    });
}

#[test]
fn g138_a_key_in_the_url_of_the_server_is_shown_in_no_error() {
    run(async {
        let world = World::new().await;
        let url = format!("{}?key=hush", world.url());
        let store = MemoryStore::default();
        let oauth = OAuth::builder(&url).store(store.clone()).build().unwrap();
        let link = Link::http(&url).credentials(oauth.clone()).build().unwrap();
        let error = builder().connect(link).await.unwrap_err().to_string();
        assert!(error.contains("not logged in") && !error.contains("hush"), "{error}");
        assert!(!format!("{oauth:?}").contains("hush"), "{oauth:?}");
        store.save(&url, Secret::new("{}")).await.unwrap();
        let error = oauth.status().await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hush"), "{error}");
    });
}

#[test]
fn no_client_of_a_program_is_logged_in_without_consent() {
    run(async {
        let world = World::new().await;
        let store = MemoryStore::default();
        let by_hand = ClientIdentity::Registered { id: "by-hand".into(), secret: None, issuer: None };
        world.asking().client(by_hand).store(store.clone()).build().unwrap().login().await.unwrap();
        let login = world.asking().store(store.clone()).build().unwrap().login().await.unwrap();
        assert_eq!(login.client_id, "by-hand", "a person has used it before");
        // Client credentials have no redirect URI, so the test removes it.
        let text = store.load(&world.url()).await.unwrap().unwrap();
        let mut text: serde_json::Value = serde_json::from_str(text.expose()).unwrap();
        text["redirect_uris"] = json!([]);
        store.save(&world.url(), Secret::new(text.to_string())).await.unwrap();
        let login = world.asking().store(store.clone()).build().unwrap().login().await.unwrap();
        assert!(login.client_id.starts_with("client-"), "{}", login.client_id);
    });
}

#[test]
fn setting_up_says_what_cannot_be_used() {
    for url in ["", "ftp://x/", "https://me:hush@s.example/", "https://"] {
        let error = OAuth::builder(url).user_agent(Robot).build().unwrap_err();
        assert!(!error.to_string().contains("hush"), "{error}");
    }
    assert!(OAuth::builder("https://s.example/").scope("a\"b").build().is_err());
    assert!(OAuth::builder("https://s.example/").extra_ca("no certificate").build().is_err());
}
