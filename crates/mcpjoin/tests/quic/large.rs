//! A large answer on one stream and small ones on others: none waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcpjoin::Client;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::Ask;
use serde_json::json;

use crate::{Gate, Up, arguments, builder, limits, run, text};

const LARGE: usize = 50 * 1024 * 1024;
/// The bound for what a small call waits for a large one.
const MOST: Duration = Duration::from_millis(100);

static OVER: AtomicBool = AtomicBool::new(false);

async fn small(client: &Client) -> Duration {
    let began = Instant::now();
    let said = client.call_tool("echo", arguments(&json!({"text": "small"}))).await.unwrap();
    assert_eq!(text(&said), "small");
    began.elapsed()
}

#[test]
fn a_50_mib_answer_does_not_stand_before_small_ones() {
    run(async {
        let bounds = || limits(|limits| limits.message = 64 * 1024 * 1024);
        let up = Up::new(builder(&Gate::default()).limits(bounds()).build().unwrap()).await;
        let builder = Client::builder("c", "1").ask(Ask::Only(Era::Modern)).limits(bounds());
        let client = builder.connect(up.link().await.unwrap()).await.unwrap();
        let mut alone = Vec::new();
        for _ in 0..50 {
            alone.push(small(&client).await);
        }
        alone.sort();
        let large = tokio::spawn({
            let client = client.clone();
            async move {
                let began = Instant::now();
                // As it came: what its owner makes of it afterwards is no matter of the transport.
                let answer = client.call_tool("size", arguments(&json!({"bytes": LARGE}))).raw().await;
                OVER.store(true, Ordering::SeqCst);
                (answer.map(|answer| answer.as_str().len()), began.elapsed())
            }
        });
        let mut beside = Vec::new();
        while !OVER.load(Ordering::SeqCst) {
            beside.push(small(&client).await);
        }
        let (length, took) = large.await.unwrap();
        assert!(length.unwrap() > LARGE);
        beside.sort();
        let (median, slowest) = (beside[beside.len() / 2], beside[beside.len() - 1]);
        println!(
            "50 MiB in {took:?}; small calls alone: median {:?}, slowest {:?}; beside it {}: median {median:?}, slowest {slowest:?}",
            alone[alone.len() / 2],
            alone[alone.len() - 1],
            beside.len()
        );
        assert!(beside.len() >= 10, "{} small calls in {took:?}", beside.len());
        assert!(median < MOST, "{median:?} beside, {:?} alone", alone[alone.len() / 2]);
        client.close().await;
    });
}
