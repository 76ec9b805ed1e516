//! Which of our environment variables a child gets: all of them where the user has typed its command or named its file, and
//! otherwise those that programs need to run.
//!
//! A server behind `bridge --listen` serves every client that reaches the port, and any person may have written a definition
//! that was found. Neither gets the tokens and keys of the user's shell, unless the entry or `-e` names them. The secrets of
//! this program itself are passed to a child only when `-e` or the entry names them.

use std::ffi::OsStr;

use mcpjoin::transport::ChildCommand;

use crate::config::INPUT_PREFIX;

/// The variable that holds the secret of a client of authorization servers.
pub(crate) const CLIENT_SECRET: &str = "MCPJOIN_CLIENT_SECRET";

/// The variable with the URL of what several bridges share, which may contain a password.
pub(crate) const STATE_URL: &str = "MCPJOIN_STATE_URL";

/// The variables that the SDKs for TypeScript and Python pass on (HOME, LOGNAME, PATH, SHELL, TERM, USER), the language, the
/// time zone, the folder of temporary files, and the certificates of a company's network. None of them is secret.
const NAMES: [&str; 15] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TEMP",
    "TERM",
    "TMP",
    "TMPDIR",
    "TZ",
    "USER",
];
/// The categories of languages, and the folders of the XDG specification.
const PREFIXES: [&str; 2] = ["LC_", "XDG_"];
/// The proxies, in upper or lower case. A value with a user or a password in it is not passed on.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Whether a variable is passed on where not all of them are.
fn is_passed_on(name: &OsStr, value: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_proxy = PROXIES.iter().any(|proxy| name.eq_ignore_ascii_case(proxy));
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || is_proxy && !value.as_encoded_bytes().contains(&b'@')
}

/// Whether a variable holds a secret of this program.
fn is_ours(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|name| name == CLIENT_SECRET || name == STATE_URL || name.starts_with(INPUT_PREFIX))
}

/// The command with all of our variables except the secrets of this program.
pub(crate) fn without_ours(command: ChildCommand) -> ChildCommand {
    let ours = std::env::vars_os().map(|(name, _)| name).filter(|name| is_ours(name));
    ours.fold(command, ChildCommand::env_remove)
}

/// The command with the variables that are passed on, and whether others are withheld.
pub(super) fn limited(command: ChildCommand) -> (ChildCommand, bool) {
    let mut command = command.env_clear();
    let mut withheld = false;
    for (name, value) in std::env::vars_os() {
        if is_passed_on(&name, &value) {
            command = command.env(name, value);
        } else {
            withheld = true;
        }
    }
    (command, withheld)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::is_passed_on;

    #[test]
    fn d84_variables_are_passed_on_by_name_and_proxies_without_credentials() {
        let passed = |name: &str, value: &str| is_passed_on(OsStr::new(name), OsStr::new(value));
        for name in ["PATH", "HOME", "USER", "LANG", "LC_ALL", "XDG_CACHE_HOME", "TZ", "NODE_EXTRA_CA_CERTS"]
        {
            assert!(passed(name, "x"), "{name}");
        }
        for name in ["https_proxy", "HTTPS_PROXY", "no_proxy"] {
            assert!(passed(name, "http://proxy:3128"), "{name}");
        }
        assert!(!passed("HTTPS_PROXY", "http://me:hunter2@proxy:3128"));
        for name in
            ["GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "NODE_OPTIONS", "LD_PRELOAD", "SSH_AUTH_SOCK", ""]
        {
            assert!(!passed(name, "x"), "{name}");
        }
    }
}
