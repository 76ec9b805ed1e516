//! Serves connections: over QUIC with many exchanges each, over TCP with one each.

use std::pin::pin;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Host;
use mcpjoin_quic::endpoint::{Incoming, Listener, QuicErrorKind};

/// Time limit for informing the peers of the shutdown.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Delay after a local error of `accept`, for example when no file descriptors are left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

impl Host {
    /// Serves clients until `end` is ready. Then new clients are rejected, exchanges in progress are completed
    /// ([`HostLimits::drain`](super::HostLimits::drain)), and connections are closed with code 0. The MCP servers keep
    /// running.
    ///
    /// Dropping the future stops at once and cancels exchanges in progress.
    pub async fn serve(&self, listener: Listener, end: impl Future<Output = ()>) {
        let (over, ending) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut end = pin!(end);
        loop {
            tokio::select! {
                biased;
                () = &mut end => break,
                Some(_) = connections.join_next() => {}
                incoming = listener.accept() => {
                    let Some(incoming) = incoming else { break };
                    if connections.len() < self.inner.limits.connections {
                        connections.spawn(self.clone().connection(incoming, ending.clone()));
                    } else {
                        let peer = incoming.remote();
                        tracing::warn!(target: "mcpjoin", %peer, "refused: too many connections");
                    }
                }
            }
        }
        listener.stop();
        self.finish(&over, connections).await;
        listener.close(CLOSE_TIMEOUT).await;
    }

    /// Serves clients over TCP, with one exchange for each connection, without encryption and authentication.
    pub async fn serve_tcp(&self, listener: TcpListener, end: impl Future<Output = ()>) {
        let (over, ending) = watch::channel(false);
        let mut connections = JoinSet::new();
        let mut end = pin!(end);
        loop {
            tokio::select! {
                biased;
                () = &mut end => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept(), if connections.len() < self.inner.limits.connections => {
                    match accepted {
                        Ok((stream, peer)) => {
                            let shares = self.shares(peer.ip());
                            connections.spawn(self.clone().on_tcp(shares, stream, ending.clone()));
                        }
                        Err(error) => {
                            tracing::warn!(target: "mcpjoin", "connections cannot be accepted: {error}");
                            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                        }
                    }
                }
            }
        }
        drop(listener);
        self.finish(&over, connections).await;
    }

    /// Waits for exchanges in progress within the time limit.
    async fn finish(&self, over: &watch::Sender<bool>, mut connections: JoinSet<()>) {
        over.send_replace(true);
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(self.inner.limits.drain, all).await.is_err() {
            tracing::warn!(target: "mcpjoin", "exchanges in progress are cancelled");
        }
    }

    async fn connection(self, incoming: Incoming, mut ending: watch::Receiver<bool>) {
        let connection = tokio::select! {
            biased;
            // A client without a complete handshake has nothing in progress.
            _ = ending.wait_for(|over| *over) => return,
            // `establish` logs its errors.
            established = incoming.establish() => match established {
                Ok(connection) => connection,
                Err(_) => return,
            },
        };
        let peer = connection.remote();
        let name = connection.peer_name().unwrap_or_default();
        tracing::info!(target: "mcpjoin", %peer, %name, "connected");
        let (shares, mut exchanges) = (self.shares(peer.ip()), JoinSet::new());
        loop {
            tokio::select! {
                biased;
                // This also ends when the sender is dropped.
                _ = ending.wait_for(|over| *over) => break,
                Some(_) = exchanges.join_next() => {}
                stream = connection.accept() => match stream {
                    Ok((send, receive)) => {
                        exchanges.spawn(self.clone().on_stream(shares.clone(), send, receive));
                    }
                    Err(error) => {
                        if !matches!(error.kind, QuicErrorKind::Closed { code: 0, .. }) {
                            tracing::warn!(target: "mcpjoin", %peer, %name, "{error}");
                        }
                        // The client is gone: returning cancels its exchanges.
                        return;
                    }
                }
            }
        }
        while exchanges.join_next().await.is_some() {}
    }
}
