//! Scripted HTTP/1.1 servers for tests: a function makes each response, and every request is recorded.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::fetch::{FetchOptions, Fetcher, Lookup};

/// The timeout of a test: a hang is a failure.
const DEADLINE: Duration = Duration::from_secs(30);

pub(super) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("the test hangs") })
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Method and target, as `GET /x?y`.
    pub(super) line: String,
    pub(super) head: String,
    pub(super) body: String,
}

/// A response.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// A text, after which the connection is closed.
    Text(String),
    /// A text, and then the letter x as long as the client reads.
    Endless(String),
    /// A text, after which the connection stays open and silent.
    Silent(String),
}

pub(super) fn json(body: impl AsRef<str>) -> Answer {
    answer("200 OK", "content-type: application/json\r\n", body)
}

pub(super) fn not_found() -> Answer {
    answer("404 Not Found", "", "")
}

pub(super) fn answer(status: &str, headers: &str, body: impl AsRef<str>) -> Answer {
    let body = body.as_ref();
    let length = body.len();
    Answer::Text(format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    ))
}

type Script = Arc<dyn Fn(&Seen, &str) -> Answer + Send + Sync>;

/// A server at `http://127.0.0.1:PORT`.
pub(super) struct ScriptedServer {
    pub(super) origin: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ScriptedServer {
    /// The script gets the request and the server's own origin.
    pub(super) async fn new(script: impl Fn(&Seen, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let script: Script = Arc::new(script);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (all, own) = (Arc::clone(&seen), origin.clone());
        let task = tokio::spawn(async move {
            let mut talks = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                talks.spawn(talk(stream, Arc::clone(&script), Arc::clone(&all), own.clone()));
            }
        });
        Self { origin, seen, task }
    }

    pub(super) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Method and target of all requests.
    pub(super) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }

    pub(super) fn fetcher(&self) -> Fetcher {
        Fetcher::new(&self.url(), FetchOptions::default()).unwrap()
    }
}

async fn talk(mut stream: TcpStream, script: Script, all: Arc<Mutex<Vec<Seen>>>, own: String) -> Option<()> {
    let mut unread = Vec::new();
    let end = loop {
        if let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        stream.read_buf(&mut unread).await.ok().filter(|read| *read > 0)?;
    };
    let head = String::from_utf8(unread[..end].to_vec()).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
    while unread.len() < end + length.unwrap_or(0) {
        stream.read_buf(&mut unread).await.ok().filter(|read| *read > 0)?;
    }
    let line = String::from_utf8(unread.split(|byte| *byte == b'\r').next()?.to_vec()).unwrap();
    let line = line.trim_end_matches(" HTTP/1.1").to_owned();
    let seen = Seen { line, head, body: String::from_utf8(unread[end..].to_vec()).unwrap() };
    let answer = script(&seen, &own);
    all.lock().unwrap().push(seen);
    match answer {
        Answer::Text(text) => stream.write_all(text.as_bytes()).await.ok()?,
        Answer::Silent(text) => {
            stream.write_all(text.as_bytes()).await.ok()?;
            // Until the client closes the connection.
            while stream.read_buf(&mut unread).await.ok()? > 0 {}
        }
        Answer::Endless(text) => {
            stream.write_all(text.as_bytes()).await.ok()?;
            let piece = vec![b'x'; 64 * 1024];
            while stream.write_all(&piece).await.is_ok() {}
        }
    }
    stream.shutdown().await.ok()
}

/// The addresses of a name, for each lookup.
type Answers = VecDeque<Vec<IpAddr>>;

/// Names that resolve as a test says: the responses of each name in order, the last one repeated.
#[derive(Clone, Default)]
pub(super) struct Names(Arc<Mutex<Vec<(String, Answers)>>>);

impl Names {
    pub(super) fn with(self, name: &str, answers: &[&[&str]]) -> Self {
        let answers = answers.iter().map(|one| one.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        self.0.lock().unwrap().push((name.to_owned(), answers));
        self
    }

    pub(super) fn options(&self) -> FetchOptions {
        FetchOptions { lookup: Some(Arc::new(self.clone())), ..FetchOptions::default() }
    }
}

impl Lookup for Names {
    fn lookup(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        let mut names = self.0.lock().unwrap();
        let answers = names.iter_mut().find(|(known, _)| *known == name).map(|(_, answers)| answers);
        let found = match answers {
            Some(answers) if answers.len() > 1 => answers.pop_front(),
            Some(answers) => answers.front().cloned(),
            None => None,
        };
        Box::pin(async move { found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such name")) })
    }
}
