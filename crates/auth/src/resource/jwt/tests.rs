//! Tests of tokens that the test signs, with keys that the published documents contain or lack.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcpjoin_proto::Raw;
use serde_json::{Value, json};

use super::super::keys::{Documents, Getting};
use super::super::verifier::{Rejected, TokenVerifier as _, Verified};
use super::super::{ResourceServer, ResourceSetupError};
use super::{JwtVerifier, verified};
use crate::jws::{Header, SigningKey, encode};

const ISSUER: &str = "https://as.example/tenant";
const METADATA: &str = "https://as.example/tenant/.well-known/openid-configuration";
const KEYS: &str = "https://keys.example/jwks";

/// Runs a test on a paused clock that advances only while all tasks wait.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(test);
}

/// The documents that the verifier can fetch.
#[derive(Default)]
struct Web {
    documents: Mutex<HashMap<String, Result<String, String>>>,
    asked: AtomicUsize,
    /// Each response waits for a permit.
    slow: Option<tokio::sync::Semaphore>,
}

impl Web {
    fn put(&self, url: &str, document: Result<&Value, &str>) {
        let document = document.map(ToString::to_string).map_err(ToOwned::to_owned);
        self.documents.lock().expect("the web").insert(url.to_owned(), document);
    }

    fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

impl Documents for Web {
    fn get(self: Arc<Self>, url: String) -> Getting {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if let Some(slow) = &self.slow {
                slow.acquire().await.expect("open").forget();
            }
            let documents = self.documents.lock().expect("the web");
            documents.get(&url).cloned().transpose().map(|found| found.map(Into::into))
        })
    }
}

struct Signer {
    key: SigningKey,
    id: &'static str,
}

impl Signer {
    fn new(id: &'static str) -> Self {
        let pem = SigningKey::generate_pem().expect("a key");
        Self { key: SigningKey::from_pem(&pem).expect("a key"), id }
    }

    fn jwk(&self) -> Value {
        let mut jwk: Value = self.key.public().jwk().decode().expect("JSON");
        jwk["kid"] = self.id.into();
        jwk
    }

    fn sign(&self, claims: &Value, kind: Option<&str>) -> String {
        let header = Header { kind, key_id: Some(self.id), ..Header::default() };
        self.key.sign(header, &Raw::from_value(claims).expect("claims")).expect("a token")
    }
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "alice", "client_id": "c", "aud": ["https://tools.example/mcp"], "scope": "a b",
        "exp": seconds(SystemTime::now()) + 300
    })
}

fn published(signers: &[&Signer]) -> Arc<Web> {
    let web = Arc::new(Web::default());
    web.put(METADATA, Ok(&json!({ "issuer": ISSUER, "jwks_uri": KEYS })));
    web.put(KEYS, Ok(&json!({ "keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>() })));
    web
}

async fn invalid(verifier: &JwtVerifier, token: &str) -> String {
    match verifier.verify(token).await {
        Err(Rejected::Invalid(why)) => why,
        other => panic!("{other:?}"),
    }
}

async fn unavailable(verifier: &JwtVerifier, token: &str) {
    let found = verifier.verify(token).await;
    assert!(matches!(found, Err(Rejected::Unavailable(_))), "{found:?}");
}

#[test]
fn a_token_is_verified_with_the_keys_that_the_issuers_metadata_name() {
    run(async {
        let signer = Signer::new("1");
        let web = published(&[&signer]);
        let verifier = JwtVerifier::fetching(ISSUER.into(), web.clone());
        for kind in [Some("at+jwt"), Some("application/at+jwt"), Some("JWT"), None] {
            let Verified { principal, audience, mut scopes, expires } =
                verifier.verify(&signer.sign(&claims(), kind)).await.expect("a good one");
            assert_eq!(principal.as_str(), format!("{ISSUER} alice c"));
            assert_eq!(audience, ["https://tools.example/mcp"]);
            scopes.sort();
            assert_eq!(scopes, ["a", "b"]);
            let left = expires.expect("an end").duration_since(SystemTime::now()).expect("ahead");
            assert!((Duration::from_secs(300)..=Duration::from_secs(361)).contains(&left), "{left:?}");
        }
        // Two places without metadata, the metadata, and the keys: fetched once for all tokens.
        assert_eq!(web.asked(), 4);
        assert!(invalid(&verifier, &signer.sign(&claims(), Some("dpop+jwt"))).await.contains("typ"));
    });
}

#[test]
fn tokens_that_are_unsigned_signed_by_another_key_or_changed_are_refused() {
    run(async {
        let (signer, thief) = (Signer::new("1"), Signer::new("1"));
        let verifier = JwtVerifier::fetching(ISSUER.into(), published(&[&signer]));
        let good = signer.sign(&claims(), None);
        assert!(verifier.verify(&good).await.is_ok());
        let mut parts: Vec<&str> = good.split('.').collect();
        let changed = encode(claims().to_string().replace("alice", "mallory"));
        parts[1] = &changed;
        invalid(&verifier, &parts.join(".")).await;
        invalid(&verifier, &thief.sign(&claims(), None)).await;
        for algorithm in ["none", "None", "HS256", "ES384"] {
            let header = encode(json!({ "alg": algorithm, "kid": "1" }).to_string());
            for signature in ["", parts[2]] {
                invalid(&verifier, &format!("{header}.{}.{signature}", parts[1])).await;
            }
        }
        for junk in ["", "a", "a.b", "a.b.c", "a.b.c.d.e", "..", &"a".repeat(100_000)] {
            invalid(&verifier, junk).await;
        }
        let mut others = claims();
        others["iss"] = "https://as.example/tenant/".into();
        assert!(invalid(&verifier, &signer.sign(&others, None)).await.contains("another issuer"));
    });
}

#[test]
fn two_issuers_each_have_their_own_keys() {
    run(async {
        let (one, two) = (Signer::new("k"), Signer::new("k"));
        let set = |signer: &Signer| json!({ "keys": [signer.jwk()] }).to_string();
        let verifier = JwtVerifier::with_keys("https://one.example", set(&one).as_bytes())
            .expect("keys")
            .and(JwtVerifier::with_keys("https://two.example", set(&two).as_bytes()).expect("keys"));
        let of = |issuer: &str| {
            let mut claims = claims();
            claims["iss"] = issuer.into();
            claims
        };
        assert!(verifier.verify(&one.sign(&of("https://one.example"), None)).await.is_ok());
        assert!(verifier.verify(&two.sign(&of("https://two.example"), None)).await.is_ok());
        invalid(&verifier, &one.sign(&of("https://two.example"), None)).await;
        invalid(&verifier, &two.sign(&of("https://one.example"), None)).await;
    });
}

#[test]
fn g141_claims_are_checked_with_a_minute_of_leeway() {
    let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
    let checked = |change: &[(&str, Value)]| {
        let mut claims = json!({ "iss": ISSUER, "sub": "s", "aud": "x", "exp": 1_000_100 });
        for (claim, value) in change {
            claims[*claim] = value.clone();
        }
        verified(&Raw::from_value(&claims).expect("claims"), now)
    };
    for good in [
        &[("exp", json!(1_000_001))] as &[(&str, Value)],
        &[("exp", json!(999_941))],
        &[("exp", json!(1_000_100.5))],
        &[("exp", json!(1e15))],
        &[("nbf", json!(1_000_060))],
        &[("nbf", json!(-5))],
        &[("sub", Value::Null), ("azp", json!("c"))],
        &[("cnf", Value::Null)],
    ] {
        assert!(checked(good).is_ok(), "{good:?}: {:?}", checked(good));
    }
    for bad in [
        ("exp", json!(999_940)),
        ("exp", json!(0)),
        ("exp", json!(-1)),
        ("exp", json!("1000100")),
        ("exp", json!(1e30)),
        ("exp", json!([])),
        ("nbf", json!(1_000_061)),
        ("nbf", json!("x")),
        ("sub", Value::Null),
        ("cnf", json!({ "jkt": "x" })),
        ("cnf", json!("x")),
    ] {
        let checked = checked(std::slice::from_ref(&bad));
        assert!(matches!(checked, Err(Rejected::Invalid(_))), "{bad:?}: {checked:?}");
    }
    let scopes = |claim: &str, value: Value| {
        let mut scopes = checked(&[(claim, value)]).expect("a good one").scopes;
        scopes.sort();
        scopes
    };
    assert_eq!(scopes("scope", json!("b a  a")), ["a", "b"]);
    assert_eq!(scopes("scp", json!(["b", "a"])), ["a", "b"]);
    assert_eq!(scopes("scp", json!("a b")), ["a", "b"]);
    assert_eq!(scopes("scope", json!({ "a": 1 })), [""; 0]);
    let audience = |value: Value| checked(&[("aud", value)]).expect("a good one").audience;
    assert_eq!(audience(json!(["x", "y"])), ["x", "y"]);
    assert_eq!(audience(json!(["x", 1])), [""; 0]);
    assert_eq!(audience(Value::Null), [""; 0]);
}

#[test]
fn a_key_that_is_not_known_is_asked_for_at_most_every_half_minute() {
    run(async {
        let (old, new, unknown) = (Signer::new("old"), Signer::new("new"), Signer::new("unknown"));
        let web = published(&[&old]);
        let verifier = JwtVerifier::fetching(ISSUER.into(), web.clone());
        assert!(verifier.verify(&old.sign(&claims(), None)).await.is_ok());
        assert_eq!(web.asked(), 4);
        web.put(KEYS, Ok(&json!({ "keys": [old.jwk(), new.jwk()] })));
        for _ in 0..100 {
            invalid(&verifier, &unknown.sign(&claims(), None)).await;
            invalid(&verifier, &new.sign(&claims(), None)).await;
        }
        assert_eq!(web.asked(), 0);
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(verifier.verify(&new.sign(&claims(), None)).await.is_ok());
        assert_eq!(web.asked(), 4);
        // A withdrawn key is used for at most ten minutes.
        web.put(KEYS, Ok(&json!({ "keys": [new.jwk()] })));
        tokio::time::advance(Duration::from_secs(599)).await;
        assert!(verifier.verify(&old.sign(&claims(), None)).await.is_ok());
        tokio::time::advance(Duration::from_secs(2)).await;
        invalid(&verifier, &old.sign(&claims(), None)).await;
    });
}

#[test]
fn a_failed_preparation_is_reported_and_repeated_with_the_first_token() {
    run(async {
        let signer = Signer::new("1");
        let token = signer.sign(&claims(), None);
        let web = published(&[&signer]);
        web.put(KEYS, Err("nobody listens"));
        let verifier = JwtVerifier::fetching(ISSUER.into(), web.clone());
        assert_eq!(verifier.prepare().await, Err("nobody listens".to_owned()));
        // The server has started meanwhile.
        web.put(KEYS, Ok(&json!({ "keys": [signer.jwk()] })));
        assert!(verifier.verify(&token).await.is_ok());
        // Prepared keys are not fetched again for the first token.
        let verifier = JwtVerifier::fetching(ISSUER.into(), web.clone());
        assert_eq!(verifier.prepare().await, Ok(()));
        web.asked();
        assert!(verifier.verify(&token).await.is_ok());
        assert_eq!(web.asked(), 0);
    });
}

#[test]
fn keys_that_cannot_be_fetched_are_no_reason_to_call_a_token_bad() {
    run(async {
        let signer = Signer::new("1");
        let token = signer.sign(&claims(), None);
        let web = published(&[&signer]);
        let verifier = JwtVerifier::fetching(ISSUER.into(), web.clone());
        web.put(KEYS, Err("connection refused"));
        for _ in 0..10 {
            unavailable(&verifier, &token).await;
        }
        assert_eq!(web.asked(), 4);
        web.put(KEYS, Ok(&json!({ "keys": [signer.jwk()] })));
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(verifier.verify(&token).await.is_ok());
        // Cached keys are used for an hour while the issuer does not answer.
        web.put(METADATA, Err("connection refused"));
        tokio::time::advance(Duration::from_secs(50 * 60)).await;
        assert!(verifier.verify(&token).await.is_ok());
        tokio::time::advance(Duration::from_secs(11 * 60)).await;
        unavailable(&verifier, &token).await;
        // Metadata with another issuer, or without an issuer, counts as no answer.
        for metadata in [
            json!({ "issuer": "https://as.example", "jwks_uri": KEYS }),
            json!({ "issuer": format!("{ISSUER}/"), "jwks_uri": KEYS }),
            json!({ "issuer": ISSUER }),
            json!([]),
        ] {
            web.put(METADATA, Ok(&metadata));
            tokio::time::advance(Duration::from_secs(31)).await;
            unavailable(&verifier, &token).await;
        }
    });
}

#[test]
fn a_key_that_is_not_known_is_no_bad_one_while_newer_keys_cannot_be_fetched() {
    run(async {
        let (old, new) = (Signer::new("old"), Signer::new("new"));
        let web = published(&[&old]);
        let verifier = JwtVerifier::fetching(ISSUER.into(), web.clone());
        assert!(verifier.verify(&old.sign(&claims(), None)).await.is_ok());
        // The issuer signs with a new key, and its keys cannot be fetched now.
        web.put(KEYS, Err("connection refused"));
        tokio::time::advance(Duration::from_secs(31)).await;
        for _ in 0..10 {
            unavailable(&verifier, &new.sign(&claims(), None)).await;
        }
        assert!(verifier.verify(&old.sign(&claims(), None)).await.is_ok());
        web.put(KEYS, Ok(&json!({ "keys": [new.jwk()] })));
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(verifier.verify(&new.sign(&claims(), None)).await.is_ok());
        // The keys were fetched: what they do not contain is not published.
        tokio::time::advance(Duration::from_secs(31)).await;
        invalid(&verifier, &old.sign(&claims(), None)).await;
    });
}

#[test]
fn metadata_at_one_url_are_found_whatever_the_others_answer() {
    run(async {
        let signer = Signer::new("1");
        let web = published(&[&signer]);
        // A redirect to a page for people, or a failure of a proxy.
        web.put("https://as.example/.well-known/oauth-authorization-server/tenant", Err("302 Found"));
        let verifier = JwtVerifier::fetching(ISSUER.into(), web.clone());
        assert!(verifier.verify(&signer.sign(&claims(), None)).await.is_ok());
    });
}

#[test]
fn g140_a_hundred_tokens_at_once_fetch_the_keys_once_and_so_do_clients_that_leave() {
    run(async {
        let signer = Signer::new("1");
        let documents = published(&[&signer]).documents.lock().expect("the web").clone();
        let web = Web {
            documents: Mutex::new(documents),
            slow: Some(tokio::sync::Semaphore::new(0)),
            ..Web::default()
        };
        let web = Arc::new(web);
        let verifier = JwtVerifier::fetching(ISSUER.into(), web.clone());
        let token: Arc<str> = signer.sign(&claims(), None).into();
        let verifying = |token: Arc<str>| {
            let verifier = verifier.clone();
            tokio::spawn(async move { verifier.verify(&token).await.is_ok() })
        };
        for _ in 0..50 {
            let left = verifying(token.clone());
            tokio::task::yield_now().await;
            left.abort();
        }
        let waiting: Vec<_> = (0..100).map(|_| verifying(token.clone())).collect();
        tokio::task::yield_now().await;
        web.slow.as_ref().expect("slow").add_permits(4);
        for verified in waiting {
            assert!(verified.await.expect("no panic"));
        }
        assert_eq!(web.asked(), 4);
    });
}

#[test]
fn g140_an_issuer_that_does_not_answer_is_not_asked_again_at_once() {
    run(async {
        let signer = Signer::new("1");
        let documents = published(&[&signer]).documents.lock().expect("the web").clone();
        let web = Web {
            documents: Mutex::new(documents),
            slow: Some(tokio::sync::Semaphore::new(0)),
            ..Web::default()
        };
        let web = Arc::new(web);
        let verifier = JwtVerifier::fetching(ISSUER.into(), web.clone());
        let token: Arc<str> = signer.sign(&claims(), None).into();
        let all = || async {
            let (began, mut good) = (tokio::time::Instant::now(), 0);
            let verifying = (0..100).map(|_| {
                let (verifier, token) = (verifier.clone(), token.clone());
                tokio::spawn(async move { verifier.verify(&token).await })
            });
            for verified in verifying.collect::<Vec<_>>() {
                match verified.await.expect("no panic") {
                    Ok(_) => good += 1,
                    Err(error) => assert!(matches!(error, Rejected::Unavailable(_)), "{error}"),
                }
            }
            (began.elapsed().as_secs(), good)
        };
        // There is one attempt for all of them, and no sequence of attempts.
        assert_eq!(all().await, (30, 0));
        assert_eq!(web.asked(), 1);
        let slow = web.slow.as_ref().expect("slow");
        tokio::time::advance(Duration::from_secs(31)).await;
        slow.add_permits(4);
        assert_eq!(all().await, (0, 100));
        // Cached keys are used while the fetch of newer ones takes long.
        tokio::time::advance(Duration::from_secs(601)).await;
        assert_eq!(all().await, (5, 100));
        assert_eq!(all().await.1, 100);
    });
}

/// Serves the documents of an issuer over TLS, in a thread that ends with the process.
fn issuing_over_tls(jwk: Value) -> String {
    use std::io::{BufRead as _, BufReader, Write as _};

    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    let key = mcpjoin_test_support::tls::KEY;
    let certificate = mcpjoin_test_support::tls::SERVER;
    let key = PrivateKeyDer::from_pem_slice(key).expect("a key");
    let certificate = CertificateDer::from_pem_slice(certificate).expect("a certificate");
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("a certificate");
    let config = Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let issuer = format!("https://localhost:{}", listener.local_addr().expect("an address").port());
    let named = issuer.clone();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let Ok(mut connection) = rustls::ServerConnection::new(config.clone()) else { return };
            let mut stream = rustls::Stream::new(&mut connection, &mut socket);
            let mut head = String::new();
            let mut reader = BufReader::new(&mut stream);
            while !head.ends_with("\r\n\r\n") && matches!(reader.read_line(&mut head), Ok(1..)) {}
            let body = match head.split(' ').nth(1) {
                Some("/jwks") => json!({ "keys": [jwk] }),
                _ => json!({ "issuer": named, "jwks_uri": format!("{named}/jwks") }),
            }
            .to_string();
            let length = body.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    issuer
}

#[test]
fn the_keys_of_an_issuer_are_fetched_from_whom_an_extra_authority_has_signed() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let signer = Signer::new("1");
        let issuer = issuing_over_tls(signer.jwk());
        let mut claims = claims();
        claims["iss"] = issuer.clone().into();
        let token = signer.sign(&claims, None);
        unavailable(&JwtVerifier::new(&*issuer).expect("a verifier"), &token).await;
        let authority = mcpjoin_test_support::tls::CA;
        let resource = |pem: &[u8]| {
            let builder = ResourceServer::builder("https://tools.example/mcp");
            builder.issuer("https://as.example").issuer(&*issuer).extra_ca(pem).build()
        };
        let server = resource(authority).expect("a resource server");
        server.0.verifier.verify(&token).await.expect("a good token");
        for bad in [&b""[..], b"no PEM"] {
            let made = resource(bad);
            assert!(matches!(made, Err(ResourceSetupError::Verifier(_))), "{bad:?}: {made:?}");
        }
    });
}
