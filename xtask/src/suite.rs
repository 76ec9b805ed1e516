//! Builds the workspace's tests and runs them group by group: one group per test binary, and one per crate for its doc
//! tests. The binaries are started directly, so that the number of tests of each group is exact.

use std::collections::BTreeMap;
use std::fs::File;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value as Json;

use crate::steps;

/// The time limit of a group. No group that works takes this long.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Groups whose tests mostly wait for processes or for time limits. These run with several tests per processor. (On two
/// processors the tests of the command line take 53 s instead of 121 s, including 34 s of computing; those of `doctor` 13 s
/// instead of 26 s, including 1 s of computing.)
const WAITING: [&str; 5] = [
    "mcpjoin-cli",
    "interop",
    "mcpjoin-diagnostics tests/doctor",
    "mcpjoin-orchestra tests/bridge",
    "mcpjoin-diagnostics tests/validate",
];
const AT_ONCE: usize = 3;
/// Of these, a group that computes: six Python servers at once need more than the five seconds that a bridge waits for a list.
const COMPUTING: &str = "interop tests/gateway";

/// The output format of cargo that lists the built artifacts.
const MESSAGE_FORMAT: &str = "--message-format=json-render-diagnostics";

/// The tests in one binary.
pub(crate) struct Group {
    /// `mcpjoin-proto tests/session`, its name in the counts.
    pub(crate) name: String,
    pub(crate) package: String,
    /// The command that runs it alone.
    pub(crate) rerun: String,
    executable: PathBuf,
    folder: PathBuf,
}

/// The client that the official suite tests.
pub(crate) const CONFORMANCE_CLIENT: &str = "mcpjoin-conformance-client";

/// The build results: the test binaries, the binary `mcpjoin` for the interop tests, and the client that the official
/// suite tests.
pub(crate) struct Built {
    pub(crate) groups: Vec<Group>,
    pub(crate) mcpjoin: PathBuf,
    pub(crate) conformance_client: PathBuf,
}

/// The number of tests of a group that passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

/// Builds every test of the workspace and every binary. With one command: development dependencies enable features that
/// `cargo build --bins` does not, so that a second command would compile most crates of the workspace once more.
pub(crate) fn build(root: &Path) -> Result<Built> {
    let options = ["build", "--workspace", "--all-targets", MESSAGE_FORMAT];
    let messages = steps::stdout(&mut steps::cargo(root, &options))?;
    let groups = groups_of(&messages)?;
    let mcpjoin = binary(&messages, "mcpjoin")?;
    let conformance_client = binary(&messages, CONFORMANCE_CLIENT)?;
    Ok(Built { groups, mcpjoin, conformance_client })
}

/// Builds the tests of some packages; `selection` is the option of cargo that selects them.
pub(crate) fn groups(root: &Path, selection: &[&str]) -> Result<Vec<Group>> {
    let options = [&["test", "--no-run", MESSAGE_FORMAT], selection].concat();
    groups_of(&steps::stdout(&mut steps::cargo(root, &options))?)
}

/// The groups in cargo's messages.
fn groups_of(messages: &str) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for artifact in artifacts(messages)? {
        groups.extend(group(&artifact)?);
    }
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    if groups.is_empty() {
        bail!("cargo built no test");
    }
    Ok(groups)
}

/// The path of a binary in cargo's messages.
pub(crate) fn binary(messages: &str, name: &str) -> Result<PathBuf> {
    let artifacts = artifacts(messages)?;
    let found = artifacts
        .iter()
        .find(|artifact| {
            let target = &artifact["target"];
            target["name"] == name && target["kind"][0] == "bin" && artifact["profile"]["test"] == false
        })
        .and_then(|artifact| artifact["executable"].as_str());
    found.map(PathBuf::from).with_context(|| format!("cargo built no binary named {name}"))
}

fn artifacts(messages: &str) -> Result<Vec<Json>> {
    let mut artifacts = Vec::new();
    for line in messages.lines() {
        let message: Json = serde_json::from_str(line).with_context(|| format!("cargo said `{line}`"))?;
        if message["reason"] == "compiler-artifact" {
            artifacts.push(message);
        }
    }
    Ok(artifacts)
}

/// The group of an artifact, if it is a test binary.
fn group(artifact: &Json) -> Result<Option<Group>> {
    let Some(executable) = artifact["executable"].as_str() else { return Ok(None) };
    if artifact["profile"]["test"] != true {
        return Ok(None);
    }
    let text =
        |value: &Json| value.as_str().map(str::to_owned).context("cargo changed the form of its messages");
    let manifest = PathBuf::from(text(&artifact["manifest_path"])?);
    let folder = manifest.parent().context("a manifest lies in a folder")?.to_path_buf();
    let target = text(&artifact["target"]["name"])?;
    let kind = text(&artifact["target"]["kind"][0])?;
    let package: toml::Table = std::fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?
        .parse()
        .with_context(|| manifest.display().to_string())?;
    let package = package["package"]["name"].as_str().context("a package has a name")?.to_owned();
    let (what, option) = match kind.as_str() {
        "test" => (format!("tests/{target}"), format!("--test {target}")),
        "bin" => (format!("bin/{target}"), format!("--bin {target}")),
        "example" => (format!("examples/{target}"), format!("--example {target}")),
        "bench" => (format!("benches/{target}"), format!("--bench {target}")),
        _ => ("unit".to_owned(), "--lib".to_owned()),
    };
    let rerun = format!("cargo test -p {package} {option}");
    Ok(Some(Group {
        name: format!("{package} {what}"),
        package,
        rerun,
        executable: executable.into(),
        folder,
    }))
}

impl Group {
    /// The names of its tests.
    pub(crate) fn list(&self) -> Result<Vec<String>> {
        let listing = steps::stdout(self.command().args(["--list", "--format", "terse"]))?;
        Ok(listing.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }

    /// Runs the group to its end, and prints its output if a test failed.
    pub(crate) fn run(&self, environment: &[(&str, &Path)]) -> Result<Tally> {
        let mut command = self.command();
        command.envs(environment.iter().copied());
        let waits = WAITING.contains(&&*self.package) || WAITING.contains(&&*self.name);
        if waits && self.name != COMPUTING {
            let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
            command.arg(format!("--test-threads={}", processors * AT_ONCE));
        }
        let ended = run_to_end(&mut command, &self.name)?;
        let tallies = tallies(&ended.output);
        let tally = match tallies.as_slice() {
            [tally] => *tally,
            _ => Tally::default(),
        };
        if !ended.success || tally.failed > 0 {
            println!("{}", ended.output);
        }
        if tallies.len() != 1 {
            bail!("{} printed {} closing lines of a test run, not one", self.name, tallies.len());
        }
        if !ended.success && tally.failed == 0 {
            bail!("{} ended badly although no test in it failed", self.name);
        }
        Ok(tally)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        // Like cargo: in the package's folder.
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("CARGO_PKG_NAME", &self.package)
            .stdin(Stdio::null());
        command
    }
}

/// Runs the doc tests of every crate; the group of a crate is `NAME doc`.
pub(crate) fn run_doc_tests(root: &Path) -> Result<BTreeMap<String, Tally>> {
    let mut command = steps::background_cargo(root, &["test", "--workspace", "--doc", "--no-fail-fast"]);
    let ended = run_to_end(&mut command, "doc tests")?;
    let groups = doc_tallies(&ended.output);
    let failed = groups.values().any(|tally| tally.failed > 0);
    if !ended.success || failed {
        println!("{}", ended.output);
    }
    if !ended.success && !failed {
        bail!("the doc tests ended badly although none of them failed");
    }
    Ok(groups)
}

struct Ended {
    success: bool,
    output: String,
}

/// Runs a command with both its outputs in one file, in the order in which they were written, and kills it after the
/// time limit. A file and not a pipe: a process that a test left behind could keep a pipe open, and this function waiting.
fn run_to_end(command: &mut Command, name: &str) -> Result<Ended> {
    let safe: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
    let path = std::env::temp_dir().join(format!("xtask-{}-{safe}.txt", std::process::id()));
    let file = File::options().append(true).create_new(true).open(&path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    let copy = file.try_clone()?;
    let mut child =
        command.stdout(file).stderr(copy).spawn().with_context(|| format!("cannot start {name}"))?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if began.elapsed() > LONGEST {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let output = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
    std::fs::remove_file(&path)?;
    let Some(status) = status else {
        println!("{output}");
        bail!("{name} had not ended after {} s", LONGEST.as_secs());
    };
    Ok(Ended { success: status.success(), output })
}

/// Parses every summary line of libtest: `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
fn tallies(output: &str) -> Vec<Tally> {
    output.lines().filter_map(tally).collect()
}

fn tally(line: &str) -> Option<Tally> {
    // A process of a test may have printed other text earlier on the same line.
    let (_, rest) = line.split_once("test result: ")?;
    let rest = rest.strip_prefix("ok. ").or_else(|| rest.strip_prefix("FAILED. "))?;
    let mut tally = Tally::default();
    let mut known = 0;
    for part in rest.split("; ") {
        let Some((number, word)) = part.trim().split_once(' ') else { continue };
        let Ok(number) = number.parse() else { continue };
        match word {
            "passed" => tally.passed = number,
            "failed" => tally.failed = number,
            "ignored" => tally.ignored = number,
            _ => continue,
        }
        known += 1;
    }
    (known == 3).then_some(tally)
}

fn doc_tallies(output: &str) -> BTreeMap<String, Tally> {
    let mut groups: BTreeMap<String, Tally> = BTreeMap::new();
    let mut current = String::new();
    for line in output.lines() {
        if let Some(name) = line.trim().strip_prefix("Doc-tests ") {
            current = format!("{} doc", name.replace('_', "-"));
        } else if let Some(tally) = tally(line) {
            // A crate may print several summaries: one for the doc tests that are built together, and more for the others.
            let group = groups.entry(current.clone()).or_default();
            group.passed += tally.passed;
            group.failed += tally.failed;
            group.ignored += tally.ignored;
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::{Tally, doc_tallies, tallies, tally};

    #[test]
    fn closing_lines_are_read() {
        let line =
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.00s";
        assert_eq!(tally(line), Some(Tally { passed: 12, failed: 0, ignored: 1 }));
        let line = "noisetest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(tally(line), Some(Tally { passed: 1, failed: 2, ignored: 0 }));
        assert_eq!(tally("test result: ok."), None);
        assert_eq!(tally("test results are nice"), None);
        assert_eq!(tallies("running 0 tests\n\n").len(), 0);
    }

    #[test]
    fn doc_tests_are_counted_per_crate() {
        let closing =
            |passed: u64| format!("test result: ok. {passed} passed; 0 failed; 0 ignored; 0 measured\n");
        let output = format!(
            "   Doc-tests mcpjoin\n{}   Doc-tests mcpjoin_proto\n{}{}",
            closing(1),
            closing(2),
            closing(3)
        );
        let groups = doc_tallies(&output);
        assert_eq!(groups["mcpjoin doc"].passed, 1);
        assert_eq!(groups["mcpjoin-proto doc"].passed, 5);
    }
}
