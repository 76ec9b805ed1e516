//! Tests of two replicas of one server, each an application with a listener of its own, behind a proxy that gives each
//! request to the next replica. Modern and without sessions, as `HttpOptions::stateless` describes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

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
use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{ElicitParams, ElicitResult, TaskStatus};
use mcpjoin::server::{Context, HandlerError, NoArguments, StateKey, tool, with};
use mcpjoin::transport::HttpOptions;
use mcpjoin::{Client, Link, Server};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::{Application, run};

/// The header by which a client chooses its replica, where the proxy is not to take turns: `0` or `1`.
const PINNED: &str = "x-replica";

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

/// A replica. All are built alike, but each knows its number. Its tasks end when there is a permit.
fn replica(number: usize, key: Option<StateKey>, permits: &Arc<Semaphore>) -> Router {
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
    let service = builder.build().unwrap().http(HttpOptions::new().stateless(true));
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

    /// The replicas that have got the calls of tools so far, in order.
    fn calls(&self) -> Vec<usize> {
        let seen = self.seen.lock().unwrap();
        seen.iter().filter(|(method, _)| method == "tools/call").map(|(_, replica)| *replica).collect()
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
        let one = Application::serve(replica(0, one, &permits)).await;
        let two = Application::serve(replica(1, two, &permits)).await;
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
        let mut link = Link::http(format!("http://{}/mcp", self.up[0].address));
        if let Some(replica) = pinned {
            link = link.header(PINNED, replica.to_string());
        }
        let builder = Client::builder("replicas", "1").era(EraChoice::Only(Era::Modern));
        change(builder).connect(link.build().unwrap()).await.unwrap()
    }
}

async fn says_yes(_: ElicitParams) -> Result<ElicitResult, mcpjoin::proto::ErrorObject> {
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
    match client.call_tool("task", ()).start().await.unwrap() {
        TaskOutcome::Task(task) => task,
        other => panic!("no task: {other:?}"),
    }
}

fn is_unknown(error: &ClientError, id: &str) -> bool {
    // The key is shared, so the replica knows that the id is one of theirs.
    let said = "unknown task: this server process keeps none of that id, or no longer";
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
