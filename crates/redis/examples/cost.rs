//! What Redis costs on the path of a call of an older client: with events in memory, with events in Redis, and beside both a bare round
//! trip to the same Redis.
//!
//! ```console
//! $ cargo run --release -p mcpjoin-redis --example cost [redis://HOST:PORT]
//! ```
//!
//! Without a URL it starts a Redis of its own (`cargo xtask tools` brings one). Calls are made one after the other over HTTP on this
//! machine, by the client of the library to a server of the library in the same process, so the processor time is that of both.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot be made ends")]
#![allow(clippy::print_stdout, reason = "it prints its table")]

use std::future::pending;
use std::time::{Duration, Instant};

use mcpjoin::proto::session::EraChoice;
use mcpjoin::proto::types::Tool;
use mcpjoin::proto::{Era, Raw};
use mcpjoin::server::{Context, SealingKeys, StateKey};
use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin::{Client, Link, Server};
use mcpjoin_redis::Redis;
use serde_json::json;

const CALLS: u32 = 3_000;
const IDLE: Duration = Duration::from_secs(600);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut own = None;
    let url = std::env::args().nth(1).unwrap_or_else(|| {
        let server = interop::Redis::start(&[]).unwrap();
        own.insert(server).url()
    });
    println!(
        "{CALLS} each, one after the other; microseconds for each   time   processor time of this process"
    );
    let client = redis::Client::open(url.clone()).unwrap();
    let mut bare = client.get_multiplexed_async_connection().await.unwrap();
    measure("a bare round trip (PING)", async || {
        let _: String = redis::cmd("PING").query_async(&mut bare).await.unwrap();
    })
    .await;
    let event = "x".repeat(300);
    measure("a bare event (XADD, PEXPIRE)", async || {
        let mut both = redis::pipe();
        both.cmd("XADD").arg("cost").arg("MAXLEN").arg(1_000).arg("*").arg("r").arg(&event);
        both.cmd("PEXPIRE").arg("cost").arg(60_000);
        let _: (String, i64) = both.query_async(&mut bare).await.unwrap();
    })
    .await;
    for (store, redis) in [("memory", None), ("Redis", Some(&url))] {
        let called = client_of(redis.map(|url| &**url)).await;
        measure(&format!("a call, answered as JSON: {store}"), async || {
            called.call_tool("quick", json!({})).await.unwrap();
        })
        .await;
        measure(&format!("a call, answered as a stream of 3 events: {store}"), async || {
            called.call_tool("tells", json!({})).on_progress(|_| {}).await.unwrap();
        })
        .await;
        called.close().await;
    }
    drop(own);
}

/// An older client of a server that stores events in memory, or sessions and events in Redis.
async fn client_of(redis: Option<&str>) -> Client {
    let mut options = HttpOptions::new();
    if let Some(url) = redis {
        let redis = Redis::new(url, SealingKeys::new(StateKey::from_bytes([1; 32]), [])).unwrap();
        redis.connect(Duration::from_secs(5)).await.unwrap();
        options = options.session_store(redis.sessions(IDLE)).event_store(redis.events(IDLE));
    }
    let anything = || Raw::parse(r#"{"type":"object"}"#).unwrap();
    let server = Server::builder("cost", "1")
        .raw_tool(Tool::new("quick", anything()), |_, _| async { "done".to_owned() })
        .raw_tool(Tool::new("tells", anything()), |_, cx: Context| async move {
            cx.progress(1.0, None, None);
            "done".to_owned()
        })
        .build()
        .unwrap();
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await.unwrap();
    let link = Link::http(listener.url()).build().unwrap();
    tokio::spawn(async move { server.serve_http(listener, options, pending::<()>()).await });
    Client::builder("cost", "1").era(EraChoice::Only(Era::Legacy)).connect(link).await.unwrap()
}

async fn measure(what: &str, mut once: impl AsyncFnMut()) {
    for _ in 0..CALLS / 10 {
        once().await;
    }
    let (began, used) = (Instant::now(), processor_time());
    for _ in 0..CALLS {
        once().await;
    }
    let each = |time: Duration| (time / CALLS).as_secs_f64() * 1e6;
    println!("{what:<54} {:>6.0} {:>6.0}", each(began.elapsed()), each(processor_time() - used));
}

/// The processor time of this process and its threads, from the first number of each `schedstat`.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let nanos = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}
