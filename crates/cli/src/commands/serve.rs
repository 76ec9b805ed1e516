//! `mcpjoin serve`: a built-in server on standard input and output.

use mcpjoin::Link;
use mcpjoin::proto::session::{CloseCause, Limits, LinkEndKind};

use crate::args::{Serve, Served};
use crate::connect::Signals;
use crate::demo;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::ui::Ui;

/// Serves until the client goes away, or a signal comes.
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
        .and_then(|runtime| runtime.block_on(serve(limits)));
    outcome.unwrap_or_else(|failure| {
        ui.failure(&failure);
        failure.exit
    })
}

async fn serve(limits: Limits) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(|error| Failure::system(Phase::Serve, &error))?;
    let server = demo::server(limits).map_err(|error| {
        Failure::new("E_DEMO", Exit::Usage, Phase::Serve, error.to_string())
            .hint("tell the authors of mcpjoin")
    })?;
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
