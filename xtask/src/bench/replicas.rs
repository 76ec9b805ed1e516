//! Several bridges with one key, in `cargo xtask bench`: what a call costs where each session is used at two of them, beside what it
//! costs at one.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use interop::Port;

use super::cells::{Cell, PROGRAMS};
use super::peers::{Candidate, candidate, command};

/// The candidate that the other one is compared with.
pub(super) const ONE: &str = "one bridge";

/// The key, and the floor server over HTTP, which all bridges reach.
pub(crate) struct Replicas {
    mcpjoin: PathBuf,
    /// The folder with the programs of `bench/`.
    programs: PathBuf,
    keys: PathBuf,
    server: Child,
    address: SocketAddr,
    /// Reserved for the server until it has ended.
    _port: Port,
}

impl Replicas {
    /// Starts the server. The key is written into `folder`.
    pub(crate) fn start(mcpjoin: &Path, programs: &Path, folder: &Path) -> Result<Self> {
        let keys = folder.join("keys");
        // A key for measurements alone: base64 of 32 bytes.
        fs::write(&keys, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").context("the key")?;
        let port = Port::claim()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        let mut server = Command::new(programs.join("floor-http"));
        let server = server.arg(address.port().to_string()).stdin(Stdio::null()).spawn()?;
        Ok(Self { mcpjoin: mcpjoin.into(), programs: programs.into(), keys, server, address, _port: port })
    }

    /// The candidates of a cell. Each command begins with the number of processes.
    pub(crate) fn of(&self, cell: &Cell) -> Vec<Candidate> {
        let (keys, target) = (self.keys.display().to_string(), format!("http://{}/mcp", self.address));
        let bridges = |count: &str| {
            let words = ["bridge", "--key-file", &keys, "--advertise", "http://127.0.0.1:{port}"];
            let listen = ["--listen", "http://127.0.0.1:{port}/mcp"];
            let floor = self.programs.join("floor").display().to_string();
            let target: &[&str] = if cell.words == PROGRAMS { &["--", &floor] } else { &[&target] };
            let program =
                command(self.mcpjoin.display().to_string(), &[&words[..], &listen, target].concat());
            [count.to_owned()].into_iter().chain(program).collect()
        };
        vec![candidate(ONE, bridges("1")), candidate("two bridges", bridges("2"))]
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        // The server may have ended already; then `kill` fails.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
