//! Calls of the tool echo over HTTP, on the given number of connections, one call after the other on each.

mod connection;
mod events;
mod left;
mod multiplexed;
mod replicas;
mod reply;
mod sessions;
mod socket;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use interop::Port;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConfig;
use serde_json::{Value, json};

pub(crate) use self::connection::Connection;
pub(crate) use self::events::Events;
pub(crate) use self::left::left;
pub(crate) use self::replicas::replicas;
pub(crate) use self::sessions::sessions;
pub(crate) use self::socket::certificate;
use crate::latency::Latencies;
use crate::messages::{check, id};
use crate::plan::Plan;
use crate::server::{cpu, own_cpu, peak};

/// The time limit for a server to listen.
const STARTING: Duration = Duration::from_secs(20);
/// The interval between two connection attempts until it listens.
const LOOK: Duration = Duration::from_millis(1);
/// The number of replies that are checked in full; the later ones are checked by id and length.
const CHECKED: u64 = 3;
/// The environment variable that marks the children of a server, including those of `bridge --listen`.
const MARK: &str = "XDG_MCPJOIN_BENCH_MARK";
/// The placeholder for the port in a command.
const PORT: &str = "{port}";

/// The protocol mode of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// 2025-11-25, each connection in a session of its own.
    Stateful,
    /// 2026-07-28, where calls are independent.
    Stateless,
    /// The transport of 2024-11-05: one stream of events for a session, and answers come on it.
    Events,
    /// Each tool is a path, without MCP.
    OpenApi,
}

/// Where a server is called, how, and by what name.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    pub(crate) mode: Mode,
    /// The tool to call.
    pub(crate) tool: String,
    /// What is trusted, for HTTPS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// A server that listens on its own port.
pub(crate) struct Listening {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Its start time.
    pub(crate) began: Instant,
    tls: Option<Arc<ClientConfig>>,
    /// Reserved until the process has ended.
    _port: Port,
}

impl Listening {
    /// Starts the server with a free port in place of `{port}`, and waits until it listens.
    fn start(command: &[String]) -> Result<Self, String> {
        Self::start_marked(command, "")
    }

    /// The endpoint of an echo server.
    fn endpoint(&self, mode: Mode) -> Endpoint {
        let (path, tool) = ("/mcp".to_owned(), "echo".to_owned());
        Endpoint { address: self.address, path, mode, tool, tls: self.tls.clone() }
    }

    /// The same with a mark that its children inherit.
    fn start_marked(command: &[String], mark: &str) -> Result<Self, String> {
        Self::start_at(Port::claim().map_err(|error| error.to_string())?, command, mark)
    }

    /// The same with a port that the caller has chosen.
    pub(crate) fn start_at(port: Port, command: &[String], mark: &str) -> Result<Self, String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        let words: Vec<String> =
            command.iter().map(|word| word.replace(PORT, &address.port().to_string())).collect();
        let (program, arguments) = words.split_first().ok_or("no command follows --")?;
        let tls = socket::trusted(command)?;
        let began = Instant::now();
        let child = Command::new(program)
            .args(arguments)
            .env(MARK, mark)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let mut server = Self { child, address, began, tls, _port: port };
        while std::net::TcpStream::connect(address).is_err() {
            if let Ok(Some(status)) = server.child.try_wait() {
                return Err(format!("{program}: {status}"));
            }
            if began.elapsed() > STARTING {
                return Err(format!("{program} does not listen"));
            }
            sleep(LOOK);
        }
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process.
    pub(crate) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.end();
    }
}

/// Loads a server, and returns its costs.
pub(crate) fn load(words: &[&str], command: &[String]) -> Result<Value, String> {
    let (mode, words) = match words {
        ["stateful", words @ ..] => (Mode::Stateful, words),
        ["stateless", words @ ..] => (Mode::Stateless, words),
        _ => return Err("load http stateful|stateless".into()),
    };
    let plan = Plan::parse(words, "--connections", 16)?;
    let server = Listening::start(command)?;
    if plan.http2 {
        let mut figures = multiplexed::measure(&server, mode, &plan)?;
        figures["peak_kib"] = json!(peak(server.pid()));
        return Ok(figures);
    }
    let mut opened = None;
    let connections = (0..plan.at_once)
        .map(|_| {
            let connection = Connection::open(&server.endpoint(mode))?;
            opened.get_or_insert_with(|| server.began.elapsed());
            Ok(connection)
        })
        .collect::<Result<Vec<_>, String>>()?;
    // Without sessions there was no response yet.
    let opened = opened.filter(|_| mode == Mode::Stateful).map(|opened| opened.as_secs_f64() * 1e3);
    let mut figures = measure(connections, Vec::new(), &plan, || cpu(server.pid()))?;
    figures["peak_kib"] = json!(peak(server.pid()));
    figures["opened_ms"] = json!(opened);
    Ok(figures)
}

/// Calls on all connections, one call after the other on each, and returns the rate, the latencies and the CPU time.
/// `streams` are the streams of events on which the answers to calls come.
pub(crate) fn measure(
    mut connections: Vec<Connection>,
    mut streams: Vec<Events>,
    plan: &Plan,
    cpu: impl Fn() -> Duration,
) -> Result<Value, String> {
    let mut run = Run { text: &plan.text, replies: 0, length: 0, next: 1, latencies: Latencies::default() };
    for connection in &mut connections {
        connection.prepare(&plan.text, plan.once)?;
        run.call(connection)?;
    }
    let began = Instant::now();
    let limit = plan.warm + plan.measured + STARTING;
    let mut window = None;
    loop {
        let elapsed = began.elapsed();
        match &window {
            None if elapsed >= plan.warm && run.replies > 0 => {
                run.latencies.clear();
                window = Some((Instant::now(), cpu(), own_cpu(), run.replies));
            }
            Some((since, spent, own, before))
                if elapsed >= plan.warm + plan.measured && run.replies > *before =>
            {
                let wall = since.elapsed().as_secs_f64();
                let calls = (run.replies - before) as f64;
                return Ok(json!({
                    "calls": calls,
                    "per_second": calls / wall,
                    "p50_us": run.latencies.below(0.5),
                    "p99_us": run.latencies.below(0.99),
                    "cpu_us": cpu().saturating_sub(*spent).as_secs_f64() * 1e6 / calls,
                    "generator_cpu_us": (own_cpu() - *own).as_secs_f64() * 1e6 / calls,
                }));
            }
            _ if elapsed > limit => return Err(format!("no progress after {} replies", run.replies)),
            _ => {}
        }
        let mut ready: Vec<bool> = {
            let calls = connections.iter().map(Connection::interest);
            let mut sockets: Vec<PollFd<'_>> = calls.chain(streams.iter().map(Events::interest)).collect();
            let patience = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            poll(&mut sockets, Some(&patience)).map_err(|error| error.to_string())?;
            sockets.iter().map(|socket| socket.revents() != PollFlags::empty()).collect()
        };
        let of_streams = ready.split_off(connections.len());
        for (stream, _) in streams.iter_mut().zip(of_streams).filter(|(_, ready)| *ready) {
            while let Some(event) = stream.next()? {
                let id = id(&event);
                if let Some(at) = connections.iter().position(|connection| Some(connection.id) == id) {
                    connections[at].deliver(event);
                    ready[at] = true;
                }
            }
        }
        for (connection, _) in connections.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
            if connection.turn()? {
                run.reply(connection)?;
                run.call(connection)?;
            }
        }
    }
}

/// Checks and counts the replies.
struct Run<'a> {
    text: &'a str,
    replies: u64,
    /// The length of a reply that was checked in full, in bytes.
    length: usize,
    next: u64,
    latencies: Latencies,
}

impl Run<'_> {
    fn call(&mut self, connection: &mut Connection) -> Result<(), String> {
        connection.call(self.next)?;
        self.next += 1;
        Ok(())
    }

    fn reply(&mut self, connection: &Connection) -> Result<(), String> {
        let message = connection.message()?;
        if self.replies < CHECKED || message.len() + 8 < self.length {
            check(message, self.text)?;
            self.length = message.len();
        }
        if connection.has_ids() && id(message) != Some(connection.id) {
            let shown = String::from_utf8_lossy(&message[..message.len().min(200)]);
            return Err(format!("a reply to another call: {shown}"));
        }
        self.latencies.push(connection.sent, Instant::now());
        self.replies += 1;
        Ok(())
    }
}
