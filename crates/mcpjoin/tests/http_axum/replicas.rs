//! Tests of two replicas of one server, each an application with a listener of its own, behind a proxy that gives each
//! request to the next replica. Modern and without sessions, as `HttpOptions::stateless` describes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use futures_util::future::join_all;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use mcpjoin::client::{ClientBuilder, ClientError, TaskHandle, TaskOutcome};
use mcpjoin::connection::CallEvent;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{ElicitParams, ElicitResult, TaskStatus};
use mcpjoin::proto::{Era, ErrorObject, Payload, Raw};
use mcpjoin::server::{Context, HandlerError, NoArguments, ServerBuilder, StateKey, tool, with};
use mcpjoin::transport::HttpOptions;
use mcpjoin::{Client, Link, Server};
use serde_json::json;
use tokio::sync::{Semaphore, oneshot};

use crate::{Application, run};

/// The header by which a client chooses its replica, where the proxy is not to take turns: `0` or `1`.
const PINNED: &str = "x-replica";

/// The header with the principal of a request.
const USER: &str = "x-user";

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Yes {
    yes: bool,
}

/// Asks twice, and says which replicas have asked and which one has ended the call.
async fn ask(number: usize, cx: Context) -> Result<String, HandlerError> {
    let mut said = Vec::new();
    for place in ["first", "second"] {
        let answer = cx.elicit_as::<Yes>(format!("{place} question of replica {number}")).await?;
        said.push(if answer.is_some_and(|answer| answer.yes) { "yes" } else { "no" });
    }
    Ok(format!("{}, says replica {number}", said.join(" ")))
}

async fn progress(number: usize, cx: Context) -> String {
    for step in 1..=3 {
        cx.progress(f64::from(step), Some(3.0), Some(&format!("step of replica {number}")));
        tokio::task::yield_now().await;
    }
    number.to_string()
}

/// The addresses of all replicas, known when they run.
type Addresses = Arc<OnceLock<[SocketAddr; 2]>>;

/// Sends a request to the replica of this name, with the credentials of the caller.
async fn forward(
    owner: &str,
    addresses: &Addresses,
    request: mcpjoin::proto::Request,
    cx: &Context,
) -> Result<Raw, ErrorObject> {
    let known = owner.parse().ok().and_then(|number: usize| addresses.get()?.get(number));
    let address = known.ok_or_else(|| ErrorObject::internal(format!("there is no replica `{owner}`")))?;
    let failed = |error: &dyn std::fmt::Display| {
        ErrorObject::internal(format!("replica `{owner}` at {address} did not answer: {error}"))
    };
    let mut link = Link::http(format!("http://{address}/mcp"));
    if let Some(user) = cx.http().and_then(|parts| parts.headers.get(USER)) {
        link = link.header(USER, user.to_str().unwrap());
    }
    let builder = Client::builder("replica", "1").era(EraChoice::Only(Era::Modern)).tasks(true);
    let client = builder.connect(link.build().unwrap()).await.map_err(|error| failed(&error))?;
    let params = request.params.map(Payload::into_raw);
    let result = client.send_request(request.method.as_str(), params).await;
    result.map_err(|error| error.remote().cloned().unwrap_or_else(|| failed(&error)))
}

/// A server with a task that asks, and with the way to the other replicas.
fn forwarding(builder: ServerBuilder, number: usize, name: &str, addresses: &Addresses) -> ServerBuilder {
    let addresses = addresses.clone();
    builder.tool(tool("asking").as_task(), move |_: NoArguments, cx| ask(number, cx)).replica(
        name,
        move |owner: String, request, cx: Context| {
            let addresses = addresses.clone();
            async move { forward(&owner, &addresses, request, &cx).await }
        },
    )
}

/// A replica. All are built alike, but each knows its number. Its tasks end when there is a permit.
fn replica(
    number: usize,
    key: Option<StateKey>,
    permits: &Arc<Semaphore>,
    change: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> Router {
    let mut builder = Server::builder("replica", "1")
        .tool(tool("ask"), move |_: NoArguments, cx| ask(number, cx))
        .tool(tool("progress"), move |_: NoArguments, cx| progress(number, cx))
        .tool(
            tool("task").as_task(),
            with(permits, move |permits: Arc<Semaphore>, _: NoArguments, _| async move {
                permits.acquire().await.map_err(HandlerError::new)?.forget();
                Ok::<_, HandlerError>(format!("done by replica {number}"))
            }),
        );
    if let Some(key) = key {
        builder = builder.state_key(key);
    }
    let options = HttpOptions::new()
        .stateless(true)
        .principal(|parts| parts.headers.get(USER).and_then(|user| user.to_str().ok()).map(str::to_owned));
    let service = change(builder).build().unwrap().http(options);
    Router::new().route_service("/mcp", service)
}

/// A reverse proxy that gives each request to the next replica, or to the one that its client is pinned to.
#[derive(Clone)]
struct Proxy {
    replicas: [SocketAddr; 2],
    http: HttpClient<HttpConnector, Body>,
    /// The method of each message, and the replica that got it.
    seen: Arc<Mutex<Vec<(String, usize)>>>,
    turn: Arc<Mutex<usize>>,
}

impl Proxy {
    fn new(replicas: [SocketAddr; 2]) -> Self {
        let http = HttpClient::builder(TokioExecutor::new()).build_http();
        Self { replicas, http, seen: Arc::default(), turn: Arc::default() }
    }

    /// The replica for a request, which is noted.
    fn replica_for(&self, request: &Request) -> SocketAddr {
        let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap());
        let replica = text(PINNED).map_or_else(
            || {
                let mut turn = self.turn.lock().unwrap();
                *turn += 1;
                *turn % 2
            },
            |pinned| pinned.parse().unwrap(),
        );
        self.seen.lock().unwrap().push((text("mcp-method").unwrap_or_default().to_owned(), replica));
        self.replicas[replica]
    }

    async fn forward(self, mut request: Request) -> Response {
        let replica = self.replica_for(&request);
        *request.uri_mut() = format!("http://{replica}/mcp").parse().unwrap();
        match self.http.request(request).await {
            // The body is passed on while it arrives.
            Ok(response) => response.map(Body::new),
            Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
        }
    }

    /// The replicas that have got the requests of a method so far, in order.
    fn to(&self, method: &str) -> Vec<usize> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(seen, _)| seen == method).map(|(_, replica)| *replica).collect()
    }

    fn calls(&self) -> Vec<usize> {
        self.to("tools/call")
    }
}

/// The proxy, and what stands behind it.
struct Deployment {
    proxy: Proxy,
    permits: Arc<Semaphore>,
    up: [Application; 3],
}

impl Deployment {
    async fn start(keys: [Option<StateKey>; 2]) -> Self {
        let permits = Arc::new(Semaphore::new(0));
        let [one, two] = keys;
        let one = replica(0, one, &permits, |builder| builder);
        let two = replica(1, two, &permits, |builder| builder);
        Self::of([one, two], permits).await
    }

    /// Replicas with these names that forward requests about tasks. The name of each is its number, unless it is lost.
    async fn forwarding(names: [&str; 2]) -> Self {
        Self::forwarding_within(names, |builder| builder).await
    }

    /// As [`forwarding`](Self::forwarding), for servers that are a part of others.
    async fn forwarding_within(names: [&str; 2], outer: fn(ServerBuilder) -> ServerBuilder) -> Self {
        let (permits, addresses) = (Arc::new(Semaphore::new(0)), Addresses::default());
        let router = |number: usize| {
            let change = |builder| outer(forwarding(builder, number, names[number], &addresses));
            replica(number, Some(StateKey::from_bytes([9; 32])), &permits, change)
        };
        let deployed = Self::of([router(0), router(1)], permits.clone()).await;
        addresses.set(deployed.proxy.replicas).unwrap();
        deployed
    }

    async fn of([one, two]: [Router; 2], permits: Arc<Semaphore>) -> Self {
        let (one, two) = (Application::serve(one).await, Application::serve(two).await);
        let proxy = Proxy::new([one.address, two.address]);
        let forwarding = proxy.clone();
        let route = any(move |request: Request| forwarding.clone().forward(request));
        let front = Application::serve(Router::new().route("/mcp", route)).await;
        Self { proxy, permits, up: [front, one, two] }
    }

    async fn with_one_key() -> Self {
        Self::start([(); 2].map(|()| Some(StateKey::from_bytes([9; 32])))).await
    }

    /// A client whose requests take turns, or all go to one replica.
    async fn client(
        &self,
        pinned: Option<usize>,
        change: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Client {
        self.client_of(None, pinned, change).await
    }

    /// As [`client`](Self::client), for a principal.
    async fn client_of(
        &self,
        user: Option<&str>,
        pinned: Option<usize>,
        change: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Client {
        let mut link = Link::http(format!("http://{}/mcp", self.up[0].address));
        if let Some(user) = user {
            link = link.header(USER, user);
        }
        if let Some(replica) = pinned {
            link = link.header(PINNED, replica.to_string());
        }
        let builder = Client::builder("replicas", "1").era(EraChoice::Only(Era::Modern));
        change(builder).connect(link.build().unwrap()).await.unwrap()
    }
}

async fn says_yes(_: ElicitParams) -> Result<ElicitResult, ErrorObject> {
    ElicitResult::accept(json!({ "yes": true }))
}

#[test]
fn tools_ask_behind_two_replicas_that_share_a_key() {
    run(async {
        let deployed = Deployment::with_one_key().await;
        let client = deployed.client(None, |builder| builder.elicitation(says_yes)).await;
        for call in 0..8 {
            let result = client.call_tool("ask", ()).await.unwrap().to_text();
            // Three requests each: at one replica, at the other one, and at the first one again.
            let calls = deployed.proxy.calls();
            let [first, second, third] = calls[call * 3..] else { panic!("{calls:?}") };
            assert_eq!((first, second), (third, 1 - first), "{calls:?}");
            assert_eq!(result, format!("yes yes, says replica {third}"));
        }
        // Eight at once.
        for result in join_all((0..8).map(|_| client.call_tool("ask", ()))).await {
            let result = result.unwrap().to_text();
            assert!(result.starts_with("yes yes, says replica "), "{result}");
        }
    });
}

#[test]
fn replicas_without_a_common_key_refuse_each_others_states() {
    run(async {
        let deployed = Deployment::start([None, None]).await;
        let client = deployed.client(None, |builder| builder.elicitation(says_yes)).await;
        for _ in 0..8 {
            let error = client.call_tool("ask", ()).await.unwrap_err();
            assert_eq!(error.remote().map(|error| error.code), Some(-32602), "{error}");
        }
    });
}

#[test]
fn progress_arrives_from_both_replicas() {
    run(async {
        let deployed = Deployment::with_one_key().await;
        let client = deployed.client(None, |builder| builder).await;
        let calls = (0..8).map(|_| async {
            let mut call = client.call_tool("progress", ());
            let mut last = None;
            while let Some(event) = call.next_event().await {
                if let CallEvent::Progress(progress) = event {
                    last = Some(progress);
                }
            }
            let (last, replica) = (last.unwrap(), call.await.unwrap().to_text());
            assert_eq!((last.progress, last.total), (3.0, Some(3.0)));
            assert_eq!(last.message, Some(format!("step of replica {replica}")));
            replica.parse::<usize>().unwrap()
        });
        let mut replicas = join_all(calls).await;
        replicas.sort_unstable();
        assert_eq!(replicas, [0, 0, 0, 0, 1, 1, 1, 1]);
    });
}

/// Starts a task, and returns its handle.
async fn start(client: &Client) -> TaskHandle {
    start_tool(client, "task").await
}

async fn start_tool(client: &Client, tool: &str) -> TaskHandle {
    match client.call_tool(tool, ()).start().await.unwrap() {
        TaskOutcome::Task(task) => task,
        other => panic!("no task: {other:?}"),
    }
}

fn is_unknown(error: &ClientError, id: &str) -> bool {
    // The key is shared, so the replica knows that the id is one of theirs.
    let said = "unknown task: this server process does not store it";
    matches!(error, ClientError::UnknownTask { id: of, error } if of == id && error.code == -32602 && error.message == said)
}

/// A task lives in the process that has started it (`ServerBuilder::tasks`): the shared key makes its id known, and nothing
/// else of it.
#[test]
fn a_task_is_unknown_to_the_other_replica() {
    run(async {
        let deployed = Deployment::with_one_key().await;
        let [own, other] =
            [0, 1].map(|replica| deployed.client(Some(replica), |builder| builder.tasks(true)));
        let (own, other) = (own.await, other.await);
        let task = start(&own).await;
        let id = task.id();
        assert_eq!(task.status().await.unwrap().status, TaskStatus::Working);
        assert!(is_unknown(&other.task(id).status().await.unwrap_err(), id));
        assert!(is_unknown(&other.task(id).result().await.unwrap_err(), id));
        let refused = other.task(id).cancel().await.unwrap_err();
        assert_eq!(refused.remote().map(|error| error.code), Some(-32602), "{refused}");
        // Nothing of that has harmed the task, which its own replica still has, also on another connection.
        deployed.permits.add_permits(1);
        let another = deployed.client(Some(0), |builder| builder.tasks(true)).await;
        assert_eq!(another.task(id).result().await.unwrap().to_text(), "done by replica 0");
    });
}

#[test]
fn a_client_that_waits_for_a_task_fails_where_its_requests_take_turns() {
    run(async {
        let deployed = Deployment::with_one_key().await;
        let client = deployed.client(None, |builder| builder.tasks(true)).await;
        // The task runs until the end of the test, so the client asks again, and asks the other replica.
        let error = client.call_tool("task", ()).await.unwrap_err();
        let ClientError::UnknownTask { id, .. } = &error else { panic!("{error}") };
        assert!(is_unknown(&error, id), "{error}");
    });
}

#[test]
fn tasks_work_where_all_requests_of_a_client_reach_one_replica() {
    run(async {
        let deployed = Deployment::with_one_key().await;
        let [one, two] = [0, 1].map(|replica| deployed.client(Some(replica), |builder| builder.tasks(true)));
        let clients = [one.await, two.await];
        let tasks = join_all((0..8).map(|number| start(&clients[number % 2]))).await;
        deployed.permits.add_permits(8);
        let results = join_all(tasks.iter().map(TaskHandle::result)).await;
        for (number, result) in results.into_iter().enumerate() {
            assert_eq!(result.unwrap().to_text(), format!("done by replica {}", number % 2));
        }
    });
}

#[test]
fn replicas_forward_requests_about_tasks_so_calls_work_where_requests_take_turns() {
    run(async {
        let deployed = Deployment::forwarding(["0", "1"]).await;
        let client = deployed.client(None, |builder| builder.tasks(true).elicitation(says_yes)).await;
        // Each task ends only after its client has begun to wait.
        let calls = join_all((0..8).map(|_| client.call_tool("task", ()).raw()));
        let release = async {
            while deployed.proxy.to("tasks/get").len() < 8 {
                tokio::task::yield_now().await;
            }
            deployed.permits.add_permits(8);
        };
        let (results, ()) = tokio::join!(calls, release);
        let mut texts: Vec<String> = results
            .into_iter()
            .map(|result| result.unwrap().member("content").unwrap().to_string())
            .collect();
        texts.sort_unstable();
        for (number, text) in texts.iter().enumerate() {
            assert!(text.contains(&format!("done by replica {}", number / 4)), "{texts:?}");
        }
        // Their input is sent with `tasks/update`, which takes turns too.
        for result in join_all((0..4).map(|_| client.call_tool("asking", ()))).await {
            let result = result.unwrap().to_text();
            assert!(result.starts_with("yes yes, says replica "), "{result}");
        }
    });
}

#[test]
fn any_replica_shows_and_cancels_the_task_of_another_one() {
    run(async {
        let deployed = Deployment::forwarding(["0", "1"]).await;
        let [own, other] =
            [0, 1].map(|replica| deployed.client(Some(replica), |builder| builder.tasks(true)));
        let (own, other) = (own.await, other.await);
        let task = start(&own).await;
        let show = |client: &Client, id: &str| {
            let params = Raw::from_value(&json!({ "taskId": id })).unwrap();
            let client = client.clone();
            async move { client.send_request("tasks/get", Some(params)).await.unwrap() }
        };
        let (at_own, at_other) = (show(&own, task.id()).await, show(&other, task.id()).await);
        let value = |raw: &Raw| serde_json::from_str::<serde_json::Value>(raw.as_str()).unwrap();
        assert_eq!(value(&at_own), value(&at_other), "nothing is changed");
        other.task(task.id()).cancel().await.unwrap();
        assert_eq!(task.status().await.unwrap().status, TaskStatus::Cancelled);
        assert_eq!(other.task(task.id()).status().await.unwrap().status, TaskStatus::Cancelled);
    });
}

#[test]
fn a_forwarded_request_has_the_principal_of_its_caller() {
    run(async {
        let deployed = Deployment::forwarding(["0", "1"]).await;
        let client = |user, replica| deployed.client_of(user, Some(replica), |builder| builder.tasks(true));
        let task = start(&client(Some("ann"), 0).await).await;
        let id = task.id();
        let status = client(Some("ann"), 1).await.task(id).status().await;
        assert_eq!(status.unwrap().status, TaskStatus::Working);
        for user in [Some("bob"), None] {
            let refused = client(user, 1).await.task(id).status().await.unwrap_err();
            assert!(is_unknown(&refused, id), "{refused}");
        }
    });
}

#[test]
fn a_forged_id_is_not_forwarded_and_a_replica_that_is_lost_is_named() {
    run(async {
        let mut deployed = Deployment::forwarding(["0", "lost"]).await;
        let [zero, lost] =
            [0, 1].map(|replica| deployed.client(Some(replica), |builder| builder.tasks(true)));
        let (zero, lost) = (zero.await, lost.await);
        let (known, unknown) = (start(&zero).await, start(&lost).await);
        // The name of a replica follows 64 digits. Another name needs another signature.
        let forged = format!("{}{}", &known.id()[..64], &unknown.id()[64..]);
        let error = zero.task(&forged).status().await.unwrap_err();
        let said = "unknown task: this server did not issue the id";
        assert_eq!(error.remote().map(|error| &*error.message), Some(said));
        let error = zero.task(unknown.id()).status().await.unwrap_err();
        let said = "there is no replica `lost`";
        assert_eq!(error.remote().map(|error| (error.code, &*error.message)), Some((-32603, said)));
        // The replica of the other task is shut down.
        let [_, gone, _] = &mut deployed.up;
        gone.task.abort();
        assert!((&mut gone.task).await.unwrap_err().is_cancelled());
        zero.close().await;
        let error = lost.task(known.id()).status().await.unwrap_err();
        let message = error.remote().unwrap().message.clone();
        assert!(message.starts_with("replica `0` at 127.0.0.1:"), "{message}");
        assert!(message.contains(" did not answer: "), "{message}");
    });
}

#[test]
fn a_replica_needs_a_name_and_a_key() {
    let build = |name: &str, key: bool| {
        let builder = Server::builder("s", "1")
            .replica(name, |_, _, _| async { Err::<Raw, _>(ErrorObject::internal("never called")) });
        let key = key.then(|| StateKey::from_bytes([9; 32]));
        key.into_iter()
            .fold(builder, ServerBuilder::state_key)
            .build()
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(build(&"x".repeat(64), true), Ok(()));
    assert!(build(&"x".repeat(65), true).unwrap_err().ends_with("its name has more than 64 bytes"));
    assert!(build("", true).unwrap_err().ends_with("its name is empty"));
    assert!(build("a", false).unwrap_err().ends_with("replicas need a common key: `state_key`"));
}

#[test]
fn mounted_servers_forward_requests_about_their_tasks() {
    run(async {
        let outer = |mounted: ServerBuilder| {
            let key = StateKey::from_bytes([8; 32]);
            Server::builder("outer", "1").state_key(key).mount("inner", mounted.build().unwrap())
        };
        let deployed = Deployment::forwarding_within(["0", "1"], outer).await;
        let [own, other] =
            [0, 1].map(|replica| deployed.client(Some(replica), |builder| builder.tasks(true)));
        let (own, other) = (own.await, other.await);
        let task = start_tool(&own, "inner__task").await;
        assert_eq!(other.task(task.id()).status().await.unwrap().status, TaskStatus::Working);
        deployed.permits.add_permits(1);
        assert_eq!(other.task(task.id()).result().await.unwrap().to_text(), "done by replica 0");
    });
}

/// Sends a value when it is dropped.
struct Dropped(Option<oneshot::Sender<()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.take().unwrap().send(());
    }
}

#[test]
fn a_forward_is_dropped_with_the_request_of_its_caller() {
    run(async {
        let ((begun, begins), (dropped, drops)) = (oneshot::channel(), oneshot::channel());
        let kept = Mutex::new(Some((begun, Dropped(Some(dropped)))));
        let build = |builder: ServerBuilder| {
            let builder = builder.state_key(StateKey::from_bytes([9; 32]));
            builder.tool(tool("task").as_task(), |_: NoArguments, _| async { "done" }).build().unwrap()
        };
        let one = build(Server::builder("s", "1").replica("1", |_, _, _| async {
            Err::<Raw, _>(ErrorObject::internal("never called: its own tasks are here, or unknown"))
        }));
        let two = build(Server::builder("s", "1").replica("2", move |owner: String, _, _| {
            assert_eq!(owner, "1");
            let (begun, dropped) = kept.lock().unwrap().take().unwrap();
            async move {
                let _dropped = dropped;
                begun.send(()).unwrap();
                std::future::pending::<Result<Raw, ErrorObject>>().await
            }
        }));
        let client = |server: &Server| {
            let (near, far) = Link::memory();
            server.connect(far);
            Client::builder("c", "1").era(EraChoice::Only(Era::Modern)).tasks(true).connect(near)
        };
        let (first, second) = (client(&one).await.unwrap(), client(&two).await.unwrap());
        let task = start(&first).await;
        let asked = second.task(task.id());
        tokio::select! {
            _ = asked.status() => panic!("the forward never ends"),
            begun = begins => begun.unwrap(),
        }
        drops.await.unwrap();
        // Another process with the name of the owner, such as one after a restart, does not have the task, and does not forward.
        let restarted = build(Server::builder("s", "1").replica("1", |_, _, _| async {
            Err::<Raw, _>(ErrorObject::internal("never called: its own tasks are here, or unknown"))
        }));
        let error = client(&restarted).await.unwrap().task(task.id()).status().await.unwrap_err();
        assert!(is_unknown(&error, task.id()), "{error}");
    });
}
