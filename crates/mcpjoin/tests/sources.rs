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

/// The keeper of the children has a thread of its own, the guard a process, and whoever waits for the lock of a folder of
/// certificates a thread for what blocks: where the system gives them nothing to wait for, they look again a little later.
/// The list of trust is locked where the command line waits for a person anyway, and the second signal has a thread.
const THEIR_OWN: [&str; 5] = [
    "mcpjoin/src/process/keeper.rs",
    "mcpjoin/src/process/guard.rs",
    "orchestra/src/certs/directory.rs",
    "cli/src/config/trust.rs",
    "cli/src/connect/signals.rs",
];

/// The dates of tasks, which the specification wants as text, those between which a certificate is good, the clocks that the
/// doctor looks at, until when a token or a secret is good, which is kept for longer than any process runs, and the age of a
/// state that another replica has sealed.
const DATES: [&str; 6] = [
    "mcpjoin/src/auth/",
    "diagnostics/src/doctor/http/clock.rs",
    "mcpjoin/src/server/seal.rs",
    "mcpjoin/src/server/task/time.rs",
    "quic/src/endpoint/tls/time.rs",
    "diagnostics/src/doctor/environment/world.rs",
];

/// Every source file of these folders, with its text.
fn all(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for folder in folders {
        sources(&crates.join(folder), &mut files);
    }
    assert!(files.len() > 100, "{} files", files.len());
    files.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// Nobody uses one of these words but these files and folders.
fn only(words: &[&str], folders: &[&str], allowed: &[&str]) {
    for (path, text) in all(folders) {
        let found = words.iter().find(|word| text.contains(**word));
        let text_of_path = path.to_string_lossy();
        let allowed = allowed.iter().any(|allowed| match allowed.ends_with('/') {
            true => text_of_path.contains(allowed),
            false => path.ends_with(allowed),
        });
        assert!(found.is_none() || allowed, "{found:?} stands in {}", path.display());
    }
}

/// A thread that sleeps is a runtime that stands still, and a start-up that is looked at again and again is late by
/// half the pause.
#[test]
fn f36_nothing_sleeps_on_its_thread() {
    only(&["thread::sleep", "park_timeout"], &["proto/src", "mcpjoin/src", "cli/src"], &THEIR_OWN);
}

/// A clock that somebody sets, or that has gone on while the machine slept, ends no call: deadlines are kept by clocks
/// that nobody sets.
#[test]
fn e99_no_deadline_is_kept_by_a_clock_that_can_be_set() {
    only(&["SystemTime"], &["proto/src", "mcpjoin/src"], &DATES);
}
