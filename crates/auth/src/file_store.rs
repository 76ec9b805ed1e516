//! Logins in files: one for each server, in a folder of the user's own.
//!
//! Given to `OAuth` by the command line. A file is named by the SHA-256 of the server's URL, is readable for its owner alone
//! whatever the umask is (CVE-2026-77268), and is replaced whole. Nothing is read from or written to what somebody else could have
//! put there: a symbolic link, another user's file or folder, a folder that others may write to. A lock beside it lets one process
//! at a time refresh (adversarial cases 139 and 180). All of it blocks, and so runs where blocking hinders nobody.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep};

use super::kept::server_of;
use super::pkce::random;
use super::secret::Secret;
use super::store::{StoreError, StoreLock, TokenStore};

/// No login is longer, in bytes.
const LONGEST: u64 = 1024 * 1024;
/// So long is a login, more or less, in bytes: where that much cannot be written, none can be kept.
const USUAL: usize = 4096;
/// How often the lock is tried, and for how long: twice the time that one request may take.
const AGAIN: Duration = Duration::from_millis(25);
const PATIENCE: Duration = Duration::from_secs(60);
/// So many files of a folder are looked at.
const FILES: usize = 10_000;

/// Which logins a [`FileStore`] keeps.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct KeptServers {
    /// The URLs of the servers that they are for, in order.
    pub servers: Vec<String>,
    /// Why a file was not read, for each that was not: it may be a login, and is left as it is.
    pub unread: Vec<StoreError>,
}

/// Keeps logins in a folder, one file for each server.
///
/// The folder is made when the first login is saved, for its owner alone. Several processes may share it. Each operation reads or
/// writes one file and holds nothing open.
#[derive(Clone, Debug)]
pub struct FileStore {
    folder: PathBuf,
}

impl FileStore {
    /// In that folder. Nothing is touched yet.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Which logins are kept. A file that cannot be read, or is not safe, hides none of the others.
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
            if at == FILES {
                let what =
                    format!("{}: of more than {FILES} files the others are not read", self.folder.display());
                found.unread.push(StoreError::Other(what));
                break;
            }
            let path = entry.map_err(|error| system(&self.folder, &error))?.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            match read(&path) {
                Ok(Some(text)) => found.servers.extend(server_of(&text)),
                // Forgotten meanwhile.
                Ok(None) => {}
                Err(error) => found.unread.push(error),
            }
        }
        found.servers.sort();
        Ok(found)
    }

    /// Whether the folder is there; it is safe then.
    fn is_there(&self) -> Result<bool, StoreError> {
        match fs::symlink_metadata(&self.folder) {
            Ok(found) if found.is_dir() => {
                safety::check(&self.folder, &found, safety::WRITABLE).map(|()| true)
            }
            Ok(_) => Err(unsafe_place(&self.folder, "it is no folder (a symbolic link is not followed)")),
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
            // By us, or by somebody else a moment ago.
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
        // What a process has left that was killed while it wrote is a login, too.
        let before = format!("{}.", name_of(server));
        let entries = fs::read_dir(&self.folder).map_err(|error| system(&self.folder, &error))?;
        for entry in entries.take(FILES) {
            let entry = entry.map_err(|error| system(&self.folder, &error))?;
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(&before) && name.ends_with(".new")) {
                was_there |= removed(&entry.path())?;
            }
        }
        Ok(was_there)
    }

    fn write(&self, server: &str, text: &Secret) -> Result<(), StoreError> {
        if text.expose().len() as u64 > LONGEST {
            return Err(StoreError::Other(format!("a login is longer than {LONGEST} bytes")));
        }
        let (path, new) = self.places(server)?;
        let written = written(&new, text.expose().as_bytes()).and_then(|()| fs::rename(&new, &path));
        written.map_err(|error| {
            let _ = fs::remove_file(&new);
            system(&path, &error)
        })
    }

    /// Where a login is kept, and where it is written before. Both are safe, and the folder is there.
    fn places(&self, server: &str) -> Result<(PathBuf, PathBuf), StoreError> {
        self.make()?;
        let path = self.file(server, "json");
        match fs::symlink_metadata(&path) {
            Ok(found) if !found.is_file() => {
                return Err(unsafe_place(&path, "it is no file (a symbolic link is not followed)"));
            }
            Ok(found) => safety::check(&path, &found, 0)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(system(&path, &error)),
        }
        let name = random().ok_or_else(|| StoreError::Other("the system gives no random numbers".into()))?;
        let new = self.file(server, &format!("{name}.new"));
        Ok((path, new))
    }

    /// Does all of it but to put a login in its place.
    fn try_out(&self, server: &str) -> Result<(), StoreError> {
        let (_, new) = self.places(server)?;
        let written = written(&new, &[b' '; USUAL]);
        let removed = match fs::remove_file(&new) {
            Err(error) if written.is_ok() => Err(error),
            _ => Ok(()),
        };
        written.and(removed).map_err(|error| system(&self.folder, &error))?;
        let lock = self.file(server, "lock");
        // Whoever holds it now has let go of it when it is needed.
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
            if began.elapsed() >= PATIENCE {
                return Err(StoreError::Busy { place: place.display().to_string() });
            }
            sleep(AGAIN).await;
        }
    }
}

/// What the files of a server are called before their dot.
fn name_of(server: &str) -> String {
    Sha256::digest(server.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Deletes a file, and says whether it was there.
fn removed(path: &Path) -> Result<bool, StoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(system(path, &error)),
    }
}

/// Writes a new file, down to the disk.
fn written(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = safety::create(path)?;
    file.write_all(bytes)?;
    // Before a name leads to it: a crash must not leave an empty file in place of a login.
    file.sync_all()
}

/// Reads a file that nobody else can have written or can read.
fn read(path: &Path) -> Result<Option<Secret>, StoreError> {
    let file = match safety::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if safety::is_link(&error) => {
            return Err(unsafe_place(path, "it is a symbolic link, which is not followed"));
        }
        Err(error) => return Err(system(path, &error)),
    };
    let found = file.metadata().map_err(|error| system(path, &error))?;
    if !found.is_file() {
        return Err(unsafe_place(path, "it is no file"));
    }
    safety::check(path, &found, safety::ANYTHING)?;
    let mut text = String::new();
    let read = file.take(LONGEST + 1).read_to_string(&mut text);
    read.map_err(|error| system(path, &error))?;
    if text.len() as u64 > LONGEST {
        return Err(StoreError::Other(format!("{}: longer than {LONGEST} bytes", path.display())));
    }
    Ok(Some(Secret::new(text)))
}

fn system(place: &Path, error: &io::Error) -> StoreError {
    StoreError::System { place: place.display().to_string(), what: error.to_string() }
}

fn unsafe_place(place: &Path, what: &str) -> StoreError {
    StoreError::Unsafe { place: place.display().to_string(), what: what.into() }
}

/// Does what blocks, where it hinders nobody.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work() };
    let done = runtime.spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(StoreError::Other("the work on a file was given up".into())))
}

/// What only this system knows: who owns a file, and who may do what with it.
#[cfg(unix)]
mod safety {
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt};
    use std::path::Path;

    use rustix::fs::{FlockOperation, OFlags, flock};
    use rustix::io::Errno;

    use super::{StoreError, unsafe_place};

    /// What others may not do: write, or anything at all.
    pub(super) const WRITABLE: u32 = 0o022;
    pub(super) const ANYTHING: u32 = 0o077;

    /// It must be ours, and nobody else may do those things with it.
    pub(super) fn check(path: &Path, found: &Metadata, others: u32) -> Result<(), StoreError> {
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(unsafe_place(path, "it belongs to another user"));
        }
        if found.mode() & others != 0 {
            let (wrong, right) = match others {
                WRITABLE => ("other users may write to it", "chmod 700"),
                _ => ("other users may read it", "chmod 600"),
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
        // The umask can only have taken away from it: what is ours is readable for us.
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

    /// Holds a file for as long as it is open; `None` when somebody else does.
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

/// The folders of a user are that user's by default, and files get the rights of their folder.
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

    /// Holds a file for as long as it is open: nobody else may open it.
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
