//! What clients may use of a target, and how much: the policy of a gateway.
//!
//! A [`Policy`] is read from a TOML file (`file`), and compiled (`rules`). A gateway shares one as a [`SharedPolicy`],
//! which can be replaced while clients are served: requests in flight keep the policy that admitted them, and clients
//! whose tools changed are told. `admission` applies it to each request and result, `limiter` counts requests, `pins`
//! compares definitions of tools, `questions` decides what a target may ask. It never waits for room, never reads
//! arguments, and never changes what the file does not name.
//!
//! `docs/policy.md` explains the file to its users.

mod admission;
mod credentials;
mod file;
mod limiter;
mod pins;
mod questions;
mod rules;
#[cfg(test)]
mod tests;

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mcpjoin_proto::session::Origin;
use tokio::sync::watch;

use self::file::{MAX_FILE_BYTES, PolicyFile};
use self::limiter::Limiter;
use self::rules::Rules;
use super::capacity::Caller;

pub(super) use self::admission::{ClientLimits, ClientPolicy, Counting};
pub use self::credentials::{ClientAtIssuer, ClientCredentials, TargetCredentials, TokenExchangeSettings};
pub use self::file::PolicyError;
pub(super) use self::questions::{Allowed, Questions};

/// Bytes of the name of a tool that is compared with patterns. A tool with a longer name is hidden by a policy: the
/// specification recommends 128.
const MAX_NAME_BYTES: usize = 1024;

/// What clients may use of the targets of a gateway, and how much. The default allows everything.
#[derive(Debug, Default)]
pub struct Policy {
    rules: Rules,
    files: Vec<PathBuf>,
}

/// The policy of a gateway, which can be replaced while the gateway runs. All clones are one. Its counts of requests
/// are those of all policies that it had.
#[derive(Clone, Default)]
pub struct SharedPolicy(Arc<Shared>);

#[derive(Default)]
struct Shared {
    current: watch::Sender<Arc<Policy>>,
    clients: Arc<Limiter<Caller>>,
    targets: Arc<Limiter<Box<str>>>,
}

impl Policy {
    /// Reads a policy and the files of pinned tools that it names, whose paths are relative to its folder. Blocks while
    /// it reads.
    ///
    /// # Errors
    /// If a file cannot be read, is too large, or does not have the format of a policy. The error names the place.
    pub fn read(file: &Path) -> Result<Self, PolicyError> {
        let unread = |cause: String| PolicyError::unplaced(file, cause);
        let mut text = String::new();
        File::open(file)
            .and_then(|opened| opened.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
            .map_err(|error| unread(format!("cannot be read: {error}")))?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(unread(format!("is above the limit of {MAX_FILE_BYTES} bytes")));
        }
        Self::parse(file, &text)
    }

    /// Reads a policy from the text of a file. `file`: its path, for errors and relative paths.
    ///
    /// # Errors
    /// As for [`Policy::read`].
    pub fn parse(file: &Path, text: &str) -> Result<Self, PolicyError> {
        let parsed = file::parse(file, text)?;
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        let rules = Rules::compile(parsed, folder).map_err(|problem| problem.placed(file, text))?;
        let pins = rules.pins().map(|pin| pin.path.clone());
        let files = std::iter::once(file.to_owned()).chain(pins).collect();
        Ok(Self { rules, files })
    }

    /// Returns the files that it was read from: its own first, then those of pinned tools.
    #[must_use]
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns the names of the targets that have a table of their own. A name that no target of the gateway has is
    /// probably a mistake.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        self.rules.target_names()
    }

    /// Returns how the program authorizes itself at the targets for which the file says it, with their names. A gateway does not
    /// read it: the function that makes links does what it says.
    pub fn credentials(&self) -> impl Iterator<Item = (&str, &TargetCredentials)> {
        self.rules.credentials()
    }

    /// Returns the JSON schema of the file.
    #[must_use]
    pub fn schema() -> String {
        let schema = schemars::schema_for!(PolicyFile);
        serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
    }
}

impl SharedPolicy {
    /// Shares a policy.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let shared = Self::default();
        shared.replace(policy);
        shared
    }

    /// Replaces the policy for all requests that come from now on. Clients whose tools differ by the two policies
    /// receive a notification.
    pub fn replace(&self, policy: Policy) {
        self.0.current.send_replace(Arc::new(policy));
    }

    fn current(&self) -> Arc<Policy> {
        self.0.current.borrow().clone()
    }

    /// Whether the two share one policy and its counts.
    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn clients(&self) -> &Arc<Limiter<Caller>> {
        &self.0.clients
    }

    fn targets(&self) -> &Arc<Limiter<Box<str>>> {
        &self.0.targets
    }

    /// Calls `tell` each time this client sees other tools of the target. Never ends.
    async fn each_change(&self, target: &str, origin: impl Fn() -> Option<Arc<Origin>>, tell: impl Fn()) {
        let mut policies = self.0.current.subscribe();
        let mut last = policies.borrow_and_update().clone();
        // The sender lives as long as `self`.
        while policies.changed().await.is_ok() {
            let policy = policies.borrow_and_update().clone();
            let origin = origin();
            let view = |policy: &Policy| policy.rules.view(target, origin.as_deref());
            if view(&last) != view(&policy) {
                tell();
            }
            last = policy;
        }
        std::future::pending::<()>().await;
    }
}

impl fmt::Debug for SharedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.current().fmt(f)
    }
}
