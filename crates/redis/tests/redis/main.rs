//! Tests of the stores against a real Redis, which each test starts for itself (`cargo xtask tools` brings it).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod events;
mod outages;
mod sessions;
mod tasks;

use std::time::Duration;

use interop::Redis as Server;
use mcpjoin::proto::Raw;
use mcpjoin::server::{SealingKeys, StateKey};
use mcpjoin::transport::SessionRecord;
use mcpjoin_redis::Redis;
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, cmd};

/// Longer than anything takes on a busy machine: what a test does not want to see ended by time.
const PATIENT: Duration = Duration::from_secs(20);
const IDLE: Duration = Duration::from_secs(100);

/// Runs a test on the real clock.
fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(120), test).await.expect("the test hangs");
    });
}

fn keys(number: u8) -> SealingKeys {
    SealingKeys::new(StateKey::from_bytes([number; 32]), [])
}

/// A process with the keys of this number.
async fn process(server: &Server, number: u8) -> Redis {
    let redis = Redis::new(&server.url(), keys(number)).unwrap().patience(PATIENT);
    redis.connect(PATIENT).await.unwrap();
    redis
}

fn record(principal: Option<&str>) -> SessionRecord {
    let mut record = SessionRecord::new(Raw::parse(r#"{"protocolVersion":"2025-11-25"}"#).unwrap());
    record.principal = principal.map(Into::into);
    record.state = Raw::parse(r#"{"targets":[]}"#).ok();
    record
}

/// Somebody who writes to Redis and has no key.
struct Stranger(MultiplexedConnection);

impl Stranger {
    async fn at(server: &Server) -> Self {
        let client = redis::Client::open(server.url()).unwrap();
        Self(client.get_multiplexed_async_connection().await.unwrap())
    }

    async fn tries<T: FromRedisValue>(&mut self, words: &[&str]) -> redis::RedisResult<T> {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.0).await
    }

    async fn says<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        self.tries(words).await.unwrap()
    }

    /// The only key that begins so.
    async fn key(&mut self, prefix: &str) -> String {
        let mut keys = self.keys(prefix).await;
        assert_eq!(keys.len(), 1, "{keys:?}");
        keys.remove(0)
    }

    async fn keys(&mut self, prefix: &str) -> Vec<String> {
        self.says(&["KEYS", &format!("{prefix}*")]).await
    }
}

/// Waits until something is so.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    let mut pace = tokio::time::interval(Duration::from_millis(10));
    while !is_so().await {
        pace.tick().await;
    }
}
