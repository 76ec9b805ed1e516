//! The files of the repository: finds those of one kind, and checks which ones a commit may contain (no build results, no
//! installed packages, no logs, no very large files).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps;

/// The largest file in the repository, in bytes. The largest one today is the fuzz corpus of `session`, with 1.6 MB.
const MAX_FILE_BYTES: u64 = 2 * 1024 * 1024;

/// Adds the files with this extension in a folder and below it.
pub(crate) fn collect(folder: &Path, extension: &str, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, extension, files)?;
        } else if path.extension().is_some_and(|known| known == extension) {
            files.push(path);
        }
    }
    Ok(())
}

/// Checks every file that git tracks.
pub(crate) fn check(root: &Path) -> Result<()> {
    let listing = steps::stdout(Command::new("git").args(["ls-files", "-z"]).current_dir(root))?;
    let mut faults = Vec::new();
    let mut files = 0;
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        files += 1;
        let bytes = std::fs::symlink_metadata(root.join(path)).map_or(0, |metadata| metadata.len());
        if let Some(why) = fault(path, bytes) {
            faults.push(format!("{path}: {why}"));
        }
    }
    if files == 0 {
        bail!("git lists no file in {}", root.display());
    }
    if !faults.is_empty() {
        bail!("in the repository and should not be:\n    {}", faults.join("\n    "));
    }
    println!("    {files} files");
    Ok(())
}

fn fault(path: &str, bytes: u64) -> Option<String> {
    let installed = ["node_modules", "venv", "target", "__pycache__", ".venv"];
    // A module may be called `target`; a build folder is never among the sources.
    let outside_sources = path.split('/').take_while(|part| *part != "src");
    if let Some(folder) = outside_sources.into_iter().find(|part| installed.contains(part)) {
        return Some(format!("`{folder}` is made, not kept"));
    }
    if [".log", ".orig", ".rej", ".pyc", ".profraw"].iter().any(|end| path.ends_with(end)) {
        return Some("is left over from a run".to_owned());
    }
    (bytes > MAX_FILE_BYTES).then(|| format!("{bytes} bytes, more than {MAX_FILE_BYTES}"))
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn what_is_made_is_not_kept() {
        assert!(fault("interop/node_modules/a/b.js", 1).is_some());
        assert!(fault("interop/venv/bin/python", 1).is_some());
        assert!(fault("build.log", 1).is_some());
        assert!(fault("crates/proto/src/lib.rs", 3 << 20).is_some());
        assert!(fault("fuzz/libfuzzer/target/debug/x", 1).is_some());
        assert_eq!(fault("crates/proto/src/targets.rs", 1), None);
        assert_eq!(fault("crates/cli/src/target/tests.rs", 1), None);
    }
}
