//! Tests of a gateway that requires access tokens: principals do not share servers, and tokens are not forwarded.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::server::{Context, NoArguments, tool};
use mcpjoin::transport::{HttpListener, HttpOptions, HttpService};
use mcpjoin::{Client, Link, Server};
use mcpjoin_auth::resource::{Principal, Rejected, ResourceServer, TokenVerifier, Verified};
use mcpjoin_gateway::{Gateway, NotAuthorized, TargetState};
use tower_service::Service as _;

use super::pools::Person;
use super::{modern_request, passes};

const RESOURCE: &str = "http://127.0.0.1:1/mcp";

/// A token contains the name of its principal.
struct ByName;

impl TokenVerifier for ByName {
    async fn verify(&self, token: &str) -> Result<Verified, Rejected> {
        let name = token.strip_suffix("-s3cr3t").ok_or_else(|| Rejected::Invalid("none of ours".into()))?;
        Ok(Verified::new(Principal::new("https://as.example", Some(name), None), [RESOURCE])
            .scopes(["s3cr3t"]))
    }
}

fn options() -> HttpOptions {
    let resource = ResourceServer::builder(RESOURCE).issuer("https://as.example").verifier(ByName);
    HttpOptions::new().admission(resource.build().unwrap())
}

/// A server whose tool returns everything that the server knows about its client.
fn server() -> Server {
    Server::builder("far", "1")
        .tool(tool("who"), |_: NoArguments, cx: Context| async move {
            format!("{:?} {:?}", cx.principal(), cx.params().map(|params| params.raw().clone()))
        })
        .build()
        .unwrap()
}

#[test]
fn g145_a_token_that_was_shown_to_us_goes_no_further() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = async {
        // The server is behind HTTP, too, and the heads of all requests to it are recorded.
        let heads = Arc::new(Mutex::new(String::new()));
        let seen = heads.clone();
        let looked = HttpOptions::new().principal(move |head| {
            seen.lock().unwrap().push_str(&format!("{head:?}\n").to_lowercase());
            None
        });
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let target = listener.url();
        let far =
            tokio::spawn(async move { server().serve_http(listener, looked, std::future::pending()).await });
        let gateway = Gateway::builder(move || std::future::ready(Link::http(&target).build())).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let (url, serving) = (listener.url(), gateway.clone());
        let near =
            tokio::spawn(
                async move { serving.serve_http(listener, options(), std::future::pending()).await },
            );
        for era in [Era::Legacy, Era::Modern] {
            let builder = Client::builder("near", "1").era(EraChoice::Only(era));
            let link = Link::http(&url).header("authorization", "Bearer alice-s3cr3t").build().unwrap();
            let client = builder.connect(link).await.unwrap();
            let result = client.call_tool("who", ()).await.unwrap();
            let told = format!("{:?}", result.content);
            assert!(told.contains("None"), "{told}");
            assert!(!told.contains("s3cr3t") && !told.contains("alice"), "{told}");
            client.close().await;
        }
        let refused = Link::http(&url).build().unwrap();
        assert!(Client::builder("near", "1").connect(refused).await.is_err());
        let heads = heads.lock().unwrap().clone();
        assert!(heads.contains("mcp-protocol-version"), "{heads}");
        for secret in ["s3cr3t", "alice", "authorization", "as.example"] {
            assert!(!heads.contains(secret), "{heads}");
        }
        gateway.close().await;
        near.abort();
        far.abort();
    };
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), test).await.expect("the test hangs");
    });
}

async fn list(service: &HttpService, token: &str) -> (u16, String) {
    let request = Request::builder()
        .method(Method::POST)
        .uri("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-06-18")
        .header("authorization", format!("Bearer {token}"));
    let body = Bytes::from_static(br#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#);
    let response = service.clone().call(request.body(Full::new(body)).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[test]
fn without_sessions_no_client_gets_the_server_of_another_principal() {
    super::run(async {
        let (started, far) = (Arc::new(AtomicUsize::new(0)), server());
        let count = started.clone();
        let gateway = Gateway::builder(move || {
            count.fetch_add(1, Ordering::Relaxed);
            let (near, theirs) = Link::memory();
            far.connect(theirs);
            std::future::ready(Ok::<_, std::io::Error>(near))
        })
        .build();
        let service = gateway.http(options().stateless(true));
        for (token, servers) in [("alice", 1), ("alice", 1), ("bob", 2), ("alice", 2), ("bob", 2)] {
            let (status, body) = list(&service, &format!("{token}-s3cr3t")).await;
            assert_eq!(status, 200, "{body}");
            assert!(body.contains("\"who\""), "{body}");
            assert_eq!(started.load(Ordering::Relaxed), servers, "{token}");
        }
        assert_eq!(list(&service, "mallory").await.0, 401);
        assert_eq!(started.load(Ordering::Relaxed), 2);
        gateway.close().await;
    });
}

/// A gateway of which each server knows for whom it is. Who is called `mallory` has no access.
fn by_principal(gateway_for: &Arc<Mutex<Vec<Option<String>>>>) -> mcpjoin_gateway::GatewayBuilder {
    let (asked, far) = (gateway_for.clone(), server());
    Gateway::builder_by_principal(move |principal| {
        asked.lock().unwrap().push(principal.map(ToOwned::to_owned));
        let outcome = match principal {
            Some(principal) if principal.contains("mallory") => {
                Err(NotAuthorized("mallory has no access".to_owned()))
            }
            _ => {
                let (near, theirs) = Link::memory();
                far.connect(theirs);
                Ok(near)
            }
        };
        std::future::ready(outcome)
    })
}

#[test]
fn a_link_is_made_for_the_principal_that_uses_it() {
    super::run(async {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let gateway = by_principal(&asked).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let (url, serving) = (listener.url(), gateway.clone());
        let near =
            tokio::spawn(
                async move { serving.serve_http(listener, options(), std::future::pending()).await },
            );
        let of = |name: &str| Some(Principal::new("https://as.example", Some(name), None).to_string());
        // Each session of the legacy era has a server; of the modern era each principal has one.
        let each = [of("alice"), of("bob"), of("alice")];
        for (era, expected) in [(Era::Legacy, &each[..]), (Era::Modern, &each[..2])] {
            for token in ["alice", "bob", "alice"] {
                let link = Link::http(&url).header("authorization", format!("Bearer {token}-s3cr3t"));
                let builder = Client::builder("near", "1").era(EraChoice::Only(era));
                let client = builder.connect(link.build().unwrap()).await.unwrap();
                client.call_tool("who", ()).await.unwrap();
                client.close().await;
            }
            assert_eq!(std::mem::take(&mut *asked.lock().unwrap()), expected, "{era:?}");
        }
        near.abort();
        // A client that is not authenticated has no principal.
        let (link, theirs) = Link::memory();
        let serving = gateway.clone();
        let near = tokio::spawn(async move { serving.serve(theirs).await });
        let client = Client::builder("near", "1").connect(link).await.unwrap();
        client.close().await;
        near.await.unwrap();
        assert_eq!(asked.lock().unwrap().pop(), Some(None));
        gateway.close().await;
    });
}

#[test]
fn a_principal_without_access_does_not_take_the_server_from_the_others() {
    super::run(async {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let gateway = Gateway::joined("both", "1").target("far", by_principal(&asked)).build();
        let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
        let (url, serving) = (listener.url(), gateway.clone());
        let near =
            tokio::spawn(
                async move { serving.serve_http(listener, options(), std::future::pending()).await },
            );
        let connect = async |name: &str, era| {
            let link = Link::http(&url).header("authorization", format!("Bearer {name}-s3cr3t"));
            let builder = Client::builder("near", "1").era(EraChoice::Only(era));
            builder.connect(link.build().unwrap()).await.unwrap()
        };
        for era in [Era::Legacy, Era::Modern] {
            let (mallory, alice) = (connect("mallory", era).await, connect("alice", era).await);
            for _ in 0..3 {
                let error = mallory.call_tool("far__who", ()).await.unwrap_err().to_string();
                assert!(error.contains("far: ") && error.contains("mallory has no access"), "{error}");
                alice.call_tool("far__who", ()).await.unwrap();
            }
            assert!(mallory.list_tools().all().await.unwrap().is_empty());
            alice.close().await;
            mallory.close().await;
        }
        // Without any other client, its failures do not count either.
        let mallory = connect("mallory", Era::Modern).await;
        mallory.call_tool("far__who", ()).await.unwrap_err();
        assert!(!matches!(gateway.targets()[0].state, TargetState::CoolingDown { .. } | TargetState::Dead));
        mallory.close().await;
        near.abort();
        gateway.close().await;
    });
}

#[test]
fn a_modern_client_that_its_target_refuses_starts_a_server_after_longer_and_longer_pauses_only() {
    super::run(async {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let gateway = by_principal(&asked).build();
        let starts = |of: &str| asked.lock().unwrap().iter().flatten().filter(|who| *who == of).count();
        let lists = async |who: &str| {
            let mut client = Person::of(&gateway, who);
            client.say(modern_request("1", "tools/list", "", "")).await;
            client.next().await
        };
        for (pause, expected) in
            [(0, 1), (1, 2), (1, 2), (1, 3), (3, 3), (1, 4), (8, 5), (16, 6), (30, 7), (29, 7), (1, 8)]
        {
            passes(Duration::from_secs(pause)).await;
            for _ in 0..5 {
                let reply = lists("mallory").await;
                let error = reply["error"]["message"].as_str().unwrap();
                assert!(error.contains("mallory has no access"), "{error}");
            }
            assert_eq!(starts("mallory"), expected, "after {pause} s");
            assert!(lists("alice").await["result"].is_object());
            assert_eq!(starts("alice"), 1);
        }
        gateway.close().await;
    });
}
