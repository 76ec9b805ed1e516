//! Serving: from a link to the end of its client, alone or with all who come to a listener.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcpjoin_proto::Version;
use mcpjoin_proto::session::CloseCause;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::Shared;
use super::end::{GatewayEnd, GatewayEvent, Refusal};
use super::opening::Opening;
use super::telling::Telling;
use mcpjoin::connection::Connection;
use mcpjoin::internal::serve_each;
use mcpjoin::link::{HttpOptions, HttpService};
use mcpjoin::link::{Link, Listener};

/// How long an error may take to leave for a client that is closed behind it.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// What a client's connection is acted on by, before it is made and while it lasts.
#[derive(Clone, Default)]
pub(super) struct Hold(Arc<Held>);

#[derive(Default)]
struct Held {
    state: Mutex<State>,
    drained: Notify,
}

#[derive(Default)]
struct State {
    connection: Option<Connection>,
    draining: bool,
}

impl Hold {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection is made.
    pub(super) fn connected(&self, connection: Connection) {
        let mut state = self.lock();
        if state.draining {
            connection.drain();
        }
        state.connection = Some(connection);
    }

    pub(super) fn connection(&self) -> Option<Connection> {
        self.lock().connection.clone()
    }

    /// Ends the connection in order; one that is not made yet is not made.
    pub(super) fn drain(&self) {
        let mut state = self.lock();
        state.draining = true;
        match &state.connection {
            Some(connection) => connection.drain(),
            None => self.0.drained.notify_one(),
        }
    }

    /// Ready when the end has come before the connection was made.
    async fn drained(&self) {
        self.0.drained.notified().await;
    }
}

/// A task that ends when nobody waits for it any more.
struct Ended(JoinHandle<GatewayEnd>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Shared {
    /// Serves one client.
    pub(super) async fn serve(self: Arc<Self>, link: Link, hold: Hold, telling: Telling) -> GatewayEnd {
        let mut opening = Opening::new(link, &self.settings.limits);
        let first = tokio::select! {
            biased;
            first = opening.first() => Some(first),
            () = hold.drained() => None,
        };
        let first = match first {
            Some(Ok(first)) => first,
            Some(Err(cause)) => {
                opening.close(FAREWELL).await;
                return GatewayEnd::Client(cause);
            }
            None => {
                opening.close(FAREWELL).await;
                return GatewayEnd::Client(CloseCause::Local);
            }
        };
        if first.wanted.initializes {
            self.serve_legacy(opening, first, &hold, telling).await
        } else {
            self.serve_modern(opening, first, &hold, telling).await
        }
    }

    /// The same in a task: a runtime with several threads polls the future that it was started with on a thread that has
    /// to be woken for everything that comes in.
    pub(super) async fn serve_alone(self: Arc<Self>, link: Link) -> GatewayEnd {
        let telling = Telling::new(&self.settings, false);
        let mut task = Ended(tokio::spawn(self.serve(link, Hold::default(), telling)));
        (&mut task.0).await.unwrap_or(GatewayEnd::Client(CloseCause::Local))
    }

    pub(super) async fn serve_all(self: Arc<Self>, listener: Listener, end: impl Future<Output = ()>) {
        let open = |link| {
            let hold = Hold::default();
            let serving = self.clone().serve(link, hold.clone(), Telling::new(&self.settings, true));
            (hold, async move { drop(serving.await) })
        };
        serve_each(listener, end, open, Hold::drain).await;
    }

    pub(super) fn http(self: Arc<Self>, options: HttpOptions) -> HttpService {
        let limits = self.settings.limits.clone();
        HttpService::new(options, limits, Version::ALL.into(), OverHttp(self))
    }

    pub(super) fn tell_refused(&self, why: &Refusal) {
        self.settings.tell(&GatewayEvent::Refused { why });
    }
}

/// A gateway as HTTP serves it.
struct OverHttp(Arc<Shared>);

impl mcpjoin::internal::Serves for OverHttp {
    fn open(
        &self,
        link: Link,
    ) -> (Box<dyn mcpjoin::internal::Served>, Pin<Box<dyn Future<Output = ()> + Send>>) {
        let hold = Hold::default();
        let serving = self.0.clone().serve(link, hold.clone(), Telling::new(&self.0.settings, true));
        (Box::new(hold), Box::pin(async move { drop(serving.await) }))
    }

    fn header_marks(&self, tool: &str) -> Option<Arc<[mcpjoin_proto::http::params::HeaderMark]>> {
        self.0.marks.of(tool)
    }

    /// Its server may still say something about the request before.
    fn remembers_clients(&self) -> bool {
        true
    }
}

impl mcpjoin::internal::Served for Hold {
    fn version(&self) -> Option<Version> {
        Some(self.connection()?.peer()?.profile.version.clone())
    }

    fn is_quiet(&self) -> bool {
        self.connection().is_some_and(|connection| connection.in_flight() == (0, 0))
    }

    fn drain(&self) {
        Self::drain(self);
    }
}
