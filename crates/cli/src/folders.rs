//! Where programs keep what belongs to the user, by the conventions of the system
//! (<https://specifications.freedesktop.org/basedir/latest/>).
//!
//! Used by `config`, `connect` and `verdict`. It looks at variables alone and creates nothing.

use std::env::var_os;
use std::path::PathBuf;

/// The user's home.
pub(crate) fn home() -> Option<PathBuf> {
    absolute("HOME")
}

/// The folder of configurations.
pub(crate) fn config() -> Option<PathBuf> {
    if cfg!(target_os = "macos") {
        return Some(home()?.join("Library/Application Support"));
    }
    absolute("XDG_CONFIG_HOME").or_else(|| Some(home()?.join(".config")))
}

/// The folder of what can be lost.
pub(crate) fn cache() -> Option<PathBuf> {
    if cfg!(target_os = "macos") {
        return Some(home()?.join("Library/Caches"));
    }
    absolute("XDG_CACHE_HOME").or_else(|| Some(home()?.join(".cache")))
}

/// The folder of what is kept from run to run, and is neither a setting nor can be lost.
pub(crate) fn state() -> Option<PathBuf> {
    if cfg!(target_os = "macos") {
        return Some(home()?.join("Library/Application Support"));
    }
    if cfg!(windows) {
        return absolute("LOCALAPPDATA");
    }
    absolute("XDG_STATE_HOME").or_else(|| Some(home()?.join(".local/state")))
}

/// A variable with an absolute path; another one counts as missing.
pub(crate) fn absolute(variable: &str) -> Option<PathBuf> {
    var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}
