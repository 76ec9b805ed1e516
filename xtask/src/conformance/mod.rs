//! `cargo xtask conformance`: the official suite, complete, against `mcpjoin serve demo` and against the client in
//! `conformance/`, scenario by scenario, held against `conformance/expected.toml`.
//!
//! The suite's own verdicts are not enough: it calls a scenario in which nothing was checked green, and does not look at
//! how a client has ended when it runs all of them. Results stay in `target/conformance`.

mod checks;
mod expected;
mod process;
mod suite;

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use checks::{Checks, Outcome};
use expected::{Expectation, Expected, held};
use process::Running;
use suite::{Leg, Scenarios, Side, Suite};

use crate::{steps, suite as built};

/// The suite's own limit for a scenario, in milliseconds: its default.
const PATIENCE: &str = "30000";
/// And ours for everything around it: none that is sound comes near.
const LONGEST: Duration = Duration::from_secs(90);
/// How many scenarios of a server run at once. Those of a client run one after the other: their servers are the suite's,
/// and share a processor with it.
const AT_ONCE: usize = 2;

/// What was asked for.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// One scenario alone.
    scenario: Option<String>,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--scenario" => {
                    let name = words.next().context("--scenario needs the name of a scenario")?;
                    options.scenario = Some((*name).to_owned());
                }
                other => bail!("`conformance` knows no `{other}`: only --scenario NAME"),
            }
        }
        Ok(options)
    }
}

/// What is judged.
#[derive(Clone, Copy)]
pub(crate) struct Programs<'a> {
    pub(crate) mcpjoin: &'a Path,
    pub(crate) client: &'a Path,
}

/// Builds both programs and runs the suite.
pub(crate) fn build_and_run(root: &Path, options: &Options) -> Result<()> {
    let messages = steps::stdout(&mut steps::cargo(
        root,
        &[
            "build",
            "--quiet",
            "--package=mcpjoin-cli",
            "--package=conformance",
            "--bins",
            "--message-format=json-render-diagnostics",
        ],
    ))?;
    let mcpjoin = built::binary(&messages, "mcpjoin")?;
    let client = built::binary(&messages, built::CONFORMANCE_CLIENT)?;
    run(root, options, Programs { mcpjoin: &mcpjoin, client: &client })
}

/// Runs the suite, prints the table, and fails where the list is not kept.
pub(crate) fn run(root: &Path, options: &Options, programs: Programs<'_>) -> Result<()> {
    let suite = Suite::install(root)?;
    let scenarios = suite.scenarios()?;
    let expected = Expected::read(root)?;
    let faults = expected.faults(&scenarios);
    if !faults.is_empty() {
        bail!("conformance/expected.toml is not the list of this suite:\n    {}", faults.join("\n    "));
    }
    let jobs = jobs(expected, options.scenario.as_deref())?;
    let results = root.join("target/conformance/results");
    empty(&results)?;

    let log = results.join("server.txt");
    let mut command = Command::new(programs.mcpjoin);
    command.args(["serve", "demo", "--listen", "http://127.0.0.1:0/mcp"]);
    let mut server = Running::start(&mut command, "mcpjoin serve demo", &log)?;
    let url = server.wait_for(&log, || listening(&fs::read_to_string(&log).ok()?))?;
    // The client's command is one text, which is split at its spaces and read by a shell.
    let client = programs.client.to_str().filter(|path| path.chars().all(is_plain));
    let client = client.with_context(|| {
        format!("the suite cannot start a program with such a path: {}", programs.client.display())
    })?;

    let began = Instant::now();
    let bench = Bench { suite: &suite, results: &results, url: &url, client };
    let done = bench.run_all(jobs)?;
    server.runs()?;
    report(&scenarios, &done, began.elapsed(), &results)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+')
}

/// One scenario to be run.
struct Job {
    leg: Leg,
    name: String,
    expectation: Expectation,
}

fn jobs(expected: Expected, only: Option<&str>) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for (leg, scenarios) in expected.0 {
        for (name, expectation) in scenarios {
            if only.is_none_or(|only| only == name) {
                jobs.push(Job { leg: leg.clone(), name, expectation });
            }
        }
    }
    if jobs.is_empty() {
        bail!("no scenario has that name");
    }
    Ok(jobs)
}

fn empty(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot empty {}", folder.display()));
        }
        _ => {}
    }
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))
}

/// The URL that a server has printed.
fn listening(printed: &str) -> Option<String> {
    let (_, rest) = printed.split_once("listening on ")?;
    let (url, _) = rest.split_once('\n')?;
    Some(url.trim().to_owned())
}

/// Everything that a scenario needs.
struct Bench<'a> {
    suite: &'a Suite,
    results: &'a Path,
    url: &'a str,
    client: &'a str,
}

type Done = (Job, Outcome);

impl Bench<'_> {
    fn run_all(&self, jobs: Vec<Job>) -> Result<Vec<Done>> {
        let (servers, clients): (VecDeque<Job>, VecDeque<Job>) =
            jobs.into_iter().partition(|job| job.leg.side == Side::Server);
        let (servers, clients) = (Mutex::new(servers), Mutex::new(clients));
        let workers = [&servers; AT_ONCE].into_iter().chain([&clients]);
        let mut done = Vec::new();
        thread::scope(|scope| {
            let workers: Vec<_> = workers.map(|queue| scope.spawn(|| self.work(queue))).collect();
            for worker in workers {
                match worker.join() {
                    Ok(results) => done.extend(results?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            Ok(done)
        })
    }

    /// Runs one after the other, until the queue is empty.
    fn work(&self, queue: &Mutex<VecDeque<Job>>) -> Result<Vec<Done>> {
        let mut done = Vec::new();
        loop {
            let job = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(job) = job else { return Ok(done) };
            let outcome = self.run(&job).with_context(|| format!("{} {}", job.leg, job.name))?;
            done.push((job, outcome));
        }
    }

    fn run(&self, job: &Job) -> Result<Outcome> {
        let Job { leg, name, .. } = job;
        let folder = self.results.join(format!("{}-{}", leg.side, leg.revision)).join(name.replace('/', "-"));
        fs::create_dir_all(&folder)?;
        let mut command = self.suite.command();
        command.arg(leg.side.name());
        match leg.side {
            Side::Server => command.args(["--url", self.url]),
            Side::Client => command.args(["--command", self.client]),
        };
        // Forced, because no extension belongs to a revision; the list says at which one it runs.
        command.args(["--scenario", name, "--spec-version", &leg.revision, "--force", "--timeout", PATIENCE]);
        command.arg("--output-dir").arg(&folder);
        let mut ended = process::run(&mut command, &folder.join("suite.txt"), LONGEST)?;
        if let (Some(ended), Some(said)) = (&mut ended, last_line(&find(&folder, "stderr.txt")?)) {
            *ended = format!("{ended}; the client said: {said}");
        }
        let checks = match find(&folder, "checks.json")?.as_slice() {
            [path] => Checks::parse(&fs::read_to_string(path)?).map_err(|error| format!("{error:#}")),
            others => Err(format!("the suite wrote {} files of checks, not one", others.len())),
        };
        Ok(Outcome { checks, ended })
    }
}

/// The files of that name in a folder and below.
fn find(folder: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(find(&entry.path(), name)?);
        } else if entry.file_name() == name {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn last_line(files: &[PathBuf]) -> Option<String> {
    let text = fs::read_to_string(files.first()?).ok()?;
    text.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned)
}

/// One row of the table.
#[derive(Debug, Default, PartialEq)]
struct Row {
    required: (usize, usize),
    unscored: (usize, usize),
    waiting: usize,
    checks: usize,
}

/// Prints what came of it; an error where the list is not kept.
fn report(scenarios: &Scenarios, done: &[Done], took: Duration, results: &Path) -> Result<()> {
    let mut rows: BTreeMap<&Leg, Row> = BTreeMap::new();
    let mut notes = Vec::new();
    let mut faults = Vec::new();
    for (job, outcome) in done {
        let Job { leg, name, expectation } = job;
        let red = outcome.faults(leg.side);
        let row = rows.entry(leg).or_default();
        let scored = scenarios.scored.get(leg).is_some_and(|scored| scored.contains(name));
        let place = if scored { &mut row.required } else { &mut row.unscored };
        match expectation {
            // In no list of requirements, and nothing is shown.
            Expectation::Trivial => {
                notes.push(format!("{leg} {name}: not counted, we do not declare what it is about"))
            }
            _ => {
                place.1 += 1;
                place.0 += usize::from(red.is_empty());
                row.checks += if red.is_empty() { outcome.succeeded() } else { 0 };
            }
        }
        match expectation {
            Expectation::Authorization => row.waiting += 1,
            Expectation::Impossible(why) => notes.push(format!("{leg} {name}: cannot pass: {why}")),
            _ => {}
        }
        if let Err(why) = held(expectation, &red) {
            faults.push(format!("{leg} {name}: {why}"));
        }
    }
    println!(
        "    {:<18} {:>9} {:>9} {:>15} {:>7}",
        "side, revision", "required", "unscored", "of them to be", "checks"
    );
    println!("    {:<18} {:>9} {:>9} {:>15} {:>7}", "", "passed", "passed", "authorized", "passed");
    for (leg, row) in &rows {
        let of = |(passed, total): (usize, usize)| format!("{passed}/{total}");
        println!(
            "    {:<18} {:>9} {:>9} {:>15} {:>7}",
            leg.to_string(),
            of(row.required),
            of(row.unscored),
            row.waiting,
            row.checks
        );
    }
    notes.sort();
    for note in notes {
        println!("    {note}");
    }
    println!(
        "    {} runs in {:.1} s; everything is in {}",
        done.len(),
        took.as_secs_f64(),
        results.display()
    );
    if faults.is_empty() {
        return Ok(());
    }
    faults.sort();
    bail!(
        "{} scenarios are not as conformance/expected.toml says:\n    {}",
        faults.len(),
        faults.join("\n    ")
    )
}

#[cfg(test)]
mod tests {
    use super::{Options, listening};

    #[test]
    fn options_are_read_and_others_refused() {
        assert_eq!(Options::parse(&[]).unwrap(), Options::default());
        assert_eq!(Options::parse(&["--scenario", "ping"]).unwrap().scenario.unwrap(), "ping");
        assert!(Options::parse(&["--scenario"]).is_err());
        assert!(Options::parse(&["--all"]).is_err());
    }

    #[test]
    fn the_address_is_read_when_its_line_is_whole() {
        assert_eq!(listening("mcpjoin: listening on http://127.0.0.1:80/m"), None);
        assert_eq!(listening("listening on http://127.0.0.1:80/mcp\nx").unwrap(), "http://127.0.0.1:80/mcp");
        assert_eq!(listening(""), None);
    }
}
