//! The world that an examination looks at: a root folder, variables, a home, and ways to ask for names and addresses.
//!
//! Every look of `environment` goes through it, so that another world than the one around can be examined: what a service
//! would see, or one that a test has broken. It changes nothing in it.

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

/// A larger file of settings is not read.
const LARGEST: u64 = 2 << 20;
/// Of a folder at most so many names are read.
const NAMES: usize = 10_000;

/// A question that is answered later.
type Asking<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

/// Whose conventions hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum System {
    /// Linux, with systemd where that matters, and what is like it.
    Linux,
    /// macOS.
    Mac,
}

impl System {
    /// What `uname` says.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Mac => "Darwin",
        }
    }
}

/// What is looked at: the surroundings of this process, or others. Cheap to clone.
#[derive(Clone)]
pub struct World {
    root: PathBuf,
    variables: BTreeMap<OsString, OsString>,
    user: u32,
    /// Since the beginning of 1970.
    now: Duration,
    open_files: Option<u64>,
    system: System,
    resolve: Arc<dyn Fn(String) -> Asking<Vec<IpAddr>> + Send + Sync>,
    loopback: Arc<dyn Fn(IpAddr) -> Asking<()> + Send + Sync>,
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
            system: if cfg!(target_os = "macos") { System::Mac } else { System::Linux },
            resolve: Arc::new(|name| Box::pin(resolve(name))),
            loopback: Arc::new(|address| Box::pin(loopback(address))),
        }
    }

    /// Another world: what lies below this folder, with no variable. Names and addresses are those of this machine.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), variables: BTreeMap::new(), system: System::Linux, ..Self::here() }
    }

    /// The same with a variable.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// The same without a variable.
    #[must_use]
    pub fn without_variable(mut self, name: impl AsRef<OsStr>) -> Self {
        self.variables.remove(name.as_ref());
        self
    }

    /// The same for another user, by number.
    #[must_use]
    pub const fn with_user(mut self, user: u32) -> Self {
        self.user = user;
        self
    }

    /// The same at another time: since the beginning of 1970, in UTC.
    #[must_use]
    pub const fn at_time(mut self, now: Duration) -> Self {
        self.now = now;
        self
    }

    /// The same with another limit of open files; `None`: none.
    #[must_use]
    pub const fn with_open_files(mut self, limit: Option<u64>) -> Self {
        self.open_files = limit;
        self
    }

    /// The same on another system.
    #[must_use]
    pub const fn on_system(mut self, system: System) -> Self {
        self.system = system;
        self
    }

    /// The same where names have other addresses.
    #[must_use]
    pub fn resolving<F>(mut self, resolve: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<Vec<IpAddr>>> + Send + 'static,
    {
        self.resolve = Arc::new(move |name| Box::pin(resolve(name)));
        self
    }

    /// The same where listening on an address of this machine, and connecting to oneself there, goes another way.
    #[must_use]
    pub fn looping<F>(mut self, loopback: impl Fn(IpAddr) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        self.loopback = Arc::new(move |address| Box::pin(loopback(address)));
        self
    }

    pub(super) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// A variable that is set to something.
    pub(super) fn set(&self, name: &str) -> Option<&OsStr> {
        self.variable(name).filter(|value| !value.is_empty())
    }

    pub(super) const fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }

    /// The user's home, by the variable alone.
    pub(super) fn home(&self) -> Option<&Path> {
        self.set("HOME").map(Path::new).filter(|home| home.is_absolute())
    }

    pub(super) const fn user(&self) -> u32 {
        self.user
    }

    /// Since the beginning of 1970.
    pub(super) const fn now(&self) -> Duration {
        self.now
    }

    pub(super) const fn open_files(&self) -> Option<u64> {
        self.open_files
    }

    pub(super) const fn system(&self) -> System {
        self.system
    }

    pub(super) fn resolve(&self, name: &str) -> Asking<Vec<IpAddr>> {
        (self.resolve)(name.to_owned())
    }

    pub(super) fn loopback(&self, address: IpAddr) -> Asking<()> {
        (self.loopback)(address)
    }

    /// Where a path of that world lies in ours.
    pub(super) fn real(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub(super) fn metadata(&self, path: &Path) -> Option<Metadata> {
        fs::metadata(self.real(path)).ok()
    }

    /// When something was changed, since the beginning of 1970.
    pub(super) fn changed(&self, path: &Path) -> Option<Duration> {
        self.metadata(path)?.modified().ok()?.duration_since(UNIX_EPOCH).ok()
    }

    /// Whether a link is there, wherever it leads.
    pub(super) fn is_link(&self, path: &Path) -> bool {
        fs::symlink_metadata(self.real(path)).is_ok_and(|metadata| metadata.is_symlink())
    }

    pub(super) fn target(&self, path: &Path) -> Option<PathBuf> {
        fs::read_link(self.real(path)).ok()
    }

    /// Whether a file is there that may be run.
    pub(super) fn is_program(&self, path: &Path) -> bool {
        self.metadata(path)
            .is_some_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    }

    /// The text of a regular file of reasonable size.
    pub(super) fn read(&self, path: &Path) -> Option<String> {
        let file = self.open(path)?;
        if file.metadata().ok()?.len() > LARGEST {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Opens a regular file. One that blocks, as some of `/proc` do, has nothing to read: the rest is looked at all the same.
    fn open(&self, path: &Path) -> Option<fs::File> {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = fs::OpenOptions::new()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(self.real(path))
            .ok()?;
        file.metadata().ok()?.is_file().then_some(file)
    }

    /// The beginning of a file, as much as the system looks at to see what runs it.
    pub(super) fn head(&self, path: &Path) -> Option<String> {
        let mut bytes = Vec::new();
        self.open(path)?.take(256).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Whether a path is there in that world, or on the system that it is looked at from, which is what runs its scripts.
    pub(super) fn has_system(&self, path: &str) -> bool {
        self.is_program(Path::new(path)) || Path::new(path).exists()
    }

    /// The names in a folder, in order.
    pub(super) fn list(&self, folder: &Path) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.real(folder)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.take(NAMES).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Whether the user may make files in that folder, or write to that file.
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
            .field("system", &self.system)
            .finish_non_exhaustive()
    }
}

async fn resolve(name: String) -> io::Result<Vec<IpAddr>> {
    Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
}

/// Listens on the address and sends a byte to itself.
async fn loopback(address: IpAddr) -> io::Result<()> {
    let listener = TcpListener::bind((address, 0)).await?;
    let there = listener.local_addr()?;
    let (accepted, mut ours) = tokio::try_join!(listener.accept(), TcpStream::connect(there))?;
    ours.write_all(b"x").await?;
    let mut byte = [0];
    let (mut theirs, _) = accepted;
    theirs.read_exact(&mut byte).await.map(|_| ())
}

/// Looks at files on a thread of its own: a folder on a machine that does not answer keeps nobody waiting for longer than
/// this. `None` when it took longer.
pub(in crate::doctor) async fn within<T: Send + 'static>(
    bound: Duration,
    look: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("looking".into())
        .spawn(move || {
            // Nobody waits for it when it has taken too long.
            let _ = done.send(look());
        })
        .ok()?;
    tokio::time::timeout(bound, outcome).await.ok()?.ok()
}
