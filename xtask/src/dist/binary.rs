//! The release binary, and what it requires of the system that runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value as Json;

use crate::steps::{self, cargo};

/// A static build, which runs on any Linux with that processor. Used only where its standard library is installed
/// (`rustup target add x86_64-unknown-linux-musl`).
const STATIC: &str = "x86_64-unknown-linux-musl";

/// A built binary.
pub(super) struct Binary {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    /// Its target triple.
    pub(super) target: String,
    pub(super) version: String,
    /// The newest version of glibc that it requires; `None` when it requires none.
    pub(super) glibc: Option<(u32, u32)>,
}

impl Binary {
    /// Builds the release binary. Its size is printed and has no limit: what a library saves in code is worth more.
    pub(super) fn build(root: &Path) -> Result<Self> {
        let host = host()?;
        let target = if installed(STATIC)? && host == "x86_64-unknown-linux-gnu" { STATIC } else { &host };
        // Without `--target` when it is the host's: then cargo reuses the build of `cargo xtask bench`.
        let mut words = vec!["build", "--release", "--package", "mcpjoin-cli", "--bin", "mcpjoin"];
        if target != host {
            words.extend(["--target", target]);
        }
        words.push("--message-format=json-render-diagnostics");
        let messages = steps::stdout(&mut cargo(root, &words))?;
        let artifact = messages
            .lines()
            .filter_map(|line| serde_json::from_str::<Json>(line).ok())
            .find(|message| message["target"]["name"] == "mcpjoin" && message["executable"].is_string())
            .context("cargo built no binary mcpjoin")?;
        let path = PathBuf::from(artifact["executable"].as_str().context("an executable has a path")?);
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::new(path, bytes, target)
    }

    /// Takes an existing binary for this machine, and strips its debug information.
    pub(super) fn stripped(path: &Path) -> Result<Self> {
        let copy = std::env::temp_dir().join(format!("mcpjoin-stripped-{}", std::process::id()));
        let bytes = steps::succeed(Command::new("strip").arg("-o").arg(&copy).arg(path))
            .and_then(|()| std::fs::read(&copy).with_context(|| format!("cannot read {}", copy.display())));
        // The copy does not exist when `strip` failed.
        let _ = std::fs::remove_file(&copy);
        Self::new(path.to_path_buf(), bytes?, &host()?)
    }

    fn new(path: PathBuf, bytes: Vec<u8>, target: &str) -> Result<Self> {
        let glibc = newest_glibc(&bytes);
        if target == STATIC && glibc.is_some() {
            bail!("{} should need no C library", path.display());
        }
        Ok(Self {
            path,
            bytes,
            target: target.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            glibc,
        })
    }

    /// Describes the binary and its requirements in one line.
    pub(super) fn described(&self) -> String {
        let needs = match self.glibc {
            None => "static: needs no C library".to_owned(),
            Some((major, minor)) => {
                format!("needs glibc {major}.{minor} or newer ({STATIC} is not installed here)")
            }
        };
        let size = self.bytes.len() / 1024;
        format!("mcpjoin {} for {}, {size} KiB, {needs}", self.version, self.target)
    }

    /// Runs the binary, and returns its output.
    pub(super) fn prints(&self, words: &[&str]) -> Result<String> {
        steps::stdout(Command::new(&self.path).args(words))
    }
}

/// The target of this machine, if packages exist for it.
fn host() -> Result<String> {
    let said = steps::stdout(Command::new("rustc").arg("-vV"))?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc does not say what its host is")?;
    if !host.starts_with("x86_64-unknown-linux-") {
        bail!("packages are made for Linux on x86_64 alone so far; this is {host}");
    }
    Ok(host.to_owned())
}

/// Whether the standard library for a target is installed.
fn installed(target: &str) -> Result<bool> {
    let folder = steps::stdout(Command::new("rustc").args(["--print", "target-libdir", "--target", target]))?;
    Ok(Path::new(folder.trim()).is_dir())
}

/// The newest `GLIBC_2.x` among the symbol versions that a binary requires.
fn newest_glibc(binary: &[u8]) -> Option<(u32, u32)> {
    const PREFIX: &[u8] = b"\0GLIBC_";
    let mut newest = None;
    for (at, _) in binary.windows(PREFIX.len()).enumerate().filter(|(_, window)| *window == PREFIX) {
        let rest = &binary[at + PREFIX.len()..];
        let end =
            rest.iter().position(|byte| !(byte.is_ascii_digit() || *byte == b'.')).unwrap_or(rest.len());
        let mut numbers = std::str::from_utf8(&rest[..end]).unwrap_or_default().split('.');
        if let (Some(Ok(major)), Some(Ok(minor))) =
            (numbers.next().map(str::parse), numbers.next().map(str::parse))
        {
            newest = newest.max(Some((major, minor)));
        }
    }
    newest
}

#[cfg(test)]
mod tests {
    use super::newest_glibc;

    #[test]
    fn the_newest_version_counts_as_a_number() {
        let binary = b"\0GLIBC_2.2.5\0memcpy\0GLIBC_2.34\0x\0GLIBC_2.9\0GLIBC_PRIVATE\0";
        assert_eq!(newest_glibc(binary), Some((2, 34)));
        assert_eq!(newest_glibc(b"no C library here, XGLIBC_2.3"), None);
    }
}
