//! Tests of tasks at a joined endpoint: clients of both eras in front of targets of both eras.
//!
//! The eras have tasks of two kinds. Where client and target are of different eras there are none, as with one target.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpjoin::client::{ClientBuilder, ClientError, TaskHandle, TaskOutcome};
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{
    ElicitAction, ElicitParams, ElicitResult, SubscriptionFilter, TaskStatus, task::EXTENSION,
};
use mcpjoin::proto::{Era, Method, Notification, Raw, Version, code};
use mcpjoin::server::{Context, HandlerError, NoArguments, ServerBuilder, tool};
use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin::{Client, Link, Server};
use mcpjoin_gateway::{Gateway, JoinedGateway, TargetState};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;
use tokio::time::timeout;

use super::joined::{Target, builder, call, connect, form, until};
use super::{INITIALIZE, INITIALIZED, Raw as PeerOfLines, Servers, modern_request, run};

/// The pairs whose eras have tasks of one kind.
const WITH_TASKS: [(Era, Version); 2] =
    [(Era::Legacy, Version::V2025_11_25), (Era::Modern, Version::V2026_07_28)];
/// The pairs of two kinds.
const WITHOUT_TASKS: [(Era, Version); 2] =
    [(Era::Legacy, Version::V2026_07_28), (Era::Modern, Version::V2025_11_25)];

/// A server whose tool `job` answers with the server's name once `done` is set.
fn with_jobs(name: &'static str, version: &Version, done: &watch::Sender<bool>) -> ServerBuilder {
    let done = done.clone();
    Server::builder(name, "1")
        .versions([version.clone()])
        .subscriptions()
        .page_size(2)
        .tool(tool("job").as_task(), move |_: NoArguments, _| {
            let mut done = done.subscribe();
            async move {
                let _ = done.wait_for(|done| *done).await;
                name
            }
        })
        .tool(tool("asks").as_task(), |_: NoArguments, cx: Context| async move {
            Ok::<_, HandlerError>(cx.elicit(form("Sure?")).await?.action.as_str().to_owned())
        })
}

/// Two targets with the same tools, `a` and `b`, and the gateway that joins them.
struct Two {
    b: Target,
    /// Lets the jobs of both end.
    done: watch::Sender<bool>,
    gateway: JoinedGateway,
}

impl Two {
    fn new(version: &Version) -> Self {
        let done = watch::Sender::new(false);
        let target = |name| Target::new(with_jobs(name, version, &done));
        let (a, b) = (target("a"), target("b"));
        let gateway = Gateway::joined("both", "1").target("a", a.gateway()).target("b", b.gateway()).build();
        Self { b, done, gateway }
    }
}

fn accepts_tasks(era: Era) -> ClientBuilder {
    builder(era).tasks(true)
}

async fn start(client: &Client, tool: &str) -> TaskHandle {
    match client.call_tool(tool, ()).start().await.unwrap() {
        TaskOutcome::Task(task) => task,
        other => panic!("{tool} is no task: {other:?}"),
    }
}

/// The error of a request about a task: its code and its message.
async fn refused(client: &Client, method: &str, id: &str) -> (i64, String) {
    let mut params = json!({ "taskId": id });
    if method == "tasks/update" {
        params["inputResponses"] = json!({});
    }
    let params = Raw::from_value(&params).unwrap();
    let error = client.send_request(method, Some(params)).await.unwrap_err();
    let error = error.remote().unwrap_or_else(|| panic!("{error}"));
    (error.code, error.message.clone())
}

fn failed(error: &ClientError) -> (i64, &str) {
    let error = error.remote().unwrap_or_else(|| panic!("{error}"));
    (error.code, &error.message)
}

#[test]
fn a_task_runs_at_its_own_target_and_gives_its_result() {
    run(async {
        for (era, version) in WITH_TASKS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, accepts_tasks(era)).await;
            let (a, b) = (start(&client, "a__job").await, start(&client, "b__job").await);
            assert_eq!(a.created().unwrap().status, TaskStatus::Working, "{era:?}");
            assert_eq!(b.created().unwrap().task_id, b.id());
            // By its id alone, as the client has stored it.
            let stored = client.task(b.id());
            assert_eq!(stored.status().await.unwrap().status, TaskStatus::Working);
            two.done.send_replace(true);
            assert_eq!(a.result().await.unwrap().to_text(), "a");
            assert_eq!(stored.result().await.unwrap().to_text(), "b", "{era:?}");
            assert_eq!(stored.status().await.unwrap().task_id, b.id());
            // A client that waits gets the result as that of any other tool.
            assert_eq!(call(&client, "b__job").await, "b");
            client.close().await;
        }
    });
}

#[test]
fn a_task_is_cancelled_at_its_own_target_alone() {
    run(async {
        for (era, version) in WITH_TASKS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, accepts_tasks(era)).await;
            let (a, b) = (start(&client, "a__job").await, start(&client, "b__job").await);
            b.cancel().await.unwrap();
            assert_eq!(b.status().await.unwrap().status, TaskStatus::Cancelled, "{era:?}");
            assert_eq!(a.status().await.unwrap().status, TaskStatus::Working);
            two.done.send_replace(true);
            assert_eq!(a.result().await.unwrap().to_text(), "a");
            assert!(matches!(b.result().await, Err(ClientError::TaskCancelled { .. })));
            client.close().await;
        }
    });
}

#[test]
fn a_task_asks_its_client_and_the_question_names_the_target() {
    run(async {
        for (era, version) in WITH_TASKS {
            let two = Two::new(&version);
            let asked = Arc::new(Mutex::new(Vec::new()));
            let messages = asked.clone();
            let client = accepts_tasks(era).elicitation(move |question| {
                if let ElicitParams::Form(form) = question {
                    messages.lock().unwrap().push(form.message);
                }
                async { Ok(ElicitResult::new(ElicitAction::Decline)) }
            });
            let client = connect(&two.gateway, client).await;
            let task = start(&client, "b__asks").await;
            assert_eq!(task.result().await.unwrap().to_text(), "decline", "{era:?}");
            assert_eq!(*asked.lock().unwrap(), ["[b] Sure?"]);
            client.close().await;
        }
    });
}

#[test]
fn the_status_of_a_task_is_sent_with_the_id_that_the_client_has() {
    run(async {
        for (era, version) in WITH_TASKS {
            let two = Two::new(&version);
            let (told, mut received) = unbounded_channel();
            let tell = move |notification: Notification| {
                if matches!(notification.method, Method::TaskStatus | Method::Tasks) {
                    let params: Value = notification.params.unwrap().raw().decode().unwrap();
                    let _ = told.send((params["taskId"].clone(), params["status"].clone()));
                }
            };
            let client = accepts_tasks(era).on_notification(tell.clone());
            let client = connect(&two.gateway, client).await;
            let task = start(&client, "b__job").await;
            let other = start(&client, "a__job").await;
            let mut wanted = BTreeSet::from([task.id().to_owned()]);
            if era == Era::Legacy {
                wanted.insert(other.id().to_owned());
                two.done.send_replace(true);
            } else {
                // A modern client chooses the tasks. The id of no task is left out.
                let ids = vec![task.id().to_owned(), "x".to_owned()];
                let filter = SubscriptionFilter::default().with_task_ids(ids);
                let mut stream = client.listen(filter).await.unwrap();
                assert_eq!(stream.acknowledged().task_ids, Some(vec![task.id().to_owned()]));
                two.done.send_replace(true);
                while let Ok(Some(Ok(change))) = timeout(Duration::from_secs(5), stream.next()).await {
                    tell(change);
                }
            }
            let mut told = BTreeSet::new();
            while let Ok(Some((id, status))) = timeout(Duration::from_secs(5), received.recv()).await {
                if status == "completed" {
                    told.insert(id.as_str().unwrap().to_owned());
                }
            }
            assert_eq!(told, wanted, "{era:?}");
            client.close().await;
        }
    });
}

#[test]
fn the_tasks_of_all_targets_are_one_list_with_pages() {
    run(async {
        let two = Two::new(&Version::V2025_11_25);
        let client = connect(&two.gateway, accepts_tasks(Era::Legacy)).await;
        let other = connect(&two.gateway, accepts_tasks(Era::Legacy)).await;
        let mut started = Vec::new();
        for tool in ["a__job", "b__job", "a__job", "b__job", "a__job"] {
            started.push(start(&client, tool).await.id().to_owned());
        }
        let listed = client.list_tasks().all().await.unwrap();
        let ids: Vec<String> = listed.into_iter().map(|task| task.task_id).collect();
        let (listed, wanted): (BTreeSet<_>, BTreeSet<_>) = (ids.iter().collect(), started.iter().collect());
        assert_eq!((ids.len(), listed), (5, wanted));
        assert!(other.list_tasks().all().await.unwrap().is_empty());
        let params = Raw::from_value(&json!({ "cursor": "x" })).unwrap();
        let error = client.send_request("tasks/list", Some(params)).await.unwrap_err();
        assert_eq!(failed(&error).0, code::INVALID_PARAMS);
        // A dead target costs its own tasks alone.
        two.b.dies();
        until(|| !two.gateway.targets()[1].state.is_ready()).await;
        assert_eq!(client.list_tasks().all().await.unwrap().len(), 3);
        client.close().await;
    });
}

#[test]
fn the_task_of_another_client_is_as_unknown_as_one_that_does_not_exist() {
    run(async {
        for (era, version) in WITH_TASKS {
            let two = Two::new(&version);
            let one = connect(&two.gateway, accepts_tasks(era)).await;
            let other = connect(&two.gateway, accepts_tasks(era)).await;
            let task = start(&one, "b__job").await;
            let methods = match era {
                Era::Legacy => ["tasks/get", "tasks/result", "tasks/cancel"],
                Era::Modern => ["tasks/get", "tasks/update", "tasks/cancel"],
            };
            for method in methods {
                let foreign = refused(&other, method, task.id()).await;
                assert_eq!(foreign.0, code::INVALID_PARAMS, "{era:?} {method}: {foreign:?}");
                assert_eq!(foreign, refused(&other, method, "x").await, "{era:?} {method}");
            }
            assert_eq!(task.status().await.unwrap().status, TaskStatus::Working, "{era:?}");
            one.close().await;
            other.close().await;
        }
    });
}

#[test]
fn a_task_whose_target_dies_ends_with_an_error_that_names_the_target() {
    run(async {
        for (era, version) in WITH_TASKS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, accepts_tasks(era)).await;
            let (a, b) = (start(&client, "a__job").await, start(&client, "b__job").await);
            let mut result = b.result();
            assert!(timeout(Duration::from_secs(1), &mut result).await.is_err(), "it runs");
            two.b.dies();
            let error = timeout(Duration::from_secs(60), result).await.unwrap().unwrap_err();
            assert!(error.to_string().contains("b: "), "{era:?}: {error}");
            until(|| !two.gateway.targets()[1].state.is_ready()).await;
            let error = b.status().await.unwrap_err();
            assert!(failed(&error).1.starts_with("b: no server is running"), "{era:?}: {error}");
            assert_eq!(a.status().await.unwrap().status, TaskStatus::Working, "{era:?}");
            client.close().await;
        }
    });
}

#[test]
fn the_next_server_of_a_target_does_not_know_the_task_and_its_error_names_the_target() {
    run(async {
        for (era, version) in WITH_TASKS {
            let done = watch::Sender::new(false);
            // Each start is a server of its own, as a program is.
            let servers = Arc::new(Mutex::new(Vec::new()));
            let (started, version) = (servers.clone(), version.clone());
            let target = Gateway::builder(move || {
                let server = with_jobs("b", &version, &done).build().unwrap();
                let (near, far) = Link::memory();
                started.lock().unwrap().push((server.connect(far), server));
                std::future::ready(Ok::<_, std::io::Error>(near))
            });
            let gateway = Gateway::joined("both", "1").target("b", target).build();
            let client = connect(&gateway, accepts_tasks(era)).await;
            let task = start(&client, "b__job").await;
            servers.lock().unwrap()[0].0.close();
            until(|| {
                servers.lock().unwrap().len() == 2 && gateway.targets()[0].state == TargetState::Connected
            })
            .await;
            let error = task.status().await.unwrap_err();
            let (code, message) = failed(&error);
            assert!(
                code == code::INVALID_PARAMS && message.starts_with("b: unknown task"),
                "{era:?}: {error}"
            );
            client.close().await;
        }
    });
}

#[test]
fn tasks_are_declared_if_one_target_has_them() {
    run(async {
        for (era, version) in WITH_TASKS {
            for has_tasks in [true, false] {
                let done = watch::Sender::new(true);
                let plain = Target::new(
                    Server::builder("a", "1")
                        .versions([version.clone()])
                        .tool(tool("who"), |_: NoArguments, _| async { "a" }),
                );
                let other = if has_tasks { with_jobs("b", &version, &done) } else { plain_server(&version) };
                let gateway = Gateway::joined("both", "1")
                    .target("a", plain.gateway())
                    .target("b", Target::new(other).gateway())
                    .build();
                let client = connect(&gateway, accepts_tasks(era)).await;
                let peer = client.peer();
                let declared = peer.server_capabilities().unwrap();
                let tasks = declared.tasks.as_ref();
                let can_call = tasks.is_some_and(|tasks| tasks.covers(&Method::CallTool));
                let can_list = tasks.is_some_and(|tasks| tasks.list.is_some() && tasks.cancel.is_some());
                let extension = declared.extensions.as_ref().is_some_and(|all| all.contains_key(EXTENSION));
                let (core, extends) = (era == Era::Legacy && has_tasks, era == Era::Modern && has_tasks);
                assert_eq!((can_call, can_list, extension), (core, core, extends), "{era:?} {has_tasks}");
                client.close().await;
            }
        }
    });
}

#[test]
fn over_http_a_task_belongs_to_its_principal() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = async {
        for (era, version) in WITH_TASKS {
            let two = Two::new(&version);
            let options = HttpOptions::new().principal(|head| {
                head.headers.get("x-user").and_then(|user| user.to_str().ok()).map(ToOwned::to_owned)
            });
            let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
            let (url, gateway) = (listener.url(), two.gateway.clone());
            let serving = tokio::spawn(async move {
                gateway.serve_http(listener, options, std::future::pending()).await;
            });
            let of = |user: &str| {
                let link = Link::http(&url).header("x-user", user).build().unwrap();
                accepts_tasks(era).connect(link)
            };
            let (alice, bob) = (of("alice").await.unwrap(), of("bob").await.unwrap());
            let task = start(&alice, "b__job").await;
            let foreign = refused(&bob, "tasks/get", task.id()).await;
            assert_eq!(foreign, refused(&bob, "tasks/get", "x").await, "{era:?}");
            assert_eq!(refused(&bob, "tasks/cancel", task.id()).await.0, code::INVALID_PARAMS, "{era:?}");
            if era == Era::Modern {
                // The same server answers each connection of its principal.
                let again = of("alice").await.unwrap();
                let found = again.task(task.id()).status().await.unwrap();
                assert_eq!(found.status, TaskStatus::Working);
                again.close().await;
            }
            two.done.send_replace(true);
            assert_eq!(task.result().await.unwrap().to_text(), "b", "{era:?}");
            alice.close().await;
            bob.close().await;
            two.gateway.close().await;
            serving.abort();
        }
    };
    runtime.block_on(async {
        timeout(Duration::from_secs(60), test).await.expect("the test hangs");
    });
}

#[test]
fn beside_a_target_of_its_own_era_one_of_the_other_era_answers_without_tasks() {
    run(async {
        for (era, version) in WITH_TASKS {
            let done = watch::Sender::new(true);
            let other = if era == Era::Legacy { Version::V2026_07_28 } else { Version::V2025_11_25 };
            let own = Target::new(with_jobs("own", &version, &done));
            let other = Target::new(with_jobs("other", &other, &done));
            let gateway = Gateway::joined("both", "1")
                .target("other", other.gateway())
                .target("own", own.gateway())
                .build();
            let client = connect(&gateway, accepts_tasks(era)).await;
            let task = start(&client, "own__job").await;
            assert_eq!(task.result().await.unwrap().to_text(), "own", "{era:?}");
            let plain = client.call_tool("other__job", ()).start().await.unwrap();
            let TaskOutcome::Result(result) = plain else { panic!("{era:?}: {plain:?}") };
            assert!(result.as_str().contains("\"other\""), "{era:?}: {result}");
            if era == Era::Legacy {
                assert_eq!(client.list_tasks().all().await.unwrap().len(), 1);
            }
            client.close().await;
        }
    });
}

fn plain_server(version: &Version) -> ServerBuilder {
    Server::builder("b", "1").versions([version.clone()]).tool(tool("who"), |_: NoArguments, _| async { "b" })
}

#[test]
fn between_two_eras_the_call_takes_longer_and_there_is_no_task() {
    run(async {
        for (era, version) in WITHOUT_TASKS {
            let two = Two::new(&version);
            let client = connect(&two.gateway, accepts_tasks(era)).await;
            let peer = client.peer();
            let declared = peer.server_capabilities().unwrap();
            assert!(declared.tasks.is_none(), "{era:?}");
            assert!(declared.extensions.as_ref().is_none_or(|all| !all.contains_key(EXTENSION)), "{era:?}");
            two.done.send_replace(true);
            assert_eq!(call(&client, "b__job").await, "b", "{era:?}");
            assert_eq!(refused(&client, "tasks/get", "x").await.0, code::INVALID_PARAMS, "{era:?}");
            client.close().await;
        }
    });
}

#[test]
fn methods_and_clients_without_tasks_are_refused_as_a_server_refuses_them() {
    run(async {
        let two = Two::new(&Version::V2026_07_28);
        let (link, mut client) = PeerOfLines::pair();
        let gateway = two.gateway.clone();
        tokio::spawn(async move { gateway.serve(link).await });
        let listens = r#""notifications":{"taskIds":["x"]},"#;
        for (method, members, wanted) in [
            ("tasks/get", r#""taskId":"x","#, code::MISSING_REQUIRED_CLIENT_CAPABILITY),
            ("tasks/cancel", r#""taskId":"x","#, code::MISSING_REQUIRED_CLIENT_CAPABILITY),
            ("tasks/update", r#""taskId":"x","#, code::MISSING_REQUIRED_CLIENT_CAPABILITY),
            ("subscriptions/listen", listens, code::MISSING_REQUIRED_CLIENT_CAPABILITY),
            ("tasks/list", "", code::METHOD_NOT_FOUND),
            ("tasks/result", r#""taskId":"x","#, code::METHOD_NOT_FOUND),
        ] {
            client.say(&modern_request("1", method, members, "")).await;
            let reply = client.value().await;
            assert_eq!(reply["error"]["code"], wanted, "{method}: {reply}");
        }
        let two = Two::new(&Version::V2025_06_18);
        let (link, mut client) = PeerOfLines::pair();
        let gateway = two.gateway.clone();
        tokio::spawn(async move { gateway.serve(link).await });
        client.say(INITIALIZE).await;
        let opened = client.value().await;
        assert_eq!(opened["result"]["capabilities"]["tasks"], Value::Null, "{opened}");
        client.say(INITIALIZED).await;
        for method in ["tasks/get", "tasks/cancel", "tasks/result", "tasks/list"] {
            let params = r#"{"taskId":"x"}"#;
            client.say(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#)).await;
            let reply = client.value().await;
            assert_eq!(reply["error"]["code"], code::METHOD_NOT_FOUND, "{method}: {reply}");
        }
    });
}

/// A legacy client that has tasks itself, in front of two scripted servers, `a` and `b`.
async fn with_tasks_of_client() -> (JoinedGateway, PeerOfLines, PeerOfLines, PeerOfLines) {
    let ((mut of_a, start_a), (mut of_b, start_b)) = (Servers::set(), Servers::set());
    let legacy = EraChoice::Only(Era::Legacy);
    let gateway = Gateway::joined("both", "1")
        .target("a", Gateway::builder(start_a).era(legacy))
        .target("b", Gateway::builder(start_b).era(legacy))
        .build();
    let (link, mut client) = PeerOfLines::pair();
    let served = gateway.clone();
    tokio::spawn(async move { served.serve(link).await });
    let tasks = json!({ "list": {}, "cancel": {}, "requests": { "elicitation": { "create": {} } } });
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {}, "tasks": tasks },
        "clientInfo": { "name": "c", "version": "1" },
    });
    let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
    client.say(&initialize.to_string()).await;
    let (mut a, mut b) = (of_a.next().await, of_b.next().await);
    for server in [&mut a, &mut b] {
        let id = server.value().await["id"].clone();
        let result = json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "s", "version": "1" },
        });
        server.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()).await;
        server.expects(INITIALIZED).await;
    }
    client.value().await;
    client.say(INITIALIZED).await;
    (gateway, client, a, b)
}

#[test]
fn the_task_of_a_client_is_known_to_the_target_alone_whose_question_created_it() {
    run(async {
        let (_gateway, mut client, mut a, mut b) = with_tasks_of_client().await;
        let task = json!({
            "taskId": "T", "status": "working", "ttl": 60_000,
            "createdAt": "2026-11-22T08:00:00Z", "lastUpdatedAt": "2026-11-22T08:00:00Z",
        });
        let asks = async |server: &mut PeerOfLines, method: &str, params: Value| {
            let request = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
            server.say(&request.to_string()).await;
        };
        let answer = async |client: &mut PeerOfLines, method: &str, result: Value| {
            let asked = client.value().await;
            assert_eq!(asked["method"], method, "{asked}");
            let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
            client.say(&answer.to_string()).await;
        };
        let question = json!({
            "message": "Password?", "requestedSchema": { "type": "object", "properties": {} },
            "task": { "ttl": 60_000 },
        });
        asks(&mut a, "elicitation/create", question).await;
        answer(&mut client, "elicitation/create", json!({ "task": task })).await;
        assert_eq!(a.value().await["result"]["task"]["taskId"], "T");
        // The other target gets no answer of the user, and learns of no task.
        for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
            asks(&mut b, method, json!({ "taskId": "T" })).await;
            let refused = b.value().await;
            assert_eq!(refused["error"]["code"], code::INVALID_PARAMS, "{method}: {refused}");
        }
        asks(&mut b, "tasks/list", json!({})).await;
        answer(&mut client, "tasks/list", json!({ "tasks": [task] })).await;
        assert_eq!(b.value().await["result"]["tasks"], json!([]));
        // Its own one does.
        let status = json!({ "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task });
        client.say(&status.to_string()).await;
        assert_eq!(a.value().await["params"]["taskId"], "T");
        asks(&mut a, "tasks/list", json!({})).await;
        answer(&mut client, "tasks/list", json!({ "tasks": [task] })).await;
        assert_eq!(a.value().await["result"]["tasks"], json!([task]));
        asks(&mut a, "tasks/result", json!({ "taskId": "T" })).await;
        answer(&mut client, "tasks/result", json!({ "action": "accept", "content": {} })).await;
        assert_eq!(a.value().await["result"]["action"], "accept");
        // The status was told to `a` alone.
        asks(&mut b, "ping", json!({})).await;
        assert_eq!(b.value().await["id"], "ping");
    });
}
