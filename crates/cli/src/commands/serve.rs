//! `mcpjoin serve`: a built-in server on standard input and output, on sockets, over QUIC, or over HTTP.

use std::future::pending;

use mcpjoin::proto::session::{CloseCause, Limits};
use mcpjoin::server::ServerBuilder;
use mcpjoin::transport::HttpOptions;
use mcpjoin::{Link, Server};
use tokio::select;
use tokio::task::yield_now;
use tracing::level_filters::LevelFilter;

use super::listening::{Address, Listening, QuicOptions};
use super::{exit_of, note_terminal};
use crate::args::{Serve, Served};
use crate::connect::{Signals, serving};
use crate::demo::Demo;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::words_shown;
use crate::telemetry::Telemetry;
use crate::ui::Ui;

/// Serves until the client closes its side, or a signal comes.
#[inline(never)]
pub(crate) fn run(args: &Serve) -> Exit {
    let ui = Ui::plain();
    if let Some(failure) = misplaced(args) {
        return exit_of(&ui, Err(failure));
    }
    let mut limits = Limits::default();
    if let Some(size) = args.max_message_size {
        limits.message = size;
    }
    let Served::Demo = args.server;
    let demo = if args.full { Demo::Full } else { Demo::Introduction };
    if args.listen.is_empty() {
        let command = words_shown(&demo.arguments());
        note_terminal(&ui, &format!("mcpjoin {command} --listen http://localhost:8080/mcp"));
    }
    // Nothing is shown of what happens to single clients.
    let telemetry = Telemetry::start(&ui, LevelFilter::OFF);
    let exit = serving(&ui, async |mut signals| {
        let server = demo_server(telemetry.server(demo.builder(limits)));
        let outcome = match (server, &*args.listen) {
            (Err(failure), _) => Err(failure),
            (Ok(server), []) => serve(&server, &mut signals).await,
            // Boxed: its future is large, and a server on standard input and output would move it around.
            (Ok(server), addresses) => Box::pin(listen(&ui, args, &server, addresses, &mut signals)).await,
        };
        exit_of(&ui, outcome)
    });
    telemetry.end();
    exit
}

/// Refuses options that have no effect.
fn misplaced(args: &Serve) -> Option<Failure> {
    let is_encrypted = |word: &String| {
        let scheme = word.split_once(':').map_or("", |(scheme, _)| scheme);
        ["quic", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
    };
    if args.listen.iter().any(is_encrypted) {
        return None;
    }
    let options = [("--cert", args.cert.is_some()), ("--client-ca", args.client_ca.is_some())];
    let (option, _) = options.into_iter().find(|(_, given)| *given)?;
    let problem = format!("{option} works only over QUIC or HTTPS");
    Some(Failure::usage(problem, "--listen quic://host:port or https://host:port/path, or leave it out"))
}

pub(super) fn demo_server(builder: ServerBuilder) -> Result<Server, Failure> {
    builder.build().map_err(|error| {
        Failure::new("E_DEMO", Exit::Usage, Phase::Serve, error.to_string())
            .hint("report it to the authors of mcpjoin")
    })
}

/// Serves all clients until a signal comes. Requests in progress are finished, unless another signal comes.
async fn listen(
    ui: &Ui,
    args: &Serve,
    server: &Server,
    addresses: &[String],
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    Signals::watch().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let addresses: Vec<Address> =
        addresses.iter().map(|word| Address::parse(word)).collect::<Result<_, _>>()?;
    let quic =
        QuicOptions { identity: args.cert.clone().zip(args.key.clone()), client_ca: args.client_ca.clone() };
    let listening = Listening::at(&addresses, &quic, &args.authorization, None, ui).await?;
    listening.announce(ui);
    Ok(listening.serve(server, &HttpOptions::new(), signals, ui).await.exit)
}

async fn serve(server: &Server, signals: &mut Signals) -> Result<Exit, Failure> {
    let link = Link::stdio().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let watching = async {
        // The client waits for the answer to its first message: one turn of the runtime finds it, the next one answers it. Neither
        // can block.
        for _ in 0..2 {
            yield_now().await;
        }
        match Signals::watch() {
            Ok(()) => pending().await,
            Err(error) => error,
        }
    };
    let serving = async {
        select! {
            biased;
            cause = server.serve(link) => client_failure(&cause).map_or(Ok(Exit::Done), Err),
            error = watching => Err(Failure::system(Phase::Serve, &error)),
        }
    };
    signals.until(serving).await.unwrap_or_else(|signal| Ok(Exit::Signal(signal)))
}

/// Why the connection to a client on standard input and output failed; `None` if the client has closed its side.
pub(super) fn client_failure(cause: &CloseCause) -> Option<Failure> {
    match cause {
        CloseCause::Local => None,
        CloseCause::Link(end) if end.kind.is_closed() => None,
        CloseCause::Link(_) => Some(
            Failure::closed(cause, Phase::Serve).hint("check where standard input and output are connected"),
        ),
        cause => Some(Failure::closed(cause, Phase::Serve)),
    }
}
