//! `cargo xtask conformance`: runs the complete official suite against `mcpjoin serve demo --full` and against the client in
//! `conformance/`, scenario by scenario, and compares the results with `conformance/expected.toml`.
//!
//! The suite's own verdicts are not enough: it reports success for a scenario without any check, and ignores the exit
//! status of a client when it runs all scenarios. The results stay in `target/conformance`.

mod checks;
mod expected;
mod nginx;
mod process;
mod suite;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use checks::{Checks, Outcome};
use expected::{Expectation, Expected, held};
use nginx::Nginx;
use process::Running;
use suite::{Leg, Scenarios, Side, Suite};

use crate::tools::empty;
use crate::{steps, suite as built};

/// The suite's time limit for a scenario, in milliseconds: its default.
const PATIENCE: &str = "30000";
/// Our time limit for the whole process of a scenario. A scenario that works ends far below it.
const LONGEST: Duration = Duration::from_secs(90);
/// The number of server scenarios that run concurrently. Client scenarios run one after the other, because the suite
/// provides their servers and shares a processor with the client.
const AT_ONCE: usize = 2;
/// The policy of the gateway: servers may ask what they may ask without it.
const POLICY: &str = "[target.demo]\nsampling = true\nroots = true\n";
/// The address on which servers listen.
const ANY_PORT: &str = "http://127.0.0.1:0/mcp";

/// The options of the command.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Run only this scenario.
    scenario: Option<String>,
    /// Also run the server scenarios through a reverse proxy.
    through_nginx: bool,
    /// Also run the server scenarios through our own bridge, with the server as its child.
    through_bridge: bool,
    /// Also run the server scenarios through our bridge that joins the server with another one.
    through_gateway: bool,
}

/// The program between the suite and a server.
#[derive(Clone, Copy, PartialEq)]
enum Between {
    Nothing,
    Nginx,
    Bridge,
    Gateway,
}

impl Between {
    const ALL: [Self; 4] = [Self::Nothing, Self::Nginx, Self::Bridge, Self::Gateway];

    const fn said(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Nginx => " via nginx",
            Self::Bridge => " via our bridge",
            Self::Gateway => " via our gateway",
        }
    }
}

impl Options {
    /// All scenarios, directly and through our bridge: what each change must pass.
    pub(crate) const fn of_each_change() -> Self {
        Self { scenario: None, through_nginx: false, through_bridge: true, through_gateway: false }
    }

    /// The server's scenarios through a reverse proxy and through our gateway, and the others: what a release must pass.
    pub(crate) const fn of_a_release() -> Self {
        Self { scenario: None, through_nginx: true, through_bridge: false, through_gateway: true }
    }

    pub(crate) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--scenario" => {
                    let name = words.next().context("--scenario needs the name of a scenario")?;
                    options.scenario = Some((*name).to_owned());
                }
                "--through-nginx" => options.through_nginx = true,
                "--through-bridge" => options.through_bridge = true,
                "--through-gateway" => options.through_gateway = true,
                other => bail!(
                    "`conformance` knows no `{other}`: only --scenario NAME, --through-nginx, --through-bridge and \
                     --through-gateway"
                ),
            }
        }
        Ok(options)
    }

    const fn wants(&self, between: Between) -> bool {
        match between {
            Between::Nothing => true,
            Between::Nginx => self.through_nginx,
            Between::Bridge => self.through_bridge,
            Between::Gateway => self.through_gateway,
        }
    }
}

/// The programs under test.
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

/// Runs the suite, prints the table, and fails where a result differs from the list.
pub(crate) fn run(root: &Path, options: &Options, programs: Programs<'_>) -> Result<()> {
    let suite = Suite::install(root)?;
    let scenarios = suite.scenarios()?;
    let expected = Expected::read(root)?;
    let faults = expected.faults(&scenarios);
    if !faults.is_empty() {
        bail!("conformance/expected.toml is not the list of this suite:\n    {}", faults.join("\n    "));
    }
    let jobs = jobs(&expected, options)?;
    let results = root.join("target/conformance/results");
    empty(&results)?;

    let mut command = Command::new(programs.mcpjoin);
    command.args(["serve", "demo", "--full", "--listen", ANY_PORT]);
    let (mut server, url) = listens(&mut command, "mcpjoin serve demo --full", &results.join("server.txt"))?;
    let mut bridge = match options.through_bridge {
        true => {
            let mut command = Command::new(programs.mcpjoin);
            command
                .args(["bridge", "--listen", ANY_PORT, "--"])
                .arg(programs.mcpjoin)
                .args(["serve", "demo", "--full"]);
            Some(listens(&mut command, "mcpjoin bridge", &results.join("bridge.txt"))?)
        }
        false => None,
    };
    let mut gateway = match options.through_gateway {
        true => Some(start_gateway(programs.mcpjoin, &results)?),
        false => None,
    };
    let mut proxy = match options.through_nginx {
        true => Some(Nginx::start(root, &url, &results.join("nginx"))?),
        false => None,
    };
    // The suite takes the client's command as one text, splits it at spaces, and passes it to a shell.
    let client = programs.client.to_str().filter(|path| path.chars().all(is_plain));
    let client = client.with_context(|| {
        format!("the suite cannot start a program with such a path: {}", programs.client.display())
    })?;

    let began = Instant::now();
    let proxied = proxy.as_ref().map(|proxy| proxy.url.as_str());
    let bridged = bridge.as_ref().map(|(_, url)| url.as_str());
    let joined = gateway.as_ref().map(|(_, url)| url.as_str());
    let bench = Bench { suite: &suite, results: &results, url: &url, proxied, bridged, joined, client };
    let done = bench.run_all(jobs)?;
    server.runs()?;
    for (process, _) in bridge.iter_mut().chain(&mut gateway) {
        process.runs()?;
    }
    if let Some(proxy) = &mut proxy {
        proxy.runs()?;
    }
    report(&scenarios, &done, began.elapsed(), &results)
}

/// Starts a bridge that joins the server, with its own names, with the smaller demonstration server.
fn start_gateway(mcpjoin: &Path, results: &Path) -> Result<(Running, String)> {
    let program = mcpjoin.to_str().context("the path of mcpjoin is not text")?;
    let entries = serde_json::json!({ "mcpServers": {
        "demo": { "command": program, "args": ["serve", "demo", "--full"] },
        "other": { "command": program, "args": ["serve", "demo"] },
    } });
    let (config, policy) = (results.join("servers.json"), results.join("policy.toml"));
    fs::write(&config, entries.to_string()).with_context(|| format!("cannot write {}", config.display()))?;
    fs::write(&policy, POLICY).with_context(|| format!("cannot write {}", policy.display()))?;
    let mut command = Command::new(mcpjoin);
    command.args(["bridge", "--listen", ANY_PORT, "--prefix", "demo=", "--config"]).arg(config);
    command.arg("--policy").arg(policy);
    listens(&mut command, "mcpjoin bridge --config", &results.join("gateway.txt"))
}

/// Starts a server, and waits until it prints its address.
fn listens(command: &mut Command, name: &'static str, log: &Path) -> Result<(Running, String)> {
    let mut server = Running::start(command, name, log)?;
    let url = server.wait_for(log, || listening(&fs::read_to_string(log).ok()?))?;
    Ok((server, url))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+')
}

/// One scenario in the queue.
#[derive(Clone)]
struct Job {
    leg: Leg,
    between: Between,
    name: String,
    expectation: Expectation,
}

impl Job {
    /// The name of its row in the table.
    fn row(&self) -> String {
        format!("{}{}", self.leg, self.between.said())
    }
}

fn jobs(expected: &Expected, options: &Options) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for between in Between::ALL.into_iter().filter(|between| options.wants(*between)) {
        for (leg, scenarios) in &expected.0 {
            if between != Between::Nothing && leg.side != Side::Server {
                continue;
            }
            let wanted = |name: &&String| options.scenario.as_ref().is_none_or(|only| only == *name);
            for name in scenarios.keys().filter(wanted) {
                let (name, expectation) = (name.clone(), scenarios[name].clone());
                jobs.push(Job { leg: leg.clone(), between, name, expectation });
            }
        }
    }
    if jobs.is_empty() {
        bail!("no scenario has that name");
    }
    Ok(jobs)
}

/// The URL in a server's output.
fn listening(printed: &str) -> Option<String> {
    let (_, rest) = printed.split_once("listening on ")?;
    let (url, _) = rest.split_once('\n')?;
    Some(url.trim().to_owned())
}

/// The data that all scenarios of a run need.
struct Bench<'a> {
    suite: &'a Suite,
    results: &'a Path,
    url: &'a str,
    proxied: Option<&'a str>,
    bridged: Option<&'a str>,
    joined: Option<&'a str>,
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

    /// Runs jobs one after the other, until the queue is empty.
    fn work(&self, queue: &Mutex<VecDeque<Job>>) -> Result<Vec<Done>> {
        let mut done = Vec::new();
        loop {
            let job = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(job) = job else { return Ok(done) };
            let outcome = self.run(&job).with_context(|| format!("{} {}", job.row(), job.name))?;
            done.push((job, outcome));
        }
    }

    fn run(&self, job: &Job) -> Result<Outcome> {
        let Job { leg, name, .. } = job;
        let url = match job.between {
            Between::Nothing => self.url,
            Between::Nginx => self.proxied.context("there is no proxy")?,
            Between::Bridge => self.bridged.context("there is no bridge")?,
            Between::Gateway => self.joined.context("there is no gateway")?,
        };
        let folder = self.results.join(job.row().replace(' ', "-")).join(name.replace('/', "-"));
        fs::create_dir_all(&folder)?;
        let mut command = self.suite.command();
        command.arg(leg.side.name());
        match leg.side {
            Side::Server => command.args(["--url", url]),
            Side::Client => command.args(["--command", self.client]),
        };
        // `--force`, because an extension belongs to no revision; the list says with which revision it runs.
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

/// All files with this name in a folder and its subfolders.
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
    /// The number that passed, and the number that the suite requires for the revision.
    required: (usize, usize),
    unscored: (usize, usize),
    /// The number of successful checks in the scenarios that passed.
    checks: usize,
}

/// Prints the results; an error where they differ from the list.
fn report(scenarios: &Scenarios, done: &[Done], took: Duration, results: &Path) -> Result<()> {
    let (rows, notes, faults) = judge(scenarios, done);
    println!("    {:<32} {:>9} {:>9} {:>7}", "", "required", "unscored", "checks");
    for (name, row) in &rows {
        let of = |(passed, total): (usize, usize)| format!("{passed}/{total}");
        let (required, unscored) = (of(row.required), of(row.unscored));
        println!("    {name:<32} {required:>9} {unscored:>9} {:>7}", row.checks);
    }
    for note in notes {
        println!("    {note}");
    }
    println!("    {} runs in {:.1} s, kept in {}", done.len(), took.as_secs_f64(), results.display());
    if faults.is_empty() {
        return Ok(());
    }
    let faults: Vec<String> = faults.into_iter().collect();
    bail!("conformance/expected.toml is not kept:\n    {}", faults.join("\n    "))
}

/// The rows of the table by name, remarks on them, and the differences from the list.
fn judge(
    scenarios: &Scenarios,
    done: &[Done],
) -> (BTreeMap<String, Row>, BTreeSet<String>, BTreeSet<String>) {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut notes = BTreeSet::new();
    let mut faults = BTreeSet::new();
    for (job, outcome) in done {
        let Job { leg, name, expectation, .. } = job;
        let red = outcome.faults(leg.side);
        let row = rows.entry(job.row()).or_default();
        let within = |lists: &BTreeMap<Leg, BTreeSet<String>>| {
            lists.get(leg).is_some_and(|scenarios| scenarios.contains(name))
        };
        let passed = usize::from(red.is_empty());
        let counted = match (within(&scenarios.scored), within(&scenarios.unscored)) {
            (true, _) => Some(&mut row.required),
            (_, true) => Some(&mut row.unscored),
            _ => None,
        };
        // A scenario that belongs to no revision is checked against the list, but not counted.
        if let Some(place) = counted {
            *place = (place.0 + passed, place.1 + 1);
            row.checks += passed * outcome.succeeded();
        }
        match expectation {
            Expectation::Required | Expectation::Unscored => {}
            Expectation::Trivial => {
                notes.insert(format!(
                    "{leg} {name}: passes and shows nothing, what it is about is not declared"
                ));
            }
            Expectation::Impossible(why) => {
                notes.insert(format!("{leg} {name}: cannot pass: {why}"));
            }
        }
        if let Err(why) = held(expectation, &red) {
            faults.insert(format!("{} {name}: {why}", job.row()));
        }
    }
    (rows, notes, faults)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::suite::{Leg, Scenarios, Side};
    use super::{Between, Checks, Expectation, Job, Options, Outcome, Row, judge, listening};

    #[test]
    fn options_are_read_and_others_refused() {
        assert_eq!(Options::parse(&[]).unwrap(), Options::default());
        assert_eq!(Options::parse(&["--scenario", "ping"]).unwrap().scenario.unwrap(), "ping");
        assert_eq!(Options::parse(&["--through-bridge"]).unwrap(), Options::of_each_change());
        assert_eq!(
            Options::parse(&["--through-nginx", "--through-gateway"]).unwrap(),
            Options::of_a_release()
        );
        assert!(Options::parse(&["--scenario"]).is_err());
        assert!(Options::parse(&["--all"]).is_err());
    }

    #[test]
    fn the_address_is_read_when_its_line_is_whole() {
        assert_eq!(listening("mcpjoin: listening on http://127.0.0.1:80/m"), None);
        assert_eq!(listening("listening on http://127.0.0.1:80/mcp\nx").unwrap(), "http://127.0.0.1:80/mcp");
        assert_eq!(listening(""), None);
    }

    #[test]
    fn a_row_counts_what_the_suite_has_and_the_list_is_held() {
        let leg = Leg { side: Side::Client, revision: "2025-11-25".into() };
        let set = |names: &[&str]| BTreeSet::from_iter(names.iter().map(|name| (*name).to_owned()));
        let scenarios = Scenarios {
            all: BTreeMap::new(),
            scored: BTreeMap::from([(leg.clone(), set(&["initialize", "sse-retry", "auth/flow"]))]),
            unscored: BTreeMap::from([(leg.clone(), set(&["auth/dpop"]))]),
        };
        let run = |name: &str, expectation: Expectation, checks: &str| {
            let job = Job { leg: leg.clone(), between: Between::Nothing, name: name.into(), expectation };
            (job, Outcome { checks: Ok(Checks::parse(checks).unwrap()), ended: None })
        };
        let good = r#"[{"id":"a","status":"SUCCESS"},{"id":"b","status":"SUCCESS"}]"#;
        let done = [
            run("initialize", Expectation::Required, good),
            run("sse-retry", Expectation::Required, "[]"),
            run("auth/flow", Expectation::Required, good),
            run("auth/dpop", Expectation::Impossible("because".into()), good),
            run("skills", Expectation::Trivial, good),
        ];
        let (rows, notes, faults) = judge(&scenarios, &done);
        let row = Row { required: (2, 3), unscored: (1, 1), checks: 6 };
        assert_eq!(rows, BTreeMap::from([("client 2025-11-25".to_owned(), row)]));
        assert_eq!(
            notes,
            set(&[
                "client 2025-11-25 auth/dpop: cannot pass: because",
                "client 2025-11-25 skills: passes and shows nothing, what it is about is not declared",
            ])
        );
        let told: Vec<&str> = faults.iter().map(String::as_str).collect();
        assert!(told[0].starts_with("client 2025-11-25 auth/dpop: passes although"), "{told:?}");
        assert_eq!(told[1..], ["client 2025-11-25 sse-retry: no check succeeded"]);
    }
}
