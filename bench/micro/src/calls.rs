//! Calls of a tool that returns a text of 64 bytes: client and server in one process, on one runtime.

use std::time::Instant;

use mcpjoin::proto::Raw;
use mcpjoin::server::{HandlerError, Server, tool};
use mcpjoin::{Client, Link};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::{ErrorData, RoleClient, RoleServer, ServerHandler, ServiceExt};
use tokio::io::duplex;
use tokio::runtime::{Builder, Runtime};

use crate::harness::{Cost, process_time};

/// The capacity of the pipe, in bytes: the same as that of a pipe of Linux.
const PIPE: usize = 64 * 1024;

/// The number of calls per turn.
const CALLS: usize = 1024;

/// The number of concurrent calls in the concurrent case.
const AT_ONCE: usize = 64;

pub(crate) fn run(rounds: usize) {
    println!(
        "## Calls of an echo tool with 64 bytes (median, 10 % to 90 % of {rounds} rounds of {CALLS} calls)\n"
    );
    println!("| runtime | at once | pair | wall per call | CPU per call | wall / rmcp | CPU / rmcp |");
    println!("|---|---|---|---|---|---|---|");
    let runtimes = [
        ("current thread", Builder::new_current_thread().enable_all().build()),
        ("multi thread, 2 workers", Builder::new_multi_thread().worker_threads(2).enable_all().build()),
    ];
    for (name, runtime) in runtimes {
        let runtime = runtime.expect("a runtime can be built");
        let pairs = runtime.block_on(pairs());
        for at_once in [1, AT_ONCE] {
            rows(&runtime, name, &pairs, at_once, rounds);
        }
    }
    println!();
}

/// A connected client with its server in the same process.
pub(crate) enum Pair {
    Ours(Client),
    Rmcp(RunningService<RoleClient, ()>),
}

/// How client and server are connected.
#[derive(Clone, Copy)]
pub(crate) enum Transport {
    Memory,
    Stream,
}

/// Our server.
pub(crate) fn echo() -> Server {
    Server::builder("echo", "1")
        .tool(tool("echo").description("Gives back a text"), |echo: Echo, _| async move {
            Ok::<_, HandlerError>(echo.message)
        })
        .build()
        .expect("a server with one tool")
}

/// Our client, connected with our server.
pub(crate) async fn ours(transport: Transport) -> Client {
    let (ours, theirs) = match transport {
        Transport::Memory => Link::memory(),
        Transport::Stream => {
            let (left, right) = duplex(PIPE);
            (over(left), over(right))
        }
    };
    tokio::spawn(async move { echo().serve(theirs).await });
    Client::builder("bench", "1").connect(ours).await.expect("connected")
}

async fn pairs() -> Vec<(&'static str, Pair)> {
    let memory = ours(Transport::Memory).await;
    let streams = ours(Transport::Stream).await;
    let (left, right) = duplex(PIPE);
    tokio::spawn(async move {
        let running = RmcpEcho.serve(right).await.expect("served");
        let _ = running.waiting().await;
    });
    let rmcp = ().serve(left).await.expect("connected");
    vec![
        ("ours, `Link::memory`", Pair::Ours(memory)),
        ("ours, `tokio::io::duplex`", Pair::Ours(streams)),
        ("rmcp 3.11.0, `tokio::io::duplex`", Pair::Rmcp(rmcp)),
    ]
}

fn over(stream: tokio::io::DuplexStream) -> Link {
    let (reader, writer) = tokio::io::split(stream);
    Link::stream(reader, writer, "duplex")
}

fn rows(runtime: &Runtime, name: &str, pairs: &[(&str, Pair)], at_once: usize, rounds: usize) {
    let mut wall = vec![Vec::new(); pairs.len()];
    let mut cpu = wall.clone();
    // The first round warms up.
    for round in 0..=rounds {
        for (place, (_, pair)) in pairs.iter().enumerate() {
            let (began, used) = (Instant::now(), process_time());
            runtime.block_on(calls(pair, at_once, CALLS));
            if round > 0 {
                wall[place].push(began.elapsed().as_nanos() as f64 / CALLS as f64);
                cpu[place].push((process_time() - used).as_nanos() as f64 / CALLS as f64);
            }
        }
    }
    let costs: Vec<(Cost, Cost)> =
        wall.into_iter().zip(cpu).map(|(wall, cpu)| (Cost::of(wall), Cost::of(cpu))).collect();
    let (rmcp_wall, rmcp_cpu) = *costs.last().expect("rmcp is the last pair");
    for ((pair, _), (wall, cpu)) in pairs.iter().zip(&costs) {
        println!(
            "| {name} | {at_once} | {pair} | {wall} | {cpu} | {:.2} | {:.2} |",
            wall.median / rmcp_wall.median,
            cpu.median / rmcp_cpu.median
        );
    }
}

/// So many calls by `at_once` tasks.
pub(crate) async fn calls(pair: &Pair, at_once: usize, calls: usize) {
    let each = calls / at_once;
    let tasks: Vec<_> = (0..at_once)
        .map(|_| match pair {
            Pair::Ours(client) => {
                let client = client.clone();
                tokio::spawn(async move {
                    for _ in 0..each {
                        let result = client.call_tool("echo", Some(arguments())).await.expect("an echo");
                        assert_eq!(result.content.len(), 1);
                    }
                })
            }
            Pair::Rmcp(client) => {
                let client = client.peer().clone();
                tokio::spawn(async move {
                    for _ in 0..each {
                        let call = CallToolRequestParams::new("echo").with_arguments(map());
                        let result = client.call_tool(call).await.expect("an echo");
                        assert_eq!(result.content.len(), 1);
                    }
                })
            }
        })
        .collect();
    for task in tasks {
        task.await.expect("no call panics");
    }
}

fn message() -> String {
    "x".repeat(64)
}

/// Both clients serialize the arguments for each call, like an application.
fn arguments() -> Raw {
    Raw::from_value(&Arguments { message: message() }).expect("a string is JSON")
}

fn map() -> serde_json::Map<String, serde_json::Value> {
    serde_json::Map::from_iter([("message".to_owned(), serde_json::Value::String(message()))])
}

#[derive(serde::Serialize)]
struct Arguments {
    message: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

/// rmcp's handler without its macros, which is its fastest form.
struct RmcpEcho;

impl ServerHandler for RmcpEcho {
    fn get_info(&self) -> ServerConfig {
        let mut config = ServerConfig::default();
        config.capabilities = ServerCapabilities::builder().enable_tools().build();
        config
    }

    async fn call_tool(
        &self,
        mut call: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match call.arguments.as_mut().and_then(|arguments| arguments.remove("message")) {
            Some(serde_json::Value::String(message)) => {
                Ok(CallToolResult::success(vec![ContentBlock::text(message)]).into())
            }
            _ => Err(ErrorData::invalid_params("message", None)),
        }
    }
}
