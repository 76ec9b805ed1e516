//! Five servers on five SDKs as their users write one, of both eras. Each has the tool `counted`, which returns its message
//! and appends it to a file. Used by the tests that put load on the joined endpoint.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use interop::{Bridge, Folder, NODE, Port};
use serde_json::json;

use super::load::Ended;

/// A server: its name in the configuration, its command below `interop/`, and whether the gateway starts it. All others
/// listen, and run without the gateway.
struct Kind {
    name: &'static str,
    command: &'static [&'static str],
    is_child: bool,
}

const KINDS: [Kind; 5] = [
    Kind { name: "typescript1", command: &[NODE, "servers/sdk-1.mjs", "restarts"], is_child: false },
    Kind { name: "typescript2", command: &[NODE, "servers/sdk-2.mjs", "modern"], is_child: false },
    Kind { name: "python", command: &["venv/bin/python", "servers/python-sdk.py", "both"], is_child: false },
    Kind { name: "fastmcp", command: &["venv/bin/python", "servers/fastmcp-server.py"], is_child: false },
    Kind { name: "rmcp", command: &["rmcp/target/debug/rmcp-current"], is_child: true },
];

/// The program of the only server that the gateway starts, as in its command line.
const CHILD: &str = "rmcp-current";

/// The name of the policy's file.
const POLICY: &str = "policy.toml";

/// The names of the servers.
pub(crate) fn names() -> [&'static str; 5] {
    KINDS.map(|kind| kind.name)
}

/// The number of servers that listen: the first ones.
pub(crate) const LISTENING: usize = 4;

/// The servers, of which those that listen run.
pub(crate) struct Servers {
    pub(crate) folder: Folder,
    /// Those that listen, by their place in [`KINDS`].
    listening: BTreeMap<usize, Listening>,
}

/// The running servers, and the bridge that joins them.
pub(crate) struct Backends {
    servers: Servers,
    pub(crate) bridge: Bridge,
}

/// A process of a server.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Listening {
    port: Port,
    /// `None` between its end and the next start.
    server: Option<Server>,
}

impl Servers {
    /// Starts the servers that listen.
    pub(crate) fn start(name: &str) -> Self {
        let folder = Folder::new(name);
        let mut listening = BTreeMap::new();
        thread::scope(|scope| {
            let started = KINDS.iter().enumerate().filter(|(_, kind)| !kind.is_child).map(|(at, kind)| {
                let file = counts(&folder, kind.name);
                let port = Port::claim().unwrap();
                scope.spawn(move || {
                    let server = Some(listen(kind, port.number(), &file));
                    (at, Listening { port, server })
                })
            });
            for started in started.collect::<Vec<_>>() {
                let (at, server) = started.join().unwrap();
                listening.insert(at, server);
            }
        });
        Self { folder, listening }
    }

    /// Writes a configuration with the first servers.
    pub(crate) fn configuration(&self, count: usize) -> PathBuf {
        let mut entries = serde_json::Map::new();
        for (at, kind) in KINDS.iter().enumerate().take(count) {
            let entry = match self.listening.get(&at) {
                Some(one) => json!({ "url": format!("http://127.0.0.1:{}/mcp", one.port.number()) }),
                None => json!({
                    "command": interop::server(kind.command[0]).unwrap(),
                    "env": { "COUNTED": counts(&self.folder, kind.name) },
                }),
            };
            entries.insert(kind.name.to_owned(), entry);
        }
        let file = self.folder.path().join("servers.json");
        fs::write(&file, json!({ "mcpServers": entries }).to_string()).unwrap();
        file
    }

    /// Checks that each server has run its calls and no others: those with a result once, all others at most once.
    pub(crate) fn have_run_each_once(&self, calls: &[Ended]) {
        for (server, name) in names().iter().enumerate() {
            let text = fs::read_to_string(counts(&self.folder, name)).unwrap_or_default();
            let mut runs: HashMap<u64, usize> = HashMap::new();
            for line in text.lines() {
                *runs.entry(line.parse().unwrap()).or_default() += 1;
            }
            for call in calls.iter().filter(|call| call.server == server) {
                let runs = runs.remove(&call.number).unwrap_or_default();
                assert!(runs <= 1, "{name} has run a call {runs} times: {call:?}");
                assert!(runs == 1 || call.outcome.is_err(), "{name} has not run it: {call:?}");
            }
            assert!(runs.is_empty(), "{name} has run calls of others: {runs:?}");
        }
    }
}

impl Backends {
    /// Starts the servers, and the bridge with this policy.
    pub(crate) fn start(name: &str, policy: Option<&str>) -> Self {
        let servers = Servers::start(name);
        let mut words: Vec<OsString> = vec!["--config".into(), servers.configuration(KINDS.len()).into()];
        if let Some(policy) = policy {
            let file = servers.folder.path().join(POLICY);
            fs::write(&file, policy).unwrap();
            words.extend(["--policy".into(), file.into()]);
        }
        let bridge = Bridge::joined(&words);
        Self { servers, bridge }
    }

    /// As [`Servers::have_run_each_once`].
    pub(crate) fn have_run_each_once(&self, calls: &[Ended]) {
        self.servers.have_run_each_once(calls);
    }

    /// Writes another policy in place of the first one.
    pub(crate) fn write_policy(&self, policy: &str) {
        let (new, file) = (self.servers.folder.path().join("new"), self.servers.folder.path().join(POLICY));
        fs::write(&new, policy).unwrap();
        // The bridge never reads half of it.
        fs::rename(new, file).unwrap();
    }

    /// Kills the processes of a server, and returns how many there were.
    pub(crate) fn kill(&mut self, at: usize) -> usize {
        match self.servers.listening.get_mut(&at) {
            Some(listening) => usize::from(listening.server.take().is_some()),
            None => self.bridge.kill_servers(CHILD),
        }
    }

    /// Starts a server that was killed again at its address, if that is not what the gateway does.
    pub(crate) fn start_again(&mut self, at: usize) {
        let file = counts(&self.servers.folder, KINDS[at].name);
        if let Some(listening) = self.servers.listening.get_mut(&at) {
            listening.server = Some(listen(&KINDS[at], listening.port.number(), &file));
        }
    }

    /// Starts as many processes of a server as [`kill`](Self::kill) ends, which the gateway does not know. They end when the
    /// returned value is dropped.
    pub(crate) fn start_beside(&self, at: usize) -> impl Sized + use<> {
        let kind = &KINDS[at];
        let count = if kind.is_child {
            self.bridge.servers().iter().filter(|line| line.contains(CHILD)).count()
        } else {
            1
        };
        let start = |_| Server(command(kind, 0, Path::new("/dev/null")).spawn().unwrap());
        (0..count).map(start).collect::<Vec<_>>()
    }
}

fn counts(folder: &Folder, name: &str) -> PathBuf {
    folder.path().join(format!("counted.{name}"))
}

fn command(kind: &Kind, port: u16, counts: &Path) -> Command {
    let [program, arguments @ ..] = kind.command else { panic!("{} has no command", kind.name) };
    let mut command = Command::new(interop::server(program).unwrap());
    // Of a script the path, of a mode the word.
    command.args(arguments.iter().map(|word| interop::server(word).unwrap_or_else(|_| word.into())));
    command.env("PORT", port.to_string()).env("COUNTED", counts);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Starts a server at this port, and waits until it listens.
fn listen(kind: &Kind, port: u16, counts: &Path) -> Server {
    let mut child = command(kind, port, counts).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let server = Server(child);
    assert!(lines.any(|line| line.contains("listening on ")), "{} does not listen", kind.name);
    // Reads to the end: a server with a full output pipe would block.
    thread::spawn(move || lines.for_each(drop));
    server
}
