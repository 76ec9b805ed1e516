//! Records the messages of a foreign client to `mcpjoin serve demo --full --listen http://...` with a relay, and how the server
//! and its sessions end. This confirms the report of the client's script with an observation from outside.
//!
//! Used by [`crate::client`]. It starts the server, and checks the recorded messages.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is not as it should be fails the test that asked for it"
)]

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Way;
use crate::endpoint::Endpoint;
use crate::exchange::{Answer, Exchange};
use crate::nginx::Nginx;
use crate::relay::Relay;
use crate::sessions::{SESSION, Session, asks};
use crate::witness::{self, GRACE, kill, left};
use crate::{Folder, LEGACY, MARK, MODERN, Port, Redis, ask};

/// The exit code of a server that SIGTERM has ended correctly.
pub(crate) const TERMINATED: i32 = 143;

const VERSION: &str = "mcp-protocol-version";

/// A server that listens, and the recorded actions of one script.
pub(crate) struct Overheard {
    folder: Folder,
    /// In the order in which they are told to end.
    processes: Vec<Listens>,
    /// That of the first process.
    address: SocketAddr,
    relay: Relay,
    way: Way,
    /// Whether a call that is cancelled at another process may end with an error.
    may_fail: bool,
    end: Result<(), String>,
    /// What the processes share, and their ports, until they have ended.
    _redis: Option<Redis>,
    /// The balancer before them.
    _nginx: Option<Nginx>,
    _ports: Vec<Port>,
}

/// A process of the binary that listens.
struct Listens {
    child: Child,
    stderr: Option<BufReader<ChildStderr>>,
    address: SocketAddr,
}

impl Overheard {
    /// Starts the server.
    pub(crate) fn new(name: &str, binary: &OsStr, way: Way, endpoint: Endpoint) -> Self {
        let folder = Folder::new(name);
        let start = |endpoint: Endpoint, words| Listens::start(binary, folder.path(), endpoint, words);
        let (mut ports, mut nginx) = (Vec::new(), None);
        let redis = (endpoint == Endpoint::ReplicasOfProgram).then(|| Redis::start(&[]).unwrap());
        let (processes, front) = if endpoint.is_replicas() {
            let keys = folder.path().join("keys");
            // A key for the tests alone: base64 of 32 bytes.
            std::fs::write(&keys, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
            std::fs::set_permissions(&keys, Permissions::from_mode(0o600)).unwrap();
            let listening = || start(Endpoint::Server, Endpoint::Server.listening(binary, folder.path()));
            let server = redis.is_none().then(listening);
            let target = match (&server, &redis) {
                (Some(server), _) => vec![format!("http://{}/mcp", server.address).into()],
                (None, redis) => {
                    let state = redis.iter().flat_map(|redis| ["--state".into(), redis.url().into()]);
                    // It may take its time: the machine is busy.
                    let patient = ["--state-timeout", "5s"].map(OsString::from);
                    state.chain(patient).chain(Endpoint::program(binary)).collect()
                }
            };
            let bridges = [0, 1].map(|_| {
                let port = Port::claim().unwrap();
                let words = replica(&keys, port.number(), &target);
                ports.push(port);
                start(endpoint, words)
            });
            let addresses = bridges.each_ref().map(|bridge| bridge.address);
            let front = nginx.insert(Nginx::before(addresses, folder.path()).unwrap()).address();
            (bridges.into_iter().chain(server).collect(), front)
        } else {
            let server = start(endpoint, endpoint.listening(binary, folder.path()));
            let front = server.address;
            (vec![server], front)
        };
        let relay = Relay::to(front).unwrap();
        let end = Err("the server was not told to end".to_owned());
        let address = processes[0].address;
        let may_fail = endpoint == Endpoint::Replicas;
        Self {
            folder,
            processes,
            address,
            relay,
            way,
            may_fail,
            end,
            _redis: redis,
            _nginx: nginx,
            _ports: ports,
        }
    }

    /// An empty folder, used as the script's home.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The arguments that name the server for the script.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let address = self.relay.address();
        vec![match self.way {
            Way::Sse => format!("sse+http://{address}/sse").into(),
            _ => format!("http://{address}/mcp").into(),
        }]
    }

    /// Ends everything after the script: its remaining processes, its sessions, and then the server with SIGTERM. Returns the
    /// processes that still run.
    pub(crate) fn finish(&mut self, mark: &str) -> Vec<String> {
        let mut left = left(mark);
        self.end = match left.first() {
            Some(first) => Err(format!("left running: {first}")),
            None if !self.relay.is_left_within(GRACE) => Err("a connection was left open".to_owned()),
            None => self.sessions_are_gone(),
        };
        let stopped = self.stop();
        if self.end.is_ok() {
            self.end = stopped;
        }
        let of_the_server = mark_of_the_server(self.folder());
        left.extend(witness::left(&of_the_server));
        kill(&of_the_server);
        left
    }

    /// Ends the processes, and checks that each ends correctly.
    fn stop(&mut self) -> Result<(), String> {
        self.processes.iter_mut().map(Listens::stop).fold(Ok(()), Result::and)
    }

    /// Whether the recorded messages confirm that this check was right.
    pub(crate) fn bears_out(&self, check: &str, era: &str) -> Result<(), String> {
        let exchanges = self.exchanges();
        match check {
            "open" => speaks(&exchanges, self.way, era),
            "cancel" if era == "modern" => {
                let calls = || exchanges.iter().filter(|exchange| asks(exchange, "tools/call"));
                let unanswered = |call: &Exchange| {
                    let said = call.answer.as_ref().map(Answer::messages).unwrap_or_default();
                    call.left && said.iter().all(|message| message["id"].is_null())
                };
                let left = calls().find(|call| unanswered(call));
                let left = left.ok_or("no client left a call before it was answered")?;
                let later =
                    calls().any(|call| call.begun > left.begun && call.answer.is_some() && !call.left);
                later.then_some(()).ok_or_else(|| "nothing was asked after the call that was left".to_owned())
            }
            "cancel" => {
                let found: Vec<_> = Session::all(&exchanges, self.way)
                    .iter()
                    .filter_map(|one| one.wire.cancelled(self.may_fail))
                    .collect();
                if found.is_empty() {
                    return Err("no call was ever cancelled".to_owned());
                }
                found.into_iter().collect()
            }
            "end" => self.end.clone(),
            _ => Ok(()),
        }
    }

    fn exchanges(&self) -> Vec<Exchange> {
        Exchange::all(&self.relay.connections())
    }

    /// Checks that the client has ended every session, and that the server does not know them any more.
    fn sessions_are_gone(&self) -> Result<(), String> {
        let exchanges = self.exchanges();
        for session in Session::all(&exchanges, self.way) {
            let asked = || session.wire.methods().join(", ");
            if !session.ended {
                let how = if self.way == Way::Sse { "its stream was not closed" } else { "no DELETE" };
                return Err(format!("a session was not ended ({how}), after {}", asked()));
            }
            let id = session.id;
            let (path, header) = match self.way {
                Way::Sse => (id, String::new()),
                _ => ("/mcp".to_owned(), format!("{SESSION}: {id}\r\n{VERSION}: {LEGACY}\r\n")),
            };
            let begun = Instant::now();
            loop {
                // One of several bridges learns the end of a session from the server, and answers a ping itself.
                let method = if self.processes.len() > 1 { "tools/list" } else { "ping" };
                let last = format!(r#"{{"jsonrpc":"2.0","id":"after the end","method":"{method}"}}"#);
                let status =
                    ask(self.address, "POST", &path, &header, &last).map_err(|error| error.to_string())?;
                if status == 404 {
                    break;
                }
                // With HTTP+SSE the server needs a moment to notice the end of a stream.
                if self.way != Way::Sse || begun.elapsed() > GRACE {
                    return Err(format!("a session is not gone (status {status}), after {}", asked()));
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }
}

impl Listens {
    /// Starts a process, and waits until it has printed where it listens.
    fn start(binary: &OsStr, folder: &Path, endpoint: Endpoint, words: Vec<OsString>) -> Self {
        let mut child = Command::new(binary)
            .args(words)
            .env(MARK, mark_of_the_server(folder))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        // From here on the process ends with this value, also if it does not listen.
        let mut own = Self { child, stderr: Some(stderr), address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let mut line = || {
            let mut line = String::new();
            own.stderr.as_mut().unwrap().read_line(&mut line).unwrap();
            line
        };
        let (before, after) = endpoint.lines_around_the_address();
        let lines: Vec<_> = (0..=before + after).map(|_| line()).collect();
        let said = &lines[before];
        let address = said
            .trim_end()
            .strip_prefix("listening on http://")
            .and_then(|rest| rest.strip_suffix("/mcp")?.parse().ok());
        own.address = address.unwrap_or_else(|| panic!("the server said {said}"));
        own
    }

    /// Sends SIGTERM to the process, and checks that it ends correctly.
    fn stop(&mut self) -> Result<(), String> {
        Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status().unwrap();
        let mut stderr = self.stderr.take().ok_or("the server was told to end twice")?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut said = String::new();
            // The pipe ends with the server.
            let _ = stderr.read_to_string(&mut said);
            let _ = sender.send(said);
        });
        let Ok(said) = receiver.recv_timeout(GRACE) else {
            let _ = self.child.kill();
            let _ = self.child.wait();
            return Err(format!("the server has not ended in {GRACE:?}"));
        };
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.code() != Some(TERMINATED) {
            return Err(format!("the server ended with {status}"));
        }
        let said = witness::complaints(&said);
        if said.is_empty() { Ok(()) } else { Err(format!("the server wrote to stderr: {said}")) }
    }
}

impl Drop for Listens {
    fn drop(&mut self) {
        // Fails if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The arguments of one of several bridges. `target`: those that name the server, at the end.
fn replica(keys: &Path, port: u16, target: &[OsString]) -> Vec<OsString> {
    let own = format!("http://127.0.0.1:{port}");
    let words =
        ["bridge", "--advertise", &own, "--listen", &format!("{own}/mcp"), "--key-file"].map(OsString::from);
    words.into_iter().chain([keys.into()]).chain(target.iter().cloned()).collect()
}

fn mark_of_the_server(folder: &Path) -> String {
    format!("{} server", folder.display())
}

/// Checks that all messages used this transport and this era.
fn speaks(exchanges: &[Exchange], way: Way, era: &str) -> Result<(), String> {
    let place = match way {
        Way::Sse => "/messages",
        _ => "/mcp",
    };
    // A client may detect HTTP+SSE by trying the other transport first.
    let probes = |exchange: &Exchange| {
        way == Way::Sse && exchange.answer.as_ref().is_some_and(|answer| [404, 405].contains(&answer.status))
    };
    let posts = || exchanges.iter().filter(|exchange| exchange.method == "POST" && !probes(exchange));
    if posts().next().is_none() {
        return Err("nothing was ever asked".to_owned());
    }
    if let Some(other) = posts().find(|exchange| exchange.place() != place) {
        return Err(format!("by another way: POST {}", other.path));
    }
    let wrong = |exchange: &Exchange| format!("not of {era}: {:?}", exchange.asked());
    if era == "modern" {
        let mut asked = posts().filter(|post| {
            post.header(VERSION) != Some(MODERN)
                || post.header(SESSION).is_some()
                || !post.asked().iter().all(|message| {
                    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == MODERN
                })
        });
        return asked.next().map_or(Ok(()), |other| Err(wrong(other)));
    }
    let sessions = Session::all(exchanges, way);
    if sessions.is_empty() {
        return Err("no session was ever opened".to_owned());
    }
    for session in &sessions {
        session.wire.speaks(era)?;
    }
    // Every message belongs to one of the sessions, and carries the negotiated version.
    let known = |id: Option<&str>| id.is_some_and(|id| sessions.iter().any(|session| session.id == id));
    let mut strays = posts().filter(|post| match way {
        Way::Sse => !known(Some(&post.path)),
        _ if asks(post, "initialize") => false,
        _ => !known(post.header(SESSION)) || post.header(VERSION) != Some(LEGACY),
    });
    strays.next().map_or(Ok(()), |stray| Err(wrong(stray)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::{Connection, Said};
    use serde_json::{Value, json};

    fn post(headers: &str, body: &Value) -> String {
        let body = body.to_string();
        format!("POST /mcp HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
    }

    fn said(text: &str, over: Option<u64>) -> Said {
        let mut said = Said::default();
        said.bytes.extend_from_slice(text.as_bytes());
        said.over = over;
        said
    }

    fn exchanges(asked: &str, answered: &str, over: [Option<u64>; 2]) -> Vec<Exchange> {
        Exchange::all(&[Connection { asked: said(asked, over[0]), answered: said(answered, over[1]) }])
    }

    const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
    const OF_THE_SESSION: &str = "Mcp-Session-Id: 7\r\nMCP-Protocol-Version: 2025-11-25\r\n";

    /// The exchanges of a session in the legacy era, with or without its end.
    fn legacy(version: &str, ended: bool) -> Vec<Exchange> {
        let mut asked = post("", &json!({ "id": 1, "method": "initialize" }));
        asked += &post(OF_THE_SESSION, &json!({ "method": "notifications/initialized" }));
        let answer = json!({ "id": 1, "result": { "protocolVersion": version } }).to_string();
        let chunk = format!("event: message\ndata: {answer}\n\n");
        let mut answered = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nMcp-Session-Id: 7\r\n\
             Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{chunk}\r\n0\r\n\r\n{ACCEPTED}",
            chunk.len()
        );
        if ended {
            asked += &format!("DELETE /mcp HTTP/1.1\r\n{OF_THE_SESSION}\r\n");
            answered += "HTTP/1.1 204 No Content\r\n\r\n";
        }
        exchanges(&asked, &answered, [None, None])
    }

    #[test]
    fn a_session_is_recorded_from_its_beginning_to_its_end() {
        for ended in [true, false] {
            let exchanges = legacy(LEGACY, ended);
            speaks(&exchanges, Way::Http, "legacy").unwrap();
            let sessions = Session::all(&exchanges, Way::Http);
            assert_eq!(sessions.len(), 1);
            assert_eq!(sessions[0].ended, ended);
            assert_eq!(sessions[0].wire.methods(), ["initialize", "notifications/initialized"]);
        }
    }

    #[test]
    fn who_speaks_another_era_or_goes_another_way_is_found_out() {
        speaks(&legacy("2025-06-18", true), Way::Http, "legacy").unwrap_err();
        speaks(&legacy(LEGACY, true), Way::Http, "modern").unwrap_err();
        speaks(&legacy(LEGACY, true), Way::Sse, "legacy").unwrap_err();
        let asked = post("", &json!({ "method": "notifications/initialized" }));
        speaks(&exchanges(&asked, ACCEPTED, [None, None]), Way::Http, "legacy").unwrap_err();
        speaks(&[], Way::Http, "modern").unwrap_err();
    }

    #[test]
    fn a_response_that_was_left_is_distinguished_from_one_that_was_cut_off() {
        let asked = post("", &json!({ "id": 1, "method": "tools/call" }));
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let whole = format!("{head}0\r\n\r\n");
        for (answered, over, expected) in [
            (head, [Some(5), Some(6)], true),
            (head, [Some(6), Some(5)], false),
            (head, [None, None], false),
            ("", [Some(5), None], true),
            ("", [None, Some(5)], false),
            (&whole, [Some(5), Some(6)], false),
        ] {
            let exchanges = exchanges(&asked, answered, over);
            assert_eq!(exchanges.len(), 1);
            assert_eq!(exchanges[0].left, expected, "{answered:?} {over:?}");
        }
    }
}
