//! A session over many commands of the user: the server is started again when it dies, and the connection is closed at the end.
//!
//! Used by `shell`. How often and after which pauses a server is started again is the library's (`RestartingClient`). No request is
//! repeated.

use std::error::Error;
use std::fmt;
use std::time::{Duration, Instant};

use mcpjoin::client::{Client, ClientBuilder, Restart, RestartError, RestartingClient, RunEvent, RunExit};

use super::plan::in_all;
use super::{About, Endpoint, Plan, Signals, failed, stopping, with_plan};
use crate::args::Connect;
use crate::events;
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::progress::Waiting;
use crate::target::Target;
use crate::ui::Ui;

/// A server that is started again when it dies.
pub(crate) struct Session {
    client: RestartingClient,
    opened: Opened,
    pub(crate) about: About,
}

/// How the server is reached, for the failures of its runs.
struct Opened {
    endpoint: Endpoint,
    first: Phase,
    /// The time to open the session over HTTP.
    opening: Option<Duration>,
}

/// Why there is no link, as an error of the library's.
#[derive(Debug)]
struct NoLink(Failure);

impl fmt::Display for NoLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl Error for NoLink {}

/// Connects, runs `work`, which handles signals itself, and ends everything. `prepare`: what the client receives besides.
pub(crate) fn with_session(
    ui: &Ui,
    target: &Target,
    connect: &Connect,
    prepare: impl FnOnce(ClientBuilder) -> ClientBuilder,
    work: impl AsyncFnOnce(&Session, &mut Signals) -> Exit,
) -> Exit {
    with_plan(ui, target, connect, async |plan, mut signals| {
        let about = About::of(target, &plan);
        let started = Instant::now();
        let opening = Waiting::new(ui, "connecting").wait(open(ui, plan.taking_tasks(), prepare));
        let (client, opened) = match signals.until(opening).await {
            Ok(Ok(session)) => session,
            Ok(Err(failure)) => return failed(ui, &failure.with(&about.shown, started.elapsed())),
            Err(signal) => return Exit::Signal(signal),
        };
        let session = Session { client, opened, about };
        let exit = work(&session, &mut signals).await;
        let closing = async {
            match exit {
                Exit::Signal(signal) => stopping(ui, signal, session.client.close()).await,
                _ => session.client.close().await,
            }
        };
        signals.until(closing).await.map_or_else(Exit::Signal, |_| exit)
    })
}

async fn open(
    ui: &Ui,
    plan: Plan,
    prepare: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<(RestartingClient, Opened), Failure> {
    let Plan { endpoint, client, first, opening, late, .. } = plan.remembering();
    if let Some(late) = late {
        return Err(endpoint.explain(late));
    }
    events::show_waits(ui);
    let shown = ui.clone();
    let restart = Restart::default().on_event(move |event| match event {
        RunEvent::Started { run } if *run > 1 => shown.note("the server runs again, in a new session"),
        RunEvent::Ended { end, next } => {
            let next = match next {
                Some(pause) => format!("restarting it in {} ms", pause.as_millis()),
                None => "it is not restarted".into(),
            };
            shown.warning(&format!("{end}; {next}"));
        }
        _ => {}
    });
    let links = endpoint.clone();
    let start = move || {
        let endpoint = links.clone();
        async move { endpoint.link().await.map_err(NoLink) }
    };
    let client = prepare(client).restarting(restart, start).await;
    let opened = Opened { endpoint, first, opening };
    let client = client.map_err(|exit| opened.endpoint.explain(opened.of_run(&exit)))?;
    Ok((client, opened))
}

impl Session {
    /// The client of the current run. Waits while the server is started again.
    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        self.client.client().await.map_err(|error| self.lost(&error))
    }

    /// Waits until the server is given up. Returns why.
    pub(crate) async fn given_up(&self) -> Failure {
        self.lost(&self.client.closed().await)
    }

    /// What is known of the endpoint, added to a failure of a command.
    pub(crate) fn explain(&self, failure: Failure) -> Failure {
        self.opened.endpoint.explain(failure)
    }

    fn lost(&self, error: &RestartError) -> Failure {
        let failure = match error {
            RestartError::GivenUp { last, .. } | RestartError::TimedOut { last, .. } => {
                Failure { message: error.to_string(), ..self.opened.of_run(last) }
            }
            _ => Failure::new("E_CLOSED", Exit::Connection, self.opened.first, error.to_string()),
        };
        self.explain(failure)
    }
}

impl Opened {
    /// The failure of a run of the server.
    fn of_run(&self, exit: &RunExit) -> Failure {
        match exit {
            RunExit::NotStarted(error) => match error.downcast_ref::<NoLink>() {
                Some(NoLink(failure)) => failure.clone(),
                None => Failure::new("E_CONNECT", Exit::Connection, Phase::Connect, error.to_string()),
            },
            RunExit::NotOpened(error) => {
                Failure::closed(&in_all(error.cause.clone(), self.opening), self.first)
            }
            RunExit::Ended(cause) => Failure::closed(cause, Phase::Call),
            _ => Failure::new("E_CLOSED", Exit::Connection, self.first, exit.to_string()),
        }
    }
}
