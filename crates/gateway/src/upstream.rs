//! The life of one server: which era it is asked for, its start, its restarts and its end.
//!
//! Each server has one task, which holds the slot of the server until nothing of the server is left. Used by `legacy`
//! and by `pool`, once the first request of a client has said what kind of client it is.

use std::sync::Arc;

use mcpjoin_proto::session::{CloseCause, EraChoice, NegotiationFailure, Presents};
use mcpjoin_proto::types::{ClientCapabilities, Implementation};
use mcpjoin_proto::{Era, Payload, Raw, Version, code};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::capacity::{Slot, Slots};
use super::end::{GatewayEvent, Refusal};
use super::settings::Settings;
use super::warnings::{watched, wrong_response};
use mcpjoin::client::{Client, RestartError, RestartingClient, RunEvent, RunExit};
use mcpjoin::handler::Handler;
use mcpjoin::transport::Link;

/// A server that runs or is restarting. It is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Upstream {
    server: RestartingClient,
    ending: watch::Sender<bool>,
}

/// What the first request of a client says about the client.
#[derive(Clone, Debug)]
pub(super) struct ClientHello {
    /// It opens a session with `initialize`.
    pub(super) initializes: bool,
    /// The version of `initialize`.
    pub(super) version: Option<Version>,
    pub(super) capabilities: ClientCapabilities,
    pub(super) info: Implementation,
    pub(super) presents: Presents,
    /// The only era that the server is asked for: that of a session which another process has opened.
    pub(super) resumed: Option<EraChoice>,
}

/// Handles what a server sends, and its restarts.
pub(super) trait UpstreamHandler: Handler + Clone {
    /// A new run of the server has started.
    fn restarted(&self, client: &Client) -> impl Future<Output = ()> + Send;

    /// Wraps the link to the server, for a client that takes messages slower than the server sends them.
    fn wrap(&self, link: Link) -> Link {
        link
    }
}

/// Starts servers. Cheap to clone.
#[derive(Clone)]
pub(super) struct Launcher {
    pub(super) settings: Arc<Settings>,
    pub(super) slots: Arc<Slots>,
    /// Whether the servers are opened with `initialize`. Known once a server did not speak the era of its client; the
    /// next server is asked for this era first.
    known_era: Arc<Mutex<Option<bool>>>,
}

impl Launcher {
    pub(super) fn new(settings: Settings) -> Self {
        let slots = Slots::new(settings.upstreams);
        Self { settings: Arc::new(settings), slots, known_era: Arc::default() }
    }

    /// Starts a server. Dropping the future ends the server in any phase of its start; its slot is held until nothing
    /// of it is left.
    pub(super) async fn start(
        &self,
        slot: Slot,
        hello: ClientHello,
        handler: impl UpstreamHandler,
    ) -> Result<Upstream, Refusal> {
        let ending = slot.ending.clone();
        let (sender, outcome) = oneshot::channel();
        let life = Life { launcher: self.clone(), hello, slot };
        tokio::spawn(life.run(handler, sender));
        let mut dropped = EndOnDrop(Some(ending.clone()));
        let server = outcome.await.unwrap_or(Err(Refusal::Closed))?;
        dropped.0 = None;
        Ok(Upstream { server, ending })
    }
}

impl Upstream {
    /// The connection to the current run; `None` while the server is restarting.
    pub(super) fn current(&self) -> Option<Client> {
        self.server.current()
    }

    /// The connection to the current run. While the server is restarting, waits for the next run.
    pub(super) async fn client(&self) -> Result<Client, RestartError> {
        match self.server.current() {
            Some(client) => Ok(client),
            None => self.server.client().await,
        }
    }

    /// Waits until the server was given up or ended.
    pub(super) async fn over(&self) -> RestartError {
        self.server.closed().await
    }

    /// Ends the server, and waits until nothing of it is left.
    pub(super) async fn close(&self) {
        self.server.close().await;
    }

    /// Whether [`Upstream::end`] was called. The server may still be running.
    pub(super) fn is_ended(&self) -> bool {
        *self.ending.borrow()
    }

    /// Ends the server without waiting.
    pub(super) fn end(&self) {
        self.ending.send_replace(true);
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.end();
    }
}

/// Ends a server whose start is not waited for any more.
struct EndOnDrop(Option<watch::Sender<bool>>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if let Some(ending) = &self.0 {
            ending.send_replace(true);
        }
    }
}

/// A server from its first start to its end.
struct Life {
    launcher: Launcher,
    hello: ClientHello,
    slot: Slot,
}

impl Life {
    async fn run(
        self,
        handler: impl UpstreamHandler,
        started: oneshot::Sender<Result<RestartingClient, Refusal>>,
    ) {
        let settings = &self.launcher.settings;
        settings.emit(&GatewayEvent::Starting { upstream: self.slot.number });
        let server = match self.first_start(&handler).await {
            Ok(server) => server,
            Err(why) => {
                let closed = matches!(why, RunExit::Ended(CloseCause::Local));
                let refusal = if closed { Refusal::Closed } else { Refusal::NotStarted(Box::new(why)) };
                if let Refusal::NotStarted(end) = &refusal {
                    let upstream = self.slot.number;
                    settings.emit(&GatewayEvent::Ended { upstream, end, next: None });
                }
                drop(self.slot);
                let _ = started.send(Err(refusal));
                return;
            }
        };
        let mut runs = server.runs();
        if let Some(client) = server.current() {
            let initialize = client.profile().initialize;
            // A server that speaks the era of its client may speak the other one, too.
            if initialize != self.hello.initializes {
                *self.launcher.known_era.lock() = Some(initialize);
            }
        }
        // If the start is not waited for any more, this drops the last handle, and the server ends.
        drop(started.send(Ok(server)));
        while let Some(client) = runs.next().await {
            if runs.run() > 1 {
                handler.restarted(&client).await;
            }
        }
        settings.emit(&GatewayEvent::Over { upstream: self.slot.number });
    }

    /// The eras to ask for, in this order.
    fn eras(&self) -> Vec<EraChoice> {
        let Settings { era, version, .. } = &*self.launcher.settings;
        let (legacy, modern) = (EraChoice::Only(Era::Legacy), EraChoice::Only(Era::Modern));
        if let Some(era) = self.hello.resumed {
            return vec![era];
        }
        if version.is_some() || *era != EraChoice::Auto {
            return vec![*era];
        }
        match (self.hello.initializes, *self.launcher.known_era.lock()) {
            (true, Some(false)) => vec![modern, legacy],
            (true, _) => vec![legacy, modern],
            // A known era need not be probed.
            (false, Some(true)) => vec![legacy, EraChoice::Auto],
            (false, Some(false)) => vec![modern, EraChoice::Auto],
            (false, None) => vec![EraChoice::Auto],
        }
    }

    async fn first_start(&self, handler: &impl UpstreamHandler) -> Result<RestartingClient, RunExit> {
        let mut first = None;
        for era in self.eras() {
            match self.start_with(era, handler.clone()).await {
                Ok(server) => return Ok(server),
                Err(end) if first.is_none() && may_speak_other_era(&end) => first = Some(end),
                // The failure in the client's own era says more than the failure in the other one.
                Err(end) => return Err(first.unwrap_or(end)),
            }
        }
        Err(first.unwrap_or(RunExit::Ended(CloseCause::Local)))
    }

    async fn start_with(
        &self,
        era: EraChoice,
        handler: impl UpstreamHandler,
    ) -> Result<RestartingClient, RunExit> {
        let Self { launcher: Launcher { settings, .. }, hello, slot } = self;
        let mut presents = hello.presents.clone();
        let mut builder = Client::builder("", "").implementation(hello.info.clone());
        // The version of a legacy client does not exist in the modern era.
        let modern = EraChoice::Only(Era::Modern);
        let theirs = hello.version.as_ref().filter(|_| era != modern);
        if let Some(version) = settings.version.as_ref().or(theirs) {
            builder = builder.protocol_version(version.clone());
        }
        if let Some(version) = &settings.version {
            presents.initialize = presents.initialize.map(|params| at_version(params, version));
        } else {
            builder = builder.era(era);
        }
        let on_event = {
            let (settings, upstream) = (settings.clone(), slot.number);
            move |event: &RunEvent<'_>| match event {
                RunEvent::Started { run } => settings.emit(&GatewayEvent::Started { upstream, run: *run }),
                RunEvent::Ended { end, next } => {
                    settings.emit(&GatewayEvent::Ended { upstream, end, next: *next });
                }
                _ => {}
            }
        };
        let (start, wrapper) = (settings.start.clone(), handler.clone());
        let principal: Option<Box<str>> = slot.principal().map(Into::into);
        let (reported, counted) = (settings.clone(), settings.clone());
        settings
            .telemetry
            .upstream(builder)
            .on_violation(move |violation| wrong_response(&reported, violation))
            .limits(settings.upstream_limits.clone())
            .relay(hello.capabilities.clone(), presents, handler)
            .restarting_until(
                settings.restart.clone().also_on_event(on_event),
                move || {
                    let started = start(principal.as_deref());
                    let (wrapper, settings) = (wrapper.clone(), counted.clone());
                    async move { started.await.map(|link| watched(wrapper.wrap(link), settings)) }
                },
                slot.ending.clone(),
            )
            .await
    }
}

fn at_version(params: Raw, version: &Version) -> Raw {
    Payload::from_raw(params).with_member("protocolVersion", &Raw::string(version.as_str())).into_raw()
}

/// Whether a server that failed to open may open in the other era: its answer does not show another problem.
fn may_speak_other_era(end: &RunExit) -> bool {
    let RunExit::NotOpened(error) = end else { return false };
    match &error.cause {
        CloseCause::Opening(NegotiationFailure::Refused { error, .. }) => matches!(
            error.code,
            code::UNSUPPORTED_PROTOCOL_VERSION
                | code::HEADER_MISMATCH
                | code::MISSING_REQUIRED_CLIENT_CAPABILITY
                | code::METHOD_NOT_FOUND
                | code::INVALID_PARAMS
                | code::INVALID_REQUEST
        ),
        CloseCause::Opening(
            NegotiationFailure::NoCommonVersion { .. } | NegotiationFailure::InvalidResponse { .. },
        ) => true,
        _ => false,
    }
}
