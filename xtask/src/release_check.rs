//! `cargo xtask release-check`: the checks that take too long for every change and run before a release.
//!
//! It needs the tools of `test` and `bench`, valgrind, the oldest supported Rust, and about four hours.

use std::path::Path;

use anyhow::{Result, bail};

use crate::steps::{Steps, cargo, succeed};
use crate::{bench, beside, conformance, dist, fuzz, instructions, interop, oldest_rust, test, weight};

/// How long each fuzz target runs, in seconds: more than an hour for all of them on two processors.
const FUZZ_SECONDS: u64 = 600;
/// How long the servers behind a gateway are killed one after the other.
const GATEWAY_SECONDS: &str = "300";
/// How long a bridge and a server are loaded, for what they hold not to grow.
const SOAK_SECONDS: &str = "3600";
/// How often the tests that start, kill and restart processes run, one after the other.
const REPETITIONS: u32 = 20;
/// These groups: child processes, reconnections, and the gateway's schedules.
const REPEATED: [(&str, &str); 4] = [
    ("mcpjoin", "child_cycles"),
    ("mcpjoin", "http_both"),
    ("mcpjoin-gateway", "gateway"),
    ("mcpjoin-orchestra", "bridge"),
];

/// Runs every step, and fails if one of them failed.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut steps = Steps::default();
    steps.step("oldest Rust", "cargo +VERSION check --workspace", || oldest_rust::check(root));
    steps.step("clippy", "cargo clippy --manifest-path bench/Cargo.toml", || test::clippy_detached(root));
    steps.step("beside", "cargo xtask beside", || beside::run(root));
    steps.step("jobs", "cargo run -p check, in bench/jobs", || jobs(root));
    steps.step("weight", "cargo xtask weight", || weight::run(root));
    steps.step("dist", "cargo xtask dist", || dist::run(root).map(drop));
    steps.step("repeated", "cargo test --test child_cycles, and others, 20 times", || repeated(root));
    steps.step("soak", "MCPJOIN_SOAK_SECONDS=3600 cargo test -p interop --test soak", || soak(root));
    steps.step("instructions", "cargo xtask instructions", || instructions::run(root, false));
    steps.step("peers", "cargo xtask bench", || bench::run(root, &bench::Options::parse(&[])?));
    steps.step("fuzz", &format!("cargo xtask fuzz {FUZZ_SECONDS}"), || fuzz::run(root, FUZZ_SECONDS));
    steps.step("between", "cargo xtask conformance --through-nginx --through-gateway", || {
        conformance::build_and_run(root, &conformance::Options::of_a_release())
    });
    steps.step("gateway", "MCPJOIN_GATEWAY_SECONDS=300 cargo test -p interop --test gateway", || {
        interop::install(root)?;
        gateway(root)
    });
    steps.step("test", "cargo xtask test", || test::run(root, &test::Options::parse(&[])?));
    match steps.summary() {
        0 => Ok(()),
        failed => bail!("{failed} steps failed"),
    }
}

/// Runs the six jobs with mcpjoin and with rmcp, and compares the printed lines with the table.
fn jobs(root: &Path) -> Result<()> {
    let manifest = ["--manifest-path", "bench/jobs/Cargo.toml"];
    let mut command = cargo(root, &["run", "--quiet", "--locked", "--package", "check"]);
    succeed(command.args(manifest).args(["--target-dir", "bench/jobs/target"]))
}

/// Kills the servers behind a gateway for minutes, and runs its clients that start a process for each request.
fn gateway(root: &Path) -> Result<()> {
    let mut outages =
        cargo(root, &["test", "--quiet", "--package", "interop", "--test", "gateway", "outages"]);
    succeed(outages.env("MCPJOIN_GATEWAY_SECONDS", GATEWAY_SECONDS))?;
    succeed(&mut cargo(root, &["test", "--quiet", "--package", "interop", "--test", "gateway_commands"]))
}

/// Loads a bridge and a server for an hour.
fn soak(root: &Path) -> Result<()> {
    let mut command = cargo(root, &["test", "--quiet", "--package", "interop", "--test", "soak"]);
    succeed(command.env("MCPJOIN_SOAK_SECONDS", SOAK_SECONDS))
}

fn repeated(root: &Path) -> Result<()> {
    for _ in 0..REPETITIONS {
        for (package, test) in REPEATED {
            let options = ["test", "--quiet", "--package", package, "--test", test];
            succeed(&mut cargo(root, &options))?;
        }
    }
    Ok(())
}
