//! The gateways of `cargo xtask bench`: how each is installed, configured and started, and the servers behind them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::{Map, Value as Json, json};

use super::cells::Cell;
use super::peers::{Candidate, candidate, command, install_scripts};
use crate::steps::{cargo, succeed};

/// The candidate that is the server alone, over its standard input and output.
pub(super) const NONE: &str = "no gateway";
/// The candidate that the others are compared with.
pub(super) const OURS: &str = "ours";
/// The gateway from crates.io, and its version.
const CRATE: (&str, &str) = ("mcp-proxy", "0.6.0");
/// What the generator replaces with the port, and with the path of the configuration.
const PORT: &str = "{port}";
const CONFIG: &str = "{config}";
/// The largest number of servers behind a gateway.
const MOST: usize = 5;

/// The installed gateways, and the servers for them.
pub(crate) struct Gateways {
    mcpjoin: PathBuf,
    /// `bench/peers`.
    peers: PathBuf,
    /// The folder for servers and configurations.
    work: PathBuf,
    /// Peers that could not be installed, by the beginnings of their names, with the reason.
    missing: Vec<(&'static str, String)>,
}

impl Gateways {
    /// Installs the gateways. A peer that cannot be installed is a row that says so.
    pub(crate) fn install(
        root: &Path,
        peers: &Path,
        mcpjoin: &Path,
        programs: &Path,
        results: &Path,
    ) -> Result<Self> {
        let folder = peers.join("gateways");
        let mut missing = Vec::new();
        let mut note = |names: &[&'static str], installed: Result<()>| {
            if let Err(error) = installed {
                missing.extend(names.iter().map(|name| (*name, format!("cannot be installed: {error:#}"))));
            }
        };
        note(&["supergateway"], install_scripts(&peers.join("bridges"), &[""], &[""]));
        note(&["mcp-hub", "fastmcp", "mcpo"], install_scripts(&folder, &[""], &["fastmcp", "mcpo"]));
        note(&[CRATE.0], install_crate(root, &folder.join("crate")));
        let work = results.join("gateway");
        let gateways = Self { mcpjoin: mcpjoin.into(), peers: peers.into(), work, missing };
        for servers in [Servers::Simple, Servers::Everything] {
            gateways.prepare(servers, &programs.join("floor"))?;
        }
        Ok(gateways)
    }

    /// Makes the programs `b1` to `b5`, and the configurations for one of them and for all.
    fn prepare(&self, servers: Servers, simple: &Path) -> Result<()> {
        let folder = self.folder(servers);
        fs::create_dir_all(&folder)?;
        for name in names(MOST) {
            let program = folder.join(name);
            // One of an earlier run may be a link to a program that was built again.
            let _ = fs::remove_file(&program);
            match servers {
                Servers::Simple => {
                    fs::hard_link(simple, &program).or_else(|_| fs::copy(simple, &program).map(drop))?;
                }
                Servers::Everything => {
                    let script =
                        self.peers.join("gateways/node_modules/@modelcontextprotocol/server-everything");
                    let script = script.join("dist/index.js");
                    fs::write(&program, format!("#!/bin/sh\nexec node {} stdio\n", script.display()))?;
                    succeed(Command::new("chmod").arg("+x").arg(&program))?;
                }
            }
        }
        for count in [1, MOST] {
            let programs = || names(count).map(|name| (folder.join(&name).display().to_string(), name));
            let entries: Map<String, Json> =
                programs().map(|(program, name)| (name, json!({ "command": program, "args": [] }))).collect();
            let json = json!({ "mcpServers": entries });
            fs::write(self.config(servers, count, "json"), json.to_string())?;
            let mut toml = format!(
                "[proxy]\nname = \"gateway\"\nseparator = \"__\"\n\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {PORT}\n"
            );
            for (program, name) in programs() {
                toml += &format!(
                    "\n[[backends]]\nname = {name:?}\ntransport = \"stdio\"\ncommand = {program:?}\n"
                );
            }
            fs::write(self.config(servers, count, "toml"), toml)?;
        }
        Ok(())
    }

    fn folder(&self, servers: Servers) -> PathBuf {
        self.work.join(servers.name())
    }

    fn config(&self, servers: Servers, count: usize, kind: &str) -> PathBuf {
        self.work.join(format!("{}-{count}.{kind}", servers.name()))
    }

    /// The candidates of a cell. Each command has the generator's words about the gateway before `--`.
    pub(crate) fn of(&self, cell: &Cell) -> Vec<Candidate> {
        let servers = if cell.words.contains(&"everything") { Servers::Everything } else { Servers::Simple };
        let count = if cell.words.contains(&"one") { 1 } else { MOST };
        let mut all = self.all(servers, count);
        if cell.words.contains(&"shared") {
            all.insert(0, candidate(NONE, vec![self.folder(servers).join("b1").display().to_string()]));
        }
        for candidate in &mut all {
            let missing = self.missing.iter().find(|(name, _)| candidate.name.starts_with(name));
            candidate.fault = missing.map(|(_, reason)| reason.clone());
            if candidate.name.starts_with("supergateway") && count > 1 && !cell.words.contains(&"calls") {
                candidate.fault = Some("it has one target only".to_owned());
            }
        }
        all
    }

    fn all(&self, servers: Servers, count: usize) -> Vec<Candidate> {
        let folder = self.folder(servers).display().to_string();
        let gateway = |name, mode: &str, path: &str, tool: &str, config: &str, program: Vec<String>| {
            let backends = if tool == "echo" { 1 } else { count };
            let config = self.config(servers, count, config).display().to_string();
            let backends = backends.to_string();
            let words = ["--mode", mode, "--path", path, "--tool", tool, "--config", &config];
            let words = [&words[..], &["--folder", &folder, "--backends", &backends, "--"]].concat();
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            candidate(name, words.into_iter().chain(program).collect())
        };
        let ours = || {
            let listen = format!("http://127.0.0.1:{PORT}/mcp");
            let program = self.mcpjoin.display().to_string();
            command(program, &["bridge", "--listen", &listen, "--config", CONFIG])
        };
        let folder_of = |name: &str| self.peers.join("gateways").join(name);
        let program = |path: PathBuf, words: &[&str]| command(path.display().to_string(), words);
        let node = |path: PathBuf, words: &[&str]| {
            command("node".to_owned(), &[&[path.display().to_string().as_str()], words].concat())
        };
        // mcp-hub keeps its state and its log below these folders.
        let state = self.work.join("mcp-hub").display().to_string();
        let hub = ["env".to_owned(), format!("XDG_STATE_HOME={state}"), format!("XDG_DATA_HOME={state}")];
        let hub_words = ["--port", PORT, "--config", CONFIG];
        let target = format!("{folder}/b1");
        let super_words =
            ["--stdio", &target, "--outputTransport", "streamableHttp", "--stateful", "--port", PORT];
        vec![
            gateway(OURS, "stateful", "/mcp", "{backend}__echo", "json", ours()),
            gateway("ours, 2026-07-28", "stateless", "/mcp", "{backend}__echo", "json", ours()),
            gateway("mcp-proxy (crate)", "stateful", "/", "{backend}__echo", "toml", {
                program(folder_of("crate/bin/mcp-proxy"), &["--config", CONFIG])
            }),
            gateway("mcp-hub", "events", "/mcp", "{backend}__echo", "json", {
                let script = folder_of("node_modules/mcp-hub/dist/cli.js");
                hub.into_iter().chain(node(script, &hub_words)).collect()
            }),
            gateway("fastmcp", "stateful", "/mcp", "{backend}_echo", "json", {
                let script = folder_of("fastmcp/gateway.py").display().to_string();
                program(folder_of("fastmcp/venv/bin/python"), &[&script, CONFIG, PORT])
            }),
            gateway("mcpo", "openapi", "/", "/{backend}/echo", "json", {
                let words =
                    ["--host", "127.0.0.1", "--port", PORT, "--config", CONFIG, "--log-level", "ERROR"];
                program(folder_of("mcpo/venv/bin/mcpo"), &words)
            }),
            gateway("supergateway, one target", "stateful", "/mcp", "echo", "json", {
                let script = self.peers.join("bridges/node_modules/supergateway/dist/index.js");
                node(script, &[&super_words[..], &["--logLevel", "none"]].concat())
            }),
        ]
    }
}

/// Which servers are behind the gateways.
#[derive(Clone, Copy)]
enum Servers {
    /// The floor: a server with one tool that costs the least.
    Simple,
    /// `@modelcontextprotocol/server-everything` from npm.
    Everything,
}

impl Servers {
    const fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Everything => "everything",
        }
    }
}

fn names(count: usize) -> impl Iterator<Item = String> {
    (1..=count).map(|number| format!("b{number}"))
}

/// Installs the gateway from crates.io with the dependencies of its own lock file, unless it is there already.
fn install_crate(root: &Path, folder: &Path) -> Result<()> {
    let (name, version) = CRATE;
    let stamp = folder.join(".version");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == version) {
        return Ok(());
    }
    let place = folder.display().to_string();
    let words = ["install", name, "--version", version, "--locked", "--quiet", "--force", "--root", &place];
    succeed(cargo(root, &words).stdin(Stdio::null()))?;
    fs::write(&stamp, version).with_context(|| format!("cannot write {}", stamp.display()))
}
