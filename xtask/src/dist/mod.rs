//! `cargo xtask dist`: everything that people install, in `target/packages`: an archive, an npm package and a wheel, each
//! around the same binary. The tests make the same packages around the binary that they have, in a folder of their own.
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

pub(crate) use binary::PROFILE;

use binary::Binary;

/// Builds the binary with all optimisation and packs it; returns the folder with the packages.
pub(crate) fn run(root: &Path) -> Result<PathBuf> {
    pack(root, &Binary::build(root)?, root.join("target/packages"))
}

/// Packs a binary that is there already, so that the packages can be tried without the minutes that the one for people
/// takes. Never where [`run`] puts what people are given.
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

/// The files that go with every copy of the binary.
const WITH_IT: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "THIRD-PARTY.md"];
