//! What was read of the configurations in one run: each file is read once, however many of its entries are used, and what
//! is wrong with it is told once.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Configuration;
use crate::failure::Failure;

/// The files in which an entry is looked for.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) configurations: Vec<Configuration>,
    /// Those that cannot be used.
    pub(super) broken: Vec<Broken>,
}

/// A file that nobody has chosen and that cannot be used.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) path: PathBuf,
    pub(super) failure: Failure,
    /// So many configurations stand before it.
    pub(super) before: usize,
}

/// What was read, shared by all clones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readings(Arc<Mutex<Vec<Reading>>>);

#[derive(Debug)]
struct Reading {
    /// Of `FILE#NAME`.
    file: Option<OsString>,
    files: Result<Arc<Files>, Failure>,
}

impl Readings {
    /// The files in which an entry is looked for when `file` is named with it; `read` reads them where that was not done
    /// before.
    pub(super) fn of(
        &self,
        file: Option<&OsStr>,
        read: impl FnOnce() -> Result<Files, Failure>,
    ) -> Result<Arc<Files>, Failure> {
        let known = self.lock().iter().find(|known| known.file.as_deref() == file).map(|it| it.files.clone());
        known.unwrap_or_else(|| {
            let files = read().map(Arc::new);
            self.lock().push(Reading { file: file.map(OsStr::to_owned), files: files.clone() });
            files
        })
    }

    /// How many servers are run at once, where a file that was read says that: the first of them counts.
    pub(crate) fn at_once(&self) -> Option<usize> {
        let readings = self.lock();
        let files = readings.iter().filter_map(|reading| reading.files.as_ref().ok());
        files.flat_map(|files| &files.configurations).find_map(|found| found.contents.at_once)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Reading>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
