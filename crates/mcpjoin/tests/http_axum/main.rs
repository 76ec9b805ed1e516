//! Tests of the HTTP service in an axum application with a route of its own, as the documentation of `Server::http`
//! describes, and of several such applications behind a proxy.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod replicas;

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::routing::get;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::{Era, Raw};
use mcpjoin::server::{Context, NoArguments, tool};
use mcpjoin::transport::{HttpOptions, HttpService};
use mcpjoin::{Client, Link, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The timeout of each test: a hang is a failure.
const DEADLINE: Duration = Duration::from_secs(60);

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("the test hangs") })
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Sum {
    a: i64,
    b: i64,
}

fn service(options: HttpOptions) -> HttpService {
    let server = Server::builder("mounted", "1")
        .tool(tool("sum"), |sum: Sum, _| async move { (sum.a + sum.b).to_string() })
        .tool(tool("tells"), |_: NoArguments, cx| async move {
            // A notification before the result turns the response into an event stream.
            cx.progress(1.0, None, None);
            "told"
        })
        .build()
        .unwrap();
    server.http(options)
}

/// The application's own routes, without the MCP service.
fn application() -> Router {
    Router::new().route("/health", get(|| async { "still here" }))
}

/// A running application. On a shutdown signal it ends as axum does: after the last connection has closed.
struct Application {
    address: SocketAddr,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Application {
    async fn serve(application: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ends) = oneshot::channel::<()>();
        let serving = axum::serve(listener, application).with_graceful_shutdown(async { drop(ends.await) });
        let task = tokio::spawn(async move { serving.await.unwrap() });
        Self { address, end, task }
    }

    async fn end(self) {
        drop(self.end);
        self.task.await.unwrap();
    }
}

/// The whole response to `GET path`.
async fn fetch(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn is_still_here(address: SocketAddr) {
    let answer = fetch(address, "/health").await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nstill here"), "{answer}");
}

async fn sum(client: &Client, a: i64, b: i64) -> String {
    let arguments = Raw::parse(format!("{{\"a\":{a},\"b\":{b}}}")).unwrap();
    text(client, "sum", Some(arguments)).await
}

async fn text(client: &Client, tool: &str, arguments: Option<Raw>) -> String {
    let result = client.call_tool(tool, arguments).await.unwrap();
    let content = serde_json::to_value(&result.content).unwrap();
    content[0]["text"].as_str().unwrap().to_owned()
}

async fn connect(url: String, era: Era) -> Client {
    let link = Link::http(url).build().unwrap();
    Client::builder("axum", "1").era(EraChoice::Only(era)).connect(link).await.unwrap()
}

/// Checks that the endpoint at that address works in both eras, and that the other route works meanwhile.
async fn works(address: SocketAddr, path: &str, service: &HttpService) {
    for (era, sessions) in [(Era::Modern, 0), (Era::Legacy, 1)] {
        let client = connect(format!("http://{address}{path}"), era).await;
        assert_eq!(sum(&client, 2, 40).await, "42", "{era:?}");
        assert_eq!(text(&client, "tells", None).await, "told", "{era:?}");
        assert_eq!(service.sessions(), sessions, "{era:?}");
        is_still_here(address).await;
        assert_eq!(sum(&client, -2, 1).await, "-1", "{era:?}");
        client.close().await;
        assert_eq!(service.sessions(), 0, "{era:?}");
    }
}

#[test]
fn the_service_is_mounted_beside_another_route() {
    run(async {
        let service = service(HttpOptions::new());
        let up = Application::serve(application().route_service("/mcp", service.clone())).await;
        works(up.address, "/mcp", &service).await;
        // axum answers for every other path.
        assert!(fetch(up.address, "/else").await.starts_with("HTTP/1.1 404 "));
        up.end().await;
    });
}

#[test]
fn the_service_is_mounted_below_a_folder() {
    run(async {
        for options in [HttpOptions::new(), HttpOptions::new().any_path().without_sse()] {
            let service = service(options);
            let up = Application::serve(application().nest_service("/tools/mcp", service.clone())).await;
            works(up.address, "/tools/mcp", &service).await;
            up.end().await;
        }
    });
}

#[test]
fn a_service_that_misses_its_path_says_where_it_is_and_what_to_do() {
    run(async {
        let service = service(HttpOptions::new().path("/mcp"));
        let up = Application::serve(application().nest_service("/mcp", service)).await;
        let answer = fetch(up.address, "/mcp").await;
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        let said =
            ["text/plain", "nothing is served at `/`", "the endpoint is `/mcp`", "HttpOptions::any_path"];
        assert!(said.iter().all(|said| answer.contains(said)), "{answer}");
        up.end().await;
    });
}

/// Who a request is made for, as the middleware of the application has found out.
#[derive(Clone)]
struct User(String);

#[test]
fn what_middleware_inserts_reaches_the_handlers_of_a_nested_service() {
    async fn authenticate(mut request: Request, next: Next) -> axum::response::Response {
        let user = request.headers().get("x-user").map(|user| user.to_str().unwrap().to_owned());
        request.extensions_mut().insert(User(user.unwrap_or_default()));
        next.run(request).await
    }
    run(async {
        let who = |_: NoArguments, cx: Context| async move {
            let (user, head) = (cx.extension::<User>().unwrap(), cx.http().unwrap());
            assert_eq!(head.headers["x-user"], user.0.as_str());
            assert_eq!(cx.header("X-User"), Some(user.0.as_str()));
            assert_eq!((cx.header("x-none"), cx.header("no name")), (None, None));
            assert_eq!(cx.principal(), Some(user.0.as_str()));
            user.0.clone()
        };
        let server = Server::builder("mounted", "1").tool(tool("who"), who).build().unwrap();
        let service = server.http(HttpOptions::new().principal_from(|user: &User| user.0.clone()));
        let router = application().nest_service("/mcp", service).layer(from_fn(authenticate));
        let up = Application::serve(router).await;
        for era in [Era::Modern, Era::Legacy] {
            for user in ["ada", "bob"] {
                let link =
                    Link::http(format!("http://{}/mcp", up.address)).header("x-user", user).build().unwrap();
                let client =
                    Client::builder("axum", "1").era(EraChoice::Only(era)).connect(link).await.unwrap();
                assert_eq!(text(&client, "who", None).await, user, "{era:?}");
                client.close().await;
            }
        }
        up.end().await;
    });
}

#[test]
fn the_endpoints_of_2024_are_mounted_beside_another_route() {
    run(async {
        let service = service(HttpOptions::new());
        let routes = ["/mcp", "/sse", "/messages"];
        let application =
            routes.iter().fold(application(), |router, path| router.route_service(path, service.clone()));
        let up = Application::serve(application).await;
        let link = Link::http(format!("http://{}/sse", up.address)).legacy_sse().build().unwrap();
        let client = Client::builder("axum", "1").connect(link).await.unwrap();
        assert_eq!(sum(&client, 2, 40).await, "42");
        is_still_here(up.address).await;
        assert_eq!(text(&client, "tells", None).await, "told");
        client.close().await;
        up.end().await;
    });
}

#[test]
fn an_application_ends_with_a_service_that_is_drained_after_its_signal() {
    run(async {
        let service = service(HttpOptions::new());
        let (end, ends) = oneshot::channel::<()>();
        let ended = service.drain_after(ends);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let application = application().route_service("/mcp", service.clone());
        let serving = axum::serve(listener, application).with_graceful_shutdown(ended);
        let serving = tokio::spawn(async move { serving.await.unwrap() });
        let client = connect(format!("http://{address}/mcp"), Era::Legacy).await;
        assert_eq!(sum(&client, 2, 40).await, "42");
        assert_eq!(service.sessions(), 1, "nothing ends before the signal");
        drop(end);
        // It waits for the client's stream, which ends only with the session.
        serving.await.unwrap();
        assert_eq!(service.sessions(), 0);
        drop(client);
    });
}

#[test]
fn an_application_ends_once_the_service_is_drained() {
    run(async {
        let service = service(HttpOptions::new());
        let up = Application::serve(application().route_service("/mcp", service.clone())).await;
        // The client holds a stream of its session open, which ends only with the session.
        let client = connect(format!("http://{}/mcp", up.address), Era::Legacy).await;
        assert_eq!(sum(&client, 2, 40).await, "42");
        assert_eq!(service.sessions(), 1);
        service.drain().await;
        assert!(fetch(up.address, "/mcp").await.starts_with("HTTP/1.1 503 "));
        is_still_here(up.address).await;
        up.end().await;
        drop(client);
    });
}
