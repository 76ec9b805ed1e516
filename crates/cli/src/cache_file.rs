//! The files of the cache folder: a line with a salt, then a line for each server, which begins with a salted hash of what the
//! server is. So a file does not reveal which servers were used.
//!
//! Used by `era_cache` and `tool_names`. A file may be missing, damaged or read-only.

use std::fmt::Display;
use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::{found, replacement};

/// What a file may hold.
#[derive(Debug)]
pub(crate) struct Format {
    /// The first word of the file, with its version.
    pub(crate) magic: &'static str,
    /// A larger file was not written by us.
    pub(crate) max_bytes: u64,
    pub(crate) max_servers: usize,
}

/// The content of a file. `V`: what is known of a server, on one line.
#[derive(Debug)]
pub(crate) struct Servers<V> {
    format: &'static Format,
    salt: [u8; 16],
    /// Hashes of servers, and what is known of them. The oldest first.
    entries: Vec<(String, V)>,
}

impl<V: Display + FromStr> Servers<V> {
    /// Reads the file, or begins a new one where it is missing or damaged.
    pub(crate) fn read_or_new(path: &Path, format: &'static Format) -> io::Result<Self> {
        if let Some(servers) = Self::read(path, format) {
            return Ok(servers);
        }
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(io::Error::other)?;
        Ok(Self { format, salt, entries: Vec::new() })
    }

    /// Reads the file; `None` when it is missing, damaged or too large.
    pub(crate) fn read(path: &Path, format: &'static Format) -> Option<Self> {
        let mut text = String::new();
        let read = found::open(path).ok()?.take(format.max_bytes + 1).read_to_string(&mut text).ok()?;
        if read as u64 > format.max_bytes {
            return None;
        }
        let mut lines = text.lines();
        let (first, salt) = lines.next()?.split_once(' ')?;
        if first != format.magic {
            return None;
        }
        let salt = u128::from_str_radix(salt, 16).ok()?.to_be_bytes();
        let entries = lines.map(|line| {
            let (hash, known) = line.split_once(' ')?;
            let is_hash = hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
            Some((hash.to_owned(), known.parse().ok()?)).filter(|_| is_hash)
        });
        Some(Self { format, salt, entries: entries.collect::<Option<_>>()? })
    }

    /// What is known of the server.
    pub(crate) fn of(&self, server: &[u8]) -> Option<&V> {
        let hash = self.hash(server);
        self.entries.iter().find(|(known, _)| *known == hash).map(|(_, known)| known)
    }

    /// Replaces what is known of the server, and removes the oldest ones above the limits.
    pub(crate) fn put(&mut self, server: &[u8], known: Option<V>) {
        let hash = self.hash(server);
        self.entries.retain(|(known, _)| *known != hash);
        self.entries.extend(known.map(|known| (hash, known)));
        let Format { max_bytes, max_servers, .. } = *self.format;
        while self.entries.len() > max_servers || self.text().len() as u64 > max_bytes {
            self.entries.remove(0);
        }
    }

    fn hash(&self, server: &[u8]) -> String {
        let digest = Sha256::new().chain_update(self.salt).chain_update(server).finalize();
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn text(&self) -> String {
        let mut text = format!("{} {:032x}\n", self.format.magic, u128::from_be_bytes(self.salt));
        for (hash, known) in &self.entries {
            text.push_str(&format!("{hash} {known}\n"));
        }
        text
    }

    /// Replaces the content of the file at once for all readers.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut folder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
        // Our folder and the cache folder around it, but never the user's home.
        let folders: Vec<&Path> = path.ancestors().skip(1).take(2).collect();
        for path in folders.into_iter().rev() {
            match folder.create(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        // What is lost with the power is found out again.
        replacement::replace(path, self.text().as_bytes(), |_| Ok(()))
    }
}
