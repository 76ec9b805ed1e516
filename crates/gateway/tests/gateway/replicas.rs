//! Tests of several gateways with one key behind a balancer without stickiness. Each of them stands for a process: they share
//! nothing but the key and the targets.

mod cancelling;
mod losing;
mod tasks;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::{ElicitAction, ElicitFormParams, ElicitResult, ElicitationSchema, Members};
use mcpjoin::proto::{Era, RequestId, Version};
use mcpjoin::server::{Context, HandlerError, NoArguments, SealingKeys, StateKey, tool};
use mcpjoin::transport::{HttpBody, HttpFuture, HttpOptions, HttpService, Replicas as Others};
use mcpjoin::{Client, Link, Server};
use mcpjoin_gateway::{Gateway, JoinedBuilder, JoinedGateway, SealedSessions};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tower_service::Service;

/// Runs a test with real sockets. Two minutes count as a hang.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        timeout(Duration::from_secs(120), test).await.expect("the test hangs");
    });
}

fn keys(numbers: &[u8]) -> SealingKeys {
    let mut keys = numbers.iter().map(|number| StateKey::from_bytes([*number; 32]));
    SealingKeys::new(keys.next().unwrap(), keys)
}

/// The principal of a request: what its header `authorization` says.
fn bearer(head: &http::request::Parts) -> Option<String> {
    Some(head.headers.get("authorization")?.to_str().ok()?.to_owned())
}

/// A server over HTTP, of the legacy era unless it says so.
#[derive(Clone)]
struct Target {
    server: Server,
    /// What serves at the URL: another service is the same server without its sessions.
    front: Balancer,
    url: String,
    /// Calls of `count` that have run.
    count: Arc<AtomicUsize>,
    /// Calls of `waits` wait for it.
    release: Arc<Notify>,
    waiting: watch::Sender<usize>,
    /// The requests whose calls of `holds` run. They end when they are cancelled.
    held: watch::Sender<BTreeSet<RequestId>>,
}

/// A call of `holds`, until it is cancelled.
struct Held(watch::Sender<BTreeSet<RequestId>>, RequestId);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.send_modify(|held| {
            held.remove(&self.1);
        });
    }
}

impl Target {
    async fn new(name: &str) -> Self {
        Self::of(name, Version::V2025_11_25).await
    }

    async fn of(name: &str, version: Version) -> Self {
        let (count, release, waiting) = (Arc::default(), Arc::new(Notify::new()), watch::Sender::new(0));
        let (counted, released, waits): (Arc<AtomicUsize>, _, _) =
            (Arc::clone(&count), release.clone(), waiting.clone());
        let held = watch::Sender::new(BTreeSet::new());
        let holds = held.clone();
        let server = Server::builder(name, "1")
            .versions([version])
            .logging()
            .dynamic_tools()
            .tool(tool("count"), move |_: NoArguments, cx: Context| {
                let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
                cx.progress(1.0, None, None);
                async move { number.to_string() }
            })
            .tool(tool("waits"), move |_: NoArguments, _| {
                let (released, waits) = (released.clone(), waits.clone());
                async move {
                    waits.send_modify(|waiting| *waiting += 1);
                    released.notified().await;
                    "waited".to_owned()
                }
            })
            .tool(tool("job").as_task(), |_: NoArguments, _| async { "done".to_owned() })
            .tool(tool("holds"), move |_: NoArguments, cx: Context| {
                let id = cx.request_id().unwrap().clone();
                let call = Held(holds.clone(), id.clone());
                async move {
                    call.0.send_modify(|held| {
                        held.insert(id);
                    });
                    std::future::pending::<String>().await
                }
            })
            .tool(tool("asks"), |_: NoArguments, cx: Context| async move {
                let question = ElicitFormParams::new("who?", ElicitationSchema::new(Members::new()));
                Ok::<_, HandlerError>(format!("{:?}", cx.elicit(question).await?.action))
            })
            .build()
            .unwrap();
        let front = Balancer::new(vec![server.http(HttpOptions::new())]);
        let url = listen(front.clone()).await;
        Self { server, front, url, count, release, waiting, held }
    }

    fn sessions(&self) -> usize {
        self.front.next().sessions()
    }

    async fn has_sessions(&self, number: usize) {
        while self.sessions() != number {
            tokio::task::yield_now().await;
        }
    }

    /// Starts the server again, which loses its sessions.
    fn restart(&self) {
        *self.front.processes.lock().unwrap() = vec![self.server.http(HttpOptions::new())];
    }
}

/// Serves at an address of its own, and returns its URL.
async fn listen<S>(service: S) -> String
where
    S: Service<Request<Body>, Response = http::Response<HttpBody>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    serve(listener, service);
    url
}

fn serve<S>(listener: TcpListener, service: S)
where
    S: Service<Request<Body>, Response = http::Response<HttpBody>, Error = Infallible>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback_service(service)).await });
}

/// Gives each request to the next process.
#[derive(Clone)]
struct Balancer {
    processes: Arc<Mutex<Vec<HttpService>>>,
    next: Arc<AtomicUsize>,
}

impl Balancer {
    fn new(processes: Vec<HttpService>) -> Self {
        Self { processes: Arc::new(Mutex::new(processes)), next: Arc::default() }
    }

    fn next(&self) -> HttpService {
        let processes = self.processes.lock().unwrap();
        processes[self.next.fetch_add(1, Ordering::Relaxed) % processes.len()].clone()
    }
}

impl Service<Request<Body>> for Balancer {
    type Response = http::Response<HttpBody>;
    type Error = Infallible;
    type Future = HttpFuture;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> HttpFuture {
        self.next().call(request)
    }
}

/// Several processes in front of the same targets.
struct Replicas {
    gateways: Vec<JoinedGateway>,
    services: Vec<HttpService>,
    keys: Vec<SealingKeys>,
    balancer: Balancer,
}

impl Replicas {
    fn new(count: usize, targets: &[&Target]) -> Self {
        let (mut gateways, mut services, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let keys = keys(&[1]);
            let gateway = joined(targets, &keys);
            services.push(gateway.http(options(&keys)));
            gateways.push(gateway);
            all.push(keys);
        }
        let balancer = Balancer::new(services.clone());
        Self { gateways, services, keys: all, balancer }
    }

    /// A scripted client of one of the processes.
    fn peer(&self, process: usize) -> Peer {
        Peer::new(self.services[process].clone())
    }

    fn sessions(&self) -> Vec<usize> {
        self.services.iter().map(HttpService::sessions).collect()
    }
}

fn options(keys: &SealingKeys) -> HttpOptions {
    HttpOptions::new().principal(bearer).session_store(SealedSessions::new(keys.clone()))
}

fn joined(targets: &[&Target], keys: &SealingKeys) -> JoinedGateway {
    builder(targets, keys).build()
}

fn builder(targets: &[&Target], keys: &SealingKeys) -> JoinedBuilder {
    let mut joined = Gateway::joined("joined", "1").sealing_keys(keys.clone());
    for (target, name) in targets.iter().zip(["a", "b", "c"]) {
        let url = target.url.clone();
        let start = move || std::future::ready(Link::http(&url).build());
        joined = joined.target(name, Gateway::builder(start));
    }
    joined
}

/// A scripted client.
#[derive(Clone)]
struct Peer {
    service: HttpService,
    headers: Vec<(String, String)>,
}

impl Peer {
    fn new(service: HttpService) -> Self {
        let headers = [
            ("host", "localhost:1"),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        Self { service, headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into() }
    }

    /// The same client at another process.
    fn at(&self, service: &HttpService) -> Self {
        Self { service: service.clone(), headers: self.headers.clone() }
    }

    fn with(&self, name: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.headers.retain(|(kept, _)| kept != name);
        other.headers.push((name.to_owned(), value.to_owned()));
        other
    }

    fn id(&self) -> String {
        self.headers.iter().find(|(name, _)| name == "mcp-session-id").unwrap().1.clone()
    }

    async fn send(&self, method: Method, body: impl Into<Bytes>) -> http::Response<HttpBody> {
        let mut request = Request::builder().method(method).uri("/mcp");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.service.clone().call(request).await.unwrap()
    }

    async fn open(&self) -> Self {
        let opened = self.send(Method::POST, initialize("c").to_string()).await;
        assert_eq!(opened.status(), 200);
        let id = opened.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let session = self.with("mcp-session-id", &id);
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.send(Method::POST, initialized.to_string()).await.status(), 202);
        session
    }

    /// The status of a call, and the text of its result or the message of its error.
    async fn call(&self, name: &str) -> (u16, String) {
        let (status, message) = self.ask("tools/call", json!({ "name": name, "arguments": {} })).await;
        let said = message["result"]["content"][0]["text"].as_str();
        let said = said.or_else(|| message["error"]["message"].as_str());
        (status, said.unwrap_or_default().to_owned())
    }

    /// The status of a request, and the response.
    async fn ask(&self, method: &str, params: Value) -> (u16, Value) {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let id = LAST.fetch_add(1, Ordering::Relaxed);
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let response = self.send(Method::POST, request.to_string()).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        let data = text.lines().rfind(|line| line.contains("jsonrpc")).unwrap_or_default();
        (status, serde_json::from_str(data.trim_start_matches("data: ")).unwrap_or_default())
    }
}

fn initialize(name: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": "open", "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": { "elicitation": {} }, "clientInfo": { "name": name, "version": "0" }
    } })
}

/// The next event of a stream that has data.
async fn event(body: &mut HttpBody) -> String {
    loop {
        let frame = body.frame().await.unwrap().unwrap();
        let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        if let Some((_, data)) = text.split_once("data: {") {
            return format!("{{{}", data.trim_end());
        }
    }
}

#[test]
fn a_legacy_client_is_served_by_three_processes_in_turn_and_each_target_has_one_session() {
    run(async {
        let (a, b) = (Target::new("a").await, Target::new("b").await);
        let replicas = Replicas::new(3, &[&a, &b]);
        let url = listen(replicas.balancer.clone()).await;
        let received = Arc::new(Notify::new());
        let receiver = received.clone();
        let client = Client::builder("c", "1")
            .era(EraChoice::Only(Era::Legacy))
            .on_notification(move |notification| {
                if notification.method.as_str() == "notifications/tools/list_changed" {
                    receiver.notify_one();
                }
            })
            .elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Decline)) })
            .connect(Link::http(&url).build().unwrap())
            .await
            .unwrap();
        for turn in 1..=6 {
            assert_eq!(client.list_tools().all().await.unwrap().len(), 10);
            for name in ["a__count", "b__count"] {
                let result = client.call_tool(name, ()).await.unwrap();
                assert_eq!(result.content[0].as_text(), Some(&*turn.to_string()), "{name}");
            }
        }
        // The client's answer comes to another process than the one that has asked.
        for name in ["a__asks", "b__asks", "a__asks"] {
            let asked = client.call_tool(name, ()).await.unwrap();
            assert_eq!(asked.content[0].as_text(), Some("Decline"), "{name}");
        }
        assert_eq!(replicas.sessions(), [1, 1, 1]);
        assert_eq!((a.sessions(), b.sessions()), (1, 1));
        // The client has its stream at one process, which is where the targets send what belongs to no request.
        while timeout(Duration::from_millis(100), received.notified()).await.is_err() {
            a.server.handle().notify_tools_changed().unwrap();
        }
        client.close().await;
        a.has_sessions(0).await;
        b.has_sessions(0).await;
    });
}

#[test]
fn a_single_target_is_served_by_every_process_as_well() {
    run(async {
        let target = Target::new("far").await;
        let keys = keys(&[1]);
        let process = || {
            let url = target.url.clone();
            let start = move || std::future::ready(Link::http(&url).build());
            Gateway::builder(start).build().http(options(&keys))
        };
        let (first, second) = (process(), process());
        let session = Peer::new(first).open().await;
        for turn in 1..4 {
            assert_eq!(session.call("count").await, (200, (2 * turn - 1).to_string()));
            assert_eq!(session.at(&second).call("count").await, (200, (2 * turn).to_string()));
        }
        assert_eq!((second.sessions(), target.sessions()), (1, 1));
        // A session of one endpoint is none of another one.
        let replicas = Replicas::new(1, &[&target]);
        assert_eq!(session.at(&replicas.services[0]).call("a__count").await.0, 404);
    });
}

#[test]
fn many_requests_at_once_open_a_session_once() {
    run(async {
        let target = Target::new("a").await;
        let replicas = Replicas::new(2, &[&target]);
        let session = replicas.peer(0).open().await.at(&replicas.services[1]);
        let calls = (0..50).map(|_| session.call("a__count"));
        let called = futures_util::future::join_all(calls).await;
        assert!(called.iter().all(|(status, _)| *status == 200), "{called:?}");
        assert_eq!(target.count.load(Ordering::Relaxed), 50);
        assert_eq!((replicas.sessions(), target.sessions()), (vec![1, 1], 1));
        assert_eq!(replicas.gateways[1].running_servers(), 1);
    });
}

#[test]
fn requests_of_several_processes_at_once_have_ids_of_their_own_in_the_session_of_the_target() {
    run(async {
        let target = Target::new("a").await;
        let replicas = Replicas::new(3, &[&target]);
        let session = replicas.peer(0).open().await;
        let sessions: Vec<Peer> = replicas.services.iter().map(|service| session.at(service)).collect();
        let calls = (0..90).map(|call| {
            let session = sessions[call % 3].clone();
            async move { session.call("a__waits").await }
        });
        let calling = tokio::spawn(futures_util::future::join_all(calls.collect::<Vec<_>>()));
        target.waiting.subscribe().wait_for(|waiting| *waiting == 90).await.unwrap();
        target.release.notify_waiters();
        let called = calling.await.unwrap();
        assert!(called.iter().all(|outcome| *outcome == (200, "waited".to_owned())), "{called:?}");
        assert_eq!(target.sessions(), 1);
    });
}

#[test]
fn an_id_that_was_not_given_to_this_client_by_these_keys_is_unknown() {
    run(async {
        let target = Target::new("a").await;
        let replicas = Replicas::new(2, &[&target]);
        let ada = replicas.peer(0).with("authorization", "ada").open().await;
        let other = ada.at(&replicas.services[1]);
        let id = ada.id();
        let mut bad = vec![
            other.with("authorization", "bob"),
            other.with("mcp-session-id", &id[1..]),
            other.with("mcp-session-id", &id[..id.len() - 1]),
            other.with("mcp-session-id", &format!("{id}A")),
            other.with("mcp-session-id", &format!("{id}=")),
            other.with("mcp-session-id", &format!("B{}", &id[1..])),
            other.with("mcp-session-id", &"A".repeat(5 * 1024)),
            other.with("mcp-session-id", &format!("{id}{}", "A".repeat(5 * 1024))),
            other.with("mcp-session-id", &"0".repeat(32)),
            other.with("mcp-session-id", "no such session"),
            other.with("mcp-session-id", "{}"),
        ];
        let mut nobody = other.clone();
        nobody.headers.retain(|(name, _)| name != "authorization");
        bad.push(nobody);
        let foreign_keys = keys(&[9]);
        let foreign = joined(&[&target], &foreign_keys).http(options(&foreign_keys));
        let foreign = Peer::new(foreign).with("authorization", "ada").open().await;
        bad.push(other.with("mcp-session-id", &foreign.id()));
        for peer in bad {
            let (status, message) = peer.call("a__count").await;
            assert_eq!(status, 404, "{message} {:?}", peer.headers);
            assert_eq!(peer.send(Method::GET, "").await.status(), 404);
            assert_eq!(peer.send(Method::DELETE, "").await.status(), 404);
        }
        assert_eq!(replicas.sessions(), [1, 0]);
        assert_eq!(other.call("a__count").await, (200, "1".to_owned()));
    });
}

#[test]
fn keys_are_replaced_without_refusing_a_session() {
    run(async {
        let target = Target::new("a").await;
        let replicas = Replicas::new(2, &[&target]);
        let key = |number: u8| StateKey::from_bytes([number; 32]);
        let old = replicas.peer(0).open().await;
        let served = |session: Peer| {
            let services = replicas.services.clone();
            async move {
                for service in &services {
                    assert_eq!(session.at(service).call("a__count").await.0, 200);
                }
            }
        };
        served(old.clone()).await;
        // First every process accepts the new key, then each in turn seals with it.
        replicas.keys.iter().for_each(|keys| keys.replace(key(1), [key(2)]));
        replicas.keys[0].replace(key(2), [key(1)]);
        let new = replicas.peer(0).open().await;
        served(old.clone()).await;
        served(new.clone()).await;
        replicas.keys[1].replace(key(2), [key(1)]);
        served(replicas.peer(1).open().await).await;
        // Without the old key, only sessions that a process has open go on.
        replicas.keys.iter().for_each(|keys| keys.replace(key(2), []));
        let third_keys = keys(&[2]);
        let third = joined(&[&target], &third_keys).http(options(&third_keys));
        assert_eq!(old.at(&third).call("a__count").await.0, 404);
        assert_eq!(new.at(&third).call("a__count").await.0, 200);
    });
}

#[test]
fn a_session_outlives_the_process_that_has_opened_it_but_not_its_own_end() {
    run(async {
        let target = Target::new("a").await;
        let replicas = Replicas::new(3, &[&target]);
        let session = replicas.peer(0).open().await;
        assert_eq!(session.call("a__count").await, (200, "1".to_owned()));
        // The first process ends in order, which does not end the session at the target.
        replicas.services[0].drain().await;
        replicas.gateways[0].close().await;
        let (second, third) = (session.at(&replicas.services[1]), session.at(&replicas.services[2]));
        assert_eq!(second.call("a__count").await, (200, "2".to_owned()));
        assert_eq!(third.call("a__count").await, (200, "3".to_owned()));
        assert_eq!(target.sessions(), 1);
        assert_eq!(second.send(Method::DELETE, "").await.status(), 204);
        target.has_sessions(0).await;
        // The others learn it from the target, which has processed nothing.
        let lost = "a: the server no longer knows the session (404 Not Found: JSON-RPC error -32600: no such session; \
                    initialize again); initialize again";
        for peer in [&second, &third, &third] {
            assert_eq!(peer.call("a__count").await, (404, lost.to_owned()));
        }
        assert_eq!((target.count.load(Ordering::Relaxed), target.sessions()), (3, 0));
    });
}

#[test]
fn a_session_that_a_target_has_lost_ends_in_every_process_and_is_not_opened_again() {
    run(async {
        let (a, b) = (Target::new("a").await, Target::new("b").await);
        let replicas = Replicas::new(2, &[&a, &b]);
        let session = replicas.peer(0).open().await;
        let other = session.at(&replicas.services[1]);
        assert_eq!(other.call("a__count").await.0, 200);
        let waits = {
            let other = other.clone();
            tokio::spawn(async move { other.call("b__waits").await })
        };
        b.waiting.subscribe().wait_for(|waiting| *waiting == 1).await.unwrap();
        a.restart();
        assert_eq!(other.call("a__count").await.0, 404);
        assert_eq!(session.call("a__count").await.0, 404);
        assert_eq!((a.count.load(Ordering::Relaxed), a.sessions()), (1, 0));
        // A call at another target was sent, so its result is.
        b.release.notify_one();
        assert_eq!(waits.await.unwrap(), (200, "waited".to_owned()));
        // The client initializes again.
        assert_eq!(replicas.peer(1).open().await.call("a__count").await.0, 200);
    });
}

#[test]
fn f112_a_session_that_a_server_on_the_typescript_sdk_has_lost_ends_and_the_error_names_the_target() {
    run(async {
        for said in ["Bad Request: No valid session ID provided", "Bad Request: Server not initialized"] {
            let (mut a, b) = (Target::new("a").await, Target::new("b").await);
            a.url = as_the_sdk_says_it(a.front.clone(), said).await;
            let replicas = Replicas::new(2, &[&a, &b]);
            let session = replicas.peer(0).open().await;
            let other = session.at(&replicas.services[1]);
            assert_eq!(other.call("a__count").await.0, 200);
            a.restart();
            for peer in [&other, &session] {
                let (status, text) = peer.call("a__count").await;
                assert_eq!(status, 404, "{text}");
                assert!(text.starts_with("a: the server no longer knows the session"), "{text}");
                assert!(text.contains(said) && text.ends_with("; initialize again"), "{text}");
            }
            assert_eq!(a.sessions(), 0);
            assert_eq!(replicas.peer(1).open().await.call("a__count").await.0, 200);
        }
    });
}

/// Serves as servers on the TypeScript SDK 1.x do: an unknown session is 400, with a message and without a content type.
async fn as_the_sdk_says_it(front: Balancer, said: &'static str) -> String {
    let answer = move |response: axum::response::Response| async move {
        if response.status() != 404 {
            return response;
        }
        let error = json!({ "jsonrpc": "2.0", "error": { "code": -32000, "message": said }, "id": null });
        http::Response::builder().status(400).body(Body::from(error.to_string())).unwrap()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let router = Router::new().fallback_service(front).layer(axum::middleware::map_response(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[test]
fn messages_of_no_request_go_to_the_process_with_the_stream_of_the_client() {
    run(async {
        let target = Target::new("a").await;
        let replicas = Replicas::new(2, &[&target]);
        let session = replicas.peer(0).open().await;
        for process in [1, 0, 1] {
            let stream = session.at(&replicas.services[process]).send(Method::GET, "").await;
            assert_eq!(stream.status(), 200);
            let mut body = stream.into_body();
            // Until the stream of the target is open in this process.
            let event = loop {
                target.server.handle().notify_tools_changed().unwrap();
                if let Ok(event) = timeout(Duration::from_millis(100), event(&mut body)).await {
                    break event;
                }
            };
            assert!(event.contains("list_changed"), "{event}");
            drop(body);
        }
        // Without a store the events of a stream are not kept.
        let resumed = session.with("last-event-id", "0-1").send(Method::GET, "").await;
        assert_eq!(resumed.status(), 400);
    });
}

#[test]
fn a_session_with_a_child_or_with_much_to_seal_has_an_ordinary_id_of_its_own_process() {
    run(async {
        let target = Target::new("a").await;
        let near = Server::builder("near", "1")
            .tool(tool("count"), |_: NoArguments, _| async { "1".to_owned() })
            .build()
            .unwrap();
        let keys = keys(&[1]);
        let process = || {
            let (url, near) = (target.url.clone(), near.clone());
            let start = move || {
                let (link, far) = Link::memory();
                near.connect(far);
                std::future::ready(Ok::<_, std::io::Error>(link))
            };
            let over_http = Gateway::builder(move || std::future::ready(Link::http(&url).build()));
            let joined = Gateway::joined("joined", "1").target("a", over_http);
            joined.target("near", Gateway::builder(start)).build().http(options(&keys))
        };
        let (first, second) = (process(), process());
        let session = Peer::new(first).open().await;
        assert_eq!(session.id().len(), 32);
        assert_eq!(session.call("near__count").await.0, 200);
        assert_eq!(session.call("a__count").await.0, 200);
        assert_eq!(session.at(&second).call("a__count").await.0, 404);
        // A session that only this process has is opened again there.
        target.restart();
        assert_eq!(session.call("a__count").await.0, 200);

        let replicas = Replicas::new(2, &[&target]);
        let long = initialize(&"n".repeat(3 * 1024)).to_string();
        let opened = replicas.peer(0).send(Method::POST, long).await;
        assert_eq!(opened.headers()["mcp-session-id"].len(), 32);
        let long = initialize(&"n".repeat(2 * 1024)).to_string();
        let opened = replicas.peer(0).send(Method::POST, long).await;
        assert!((2 * 1024..4 * 1024).contains(&opened.headers()["mcp-session-id"].len()));
    });
}

#[test]
fn a_client_of_2024_11_05_has_a_session_of_one_process_and_receives_messages_of_no_request() {
    run(async {
        let target = Target::new("a").await;
        let replicas = Replicas::new(1, &[&target]);
        let url = listen(replicas.services[0].clone()).await.replace("/mcp", "/sse");
        let received = Arc::new(Notify::new());
        let receiver = received.clone();
        let client = Client::builder("c", "1")
            .on_notification(move |notification| {
                if notification.method.as_str() == "notifications/tools/list_changed" {
                    receiver.notify_one();
                }
            })
            .connect(Link::http(&url).legacy_sse().build().unwrap())
            .await
            .unwrap();
        assert_eq!(client.call_tool("a__count", ()).await.unwrap().content[0].as_text(), Some("1"));
        while timeout(Duration::from_millis(100), received.notified()).await.is_err() {
            target.server.handle().notify_tools_changed().unwrap();
        }
        client.close().await;
        target.has_sessions(0).await;
    });
}

#[test]
fn a_question_is_answered_at_any_process_once_and_an_id_that_is_no_question_is_ignored() {
    run(async {
        let target = Target::new("a").await;
        let replicas = Replicas::new(2, &[&target]);
        let session = replicas.peer(0).open().await;
        let other = session.at(&replicas.services[1]);
        for (turn, answering) in [&other, &session, &other].into_iter().enumerate() {
            let params = json!({ "name": "a__asks", "arguments": {} });
            let call = json!({ "jsonrpc": "2.0", "id": turn, "method": "tools/call", "params": params });
            let mut body = session.send(Method::POST, call.to_string()).await.into_body();
            let question: Value = serde_json::from_str(&event(&mut body).await).unwrap();
            assert_eq!(question["method"], "elicitation/create", "{question}");
            assert!(question["params"].get("_meta").is_none(), "{question}");
            assert_eq!(question["params"]["message"], "[a] who?");
            let invented = json!("mcpjoin-question[\"a\",999]");
            for id in [
                &invented,
                &json!("mcpjoin-question[\"nobody\",1]"),
                &json!(999),
                &question["id"],
                &question["id"],
            ] {
                let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "cancel" } });
                assert_eq!(answering.send(Method::POST, answer.to_string()).await.status(), 202, "{id}");
            }
            let result: Value = serde_json::from_str(&event(&mut body).await).unwrap();
            assert_eq!(result["result"]["content"][0]["text"], "Cancel", "{result}");
        }
        assert_eq!(replicas.sessions(), [1, 1]);
    });
}

/// Two processes that pass requests to each other, with a balancer before them.
async fn passing(targets: &[&Target]) -> Balancer {
    let mut services = Vec::new();
    for _ in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let keys = keys(&[1]);
        let others = Others::new(&format!("http://{}", listener.local_addr().unwrap()), keys.clone(), &[]);
        let service = joined(targets, &keys).http(options(&keys).replicas(others.unwrap()));
        serve(listener, service.clone());
        services.push(service);
    }
    Balancer::new(services)
}

#[test]
fn a_call_that_waits_for_an_answer_is_found_from_any_process_in_all_pairs_of_eras() {
    run(async {
        let targets = [Target::new("a").await, Target::of("b", Version::V2026_07_28).await];
        let balancer = passing(&[&targets[0], &targets[1]]).await;
        let url = listen(balancer.clone()).await;
        for era in [Era::Legacy, Era::Modern] {
            let client = Client::builder("c", "1")
                .era(EraChoice::Only(era))
                .elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Decline)) })
                .connect(Link::http(&url).build().unwrap())
                .await
                .unwrap();
            for turn in 0..4 {
                for name in ["a__asks", "b__asks"] {
                    let asked = client.call_tool(name, ()).await.unwrap();
                    assert_eq!(asked.content[0].as_text(), Some("Decline"), "{name} {era} {turn}");
                    // The next question is asked by the other process.
                    balancer.next();
                }
            }
            client.close().await;
        }
    });
}

/// Two processes that pass requests to each other, each with a program of its own.
async fn with_programs(programs: [&Server; 2]) -> Vec<HttpService> {
    let mut services = Vec::new();
    for near in programs.map(Clone::clone) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let keys = keys(&[1]);
        let url = format!("http://{}", listener.local_addr().unwrap());
        let others = Others::new(&url, keys.clone(), &[]).unwrap();
        let start = move || {
            let (link, far) = Link::memory();
            near.connect(far);
            std::future::ready(Ok::<_, std::io::Error>(link))
        };
        let joined = Gateway::joined("joined", "1").target("a", Gateway::builder(start)).build();
        let service = joined.http(options(&keys).replicas(others));
        serve(listener, service.clone());
        services.push(service);
    }
    services
}

/// Two servers of 2026-07-28, neither of which knows the states of the other.
async fn modern_programs() -> [Target; 2] {
    [Target::of("a", Version::V2026_07_28).await, Target::of("a", Version::V2026_07_28).await]
}

#[test]
fn a_state_of_a_program_comes_back_to_its_process_and_the_program_gets_it_unchanged() {
    run(async {
        let [one, other] = modern_programs().await;
        let services = with_programs([&one.server, &other.server]).await;
        let balancer = Balancer::new(services);
        let url = listen(balancer.clone()).await;
        let client = Client::builder("c", "1")
            .era(EraChoice::Only(Era::Modern))
            .elicitation(|_| async { Ok(ElicitResult::new(ElicitAction::Decline)) })
            .connect(Link::http(&url).build().unwrap())
            .await
            .unwrap();
        for turn in 0..6 {
            let asked = client.call_tool("a__asks", ()).await.unwrap();
            assert_eq!(asked.content[0].as_text(), Some("Decline"), "{turn}");
            balancer.next();
        }
        client.close().await;
    });
}

#[test]
fn a_state_that_is_not_from_here_is_refused_by_the_program() {
    run(async {
        let [one, other] = modern_programs().await;
        let services = with_programs([&one.server, &other.server]).await;
        let modern = Peer::new(services[0].clone()).with("mcp-protocol-version", "2026-07-28");
        let modern = modern.with("mcp-method", "tools/call").with("mcp-name", "a__asks");
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "c", "version": "0" },
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        });
        let call = |state: Option<&str>| {
            let mut params = json!({ "name": "a__asks", "arguments": {}, "_meta": meta });
            if let Some(state) = state {
                params["requestState"] = state.into();
                params["inputResponses"] = json!({ "1": { "action": "cancel" } });
            }
            params
        };
        let (status, asked) = modern.ask("tools/call", call(None)).await;
        assert_eq!((status, &asked["result"]["resultType"]), (200, &json!("input_required")), "{asked}");
        let state = asked["result"]["requestState"].as_str().unwrap();
        let (own, mark) = state.rsplit_once('.').unwrap();
        let at_other = modern.at(&services[1]);
        for (peer, wrong) in [
            // Without its mark it is valid where it was made, and nowhere else.
            (&at_other, own.to_owned()),
            (&at_other, format!("{own}.{}", &mark[1..])),
            (&modern, format!("{own}.{}", &mark[1..])),
            (&modern, format!("{}.{mark}", &own[1..])),
            (&at_other, format!(".{mark}")),
            (&at_other, String::new()),
        ] {
            let (_, refused) = peer.ask("tools/call", call(Some(&wrong))).await;
            assert_eq!(refused["error"]["code"], -32602, "{wrong}: {refused}");
        }
    });
}

#[test]
fn without_an_address_of_the_process_a_question_of_a_modern_target_is_refused() {
    run(async {
        let target = Target::of("a", Version::V2026_07_28).await;
        let replicas = Replicas::new(1, &[&target]);
        let session = replicas.peer(0).open().await;
        let (status, text) = session.call("a__asks").await;
        assert_eq!(status, 200);
        assert!(text.contains("several processes serve the session"), "{text}");
    });
}
