//! A client on rmcp for the benchmark, with the arguments and the output of `ours-client`:
//! `rmcp-client [--rt current|multi] DEPTH SECONDS PAYLOAD SERVER...`.

use std::time::{Duration, Instant};

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{Peer, RoleClient};
use rmcp::transport::TokioChildProcess;
use rustix::time::{ClockId, clock_gettime};
use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

/// The duration of calls before the measurement.
const WARM: Duration = Duration::from_millis(300);

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    // The same runtime as in rmcp's documentation.
    let mut builder = Builder::new_multi_thread();
    if words.first().is_some_and(|word| word == "--rt") {
        if words.get(1).is_some_and(|word| word == "current") {
            builder = Builder::new_current_thread();
        }
        words.drain(..2);
    }
    builder.enable_all().build().expect("a runtime").block_on(run(&words));
}

async fn run(words: &[String]) {
    let depth: usize = words[0].parse().expect("DEPTH");
    let seconds: f64 = words[1].parse().expect("SECONDS");
    let text = std::fs::read_to_string(&words[2]).expect("PAYLOAD");
    let began = Instant::now();
    let mut command = Command::new(&words[3]);
    command.args(&words[4..]);
    let child = TokioChildProcess::new(command).expect("the server starts");
    let client = ().serve(child).await.expect("the server answers");
    let opened = began.elapsed();

    calls(client.peer(), &text, depth, Instant::now() + WARM).await;
    let (began, used) = (Instant::now(), cpu());
    let mut times = calls(client.peer(), &text, depth, began + Duration::from_secs_f64(seconds)).await;
    let (wall, cpu) = (began.elapsed().as_secs_f64(), (cpu() - used).as_secs_f64());
    times.sort_unstable();
    let below = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e6;
    let calls = times.len() as f64;
    let figures = serde_json::json!({
        "calls": calls,
        "per_second": calls / wall,
        "p50_us": below(0.5),
        "p99_us": below(0.99),
        "cpu_us": cpu * 1e6 / calls,
        "peak_kib": peak(),
        "opened_ms": opened.as_secs_f64() * 1e3,
    });
    println!("{figures}");
    let _ = client.cancel().await;
}

/// Makes calls until `end`; returns the latency of each.
async fn calls(peer: &Peer<RoleClient>, text: &str, depth: usize, end: Instant) -> Vec<Duration> {
    let mut tasks = JoinSet::new();
    for _ in 0..depth {
        let (peer, text) = (peer.clone(), text.to_owned());
        tasks.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < end {
                let called = Instant::now();
                let mut arguments = serde_json::Map::new();
                arguments.insert("message".into(), text.clone().into());
                let call = CallToolRequestParams::new("echo").with_arguments(arguments);
                let result = peer.call_tool(call).await.expect("echo answers");
                let echoed = result.content.first().and_then(|content| content.as_text()).expect("a text");
                assert_eq!(echoed.text.len(), text.len(), "the whole text");
                times.push(called.elapsed());
            }
            times
        });
    }
    tasks.join_all().await.concat()
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}

fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}
