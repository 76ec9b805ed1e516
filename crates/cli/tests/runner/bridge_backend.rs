//! The MCP server behind the bridges of the tests. It counts calls and sessions, and its calls run until the test lets them
//! finish.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use mcpjoin::server::{Server, tool};
use mcpjoin::transport::{Listener, ListenerHandle};
use serde::Deserialize;
use tokio::runtime::Runtime;
use tokio::sync::watch;

#[derive(Deserialize, schemars::JsonSchema)]
struct Number {
    n: u64,
}

/// A server whose one tool returns the square of a number.
pub(crate) struct Backend {
    /// The address as a target of the command line.
    pub(crate) target: String,
    /// Calls stay in progress while this is `true`, which is its initial value.
    pub(crate) open: watch::Sender<bool>,
    running: watch::Sender<usize>,
    calls: Arc<Mutex<HashMap<u64, u32>>>,
    sessions: ListenerHandle,
    runtime: Option<Runtime>,
}

/// Decrements the number of running calls when it is dropped.
struct Runs(watch::Sender<usize>);

impl Drop for Runs {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

impl Backend {
    pub(crate) fn new() -> Self {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let calls: Arc<Mutex<HashMap<u64, u32>>> = Arc::default();
        let (open, running) = (watch::Sender::new(true), watch::Sender::new(0));
        let (counted, gate, runs) = (calls.clone(), open.clone(), running.clone());
        let square = move |Number { n }: Number, _| {
            *counted.lock().unwrap().entry(n).or_default() += 1;
            runs.send_modify(|running| *running += 1);
            let (runs, mut gate) = (Runs(runs.clone()), gate.subscribe());
            async move {
                let _runs = runs;
                gate.wait_for(|open| *open).await.unwrap();
                (n * n).to_string()
            }
        };
        let server = Server::builder("counting", "1").tool(tool("square"), square).build().unwrap();
        let (target, sessions) = runtime.block_on(async {
            let listener = Listener::tcp("127.0.0.1:0").await.unwrap();
            let (target, sessions) = (listener.address().to_string(), listener.handle());
            tokio::spawn(async move { server.serve_all(listener, std::future::pending()).await });
            (target, sessions)
        });
        Self { target, open, running, calls, sessions, runtime: Some(runtime) }
    }

    /// Waits until this number of calls is running.
    pub(crate) async fn running(&self, calls: usize) {
        self.running.subscribe().wait_for(|running| *running == calls).await.unwrap();
    }

    /// The blocking form of `running`.
    pub(crate) fn wait_for(&self, calls: usize) {
        self.runtime.as_ref().unwrap().block_on(self.running(calls));
    }

    /// The number of calls for each argument.
    pub(crate) fn calls(&self) -> HashMap<u64, u32> {
        self.calls.lock().unwrap().clone()
    }

    /// The number of sessions that were opened.
    pub(crate) fn sessions(&self) -> u64 {
        self.sessions.accepted()
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
