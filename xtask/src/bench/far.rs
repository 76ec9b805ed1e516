//! The remote side of the part `quic`: our binary listens, from before the first measurement until after the last.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::{Context, Result};

/// All processes that listen while the part `quic` is measured.
pub(crate) struct FarSide {
    /// Offers the floor server to Orchestra's clients over QUIC and over TCP.
    pub(crate) host: Listening,
    pub(crate) orchestra: String,
    pub(crate) orchestra_tcp: String,
    /// The demonstration server over MCP's own QUIC transport.
    _demo: Listening,
    pub(crate) quic: String,
    pub(crate) pin: String,
    pub(crate) certs: PathBuf,
}

impl FarSide {
    /// Starts all processes. The certificates are created in `folder`.
    pub(crate) fn start(mcpjoin: &Path, floor: &Path, folder: &Path) -> Result<Self> {
        let certs = folder.join("certs");
        let mut host = Listening::start(
            Command::new(mcpjoin)
                .args(["bridge", "--certs-dir"])
                .arg(&certs)
                .args([
                    "--listen",
                    "orchestra://127.0.0.1:0",
                    "--listen",
                    "orchestra+tcp://127.0.0.1:0",
                    "--",
                ])
                .arg(floor),
        )?;
        let orchestra = host.after("listening on orchestra://")?;
        let orchestra_tcp = host.after("listening on orchestra+tcp://")?;
        let mut demo = Listening::start(Command::new(mcpjoin).args([
            "serve",
            "demo",
            "--full",
            "--listen",
            "quic://127.0.0.1:0",
        ]))?;
        let quic = demo.after("listening on ")?;
        let said = demo.line()?;
        let pin = said.split_once("--pin ").and_then(|(_, rest)| rest.split_whitespace().next());
        let pin = pin.with_context(|| format!("no pin in `{said}`"))?.to_owned();
        Ok(Self { host, orchestra, orchestra_tcp, _demo: demo, quic, pin, certs })
    }
}

/// A process of our binary that listens. It is ended when this value is dropped.
pub(crate) struct Listening {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Listening {
    fn start(command: &mut Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().context("standard error is a pipe")?;
        Ok(Self { child, stderr: BufReader::new(stderr) })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> Result<String> {
        let mut said = String::new();
        self.stderr.read_line(&mut said)?;
        Ok(said.trim_end().to_owned())
    }

    /// Returns the text after `words` on the next line that begins with them.
    fn after(&mut self, words: &str) -> Result<String> {
        loop {
            let said = self.line()?;
            if let Some(rest) = said.strip_prefix(words) {
                return Ok(rest.to_owned());
            }
            if said.is_empty() {
                anyhow::bail!("it never said `{words}`");
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The process may have ended already; then `kill` fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
