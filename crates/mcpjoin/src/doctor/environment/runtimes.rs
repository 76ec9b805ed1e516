//! The programs that run servers: whether each answers, what runs it, and what stands behind a shim.
//!
//! Called by `environment`. Nothing is run but `--version`, and that with the `PATH` of the world that is looked at.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use mcpjoin_proto::session::ProcessExit;
use tokio::time::sleep;

use super::managers;
use super::paths::{SearchPaths, Seat};
use super::reach;
use super::report::Runtime;
use super::world::within;
use super::{EnvironmentCheck as Check, FILES, Looked, World};
use crate::link::ChildCommand;

/// The longest line of a runtime that is shown.
const LONGEST: usize = 80;
/// The oldest node that the SDKs of MCP for it run on.
const NODE: u64 = 18;

/// Both parts that are about programs.
#[derive(Debug, Default)]
pub(super) struct Programs {
    pub(super) path: Looked,
    pub(super) looked: Looked,
    pub(super) runtimes: Vec<Runtime>,
}

/// What a runtime says of its version.
enum Said {
    Version(String),
    /// How it ended, and its first line.
    Nothing(String),
    /// It did not end in time.
    Silence,
}

pub(super) async fn examine(world: &World, paths: Option<&SearchPaths>, patience: Duration) -> Programs {
    let Some(paths) = paths.cloned() else { return Programs::default() };
    let (seen, computed) = (world.clone(), paths.clone());
    let looked = within(FILES, move || {
        let runtimes = reach::runtimes(&computed);
        let path = reach::examine(&seen, &computed, &runtimes);
        let mut looked = Looked::default();
        let broken = files(&seen, &computed, &runtimes, &mut looked);
        let here = runtimes.iter().filter_map(|runtime| Some((runtime.name, runtime.at(Seat::Here)?)));
        let run_by: BTreeMap<&str, String> =
            here.filter_map(|(name, file)| Some((name, interpreter(&seen, file)?))).collect();
        (path, looked, runtimes, broken, run_by)
    });
    let Some((path, mut looked, mut runtimes, broken, run_by)) = looked.await else {
        return Programs::default();
    };
    // What is known to be broken is not asked.
    let asked = runtimes.iter().filter(|runtime| !broken.contains(&runtime.name));
    let asked = asked.filter_map(|runtime| Some((runtime.name, runtime.at(Seat::Here)?.clone())));
    let said = join_all(asked.map(|(name, file)| async move {
        let said = version(world, &file, patience).await;
        (name, file, said)
    }));
    looked.pass(Check::Runtimes);
    let said = said.await;
    let silent: Vec<&str> =
        said.iter().filter(|(.., said)| !matches!(said, Said::Version(_))).map(|(name, ..)| *name).collect();
    for (name, file, said) in &said {
        // What is run by one that does not work is not at fault itself.
        if run_by.get(name).is_some_and(|other| other != name && silent.contains(&other.as_str())) {
            continue;
        }
        let meaning = "no server that needs it starts";
        let file = file.display();
        match said {
            Said::Version(version) => {
                let found = runtimes.iter_mut().find(|runtime| runtime.name == *name);
                found.into_iter().for_each(|runtime| runtime.version = Some(version.clone()));
            }
            Said::Nothing(how) => looked.fail(
                Check::Runtimes,
                "runtime-broken",
                format!("{name} ({file}) does not say its version: {how}"),
                meaning,
                format!("install {name} again, or take {file} out of PATH"),
            ),
            Said::Silence => looked.fail(
                Check::Runtimes,
                "runtime-silent",
                format!("{name} ({file}) has not said its version after {} s", patience.as_secs_f32()),
                meaning,
                format!(
                    "run `{file} --version` in a terminal: it may wait for an answer, a network or a disk"
                ),
            ),
        }
    }
    age(&runtimes, &mut looked);
    looked.detail = detail(&runtimes);
    Programs { path, looked, runtimes }
}

/// `node v20.1.0, npx 10; not found: deno`
fn detail(runtimes: &[Runtime]) -> String {
    let found = runtimes.iter().filter(|runtime| runtime.at(Seat::Here).is_some()).map(|runtime| {
        let version = runtime.version.as_deref().unwrap_or("?");
        let number = number(version).unwrap_or(version).trim_start_matches('v').trim_end_matches(',');
        let manager = runtime.manager.map(|manager| format!(" ({manager})")).unwrap_or_default();
        format!("{} {number}{manager}", runtime.name)
    });
    let found: Vec<String> = found.collect();
    let absent =
        runtimes.iter().filter(|runtime| runtime.at(Seat::Here).is_none()).map(|runtime| runtime.name);
    let absent: Vec<&str> = absent.collect();
    match (found.is_empty(), absent.is_empty()) {
        (true, _) => "none is found".to_owned(),
        (_, true) => found.join(", "),
        _ => format!("{}; not found: {}", found.join(", "), absent.join(", ")),
    }
}

/// The number in what a runtime says: some say their name before it, and more behind it.
fn number(said: &str) -> Option<&str> {
    said.split_whitespace()
        .find(|word| word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit()))
}

/// What can be told without running anything. Gives those that cannot work.
fn files(world: &World, paths: &SearchPaths, runtimes: &[Runtime], looked: &mut Looked) -> Vec<&'static str> {
    let mut broken = Vec::new();
    for check in [Check::Interpreters, Check::Shims, Check::Managers] {
        looked.pass(check);
    }
    let mut told: Vec<String> = Vec::new();
    for runtime in runtimes {
        let Some(file) = runtime.at(Seat::Here) else {
            if runtime.found.is_empty() && dangling(world, paths, runtime.name, looked) {
                broken.push(runtime.name);
            }
            continue;
        };
        if let Some(why) = managers::hollow(world, file) {
            broken.push(runtime.name);
            // One version that is missing takes several programs with it.
            if !told.contains(&why) {
                shim(world, runtime.name, file, &why, looked);
                told.push(why);
            }
        } else if let Some(interpreter) = interpreter(world, file) {
            // What is run by one that is told is not at fault itself.
            if broken.contains(&interpreter.as_str()) {
                broken.push(runtime.name);
            } else if !is_found(world, paths, &interpreter) {
                broken.push(runtime.name);
                if !told.contains(&interpreter) {
                    missing(runtime.name, file, &interpreter, looked);
                    told.push(interpreter);
                }
            }
        }
    }
    unloaded(world, runtimes, &broken, looked);
    broken
}

pub(super) fn shim(world: &World, name: &str, file: &Path, why: &str, looked: &mut Looked) {
    let manager = managers::of(file).unwrap_or_default();
    let install =
        managers::all(world).into_iter().find(|known| known.name == manager).map(|known| known.install);
    looked.fail(
        Check::Shims,
        "shim-hollow",
        format!("{name} ({}) is a shim of {manager}, and {why}", file.display()),
        "the shim is found and fails when it is run: a server ends before it has begun",
        install.map_or_else(|| format!("install a version with {manager}"), str::to_owned),
    );
}

fn missing(name: &str, file: &Path, interpreter: &str, looked: &mut Looked) {
    looked.fail(
        Check::Interpreters,
        "interpreter-missing",
        format!("{name} ({}) is run by {interpreter}, which is not found from here", file.display()),
        format!("{name} ends at once: \"{interpreter}: No such file or directory\", exit code 127"),
        format!("put the folder of {interpreter} into PATH; mostly it lies beside {name}"),
    );
}

/// What runs a script, by its first line: a name that env(1) looks up, or a path.
pub(super) fn interpreter(world: &World, file: &Path) -> Option<String> {
    let text = world.head(file)?;
    let line = text.strip_prefix("#!")?.lines().next()?.trim().to_owned();
    let mut words = line.split_whitespace();
    let first = words.next()?;
    if !first.ends_with("/env") {
        return Some(first.to_owned());
    }
    words.find(|word| !word.starts_with('-') && !word.contains('=')).map(str::to_owned)
}

fn is_found(world: &World, paths: &SearchPaths, interpreter: &str) -> bool {
    // What the system itself brings lies outside of a world that is looked at from outside.
    paths.find(Seat::Here, interpreter).is_some()
        || interpreter.starts_with('/') && world.has_system(interpreter)
}

/// A link in `PATH` that leads nowhere, or a folder of a version manager that has gone. True when that is told.
fn dangling(world: &World, paths: &SearchPaths, name: &str, looked: &mut Looked) -> bool {
    for folder in paths.at(Seat::Here).folders.iter().filter(|folder| folder.is_absolute()) {
        let link = folder.join(name);
        if world.is_link(&link) && world.metadata(&link).is_none() {
            let target = world.target(&link).unwrap_or_default();
            looked.fail(
                Check::Shims,
                "shim-dangling",
                format!("{name} is a link to {}, which is not there ({})", target.display(), link.display()),
                format!("{name} is found by nobody"),
                format!("install {name} again, or remove {}", link.display()),
            );
            return true;
        }
        let manager = managers::of(folder).filter(|_| world.metadata(folder).is_none());
        let whose = |name: &str| matches!(name, "node" | "npx" | "npm");
        if let Some(manager) = manager.filter(|manager| matches!(*manager, "nvm" | "fnm") && whose(name)) {
            // One folder takes all of them with it.
            let id = "shim-folder-gone";
            if !looked.findings.iter().any(|finding| finding.id == id) {
                looked.fail(
                    Check::Shims,
                    id,
                    format!("PATH leads to {} of {manager}, which is not there any more", folder.display()),
                    "the version that it held was removed, or the session that it belonged to is over: node, npm and \
                     npx are not found",
                    format!("start from a new shell, or name a version: {manager} use --lts"),
                );
            }
            return true;
        }
    }
    false
}

/// Version managers whose programs nobody finds.
fn unloaded(world: &World, runtimes: &[Runtime], broken: &[&str], looked: &mut Looked) {
    let lost = runtimes.iter().filter(|runtime| {
        let seats = [Seat::Here, Seat::LoginShell, Seat::Desktop];
        !broken.contains(&runtime.name) && seats.into_iter().all(|seat| runtime.at(seat).is_none())
    });
    let lost: Vec<(&str, managers::Manager, PathBuf)> = lost
        .filter_map(|runtime| {
            reach::unloaded(world, runtime.name).map(|(manager, path)| (runtime.name, manager, path))
        })
        .collect();
    if let Some((_, manager, path)) = lost.first() {
        let names: Vec<&str> =
            lost.iter().filter(|(_, other, _)| other.name == manager.name).map(|(name, ..)| *name).collect();
        let [seen, meaning, advice] = reach::not_loaded(&names, manager, path);
        looked.fail(Check::Managers, "manager-not-loaded", seen, meaning, advice);
    }
}

fn age(runtimes: &[Runtime], looked: &mut Looked) {
    let node = runtimes.iter().find(|runtime| runtime.name == "node");
    let Some((node, version)) = node.and_then(|node| Some((node, node.version.as_deref()?))) else {
        return looked.not_run(Check::NodeAge, "node is not found, or does not run");
    };
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u64>().ok());
    match major {
        Some(major) if major < NODE => {
            let file = node.at(Seat::Here).map(|file| file.display().to_string()).unwrap_or_default();
            looked.fail(
                Check::NodeAge,
                "node-old",
                format!("node ({file}) is {version}"),
                format!("servers that are written for node need {NODE} or later: they end with a syntax error or a missing module"),
                "install a newer node, and put its folder first in PATH",
            );
        }
        _ => looked.pass(Check::NodeAge),
    }
}

/// Asks a runtime for its version, in its world.
async fn version(world: &World, file: &Path, patience: Duration) -> Said {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let heard = lines.clone();
    let mut command = ChildCommand::new(world.real(file)).arg("--version").env_clear();
    for (name, value) in world.variables() {
        if name != "PATH" && !name.is_empty() {
            command = command.env(name, value);
        }
    }
    let folders = std::env::split_paths(world.variable("PATH").unwrap_or_default())
        .filter(|folder| folder.is_absolute());
    let path = std::env::join_paths(folders.map(|folder| world.real(&folder))).unwrap_or_default();
    command = command.env(OsString::from("PATH"), path).current_dir(world.real(Path::new("/")));
    let command = command.shutdown(Duration::ZERO, Duration::from_millis(500)).stderr(move |line| {
        let mut lines = heard.lock().unwrap_or_else(PoisonError::into_inner);
        let text: String = String::from_utf8_lossy(line).trim().chars().take(LONGEST).collect();
        if lines.len() < 20 && !text.is_empty() {
            lines.push(text);
        }
    });
    let timed_out = Arc::new(Mutex::new(false));
    let over = timed_out.clone();
    let report = command
        .run(async move {
            sleep(patience).await;
            *over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        })
        .await;
    let lines = std::mem::take(&mut *lines.lock().unwrap_or_else(PoisonError::into_inner));
    let report = match report {
        Ok(report) => report,
        Err(error) => return Said::Nothing(error.to_string()),
    };
    if *timed_out.lock().unwrap_or_else(PoisonError::into_inner) {
        return Said::Silence;
    }
    // A warning may come first, and have a number in it.
    let numbered = lines.iter().find(|line| number(line).is_some());
    let numbered = numbered.or_else(|| lines.iter().find(|line| line.chars().any(|c| c.is_ascii_digit())));
    match (report.exit, numbered.or_else(|| lines.first())) {
        (Some(ProcessExit::Code(0)), Some(line)) => Said::Version(line.clone()),
        (Some(ProcessExit::Code(0)), None) => Said::Nothing("it says nothing".into()),
        (exit, _) => {
            let how = exit.map_or_else(|| "it ended".to_owned(), |exit| exit.to_string());
            Said::Nothing(match lines.first() {
                Some(line) => format!("{how}, {line}"),
                None => how,
            })
        }
    }
}
