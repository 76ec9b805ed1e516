//! `cargo xtask dist`: everything that people install, in `target/dist`: an archive, an npm package and a wheel, each
//! around the same binary.
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

/// Builds the binary and packs it; returns the folder with the packages.
pub(crate) fn run(root: &Path) -> Result<PathBuf> {
    let binary = Binary::build(root)?;
    println!("    {}", binary.described());
    let folder = root.join("target/dist");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot empty {}", folder.display()));
        }
        _ => {}
    }
    fs::create_dir_all(&folder)?;
    let mut sums = String::new();
    for file in [archive::pack(root, &folder, &binary)?, wheel::pack(root, &folder, &binary)?] {
        let bytes = fs::read(&file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        writeln!(sums, "{}  {name}", hex(&Sha256::digest(&bytes)))?;
        println!("    {} ({} KiB)", file.display(), bytes.len() / 1024);
    }
    println!("    {}", npm::pack(root, &folder, &binary)?.display());
    fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(folder)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The files that go with every copy of the binary.
const WITH_IT: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "THIRD-PARTY.md"];
