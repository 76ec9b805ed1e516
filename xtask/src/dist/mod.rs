//! `cargo xtask dist`: builds everything that users install, in `target/packages`: an archive, an npm package and a wheel
//! with the same binary. The tests build the same packages with the test binary, in a different folder.
//!
//! Publishes nothing.

mod archive;
mod binary;
mod npm;
mod wheel;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use binary::Binary;

/// Builds the binary with full optimisation and packs it; returns the folder with the packages.
pub(crate) fn run(root: &Path) -> Result<PathBuf> {
    pack(root, &Binary::build(root)?, root.join("target/packages"))
}

/// Packs an existing binary, so that the packages can be tested without the minutes that a release build takes. Never
/// writes to the folder of [`run`].
pub(crate) fn try_out(root: &Path, binary: &Path) -> Result<PathBuf> {
    pack(root, &Binary::stripped(binary)?, root.join("target/packages-tried"))
}

fn pack(root: &Path, binary: &Binary, folder: PathBuf) -> Result<PathBuf> {
    println!("    {}", binary.described());
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot empty {}", folder.display()));
        }
        _ => {}
    }
    fs::create_dir_all(&folder)?;
    let mut sums = String::new();
    for file in [archive::pack(root, &folder, binary)?, wheel::pack(root, &folder, binary)?] {
        let bytes = fs::read(&file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        writeln!(sums, "{}  {name}", hex(&Sha256::digest(&bytes)))?;
        println!("    {} ({} KiB)", file.display(), bytes.len() / 1024);
    }
    println!("    {}", npm::pack(root, &folder, binary)?.display());
    fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(folder)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The files that accompany every copy of the binary.
const WITH_IT: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "THIRD-PARTY.md"];
