//! OAuth without a person: a client gets a token with its own identity, and the server verifies it.
//!
//! The grant is that of client credentials. The authorization server is part of this program, and as small as it can
//! be. A real one is a product of its own.
//!
//! ```console
//! $ cargo run -p mcpjoin --example oauth
//! machine may read notes
//! ```
#![allow(clippy::print_stdout, reason = "an example prints its results")]

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{get, post};
use mcpjoin::server::{Context, NoArguments, tool};
use mcpjoin::transport::{HttpListener, HttpOptions};
use mcpjoin::{Client, Link, Server};
use mcpjoin_auth::resource::{Principal, Rejected, ResourceServer, TokenVerifier, Verified};
use mcpjoin_auth::{ClientIdentity, Grant, OAuth, Secret};
use serde_json::json;
use tokio::net::TcpListener;

/// The only token that the authorization server issues.
const TOKEN: &str = "token-of-the-machine";

/// An authorization server at this origin: its metadata, and its token endpoint, which asks for no secret here.
fn authorization_server(issuer: &str) -> Router {
    let metadata = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
    });
    let token =
        json!({ "access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600, "scope": "notes" });
    let document = |document: serde_json::Value| ([(CONTENT_TYPE, "application/json")], document.to_string());
    Router::new()
        .route("/.well-known/oauth-authorization-server", get(move || async move { document(metadata) }))
        .route("/token", post(move || async move { document(token) }))
}

/// Verifies tokens of another form than signed JWTs, which `ResourceServer` verifies by itself.
struct Known {
    issuer: String,
    resource: String,
}

impl TokenVerifier for Known {
    async fn verify(&self, token: &str) -> Result<Verified, Rejected> {
        if token != TOKEN {
            return Err(Rejected::Invalid("it is not known".into()));
        }
        let principal = Principal::new(&self.issuer, Some("machine"), None);
        Ok(Verified::new(principal, [&*self.resource]).scopes(["notes"]))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = TcpListener::bind("127.0.0.1:0").await?;
    let issuer = format!("http://{}", socket.local_addr()?);
    let issuing = authorization_server(&issuer);
    tokio::spawn(async move { axum::serve(socket, issuing).await });

    let listener = HttpListener::bind("http://127.0.0.1:0/mcp").await?;
    let url = listener.url();
    let resource = ResourceServer::builder(&url)
        .issuer(&issuer)
        .required_scopes(["notes"])
        .verifier(Known { issuer: issuer.clone(), resource: url.clone() })
        .build()?;
    let server = Server::builder("notes", "1.0.0")
        .tool(tool("who"), |_: NoArguments, cx: Context| async move {
            let who = cx.principal().and_then(|principal| principal.split(' ').nth(1)).unwrap_or("nobody");
            format!("{who} {} read notes", if cx.has_scope("notes") { "may" } else { "may not" })
        })
        .build()?;
    let options = HttpOptions::new().admission(resource);
    tokio::spawn(async move { server.serve_http(listener, options, std::future::pending()).await });

    // The client learns from the server which authorization server issues its tokens.
    let identity = ClientIdentity::Registered {
        id: "machine".into(),
        secret: Some(Secret::new("secret".to_owned())),
        issuer: Some(issuer),
    };
    let oauth = OAuth::builder(&url).client(identity).grant(Grant::ClientCredentials).build()?;
    let link = Link::http(&url).credentials(oauth).build()?;
    let client = Client::builder("example", "1.0.0").connect(link).await?;
    println!("{}", client.call_tool("who", ()).await?.to_text());
    client.close().await;
    Ok(())
}
