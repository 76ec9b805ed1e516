//! Runs the fuzz targets: every `[[bin]]` that `fuzz/Cargo.toml` names, as `BIN --seconds N` in the folder `fuzz`.
//!
//! A target replays its corpus first, goes on with mutations for N seconds, prints what it did, and ends with success
//! unless an input broke something. They run on stable Rust.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::steps;

/// Every target for that many seconds; with 0 each replays its corpus and ends.
pub(crate) fn run(root: &Path, seconds: u64) -> Result<()> {
    let manifest = root.join("fuzz/Cargo.toml");
    let text =
        std::fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let targets = targets(&text)?;
    if targets.is_empty() {
        bail!("fuzz/Cargo.toml names no [[bin]]: there is nothing to run");
    }
    let mut failed = Vec::new();
    for target in &targets {
        let mut command = steps::cargo(
            &root.join("fuzz"),
            &["run", "--quiet", "--bin", target, "--", "--seconds", &seconds.to_string()],
        );
        if let Err(error) = steps::succeed(&mut command) {
            println!("    {target}: {error:#}");
            failed.push(target.as_str());
        }
    }
    if !failed.is_empty() {
        bail!("{} of {} fuzz targets failed: {}", failed.len(), targets.len(), failed.join(", "));
    }
    println!("    {} targets, {seconds} s each", targets.len());
    Ok(())
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
