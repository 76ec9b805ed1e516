//! One run of a bridge of MCP: its policy, its audit, its admin pages and its clients, until the client or a signal
//! ends it.
//!
//! Used by `relay` (one server) and `joined` (several), which make the gateway and say what is printed about it.

use std::time::Duration;

use mcpjoin::Link;
use mcpjoin_auth::SubjectTokens;
use mcpjoin_gateway::{Gateway, GatewayEnd, JoinedGateway};

use super::admin::{Monitored, Monitoring};
use super::policy::PolicyFile;
use super::relay::Places;
use crate::args::Bridge;
use crate::commands::listening::{Listening, ServeEnd, Serves};
use crate::connect::Signals;
use crate::events;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::telemetry::Telemetry;
use crate::ui::Ui;

/// The time of the first attempt to connect to what bridges share. Others follow.
const CONNECT_TIME: Duration = Duration::from_secs(1);

/// A gateway that a bridge runs.
pub(super) trait Joins: Serves + Monitored + 'static {
    /// Serves one client.
    async fn serve(&self, link: Link) -> GatewayEnd;

    /// Ends all servers.
    async fn close(&self);
}

impl Joins for Gateway {
    async fn serve(&self, link: Link) -> GatewayEnd {
        self.serve(link).await
    }

    async fn close(&self) {
        self.close().await;
    }
}

impl Joins for JoinedGateway {
    async fn serve(&self, link: Link) -> GatewayEnd {
        self.serve(link).await
    }

    async fn close(&self) {
        self.close().await;
    }
}

/// A gateway, and what is printed about it.
pub(super) trait Bridged {
    type Gateway: Joins;

    fn gateway(&self) -> &Self::Gateway;

    /// Checks what can be checked before addresses are open.
    fn check(&self) -> Result<(), Failure>;

    /// The first client can connect from now on.
    fn opens(&self);

    /// Prints where clients are served.
    fn announce(&self, listening: &Listening, places: &Places);

    /// Why the only client has no server any more; `None` if the client has ended the bridge.
    fn failure(&self, end: &GatewayEnd) -> Option<Failure>;
}

/// Makes a bridge for targets with these names, and runs it.
pub(super) async fn run<B: Bridged>(
    ui: &Ui,
    args: &Bridge,
    places: &Places,
    names: &[String],
    telemetry: &Telemetry,
    signals: &mut Signals,
    make: impl FnOnce(Option<&PolicyFile>, &Monitoring) -> Result<B, Failure>,
) -> Result<Exit, Failure> {
    let policy = args.policy.as_deref().map(|file| PolicyFile::open(file, names)).transpose()?;
    let monitoring = Monitoring::of(args, ui, telemetry, places.state.as_ref())?;
    let bridge = make(policy.as_ref(), &monitoring)?;
    // Warnings about clients are printed without `-v`.
    events::show_warnings(ui);
    // The tokens of clients, if they are exchanged for some target.
    let subjects = policy.as_ref().and_then(PolicyFile::subjects).cloned();
    let serving = async {
        match places.addresses.is_empty() {
            true => on_stdio(ui, &bridge, signals).await,
            false => at(ui, &bridge, &monitoring, subjects.as_ref(), places, args, signals).await,
        }
    };
    let serving = async {
        match &places.keys {
            Some(keys) => keys.during(ui, serving).await,
            None => serving.await,
        }
    };
    let outcome = match policy {
        Some(policy) => policy.during(ui, serving).await,
        None => serving.await,
    };
    if let Some(audit) = monitoring.audit {
        audit.close();
    }
    outcome
}

/// Serves the client that has started us until it closes its side, or a signal comes.
async fn on_stdio(ui: &Ui, bridge: &impl Bridged, signals: &mut Signals) -> Result<Exit, Failure> {
    bridge.opens();
    let link = Link::stdio().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let exit = match signals.until(bridge.gateway().serve(link)).await {
        Err(signal) => Exit::Signal(signal),
        Ok(end) => bridge.failure(&end).map_or(Exit::Done, |failure| {
            // Printed at once: closing the servers may take some time.
            ui.failure(&failure);
            failure.exit
        }),
    };
    Ok(close(bridge, exit, signals).await)
}

/// Serves all clients that connect to the addresses, until a signal comes.
async fn at(
    ui: &Ui,
    bridge: &impl Bridged,
    monitoring: &Monitoring,
    subjects: Option<&SubjectTokens>,
    places: &Places,
    args: &Bridge,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    bridge.check()?;
    if let Some(state) = places.state.clone() {
        ui.note(&format!("shares state with other bridges at {}", state.address()));
        // Not waited for: without it most of the traffic is served. It logs why it is not reached.
        tokio::spawn(async move { state.connect(CONNECT_TIME).await });
    }
    let admin = monitoring.admin(args, ui).await?;
    let listening = Listening::at(&places.addresses, &places.quic, &args.authorization, subjects, ui).await?;
    let (listening, admin) = monitoring.serve(admin, listening, bridge.gateway().clone());
    bridge.opens();
    bridge.announce(&listening, places);
    let ServeEnd { exit, hurried } = listening.serve(bridge.gateway(), &places.options, signals, ui).await;
    let exit = if hurried { exit } else { close(bridge, exit, signals).await };
    if let Some(admin) = admin {
        admin.abort();
    }
    Ok(exit)
}

/// Ends all servers. Another signal ends the wait: the runtime then kills what is left.
async fn close(bridge: &impl Bridged, exit: Exit, signals: &mut Signals) -> Exit {
    signals.until(bridge.gateway().close()).await.map_or_else(Exit::Signal, |()| exit)
}
