//! The surroundings that an examination reads: a root folder, variables, a clock, name resolution and loopback connections.
//!
//! Everything that `environment` reads goes through it, so that tests can make broken ones. It changes nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, fs};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use mcpjoin::transport::ChildCommand;

/// A settings file that is larger is not read.
const MAX_FILE_BYTES: u64 = 2 << 20;
/// Names of a folder that are read.
const MAX_FOLDER_NAMES: usize = 10_000;
/// How much of a first line the system reads to find the interpreter.
const MAX_HEAD_BYTES: u64 = 256;

/// From SIGTERM, which an interactive shell ignores, to SIGKILL for a program that does not exit in time.
const KILL_AFTER: Duration = Duration::from_millis(500);

/// A name resolution or a connection in progress.
type Pending<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// The surroundings of this process, or others. Cheap to clone.
#[derive(Clone)]
pub struct World {
    pub(super) root: PathBuf,
    pub(super) variables: BTreeMap<OsString, OsString>,
    /// The user id.
    pub(super) user: u32,
    /// Since the beginning of 1970, in UTC.
    pub(super) now: Duration,
    /// How many files may be open; `None` is no limit.
    pub(super) open_files: Option<u64>,
    pub(super) is_mac: bool,
    /// Resolves a name.
    pub(super) resolve: Arc<dyn Fn(String) -> Pending<Vec<IpAddr>> + Send + Sync>,
    /// Connects to itself at an address of this machine.
    pub(super) loopback: Arc<dyn Fn(IpAddr) -> Pending<()> + Send + Sync>,
}

impl World {
    /// The surroundings of this process.
    #[must_use]
    pub fn here() -> Self {
        Self {
            root: PathBuf::from("/"),
            variables: std::env::vars_os().collect(),
            user: rustix::process::geteuid().as_raw(),
            now: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            open_files: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
            is_mac: cfg!(target_os = "macos"),
            resolve: Arc::new(|name| Box::pin(resolve(name))),
            loopback: Arc::new(|address| Box::pin(loopback(address))),
        }
    }

    /// Other surroundings: the files below this folder, and no variable. Names and addresses are those of this machine.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), variables: BTreeMap::new(), is_mac: false, ..Self::here() }
    }

    /// Sets a variable.
    pub(super) fn with_variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Removes a variable.
    pub(super) fn without_variable(mut self, name: impl AsRef<OsStr>) -> Self {
        self.variables.remove(name.as_ref());
        self
    }

    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A variable that is not empty.
    pub(super) fn set(&self, name: &str) -> Option<&OsStr> {
        self.variable(name).filter(|value| !value.is_empty())
    }

    /// The user's home, from `HOME`.
    pub(super) fn home(&self) -> Option<&Path> {
        self.set("HOME").map(Path::new).filter(|home| home.is_absolute())
    }

    /// The path on this machine of a path of that world.
    pub(super) fn real(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub(super) fn metadata(&self, path: &Path) -> Option<Metadata> {
        fs::metadata(self.real(path)).ok()
    }

    /// A command for a program of that world, with those of its variables that `is_passed` accepts.
    pub(super) fn command(&self, program: &Path, is_passed: impl Fn(&OsStr) -> bool) -> ChildCommand {
        let command = ChildCommand::new(self.real(program)).env_clear().shutdown(Duration::ZERO, KILL_AFTER);
        let passed = self.variables.iter().filter(|(name, _)| !name.is_empty() && is_passed(name));
        passed.fold(command, |command, (name, value)| command.env(name, value))
    }

    /// The target of a link; `None` if there is no link.
    pub(super) fn link_target(&self, path: &Path) -> Option<PathBuf> {
        fs::read_link(self.real(path)).ok()
    }

    /// Whether there is an executable file.
    pub(super) fn is_program(&self, path: &Path) -> bool {
        self.metadata(path)
            .is_some_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    }

    /// The text of a regular file of at most 2 MiB.
    pub(super) fn read(&self, path: &Path) -> Option<String> {
        let file = self.open(path)?;
        if file.metadata().ok()?.len() > MAX_FILE_BYTES {
            return None;
        }
        text(file.take(MAX_FILE_BYTES))
    }

    /// The beginning of a file, which names its interpreter.
    pub(super) fn head(&self, path: &Path) -> Option<String> {
        text(self.open(path)?.take(MAX_HEAD_BYTES))
    }

    /// Opens a regular file. A file in `/proc` that would block has no text.
    fn open(&self, path: &Path) -> Option<fs::File> {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(self.real(path)).ok()?;
        file.metadata().ok()?.is_file().then_some(file)
    }

    /// The names in a folder, in order.
    pub(super) fn list(&self, folder: &Path) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.real(folder)) else { return Vec::new() };
        let mut names: Vec<String> = entries
            .take(MAX_FOLDER_NAMES)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Whether the user may create files in that folder, or write to that file.
    pub(super) fn is_writable(&self, path: &Path) -> bool {
        let Some(metadata) = self.metadata(path) else { return false };
        if self.user == rustix::process::geteuid().as_raw() {
            use rustix::fs::{Access, access};
            let needed =
                if metadata.is_dir() { Access::WRITE_OK | Access::EXEC_OK } else { Access::WRITE_OK };
            return access(self.real(path), needed).is_ok();
        }
        let needed = if metadata.is_dir() { 0o3 } else { 0o2 };
        let shift = if metadata.uid() == self.user { 6 } else { 0 };
        metadata.permissions().mode() >> shift & needed == needed
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values of variables may be secrets.
        f.debug_struct("World")
            .field("root", &self.root)
            .field("variables", &self.variables.len())
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The readable text of a file.
fn text(mut file: impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

async fn resolve(name: String) -> io::Result<Vec<IpAddr>> {
    Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
}

/// Listens on the address and sends itself a byte.
async fn loopback(address: IpAddr) -> io::Result<()> {
    let listener = TcpListener::bind((address, 0)).await?;
    let connecting = TcpStream::connect(listener.local_addr()?);
    let ((mut accepted, _), mut connected) = tokio::try_join!(listener.accept(), connecting)?;
    connected.write_all(b"x").await?;
    accepted.read_exact(&mut [0]).await.map(|_| ())
}

/// Reads files on a thread of their own, so that a folder of a network file system that hangs delays nothing for longer than
/// `timeout`. `None` if it took longer.
pub(in crate::doctor) async fn within<T: Send + 'static>(
    timeout: Duration,
    read: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("read-files".into())
        .spawn(move || {
            // The receiver is gone after the timeout.
            let _ = done.send(read());
        })
        .ok()?;
    tokio::time::timeout(timeout, outcome).await.ok()?.ok()
}
