//! Tests of the forms that the grants send, and of the responses that they accept; tests/oauth has the whole flows.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::*;
use crate::discovery::Discovered;
use crate::fetch::Fetcher;
use crate::jws::{Jws, KeySet};
use crate::metadata::AuthorizationServer;
use crate::scripted_server::{Answer, ScriptedServer, answer, json, run};

const SERVER: &str = "https://server.example/mcp";
const ISSUER: &str = "https://as.example";

fn key() -> PrivateKey {
    PrivateKey::from_pem(&SigningKey::generate_pem().unwrap()).unwrap()
}

fn read(text: &str) -> Vec<(String, String)> {
    text.split('&').filter_map(|pair| pair.split_once('=')).map(|(a, b)| (a.into(), b.into())).collect()
}

fn sent(form: &Form) -> Vec<(String, String)> {
    read(std::str::from_utf8(&form.encode()).unwrap())
}

fn field<'a>(sent: &'a [(String, String)], name: &str) -> Option<&'a str> {
    sent.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

#[test]
fn an_assertion_says_who_whom_for_and_until_when() {
    let key = key().with_id("a \"b\"");
    let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let signed = key.sign("cli\"ent", ISSUER, now).unwrap();
    let jws = Jws::parse(signed.expose()).unwrap();
    assert_eq!((jws.kind().as_deref(), jws.key_id().as_deref()), (Some("JWT"), Some("a \"b\"")));
    assert!(jws.jwk().is_none(), "the server knows the key");

    let jwk = key.public_jwk();
    let public = format!(r#"{{"keys":[{},"kid":"a \"b\""}}]}}"#, jwk.as_str().strip_suffix('}').unwrap());
    let claims = jws.verify(&KeySet::parse(public.as_bytes()).unwrap()).unwrap();
    let claim = |name: &str| claims.member(name).unwrap().as_str().to_owned();
    assert_eq!((claim("iss"), claim("sub")), (r#""cli\"ent""#.into(), r#""cli\"ent""#.into()));
    assert_eq!(claim("aud"), r#""https://as.example""#);
    assert_eq!((claim("iat").as_str(), claim("exp").as_str()), ("1800000000", "1800000300"));

    let again = key.sign("cli\"ent", ISSUER, now).unwrap();
    let other = Jws::parse(again.expose()).unwrap().unverified_claims().member("jti");
    assert_ne!(other.unwrap().as_str(), claim("jti"));
    assert!(key.sign("client", ISSUER, UNIX_EPOCH - Duration::from_secs(1)).is_err());
    assert!(!format!("{key:?} {signed:?}").contains(signed.expose()));
}

#[test]
fn each_grant_is_asked_for_in_its_own_words() {
    let scopes = ["mcp:read".to_owned(), "mcp:write".to_owned()];
    let form = sent(&jwt_bearer(&"signed".into(), SERVER, &scopes));
    assert_eq!(field(&form, "grant_type"), Some("urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"));
    assert_eq!(field(&form, "assertion"), Some("signed"));
    assert_eq!(field(&form, "resource"), Some("https%3A%2F%2Fserver.example%2Fmcp"));
    assert_eq!(field(&form, "scope"), Some("mcp%3Aread+mcp%3Awrite"));

    // Without selected scopes, the form has no scope.
    let form = sent(&for_resource(Form::new("client_credentials"), SERVER, &[]));
    assert_eq!(field(&form, "grant_type"), Some("client_credentials"));
    assert_eq!(field(&form, "scope"), None);

    let provider = IdentityProvider::new("https://idp.example/token", "client", Assertion::new("user"));
    let saml = provider.clone().with_identity_kind(IdentityKind::Saml2);
    let form = sent(&provider.exchange(&"user".into(), ISSUER, SERVER, &scopes[..1]));
    for (name, value) in [
        ("grant_type", "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange"),
        ("requested_token_type", "urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid-jag"),
        ("audience", "https%3A%2F%2Fas.example"),
        ("resource", "https%3A%2F%2Fserver.example%2Fmcp"),
        ("subject_token", "user"),
        ("subject_token_type", "urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid_token"),
        ("scope", "mcp%3Aread"),
    ] {
        assert_eq!(field(&form, name), Some(value), "{name}");
    }
    let form = sent(&saml.exchange(&"user".into(), ISSUER, SERVER, &[]));
    let kind = field(&form, "subject_token_type").unwrap();
    assert!(kind.ends_with("saml2"), "{kind}");
}

#[test]
fn what_is_no_grant_of_an_identity_provider_is_never_passed_on() {
    let answer = |status: u16, body: &str| {
        let fetched = Fetched {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            url: "https://idp.example/token".parse().unwrap(),
        };
        exchanged("https://idp.example/token", &fetched)
    };
    let good = format!(r#"{{"issued_token_type":"{ID_JAG}","access_token":"hunter2","token_type":"N_A"}}"#);
    assert_eq!(answer(200, &good).unwrap().expose(), "hunter2");
    for body in [
        "",
        "<html>",
        "[]",
        r#"{"access_token":"hunter2","token_type":"Bearer"}"#,
        r#"{"issued_token_type":"urn:ietf:params:oauth:token-type:access_token","access_token":"hunter2","token_type":"N_A"}"#,
        &good.replace("\"hunter2\"", "\"\""),
        &good.replace("\"hunter2\"", "[\"hunter2\"]"),
    ] {
        let error = answer(200, body).unwrap_err();
        assert!(matches!(error, TokenError::Nonsense { .. }), "{body}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
    let refused = answer(400, r#"{"error":"invalid_grant","error_description":"policy"}"#).unwrap_err();
    assert!(refused.is("invalid_grant"), "{refused}");
    assert!(answer(503, &good).unwrap_err().is_transient());
}

#[tokio::test]
async fn an_assertion_is_requested_each_time_and_never_shown() {
    let assertion = Assertion::from_fn(|audience: &str| {
        let text = format!("  for {audience}\n");
        async move { Ok(Secret::new(text)) }
    });
    assert_eq!(assertion.ask(ISSUER).await.unwrap().expose(), "for https://as.example");
    let nothing = Assertion::new("\n").ask(ISSUER).await.unwrap_err();
    assert!(nothing.to_string().contains("empty"), "{nothing}");
    let failing = Assertion::from_fn(|_| async { Err::<Secret, _>("no such file".to_owned()) });
    assert!(failing.ask(ISSUER).await.unwrap_err().to_string().contains("no such file"));

    let provider = IdentityProvider::new("https://idp.example/token", "client", Assertion::new("hunter2"))
        .with_client_secret("hunter3");
    let shown = format!("{provider:?} {:?}", Grant::JwtBearer(Assertion::new("hunter4")));
    assert!(!shown.contains("hunter"), "{shown}");
}

#[test]
fn clients_declare_what_they_use() {
    let provider = IdentityProvider::new("https://idp.example/token", "client", Assertion::new("user"));
    for (grant, name) in [
        (Grant::AuthorizationCode, None),
        (Grant::ClientCredentials, Some("io.modelcontextprotocol/oauth-client-credentials")),
        (Grant::JwtBearer(Assertion::new("a")), None),
        (
            Grant::EnterpriseManaged(provider),
            Some("io.modelcontextprotocol/enterprise-managed-authorization"),
        ),
    ] {
        assert_eq!(grant.extension(), name);
    }
}

/// An authorization server with one client, which has a secret.
struct Joined {
    server: ScriptedServer,
    fetcher: Fetcher,
    discovered: Discovered,
    client: Registration,
}

impl Joined {
    async fn new(script: impl Fn() -> Answer + Send + Sync + 'static) -> Self {
        let server = ScriptedServer::new(move |_, _| script()).await;
        let (origin, fetcher) = (server.origin.clone(), server.fetcher());
        let client = Registration {
            client_secret: Some("hunter2".into()),
            token_auth: TokenAuth::Basic,
            ..Registration::given(origin.clone(), "there".into())
        };
        let discovered = Discovered {
            resource: server.url(),
            protected_resource: None,
            issuer: origin.clone(),
            server: AuthorizationServer::at_origin(&origin),
            assumed: true,
            challenged_scopes: None,
        };
        Self { server, fetcher, discovered, client }
    }

    async fn obtain(&self, grant: &dyn Obtain, assertion: Option<&PrivateKey>) -> Result<Tokens, AuthError> {
        let endpoint = TokenEndpoint {
            fetcher: &self.fetcher,
            url: self.discovered.server.token_endpoint.as_deref().unwrap(),
            issuer: &self.discovered.issuer,
            client: &self.client,
            assertion,
            possession: None,
        };
        grant.obtain(Obtaining { discovered: &self.discovered, endpoint, scopes: &[] }).await
    }
}

fn token() -> Answer {
    json(r#"{"access_token":"token","token_type":"Bearer"}"#)
}

fn refusal() -> Answer {
    answer("400 Bad Request", "content-type: application/json\r\n", r#"{"error":"invalid_grant"}"#)
}

#[test]
fn an_identity_provider_and_an_authorization_server_learn_nothing_of_each_other() {
    run(async {
        let granted =
            format!(r#"{{"issued_token_type":"{ID_JAG}","access_token":"granted","token_type":"N_A"}}"#);
        let idp = ScriptedServer::new(move |_, _| json(&granted)).await;
        let joined = Joined::new(token).await;
        let endpoint = format!("{}/exchange", idp.origin);
        let provider = IdentityProvider::new(endpoint, "here", Assertion::new("user"));
        assert_eq!(joined.obtain(&provider, None).await.unwrap().access.expose(), "token");

        let [exchange] = idp.seen().try_into().unwrap();
        assert_eq!(exchange.line, "POST /exchange");
        assert!(
            !exchange.head.contains("authorization:") && !exchange.body.contains("there"),
            "{exchange:?}"
        );
        let exchange = read(&exchange.body);
        assert_eq!(field(&exchange, "client_id"), Some("here"));
        assert_eq!(field(&exchange, "subject_token"), Some("user"));

        let [request] = joined.server.seen().try_into().unwrap();
        assert_eq!(request.line, "POST /token");
        assert!(request.head.contains("authorization: basic "), "{request:?}");
        let request = read(&request.body);
        assert_eq!(field(&request, "assertion"), Some("granted"));
        assert!(request.iter().all(|(_, value)| value != "user" && value != "here"), "{request:?}");
    });
}

#[test]
fn what_is_refused_is_asked_for_once_and_in_no_other_way() {
    run(async {
        let idp = ScriptedServer::new(|_, _| refusal()).await;
        let provider =
            IdentityProvider::new(format!("{}/exchange", idp.origin), "here", Assertion::new("user"));
        let joined = Joined::new(refusal).await;
        let key = key();
        let grants: [(&dyn Obtain, usize, usize); 3] =
            [(&provider, 1, 0), (&Assertion::new("signed"), 1, 1), (&ClientCredentials, 1, 2)];
        for (grant, exchanges, requests) in grants {
            let error = joined.obtain(grant, Some(&key)).await.unwrap_err();
            assert!(matches!(error, AuthError::Token(TokenError::Refused { .. })), "{error}");
            assert_eq!((idp.seen().len(), joined.server.seen().len()), (exchanges, requests));
        }
        let last = joined.server.seen().pop().unwrap();
        let last = read(&last.body);
        assert_eq!(
            field(&last, "client_assertion_type"),
            Some("urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer")
        );
        let signed = Jws::parse(field(&last, "client_assertion").unwrap()).unwrap();
        let audience = signed.unverified_claims().member("aud").unwrap();
        assert_eq!(audience.to_string_value().unwrap(), joined.discovered.issuer);
        assert_eq!(field(&last, "client_secret"), None);
    });
}
