//! From what was typed to what is started and how it is talked to: checked, and nothing done yet.

use std::ffi::{OsStr, OsString};

use mcpjoin::client::{Client, ClientBuilder};
use mcpjoin::link::ChildCommand;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::{Ask, Limits};

use super::show;
use crate::args::{Connect, EraChoice};
use crate::failure::{Failure, Phase};
use crate::secret;
use crate::target::{Target, shown};
use crate::ui::{Secrets, Ui};

/// What programs need to run, whatever they do: passed on with `--env-clean`, too.
const BASICS: [&str; 13] = [
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ",
    "USER",
];
/// How to reach a server, understood and checked.
pub(crate) struct Plan {
    pub(crate) command: ChildCommand,
    pub(crate) client: ClientBuilder,
    /// The command as it would be typed.
    pub(crate) shown: String,
    /// What is done first once it runs.
    pub(crate) first: Phase,
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

/// From the options to what is started and how it is talked to. Hides the values of variables from then on.
pub(super) fn plan(ui: &Ui, target: &Target, connect: &Connect) -> Result<Plan, Failure> {
    let variables = variables(&connect.env)?;
    let in_words = match target {
        Target::Command { args, .. } => secret::values(args),
        Target::Demo => Vec::new(),
    };
    ui.hide(Secrets::new(variables.iter().map(|(_, value)| value).chain(&in_words)));

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
