//! The result of an examination of the machine: parts, checks and findings.
//!
//! Returned by [`EnvironmentDoctor`](super::EnvironmentDoctor) to callers that print it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::super::report::not_run;
use super::paths::{LaunchContext, SearchPaths};
use crate::doctor::Outcome;
use mcpjoin_rules::named;

/// The parts of the examination and the checks of each, with their names.
macro_rules! parts {
    ($(
        $(#[$about:meta])* $part:ident = $label:literal {
            $($(#[$what:meta])* $check:ident = $name:literal,)*
        }
    )*) => {
        named! {
            /// The parts of this examination, in their order.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            #[non_exhaustive]
            pub enum EnvironmentPart { $($(#[$about])* $part = $label,)* }
        }

        named! {
            /// The checks, in the order of their parts. Each passes, fails with a finding, or is not run.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            #[non_exhaustive]
            pub enum EnvironmentCheck { $($($(#[$what])* $check = $name,)*)* }
        }

        impl EnvironmentCheck {
            /// The part that it belongs to.
            #[must_use]
            pub const fn part(self) -> EnvironmentPart {
                match self { $($(Self::$check)|* => EnvironmentPart::$part,)* }
            }
        }
    };
}

parts! {
    /// `PATH`, in each context in which programs are started.
    Path = "path" {
        /// `PATH` is set, and has folders that exist.
        Path = "path",
        /// The programs that the login shell finds are found here, too.
        PathHere = "path-here",
        /// The programs that are found here are found on the desktop, too.
        PathDesktop = "path-desktop",
    }
    /// The programs that run servers: node, uv and others.
    Runtimes = "runtimes" {
        /// A runtime that is found can be run, and prints its version.
        Runtimes = "runtimes",
        /// The interpreter of a runtime (node runs npx) is found.
        Interpreters = "interpreters",
        /// Node is new enough for the servers that are written for it.
        NodeAge = "node-age",
        /// Behind each shim of a version manager there is a program.
        Shims = "shims",
        /// The programs of an installed version manager are found in some context.
        Managers = "version-managers",
    }
    /// The folders of their downloads.
    Caches = "caches" {
        /// npm can write to its cache.
        NpmCache = "npm-cache",
        /// uv can write to its cache.
        UvCache = "uv-cache",
    }
    /// The proxies that variables name.
    Proxy = "proxy" {
        /// The variables of proxies hold addresses.
        ProxyForm = "proxy-form",
        /// The two spellings of a variable have the same value.
        ProxyAgreement = "proxy-agreement",
        /// The proxy accepts a connection, and our credentials.
        ProxyAnswers = "proxy-answers",
        /// The proxy is not used for servers on this machine.
        ProxyLocalhost = "proxy-localhost",
    }
    /// The authorities that TLS trusts.
    Certificates = "certs" {
        /// Variables that name certificates name files that hold some.
        CertificateVariables = "certificate-variables",
        /// The system has authorities to trust.
        CertificateStore = "certificate-store",
        /// No proxy between a server and us presents a certificate of its own.
        Interception = "interception",
    }
    /// Connections to this machine itself.
    Loopback = "loopback" {
        /// `localhost` is this machine.
        Localhost = "localhost",
        /// 127.0.0.1 can be listened on and reached.
        LoopbackV4 = "loopback-ipv4",
        /// ::1 can be listened on and reached, if this machine has IPv6.
        LoopbackV6 = "loopback-ipv6",
    }
    /// The clock.
    Clock = "clock" {
        /// The year is plausible: 2026 to 2099.
        ClockYear = "clock-year",
        /// No file of the system was changed in the future.
        ClockFiles = "clock-files",
    }
    /// The home, the folder of temporary files, and limits.
    Resources = "room" {
        /// The home exists, and can be written to.
        Home = "home",
        /// The folder of temporary files exists, and can be written to.
        Temporary = "temporary",
        /// Enough files may be open at once.
        OpenFiles = "open-files",
    }
}

impl fmt::Display for EnvironmentPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of one part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvironmentStep {
    /// The part.
    pub part: EnvironmentPart,
    /// How it went.
    pub outcome: Outcome,
    /// Its duration. Parts are examined at the same time.
    pub took: Duration,
    /// The result in one line; of a part that failed, the ids of the findings. May contain text of files and programs.
    pub detail: String,
}

/// One fault: what was seen, what it means, one thing to do. It contains no value of a variable that could be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvironmentFinding {
    /// The kind of fault. It stays from version to version, so that scripts may match on it.
    pub id: &'static str,
    /// The check that failed.
    pub check: EnvironmentCheck,
    /// What was seen, in one sentence. May contain text of files and programs.
    pub seen: String,
    /// What it means for servers that are started here.
    pub meaning: String,
    /// One thing to do.
    pub advice: String,
}

/// A program that runs servers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Runtime {
    /// Its name.
    pub name: &'static str,
    /// The file that is found in each context. A context in which none is found is absent.
    pub found: Vec<(LaunchContext, PathBuf)>,
    /// The version that it prints, if it is found from here.
    pub version: Option<String>,
    /// The version manager that it belongs to.
    pub manager: Option<&'static str>,
}

impl Runtime {
    /// The file that is found in that context.
    #[must_use]
    pub fn at(&self, context: LaunchContext) -> Option<&PathBuf> {
        self.found.iter().find(|(known, _)| *known == context).map(|(_, path)| path)
    }
}

/// The result of the examination.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EnvironmentReport {
    /// Every part, in order.
    pub steps: Vec<EnvironmentStep>,
    /// Every check, in the order of [`EnvironmentCheck::ALL`].
    pub checks: Vec<(EnvironmentCheck, Outcome)>,
    /// What is wrong, in the order of the parts. Empty if nothing is.
    pub findings: Vec<EnvironmentFinding>,
    /// What was seen and is no fault, but may matter, a sentence each.
    pub notes: Vec<String>,
    /// The runtimes that were looked for.
    pub runtimes: Vec<Runtime>,
    /// `PATH` in each context; `None` when that took too long.
    pub paths: Option<SearchPaths>,
    /// The duration of the whole examination.
    pub took: Duration,
}

impl EnvironmentReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }

    /// How many checks were run.
    #[must_use]
    pub fn checks_run(&self) -> usize {
        self.checks.len() - self.checks_not_run().count()
    }

    /// The checks that were not run, and why.
    pub fn checks_not_run(&self) -> impl Iterator<Item = (EnvironmentCheck, &'static str)> {
        not_run(&self.checks)
    }
}
