//! `bridge --admin`: pages for monitoring, at an address of their own: `/healthz`, `/readyz`, `/metrics`.
//!
//! Opened by `serving` before the clients' listeners. It reads the state of the gateway and changes nothing. A connection
//! carries one request, and its number, head and time are limited.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mcpjoin::transport::HttpListener;
use mcpjoin_gateway::{Gateway, JoinedGateway, TargetState, TargetStatus};
use mcpjoin_redis::Redis;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::audit::Audit;
use super::metrics::{Metrics, in_prometheus_format};
use crate::args::Bridge;
use crate::commands::listening::Listening;
use crate::failure::Failure;
use crate::telemetry::Telemetry;
use crate::ui::Ui;

/// Connections at once. A monitor needs one.
const MAX_CONNECTIONS: usize = 64;
/// The time of a connection, from its start to its end.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of the head of a request: a probe sends a few hundred.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// How long to wait when accepting fails for lack of open files or memory.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The format before OpenMetrics, for readers that ask for it: `promtool check metrics` reads it.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// The open address of the pages.
pub(super) struct Admin(TcpListener);

/// A gateway whose state is shown.
pub(super) trait Monitored: Send + Sync {
    /// The states of its targets.
    fn targets(&self) -> Vec<TargetStatus>;
    /// How many servers run or start.
    fn running_servers(&self) -> usize;
    /// How many sessions legacy clients have.
    fn sessions(&self) -> usize;
}

impl Monitored for Gateway {
    fn targets(&self) -> Vec<TargetStatus> {
        self.targets()
    }

    fn running_servers(&self) -> usize {
        self.running_servers()
    }

    fn sessions(&self) -> usize {
        self.sessions()
    }
}

impl Monitored for JoinedGateway {
    fn targets(&self) -> Vec<TargetStatus> {
        self.targets()
    }

    fn running_servers(&self) -> usize {
        self.running_servers()
    }

    fn sessions(&self) -> usize {
        self.sessions()
    }
}

/// What is recorded of the calls of one bridge.
#[derive(Clone)]
pub(super) struct Monitoring {
    pub(super) audit: Option<Audit>,
    pub(super) metrics: Option<Arc<Metrics>>,
    pub(super) telemetry: Telemetry,
    /// What several bridges share.
    state: Option<Redis>,
}

impl Monitoring {
    /// Opens the file of the audit.
    pub(super) fn of(
        args: &Bridge,
        ui: &Ui,
        telemetry: &Telemetry,
        state: Option<&Redis>,
    ) -> Result<Self, Failure> {
        let audit =
            args.audit.as_deref().map(|file| Audit::to(file, args.audit_arguments, ui)).transpose()?;
        let left_out = audit.as_ref().map(Audit::left_out).unwrap_or_default();
        let metrics = args.admin.is_some().then(|| Arc::new(Metrics::new(left_out, state.is_some())));
        Ok(Self { audit, metrics, telemetry: telemetry.clone(), state: state.cloned() })
    }

    /// Listens at the address of the admin pages before the addresses of clients are open.
    pub(super) async fn admin(&self, args: &Bridge, ui: &Ui) -> Result<Option<Admin>, Failure> {
        match &args.admin {
            Some(url) => Admin::at(url, ui).await.map(Some),
            None => Ok(None),
        }
    }

    /// Serves the admin pages until the task is aborted.
    pub(super) fn serve(
        &self,
        admin: Option<Admin>,
        listening: Listening,
        gateway: impl Monitored + 'static,
    ) -> (Listening, Option<AbortHandle>) {
        let (Some(admin), Some(metrics)) = (admin, self.metrics.clone()) else { return (listening, None) };
        let is_draining = Arc::new(AtomicBool::new(false));
        let drains = is_draining.clone();
        let listening = listening.on_drain(move || drains.store(true, Ordering::Relaxed));
        let state = State { gateway: Box::new(gateway), metrics, is_draining, shared: self.state.clone() };
        (listening, Some(tokio::spawn(admin.serve(state)).abort_handle()))
    }
}

/// What the pages show.
pub(super) struct State {
    pub(super) gateway: Box<dyn Monitored>,
    pub(super) metrics: Arc<Metrics>,
    /// No new client is served.
    pub(super) is_draining: Arc<AtomicBool>,
    /// What several bridges share.
    shared: Option<Redis>,
}

impl Admin {
    /// Listens at `http://host:port`, and warns if other machines can reach it.
    pub(super) async fn at(url: &str, ui: &Ui) -> Result<Self, Failure> {
        let path = url.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        if path.is_some_and(|(_, path)| !path.is_empty()) {
            return Err(Failure::usage("the address of --admin has a path", "--admin http://host:port"));
        }
        let listener = HttpListener::bind(url).await.map_err(|error| Failure::listen_http(&error))?;
        let url = listener.url();
        let url = url.strip_suffix("/mcp").unwrap_or(&url);
        if !listener.address().ip().is_loopback() {
            ui.warning(&format!(
                "everyone who can reach {url} can read the state of this bridge: there is no authentication and no encryption"
            ));
        }
        ui.note(&format!("state and metrics at {url}/readyz and {url}/metrics"));
        Ok(Self(listener.into_socket()))
    }

    /// Answers requests until it is dropped.
    pub(super) async fn serve(self, state: State) -> Infallible {
        let (state, room) = (Arc::new(state), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
        loop {
            let place = room.clone().acquire_owned().await.expect("the semaphore is never closed");
            match self.0.accept().await {
                Ok((stream, _)) => {
                    let state = state.clone();
                    tokio::spawn(async move {
                        let _ = timeout(CONNECTION_TIMEOUT, connection(stream, &state)).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::debug!(target: "mcpjoin", %error, "a monitor could not be accepted");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }
}

async fn connection(stream: TcpStream, state: &State) {
    let answer = service_fn(|request: Request<Incoming>| {
        let response = state.answer(&request);
        async { Ok::<_, Infallible>(response) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(MAX_HEAD_BYTES).header_read_timeout(None);
    // A monitor that breaks off concerns only itself.
    let _ = http.serve_connection(TokioIo::new(stream), answer).await;
}

impl State {
    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut response = page(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".into());
            response.headers_mut().insert(header::ALLOW, header::HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri().path() {
            "/healthz" => page(StatusCode::OK, TEXT, "ok\n".into()),
            "/readyz" => {
                let (ready, body) = self.readiness();
                let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
                page(status, JSON, format!("{body}\n"))
            }
            "/metrics" => {
                let Self { gateway, metrics, shared, .. } = self;
                if let Some(shared) = shared {
                    metrics.shared(shared.is_available(), shared.counts());
                }
                let text = metrics.text(&gateway.targets(), gateway.running_servers(), gateway.sessions());
                match wants_prometheus(request.headers()) {
                    true => page(StatusCode::OK, PROMETHEUS, in_prometheus_format(&text)),
                    false => page(StatusCode::OK, OPEN_METRICS, text),
                }
            }
            _ => page(StatusCode::NOT_FOUND, TEXT, "the pages are /healthz, /readyz and /metrics\n".into()),
        }
    }

    /// Whether new clients are served and at least one target works, with the state of each target.
    fn readiness(&self) -> (bool, Value) {
        let targets = self.gateway.targets();
        let is_draining = self.is_draining.load(Ordering::Relaxed);
        let ready = !is_draining && targets.iter().any(|target| target.state.is_ready());
        let targets: Vec<Value> = targets.iter().map(shown).collect();
        let mut shown = json!({ "ready": ready, "draining": is_draining, "targets": targets });
        // Without it most of the traffic is served, so it does not decide.
        if let Some(shared) = &self.shared {
            shown["state"] = json!({ "address": shared.address(), "available": shared.is_available() });
        }
        (ready, shown)
    }
}

/// Whether a reader takes text, and does not say that it takes OpenMetrics.
fn wants_prometheus(headers: &header::HeaderMap) -> bool {
    let mut accepted = String::new();
    for value in headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()) {
        accepted.push_str(value);
    }
    accepted.contains("text/plain") && !accepted.contains("openmetrics")
}

/// The state of a target as JSON.
fn shown(target: &TargetStatus) -> Value {
    let mut shown = json!({
        "name": target.name,
        "state": target.state.word(),
        "ready": target.state.is_ready(),
        "collisions": target.collisions,
    });
    if let Some(cause) = &target.cause {
        shown["cause"] = json!(cause);
    }
    if let TargetState::CoolingDown { next_attempt } = &target.state {
        shown["nextAttemptSeconds"] = json!(next_attempt.as_secs_f64());
    }
    shown
}

fn page(status: StatusCode, kind: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mcpjoin::Link;
    use mcpjoin_gateway::Gateway;
    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::{Admin, CONNECTION_TIMEOUT, MAX_CONNECTIONS, MAX_HEAD_BYTES, Metrics, State};
    use crate::ui::Ui;

    /// The pages of a bridge whose server cannot be started.
    async fn pages() -> std::net::SocketAddr {
        let admin = Admin::at("http://127.0.0.1:0", &Ui::plain()).await.unwrap();
        let address = admin.0.local_addr().unwrap();
        let start = || std::future::ready(Err::<Link, _>("no server"));
        tokio::spawn(admin.serve(State {
            gateway: Box::new(Gateway::builder(start).build()),
            metrics: Metrics::new(Counter::default(), false).into(),
            is_draining: Default::default(),
            shared: None,
        }));
        address
    }

    async fn answer(mut stream: TcpStream, request: &str) -> String {
        // The other side may have answered and closed before it has taken everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn metrics_are_in_the_format_that_the_reader_takes() {
        let address = pages().await;
        let of = async |accept: &str| {
            let asked = format!("GET /metrics HTTP/1.1\r\nhost: x\r\n{accept}\r\n");
            answer(TcpStream::connect(address).await.unwrap(), &asked).await
        };
        let prometheus =
            "accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n";
        for accept in ["", "accept: */*\r\n", prometheus] {
            let answer = of(accept).await;
            assert!(answer.contains("openmetrics-text") && answer.ends_with("# EOF\n"), "{accept}: {answer}");
        }
        let answer = of("accept: text/plain\r\n").await;
        assert!(
            answer.contains("version=0.0.4")
                && answer.contains("# TYPE mcpjoin_server_starts_total counter\n"),
            "{answer}"
        );
    }

    #[tokio::test]
    async fn a_monitor_that_sends_nothing_or_too_much_is_cut_and_others_wait_for_their_turn() {
        let address = pages().await;
        let long = format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(MAX_HEAD_BYTES));
        let refused = answer(TcpStream::connect(address).await.unwrap(), &long).await;
        assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 431"), "{refused}");
        let mut silent = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        let asked = "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
        let next = TcpStream::connect(address).await.unwrap();
        let began = std::time::Instant::now();
        let served = timeout(CONNECTION_TIMEOUT * 3, answer(next, asked)).await.unwrap();
        assert!(served.starts_with("HTTP/1.1 200"), "{served}");
        // It waited until the silent ones were cut, and no longer than that.
        let waited = began.elapsed();
        assert!(
            waited > CONNECTION_TIMEOUT / 2 && waited < CONNECTION_TIMEOUT + Duration::from_secs(8),
            "{waited:?}"
        );
        let mut end = [0];
        assert_eq!(silent[0].read(&mut end).await.unwrap_or(0), 0);
    }
}
