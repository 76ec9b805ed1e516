//! Functions around every request of a server: the first one logs, the second one refuses.
//!
//! ```console
//! $ cargo run -p mcpjoin --example layers
//! tools/list is answered
//! tools/call is answered
//! tools/call is refused: the server is being maintained
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcpjoin::proto::{ErrorObject, Method};
use mcpjoin::server::{NoArguments, tool};
use mcpjoin::{Client, Link, Server};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let maintenance = Arc::new(AtomicBool::new(false));
    let closed = maintenance.clone();
    let server = Server::builder("notes", "1.0.0")
        .tool(tool("clear"), |_: NoArguments, _| async { "cleared" })
        // The outermost layer: it sees what the others make of a request.
        .layer(|request, _, next| async move {
            let method = request.method.clone();
            let response = next.run(request).await;
            match &response {
                Ok(_) => println!("{method} is answered"),
                Err(error) => println!("{method} is refused: {}", error.message),
            }
            response
        })
        .layer(move |request, _, next| {
            let closed = closed.load(Ordering::Relaxed);
            async move {
                if closed && request.method == Method::CallTool {
                    // The handler does not run.
                    return Err(ErrorObject::invalid_request("the server is being maintained"));
                }
                next.run(request).await
            }
        })
        .build()?;

    let (near, far) = Link::memory();
    server.connect(far);
    let client = Client::builder("example", "1.0.0").connect(near).await?;
    client.list_tools().all().await?;
    client.call_tool("clear", ()).await?.into_result()?;
    maintenance.store(true, Ordering::Relaxed);
    match client.call_tool("clear", ()).await {
        Ok(_) => Err("the call was not refused".into()),
        Err(_) => Ok(()),
    }
}
