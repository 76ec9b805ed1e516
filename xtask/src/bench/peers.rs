//! The measured programs: how each is built, installed and started.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value as Json;

use super::bridges::Bridges;
use super::cells::{Cell, HTTP_2, Part};
use super::far::FarSide;
use super::gateways::Gateways;
use super::replicas::Replicas;
use crate::interop;
use crate::steps::{self, cargo, succeed};

/// All programs that can be started.
pub(crate) struct Peers {
    /// Our binary, built as users install it.
    mcpjoin: PathBuf,
    /// The folder with the programs of `bench/`.
    programs: PathBuf,
    /// `bench/peers`.
    folder: PathBuf,
}

/// One measured program.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) name: Cow<'static, str>,
    /// The command line that starts it. For a client it lacks the arguments that all clients share; in the part `quic` it
    /// is the command of the client's server.
    pub(crate) command: Vec<String>,
    /// Whether it is the load generator itself, which is the floor of clients.
    pub(crate) generator: bool,
    /// Whether it is a client, which runs without the load generator.
    pub(crate) client: bool,
    /// A process that works for the candidate. Its CPU time is added to the candidate's.
    pub(crate) beside: Option<u32>,
    /// Why it cannot be measured.
    pub(crate) fault: Option<String>,
}

impl Peers {
    /// Builds the Rust programs with optimisation, and installs the pinned packages from npm and PyPI. `mcpjoin` is a
    /// binary to measure instead of one that is built. Without `sdks`, only what the parts `gateway` and `replicas` need is built,
    /// and the peers of the first are installed later.
    pub(crate) fn install(root: &Path, mcpjoin: Option<&Path>, sdks: bool) -> Result<Self> {
        let mcpjoin = match mcpjoin {
            Some(binary) => {
                binary.canonicalize().with_context(|| format!("there is no {}", binary.display()))?
            }
            None => build_mcpjoin(root)?,
        };
        let packages: &[&str] =
            if sdks { &["--workspace"] } else { &["--bin", "load", "--bin", "floor", "--bin", "floor-http"] };
        let programs = build_programs(root, packages)?;
        let folder = root.join("bench/peers");
        if sdks {
            install_scripts(&folder, &["node"], &["python"])?;
            steps::stdout(
                Command::new(programs.join("load")).arg("certificate").arg(programs.join("certs")),
            )?;
        }
        Ok(Self { mcpjoin, programs, folder })
    }

    pub(super) fn mcpjoin(&self) -> &Path {
        &self.mcpjoin
    }

    /// The program of `bench/` with this name.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    pub(crate) fn load(&self) -> PathBuf {
        self.programs.join("load")
    }

    /// Describes the machine and the versions in one paragraph.
    pub(crate) fn described(&self) -> Result<String> {
        let line = |program: &str, words: &[&str]| -> Result<String> {
            Ok(steps::stdout(Command::new(program).args(words))?.trim().to_owned())
        };
        let model = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = model.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Ok(format!(
            "{}, {} processors, load {}; {}, node {}, {}; rmcp 3.11.0, TypeScript SDK 2.4.0 and 1.32.2, Python SDK \
             2.3.0, fastmcp 4.2.3, Inspector 0.15.0; supergateway 4.0.0, mcp-proxy 6.7.19 (npm) and 0.13.0 (PyPI), \
             mcp-remote 0.15.1; mcp-proxy 0.6.0 (crates.io), mcp-hub 4.2.1, fastmcp 4.2.3, mcpo 0.0.20 with mcp 1.30.0, \
             server-everything 2026.8.31",
            model.trim_start_matches([' ', '\t', ':']),
            std::thread::available_parallelism()?,
            load.split_whitespace().next().unwrap_or_default(),
            line("rustc", &["--version"])?,
            line("node", &["--version"])?,
            line("python3", &["--version"])?,
        ))
    }

    /// The candidates of a cell.
    pub(crate) fn of(&self, part: Part, cell: &Cell, far: Option<&FarSide>) -> Vec<Candidate> {
        let mut all = match part {
            Part::Servers => self.servers(),
            Part::Startup => self.servers(),
            Part::Clients => self.clients(),
            Part::CommandLines => self.command_lines(),
            Part::Http => self.http(cell.words),
            Part::Sessions => self.http(&["stateful"]),
            Part::Quic => far.map_or_else(Vec::new, |far| self.over_quic(far)),
            // These parts have lists of their own.
            Part::Bridge | Part::Gateway | Part::Replicas => Vec::new(),
        };
        // Where handlers run is measured only where the cost of a call shows; the pending tool only with several calls.
        let small = part == Part::Servers && cell.size == 64;
        all.retain(|candidate| small || !candidate.name.contains("multi-thread"));
        all.retain(|candidate| cell.depth == 16 || !candidate.name.contains("pending"));
        if cell.words.contains(&HTTP_2) {
            // The others do not speak it without TLS.
            let others = ["ours, TLS", "TypeScript", "Python"];
            all.retain(|candidate| !others.iter().any(|other| candidate.name.starts_with(other)));
        }
        if cell.words.contains(&"streams") {
            // The generator opens these streams without TLS.
            all.retain(|candidate| candidate.name != "ours, TLS");
        }
        if part == Part::Servers && !cell.words.is_empty() {
            // The others do not offer what these cells ask for.
            let others = ["floor, one scan", "ours", "rmcp, pipes", "Python SDK"];
            all.retain(|candidate| !others.contains(&&*candidate.name));
        }
        all
    }

    fn servers(&self) -> Vec<Candidate> {
        let demo =
            || vec![self.mcpjoin.display().to_string(), "serve".into(), "demo".into(), "--full".into()];
        vec![
            candidate("floor", self.program("floor", &[])),
            candidate("floor, one scan", self.program("floor", &["--scan"])),
            candidate("ours", demo()),
            // The library without the binary, and one tool, like the server on rmcp.
            candidate("ours, one tool", self.program("ours-server", &[])),
            // Each handler in a task of its own, which is the default there, and in the task of its connection.
            candidate("ours, multi-thread, own tasks", self.program("ours-server", &["--rt", "multi"])),
            candidate("ours, multi-thread, inline", {
                self.program("ours-server", &["--rt", "multi", "--inline"])
            }),
            candidate("ours, pending once, multi-thread", {
                self.program("ours-server", &["--rt", "multi", "--pending"])
            }),
            candidate("rmcp, one thread", self.program("rmcp-server", &["--rt", "current", "pipes"])),
            candidate("rmcp, pipes", self.program("rmcp-server", &["pipes"])),
            candidate("rmcp, default", self.program("rmcp-server", &["stdio"])),
            candidate("TypeScript SDK 2", self.node("server.mjs", &["v2"])),
            candidate("TypeScript SDK 1", self.node("server.mjs", &["v1"])),
            candidate("Python SDK, low level", self.python("server.py", &["low"])),
            candidate("Python SDK", self.python("server.py", &["fast"])),
        ]
    }

    fn clients(&self) -> Vec<Candidate> {
        vec![
            Candidate { generator: true, ..candidate("floor", Vec::new()) },
            client("ours", self.program("ours-client", &[])),
            client("rmcp, one thread", self.program("rmcp-client", &["--rt", "current"])),
            client("rmcp, default", self.program("rmcp-client", &[])),
            client("TypeScript SDK 2", self.node("client.mjs", &["v2"])),
            client("TypeScript SDK 1", self.node("client.mjs", &["v1"])),
            client("Python SDK", self.python("client.py", &[])),
        ]
    }

    /// The floor server as a child, and the same server behind two bridges and Orchestra; and our client with our
    /// demonstration server, as a child and over QUIC. The command of a client here is that of its server alone.
    fn over_quic(&self, far: &FarSide) -> Vec<Candidate> {
        let mcpjoin = || self.mcpjoin.display().to_string();
        let certs = far.certs.display().to_string();
        let bridge = |name, words: &[&str]| Candidate {
            beside: Some(far.host.id()),
            ..candidate(name, command(mcpjoin(), &[&["bridge"][..], words].concat()))
        };
        let quic = ["--orchestrator-addr", &far.orchestra, "--certs-dir", &certs];
        vec![
            candidate("floor", self.program("floor", &[])),
            bridge("two bridges and Orchestra over QUIC", &quic),
            bridge("two bridges and Orchestra over TCP", &["--tcp-addr", &far.orchestra_tcp]),
            client("our client, demo as a child", command(mcpjoin(), &["serve", "demo", "--full"])),
            client("our client, demo over QUIC", vec![far.quic.clone(), far.pin.clone()]),
        ]
    }

    /// Starts the processes that listen while the part `quic` is measured.
    pub(crate) fn far_side(&self, folder: &Path) -> Result<FarSide> {
        FarSide::start(&self.mcpjoin, &self.programs.join("floor"), folder)
    }

    /// Installs the bridges, and starts the server that listens while they are measured.
    pub(crate) fn bridges(&self) -> Result<Bridges> {
        Bridges::start(&self.folder, &self.mcpjoin, &self.programs)
    }

    /// Starts the server that several bridges reach.
    pub(crate) fn replicas(&self, results: &Path) -> Result<Replicas> {
        Replicas::start(&self.mcpjoin, &self.programs, results)
    }

    /// Installs the gateways.
    pub(crate) fn gateways(&self, root: &Path, results: &Path) -> Result<Gateways> {
        Gateways::install(root, &self.folder, &self.mcpjoin, &self.programs, results)
    }

    pub(crate) fn ours_client(&self) -> PathBuf {
        self.programs.join("ours-client")
    }

    /// The servers over HTTP, with or without sessions. The load generator replaces `{port}` with a port.
    fn http(&self, words: &[&str]) -> Vec<Candidate> {
        let mode = words[0];
        let listen = "http://127.0.0.1:{port}/mcp";
        let demo = |words: &[&str]| {
            let demo = ["serve", "demo", "--full", "--listen"];
            command(self.mcpjoin.display().to_string(), &[&demo[..], words].concat())
        };
        let [certificate, key] =
            ["cert.pem", "key.pem"].map(|file| self.path("certs").join(file).display().to_string());
        vec![
            candidate("floor", self.program("floor-http", &[&["{port}"], &words[1..]].concat())),
            candidate("ours", demo(&[listen])),
            candidate("ours, TLS", {
                demo(&["https://127.0.0.1:{port}/mcp", "--cert", &certificate, "--key", &key])
            }),
            candidate("ours, one tool", self.program("ours-server", &["--http", listen])),
            candidate("rmcp, one thread", {
                self.program("rmcp-server", &["--rt", "current", "http", "{port}", mode])
            }),
            candidate("rmcp, default", self.program("rmcp-server", &["http", "{port}", mode])),
            candidate("TypeScript SDK 2", self.node("server.mjs", &["v2", "http", "{port}", mode])),
            candidate("TypeScript SDK 1", self.node("server.mjs", &["v1", "http", "{port}", mode])),
            candidate("Python SDK, low level", self.python("server.py", &["low", "http", "{port}", mode])),
        ]
    }

    fn command_lines(&self) -> Vec<Candidate> {
        let floor = self.programs.join("floor").display().to_string();
        let load = self.load().display().to_string();
        let mcpjoin = self.mcpjoin.display().to_string();
        let inspector = self.folder.join("node/node_modules/.bin/mcp-inspector").display().to_string();
        let python = self.folder.join("python/venv/bin");
        let fastmcp = python.join("fastmcp").display().to_string();
        let python = python.join("python").display().to_string();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        vec![
            // Starts the server, waits for one response, and ends the server.
            candidate("floor", words(&[&load, "startup", "--", &floor])),
            candidate("ours: mcpjoin list", words(&[&mcpjoin, "list", &floor])),
            candidate("ours: mcpjoin list --no-cache", words(&[&mcpjoin, "list", "--no-cache", &floor])),
            candidate("ours: mcpjoin call", words(&[&mcpjoin, "call", &floor, "echo", "message=hi"])),
            candidate("Inspector: --cli tools/list", {
                words(&[&inspector, "--cli", &floor, "--method", "tools/list"])
            }),
            candidate("Inspector: --cli tools/call", {
                let call = ["--method", "tools/call", "--tool-name", "echo", "--tool-arg", "message=hi"];
                words(&[&[inspector.as_str(), "--cli", &floor], &call[..]].concat())
            }),
            candidate("fastmcp list", words(&[&fastmcp, "list", "--command", &floor])),
            candidate("fastmcp call", {
                let call = ["--target", "echo", "--input-json", r#"{"message":"hi"}"#];
                words(&[&[fastmcp.as_str(), "call", "--command", &floor], &call[..]].concat())
            }),
            candidate("nothing in Node: node -e", words(&["node", "-e", "console.log(0)"])),
            candidate("nothing in Python: python -c", words(&[&python, "-c", "print(0)"])),
        ]
    }

    fn program(&self, name: &str, words: &[&str]) -> Vec<String> {
        command(self.programs.join(name).display().to_string(), words)
    }

    fn node(&self, script: &str, words: &[&str]) -> Vec<String> {
        let script = self.folder.join("node").join(script).display().to_string();
        command("node".to_owned(), &[&[script.as_str()], words].concat())
    }

    fn python(&self, script: &str, words: &[&str]) -> Vec<String> {
        let folder = self.folder.join("python");
        let script = folder.join(script).display().to_string();
        command(folder.join("venv/bin/python").display().to_string(), &[&[script.as_str()], words].concat())
    }
}

pub(crate) fn candidate(name: &'static str, command: Vec<String>) -> Candidate {
    Candidate { name: name.into(), command, generator: false, client: false, beside: None, fault: None }
}

fn client(name: &'static str, command: Vec<String>) -> Candidate {
    Candidate { client: true, ..candidate(name, command) }
}

pub(crate) fn command(program: String, words: &[&str]) -> Vec<String> {
    std::iter::once(program).chain(words.iter().map(|word| (*word).to_owned())).collect()
}

/// Builds our binary as people are given it, and the programs of `bench/`; returns the binary and the programs' folder.
pub(super) fn build(root: &Path) -> Result<(PathBuf, PathBuf)> {
    Ok((build_mcpjoin(root)?, build_programs(root, &["--workspace"])?))
}

/// Builds our binary as people are given it.
fn build_mcpjoin(root: &Path) -> Result<PathBuf> {
    built(root, &["build", "--release", "--package", "mcpjoin-cli", "--bin", "mcpjoin"])
}

fn build_programs(root: &Path, packages: &[&str]) -> Result<PathBuf> {
    let words = ["build", "--release", "--manifest-path", "bench/Cargo.toml"];
    let load = built(root, &[&words[..], packages].concat())?;
    Ok(load.parent().context("a program lies in a folder")?.to_path_buf())
}

/// Builds with cargo, and returns the path of the last executable.
fn built(root: &Path, words: &[&str]) -> Result<PathBuf> {
    let words = [words, &["--message-format=json-render-diagnostics"]].concat();
    let messages = steps::stdout(&mut cargo(root, &words))?;
    let mut executables = messages.lines().filter_map(|line| {
        let message: Json = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    executables.next_back().with_context(|| format!("cargo {} built no program", words.join(" ")))
}

/// Installs the packages that the pins in these subfolders name, unless exactly those are installed already.
pub(crate) fn install_scripts(folder: &Path, node: &[&str], python: &[&str]) -> Result<()> {
    let of_node = node.iter().flat_map(|place| [(place, "package.json"), (place, "package-lock.json")]);
    let files = of_node.chain(python.iter().map(|place| (place, "requirements.txt")));
    let pins = interop::pins(folder, files.map(|(place, file)| Path::new(place).join(file)))?;
    let stamp = folder.join(".installed");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == pins) {
        return Ok(());
    }
    let missing = interop::missing();
    if !missing.is_empty() {
        bail!("the peers need {}", missing.join(" and "));
    }
    let run = |program: &Path, place: &str, words: &[&str]| {
        succeed(Command::new(program).args(words).current_dir(folder.join(place)).stdin(Stdio::null()))
    };
    for place in node {
        interop::install_npm(&folder.join(place), &stamp)?;
    }
    let pip = [
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--requirement",
        "requirements.txt",
    ];
    for place in python {
        run(Path::new("python3"), place, &["-m", "venv", "--clear", "venv"])?;
        run(&folder.join(place).join("venv/bin/pip"), place, &pip)?;
    }
    fs::write(&stamp, pins).with_context(|| format!("cannot write {}", stamp.display()))
}
