//! The cache of servers of the legacy era, by command or URL. Such a server is not probed: some servers do not respond to a probe
//! for seconds, and others exit.
//!
//! Called by `connect`. A cache entry decides only what is sent first. When it is wrong, the server is probed as without it. A
//! modern server needs no entry, since the probe opens its session. The file holds salted hashes and times. It may be missing,
//! damaged or read-only, and no command fails because of that.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mcpjoin::transport::ChildCommand;

use crate::{cache_file, folders};

/// The entries in the file: the newest.
const MAX_ENTRIES: usize = 512;
/// A larger file was not written by us.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// How long an entry is valid. A server may support the modern era without a change of its command (`npx`).
const ENTRY_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The first word of the file, with its version.
const MAGIC: &str = "mcpjoin-eras-1";
/// How many arguments are looked up as files.
const MAX_FILE_ARGUMENTS: usize = 16;

/// The cached era of one server.
#[derive(Debug)]
pub(crate) struct CachedEra {
    file: PathBuf,
    /// The command or the URL. The file holds its hash, with the salt of the file.
    server: Vec<u8>,
    legacy: bool,
}

/// The content of the file.
#[derive(Debug, Default)]
struct Eras {
    salt: [u8; 16],
    /// Hashes of servers, and times in seconds since 1970, the oldest first.
    entries: Vec<(String, u64)>,
}

impl CachedEra {
    /// Looks a command up. `None` without a cache folder, or without the program.
    pub(crate) fn of_command(command: &ChildCommand) -> Option<Self> {
        Self::look_up(fingerprint(command)?)
    }

    /// Looks a server over HTTP up, without the query of its URL, which may hold secrets.
    pub(crate) fn of_url(url: &str) -> Option<Self> {
        let place = url.split('?').next().unwrap_or_default();
        Self::look_up([b"url ", place.as_bytes()].concat())
    }

    fn look_up(server: Vec<u8>) -> Option<Self> {
        let file = folders::cache()?.join("mcpjoin").join("eras");
        let eras = Eras::read(&file).unwrap_or_default();
        let legacy = eras.has(&eras.hash(&server), now());
        Some(Self { file, server, legacy })
    }

    /// Whether the server used the legacy era the last time.
    pub(crate) const fn is_legacy(&self) -> bool {
        self.legacy
    }

    /// Stores the era of the server, where it has changed.
    pub(crate) fn store(&mut self, legacy: bool) {
        if legacy != self.legacy {
            self.legacy = legacy;
            // Without the entry the server is probed the next time.
            let _ = self.write();
        }
    }

    fn write(&self) -> std::io::Result<()> {
        // Read again, because other processes write, too. Of two that write at once the later one wins.
        let mut eras = Eras::read(&self.file).map_or_else(Eras::new, Ok)?;
        let hash = eras.hash(&self.server);
        eras.entries.retain(|(known, _)| *known != hash);
        if self.legacy {
            eras.entries.push((hash, now()));
        }
        let surplus = eras.entries.len().saturating_sub(MAX_ENTRIES);
        eras.entries.drain(..surplus);
        cache_file::replace(&self.file, eras.text().as_bytes())
    }
}

impl Eras {
    fn new() -> std::io::Result<Self> {
        Ok(Self { salt: cache_file::salt()?, entries: Vec::new() })
    }

    /// Reads the file; `None` when it is missing or damaged.
    fn read(path: &Path) -> Option<Self> {
        let (salt, lines) = cache_file::read(path, MAGIC, MAX_FILE_BYTES)?;
        let entries = lines.into_iter().map(|(hash, time)| Some((hash, time.parse().ok()?)));
        Some(Self { salt, entries: entries.collect::<Option<_>>()? })
    }

    fn text(&self) -> String {
        cache_file::text(MAGIC, self.salt, &self.entries)
    }

    fn hash(&self, server: &[u8]) -> String {
        cache_file::hash(self.salt, server)
    }

    fn has(&self, hash: &str, now: u64) -> bool {
        let valid = ENTRY_TTL.as_secs();
        // A time in the future comes from a wrong clock.
        self.entries.iter().any(|(known, time)| known == hash && *time <= now && now - time < valid)
    }
}

/// What identifies the server of a command: the program and its time of change, the arguments, and the files among them.
fn fingerprint(command: &ChildCommand) -> Option<Vec<u8>> {
    let here = std::env::current_dir().ok()?;
    let program = here.join(command.resolve().ok()?);
    let spec = command.spec();
    let folder = spec.current_dir.as_ref().map_or_else(|| here.clone(), |folder| here.join(folder));
    let mut bytes = Vec::new();
    let mut part = |part: &[u8]| {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(part);
    };
    part(program.as_os_str().as_encoded_bytes());
    part(&changed(&program)?);
    for (place, arg) in spec.args.iter().enumerate() {
        part(arg.as_encoded_bytes());
        let file = folder.join(arg);
        if place < MAX_FILE_ARGUMENTS
            && let Some(changed) = changed(&file)
        {
            part(file.as_os_str().as_encoded_bytes());
            part(&changed);
        }
    }
    Some(bytes)
}

/// The time of the last change of a file, and its size; `None` when it is no file.
fn changed(path: &Path) -> Option<Vec<u8>> {
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let time = metadata.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some([time.as_nanos().to_be_bytes().as_slice(), metadata.len().to_be_bytes().as_slice()].concat())
}

/// In seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests;
