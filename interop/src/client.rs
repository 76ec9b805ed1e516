//! A foreign client against `mcpjoin serve demo`: runs its script in `interop/clients/`, hears what became of each check,
//! and holds that `interop/clients/table.md` says just that.
//!
//! Used by the tests of clients, and by nothing else. A script is started as `SCRIPT ERA -- SERVER WORDS...`; it opens
//! the server as often as it likes with exactly these words, does every check of [`CHECKS`] with a time limit of its
//! own, and prints one JSON object in each line: first `{"version": ".."}`, the client's own version as it is installed,
//! and then for each check `{"check": "open", "outcome": "right"}`, or `"fault"` or `"cannot"` with `"why"`. What only
//! the outside can see of an end (the server's exit status, what it wrote to stderr, and what is left running) is seen
//! here, and makes a fault of the check `end`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "what is not as it should be fails the test that asked for it"
)]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::table::{CHECKS, Outcome, Row};
use crate::{Folder, MARK, running, server};

/// A script that takes longer hangs: far above what the slowest takes on a busy machine, and below the limit that the
/// tests' runner sets.
const LIMIT: Duration = Duration::from_secs(240);

/// A client that does not wait for its server's end is none the worse for it: from then on the server has this long.
const GRACE: Duration = Duration::from_secs(10);

/// Stands between client and server: a shell that hands stdin and stdout through, and writes down how the server was
/// started and how it ended. Without an end written down, the client has killed it. `$1` is the folder to write to.
const WITNESS: &str = r#"
folder=$1; shift
echo started >>"$folder/witness"
"$@" 2>>"$folder/stderr"
echo "ended $?" >>"$folder/witness"
"#;

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
        let folder = Folder::new(&name);
        let mark = folder.path().to_str().unwrap();
        let child = Command::new(&self.program)
            .args(&self.args)
            .args([era, "--"])
            // Several clients give a server an environment of their own making, so the mark goes along in the words.
            .args(["env", &format!("{MARK}={mark}"), "sh", "-c", WITNESS, "witness", mark])
            .args([binary.as_os_str(), OsStr::new("serve"), OsStr::new("demo")])
            .env(MARK, mark)
            .env("HOME", folder.path())
            .env("NO_COLOR", "1")
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (success, stdout, stderr) = wait(child, mark);
        let said = format!("it wrote:\n{stdout}\nand to stderr:\n{stderr}");
        assert!(success, "the script of {} has failed; {said}", self.name);
        let left = left(mark);
        let (version, mut seen) = read(&stdout).unwrap_or_else(|why| panic!("{why}; {said}"));
        if let (Some(end @ Outcome::Right), Err(why)) = (seen.last_mut(), ended(folder.path(), &left)) {
            *end = Outcome::Fault(why);
        }
        (version, seen)
    }
}

/// Waits for the script's end and gives what it wrote; past the limit everything with this mark is ended.
fn wait(mut child: Child, mark: &str) -> (bool, String, String) {
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
            let left = running(mark);
            kill(mark);
            panic!("the script has not ended in {LIMIT:?}; running: {left:?}; {}", errors.join().unwrap());
        }
    }
}

/// What still runs once everything has had its time to end: then it is ended.
fn left(mark: &str) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let left = running(mark).unwrap();
        if left.is_empty() {
            return left;
        }
        if begun.elapsed() > GRACE {
            kill(mark);
            return left;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Ends every process with this mark: a test that fails must not leave what it has started.
fn kill(mark: &str) {
    let wanted = format!("{MARK}={mark}");
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
            let _ = Command::new("kill").arg("-KILL").arg(entry.file_name()).status();
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

/// Whether every server that the client has started has ended by itself and well.
fn ended(folder: &Path, left: &[String]) -> Result<(), String> {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let witness = text("witness");
    let count = |line: &str| witness.lines().filter(|found| *found == line).count();
    if count("started") == 0 {
        return Err("no server was ever started".to_owned());
    }
    if !left.is_empty() {
        return Err(format!("left running: {left:?}"));
    }
    if let Some(end) = witness.lines().find(|line| line.starts_with("ended") && *line != "ended 0") {
        return Err(format!("a server {end}: {}", text("stderr").trim_end()));
    }
    if count("started") != count("ended 0") {
        return Err("a server was killed instead of left to end".to_owned());
    }
    let stderr = text("stderr");
    if !stderr.is_empty() {
        return Err(format!("a server wrote to stderr: {}", stderr.trim_end()));
    }
    Ok(())
}
