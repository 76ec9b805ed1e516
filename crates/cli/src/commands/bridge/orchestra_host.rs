//! `mcpjoin bridge --listen orchestra://...`: offers MCP servers to Orchestra's clients. `mcpjoin_orchestra`
//! translates; this file starts the servers and reports their events.

use std::time::Instant;

use mcpjoin::client::{Restart, RestartingClient, RunEvent};
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::host::{self, Host, HostLimits, Offer};
use mcpjoin_orchestra::wire::MAX_FRAME;
use mcpjoin_orchestra::{ALPN, SERVER_NAME};
use mcpjoin_quic::endpoint::{Listener, QuicError, QuicErrorKind};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::upstream::Upstream;
use super::{misplaced, of_http};
use crate::args::Bridge;
use crate::commands::listening::{all, boxed};
use crate::commands::{exit_of, refuse_trace, targets_of};
use crate::connect::{Plan, Signals, certificates_folder, with_plans};
use crate::events;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::{Target, shown};
use crate::ui::Ui;
use crate::visible;

/// Offers the servers until a signal comes. `escaped`: `--` stood before the first word.
pub(super) fn run(ui: &Ui, mut args: Bridge, escaped: bool) -> Result<Exit, Failure> {
    misplaced(&of_http(&args), "for clients of MCP over HTTP", "--listen http://host:port/path")?;
    let operation = [("--admin", args.admin.is_some()), ("--audit", args.audit.is_some())];
    misplaced(&operation, "for clients of MCP", "another --listen")?;
    let most = [("--max-sessions", args.max_sessions.is_some())];
    misplaced(&most, "for clients of MCP", "another --listen")?;
    misplaced(&[("--policy", args.policy.is_some())], "for clients of MCP", "another --listen")?;
    let addresses: Vec<Address> =
        args.listen.iter().map(|word| Address::parse(word)).collect::<Result<_, _>>()?;
    let certificates = certificates(&mut args)?;
    let (words, also) = (std::mem::take(&mut args.words), std::mem::take(&mut args.also));
    let targets = targets_of(ui, "bridge --listen ADDRESS", &args.connect, words, also, escaped)?;
    if targets.len() > 1 {
        refuse_trace(&args.connect, "several are named")?;
    }
    // An entry has its name in the configuration, any other server its own name.
    let names = targets.iter().map(|target| match target {
        Target::Entry(named) => Some(named.name.clone()),
        _ => None,
    });
    let names: Vec<Option<String>> = names.collect();
    args.connect.for_others = true;
    // A message that fits into a frame must not exceed the limit of the other side.
    args.connect.max_message_size = args.connect.max_message_size.or(Some(MAX_FRAME));
    Ok(with_plans(ui, &targets, &args.connect, async |plans, signals| {
        exit_of(ui, offer(ui, signals, names, plans, &addresses, &certificates).await)
    }))
}

/// The address to listen at.
enum Address {
    Quic(String),
    Tcp(String),
}

impl Address {
    fn parse(word: &str) -> Result<Self, Failure> {
        let wrong = || {
            let hint = "write orchestra://host:port or orchestra+tcp://host:port, and nothing after the port";
            Failure::usage(format!("{} is not an address to listen on", shown(word.as_ref())), hint)
        };
        let (scheme, rest) = word.split_once("://").ok_or_else(wrong)?;
        if rest.is_empty() || rest.contains(['/', '?', '#', '@']) {
            return Err(wrong());
        }
        match scheme.to_ascii_lowercase().as_str() {
            "orchestra" => Ok(Self::Quic(rest.to_owned())),
            "orchestra+tcp" => Ok(Self::Tcp(rest.to_owned())),
            _ => Err(wrong()),
        }
    }
}

/// The certificates for Orchestra's clients. A server over QUIC does not get them.
fn certificates(args: &mut Bridge) -> Result<Certificates, Failure> {
    let directory = certificates_folder(args.connect.certs_dir.take().as_deref())?;
    let mut certificates = Certificates::in_directory(directory);
    if let Some(file) = &args.client_ca {
        certificates = certificates.ca(file);
    }
    if let (Some(certificate), Some(key)) = (args.connect.cert.take(), args.connect.key.take()) {
        certificates = certificates.pair(certificate, key);
    }
    Ok(certificates)
}

/// A running server.
struct Running {
    shown: String,
    upstream: Upstream,
    client: RestartingClient,
    offer: Offer,
}

async fn offer(
    ui: &Ui,
    mut signals: Signals,
    names: Vec<Option<String>>,
    plans: Vec<Plan>,
    addresses: &[Address],
    certificates: &Certificates,
) -> Result<Exit, Failure> {
    // Warnings about refused clients are printed without `-v`.
    events::show_warnings(ui);
    let mut open = Vec::new();
    for address in addresses {
        open.push(Open::at(address, certificates).await?);
    }
    let plans = names.into_iter().zip(plans);
    let starting: Vec<_> = plans.map(|(name, plan)| tokio::spawn(start(ui.clone(), name, plan))).collect();
    let mut servers = Vec::new();
    for starting in starting {
        let running = match signals.until(starting).await {
            Ok(running) => running,
            Err(signal) => return Ok(Exit::Signal(signal)),
        };
        servers.push(running.map_err(|error| Failure::system(Phase::Spawn, &error.into()))??);
    }
    let exit = serve(ui, &servers, open, &mut signals).await;
    let closing: Vec<_> =
        servers.iter().map(|server| boxed(async { drop(server.client.close().await) })).collect();
    // A second signal ends the wait.
    let closed = signals.until(all(closing)).await;
    closed.map_or_else(|signal| Ok(Exit::Signal(signal)), |()| exit)
}

async fn serve(
    ui: &Ui,
    servers: &[Running],
    open: Vec<Open>,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let host = Host::new(servers.iter().map(|server| server.offer.clone()), HostLimits::default());
    if open.iter().any(Open::is_for_everyone) {
        ui.warning(
            "everyone who can reach this port can use these servers: orchestra+tcp has no authentication",
        );
    }
    for open in &open {
        ui.note(&format!("listening on {}", open.address()));
    }
    let (end, ended) = watch::channel(false);
    let serving = open.into_iter().map(|open| boxed(open.serve(host.clone(), ended.clone())));
    let mut serving = all(serving.collect());
    let gone: Vec<_> =
        servers.iter().map(|server| boxed(async { drop(server.client.closed().await) })).collect();
    let outcome = tokio::select! {
        biased;
        signal = signals.next() => Ok(Exit::Signal(signal)),
        () = all(gone) => Err(given_up(servers).await),
        () = &mut serving => return Ok(Exit::Done),
    };
    // There is no receiver if serving has ended by itself.
    let _ = end.send(true);
    let served = signals.until(serving).await;
    served.map_or_else(|signal| Ok(Exit::Signal(signal)), |()| outcome)
}

/// The failure when no server is left, and none is restarted.
async fn given_up(servers: &[Running]) -> Failure {
    let Some(last) = servers.last() else {
        return Failure::usage("no server is named", "mcpjoin help bridge");
    };
    let mut failure = last.upstream.gone(&last.client.closed().await);
    failure.seen.server = Some(last.shown.clone());
    failure
}

/// Starts a server, or connects to it, and restarts it when it ends.
async fn start(ui: Ui, entry: Option<String>, plan: Plan) -> Result<Running, Failure> {
    let started = Instant::now();
    let Plan { endpoint, client, shown, first, tools, remembered, .. } = plan;
    let legacy = remembered.and_then(|remembered| remembered.legacy);
    let upstream = Upstream::new(&ui, endpoint, None, first);
    let restart = || {
        let (ui, shown) = (ui.clone(), shown.clone());
        Restart::default().on_event(move |event| report(&ui, &shown, event))
    };
    let start = || {
        let upstream = upstream.clone();
        move || upstream.clone().link(None)
    };
    // The era that worked the last time. If it fails now, the era is detected again.
    let known = match legacy {
        Some(legacy) => legacy.restarting(restart(), start()).await.ok(),
        None => None,
    };
    let outcome = match known {
        Some(running) => Ok(running),
        None => client.restarting(restart(), start()).await,
    };
    let client = outcome.map_err(|end| upstream.failure(&end).with(&shown, started.elapsed()))?;
    let peer = client.client().await.ok().and_then(|client| client.server_name().map(str::to_owned));
    let name = entry.or(peer).unwrap_or_else(|| shown.clone());
    let offer = Offer::restarting(name.as_str(), client.clone()).tools(move |tool| tools.allows(tool));
    Ok(Running { shown, upstream, client, offer })
}

fn report(ui: &Ui, shown: &str, event: &RunEvent<'_>) {
    match event {
        RunEvent::Ended { end, next: Some(pause) } => {
            let end = visible::line(&end.to_string()).into_owned();
            ui.warning(&format!("{shown}: {end}; it is started again in {} ms", pause.as_millis()));
        }
        RunEvent::Ended { end, next: None } => {
            ui.warning(&format!("{shown}: {}; it is not started again", visible::line(&end.to_string())));
        }
        RunEvent::Started { run } if *run > 1 => ui.note(&format!("{shown} runs again")),
        _ => {}
    }
}

/// An open listener.
enum Open {
    Quic(Listener),
    Tcp(TcpListener, String),
}

impl Open {
    async fn at(address: &Address, certificates: &Certificates) -> Result<Self, Failure> {
        match address {
            Address::Quic(address) => {
                let certificates = certificates.clone();
                let tls = move || certificates.server(SERVER_NAME, true, ALPN);
                let listener = Listener::bind(address, tls, host::quic_options()).await;
                listener.map(Self::Quic).map_err(|error| listen_failure(&error))
            }
            Address::Tcp(address) => {
                let refused = |error: std::io::Error| {
                    let message = format!("cannot listen on {}: {error}", visible::line(address));
                    Failure::new("E_LISTEN", Exit::Usage, Phase::Serve, message)
                        .hint("check that the address is free and permitted; port 0 uses any free port")
                };
                let listener = TcpListener::bind(address.as_str()).await.map_err(refused)?;
                let local = listener.local_addr().map_err(refused)?;
                Ok(Self::Tcp(listener, local.to_string()))
            }
        }
    }

    /// The address as a client names it.
    fn address(&self) -> String {
        match self {
            Self::Quic(listener) => format!("orchestra://{}", listener.address()),
            Self::Tcp(_, address) => format!("orchestra+tcp://{address}"),
        }
    }

    fn is_for_everyone(&self) -> bool {
        match self {
            Self::Quic(_) => false,
            Self::Tcp(listener, _) => !listener.local_addr().is_ok_and(|address| address.ip().is_loopback()),
        }
    }

    async fn serve(self, host: Host, mut end: watch::Receiver<bool>) {
        let end = async move {
            // A dropped sender ends it, too.
            let _ = end.wait_for(|end| *end).await;
        };
        match self {
            Self::Quic(listener) => host.serve(listener, end).await,
            Self::Tcp(listener, _) => host.serve_tcp(listener, end).await,
        }
    }
}

fn listen_failure(error: &QuicError) -> Failure {
    let hint = match &error.kind {
        QuicErrorKind::Address => "orchestra://host:port, with an IPv6 address in brackets",
        QuicErrorKind::Certificate(_) => "--certs-dir DIR names another folder of certificates",
        _ => "check that the address is free and permitted; port 0 uses any free port",
    };
    Failure::new("E_LISTEN", Exit::Usage, Phase::Serve, error.to_string()).hint(hint)
}
