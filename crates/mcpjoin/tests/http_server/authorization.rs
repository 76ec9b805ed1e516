//! Tests of the authorization of an HTTP server as a resource server, with tokens whose text contains their claims.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use http::Method;
use mcpjoin::proto;
use mcpjoin::proto::Raw;
use mcpjoin::proto::types::Tool;
use mcpjoin::server::Context;
use mcpjoin::transport::HttpOptions;
use mcpjoin_auth::resource::{
    Principal, Rejected, ResourceServer, ResourceServerBuilder, ResourceSetupError, TokenVerifier, Verified,
};
use serde_json::{Value, json};

use crate::support::{Gate, LEGACY, Peer, Reply, builder, call, initialize, modern, run, settle, text};

const RESOURCE: &str = "https://tools.example/mcp";
const METADATA: &str = "https://tools.example/.well-known/oauth-protected-resource/mcp";
const ISSUER: &str = "https://as.example";

/// Reads tokens such as `alice/a+b` (valid for an hour, with the scopes `a` and `b`), `alice/a/60` (for a minute) and
/// `alice/a/60/https~//other` (for another audience); it cannot verify a token with `~` in front.
#[derive(Clone, Default)]
struct ByName(Arc<AtomicUsize>);

impl TokenVerifier for ByName {
    async fn verify(&self, token: &str) -> Result<Verified, Rejected> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if token.starts_with('~') {
            return Err(Rejected::Unavailable("the keys are not to be had".into()));
        }
        let mut parts = token.splitn(4, '/');
        let (Some(name), Some(scopes)) = (parts.next(), parts.next()) else {
            return Err(Rejected::Invalid("the token is none of ours".into()));
        };
        let seconds = parts.next().map_or(3600, |seconds| seconds.parse().unwrap());
        let audience =
            parts.next().map_or_else(|| RESOURCE.to_owned(), |audience| audience.replace('~', ":"));
        let scopes = scopes.split('+').filter(|scope| !scope.is_empty());
        let principal = Principal::new(ISSUER, Some(name), Some("c"));
        let expires = SystemTime::now() + Duration::from_secs(seconds);
        Ok(Verified::new(principal, [audience]).scopes(scopes).expires(expires))
    }
}

fn resource() -> ResourceServerBuilder {
    ResourceServer::builder(RESOURCE).issuer(ISSUER).verifier(ByName::default())
}

fn options(resource: ResourceServerBuilder) -> HttpOptions {
    HttpOptions::new().admission(resource.build().unwrap())
}

/// The options of a server that requires a token with the scope `a`.
pub(crate) fn asking() -> HttpOptions {
    options(resource().required_scopes(["a"]))
}

fn peer(options: HttpOptions) -> (Peer, Gate) {
    let gate = Gate::new();
    let server = builder(&gate)
        .raw_tool(
            Tool::new("who", Raw::parse(r#"{"type":"object"}"#).unwrap()),
            |_, cx: Context| async move {
                let scopes = cx.origin().unwrap().scopes.as_deref().unwrap_or_default().join(" ");
                format!("{} [{scopes}] {}", cx.principal().unwrap_or_default(), cx.has_scope("b"))
            },
        )
        .build()
        .unwrap();
    (Peer::new(&server, options), gate)
}

impl Peer {
    fn bearing(&self, token: &str) -> Self {
        // A token must not contain a colon.
        self.with("authorization", &format!("Bearer {}", token.replace(':', "~")))
    }
}

fn challenge(reply: &Reply) -> &str {
    reply.headers["www-authenticate"].to_str().unwrap()
}

/// Every kind of request that a client may send, in both eras and at every path.
async fn everything(peer: &Peer) -> Vec<(&'static str, Reply)> {
    let sent = |method, uri| peer.send(method, uri, "");
    vec![
        ("a modern call", peer.call(1, "echo", json!({ "message": "hi" })).await),
        ("server/discover", peer.ask(1, "server/discover", json!({})).await),
        ("initialize", peer.post(initialize(LEGACY, json!({}))).await),
        (
            "a call in a session",
            peer.with("mcp-session-id", &"0".repeat(32)).post(call(1, "echo", json!({}))).await,
        ),
        ("the stream of a session", peer.with("mcp-session-id", &"0".repeat(32)).get().await),
        (
            "the end of a session",
            peer.with("mcp-session-id", &"0".repeat(32)).send(Method::DELETE, "/mcp", "").await,
        ),
        ("no JSON", peer.post("{").await),
        ("no body", peer.post("").await),
        ("OPTIONS", sent(Method::OPTIONS, "/mcp").await),
        ("PUT", sent(Method::PUT, "/mcp").await),
        ("the stream of 2024-11-05", peer.send(Method::GET, "/sse", "").await),
        (
            "its messages",
            peer.send(Method::POST, "/messages?sessionId=00000000000000000000000000000000", "{}").await,
        ),
    ]
}

#[test]
fn authorization_no_request_gets_in_without_a_token() {
    run(async {
        let (peer, _) = peer(options(resource().required_scopes(["a"])));
        let bare = format!("Bearer resource_metadata=\"{METADATA}\", scope=\"a\"");
        for (what, reply) in everything(&peer).await {
            assert_eq!((reply.status, challenge(&reply)), (401, &*bare), "{what}");
        }
        for (what, reply) in everything(&peer.bearing("none-of-ours")).await {
            assert_eq!(reply.status, 401, "{what}");
            assert!(challenge(&reply).contains("error=\"invalid_token\""), "{what}: {}", challenge(&reply));
        }
        for (what, reply) in everything(&peer.bearing("alice/a")).await {
            assert!(!matches!(reply.status, 401 | 403), "{what}: {}", reply.status);
        }
        assert_eq!(peer.service.sessions(), 1);
        // An unknown path is 404 without a token too, so that clients that look for other metadata documents go on.
        assert_eq!(peer.send(Method::GET, "/.well-known/oauth-authorization-server", "").await.status, 404);
    });
}

#[test]
fn authorization_no_spelling_of_a_path_or_a_method_avoids_the_token() {
    run(async {
        let (peer, _) = peer(options(resource().required_scopes(["a"])));
        let reader = peer.bearing("alice/b");
        let call = modern(1, "tools/call", json!({ "name": "echo", "arguments": {} })).to_string();
        for path in [
            "//mcp",
            "/mcp/",
            "/MCP",
            "/%6dcp",
            "/mcp%2f",
            "/mcp;a=b",
            "/./mcp",
            "/x/../mcp",
            "/mcp?a=b",
            "//sse",
            "/SSE",
            "//messages",
            "/messages/",
            "/.well-known/oauth-protected-resource/../../mcp",
            "/.well-known/oauth-protected-resource/mcp/",
            "//.well-known/oauth-protected-resource/mcp",
            "http://localhost:1/mcp",
            "http://localhost:1//mcp",
        ] {
            for method in ["POST", "GET", "DELETE", "HEAD", "OPTIONS", "PUT", "post", "PROPFIND"] {
                let method = Method::from_bytes(method.as_bytes()).unwrap();
                let reply = peer.modern("tools/call", "echo").send(method.clone(), path, call.clone()).await;
                assert!(matches!(reply.status, 401 | 404), "{method} {path}: {}", reply.status);
                let reply =
                    reader.modern("tools/call", "echo").send(method.clone(), path, call.clone()).await;
                // A request that is no call is refused by its type before the server checks the scopes of the token.
                assert!(matches!(reply.status, 403 | 404), "{method} {path}: {}", reply.status);
            }
        }
        assert_eq!(peer.service.sessions(), 0);
    });
}

#[test]
fn g145_a_token_for_another_audience_is_refused() {
    run(async {
        let (peer, _) = peer(options(resource()));
        for other in
            ["https://tools.example", "https://tools.example/mcp/", "https://TOOLS.example/mcp", "x", ""]
        {
            let reply = peer.bearing(&format!("alice/a/60/{other}")).call(1, "echo", json!({})).await;
            assert_eq!(reply.status, 401, "{other}");
            assert!(challenge(&reply).contains("error=\"invalid_token\""), "{}", challenge(&reply));
            assert!(challenge(&reply).contains(METADATA), "{}", challenge(&reply));
        }
        let reply = peer.bearing(&format!("alice/a/60/{RESOURCE}")).call(1, "echo", json!({})).await;
        assert_eq!(reply.status, 200);
    });
}

#[test]
fn authorization_without_a_path_the_resource_is_the_same_with_and_without_a_slash() {
    run(async {
        for written in ["https://tools.example", "https://tools.example/"] {
            let resource = ResourceServer::builder(written).issuer(ISSUER).verifier(ByName::default());
            let (peer, _) = peer(options(resource));
            for audience in ["https://tools.example", "https://tools.example/"] {
                let reply = peer.bearing(&format!("alice//60/{audience}")).call(1, "echo", json!({})).await;
                assert_eq!(reply.status, 200, "{written} {audience}");
            }
            let document =
                peer.send(Method::GET, "/.well-known/oauth-protected-resource", "").await.json().await;
            assert_eq!(document["resource"], written);
            assert_eq!(
                peer.send(Method::GET, "/.well-known/oauth-protected-resource/", "").await.status,
                404
            );
        }
    });
}

#[test]
fn authorization_a_token_that_is_shown_wrongly_is_a_bad_request() {
    run(async {
        let (peer, _) = peer(options(resource()));
        let good = peer.bearing("alice/a");
        let body = modern(1, "server/discover", json!({})).to_string();
        let asking = good.modern("server/discover", "");
        for peer in [&asking, &asking.with("authorization", "")] {
            let reply = peer.send(Method::POST, "/mcp?access_token=alice/a", body.clone()).await;
            assert_eq!(reply.status, 400);
            assert!(challenge(&reply).contains("error=\"invalid_request\""), "{}", challenge(&reply));
            assert!(!format!("{reply:?}").contains("alice"));
        }
        for bad in ["Bearer", "Bearer a b", "Bearer \u{e9}"] {
            let reply = asking.with("authorization", bad).post(&body).await;
            assert_eq!(reply.status, 400, "{bad}");
        }
        for other in ["Basic YTpi", "DPoP alice/a", "alice/a"] {
            let reply = asking.with("authorization", other).post(&body).await;
            assert_eq!((reply.status, challenge(&reply).contains("error=")), (401, false), "{other}");
        }
        let mut twice = asking.clone();
        twice.headers.push(("authorization".into(), "Bearer bob/a".into()));
        assert_eq!(twice.post(&body).await.status, 400);
        assert_eq!(asking.post(&body).await.status, 200);
    });
}

#[test]
fn authorization_the_document_is_everybodys_and_says_where_tokens_are() {
    run(async {
        let resource =
            resource().name("Tools").documentation("https://tools.example/docs").required_scopes(["a"]);
        let (peer, _) = peer(options(resource));
        let visitor = peer.with("content-type", "").with("accept", "");
        for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"] {
            let reply = visitor.send(Method::GET, path, "").await;
            assert_eq!((reply.status, reply.kind()), (200, "application/json"), "{path}");
            assert_eq!(reply.headers["access-control-allow-origin"], "*");
            assert_eq!(
                reply.json().await,
                json!({
                    "resource": RESOURCE, "authorization_servers": [ISSUER], "scopes_supported": ["a"],
                    "bearer_methods_supported": ["header"], "resource_name": "Tools",
                    "resource_documentation": "https://tools.example/docs"
                })
            );
            let reply = visitor.send(Method::HEAD, path, "").await;
            assert_ne!(reply.headers["content-length"], "0");
            assert_eq!((reply.status, reply.bytes().await.len()), (200, 0));
            let asks =
                visitor.with("origin", "http://localhost:5").with("access-control-request-method", "GET");
            let reply = asks.send(Method::OPTIONS, path, "").await;
            assert_eq!(
                (reply.status, &reply.headers["access-control-allow-origin"]),
                (204, &"*".parse().unwrap())
            );
            for method in [Method::POST, Method::DELETE, Method::PUT] {
                let reply = peer.bearing("alice/a").send(method, path, "{}").await;
                assert_eq!(
                    (reply.status, reply.headers["allow"].to_str().unwrap()),
                    (405, "GET, HEAD, OPTIONS")
                );
            }
            // The guard checks the request before authorization does.
            assert_eq!(visitor.with("host", "evil.example").send(Method::GET, path, "").await.status, 403);
            assert_eq!(
                visitor.with("origin", "https://evil.example").send(Method::GET, path, "").await.status,
                403
            );
        }
        assert_eq!(
            visitor.send(Method::GET, "/.well-known/oauth-protected-resource/other", "").await.status,
            404
        );
    });
}

#[test]
fn authorization_host_and_origin_are_checked_before_a_token_and_a_preflight_needs_none() {
    run(async {
        let (peer, _) = peer(options(resource()).cors(true));
        let evil = peer.with("host", "evil.example");
        for peer in
            [&evil, &evil.bearing("alice/a"), &peer.with("origin", "https://evil.example").bearing("alice/a")]
        {
            let reply = peer.call(1, "echo", json!({})).await;
            assert_eq!((reply.status, reply.headers.get("www-authenticate")), (403, None));
        }
        let page = peer.with("origin", "http://localhost:5");
        let asks = page
            .with("access-control-request-method", "POST")
            .with("access-control-request-headers", "authorization");
        let reply = asks.send(Method::OPTIONS, "/mcp", "").await;
        assert_eq!(
            (reply.status, reply.headers["access-control-allow-headers"].to_str().unwrap()),
            (204, "authorization")
        );
        // A web page can read the reason for the refusal.
        let reply = page.call(1, "echo", json!({})).await;
        assert_eq!(
            (reply.status, &reply.headers["access-control-allow-origin"]),
            (401, &"http://localhost:5".parse().unwrap())
        );
        assert!(
            reply.headers["access-control-expose-headers"].to_str().unwrap().contains("WWW-Authenticate")
        );
    });
}

fn by_tool() -> ResourceServerBuilder {
    resource().required_scopes(["a"]).implies("all", ["b", "c"]).implies("b", ["a"]).scopes_for(|operation| {
        match (operation.method(), operation.name(), operation.uri().as_deref()) {
            (proto::Method::CallTool, Some("who"), _) => &["b", "c"] as &[&str],
            (proto::Method::ReadResource, _, Some("x://1")) => &["c"],
            _ => &[],
        }
    })
}

#[test]
fn authorization_all_scopes_that_an_operation_needs_are_named_at_once() {
    run(async {
        let (peer, _) = peer(options(by_tool()));
        let of = |token: &str| peer.bearing(token);
        let missing = |reply: &Reply| {
            assert_eq!(reply.status, 403);
            assert!(challenge(reply).contains("error=\"insufficient_scope\""), "{}", challenge(reply));
            assert!(challenge(reply).contains(METADATA), "{}", challenge(reply));
            challenge(reply).split("scope=\"").nth(1).unwrap().trim_end_matches('"').to_owned()
        };
        assert_eq!(missing(&of("alice/").call(1, "echo", json!({})).await), "a");
        assert_eq!(missing(&of("alice/").call(1, "who", json!({})).await), "a b c");
        assert_eq!(missing(&of("alice/a").call(1, "who", json!({})).await), "a b c");
        assert_eq!(missing(&of("alice/a+b").call(1, "who", json!({})).await), "a b c");
        assert_eq!(missing(&of("alice/a").ask(1, "resources/read", json!({ "uri": "x://1" })).await), "a c");
        // The error contains the id of the request, in whichever form it was sent.
        let reply = of("alice/a").call(7, "who", json!({})).await;
        assert_eq!(reply.json().await["id"], 7);
        for token in ["alice/a+b+c", "alice/b+c", "alice/all"] {
            let reply = of(token).call(1, "who", json!({})).await;
            assert_eq!(reply.status, 200, "{token}");
        }
        assert_eq!(of("alice/a").call(1, "echo", json!({})).await.status, 200);
        // A request without a message needs the server's general scopes.
        for method in [Method::GET, Method::DELETE] {
            let reply = of("alice/c").with("mcp-session-id", &"0".repeat(32)).send(method, "/mcp", "").await;
            assert_eq!(missing(&reply), "a");
        }
        assert_eq!(missing(&of("alice/c").send(Method::GET, "/sse", "").await), "a");
        assert_eq!(missing(&of("alice/").post(initialize(LEGACY, json!({}))).await), "a");
        assert_eq!(peer.service.sessions(), 0);
        let session = of("alice/a").open(LEGACY).await;
        assert_eq!(missing(&session.call_in_session(1, "who", json!({})).await), "a b c");
        let batch = json!([call(1, "echo", json!({})), call(2, "who", json!({}))]);
        let session = of("alice/a").open("2025-03-26").await;
        assert_eq!(missing(&session.post(batch).await), "a b c");
        let mut stream = of("alice/a").send(Method::GET, "/sse", "").await;
        let (_, path) = stream.event().await.unwrap();
        let sent = of("alice/a").send(Method::POST, &path, call(1, "who", json!({})).to_string()).await;
        assert_eq!(missing(&sent), "a b c");
    });
}

#[test]
fn authorization_a_handler_reads_who_asks_and_what_they_may() {
    run(async {
        let (open, _) = peer(HttpOptions::new());
        let (peer, _) = peer(options(by_tool()));
        let reply = peer.bearing("alice/all").call(1, "who", json!({})).await.json().await;
        assert_eq!(text(&reply), "https://as.example alice c [a all b c] true");
        let session = peer.bearing("bob/b+c").open(LEGACY).await;
        let mut reply = session.call_in_session(1, "who", json!({})).await;
        let reply = match reply.kind() {
            "application/json" => reply.json().await,
            _ => reply.message().await.unwrap(),
        };
        assert_eq!(text(&reply), "https://as.example bob c [a b c] true");
        let reply = open.call(1, "who", json!({})).await.json().await;
        assert_eq!(text(&reply), " [] false");
    });
}

#[test]
fn authorization_a_session_is_its_principals_with_every_token_of_theirs() {
    run(async {
        let (peer, _) = peer(options(resource()));
        let session = peer.bearing("alice/a").open(LEGACY).await;
        let other = session.bearing("bob/a");
        assert_eq!(other.call_in_session(1, "echo", json!({})).await.error().await, (404, -32600));
        assert_eq!(other.get().await.status, 404);
        assert_eq!(other.with("last-event-id", "0-0").get().await.status, 404);
        assert_eq!(other.send(Method::DELETE, "/mcp", "").await.status, 404);
        assert_eq!(session.bearing("alice/b").call_in_session(1, "echo", json!({})).await.status, 200);
        assert_eq!(session.with("authorization", "").call_in_session(1, "echo", json!({})).await.status, 401);
        let mut stream = peer.bearing("alice/a").send(Method::GET, "/sse", "").await;
        let (_, path) = stream.event().await.unwrap();
        assert_eq!(peer.bearing("bob/a").send(Method::POST, &path, "{}").await.status, 404);
    });
}

#[test]
fn authorization_the_state_of_a_request_is_its_principals() {
    run(async {
        let (peer, _) = peer(options(resource()));
        let asked = |peer: Peer, state: Value| async move {
            let mut params = json!({ "name": "ask", "arguments": {} });
            if !state.is_null() {
                params["requestState"] = state;
                params["inputResponses"] = json!({ "ask-1": { "action": "accept", "content": {} } });
            }
            params["_meta"] = json!({});
            let mut message = modern(1, "tools/call", params);
            message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
                json!({ "elicitation": {} });
            peer.modern("tools/call", "ask").post(message).await.json().await
        };
        let first = asked(peer.bearing("alice/a"), Value::Null).await;
        let state = first["result"]["requestState"].clone();
        assert!(state.is_string(), "{first}");
        let stolen = asked(peer.bearing("bob/a"), state.clone()).await;
        assert_eq!(stolen["error"]["code"], -32602, "{stolen}");
        assert_eq!(text(&asked(peer.bearing("alice/b"), state).await), "accept");
    });
}

#[test]
fn authorization_a_stream_without_an_end_of_its_own_ends_when_its_token_does() {
    run(async {
        let (peer, gate) = peer(options(resource()));
        let session = peer.bearing("alice/a").open(LEGACY).await;
        let mut standing = session.bearing("alice/a/60").get().await;
        assert_eq!(standing.event().await.unwrap().0, "0-0");
        let listening = json!({ "notifications": { "toolsListChanged": true } });
        let mut listen = peer.bearing("alice/a/60").ask(1, "subscriptions/listen", listening).await;
        listen.message().await.unwrap();
        let mut old = peer.bearing("alice/a/60").send(Method::GET, "/sse", "").await;
        let (_, path) = old.event().await.unwrap();
        // The stream of a call goes on until the call is answered.
        let begun = tokio::time::Instant::now();
        let peer_of_call = peer.bearing("alice/a/60").modern("tools/call", "steps");
        let mut params = json!({ "name": "steps", "arguments": { "n": 1 }, "_meta": {} });
        params["_meta"]["progressToken"] = 1.into();
        let mut running = peer_of_call.post(modern(2, "tools/call", params)).await;
        assert_eq!(running.message().await.unwrap()["method"], "notifications/progress");
        for stream in [&mut standing, &mut listen, &mut old] {
            assert!(stream.message().await.is_none());
            let lasted = begun.elapsed();
            assert!((Duration::from_secs(59)..Duration::from_secs(61)).contains(&lasted), "{lasted:?}");
        }
        settle().await;
        running.is_silent().await;
        gate.open.add_permits(1);
        assert_eq!(text(&running.message().await.unwrap()), "stepped");
        // The session of 2024-11-05 ends with its stream; the other session accepts a new token.
        assert_eq!(peer.bearing("alice/a").send(Method::POST, &path, "{}").await.status, 404);
        let mut again = session.with("last-event-id", "0-0").get().await;
        assert_eq!(again.status, 200);
        again.is_silent().await;
    });
}

#[test]
fn authorization_a_token_is_verified_once_a_minute_and_not_after_its_end() {
    run(async {
        let verifier = ByName::default();
        let (peer, _) = peer(options(resource().verifier(verifier.clone())));
        let asked = || verifier.0.swap(0, Ordering::Relaxed);
        let status = async |token: &str| peer.bearing(token).call(1, "echo", json!({})).await.status;
        for _ in 0..100 {
            assert_eq!(status("alice/a").await, 200);
        }
        assert_eq!(asked(), 1);
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!((status("alice/a").await, asked()), (200, 0));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!((status("alice/a").await, asked()), (200, 1));
        assert_eq!((status("alice/a/5").await, asked()), (200, 1));
        tokio::time::advance(Duration::from_secs(6)).await;
        // The verifier sets how long a token stays valid from now on.
        assert_eq!((status("alice/a/5").await, asked()), (200, 1));
        assert_eq!((status("alice/a/0").await, asked()), (401, 1));
        // A refusal is not cached.
        assert_eq!((status("nobody").await, status("nobody").await, asked()), (401, 401, 2));
    });
}

#[test]
fn authorization_what_cannot_be_found_out_is_no_refusal() {
    run(async {
        let (peer, _) = peer(options(resource()));
        let reply = peer.bearing("~alice/a").call(1, "echo", json!({})).await;
        assert_eq!((reply.status, reply.headers["retry-after"].to_str().unwrap()), (503, "1"));
        assert_eq!(reply.headers.get("www-authenticate"), None);
    });
}

#[test]
fn authorization_what_is_no_resource_is_refused_before_it_serves() {
    let of = |url: &str, issuer: &str, scope: &str| {
        let built =
            ResourceServer::builder(url).issuer(issuer).verifier(ByName::default()).scopes_supported([scope]);
        built.build().map(|resource| resource.metadata_url().to_owned())
    };
    for (url, document) in [
        ("https://x.example", "https://x.example/.well-known/oauth-protected-resource"),
        ("https://x.example/", "https://x.example/.well-known/oauth-protected-resource"),
        ("https://x.example:8443/a/b", "https://x.example:8443/.well-known/oauth-protected-resource/a/b"),
        ("https://x.example/a/", "https://x.example/.well-known/oauth-protected-resource/a/"),
        ("http://127.0.0.1:1/mcp", "http://127.0.0.1:1/.well-known/oauth-protected-resource/mcp"),
        ("http://[::1]:1/mcp", "http://[::1]:1/.well-known/oauth-protected-resource/mcp"),
    ] {
        assert_eq!(of(url, ISSUER, "a").as_deref(), Ok(document), "{url}");
    }
    for url in [
        "",
        "x.example",
        "ftp://x.example",
        "http://x.example/mcp",
        "https://X.example/mcp",
        "HTTPS://x.example",
        "https://x.example:443/",
        "https://u@x.example/",
        "https://x.example/mcp?a",
        "https://x.example/mcp#a",
        "https://x.example/\"",
        "https://x.example/\u{e9}",
        "https://x.example/a b",
        "https://",
    ] {
        let refused = of(url, ISSUER, "a");
        assert!(matches!(&refused, Err(ResourceSetupError::Resource { .. })), "{url}: {refused:?}");
        assert!(
            matches!(of(RESOURCE, url, "a"), Err(ResourceSetupError::Issuer { .. }))
                || url.contains("X.")
                || url.contains("HTTPS")
                || url.contains(":443"),
            "{url}"
        );
    }
    for scope in ["offline_access", "", "a b", "\""] {
        assert!(matches!(of(RESOURCE, ISSUER, scope), Err(ResourceSetupError::Scope { .. })), "{scope}");
    }
    let none = ResourceServer::builder(RESOURCE).verifier(ByName::default()).build();
    assert_eq!(none.unwrap_err(), ResourceSetupError::NoIssuer);
}
