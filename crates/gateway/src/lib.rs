//! Any client to any server: a session on each side, and between them what was said, as it was said.
//!
//! A [`Gateway`] serves clients of every revision over every link, and has for them links to one kind of server, made by a
//! function: a child, an address, whatever gives a [`Link`]. Ids, deadlines, cancelling, limits and the envelope of an era
//! are the sessions' (the connection of the client, and that of the server); parameters and results travel between them as text that
//! nobody reads. So nothing is dropped because this crate does not know it: methods, capabilities, members, content.
//!
//! Where both sides speak one era a request is made again on the other side, and what comes back goes back to the byte.
//! Where they do not, one of two rooms translates: `legacy_to_modern` for a client that opens with `initialize` and a server that
//! does not know it, `modern_to_legacy` for the other way round.
//!
//! A client of the legacy era has a server of its own, which is ended with its session, and so has every client of the
//! modern era on a connection of its own. Over HTTP the modern era has no sessions: there those of one principal, or at one
//! address, share a server for each set of capabilities that they declare (`pools`). Where that server is of the legacy era
//! and may ask them something, each call that can be asked has one for itself meanwhile (`lanes`): what a server asks
//! reaches the client whose call it is about, or nobody.
//!
//! Never handed on: headers of HTTP, and above all `Authorization`
//! (<https://modelcontextprotocol.io/specification/2025-11-25/basic/security_best_practices#token-passthrough>). What one
//! client says reaches no other.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use mcpjoin_gateway::Gateway;
//! use mcpjoin::link::{ChildCommand, Listener};
//!
//! let command = ChildCommand::new("my-server");
//! let gateway = Gateway::builder(move || command.clone().start()).build();
//! let interrupted = async { drop(tokio::signal::ctrl_c().await) };
//! gateway.serve_all(Listener::tcp("127.0.0.1:7000").await?, interrupted).await;
//! gateway.close().await;
//! # Ok(())
//! # }
//! ```

mod builder;
mod discovery;
mod end;
mod filter;
mod lanes;
mod legacy;
mod legacy_to_modern;
mod marks;
mod modern;
mod modern_to_legacy;
mod opening;
mod pace;
mod pair;
mod places;
mod pools;
mod relaying;
mod serving;
mod shares;
mod telling;
mod upstream;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

pub use builder::GatewayBuilder;
pub use end::{GatewayEnd, GatewayEvent, Refusal};

use mcpjoin::link::{HttpListener, HttpOptions, HttpService};
use mcpjoin::link::{Link, Listener};

/// Any client to any server of one kind. Made by [`Gateway::builder`], cheap to clone.
///
/// Its servers live as long as their clients, and the shared ones until [`Gateway::close`]; dropping the last handle ends
/// those that nobody uses.
#[derive(Clone)]
pub struct Gateway(Arc<Shared>);

/// What all clients of a gateway share.
struct Shared {
    settings: Arc<builder::Settings>,
    places: Arc<places::Places>,
    spoken: Arc<upstream::Spoken>,
    /// The servers of modern clients.
    pools: pools::Pools,
    /// What clients over HTTP repeat in headers.
    marks: marks::Marks,
}

impl Gateway {
    /// Begins the description of a gateway. `start` makes a new link to the server, each time one is needed.
    pub fn builder<F, S, E>(start: F) -> GatewayBuilder
    where
        F: Fn() -> S + Send + Sync + 'static,
        S: IntoFuture<Output = Result<Link, E>, IntoFuture: Send + 'static>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        GatewayBuilder::new(start)
    }

    /// Serves one client until its connection is over, and says how it ended. The server that it has for itself is ended
    /// by then, and nothing of it is left. Dropping the future ends the connection, and that server behind it.
    pub async fn serve(&self, link: Link) -> GatewayEnd {
        self.0.clone().serve_alone(link).await
    }

    /// Serves everyone who comes to the listener, each in a task of its own, until `end` is ready. Then nobody is
    /// accepted any more and nothing more is read, what is in progress is finished, and it is over when the last
    /// connection is: as [`Server::serve_all`](mcpjoin::Server::serve_all) says. Servers that are shared go on until
    /// [`Gateway::close`].
    ///
    /// Dropping the future ends everything at once.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn serve_all(&self, listener: Listener, end: impl Future<Output = ()>) {
        self.0.clone().serve_all(listener, end).await;
    }

    /// Answers HTTP requests, as [`Server::http`](mcpjoin::Server::http) does.
    #[must_use]
    pub fn http(&self, options: HttpOptions) -> HttpService {
        self.0.clone().http(options)
    }

    /// Serves everyone who comes to the listener until `end` is ready, as
    /// [`Server::serve_http`](mcpjoin::Server::serve_http) does.
    ///
    /// # Panics
    /// Outside of a tokio runtime with I/O and time enabled.
    pub async fn serve_http(
        &self,
        listener: HttpListener,
        options: HttpOptions,
        end: impl Future<Output = ()>,
    ) {
        let service = self.http(listener.options(options));
        listener.serve(service, end).await;
    }

    /// Ends every server, and waits until nothing of them is left. Requests under way fail, and so does every request
    /// from now on.
    pub async fn close(&self) {
        self.0.places.close().await;
        self.0.pools.clear();
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}
