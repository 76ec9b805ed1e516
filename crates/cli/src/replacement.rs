//! Replaces a file at once for all readers: the content is written to a new file beside it, which then takes its place.
//!
//! Used by `cache_file`, `config::trust`, `config::convert`, the baseline of `validate` and the history of the shell.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Writes the new file, readable for the user alone, and moves it to `path`. `prepare` runs before that: permissions, and whether the
/// disk must have it.
pub(crate) fn replace(
    path: &Path,
    content: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{:016x}.new", u64::from_be_bytes(random)));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&beside).and_then(|mut file| {
        file.write_all(content)?;
        prepare(&file)
    });
    let replaced = written.and_then(|()| fs::rename(&beside, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&beside);
    }
    replaced
}
