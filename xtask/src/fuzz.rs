//! `cargo xtask fuzz`: runs libFuzzer on the fuzz targets, in the workspace `fuzz/libfuzzer`.
//!
//! A target runs its corpus, continues with mutations for some seconds, prints a summary, and fails if an input found a
//! fault. `--minimize` drops the inputs of a corpus that add no coverage. The tests of the package `mcpjoin-fuzz` replay the
//! corpora without libFuzzer.

use std::path::Path;
use std::slice;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Result, bail};

use crate::steps;

/// The workspace of the program that contains libFuzzer and the targets. It runs on stable Rust.
pub(crate) const MANIFEST: &str = "fuzz/libfuzzer/Cargo.toml";

/// Runs every target for this many seconds.
pub(crate) fn run(root: &Path, seconds: u64) -> Result<()> {
    let targets = each(root, &["--seconds", &seconds.to_string()])?;
    println!("    {targets} targets, {seconds} s each");
    Ok(())
}

/// Adds the findings of earlier runs to each corpus, and drops the inputs that add no coverage.
pub(crate) fn minimize(root: &Path) -> Result<()> {
    each(root, &["--minimize"]).map(drop)
}

/// Runs every target with these arguments, and returns how many there are.
fn each(root: &Path, arguments: &[&str]) -> Result<usize> {
    let mut targets = Vec::new();
    for entry in std::fs::read_dir(root.join("fuzz/corpus"))? {
        let path = entry?.path();
        targets.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
    }
    targets.sort();
    // In its folder, because its flags stand in `.cargo/config.toml` there. One build for all targets, so that the threads
    // below do not wait for each other's builds.
    let folder = root.join("fuzz/libfuzzer");
    steps::succeed(&mut steps::cargo(&folder, &["build", "--quiet"]))?;
    let waiting = Mutex::new(targets.iter());
    let failed = Mutex::new(Vec::new());
    // Each target has one thread and its own corpus: as many run concurrently as there are processors.
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(target) = next(&waiting) {
                    let words = [&["run", "--quiet", "--", target], arguments].concat();
                    if let Err(error) = steps::succeed(&mut steps::cargo(&folder, &words)) {
                        println!("    {target}: {error:#}");
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(target.as_str());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        bail!("{} of {} fuzz targets failed: {}", failed.len(), targets.len(), failed.join(", "));
    }
    Ok(targets.len())
}

/// The next target that no thread has taken.
fn next<'a>(waiting: &Mutex<slice::Iter<'a, String>>) -> Option<&'a String> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).next()
}
