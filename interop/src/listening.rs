//! A published server that listens, and runs of the binary against it through a recording relay.
//!
//! Used by the tests of servers over HTTP. It starts the server, and ends it when the value is dropped.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is not as it should be fails the test that asked for it"
)]

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Way;
use crate::exchange::Exchange;
use crate::port::Port;
use crate::relay::Relay;
use crate::run::{mcpjoin, ran};
use crate::sessions::{SESSION, Session, asks};
use crate::witness::{GRACE, kill};
use crate::{MARK, Peer, Ran, ask};

/// The placeholder for the server's address in the arguments of [`Listening::run`].
pub const URL: &str = "URL";

/// The time limit for a server to start: far more than it takes on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A server that listens. It is ended when this value is dropped.
#[derive(Debug)]
pub struct Listening {
    server: Peer,
    running: Running,
    way: Way,
    relay: Relay,
    /// The port that the server was given. Released after the server has ended.
    port: Option<Port>,
}

/// The process of a server that listens. It is ended when this value is dropped.
#[derive(Debug)]
struct Running {
    child: Child,
    mark: String,
    address: SocketAddr,
    path: String,
}

impl Listening {
    /// Starts a server that prints `listening on` and its address when it is ready.
    ///
    /// # Panics
    ///
    /// When it does not print that.
    #[must_use]
    pub fn new(server: &Peer, way: Way) -> Self {
        let running = Running::start(server, None, |line| {
            let (_, address) = line.split_once("listening on http://")?;
            let (address, path) = address.trim_end().split_once('/')?;
            Some((address.parse().ok()?, format!("/{path}")))
        });
        Self::of(server, None, way, running)
    }

    /// Starts a server that takes its port from the variable `PORT`, and prints it on standard error when it listens.
    ///
    /// # Panics
    ///
    /// When it does not print that.
    #[must_use]
    pub fn on_a_port(server: &Peer, way: Way, path: &str) -> Self {
        let port = Port::claim().unwrap();
        let running = Running::on(server, port.number(), path);
        Self::of(server, Some(port), way, running)
    }

    fn of(server: &Peer, port: Option<Port>, way: Way, running: Running) -> Self {
        let relay = Relay::to(running.address).unwrap();
        Self { server: server.clone(), running, way, relay, port }
    }

    /// The address of the server itself, without the relay.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// Kills the server like a crash: it closes no session, and its port stops listening.
    pub fn crash(&mut self) {
        self.running.end();
    }

    /// Starts the server again at the same address, without its earlier state.
    ///
    /// # Panics
    ///
    /// When it does not start, or does not take its port from `PORT`.
    pub fn start_again(&mut self) {
        self.running.end();
        let port = self.port.as_ref().unwrap();
        self.running = Running::on(&self.server, port.number(), &self.running.path);
    }

    /// Its URL, as the binary takes it.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.way == Way::Sse { "sse+http" } else { "http" };
        format!("{scheme}://{}{}", self.relay.address(), self.running.path)
    }

    /// Runs `mcpjoin WORDS`, with the server's address in place of [`URL`]. After its end, no process that it started may
    /// run, and the server may have no session of it.
    ///
    /// # Panics
    ///
    /// When the binary cannot be started, or a process or session is left.
    #[must_use]
    pub fn run(&self, words: &[&str]) -> Ran {
        let url = self.url();
        self.run_on(&url, words)
    }

    /// The same for a server with HTTP+SSE, with a URL that names the transport.
    ///
    /// # Panics
    ///
    /// As [`Self::run`].
    #[must_use]
    pub fn run_unknown(&self, words: &[&str]) -> Ran {
        let url = self.url();
        self.run_on(url.trim_start_matches("sse+"), words)
    }

    fn run_on(&self, url: &str, words: &[&str]) -> Ran {
        let command = self.command(url, words);
        self.holds_nothing_of(words, ran(command))
    }

    /// Starts `mcpjoin WORDS`, and interrupts it after it has sent a request with this method. After its end, the checks are
    /// those of [`Self::run`].
    ///
    /// # Panics
    ///
    /// When it cannot be started, never sends that request, or leaves a process or session.
    #[must_use]
    pub fn interrupt(&self, words: &[&str], method: &str) -> Ran {
        let url = self.url();
        let mut command = self.command(&url, words);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while !self.exchanges().iter().any(|exchange| asks(exchange, method)) {
            if begun.elapsed() > START {
                let _ = child.kill();
                panic!("it never asked for {method}: {:?}", child.wait_with_output());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap();
        let output = child.wait_with_output().unwrap();
        let ran = Ran::of(output);
        self.holds_nothing_of(words, ran)
    }

    /// Whether the binary has sent a message with this method.
    #[must_use]
    pub fn was_told(&self, method: &str) -> bool {
        self.exchanges().iter().any(|exchange| asks(exchange, method))
    }

    /// Whether the binary has closed the connection before the response to this method was complete.
    #[must_use]
    pub fn was_left(&self, method: &str) -> bool {
        self.exchanges().iter().any(|exchange| asks(exchange, method) && exchange.left)
    }

    fn command(&self, url: &str, words: &[&str]) -> Command {
        let mut command = mcpjoin();
        // The server is local, so no proxy is used.
        command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
        command.args(words.iter().map(|word| if *word == URL { url } else { word }));
        command
    }

    /// Checks that a run that has ended left no process, session or connection.
    fn holds_nothing_of(&self, words: &[&str], ran: Ran) -> Ran {
        self.is_left(&format!("mcpjoin {words:?}, {ran:?}"));
        ran
    }

    /// Checks that the client has ended all sessions and closed all connections; `by` names the client in messages.
    ///
    /// # Panics
    ///
    /// When one is left.
    pub fn is_left(&self, by: &str) {
        assert!(self.relay.is_left_within(GRACE), "a connection is still open: {by}");
        for session in self.sessions() {
            assert!(session.ended, "a session was not ended: {by}");
            if self.way == Way::Http {
                let header = format!("{SESSION}: {}\r\n", session.id);
                let ping = r#"{"jsonrpc":"2.0","id":"after the end","method":"ping"}"#;
                let status = ask(self.address(), "POST", &self.running.path, &header, ping).unwrap();
                assert!(status >= 400, "the server still knows a session: {by}");
            }
        }
    }

    /// Waits until the server has opened the stream of a session of the legacy era: it has begun to answer a GET with events.
    /// What it sends before that belongs to no request, and is lost.
    ///
    /// # Panics
    ///
    /// When it has not opened one in time.
    pub fn opens_the_stream_of_a_session(&self) {
        let begun = Instant::now();
        let is_stream = |exchange: &Exchange| {
            exchange.method == "GET" && exchange.answer.as_ref().is_some_and(|answer| answer.status == 200)
        };
        while !self.exchanges().iter().any(is_stream) {
            assert!(begun.elapsed() < START, "the server has opened no stream: {:?}", self.exchanges());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// The number of sessions until now.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions().len()
    }

    /// How often the binary has resumed a stream.
    #[must_use]
    pub fn returns(&self) -> usize {
        self.exchanges()
            .iter()
            .filter(|exchange| exchange.method == "GET" && exchange.header("last-event-id").is_some())
            .count()
    }

    fn sessions(&self) -> Vec<Session> {
        Session::all(&self.exchanges(), self.way)
    }

    fn exchanges(&self) -> Vec<Exchange> {
        Exchange::all(&self.relay.connections())
    }
}

impl Running {
    /// Starts a server with this port.
    fn on(server: &Peer, port: u16, path: &str) -> Self {
        Self::start(server, Some(port), |line| {
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            line.trim_end().ends_with(&format!("port {port}")).then(|| (address, path.to_owned()))
        })
    }

    fn start(
        server: &Peer,
        port: Option<u16>,
        listens: impl Fn(&str) -> Option<(SocketAddr, String)>,
    ) -> Self {
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        let number = SERVERS.fetch_add(1, Ordering::Relaxed);
        let mark = format!("server {}-{number}", std::process::id());
        let mut command = server.command();
        if let Some(port) = port {
            command.env("PORT", port.to_string());
        }
        let mut child = command
            .env(MARK, &mark)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let said: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().unwrap()), Box::new(child.stderr.take().unwrap())];
        for said in said {
            let sender = sender.clone();
            // Reads to the end: a server with a full output pipe would block.
            thread::spawn(move || {
                for line in BufReader::new(said).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        drop(sender);
        let mut all = Vec::new();
        let found = loop {
            let Ok(line) = lines.recv_timeout(START) else { break None };
            if let Some(found) = listens(&line) {
                break Some(found);
            }
            all.push(line);
        };
        let Some((address, path)) = found else {
            kill(&mark);
            let _ = child.wait();
            panic!("the server does not listen; it said {all:?}");
        };
        Self { child, mark, address, path }
    }

    fn end(&mut self) {
        kill(&self.mark);
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
