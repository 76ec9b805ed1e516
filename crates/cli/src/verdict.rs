//! What is remembered of servers: that a command, or what is behind a URL, speaks the legacy era. It is then not probed, which some servers
//! answer with silence for seconds and others with their death.
//!
//! Called by `connect`. A verdict decides only what is asked first: when it turns out to be wrong, everything is asked
//! as if it had never been. Of a modern server nothing needs to be remembered, since the probe is its opening. The file
//! holds salted hashes and times; it can be lost, damaged or unwritable at any time, and no command ever fails by it.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest, Sha256};

use crate::{folders, found};

/// So many verdicts are kept, the newest.
const VERDICTS: usize = 512;
/// A larger file is none of ours.
const LARGEST: u64 = 64 << 10;
/// A server may learn the modern era without its command changing (`npx`), so it is asked again after a day.
const VALID: Duration = Duration::from_secs(24 * 60 * 60);
/// The first word of the file, with its version.
const MAGIC: &str = "mcpjoin-eras-1";
/// Of the arguments so many are looked up as files.
const FILES: usize = 16;

/// What is known of one server, and where it is kept.
#[derive(Debug)]
pub(crate) struct Verdict {
    file: PathBuf,
    /// The command or the URL, in a form that is hashed with the salt of the file and never kept.
    command: Vec<u8>,
    legacy: bool,
}

/// The file in memory.
#[derive(Debug, Default)]
struct Eras {
    salt: [u8; 16],
    /// Hash and time, the oldest first.
    known: Vec<(String, u64)>,
}

impl Verdict {
    /// Looks the command up. `None` when nothing can be remembered: without a place for it, or without the program.
    /// `path`: the value of `PATH` with which the program will be searched for.
    pub(crate) fn of<'a>(
        program: &OsStr,
        args: impl IntoIterator<Item = &'a OsStr>,
        cwd: Option<&Path>,
        path: Option<&OsStr>,
    ) -> Option<Self> {
        Self::look_up(fingerprint(program, args, cwd, path)?)
    }

    /// Looks a server over HTTP up. Its query may hold secrets, and decides nothing.
    pub(crate) fn of_url(url: &str) -> Option<Self> {
        let place = url.split('?').next().unwrap_or_default();
        Self::look_up([b"url ", place.as_bytes()].concat())
    }

    fn look_up(command: Vec<u8>) -> Option<Self> {
        let file = folders::cache()?.join("mcpjoin").join("eras");
        let eras = Eras::read(&file).unwrap_or_default();
        let legacy = eras.knows(&eras.hash(&command), now());
        Some(Self { file, command, legacy })
    }

    /// Whether the server spoke the legacy era the last time.
    pub(crate) const fn is_legacy(&self) -> bool {
        self.legacy
    }

    /// Remembers what the server speaks. Writes only what is new.
    pub(crate) fn learn(&mut self, legacy: bool) {
        if legacy != self.legacy {
            self.legacy = legacy;
            // What cannot be kept is found out again the next time.
            let _ = self.write();
        }
    }

    fn write(&self) -> std::io::Result<()> {
        // Read again, because others write, too. Of two that write at once the later one wins, and the other verdict
        // is found out again.
        let mut eras = match Eras::read(&self.file) {
            Some(eras) => eras,
            None => Eras::new()?,
        };
        let hash = eras.hash(&self.command);
        eras.known.retain(|(known, _)| *known != hash);
        if self.legacy {
            eras.known.push((hash, now()));
        }
        let surplus = eras.known.len().saturating_sub(VERDICTS);
        eras.known.drain(..surplus);
        replace(&self.file, eras.text().as_bytes())
    }
}

impl Eras {
    fn new() -> std::io::Result<Self> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(std::io::Error::other)?;
        Ok(Self { salt, known: Vec::new() })
    }

    /// The file; `None` when there is none or it is damaged.
    fn read(path: &Path) -> Option<Self> {
        let mut text = String::new();
        let read = found::open(path).ok()?.take(LARGEST + 1).read_to_string(&mut text).ok()?;
        if read as u64 > LARGEST {
            return None;
        }
        let mut lines = text.lines();
        let (magic, salt) = lines.next()?.split_once(' ')?;
        if magic != MAGIC {
            return None;
        }
        let salt = u128::from_str_radix(salt, 16).ok()?.to_be_bytes();
        let known = lines.map(|line| {
            let (hash, time) = line.split_once(' ')?;
            let sound = hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
            Some((hash.to_owned(), time.parse().ok().filter(|_| sound)?))
        });
        Some(Self { salt, known: known.collect::<Option<_>>()? })
    }

    fn text(&self) -> String {
        let mut text = format!("{MAGIC} {:032x}\n", u128::from_be_bytes(self.salt));
        for (hash, time) in &self.known {
            text.push_str(&format!("{hash} {time}\n"));
        }
        text
    }

    fn hash(&self, command: &[u8]) -> String {
        let digest = Sha256::new().chain_update(self.salt).chain_update(command).finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn knows(&self, hash: &str, now: u64) -> bool {
        let valid = VALID.as_secs();
        // A time to come is that of a clock that was wrong.
        self.known.iter().any(|(known, time)| known == hash && *time <= now && now - time < valid)
    }
}

/// Everything that decides which server a command is: the program and when it was changed, its arguments, and the files
/// among them. `cwd`: the directory from which they are meant.
fn fingerprint<'a>(
    program: &OsStr,
    args: impl IntoIterator<Item = &'a OsStr>,
    cwd: Option<&Path>,
    path: Option<&OsStr>,
) -> Option<Vec<u8>> {
    let here = std::env::current_dir().ok()?;
    let here = cwd.map_or_else(|| here.clone(), |cwd| here.join(cwd));
    let program = find(program, &here, path)?;
    let mut bytes = Vec::new();
    let mut part = |part: &[u8]| {
        bytes.extend((part.len() as u64).to_be_bytes());
        bytes.extend(part);
    };
    part(program.as_os_str().as_encoded_bytes());
    part(&changed(&program)?);
    for (place, arg) in args.into_iter().enumerate() {
        part(arg.as_encoded_bytes());
        let file = here.join(arg);
        if place < FILES
            && let Some(changed) = changed(&file)
        {
            part(file.as_os_str().as_encoded_bytes());
            part(&changed);
        }
    }
    Some(bytes)
}

/// The file of a program.
fn find(program: &OsStr, here: &Path, path: Option<&OsStr>) -> Option<PathBuf> {
    if Path::new(program).components().count() > 1 || Path::new(program).is_absolute() {
        return Some(here.join(program));
    }
    let folders = std::env::split_paths(path?).filter(|folder| !folder.as_os_str().is_empty());
    folders.map(|folder| here.join(folder).join(program)).find(|file| file.is_file())
}

/// When a file was changed, and its size. `None` when it is no file.
fn changed(path: &Path) -> Option<Vec<u8>> {
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    let time = metadata.modified().ok()?.duration_since(UNIX_EPOCH).unwrap_or_default();
    Some([time.as_nanos().to_be_bytes().as_slice(), metadata.len().to_be_bytes().as_slice()].concat())
}

/// In seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Puts the new content in the place of the old one, for readers at once.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut folder = fs::DirBuilder::new();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        folder.mode(0o700);
        options.mode(0o600);
    }
    // Ours and the one around it; never the user's home.
    let ours: Vec<&Path> = path.ancestors().skip(1).take(2).collect();
    for path in ours.into_iter().rev() {
        match folder.create(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    let temporary = path.with_extension(format!("{:016x}", u64::from_be_bytes(random)));
    let written = options.open(&temporary).and_then(|mut file| file.write_all(content));
    let replaced = written.and_then(|()| fs::rename(&temporary, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    replaced
}

#[cfg(test)]
mod tests;
