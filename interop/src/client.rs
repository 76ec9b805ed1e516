//! A foreign client against `mcpjoin serve demo`: runs its script in `interop/clients/`, hears what became of each check,
//! and holds that `interop/clients/table.md` says just that.
//!
//! Used by the tests of clients, and by nothing else. A script is started as `SCRIPT ERA -- SERVER WORDS...`; it opens
//! the server as often as it likes with exactly these words, does every check of [`CHECKS`] with a time limit of its
//! own, and prints one JSON object in each line: first `{"version": ".."}`, the client's own version as it is installed,
//! and then for each check `{"check": "open", "outcome": "right"}`, or `"fault"` or `"cannot"` with `"why"`. It goes by
//! `interop/clients/demo.json`, which says what the demonstration server has.
//!
//! What a script calls right is only so when what was seen from outside bears it out: that all it said was of that era
//! (`open`); that a call was cancelled by a notification, was never answered, and the session went on (`cancel`; that
//! its handler has stopped says the tool `running_computations`); and that every server has ended by itself, with exit
//! code 0 and nothing on stderr, and nothing is left running (`end`).
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is not as it should be fails the test that asked for it"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::table::{CHECKS, Outcome, Row};
use crate::witness::Witness;
use crate::{MARK, running, server};

/// A script that takes longer hangs: far above what the slowest takes on a busy machine, and below the limit that the
/// tests' runner sets.
const LIMIT: Duration = Duration::from_secs(240);

/// A client and how its script is started.
#[derive(Clone, Debug)]
pub struct Client {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
}

impl Client {
    /// The client that the table calls `name`, with an installed program, by its path below `interop/`, that runs the
    /// script.
    ///
    /// # Panics
    ///
    /// When it is not installed.
    #[must_use]
    pub fn installed(name: &str, path: &str) -> Self {
        Self::new(name, server(path).unwrap())
    }

    /// The client that the table calls `name`, with the program that runs the script.
    #[must_use]
    pub fn new(name: &str, program: impl Into<PathBuf>) -> Self {
        Self { name: name.to_owned(), program: program.into(), args: Vec::new() }
    }

    /// One argument more of the program, before the era: the script in `interop/clients/`, for an interpreter.
    #[must_use]
    pub fn script(mut self, name: &str) -> Self {
        self.args.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(name).into());
        self
    }

    /// Runs every check in that era, and holds that the table's row for it says just what was seen.
    ///
    /// # Panics
    ///
    /// When the table says something else, when the script does not do every check once in its time, or when it fails.
    pub fn is_as_the_table_says(&self, era: &str) {
        let row = Row::of(&self.name, era);
        let (version, seen) = self.run(era);
        assert_eq!(row.version, version, "the version of {} in the table and as it is installed", self.name);
        let mut wrong = String::new();
        for (check, (cell, outcome)) in CHECKS.iter().zip(row.cells.iter().zip(&seen)) {
            if let Err(why) = cell.says(outcome) {
                writeln!(wrong, "  {check}: {why}").unwrap();
            }
        }
        assert!(wrong.is_empty(), "the row of {}, {era}, and what was seen:\n{wrong}", self.name);
    }

    /// The client's version, and what became of the checks, in their order.
    fn run(&self, era: &str) -> (String, Vec<Outcome>) {
        static BINARY: OnceLock<PathBuf> = OnceLock::new();
        let binary = BINARY.get_or_init(|| crate::mcpjoin().unwrap());
        let name: String = format!("{}-{era}", self.name)
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .collect();
        let witness = Witness::new(&name);
        let child = Command::new(&self.program)
            .args(&self.args)
            .args([era, "--"])
            .args(witness.words(binary.as_os_str()))
            .env(MARK, witness.mark())
            .env("HOME", witness.folder())
            .env("NO_COLOR", "1")
            .current_dir(witness.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (success, stdout, stderr) = wait(child, &witness);
        let left = witness.left();
        let said = format!("it wrote:\n{stdout}\nand to stderr:\n{stderr}");
        let seen = read(&stdout).map(|(version, seen)| {
            let seen = CHECKS.iter().zip(seen).map(|(check, outcome)| match witness.bears_out(check, era) {
                Err(why) if outcome == Outcome::Right => Outcome::Fault(why),
                _ => outcome,
            });
            (version, seen.collect())
        });
        if !left.is_empty() {
            witness.kill();
        }
        assert!(success, "the script of {} has failed; {said}", self.name);
        seen.unwrap_or_else(|why| panic!("{why}; {said}"))
    }
}

/// Waits for the script's end and gives what it wrote; past the limit everything with this mark is ended.
fn wait(mut child: Child, witness: &Witness) -> (bool, String, String) {
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.read_to_end(&mut text);
        let status = child.wait().unwrap();
        let _ = sender.send((status.success(), String::from_utf8_lossy(&text).into_owned()));
    });
    match receiver.recv_timeout(LIMIT) {
        Ok((success, stdout)) => (success, stdout, errors.join().unwrap()),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            let left = running(witness.mark());
            witness.kill();
            panic!("the script has not ended in {LIMIT:?}; running: {left:?}; {}", errors.join().unwrap());
        }
    }
}

/// The version and the outcomes that a script has printed.
fn read(stdout: &str) -> Result<(String, Vec<Outcome>), String> {
    let mut lines = stdout.lines().map(|line| {
        serde_json::from_str::<Value>(line).map_err(|error| format!("not JSON ({error}): {line}"))
    });
    let first = lines.next().ok_or("the script has printed nothing")??;
    let version = first["version"].as_str().ok_or("the first line names no version")?.to_owned();
    let mut seen = BTreeMap::new();
    for line in lines {
        let line = line?;
        let why = || line["why"].as_str().filter(|why| !why.is_empty()).map(str::to_owned);
        let outcome = match (line["outcome"].as_str(), why()) {
            (Some("right"), None) => Outcome::Right,
            (Some("fault"), Some(why)) => Outcome::Fault(why),
            (Some("cannot"), Some(why)) => Outcome::Cannot(why),
            _ => return Err(format!("no outcome: {line}")),
        };
        let check = line["check"].as_str().filter(|name| CHECKS.contains(name));
        let check = check.ok_or_else(|| format!("no check: {line}"))?;
        if seen.insert(check.to_owned(), outcome).is_some() {
            return Err(format!("{check} is there twice"));
        }
    }
    let seen = CHECKS.iter().map(|check| seen.remove(*check).ok_or_else(|| format!("{check} is missing")));
    Ok((version, seen.collect::<Result<_, _>>()?))
}
