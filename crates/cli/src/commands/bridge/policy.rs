//! The policy of a bridge: reads its file, checks it, and reads it again when it changes or at SIGHUP.
//!
//! `mcpjoin_gateway` parses and applies it. Used by `serving`, and by `bridge --check-config`, which starts nothing.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mcpjoin_auth::SubjectTokens;
use mcpjoin_gateway::{Policy, SharedPolicy, TargetCredentials};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::credentials::{self, TargetAccess};
use crate::args::Authorization;
use crate::commands::written;
use crate::connect::{Endpoint, Signals};
use crate::exit::Exit;
use crate::failure::{Failure, Phase};
use crate::target::shown;
use crate::ui::Ui;
use crate::visible;

/// How often the times of the files are looked at.
pub(super) const POLL: Duration = Duration::from_secs(1);

/// The time and the size of a file. `None`: it is not there.
pub(super) type Stamp = Option<(SystemTime, u64)>;

/// Those of each file that a policy was read from.
type Stamps = Vec<(PathBuf, Stamp)>;

/// A policy that is read again when its file changes.
pub(super) struct PolicyFile {
    path: PathBuf,
    /// The names of all targets.
    targets: Vec<String>,
    policy: SharedPolicy,
    credentials: BTreeMap<String, TargetCredentials>,
    /// The tokens of clients, if they are exchanged for some target.
    subjects: Option<SubjectTokens>,
    stamps: Stamps,
    hangups: Signal,
}

/// Checks a file for `--check-config`.
pub(super) fn check(ui: &Ui, path: &Path, authorization: &Authorization) -> Result<Exit, Failure> {
    let policy = Policy::read(path).map_err(|error| fault(&error.to_string()))?;
    credentials::check(ui, &policy, authorization)?;
    Ok(written(ui, ui.result(&format!("{} is valid", shown(path.as_os_str())))))
}

fn fault(cause: &str) -> Failure {
    Failure::usage(visible::line(cause).into_owned(), "docs/policy.md explains the file")
}

/// Reads a policy for targets with these names.
fn read(path: &Path, targets: &[String]) -> Result<(Policy, Stamps), String> {
    // Before it is read, so that a change meanwhile is noticed.
    let own = stamp(path);
    let policy = Policy::read(path).map_err(|error| error.to_string())?;
    if let Some(unknown) = policy.targets().find(|name| !targets.iter().any(|target| target == name)) {
        let known = match targets {
            [only] => format!("the only target of this bridge is {only:?}"),
            all => format!("the targets of this bridge are {}", all.join(", ")),
        };
        return Err(format!("{}: it has rules for the target {unknown:?}, but {known}", path.display()));
    }
    let pins = policy.files().iter().skip(1).map(|pin| (pin.clone(), stamp(pin)));
    let stamps = std::iter::once((path.to_owned(), own)).chain(pins).collect();
    Ok((policy, stamps))
}

/// Reads a policy again. The credentials of its targets are in use since the start.
fn read_again(
    path: &Path,
    targets: &[String],
    credentials: &BTreeMap<String, TargetCredentials>,
) -> Result<(Policy, Stamps), String> {
    let (policy, stamps) = read(path, targets)?;
    if credentials_of(&policy) != *credentials {
        let path = path.display();
        return Err(format!(
            "{path}: the credentials of a target have changed: restart the bridge to use them"
        ));
    }
    Ok((policy, stamps))
}

fn credentials_of(policy: &Policy) -> BTreeMap<String, TargetCredentials> {
    policy.credentials().map(|(target, own)| (target.to_owned(), own.clone())).collect()
}

pub(super) fn stamp(path: &Path) -> Stamp {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

impl PolicyFile {
    /// Reads the file. From now on SIGHUP does not end the process. Must be called within a runtime.
    pub(super) fn open(path: &Path, targets: &[String]) -> Result<Self, Failure> {
        let (policy, stamps) = read(path, targets).map_err(|cause| fault(&cause))?;
        let hangups = signal(SignalKind::hangup()).map_err(|error| Failure::system(Phase::Serve, &error))?;
        Signals::spare_hangups();
        let (path, targets) = (path.into(), targets.to_vec());
        let credentials = credentials_of(&policy);
        let subjects = credentials::exchanges(&policy).then(SubjectTokens::default);
        let policy = SharedPolicy::new(policy);
        Ok(Self { path, targets, policy, credentials, subjects, stamps, hangups })
    }

    /// The authorization at a target, if the file says it.
    pub(super) fn access(
        &self,
        ui: &Ui,
        target: &str,
        endpoint: &Endpoint,
        authorization: &Authorization,
    ) -> Result<Option<TargetAccess>, Failure> {
        let Some(own) = self.credentials.get(target) else { return Ok(None) };
        TargetAccess::new(ui, target, own, endpoint, authorization, self.subjects.as_ref()).map(Some)
    }

    /// The tokens of clients, if they are exchanged for some target.
    pub(super) const fn subjects(&self) -> Option<&SubjectTokens> {
        self.subjects.as_ref()
    }

    pub(super) fn shared(&self) -> SharedPolicy {
        self.policy.clone()
    }

    /// Reads the file again as often as it changes, while `work` is in progress.
    pub(super) async fn during<T>(mut self, ui: &Ui, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            outcome = work => outcome,
            never = self.follow(ui) => match never {},
        }
    }

    async fn follow(&mut self, ui: &Ui) -> Infallible {
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let asked = tokio::select! {
                biased;
                Some(()) = self.hangups.recv() => true,
                _ = ticks.tick() => false,
            };
            let (path, targets, stamps) = (self.path.clone(), self.targets.clone(), self.stamps.clone());
            let credentials = self.credentials.clone();
            let look = move || {
                let now: Stamps = stamps.iter().map(|(path, _)| (path.clone(), stamp(path))).collect();
                (asked || now != stamps).then(|| (read_again(&path, &targets, &credentials), now))
            };
            // A file system may take long.
            let Ok(Some((outcome, now))) = spawn_blocking(look).await else { continue };
            match outcome {
                Ok((policy, stamps)) => {
                    self.policy.replace(policy);
                    self.stamps = stamps;
                    ui.note(&format!("the policy was read again: {}", shown(self.path.as_os_str())));
                }
                Err(cause) => {
                    self.stamps = now;
                    let cause = visible::line(&cause).into_owned();
                    ui.warning(&format!("{cause}; the policy stays as it was"));
                }
            }
        }
    }
}
