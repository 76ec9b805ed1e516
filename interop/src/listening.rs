//! A published server that listens, and runs of the binary on it, heard by a relay between them.
//!
//! Used by the tests of servers over HTTP. It starts the server, and ends it when it is dropped.
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

/// What stands for the server's address in the words of [`Listening::run`].
pub const URL: &str = "URL";

/// Far more than a server takes to start, on a busy machine.
const START: Duration = Duration::from_secs(60);

/// A server that listens. Ended when this is dropped.
#[derive(Debug)]
pub struct Listening {
    server: Peer,
    running: Running,
    way: Way,
    relay: Relay,
    /// The port that it was told. Given back once it has ended.
    port: Option<Port>,
}

/// The process of a server that listens. Ended when this is dropped.
#[derive(Debug)]
struct Running {
    child: Child,
    mark: String,
    address: SocketAddr,
    path: String,
}

impl Listening {
    /// Starts a server that prints `listening on` and its address, once it does.
    ///
    /// # Panics
    ///
    /// When it does not.
    #[must_use]
    pub fn new(server: &Peer, way: Way) -> Self {
        let running = Running::start(server, None, |line| {
            let (_, address) = line.split_once("listening on http://")?;
            let (address, path) = address.trim_end().split_once('/')?;
            Some((address.parse().ok()?, format!("/{path}")))
        });
        Self::of(server, None, way, running)
    }

    /// Starts a server that is told its port by the variable `PORT`, and writes it to standard error, once it listens.
    ///
    /// # Panics
    ///
    /// When it does not.
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

    /// Where the server itself listens, with no relay before it.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.running.address
    }

    /// Ends the server as a crash does: it says goodbye to nobody, and nothing listens there any more.
    pub fn crash(&mut self) {
        self.running.end();
    }

    /// Starts it again at the same address, with nothing in its memory.
    ///
    /// # Panics
    ///
    /// When it does not start, or was not told its port.
    pub fn start_again(&mut self) {
        self.running.end();
        let port = self.port.as_ref().unwrap();
        self.running = Running::on(&self.server, port.number(), &self.running.path);
    }

    /// Its address, as the binary is given it.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.way == Way::Sse { "sse+http" } else { "http" };
        format!("{scheme}://{}{}", self.relay.address(), self.running.path)
    }

    /// `mcpjoin WORDS`, with the server's address in place of [`URL`]. Once it has ended, nothing that it started may run,
    /// and the server may have no session of it.
    ///
    /// # Panics
    ///
    /// When the binary cannot be started, or something is left.
    #[must_use]
    pub fn run(&self, words: &[&str]) -> Ran {
        let url = self.url();
        self.run_on(&url, words)
    }

    /// The same for a server of HTTP+SSE, whose address does not say so.
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

    /// Begins `mcpjoin WORDS` and interrupts it once it has asked for this method. Once it has ended, nothing may be left of
    /// it, as after [`Self::run`].
    ///
    /// # Panics
    ///
    /// When it cannot be started, never asks for that, or leaves something.
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

    /// Whether this was asked for or told by the binary.
    #[must_use]
    pub fn was_told(&self, method: &str) -> bool {
        self.exchanges().iter().any(|exchange| asks(exchange, method))
    }

    /// Whether the binary has closed the connection before the answer to this came to its end.
    #[must_use]
    pub fn was_left(&self, method: &str) -> bool {
        self.exchanges().iter().any(|exchange| asks(exchange, method) && exchange.left)
    }

    fn command(&self, url: &str, words: &[&str]) -> Command {
        let mut command = mcpjoin();
        // Whatever proxy there may be, the server is on this machine.
        command.env("NO_PROXY", "127.0.0.1").env("no_proxy", "127.0.0.1");
        command.args(words.iter().map(|word| if *word == URL { url } else { word }));
        command
    }

    /// Holds that nothing is left of a run that has ended.
    fn holds_nothing_of(&self, words: &[&str], ran: Ran) -> Ran {
        self.is_left(&format!("mcpjoin {words:?}, {ran:?}"));
        ran
    }

    /// Holds that whoever spoke to it has ended all sessions and closed all connections.
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

    /// How many sessions there have been.
    #[must_use]
    pub fn session_count(&self) -> usize {
        self.sessions().len()
    }

    /// How often the binary has come back for what it had not heard of a stream.
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
    /// Starts a server that is told this port.
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
            // To the end: a server whose output nobody takes comes to a halt.
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
