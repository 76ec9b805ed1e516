//! Which folders the user has trusted with starting programs: their configurations are used without a question.
//!
//! Asked by `config` for what lies in the working directory, which somebody else may have filled: a repository that was
//! cloned, an archive that was unpacked. What somebody names with `--config` or `FILE#NAME` is not asked about, nor what
//! lies in the user's home itself. The folders stand in `mcpjoin/trusted` in the user's folder of configurations, one on a
//! line; what is below one of them is trusted with it.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::folders;

/// A larger list is none that we have written.
const LARGEST: u64 = 1 << 20;

/// Where the list is kept.
fn list() -> Option<PathBuf> {
    folders::config().map(|folder| folder.join("mcpjoin/trusted"))
}

/// Whether configurations in that folder, a real path, are used without a question.
pub(super) fn is_trusted(folder: &Path) -> bool {
    if folders::home().and_then(|home| home.canonicalize().ok()).is_some_and(|home| home == folder) {
        return true;
    }
    let Some(list) = list() else { return false };
    let small = fs::metadata(&list).is_ok_and(|metadata| metadata.len() <= LARGEST);
    let text = if small { fs::read_to_string(&list).unwrap_or_default() } else { String::new() };
    text.lines().any(|line| !line.is_empty() && folder.starts_with(line))
}

/// Trusts a folder from now on. Returns its real path, and where that is kept.
///
/// # Errors
/// When there is no such folder, its path cannot be a line of text, or the list cannot be written.
pub(crate) fn trust(folder: &Path) -> io::Result<(PathBuf, PathBuf)> {
    let folder = folder.canonicalize()?;
    if !folder.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "this is no directory"));
    }
    let line = folder.to_str().filter(|line| !line.contains(['\n', '\r']));
    let line =
        line.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "its path is no line of text"))?;
    let list = list().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "HOME is not set"))?;
    if !is_trusted(&folder) {
        fs::create_dir_all(list.parent().unwrap_or(&list))?;
        let mut options = fs::OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // One write: two who trust at once both stand there.
        options.open(&list)?.write_all(format!("{line}\n").as_bytes())?;
    }
    Ok((folder, list))
}
