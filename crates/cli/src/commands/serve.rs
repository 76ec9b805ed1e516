//! `mcpjoin serve`: a built-in server on standard input and output, or on a socket.

use std::pin::pin;

use mcpjoin::link::Listener;
use mcpjoin::proto::session::{CloseCause, Limits, LinkEndKind};
use mcpjoin::{Link, Server};
use tokio::sync::oneshot;

use crate::args::{Serve, Served};
use crate::connect::Signals;
use crate::demo;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::{Socket, shown};
use crate::ui::Ui;
use crate::visible;

/// Serves until the client goes away, or a signal comes.
#[inline(never)]
pub(crate) fn run(args: &Serve) -> Exit {
    let ui = Ui::plain();
    let mut limits = Limits::default();
    if let Some(size) = args.max_message_size {
        limits.message = size;
    }
    let Served::Demo = args.server;
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::system(Phase::Serve, &error))
        .and_then(|runtime| {
            runtime.block_on(async {
                match &args.listen {
                    Some(word) => listen(&ui, &address(word)?, limits).await,
                    None => serve(limits).await,
                }
            })
        });
    outcome.unwrap_or_else(|failure| {
        ui.failure(&failure);
        failure.exit
    })
}

fn address(word: &str) -> Result<Socket, Failure> {
    Socket::parse(word).map_err(|problem| {
        Failure::usage(format!("{} is no address to listen on", shown(word.as_ref())), problem)
    })
}

fn server(limits: Limits) -> Result<Server, Failure> {
    demo::server(limits).map_err(|error| {
        Failure::new("E_DEMO", Exit::Usage, Phase::Serve, error.to_string())
            .hint("tell the authors of mcpjoin")
    })
}

/// Serves everyone who comes, until a signal comes. What is in progress then is finished, unless another one comes.
async fn listen(ui: &Ui, socket: &Socket, limits: Limits) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let server = server(limits)?;
    let listener = match socket {
        Socket::Tcp(address) => Listener::tcp(address).await,
        Socket::Unix(path) => Listener::unix(path).await,
    };
    let listener = listener.map_err(|error| Failure::listen(&error))?;
    if listener.address().tcp().is_some_and(|address| !address.ip().is_loopback()) {
        ui.warning("whoever can reach this port can use this server");
    }
    ui.note(&format!("listening on {}", visible::line(&listener.address().to_string())));
    let (end, ended) = oneshot::channel();
    let mut serving = pin!(server.serve_all(listener, async {
        // Without its sender it would be over, too.
        let _ = ended.await;
    }));
    let signal = tokio::select! {
        biased;
        signal = signals.next() => signal,
        () = &mut serving => return Ok(Exit::Done),
    };
    // Nobody listens when it has ended by itself.
    let _ = end.send(());
    tokio::select! {
        biased;
        _ = signals.next() => {}
        () = serving => {}
    }
    Ok(Exit::Signal(signal))
}

async fn serve(limits: Limits) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let server = server(limits)?;
    let link = Link::stdio().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let cause = tokio::select! {
        biased;
        signal = signals.next() => return Ok(Exit::Signal(signal)),
        cause = server.serve(link) => cause,
    };
    match &cause {
        // The client has closed its side: that is how this ends.
        CloseCause::Local => Ok(Exit::Done),
        CloseCause::Link(end) if end.kind == LinkEndKind::EndOfStream => Ok(Exit::Done),
        cause => Err(Failure::closed(cause, Phase::Serve)),
    }
}
