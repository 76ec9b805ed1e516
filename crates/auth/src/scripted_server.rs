//! Scripted HTTP/1.1 servers for the tests of this crate, on the one of all crates: a function makes each response.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
pub(super) use mcpjoin_test_support::scripted_http::run;
use mcpjoin_test_support::scripted_http::{Scripted, Seen as Request};
use tokio::net::TcpListener;

use super::fetch::{FetchOptions, Fetcher, Lookup};

/// A recorded request.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Method and target, as `GET /x?y`.
    pub(super) line: String,
    /// The headers, in lower case.
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

impl From<&Request> for Seen {
    fn from(request: &Request) -> Self {
        let headers = request.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        Self {
            line: format!("{} {}", request.method, request.target),
            head: headers.collect::<String>().to_ascii_lowercase(),
            body: request.body.clone(),
        }
    }
}

/// A server at `http://127.0.0.1:PORT`.
pub(super) struct ScriptedServer {
    pub(super) origin: String,
    server: Scripted,
}

impl ScriptedServer {
    /// The script gets the request and the server's own origin.
    pub(super) async fn new(script: impl Fn(&Seen, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let own = origin.clone();
        let server = Scripted::on(listener, move |request, mut talk| {
            let answer = script(&Seen::from(&request), &own);
            async move {
                let (Answer::Text(text) | Answer::Endless(text) | Answer::Silent(text)) = &answer;
                talk.raw(text).await;
                match answer {
                    Answer::Text(_) => {}
                    Answer::Endless(_) => talk.endless().await,
                    Answer::Silent(_) => talk.gone().await,
                }
                None
            }
        });
        Self { origin, server }
    }

    pub(super) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.server.seen().iter().map(Seen::from).collect()
    }

    /// Method and target of all requests.
    pub(super) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }

    pub(super) fn fetcher(&self) -> Fetcher {
        Fetcher::new(&self.url(), FetchOptions::default()).unwrap()
    }
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
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
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
