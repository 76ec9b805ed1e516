//! One process at a time: the file `.lock` in the folder, held while something is made there.
//!
//! Orchestra's own programs know of no lock; against them the order of writing helps, see `directory`.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use mcpjoin_quic::endpoint::{CertificateError, CertificateErrorKind};

/// How long another process may hold it, in seconds: making everything takes a few milliseconds.
const MOST: u64 = 10;
/// How long to wait before it is tried again.
const AGAIN: Duration = Duration::from_millis(10);

/// The lock, until it is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Lock(#[allow(dead_code, reason = "held open")] File);

impl Lock {
    pub(super) fn take(directory: &Path) -> Result<Self, CertificateError> {
        let path = directory.join(".lock");
        let until = Instant::now() + Duration::from_secs(MOST);
        loop {
            match held(&path) {
                Ok(Some(file)) => return Ok(Self(file)),
                Ok(None) if Instant::now() >= until => {
                    return Err(CertificateError::at(directory, CertificateErrorKind::Locked(MOST)));
                }
                Ok(None) => thread::sleep(AGAIN),
                Err(error) => return Err(CertificateError::io(&path, error)),
            }
        }
    }
}

/// The file, locked; `None` when somebody else has locked it.
#[cfg(unix)]
fn held(path: &Path) -> std::io::Result<Option<File>> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::{FlockOperation, flock};
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The file, opened by nobody else at the same time.
#[cfg(windows)]
fn held(path: &Path) -> std::io::Result<Option<File>> {
    use std::os::windows::fs::OpenOptionsExt as _;
    /// `ERROR_SHARING_VIOLATION`.
    const SHARED: i32 = 32;
    let mut options = OpenOptions::new();
    match options.read(true).write(true).create(true).truncate(false).share_mode(0).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(SHARED) => Ok(None),
        Err(error) => Err(error),
    }
}
