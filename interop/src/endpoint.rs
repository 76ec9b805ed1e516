//! What a foreign client connects to: the demonstration server itself, `mcpjoin bridge` to it, two of them with one key, that start it
//! or not, or `mcpjoin bridge` that joins it with a server on rmcp.
//!
//! Used by [`crate::client`] and its observers. It starts nothing. The demonstration server has no prefix at the joined
//! endpoint, and its policy allows the questions that servers may not ask by default, so the checks are the same.
#![allow(clippy::unwrap_used, reason = "what is not as it should be fails the test that asked for it")]

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::server;

/// The description of the demonstration server for the scripts.
const DEMO: &str = include_str!("../clients/demo.json");
/// The arguments of the binary for the demonstration server.
const SERVER: [&str; 3] = ["serve", "demo", "--full"];
const LISTEN: [&str; 2] = ["--listen", "http://127.0.0.1:0/mcp"];
const POLICY: &str = "[target.demo]\nsampling = true\nroots = true\n";
/// The server that is joined with the demonstration server, and knows the legacy era alone.
const OTHER: &str = "rmcp/target/debug/rmcp-old";

/// What a client connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Server,
    Bridge,
    Joined,
    /// Two bridges with one key, to which requests come in turn. Over HTTP only.
    Replicas,
    /// Two bridges with one key and one Redis, each of which starts the server itself. Over HTTP only.
    ReplicasOfProgram,
}

impl Endpoint {
    /// Whether requests come to two processes in turn.
    pub(crate) fn is_replicas(self) -> bool {
        matches!(self, Self::Replicas | Self::ReplicasOfProgram)
    }

    /// The command line of the server, for a bridge that starts it.
    pub(crate) fn program(binary: &OsStr) -> Vec<OsString> {
        ["--".into(), binary.into()].into_iter().chain(SERVER.map(OsString::from)).collect()
    }

    /// The arguments of the binary on standard input and output. Files that it needs are written into the folder.
    pub(crate) fn words(self, binary: &OsStr, folder: &Path) -> Vec<OsString> {
        self.assemble(binary, folder, &[])
    }

    /// The arguments of the binary that listens.
    pub(crate) fn listening(self, binary: &OsStr, folder: &Path) -> Vec<OsString> {
        self.assemble(binary, folder, &LISTEN)
    }

    fn assemble(self, binary: &OsStr, folder: &Path, listen: &[&str]) -> Vec<OsString> {
        let own = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        match self {
            // The server behind the bridges.
            Self::Server | Self::Replicas | Self::ReplicasOfProgram => [own(&SERVER), own(listen)].concat(),
            Self::Bridge => [own(&["bridge"]), own(listen), Self::program(binary)].concat(),
            Self::Joined => {
                let demo = json!({ "command": binary.to_str().unwrap(), "args": SERVER });
                let entries = json!({ "demo": demo, "rmcp": { "command": server(OTHER).unwrap() } });
                let config = written(folder, "joined.json", &json!({ "mcpServers": entries }).to_string());
                let policy = written(folder, "policy.toml", POLICY);
                let files = ["--config".into(), config.into(), "--policy".into(), policy.into()];
                [own(&["bridge"]), own(listen), own(&["--prefix", "demo="]), files.to_vec()].concat()
            }
        }
    }

    /// The number of lines that it prints when it listens, before and after the one with its address.
    pub(crate) const fn lines_around_the_address(self) -> (usize, usize) {
        match self {
            Self::Server | Self::Bridge | Self::Replicas => (0, 0),
            // Where the state is.
            Self::ReplicasOfProgram => (1, 0),
            // The names of the servers, and where each of them is alone.
            Self::Joined => (1, 1),
        }
    }

    /// The file that describes the endpoint for the script, if `demo.json` does not.
    pub(crate) fn description(self, folder: &Path, era: &str) -> Option<PathBuf> {
        let mut demo: Value = serde_json::from_str(DEMO).unwrap();
        if self == Self::ReplicasOfProgram && era == "modern" {
            // Without a session, each request has the program of the bridge at which it arrives.
            demo["isOneState"] = false.into();
            return Some(written(folder, "programs-demo.json", &demo.to_string()));
        }
        if self != Self::Joined {
            return None;
        }
        demo["name"] = "mcpjoin".into();
        demo["instructions"] = format!("## demo\n\n{}", demo["instructions"].as_str().unwrap()).into();
        demo["question"] = "[demo] ".into();
        demo["tools"].as_array_mut().unwrap().extend(["rmcp__echo".into(), "rmcp__fail".into()]);
        demo["echoes"].as_array_mut().unwrap().push("rmcp__echo".into());
        demo["saysNoError"].as_array_mut().unwrap().push("rmcp__echo".into());
        // Each session has a server of its own.
        demo["isOneProcess"] = false.into();
        Some(written(folder, "joined-demo.json", &demo.to_string()))
    }
}

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}
