//! One server for everyone who comes to a listener.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;

use tokio::task::{Id, JoinSet};

use super::Server;
use crate::connection::Connection;
use crate::link::{Link, Listener};

impl Server {
    /// Serves everyone who comes to the listener, each in a task of its own, until `end` is ready. Then nobody is
    /// accepted any more and nothing more is read, what is in progress is finished, and it is over when the last
    /// connection is: after [`Limits::drain`](mcpjoin_proto::session::Limits::drain) (10 s) at the latest, and the 2 s
    /// that a connection may take to say its last words.
    ///
    /// Dropping the future ends everything at once.
    ///
    /// ```no_run
    /// # async fn f(server: mcpjoin::Server) -> Result<(), mcpjoin::link::SocketError> {
    /// use mcpjoin::link::Listener;
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

/// Serves everyone who comes to the listener until `end` is ready; then `drain` has each connection end in order. `open`
/// gives what a connection is acted on by, and what runs it.
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
