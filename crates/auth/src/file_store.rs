//! A token store in files: one file for each server, in a folder of the user.
//!
//! Used by the command line. A file is named by the SHA-256 of the server's URL, is readable for its owner only whatever the
//! umask is (CVE-2026-77268), and is replaced atomically. Nothing is read from or written to what another user could have put
//! there: a symbolic link, another user's file or folder, a folder that others may write to. A lock file lets one process at a
//! time refresh (adversarial cases 139 and 180). All operations block, so they run on threads for blocking work.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};

use super::pkce::random;
use super::secret::Secret;
use super::store::{StoreError, StoreLock, TokenStore};
use super::stored_login::server_of;

/// The longest login in bytes.
const MAX_LOGIN_BYTES: u64 = 1024 * 1024;
/// About how long a login is, in bytes: a store that cannot write that much cannot store any.
const TYPICAL_LOGIN_BYTES: usize = 4096;
/// The interval between attempts to lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(25);
/// How long attempts to lock go on: twice the time that one request may take.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);
/// How many files of the folder are read at most.
const MAX_FILES: usize = 10_000;

/// The logins in a [`FileStore`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct KeptServers {
    /// The URLs of their servers, in order.
    pub servers: Vec<String>,
    /// The error for each file that could not be read: it may be a login, and is left as it is.
    pub unread: Vec<StoreError>,
}

/// Stores logins in a folder, one file for each server.
///
/// The folder is created with the first login, for its owner only. Several processes may share it. Each operation reads or writes
/// one file and keeps nothing open.
#[derive(Clone, Debug)]
pub struct FileStore {
    folder: PathBuf,
}

impl FileStore {
    /// A store in that folder. Nothing is read or created yet.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Lists the logins. A file that cannot be read, or is not safe, does not hide the others.
    ///
    /// # Errors
    /// When the folder cannot be read, or is not safe.
    pub async fn servers(&self) -> Result<KeptServers, StoreError> {
        let this = self.clone();
        blocking(move || this.all()).await
    }

    fn all(&self) -> Result<KeptServers, StoreError> {
        let mut found = KeptServers::default();
        if !self.is_there()? {
            return Ok(found);
        }
        let entries = fs::read_dir(&self.folder).map_err(|error| system(&self.folder, &error))?;
        for (at, entry) in entries.enumerate() {
            if at == MAX_FILES {
                let what = format!(
                    "{} has more than {MAX_FILES} files: the rest are ignored",
                    self.folder.display()
                );
                found.unread.push(StoreError::Other(what));
                break;
            }
            let path = entry.map_err(|error| system(&self.folder, &error))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match read(&path) {
                Ok(Some(text)) => found.servers.extend(server_of(&text)),
                // Removed meanwhile.
                Ok(None) => {}
                Err(error) => found.unread.push(error),
            }
        }
        found.servers.sort();
        Ok(found)
    }

    /// Whether the folder exists and is safe.
    fn is_there(&self) -> Result<bool, StoreError> {
        match fs::symlink_metadata(&self.folder) {
            Ok(found) if found.is_dir() => {
                safety::check(&self.folder, &found, safety::WRITABLE).map(|()| true)
            }
            Ok(_) => Err(unsafe_place(&self.folder, "it is not a folder (symbolic links are not followed)")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(system(&self.folder, &error)),
        }
    }

    fn make(&self) -> Result<(), StoreError> {
        if self.is_there()? {
            return Ok(());
        }
        if let Some(parent) = self.folder.parent() {
            fs::create_dir_all(parent).map_err(|error| system(parent, &error))?;
        }
        match safety::make(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(system(&self.folder, &error)),
            // Created by us, or by another process a moment ago.
            _ => self.is_there().map(drop),
        }
    }

    fn file(&self, server: &str, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", name_of(server)))
    }

    fn erase(&self, server: &str) -> Result<bool, StoreError> {
        if !self.is_there()? {
            return Ok(false);
        }
        let mut was_there = removed(&self.file(server, "json"))?;
        // A temporary file of a process that was killed while it wrote contains a login, too.
        let before = format!("{}.", name_of(server));
        let entries = fs::read_dir(&self.folder).map_err(|error| system(&self.folder, &error))?;
        for entry in entries.take(MAX_FILES) {
            let entry = entry.map_err(|error| system(&self.folder, &error))?;
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(&before) && name.ends_with(".new")) {
                was_there |= removed(&entry.path())?;
            }
        }
        Ok(was_there)
    }

    fn write(&self, server: &str, text: &Secret) -> Result<(), StoreError> {
        if text.expose().len() as u64 > MAX_LOGIN_BYTES {
            return Err(StoreError::Other(format!("a login is longer than {MAX_LOGIN_BYTES} bytes")));
        }
        let (path, new) = self.places(server)?;
        let written = written(&new, text.expose().as_bytes()).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| {
            let _ = fs::remove_file(&new);
            system(&path, &error)
        })
    }

    /// The path of a login, and of the temporary file that is written first. The folder exists, and both paths are safe.
    fn places(&self, server: &str) -> Result<(PathBuf, PathBuf), StoreError> {
        self.make()?;
        let path = self.file(server, "json");
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.is_file() => {
                return Err(unsafe_place(&path, "it is not a file (symbolic links are not followed)"));
            }
            Ok(found) => safety::check(&path, &found, 0)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(system(&path, &error)),
        }
        let name =
            random().ok_or_else(|| StoreError::Other("the system provides no random numbers".into()))?;
        let new = self.file(server, &format!("{name}.new"));
        Ok((path, new))
    }

    /// Does everything but the final rename, to find out whether a login could be stored.
    fn try_out(&self, server: &str) -> Result<(), StoreError> {
        let (_, new) = self.places(server)?;
        let written = written(&new, &[b' '; TYPICAL_LOGIN_BYTES]);
        let removed = match fs::remove_file(&new) {
            Err(error) if written.is_ok() => Err(error),
            _ => Ok(()),
        };
        written.and(removed).map_err(|error| system(&self.folder, &error))?;
        let lock = self.file(server, "lock");
        // Another process that holds the lock now will have released it when it is needed.
        safety::lock(&lock).map(drop).map_err(|error| system(&lock, &error))
    }
}

impl TokenStore for FileStore {
    async fn load(&self, server: &str) -> Result<Option<Secret>, StoreError> {
        let (this, path) = (self.clone(), self.file(server, "json"));
        blocking(move || if this.is_there()? { read(&path) } else { Ok(None) }).await
    }

    async fn save(&self, server: &str, text: Secret) -> Result<(), StoreError> {
        let (this, server) = (self.clone(), server.to_owned());
        blocking(move || this.write(&server, &text)).await
    }

    async fn remove(&self, server: &str) -> Result<bool, StoreError> {
        let (this, server) = (self.clone(), server.to_owned());
        blocking(move || this.erase(&server)).await
    }

    async fn check(&self, server: &str) -> Result<(), StoreError> {
        let (this, server) = (self.clone(), server.to_owned());
        blocking(move || this.try_out(&server)).await
    }

    async fn lock(&self, server: &str) -> Result<StoreLock, StoreError> {
        let (this, path) = (self.clone(), self.file(server, "lock"));
        let began = Instant::now();
        loop {
            let (this, path) = (this.clone(), path.clone());
            let place = path.clone();
            let held = blocking(move || {
                this.make()?;
                safety::lock(&path).map_err(|error| system(&path, &error))
            });
            if let Some(held) = held.await? {
                return Ok(StoreLock::new(held));
            }
            if began.elapsed() >= LOCK_TIMEOUT {
                return Err(StoreError::Busy { place: place.display().to_string() });
            }
            sleep(LOCK_RETRY_INTERVAL).await;
        }
    }
}

/// The name of a server's files up to the dot.
fn name_of(server: &str) -> String {
    Sha256::digest(server.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Removes a file; returns whether it existed.
fn removed(path: &Path) -> Result<bool, StoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(system(path, &error)),
    }
}

/// Writes a new file and syncs it to the disk.
fn written(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = safety::create(path)?;
    file.write_all(bytes)?;
    // Before the rename: a crash must not leave an empty file in place of a login.
    file.sync_all()
}

/// Reads a file that no other user can have written or can read.
fn read(path: &Path) -> Result<Option<Secret>, StoreError> {
    let file = match safety::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if safety::is_link(&error) => {
            return Err(unsafe_place(path, "it is a symbolic link; these are not followed"));
        }
        Err(error) => return Err(system(path, &error)),
    };
    let found = file.metadata().map_err(|error| system(path, &error))?;
    if !found.is_file() {
        return Err(unsafe_place(path, "it is not a file"));
    }
    safety::check(path, &found, safety::ANYTHING)?;
    let mut text = String::new();
    let read = file.take(MAX_LOGIN_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| system(path, &error))?;
    if text.len() as u64 > MAX_LOGIN_BYTES {
        return Err(StoreError::Other(format!("{}: longer than {MAX_LOGIN_BYTES} bytes", path.display())));
    }
    Ok(Some(Secret::new(text)))
}

fn system(place: &Path, error: &io::Error) -> StoreError {
    StoreError::System { place: place.display().to_string(), what: error.to_string() }
}

fn unsafe_place(place: &Path, what: &str) -> StoreError {
    StoreError::Unsafe { place: place.display().to_string(), what: what.into() }
}

/// Runs blocking work on a thread for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work() };
    let done = runtime.spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(StoreError::Other("a file operation was aborted".into())))
}

/// Ownership and permissions on this system.
#[cfg(unix)]
mod safety {
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt};
    use std::path::Path;

    use rustix::fs::{FlockOperation, OFlags, flock};
    use rustix::io::Errno;

    use super::{StoreError, unsafe_place};

    /// The permissions that others must not have: to write, or any.
    pub(super) const WRITABLE: u32 = 0o022;
    pub(super) const ANYTHING: u32 = 0o077;

    /// Checks that a file is ours, and that others lack these permissions.
    pub(super) fn check(path: &Path, found: &Metadata, others: u32) -> Result<(), StoreError> {
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(unsafe_place(path, "it belongs to another user"));
        }
        if found.mode() & others != 0 {
            let (wrong, right) = match others {
                WRITABLE => ("other users can write to it", "chmod 700"),
                _ => ("other users can read it", "chmod 600"),
            };
            return Err(unsafe_place(path, &format!("{wrong} (`{right}` it, or delete it)")));
        }
        Ok(())
    }

    pub(super) fn make(folder: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(folder)
    }

    pub(super) fn create(path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).custom_flags(no_follow()).open(path)?;
        // The umask can only have removed permissions.
        file.set_permissions(PermissionsExt::from_mode(0o600))?;
        Ok(file)
    }

    pub(super) fn open(path: &Path) -> io::Result<File> {
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        OpenOptions::new().read(true).custom_flags(no_follow() | nonblocking).open(path)
    }

    pub(super) fn is_link(error: &io::Error) -> bool {
        error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
    }

    /// Locks a file for as long as it is open; `None` when another process has locked it.
    pub(super) fn lock(path: &Path) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.mode(0o600).custom_flags(no_follow()).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    const fn no_follow() -> i32 {
        OFlags::NOFOLLOW.bits().cast_signed()
    }
}

/// The folders of a user are private by default, and files inherit the permissions of their folder.
#[cfg(not(unix))]
mod safety {
    use std::fs::{self, File, Metadata, OpenOptions};
    use std::io;
    use std::path::Path;

    use super::StoreError;

    pub(super) const WRITABLE: u32 = 0;
    pub(super) const ANYTHING: u32 = 0;
    /// ERROR_SHARING_VIOLATION.
    const SHARING: i32 = 32;

    pub(super) fn check(_: &Path, _: &Metadata, _: u32) -> Result<(), StoreError> {
        Ok(())
    }

    pub(super) fn make(folder: &Path) -> io::Result<()> {
        fs::create_dir(folder)
    }

    pub(super) fn create(path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(path)
    }

    pub(super) fn open(path: &Path) -> io::Result<File> {
        if fs::symlink_metadata(path)?.is_symlink() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        File::open(path)
    }

    pub(super) fn is_link(error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::InvalidInput
    }

    /// Locks a file for as long as it is open: no other process can open it.
    pub(super) fn lock(path: &Path) -> io::Result<Option<File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(windows)]
        std::os::windows::fs::OpenOptionsExt::share_mode(&mut options, 0);
        match options.open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.raw_os_error() == Some(SHARING) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(all(test, unix))]
mod tests;
