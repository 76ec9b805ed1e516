//! A folder of one test.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A path in the folder of temporary files that no other test has. Nothing is there until the test writes. What it has written
/// is removed at the end.
pub struct Folder {
    path: PathBuf,
    _parent: TempDir,
}

impl Folder {
    #[allow(clippy::new_without_default, reason = "it creates a folder")]
    pub fn new() -> Self {
        let parent = tempfile::Builder::new().prefix("mcpjoin-").tempdir().unwrap();
        Self { path: parent.path().join("folder"), _parent: parent }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}
