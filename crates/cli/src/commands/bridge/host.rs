//! `mcpjoin bridge --listen orchestra://...`: MCP servers offered to Orchestra's clients. The library translates; here
//! servers are named, started and watched.

use std::ffi::OsString;
use std::time::Instant;

use mcpjoin::client::{Restart, RestartingClient, RunEvent};
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::host::{self, Host, HostLimits, Offer};
use mcpjoin_orchestra::wire::MAX_FRAME;
use mcpjoin_orchestra::{ALPN, SERVER_NAME};
use mcpjoin_quic::endpoint::{Listener, QuicError, QuicErrorKind};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::starting::Starting;
use super::{misplaced, of_http};
use crate::args::Bridge;
use crate::commands::listening::{all, boxed};
use crate::commands::misused;
use crate::connect::{Plan, Signals, certificates_folder, with_plans};
use crate::events;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::{self, Target, shown};
use crate::ui::Ui;
use crate::visible;

/// Offers the servers until a signal comes. `escaped`: `--` stood before the first word.
pub(super) fn run(ui: &Ui, mut args: Bridge, escaped: bool) -> Result<Exit, Failure> {
    misplaced(&of_http(&args), "for clients of MCP over HTTP", "--listen http://host:port/path")?;
    let most = [("--max-sessions", args.max_sessions.is_some())];
    misplaced(&most, "for clients of MCP", "another --listen")?;
    let addresses: Vec<Address> =
        args.listen.iter().map(|word| Address::parse(word)).collect::<Result<_, _>>()?;
    let certificates = certificates(&mut args)?;
    let targets = targets(ui, &mut args, escaped)?;
    if targets.len() > 1 && args.connect.trace.is_some() {
        let problem = "--trace writes down what crosses to one server, and several are named";
        return Err(Failure::usage(problem, "leave out --trace, or name one server"));
    }
    // An entry is called as the configuration calls it, anything else as it calls itself.
    let names = targets.iter().map(|target| match target {
        Target::Entry(named) => Some(named.name.clone()),
        _ => None,
    });
    let names: Vec<Option<String>> = names.collect();
    args.connect.for_others = true;
    // What fits into a frame is not to fail at the next door.
    args.connect.max_message_size = args.connect.max_message_size.or(Some(MAX_FRAME));
    Ok(with_plans(ui, &targets, &args.connect, async |plans| {
        match offered(ui, names, plans, &addresses, &certificates).await {
            Ok(exit) => exit,
            Err(failure) => {
                ui.failure(&failure);
                failure.exit
            }
        }
    }))
}

/// Where to listen.
enum Address {
    Quic(String),
    Tcp(String),
}

impl Address {
    fn parse(word: &str) -> Result<Self, Failure> {
        let wrong = || {
            let hint = "write orchestra://host:port or orchestra+tcp://host:port, and nothing after the port";
            Failure::usage(format!("{} is no address to listen on", shown(word.as_ref())), hint)
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

/// Who we are to Orchestra's clients. A server over QUIC is not shown that.
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

/// The servers in the order in which they were named: the words, then `--also`.
fn targets(ui: &Ui, args: &mut Bridge, escaped: bool) -> Result<Vec<Target>, Failure> {
    let mut words = std::mem::take(&mut args.words);
    let mut also = std::mem::take(&mut args.also);
    let mut targets = Vec::new();
    let mut understood = |server: Option<&str>, words: Vec<OsString>, escaped: bool| {
        let invocation = target::without_operands("bridge --listen ADDRESS", server, words, escaped);
        let invocation = invocation.map_err(misused)?;
        invocation.notes.iter().for_each(|note| ui.note(note));
        targets.push(invocation.target);
        Ok::<(), Failure>(())
    };
    if words.is_empty() && args.connect.server.is_none() && !also.is_empty() {
        words.push(also.remove(0));
    }
    // What takes no words of its own ends where the next one begins.
    while !escaped && words.len() > 1 && words.first().is_some_and(|word| target::stands_alone(word)) {
        understood(None, vec![words.remove(0)], false)?;
    }
    understood(args.connect.server.as_deref(), words, escaped)?;
    for word in also {
        understood(None, vec![word], false)?;
    }
    Ok(targets)
}

/// A server that runs.
struct Running {
    shown: String,
    starting: Starting,
    client: RestartingClient,
    offer: Offer,
}

async fn offered(
    ui: &Ui,
    names: Vec<Option<String>>,
    plans: Vec<Plan>,
    addresses: &[Address],
    certificates: &Certificates,
) -> Result<Exit, Failure> {
    // Who was refused and why is to be seen without being asked for.
    events::show_warnings(ui);
    let mut signals = Signals::listen().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let mut open = Vec::new();
    for address in addresses {
        open.push(Open::at(address, certificates).await?);
    }
    let starting = names.into_iter().zip(plans);
    let starting: Vec<_> =
        starting.map(|(name, plan)| tokio::spawn(running(ui.clone(), name, plan))).collect();
    let mut servers = Vec::new();
    for starting in starting {
        let running = tokio::select! {
            biased;
            signal = signals.next() => return Ok(Exit::Signal(signal)),
            running = starting => running,
        };
        servers.push(running.map_err(|error| Failure::system(Phase::Spawn, &error.into()))??);
    }
    let exit = serve(ui, &servers, open, &mut signals).await;
    let closing: Vec<_> =
        servers.iter().map(|server| boxed(async { drop(server.client.close().await) })).collect();
    tokio::select! {
        biased;
        // Nobody wants to wait any longer.
        signal = signals.next() => Ok(Exit::Signal(signal)),
        () = all(closing) => exit,
    }
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
            "whoever can reach this port can use these servers: orchestra+tcp asks nobody who they are",
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
    // Nobody listens when it has ended by itself.
    let _ = end.send(true);
    tokio::select! {
        biased;
        signal = signals.next() => Ok(Exit::Signal(signal)),
        () = serving => outcome,
    }
}

/// No server is left, and none is started again.
async fn given_up(servers: &[Running]) -> Failure {
    let Some(last) = servers.last() else {
        return Failure::usage("no server is named", "mcpjoin help bridge");
    };
    let mut failure = last.starting.gone(&last.client.closed().await);
    failure.seen.server = Some(last.shown.clone());
    failure
}

/// Starts a server, or connects to it, and keeps it running.
async fn running(ui: Ui, entry: Option<String>, plan: Plan) -> Result<Running, Failure> {
    let started = Instant::now();
    let Plan { endpoint, client, shown, first, tools, remembered, .. } = plan;
    let legacy = remembered.and_then(|remembered| remembered.legacy);
    let starting = Starting::new(&ui, endpoint, first);
    let restart = || {
        let (ui, shown) = (ui.clone(), shown.clone());
        Restart::default().on_event(move |event| told(&ui, &shown, event))
    };
    let start = || {
        let starting = starting.clone();
        move || starting.clone().link()
    };
    // The era that worked the last time; when it does not, as if nothing were remembered.
    let known = match legacy {
        Some(legacy) => legacy.restarting(restart(), start()).await.ok(),
        None => None,
    };
    let outcome = match known {
        Some(running) => Ok(running),
        None => client.restarting(restart(), start()).await,
    };
    let client = outcome.map_err(|end| starting.failure(&end).with(&shown, started.elapsed()))?;
    let peer = client.client().await.ok().and_then(|client| client.server_name().map(str::to_owned));
    let name = entry.or(peer).unwrap_or_else(|| shown.clone());
    let offer = Offer::restarting(name.as_str(), client.clone()).tools(move |tool| tools.allows(tool));
    Ok(Running { shown, starting, client, offer })
}

fn told(ui: &Ui, shown: &str, event: &RunEvent<'_>) {
    match event {
        RunEvent::Ended { end, next: Some(pause) } => {
            let end = visible::line(&end.to_string()).into_owned();
            ui.warning(&format!("{shown}: {end}; it is started again in {} ms", pause.as_millis()));
        }
        RunEvent::Ended { end, next: None } => {
            ui.warning(&format!("{shown}: {}; it is given up", visible::line(&end.to_string())));
        }
        RunEvent::Started { run } if *run > 1 => ui.note(&format!("{shown} runs again")),
        _ => {}
    }
}

/// What listens.
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
                listener.map(Self::Quic).map_err(|error| unheard(&error))
            }
            Address::Tcp(address) => {
                let refused = |error: std::io::Error| {
                    let message = format!("cannot listen on {}: {error}", visible::line(address));
                    Failure::new("E_LISTEN", Exit::Usage, Phase::Serve, message)
                        .hint("is the address free, and may you use it? port 0 takes any that is free")
                };
                let listener = TcpListener::bind(address.as_str()).await.map_err(refused)?;
                let local = listener.local_addr().map_err(refused)?;
                Ok(Self::Tcp(listener, local.to_string()))
            }
        }
    }

    /// As a client names it.
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
            // Without its sender it would be over, too.
            let _ = end.wait_for(|end| *end).await;
        };
        match self {
            Self::Quic(listener) => host.serve(listener, end).await,
            Self::Tcp(listener, _) => host.serve_tcp(listener, end).await,
        }
    }
}

fn unheard(error: &QuicError) -> Failure {
    let hint = match &error.kind {
        QuicErrorKind::Address => "orchestra://host:port, with an IPv6 address in brackets",
        QuicErrorKind::Certificate(_) => "--certs-dir DIR names another folder of certificates",
        _ => "is the address free, and may you use it? port 0 takes any that is free",
    };
    Failure::new("E_LISTEN", Exit::Usage, Phase::Serve, error.to_string()).hint(hint)
}
