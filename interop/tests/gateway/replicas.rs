//! Two bridges with one key behind a balancer without stickiness, one of which is killed again and again: only the calls that
//! were in progress there fail, no call runs twice, and no client initializes again.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use interop::{Balancer, Port};
use tokio::time::{interval, timeout};

use super::backends::{LISTENING, Servers, names};
use super::load::{Ended, Load};

/// The environment variable with the seconds in which bridges are killed. Without it each is killed three times.
const SECONDS: &str = "MCPJOIN_GATEWAY_SECONDS";
/// The time limit of the test without [`SECONDS`]: far more than it takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(300);
pub(crate) const CLIENTS: usize = 16;

/// A process of a bridge at an address of its own.
pub(crate) struct Replica {
    port: Port,
    child: Child,
    /// Its options beside the address.
    options: Vec<OsString>,
}

impl Replica {
    pub(crate) fn start(options: &[OsString]) -> Self {
        let port = Port::claim().unwrap();
        let child = spawn(&port, options);
        Self { port, child, options: options.to_vec() }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port.number()
    }

    /// Kills the process, and returns the time in which that happened.
    pub(crate) fn kill(&mut self) -> (Instant, Instant) {
        let from = Instant::now();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (from, Instant::now())
    }

    /// Starts it again at the same address.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(&self.port, &self.options);
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a bridge, and waits until it listens.
fn spawn(port: &Port, options: &[OsString]) -> Child {
    let mut command = Command::new(interop::mcpjoin().unwrap());
    command.args(["bridge", "--listen", &format!("http://127.0.0.1:{}/mcp", port.number())]);
    command.args(["--advertise", &format!("http://127.0.0.1:{}", port.number())]);
    command.args(options);
    command.env("XDG_CACHE_HOME", "/dev/null");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let listens = lines.any(|line| line.contains("listening on http://"));
    assert!(listens, "the bridge does not listen");
    // Reads to the end: a bridge with a full pipe would block.
    thread::spawn(move || lines.for_each(drop));
    child
}

/// A result belongs to its call; a call fails only if it was in progress when a bridge was killed.
fn check(calls: &[Ended], kills: &[(Instant, Instant)]) {
    for call in calls {
        match &call.outcome {
            Ok(text) => assert_eq!(*text, call.number.to_string(), "another result: {call:?}"),
            Err(_) => {
                let was_in_progress = kills.iter().any(|(from, to)| call.begun <= *to && *from <= call.ended);
                assert!(was_in_progress, "no bridge was killed during it: {call:?}");
            }
        }
    }
}

/// Writes a key for one test: base64 of 32 bytes. Returns the options of a bridge with it.
pub(crate) fn key_options(folder: &Path) -> Vec<OsString> {
    let keys = folder.join("keys");
    std::fs::write(&keys, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    vec!["--key-file".into(), keys.into()]
}

/// What has happened while bridges were killed.
pub(crate) struct Outcome {
    /// The numbers of calls, kills, failures and sessions.
    pub(crate) text: String,
    pub(crate) kills: usize,
    /// How many sessions the clients have opened.
    pub(crate) opened: usize,
}

/// Kills two bridges with these options again and again while clients call the first `count` servers behind them. Checks that only calls
/// in progress at a killed bridge have failed, and that none ran twice.
pub(crate) fn costs_only_calls_in_progress(
    servers: &Servers,
    count: usize,
    options: &[OsString],
    called: impl Fn(usize) -> String,
) -> Outcome {
    let seconds: Option<u64> = std::env::var(SECONDS).ok().map(|seconds| seconds.parse().unwrap());
    let options = [options, &["--config".into(), servers.configuration(count).into()]].concat();
    let mut replicas = [0, 1].map(|_| Replica::start(&options));
    let addresses = [0, 1].map(|at: usize| SocketAddr::from(([127, 0, 0, 1], replicas[at].port())));
    let balancer = Balancer::before(addresses).unwrap();
    let url = format!("http://{}/mcp", balancer.address());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (calls, kills) = runtime.block_on(async {
        let run = async {
            let load = Load::start_as(&url, CLIENTS, &names()[..count], called).await;
            for server in 0..count {
                load.reaches(server, Instant::now()).await;
            }
            let mut kills = Vec::new();
            let mut pace = interval(Duration::from_secs(1));
            for kill in 0..seconds.map_or(6, |seconds| usize::try_from(seconds).unwrap()) {
                pace.tick().await;
                let replica = &mut replicas[kill % 2];
                kills.push(replica.kill());
                replica.start_again();
                if seconds.is_none() {
                    let since = Instant::now();
                    for server in 0..count {
                        load.reaches(server, since).await;
                    }
                }
            }
            (load.end().await, kills)
        };
        match seconds {
            Some(_) => run.await,
            None => timeout(DEADLINE, run).await.expect("the test hangs"),
        }
    });
    let failed = calls.iter().filter(|call| call.outcome.is_err()).count();
    let opened = balancer.opened();
    let text = format!("{} calls, {} kills, {failed} failed, {opened} sessions", calls.len(), kills.len());
    check(&calls, &kills);
    servers.have_run_each_once(&calls);
    Outcome { text, kills: kills.len(), opened }
}

#[test]
fn a_killed_bridge_costs_only_the_calls_in_progress_there() {
    let servers = Servers::start("replicas");
    let options = key_options(servers.folder.path());
    let Outcome { text, opened, .. } =
        costs_only_calls_in_progress(&servers, LISTENING, &options, |_| "load".to_owned());
    eprintln!("{text}");
    // Half of the clients are of the legacy era.
    assert_eq!(opened, CLIENTS / 2, "clients have initialized again");
}

#[test]
fn a_session_with_a_program_is_served_by_its_bridge_through_either_and_ends_with_it() {
    let servers = Servers::start("replicas of a program");
    let options = key_options(servers.folder.path());
    let Outcome { text, kills, opened } =
        costs_only_calls_in_progress(&servers, names().len(), &options, |_| "load".to_owned());
    eprintln!("{text}");
    // Each client of the legacy era has one session at a time, which is that of one bridge.
    assert!(opened > CLIENTS / 2, "no session has ended with its bridge");
    assert!(opened <= CLIENTS / 2 * (1 + kills), "{opened} sessions");
}
