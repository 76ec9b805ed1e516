//! The places of configurations: the files that the user names, or else the files of the programs that share them
//! (`mcpjoin help targets` and the help of `--config` list them).
//!
//! Used by `files` and `question`. It finds files and reads none.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::args::Configured;
use crate::failure::Failure;
use crate::folders;

/// The variable that names a file in place of `--config`.
const VARIABLE: &str = "MCP_CONFIG_PATH";
/// The name of a typed configuration in messages.
const TYPED: &str = "--mcp-config";

/// Files in the working directory, and whether they also hold other settings.
const HERE: [(&str, bool); 12] = [
    (".mcp.json", false),
    ("mcp_servers.json", false),
    ("mcp_servers.toml", false),
    (".vscode/mcp.json", false),
    (".cursor/mcp.json", false),
    ("opencode.json", true),
    ("opencode.jsonc", true),
    (".codex/config.toml", true),
    (".gemini/settings.json", true),
    (".roo/mcp.json", false),
    (".zed/settings.json", true),
    ("config/mcporter.json", false),
];
/// Files in the user's folder of configurations.
const CONFIGURATIONS: [(&str, bool); 7] = [
    ("mcp/mcp_servers.toml", false),
    ("mcp/mcp_servers.json", false),
    ("Claude/claude_desktop_config.json", true),
    ("Code/User/mcp.json", false),
    ("opencode/opencode.json", true),
    ("opencode/opencode.jsonc", true),
    ("zed/settings.json", true),
];
/// Files in the user's home.
const HOME: [(&str, bool); 11] = [
    ("mcp_servers.toml", false),
    (".mcp_servers.json", false),
    (".claude.json", true),
    (".cursor/mcp.json", false),
    (".codex/config.toml", true),
    (".codeium/windsurf/mcp_config.json", false),
    (".gemini/settings.json", true),
    (".lmstudio/mcp.json", false),
    (".copilot/mcp-config.json", false),
    (".mcp-inspector/mcp.json", false),
    (".mcporter/mcporter.json", false),
];

/// Why a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The user named it.
    Chosen,
    /// It is in the working directory, whose content another person may have written.
    Here,
    /// It is in the user's home or folder of configurations.
    User,
}

/// A configuration to read.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) origin: Origin,
    /// It also holds other settings, so that it may have no entries.
    pub(super) shared: bool,
    /// The whole text, where it was typed.
    pub(super) text: Option<String>,
    /// For [`Origin::Here`]: the real path of the folder, and the file below it.
    pub(super) here: Option<(PathBuf, &'static str)>,
}

/// The places to search, in their order. Where the user names a file, no other is searched. `file`: the file of `FILE#NAME`.
pub(super) fn all(file: Option<&OsStr>, configured: &Configured) -> Result<Vec<Candidate>, Failure> {
    let chosen =
        |path: PathBuf| Candidate { path, origin: Origin::Chosen, shared: false, text: None, here: None };
    let named = usize::from(file.is_some())
        + usize::from(configured.config.is_some())
        + usize::from(!configured.mcp_config.is_empty());
    if named > 1 {
        let hint = "use only one of --config, --mcp-config and FILE#";
        return Err(Failure::usage("the file is named twice", hint));
    }
    if let Some(file) = file.map(PathBuf::from).or_else(|| configured.config.clone()) {
        return Ok(vec![chosen(file)]);
    }
    if !configured.mcp_config.is_empty() {
        let typed = |text: &str| Candidate { text: Some(text.to_owned()), ..chosen(TYPED.into()) };
        let place = |word: &OsString| match word.to_str() {
            Some(text) if text.trim_start().starts_with('{') => typed(text),
            _ => chosen(word.into()),
        };
        return Ok(configured.mcp_config.iter().map(place).collect());
    }
    if let Some(file) = of_variable() {
        return Ok(vec![chosen(file)]);
    }
    let mut places = in_folder(Path::new(""));
    let own = [(folders::config(), &CONFIGURATIONS[..]), (folders::home(), &HOME)];
    for (folder, files) in own {
        let Some(folder) = folder else { continue };
        let paths = files.iter().map(|(name, shared)| (folder.join(name), *shared));
        let own = paths.filter(|(path, _)| there(path));
        places.extend(own.map(|(path, shared)| Candidate { origin: Origin::User, shared, ..chosen(path) }));
    }
    // Where the working directory is the user's home, its files are read once.
    let mut known: Vec<PathBuf> = Vec::new();
    places.retain(|place| {
        let path = place.path.canonicalize().unwrap_or_else(|_| place.path.clone());
        let first = !known.contains(&path);
        known.push(path);
        first
    });
    Ok(places)
}

/// The file that the environment names in place of `--config`.
pub(super) fn of_variable() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|file| !file.is_empty()).map(PathBuf::from)
}

/// The files in a folder that would be searched if it were the working directory. The empty path is the working directory.
pub(super) fn in_folder(folder: &Path) -> Vec<Candidate> {
    let named = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let real = named.canonicalize().unwrap_or_else(|_| named.to_owned());
    let place = |(name, shared)| {
        let path = Some(folder.join(name)).filter(|path| there(path))?;
        Some(Candidate { path, origin: Origin::Here, shared, text: None, here: Some((real.clone(), name)) })
    };
    HERE.into_iter().filter_map(place).collect()
}

fn there(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(_) => true,
        // Reading the file then reports the reason.
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

/// The folder that a file configures: its own folder, or the one above a folder of settings.
pub(super) fn workspace(file: &Path) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = file.parent().unwrap_or(&file);
    let settings = folder
        .file_name()
        .and_then(OsStr::to_str)
        .is_some_and(|name| [".vscode", ".cursor", ".codex", ".gemini", ".roo", ".zed"].contains(&name));
    if settings { folder.parent().unwrap_or(folder).to_owned() } else { folder.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::workspace;

    #[test]
    fn a_file_in_a_folder_of_settings_is_about_the_folder_above() {
        for (file, folder) in [
            ("/a/b/.vscode/mcp.json", "/a/b"),
            ("/a/b/.cursor/mcp.json", "/a/b"),
            ("/a/b/.mcp.json", "/a/b"),
            ("/mcp.json", "/"),
        ] {
            assert_eq!(workspace(Path::new(file)), PathBuf::from(folder), "{file}");
        }
    }
}
