//! Which of our variables a child gets: all of them where its user has typed its command or named its file, and otherwise
//! those that programs need to run.
//!
//! A server behind `bridge --listen` answers whoever reaches the port, and the definition in a file that was found may be
//! anybody's. Tokens and keys of the user's shell are none of their business unless the entry or `-e` names them. The secrets that
//! this program reads for itself are passed to no child, unless `-e` or the entry names them.

use std::ffi::OsStr;

use mcpjoin::link::ChildCommand;

use crate::config::INPUT_PREFIX;

/// The variable that holds the secret of a client of authorization servers.
pub(crate) const CLIENT_SECRET: &str = "MCPJOIN_CLIENT_SECRET";

/// What the SDKs for TypeScript and Python pass on as well (HOME, LOGNAME, PATH, SHELL, TERM, USER), the language, the time
/// zone, the place of temporary files, and where certificates are that a company's network needs. None of them is secret.
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
/// The categories of languages, and the folders by the conventions of the system.
const BEGINNINGS: [&str; 2] = ["LC_", "XDG_"];
/// How the network is reached, in any case. A value with a user or a password in it is not passed on.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// Whether a variable of ours is passed on where not all of them are.
fn is_passed_on(name: &OsStr, value: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let is_proxy = PROXIES.iter().any(|proxy| name.eq_ignore_ascii_case(proxy));
    NAMES.contains(&name)
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || is_proxy && !value.as_encoded_bytes().contains(&b'@')
}

/// Whether a variable holds a secret that is for this program: a server gets it where it is named for that server.
fn is_ours(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name == CLIENT_SECRET || name.starts_with(INPUT_PREFIX))
}

/// The command with all of our variables but the secrets that are for us.
pub(crate) fn without_ours(command: ChildCommand) -> ChildCommand {
    let ours = std::env::vars_os().map(|(name, _)| name).filter(|name| is_ours(name));
    ours.fold(command, ChildCommand::env_remove)
}

/// The command with those of our variables alone that are passed on, and whether others are withheld.
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
