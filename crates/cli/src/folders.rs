//! The user's folders, by the conventions of the system (<https://specifications.freedesktop.org/basedir/latest/>).
//!
//! Used by `config`, `connect`, `era_cache` and `tool_names`. It reads environment variables alone and creates nothing.

use std::env::var_os;
use std::path::PathBuf;

/// The user's home.
pub(crate) fn home() -> Option<PathBuf> {
    absolute("HOME")
}

/// The folder of configurations.
pub(crate) fn config() -> Option<PathBuf> {
    folder("XDG_CONFIG_HOME", ".config", "Library/Application Support")
}

/// The folder of caches, which can be lost.
pub(crate) fn cache() -> Option<PathBuf> {
    folder("XDG_CACHE_HOME", ".cache", "Library/Caches")
}

/// The folder of state: data that is no setting and must not be lost.
pub(crate) fn state() -> Option<PathBuf> {
    if cfg!(windows) {
        return absolute("LOCALAPPDATA");
    }
    folder("XDG_STATE_HOME", ".local/state", "Library/Application Support")
}

/// The folder that the variable names, or else a folder in the user's home. On macOS it is always the latter.
fn folder(variable: &str, in_home: &str, on_macos: &str) -> Option<PathBuf> {
    if cfg!(target_os = "macos") {
        return Some(home()?.join(on_macos));
    }
    absolute(variable).or_else(|| Some(home()?.join(in_home)))
}

/// The absolute path in a variable. A relative one counts as missing.
pub(crate) fn absolute(variable: &str) -> Option<PathBuf> {
    var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
