//! `mcpjoin bridge --orchestrator-addr`: an MCP server on standard input and output in front of an orchestrator.
//! `mcpjoin_orchestra` translates; this file configures it and reports its connection on standard error.

use std::time::Duration;

use mcpjoin::Link;
use mcpjoin::proto::session::CloseCause;
use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::client::{
    Bridge, BridgeOptions, Orchestrator, OrchestratorOptions, SetupError, serve_compat,
};
use mcpjoin_orchestra::value::Numbers;
use mcpjoin_orchestra::{CLIENT_ADDRESS, LISTEN_ADDRESS};
use tokio::time::timeout;

use crate::args::{self, Poll};
use crate::commands::{listen_for_signals, runtime};
use crate::connect::certificates_folder;
use crate::events;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::ui::Ui;
use crate::visible;

/// How long to wait for the first connection before its failure is reported.
const QUIET_CONNECT_TIME: Duration = Duration::from_secs(3);
/// How long closing the connection may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves standard input and output until they end, or a signal comes.
pub(super) fn run(ui: &Ui, args: &args::Bridge) -> Result<Exit, Failure> {
    let system = |error| Failure::system(Phase::Serve, &error);
    events::show_of_frames(ui);
    let runtime = runtime(Phase::Serve)?;
    let outcome = runtime.block_on(async {
        let mut signals = listen_for_signals(Phase::Serve)?;
        let orchestrator = orchestrator(args).await?;
        if args.listen_addr.is_some() {
            ui.note("transport.stdio: listens nowhere, whatever --listen-addr says");
        }
        let link = Link::stdio().map_err(system)?;
        let reporting = tokio::spawn(report_connection(ui.clone(), orchestrator.clone()));
        let outcome = signals.until(serve(args, &orchestrator, link)).await;
        let outcome = outcome.unwrap_or_else(|signal| Ok(Exit::Signal(signal)));
        reporting.abort();
        // A second signal ends the wait.
        let closed = signals.until(orchestrator.close(CLOSE_TIMEOUT)).await;
        closed.map_or_else(|signal| Ok(Exit::Signal(signal)), |()| outcome)
    });
    // The thread that resolves a name cannot be ended.
    runtime.shutdown_background();
    outcome
}

async fn serve(args: &args::Bridge, orchestrator: &Orchestrator, link: Link) -> Result<Exit, Failure> {
    let numbers = if args.lossy_numbers { Numbers::Lossy } else { Numbers::Exact };
    if args.compat.is_some() {
        let end = serve_compat(link, orchestrator, numbers).await.map_err(|error| refused(&error))?;
        return ended(&CloseCause::Link(end));
    }
    let mut options = BridgeOptions::default();
    options.numbers = numbers;
    options.streamed = args.stream.iter().cloned().collect();
    options.strict = args.strict;
    match args.poll {
        Some(Poll::Every(time)) => options.poll = Some(time),
        Some(Poll::Never) => (options.poll, options.settling) = (None, Duration::ZERO),
        None => {}
    }
    let bridge = Bridge::new(orchestrator.clone(), options).map_err(|error| {
        Failure::new("E_BRIDGE", Exit::Usage, Phase::Serve, error.to_string())
            .hint("report it to the authors of mcpjoin")
    })?;
    let cause = bridge.serve(link).await.map_err(|error| refused(&error))?;
    ended(&cause)
}

fn ended(cause: &CloseCause) -> Result<Exit, Failure> {
    match cause {
        // The client has closed its side, which is the normal end.
        CloseCause::Local => Ok(Exit::Done),
        CloseCause::Link(end) if end.kind.is_closed() => Ok(Exit::Done),
        cause => Err(Failure::closed(cause, Phase::Serve)),
    }
}

async fn orchestrator(args: &args::Bridge) -> Result<Orchestrator, Failure> {
    let mut options = OrchestratorOptions::default();
    if let Some(timeout) = args.connect.timeout {
        options.tool_call = timeout;
        options.read = timeout.min(options.read);
    }
    let outcome = match &args.tcp_addr {
        Some(address) => Orchestrator::tcp(address, options),
        None => {
            let address = args.orchestrator_addr.as_deref().unwrap_or_default();
            Orchestrator::quic(address, certificates(args)?, options).await
        }
    };
    outcome.map_err(|error| refused(&error))
}

fn certificates(args: &args::Bridge) -> Result<Certificates, Failure> {
    let directory = certificates_folder(args.connect.certs_dir.as_deref())?;
    let mut certificates = Certificates::in_directory(directory);
    if let Some(file) = &args.connect.ca {
        certificates = certificates.ca(file);
    }
    if let (Some(certificate), Some(key)) = (&args.connect.cert, &args.connect.key) {
        certificates = certificates.pair(certificate, key);
    }
    Ok(match &args.connect.server_name {
        Some(name) => certificates.server_name(name),
        None => certificates,
    })
}

/// A failure that a retry would not solve.
fn refused(error: &SetupError) -> Failure {
    let message = error.to_string();
    match error {
        SetupError::Address(_) => Failure::usage(message, "--orchestrator-addr localhost:50100"),
        SetupError::Certificate(_) => Failure::new("E_CERTIFICATE", Exit::Usage, Phase::Connect, message)
            .hint("--certs-dir DIR names another folder of certificates"),
        _ => Failure::new("E_CERTIFICATE", Exit::Usage, Phase::Connect, message).hint(
            "both ends need certificates of one authority (--certs-dir), and the name in the other's \
             (--server-name orchestrator); an orchestrator knows them as they are when it is started again",
        ),
    }
}

/// Reports each new connection, and once that there is none yet.
async fn report_connection(ui: Ui, orchestrator: Orchestrator) {
    let address = visible::line(orchestrator.address()).into_owned();
    if timeout(QUIET_CONNECT_TIME, orchestrator.connected(0)).await.is_err()
        && let Some(why) = orchestrator.last_connect_error()
    {
        let hint = if orchestrator.address() == CLIENT_ADDRESS {
            format!("; orchestrators listen on {LISTEN_ADDRESS} when they are not told otherwise")
        } else {
            String::new()
        };
        ui.note(&format!(
            "transport.stdio: no orchestrator at {address} yet, it is looked for again and again: {}{hint}",
            visible::line(&why)
        ));
    }
    let mut seen = 0;
    while let Ok(number) = orchestrator.connected(seen).await {
        let again = if number > 1 { " again" } else { "" };
        ui.note(&format!("transport.stdio: connected{again} to orchestrator at {address}"));
        seen = number;
    }
}
