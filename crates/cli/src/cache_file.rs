//! The files of the cache folder: a line with a salt, then a line for each server, which begins with a salted hash of what the
//! server is. So a file does not reveal which servers were used.
//!
//! Used by `era_cache` and `tool_names`. A file may be missing, damaged or read-only.

use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::{found, replacement};

/// A new salt of a file.
pub(crate) fn salt() -> std::io::Result<[u8; 16]> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(std::io::Error::other)?;
    Ok(salt)
}

/// The hash of a server in the file with this salt.
pub(crate) fn hash(salt: [u8; 16], server: &[u8]) -> String {
    let digest = Sha256::new().chain_update(salt).chain_update(server).finalize();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A line: the hash of a server, and what is behind it.
pub(crate) type Line = (String, String);

/// The salt, and the lines. `None` when the file is missing, damaged, or larger than `max_bytes`. `magic`: the first word of the file.
pub(crate) fn read(path: &Path, magic: &str, max_bytes: u64) -> Option<([u8; 16], Vec<Line>)> {
    let mut text = String::new();
    let read = found::open(path).ok()?.take(max_bytes + 1).read_to_string(&mut text).ok()?;
    if read as u64 > max_bytes {
        return None;
    }
    let mut lines = text.lines();
    let (first, salt) = lines.next()?.split_once(' ')?;
    if first != magic {
        return None;
    }
    let salt = u128::from_str_radix(salt, 16).ok()?.to_be_bytes();
    let entries = lines.map(|line| {
        let (hash, rest) = line.split_once(' ')?;
        let is_hash = hash.len() == 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_hash.then(|| (hash.to_owned(), rest.to_owned()))
    });
    Some((salt, entries.collect::<Option<_>>()?))
}

/// The content of a file.
pub(crate) fn text(magic: &str, salt: [u8; 16], entries: &[(String, impl Display)]) -> String {
    let mut text = format!("{magic} {:032x}\n", u128::from_be_bytes(salt));
    for (hash, rest) in entries {
        text.push_str(&format!("{hash} {rest}\n"));
    }
    text
}

/// Replaces the content of a file at once for all readers.
pub(crate) fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut folder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    // Our folder and the cache folder around it, but never the user's home.
    let folders: Vec<&Path> = path.ancestors().skip(1).take(2).collect();
    for path in folders.into_iter().rev() {
        match folder.create(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    // What is lost with the power is found out again.
    replacement::replace(path, content, |_| Ok(()))
}
