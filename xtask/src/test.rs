//! `cargo xtask test`: runs every check that a change must pass. Used by contributors and by CI.

mod quick;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::counts::{self, Counts};
use crate::steps::{self, Beside, Steps, background_cargo, cargo, succeed};
use crate::suite::{self, Built, Group, Tally};
use crate::{
    bounds, catalogue, conformance, dependencies, dist, fuzz, interop, public_api, requirements, tools, tree,
    wire,
};

/// The package whose tests need the published servers.
const INTEROP: &str = "interop";

/// The options of the command.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    update_counts: bool,
    quick: bool,
}

impl Options {
    /// Reads the words after `test`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        match words {
            [] => Ok(Self { update_counts: false, quick: false }),
            ["--quick"] => Ok(Self { update_counts: false, quick: true }),
            ["--update-counts"] => Ok(Self { update_counts: true, quick: false }),
            other => bail!("`test` takes --quick or --update-counts, not `{}`", other.join(" ")),
        }
    }
}

/// Runs every step, prints the table of groups, and ends with a summary line.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    if options.quick {
        return quick::run(root);
    }
    let mut steps = Steps::default();
    let mut ran: BTreeMap<String, Tally> = BTreeMap::new();

    // These mostly wait for registries, and a single compiler uses only one processor. They use separate folders, and are
    // complete before the first test starts.
    let (folder, other) = (root.to_owned(), root.to_owned());
    let programs = Beside::begin("tools", "cargo xtask tools", move || tools::run(&other));
    let servers = Beside::begin("servers", "cargo xtask interop install", move || interop::install(&folder));

    check_tables(&mut steps, root);
    steps.step("clippy", "cargo clippy --workspace --all-targets -- -D warnings", || clippy(root));
    steps.step("no_std", "cargo check -p mcpjoin-proto", || {
        succeed(&mut cargo(root, &["check", "--quiet", "--package", "mcpjoin-proto"]))
    });
    steps.step("public interface", "cargo xtask public-api", || public_api::run(root, false));

    let build = "cargo build --workspace --all-targets";
    let built = steps.step("build tests", build, || suite::build(root));
    steps.joined(programs);
    let installed = steps.joined(servers);
    if let Some(built) = built {
        let (published, own): (Vec<&Group>, Vec<&Group>) =
            built.groups.iter().partition(|group| group.package == INTEROP);
        steps.step("test names", "cargo xtask requirements", || compiled(root, &built));
        // Half of the time of tests is waiting. What only compiles runs beside them with the lowest priority.
        let (folder, other) = (root.to_owned(), root.to_owned());
        let compiling = "cargo clippy -p mcpjoin --no-default-features --features NAME";
        let compiling = Beside::begin("features", compiling, move || features(&folder));
        let documentation = "RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --lib";
        let documentation = Beside::begin("docs", documentation, move || docs(&other));
        let folder = root.to_owned();
        let examples =
            Beside::begin("doc tests", "cargo test --workspace --doc", move || suite::run_doc_tests(&folder));
        steps.step("tests", "cargo test --workspace", || groups(&own, &[], &mut ran));
        // With the test binary: the release binary takes minutes to build, and the same code packs both.
        let rerun = format!("cargo xtask dist --binary {}", built.mcpjoin.display());
        let packed = steps.step("packages", &rerun, || dist::try_out(root, &built.mcpjoin));
        steps.step("interop", "cargo test -p interop", || {
            installed.context("the published servers are not installed (step `servers`)")?;
            let packages = packed.context("there are no packages to install (step `packages`)")?;
            let places = [("MCPJOIN_BIN", &*built.mcpjoin), ("MCPJOIN_PACKAGES", &*packages)];
            groups(&published, &places, &mut ran)
        });
        steps.step("conformance", "cargo xtask conformance --through-bridge", || {
            let client = &*built.conformance_client;
            let programs = conformance::Programs { mcpjoin: &built.mcpjoin, client };
            conformance::run(root, &conformance::Options::of_each_change(), programs)
        });
        steps.joined(compiling);
        steps.joined(documentation);
        if let Some(tallies) = steps.joined(examples) {
            steps.step("doc test counts", "cargo test --workspace --doc", || doc_tests(tallies, &mut ran));
        }
    }
    steps.step("counts", "cargo xtask test --update-counts", || hold_counts(root, options, &ran));

    println!("\n{:<44} {:>7} {:>7}", "group", "passed", "failed");
    for (name, tally) in ran.iter().filter(|(_, tally)| **tally != Tally::default()) {
        println!("{name:<44} {:>7} {:>7}", tally.passed, tally.failed);
    }
    let failing_steps = steps.summary();
    let passed: u64 = ran.values().map(|tally| tally.passed).sum();
    let failing_tests: u64 = ran.values().map(|tally| tally.failed).sum();
    // A step that failed without a failed test must not end in "0 failed".
    let failed = failing_tests.max(u64::try_from(failing_steps).unwrap_or(u64::MAX));
    println!("processor time: {:.0} s", steps::cpu_of_children()?);
    println!("\n{passed} passed, {failed} failed");
    if failing_steps > 0 {
        bail!("{failing_steps} steps failed");
    }
    Ok(())
}

fn format(root: &Path) -> Result<()> {
    succeed(&mut cargo(root, &["fmt", "--all", "--check"]))?;
    // Not with `cargo fmt --all`, which would download the dependencies of these workspaces.
    let mut files = Command::new("git");
    files.args(["ls-files", "bench/*.rs", "fuzz/*.rs", "interop/beside/*.rs", "interop/rmcp/*.rs"]);
    let files = steps::stdout(files.current_dir(root))?;
    let mut rustfmt = Command::new("rustfmt");
    succeed(rustfmt.args(["--check", "--edition", "2024"]).args(files.lines()).current_dir(root))
}

fn clippy(root: &Path) -> Result<()> {
    succeed(
        cargo(root, &["clippy", "--quiet", "--workspace", "--all-targets"]).args(["--", "-D", "warnings"]),
    )
}

/// Runs clippy on the workspaces of peers and of libFuzzer, which have dependencies of their own: for `release-check`.
pub(crate) fn clippy_detached(root: &Path) -> Result<()> {
    // In the target folder of the workspace, so that common dependencies are built once.
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| root.join("target").into());
    for manifest in steps::detached(root)?.iter().map(String::as_str).chain([fuzz::MANIFEST]) {
        let mut command = cargo(root, &["clippy", "--quiet", "--all-targets", "--manifest-path", manifest]);
        succeed(command.arg("--target-dir").arg(&target).args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// The features of the library; each is built alone with its dependencies. Without `tls-aws-lc-rs`, which compiles C for
/// minutes: `beside` builds it.
const FEATURES: [&str; 13] = [
    "",
    "client",
    "server",
    "json-schema",
    "macros",
    "child",
    "socket",
    "http-client,tls-ring",
    "http-server",
    "testing",
    "otel",
    "otel,client",
    "otel,server",
];

/// The other packages with features; each is built without them.
const WITH_FEATURES: [&str; 3] = ["mcpjoin-proto", "mcpjoin-gateway", "mcpjoin-cli"];

/// Builds the library with one feature at a time, as its users do, and other packages without features. Each must compile
/// without a warning.
fn features(root: &Path) -> Result<()> {
    let library = FEATURES.map(|features| ("mcpjoin", features));
    for (package, features) in library.into_iter().chain(WITH_FEATURES.map(|package| (package, ""))) {
        let options =
            ["clippy", "--quiet", "--package", package, "--no-default-features", "--features", features];
        succeed(background_cargo(root, &options).args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// Checks that each test for a requirement or a case was built: a test in a file that belongs to no module shows nothing.
fn compiled(root: &Path, built: &Built) -> Result<()> {
    let mut names = BTreeSet::new();
    for group in &built.groups {
        let listed = group.list()?;
        names.extend(listed.iter().map(|path| path.rsplit("::").next().unwrap_or(path).to_owned()));
    }
    let tests = requirements::tests(root)?;
    let cases = catalogue::tests(root)?;
    let required = tests.iter().filter(|test| !names.contains(&test.name));
    let required = required.map(|test| format!("{}: {} is never built", test.file.display(), test.name));
    let shown = cases.iter().filter(|name| !names.contains(*name));
    let shown = shown.map(|name| format!("{name}, which the catalogue names, is never built"));
    let lost: Vec<String> = required.chain(shown).collect();
    if !lost.is_empty() {
        bail!("{}", lost.join("\n    "));
    }
    let (all, required, shown) = (names.len(), tests.len(), cases.len());
    println!("    {all} tests, {required} of them named after a requirement, {shown} in the catalogue");
    Ok(())
}

fn groups(groups: &[&Group], environment: &[(&str, &Path)], ran: &mut BTreeMap<String, Tally>) -> Result<()> {
    if groups.is_empty() {
        bail!("there is no test to run");
    }
    let mut faults = Vec::new();
    for group in groups {
        let began = Instant::now();
        match group.run(environment) {
            Ok(tally) => {
                if tally.passed > 0 {
                    let took = began.elapsed().as_secs_f64();
                    println!("    {:<44} {:>5} passed {took:>7.1} s", group.name, tally.passed);
                }
                faults.extend(fault(&group.name, tally, &group.rerun));
                ran.insert(group.name.clone(), tally);
            }
            Err(error) => {
                faults.push(format!("{error:#}: {}", group.rerun));
                ran.insert(group.name.clone(), Tally { failed: 1, ..Tally::default() });
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n    ")) }
}

fn docs(root: &Path) -> Result<()> {
    let arguments = ["doc", "--quiet", "--workspace", "--no-deps", "--lib"];
    succeed(background_cargo(root, &arguments).env("RUSTDOCFLAGS", "-Dwarnings"))
}

/// Reports the results of the doc tests.
fn doc_tests(tallies: BTreeMap<String, Tally>, ran: &mut BTreeMap<String, Tally>) -> Result<()> {
    let mut faults = Vec::new();
    for (name, tally) in tallies {
        if tally.passed > 0 {
            println!("    {name:<44} {:>5} passed", tally.passed);
        }
        faults.extend(fault(&name, tally, "cargo test --workspace --doc"));
        ran.insert(name, tally);
    }
    if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n    ")) }
}

fn fault(name: &str, tally: Tally, rerun: &str) -> Option<String> {
    if tally.failed > 0 {
        return Some(format!("{name}: {} failed: {rerun}", tally.failed));
    }
    (tally.ignored > 0).then(|| format!("{name}: {} ignored, and no test may be", tally.ignored))
}

/// The checks that compile nothing of mcpjoin.
fn check_tables(steps: &mut Steps, root: &Path) {
    steps.step("format", "cargo fmt --all --check", || format(root));
    steps.step("tree", "git ls-files", || tree::check(root));
    steps.step("dependencies", "cargo xtask deny", || dependencies::run(root));
    steps.step("wire", "cargo xtask wire", || wire::run(root, false));
    steps.step("requirements", "cargo xtask requirements", || requirements::check(root));
    steps.step("catalogue", "cargo xtask requirements", || catalogue::check(root));
    steps.step("bounds", "cargo xtask bounds", || bounds::check(root));
}

fn hold_counts(root: &Path, options: &Options, ran: &BTreeMap<String, Tally>) -> Result<()> {
    let ran: Counts = ran.iter().map(|(name, tally)| (name.clone(), tally.passed + tally.failed)).collect();
    let kept = counts::read(root)?;
    if options.update_counts {
        counts::raise(root, &kept, &ran)?;
    }
    counts::check(&counts::read(root)?, &ran)
}

#[cfg(test)]
mod tests {
    use super::{Options, Tally, fault};

    #[test]
    fn options_are_read_and_others_refused() {
        assert_eq!(Options::parse(&[]).unwrap(), Options { update_counts: false, quick: false });
        assert!(Options::parse(&["--update-counts"]).unwrap().update_counts);
        assert!(Options::parse(&["--quick"]).unwrap().quick);
        assert!(Options::parse(&["--quick", "--update-counts"]).is_err());
        assert!(Options::parse(&["--fast"]).is_err());
    }

    #[test]
    fn failed_and_ignored_tests_are_faults() {
        assert_eq!(fault("a", Tally { passed: 3, ..Tally::default() }, "x"), None);
        assert!(fault("a", Tally { failed: 1, ..Tally::default() }, "x").is_some());
        assert!(fault("a", Tally { ignored: 1, ..Tally::default() }, "x").is_some());
    }
}
