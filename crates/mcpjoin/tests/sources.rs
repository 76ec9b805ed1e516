//! Checks of the source text for calls whose harm no test of behaviour can show.

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

/// These files may sleep on a thread. The keeper of the children has its own thread, the guard its own process, and the
/// wait for the lock of a certificate folder a blocking thread: the system gives them no event to wait for, so they poll.
/// The trust list is locked where the command line waits for a user anyway, and the second signal has a thread.
const THEIR_OWN: [&str; 5] = [
    "mcpjoin/src/process/supervisor.rs",
    "mcpjoin/src/process/guard.rs",
    "orchestra/src/certs/directory.rs",
    "cli/src/config/trust.rs",
    "cli/src/connect/signals.rs",
];

/// These files may use calendar time: for the dates of tasks, which the specification requires as text, the validity of
/// certificates, the clock checks of the doctor, the expiry of tokens and secrets, which is stored for longer than any
/// process runs, and the age of a state that another replica has sealed.
const DATES: [&str; 6] = [
    "auth/src/",
    "diagnostics/src/doctor/http/exchanges.rs",
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

/// Checks that only these files and folders use one of these words.
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

/// A thread that sleeps blocks its runtime. A start-up check that polls is late by half the pause on average.
#[test]
fn f36_nothing_sleeps_on_its_thread() {
    only(
        &["thread::sleep", "park_timeout"],
        &["proto/src", "mcpjoin/src", "auth/src", "cli/src"],
        &THEIR_OWN,
    );
}

/// A change of the system clock, or a clock that goes on while the machine sleeps, must not end a call: deadlines use
/// monotonic clocks.
#[test]
fn e99_no_deadline_is_kept_by_a_clock_that_can_be_set() {
    only(&["SystemTime"], &["proto/src", "mcpjoin/src", "auth/src"], &DATES);
}
