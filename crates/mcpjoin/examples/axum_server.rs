//! A server in an axum application: beside other routes, behind its middleware, with an orderly end.
//!
//! ```console
//! $ cargo run -p mcpjoin --example axum_server
//! Hello, ada! You use example.
//! the application has ended
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use mcpjoin::server::{Context, HandlerError, NoArguments, tool};
use mcpjoin::transport::HttpOptions;
use mcpjoin::{Client, Link, Server};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// What the middleware finds out about a request.
#[derive(Clone)]
struct User(String);

/// Stands for the application's own authentication.
async fn authenticate(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(User("ada".to_owned()));
    next.run(request).await
}

/// A handler reads the extensions of its request by their type, and its headers.
async fn greet(_: NoArguments, cx: Context) -> Result<String, HandlerError> {
    let User(name) = cx.extension::<User>().ok_or_else(|| HandlerError::new("nobody is logged in"))?;
    Ok(format!("Hello, {name}! You use {}.", cx.header("x-program").unwrap_or("something")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("greeter", "1.0.0").tool(tool("greet"), greet).build()?;
    // Sessions, tasks and what clients keep for the server belong to the user.
    let options = HttpOptions::new().principal_from(|user: &User| user.0.clone());
    let service = server.http(options);
    // An application that runs until it is interrupted passes `tokio::signal::ctrl_c()`. The service finishes the requests in
    // progress and ends the streams, for which axum would wait.
    let (end, ends) = oneshot::channel::<()>();
    let ended = service.drain_after(ends);
    let application = Router::new()
        .nest_service("/mcp", service)
        .layer(from_fn(authenticate))
        .route("/health", get(|| async { "ok" }));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let serving =
        tokio::spawn(async move { axum::serve(listener, application).with_graceful_shutdown(ended).await });

    let link = Link::http(url).header("x-program", "example").build()?;
    let client = Client::builder("example", "1.0.0").connect(link).await?;
    println!("{}", client.call_tool("greet", ()).await?.to_text());
    client.close().await;
    drop(end);
    serving.await??;
    println!("the application has ended");
    Ok(())
}
