//! Takes the samples: measures the candidates of a cell in turns and keeps every sample.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::{Map, Value as Json, json};

use super::Options;
use super::cells::{Cell, DEAD, FROM_HTTP, FROM_STDIO, MIXED, MODERN, Part, RESOURCE, TOOLS};
use super::gateways;
use super::peers::{Candidate, Peers};

/// The samples of one candidate, or the reason why it could not be measured.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) samples: Vec<Map<String, Json>>,
    pub(crate) fault: Option<String>,
}

/// The file with every sample of a part, one JSON object per line.
pub(crate) struct Samples {
    part: Part,
    path: PathBuf,
    file: File,
}

impl Samples {
    pub(crate) fn create(folder: &Path, name: &str) -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let path = folder.join(format!("{name}-{now}.jsonl"));
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let part = Part::ALL.into_iter().find(|part| part.name() == name).context("a part")?;
        Ok(Self { part, path, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Measures a cell: each candidate once per repetition, in the order A B C, A B C ..., so that other load on the machine
    /// affects all candidates equally. A candidate that fails is not measured again.
    pub(crate) fn take(
        &mut self,
        peers: &Peers,
        cell: &Cell,
        candidates: &[Candidate],
        options: &Options,
    ) -> Result<Vec<Row>> {
        let payload = self.path.with_file_name(cell.payload());
        if cell.size > 0 {
            let text = Command::new(peers.load())
                .args(["payload", &cell.size.to_string(), cell.kind()])
                .stdin(Stdio::null())
                .output()?;
            fs::write(&payload, text.stdout)?;
        }
        let mut rows: Vec<Row> = candidates
            .iter()
            .map(|candidate| Row {
                name: candidate.name.to_string(),
                samples: Vec::new(),
                fault: candidate.fault.clone(),
            })
            .collect();
        // What is not a duration is the same each time.
        let turns = if cell.words == DEAD { 1 } else { self.part.turns(options.repetitions) };
        for repetition in 0..turns {
            for (candidate, row) in candidates.iter().zip(&mut rows) {
                if row.fault.is_some() {
                    continue;
                }
                let words = self.words(peers, cell, candidate, &payload, options.seconds);
                let mut sample = figures(&words)?;
                if let Some(fault) = sample.get("error") {
                    row.fault = Some(fault.as_str().unwrap_or_default().to_owned());
                }
                if candidate.generator {
                    // For a client, the CPU time of the client itself counts.
                    let own = sample.get("generator_cpu_us").cloned().unwrap_or_default();
                    sample.insert("cpu_us".into(), own);
                    sample.remove("peak_kib");
                }
                let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
                let line = json!({
                    "part": self.part.name(), "cell": cell.title(), "peer": candidate.name, "repetition": repetition,
                    "load": load.split_whitespace().next(), "figures": sample,
                });
                writeln!(self.file, "{line}")?;
                if row.fault.is_none() {
                    row.samples.push(sample);
                }
            }
        }
        Ok(rows)
    }

    /// The command line of one sample.
    fn words(
        &self,
        peers: &Peers,
        cell: &Cell,
        candidate: &Candidate,
        payload: &Path,
        seconds: f64,
    ) -> Vec<String> {
        let load = peers.load().display().to_string();
        let payload = payload.display().to_string();
        let (depth, seconds) = (cell.depth.to_string(), seconds.to_string());
        let floor = peers.load().with_file_name("floor").display().to_string();
        let under_load = |server: &[String]| {
            let mut words = vec![load.as_str(), "stdio", "--depth", &depth, "--seconds", &seconds];
            if self.part == Part::Servers {
                words.extend(["--work", cell.words.first().unwrap_or(&"echo")]);
            }
            let beside = candidate.beside.map(|process| process.to_string());
            words.extend(beside.iter().flat_map(|process| ["--beside", process]));
            words.extend((cell.size > 0).then_some(payload.as_str()));
            words.push("--");
            let offer: &[&str] = match cell.words {
                MIXED => &["--progress"],
                TOOLS => &["--tools", &payload],
                RESOURCE => &["--resource", &payload],
                _ => &[],
            };
            let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            owned(&words).into_iter().chain(server.iter().cloned()).chain(owned(offer)).collect()
        };
        match self.part {
            Part::Clients if candidate.generator => under_load(&[floor]),
            Part::Clients => {
                candidate.command.iter().cloned().chain([depth, seconds, payload, floor]).collect()
            }
            Part::Quic if candidate.client => {
                let client = peers.ours_client().display().to_string();
                [client, depth, seconds, payload]
                    .into_iter()
                    .chain(candidate.command.iter().cloned())
                    .collect()
            }
            Part::Servers | Part::Quic => under_load(&candidate.command),
            Part::Gateway if candidate.name == gateways::NONE => under_load(&candidate.command),
            Part::Gateway => {
                let at = candidate.command.iter().position(|word| word == "--").unwrap_or_default();
                let (about, command) = candidate.command.split_at(at);
                let measurement: Vec<&str> = match cell.words {
                    ["calls", sessions] => {
                        vec!["calls", sessions, "--connections", &depth, "--seconds", &seconds, &payload]
                    }
                    words => words[..1].to_vec(),
                };
                let words = [load, "gateway".to_owned()].into_iter().chain(about.iter().cloned());
                let measurement = measurement.into_iter().map(str::to_owned);
                words.chain(measurement).chain(command.iter().cloned()).collect()
            }
            Part::Replicas => {
                let (count, program) = candidate.command.split_at(1);
                let mode = if cell.words == MODERN { "stateless" } else { "stateful" };
                let words =
                    [&load, "replicas", &count[0], mode, "--connections", &depth, "--seconds", &seconds];
                let words = words.into_iter().chain([payload.as_str(), "--"]).map(str::to_owned);
                words.chain(program.iter().cloned()).collect()
            }
            Part::Bridge if cell.words == FROM_STDIO => under_load(&candidate.command),
            Part::Bridge if cell.words != FROM_HTTP => {
                let words = [&[load.as_str()], cell.words, &["--"]].concat();
                words.iter().map(|word| (*word).to_owned()).chain(candidate.command.iter().cloned()).collect()
            }
            Part::Http | Part::Bridge => {
                let mode: &[&str] = if self.part == Part::Http { cell.words } else { &["stateful"] };
                let about = ["--connections", &depth, "--seconds", &seconds, &payload, "--"];
                let words = [&[load.as_str(), "http"], mode, &about].concat();
                words.iter().map(|word| (*word).to_owned()).chain(candidate.command.iter().cloned()).collect()
            }
            Part::Sessions => {
                let words = [&[load.as_str(), "sessions"], cell.words, &["--"]].concat();
                words.iter().map(|word| (*word).to_owned()).chain(candidate.command.iter().cloned()).collect()
            }
            Part::Startup => [load, "startup".into(), "--".into()]
                .into_iter()
                .chain(candidate.command.iter().cloned())
                .collect(),
            Part::CommandLines => [load, "wall".into(), "--".into()]
                .into_iter()
                .chain(candidate.command.iter().cloned())
                .collect(),
        }
    }
}

/// Runs the command and reads its one JSON object, which may report an error.
fn figures(words: &[String]) -> Result<Map<String, Json>> {
    let (program, arguments) = words.split_first().context("there is a program")?;
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default();
    Ok(serde_json::from_str(last).unwrap_or_else(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().unwrap_or_default();
        Map::from_iter([("error".to_owned(), json!(format!("{}: {said}", output.status)))])
    }))
}
