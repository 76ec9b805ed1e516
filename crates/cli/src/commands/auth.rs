//! `mcpjoin auth`: logs in to servers over HTTP, shows and removes stored logins, and explains why a login fails. The
//! protocol is implemented by `mcpjoin_auth`.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization>

mod explain;
mod failures;
mod format;
mod login;
mod no_browser;
mod stored;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::target_of;
use crate::args::{Auth, AuthWhat, Connect, Named, Reach};
use crate::connect::{Access, Signals, logins_folder, with_plan, with_plans};
use crate::exit::Exit;
use crate::failure::{Failure, Phase, seconds};
use crate::target::Target;
use crate::ui::Ui;

/// How long a command may take in total: a person has to find a password meanwhile.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs the verb.
pub(crate) fn run(ui: &Ui, args: Auth) -> Result<Exit, Failure> {
    match args.what {
        AuthWhat::Login(args) => login::run(ui, *args),
        AuthWhat::Status(args) => stored::status(ui, args),
        AuthWhat::Logout(args) => stored::logout(ui, args),
        AuthWhat::Explain(args) => explain::run(ui, *args),
    }
}

/// The folder of stored logins. There is none if the system does not say where the user's files are.
fn folder() -> Result<std::path::PathBuf, Failure> {
    logins_folder().ok_or_else(|| {
        let problem = "no folder for logins: neither MCPJOIN_AUTH_DIR nor HOME is an absolute path";
        Failure::new("E_AUTH_STORE", Exit::Usage, Phase::Authorize, problem)
            .hint("set MCPJOIN_AUTH_DIR to a folder")
    })
}

/// The options of the connection in the form that every verb has.
fn connecting(named: Named, ca: Option<std::path::PathBuf>, connect_timeout: Option<Duration>) -> Connect {
    // A login is for one URL.
    Connect { ca, connect_timeout, exact_url: true, ..Connect::to(named.configured, named.server) }
}

/// The same, and the total timeout.
fn reaching(reach: Reach) -> (Connect, Duration) {
    let Reach { named, ca, connect_timeout, timeout } = reach;
    (connecting(named, ca, connect_timeout), timeout.unwrap_or(TOTAL_TIMEOUT))
}

/// Runs `work` with access to the server that is named, until it ends, or a signal comes, or `within` has passed.
fn with_access(
    ui: &Ui,
    verb: &str,
    target: Option<OsString>,
    connect: &Connect,
    within: Duration,
    work: impl AsyncFnOnce(&Access) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let words: Vec<OsString> = target.into_iter().filter(|word| !word.is_empty()).collect();
    if words.is_empty() && connect.server().is_none() {
        return Err(Failure::usage("no server is named", format!("mcpjoin auth {verb} https://host/path")));
    }
    let target = target_of(ui, "auth", connect, words, false)?;
    let not_http = |name: &str| {
        let problem = format!("auth is for HTTP servers, and {name} is not one");
        Failure::usage(
            problem,
            "use an http:// or https:// URL, or an entry with one (mcpjoin servers shows them)",
        )
    };
    if !matches!(target, Target::Http(_) | Target::Entry(_)) {
        return Err(not_http(&target.label()));
    }
    Ok(with_plan(ui, &target, connect, async |plan, signals| match plan.endpoint.access() {
        Some(access) => run_until(ui, signals, Some(&plan.shown), within, work(access)).await,
        None => {
            let mut failure = not_http(&plan.shown);
            if let Some(no_entry) = plan.endpoint.no_entry() {
                failure.message = format!("{}, and it is not an http:// or https:// URL", no_entry.said);
            }
            ui.failure(&failure);
            failure.exit
        }
    }))
}

/// Runs `work`, which needs no server.
fn without_server(ui: &Ui, within: Duration, work: impl AsyncFnOnce() -> Result<Exit, Failure>) -> Exit {
    let connect = Connect::to(crate::args::Configured::default(), None);
    with_plans(ui, &[], &connect, async |_, signals| run_until(ui, signals, None, within, work()).await)
}

/// Waits for the work, for a signal, and for the timeout.
async fn run_until(
    ui: &Ui,
    mut signals: Signals,
    shown: Option<&str>,
    within: Duration,
    work: impl Future<Output = Result<Exit, Failure>>,
) -> Exit {
    let began = Instant::now();
    let report = |mut failure: Failure| {
        failure.seen.listening = true;
        let failure = match shown {
            Some(shown) if failure.phase != Phase::Usage => failure.with(shown, began.elapsed()),
            _ => failure,
        };
        ui.failure(&failure);
        failure.exit
    };
    let late = || {
        let problem = format!("not finished within {}", seconds(within));
        Failure::new("E_TIMEOUT", Exit::Connection, Phase::Authorize, problem)
            .hint("try again with more time: --timeout 20m")
    };
    // A signal drops the work, which frees its port.
    match signals.until(timeout(within, work)).await {
        Ok(outcome) => outcome.unwrap_or_else(|_| Err(late())).unwrap_or_else(report),
        Err(signal) => Exit::Signal(signal),
    }
}
