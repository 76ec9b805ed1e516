//! Version managers: where each keeps its programs, and whether a shim has a program behind it.
//!
//! Used by `programs`, and by the examination of a child for the name of a manager. It reads folders and runs nothing.

use std::path::{Path, PathBuf};

use super::world::World;

/// A version manager.
struct Manager {
    name: &'static str,
    /// Parts of the paths of its programs.
    paths: &'static [&'static str],
    /// The variable that names its folder, the default folder in the user's home, and the folder below it that `PATH` needs.
    root: (&'static str, &'static str, &'static str),
    /// The command that installs a version.
    install: &'static str,
}

const fn manager(
    name: &'static str,
    paths: &'static [&'static str],
    root: (&'static str, &'static str, &'static str),
    install: &'static str,
) -> Manager {
    Manager { name, paths, root, install }
}

const MANAGERS: [Manager; 8] = [
    manager("nvm", &["/.nvm/", "/nvm/versions/"], ("NVM_DIR", ".nvm", ""), "nvm install --lts"),
    manager(
        "fnm",
        &["/fnm_multishells/", "/fnm/"],
        ("", "", "aliases/default/bin"),
        "fnm install --lts && fnm default lts-latest",
    ),
    manager("volta", &["/.volta/"], ("VOLTA_HOME", ".volta", "bin"), "volta install node"),
    manager("asdf", &["/.asdf/"], ("ASDF_DATA_DIR", ".asdf", "shims"), "asdf install"),
    manager("mise", &["/mise/"], ("MISE_DATA_DIR", ".local/share/mise", "shims"), "mise use --global node"),
    manager("pyenv", &["/.pyenv/"], ("PYENV_ROOT", ".pyenv", "shims"), "pyenv install 3 && pyenv global 3"),
    manager("rbenv", &["/.rbenv/"], ("RBENV_ROOT", ".rbenv", "shims"), "rbenv install"),
    manager("nodenv", &["/.nodenv/"], ("NODENV_ROOT", ".nodenv", "shims"), "nodenv install"),
];

/// The version manager that a path belongs to.
pub(in crate::doctor) fn version_manager(path: &Path) -> Option<&'static str> {
    let path = path.to_str()?;
    let found = MANAGERS.iter().find(|manager| manager.paths.iter().any(|part| path.contains(part)));
    found.map(|manager| manager.name)
}

/// The command that installs a version with a manager.
pub(super) fn install(name: &str) -> String {
    let manager = MANAGERS.iter().find(|manager| manager.name == name);
    manager.map_or_else(|| format!("install a version with {name}"), |manager| manager.install.to_owned())
}

/// A version manager in the user's home that has the program, and its file.
pub(super) fn with_program(world: &World, program: &str) -> Option<(&'static str, PathBuf)> {
    let home = world.home()?;
    MANAGERS.iter().find_map(|manager| {
        let (variable, folder, programs) = manager.root;
        let root = match manager.name {
            "fnm" => fnm(world, home),
            _ => world.set(variable).map_or_else(|| home.join(folder), PathBuf::from),
        };
        let folder = match manager.name {
            "nvm" => root.join("versions/node").join(nvm_default(world, &root)?).join("bin"),
            _ => root.join(programs),
        };
        let file = folder.join(program);
        world.is_program(&file).then_some((manager.name, file))
    })
}

/// The folder of fnm.
fn fnm(world: &World, home: &Path) -> PathBuf {
    let data = world.set("XDG_DATA_HOME").map_or_else(|| home.join(".local/share"), PathBuf::from);
    let places = [world.set("FNM_DIR").map(PathBuf::from), Some(data.join("fnm")), Some(home.join(".fnm"))];
    let mut there = places.into_iter().flatten().filter(|place| world.metadata(place).is_some());
    there.next().unwrap_or_else(|| data.join("fnm"))
}

/// The folder name of the node version that nvm uses in a new shell: the target of the alias `default`. `None` without it.
fn nvm_default(world: &World, nvm: &Path) -> Option<String> {
    let mut wanted = "default".to_owned();
    // The target of an alias may be an alias.
    for _ in 0..6 {
        let Some(text) = world.read(&nvm.join("alias").join(&wanted)) else { break };
        wanted = text.trim().to_owned();
        if wanted.is_empty() || wanted.contains("..") {
            return None;
        }
    }
    let wanted = match &*wanted {
        "default" => return None,
        "node" | "stable" | "lts/*" | "unstable" => String::new(),
        wanted => format!("v{}", wanted.trim_start_matches('v')),
    };
    let below = format!("{wanted}.");
    let fits = |version: &String| wanted.is_empty() || *version == wanted || version.starts_with(&below);
    let numbers = |version: &String| -> Vec<u64> {
        version.trim_start_matches('v').split('.').map(|part| part.parse().unwrap_or_default()).collect()
    };
    world.list(&nvm.join("versions/node")).into_iter().filter(fits).max_by_key(numbers)
}

/// Why a shim has no program behind it. `None` if it has one, or is no shim.
pub(super) fn shim_problem(world: &World, shim: &Path) -> Option<String> {
    let manager = version_manager(shim)?;
    let (folder, program) = (shim.parent()?, shim.file_name()?.to_str()?);
    let root = folder.parent()?;
    let tool = match program {
        "node" | "npm" | "npx" => "node",
        "python" | "python3" => "python",
        "uv" | "uvx" => "uv",
        other => other,
    };
    let (versions, what) = match (manager, folder.file_name()?.to_str()?) {
        ("asdf", "shims") => return asdf_shim_problem(world, shim, root),
        ("volta", "bin") if tool == "node" => (root.join("tools/image/node"), tool),
        ("mise", "shims") => (root.join("installs").join(tool), tool),
        ("pyenv", "shims") => (root.join("versions"), "Python"),
        ("nodenv", "shims") => (root.join("versions"), "node"),
        _ => return None,
    };
    let is_empty = world.list(&versions).iter().all(|name| name.starts_with('.'));
    is_empty.then(|| format!("{manager} has no version of {what}"))
}

/// The same for a shim of asdf, which names the plugin and the versions that have the program.
fn asdf_shim_problem(world: &World, shim: &Path, root: &Path) -> Option<String> {
    let text = world.read(shim)?;
    let mut named = text.lines().filter_map(|line| line.strip_prefix("# asdf-plugin: ")).peekable();
    named.peek()?;
    let is_there = named.any(|line| {
        let mut words = line.split_whitespace();
        let (plugin, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        world.metadata(&root.join("installs").join(plugin).join(version)).is_some()
    });
    (!is_there).then(|| "asdf has removed every version that is selected".to_owned())
}
