//! The corpus of a target: `corpus/NAME.txt`, one input a line, with everything escaped that is not printable text.
//!
//! Used by [`start`](crate::start). libFuzzer reads folders of files, so a run unpacks the corpus below `target/`. Lines are
//! ordered by length and then by content, so that a new input changes one line.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bstr::{ByteSlice, ByteVec};

/// Writes each input of `corpus/NAME.txt` into a file of a new folder below `target/`, and returns that folder.
///
/// # Errors
/// When the corpus cannot be read or the folder cannot be written.
pub(crate) fn unpack(name: &str) -> io::Result<PathBuf> {
    let text = fs::read_to_string(place(name))?;
    let folder = empty_folder(&format!("corpus/{name}"))?;
    for (number, line) in text.lines().enumerate() {
        fs::write(folder.join(format!("{number:05}")), Vec::unescape_bytes(line))?;
    }
    Ok(folder)
}

/// Replaces `corpus/NAME.txt` with the files of a folder, and returns their number.
///
/// # Errors
/// When a file cannot be read or the corpus cannot be written.
pub(crate) fn pack(name: &str, from: &Path) -> io::Result<usize> {
    let files = fs::read_dir(from)?.map(|entry| fs::read(entry?.path()));
    let mut inputs: Vec<Vec<u8>> = files.collect::<io::Result<_>>()?;
    // libFuzzer always tries the empty input.
    inputs.retain(|input| !input.is_empty());
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    inputs.dedup();
    let lines: Vec<String> = inputs.iter().map(|input| format!("{}\n", input.escape_bytes())).collect();
    fs::write(place(name), lines.concat())?;
    Ok(inputs.len())
}

/// Creates an empty folder below `target/` of this package.
///
/// # Errors
/// When it cannot be created.
pub(crate) fn empty_folder(name: &str) -> io::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(name);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("corpus/{name}.txt"))
}
