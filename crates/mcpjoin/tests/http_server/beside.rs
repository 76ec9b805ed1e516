//! Tests of what stands beside the message of an HTTP request: a handler sees the head of its own request, what middleware
//! has inserted, and what the admission has added.

use std::future::ready;

use http::Method;
use http::request::Parts;
use mcpjoin::proto::Raw;
use mcpjoin::proto::types::{Tool, ToolAnnotations};
use mcpjoin::server::{Context, NoArguments, ServerBuilder, tool};
use mcpjoin::transport::{Admission, Admitted, Admitting, HttpOptions};
use mcpjoin::{Client, Link, Server};
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::support::{LEGACY, Peer, Reply, call, modern, run, text};

/// Inserted by the middleware of these tests.
#[derive(Clone)]
struct User(&'static str);

fn described(cx: &Context) -> String {
    let Some(head) = cx.http() else {
        return format!("no head, a user: {}", cx.extension::<User>().is_some());
    };
    let user = cx.extension::<User>().map_or("nobody", |user| user.0);
    let agent = head.headers["user-agent"].to_str().unwrap();
    format!("{user} with {agent} at {}", head.uri.query().unwrap_or_default())
}

fn builder() -> ServerBuilder {
    Server::builder("s", "1").tool(tool("plain"), async |_: NoArguments, cx: Context| described(&cx)).tool(
        tool("streams"),
        async |_: NoArguments, cx: Context| {
            // A notification before the result turns the response into an event stream.
            cx.progress(1.0, None, None);
            described(&cx)
        },
    )
}

#[test]
fn a_function_admits_by_the_access_token() {
    run(async {
        let options = HttpOptions::new().stateless(true).bearer_tokens(|token| async move {
            (token == "t").then(|| Admitted::new("ada").with_extension(User("ada")).with_scopes(["read"]))
        });
        let peer = peer(options).with("mcp-protocol-version", LEGACY);
        let (missing, invalid) = ("Bearer", "Bearer error=\"invalid_token\"");
        for (authorization, challenge) in [
            (None, Some(missing)),
            (Some("Basic t"), Some(missing)),
            (Some("Bearer"), Some(missing)),
            (Some("Bearer  "), Some(missing)),
            (Some("Bearer u"), Some(invalid)),
            (Some("Bearer t t"), Some(invalid)),
            (Some("Bearer t"), None),
            (Some("bearer  t"), None),
        ] {
            let mut request = peer.request(Method::POST, "/mcp", call(1, "plain", json!({})).to_string());
            if let Some(value) = authorization {
                request.headers_mut().insert("authorization", value.parse().unwrap());
            }
            let reply = Reply::of(peer.service.clone().call(request).await.unwrap());
            let told = reply.headers.get("www-authenticate").map(|told| told.to_str().unwrap());
            assert_eq!(told, challenge, "{authorization:?}");
            assert_eq!(reply.status, if challenge.is_some() { 401 } else { 200 }, "{authorization:?}");
            if challenge.is_none() {
                assert_eq!(said(reply).await, "ada with a test at ", "{authorization:?}");
            }
        }
    });
}

fn peer(options: HttpOptions) -> Peer {
    Peer::new(&builder().build().unwrap(), options).with("user-agent", "a test")
}

/// Sends a message as an application does whose middleware has found out the user.
async fn send_as(peer: &Peer, user: &'static str, body: &Value) -> Reply {
    let mut request = peer.request(Method::POST, &format!("/mcp?of={user}"), body.to_string());
    request.extensions_mut().insert(User(user));
    Reply::of(peer.service.clone().call(request).await.unwrap())
}

/// The text of the result, in a response of either kind.
async fn said(mut reply: Reply) -> String {
    if reply.kind() == "application/json" {
        return text(&reply.json().await).to_owned();
    }
    loop {
        let message = reply.message().await.expect("a response");
        if message.get("result").is_some() {
            return text(&message).to_owned();
        }
    }
}

/// Calls a tool of 2026-07-28 and asks for progress.
async fn call_modern(peer: &Peer, user: &'static str, tool: &str) -> Reply {
    let params = json!({ "name": tool, "arguments": {}, "_meta": { "progressToken": 1 } });
    send_as(&peer.modern("tools/call", tool), user, &modern(1, "tools/call", params)).await
}

#[test]
fn a_handler_sees_the_head_and_the_extensions_of_its_own_request_in_both_eras() {
    run(async {
        let stateless = peer(HttpOptions::new().stateless(true)).with("mcp-protocol-version", LEGACY);
        let modern = peer(HttpOptions::new());
        let session = modern.open(LEGACY).await;
        for (tool, kind) in [("plain", "application/json"), ("streams", "text/event-stream")] {
            // The second request uses the connection of the first one.
            for (id, user) in [(1, "ada"), (2, "bob")] {
                let seen = format!("{user} with a test at of={user}");
                let reply = call_modern(&modern, user, tool).await;
                assert_eq!(reply.kind(), kind);
                assert_eq!(said(reply).await, seen);
                for peer in [&session, &stateless] {
                    let reply = send_as(peer, user, &call(format!("{tool}{id}"), tool, json!({}))).await;
                    assert_eq!(reply.kind(), kind);
                    assert_eq!(said(reply).await, seen);
                }
            }
        }
    });
}

#[test]
fn there_is_no_head_on_other_transports() {
    run(async {
        let (ours, theirs) = Link::memory();
        builder().build().unwrap().connect(theirs);
        let client = Client::builder("c", "1").connect(ours).await.unwrap();
        let result = client.call_tool("plain", ()).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some("no head, a user: false"));
    });
}

/// Admits everybody as the user of the header `x-user`.
struct ByHeader;

impl Admission for ByHeader {
    fn admit<'a>(&'a self, parts: &'a Parts) -> Admitting<'a> {
        let mut admitted = Admitted::new("somebody");
        if parts.headers.contains_key("x-user") {
            admitted.extensions.insert(User("the admitted one"));
        }
        Box::pin(ready(Ok(admitted)))
    }
}

#[test]
fn what_the_admission_adds_comes_before_the_extensions_of_the_request() {
    run(async {
        let peer = peer(HttpOptions::new().admission(ByHeader));
        let reply = call_modern(&peer.with("x-user", "1"), "ada", "plain").await;
        assert_eq!(said(reply).await, "the admitted one with a test at of=ada");
        let reply = call_modern(&peer, "ada", "plain").await;
        assert_eq!(said(reply).await, "ada with a test at of=ada");
    });
}

#[test]
fn handlers_can_read_credentials_and_debug_does_not_show_them() {
    run(async {
        let server = Server::builder("s", "1").tool(tool("shows"), async |_: NoArguments, cx: Context| {
            let head = cx.http().unwrap();
            let readable = ["authorization", "cookie"].map(|name| head.headers[name].to_str().unwrap());
            assert_eq!(readable, ["Bearer s3cret", "s=s3cret"]);
            format!("{head:?} {:?}", cx.origin())
        });
        let peer = Peer::new(&server.build().unwrap(), HttpOptions::new())
            .with("authorization", "Bearer s3cret")
            .with("cookie", "s=s3cret");
        let shown = said(call_modern(&peer, "ada", "shows").await).await;
        assert!(shown.contains("\"authorization\": Sensitive") && !shown.contains("s3cret"), "{shown}");
    });
}

/// A server whose marked tool is visible to the administrator only.
fn hiding() -> Server {
    let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
    builder()
        .raw_tool(
            Tool::new("clear", Raw::parse(schema).unwrap()).with_annotations(ToolAnnotations::default()),
            async |_, _| "cleared".to_owned(),
        )
        .visible_tools(|cx, tool| {
            tool.annotations.is_none() || cx.extension::<User>().is_some_and(|user| user.0 == "admin")
        })
        .build()
        .unwrap()
}

#[test]
fn the_headers_do_not_show_whether_a_tool_is_hidden_or_unknown() {
    run(async {
        let peer = Peer::new(&hiding(), HttpOptions::new()).with("user-agent", "a test");
        let call = async |user, tool: &str, region: &str| {
            let params = json!({ "name": tool, "arguments": { "region": region } });
            let peer = peer.modern("tools/call", tool).with("mcp-param-region", "eu");
            let reply = send_as(&peer, user, &modern(1, "tools/call", params)).await;
            (reply.status, reply.json().await)
        };
        assert_eq!(text(&call("admin", "clear", "eu").await.1), "cleared");
        let (status, refused) = call("admin", "clear", "us").await;
        assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32020)));
        for region in ["eu", "us"] {
            let [hidden, unknown] = [call("ada", "clear", region).await, call("ada", "klear", region).await];
            assert_eq!(hidden.0, unknown.0);
            assert_eq!(hidden.1.to_string(), unknown.1.to_string().replace("klear", "clear"));
        }
    });
}

#[test]
fn the_headers_of_a_mounted_tool_are_checked_only_where_that_reveals_nothing() {
    run(async {
        let marked = || {
            let schema =
                r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
            let tool = Tool::new("open", Raw::parse(schema).unwrap());
            Server::builder("s", "1").raw_tool(tool, async |_, _| "opened".to_owned()).build().unwrap()
        };
        let middle = builder().mount("hiding", hiding()).mount("plain", marked()).build().unwrap();
        let server = builder().mount("m", middle);
        // The second server decides about mounted tools, too.
        let choosy = builder().mount("m", marked()).visible_tools(|cx, tool| {
            tool.name != "m__open" || cx.extension::<User>().is_some_and(|user| user.0 == "admin")
        });
        let call = async |server: &Server, user, tool: &str, region: &str| {
            let params = json!({ "name": tool, "arguments": { "region": region } });
            let peer = Peer::new(server, HttpOptions::new()).with("user-agent", "a test");
            let peer = peer.modern("tools/call", tool).with("mcp-param-region", "eu");
            let reply = send_as(&peer, user, &modern(1, "tools/call", params)).await;
            (reply.status, reply.json().await)
        };
        let (server, choosy) = (server.build().unwrap(), choosy.build().unwrap());
        for (server, tool, said) in [
            (&server, "m__plain__open", "opened"),
            (&server, "m__hiding__clear", "cleared"),
            (&choosy, "m__open", "opened"),
        ] {
            assert_eq!(text(&call(server, "admin", tool, "eu").await.1), said);
            let (status, refused) = call(server, "admin", tool, "us").await;
            assert_eq!((status, &refused["error"]["code"]), (400, &json!(-32020)), "{tool}");
        }
        for (server, tool) in [(&server, "m__hiding__clear"), (&choosy, "m__open")] {
            for region in ["eu", "us"] {
                let [hidden, unknown] =
                    [call(server, "ada", tool, region).await, call(server, "ada", "m__x", region).await];
                assert_eq!(hidden.0, unknown.0);
                assert_eq!(hidden.1.to_string(), unknown.1.to_string().replace("m__x", tool));
            }
        }
    });
}
