//! A large response on one stream and small ones on others: none waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcpjoin::Client;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::EraChoice;
use mcpjoin_test_support::DEADLINE;
use serde_json::json;

use crate::{Gate, Up, arguments, builder, limits, text};

const LARGE: usize = 50 * 1024 * 1024;
/// Maximum delay of a small call by a large one.
const MOST: Duration = Duration::from_millis(100);

static OVER: AtomicBool = AtomicBool::new(false);

/// How long this thread waited for a processor since it started. A busy machine delays everything; the test measures
/// our own delays. Zero if the system does not report it.
fn held_up() -> Duration {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = said.split_ascii_whitespace().nth(1).and_then(|nanoseconds| nanoseconds.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}

async fn small(client: &Client) -> Duration {
    let (began, before) = (Instant::now(), held_up());
    let said = client.call_tool("echo", arguments(&json!({"text": "small"}))).await.unwrap();
    assert_eq!(text(&said), "small");
    began.elapsed().saturating_sub(held_up() - before)
}

fn sorted(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() - 1])
}

/// Both sides, both connections and all streams share one thread, so that any long computation delays a small call and
/// is detected.
#[test]
fn a_50_mib_answer_does_not_stand_before_small_ones() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = async {
        // Without an envelope there is less to do.
        for (era, size) in [(Era::Modern, LARGE), (Era::Legacy, LARGE / 8)] {
            let mut slow = Vec::new();
            loop {
                let (slowest, figures) = beside_a_large_answer(era, size).await;
                println!("{figures}");
                if slowest < MOST {
                    break;
                }
                // The machine may stall once, which this thread's counters do not show. Our own delays occur each time.
                slow.push(figures);
                assert!(slow.len() < 3, "{slow:#?}");
            }
        }
    };
    runtime.block_on(async { tokio::time::timeout(2 * DEADLINE, test).await.expect("the test hangs") });
    runtime.shutdown_background();
}

/// The longest time of a small call, and all figures.
async fn beside_a_large_answer(era: Era, size: usize) -> (Duration, String) {
    let bounds = || limits(|limits| limits.message = 64 * 1024 * 1024);
    let up = Up::new(builder(&Gate::default()).limits(bounds()).build().unwrap()).await;
    let builder = Client::builder("c", "1").era(EraChoice::Only(era)).limits(bounds());
    let client = builder.connect(up.link().await.unwrap()).await.unwrap();
    let mut alone = Vec::new();
    for _ in 0..50 {
        alone.push(small(&client).await);
    }
    OVER.store(false, Ordering::SeqCst);
    let large = tokio::spawn({
        let client = client.clone();
        async move {
            let began = Instant::now();
            // The raw result: what its owner does with it does not concern the transport.
            let answer = client.call_tool("size", arguments(&json!({"bytes": size}))).raw().await;
            OVER.store(true, Ordering::SeqCst);
            (answer.map(|answer| answer.as_str().len()), began.elapsed())
        }
    });
    let mut beside = Vec::new();
    while !OVER.load(Ordering::SeqCst) {
        beside.push(small(&client).await);
    }
    let (length, took) = large.await.unwrap();
    assert!(length.unwrap() > size);
    let count = beside.len();
    let ((usual_alone, slowest_alone), (usual, slowest)) = (sorted(alone), sorted(beside));
    let figures = format!(
        "{era:?}: {size} bytes in {took:?}; small calls alone: median {usual_alone:?}, slowest {slowest_alone:?}; \
         {count} beside it: median {usual:?}, slowest {slowest:?}"
    );
    assert!(count >= 10, "{count} small calls in {took:?}");
    client.close().await;
    drop(up);
    (slowest, figures)
}
