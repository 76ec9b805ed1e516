//! From where which runtime is found: the part `path` of the examination.
//!
//! Called by `environment`, with [`SearchPaths`] that have been computed. It looks at files and runs nothing.

use std::path::{Path, PathBuf};

use super::managers::{self, Manager};
use super::paths::{SearchPaths, Seat};
use super::report::Runtime;
use super::world::System;
use super::{EnvironmentCheck as Check, EnvironmentFinding, Looked, World, runtimes};

/// The programs that run servers, or are asked to.
pub(super) const NAMES: [&str; 9] = ["node", "npx", "npm", "python3", "uv", "uvx", "docker", "deno", "bun"];
/// Of what was not computed so much is told for a seat.
const TOLD: usize = 3;

/// Where each runtime is found.
pub(super) fn runtimes(paths: &SearchPaths) -> Vec<Runtime> {
    let found =
        |name| Seat::ALL.into_iter().filter_map(|seat| Some((seat, paths.find(seat, name)?))).collect();
    NAMES
        .into_iter()
        .map(|name| {
            let found: Vec<(Seat, PathBuf)> = found(name);
            let manager = found.first().and_then(|(_, path)| managers::of(path));
            Runtime { name, found, version: None, manager }
        })
        .collect()
}

pub(super) fn examine(world: &World, paths: &SearchPaths, runtimes: &[Runtime]) -> Looked {
    let mut looked = Looked::default();
    set(world, paths, &mut looked);
    if looked.findings.is_empty() {
        here(runtimes, &mut looked);
        desktop(world, paths, runtimes, &mut looked);
        services(runtimes, &mut looked);
    } else {
        looked.not_run(Check::PathHere, "there is no PATH");
        looked.not_run(Check::PathDesktop, "there is no PATH");
    }
    uncertain(paths, &mut looked);
    let shown = paths.all().iter().map(|path| {
        let sign = if path.unknown.is_empty() { "" } else { "+" };
        format!("{} {}{sign}", path.seat.as_str(), path.folders.len())
    });
    looked.detail = format!("folders: {}", shown.collect::<Vec<_>>().join(", "));
    looked
}

/// Whether there is a `PATH` at all, and what is odd about it.
fn set(world: &World, paths: &SearchPaths, looked: &mut Looked) {
    let folders = &paths.at(Seat::Here).folders;
    let there =
        |folder: &PathBuf| folder.is_relative() || world.metadata(folder).is_some_and(|found| found.is_dir());
    let advice = "PATH=/usr/local/bin:/usr/bin:/bin, where whatever starts us says which variables it gives";
    let meaning = "no program is found by its name";
    if world.set("PATH").is_none() {
        looked.fail(Check::Path, "path-missing", "PATH is not set", meaning, advice);
    } else if !folders.iter().any(there) {
        let seen = "none of the folders of PATH is there";
        looked.fail(Check::Path, "path-missing", seen, meaning, advice);
    } else {
        looked.pass(Check::Path);
    }
    let text = world.variable("PATH").unwrap_or_default().to_string_lossy().into_owned();
    if text.split(':').any(|folder| folder.starts_with('~')) {
        let note = "PATH has a folder that begins with ~: no program but some shells finds anything there";
        looked.notes.push(note.to_owned());
    } else if folders.iter().any(|folder| folder.is_relative()) {
        let note = "PATH has a relative folder: what is found there depends on the working directory";
        looked.notes.push(note.to_owned());
    }
}

/// What the login shell finds has to be found here.
fn here(runtimes: &[Runtime], looked: &mut Looked) {
    let hidden: Vec<&Runtime> = runtimes
        .iter()
        .filter(|runtime| runtime.at(Seat::Here).is_none() && runtime.at(Seat::LoginShell).is_some())
        .collect();
    let Some(first) = hidden.first().and_then(|runtime| runtime.at(Seat::LoginShell)) else {
        return looked.pass(Check::PathHere);
    };
    looked.fail(
        Check::PathHere,
        "not-found-here",
        format!("{} found by your login shell ({}), and not from here", are(&names(&hidden)), shown(first)),
        "whatever is started from here, servers and the clients that start them, does not find them either",
        whole(first),
    );
}

/// What is found here has to be found on the desktop, where there is one.
fn desktop(world: &World, paths: &SearchPaths, runtimes: &[Runtime], looked: &mut Looked) {
    let hidden: Vec<&Runtime> = runtimes
        .iter()
        .filter(|runtime| runtime.at(Seat::Here).is_some() && runtime.at(Seat::Desktop).is_none())
        .collect();
    for runtime in runtimes.iter().filter(|runtime| runtime.manager.is_some()) {
        if let (Some(here), Some(there)) = (runtime.at(Seat::Here), runtime.at(Seat::Desktop))
            && here != there
        {
            looked.notes.push(format!(
                "a desktop session finds another {}: {}, not {}",
                runtime.name,
                there.display(),
                shown(here)
            ));
        }
    }
    let Some(first) = hidden.first().and_then(|runtime| runtime.at(Seat::Here)) else {
        return looked.pass(Check::PathDesktop);
    };
    let seen =
        format!("{} found from here ({}), and not by a desktop session", are(&names(&hidden)), shown(first));
    if !has_desktop(world) {
        looked.not_run(Check::PathDesktop, "this machine has no desktop");
        return;
    }
    if !paths.is_certain(Seat::Desktop) {
        looked.not_run(Check::PathDesktop, "PATH of a desktop session could not be computed");
        return looked.notes.push(format!("{seen}, as far as its PATH could be computed"));
    }
    looked.fail(
        Check::PathDesktop,
        "not-found-on-desktop",
        seen,
        "a client that is started from the menu (Claude Desktop, VS Code, Cursor) cannot start servers with them",
        whole(first),
    );
}

/// What services and cron do not find is said, and no fault: who needs it there writes it there.
fn services(runtimes: &[Runtime], looked: &mut Looked) {
    for seats in [&[Seat::UserService, Seat::SystemService][..], &[Seat::Cron]] {
        let hidden: Vec<&str> = runtimes
            .iter()
            .filter(|runtime| runtime.at(Seat::Here).is_some())
            .filter(|runtime| seats.iter().any(|seat| runtime.at(*seat).is_none()))
            .map(|runtime| runtime.name)
            .collect();
        if !hidden.is_empty() {
            let whose = if seats.len() == 1 { "cron does" } else { "services do" };
            looked
                .notes
                .push(format!("{whose} not find {} by name: there, write whole paths", hidden.join(", ")));
        }
    }
}

fn uncertain(paths: &SearchPaths, looked: &mut Looked) {
    let mut told: Vec<&String> = Vec::new();
    for path in paths.all() {
        for unknown in
            path.unknown.iter().filter(|unknown| !told.contains(unknown)).take(TOLD).collect::<Vec<_>>()
        {
            told.push(unknown);
            looked.notes.push(format!("PATH of {} may have more folders: {unknown}", path.seat));
        }
    }
}

/// Whether people log in to this machine on a desktop.
fn has_desktop(world: &World) -> bool {
    world.system() == System::Mac
        || ["XDG_CURRENT_DESKTOP", "WAYLAND_DISPLAY", "DISPLAY"].iter().any(|name| world.set(name).is_some())
        || ["/usr/share/xsessions", "/usr/share/wayland-sessions"]
            .iter()
            .any(|folder| world.list(Path::new(folder)).iter().any(|name| name.ends_with(".desktop")))
}

fn names<'a>(runtimes: &[&'a Runtime]) -> Vec<&'a str> {
    runtimes.iter().map(|runtime| runtime.name).collect()
}

/// A path, and the version manager that it belongs to.
fn shown(path: &Path) -> String {
    match managers::of(path) {
        Some(manager) => format!("{}, through {manager}", path.display()),
        None => path.display().to_string(),
    }
}

/// A version manager that has the program, which no `PATH` has.
pub(super) fn unloaded(world: &World, program: &str) -> Option<(Manager, PathBuf)> {
    managers::all(world).into_iter().find_map(|manager| {
        let path = manager.folder.as_ref()?.join(program);
        world.is_program(&path).then_some((manager, path))
    })
}

/// A finding about a version manager whose programs nobody finds.
pub(super) fn not_loaded(names: &[&str], manager: &Manager, path: &Path) -> [String; 3] {
    [
        format!("{} installed through {} ({}), and no PATH leads there", are(names), manager.name, path.display()),
        "neither your shell nor anything else finds it: the lines that load it are missing from your shell's files, or \
         stand where they are not read"
            .to_owned(),
        whole(path),
    ]
}

/// `npx and node are`
fn are(names: &[&str]) -> String {
    match names.split_last() {
        Some((one, [])) => format!("{one} is"),
        Some((last, rest)) => format!("{} and {last} are", rest.join(", ")),
        None => String::new(),
    }
}

/// Why a program cannot be run from here: where it is when it is not found, and otherwise what is wrong with what runs it.
pub(super) fn about(world: &World, program: &str) -> Vec<EnvironmentFinding> {
    let paths = SearchPaths::of(world);
    let mut looked = Looked::default();
    let mut wanted = program.to_owned();
    if let Some(file) = paths.find(Seat::Here, program) {
        if let Some(why) = managers::hollow(world, &file) {
            runtimes::shim(world, program, &file, &why, &mut looked);
            return looked.findings;
        }
        match runtimes::interpreter(world, &file).filter(|interpreter| !interpreter.contains('/')) {
            Some(interpreter) if paths.find(Seat::Here, &interpreter).is_none() => wanted = interpreter,
            _ => return looked.findings,
        }
    } else if program.contains('/') {
        return looked.findings;
    }
    if let Some(path) = paths.find(Seat::LoginShell, &wanted) {
        looked.fail(
            Check::PathHere,
            "not-found-here",
            format!("{wanted} is found by your login shell ({}), and not from here", shown(&path)),
            "what starts us has another PATH than your login shell",
            whole(&path),
        );
    } else if let Some((manager, path)) = unloaded(world, &wanted) {
        let [seen, meaning, advice] = not_loaded(&[&wanted], &manager, &path);
        looked.fail(Check::Managers, "manager-not-loaded", seen, meaning, advice);
    }
    looked.findings
}

/// What an entry needs so that this program is found from everywhere.
fn whole(path: &Path) -> String {
    let folder = path.parent().unwrap_or(path).display().to_string();
    let usual = ["/usr/local/bin", "/usr/bin", "/bin"].into_iter().filter(|usual| *usual != folder);
    let folders = std::iter::once(&*folder).chain(usual).collect::<Vec<_>>().join(":");
    format!("write the whole path, {}, and -e PATH={folders} (in an entry, PATH in its env)", path.display())
}
