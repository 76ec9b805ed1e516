//! The bridges of `cargo xtask bench`: how each is installed and started, and the HTTP server for those bridges that
//! start no server themselves.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Result;
use interop::Port;

use super::cells::{Cell, FROM_HTTP, FROM_STDIO};
use super::peers::{Candidate, candidate, command, install_scripts};

/// The placeholder that the load generator replaces with the port.
const PORT: &str = "{port}";

/// The installed bridges, and the floor server over HTTP.
pub(crate) struct Bridges {
    /// `bench/peers/bridges`.
    folder: PathBuf,
    mcpjoin: PathBuf,
    /// The folder with the programs of `bench/`.
    programs: PathBuf,
    server: Child,
    address: SocketAddr,
    /// Reserved for the server until it has ended.
    _port: Port,
}

impl Bridges {
    /// Installs the bridges and starts the server.
    pub(crate) fn start(peers: &Path, mcpjoin: &Path, programs: &Path) -> Result<Self> {
        let folder = peers.join("bridges");
        install_scripts(&folder, &[""], &[""])?;
        let port = Port::claim()?;
        // A connection attempt before the server listens is not part of a measurement.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.number()));
        let server = Command::new(programs.join("floor-http"))
            .arg(address.port().to_string())
            .stdin(Stdio::null())
            .spawn()?;
        Ok(Self { folder, mcpjoin: mcpjoin.into(), programs: programs.into(), server, address, _port: port })
    }

    /// The candidates of a cell.
    pub(crate) fn of(&self, cell: &Cell) -> Vec<Candidate> {
        if cell.words == FROM_STDIO {
            return self.over_stdio();
        }
        let mut all = self.over_http();
        if cell.words != FROM_HTTP {
            all.retain(|candidate| candidate.name != NONE);
        }
        all
    }

    fn over_http(&self) -> Vec<Candidate> {
        let floor = self.program("floor");
        let listen = format!("http://127.0.0.1:{PORT}/mcp");
        let super_gateway = |mode: &[&str]| {
            let words = ["--stdio", &floor, "--outputTransport", "streamableHttp", "--port", PORT];
            let words = [&words[..], &["--logLevel", "none"], mode].concat();
            self.node("supergateway/dist/index.js", &words)
        };
        vec![
            candidate(NONE, command(self.program("floor-http"), &[PORT])),
            candidate("floor", command(self.program("floor-bridge"), &["http", PORT, &floor])),
            candidate("ours", self.ours(&["--listen", &listen, "--", &floor])),
            candidate("supergateway, stateful", super_gateway(&["--stateful"])),
            candidate("supergateway, as it comes", super_gateway(&[])),
            candidate("mcp-proxy (npm)", {
                let words = ["--server", "stream", "--host", "127.0.0.1", "--port", PORT, "--", &floor];
                self.node("mcp-proxy/dist/bin/mcp-proxy.mjs", &words)
            }),
            candidate("mcp-proxy (PyPI)", self.python(&["--pass-environment", "--port", PORT, "--", &floor])),
        ]
    }

    fn over_stdio(&self) -> Vec<Candidate> {
        let url = format!("http://{}/mcp", self.address);
        vec![
            candidate(NONE, vec![self.program("floor")]),
            candidate("floor", {
                command(self.program("floor-bridge"), &["stdio", &self.address.to_string()])
            }),
            candidate("ours", self.ours(&[&url])),
            candidate("mcp-remote", {
                // mcp-remote keeps its state about servers in this folder.
                let memory = self.folder.join("node_modules/.mcp-remote");
                let words = [format!("MCP_REMOTE_CONFIG_DIR={}", memory.display())];
                let remote = ["--allow-http", "--transport", "http-only"];
                let remote = self.node("mcp-remote/dist/proxy.js", &[&[url.as_str()], &remote[..]].concat());
                ["env".to_owned()].into_iter().chain(words).chain(remote).collect()
            }),
            candidate("supergateway", {
                self.node("supergateway/dist/index.js", &["--streamableHttp", &url, "--logLevel", "none"])
            }),
            candidate("mcp-proxy (PyPI)", self.python(&["--transport", "streamablehttp", &url])),
        ]
    }

    fn program(&self, name: &str) -> String {
        self.programs.join(name).display().to_string()
    }

    fn ours(&self, words: &[&str]) -> Vec<String> {
        command(self.mcpjoin.display().to_string(), &[&["bridge"], words].concat())
    }

    fn node(&self, script: &str, words: &[&str]) -> Vec<String> {
        let script = self.folder.join("node_modules").join(script).display().to_string();
        command("node".to_owned(), &[&[script.as_str()], words].concat())
    }

    fn python(&self, words: &[&str]) -> Vec<String> {
        command(self.folder.join("venv/bin/mcp-proxy").display().to_string(), words)
    }
}

impl Drop for Bridges {
    fn drop(&mut self) {
        // The server may have ended already; then `kill` fails.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// The candidate without a bridge: the client's hop alone.
const NONE: &str = "no bridge";
