//! What a gateway is made of.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcpjoin_proto::Version;
use mcpjoin_proto::session::{Ask, Limits};

use super::end::GatewayEvent;
use super::places::Places;
use super::pools::Pools;
use super::{Gateway, Shared};
use mcpjoin::client::Restart;
use mcpjoin::link::Link;

/// Servers at once.
const UPSTREAMS: usize = 100;
/// How long a relayed request may take without a sign of life.
const TIMEOUT: Duration = Duration::from_secs(600);

/// A gateway to be. Made by [`Gateway::builder`].
#[must_use = "a builder serves nobody by itself"]
pub struct GatewayBuilder(Settings);

/// A link to the server, on its way.
pub(super) type Starting = Pin<Box<dyn Future<Output = Result<Link, Box<dyn Error + Send + Sync>>> + Send>>;
/// Makes links to the server.
pub(super) type Start = Arc<dyn Fn() -> Starting + Send + Sync>;
/// Which tools there are for clients.
pub(super) type Allows = Arc<dyn Fn(&str) -> bool + Send + Sync>;
/// What of a text of ours clients are told.
pub(super) type Words = Arc<dyn Fn(&str) -> String + Send + Sync>;
/// Whoever hears what happens.
pub(super) type OnEvent = Arc<dyn Fn(&GatewayEvent<'_>) + Send + Sync>;

/// What was set.
pub(super) struct Settings {
    pub(super) start: Start,
    pub(super) limits: Arc<Limits>,
    pub(super) upstream_limits: Limits,
    pub(super) ask: Ask,
    pub(super) version: Option<Version>,
    pub(super) restart: Restart,
    pub(super) allows: Option<Allows>,
    pub(super) upstreams: usize,
    pub(super) timeout: Duration,
    pub(super) words: Option<Words>,
    pub(super) on_event: Option<OnEvent>,
}

impl GatewayBuilder {
    pub(super) fn new<F, S, E>(start: F) -> Self
    where
        F: Fn() -> S + Send + Sync + 'static,
        S: IntoFuture<Output = Result<Link, E>, IntoFuture: Send + 'static>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let start: Start = Arc::new(move || -> Starting {
            let starting = start().into_future();
            Box::pin(async move { starting.await.map_err(Into::into) })
        });
        Self(Settings {
            start,
            limits: Arc::default(),
            upstream_limits: Limits::default(),
            ask: Ask::Auto,
            version: None,
            restart: Restart::default(),
            allows: None,
            upstreams: UPSTREAMS,
            timeout: TIMEOUT,
            words: None,
            on_event: None,
        })
    }

    /// The bounds of each connection to a client.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.0.limits = Arc::new(limits);
        self
    }

    /// The bounds of each connection to the server. How long a request may take is [`GatewayBuilder::timeout`].
    pub fn upstream_limits(mut self, limits: Limits) -> Self {
        self.0.upstream_limits = limits;
        self
    }

    /// Which era the server is asked for. Unless this says otherwise, it is asked for that of the client first, and for
    /// the other one when it does not speak it.
    pub const fn ask(mut self, ask: Ask) -> Self {
        self.0.ask = ask;
        self
    }

    /// Speak this version to the server and no other, whatever the client speaks.
    pub fn protocol_version(mut self, version: Version) -> Self {
        self.0.version = Some(version);
        self
    }

    /// How often and how soon a server is started again that has died: [`Restart::default`].
    pub fn restart(mut self, restart: Restart) -> Self {
        self.0.restart = restart;
        self
    }

    /// Which tools there are for clients, by their names: others are in no list and cannot be called. All of them.
    pub fn tools(mut self, allows: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.0.allows = Some(Arc::new(allows));
        self
    }

    /// How many servers there may be at once: 100. A client that needs one more is refused with an error that says so. A
    /// call that needs one more, because its client can be asked something and others are being asked, waits for its turn
    /// instead, as long as [`GatewayBuilder::timeout`] says.
    pub const fn upstreams(mut self, most: usize) -> Self {
        self.0.upstreams = most;
        self
    }

    /// How long a relayed request may take without a sign of life: 10 min. Progress begins it anew, without a bound of
    /// its own: the client's cancellation and the ends of both connections end it.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout = timeout;
        self
    }

    /// What clients are told of why a request has failed, where not the server says it: the text without what is not for
    /// them. How a server has ended may hold anything that the server has written. Must neither block nor panic.
    ///
    /// Whoever comes to a listener or over HTTP is never told what the server has written to its standard error.
    pub fn words(mut self, words: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.0.words = Some(Arc::new(words));
        self
    }

    /// Hears of servers that start and end, and of clients that are refused. Must neither block nor panic.
    pub fn on_event(mut self, hear: impl Fn(&GatewayEvent<'_>) + Send + Sync + 'static) -> Self {
        self.0.on_event = Some(Arc::new(hear));
        self
    }

    /// The gateway. Nothing is started before a client needs it.
    #[must_use]
    pub fn build(self) -> Gateway {
        Gateway(Arc::new(Shared {
            places: Places::new(self.0.upstreams),
            settings: Arc::new(self.0),
            spoken: Arc::default(),
            pools: Pools::default(),
            marks: super::marks::Marks::default(),
        }))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("ask", &self.ask)
            .field("version", &self.version)
            .field("restart", &self.restart)
            .field("upstreams", &self.upstreams)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for GatewayBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
