//! Calls a tool over TLS with mcpjoin, makes one request with another client in the same process, and calls the tool again.
//!
//! Run by `cargo xtask release-check` once for each feature. It ends with an error, or panics, if one client changes a
//! setting of the other: a feature of a shared dependency, or the TLS provider of the process.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use mcpjoin::server::{NoArguments, tool};
use mcpjoin::transport::HttpOptions;
use mcpjoin::{Client, Link, Server};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

type Failure = Box<dyn Error + Send + Sync>;

/// More time than everything here takes.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    timeout(DEADLINE, run()).await?
}

async fn run() -> Result<(), Failure> {
    let server = LoopbackServer::start().await?;
    server.call_with_mcpjoin().await?;
    if CryptoProvider::get_default().is_some() {
        return Err("mcpjoin has installed a TLS provider for the whole process".into());
    }
    other::request(&server).await?;
    server.call_with_mcpjoin().await?;
    println!("mcpjoin beside {}: both work", other::NAME);
    Ok(())
}

/// A local MCP server with a TLS port and a plain port. Only the clients of this test trust its certificate.
struct LoopbackServer {
    tls: SocketAddr,
    #[cfg_attr(not(feature = "reqwest-without-tls"), allow(dead_code, reason = "asked by one client alone"))]
    plain: SocketAddr,
    certificate: rcgen::Certificate,
}

impl LoopbackServer {
    async fn start() -> Result<Self, Failure> {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der())?;
        // Explicit, as in every library: the process has no default provider, or one that was not chosen here.
        let config =
            rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
                .with_safe_default_protocol_versions()?
                .with_no_client_auth()
                .with_single_cert(vec![signed.cert.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let server = Server::builder("beside", "1.0.0")
            .tool(tool("greet"), |_: NoArguments, _| async { "hello" })
            .build()?;
        let service = TowerToHyperService::new(server.http(HttpOptions::new()));
        let [tls, plain] = [TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?];
        let started = Self { tls: tls.local_addr()?, plain: plain.local_addr()?, certificate: signed.cert };
        let for_tls = service.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = tls.accept().await {
                let (acceptor, service) = (acceptor.clone(), for_tls.clone());
                tokio::spawn(async move {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                    }
                });
            }
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = plain.accept().await {
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone());
                tokio::spawn(async move { drop(serving.await) });
            }
        });
        Ok(started)
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/mcp", self.tls.port())
    }

    async fn call_with_mcpjoin(&self) -> Result<(), Failure> {
        let link = Link::http(self.url()).extra_ca(self.certificate.pem()).build()?;
        let client = Client::builder("beside", "1.0.0").connect(link).await?;
        let result = client.call_tool("greet", ()).await?;
        if result.is_error == Some(true) {
            return Err(format!("the tool failed: {result:?}").into());
        }
        Ok(())
    }
}

#[cfg(feature = "reqwest-without-tls")]
mod other {
    use super::{Failure, LoopbackServer};

    pub(super) const NAME: &str = "reqwest without TLS";

    /// A build without TLS must stay without TLS: `Client::new` finds no provider of ours, and needs none.
    pub(super) async fn request(server: &LoopbackServer) -> Result<(), Failure> {
        let client = reqwest::Client::new();
        client.get(format!("http://{}/", server.plain)).send().await?;
        match client.get(server.url()).send().await {
            Ok(_) => Err("reqwest without TLS has spoken TLS: its features have unified with others".into()),
            Err(_) => Ok(()),
        }
    }
}

#[cfg(feature = "reqwest-default")]
mod other {
    use super::{Failure, LoopbackServer};

    pub(super) const NAME: &str = "reqwest with its defaults";

    pub(super) async fn request(server: &LoopbackServer) -> Result<(), Failure> {
        let _ = reqwest::Client::new();
        let authority = reqwest::Certificate::from_pem(server.certificate.pem().as_bytes())?;
        let client = reqwest::Client::builder().tls_certs_merge([authority]).build()?;
        client.get(server.url()).send().await?;
        Ok(())
    }
}

#[cfg(feature = "rustls-aws-lc-rs")]
mod other {
    use std::sync::Arc;

    use rustls::crypto::aws_lc_rs::default_provider;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;

    use super::{Failure, LoopbackServer};

    pub(super) const NAME: &str = "rustls with aws-lc-rs";

    /// One request with the provider in the configuration, and one with the provider installed for the whole process.
    pub(super) async fn request(server: &LoopbackServer) -> Result<(), Failure> {
        let explicit = ClientConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()?;
        shake_hands(server, explicit.with_root_certificates(roots(server)?).with_no_client_auth()).await?;
        default_provider().install_default().map_err(|_| "a provider was installed already")?;
        let installed = ClientConfig::builder();
        shake_hands(server, installed.with_root_certificates(roots(server)?).with_no_client_auth()).await
    }

    fn roots(server: &LoopbackServer) -> Result<RootCertStore, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add(server.certificate.der().clone())?;
        Ok(roots)
    }

    async fn shake_hands(server: &LoopbackServer, config: ClientConfig) -> Result<(), Failure> {
        let stream = TcpStream::connect(server.tls).await?;
        let name = ServerName::try_from("localhost")?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        Ok(())
    }
}

#[cfg(feature = "mcpjoin-aws-lc-rs")]
mod other {
    use super::{Failure, LoopbackServer};

    pub(super) const NAME: &str = "nothing else, on aws-lc-rs";

    pub(super) async fn request(_: &LoopbackServer) -> Result<(), Failure> {
        Ok(())
    }
}
