//! `PATH` as each way to start a program sees it, computed from the files that set it.
//!
//! Called by the checks of `environment` and, through [`SearchPaths`], by whoever asks where a program would be found. What
//! is read, and in which order, is in bash(1) "INVOCATION", zsh(1) "STARTUP/SHUTDOWN FILES", pam_env(8), login.defs(5); of
//! fish and nushell in [`shell`](super::shell); besides in
//! [environment.d(5)](https://www.freedesktop.org/software/systemd/man/latest/environment.d.html),
//! [systemd.exec(5)](https://www.freedesktop.org/software/systemd/man/latest/systemd.exec.html#Environment%20variables%20in%20spawned%20processes)
//! and crontab(5). Nothing is run.

use std::fmt;
use std::path::{Path, PathBuf};

use super::shell::{Kind, Shell, fish, nu};
use super::world::{System, World};

/// What systemd gives its services, where nothing else is said.
const SYSTEMD: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What login(1) sets, where /etc/login.defs says nothing.
const LOGIN: &str = "/usr/local/bin:/usr/bin:/bin";
/// What macOS gives to what is not started from a shell.
const LAUNCHD: &str = "/usr/bin:/bin:/usr/sbin:/sbin";
/// What cron gives its jobs.
const CRON: &str = "/usr/bin:/bin";

/// A way in which a program comes to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Seat {
    /// From where we are ourselves.
    Here,
    /// In a terminal, by the user's login shell.
    LoginShell,
    /// From the menu of a desktop.
    Desktop,
    /// As a service of the user's (`systemctl --user`).
    UserService,
    /// As a service of the system's.
    SystemService,
    /// By cron.
    Cron,
}

impl Seat {
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

impl fmt::Display for Seat {
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

/// `PATH`, as one seat has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchPath {
    /// Whose.
    pub seat: Seat,
    /// Its folders, in order, as they stand there.
    pub folders: Vec<PathBuf>,
    /// Where it is set: `FILE:LINE`, or what sets it otherwise.
    pub set: Vec<String>,
    /// What could not be computed, each with its place. Then folders may be missing.
    pub unknown: Vec<String>,
}

/// `PATH` of every seat in a world.
#[derive(Clone, Debug)]
pub struct SearchPaths {
    world: World,
    paths: [SearchPath; 6],
}

impl SearchPaths {
    /// Computes them. Reads files, and blocks for as long as that takes.
    #[must_use]
    pub fn of(world: &World) -> Self {
        Self { world: world.clone(), paths: Seat::ALL.map(|seat| path(world, seat)) }
    }

    /// In the order of [`Seat::ALL`].
    #[must_use]
    pub fn all(&self) -> &[SearchPath] {
        &self.paths
    }

    /// Of one seat.
    #[must_use]
    pub const fn at(&self, seat: Seat) -> &SearchPath {
        &self.paths[seat as usize]
    }

    /// The file that a program of that name means there: a path as it is, and a name by `PATH`. Folders that are relative
    /// are skipped: they depend on where one stands.
    #[must_use]
    pub fn find(&self, seat: Seat, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            return Some(PathBuf::from(program)).filter(|path| self.world.is_program(path));
        }
        let folders = self.at(seat).folders.iter().filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(program)).find(|path| self.world.is_program(path))
    }

    /// Whether everything that sets `PATH` there was understood.
    #[must_use]
    pub fn is_certain(&self, seat: Seat) -> bool {
        self.at(seat).unknown.is_empty()
    }
}

fn path(world: &World, seat: Seat) -> SearchPath {
    let mac = world.system() == System::Mac;
    match seat {
        Seat::Here => {
            let path = world.variable("PATH").unwrap_or_default();
            let folders =
                std::env::split_paths(path).filter(|folder| !folder.as_os_str().is_empty()).collect();
            SearchPath { seat, folders, set: Vec::new(), unknown: Vec::new() }
        }
        Seat::LoginShell => session(world, seat, true),
        Seat::Desktop if mac => plain(seat, LAUNCHD, "launchd"),
        Seat::Desktop => session(world, seat, false),
        Seat::UserService | Seat::SystemService if mac => plain(seat, LAUNCHD, "launchd"),
        Seat::UserService => {
            let (path, mut set) = manager(world, &["/usr/lib/systemd/user.conf", "/etc/systemd/user.conf"]);
            let (path, more) = environment_d(world, path);
            set.extend(more);
            of(seat, &path, set)
        }
        Seat::SystemService => {
            let (path, set) = manager(world, &["/usr/lib/systemd/system.conf", "/etc/systemd/system.conf"]);
            of(seat, &path, set)
        }
        Seat::Cron => plain(seat, CRON, "cron"),
    }
}

fn plain(seat: Seat, path: &str, who: &str) -> SearchPath {
    of(seat, path, vec![who.to_owned()])
}

fn of(seat: Seat, path: &str, set: Vec<String>) -> SearchPath {
    SearchPath { seat, folders: folders(path), set, unknown: Vec::new() }
}

fn folders(path: &str) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in path.split(':').filter(|folder| !folder.is_empty()) {
        if !folders.iter().any(|known| known == Path::new(folder)) {
            folders.push(folder.into());
        }
    }
    folders
}

/// `PATH` of systemd's services: `DefaultEnvironment` of its configuration, or its own.
fn manager(world: &World, files: &[&str]) -> (String, Vec<String>) {
    let (mut path, mut set) = (SYSTEMD.to_owned(), vec!["systemd".to_owned()]);
    let mut all: Vec<PathBuf> = Vec::new();
    for file in files {
        let folder = PathBuf::from(format!("{file}.d"));
        all.push(file.into());
        all.extend(
            world.list(&folder).iter().filter(|name| name.ends_with(".conf")).map(|name| folder.join(name)),
        );
    }
    for file in all {
        for (number, line) in world.read(&file).unwrap_or_default().lines().enumerate() {
            let Some(value) = line.trim().strip_prefix("DefaultEnvironment=") else { continue };
            let words = value.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
            if let Some(value) = words.filter_map(|word| word.strip_prefix("PATH=")).next_back() {
                path = value.to_owned();
                set = vec![format!("{}:{}", file.display(), number + 1)];
            }
        }
    }
    (path, set)
}

/// What environment.d makes of a `PATH`.
fn environment_d(world: &World, mut path: String) -> (String, Vec<String>) {
    let config = world.set("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(world.home()?.join(".config")));
    let mut folders: Vec<PathBuf> = [
        "/usr/lib/environment.d",
        "/usr/local/lib/environment.d",
        "/run/environment.d",
        "/etc/environment.d",
    ]
    .map(PathBuf::from)
    .into();
    folders.extend(config.map(|config| config.join("environment.d")));
    // A file hides another one of its name in a folder that comes before; the names give the order.
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for folder in folders {
        for name in world.list(&folder).into_iter().filter(|name| name.ends_with(".conf")) {
            files.retain(|(known, _)| *known != name);
            files.push((name.clone(), folder.join(name)));
        }
    }
    files.sort();
    let mut set = Vec::new();
    for (_, file) in files {
        for (number, line) in world.read(&file).unwrap_or_default().lines().enumerate() {
            let Some(value) = line.trim().strip_prefix("PATH=") else { continue };
            path = expand(world, value.trim().trim_matches(['"', '\'']), &path);
            set.push(format!("{}:{}", file.display(), number + 1));
        }
    }
    (path, set)
}

/// `$PATH`, `${PATH}`, `${PATH:-...}` and `HOME` in a line of environment.d.
fn expand(world: &World, value: &str, path: &str) -> String {
    let home = world.home().map(|home| home.display().to_string()).unwrap_or_default();
    let mut out = value.to_owned();
    for (name, value) in [("PATH", path), ("HOME", home.as_str())] {
        out = out.replace(&format!("${{{name}}}"), value).replace(&format!("${{{name}:-}}"), value);
        // `${PATH:+:$PATH}` puts a colon in front of what is there.
        let also = if value.is_empty() { String::new() } else { format!(":{value}") };
        out = out.replace(&format!("${{{name}:+:${name}}}"), &also);
        out = out.replace(&format!("${{{name}:+:${{{name}}}}}"), &also).replace(&format!("${name}"), value);
    }
    out
}

/// A session that has begun with a login: in a terminal, where the shell is asked for commands, or on a desktop.
fn session(world: &World, seat: Seat, interactive: bool) -> SearchPath {
    let (mut path, mut set) = login(world);
    if !interactive {
        let (with, more) = environment_d(world, path);
        path = with;
        set.extend(more);
    }
    let (program, kind) = login_shell(world);
    let Some(kind) = kind else {
        let unknown = vec![format!("the files of {program} are not computed")];
        return SearchPath { seat, folders: folders(&path), set, unknown };
    };
    let mut shell = Shell::new(world, kind, interactive, &path);
    let home = world.home().map(Path::to_owned);
    let own = |name: &str| home.as_ref().map(|home| home.join(name));
    match kind {
        Kind::Bash | Kind::Sh => {
            shell.source(Path::new("/etc/profile"));
            // The first one alone.
            let names: &[&str] = if kind == Kind::Bash {
                &[".bash_profile", ".bash_login", ".profile"]
            } else {
                &[".profile"]
            };
            for file in names.iter().filter_map(|name| own(name)) {
                if shell.source(&file) {
                    break;
                }
            }
            // A window of a terminal reads these; a login reads them where its own files say so.
            if kind == Kind::Bash && interactive {
                for file in [Some("/etc/bash.bashrc".into()), own(".bashrc")].into_iter().flatten() {
                    if !shell.read.contains(&file) {
                        shell.source(&file);
                    }
                }
            }
        }
        Kind::Zsh => {
            let mut names = vec!["zshenv", "zprofile"];
            if interactive {
                names.extend(["zshrc", "zlogin"]);
            }
            for name in names {
                if !shell.source(&Path::new("/etc/zsh").join(name)) {
                    shell.source(&Path::new("/etc").join(name));
                }
                // Each of them may say where the next one lies.
                if let Some(folder) = shell.settings().or_else(|| home.clone()) {
                    shell.source(&folder.join(format!(".{name}")));
                }
            }
        }
        Kind::Fish => fish::login(&mut shell),
        Kind::Nu => nu::login(&mut shell),
    }
    set.append(&mut shell.set);
    SearchPath { seat, folders: folders(shell.path()), unknown: std::mem::take(&mut shell.unknown), set }
}

/// What a session begins with: /etc/login.defs, and then /etc/environment.
fn login(world: &World) -> (String, Vec<String>) {
    if world.system() == System::Mac {
        return (LAUNCHD.to_owned(), vec!["launchd".to_owned()]);
    }
    let (mut path, mut set) = (LOGIN.to_owned(), vec!["login".to_owned()]);
    let wanted = if world.user() == 0 { "ENV_SUPATH" } else { "ENV_PATH" };
    for (number, line) in world.read(Path::new("/etc/login.defs")).unwrap_or_default().lines().enumerate() {
        let mut words = line.split_whitespace();
        if words.next() == Some(wanted)
            && let Some(value) = words.next()
        {
            path = value.strip_prefix("PATH=").unwrap_or(value).to_owned();
            set = vec![format!("/etc/login.defs:{}", number + 1)];
        }
    }
    for (number, line) in world.read(Path::new("/etc/environment")).unwrap_or_default().lines().enumerate() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        if let Some(value) = line.strip_prefix("PATH=") {
            path = value.trim().trim_matches(['"', '\'']).to_owned();
            set = vec![format!("/etc/environment:{}", number + 1)];
        }
    }
    (path, set)
}

/// The user's login shell, and whether its files are understood.
fn login_shell(world: &World) -> (String, Option<Kind>) {
    let passwd = world.read(Path::new("/etc/passwd")).unwrap_or_default();
    let user = world.user().to_string();
    let of_user = passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2) == Some(&user.as_str())).then(|| fields.get(6).copied().unwrap_or_default().to_owned())
    });
    let variable = || Some(world.set("SHELL")?.to_str()?.to_owned());
    let program =
        of_user.filter(|shell| !shell.is_empty()).or_else(variable).unwrap_or_else(|| "/bin/sh".into());
    let name = program.rsplit('/').next().unwrap_or_default().to_owned();
    let kind = match name.as_str() {
        "bash" => Some(Kind::Bash),
        "zsh" => Some(Kind::Zsh),
        "fish" => Some(Kind::Fish),
        "nu" => Some(Kind::Nu),
        "sh" | "dash" | "ash" | "ksh" | "mksh" => Some(Kind::Sh),
        _ => None,
    };
    (name, kind)
}
