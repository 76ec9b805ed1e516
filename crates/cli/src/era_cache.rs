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

use crate::cache_file::{Format, Servers};
use crate::folders;

/// The entries in the file: the newest.
const MAX_ENTRIES: usize = 512;
/// A larger file was not written by us.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// How long an entry is valid. A server may support the modern era without a change of its command (`npx`).
const ENTRY_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The file has the time of each entry, in seconds since 1970.
static FORMAT: Format =
    Format { magic: "mcpjoin-eras-1", max_bytes: MAX_FILE_BYTES, max_servers: MAX_ENTRIES };
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
        let eras: Option<Servers<u64>> = Servers::read(&file, &FORMAT);
        let legacy = eras.is_some_and(|eras| eras.of(&server).is_some_and(|time| is_valid(*time, now())));
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
        let mut eras = Servers::read_or_new(&self.file, &FORMAT)?;
        eras.put(&self.server, self.legacy.then(now));
        eras.write(&self.file)
    }
}

/// Whether an entry of that time is valid. One of the future comes from a wrong clock.
fn is_valid(time: u64, now: u64) -> bool {
    time <= now && now - time < ENTRY_TTL.as_secs()
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
