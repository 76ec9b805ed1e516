//! The definitions that the user has trusted: each is used without a question until it changes.
//!
//! Used for files in the working directory, which another person may have written: in a cloned repository, or an unpacked archive. A
//! file that was named with `--config` or `FILE#NAME` needs no trust, nor does one in the user's home itself. The list is
//! `mcpjoin/trusted.json` in the user's folder of configurations, readable for the user alone. It is replaced as a whole, by one
//! process at a time. The list and its folder must not belong to another user, nor be writable for others.
//!
//! Earlier versions trusted folders, one on a line of `mcpjoin/trusted`. That list is not used any more, since it does not say which
//! definitions the user has seen.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::members::{Member, digest_of};
use crate::{folders, found, replacement};

/// The size of the file: a definition takes about 300 bytes.
const MAX_LIST_BYTES: usize = 1 << 20;
/// The version of the list's format. No other is read.
const FORMAT: u32 = 1;
/// The permission bits that let a group and others write.
#[cfg(unix)]
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// How long to wait for another process that has locked the list. A change takes milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval between attempts to lock it.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// A definition that is trusted, or can be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Trusted {
    /// The real path of the folder.
    pub(crate) folder: String,
    /// The path of the file below that folder.
    pub(crate) file: String,
    pub(crate) entry: String,
    /// SHA-256 of the members, in hexadecimal digits.
    pub(crate) digest: String,
    pub(crate) members: Vec<Member>,
}

#[derive(Serialize, Deserialize)]
struct List {
    format: u32,
    trusted: Vec<Trusted>,
}

/// Whether a definition is in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrustState {
    Trusted,
    Unknown,
    /// It is in the list with these members.
    Changed(Vec<Member>),
}

impl Trusted {
    pub(super) fn new(folder: &str, file: &str, entry: &str, members: Vec<Member>) -> Self {
        // Strings and lists of strings can always be serialized.
        let digest = digest_of(&serde_json::to_string(&members).unwrap_or_default());
        Self { folder: folder.into(), file: file.into(), entry: entry.into(), digest, members }
    }

    fn is_same_place(&self, other: &Self) -> bool {
        self.folder == other.folder && self.file == other.file && self.entry == other.entry
    }
}

fn folder() -> Option<PathBuf> {
    folders::config().map(|folder| folder.join("mcpjoin"))
}

/// The path of the list.
fn path() -> Option<PathBuf> {
    folder().map(|folder| folder.join("trusted.json"))
}

/// Whether the folder, a real path, is the user's home, whose files are the user's own.
pub(super) fn is_home(folder: &Path) -> bool {
    folders::home().and_then(|home| home.canonicalize().ok()).is_some_and(|home| home == folder)
}

/// The list of an earlier version, where it names that folder or one above it.
pub(super) fn outdated(here: &Path) -> Option<PathBuf> {
    let list = folder()?.join("trusted");
    let text = String::from_utf8(found::read(&list, MAX_LIST_BYTES as u64).ok()??).ok()?;
    text.lines().any(|line| !line.is_empty() && here.starts_with(line)).then_some(list)
}

/// The list as it was when this process first needed it.
fn known() -> &'static Result<Vec<Trusted>, String> {
    static KNOWN: OnceLock<Result<Vec<Trusted>, String>> = OnceLock::new();
    KNOWN.get_or_init(|| path().map_or(Ok(Vec::new()), |path| read(&path)))
}

/// Why the list cannot be used; `None` where it can.
pub(super) fn problem() -> Option<&'static str> {
    known().as_ref().err().map(String::as_str)
}

/// Compares the definition with the list.
pub(super) fn state(definition: &Trusted) -> TrustState {
    let known = known().as_deref().unwrap_or_default();
    match known.iter().find(|known| known.is_same_place(definition)) {
        None => TrustState::Unknown,
        Some(known) if known.digest == definition.digest && known.members == definition.members => {
            TrustState::Trusted
        }
        Some(known) => TrustState::Changed(known.members.clone()),
    }
}

/// Everything in the list.
///
/// # Errors
/// When the list exists and cannot be used. The text names it.
pub(crate) fn trusted() -> Result<Vec<Trusted>, String> {
    path().map_or(Ok(Vec::new()), |path| read(&path))
}

/// Adds definitions to the list, in place of earlier ones of the same entries. Returns the path of the list.
///
/// # Errors
/// When the list cannot be read or written, stays locked for [`LOCK_TIMEOUT`], or would exceed its limit.
pub(crate) fn trust(definitions: &[Trusted]) -> io::Result<PathBuf> {
    change(|list| {
        list.retain(|known| !definitions.iter().any(|new| new.is_same_place(known)));
        list.extend_from_slice(definitions);
    })
}

/// Removes the definitions that `which` selects, and returns them.
///
/// # Errors
/// As [`trust`].
pub(crate) fn untrust(which: impl Fn(&Trusted) -> bool) -> io::Result<Vec<Trusted>> {
    if trusted().is_ok_and(|list| !list.iter().any(&which)) {
        return Ok(Vec::new());
    }
    let mut gone = Vec::new();
    change(|list| {
        let (out, rest) = list.drain(..).partition(which);
        (gone, *list) = (out, rest);
    })?;
    Ok(gone)
}

/// Reads the list, changes it and writes it, under its lock.
fn change(change: impl FnOnce(&mut Vec<Trusted>)) -> io::Result<PathBuf> {
    let path = path().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "HOME is not set"))?;
    make(path.parent().unwrap_or(&path))?;
    safe(&path).map_err(io::Error::other)?;
    let _lock = lock(&path.with_extension("lock"))?;
    let mut list = read(&path).map_err(io::Error::other)?;
    change(&mut list);
    let text = serde_json::to_string_pretty(&List { format: FORMAT, trusted: list })?;
    if text.len() > MAX_LIST_BYTES {
        let problem = "it would exceed the limit of 1 MiB: withdraw trust with mcpjoin servers untrust";
        return Err(io::Error::other(problem));
    }
    replacement::replace(&path, text.as_bytes(), File::sync_all).map(|()| path)
}

/// Makes the folder of the list for its user alone.
fn make(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder).map_err(|error| {
        let name = crate::target::path_shown(folder);
        io::Error::new(error.kind(), format!("the folder {name} cannot be created: {error}"))
    })
}

fn unusable(path: &Path, why: &str) -> String {
    let name = crate::target::path_shown(path);
    format!("the list of trusted entries, {name}, cannot be used: {why}")
}

/// Checks that the user alone can write to the folder of the list.
///
/// # Errors
/// When others can, or its owner cannot be read. The text is a sentence for the user.
fn safe(path: &Path) -> Result<(), String> {
    #[cfg(unix)]
    if let Some(folder) = path.parent() {
        use std::os::unix::fs::MetadataExt as _;
        let name = crate::target::path_shown(folder);
        let found = fs::metadata(folder).map_err(|error| unusable(path, &format!("{name}: {error}")))?;
        let owner = found.uid();
        if is_anothers(owner, rustix::process::geteuid().as_raw()) {
            let why =
                format!("its folder, {name}, belongs to the user {owner} (chown it, or set XDG_CONFIG_HOME)");
            return Err(unusable(path, &why));
        }
        if found.mode() & WRITABLE_BY_OTHERS != 0 {
            let why =
                format!("other users can write to its folder, {name}, which belongs to {owner} (chmod go-w)");
            return Err(unusable(path, &why));
        }
    }
    Ok(())
}

/// Reads the list, which is empty where there is no file. Fails with the reason why it cannot be used.
fn read(path: &Path) -> Result<Vec<Trusted>, String> {
    let unusable = |why: String| unusable(path, &why);
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unusable(error.to_string())),
    };
    safe(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if is_anothers(metadata.uid(), rustix::process::geteuid().as_raw()) {
            return Err(unusable("it belongs to another user".into()));
        }
        if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(unusable("other users can write to it (chmod 600)".into()));
        }
    }
    let text = found::read(path, MAX_LIST_BYTES as u64).map_err(|error| unusable(error.to_string()))?;
    let text = text.ok_or_else(|| unusable("it is larger than the limit of 1 MiB".into()))?;
    let list: List = serde_json::from_slice(&text)
        .map_err(|error| unusable(format!("line {}, column {}", error.line(), error.column())))?;
    if list.format != FORMAT {
        return Err(unusable(format!("its format is {}, but mcpjoin supports {FORMAT}", list.format)));
    }
    Ok(list.trusted)
}

/// Whether the owner of the list, or of its folder, is another user than its reader and root. Root can write to any file anyway.
#[cfg(unix)]
const fn is_anothers(owner: u32, reader: u32) -> bool {
    owner != 0 && owner != reader
}

/// The file, locked until it is closed.
fn lock(path: &Path) -> io::Result<File> {
    let until = Instant::now() + LOCK_TIMEOUT;
    loop {
        match try_lock(path)? {
            Some(file) => return Ok(file),
            None if Instant::now() >= until => {
                let problem = format!("another process has locked {}", crate::target::path_shown(path));
                return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
            }
            None => thread::sleep(LOCK_INTERVAL),
        }
    }
}

/// The file, locked; `None` when another process has locked it.
#[cfg(unix)]
fn try_lock(path: &Path) -> io::Result<Option<File>> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::{FlockOperation, flock};
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Without such a lock, one of two changes at the same time may be lost.
#[cfg(not(unix))]
fn try_lock(path: &Path) -> io::Result<Option<File>> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map(Some)
}

#[cfg(all(test, unix))]
mod tests {
    use super::is_anothers;

    #[test]
    fn a_list_is_its_readers_or_roots() {
        assert!(!is_anothers(1000, 1000) && !is_anothers(0, 1000) && !is_anothers(0, 0));
        assert!(is_anothers(1000, 1001) && is_anothers(1000, 0));
    }
}
