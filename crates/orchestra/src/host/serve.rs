//! Listening: connections over QUIC, each with many exchanges, and over TCP, each with one.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Host;
use mcpjoin_quic::endpoint::{Incoming, Listener, QuicErrorKind};

/// How long peers may take to hear that it is over.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// After an error in accepting that is not the peer's (no file descriptors left, say) it is tried again after this time.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

impl Host {
    /// Serves everybody who comes, until `end` is ready: then nobody is let in any more, exchanges in progress are
    /// finished ([`HostLimits::drain`](super::HostLimits::drain)), and connections are closed with code 0. The servers are
    /// left as they are.
    ///
    /// Dropping the future ends it at once, and cancels what is in progress.
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

    /// The same over TCP, where each connection carries one exchange, unencrypted, and nobody is asked who they are.
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
                        Ok((stream, _)) => {
                            connections.spawn(self.clone().on_tcp(stream, ending.clone()));
                        }
                        Err(error) => {
                            tracing::warn!(target: "mcpjoin", "nobody can be let in: {error}");
                            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                        }
                    }
                }
            }
        }
        drop(listener);
        self.finish(&over, connections).await;
    }

    /// Lets what is in progress come to its end, within the time for that.
    async fn finish(&self, over: &watch::Sender<bool>, mut connections: JoinSet<()>) {
        over.send_replace(true);
        let all = async { while connections.join_next().await.is_some() {} };
        if timeout(self.inner.limits.drain, all).await.is_err() {
            tracing::warn!(target: "mcpjoin", "exchanges in progress are given up");
        }
    }

    async fn connection(self, incoming: Incoming, mut ending: watch::Receiver<bool>) {
        let connection = tokio::select! {
            biased;
            // Who is not in yet has nothing in progress.
            _ = ending.wait_for(|over| *over) => return,
            // What is wrong is logged where it happens.
            established = incoming.establish() => match established {
                Ok(connection) => connection,
                Err(_) => return,
            },
        };
        let peer = connection.remote();
        let name = connection.peer_name().unwrap_or_default();
        tracing::info!(target: "mcpjoin", %peer, %name, "connected");
        let mut exchanges = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                // Without its sender it is over, too.
                _ = ending.wait_for(|over| *over) => break,
                Some(_) = exchanges.join_next() => {}
                stream = connection.accept() => match stream {
                    Ok((send, receive)) => {
                        exchanges.spawn(self.clone().on_stream(send, receive));
                    }
                    Err(error) => {
                        if !matches!(error.kind, QuicErrorKind::Closed { code: 0, .. }) {
                            tracing::warn!(target: "mcpjoin", %peer, %name, "{error}");
                        }
                        // Whoever asked is gone: what is in progress is cancelled.
                        return;
                    }
                }
            }
        }
        while exchanges.join_next().await.is_some() {}
    }
}
