//! Tests of a client whose server refuses a request: refreshes, logins, more scopes, and the limits of all three.

use futures_util::future::join_all;
use mcpjoin::transport::Credentials as _;
use mcpjoin_auth::{AuthError, MemoryStore, Secret, TokenStore as _};
use serde_json::json;

use super::authority::World;
use super::flow::connect;
use crate::scripted::{call, run};

/// Sets the expiry of the stored token to this many seconds ago.
async fn expire(store: &MemoryStore, world: &World, ago: u64) {
    set_expiry(store, world, |now| now - ago).await;
}

/// Sets the expiry of the stored token, in seconds since 1970, by the present time.
async fn set_expiry(store: &MemoryStore, world: &World, at: impl FnOnce(u64) -> u64) {
    let text = store.load(&world.url()).await.unwrap().unwrap();
    let mut text: serde_json::Value = serde_json::from_str(text.expose()).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    text["tokens"]["expires_at"] = at(now).into();
    store.save(&world.url(), Secret::new(text.to_string())).await.unwrap();
}

#[test]
fn a_token_that_is_revoked_before_its_time_costs_one_refresh_and_the_message_goes_through() {
    run(async {
        let world = World::new().await;
        let oauth = world.asking().build().unwrap();
        let client = connect(&world, &oauth).await.unwrap();
        world.revoke_access();
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        assert_eq!((world.grants(0, "refresh_token"), world.grants(0, "authorization_code")), (1, 1));
        // The refresh token was valid once, and the new one is stored.
        assert_eq!(world.refresh_tokens(), 1);
        let store = MemoryStore::default();
        let oauth = world.asking().store(store.clone()).build().unwrap();
        oauth.login().await.unwrap();
        for _ in 0..3 {
            expire(&store, &world, 10).await;
            let again = world.builder().store(store.clone()).build().unwrap();
            let client = connect(&world, &again).await.unwrap();
            assert_eq!(call(&client, "b").await.unwrap(), "b");
        }
        assert_eq!(world.grants(0, "refresh_token"), 4);
    });
}

#[test]
fn g140_a_hundred_refreshes_at_once_are_one_request() {
    run(async {
        // A refresh before the token expires.
        let world = World::new().await;
        let store = MemoryStore::default();
        world.asking().store(store.clone()).build().unwrap().login().await.unwrap();
        expire(&store, &world, 0).await;
        let oauth = world.builder().store(store.clone()).build().unwrap();
        let client = connect(&world, &oauth).await.unwrap();
        assert_eq!(world.grants(0, "refresh_token"), 1);
        // A refresh after the server has refused the token.
        world.revoke_access();
        let calls = (0..100).map(|n| {
            let client = &client;
            async move { call(client, &format!("t{n}")).await }
        });
        for outcome in join_all(calls).await {
            outcome.unwrap();
        }
        assert_eq!(world.grants(0, "refresh_token"), 2);
        // Two clients that share only the store.
        expire(&store, &world, 0).await;
        let others: Vec<_> = (0..2).map(|_| world.builder().store(store.clone()).build().unwrap()).collect();
        let clients = join_all(others.iter().map(|other| connect(&world, other))).await;
        for client in clients {
            call(&client.unwrap(), "c").await.unwrap();
        }
        assert_eq!(world.grants(0, "refresh_token"), 3);
    });
}

#[test]
fn g141_a_clock_that_is_wrong_costs_a_request_and_no_message() {
    run(async {
        // A late clock of the client: the token has expired for the server only. An early clock: the token seems to have
        // expired long ago, and there is no refresh token.
        let world = World::with(|knobs| knobs.refreshes = false).await;
        let store = MemoryStore::default();
        world.asking().store(store.clone()).build().unwrap().login().await.unwrap();
        expire(&store, &world, 300).await;
        let oauth = world.builder().store(store.clone()).build().unwrap();
        let client = connect(&world, &oauth).await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        world.revoke_access();
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("no longer accepts the stored token"), "{error}");
        // A token is used whatever its `expires_in` is.
        for expires in
            [json!(0), json!(-1), json!("3600"), json!(null), json!(1e30), json!("soon"), json!([])]
        {
            let world = World::with(|knobs| knobs.expires_in = expires.clone()).await;
            let client = connect(&world, &world.asking().build().unwrap()).await.unwrap();
            assert_eq!(call(&client, "a").await.unwrap(), "a", "{expires}");
            assert_eq!(world.grants(0, "refresh_token"), 0, "{expires}");
        }
    });
}

#[test]
fn a_refresh_that_is_refused_forgets_the_tokens_and_one_that_fails_keeps_them() {
    run(async {
        let world = World::new().await;
        let store = MemoryStore::default();
        world.asking().store(store.clone()).build().unwrap().login().await.unwrap();
        expire(&store, &world, 3600).await;
        // The authorization server is unavailable: the tokens are kept.
        for reply in [
            (503, "<html>".to_owned()),
            (200, "no token".into()),
            (400, json!({"error": "slow_down"}).to_string()),
        ] {
            world.turn(|knobs| knobs.refresh_reply = Some(reply.clone()));
            let oauth = world.builder().store(store.clone()).build().unwrap();
            let error = connect(&world, &oauth).await.unwrap_err().to_string();
            assert!(error.contains("no token"), "{error}");
            assert!(oauth.status().await.unwrap().unwrap().refreshable);
        }
        // The token expired only a moment ago, and clocks differ: the client tries it.
        expire(&store, &world, 10).await;
        world.turn(|knobs| knobs.refresh_reply = Some((503, String::new())));
        let oauth = world.builder().store(store.clone()).build().unwrap();
        connect(&world, &oauth).await.unwrap();
        // The authorization server refuses: the tokens are removed, and the client's registration is kept.
        world.turn(|knobs| knobs.refresh_reply = Some((400, json!({"error": "invalid_grant"}).to_string())));
        let oauth = world.builder().store(store.clone()).build().unwrap();
        let error = connect(&world, &oauth).await.unwrap_err().to_string();
        assert!(error.contains("invalid_grant") && error.contains("a login is needed"), "{error}");
        assert_eq!(oauth.status().await.unwrap(), None);
        let kept = store.load(&world.url()).await.unwrap().unwrap();
        assert!(kept.expose().contains("client-1") && !kept.expose().contains("hush"));
        // A client with a user agent goes on with a login, with the same registration.
        world.turn(|knobs| knobs.refresh_reply = None);
        connect(&world, &world.asking().store(store).build().unwrap()).await.unwrap();
        assert_eq!(world.asked(0, "/authorize").pop().unwrap()["client_id"], "client-1");
    });
}

#[test]
fn a_valid_token_is_used_whatever_the_refresh_of_it_ends_with() {
    run(async {
        let world = World::new().await;
        for reply in [
            (400, json!({"error": "invalid_request"}).to_string()),
            (404, "<html>".to_owned()),
            (503, json!({"error": "temporarily_unavailable"}).to_string()),
        ] {
            let store = MemoryStore::default();
            world.turn(|knobs| knobs.refresh_reply = None);
            world.asking().store(store.clone()).build().unwrap().login().await.unwrap();
            // It is valid for half a minute.
            set_expiry(&store, &world, |now| now + 30).await;
            world.turn(|knobs| knobs.refresh_reply = Some(reply.clone()));
            let before = world.grants(0, "refresh_token");
            let oauth = world.builder().store(store.clone()).build().unwrap();
            let client = connect(&world, &oauth).await.unwrap_or_else(|error| panic!("{reply:?}: {error}"));
            assert_eq!(call(&client, "a").await.unwrap(), "a");
            assert_eq!(world.grants(0, "refresh_token"), before + 1, "the next try is later");
        }
    });
}

#[test]
fn a_refresh_that_fails_for_good_leads_to_a_login_where_one_is_possible() {
    run(async {
        for reply in [
            // GitHub sends 200 and an error of its own for a refresh token that is not valid any more.
            (200, json!({"error": "bad_refresh_token"}).to_string()),
            (400, json!({"error": "invalid_request"}).to_string()),
            // The endpoint has moved.
            (404, "<html>".to_owned()),
            (308, String::new()),
        ] {
            let world = World::new().await;
            let store = MemoryStore::default();
            world.asking().store(store.clone()).build().unwrap().login().await.unwrap();
            world.revoke_access();
            expire(&store, &world, 3600).await;
            world.turn(|knobs| knobs.refresh_reply = Some(reply.clone()));
            // Without a user agent the error names the reason, and the login stays.
            let oauth = world.builder().store(store.clone()).build().unwrap();
            let error = connect(&world, &oauth).await.unwrap_err().to_string();
            assert!(error.contains("no token"), "{error}");
            assert!(oauth.status().await.unwrap().unwrap().refreshable);
            let oauth = world.asking().store(store.clone()).build().unwrap();
            let client = connect(&world, &oauth).await.unwrap_or_else(|error| panic!("{reply:?}: {error}"));
            assert_eq!(call(&client, "a").await.unwrap(), "a");
            assert_eq!(world.grants(0, "authorization_code"), 2);
        }
    });
}

#[test]
fn an_authorization_server_that_cannot_be_reached_takes_no_login_away() {
    run(async {
        let world = World::new().await;
        let store = MemoryStore::default();
        world.asking().store(store.clone()).build().unwrap().login().await.unwrap();
        expire(&store, &world, 3600).await;
        // The port is bound without a listener, so that connecting is refused.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let gone = format!("http://{}/token", socket.local_addr().unwrap());
        let kept = store.load(&world.url()).await.unwrap().unwrap();
        let moved = kept.expose().replace(&format!("{}/token", world.issuer(0)), &gone);
        store.save(&world.url(), Secret::new(moved)).await.unwrap();
        let oauth = world.builder().store(store.clone()).build().unwrap();
        let error = connect(&world, &oauth).await.unwrap_err().to_string();
        assert!(error.contains("refused") && error.contains("/token"), "{error}");
        assert!(oauth.status().await.unwrap().unwrap().refreshable);
    });
}

#[test]
fn g143_a_token_endpoint_that_answers_without_end_is_cut_off() {
    run(async {
        let world = World::new().await;
        let oauth = world.asking().build().unwrap();
        for (reply, says) in [
            ("x".repeat(1024 * 1024 + 1), "1 MiB"),
            (r#"{"access_token":"#.to_owned() + &"[".repeat(100_000), "invalid response"),
            ("<html>hush</html>".into(), "invalid response"),
        ] {
            world.turn(|knobs| knobs.token_reply = Some((200, reply)));
            let error = oauth.login().await.unwrap_err();
            assert!(matches!(error, AuthError::Token(_)), "{error}");
            let error = error.to_string();
            assert!(error.len() < 1000 && !error.contains("hush"), "{error}");
            assert!(error.contains(says) || error.contains("1048576"), "{error}");
        }
    });
}

#[test]
fn g144_more_scopes_are_asked_for_twice_at_most_and_never_the_same_again() {
    run(async {
        let world = World::with(|knobs| knobs.challenge_scope = Some("read".into())).await;
        let oauth = world.asking().build().unwrap();
        let client = connect(&world, &oauth).await.unwrap();
        // A scope that the user can grant: the earlier scopes are requested too.
        world.turn(|knobs| knobs.tool_scope = Some("write".into()));
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        let scopes = || -> Vec<String> {
            world.asked(0, "/authorize").iter().map(|asked| asked["scope"].clone()).collect()
        };
        assert_eq!(scopes(), ["read", "write read"]);
        // A server that requires another new scope each time.
        world.turn(|knobs| knobs.insatiable = true);
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("forbidden") && error.contains("more-"), "{error}");
        assert_eq!(scopes().len(), 4);
        // A server that requires a scope which was requested already: no further login begins, however often it answers so.
        world.turn(|knobs| {
            knobs.insatiable = false;
            knobs.tool_scope = Some("never".into());
            knobs.grants = Some("read".into());
        });
        for _ in 0..3 {
            let error = call(&client, "a").await.unwrap_err();
            assert!(error.contains("forbidden") && error.contains("not granted: never"), "{error}");
            assert_eq!(scopes().len(), 5);
        }

        // Without a user agent, the error names the missing scopes.
        let world = World::with(|knobs| knobs.challenge_scope = Some("read".into())).await;
        let store = MemoryStore::default();
        world.asking().store(store.clone()).build().unwrap().login().await.unwrap();
        world.turn(|knobs| knobs.tool_scope = Some("write".into()));
        let client = connect(&world, &world.builder().store(store).build().unwrap()).await.unwrap();
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("scopes that were not granted: write"), "{error}");
    });
}

#[test]
fn g144_scopes_that_the_user_has_denied_are_not_asked_for_again() {
    run(async {
        let world = World::with(|knobs| knobs.challenge_scope = Some("read".into())).await;
        let oauth = world.asking().build().unwrap();
        let client = connect(&world, &oauth).await.unwrap();
        let asked = || world.asked(0, "/authorize").len();
        world.turn(|knobs| {
            knobs.tool_scope = Some("write".into());
            knobs.denies = Some("access_denied".into());
        });
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("access_denied"), "{error}");
        assert_eq!(asked(), 2);
        for _ in 0..3 {
            let error = call(&client, "a").await.unwrap_err();
            assert!(error.contains("not granted: write"), "{error}");
            assert_eq!(asked(), 2);
        }
        // Another scope is another question.
        world.turn(|knobs| knobs.tool_scope = Some("delete".into()));
        let error = call(&client, "a").await.unwrap_err();
        assert!(error.contains("access_denied"), "{error}");
        assert_eq!(asked(), 3);
        // The user has logged in anew, and may have another opinion.
        world.turn(|knobs| knobs.denies = None);
        oauth.login().await.unwrap();
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        assert_eq!(asked(), 5);
    });
}

#[test]
fn g144_a_server_that_accepts_no_token_leads_to_one_login() {
    run(async {
        let world = World::with(|knobs| knobs.refuses_all = true).await;
        let oauth = world.asking().build().unwrap();
        for _ in 0..3 {
            connect(&world, &oauth).await.unwrap_err();
        }
        assert_eq!(world.asked(0, "/authorize").len(), 1);
        assert!(world.grants(0, "refresh_token") <= 3, "once for a message");
    });
}

#[test]
fn the_token_goes_to_the_origin_of_the_server_and_nowhere_else() {
    run(async {
        let world = World::new().await;
        let oauth = world.asking().build().unwrap();
        oauth.login().await.unwrap();
        let before = oauth.cache_partition().unwrap();
        assert!(!before.contains("hush"));
        oauth.login().await.unwrap();
        assert_ne!(oauth.cache_partition().unwrap(), before, "another token, another name");
        // A link to another server with the same credentials.
        let other = World::new().await;
        connect(&other, &oauth).await.unwrap_err();
        assert!(!format!("{:?}", other.mcp.seen()).contains("hush"));
    });
}
