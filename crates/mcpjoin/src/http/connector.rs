//! From a URL to a connection: name, address, TCP, the proxy's tunnel, TLS.
//!
//! Called by the pool of [`Client`](super::Client) for each new connection.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderValue};
use http::uri::{Scheme, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{self, Connected, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::client::ClientOptions;
use super::error::{BoxError, ConnectTimedOut, ProxySchemeError, ResolveError};
use super::proxy::Proxies;

/// How long a connection may be silent before the system asks whether the other side is still there.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
/// How often it asks again, and how many times.
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const TCP_KEEPALIVE_RETRIES: u32 = 3;
/// How long sent bytes may stay unacknowledged before the system gives the connection up.
#[cfg(any(target_os = "android", target_os = "linux"))]
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(30);

/// What a [`ResolveHook`] returns.
pub type Resolving = Pin<Box<dyn Future<Output = Result<Vec<IpAddr>, BoxError>> + Send>>;

/// Resolves a name in place of the system. An address that it leaves out is not connected to, whatever the name says
/// later. A host that is an address already does not come here.
pub type ResolveHook = Arc<dyn Fn(String) -> Resolving + Send + Sync>;

/// Makes connections. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector(Arc<Setup>);

struct Setup {
    direct: HttpConnector<Resolver>,
    /// Connects to a proxy, whose name the system resolves.
    to_proxy: HttpConnector<Resolver>,
    tls: Arc<ClientConfig>,
    /// To a proxy of `https:` that is asked for a tunnel: CONNECT is spoken in HTTP/1.1 alone.
    tls_to_proxy: Arc<ClientConfig>,
    proxies: Option<Proxies>,
    connect_timeout: Duration,
    user_agent: Option<HeaderValue>,
}

impl Connector {
    pub(super) fn new(options: ClientOptions) -> Self {
        let ClientOptions { tls, connect_timeout, proxies, resolve, user_agent, .. } = options;
        let mut tls_to_proxy = tls.clone();
        tls_to_proxy.alpn_protocols.clear();
        Self(Arc::new(Setup {
            direct: tcp(connect_timeout, Resolver(resolve)),
            to_proxy: tcp(connect_timeout, Resolver(None)),
            tls: Arc::new(tls),
            tls_to_proxy: Arc::new(tls_to_proxy),
            proxies,
            connect_timeout,
            user_agent,
        }))
    }

    pub(super) fn user_agent(&self) -> Option<&HeaderValue> {
        self.0.user_agent.as_ref()
    }

    /// What the proxy to a server of `http:` gets with each request.
    pub(super) fn proxy_credentials(&self, destination: &Uri) -> Option<HeaderValue> {
        self.0.proxies.as_ref()?.intercept(destination)?.basic_auth().cloned()
    }
}

impl Setup {
    async fn connect(&self, destination: Uri) -> Result<Connection, BoxError> {
        let proxy = self.proxies.as_ref().and_then(|proxies| proxies.intercept(&destination));
        let Some(proxy) = proxy else {
            let stream = https(&self.direct, &self.tls).call(destination).await?;
            return Ok(Connection { stream: MaybeHttpsStream::Http(stream), is_forwarded: false });
        };
        let of_http = [Some(&Scheme::HTTP), Some(&Scheme::HTTPS)];
        if let (false, Some(scheme)) = (of_http.contains(&proxy.uri().scheme()), proxy.uri().scheme_str()) {
            return Err(ProxySchemeError(scheme.to_owned()).into());
        }
        if destination.scheme() != Some(&Scheme::HTTPS) {
            let stream = https(&self.to_proxy, &self.tls).call(proxy.uri().clone()).await?;
            return Ok(Connection { stream: MaybeHttpsStream::Http(stream), is_forwarded: true });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), https(&self.to_proxy, &self.tls_to_proxy));
        if let Some(credentials) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(credentials.clone());
        }
        if let Some(agent) = &self.user_agent {
            tunnel = tunnel.with_headers(HeaderMap::from_iter([(header::USER_AGENT, agent.clone())]));
        }
        let stream = HttpsConnector::from((tunnel, Arc::clone(&self.tls))).call(destination).await?;
        Ok(Connection { stream, is_forwarded: false })
    }
}

impl Service<Uri> for Connector {
    type Response = Connection;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Connection, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, destination: Uri) -> Self::Future {
        let setup = Arc::clone(&self.0);
        Box::pin(async move {
            match timeout(setup.connect_timeout, setup.connect(destination)).await {
                Ok(connected) => connected,
                Err(_) => Err(ConnectTimedOut.into()),
            }
        })
    }
}

/// TCP. A server with several addresses is tried at each: the time is shared among them, and the second family of
/// addresses is tried beside the first after 300 ms.
fn tcp(connect_timeout: Duration, resolver: Resolver) -> HttpConnector<Resolver> {
    let mut tcp = HttpConnector::new_with_resolver(resolver);
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(connect_timeout));
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(TCP_KEEPALIVE));
    tcp.set_keepalive_interval(Some(TCP_KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(TCP_KEEPALIVE_RETRIES));
    #[cfg(any(target_os = "android", target_os = "linux"))]
    tcp.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT));
    tcp
}

/// TCP, and TLS where the scheme says so.
fn https(tcp: &HttpConnector<Resolver>, tls: &Arc<ClientConfig>) -> HttpsConnector<HttpConnector<Resolver>> {
    HttpsConnector::from((tcp.clone(), Arc::clone(tls)))
}

/// Resolves names: by the hook, else by the system.
#[derive(Clone)]
struct Resolver(Option<ResolveHook>);

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ResolveError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let hook = self.0.clone();
        Box::pin(async move {
            let addresses: Vec<SocketAddr> = match hook {
                Some(hook) => {
                    let found = hook(name.as_str().to_owned()).await.map_err(ResolveError)?;
                    // The port is that of the URL.
                    found.into_iter().map(|address| SocketAddr::new(address, 0)).collect()
                }
                None => {
                    let found = GaiResolver::new().call(name).await;
                    found.map_err(|error| ResolveError(error.into()))?.collect()
                }
            };
            Ok(addresses.into_iter())
        })
    }
}

/// A connection to a server, or to a proxy that forwards requests.
///
/// The inner stream is TCP, with TLS if the URL of the server or the proxy is `https:`. The outer one is TLS to the server
/// through the tunnel of a proxy.
pub(super) struct Connection {
    stream: MaybeHttpsStream<MaybeHttpsStream<TokioIo<TcpStream>>>,
    /// The other side is a proxy, which gets the whole URL of each request.
    is_forwarded: bool,
}

impl connect::Connection for Connection {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.is_forwarded)
    }
}

impl Read for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl Write for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
