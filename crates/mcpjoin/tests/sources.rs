//! What must not stand in the sources, where no behaviour can show it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The keeper of the children has a thread of its own, and one system call that, failing, leaves it nothing to wait for.
const ITS_OWN_THREAD: &str = "mcpjoin/src/process/keeper.rs";

/// A thread that sleeps is a runtime that stands still, and a start-up that is looked at again and again is late by
/// half the pause.
#[test]
fn f36_nothing_sleeps_on_its_thread() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for folder in ["proto/src", "mcpjoin/src", "cli/src"] {
        sources(&crates.join(folder), &mut files);
    }
    assert!(files.len() > 100, "{} files", files.len());
    for path in files.into_iter().filter(|path| !path.ends_with(ITS_OWN_THREAD)) {
        let text = std::fs::read_to_string(&path).unwrap();
        let sleeps = text.lines().any(|line| line.contains("thread::sleep") || line.contains("park_timeout"));
        assert!(!sleeps, "{} sleeps on its thread", path.display());
    }
}
