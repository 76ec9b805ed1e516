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

use mcpjoin::server::{Context, NoArguments, tool};
use mcpjoin::transport::{Admitted, HttpListener, HttpOptions};
use mcpjoin::{Client, Link, Server};

/// What handlers know of the client.
#[derive(Clone)]
struct User {
    name: String,
}

/// Looks a token up, for each HTTP request and before its body is read. A real server keeps hashes of tokens.
async fn user(token: String) -> Option<Admitted> {
    let name = token.strip_prefix("token-of-").filter(|name| *name == "ada")?;
    // The sessions and tasks of the client belong to this principal.
    Some(Admitted::new(name).with_extension(User { name: name.to_owned() }))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder("who", "1.0.0")
        .tool(tool("who"), |_: NoArguments, cx: Context| async move {
            format!("you are {}", cx.extension::<User>().map_or("nobody", |user| &user.name))
        })
        .build()?;
    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await?;
    let url = listener.url();
    let options = HttpOptions::new().bearer_tokens(user);
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
