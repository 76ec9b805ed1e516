//! Version managers: where each keeps its programs, and what stands behind a shim.
//!
//! Called by `runtimes` and by `shell`. It looks at folders and runs nothing.

use std::path::{Path, PathBuf};

use super::world::World;

/// A version manager on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: &'static str,
    /// The folder that `PATH` needs: of the version that a new shell would use, where that can be told.
    pub(super) folder: Option<PathBuf>,
    /// What to type so that it has a version.
    pub(super) install: &'static str,
}

/// Whose a path is, by its folder.
const FOLDERS: [(&str, &str); 10] = [
    ("/.nvm/", "nvm"),
    ("/nvm/versions/", "nvm"),
    ("/.volta/", "volta"),
    ("/fnm_multishells/", "fnm"),
    ("/fnm/", "fnm"),
    ("/.asdf/", "asdf"),
    ("/mise/", "mise"),
    ("/.pyenv/", "pyenv"),
    ("/.rbenv/", "rbenv"),
    ("/.nodenv/", "nodenv"),
];

/// Whose a path is.
pub(super) fn of(path: &Path) -> Option<&'static str> {
    let path = path.to_str()?;
    FOLDERS.iter().find(|(folder, _)| path.contains(folder)).map(|(_, name)| *name)
}

/// The managers that have programs in this user's home.
pub(super) fn all(world: &World) -> Vec<Manager> {
    let Some(home) = world.home() else { return Vec::new() };
    let there = |folder: PathBuf| {
        Some(folder).filter(|folder| world.metadata(folder).is_some_and(|found| found.is_dir()))
    };
    let rooted = |variable: &str, otherwise: &str| {
        world.set(variable).map_or_else(|| home.join(otherwise), PathBuf::from)
    };
    let mut found = Vec::new();
    let mut add = |name, root: PathBuf, folder: Option<PathBuf>, install| {
        if there(root).is_some() {
            found.push(Manager { name, folder: folder.and_then(there), install });
        }
    };
    let nvm = rooted("NVM_DIR", ".nvm");
    let version = nvm_default(world, &nvm);
    let bin = version.map(|version| nvm.join("versions/node").join(version).join("bin"));
    add("nvm", nvm, bin, "nvm install --lts");
    let root = fnm(world, home);
    let bin = root.join("aliases/default/bin");
    add("fnm", root, Some(bin), "fnm install --lts && fnm default lts-latest");
    let root = rooted("VOLTA_HOME", ".volta");
    let bin = root.join("bin");
    add("volta", root, Some(bin), "volta install node");
    let root = rooted("ASDF_DATA_DIR", ".asdf");
    let bin = root.join("shims");
    add("asdf", root, Some(bin), "asdf install");
    let root = rooted("MISE_DATA_DIR", ".local/share/mise");
    let bin = root.join("shims");
    add("mise", root, Some(bin), "mise use --global node");
    let root = rooted("PYENV_ROOT", ".pyenv");
    let bin = root.join("shims");
    add("pyenv", root, Some(bin), "pyenv install 3 && pyenv global 3");
    let root = rooted("NODENV_ROOT", ".nodenv");
    let bin = root.join("shims");
    add("nodenv", root, Some(bin), "nodenv install");
    found
}

/// Where fnm keeps what it has.
pub(super) fn fnm(world: &World, home: &Path) -> PathBuf {
    let data = world.set("XDG_DATA_HOME").map_or_else(|| home.join(".local/share"), PathBuf::from);
    let places = [world.set("FNM_DIR").map(PathBuf::from), Some(data.join("fnm")), Some(home.join(".fnm"))];
    let there = |place: &PathBuf| world.metadata(place).is_some();
    places.iter().flatten().find(|place| there(place)).cloned().unwrap_or_else(|| data.join("fnm"))
}

/// The version of node that nvm uses in a new shell, as its folder is called: what the alias `default` leads to, and
/// without one none.
pub(super) fn nvm_default(world: &World, nvm: &Path) -> Option<String> {
    let versions = world.list(&nvm.join("versions/node"));
    let mut wanted = "default".to_owned();
    // An alias may lead to an alias.
    for _ in 0..6 {
        let Some(text) = world.read(&nvm.join("alias").join(&wanted)) else { break };
        wanted = text.trim().to_owned();
        if wanted.is_empty() || wanted.contains("..") {
            return None;
        }
    }
    let numbers = |version: &str| -> Vec<u64> {
        version.trim_start_matches('v').split('.').map(|part| part.parse().unwrap_or_default()).collect()
    };
    let newest = |fits: &dyn Fn(&str) -> bool| {
        versions.iter().filter(|version| fits(version)).max_by_key(|version| numbers(version)).cloned()
    };
    match wanted.as_str() {
        "default" => None,
        "node" | "stable" | "lts/*" | "unstable" => newest(&|_| true),
        wanted => {
            let wanted = format!("v{}", wanted.trim_start_matches('v'));
            let below = format!("{wanted}.");
            newest(&|version| version == wanted || version.starts_with(&below))
        }
    }
}

/// Why nothing stands behind a shim, in words that complete "the shim of ...": `None` when something does, or it is none.
pub(super) fn hollow(world: &World, shim: &Path) -> Option<String> {
    let manager = of(shim)?;
    let folder = shim.parent()?;
    let (root, program) = (folder.parent()?, shim.file_name()?.to_str()?);
    let is_shim = |named: &str| folder.file_name().is_some_and(|name| name == named);
    let installs = |folder: PathBuf| {
        world.list(&folder).into_iter().filter(|name| !name.starts_with('.')).collect::<Vec<_>>()
    };
    match manager {
        "volta" if is_shim("bin") => {
            let tool = match program {
                "node" | "npm" | "npx" => "node",
                _ => return None,
            };
            let none = installs(root.join("tools/image").join(tool)).is_empty();
            none.then(|| "volta has no version of node".to_owned())
        }
        "asdf" if is_shim("shims") => {
            // A shim of asdf names the plugin and the versions that have the program.
            let text = world.read(shim)?;
            let mut named = text.lines().filter_map(|line| line.strip_prefix("# asdf-plugin: ")).peekable();
            named.peek()?;
            let there = named.any(|line| {
                let mut words = line.split_whitespace();
                let (plugin, version) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                world.metadata(&root.join("installs").join(plugin).join(version)).is_some()
            });
            (!there).then(|| "asdf has removed every version that it names".to_owned())
        }
        "mise" if is_shim("shims") => {
            let tool = match program {
                "node" | "npm" | "npx" => "node",
                "python" | "python3" => "python",
                "uv" | "uvx" => "uv",
                other => other,
            };
            let none = installs(root.join("installs").join(tool)).is_empty();
            none.then(|| format!("mise has no version of {tool}"))
        }
        "pyenv" if is_shim("shims") => {
            let versions = installs(root.join("versions"));
            versions.is_empty().then(|| "pyenv has no version of Python".to_owned())
        }
        "nodenv" if is_shim("shims") => {
            let versions = installs(root.join("versions"));
            versions.is_empty().then(|| "nodenv has no version of node".to_owned())
        }
        _ => None,
    }
}
