//! One server after the other is killed under load: it costs only its own calls.

use std::time::{Duration, Instant};

use interop::Way;
use tokio::time::{MissedTickBehavior, interval};

use super::backends::{Backends, names};
use super::load::{Ended, Load};

/// The environment variable with the seconds in which servers are killed. Without it each server is killed once.
const SECONDS: &str = "MCPJOIN_GATEWAY_SECONDS";
/// The time limit of the test without [`SECONDS`]: far more than it takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(300);

/// The scale of a run.
struct Scale {
    clients: usize,
    /// The time from one kill to the next, or longer if the killed server is not reached again.
    interval: Duration,
    /// The kills between two windows without kills.
    kills: usize,
    windows: usize,
}

impl Scale {
    const SHORT: Self = Self { clients: 16, interval: Duration::from_millis(200), kills: 5, windows: 1 };

    fn chosen() -> Self {
        let Ok(seconds) = std::env::var(SECONDS) else { return Self::SHORT };
        let seconds: usize = seconds.parse().unwrap();
        let interval = Duration::from_secs(5);
        Self { clients: 64, interval, kills: 12, windows: seconds.div_ceil(60) }
    }
}

/// The time in which a server was not reached by all clients.
struct Outage {
    server: usize,
    from: Instant,
    to: Instant,
}

/// Whether a call had nothing to do with a server that was killed.
fn is_healthy(call: &Ended, outages: &[Outage]) -> bool {
    outages
        .iter()
        .all(|outage| outage.server != call.server || call.ended < outage.from || call.begun > outage.to)
}

/// Kills the servers one after the other.
async fn kill(backends: &mut Backends, load: &Load, scale: &Scale, outages: &mut Vec<Outage>) {
    let mut pace = interval(scale.interval);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pace.tick().await;
    for kill in 0..scale.kills {
        let server = kill % names().len();
        let from = Instant::now();
        assert!(backends.kill(server) > 0, "{} has no process", names()[server]);
        backends.start_again(server);
        load.reaches(server, Instant::now()).await;
        outages.push(Outage { server, from, to: Instant::now() });
        pace.tick().await;
    }
}

/// Starts the same programs at the same times, but not as servers of the gateway.
async fn start_beside(backends: &Backends, scale: &Scale) {
    let mut pace = interval(scale.interval);
    pace.tick().await;
    for start in 0..scale.kills {
        let servers = backends.start_beside(start % names().len());
        pace.tick().await;
        drop(servers);
    }
}

/// The time in which this part of the calls has ended.
fn percentile(mut took: Vec<Duration>, part: f64) -> Duration {
    took.sort_unstable();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place"
    )]
    let at = (took.len() as f64 * part) as usize;
    took[at.min(took.len() - 1)]
}

fn took<'a>(calls: impl Iterator<Item = &'a Ended>) -> Vec<Duration> {
    calls.map(|call| call.ended - call.begun).collect()
}

/// A result belongs to its call; no call has run twice; a call fails only if its server was killed, and the error names that
/// server.
fn check(calls: &[Ended], outages: &[Outage], ready: Instant, backends: &Backends) {
    for call in calls {
        let name = names()[call.server];
        match &call.outcome {
            Ok(text) => assert_eq!(*text, call.number.to_string(), "another result: {call:?}"),
            // On a busy machine a server may be later than a session or a list waits for it.
            Err(_) if call.begun < ready => {}
            Err(error) => {
                assert!(!is_healthy(call, outages), "no server of it was killed: {call:?}");
                assert!(error.contains(&format!(" {name}: ")), "the error does not name {name}: {error}");
            }
        }
    }
    backends.have_run_each_once(calls);
}

#[test]
fn a_killed_server_costs_only_its_own_calls() {
    let scale = Scale::chosen();
    let is_long = std::env::var_os(SECONDS).is_some();
    let mut backends = Backends::start("outages", None);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let run = async {
        let from = Instant::now();
        let load = Load::start(&backends.bridge.url(Way::Http), scale.clients, &names()).await;
        let mut outages = Vec::new();
        for server in 0..names().len() {
            load.reaches(server, Instant::now()).await;
        }
        let ready = Instant::now();
        // No server was killed, but these calls count for nothing.
        outages.extend((0..names().len()).map(|server| Outage { server, from, to: ready }));
        let mut undisturbed = Vec::new();
        for _ in 0..scale.windows {
            if is_long {
                let from = Instant::now();
                start_beside(&backends, &scale).await;
                undisturbed.push((from, Instant::now()));
            }
            kill(&mut backends, &load, &scale, &mut outages).await;
        }
        (load.end().await, outages, undisturbed, ready)
    };
    let (calls, outages, undisturbed, ready) = runtime.block_on(async {
        if is_long { run.await } else { tokio::time::timeout(DEADLINE, run).await.expect("the test hangs") }
    });
    let failed = calls.iter().filter(|call| call.outcome.is_err()).count();
    let during =
        |call: &&Ended| undisturbed.iter().any(|(from, to)| call.begun >= *from && call.ended <= *to);
    let healthy = took(calls.iter().filter(|call| is_healthy(call, &outages) && !during(call)));
    let beside = took(calls.iter().filter(during));
    let p99 = percentile(healthy.clone(), 0.99);
    eprintln!("{} calls, {} kills, {failed} failed", calls.len(), outages.len() - names().len());
    for outage in &outages {
        eprintln!("{} was not reached by all for {:?}", names()[outage.server], outage.to - outage.from);
    }
    eprintln!("healthy: {} calls, p50 {:?}, p99 {p99:?}", healthy.len(), percentile(healthy, 0.5));
    if is_long {
        let reference = percentile(beside.clone(), 0.99);
        eprintln!("beside: {} calls, p50 {:?}, p99 {reference:?}", beside.len(), percentile(beside, 0.5));
        assert!(p99 <= reference.mul_f64(1.5), "p99 {p99:?} with kills, {reference:?} without");
    }
    check(&calls, &outages, ready, &backends);
    backends.bridge.ends(false);
}
