//! Tests of tasks over HTTP: which client owns a task, and on which stream a task sends its requests. The rest of their
//! behaviour is the same over every link (`tests/server/tasks_core.rs`).

use http::Method;
use http::request::Parts;
use mcpjoin::Server;
use mcpjoin::proto::types::{ElicitFormParams, ElicitationSchema, Members};
use mcpjoin::server::{Context, HandlerError, NoArguments, tool};
use mcpjoin::transport::HttpOptions;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{LEGACY, Peer, initialize, run, settle, text};

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn bearer(parts: &Parts) -> Option<String> {
    parts.headers.get("authorization").map(|value| value.to_str().unwrap().to_owned())
}

struct Counted(watch::Sender<i32>);

impl Counted {
    fn one_more(count: &watch::Sender<i32>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// The service, and the number of its running tasks.
fn peer(options: HttpOptions) -> (Peer, watch::Receiver<i32>) {
    let (count, running) = watch::channel(0);
    let server = Server::builder("s", "1")
        .tool(tool("never").as_task(), move |_: NoArguments, _| {
            let counted = Counted::one_more(&count);
            async move {
                let _counted = counted;
                std::future::pending::<()>().await;
            }
        })
        .tool(tool("asks").as_task(), |_: NoArguments, cx: Context| async move {
            let question = ElicitFormParams::new("Go on?", ElicitationSchema::new(Members::new()));
            let answer = cx.elicit(question).await?;
            Ok::<_, HandlerError>(answer.action.as_str().to_owned())
        })
        .build()
        .unwrap();
    (Peer::new(&server, options), running)
}

fn request(id: i64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// The response to a request that needs no stream.
async fn ask(session: &Peer, method: &str, params: Value) -> Value {
    session.post(request(1, method, params)).await.json().await
}

async fn begin(session: &Peer, tool: &str) -> Value {
    let answer = ask(session, "tools/call", json!({ "name": tool, "task": {} })).await;
    assert_eq!(answer["result"]["task"]["status"], "working", "{answer}");
    answer["result"]["task"]["taskId"].clone()
}

async fn is_unknown(session: &Peer, task: &Value) {
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let answer = ask(session, method, json!({ "taskId": task })).await;
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    assert_eq!(ask(session, "tasks/list", json!({})).await["result"]["tasks"], json!([]));
}

#[test]
fn a_task_is_seen_in_no_other_session() {
    run(async {
        let (peer, mut running) = peer(HttpOptions::new());
        let (mine, other) = (peer.open(LEGACY).await, peer.open(LEGACY).await);
        let task = begin(&mine, "never").await;
        is_unknown(&other, &task).await;
        let shown = ask(&mine, "tasks/get", json!({ "taskId": task })).await;
        assert_eq!(shown["result"]["status"], "working");
        running.wait_for(|count| *count == 1).await.unwrap();
        // When the session ends, its tasks end too, because no client can ask for them any more.
        assert_eq!(mine.send(Method::DELETE, "/mcp", "").await.status, 204);
        running.wait_for(|count| *count == 0).await.unwrap();
    });
}

#[test]
fn a_task_belongs_to_its_principal_in_every_session() {
    run(async {
        let (peer, running) = peer(HttpOptions::new().principal(bearer));
        let ada = peer.with("authorization", "Bearer ada");
        let first = ada.open(LEGACY).await;
        let task = begin(&first, "asks").await;
        let never = begin(&first, "never").await;
        for other in [peer.with("authorization", "Bearer bob"), peer.clone()] {
            is_unknown(&other.open(LEGACY).await, &task).await;
        }
        assert_eq!(first.send(Method::DELETE, "/mcp", "").await.status, 204);
        let second = ada.open(LEGACY).await;
        assert_eq!(*running.borrow(), 1);
        let listed = ask(&second, "tasks/list", json!({})).await["result"]["tasks"].clone();
        let ids: Vec<_> = listed.as_array().unwrap().iter().map(|task| task["taskId"].clone()).collect();
        assert_eq!(ids, [task.clone(), never]);
        let mut result = second.post(request(2, "tasks/result", json!({ "taskId": task }))).await;
        let question = result.message().await.unwrap();
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "action": "decline" } });
        assert_eq!(second.post(answer).await.status, 202);
        assert_eq!(text(&result.message().await.unwrap()), "decline");
    });
}

#[test]
fn what_a_task_asks_goes_out_on_the_stream_of_its_result() {
    run(async {
        let (peer, _) = peer(HttpOptions::new());
        let session = peer.open(LEGACY).await;
        let mut standing = session.get().await;
        let task = begin(&session, "asks").await;
        settle().await;
        // A client without an open stream receives no request: a poll is answered by JSON.
        let shown = ask(&session, "tasks/get", json!({ "taskId": task })).await;
        assert_eq!(shown["result"]["status"], "input_required");
        let mut left = session.post(request(2, "tasks/result", json!({ "taskId": task }))).await;
        let question = left.message().await.unwrap();
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["_meta"], json!({ RELATED: { "taskId": task } }));
        // The client closes the stream without a cancellation, and asks for the result again.
        drop(left);
        let mut result = session.post(request(3, "tasks/result", json!({ "taskId": task }))).await;
        let again = result.message().await.unwrap();
        assert_eq!((&again["params"], again["id"] == question["id"]), (&question["params"], false));
        let answer = json!({ "jsonrpc": "2.0", "id": again["id"], "result": { "action": "decline" } });
        assert_eq!(session.post(answer).await.status, 202);
        let last = result.message().await.unwrap();
        assert_eq!(text(&last), "decline");
        assert_eq!(last["result"]["_meta"], json!({ RELATED: { "taskId": task } }));
        assert_eq!(result.message().await, None);
        // Notifications that belong to no request are sent on the session's own stream.
        let mut told = Vec::new();
        while told.last() != Some(&json!("completed")) {
            let message = standing.message().await.unwrap();
            match message["method"].as_str() {
                Some("notifications/tasks/status") => told.push(message["params"]["status"].clone()),
                Some("notifications/cancelled") => {
                    assert_eq!(message["params"]["requestId"], question["id"]);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(told[0], "input_required");
    });
}

#[test]
fn without_sessions_there_are_no_tasks_that_everybody_could_list() {
    run(async {
        let (peer, _) = peer(HttpOptions::new().stateless(true));
        let opened = peer.post(initialize(LEGACY, json!({}))).await.json().await;
        assert_eq!(opened["result"]["capabilities"], json!({ "tools": {} }));
        let peer = peer.with("mcp-protocol-version", LEGACY);
        assert_eq!(ask(&peer, "tasks/list", json!({})).await["error"]["code"], -32601);
        // The server ignores the task parameter.
        let answer = ask(&peer, "tools/call", json!({ "name": "asks", "task": {} })).await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
    });
}

#[test]
fn a_task_of_the_extension_belongs_to_its_principal_too() {
    run(async {
        let (peer, _) = peer(HttpOptions::new().principal(bearer));
        let ask = async |peer: &Peer, method: &str, name: &Value, params: Value| {
            let mut params = params;
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {
                    "extensions": { "io.modelcontextprotocol/tasks": {} }
                }
            });
            let peer = peer.modern(method, name.as_str().unwrap());
            peer.post(request(1, method, params)).await.json().await
        };
        let ada = peer.with("authorization", "Bearer ada");
        let begun = ask(&ada, "tools/call", &json!("never"), json!({ "name": "never" })).await;
        let task = begun["result"]["taskId"].clone();
        for other in [peer.with("authorization", "Bearer bob"), peer.clone()] {
            for method in ["tasks/get", "tasks/cancel"] {
                let answer = ask(&other, method, &task, json!({ "taskId": task })).await;
                assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
            }
        }
        let shown = ask(&ada, "tasks/get", &task, json!({ "taskId": task })).await;
        assert_eq!(shown["result"]["status"], "working");
        // A legacy session cannot read a task of the modern era.
        is_unknown(&ada.open(LEGACY).await, &task).await;
    });
}

#[test]
fn a_task_of_the_extension_is_visible_to_its_principal_alone() {
    run(async {
        let (peer, _) = peer(HttpOptions::new().principal(bearer));
        let about = |id: i64, method: &str, mut params: Value| {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {
                    "extensions": { "io.modelcontextprotocol/tasks": {} }
                }
            });
            request(id, method, params)
        };
        let begin = async |peer: &Peer| {
            let call = about(1, "tools/call", json!({ "name": "never" }));
            peer.modern("tools/call", "never").post(call).await.json().await["result"]["taskId"].clone()
        };
        let cancel = async |peer: &Peer, task: &Value| {
            let call = about(1, "tasks/cancel", json!({ "taskId": task }));
            let answer = peer.modern("tasks/cancel", task.as_str().unwrap()).post(call).await.json().await;
            assert!(answer["result"].is_object(), "{answer}");
        };
        let (ada, bob) = (peer.with("authorization", "Bearer ada"), peer.with("authorization", "Bearer bob"));
        let (hers, his, later) = (begin(&ada).await, begin(&bob).await, begin(&bob).await);
        let listen = |id: i64, tasks: &[&Value]| {
            about(id, "subscriptions/listen", json!({ "notifications": { "taskIds": tasks } }))
        };
        let mut she = ada.modern("subscriptions/listen", "").post(listen(2, &[&hers])).await;
        let mut he = bob.modern("subscriptions/listen", "").post(listen(3, &[&hers, &his, &later])).await;
        for stream in [&mut she, &mut he] {
            let first = stream.message().await.unwrap();
            assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
        }
        cancel(&ada, &hers).await;
        assert_eq!(she.message().await.unwrap()["params"]["taskId"], hers);
        // A notification of her tasks to Bob would arrive before the last one of his own.
        for task in [&his, &later] {
            cancel(&bob, task).await;
            assert_eq!(he.message().await.unwrap()["params"]["taskId"], *task);
        }
    });
}

/// Eight calls whose parameters are 64 KiB less than the share of one client, in the protocol of each era.
#[test]
fn a_task_that_runs_counts_the_head_of_its_request_among_the_bytes_of_its_client() {
    const PARAMS: usize = 4 * 1024 * 1024 - 8 * 1024;
    run(async {
        for (is_modern, head, accepted) in
            [(false, 0, 8), (false, 50 * 1024, 7), (true, 0, 8), (true, 50 * 1024, 7)]
        {
            let (peer, _) = peer(HttpOptions::new().principal(bearer));
            let mut ada = peer.with("authorization", "Bearer ada");
            if !is_modern {
                ada = ada.open(LEGACY).await;
            }
            if head > 0 {
                ada = ada.with("x-large", &"h".repeat(head));
            }
            let mut begun = 0;
            for _ in 0..8 {
                let mut params = json!({ "name": "never", "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {
                        "extensions": { "io.modelcontextprotocol/tasks": {} }
                    }
                } });
                if !is_modern {
                    params = json!({ "name": "never", "task": {} });
                }
                let rest = PARAMS - params.to_string().len() - r#","x":"""#.len();
                params["x"] = "x".repeat(rest).into();
                let call = request(1, "tools/call", params);
                let sender = if is_modern { ada.modern("tools/call", "never") } else { ada.clone() };
                let answer = sender.post(call).await.json().await;
                begun += usize::from(answer["error"].is_null());
            }
            assert_eq!(begun, accepted, "modern: {is_modern}, {head} bytes of headers");
        }
    });
}
