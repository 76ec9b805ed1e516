//! Tests of the calls of a link to an `OAuth`, request by request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use futures_util::FutureExt as _;
use mcpjoin_proto::session::TransportErrorKind;
use tokio::sync::Notify;

use super::*;
use crate::registration::{Registration, Way};
use crate::scripted_server::{ScriptedServer, answer, json, not_found, run};
use crate::token::Tokens;
use crate::{DiscoveryError, Grant, StepSubject, StoreError, StoreLock, UserAgentError, Visit, rules};

/// A user agent that counts its calls and shows the user nothing.
#[derive(Clone, Default)]
struct Counted(Arc<AtomicUsize>);

impl UserAgent for Counted {
    async fn visit(&self, _: Option<&str>) -> Result<Visit, UserAgentError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(UserAgentError::Other("nobody is there".into()))
    }
}

#[test]
fn the_end_of_a_session_asks_for_no_login() {
    run(async {
        let at = ScriptedServer::new(|seen, _| match seen.line.as_str() {
            "POST /mcp" => answer("401 Unauthorized", "www-authenticate: Bearer\r\n", ""),
            _ => not_found(),
        })
        .await;
        let asked = Counted::default();
        let oauth = OAuth::builder(at.url()).user_agent(asked.clone()).build().unwrap();
        for (method, times) in [("DELETE", 0), ("POST", 1)] {
            let url = at.url();
            let mut challenge = AuthorizationChallenge::new(&url, method, 401);
            challenge.www_authenticate = &["Bearer"];
            let after = oauth.challenged(challenge).await;
            assert!(matches!(after, AfterChallenge::Fail(_)), "{after:?}");
            assert_eq!(asked.0.load(Ordering::SeqCst), times, "{method}");
        }
    });
}

#[test]
fn a_refusal_is_mended_where_it_says_what_is_missing() {
    run(async {
        let url = "https://s.example/mcp";
        let oauth = OAuth::builder(url).build().unwrap();
        let token = HeaderValue::from_static("DPoP abc");
        for (status, error, dpop_nonce, expected) in [
            (401, "error=\"use_dpop_nonce\"", Some("n"), "Retry"),
            (401, "error=\"use_dpop_nonce\"", None, "Fail"),
            (401, "error=\"invalid_token\"", Some("n"), "Fail"),
            // The client requests more scopes only for `insufficient_scope`, and only when the missing scopes are named.
            (403, "error=\"insufficient_scope\"", None, "GiveUp"),
            (403, "error=\"access_denied\", scope=\"a\"", None, "GiveUp"),
        ] {
            let www_authenticate = format!("DPoP {error}");
            let www_authenticate = [&*www_authenticate];
            let mut challenge = AuthorizationChallenge::new(url, "POST", status);
            challenge.www_authenticate = &www_authenticate;
            challenge.authorization = Some(&token);
            challenge.dpop_nonce = dpop_nonce;
            let after = format!("{:?}", oauth.challenged(challenge).await);
            assert!(after.starts_with(expected), "{status} {error} {dpop_nonce:?}: {after}");
        }
    });
}

#[test]
fn a_server_that_does_not_answer_during_discovery_is_reported_as_unreachable() {
    let error = |subject, outage| {
        AuthError::Discovery(DiscoveryError {
            subject,
            message: "no answer".into(),
            rule: rules::SERVERS,
            advice: None,
            outage,
        })
    };
    let unreached = Some(TransportErrorKind::Unreachable);
    for (subject, who) in [
        (StepSubject::Server, "the server"),
        (StepSubject::ResourceMetadata, "the metadata of the server"),
        (StepSubject::ServerMetadata, "the authorization server"),
    ] {
        let (kind, what) = error(subject, unreached).outage().unwrap();
        assert_eq!(Some(kind), unreached);
        assert!(what.contains(who) && what.contains("no answer"), "{what}");
        assert!(error(subject, None).outage().is_none());
    }
}

#[test]
fn g144_what_a_server_wants_is_cut_where_it_is_shown() {
    let error = AuthError::Scopes { missing: vec!["scope".into(); 10_000] };
    assert!(error.to_string().len() < 300, "{error}");
}

/// An in-memory store whose `remove` or `save` waits for the signal `go`.
#[derive(Clone, Default)]
struct Slow {
    inside: MemoryStore,
    begun: Arc<Notify>,
    go: Arc<Notify>,
    done: Arc<Notify>,
    saves: bool,
}

impl Slow {
    async fn wait(&self) {
        self.begun.notify_one();
        self.go.notified().await;
    }
}

impl TokenStore for Slow {
    async fn load(&self, server: &str) -> Result<Option<Secret>, StoreError> {
        TokenStore::load(&self.inside, server).await
    }

    async fn save(&self, server: &str, text: Secret) -> Result<(), StoreError> {
        if self.saves {
            self.wait().await;
        }
        TokenStore::save(&self.inside, server, text).await?;
        self.done.notify_one();
        Ok(())
    }

    async fn remove(&self, server: &str) -> Result<bool, StoreError> {
        self.wait().await;
        TokenStore::remove(&self.inside, server).await
    }

    async fn lock(&self, server: &str) -> Result<StoreLock, StoreError> {
        TokenStore::lock(&self.inside, server).await
    }
}

/// A login that does not expire soon.
fn login(url: &str, issuer: &str) -> StoredLogin {
    StoredLogin {
        server: url.into(),
        resource: url.into(),
        registration: Registration { way: Way::Dynamic, ..Registration::given(issuer.into(), "c".into()) },
        token_endpoint: format!("{issuer}/t"),
        revocation_endpoint: None,
        requested: Vec::new(),
        tokens: Some(Tokens {
            access: "hunter2".into(),
            kind: TokenKind::Bearer,
            expires: Some(UNIX_EPOCH + Duration::from_secs(1 << 40)),
            lifetime: None,
            refresh: None,
            scopes: None,
        }),
        key: None,
    }
}

/// A server that issues a token for client credentials, and refuses every login with a user.
async fn authority() -> ScriptedServer {
    ScriptedServer::new(|seen, own| match seen.line.as_str() {
        "POST /mcp" => answer("401 Unauthorized", "www-authenticate: Bearer\r\n", ""),
        "GET /.well-known/oauth-protected-resource" => {
            json(format!(r#"{{"resource":"{own}","authorization_servers":["{own}"]}}"#))
        }
        "GET /.well-known/oauth-authorization-server" => {
            json(format!(r#"{{"issuer":"{own}","token_endpoint":"{own}/t"}}"#))
        }
        "POST /t" => json(r#"{"access_token":"hunter2","token_type":"Bearer"}"#),
        _ => not_found(),
    })
    .await
}

fn client_credentials(at: &ScriptedServer) -> OAuthBuilder {
    let client = ClientIdentity::Registered { id: "c".into(), secret: Some("s".into()), issuer: None };
    OAuth::builder(at.url()).client(client).grant(Grant::ClientCredentials)
}

#[test]
fn g144_no_login_is_widened_to_more_than_256_scopes() {
    run(async {
        for (requested, denied, wanted, asked) in [
            (255, 0, "more", 1),
            (254, 0, "more most", 1),
            (255, 0, "more most", 0),
            (256, 0, "more", 0),
            (250, 5, "more", 1),
            (250, 6, "more", 0),
        ] {
            let at = authority().await;
            let (store, url) = (MemoryStore::default(), at.url());
            let requested: Vec<_> = (0..requested).map(|n| format!("s{n}")).collect();
            let had = requested.len();
            let kept = StoredLogin { requested, ..login(&url, &at.origin) };
            TokenStore::save(&store, &url, kept.text().unwrap()).await.unwrap();
            let oauth = client_credentials(&at).store(store).build().unwrap();
            oauth.0.state().denied = (0..denied).map(|n| format!("d{n}")).collect();
            let request = AuthorizationRequest::new(&url, "POST");
            let refused = oauth.authorization(request).await.unwrap();
            let www_authenticate = format!("Bearer error=insufficient_scope, scope=\"{wanted}\"");
            let www_authenticate = [&*www_authenticate];
            let mut challenge = AuthorizationChallenge::new(&url, "POST", 403);
            challenge.www_authenticate = &www_authenticate;
            challenge.authorization = refused.as_ref();
            let after = oauth.challenged(challenge).await;
            let lines = at.lines();
            let times = lines.iter().filter(|line| *line == "POST /t").count();
            assert_eq!(times, asked, "{had} {wanted}: {after:?} {lines:?}");
            assert_eq!(matches!(after, AfterChallenge::Retry), asked == 1, "{after:?}");
        }
    });
}

#[test]
fn a_login_that_is_looked_at_while_it_is_forgotten_does_not_come_back() {
    run(async {
        let url = "https://s.example/mcp";
        let kept = login(url, "https://as.example");
        let store = Slow::default();
        TokenStore::save(&store, url, kept.text().unwrap()).await.unwrap();
        let oauth = OAuth::builder(url).store(store.clone()).build().unwrap();
        let request = AuthorizationRequest::new(url, "POST");
        assert!(oauth.authorization(request).await.unwrap().is_some());

        let mut logout = Box::pin(oauth.logout());
        assert!((&mut logout).now_or_never().is_none());
        store.begun.notified().await;
        // A request that was refused at this moment reads the login as well.
        oauth.status().await.unwrap();
        store.go.notify_one();
        assert!(logout.await.unwrap().stored);
        assert_eq!(oauth.authorization(request).await.unwrap(), None);
        assert_eq!(oauth.status().await.unwrap(), None);
    });
}

#[test]
fn a_login_that_has_its_tokens_is_stored_before_another_one_begins() {
    run(async {
        let at = authority().await;
        let store = Slow { saves: true, ..Slow::default() };
        let oauth = || client_credentials(&at).store(store.clone()).build().unwrap();
        let first = oauth();
        let mut login = Box::pin(first.login());
        tokio::select! {
            done = &mut login => panic!("it cannot be stored yet: {done:?}"),
            () = store.begun.notified() => {}
        }
        drop(login);
        assert!(TokenStore::lock(&store, &at.url()).now_or_never().is_none(), "it is being written");
        store.go.notify_one();
        store.done.notified().await;
        assert_eq!(oauth().status().await.unwrap().map(|login| login.client_id).as_deref(), Some("c"));
        drop(TokenStore::lock(&store, &at.url()).await.unwrap());
    });
}
