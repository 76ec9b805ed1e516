//! The file of a Unix socket that a listener owns: created for its user alone, and removed if it is still the same file.
//!
//! A file without a listener is replaced, one with a listener is not. Another process could do the same between the check and
//! the replacement, so both happen under a lock on the folder, which every listener of this crate takes. A folder that
//! cannot be locked is used without.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags, fchmod, flock, open};
use rustix::io::Errno;
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::time::sleep;

use super::SocketErrorKind;

/// Read and write for the owner alone: a user who may write to the file may connect.
const OWNER_ONLY: u32 = 0o600;
/// The length of the queue of clients. The same as tokio's for a TCP port.
const BACKLOG: u32 = 1024;
/// How often, and after what time each, to retry a lock that another process holds.
const LOCK_RETRIES: (u32, Duration) = (20, Duration::from_millis(50));

/// The file. Dropping it removes the file if it is still the one that was created.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Listens on the path. No client can connect before the file has its mode.
    pub(super) async fn listen(path: &Path) -> Result<(Self, UnixListener), SocketErrorKind> {
        let absolute = std::path::absolute(path).map_err(SocketErrorKind::System)?;
        let _lock = lock_folder(&absolute).await;
        let socket = UnixSocket::new_stream().map_err(SocketErrorKind::System)?;
        // On Linux the file gets the mode of the socket. Elsewhere this fails, and the mode is set below.
        let _ = fchmod(&socket, Mode::from_raw_mode(0o600));
        match socket.bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                remove_stale(path).await?;
                socket.bind(path)
            }
            bound => bound,
        }
        .map_err(SocketErrorKind::System)?;
        let found = fs::symlink_metadata(path).map_err(SocketErrorKind::System)?;
        // From here on the file is removed if anything fails.
        let file = Self { path: absolute, device: found.dev(), inode: found.ino() };
        if found.mode() & 0o777 != OWNER_ONLY {
            fs::set_permissions(path, Permissions::from_mode(OWNER_ONLY)).map_err(SocketErrorKind::System)?;
        }
        // Until now every client was refused.
        let listener = socket.listen(BACKLOG).map_err(SocketErrorKind::System)?;
        Ok((file, listener))
    }
}

impl Drop for SocketFile {
    /// The listener is still open, so the inode number cannot have been reused.
    fn drop(&mut self) {
        let ours = |found: &fs::Metadata| found.dev() == self.device && found.ino() == self.inode;
        if fs::symlink_metadata(&self.path).is_ok_and(|found| ours(&found)) {
            // The next listener finds a file that cannot be removed to be stale.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the file if it is a socket without a listener.
async fn remove_stale(path: &Path) -> Result<(), SocketErrorKind> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketErrorKind::System(error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketErrorKind::NotASocket);
    }
    match UnixStream::connect(path).await {
        // A server accepts, or its queue is full.
        Ok(_) => return Err(SocketErrorKind::InUse),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(SocketErrorKind::InUse),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketErrorKind::System(error)),
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(SocketErrorKind::System(error)),
        _ => Ok(()),
    }
}

/// Locks the folder of this file against other listeners, as long as the result is held. `None` when that fails: another
/// process may hold the lock for ever, and not every folder can be locked.
async fn lock_folder(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(path.parent()?, flags, Mode::empty()).ok()?;
    for _ in 0..LOCK_RETRIES.0 {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(Errno::WOULDBLOCK | Errno::INTR) => sleep(LOCK_RETRIES.1).await,
            Err(_) => return None,
        }
    }
    None
}
