//! Job 3: a replica of a server in an axum application: `mcpjoin-replica PORT`. It ends when its standard input is closed.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use mcpjoin::Server;
use mcpjoin::server::{Context, HandlerError, Result, StateKey, handlers};
use mcpjoin::transport::HttpOptions;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::io::AsyncReadExt;

/// What the middleware finds out about a request.
#[derive(Clone)]
struct User(String);

async fn authenticate(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let user = request.headers().get("x-user").and_then(|user| user.to_str().ok());
    let user = User(user.ok_or(StatusCode::UNAUTHORIZED)?.to_owned());
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
}

#[derive(Deserialize, JsonSchema)]
struct Persons {
    count: u8,
}

#[derive(Deserialize, JsonSchema)]
struct Time {
    hour: u8,
}

struct Restaurant;

#[handlers]
impl Restaurant {
    /// Names the user and the program of the request.
    #[tool]
    fn whoami(&self, cx: Context) -> Result<String> {
        let User(name) = cx.extension::<User>().ok_or_else(|| HandlerError::new("nobody"))?;
        Ok(format!("{name} with {}", cx.header("x-program").unwrap_or("something")))
    }

    /// Books a table, after two questions.
    #[tool]
    async fn book(&self, cx: Context) -> Result<String> {
        let Some(Persons { count }) = cx.elicit_as("How many persons?").await? else {
            return Ok("no table is booked".into());
        };
        let Some(Time { hour }) = cx.elicit_as("At what hour?").await? else {
            return Ok("no table is booked".into());
        };
        Ok(format!("a table for {count} at {hour}"))
    }

    /// Takes half a second.
    #[tool]
    async fn cook(&self) -> &'static str {
        tokio::time::sleep(Duration::from_millis(500)).await;
        "cooked"
    }
}

#[tokio::main]
async fn main() -> Result<(), mcpjoin::BoxError> {
    let port: u16 = std::env::args().nth(1).ok_or("usage: mcpjoin-replica PORT")?.parse()?;
    let server = Server::builder("restaurant", "1.0.0")
        .state_key(StateKey::from_bytes([7; 32]))
        .handlers(Restaurant)
        .build()?;
    let options = HttpOptions::new().stateless(true).principal_from(|user: &User| user.0.clone());
    let service = server.http(options);
    let ended = service.drain_after(async { tokio::io::stdin().read_u8().await });
    let application = Router::new()
        .nest_service("/mcp", service)
        .layer(from_fn(authenticate))
        .route("/health", get(|| async { "ok" }));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener, application).with_graceful_shutdown(ended).await?;
    println!("ended");
    Ok(())
}
