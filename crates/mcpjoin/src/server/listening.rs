//! Serves every connection that a listener accepts.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;

use tokio::task::{Id, JoinSet};

use super::Server;
use crate::connection::Connection;
use crate::transport::{Link, Listener};

impl Server {
    /// Serves all connections that the listener accepts, each in a task of its own, until `end` is ready.
    ///
    /// Then it accepts no more connections, reads no more requests, finishes those in progress, and returns when the
    /// last connection has closed: at most [`Limits::drain`](mcpjoin_proto::session::Limits::drain) (10 s) later, plus
    /// 2 s for closing. Dropping the future ends everything immediately.
    ///
    /// ```no_run
    /// # async fn f(server: mcpjoin::Server) -> Result<(), mcpjoin::transport::SocketError> {
    /// use mcpjoin::transport::Listener;
    ///
    /// let listener = Listener::unix("/run/user/1000/tools.sock").await?;
    /// let interrupted = async { drop(tokio::signal::ctrl_c().await) };
    /// server.serve_all(listener, interrupted).await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn serve_all(&self, listener: Listener, end: impl Future<Output = ()>) {
        serve_each(listener, end, |link| self.open(link, true), Connection::drain).await;
    }
}

/// Serves all connections that the listener accepts, until `end` is ready; then calls `drain` for each. `open` returns
/// a handle to a connection, and the future that runs it.
pub async fn serve_each<C, S>(
    mut listener: Listener,
    end: impl Future<Output = ()>,
    open: impl Fn(Link) -> (C, S),
    drain: impl Fn(&C),
) where
    S: Future<Output = ()> + Send + 'static,
{
    let mut end = pin!(end);
    let mut tasks = JoinSet::new();
    let mut connections: HashMap<Id, C> = HashMap::new();
    loop {
        tokio::select! {
            biased;
            () = &mut end => break,
            Some(ended) = tasks.join_next_with_id() => {
                connections.remove(&ended.map_or_else(|error| error.id(), |(id, ())| id));
            }
            link = listener.accept() => {
                let (connection, serving) = open(link);
                connections.insert(tasks.spawn(serving).id(), connection);
            }
        }
    }
    let shut_down = listener.shut_down();
    connections.values().for_each(drain);
    while tasks.join_next().await.is_some() {}
    shut_down.await;
}
