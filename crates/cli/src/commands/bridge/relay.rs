//! `mcpjoin bridge TARGET`: any server for any client of MCP, on standard input and output or at addresses. What crosses
//! is the library's; here the server is named, what happens is told, and everything is ended.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mcpjoin::Link;
use mcpjoin::link::{ChildCommand, HttpListener, HttpOptions, Listener};
use mcpjoin::proto::http::origin::OriginError;
use mcpjoin::proto::session::{Ask, CloseCause, Limits};
use mcpjoin_gateway::{Gateway, GatewayEnd, GatewayEvent, Refusal};

use super::starting::Starting;
use super::{misplaced, of_http};
use crate::args::{Authorization, Bridge};
use crate::commands::listening::{Address, Listening, Over, OverQuic, Serves};
use crate::commands::misused;
use crate::connect::{Plan, Signals, with_plan};
use crate::events;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::{self, shown};
use crate::ui::Ui;
use crate::visible;

/// How long a request may go without a sign of life, where nobody says it: a bridge is not to be less patient than the
/// client before it.
const PATIENCE: Duration = Duration::from_secs(10 * 60);
/// How many servers there may be at once, where nobody says it.
const SESSIONS: u32 = 100;

/// Joins both sides until the client ends it, or a signal. `escaped`: `--` stood before the first word.
pub(super) fn run(ui: &Ui, mut args: Bridge, escaped: bool) -> Result<Exit, Failure> {
    let addresses: Vec<Address> =
        args.listen.iter().map(|word| Address::parse(word)).collect::<Result<_, _>>()?;
    misplaced(&[("--also", !args.also.is_empty())], "for Orchestra's clients", "--listen orchestra://...")?;
    if !addresses.iter().any(Address::is_http) {
        misplaced(&of_http(&args), "for clients over HTTP", "--listen http://host:port/path")?;
    }
    let mut quic = OverQuic { identity: None, client_ca: args.client_ca.take() };
    if addresses.iter().any(Address::is_quic) {
        quic.identity = args.connect.cert.take().zip(args.connect.key.take());
    } else {
        let asks = [("--client-ca", quic.client_ca.is_some())];
        misplaced(&asks, "for clients over QUIC", "--listen quic://host:port")?;
    }
    let options = http_options(&args)?;
    args.connect.for_others = !addresses.is_empty();
    let words = std::mem::take(&mut args.words);
    let verb = if addresses.is_empty() { "bridge" } else { "bridge --listen ADDRESS" };
    let invocation =
        target::without_operands(verb, args.connect.server.as_deref(), words, escaped).map_err(misused)?;
    invocation.notes.iter().for_each(|note| ui.note(note));
    Ok(with_plan(ui, &invocation.target, &args.connect, async |plan| {
        let bridge = Relay::new(ui, plan, &args);
        let outcome = match addresses.is_empty() {
            true => bridge.on_stdio().await,
            false => bridge.at(&addresses, &quic, &args.authorization, &options).await,
        };
        outcome.unwrap_or_else(|failure| {
            ui.failure(&failure);
            failure.exit
        })
    }))
}

/// What is served over HTTP, to whom, and within which bounds.
fn http_options(args: &Bridge) -> Result<HttpOptions, Failure> {
    let wrong = |option: &str, word: &str, error: OriginError, hint: &str| {
        Failure::usage(format!("{option} {}: {error}", shown(word.as_ref())), hint)
    };
    let mut options = HttpOptions::new().max_sessions(sessions(args)).cors(!args.allow_origin.is_empty());
    if let Some(idle) = args.session_idle {
        options = options.session_idle(idle);
    }
    for host in &args.allow_host {
        options = options.allow_host(host).map_err(|error| {
            wrong("--allow-host", host, error, "--allow-host HOST or HOST:PORT, as clients name it")
        })?;
    }
    for origin in &args.allow_origin {
        options = options.allow_origin(origin).map_err(|error| {
            let hint = "--allow-origin scheme://host or scheme://host:port, one for each";
            wrong("--allow-origin", origin, error, hint)
        })?;
    }
    Ok(options)
}

impl Serves for Gateway {
    async fn all(&self, listener: Listener, end: impl Future<Output = ()>) {
        self.serve_all(listener, end).await;
    }

    async fn http(&self, listener: HttpListener, options: HttpOptions, end: impl Future<Output = ()>) {
        self.serve_http(listener, options, end).await;
    }
}

/// A server, and what is put before it.
struct Relay {
    ui: Ui,
    /// The command or the address of the server.
    shown: String,
    starting: Starting,
    /// The program, where it is one.
    program: Option<ChildCommand>,
    gateway: Gateway,
    began: Instant,
}

impl Relay {
    fn new(ui: &Ui, plan: Plan, args: &Bridge) -> Self {
        let Plan { endpoint, shown, first, tools, limits, timeout, .. } = plan;
        let program = endpoint.command().cloned();
        // A client of the legacy era has its server asked in its own way first.
        let first = if args.connect.era.has_legacy() { Phase::Initialize } else { first };
        let starting = Starting::new(ui, endpoint, first);
        let start = starting.clone();
        // Of the connections to clients nothing is asked for but how large a message may be.
        let mut downstream = Limits::default();
        downstream.message = limits.message;
        let mut gateway = Gateway::builder(move || start.clone().link())
            .limits(downstream)
            .upstream_limits(limits)
            .timeout(timeout.unwrap_or(PATIENCE))
            .upstreams(sessions(args))
            .tools(move |tool| tools.allows(tool))
            .words({
                let ui = ui.clone();
                move |text| ui.hidden(text).into_owned()
            });
        if let Some(era) = args.connect.era.asked() {
            gateway = gateway.ask(Ask::Only(era));
        }
        if let Some(version) = &args.connect.protocol_version {
            gateway = gateway.protocol_version(version.clone());
        }
        let told = Told {
            ui: ui.clone(),
            shown: shown.clone(),
            starting: starting.clone(),
            there: Mutex::default(),
            refused: Mutex::default(),
        };
        // On standard input and output the one client's refusal is the end, and is told there.
        let listens = !args.listen.is_empty();
        let gateway = gateway.on_event(move |event| told.hear(event, listens)).build();
        Self { ui: ui.clone(), shown, starting, program, gateway, began: Instant::now() }
    }

    /// Serves the client that has started us, until it closes its side, or a signal comes.
    async fn on_stdio(self) -> Result<Exit, Failure> {
        events::show_warnings(&self.ui);
        let mut signals = Signals::listen().map_err(|error| Failure::system(Phase::Serve, &error))?;
        let link = Link::stdio().map_err(|error| Failure::system(Phase::Serve, &error))?;
        let exit = tokio::select! {
            biased;
            signal = signals.next() => Exit::Signal(signal),
            end = self.gateway.serve(link) => self.ended(&end),
        };
        self.close(exit, &mut signals).await
    }

    /// How it went. What went wrong is told at once: what was started may take its time to leave.
    fn ended(&self, end: &GatewayEnd) -> Exit {
        let failure = match end {
            GatewayEnd::Client(cause) => match of_client(cause) {
                None => return Exit::Done,
                Some(failure) => failure,
            },
            GatewayEnd::NoServer(refusal) => {
                refused(&self.starting, refusal).with(&self.shown, self.began.elapsed())
            }
            end => Failure::new("E_CLOSED", Exit::Connection, Phase::Serve, end.to_string()),
        };
        self.ui.failure(&failure);
        failure.exit
    }

    /// Serves everyone who comes to the addresses, until a signal comes.
    async fn at(
        self,
        addresses: &[Address],
        quic: &OverQuic,
        authorization: &Authorization,
        options: &HttpOptions,
    ) -> Result<Exit, Failure> {
        // Who was refused and why is to be seen without being asked for.
        events::show_warnings(&self.ui);
        let mut signals = Signals::listen().map_err(|error| Failure::system(Phase::Serve, &error))?;
        if let Some(program) = &self.program {
            // Whoever starts us learns it, and not the first client.
            let missing = |error| Failure::spawn(&error).with(&self.shown, self.began.elapsed());
            program.resolve().map_err(missing)?;
        }
        let listening = Listening::at(addresses, quic, authorization).await?;
        listening.announce(&self.ui);
        let Over { exit, hurried } = listening.serve(&self.gateway, options, &mut signals, &self.ui).await;
        if hurried {
            return Ok(exit);
        }
        self.close(exit, &mut signals).await
    }

    /// Ends what was started. Another signal hurries that up: what is left then is killed with the runtime.
    async fn close(&self, exit: Exit, signals: &mut Signals) -> Result<Exit, Failure> {
        tokio::select! {
            biased;
            signal = signals.next() => Ok(Exit::Signal(signal)),
            () = self.gateway.close() => Ok(exit),
        }
    }
}

/// How many servers there may be at once.
fn sessions(args: &Bridge) -> usize {
    usize::try_from(args.max_sessions.unwrap_or(SESSIONS)).unwrap_or(usize::MAX)
}

/// What is wrong with how the client has left us.
fn of_client(cause: &CloseCause) -> Option<Failure> {
    match cause {
        // It has closed its side: that is how this ends.
        CloseCause::Local => None,
        CloseCause::Link(end) if end.kind.is_closed() => None,
        CloseCause::Link(_) => {
            Some(Failure::closed(cause, Phase::Serve).hint("look at what standard input and output lead to"))
        }
        cause => Some(Failure::closed(cause, Phase::Serve)),
    }
}

/// Why a client has no server.
fn refused(starting: &Starting, refusal: &Refusal) -> Failure {
    match refusal {
        Refusal::NotStarted(end) => starting.failure(end),
        Refusal::Gone(gone) => starting.gone(gone),
        refusal => Failure::new("E_REFUSED", Exit::Connection, Phase::Serve, refusal.to_string())
            .hint("raise the limit with --max-sessions"),
    }
}

/// What is said of clients and servers while they come and go.
struct Told {
    ui: Ui,
    shown: String,
    starting: Starting,
    /// The connections that were there once and are not over.
    there: Mutex<BTreeSet<u64>>,
    /// What clients were last refused for. One that comes again and again is the same failure.
    refused: Mutex<Option<String>>,
}

impl Told {
    fn there(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, event: &GatewayEvent<'_>, listens: bool) {
        let Self { ui, shown, starting, .. } = self;
        match event {
            GatewayEvent::Started { upstream, run: 1 } => {
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = None;
                self.there().insert(*upstream);
                ui.detail(&format!("connection {upstream} to the server is there: {shown}"));
            }
            GatewayEvent::Started { upstream, .. } => {
                ui.note(&format!("connection {upstream} to the server is there again"));
            }
            GatewayEvent::Ended { upstream, end, next: Some(pause) } => {
                let end = visible::line(&end.to_string()).into_owned();
                ui.warning(&format!(
                    "connection {upstream} to the server: {end}; it is started again in {} ms",
                    pause.as_millis()
                ));
            }
            // What was never there is told by the refusal of its client.
            GatewayEvent::Ended { upstream, end, next: None } if self.there().contains(upstream) => {
                let end = visible::line(&end.to_string()).into_owned();
                ui.warning(&format!("connection {upstream} to the server: {end}; it is given up"));
            }
            GatewayEvent::Over { upstream } => {
                self.there().remove(upstream);
                ui.detail(&format!("connection {upstream} to the server is over"));
            }
            GatewayEvent::Refused { why } if listens => {
                let mut failure = refused(starting, why);
                failure.seen.server = Some(shown.clone());
                let block = failure.block();
                let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
                if refused.as_ref() == Some(&block) {
                    ui.detail(&format!("another client was refused: {}", visible::line(&failure.message)));
                } else {
                    ui.failure(&failure);
                    *refused = Some(block);
                }
            }
            _ => {}
        }
    }
}
