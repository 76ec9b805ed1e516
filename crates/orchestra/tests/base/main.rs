//! The base of Orchestra's bridge and host: frames, values, certificates and connections. `golden.txt` has frames that
//! Orchestra's own programs have written.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "the seed of a run is told, so that it can be made again")]

#[cfg(unix)]
mod bad_certificates;
#[cfg(unix)]
mod certs;
#[cfg(unix)]
mod endpoint;
mod frames;
#[cfg(unix)]
#[cfg(unix)]
mod values;

use mcpjoin_test_support::lossy;
use mcpjoin_test_support::ports;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit of each test, so that a hang is a failure.
const DEADLINE: Duration = Duration::from_secs(60);

/// Runs a test on its own runtime, within the time limit.
fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outcome =
        runtime.block_on(async { tokio::time::timeout(DEADLINE, test).await.expect("the test hangs") });
    runtime.shutdown_background();
    outcome
}

/// A test directory, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcpjoin-orchestra-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
