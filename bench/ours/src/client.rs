//! Our client for the benchmark: `ours-client [--rt current|multi] DEPTH SECONDS PAYLOAD SERVER...` starts a server, calls
//! its tool echo with DEPTH concurrent calls, and prints one JSON object with its own figures. The server may be
//! `quic://HOST:PORT` and the hash of its key (`sha256:...`): such a server runs already.

use std::time::{Duration, Instant};

use mcpjoin::Client;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::Content;
use mcpjoin::transport::ChildCommand;
use mcpjoin_quic::endpoint::Trust;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

/// The duration of calls before the measurement.
const WARM: Duration = Duration::from_millis(300);

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut builder = Builder::new_current_thread();
    if words.first().is_some_and(|word| word == "--rt") {
        if words.get(1).is_some_and(|word| word == "multi") {
            builder = Builder::new_multi_thread();
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
    let link = match words[3].strip_prefix("quic://") {
        Some(address) => {
            mcpjoin_quic::connect(address, Trust::Key(hash(&words[4]))).await.expect("the server is there")
        }
        None => ChildCommand::new(&words[3]).args(&words[4..]).start().await.expect("the server starts"),
    };
    // The floor and most current servers support only this era.
    let client = Client::builder("bench", "0.0.0").era(EraChoice::Only(Era::Legacy)).connect(link).await;
    let client = client.expect("the server answers");
    let opened = began.elapsed();

    calls(&client, &text, depth, Instant::now() + WARM).await;
    let (began, used) = (Instant::now(), cpu());
    let mut times = calls(&client, &text, depth, began + Duration::from_secs_f64(seconds)).await;
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
    client.close().await;
}

/// Makes calls until `end`; returns the latency of each.
async fn calls(client: &Client, text: &str, depth: usize, end: Instant) -> Vec<Duration> {
    let mut tasks = JoinSet::new();
    for _ in 0..depth {
        let (client, text) = (client.clone(), text.to_owned());
        tasks.spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < end {
                let called = Instant::now();
                // Like an application: the text is serialized for each call, and the result is read as a text.
                let result = client.call_tool("echo", Echo { message: &text }).await.expect("echo answers");
                let echoed = result.content.first().and_then(Content::as_text).expect("a text");
                assert_eq!(echoed.len(), text.len(), "the whole text");
                times.push(called.elapsed());
            }
            times
        });
    }
    tasks.join_all().await.concat()
}

#[derive(serde::Serialize)]
struct Echo<'a> {
    message: &'a str,
}

/// Parses `sha256:` and 64 hexadecimal digits.
fn hash(word: &str) -> [u8; 32] {
    let digits = word.strip_prefix("sha256:").expect("sha256:");
    std::array::from_fn(|at| u8::from_str_radix(&digits[2 * at..][..2], 16).expect("64 hexadecimal digits"))
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
