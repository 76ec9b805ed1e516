//! The floor of a bridge: the same hops with the least work between them, on one thread, with ids and payloads unchanged.
//!
//! `floor-bridge http PORT COMMAND...` starts a child for each session, like bridges that keep sessions;
//! `floor-bridge stdio ADDRESS` posts each line of its standard input to /mcp at that address.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::process::Stdio;
use std::rc::Rc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1 as client;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use memchr::memmem;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Mutex, oneshot};

const SESSION: &str = "mcp-session-id";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The size of one read, in bytes.
const PIECE: usize = 256 * 1024;

type Body = Full<Bytes>;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    match words.as_slice() {
        ["http", port, program, arguments @ ..] => {
            let port = port.parse().expect("a port");
            local.block_on(&runtime, to_stdio(port, program, arguments));
        }
        ["stdio", address] => local.block_on(&runtime, to_http(address.parse().expect("an address"))),
        _ => panic!("floor-bridge http PORT COMMAND..., or floor-bridge stdio ADDRESS"),
    }
}

/// The first number after `"id":`, where the generator and the floor server write it.
fn id(message: &[u8]) -> Option<u64> {
    let head = &message[..message.len().min(64)];
    let digits = &head[memmem::find(head, b"\"id\":")? + 5..];
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..count]).ok()?.parse().ok()
}

/// Calls `each` for each line of the input.
async fn lines(input: impl AsyncRead + Unpin, mut each: impl AsyncFnMut(Bytes)) {
    let mut input = BufReader::with_capacity(PIECE, input);
    loop {
        let mut line = Vec::new();
        match input.read_until(b'\n', &mut line).await {
            Ok(1..) => each(line.into()).await,
            _ => return,
        }
    }
}

/// A child, and the requests that wait for its responses.
struct Upstream {
    stdin: Mutex<ChildStdin>,
    waiting: Rc<RefCell<Waiting>>,
    _child: Child,
}

type Waiting = HashMap<u64, oneshot::Sender<Bytes>>;

impl Upstream {
    fn start(program: &str, arguments: &[&str]) -> Rc<Self> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the command starts");
        let stdin = Mutex::new(child.stdin.take().expect("a pipe"));
        let stdout = child.stdout.take().expect("a pipe");
        let waiting = Rc::<RefCell<Waiting>>::default();
        let answers = waiting.clone();
        tokio::task::spawn_local(lines(stdout, async move |line| {
            let waiting = id(&line).and_then(|id| answers.borrow_mut().remove(&id));
            if let Some(waiting) = waiting {
                let _ = waiting.send(line);
            }
        }));
        Rc::new(Self { stdin, waiting, _child: child })
    }

    /// Writes a message, and waits for its response if it has an id.
    async fn ask(&self, message: &[u8]) -> Option<Bytes> {
        let answer = id(message).map(|id| {
            let (sender, answer) = oneshot::channel();
            self.waiting.borrow_mut().insert(id, sender);
            answer
        });
        let line = [message, b"\n"].concat();
        self.stdin.lock().await.write_all(&line).await.expect("the child reads");
        answer?.await.ok()
    }
}

/// Bridges from HTTP to children.
async fn to_stdio(port: u16, program: &str, arguments: &[&str]) {
    let sessions: Rc<RefCell<HashMap<String, Rc<Upstream>>>> = Rc::default();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("the port is free");
    let start = {
        let (program, arguments) = (program.to_owned(), arguments.iter().map(|word| (*word).to_owned()));
        let arguments: Vec<String> = arguments.collect();
        Rc::new(move || Upstream::start(&program, &arguments.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        let _ = socket.set_nodelay(true);
        let (sessions, start) = (sessions.clone(), start.clone());
        let serve = service_fn(move |request: Request<Incoming>| {
            let (sessions, start) = (sessions.clone(), start.clone());
            async move {
                let known = request.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
                let mut response = Response::new(Body::default());
                if request.method() == Method::DELETE {
                    sessions.borrow_mut().remove(known.as_deref().unwrap_or_default());
                    return Ok::<_, Infallible>(response);
                }
                if request.method() != Method::POST {
                    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
                    return Ok(response);
                }
                let Ok(body) = request.into_body().collect().await else { return Ok(response) };
                let upstream = known.as_ref().and_then(|id| sessions.borrow().get(id).cloned());
                let upstream = upstream.unwrap_or_else(|| {
                    let (upstream, id) = (start(), format!("{:032x}", sessions.borrow().len()));
                    response.headers_mut().insert(SESSION, id.parse().expect("a header"));
                    sessions.borrow_mut().insert(id, upstream.clone());
                    upstream
                });
                match upstream.ask(&body.to_bytes()).await {
                    Some(answer) => {
                        response.headers_mut().insert(CONTENT_TYPE, JSON);
                        *response.body_mut() = answer.into();
                    }
                    None => *response.status_mut() = StatusCode::ACCEPTED,
                }
                Ok(response)
            }
        });
        tokio::task::spawn_local(http1::Builder::new().serve_connection(TokioIo::new(socket), serve));
    }
}

/// Bridges from standard input to HTTP.
async fn to_http(address: SocketAddr) {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().expect("standard input is open");
    let stdin = pipe::Receiver::from_owned_fd(stdin).expect("standard input is a pipe");
    let far = Rc::new(Far { address, session: RefCell::default(), idle: RefCell::default() });
    lines(stdin, async |line| {
        // One after the other, until the session exists.
        if far.session.borrow().is_none() {
            far.post(line).await;
        } else {
            let far = far.clone();
            tokio::task::spawn_local(async move { far.post(line).await });
        }
    })
    .await;
}

/// A server, and its idle connections.
struct Far {
    address: SocketAddr,
    session: RefCell<Option<HeaderValue>>,
    idle: RefCell<Vec<client::SendRequest<Body>>>,
}

impl Far {
    async fn connection(&self) -> client::SendRequest<Body> {
        if let Some(connection) = self.idle.borrow_mut().pop() {
            return connection;
        }
        let socket = TcpStream::connect(self.address).await.expect("the server listens");
        let _ = socket.set_nodelay(true);
        let (sender, driver) = client::handshake(TokioIo::new(socket)).await.expect("it speaks HTTP");
        tokio::task::spawn_local(driver);
        sender
    }

    /// Posts a message, and writes the response to standard output.
    async fn post(&self, line: Bytes) {
        let mut connection = self.connection().await;
        let mut request = Request::post("/mcp").body(Body::from(line)).expect("a request");
        let headers = request.headers_mut();
        headers.insert(HOST, HeaderValue::from_static("127.0.0.1"));
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(session) = &*self.session.borrow() {
            headers.insert(SESSION, session.clone());
        }
        let response = connection.send_request(request).await.expect("the server answers");
        if let Some(session) = response.headers().get(SESSION) {
            *self.session.borrow_mut() = Some(session.clone());
        }
        let body = response.into_body().collect().await.expect("the server answers").to_bytes();
        if connection.ready().await.is_ok() {
            self.idle.borrow_mut().push(connection);
        }
        if !body.is_empty() {
            let line = if body.ends_with(b"\n") { body.to_vec() } else { [&body[..], b"\n"].concat() };
            std::io::stdout().lock().write_all(&line).expect("somebody reads");
            std::io::stdout().lock().flush().expect("somebody reads");
        }
    }
}
