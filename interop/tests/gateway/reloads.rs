//! The policy is read again 100 times under load: calls fail only if they are about what has changed.

use std::process::Command;
use std::time::{Duration, Instant};

use interop::Way;
use mcpjoin::{Client, Link};
use serde_json::json;
use tokio::time::{interval, timeout};

use super::backends::{Backends, names};
use super::load::Load;

const RELOADS: usize = 100;
/// Every so many reloads the bridge notices the change by itself, which takes it a second.
const BY_FILE_TIME: usize = 25;
const CLIENTS: usize = 8;
/// The place of the server whose rules change.
const CHANGED: usize = 4;
/// The time limit of the test: far more than it takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(300);

const OPEN: &str = "[limits]\nconcurrent_requests = 1000\n";

/// The policy after this many reloads. Every second one withholds the tool of one server.
fn policy(reload: usize) -> (String, bool) {
    let is_denied = reload % 2 == 1;
    let rules = format!("{OPEN}[target.{}]\ndeny = [\"counted\"]\n", names()[CHANGED]);
    (if is_denied { rules } else { OPEN.to_owned() }, is_denied)
}

/// Waits until the policy of the bridge allows the tool, or does not. The probe is at the path of the one server.
async fn is_applied(probe: &Client, is_denied: bool) {
    let (begun, mut pace) = (Instant::now(), interval(Duration::from_millis(10)));
    loop {
        pace.tick().await;
        let tools = probe.list_tools().all().await.unwrap();
        let has = |name: &str| tools.iter().any(|listed| listed.name == name);
        assert!(has("echo"), "the other tools of the server stay");
        if has("counted") != is_denied {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "the policy was not read again");
    }
}

#[test]
fn a_policy_is_read_again_a_hundred_times_and_only_calls_of_what_changed_fail() {
    let backends = Backends::start("reloads", Some(OPEN));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let run = async {
        let url = backends.bridge.url(Way::Http);
        let load = Load::start(&url, CLIENTS, &names()).await;
        let link = Link::http(format!("{url}/{}", names()[CHANGED])).build().unwrap();
        let probe = Client::builder("probe", "1").no_cache().connect(link).await.unwrap();
        for server in 0..names().len() {
            load.reaches(server, Instant::now()).await;
        }
        let ready = Instant::now();
        for reload in 1..=RELOADS {
            let (policy, is_denied) = policy(reload);
            backends.write_policy(&policy);
            if reload % BY_FILE_TIME != 0 {
                let id = backends.bridge.id().to_string();
                assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
            }
            is_applied(&probe, is_denied).await;
        }
        // Each session is still there, and has the tool that was withheld.
        for server in 0..names().len() {
            load.reaches(server, Instant::now()).await;
        }
        assert!(probe.call_tool("echo", json!({ "message": "x" })).await.is_ok());
        probe.close().await;
        (load.end().await, ready)
    };
    let (calls, ready) = runtime.block_on(async { timeout(DEADLINE, run).await.expect("the test hangs") });
    let mut failed = 0;
    for call in &calls {
        match &call.outcome {
            Ok(text) => assert_eq!(*text, call.number.to_string(), "another result: {call:?}"),
            // On a busy machine a server may be later than a session or a list waits for it.
            Err(_) if call.begun < ready => {}
            Err(error) => {
                assert_eq!(call.server, CHANGED, "nothing of it has changed: {call:?}");
                assert!(error.contains("unknown tool"), "{call:?}");
                failed += 1;
            }
        }
    }
    eprintln!("{} calls, {RELOADS} reloads, {failed} calls of what changed failed", calls.len());
    backends.have_run_each_once(&calls);
    backends.bridge.ends(false);
}
