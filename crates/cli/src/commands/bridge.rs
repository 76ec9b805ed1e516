//! `mcpjoin bridge`: connects any client to any server. The options decide which kind of bridge runs.

mod admin;
mod audit;
mod credentials;
mod go_flags;
mod joined;
mod keys;
mod metrics;
mod orchestra_host;
mod orchestrator;
mod policy;
mod relay;
mod serving;
mod state;
mod upstream;

pub(super) use go_flags::{Typed, read as read_go_flags};

use crate::args::Bridge;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::ui::Ui;

/// Runs the bridge until a side, or a signal, ends it. `escaped`: `--` stood before the first word.
pub(crate) fn run(ui: &Ui, args: Bridge, escaped: bool) -> Result<Exit, Failure> {
    if args.check_config {
        return check_config(ui, &args);
    }
    if args.orchestrator_addr.is_some() || args.tcp_addr.is_some() {
        return orchestrator::run(ui, &args);
    }
    let of_orchestra = args.listen.iter().filter(|word| is_of_orchestra(word)).count();
    if of_orchestra == 0 && joined::is_meant(&args) {
        return joined::run(ui, args);
    }
    joined::refuse_for_one(&args)?;
    let of_several = [("--join", !args.join.is_empty()), ("a second --server", joined::names_several(&args))];
    misplaced(&of_several, "for clients of MCP", "another --listen")?;
    if of_orchestra == 0 {
        return relay::run(ui, args, escaped);
    }
    if of_orchestra < args.listen.len() {
        return Err(Failure::usage(
            "clients of Orchestra and clients of MCP are not served by one bridge",
            "run two bridges: one with --listen orchestra://..., and one with the other addresses",
        ));
    }
    orchestra_host::run(ui, args, escaped)
}

/// Checks the files of the options, and starts nothing.
fn check_config(ui: &Ui, args: &Bridge) -> Result<Exit, Failure> {
    let keys = args.key_file.as_deref().map(|file| keys::check(ui, file)).transpose()?;
    relay::check_address(args)?;
    let state = state::check(ui, args)?;
    let policy =
        args.policy.as_deref().map(|file| policy::check(ui, file, &args.authorization)).transpose()?;
    // Each has the exit code of what it has printed.
    let mut exits = [keys, state, policy].into_iter().flatten();
    Ok(exits.find(|exit| *exit != Exit::Done).unwrap_or(Exit::Done))
}

fn is_of_orchestra(word: &str) -> bool {
    let scheme = word.split_once(':').map_or("", |(scheme, _)| scheme);
    ["orchestra", "orchestra+tcp"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
}

/// The options for serving over HTTP, and whether they are given.
fn of_http(args: &Bridge) -> [(&'static str, bool); 6] {
    [
        ("--allow-host", !args.allow_host.is_empty()),
        ("--allow-origin", !args.allow_origin.is_empty()),
        ("--session-idle", args.session_idle.is_some()),
        ("--key-file", args.key_file.is_some()),
        ("--state", args.state.is_some()),
        ("--auth-issuer", args.authorization.auth_issuer.is_some()),
    ]
}

/// Refuses options that have no effect.
fn misplaced(options: &[(&str, bool)], meant: &str, instead: &str) -> Result<(), Failure> {
    let Some((option, _)) = options.iter().find(|(_, given)| *given) else { return Ok(()) };
    Err(Failure::usage(format!("{option} is {meant}"), format!("{instead}, or leave out {option}")))
}
