//! `PATH` in each context in which servers are started.
//!
//! Used by the checks of `environment` and, as [`SearchPaths`], by callers who want to know where a program would be found.
//! Ours is a variable. Of a terminal, and of a desktop session on Linux, it is what the login shell prints (`shell`): a
//! desktop session begins with a login shell without a terminal. Services, cron and what macOS starts have fixed values, to
//! which [environment.d(5)](https://www.freedesktop.org/software/systemd/man/latest/environment.d.html) may add.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::shell::Question;
use super::world::World;

/// What systemd gives its services.
const SYSTEMD: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What login(1) sets, where /etc/login.defs and /etc/environment say nothing.
const LOGIN: &str = "/usr/local/bin:/usr/bin:/bin";
/// What macOS gives to what is not started from a shell.
const LAUNCHD: &str = "/usr/bin:/bin:/usr/sbin:/sbin";
/// What cron gives its jobs.
const CRON: &str = "/usr/bin:/bin";

/// What starts a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LaunchContext {
    /// This process.
    Here,
    /// The user's login shell, in a terminal.
    LoginShell,
    /// The menu of a desktop.
    Desktop,
    /// systemd or launchd, as a service of the user's (`systemctl --user`).
    UserService,
    /// systemd or launchd, as a service of the system's.
    SystemService,
    /// cron.
    Cron,
}

impl LaunchContext {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Here, Self::LoginShell, Self::Desktop, Self::UserService, Self::SystemService, Self::Cron];

    /// Its name, which stays.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::LoginShell => "login-shell",
            Self::Desktop => "desktop",
            Self::UserService => "user-service",
            Self::SystemService => "system-service",
            Self::Cron => "cron",
        }
    }
}

impl fmt::Display for LaunchContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here => "this process",
            Self::LoginShell => "your login shell",
            Self::Desktop => "a desktop session",
            Self::UserService => "a service of yours",
            Self::SystemService => "a service of the system",
            Self::Cron => "cron",
        })
    }
}

/// `PATH` in one context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchPath {
    /// In which.
    pub context: LaunchContext,
    /// Its folders, in order, as they stand there.
    pub folders: Vec<PathBuf>,
    /// Where the value comes from: `FILE:LINE`, the command line of the shell that printed it, or what sets it otherwise.
    pub set: Vec<String>,
    /// The shell that was run for it, with its options.
    pub asked: Option<String>,
    /// Why the value is not known. Then `folders` are those that the context begins with.
    pub unknown: Option<String>,
}

impl SearchPath {
    fn new(context: LaunchContext, path: &OsStr, set: Vec<String>) -> Self {
        let mut folders: Vec<PathBuf> = Vec::new();
        for folder in std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty()) {
            if context == LaunchContext::Here || !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        Self { context, folders, set, asked: None, unknown: None }
    }

    /// That of this process.
    pub(super) fn here(world: &World) -> Self {
        Self::new(LaunchContext::Here, world.variable("PATH").unwrap_or_default(), Vec::new())
    }

    /// That of a session of the user's, which begins at a login. `timeout`: how long the shell may take; `None` runs none.
    pub(super) async fn of_session(world: &World, context: LaunchContext, timeout: Option<Duration>) -> Self {
        let by_shell = context == LaunchContext::LoginShell || !world.is_mac;
        let seen = world.clone();
        let read = super::within(super::FILES_TIMEOUT, move || initial(&seen, context)).await;
        let Some((path, mut set)) = read else {
            return Self {
                unknown: Some(super::SLOW.to_owned()),
                ..Self::new(context, OsStr::new(LOGIN), Vec::new())
            };
        };
        if !by_shell {
            return Self::new(context, &path, set);
        }
        let begins_with = |unknown| Self { unknown, ..Self::new(context, &path, set.clone()) };
        let Some(timeout) = timeout else {
            return begins_with(Some("no shell was run, as asked".to_owned()));
        };
        let question = match Question::new(world, context == LaunchContext::LoginShell) {
            Ok(question) => question,
            Err(problem) => return begins_with(Some(problem)),
        };
        let asked = Some(question.shown());
        match question.ask(world, &path, timeout).await {
            Ok(path) => {
                set.push(question.command_line());
                Self { asked, ..Self::new(context, &path, set) }
            }
            Err(problem) => Self { asked, ..begins_with(Some(problem)) },
        }
    }

    /// The file that a program of that name means there: a path as it is, and a name by `PATH`. Folders that are relative
    /// are skipped: they depend on the working directory.
    pub(super) fn find(&self, world: &World, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            return Some(PathBuf::from(program)).filter(|path| world.is_program(path));
        }
        let folders = self.folders.iter().filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(program)).find(|path| world.is_program(path))
    }
}

/// `PATH` in every context.
#[derive(Clone, Debug)]
pub struct SearchPaths {
    world: World,
    paths: [SearchPath; 6],
}

impl SearchPaths {
    /// With those of the two sessions. Reads files, and blocks for as long as that takes.
    pub(super) fn new(world: &World, login_shell: SearchPath, desktop: SearchPath) -> Self {
        let fixed =
            |context, path: &str, by: &str| SearchPath::new(context, path.as_ref(), vec![by.to_owned()]);
        let (user, system) = (LaunchContext::UserService, LaunchContext::SystemService);
        let (user, system) = if world.is_mac {
            (fixed(user, LAUNCHD, "launchd"), fixed(system, LAUNCHD, "launchd"))
        } else {
            let (mut path, mut set) = (SYSTEMD.to_owned(), vec!["systemd".to_owned()]);
            environment_d(world, &mut path, &mut set);
            (SearchPath::new(user, path.as_ref(), set), fixed(system, SYSTEMD, "systemd"))
        };
        let cron = fixed(LaunchContext::Cron, CRON, "cron");
        let paths = [SearchPath::here(world), login_shell, desktop, user, system, cron];
        Self { world: world.clone(), paths }
    }

    /// In the order of [`LaunchContext::ALL`].
    #[must_use]
    pub fn all(&self) -> &[SearchPath] {
        &self.paths
    }

    /// In one context.
    #[must_use]
    pub const fn at(&self, context: LaunchContext) -> &SearchPath {
        &self.paths[context as usize]
    }

    /// The file that a program of that name means there: a path as it is, and a name by `PATH`. Folders that are relative
    /// are skipped: they depend on the working directory.
    #[must_use]
    pub fn find(&self, context: LaunchContext, program: &str) -> Option<PathBuf> {
        self.at(context).find(&self.world, program)
    }

    /// Whether the value is known there.
    #[must_use]
    pub const fn is_certain(&self, context: LaunchContext) -> bool {
        self.at(context).unknown.is_none()
    }
}

/// A note about each reason for which a `PATH` is not known.
pub(super) fn unknown_paths(paths: &[SearchPath]) -> Vec<String> {
    let unknown = paths.iter().filter_map(|path| Some((path.context.to_string(), path.unknown.as_ref()?)));
    let unknown: Vec<(String, &String)> = unknown.collect();
    let mut reasons: Vec<&String> = unknown.iter().map(|(_, reason)| *reason).collect();
    reasons.dedup();
    let note = |reason| {
        let contexts =
            unknown.iter().filter(|(_, other)| *other == reason).map(|(context, _)| context.as_str());
        let contexts = contexts.collect::<Vec<_>>().join(" and of ");
        format!("PATH of {contexts} is not known: {reason}")
    };
    reasons.into_iter().map(note).collect()
}

/// What a session begins with, before the shell reads its files.
fn initial(world: &World, context: LaunchContext) -> (OsString, Vec<String>) {
    if world.is_mac {
        return (LAUNCHD.into(), vec!["launchd".to_owned()]);
    }
    let (mut path, mut set) = (LOGIN.to_owned(), vec!["login".to_owned()]);
    let of_login = if world.user == 0 { "ENV_SUPATH" } else { "ENV_PATH" };
    for (file, name) in [("/etc/login.defs", of_login), ("/etc/environment", "PATH")] {
        if let Some((value, place)) = assignments(world, Path::new(file), name).pop() {
            (path, set) = (value, vec![place]);
        }
    }
    if context == LaunchContext::Desktop {
        environment_d(world, &mut path, &mut set);
    }
    (path.into(), set)
}

/// Each value that the lines of a file give a variable, with its place, `FILE:LINE`. Between name and value stands `=` or,
/// in login.defs, a blank and `PATH=`.
fn assignments(world: &World, file: &Path, name: &str) -> Vec<(String, String)> {
    let text = world.read(file).unwrap_or_default();
    let lines = text.lines().enumerate().filter_map(|(number, line)| {
        let line = line.trim();
        let rest = line.strip_prefix("export ").unwrap_or(line).trim_start().strip_prefix(name)?;
        let value = match rest.strip_prefix('=') {
            Some(value) => value,
            None => {
                let value = rest.strip_prefix(char::is_whitespace)?.trim();
                value.strip_prefix("PATH=").unwrap_or(value)
            }
        };
        Some((
            value.trim().trim_matches(['"', '\'']).to_owned(),
            format!("{}:{}", file.display(), number + 1),
        ))
    });
    lines.collect()
}

/// What the files of environment.d make of a `PATH`.
fn environment_d(world: &World, path: &mut String, set: &mut Vec<String>) {
    let config = world.set("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(world.home()?.join(".config")));
    let system = ["/usr/lib", "/usr/local/lib", "/run", "/etc"].map(PathBuf::from);
    // A file hides another one of its name in a folder that comes before; the names give the order.
    let mut files = std::collections::BTreeMap::new();
    for folder in system.into_iter().chain(config).map(|folder| folder.join("environment.d")) {
        let names = world.list(&folder).into_iter().filter(|name| name.ends_with(".conf"));
        files.extend(names.map(|name| (name.clone(), folder.join(name))));
    }
    let home = world.home().map(|home| home.display().to_string()).unwrap_or_default();
    for file in files.into_values() {
        for (value, place) in assignments(world, &file, "PATH") {
            *path = expand(&expand(&value, "PATH", path), "HOME", &home);
            set.push(place);
        }
    }
}

/// Replaces `$NAME`, `${NAME}`, `${NAME:-}` and, with a colon in front of what is there, `${NAME:+:$NAME}`.
fn expand(text: &str, name: &str, value: &str) -> String {
    let with_colon = if value.is_empty() { String::new() } else { format!(":{value}") };
    text.replace(&format!("${{{name}:+:${name}}}"), &with_colon)
        .replace(&format!("${{{name}:+:${{{name}}}}}"), &with_colon)
        .replace(&format!("${{{name}}}"), value)
        .replace(&format!("${{{name}:-}}"), value)
        .replace(&format!("${name}"), value)
}
