//! A client with an access token, and a server that admits only those with one that it knows.
//!
//! For tokens of an authorization server see the example `oauth`.
//!
//! ```console
//! $ cargo run -p mcpjoin --example bearer_token
//! you are ada
//! refused without a token
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use std::future::ready;

use http::request::Parts;
use mcpjoin::server::{Context, NoArguments, tool};
use mcpjoin::transport::{Admission, Admitted, Admitting, Denied, HttpListener, HttpOptions};
use mcpjoin::{Client, Link, Server};

/// Decides about each HTTP request before its body is read.
struct Tokens;

impl Admission for Tokens {
    fn admit<'a>(&'a self, parts: &'a Parts) -> Admitting<'a> {
        let authorization = parts.headers.get("authorization").map(|value| value.as_bytes());
        Box::pin(ready(match authorization {
            Some(b"Bearer token-of-ada") => Ok(Admitted::new("ada")),
            _ => Err(Box::new(Denied::new(401, "the token is missing or not known"))),
        }))
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("who", "1.0.0")
        .tool(tool("who"), |_: NoArguments, cx: Context| async move {
            format!("you are {}", cx.principal().unwrap_or("nobody"))
        })
        .build()?;
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await?;
    let url = listener.url();
    let options = HttpOptions::new().admission(Tokens);
    let serving =
        tokio::spawn(async move { server.serve_http(listener, options, std::future::pending()).await });

    // The header is sent to the origin of this URL and to no other, also after a redirect.
    let link = Link::http(&url).header("Authorization", "Bearer token-of-ada").build()?;
    let client = Client::builder("example", "1.0.0").connect(link).await?;
    println!("{}", client.call_tool("who", ()).await?.to_text());
    client.close().await;

    let link = Link::http(&url).build()?;
    match Client::builder("example", "1.0.0").connect(link).await {
        Ok(_) => return Err("a client without a token was admitted".into()),
        Err(error) if error.is_unauthorized() => println!("refused without a token"),
        Err(error) => return Err(error.into()),
    }
    serving.abort();
    Ok(())
}
