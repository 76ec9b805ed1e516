//! Job 4: a client over HTTP: `rmcp-login URL FILE`, with the token of the variable `TOKEN`, or with a login in a browser
//! whose tokens are kept in the file.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, Uri};
use axum::routing::get;
use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, ClientConfig};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession, CredentialStore,
    StoredCredentials,
};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Tokens in a file.
struct FileStore(PathBuf);

fn failed(error: impl ToString) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

#[async_trait::async_trait]
impl CredentialStore for FileStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        match tokio::fs::read(&self.0).await {
            Ok(text) => serde_json::from_slice(&text).map_err(failed),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let text = serde_json::to_vec(&credentials).map_err(failed)?;
        tokio::fs::write(&self.0, text).await.map_err(failed)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        tokio::fs::remove_file(&self.0).await.map_err(failed)
    }
}

async fn log_in(url: &str, file: String) -> Result<AuthorizationManager, Box<dyn std::error::Error>> {
    let mut manager = AuthorizationManager::new(url).await?;
    manager.set_credential_store(FileStore(file.into()));
    if manager.initialize_from_store().await? {
        return Ok(manager);
    }
    let metadata = manager.resolve_metadata().await?.metadata;
    manager.set_metadata(metadata);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let callback = format!("http://{}/callback", listener.local_addr()?);
    let (sender, mut redirects) = mpsc::channel(1);
    let answer = move |uri: Uri| async move {
        let _ = sender.send(format!("http://127.0.0.1{uri}")).await;
        "You are logged in."
    };
    let router = Router::new().route("/callback", get(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let request = AuthorizationRequest::new(callback).with_client_name("Desk");
    let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
    println!("log in at {}", session.get_authorization_url());
    session.handle_callback_url(&redirects.recv().await.ok_or("closed")?).await?;
    Ok(session.auth_manager)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [url, file] = std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "URL FILE")?;
    let header = (HeaderName::from_static("x-program"), HeaderValue::from_static("desk"));
    let config = StreamableHttpClientTransportConfig::with_uri(&*url).custom_headers(HashMap::from([header]));
    let connected = if let Ok(token) = std::env::var("TOKEN") {
        let transport = StreamableHttpClientTransport::from_config(config.auth_header(token));
        ClientConfig::default().serve(transport).await
    } else {
        let client = AuthClient::new(reqwest::Client::default(), log_in(&url, file).await?);
        ClientConfig::default().serve(StreamableHttpClientTransport::with_client(client, config)).await
    };
    match connected {
        Ok(client) => {
            let result = client.call_tool(CallToolRequestParams::new("whoami")).await?;
            let text = result.content.first().and_then(|content| content.as_text());
            println!("{}", text.map_or("", |text| &text.text));
        }
        Err(error) if error.is_authorization_required() => println!("refused"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
