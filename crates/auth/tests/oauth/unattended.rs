//! Tests of tokens that are bound to a key, and of tokens that need no user: from a 401 to the next call.
//!
//! The server is its own authorization server here, at one origin: the values of one role must not be used for the other.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcpjoin::client::Client;
use mcpjoin::transport::Link;
use mcpjoin_auth::{ClientIdentity, Grant, MemoryStore, OAuth, OAuthBuilder, Secret, TokenStore as _};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::authority::{Robot, form};
use crate::scripted::{Scripted, Seen, Talk, builder, call, modern, run};

const TOKEN: &str = "hush-token";
const JSON: (&str, &str) = ("Content-Type", "application/json");

/// The metadata documents of a server that is its own authorization server; `None` for another path.
fn document(seen: &Seen) -> Option<String> {
    let origin = format!("http://{}", seen.header("host").unwrap());
    let document = match seen.target.as_str() {
        "/.well-known/oauth-protected-resource/mcp" => {
            json!({"resource": format!("{origin}/mcp"), "authorization_servers": [origin]})
        }
        "/.well-known/oauth-authorization-server" => json!({
            "issuer": origin,
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"),
            "registration_endpoint": format!("{origin}/register"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": true,
            "dpop_signing_alg_values_supported": ["ES256"],
        }),
        _ => return None,
    };
    Some(document.to_string())
}

async fn connected(url: &str, oauth: OAuthBuilder) -> Client {
    let link = Link::http(url).credentials(oauth.build().unwrap()).build().unwrap();
    builder().connect(link).await.unwrap()
}

/// The claims of a proof, after its signature was verified, and its key.
fn proof(seen: &Seen) -> (Value, Value) {
    let all: Vec<&str> =
        seen.headers.iter().filter(|(name, _)| name == "dpop").map(|(_, value)| value.as_str()).collect();
    let [proof] = all[..] else { panic!("one proof: {all:?}") };
    let (signed, signature) = proof.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let bytes = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
    let read = |text: &str| serde_json::from_slice::<Value>(&bytes(text)).unwrap();
    let (header, claims) = (read(header), read(claims));
    assert_eq!((&header["alg"], &header["typ"]), (&json!("ES256"), &json!("dpop+jwt")));
    let key = header["jwk"].clone();
    assert!(key.get("d").is_none(), "the private half stays here");
    let mut point = vec![4];
    point.extend(["x", "y"].iter().flat_map(|name| bytes(key[*name].as_str().unwrap())));
    let key_of = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
    key_of.verify(signed.as_bytes(), &bytes(signature)).unwrap();
    (claims, key)
}

/// A server whose two roles require a nonce each, and not the same one.
async fn bound(seen: Seen, talk: Talk) -> Option<Talk> {
    let origin = format!("http://{}", seen.header("host").unwrap());
    if let Some(document) = document(&seen) {
        return talk.json(&document).await;
    }
    let path = seen.target.split('?').next().unwrap();
    match path {
        "/register" => {
            let mut reply = seen.json();
            reply["client_id"] = "here".into();
            talk.answer(201, &[JSON], &reply.to_string()).await
        }
        "/authorize" => {
            let asked = form(seen.target.split_once('?').unwrap().1);
            let (back, state) = (&asked["redirect_uri"], &asked["state"]);
            let issuer = origin.replace(':', "%3A").replace('/', "%2F");
            let location = format!("{back}?state={state}&code=c&iss={issuer}");
            talk.answer(302, &[("Location", &location)], "").await
        }
        "/token" => {
            let (claims, _) = proof(&seen);
            assert_eq!((&claims["htm"], &claims["htu"]), (&json!("POST"), &json!(format!("{origin}/token"))));
            assert_eq!(claims.get("ath"), None);
            if claims["nonce"] != "of-tokens" {
                let reply = json!({"error": "use_dpop_nonce"}).to_string();
                return talk.answer(400, &[JSON, ("DPoP-Nonce", "of-tokens")], &reply).await;
            }
            talk.json(&json!({"access_token": TOKEN, "token_type": "DPoP"}).to_string()).await
        }
        "/mcp" => {
            let metadata = format!("resource_metadata=\"{origin}/.well-known/oauth-protected-resource/mcp\"");
            let Some(authorization) = seen.header("authorization") else {
                let challenge = format!("DPoP {metadata}");
                return talk.answer(401, &[("WWW-Authenticate", &challenge)], "").await;
            };
            assert_eq!(authorization, format!("DPoP {TOKEN}"));
            let (claims, _) = proof(&seen);
            assert_eq!(claims["htu"], format!("{origin}/mcp"));
            assert_eq!(claims["ath"], URL_SAFE_NO_PAD.encode(Sha256::digest(TOKEN)));
            if claims["nonce"] != "of-server" {
                let challenge = format!("DPoP error=\"use_dpop_nonce\", {metadata}");
                let headers = [("WWW-Authenticate", challenge.as_str()), ("DPoP-Nonce", "of-server")];
                return talk.answer(401, &headers, "").await;
            }
            modern(seen, talk).await
        }
        _ => talk.status(404).await,
    }
}

#[test]
fn a_bound_token_comes_with_a_fresh_proof_of_one_key_that_is_kept_with_it() {
    run(async {
        let server = Scripted::new(bound).await;
        let store = MemoryStore::default();
        let oauth = || OAuth::builder(server.url()).store(store.clone()).dpop();
        let client = connected(&server.url(), oauth().user_agent(Robot)).await;
        assert_eq!(call(&client, "a").await.unwrap(), "a");
        client.close().await;
        // A second program with the same store: it needs no login, and uses the same key.
        let client = connected(&server.url(), oauth()).await;
        assert_eq!(call(&client, "b").await.unwrap(), "b");
        // A program that has not configured DPoP uses the key too.
        let plain = OAuth::builder(server.url()).store(store.clone());
        let client = connected(&server.url(), plain).await;
        assert_eq!(call(&client, "c").await.unwrap(), "c");
        // Without its key, the token is not sent.
        let text = store.load(&server.url()).await.unwrap().unwrap();
        let mut text: Value = serde_json::from_str(text.expose()).unwrap();
        text.as_object_mut().unwrap().remove("key").unwrap();
        store.save(&server.url(), Secret::new(text.to_string())).await.unwrap();
        let before = server.seen().len();
        let link = Link::http(server.url()).credentials(oauth().build().unwrap()).build().unwrap();
        let error = builder().connect(link).await.unwrap_err().to_string();
        assert!(error.contains("bound to a key") && error.contains("a login is needed"), "{error}");
        assert_eq!(server.seen().len(), before);

        let seen = server.seen();
        let to = |path: &str| seen.iter().filter(|seen| seen.target.starts_with(path)).count();
        assert_eq!((to("/register"), to("/authorize")), (1, 1), "a nonce is no reason for a login");
        let exchanges: Vec<&str> =
            seen.iter().filter(|seen| seen.target == "/token").map(|seen| seen.body.as_str()).collect();
        assert!(matches!(exchanges[..], [one, other] if one == other), "{exchanges:?}");
        let proofs: Vec<(Value, Value)> =
            seen.iter().filter(|seen| seen.header("dpop").is_some()).map(proof).collect();
        let keys: HashSet<String> = proofs.iter().map(|(_, key)| key.to_string()).collect();
        let ids: HashSet<String> = proofs.iter().map(|(claims, _)| claims["jti"].to_string()).collect();
        assert_eq!((keys.len(), ids.len()), (1, proofs.len()));
        assert!(proofs.len() >= 7, "{}", proofs.len());
    });
}

/// A server that accepts each token for one request.
async fn fleeting(seen: Seen, talk: Talk, taken: &std::sync::Mutex<HashMap<String, bool>>) -> Option<Talk> {
    if let Some(document) = document(&seen) {
        return talk.json(&document).await;
    }
    match seen.target.as_str() {
        "/token" => {
            let basic = URL_SAFE_NO_PAD.decode("aGVyZTpodXNo").unwrap();
            assert_eq!(basic, b"here:hush");
            assert_eq!(seen.header("authorization"), Some("Basic aGVyZTpodXNo"));
            let token = {
                let mut taken = taken.lock().unwrap();
                let token = format!("hush-{}", taken.len());
                taken.insert(token.clone(), false);
                token
            };
            // The token expires at once.
            let reply = json!({"access_token": token, "token_type": "Bearer", "expires_in": 0.000001});
            talk.json(&reply.to_string()).await
        }
        "/mcp" => {
            let token = seen.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
            let is_first =
                token.is_some_and(|token| taken.lock().unwrap().insert(token.into(), true) == Some(false));
            if is_first {
                return modern(seen, talk).await;
            }
            talk.answer(401, &[("WWW-Authenticate", "Bearer")], "").await
        }
        _ => talk.status(404).await,
    }
}

#[test]
fn a_program_obtains_the_next_token_without_a_user_when_one_has_expired() {
    run(async {
        let taken = std::sync::Arc::new(std::sync::Mutex::new(HashMap::new()));
        let all = taken.clone();
        let server = Scripted::new(move |seen, talk| {
            let taken = taken.clone();
            async move { fleeting(seen, talk, &taken).await }
        })
        .await;
        let client =
            ClientIdentity::Registered { id: "here".into(), secret: Some("hush".into()), issuer: None };
        let oauth = OAuth::builder(server.url()).client(client).grant(Grant::ClientCredentials).scope("more");
        let client = connected(&server.url(), oauth).await;
        for name in ["a", "b", "c"] {
            assert_eq!(call(&client, name).await.unwrap(), name);
        }
        let seen = server.seen();
        assert!(seen.iter().all(|seen| seen.target != "/authorize" && seen.target != "/register"));
        let tokens: Vec<&Seen> = seen.iter().filter(|seen| seen.target == "/token").collect();
        // One token for the opening, and one for each call.
        assert_eq!((tokens.len(), all.lock().unwrap().len()), (4, 4));
        for token in tokens {
            let form = form(&token.body);
            assert_eq!(form["grant_type"], "client_credentials");
            assert_eq!((form["resource"].as_str(), form["scope"].as_str()), (&*server.url(), "more"));
        }
    });
}
