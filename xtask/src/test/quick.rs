//! `cargo xtask test --quick`: the two minutes of checks before a commit. It checks the tables and the format of
//! everything, and runs clippy and the tests of the packages that differ from the remote's branch `main`, or from the last
//! commit if there is no such branch.
//!
//! It omits these checks of CI: packages that only depend on a changed one, tests that mostly wait (see [`SLOW`]), doc tests,
//! published servers and the conformance suite.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value as Json;

use super::{check_tables, groups};
use crate::steps::{self, Steps, cargo, succeed};
use crate::suite::{self, Group};

/// Groups that take more than ten seconds: many child processes, time limits of whole runs, the command line.
const SLOW: [&str; 5] = [
    "mcpjoin tests/child_cycles",
    "mcpjoin-cli tests/runner",
    "mcpjoin-diagnostics tests/validate",
    "mcpjoin-gateway tests/gateway",
    "mcpjoin-orchestra tests/bridge",
];

/// Packages whose tests need installed servers.
const INSTALLED: [&str; 2] = ["conformance", "interop"];

/// The tests of the repository's rules: they always run.
const RULES: [(&str, &str); 2] = [("mcpjoin-proto", "invariants"), ("mcpjoin", "sources")];

/// Runs every step, and fails if one of them failed.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut steps = Steps::default();
    check_tables(&mut steps, root);
    let changed = steps.step("changes", "git diff --name-only", || changed(root));
    for package in changed.iter().flatten() {
        let name = ["--package", package];
        let options = [&["clippy", "--quiet", "--all-targets"], &name[..]].concat();
        steps.step("clippy", &format!("cargo {}", options.join(" ")), || {
            succeed(cargo(root, &options).args(["--", "-D", "warnings"]))
        });
        if INSTALLED.contains(&package.as_str()) {
            continue;
        }
        steps.step("tests", &format!("cargo test --package {package}"), || {
            let built = suite::groups(root, &name)?;
            let quick: Vec<&Group> = built.iter().filter(|group| !SLOW.contains(&&*group.name)).collect();
            groups(&quick, &[], &mut BTreeMap::new())
        });
    }
    for (package, test) in RULES {
        let options = ["test", "--quiet", "--package", package, "--test", test];
        steps.step("rules", &format!("cargo {}", options.join(" ")), || succeed(&mut cargo(root, &options)));
    }
    match steps.summary() {
        0 => Ok(()),
        failed => bail!("{failed} steps failed"),
    }
}

/// The names of the packages of the workspace with changed files.
fn changed(root: &Path) -> Result<Vec<String>> {
    let git = |arguments: &[&str]| steps::stdout(Command::new("git").args(arguments).current_dir(root));
    let remote =
        Command::new("git").args(["merge-base", "HEAD", "origin/main"]).current_dir(root).output()?;
    let base = String::from_utf8(remote.stdout).unwrap_or_default();
    let base = if remote.status.success() { base.trim() } else { "HEAD" };
    let differing = git(&["diff", "--name-only", base])?;
    let untracked = git(&["ls-files", "--others", "--exclude-standard"])?;
    let metadata = steps::stdout(&mut cargo(root, &["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: Json = serde_json::from_str(&metadata).context("the output of cargo metadata")?;
    let packages = packages_of(&metadata, root)?;
    let mut names = BTreeSet::new();
    for file in differing.lines().chain(untracked.lines()) {
        names.extend(package_of(file, &packages).map(str::to_owned));
    }
    let names: Vec<String> = names.into_iter().collect();
    println!(
        "    {} since {base}",
        if names.is_empty() { "no package".to_owned() } else { names.join(", ") }
    );
    Ok(names)
}

/// The packages of the workspace: their folders, relative to the root, and their names.
fn packages_of(metadata: &Json, root: &Path) -> Result<Vec<(String, String)>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists packages")?;
    let of = |package: &Json| {
        let manifest = Path::new(package["manifest_path"].as_str()?).parent()?;
        let folder = manifest.strip_prefix(root).ok()?.to_str()?;
        Some((folder.to_owned(), package["name"].as_str()?.to_owned()))
    };
    packages.iter().map(|package| of(package).context("a package has a name and a folder")).collect()
}

/// The package that contains a file; `packages` are folders, relative to the root, with names.
fn package_of<'a>(file: &str, packages: &'a [(String, String)]) -> Option<&'a str> {
    let found = packages
        .iter()
        .find(|(folder, _)| file.strip_prefix(&**folder).is_some_and(|rest| rest.starts_with('/')));
    found.map(|(_, name)| &**name)
}

#[cfg(test)]
mod tests {
    use super::package_of;

    #[test]
    fn a_file_belongs_to_the_package_of_its_folder() {
        let packages = [("crates/proto", "mcpjoin-proto"), ("xtask", "xtask")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(package_of("crates/proto/src/lib.rs", &packages), Some("mcpjoin-proto"));
        assert_eq!(package_of("xtask/src/main.rs", &packages), Some("xtask"));
        assert_eq!(package_of("crates/prototype/src/lib.rs", &packages), None);
        assert_eq!(package_of("README.md", &packages), None);
    }
}
