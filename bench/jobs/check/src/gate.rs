//! Job 4: a gate in front of a replica, which asks for a token, and the authorization server that issues it. A login needs no
//! person: the page redirects at once.

use std::collections::HashMap;
use std::process::Stdio;

use axum::Router;
use axum::body::Body;
use axum::extract::{Form, Query, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get, post};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::replicas::Replica;
use crate::{Result, expect, program};

const TOKEN: &str = "token-of-ada";

#[derive(Clone)]
struct Gate {
    origin: String,
    replica: u16,
}

impl Gate {
    async fn open(replica: u16) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let origin = format!("http://{}", listener.local_addr()?);
        let resource = json!({
            "resource": format!("{origin}/mcp"),
            "authorization_servers": [origin],
            "scopes_supported": ["notes"],
        });
        let metadata = json!({
            "issuer": origin,
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"),
            "registration_endpoint": format!("{origin}/register"),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
        });
        let gate = Self { origin: origin.clone(), replica };
        let router = Router::new()
            .route("/mcp", any(pass))
            .route(
                "/.well-known/oauth-protected-resource/mcp",
                get(move || async move { document(&resource) }),
            )
            .route("/.well-known/oauth-authorization-server", get(move || async move { document(&metadata) }))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(gate);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(format!("{origin}/mcp"))
    }
}

fn document(document: &Value) -> Response {
    ([("content-type", "application/json")], document.to_string()).into_response()
}

async fn register(body: String) -> Response {
    let mut client: Value = serde_json::from_str(&body).unwrap_or_default();
    client["client_id"] = json!("desk");
    client["client_id_issued_at"] = json!(0);
    (StatusCode::CREATED, document(&client)).into_response()
}

async fn authorize(Query(query): Query<HashMap<String, String>>) -> Redirect {
    let of = |name| query.get(name).map_or("", String::as_str);
    Redirect::to(&format!("{}?code=code&state={}", of("redirect_uri"), of("state")))
}

async fn token(Form(form): Form<HashMap<String, String>>) -> Response {
    let fits = form.get("code").is_some_and(|code| code == "code") && form.contains_key("code_verifier");
    if !fits {
        return (StatusCode::BAD_REQUEST, document(&json!({ "error": "invalid_grant" }))).into_response();
    }
    document(&json!({ "access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600, "scope": "notes" }))
}

/// Passes a request with the token on to the replica, in the name of its user.
async fn pass(State(gate): State<Gate>, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let header = parts.headers.remove("authorization");
    if header.is_none_or(|header| header != format!("Bearer {TOKEN}").as_str()) {
        let metadata = format!("{}/.well-known/oauth-protected-resource/mcp", gate.origin);
        let challenge = format!("Bearer resource_metadata=\"{metadata}\", scope=\"notes\"");
        return (StatusCode::UNAUTHORIZED, [("www-authenticate", challenge)]).into_response();
    }
    parts.headers.remove("host");
    parts.headers.insert("x-user", HeaderValue::from_static("ada"));
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
    let sent = reqwest::Client::new()
        .request(parts.method, format!("http://127.0.0.1:{}/mcp", gate.replica))
        .headers(parts.headers)
        .body(body)
        .send();
    let Ok(response) = sent.await else { return StatusCode::BAD_GATEWAY.into_response() };
    let (status, mut headers) = (response.status(), response.headers().clone());
    headers.remove("transfer-encoding");
    (status, headers, Body::from(response.bytes().await.unwrap_or_default())).into_response()
}

/// Runs the client, and does in the place of a browser what the client asks for.
async fn run(library: &str, url: &str, file: &str, token: Option<&str>) -> Result<String> {
    let mut command = Command::new(program(library, "login"));
    command.args([url, file]).env_remove("TOKEN").envs(token.map(|token| ("TOKEN", token)));
    // No browser is opened.
    command.env("BROWSER", "true").stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
    let mut printed = String::new();
    while let Some(line) = lines.next_line().await? {
        let Some(page) = line.strip_prefix("log in at ") else {
            printed += &format!("{line}\n");
            continue;
        };
        printed += "log in\n";
        reqwest::get(page).await?.error_for_status()?;
    }
    child.wait().await?;
    Ok(printed)
}

pub(crate) async fn check(library: &str) -> Result {
    let replica = Replica::start(library).await?;
    let url = Gate::open(replica.port).await?;
    let file = std::env::temp_dir().join(format!("jobs-{}-{library}", std::process::id()));
    let file = file.to_string_lossy();
    let printed = [
        run(library, &url, &file, Some(TOKEN)).await?,
        run(library, &url, &file, Some("another")).await?,
        run(library, &url, &file, None).await?,
        run(library, &url, &file, None).await?,
    ];
    // A store may be a folder.
    drop((std::fs::remove_file(&*file), std::fs::remove_dir_all(&*file)));
    let expected = "ada with desk\nrefused\nlog in\nada with desk\nada with desk\n";
    expect(&format!("a login with {library}"), &printed.concat(), expected)
}
