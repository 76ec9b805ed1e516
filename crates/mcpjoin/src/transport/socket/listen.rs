//! Listens on a TCP port or a Unix socket.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::task::{Context, Poll};

use mcpjoin_proto::session::Origin;
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

use super::connect::host_and_port;
#[cfg(unix)]
use super::file::SocketFile;
use super::{Far, SocketError, SocketErrorKind, SocketLink, Strangers, tune};
use crate::transport::{Accept, Link, ListenAddress, Listener};

impl Listener {
    /// Listens on a TCP port: `host:port`, as for [`Link::tcp`]. Of a name with several addresses, the first that can be
    /// listened on is used; port 0 means any free port. Every program that can reach the port can connect, and nothing is
    /// encrypted: `127.0.0.1` and `[::1]` are reachable from this machine only, by every user of it.
    ///
    /// ```no_run
    /// use mcpjoin::transport::Listener;
    ///
    /// # async fn example(server: mcpjoin::Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = Listener::tcp("127.0.0.1:7000").await?;
    /// server.serve_all(listener, std::future::pending::<()>()).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SocketError`] has the error of the system.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O enabled.
    pub async fn tcp(address: impl AsRef<str>) -> Result<Self, SocketError> {
        let address = address.as_ref();
        let listen = async {
            let listener =
                TcpListener::bind(host_and_port(address)?).await.map_err(SocketErrorKind::System)?;
            let address = listener.local_addr().map_err(SocketErrorKind::System)?;
            let strangers = Strangers::default();
            Ok(Self::new(TcpAccept { listener, strangers }, ListenAddress::Tcp(address)))
        };
        listen.await.map_err(|kind| SocketError::new(format!("tcp://{address}"), kind))
    }

    /// Listens on a Unix socket and creates its file, readable and writable for our user alone. A file without a listener is
    /// replaced. The file is removed when the listener is dropped, if it is still the one that was created.
    ///
    /// ```no_run
    /// use mcpjoin::transport::Listener;
    ///
    /// # async fn example(server: mcpjoin::Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = Listener::unix("/run/user/1000/tools.sock").await?;
    /// let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    /// server.serve_all(listener, interrupted).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`SocketErrorKind::InUse`] when a server listens there, [`SocketErrorKind::NotASocket`] when another kind of file is
    /// there, and the errors of the system.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    #[cfg(unix)]
    pub async fn unix(path: impl AsRef<Path>) -> Result<Self, SocketError> {
        let path = path.as_ref();
        match SocketFile::listen(path).await {
            Ok((file, listener)) => {
                let address = ListenAddress::Unix(file.path().to_owned());
                Ok(Self::new(UnixAccept { _file: file, listener, strangers: Strangers::default() }, address))
            }
            Err(kind) => Err(SocketError::new(format!("unix:{}", path.display()), kind)),
        }
    }
}

struct TcpAccept {
    listener: TcpListener,
    strangers: Strangers,
}

impl Accept for TcpAccept {
    type Client = (TcpStream, SocketAddr);

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Client>> {
        self.listener.poll_accept(cx)
    }

    fn link(&mut self, (stream, address): Self::Client) -> Link {
        tune(&stream);
        let origin = Origin { peer: Some(address.to_string().into()), ..Origin::new("tcp") };
        SocketLink::link(stream, Far::Client { received: false, strangers: self.strangers.clone() }, origin)
    }
}

/// Dropped in this order: the file is removed while the socket is open.
#[cfg(unix)]
struct UnixAccept {
    _file: SocketFile,
    listener: UnixListener,
    strangers: Strangers,
}

#[cfg(unix)]
impl Accept for UnixAccept {
    type Client = UnixStream;

    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        self.listener.poll_accept(cx).map_ok(|(stream, _)| stream)
    }

    fn link(&mut self, stream: UnixStream) -> Link {
        let peer = stream.peer_cred().ok().map(|peer| match peer.pid() {
            Some(pid) => format!("process {pid} of user {}", peer.uid()).into(),
            None => format!("user {}", peer.uid()).into(),
        });
        let far = Far::Client { received: false, strangers: self.strangers.clone() };
        SocketLink::link(stream, far, Origin { peer, ..Origin::new("unix") })
    }
}
