//! The programs that run servers: in which context each is found, and whether it can be run.
//!
//! Used by `environment`. A runtime that is found from here is run with `--version`; everything else only reads files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use mcpjoin_proto::session::ProcessExit;

use super::super::findings::Kind;
use super::faults::*;
use super::managers::{self, shim_problem, version_manager};
use super::paths::{LaunchContext as Context, SearchPath, SearchPaths, unknown_paths};
use super::world::within;
use super::{CheckResults, EnvironmentCheck as Check, EnvironmentFinding, FILES_TIMEOUT, Runtime, World};

/// The programs that run servers.
const NAMES: [&str; 9] = ["node", "npx", "npm", "python3", "uv", "uvx", "docker", "deno", "bun"];
/// How many characters of a line that a runtime prints are shown.
const MAX_LINE_CHARS: usize = 80;
/// The oldest major version of node that the SDKs of MCP support.
const OLDEST_NODE: u64 = 18;

/// The runtimes, with the results of the part `runtimes`.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    pub(super) results: CheckResults,
    pub(super) runtimes: Vec<Runtime>,
    /// Runtimes that cannot work, and are not run.
    broken: Vec<&'static str>,
}

/// The version of a runtime.
enum Version {
    Printed(String),
    /// How the runtime exited, and its first line.
    None(String),
    TimedOut,
}

/// Examines the runtimes that are found from here.
pub(super) async fn examine(world: &World, timeout: Duration) -> Programs {
    let seen = world.clone();
    let looked = within(FILES_TIMEOUT, move || {
        let here = SearchPath::here(&seen);
        let runtimes = NAMES.map(|name| {
            let found = here.find(&seen, name).map(|path| (Context::Here, path)).into_iter().collect();
            Runtime { name, found, version: None, manager: None }
        });
        let mut programs = Programs { runtimes: runtimes.into(), ..Programs::default() };
        let run_by = programs.examine_files(&seen, &here);
        (programs, run_by)
    });
    let Some((mut programs, run_by)) = looked.await else { return Programs::default() };
    let found =
        |name| programs.runtimes.iter().find(|runtime| runtime.name == name)?.at(Context::Here).cloned();
    let asked = NAMES.into_iter().filter(|name| !programs.broken.contains(name));
    let asked = asked.filter_map(|name| Some((name, found(name)?)));
    let versions = join_all(asked.map(|(name, file)| async move {
        let version = version(world, &file, timeout).await;
        (name, file, version)
    }));
    programs.versions(&versions.await, &run_by, timeout);
    programs
}

impl Programs {
    fn found_here(&self) -> impl Iterator<Item = (&'static str, PathBuf)> {
        self.runtimes.iter().filter_map(|runtime| Some((runtime.name, runtime.at(Context::Here)?.clone())))
    }

    /// Checks the files, and runs nothing. Returns the interpreter of each script.
    fn examine_files(&mut self, world: &World, here: &SearchPath) -> BTreeMap<&'static str, String> {
        let mut run_by = BTreeMap::new();
        for check in [Check::Runtimes, Check::Interpreters, Check::Shims, Check::Managers] {
            self.results.pass(check);
        }
        // A missing version or interpreter breaks several programs, and is one fault.
        let mut known: Vec<String> = Vec::new();
        for (name, file) in self.found_here().collect::<Vec<_>>() {
            if let Some(why) = shim_problem(world, &file) {
                self.broken.push(name);
                if !known.contains(&why) {
                    self.results.fail(shim_finding(name, &file, &why));
                    known.push(why);
                }
            } else if let Some(interpreter) = interpreter(world, &file) {
                // A script with a broken interpreter is not at fault itself.
                if self.broken.contains(&&*interpreter) {
                    self.broken.push(name);
                } else if !is_found(world, here, &interpreter) {
                    self.broken.push(name);
                    if !known.contains(&interpreter) {
                        let shown = file.display();
                        let seen =
                            format!("{name} ({shown}) needs {interpreter}, which is not found from here");
                        let values = [("name", name), ("interpreter", &*interpreter)];
                        self.results.fail(INTERPRETER_MISSING.found(seen, &values));
                        known.push(interpreter.clone());
                    }
                }
                run_by.insert(name, interpreter);
            }
        }
        run_by
    }

    /// Stores the versions that the runtimes printed.
    fn versions(
        &mut self,
        versions: &[(&'static str, PathBuf, Version)],
        run_by: &BTreeMap<&str, String>,
        timeout: Duration,
    ) {
        let failed = versions.iter().filter(|(_, _, version)| !matches!(version, Version::Printed(_)));
        let failed: Vec<&str> = failed.map(|(name, ..)| *name).collect();
        for (name, file, version) in versions {
            // A script with an interpreter that does not work is not at fault itself.
            if run_by.get(name).is_some_and(|other| other != name && failed.contains(&&**other)) {
                continue;
            }
            let file = file.display().to_string();
            let values = [("name", *name), ("file", &*file)];
            match version {
                Version::Printed(version) => {
                    let runtime = self.runtimes.iter_mut().find(|runtime| runtime.name == *name);
                    runtime.into_iter().for_each(|runtime| runtime.version = Some(version.clone()));
                }
                Version::None(how) => {
                    let seen = format!("{name} ({file}) does not report its version: {how}");
                    self.results.fail(RUNTIME_BROKEN.found(seen, &values));
                }
                Version::TimedOut => {
                    let seconds = timeout.as_secs_f32();
                    let seen = format!("{name} ({file}) has not reported its version after {seconds} s");
                    self.results.fail(RUNTIME_SILENT.found(seen, &values));
                }
            }
        }
        let node = self.runtimes.iter().find(|runtime| runtime.name == "node");
        let node = node.and_then(|node| Some((node.at(Context::Here)?, node.version.as_deref()?)));
        let Some((file, version)) = node else {
            return self.results.not_run(Check::NodeAge, "node is not found, or does not run");
        };
        let major =
            version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u64>().ok());
        if major.is_some_and(|major| major < OLDEST_NODE) {
            let seen = format!("node ({}) is {version}", file.display());
            self.results.fail(NODE_OLD.found(seen, &[("oldest", &OLDEST_NODE.to_string())]));
        } else {
            self.results.pass(Check::NodeAge);
        }
    }

    /// Finds each runtime in each context. Returns the results of the part `path`.
    pub(super) fn locate(&mut self, world: &World, paths: &SearchPaths) -> CheckResults {
        let mut results = CheckResults::default();
        if self.runtimes.is_empty() {
            return results;
        }
        for runtime in &mut self.runtimes {
            let found = |context| Some((context, paths.find(context, runtime.name)?));
            runtime.found = Context::ALL.into_iter().filter_map(found).collect();
            runtime.manager = runtime.found.first().and_then(|(_, path)| version_manager(path));
        }
        self.check_absent(world, paths);
        self.results.detail = detail(&self.runtimes);
        check_path(world, &mut results);
        if results.findings.is_empty() {
            self.check_here(paths, &mut results);
            self.check_desktop(world, paths, &mut results);
            self.note_services(&mut results);
        } else {
            results.not_run(Check::PathHere, "PATH is not set");
            results.not_run(Check::PathDesktop, "PATH is not set");
        }
        results.notes.extend(unknown_paths(paths.all()));
        let shown = paths.all().iter().map(|path| {
            let sign = if path.unknown.is_none() { "" } else { "+" };
            format!("{} {}{sign}", path.context.as_str(), path.folders.len())
        });
        results.detail = format!("folders: {}", shown.collect::<Vec<_>>().join(", "));
        results
    }

    /// Checks the runtimes that no context finds: dangling links, and version managers that are not loaded.
    fn check_absent(&mut self, world: &World, paths: &SearchPaths) {
        let here = paths.at(Context::Here);
        let absent =
            self.runtimes.iter().filter(|runtime| runtime.found.is_empty()).map(|runtime| runtime.name);
        for name in absent.collect::<Vec<_>>() {
            if check_dangling(world, here, name, &mut self.results) {
                self.broken.push(name);
            }
        }
        let of_people = [Context::Here, Context::LoginShell, Context::Desktop];
        let lost = self.runtimes.iter().filter(|runtime| {
            !self.broken.contains(&runtime.name)
                && of_people.iter().all(|context| runtime.at(*context).is_none())
        });
        let lost =
            lost.filter_map(|runtime| Some((runtime.name, managers::with_program(world, runtime.name)?)));
        let lost: Vec<_> = lost.collect();
        if let Some((_, (manager, file))) = lost.first() {
            let of_manager = lost.iter().filter(|(_, (other, _))| other == manager);
            let names: Vec<&str> = of_manager.map(|(name, _)| *name).collect();
            self.results.fail(not_loaded(&names, manager, file, paths.at(Context::LoginShell)));
        }
    }

    /// Checks that the programs of the login shell are found here.
    fn check_here(&self, paths: &SearchPaths, results: &mut CheckResults) {
        if !paths.is_known(Context::LoginShell) {
            return results.not_run(Check::PathHere, "the PATH of your login shell is unknown");
        }
        let (names, first) = self.found_only(Context::LoginShell, Context::Here);
        let Some(first) = first else { return results.pass(Check::PathHere) };
        let (are, shown) = (are(&names), shown(first));
        let seen = format!("{are} found by your login shell ({shown}), but not from here");
        results.fail(with_whole_path(&NOT_FOUND_HERE, seen, first));
    }

    /// Checks that the programs found here are found on the desktop, if there is one.
    fn check_desktop(&self, world: &World, paths: &SearchPaths, results: &mut CheckResults) {
        let (names, first) = self.found_only(Context::Here, Context::Desktop);
        let is_known = paths.is_known(Context::Desktop);
        for runtime in self.runtimes.iter().filter(|runtime| is_known && runtime.manager.is_some()) {
            if let (Some(here), Some(there)) = (runtime.at(Context::Here), runtime.at(Context::Desktop))
                && here != there
            {
                let (name, there, here) = (runtime.name, there.display(), shown(here));
                results.notes.push(format!(
                    "a desktop session finds another {name}: {there} instead of \
                    {here}"
                ));
            }
        }
        let Some(first) = first else { return results.pass(Check::PathDesktop) };
        if !has_desktop(world) {
            return results.not_run(Check::PathDesktop, "this machine has no desktop");
        }
        if !is_known {
            return results.not_run(Check::PathDesktop, "the PATH of a desktop session is unknown");
        }
        let (are, shown) = (are(&names), shown(first));
        let seen = format!("{are} found from here ({shown}), but not by a desktop session");
        results.fail(with_whole_path(&NOT_FOUND_ON_DESKTOP, seen, first));
    }

    /// The runtimes that one context finds and another does not, and the file of the first.
    fn found_only(&self, in_one: Context, not_in: Context) -> (Vec<&'static str>, Option<&PathBuf>) {
        let hidden = self.runtimes.iter().filter(|runtime| runtime.at(not_in).is_none());
        let hidden = hidden.filter_map(|runtime| Some((runtime.name, runtime.at(in_one)?)));
        let (names, files): (Vec<_>, Vec<_>) = hidden.unzip();
        (names, files.first().copied())
    }

    /// Notes the programs that services and cron do not find. That is no fault: an entry for them can use the whole path.
    fn note_services(&self, results: &mut CheckResults) {
        let services = [Context::UserService, Context::SystemService];
        for (contexts, whose) in [(&services[..], "services do"), (&[Context::Cron], "cron does")] {
            let mut names: Vec<&str> = Vec::new();
            for runtime in self.runtimes.iter().filter(|runtime| runtime.at(Context::Here).is_some()) {
                if contexts.iter().any(|context| runtime.at(*context).is_none()) {
                    names.push(runtime.name);
                }
            }
            if !names.is_empty() {
                let names = names.join(", ");
                results.notes.push(format!("{whose} not find {names} by name: use absolute paths there"));
            }
        }
    }
}

/// `node 20.1.0, npx 10; not found: deno`
fn detail(runtimes: &[Runtime]) -> String {
    let (found, absent): (Vec<&Runtime>, Vec<&Runtime>) =
        runtimes.iter().partition(|runtime| runtime.at(Context::Here).is_some());
    let found = found.into_iter().map(|runtime| {
        let version = runtime.version.as_deref().unwrap_or("?");
        let number = number(version).unwrap_or(version).trim_start_matches('v').trim_end_matches(',');
        let manager = runtime.manager.map(|manager| format!(" ({manager})")).unwrap_or_default();
        format!("{} {number}{manager}", runtime.name)
    });
    let found = found.collect::<Vec<_>>().join(", ");
    let absent: Vec<&str> = absent.into_iter().map(|runtime| runtime.name).collect();
    match (&*found, &*absent) {
        ("", _) => "none found".to_owned(),
        (_, []) => found,
        _ => format!("{found}; not found: {}", absent.join(", ")),
    }
}

/// The number in a version: some runtimes print their name before it, and more after it.
fn number(version: &str) -> Option<&str> {
    let begins = |word: &&str| word.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    version.split_whitespace().find(begins)
}

/// Checks that there is a `PATH`, and notes unusual folders in it.
fn check_path(world: &World, results: &mut CheckResults) {
    let folders = SearchPath::here(world).folders;
    let is_there =
        |folder: &PathBuf| folder.is_relative() || world.metadata(folder).is_some_and(|found| found.is_dir());
    if world.set("PATH").is_none() {
        results.fail(PATH_MISSING.found("PATH is not set", &[]));
    } else if !folders.iter().any(is_there) {
        results.fail(PATH_MISSING.found("no folder of PATH exists", &[]));
    } else {
        results.pass(Check::Path);
    }
    let note = if folders.iter().any(|folder| folder.as_os_str().as_encoded_bytes().starts_with(b"~")) {
        "PATH has a folder that begins with ~: only some shells expand it"
    } else if folders.iter().any(|folder| folder.is_relative()) {
        "PATH has a relative folder: the programs found there depend on the working directory"
    } else {
        return;
    };
    results.notes.push(note.to_owned());
}

/// Whether this machine has a desktop.
fn has_desktop(world: &World) -> bool {
    let is_desktop = |name: &String| name.ends_with(".desktop");
    let of_system = ["/usr/share/xsessions", "/usr/share/wayland-sessions"];
    world.is_mac
        || ["XDG_CURRENT_DESKTOP", "WAYLAND_DISPLAY", "DISPLAY"].iter().any(|name| world.set(name).is_some())
        || of_system.iter().any(|folder| world.list(Path::new(folder)).iter().any(is_desktop))
}

fn shim_finding(name: &str, file: &Path, why: &str) -> EnvironmentFinding {
    let manager = version_manager(file).unwrap_or_default();
    let seen = format!("{name} ({}) is a shim of {manager}, but {why}", file.display());
    SHIM_HOLLOW.found(seen, &[("install", &managers::install(manager))])
}

/// The interpreter in the first line of a script: a path, or a name that env(1) looks up.
fn interpreter(world: &World, file: &Path) -> Option<String> {
    let text = world.head(file)?;
    let mut words = text.strip_prefix("#!")?.lines().next()?.split_whitespace();
    let first = words.next()?;
    if !first.ends_with("/env") {
        return Some(first.to_owned());
    }
    words.find(|word| !word.starts_with('-') && !word.contains('=')).map(str::to_owned)
}

fn is_found(world: &World, here: &SearchPath, interpreter: &str) -> bool {
    // In a world below a folder, the interpreters of this machine run its scripts.
    here.find(world, interpreter).is_some() || interpreter.starts_with('/') && Path::new(interpreter).exists()
}

/// Checks for a dangling link in `PATH`, and for a missing folder of a version manager. Returns whether there is a fault.
fn check_dangling(world: &World, here: &SearchPath, name: &str, results: &mut CheckResults) -> bool {
    for folder in here.folders.iter().filter(|folder| folder.is_absolute()) {
        let link = folder.join(name);
        if let Some(target) = world.link_target(&link).filter(|_| world.metadata(&link).is_none()) {
            let (target, link) = (target.display(), link.display().to_string());
            let seen = format!("{name} is a link to {target}, which does not exist ({link})");
            results.fail(SHIM_DANGLING.found(seen, &[("name", name), ("link", &link)]));
            return true;
        }
        let manager = version_manager(folder).filter(|_| world.metadata(folder).is_none());
        let manager = manager.filter(|manager| matches!(*manager, "nvm" | "fnm"));
        if let Some(manager) = manager.filter(|_| matches!(name, "node" | "npx" | "npm")) {
            let seen = format!("PATH contains {} of {manager}, which no longer exists", folder.display());
            let finding = SHIM_FOLDER_GONE.found(seen, &[("manager", manager)]);
            // A missing folder breaks all of its programs, and is one fault.
            if !results.findings.iter().any(|known| known.id == finding.id) {
                results.fail(finding);
            }
            return true;
        }
    }
    false
}

/// The finding of a version manager whose programs are not found.
fn not_loaded(names: &[&str], manager: &str, file: &Path, login_shell: &SearchPath) -> EnvironmentFinding {
    let (are, shown) = (are(names), file.display());
    let (fault, nowhere) = match login_shell.unknown {
        None => (MANAGER_NOT_LOADED, "no PATH contains it"),
        Some(_) => (MANAGER_NOT_HERE, "PATH here does not contain it"),
    };
    let seen = format!("{are} installed through {manager} ({shown}), but {nowhere}");
    with_whole_path(&fault, seen, file)
}

/// A finding whose advice is the whole path of a program.
fn with_whole_path(fault: &Kind<Check>, seen: String, file: &Path) -> EnvironmentFinding {
    let folder = file.parent().unwrap_or(file).display().to_string();
    let usual = ["/usr/local/bin", "/usr/bin", "/bin"].into_iter().filter(|usual| *usual != folder);
    let folders = std::iter::once(&*folder).chain(usual).collect::<Vec<_>>().join(":");
    fault.found(seen, &[("file", &file.display().to_string()), ("folders", &folders)])
}

/// A path, and the version manager that it belongs to.
fn shown(path: &Path) -> String {
    match version_manager(path) {
        Some(manager) => format!("{}, through {manager}", path.display()),
        None => path.display().to_string(),
    }
}

/// `npx and node are`
fn are(names: &[&str]) -> String {
    match names.split_last() {
        Some((one, [])) => format!("{one} is"),
        Some((last, rest)) => format!("{} and {last} are", rest.join(", ")),
        None => String::new(),
    }
}

/// The name that is not found when a program is run from here: its own, or that of its interpreter. `None`: both are found.
///
/// # Errors
/// The fault of a program that is found.
pub(super) fn missing(world: &World, program: &str) -> Result<Option<String>, Box<EnvironmentFinding>> {
    let here = SearchPath::here(world);
    let Some(file) = here.find(world, program) else {
        return Ok(Some(program.to_owned()).filter(|program| !program.contains('/')));
    };
    if let Some(why) = shim_problem(world, &file) {
        return Err(Box::new(shim_finding(program, &file, &why)));
    }
    let interpreter = interpreter(world, &file).filter(|interpreter| !interpreter.contains('/'));
    Ok(interpreter.filter(|interpreter| here.find(world, interpreter).is_none()))
}

/// The finding of a program that is found elsewhere, but not from here.
pub(super) fn elsewhere(
    world: &World,
    program: &str,
    login_shell: &SearchPath,
) -> Option<EnvironmentFinding> {
    let of_shell = login_shell.find(world, program).filter(|_| login_shell.unknown.is_none());
    if let Some(file) = of_shell {
        let seen = format!("{program} is found by your login shell ({}), but not from here", shown(&file));
        return Some(with_whole_path(&TARGET_NOT_FOUND_HERE, seen, &file));
    }
    let (manager, file) = managers::with_program(world, program)?;
    Some(not_loaded(&[program], manager, &file, login_shell))
}

/// Runs a runtime with `--version`, with the variables of its world.
async fn version(world: &World, file: &Path, timeout: Duration) -> Version {
    let command = world.command(file, |_| true).arg("--version").current_dir(world.real(Path::new("/")));
    let folders = SearchPath::here(world).folders.into_iter().filter(|folder| folder.is_absolute());
    let path = std::env::join_paths(folders.map(|folder| world.real(&folder))).unwrap_or_default();
    let output = match command.env("PATH", path).output(timeout).await {
        Ok(output) => output,
        Err(error) => return Version::None(error.to_string()),
    };
    if output.timed_out {
        return Version::TimedOut;
    }
    let printed = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let lines = printed.iter().flat_map(|text| text.lines()).map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<String> = lines.map(|line| line.chars().take(MAX_LINE_CHARS).collect()).collect();
    // A warning may come first, and contain a number.
    let numbered = lines.iter().find(|line| number(line).is_some());
    let numbered = numbered.or_else(|| lines.iter().find(|line| line.chars().any(|c| c.is_ascii_digit())));
    match (output.report.exit, numbered.or_else(|| lines.first())) {
        (Some(ProcessExit::Code(0)), Some(line)) => Version::Printed(line.clone()),
        (Some(ProcessExit::Code(0)), None) => Version::None("it printed nothing".into()),
        (exit, _) => {
            let how = exit.map_or_else(|| "it exited".to_owned(), |exit| exit.to_string());
            Version::None(match lines.first() {
                Some(line) => format!("{how}, {line}"),
                None => how,
            })
        }
    }
}
