//! Tests of the layers around the requests of a client.

use std::sync::Arc;
use std::time::Duration;

use mcpjoin::client::{Client, ClientBuilder, ClientError, Restart};
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::session::{Call, CallError, CallRefused, EraChoice, Reply};
use mcpjoin::proto::types::{
    CompleteArgument, CompleteParams, ElicitResult, PageParams, PromptReference, Reference,
    SubscriptionFilter,
};
use mcpjoin::proto::{Era, ErrorObject, Method, Payload, Raw, Request, RequestId};
use mcpjoin::server::{HandlerError, NoArguments, Server, tool};
use mcpjoin::transport::Link;
use mcpjoin_test_support::scripted::{self, Scripted, builder, raw, text, value};
use parking_lot::Mutex;
use serde_json::{Value, json};

const BOTH_ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

type Notes = Arc<Mutex<Vec<String>>>;

async fn open(builder: ClientBuilder, era: Era) -> (Client, Scripted) {
    match era {
        Era::Legacy => scripted::legacy(builder).await,
        Era::Modern => scripted::modern(builder).await,
    }
}

/// Adds a layer that notes each request, and whether it has a result.
fn noting(builder: ClientBuilder, notes: &Notes, name: &'static str) -> ClientBuilder {
    let notes = notes.clone();
    builder.layer(move |call, next| {
        let notes = notes.clone();
        async move {
            notes.lock().push(format!("{name} {}", call.method));
            let outcome = next.run(call).await;
            notes.lock().push(format!("{name} {}", if outcome.is_ok() { "result" } else { "error" }));
            outcome
        }
    })
}

/// Adds a layer that runs the rest in a task of its own.
fn in_its_own_task(builder: ClientBuilder) -> ClientBuilder {
    builder.layer(|call, next| async move {
        tokio::spawn(next.run(call)).await.unwrap_or(Err(CallError::Cancelled))
    })
}

#[tokio::test(start_paused = true)]
async fn layers_run_from_the_first_to_the_last_and_back() {
    for era in BOTH_ERAS {
        let notes = Notes::default();
        let layered = noting(noting(builder(), &notes, "outer"), &notes, "inner");
        let (client, mut server) = open(layered, era).await;
        assert_eq!(*notes.lock(), [""; 0], "the handshake passes no layer");
        let call = client.call_tool("t", ());
        assert_eq!(*notes.lock(), [""; 0], "nothing runs before it is polled");
        let (result, ()) = tokio::join!(call, async {
            let request = server.expect("tools/call").await;
            server.result(request.id, text("done")).await;
        });
        assert_eq!(result.expect("a result").to_text(), "done");
        let seen = ["outer tools/call", "inner tools/call", "inner result", "outer result"];
        assert_eq!(*notes.lock(), seen, "{era:?}");
    }
}

fn any_result(request: &Request) -> Value {
    match request.method {
        Method::ListTools if value(request.params.as_ref()).get("cursor").is_none() => {
            json!({"tools": [{"name": "a", "inputSchema": {"type": "object"}}], "nextCursor": "2"})
        }
        Method::ListTools => json!({"tools": []}),
        Method::Complete => json!({"completion": {"values": []}}),
        Method::Discover => json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}),
        Method::CallTool => text("done"),
        Method::GetPrompt => json!({"messages": []}),
        Method::ReadResource => json!({"contents": []}),
        _ => json!({}),
    }
}

#[tokio::test(start_paused = true)]
async fn every_request_of_the_client_passes() {
    for era in BOTH_ERAS {
        let notes = Notes::default();
        let (client, server) = open(noting(builder(), &notes, "l"), era).await;
        drop(server.serve(|request| {
            let mut result = any_result(request);
            result["resultType"] = "complete".into();
            Ok(result)
        }));
        client.list_tools().all().await.expect("two pages");
        client.list_tools().page(PageParams::new()).await.expect("a page");
        client.call_tool("t", ()).await.expect("a result");
        client.get_prompt("p", ()).await.expect("a prompt");
        client.read_resource("a:b").await.expect("a resource");
        let reference = Reference::Prompt(PromptReference::new("p"));
        client
            .complete(CompleteParams::new(reference, CompleteArgument::new("a", "")))
            .await
            .expect("a completion");
        client.ping().await.expect("a pong");
        client.send_request("tools/call", Some(raw(&json!({"name": "t"})))).await.expect("a result");
        client.connection().call(Call::new(Method::ListPrompts)).await.expect("a result");
        let ping = if era == Era::Legacy { "ping" } else { "server/discover" };
        let seen: Vec<String> =
            notes.lock().iter().filter(|note| note.contains('/') || *note == "l ping").cloned().collect();
        let expected = [
            "tools/list",
            "tools/list",
            "tools/list",
            "tools/call",
            "prompts/get",
            "resources/read",
            "completion/complete",
            ping,
            "tools/call",
            "prompts/list",
        ];
        assert_eq!(seen, expected.map(|method| format!("l {method}")), "{era:?}");
    }
}

/// Sets a member of `_meta`, as a layer does that passes something along.
fn with_tenant(mut call: Call) -> Call {
    let params = call.params.unwrap_or_else(|| Payload::from_raw(Raw::empty_object()));
    call.params = Some(params.with_meta_member("com.example/tenant", &Raw::string("blue")));
    call
}

#[tokio::test(start_paused = true)]
async fn a_layer_changes_params_and_meta_and_the_session_adds_its_own() {
    for era in BOTH_ERAS {
        let layered = builder().layer(|call, next| next.run(with_tenant(call)));
        let (client, mut server) = open(layered, era).await;
        let (result, request) = tokio::join!(client.call_tool("t", json!({"a": 1})), async {
            let request = server.expect("tools/call").await;
            server.result(request.id.clone(), text("done")).await;
            request
        });
        result.expect("a result");
        let params = value(request.params.as_ref());
        let text = request.params.as_ref().expect("params").raw().as_str().to_owned();
        assert_eq!(text.matches("_meta").count(), 1, "{text}");
        assert_eq!(params["_meta"]["com.example/tenant"], "blue");
        assert_eq!(params["arguments"], json!({"a": 1}));
        assert!(params["_meta"].get("progressToken").is_some(), "{era:?}");
        let (pong, request) = tokio::join!(client.ping(), async {
            let request = server.request().await;
            server.result(request.id.clone(), any_result(&request)).await;
            request
        });
        pong.expect("a pong");
        assert_eq!(value(request.params.as_ref())["_meta"]["com.example/tenant"], "blue", "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_answers_fails_and_changes_results() {
    for era in BOTH_ERAS {
        let layered = builder().layer(|call, next| async move {
            let name =
                call.params.as_ref().and_then(|params| params.name_string()).unwrap_or_default().into_owned();
            match name.as_str() {
                "answer" => Ok(Reply::Complete(raw(&text("answered")))),
                "fail" => Err(CallError::Remote(ErrorObject::invalid_request("not allowed"))),
                "refuse" => Err(CallRefused::Closed.into()),
                _ => match next.run(call).await? {
                    Reply::Complete(_) => Ok(Reply::Complete(raw(&text("changed")))),
                    other => Ok(other),
                },
            }
        });
        let (client, mut server) = open(layered, era).await;
        let call = async |name: &str| client.call_tool(name, ()).await.map(|result| result.to_text());
        assert_eq!(call("answer").await.expect("a result"), "answered");
        let error = call("fail").await.expect_err("an error");
        assert_eq!(error.remote().map(|error| error.message.as_ref()), Some("not allowed"));
        let error = call("refuse").await.expect_err("an error");
        assert_eq!(error, ClientError::Call(CallRefused::Closed.into()));
        let (result, ()) = tokio::join!(call("t"), async {
            // The first message that the server receives.
            let request = server.expect("tools/call").await;
            assert_eq!(value(request.params.as_ref())["name"], "t");
            server.result(request.id, text("done")).await;
        });
        assert_eq!(result.expect("a result"), "changed");
    }
}

#[tokio::test(start_paused = true)]
async fn events_arrive_before_the_result_wherever_the_rest_of_the_layers_runs() {
    for era in BOTH_ERAS {
        for builder in [noting(builder(), &Notes::default(), "l"), in_its_own_task(builder())] {
            let (client, mut server) = open(builder, era).await;
            let mut call = client.call_tool("t", ());
            assert_eq!(call.id(), None);
            let ((seen, result), id) = tokio::join!(
                async {
                    let mut seen = Vec::new();
                    while let Some(event) = call.next_event().await {
                        let CallEvent::Progress(progress) = event else { panic!("{event:?}") };
                        seen.push((call.id(), progress.progress));
                    }
                    (seen, call.await)
                },
                async {
                    let request = server.expect("tools/call").await;
                    let token = value(request.params.as_ref())["_meta"]["progressToken"].clone();
                    let progress = |step: i64| json!({"progressToken": token, "progress": step});
                    server.notify("notifications/progress", progress(1)).await;
                    tokio::time::advance(Duration::from_secs(1)).await;
                    // The last progress and the result are there together.
                    server.notify("notifications/progress", progress(2)).await;
                    server.result(request.id.clone(), text("done")).await;
                    request.id
                }
            );
            assert_eq!(seen, [(Some(id.clone()), 1.0), (Some(id), 2.0)], "{era:?}");
            assert_eq!(result.expect("a result").to_text(), "done");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_is_cancelled_wherever_the_rest_of_the_layers_runs() {
    for era in BOTH_ERAS {
        for builder in [noting(builder(), &Notes::default(), "l"), in_its_own_task(builder())] {
            let (client, mut server) = open(builder, era).await;
            let call = tokio::spawn({
                let client = client.clone();
                async move { client.call_tool("t", ()).await }
            });
            let request = server.expect("tools/call").await;
            call.abort();
            let cancelled = server.notification().await;
            assert_eq!(cancelled.method, Method::Cancelled);
            assert_eq!(value(cancelled.params.as_ref())["requestId"], request.id.as_i64().expect("a number"));
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            assert_eq!(client.connection().in_flight().0, 0, "{era:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_is_dropped_with_its_request_and_its_wait_is_no_part_of_the_timeout() {
    let notes = Notes::default();
    let dropped = notes.clone();
    let layered = builder().layer(move |call, next| {
        let guard = Noted(dropped.clone());
        async move {
            drop(tokio::time::timeout(Duration::from_secs(3600), std::future::pending::<()>()).await);
            let outcome = next.run(call).await;
            drop(guard);
            outcome
        }
    });
    let (client, mut server) = open(layered, Era::Modern).await;
    let before = tokio::time::Instant::now();
    let error = client.call_tool("t", ()).timeout(Duration::from_secs(30)).await.expect_err("no answer");
    assert_eq!(before.elapsed().as_secs(), 3630);
    let after = Duration::from_secs(30);
    assert_eq!(error, CallError::TimedOut { method: Method::CallTool, after, total: false }.into());
    server.expect("tools/call").await;
    assert_eq!(std::mem::take(&mut *notes.lock()), ["dropped"]);

    let mut call = client.call_tool("t", ());
    assert!(scripted::poll_once(&mut call).is_pending());
    drop(call);
    assert_eq!(*notes.lock(), ["dropped"]);
}

struct Noted(Notes);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.lock().push("dropped".to_owned());
    }
}

fn of_stream(id: &RequestId) -> Value {
    json!({"io.modelcontextprotocol/subscriptionId": id.as_i64()})
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_notifications_passes_once_and_ends_when_it_is_dropped() {
    let notes = Notes::default();
    let (client, mut server) = open(noting(builder(), &notes, "l"), Era::Modern).await;
    let filter = SubscriptionFilter::default().with_tools_list_changed(true);
    let (stream, id) = tokio::join!(client.listen(filter), async {
        let request = server.expect("subscriptions/listen").await;
        let id = request.id;
        let acknowledged = json!({"_meta": of_stream(&id), "notifications": {"toolsListChanged": true}});
        server.notify("notifications/subscriptions/acknowledged", acknowledged).await;
        id
    });
    let mut stream = stream.expect("a stream");
    assert_eq!(stream.id(), Some(id.clone()));
    for _ in 0..1026 {
        server.notify("notifications/tools/list_changed", json!({"_meta": of_stream(&id)})).await;
    }
    let (pong, ()) = tokio::join!(client.ping(), async {
        let request = server.request().await;
        server.result(request.id.clone(), any_result(&request)).await;
    });
    pong.expect("so all of them have arrived");
    assert_eq!(stream.dropped(), 2);
    let next = stream.next().await.expect("open").expect("a notification");
    assert_eq!(next.method, Method::ToolListChanged);
    drop(stream);
    assert_eq!(server.notification().await.method, Method::Cancelled);
    assert_eq!(notes.lock()[0], "l subscriptions/listen");
}

#[tokio::test(start_paused = true)]
async fn each_round_of_input_is_a_request_of_its_own_at_2026_07_28() {
    use mcpjoin::proto::types::{ElicitFormParams, ElicitationSchema, Members};
    let ask = async |_: NoArguments, cx: mcpjoin::server::Context| -> Result<String, HandlerError> {
        let question = ElicitFormParams::new("Sure?", ElicitationSchema::new(Members::new()));
        Ok(cx.elicit(question).await?.action.as_str().to_owned())
    };
    let server = Server::builder("s", "1").tool(tool("ask"), ask).build().expect("a server");
    for (era, rounds) in [(Era::Legacy, 1), (Era::Modern, 2)] {
        let notes = Notes::default();
        let (near, far) = Link::memory();
        server.connect(far);
        let builder =
            builder().era(EraChoice::Only(era)).elicitation(|_| async { Ok(ElicitResult::decline()) });
        let client = noting(builder, &notes, "l").connect(near).await.expect("connects");
        assert_eq!(client.call_tool("ask", ()).await.expect("a result").to_text(), "decline");
        assert_eq!(*notes.lock(), ["l tools/call", "l result"].repeat(rounds), "{era:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cached_result_passes_no_layer() {
    let notes = Notes::default();
    let (client, server) = open(noting(builder(), &notes, "l"), Era::Modern).await;
    drop(server.serve(|_| {
        Ok(json!({"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private", "tools": []}))
    }));
    for _ in 0..3 {
        client.list_tools().all().await.expect("a list");
    }
    assert_eq!(*notes.lock(), ["l tools/list", "l result"]);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_client_keeps_its_layers_and_a_layer_knows_the_server() {
    for era in BOTH_ERAS {
        let notes = Notes::default();
        let (started, mut servers) = tokio::sync::mpsc::unbounded_channel();
        let start = move || {
            let (link, server) = Scripted::pair();
            drop(started.send(server));
            std::future::ready(Ok::<_, std::io::Error>(link))
        };
        let seen = notes.clone();
        let layered = builder().era(EraChoice::Only(era)).layer(move |call, next| {
            let version = next.peer().map(|peer| peer.profile.version.clone());
            seen.lock().push(format!("{} {}", call.method, version.expect("it is connected")));
            next.run(call)
        });
        let opened = async |servers: &mut tokio::sync::mpsc::UnboundedReceiver<Scripted>| {
            let mut server = servers.recv().await.expect("a start");
            match era {
                Era::Legacy => server.open_legacy("2025-11-25").await,
                Era::Modern => server.open_modern().await,
            }
            server
        };
        let (restarting, mut server) =
            tokio::join!(layered.restarting(Restart::default(), start), opened(&mut servers));
        let restarting = restarting.expect("connects");
        for run in 1..=2 {
            let client = restarting.client().await.expect("a client");
            let (result, ()) = tokio::join!(client.call_tool("t", ()), async {
                let request = server.expect("tools/call").await;
                server.result(request.id, text("done")).await;
            });
            result.expect("a result");
            if run == 1 {
                drop(server);
                server = opened(&mut servers).await;
            }
        }
        let version = if era == Era::Legacy { "2025-11-25" } else { "2026-07-28" };
        assert_eq!(*notes.lock(), vec![format!("tools/call {version}"); 2]);
    }
}
