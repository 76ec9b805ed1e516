//! Job 6: tools and clients inside a larger program: `mcpjoin-embedding SERVER...`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use mcpjoin::server::handlers;
use mcpjoin::transport::ChildCommand;
use mcpjoin::{BoxError, Client, Server};
use tokio::sync::Notify;

/// Tells when it is dropped.
struct Guard(Arc<Notify>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

#[derive(Default)]
struct Tools {
    started: Arc<Notify>,
    dropped: Arc<Notify>,
}

#[handlers]
impl Tools {
    /// Answers at once.
    #[tool]
    fn ping(&self) -> &'static str {
        "pong"
    }

    /// Blocks its thread.
    #[tool(blocking)]
    fn block(&self) -> &'static str {
        std::thread::sleep(Duration::from_millis(500));
        "blocked"
    }

    /// Has a fault.
    #[tool]
    fn fail(&self) -> String {
        panic!("a fault")
    }

    /// Waits until it is cancelled.
    #[tool]
    async fn wait(&self) -> String {
        let _guard = Guard(self.dropped.clone());
        self.started.notify_one();
        std::future::pending().await
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let tools = Arc::new(Tools::default());
    let server = Server::builder("tools", "1.0.0").handlers(tools.clone()).build()?;
    let ada = Client::builder("ada", "1.0.0").connect_to(&server).await?;
    let bob = Client::builder("bob", "1.0.0").connect_to(&server).await?;
    println!("{} {}", ada.call_tool("ping", ()).await?.to_text(), bob.call_tool("ping", ()).await?.to_text());

    let began = Instant::now();
    let blocking = tokio::spawn(ada.call_tool("block", ()).into_future());
    ada.call_tool("ping", ()).await?;
    println!("delayed: {}", began.elapsed() > Duration::from_millis(400));
    println!("{}", blocking.await??.to_text());
    println!("failed: {}", ada.call_tool("fail", ()).await.is_err());

    let waiting = tokio::spawn(bob.call_tool("wait", ()).into_future());
    tools.started.notified().await;
    waiting.abort();
    tools.dropped.notified().await;
    println!("cancelled");

    let children = join_all(std::env::args().skip(1).map(|program| async move {
        let link = ChildCommand::new(program).start().await?;
        let client = Client::builder("desk", "1.0.0").connect(link).await?;
        let tools = client.list_tools().all().await?;
        Ok::<_, BoxError>((client, tools.len()))
    }));
    for child in children.await {
        let Ok((client, tools)) = child else {
            println!("a server does not start");
            continue;
        };
        println!("{tools} tools");
        client.close().await;
    }
    Ok(())
}
