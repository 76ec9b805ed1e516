//! The corpus of a target: `corpus/NAME.txt`, one input a line, with everything escaped that is not printable text.
//!
//! Lines are ordered by length and then by content, so that a new input changes one line.

use std::path::{Path, PathBuf};
use std::{fs, io};

use bstr::{ByteSlice, ByteVec};

/// The inputs of a target.
///
/// # Errors
/// When the file cannot be read.
pub fn inputs(name: &str) -> io::Result<Vec<Vec<u8>>> {
    Ok(fs::read_to_string(place(name))?.lines().map(Vec::unescape_bytes).collect())
}

/// Replaces the corpus of a target, and returns the number of its inputs.
///
/// # Errors
/// When the file cannot be written.
pub fn replace(name: &str, mut inputs: Vec<Vec<u8>>) -> io::Result<usize> {
    // libFuzzer always tries the empty input.
    inputs.retain(|input| !input.is_empty());
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    inputs.dedup();
    let lines: Vec<String> = inputs.iter().map(|input| format!("{}\n", input.escape_bytes())).collect();
    fs::write(place(name), lines.concat())?;
    Ok(inputs.len())
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("corpus/{name}.txt"))
}
