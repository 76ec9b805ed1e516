//! Where configurations lie: the files that the user names, and otherwise those where the programs that share them keep theirs
//! (`mcpjoin help targets` and the help of `--config` list them).
//!
//! Used by `files` and `question`. It finds files, and reads none.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::args::Configured;
use crate::failure::Failure;
use crate::folders;

/// Names a file in place of `--config`.
const VARIABLE: &str = "MCP_CONFIG_PATH";
/// The name of a configuration that was typed, in messages.
const TYPED: &str = "--mcp-config";

/// In the working directory, and whether other settings stand in the file as well.
const HERE: [(&str, bool); 11] = [
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
];
/// In the user's folder of configurations.
const CONFIGURATIONS: [(&str, bool); 7] = [
    ("mcp/mcp_servers.toml", false),
    ("mcp/mcp_servers.json", false),
    ("Claude/claude_desktop_config.json", true),
    ("Code/User/mcp.json", false),
    ("opencode/opencode.json", true),
    ("opencode/opencode.jsonc", true),
    ("zed/settings.json", true),
];
/// In the user's home.
const HOME: [(&str, bool); 10] = [
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
];

/// Why a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The user named it.
    Chosen,
    /// It lies in the working directory, whose content may come from somebody else.
    Here,
    /// It lies where the user keeps such files.
    User,
}

/// A configuration that is to be read.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) origin: Origin,
    /// It holds other settings, too, so that it may have nothing of ours.
    pub(super) shared: bool,
    /// It was typed, and this is all of it.
    pub(super) text: Option<String>,
    /// Of [`Origin::Here`]: the real path of the folder, and the file from there on.
    pub(super) here: Option<(PathBuf, &'static str)>,
}

/// Where to look, in order: what was named excludes all else. `file`: of `FILE#NAME`.
pub(super) fn all(file: Option<&OsStr>, configured: &Configured) -> Result<Vec<Candidate>, Failure> {
    let chosen =
        |path: PathBuf| Candidate { path, origin: Origin::Chosen, shared: false, text: None, here: None };
    let named = usize::from(file.is_some())
        + usize::from(configured.config.is_some())
        + usize::from(!configured.mcp_config.is_empty());
    if named > 1 {
        let hint = "leave out all but one of --config, --mcp-config and FILE#";
        return Err(Failure::usage("the file is named twice", hint));
    }
    if let Some(file) = file.map(PathBuf::from).or_else(|| configured.config.clone()) {
        return Ok(vec![chosen(file)]);
    }
    if !configured.mcp_config.is_empty() {
        let typed = |text: &String| Candidate { text: Some(text.clone()), ..chosen(TYPED.into()) };
        return Ok(configured
            .mcp_config
            .iter()
            .map(|word| {
                match word.to_str().map(str::to_owned).filter(|text| text.trim_start().starts_with('{')) {
                    Some(text) => typed(&text),
                    None => chosen(word.into()),
                }
            })
            .collect());
    }
    if let Some(file) = std::env::var_os(VARIABLE).filter(|file| !file.is_empty()) {
        return Ok(vec![chosen(file.into())]);
    }
    let configurations = folders::config();
    let configurations = CONFIGURATIONS.into_iter().map(|(name, shared)| {
        (configurations.as_ref().map(|folder| folder.join(name)), Origin::User, shared)
    });
    let home = folders::home();
    let home = HOME
        .into_iter()
        .map(|(name, shared)| (home.as_ref().map(|folder| folder.join(name)), Origin::User, shared));
    let own = configurations.chain(home).filter_map(|(path, origin, shared)| {
        Some(Candidate { path: path.filter(|path| there(path))?, origin, shared, text: None, here: None })
    });
    let mut places = in_folder(Path::new(""));
    places.extend(own);
    // In one's home, what lies here is the user's own, and is read once.
    let mut known: Vec<PathBuf> = Vec::new();
    places.retain(|place| {
        let path = place.path.canonicalize().unwrap_or_else(|_| place.path.clone());
        let first = !known.contains(&path);
        known.push(path);
        first
    });
    Ok(places)
}

/// What lies in a folder as it would in the working directory, which is the empty path.
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
        // Reading it reports why it cannot be read.
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

/// The folder that a file is about: the one in which it lies, or in whose folder of settings.
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
