//! `cargo xtask instructions`: counts the processor's instructions of the hot operations and of a start of the binary, and holds
//! them against `bench/instructions.toml`.
//!
//! valgrind counts the same number twice for one binary (a start: to 0.1 %), whatever else the machine does, so a change
//! of a few per cent is seen where a clock shows nothing. Another compiler, processor or C library counts otherwise: write
//! the file anew then, in a change of its own. Needs valgrind and crates.io. Part of `release-check`.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::steps::{cargo, succeed};

/// The numbers of the last change that wrote them.
const KNOWN: &str = "bench/instructions.toml";
/// The largest change in either direction that needs no explanation.
const TOLERANCE: f64 = 0.02;
/// The cells, as `bench/micro/src/counted.rs` names them, and how often each operation runs.
const CELLS: [(&str, u64); 8] = [
    ("decode-call", 2000),
    ("decode-list", 200),
    ("decode-64KiB", 200),
    ("call-memory", 2000),
    ("call-stream", 2000),
    ("call-stream-16-at-once", 2000),
    ("http-session", 10_000),
    ("http-2026-07-28", 10_000),
];

/// The cell for a start of the binary, with the profile `release`: from `exec` to the end of its input, one message answered.
const START: &str = "start";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

/// Counts, prints a table, and fails at a change above [`TOLERANCE`], or writes the file anew.
pub(crate) fn run(root: &Path, write: bool) -> Result<()> {
    let arguments = [
        "build",
        "--quiet",
        "--release",
        "--manifest-path",
        "bench/Cargo.toml",
        "--package",
        "mcpjoin-bench",
    ];
    succeed(&mut cargo(root, &arguments))?;
    succeed(&mut cargo(root, &["build", "--quiet", "--release", "--package", "mcpjoin-cli"]))?;
    let program = root.join("bench/target/release/mcpjoin-bench");
    let known: BTreeMap<String, u64> = toml::from_str(&fs::read_to_string(root.join(KNOWN))?)?;
    let (mut text, mut changed) = (String::new(), Vec::new());
    println!("{:<24} {:>12} {:>12} {:>8}", "", "now", "known", "change");
    let operations = CELLS.map(|(cell, times)| {
        // Twice as often: the difference has no start in it.
        let [once, twice] = [times, 2 * times].map(|times| {
            let mut count = valgrind(&program);
            count.args(["count", cell, &times.to_string()]);
            collected(cell, count, None)
        });
        (cell, once.and_then(|once| Ok((twice? - once) / times)))
    });
    let mut serve = valgrind(&root.join("target/release/mcpjoin"));
    serve.args(["serve", "demo"]);
    let start = (START, collected(START, serve, Some(INITIALIZE)));
    for (cell, now) in operations.into_iter().chain([start]) {
        let now = now?;
        text += &format!("{cell} = {now}\n");
        let before = known.get(cell).copied().unwrap_or(0);
        let change = now as f64 / before as f64 - 1.0;
        println!("{cell:<24} {now:>12} {before:>12} {:>+7.1}%", change * 100.0);
        if change.is_nan() || change.abs() > TOLERANCE {
            changed.push(cell);
        }
    }
    if write {
        let head: String = fs::read_to_string(root.join(KNOWN))?
            .lines()
            .filter(|line| line.starts_with('#'))
            .map(|line| format!("{line}\n"))
            .collect();
        return Ok(fs::write(root.join(KNOWN), head + &text)?);
    }
    if !changed.is_empty() {
        bail!(
            "more than {} % of change: {}; if it is meant, say why and run `cargo xtask instructions --write`",
            TOLERANCE * 100.0,
            changed.join(", ")
        );
    }
    Ok(())
}

/// A run of the program that is counted.
fn valgrind(program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    // A start reads the environment: 40 more variables are 2 % of it.
    command.env_clear().args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command
}

/// The instructions of a run. `input`: the only line of its standard input.
fn collected(cell: &str, mut command: Command, input: Option<&str>) -> Result<u64> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("valgrind is missing: apt install valgrind")?;
    // Taken without a line as well: its end is the end of the run.
    if let (Some(mut stdin), Some(line)) = (child.stdin.take(), input) {
        writeln!(stdin, "{line}")?;
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{cell}: {said}");
    }
    let collected = said.lines().find_map(|line| line.split_once("Collected :"));
    let number = collected.and_then(|(_, number)| number.trim().parse().ok());
    number.with_context(|| format!("valgrind printed no count: {said}"))
}
