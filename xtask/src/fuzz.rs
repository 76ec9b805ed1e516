//! Runs the fuzz targets: every `[[bin]]` that `fuzz/Cargo.toml` names, in the folder `fuzz`.
//!
//! With `--seconds N` a target runs its corpus, continues with mutations for N seconds, prints a summary, and fails if an
//! input found a fault. With `--minimize` it drops the inputs of its corpus that add no coverage. The targets run on
//! stable Rust.

use std::path::Path;
use std::slice;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::steps;

/// Runs every target for this many seconds; with 0 each runs its corpus and ends.
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
    let manifest = root.join("fuzz/Cargo.toml");
    let text =
        std::fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let targets = targets(&text)?;
    if targets.is_empty() {
        bail!("fuzz/Cargo.toml names no [[bin]]: there is nothing to run");
    }
    // One build for all targets, so that the threads below do not wait for each other's builds.
    build(root)?;
    let folder = root.join("fuzz");
    let waiting = Mutex::new(targets.iter());
    let failed = Mutex::new(Vec::new());
    // Each target has one thread and its own corpus: as many run concurrently as there are processors.
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(target) = next(&waiting) {
                    let words = [&["run", "--quiet", "--bin", target, "--"], arguments].concat();
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

/// Builds all targets.
pub(crate) fn build(root: &Path) -> Result<()> {
    steps::succeed(&mut steps::cargo(&root.join("fuzz"), &["build", "--quiet", "--bins"]))
}

/// The next target that no thread has taken.
fn next<'a>(waiting: &Mutex<slice::Iter<'a, String>>) -> Option<&'a String> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).next()
}

fn targets(manifest: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context("fuzz/Cargo.toml")?;
    let bins = manifest.get("bin").and_then(toml::Value::as_array).map_or(&[][..], Vec::as_slice);
    bins.iter()
        .map(|bin| {
            bin.get("name").and_then(toml::Value::as_str).map(str::to_owned).context("a [[bin]] has no name")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::targets;

    #[test]
    fn the_targets_are_the_bins() {
        let manifest = "[package]\nname = \"fuzz\"\n[[bin]]\nname = \"decode\"\n[[bin]]\nname = \"lines\"\n";
        assert_eq!(targets(manifest).unwrap(), ["decode", "lines"]);
        assert!(targets("[package]\nname = \"fuzz\"\n").unwrap().is_empty());
        assert!(targets("[[bin]]\npath = \"a.rs\"\n").is_err());
    }
}
