//! One server, from the moment it is needed: which era it is asked for, and how it comes and goes.
//!
//! Called where a client's first request has said what that client is. Each server has one task, which holds its place
//! among those that there may be until nothing of it is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mcpjoin_proto::session::{Ask, CloseCause, OpeningFailure, Presents};
use mcpjoin_proto::types::{ClientCapabilities, Implementation};
use mcpjoin_proto::{Era, Payload, Raw, Version, code};
use tokio::sync::{oneshot, watch};

use super::builder::Settings;
use super::end::{GatewayEvent, Refusal};
use super::places::Place;
use mcpjoin::client::{Client, RestartError, RestartingClient, RunEvent, RunExit};
use mcpjoin::handler::Handler;
use mcpjoin::link::Link;

/// A server that runs, or is being started again. It is ended when this is dropped.
#[derive(Debug)]
pub(super) struct Upstream {
    server: RestartingClient,
    ending: watch::Sender<bool>,
}

/// The client for whom a server is wanted.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// It opens a session with `initialize`.
    pub(super) initializes: bool,
    /// The version that it has asked for, where it has asked for one alone.
    pub(super) version: Option<Version>,
    pub(super) capabilities: ClientCapabilities,
    pub(super) info: Implementation,
    pub(super) presents: Presents,
}

/// Answers a server, hears it, and is told when it was started again.
pub(super) trait Answers: Handler + Clone {
    /// Another run of the server is there.
    fn began(&self, client: &Client) -> impl Future<Output = ()> + Send;

    /// Holds a server to the pace of its client, where it has one that takes everything in order.
    fn paced(&self, link: Link) -> Link {
        link
    }
}

/// Which era alone the servers of a gateway speak, once one of them did not speak that of its client: for the next that is
/// started.
#[derive(Debug, Default)]
pub(super) struct Spoken(AtomicU8);

impl Spoken {
    /// Whether they are opened with `initialize`.
    fn known(&self) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            known => Some(known == 1),
        }
    }

    fn note(&self, initialize: bool) {
        self.0.store(if initialize { 1 } else { 2 }, Ordering::Relaxed);
    }
}

impl Upstream {
    /// Starts a server. Dropping the future ends it, wherever it is on its way; what is left of it then is among the
    /// places until it is gone.
    pub(super) async fn start(
        settings: &Arc<Settings>,
        place: Place,
        spoken: &Arc<Spoken>,
        wanted: Wanted,
        answers: impl Answers,
    ) -> Result<Self, Refusal> {
        let ending = place.ending.clone();
        let (told, outcome) = oneshot::channel();
        let life = Life { settings: settings.clone(), spoken: spoken.clone(), wanted, place };
        tokio::spawn(life.live(answers, told));
        let mut left = EndedUnlessKept(Some(ending.clone()));
        let server = outcome.await.unwrap_or(Err(Refusal::Closed))?;
        left.0 = None;
        Ok(Self { server, ending })
    }

    /// The client of the run that is current, if there is one now.
    pub(super) fn current(&self) -> Option<Client> {
        self.server.current()
    }

    /// The same; while the server is being started again, that of the next run.
    pub(super) async fn client(&self) -> Result<Client, RestartError> {
        match self.server.current() {
            Some(client) => Ok(client),
            None => self.server.client().await,
        }
    }

    /// Waits until there will be no other run: the server was given up or ended.
    pub(super) async fn over(&self) -> RestartError {
        self.server.closed().await
    }

    /// Ends the server, and waits until nothing of it is left.
    pub(super) async fn close(&self) {
        self.server.close().await;
    }

    /// Whether the server was ended: it may not be gone yet.
    pub(super) fn is_ended(&self) -> bool {
        *self.ending.borrow()
    }

    /// Ends the server.
    pub(super) fn end(&self) {
        self.ending.send_replace(true);
    }
}

/// Its place is known to become free.
impl Drop for Upstream {
    fn drop(&mut self) {
        self.end();
    }
}

/// Nobody waits for the start any more.
struct EndedUnlessKept(Option<watch::Sender<bool>>);

impl Drop for EndedUnlessKept {
    fn drop(&mut self) {
        if let Some(ending) = &self.0 {
            ending.send_replace(true);
        }
    }
}

/// A server from its first start to its end.
struct Life {
    settings: Arc<Settings>,
    spoken: Arc<Spoken>,
    wanted: Wanted,
    place: Place,
}

impl Life {
    async fn live(self, answers: impl Answers, told: oneshot::Sender<Result<RestartingClient, Refusal>>) {
        let server = match self.first_start(&answers).await {
            Ok(server) => server,
            Err(why) => {
                let closed = matches!(why, RunExit::Ended(CloseCause::Local));
                let refusal = if closed { Refusal::Closed } else { Refusal::NotStarted(Box::new(why)) };
                if let Refusal::NotStarted(end) = &refusal {
                    let upstream = self.place.number;
                    self.settings.tell(&GatewayEvent::Ended { upstream, end, next: None });
                }
                drop(self.place);
                let _ = told.send(Err(refusal));
                return;
            }
        };
        let mut runs = server.runs();
        if let Some(client) = server.current() {
            let initialize = client.profile().initialize;
            // That it speaks the era it was asked for first says nothing of the other one.
            if initialize != self.wanted.initializes {
                self.spoken.note(initialize);
            }
        }
        // Whoever waited may have left: then this was the last handle, and the server ends.
        drop(told.send(Ok(server)));
        while let Some(client) = runs.next().await {
            if runs.run() > 1 {
                answers.began(&client).await;
            }
        }
        self.settings.tell(&GatewayEvent::Over { upstream: self.place.number });
    }

    /// The eras to ask for, one after the other.
    fn asks(&self) -> Vec<Ask> {
        let Settings { ask, version, .. } = &*self.settings;
        let (legacy, modern) = (Ask::Only(Era::Legacy), Ask::Only(Era::Modern));
        if version.is_some() || *ask != Ask::Auto {
            return vec![*ask];
        }
        match (self.wanted.initializes, self.spoken.known()) {
            (true, Some(false)) => vec![modern, legacy],
            (true, _) => vec![legacy, modern],
            // What is known need not be probed.
            (false, Some(true)) => vec![legacy, Ask::Auto],
            (false, Some(false)) => vec![modern, Ask::Auto],
            (false, None) => vec![Ask::Auto],
        }
    }

    async fn first_start(&self, answers: &impl Answers) -> Result<RestartingClient, RunExit> {
        let mut first = None;
        for ask in self.asks() {
            match self.start_with(ask, answers.clone()).await {
                Ok(server) => return Ok(server),
                Err(end) if first.is_none() && speaks_otherwise(&end) => first = Some(end),
                // What the era of the client has come to says more than that the other one was in vain, too.
                Err(end) => return Err(first.unwrap_or(end)),
            }
        }
        Err(first.unwrap_or(RunExit::Ended(CloseCause::Local)))
    }

    async fn start_with(&self, ask: Ask, answers: impl Answers) -> Result<RestartingClient, RunExit> {
        let Self { settings, wanted, place, .. } = self;
        let mut presents = wanted.presents.clone();
        let mut builder = Client::builder("", "").implementation(wanted.info.clone());
        // The version that a legacy client wants is none of the modern era.
        let modern = Ask::Only(Era::Modern);
        let theirs = wanted.version.as_ref().filter(|_| ask != modern);
        if let Some(version) = settings.version.as_ref().or(theirs) {
            builder = builder.protocol_version(version.clone());
        }
        if let Some(version) = &settings.version {
            presents.initialize = presents.initialize.map(|params| at_version(params, version));
        } else {
            builder = builder.ask(ask);
        }
        let hear = {
            let (settings, upstream) = (settings.clone(), place.number);
            move |event: &RunEvent<'_>| match event {
                RunEvent::Started { run } => settings.tell(&GatewayEvent::Started { upstream, run: *run }),
                RunEvent::Ended { end, next } => {
                    settings.tell(&GatewayEvent::Ended { upstream, end, next: *next });
                }
                _ => {}
            }
        };
        let (start, pace) = (settings.start.clone(), answers.clone());
        builder
            .limits(settings.upstream_limits.clone())
            .relay(wanted.capabilities.clone(), presents, answers)
            .restarting_until(
                settings.restart.clone().also_on_event(hear),
                move || {
                    let (started, answers) = (start(), pace.clone());
                    async move { started.await.map(|link| answers.paced(link)) }
                },
                place.ending.clone(),
            )
            .await
    }
}

fn at_version(params: Raw, version: &Version) -> Raw {
    Payload::from_raw(params).with_member("protocolVersion", &Raw::string(version.as_str())).into_raw()
}

/// Whether a server that did not agree may do so in the other era: it has answered what opens a connection with an error
/// that says nothing else.
fn speaks_otherwise(end: &RunExit) -> bool {
    let RunExit::NotOpened(error) = end else { return false };
    match error.close_cause() {
        CloseCause::Opening(OpeningFailure::Refused { error, .. }) => matches!(
            error.code,
            code::UNSUPPORTED_PROTOCOL_VERSION
                | code::HEADER_MISMATCH
                | code::MISSING_REQUIRED_CLIENT_CAPABILITY
                | code::METHOD_NOT_FOUND
                | code::INVALID_PARAMS
                | code::INVALID_REQUEST
        ),
        CloseCause::Opening(OpeningFailure::NoCommonVersion { .. } | OpeningFailure::BadReply { .. }) => true,
        _ => false,
    }
}

impl Settings {
    pub(super) fn tell(&self, event: &GatewayEvent<'_>) {
        tracing::debug!(target: "mcpjoin", ?event, "a gateway");
        if let Some(hear) = &self.on_event {
            hear(event);
        }
    }
}
