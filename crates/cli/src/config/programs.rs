//! The programs with a configuration that mcpjoin reads and writes: their names on the command line, and their files.
//!
//! Used by `convert::edit` and by the verb `servers`. It reads environment variables alone.

use std::path::PathBuf;

use super::dialect::Dialect;
use crate::folders;

/// A program with a configuration of its own.
pub(crate) struct Owner {
    /// On the command line.
    name: &'static str,
    /// Its file in the working directory.
    here: Option<&'static str>,
    /// Its file for all folders of its user.
    user: Option<UserFile>,
    /// The dialect of a file that does not exist yet.
    pub(super) dialect: Dialect,
}

/// A file below one of the user's folders.
#[derive(Clone, Copy)]
enum UserFile {
    Home(&'static str),
    Configurations(&'static str),
}

use UserFile::{Configurations, Home};

const fn program(
    name: &'static str,
    here: Option<&'static str>,
    user: Option<UserFile>,
    dialect: Dialect,
) -> Owner {
    Owner { name, here, user, dialect }
}

const PROGRAMS: [Owner; 12] = [
    program("claude", Some(".mcp.json"), Some(Home(".claude.json")), Dialect::McpServersJson),
    program(
        "claude-desktop",
        None,
        Some(Configurations("Claude/claude_desktop_config.json")),
        Dialect::McpServersJson,
    ),
    program("cursor", Some(".cursor/mcp.json"), Some(Home(".cursor/mcp.json")), Dialect::CursorJson),
    program(
        "vscode",
        Some(".vscode/mcp.json"),
        Some(Configurations("Code/User/mcp.json")),
        Dialect::VsCodeJson,
    ),
    program(
        "gemini",
        Some(".gemini/settings.json"),
        Some(Home(".gemini/settings.json")),
        Dialect::GeminiJson,
    ),
    program("zed", Some(".zed/settings.json"), Some(Configurations("zed/settings.json")), Dialect::ZedJson),
    program("windsurf", None, Some(Home(".codeium/windsurf/mcp_config.json")), Dialect::WindsurfJson),
    program("codex", Some(".codex/config.toml"), Some(Home(".codex/config.toml")), Dialect::CodexToml),
    program(
        "opencode",
        Some("opencode.json"),
        Some(Configurations("opencode/opencode.json")),
        Dialect::OpencodeJson,
    ),
    program(
        "mcporter",
        Some("config/mcporter.json"),
        Some(Home(".mcporter/mcporter.json")),
        Dialect::McpServersJson,
    ),
    program("roo", Some(".roo/mcp.json"), None, Dialect::McpServersJson),
    program("lmstudio", None, Some(Home(".lmstudio/mcp.json")), Dialect::McpServersJson),
];

/// The names of the programs.
pub(crate) const PROGRAM_NAMES: [&str; PROGRAMS.len()] = {
    let mut names = [""; PROGRAMS.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = PROGRAMS[place].name;
        place += 1;
    }
    names
};

impl Owner {
    /// The program of that name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        PROGRAMS.iter().find(|program| program.name == name)
    }

    /// Its file: that in the working directory, or with `user`, or where it has none there, that of its user.
    pub(crate) fn file(&self, user: bool) -> Option<PathBuf> {
        let of_user = || match self.user? {
            Home(name) => Some(folders::home()?.join(name)),
            Configurations(name) => Some(folders::config()?.join(name)),
        };
        match self.here {
            Some(here) if !user => Some(here.into()),
            _ => of_user(),
        }
    }

    /// Its files that exist: that in the working directory first.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = [self.file(false), self.file(true)].into_iter().flatten().collect();
        files.dedup();
        files.retain(|file| file.exists());
        files
    }
}

/// The dialect of a file that has no entries yet, by its path.
pub(super) fn dialect_of(path: &std::path::Path) -> Dialect {
    let is_of = |program: &&Owner| {
        let user = match program.user {
            Some(Home(name) | Configurations(name)) => Some(name),
            None => None,
        };
        program.here.into_iter().chain(user).any(|file| path.ends_with(file))
    };
    let is_toml = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let other = if is_toml { Dialect::ServersToml } else { Dialect::McpServersJson };
    PROGRAMS.iter().find(is_of).map_or(other, |program| program.dialect)
}

#[cfg(test)]
mod tests {
    use super::{Owner, PROGRAM_NAMES, dialect_of};

    #[test]
    fn every_program_has_a_file_in_its_dialect() {
        for name in PROGRAM_NAMES {
            let program = Owner::named(name).unwrap();
            for user in [false, true] {
                if let Some(file) = program.file(user) {
                    assert_eq!(dialect_of(&file), program.dialect, "{name}");
                }
            }
            assert!(program.file(false).is_some(), "{name}");
        }
    }
}
