//! What an examination of the surroundings comes to.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::paths::{SearchPaths, Seat};
use crate::doctor::Outcome;

/// The parts of this examination, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EnvironmentPart {
    /// `PATH`, as every way to start a program has it.
    Path,
    /// The programs that run servers: node, uv and the like.
    Runtimes,
    /// Where those keep what they download.
    Caches,
    /// The proxies that variables name.
    Proxy,
    /// The authorities that TLS trusts.
    Certificates,
    /// Connections to this machine itself.
    Loopback,
    /// What time it is.
    Clock,
    /// Home, folder of temporary files, and limits.
    Room,
}

impl EnvironmentPart {
    /// All of them, in their order.
    pub const ALL: [Self; 8] = [
        Self::Path,
        Self::Runtimes,
        Self::Caches,
        Self::Proxy,
        Self::Certificates,
        Self::Loopback,
        Self::Clock,
        Self::Room,
    ];

    /// Its name, for people and for programs alike.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Runtimes => "runtimes",
            Self::Caches => "caches",
            Self::Proxy => "proxy",
            Self::Certificates => "certs",
            Self::Loopback => "loopback",
            Self::Clock => "clock",
            Self::Room => "room",
        }
    }
}

impl fmt::Display for EnvironmentPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is looked at. Each check passes, fails with a finding, or is not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EnvironmentCheck {
    /// `PATH` is set, and has folders that are there.
    Path,
    /// What the login shell finds is found here, too.
    PathHere,
    /// What is found here is found on the desktop, too.
    PathDesktop,
    /// A runtime that is found can be run, and says its version.
    Runtimes,
    /// What runs a runtime (node runs npx) is found beside it.
    Interpreters,
    /// Node is new enough for the servers that are written for it.
    NodeAge,
    /// Behind each shim of a version manager there is a program.
    Shims,
    /// A version manager that is installed is reached by some `PATH`.
    Managers,
    /// npm can write to its cache.
    NpmCache,
    /// uv can write to its cache.
    UvCache,
    /// The variables of proxies hold addresses.
    ProxyForm,
    /// The two spellings of a variable say the same.
    ProxyAgreement,
    /// Somebody listens where the proxy is said to be.
    ProxyAnswers,
    /// The proxy is not asked for servers on this machine.
    ProxyLocalhost,
    /// Variables that name certificates name files that hold some.
    CertificateVariables,
    /// The system has authorities to trust.
    CertificateStore,
    /// Nobody stands between a server and us with a certificate of their own.
    Interception,
    /// `localhost` is this machine.
    Localhost,
    /// 127.0.0.1 can be listened on and reached.
    LoopbackV4,
    /// So can ::1, where this machine has IPv6.
    LoopbackV6,
    /// The year is one in which this program is used.
    ClockYear,
    /// No file of the system comes from the future.
    ClockFiles,
    /// There is a home, and it can be written to.
    Home,
    /// There is a folder of temporary files, and it can be written to.
    Temporary,
    /// Enough files may be open at once.
    OpenFiles,
}

impl EnvironmentCheck {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::Path,
        Self::PathHere,
        Self::PathDesktop,
        Self::Runtimes,
        Self::Interpreters,
        Self::NodeAge,
        Self::Shims,
        Self::Managers,
        Self::NpmCache,
        Self::UvCache,
        Self::ProxyForm,
        Self::ProxyAgreement,
        Self::ProxyAnswers,
        Self::ProxyLocalhost,
        Self::CertificateVariables,
        Self::CertificateStore,
        Self::Interception,
        Self::Localhost,
        Self::LoopbackV4,
        Self::LoopbackV6,
        Self::ClockYear,
        Self::ClockFiles,
        Self::Home,
        Self::Temporary,
        Self::OpenFiles,
    ];

    /// Its name, which stays.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::PathHere => "path-here",
            Self::PathDesktop => "path-desktop",
            Self::Runtimes => "runtimes",
            Self::Interpreters => "interpreters",
            Self::NodeAge => "node-age",
            Self::Shims => "shims",
            Self::Managers => "version-managers",
            Self::NpmCache => "npm-cache",
            Self::UvCache => "uv-cache",
            Self::ProxyForm => "proxy-form",
            Self::ProxyAgreement => "proxy-agreement",
            Self::ProxyAnswers => "proxy-answers",
            Self::ProxyLocalhost => "proxy-localhost",
            Self::CertificateVariables => "certificate-variables",
            Self::CertificateStore => "certificate-store",
            Self::Interception => "interception",
            Self::Localhost => "localhost",
            Self::LoopbackV4 => "loopback-ipv4",
            Self::LoopbackV6 => "loopback-ipv6",
            Self::ClockYear => "clock-year",
            Self::ClockFiles => "clock-files",
            Self::Home => "home",
            Self::Temporary => "temporary",
            Self::OpenFiles => "open-files",
        }
    }

    /// The part that it belongs to.
    #[must_use]
    pub const fn part(self) -> EnvironmentPart {
        match self {
            Self::Path | Self::PathHere | Self::PathDesktop => EnvironmentPart::Path,
            Self::Runtimes | Self::Interpreters | Self::NodeAge | Self::Shims | Self::Managers => {
                EnvironmentPart::Runtimes
            }
            Self::NpmCache | Self::UvCache => EnvironmentPart::Caches,
            Self::ProxyForm | Self::ProxyAgreement | Self::ProxyAnswers | Self::ProxyLocalhost => {
                EnvironmentPart::Proxy
            }
            Self::CertificateVariables | Self::CertificateStore | Self::Interception => {
                EnvironmentPart::Certificates
            }
            Self::Localhost | Self::LoopbackV4 | Self::LoopbackV6 => EnvironmentPart::Loopback,
            Self::ClockYear | Self::ClockFiles => EnvironmentPart::Clock,
            Self::Home | Self::Temporary | Self::OpenFiles => EnvironmentPart::Room,
        }
    }
}

/// One part as it went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvironmentStep {
    /// Which.
    pub part: EnvironmentPart,
    /// How it went.
    pub outcome: Outcome,
    /// From its beginning to its end. Parts are looked at at the same time.
    pub took: Duration,
    /// What came of it, in one line; of one that failed, the ids of the findings. May contain text of files and programs.
    pub detail: String,
}

/// One thing that is wrong: what was seen, what it means, one thing to do. No value of a variable that could be a secret is
/// in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EnvironmentFinding {
    /// What kind of fault it is; stays from version to version, so that scripts may look for it.
    pub id: &'static str,
    /// The check that failed.
    pub check: EnvironmentCheck,
    /// What was seen, in one sentence. May contain text of files and programs.
    pub seen: String,
    /// What it means for whoever starts servers here.
    pub meaning: String,
    /// One thing to do.
    pub advice: String,
}

/// A program that runs servers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Runtime {
    /// How it is called.
    pub name: &'static str,
    /// Where each seat finds it; a seat that does not is absent.
    pub found: Vec<(Seat, PathBuf)>,
    /// What it says of its version, where it is found from here.
    pub version: Option<String>,
    /// The version manager that it belongs to.
    pub manager: Option<&'static str>,
}

impl Runtime {
    /// Where that seat finds it.
    #[must_use]
    pub fn at(&self, seat: Seat) -> Option<&PathBuf> {
        self.found.iter().find(|(known, _)| *known == seat).map(|(_, path)| path)
    }
}

/// How the examination went.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnvironmentReport {
    /// Every part, in order.
    pub steps: Vec<EnvironmentStep>,
    /// Every check, in the order of [`EnvironmentCheck::ALL`].
    pub checks: Vec<(EnvironmentCheck, Outcome)>,
    /// What is wrong, in the order of the checks. Empty where nothing is.
    pub findings: Vec<EnvironmentFinding>,
    /// What was seen and is no fault, but may matter, a sentence each.
    pub notes: Vec<String>,
    /// The runtimes that were looked for.
    pub runtimes: Vec<Runtime>,
    /// `PATH` of each seat; `None` when that took too long.
    pub paths: Option<SearchPaths>,
    /// From the beginning to the end.
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
        self.checks.iter().filter_map(|(check, outcome)| match outcome {
            Outcome::NotRun(why) => Some((*check, *why)),
            _ => None,
        })
    }
}
