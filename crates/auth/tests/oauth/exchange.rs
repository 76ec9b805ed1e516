//! Tests of token exchange: one server for several principals, each with a token of its own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::client::{Client, ConnectError};
use mcpjoin::transport::Link;
use mcpjoin_auth::{PrivateKey, SubjectTokens, TokenExchange, TokenExchangeBuilder};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::authority::form;
use crate::scripted::{Scripted, Seen, Talk, builder, call, modern, run};

const JSON: (&str, &str) = ("Content-Type", "application/json");
const ACCESS: &str = "urn:ietf:params:oauth:token-type:access_token";

/// What a test sets, and what has happened.
#[derive(Default)]
struct Settings {
    /// The response of the token endpoint, in place of its own.
    reply: Option<(u16, String)>,
    /// Members of its own response.
    members: Value,
    /// The tokens that the server refuses.
    refused: Vec<String>,
    issued: usize,
}

/// A server and its authorization server. The token for a subject is `hush-SUBJECT-NUMBER`.
struct World {
    server: Scripted,
    settings: Arc<Mutex<Settings>>,
    subjects: SubjectTokens,
}

impl World {
    async fn new() -> Self {
        let settings = Arc::new(Mutex::new(Settings::default()));
        let shared = settings.clone();
        let server = Scripted::new(move |seen, talk| serve(shared.clone(), seen, talk)).await;
        Self { server, settings, subjects: SubjectTokens::default() }
    }

    fn origin(&self) -> String {
        self.server.url().trim_end_matches("/mcp").to_owned()
    }

    fn builder(&self) -> TokenExchangeBuilder {
        TokenExchange::builder(self.server.url(), "gateway").client_secret("hush")
    }

    fn exchange(&self) -> TokenExchange {
        self.builder().token_endpoint(format!("{}/token", self.origin())).build().unwrap()
    }

    fn set(&self, set: impl FnOnce(&mut Settings)) {
        set(&mut self.settings.lock().unwrap());
    }

    async fn connect(&self, exchange: &TokenExchange, principal: &str) -> Result<Client, ConnectError> {
        let credentials = exchange.credentials(principal, &self.subjects);
        let link = Link::http(self.server.url()).credentials(credentials).build().unwrap();
        builder().connect(link).await
    }

    /// The reason why a principal cannot connect.
    async fn refusal(&self, exchange: &TokenExchange, principal: &str) -> String {
        let error = self.connect(exchange, principal).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains("hush") && !text.contains("-s3cr3t"), "{text}");
        error.to_string()
    }

    fn to(&self, path: &str) -> Vec<Seen> {
        self.server.seen().into_iter().filter(|seen| seen.target == path).collect()
    }

    /// The forms of all exchanges.
    fn exchanges(&self) -> Vec<HashMap<String, String>> {
        self.to("/token").iter().map(|seen| form(&seen.body)).collect()
    }

    /// The tokens that the server has seen, each once.
    fn tokens(&self) -> Vec<String> {
        let seen = self.to("/mcp");
        let tokens = seen.iter().map(|seen| seen.header("authorization").unwrap_or("none"));
        let mut tokens: Vec<String> = tokens.map(|value| value.replace("Bearer ", "")).collect();
        tokens.dedup();
        tokens
    }
}

async fn serve(settings: Arc<Mutex<Settings>>, seen: Seen, talk: Talk) -> Option<Talk> {
    match seen.target.as_str() {
        "/.well-known/oauth-authorization-server" => {
            let origin = format!("http://{}", seen.header("host").unwrap());
            let document = json!({
                "issuer": origin, "token_endpoint": format!("{origin}/token"),
                "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
            });
            talk.json(&document.to_string()).await
        }
        "/token" => {
            let (status, reply) = {
                let mut settings = settings.lock().unwrap();
                settings.issued += 1;
                let subject = form(&seen.body)["subject_token"].replace("-s3cr3t", "");
                let mut reply = json!({
                    "access_token": format!("hush-{subject}-{}", settings.issued), "issued_token_type": ACCESS,
                    "token_type": "Bearer", "expires_in": 3600,
                });
                for (name, value) in settings.members.as_object().into_iter().flatten() {
                    reply[name.as_str()] = value.clone();
                }
                settings.reply.clone().unwrap_or_else(|| (200, reply.to_string()))
            };
            talk.answer(status, &[JSON], &reply).await
        }
        "/mcp" => {
            let token = seen.header("authorization").unwrap_or_default().replace("Bearer ", "");
            if settings.lock().unwrap().refused.contains(&token) {
                return talk.answer(401, &[("WWW-Authenticate", "Bearer error=\"invalid_token\"")], "").await;
            }
            modern(seen, talk).await
        }
        _ => talk.status(404).await,
    }
}

#[test]
fn each_principal_gets_a_token_of_its_own() {
    run(async {
        let world = World::new().await;
        let exchange = world.exchange();
        for name in ["alice", "bob", "alice"] {
            world.subjects.insert(name, &format!("{name}-s3cr3t"), None);
            let client = world.connect(&exchange, name).await.unwrap();
            assert_eq!(call(&client, "a").await.unwrap(), "a");
            client.close().await;
        }
        // The second connection of the first principal uses the token that is there.
        assert_eq!(world.tokens(), ["hush-alice-1", "hush-bob-2", "hush-alice-1"]);
        let asked = world.exchanges();
        assert_eq!(asked.len(), 2);
        for (form, name) in asked.iter().zip(["alice", "bob"]) {
            let member = |name: &str| form[name].as_str();
            assert_eq!(member("grant_type"), "urn:ietf:params:oauth:grant-type:token-exchange");
            assert_eq!(member("subject_token"), format!("{name}-s3cr3t"));
            assert_eq!((member("subject_token_type"), member("requested_token_type")), (ACCESS, ACCESS));
            assert_eq!(member("resource"), world.server.url());
            assert!(!form.contains_key("audience") && !form.contains_key("scope"), "{form:?}");
        }
        let shown = format!("{exchange:?} {:?}", world.subjects);
        assert!(!shown.contains("hush") && !shown.contains("s3cr3t"), "{shown}");
    });
}

#[test]
fn however_the_url_of_the_server_is_written_its_requests_have_a_token() {
    run(async {
        let world = World::new().await;
        world.subjects.insert("alice", "alice-s3cr3t", None);
        // Upper and lower case are the same in a scheme (RFC 3986, 6.2.2.1).
        let url = world.server.url().replace("http:", "HTTP:");
        let exchange = TokenExchange::builder(&url, "gateway").client_secret("hush");
        let exchange = exchange.token_endpoint(format!("{}/token", world.origin())).build().unwrap();
        world.connect(&exchange, "alice").await.unwrap().close().await;
        assert_eq!(world.tokens(), ["hush-alice-1"]);
    });
}

#[test]
fn the_endpoint_is_that_of_the_issuer_and_the_client_proves_itself_as_that_wants() {
    run(async {
        let world = World::new().await;
        world.subjects.insert("alice", "alice-s3cr3t", None);
        let key = PrivateKey::from_pem(KEY).unwrap();
        for (builder, method) in [
            (world.builder(), "secret"),
            (TokenExchange::builder(world.server.url(), "gateway").private_key(key), "key"),
        ] {
            let exchange =
                builder.issuer(world.origin()).audience("files").scope("read write").build().unwrap();
            world.connect(&exchange, "alice").await.unwrap().close().await;
            let form = world.exchanges().pop().unwrap();
            assert_eq!(
                (&*form["client_id"], &*form["audience"], &*form["scope"]),
                ("gateway", "files", "read write")
            );
            assert!(!form.contains_key("resource"), "the audience is the name of the server");
            assert_eq!(form.get("client_secret").map(String::as_str), (method == "secret").then_some("hush"));
            assert_eq!(form.contains_key("client_assertion"), method == "key");
        }
        let wrong = world.builder().issuer(format!("{}/other", world.origin())).build().unwrap();
        let why = world.refusal(&wrong, "alice").await;
        assert!(
            why.contains("there is no token for alice") && why.contains("/other has no metadata"),
            "{why}"
        );
        assert!(world.builder().issuer("login").build().is_err());
    });
}

/// The key of P-256 that the tests of signatures use, too.
const KEY: &str = "\
-----BEGIN PRIVATE KEY-----\n\
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgzgUzkLigVEe7cR6v\n\
PpqLnQ1sofr+c+oRa2lIvLdijqyhRANCAATlA6E6zI/8T1EDsESLSRxhPjgY4+5x\n\
3V74gpyL8H1hWTEjeN77Wi6oChPlyjC3VNqY87/Zw2wTO1u3rLehuvEa\n\
-----END PRIVATE KEY-----\n";

#[test]
fn an_answer_that_is_no_token_is_an_error_of_that_principal_alone() {
    run(async {
        let world = World::new().await;
        let token = |members: Value| {
            let mut reply =
                json!({"access_token": "hush", "issued_token_type": ACCESS, "token_type": "Bearer"});
            for (name, value) in members.as_object().unwrap() {
                reply[name.as_str()] = value.clone();
            }
            (200, reply.to_string())
        };
        let refused = json!({"error": "invalid_target", "error_description": "no \u{1b}[31mfiles"});
        for (reply, why) in [
            ((400, refused.to_string()), r"rejected the request: invalid_target: no \u{1b}[31mfiles"),
            ((200, "<html>hush</html>".into()), "invalid response"),
            ((502, "<html>hush</html>".into()), "502"),
            (token(json!({"token_type": "N_A"})), "its token_type is `N_A`"),
            (token(json!({"token_type": "DPoP"})), "bound to a key"),
            (
                token(json!({"issued_token_type": "urn:ietf:params:oauth:token-type:saml2"})),
                "its issued_token_type is `urn:ietf:params:oauth:token-type:saml2`, which is not an access token",
            ),
            (token(json!({"access_token": "hush".repeat(1 << 18)})), "no token"),
            (token(json!({"access_token": ""})), "no token"),
            (token(json!({"access_token": "hush\r\nx: y"})), "no token"),
        ] {
            let exchange = world.exchange();
            world.subjects.insert("alice", "alice-s3cr3t", None);
            world.subjects.insert("bob", "bob-s3cr3t", None);
            world.set(|settings| settings.reply = Some(reply));
            let said = world.refusal(&exchange, "alice").await;
            assert!(said.contains("there is no token for alice") && said.contains(why), "{why}: {said}");
            world.set(|settings| settings.reply = None);
            let before = world.exchanges().len();
            // The failure is remembered for this principal and this token, and for nothing else.
            world.refusal(&exchange, "alice").await;
            assert_eq!(world.exchanges().len(), before);
            world.connect(&exchange, "bob").await.unwrap().close().await;
            world.subjects.insert("alice", "alice2-s3cr3t", None);
            world.connect(&exchange, "alice").await.unwrap().close().await;
            assert_eq!(world.exchanges().len(), before + 2);
        }
        // Nothing was sent to the server for a principal without a token.
        assert!(world.tokens().iter().all(|token| token.starts_with("hush-")), "{:?}", world.tokens());
    });
}

#[test]
fn a_token_is_exchanged_again_before_it_expires_and_when_the_server_refuses_it() {
    run(async {
        let world = World::new().await;
        // Its whole life is over at once.
        world.set(|settings| settings.members = json!({"expires_in": 0.000_001}));
        world.subjects.insert("alice", "alice-s3cr3t", None);
        let exchange = world.exchange();
        let client = world.connect(&exchange, "alice").await.unwrap();
        world.subjects.insert("alice", "newer-s3cr3t", None);
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        // The newest token of the principal was exchanged.
        assert_eq!(world.tokens(), ["hush-alice-1", "hush-newer-2"]);
        client.close().await;

        // A token that was issued just now and is refused will be refused again.
        world.set(|settings| {
            settings.members = Value::Null;
            settings.refused = vec!["hush-newer-3".into()];
        });
        let exchange = world.exchange();
        let said = world.refusal(&exchange, "alice").await;
        assert!(said.contains("rejects the token that"), "{said}");
        let before = world.server.seen().len();
        let said = world.refusal(&exchange, "alice").await;
        assert!(said.contains("rejects the token that"), "{said}");
        assert_eq!(world.server.seen().len(), before, "nothing is sent for a while");
    });
}

/// The time of the test is longer than the deadline of the other ones.
#[tokio::test]
async fn a_token_that_is_refused_later_is_exchanged_again_once() {
    let world = World::new().await;
    world.subjects.insert("alice", "alice-s3cr3t", None);
    let exchange = world.exchange();
    let client = world.connect(&exchange, "alice").await.unwrap();
    assert_eq!(call(&client, "a").await.unwrap(), "a");
    world.set(|settings| settings.refused = vec!["hush-alice-1".into()]);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    assert_eq!(call(&client, "a").await.unwrap(), "a");
    assert_eq!(world.tokens(), ["hush-alice-1", "hush-alice-2"]);
    client.close().await;
}

#[test]
fn without_a_valid_token_of_the_principal_nothing_is_sent() {
    run(async {
        let world = World::new().await;
        let exchange = world.exchange();
        let said = world.refusal(&exchange, "alice").await;
        assert!(said.contains("there is no token for alice: its own token is not known"), "{said}");
        world.subjects.insert("alice", "alice-s3cr3t", Some(Instant::now()));
        let said = world.refusal(&exchange, "alice").await;
        assert!(said.contains("its own token has expired"), "{said}");
        assert!(world.server.seen().is_empty());
        // What it has is used until that expires, too.
        world.subjects.insert("alice", "new-s3cr3t", Some(Instant::now() + Duration::from_secs(60)));
        let client = world.connect(&exchange, "alice").await.unwrap();
        world.subjects.insert("alice", "old-s3cr3t", Some(Instant::now()));
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        client.close().await;
        assert_eq!(world.tokens(), ["hush-new-1"]);
    });
}

#[test]
fn requests_at_once_share_one_exchange_and_one_that_hangs_has_a_deadline() {
    run(async {
        let world = World::new().await;
        world.subjects.insert("alice", "alice-s3cr3t", None);
        let exchange = world.exchange();
        let credentials = exchange.credentials("alice", &world.subjects);
        let outcomes = futures_util::future::join_all((0..20).map(|_| credentials.prepare())).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        assert_eq!(world.exchanges().len(), 1);

        let silent = Scripted::new(|_, talk: Talk| async move {
            talk.gone().await;
            None
        })
        .await;
        let exchange = world.builder().token_endpoint(silent.url()).build().unwrap();
        let credentials = exchange.credentials("alice", &world.subjects);
        let began = Instant::now();
        let waiting = tokio::spawn(async move { credentials.prepare().await });
        silent.wait("POST", 1).await;
        tokio::time::pause();
        let error = waiting.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("no complete response within 10000 ms"), "{error}");
        assert!(began.elapsed() >= Duration::from_secs(10));
    });
}
