//! A command's way to a server and back: starts it, connects, lets the command work, and ends everything that was
//! started, whatever happens. Signals are heard all the way.
//!
//! Called by the commands that talk to a server. It judges no result and prints only what it takes to connect.

use std::ffi::{OsStr, OsString};
use std::time::{Duration, Instant};

use mcpjoin::client::{Client, ClientBuilder};
use mcpjoin::link::{ChildCommand, ChildHandle};
use mcpjoin::proto::session::{Ask, Limits};
use mcpjoin::proto::types::LogMessageParams;
use mcpjoin::proto::{Era, Method, Notification};
use tokio::signal::unix::{Signal as Heard, SignalKind, signal};
use tokio::time::timeout;

use crate::args::{Connect, EraChoice};
use crate::exit::{Exit, Signal};
use crate::failure::{Failure, Phase};
use crate::target::{Target, shown};
use crate::ui::{Secrets, Ui};
use crate::visible;

/// What programs need to run, whatever they do: passed on with `--env-clean`, too.
const BASICS: [&str; 13] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ",
    "USER",
];
/// How long the keeper of the child may take once everything has been killed at once.
const KILLED: Duration = Duration::from_secs(1);

/// How to reach a server, understood and checked.
struct Plan {
    command: ChildCommand,
    client: ClientBuilder,
    /// The command as it would be typed.
    shown: String,
    /// What is done first once it runs.
    first: Phase,
}

/// The bounds that the options ask for.
pub(crate) fn limits(connect: &Connect) -> Limits {
    let mut limits = Limits::default();
    if let Some(size) = connect.max_message_size {
        limits.message = size;
    }
    if let Some(time) = connect.timeout {
        limits.request = time;
        limits.request_total = limits.request_total.max(time);
    }
    if let Some(time) = connect.connect_timeout {
        limits.initialize = time;
        limits.probe = limits.probe.min(time);
    }
    limits
}

/// Connects to the server, runs `work`, and ends everything. The exit is that of `work`, or says what came between.
pub(crate) fn with_server(
    ui: &Ui,
    target: &Target,
    connect: &Connect,
    work: impl AsyncFnOnce(&Client) -> Result<Exit, Failure>,
) -> Exit {
    let prepared = plan(ui, target, connect).and_then(|plan| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map(|runtime| (plan, runtime)).map_err(|error| Failure::system(Phase::Spawn, &error))
    });
    let (plan, runtime) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => {
            ui.failure(&failure);
            return failure.exit;
        }
    };
    let child = plan.command.handle();
    let exit = runtime.block_on(run(plan, ui, work));
    // What has not been ended politely by now is killed with the tasks that held it.
    drop(runtime);
    for survivor in survivors(&child) {
        ui.warning(&survivor);
    }
    exit
}

async fn run(plan: Plan, ui: &Ui, work: impl AsyncFnOnce(&Client) -> Result<Exit, Failure>) -> Exit {
    let started = Instant::now();
    let fail = |failure: Failure| {
        ui.failure(&failure.with(&plan.shown, started.elapsed()));
    };
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            let failure = Failure::system(Phase::Spawn, &error);
            let exit = failure.exit;
            fail(failure);
            return exit;
        }
    };
    let child = plan.command.handle();
    let connecting = async {
        let link = plan.command.start().await.map_err(|error| Failure::spawn(&error))?;
        plan.client.connect(link).await.map_err(|error| Failure::closed(&error.cause, plan.first))
    };
    // Dropped by the signal, it begins to end what it has started.
    let client = tokio::select! {
        biased;
        signal = signals.next() => Err(signal),
        client = connecting => Ok(client),
    };
    let client = match client {
        Ok(Ok(client)) => client,
        Ok(Err(failure)) => {
            let exit = failure.exit;
            fail(failure);
            return exit;
        }
        Err(signal) => {
            tokio::select! {
                biased;
                _ = signals.next() => {}
                _ = child.ended() => {}
            }
            return Exit::Signal(signal);
        }
    };
    let exit = tokio::select! {
        biased;
        signal = signals.next() => Exit::Signal(signal),
        outcome = work(&client) => match outcome {
            Ok(exit) => exit,
            Err(failure) => {
                let exit = failure.exit;
                fail(failure);
                exit
            }
        },
    };
    tokio::select! {
        biased;
        // Nobody wants to wait any longer.
        signal = signals.next() => Exit::Signal(signal),
        _ = client.close() => exit,
    }
}

/// What is left of what the server has started: normally nothing.
fn survivors(child: &ChildHandle) -> Vec<String> {
    if child.pid().is_some() && child.report().is_none() {
        let waiting = tokio::runtime::Builder::new_current_thread().enable_time().build();
        // Without a runtime to wait in, what is known is told.
        let _ = waiting.map(|runtime| runtime.block_on(async { timeout(KILLED, child.ended()).await }));
    }
    let left = child.report().map(|report| report.survivors).unwrap_or_default();
    left.iter()
        .map(|left| {
            format!(
                "process {} ({}), which the server has started, is still there",
                left.pid,
                visible::line(&left.name)
            )
        })
        .collect()
}

/// The signals that end us.
pub(crate) struct Signals {
    hangup: Heard,
    interrupt: Heard,
    terminate: Heard,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::Hangup,
            _ = self.interrupt.recv() => Signal::Interrupt,
            _ = self.terminate.recv() => Signal::Terminate,
        }
    }
}

/// From the options to what is started and how it is talked to. Hides the values of variables from then on.
fn plan(ui: &Ui, target: &Target, connect: &Connect) -> Result<Plan, Failure> {
    let variables = variables(&connect.env)?;
    ui.hide(Secrets::new(variables.iter().map(|(_, value)| value)));

    let (program, args, typed) = match target {
        Target::Command { program, args } => {
            let words: Vec<String> = std::iter::once(program).chain(args).map(|word| shown(word)).collect();
            (program.clone(), args.clone(), words.join(" "))
        }
        Target::Demo => {
            let program = std::env::current_exe()
                .map_err(|error| Failure::system(Phase::Spawn, &error))?
                .into_os_string();
            (program, vec!["serve".into(), "demo".into()], "mcpjoin serve demo".to_owned())
        }
    };
    let mut command = ChildCommand::new(program).args(args);
    if connect.env_clean {
        command = command.env_clear();
        for name in BASICS {
            if let Some(value) = std::env::var_os(name) {
                command = command.env(name, value);
            }
        }
    }
    for (name, value) in variables {
        command = command.env(name, value);
    }
    if let Some(path) = &connect.cwd {
        command = command.current_dir(path);
    }
    if ui.verbosity() > 0 {
        let ui = ui.clone();
        command = command.stderr(move |line| ui.server_line(&String::from_utf8_lossy(line)));
    }
    let (client, first) = client(ui, connect)?;
    Ok(Plan { command, client, shown: typed, first })
}

fn client(ui: &Ui, connect: &Connect) -> Result<(ClientBuilder, Phase), Failure> {
    let mut client = Client::builder("mcpjoin", env!("CARGO_PKG_VERSION")).limits(limits(connect));
    let era = match connect.era {
        EraChoice::Auto => None,
        EraChoice::Legacy => Some(Era::Legacy),
        EraChoice::Modern => Some(Era::Modern),
    };
    let asked = connect.protocol_version.as_ref().and_then(|version| version.era());
    if let (Some(era), Some(asked)) = (era, asked)
        && era != asked
    {
        return Err(Failure::usage(
            "--era and --protocol-version ask for different eras",
            "leave out one of them",
        ));
    }
    if let Some(era) = era {
        client = client.ask(Ask::Only(era));
    }
    if let Some(version) = &connect.protocol_version {
        client = client.protocol_version(version.clone());
    }
    if ui.verbosity() > 0 {
        let ui = ui.clone();
        client = client.on_notification(move |notification| show(&ui, &notification));
    }
    if ui.verbosity() > 1 {
        let ui = ui.clone();
        client = client
            .on_violation(move |violation| ui.detail(&format!("against the specification: {violation}")));
    }
    let first = if era.or(asked) == Some(Era::Legacy) { Phase::Initialize } else { Phase::Probe };
    Ok((client, first))
}

/// Shows a log message of the server.
pub(crate) fn show(ui: &Ui, notification: &Notification) {
    if notification.method != Method::LogMessage {
        return;
    }
    let Some(Ok(message)) =
        notification.params.as_ref().map(|params| params.raw().decode::<LogMessageParams>())
    else {
        return;
    };
    let text = message.data.to_string_value();
    let text = text.as_deref().unwrap_or_else(|| message.data.as_str());
    ui.server_line(&format!("[{}] {text}", message.level.as_str()));
}

/// The variables of `-e`: `NAME=VALUE`, or `NAME` for the value that we have ourselves.
fn variables(words: &[OsString]) -> Result<Vec<(OsString, OsString)>, Failure> {
    words
        .iter()
        .map(|word| {
            let (name, value) = halves(word);
            if name.is_empty() {
                return Err(Failure::usage("-e needs a name before the =", "-e NAME=VALUE, or -e NAME"));
            }
            let value = match value {
                Some(value) => value,
                None => std::env::var_os(&name).ok_or_else(|| {
                    let name = shown(&name);
                    Failure::usage(
                        format!("-e {name}: there is no such variable to pass on"),
                        format!("-e {name}=VALUE"),
                    )
                })?,
            };
            Ok((name, value))
        })
        .collect()
}

/// What stands before and after the first `=`.
#[cfg(unix)]
fn halves(word: &OsStr) -> (OsString, Option<OsString>) {
    use std::os::unix::ffi::OsStrExt;
    let bytes = word.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => {
            (OsStr::from_bytes(&bytes[..at]).into(), Some(OsStr::from_bytes(&bytes[at + 1..]).into()))
        }
        None => (word.into(), None),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::variables;

    #[test]
    fn variables_have_a_name_and_any_value() {
        let odd = OsString::from_vec(b"A=\xff=1".to_vec());
        let read = variables(&[odd, "B=".into(), "PATH".into()]).unwrap();
        assert_eq!(read[0], ("A".into(), OsString::from_vec(b"\xff=1".to_vec())));
        assert_eq!(read[1], ("B".into(), OsString::new()));
        assert_eq!(read[2].1, std::env::var_os("PATH").unwrap());
        assert!(variables(&["=x".into()]).is_err());
        assert!(variables(&["MCPJOIN_NO_SUCH_VARIABLE".into()]).is_err());
    }
}
