//! Compiles the workspace with the oldest Rust that it supports, which is the `rust-version` of the root manifest. Clippy's
//! `incompatible_msrv` sees our own calls of the standard library, and the check of `dependencies` what packages say of
//! themselves; this sees all. Part of `release-check`, because it compiles every package for a second compiler.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::steps::succeed;

/// Fails if the compiler cannot be installed.
pub(crate) fn check(root: &Path) -> Result<()> {
    let version = version(root)?;
    install(&version)?;
    compile(root, &version)
}

/// The oldest Rust of the workspace, for example `1.88`.
pub(crate) fn version(root: &Path) -> Result<String> {
    let manifest: toml::Table = std::fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let version = manifest["workspace"]["package"]["rust-version"].as_str().context("a rust-version")?;
    Ok(version.to_owned())
}

/// Does nothing if it is installed already, also when there is no network.
fn install(version: &str) -> Result<()> {
    let mut probe = rustup(&["run", version, "cargo", "--version"]);
    if probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let output = rustup(&["toolchain", "install", version, "--profile", "minimal", "--no-self-update"])
        .output()
        .context("rustup does not run")?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("rustup: {}", stderr.lines().last().unwrap_or_default());
    }
    Ok(())
}

/// In a target folder of its own: the other compiler shares nothing with the first.
fn compile(root: &Path, version: &str) -> Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let mut command = rustup(&["run", version, "cargo", "check", "--quiet", "--locked", "--workspace"]);
    command.current_dir(root);
    // The cargo that runs this chore sets these variables; the other version must not inherit them.
    for variable in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTDOC"] {
        command.env_remove(variable);
    }
    succeed(command.env("CARGO_TARGET_DIR", target.join("oldest-rust")))
}

fn rustup(arguments: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(arguments).stdin(Stdio::null()).env_remove("RUSTUP_TOOLCHAIN");
    command
}
