//! Job 6: tools and clients inside a larger program: `rmcp-embedding SERVER...`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RunningService, ServiceError};
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, ServiceExt, tool, tool_router};
use tokio::process::Command;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Default)]
struct Tools {
    started: Arc<Notify>,
    dropped: Arc<Notify>,
}

#[tool_router(server_handler)]
impl Tools {
    /// Answers at once.
    #[tool]
    fn ping(&self) -> String {
        "pong".into()
    }

    /// Blocks its thread.
    #[tool]
    async fn block(&self) -> Result<String, String> {
        let blocking = tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(500)));
        blocking.await.map_err(|error| error.to_string())?;
        Ok("blocked".into())
    }

    /// Has a fault.
    #[tool]
    fn fail(&self) -> String {
        panic!("a fault")
    }

    /// Waits until it is cancelled.
    #[tool]
    async fn wait(&self, cancellation: CancellationToken) -> String {
        self.started.notify_one();
        cancellation.cancelled().await;
        self.dropped.notify_one();
        String::new()
    }
}

type Client = RunningService<RoleClient, ()>;

async fn connect(tools: &Tools) -> Result<Client, Box<dyn std::error::Error>> {
    let (near, far) = tokio::io::duplex(65536);
    let tools = tools.clone();
    tokio::spawn(async move {
        if let Ok(server) = tools.serve(far).await {
            let _ = server.waiting().await;
        }
    });
    Ok(().serve(near).await?)
}

async fn call(client: &Client, tool: &'static str) -> Result<String, ServiceError> {
    let result = client.call_tool(CallToolRequestParams::new(tool)).await?;
    let text = result.content.first().and_then(|content| content.as_text());
    Ok(text.map(|text| text.text.clone()).unwrap_or_default())
}

async fn start(program: String) -> Result<(Client, usize), Box<dyn std::error::Error>> {
    let client = ().serve(TokioChildProcess::new(Command::new(program))?).await?;
    let tools = client.list_all_tools().await?.len();
    Ok((client, tools))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tools = Tools::default();
    let ada = Arc::new(connect(&tools).await?);
    let bob = Arc::new(connect(&tools).await?);
    println!("{} {}", call(&ada, "ping").await?, call(&bob, "ping").await?);

    let began = Instant::now();
    let blocking = tokio::spawn({
        let ada = ada.clone();
        async move { call(&ada, "block").await }
    });
    call(&ada, "ping").await?;
    println!("delayed: {}", began.elapsed() > Duration::from_millis(400));
    println!("{}", blocking.await??);
    // A tool that panics never answers.
    let failing = timeout(Duration::from_secs(1), call(&ada, "fail"));
    println!("failed: {}", failing.await.is_err());

    let waiting = tokio::spawn(async move { call(&bob, "wait").await });
    tools.started.notified().await;
    waiting.abort();
    tools.dropped.notified().await;
    println!("cancelled");

    for child in join_all(std::env::args().skip(1).map(start)).await {
        let Ok((client, tools)) = child else {
            println!("a server does not start");
            continue;
        };
        println!("{tools} tools");
        client.cancel().await?;
    }
    Ok(())
}
