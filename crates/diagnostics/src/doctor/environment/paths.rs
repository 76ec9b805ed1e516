//! `PATH` in each context in which servers are started.
//!
//! Used by the checks of `environment` and, as [`SearchPaths`], by callers that ask where a program would be found. The value
//! of this process is a variable. For a terminal, and for a desktop session on Linux, the login shell prints it (`shell`): a
//! desktop session begins with a login shell without a terminal. Services, cron and programs that macOS starts have fixed
//! values, to which [environment.d(5)](https://www.freedesktop.org/software/systemd/man/latest/environment.d.html) may add.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::shell::ShellCommand;
use super::world::World;
use mcpjoin_rules::named;

/// `PATH` of the services of systemd.
const SYSTEMD: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// `PATH` that login(1) sets if /etc/login.defs and /etc/environment set none.
const LOGIN: &str = "/usr/local/bin:/usr/bin:/bin";
/// `PATH` on macOS of programs that are not started from a shell.
const LAUNCHD: &str = "/usr/bin:/bin:/usr/sbin:/sbin";
/// `PATH` of the jobs of cron.
const CRON: &str = "/usr/bin:/bin";

named! {
    /// What starts a program.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum LaunchContext {
        /// This process.
        Here = "here",
        /// The user's login shell, in a terminal.
        LoginShell = "login-shell",
        /// The menu of a desktop.
        Desktop = "desktop",
        /// systemd or launchd, as a service of the user (`systemctl --user`).
        UserService = "user-service",
        /// systemd or launchd, as a service of the system.
        SystemService = "system-service",
        /// cron.
        Cron = "cron",
    }
}

impl fmt::Display for LaunchContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Here => "this process",
            Self::LoginShell => "your login shell",
            Self::Desktop => "a desktop session",
            Self::UserService => "a user service",
            Self::SystemService => "a system service",
            Self::Cron => "cron",
        })
    }
}

/// `PATH` in one context.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchPath {
    /// The context.
    pub context: LaunchContext,
    /// Its folders, in order, as they are written.
    pub folders: Vec<PathBuf>,
    /// The sources of the value: `FILE:LINE`, the command line of the shell that printed it, or the name of a program.
    pub sources: Vec<String>,
    /// The shell that was run, with its options.
    pub shell: Option<String>,
    /// Why the value is not known. `folders` are then those that the context begins with.
    pub unknown: Option<String>,
}

impl SearchPath {
    fn new(context: LaunchContext, path: &OsStr, sources: Vec<String>) -> Self {
        let mut folders: Vec<PathBuf> = Vec::new();
        for folder in std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty()) {
            if context == LaunchContext::Here || !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        Self { context, folders, sources, shell: None, unknown: None }
    }

    /// `PATH` of this process.
    pub(super) fn here(world: &World) -> Self {
        Self::new(LaunchContext::Here, world.variable("PATH").unwrap_or_default(), Vec::new())
    }

    /// `PATH` of a session of the user, which begins at a login. `timeout`: how long the shell may take; `None` runs none.
    pub(super) async fn of_session(world: &World, context: LaunchContext, timeout: Option<Duration>) -> Self {
        let by_shell = context == LaunchContext::LoginShell || !world.is_mac;
        let seen = world.clone();
        let read = super::within(super::FILES_TIMEOUT, move || initial(&seen, context)).await;
        let Some((path, mut sources)) = read else {
            return Self {
                unknown: Some(super::TOO_SLOW.to_owned()),
                ..Self::new(context, OsStr::new(LOGIN), Vec::new())
            };
        };
        if !by_shell {
            return Self::new(context, &path, sources);
        }
        let begins_with = |unknown| Self { unknown, ..Self::new(context, &path, sources.clone()) };
        let Some(timeout) = timeout else {
            return begins_with(Some("no shell was run (--no-shell)".to_owned()));
        };
        let command = match ShellCommand::new(world, context == LaunchContext::LoginShell) {
            Ok(command) => command,
            Err(problem) => return begins_with(Some(problem)),
        };
        let shell = Some(command.shown());
        match command.run(world, &path, timeout).await {
            Ok(path) => {
                sources.push(command.command_line());
                Self { shell, ..Self::new(context, &path, sources) }
            }
            Err(problem) => Self { shell, ..begins_with(Some(problem)) },
        }
    }

    /// The file of a program: a path as it is, a name by `PATH`. Relative folders are skipped, because they depend on the
    /// working directory.
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
    /// Adds the other contexts to the two sessions. Reads files, and blocks meanwhile.
    pub(super) fn new(world: &World, login_shell: SearchPath, desktop: SearchPath) -> Self {
        let fixed =
            |context, path: &str, by: &str| SearchPath::new(context, path.as_ref(), vec![by.to_owned()]);
        let (user, system) = (LaunchContext::UserService, LaunchContext::SystemService);
        let (user, system) = if world.is_mac {
            (fixed(user, LAUNCHD, "launchd"), fixed(system, LAUNCHD, "launchd"))
        } else {
            let (mut path, mut sources) = (SYSTEMD.to_owned(), vec!["systemd".to_owned()]);
            environment_d(world, &mut path, &mut sources);
            (SearchPath::new(user, path.as_ref(), sources), fixed(system, SYSTEMD, "systemd"))
        };
        let cron = fixed(LaunchContext::Cron, CRON, "cron");
        let paths = [SearchPath::here(world), login_shell, desktop, user, system, cron];
        Self { world: world.clone(), paths }
    }

    /// All of them, in the order of [`LaunchContext::ALL`].
    #[must_use]
    pub fn all(&self) -> &[SearchPath] {
        &self.paths
    }

    /// `PATH` in one context.
    #[must_use]
    pub const fn at(&self, context: LaunchContext) -> &SearchPath {
        &self.paths[context as usize]
    }

    /// The file of a program in that context: a path as it is, a name by `PATH`. Relative folders are skipped, because they
    /// depend on the working directory.
    #[must_use]
    pub fn find(&self, context: LaunchContext, program: &str) -> Option<PathBuf> {
        self.at(context).find(&self.world, program)
    }

    /// Whether the value is known.
    #[must_use]
    pub const fn is_known(&self, context: LaunchContext) -> bool {
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
        format!("the PATH of {contexts} is unknown: {reason}")
    };
    reasons.into_iter().map(note).collect()
}

/// `PATH` of a session before the shell reads its files, and its sources.
fn initial(world: &World, context: LaunchContext) -> (OsString, Vec<String>) {
    if world.is_mac {
        return (LAUNCHD.into(), vec!["launchd".to_owned()]);
    }
    let (mut path, mut sources) = (LOGIN.to_owned(), vec!["login".to_owned()]);
    let of_login = if world.user == 0 { "ENV_SUPATH" } else { "ENV_PATH" };
    for (file, name) in [("/etc/login.defs", of_login), ("/etc/environment", "PATH")] {
        if let Some((value, place)) = assignments(world, Path::new(file), name).pop() {
            (path, sources) = (value, vec![place]);
        }
    }
    if context == LaunchContext::Desktop {
        environment_d(world, &mut path, &mut sources);
    }
    (path.into(), sources)
}

/// Each value that a file assigns to a variable, with its place, `FILE:LINE`. Name and value are separated by `=` or, in
/// login.defs, by a blank and `PATH=`.
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

/// Applies the files of environment.d to a `PATH`.
fn environment_d(world: &World, path: &mut String, sources: &mut Vec<String>) {
    let config = world.set("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(world.home()?.join(".config")));
    let system = ["/usr/lib", "/usr/local/lib", "/run", "/etc"].map(PathBuf::from);
    // A file replaces the file of its name in an earlier folder. Files are applied in the order of their names.
    let mut files = std::collections::BTreeMap::new();
    for folder in system.into_iter().chain(config).map(|folder| folder.join("environment.d")) {
        let names = world.list(&folder).into_iter().filter(|name| name.ends_with(".conf"));
        files.extend(names.map(|name| (name.clone(), folder.join(name))));
    }
    let home = world.home().map(|home| home.display().to_string()).unwrap_or_default();
    for file in files.into_values() {
        for (value, place) in assignments(world, &file, "PATH") {
            *path = expand(&expand(&value, "PATH", path), "HOME", &home);
            sources.push(place);
        }
    }
}

/// Replaces `$NAME`, `${NAME}`, `${NAME:-}` and, with a colon before a value that is not empty, `${NAME:+:$NAME}`.
fn expand(text: &str, name: &str, value: &str) -> String {
    let with_colon = if value.is_empty() { String::new() } else { format!(":{value}") };
    text.replace(&format!("${{{name}:+:${name}}}"), &with_colon)
        .replace(&format!("${{{name}:+:${{{name}}}}}"), &with_colon)
        .replace(&format!("${{{name}}}"), value)
        .replace(&format!("${{{name}:-}}"), value)
        .replace(&format!("${name}"), value)
}
