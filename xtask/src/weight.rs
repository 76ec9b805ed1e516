//! `cargo xtask weight`: compares the build costs of mcpjoin with those of rmcp for a user of the library: the number of
//! crates, the processor time of a clean release build and the size of a small server (`bench/weight`).
//!
//! Needs crates.io. Both are built one after the other on the same machine, each into an empty folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::steps::{cargo, cpu_of_children, stdout, succeed};

/// The workspace of the two servers.
const MANIFEST: &str = "bench/weight/Cargo.toml";

/// The build costs of one server.
struct Weight {
    crates: usize,
    cpu_seconds: f64,
    seconds: f64,
    bytes: u64,
}

/// Measures both, prints a table, and fails if mcpjoin costs more in any line.
pub(crate) fn run(root: &Path) -> Result<()> {
    let ours = weigh(root, "weight-mcpjoin")?;
    let rmcp = weigh(root, "weight-rmcp")?;
    println!("{:<28} {:>10} {:>10} {:>7}", "", "mcpjoin", "rmcp", "ratio");
    let rows = [
        ("crates", ours.crates as f64, rmcp.crates as f64, 0),
        ("CPU of a clean build, s", ours.cpu_seconds, rmcp.cpu_seconds, 1),
        ("clean build, s", ours.seconds, rmcp.seconds, 1),
        ("size of the server, KiB", ours.bytes as f64 / 1024.0, rmcp.bytes as f64 / 1024.0, 0),
    ];
    let mut heavier = Vec::new();
    for (name, ours, theirs, digits) in rows {
        println!("{name:<28} {ours:>10.digits$} {theirs:>10.digits$} {:>7.2}", ours / theirs);
        // The wall-clock time depends on other load on the machine.
        if ours > theirs && !name.starts_with("clean build") {
            heavier.push(name);
        }
    }
    if !heavier.is_empty() {
        bail!("mcpjoin is the heavier one: {}", heavier.join(", "));
    }
    Ok(())
}

fn weigh(root: &Path, package: &str) -> Result<Weight> {
    let arguments = ["tree", "--manifest-path", MANIFEST, "--locked", "-p", package, "-e", "normal,build"];
    let tree = stdout(cargo(root, &arguments).args(["--prefix", "none", "--format", "{p}"]))?;
    // `cargo tree` marks a repeated crate with `(*)`.
    let crates: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(" (").next()).collect();
    let target = root.join("target/weight").join(package);
    if target.exists() {
        fs::remove_dir_all(&target).with_context(|| format!("cannot empty {}", target.display()))?;
    }
    let (began, cpu) = (Instant::now(), cpu_of_children()?);
    let options = ["build", "--release", "--quiet", "--locked", "--manifest-path", MANIFEST, "-p", package];
    succeed(cargo(root, &options).arg("--target-dir").arg(&target))?;
    let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), cpu_of_children()? - cpu);
    let bytes = fs::metadata(target.join("release").join(package))?.len();
    Ok(Weight { crates: crates.len(), cpu_seconds, seconds, bytes })
}
