//! `mcpjoin bridge --orchestrator-addr`: an MCP server on standard input and output in front of an orchestrator.
//! `mcpjoin_orchestra` translates; this file configures it and reports its connection on standard error.

use std::time::Duration;

use mcpjoin::Link;
use mcpjoin::proto::session::CloseCause;
use mcpjoin_orchestra::client::{Bridge, BridgeOptions, Orchestrator, OrchestratorOptions, serve_compat};
use mcpjoin_orchestra::value::Numbers;
use mcpjoin_orchestra::{CLIENT_ADDRESS, LISTEN_ADDRESS};
use tokio::time::timeout;

use crate::args::{self, Poll};
use crate::commands::{listen_for_signals, runtime};
use crate::connect::orchestra_certificates;
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
            ui.note("transport.stdio: --listen-addr is ignored, because this program does not listen");
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
        let end =
            serve_compat(link, orchestrator, numbers).await.map_err(|error| Failure::orchestra(&error))?;
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
    let bridge =
        Bridge::new(orchestrator.clone(), options).map_err(|error| Failure::orchestra_bridge(&error))?;
    let cause = bridge.serve(link).await.map_err(|error| Failure::orchestra(&error))?;
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
            Orchestrator::quic(address, orchestra_certificates(&args.connect)?, options).await
        }
    };
    outcome.map_err(|error| Failure::orchestra(&error))
}

/// Reports each new connection, and once that there is none yet.
async fn report_connection(ui: Ui, orchestrator: Orchestrator) {
    let address = visible::line(orchestrator.address()).into_owned();
    if timeout(QUIET_CONNECT_TIME, orchestrator.connected(0)).await.is_err()
        && let Some(why) = orchestrator.last_connect_error()
    {
        let hint = if orchestrator.address() == CLIENT_ADDRESS {
            format!("; orchestrators listen on {LISTEN_ADDRESS} by default")
        } else {
            String::new()
        };
        ui.note(&format!(
            "transport.stdio: no orchestrator at {address} yet, trying again: {}{hint}",
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
