//! Variables that change which code a program runs, where it gets that code from, or which servers it trusts.
//!
//! Used by `members` for each variable that an entry sets: the question about the entry marks such a variable. A name that is
//! missing here costs the mark alone, since values are shown all the same.

/// Names, in capitals. The case of a name is not looked at: npm reads `npm_config_*`, and curl reads `https_proxy`.
const NAMES: [&str; 8] = [
    // Shells read a file, or find programs elsewhere.
    "PATH PATHEXT COMSPEC SHELL ENV BASH_ENV BASHOPTS SHELLOPTS IFS PS4 PROMPT_COMMAND ZDOTDIR CDPATH",
    // Settings are read from there, and those of npm, pip and git name programs.
    "HOME USERPROFILE APPDATA XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_DIRS",
    // Programs that others start.
    "EDITOR VISUAL PAGER BROWSER LESSOPEN LESSCLOSE SSH_ASKPASS SUDO_ASKPASS",
    // Libraries that other libraries load.
    "GCONV_PATH GTK_MODULES QT_PLUGIN_PATH OPENSSL_CONF OPENSSL_ENGINES OPENSSL_MODULES",
    // Options of interpreters and of what they load.
    "ELECTRON_RUN_AS_NODE VIRTUAL_ENV CLASSPATH JAVA_HOME JAVA_OPTS JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS",
    // Compilers and their options.
    "MAKEFLAGS CC CXX CFLAGS LDFLAGS MAKE",
    // Where files are made that are run later, and what tools read.
    "TMPDIR KUBECONFIG NETRC",
    // The servers that code comes from, and whose certificates are trusted.
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE AWS_CONFIG_FILE",
];

/// Beginnings of names, in capitals.
const PREFIXES: [&str; 5] = [
    // The dynamic linkers of Linux and macOS.
    "LD_ DYLD_",
    // Functions that bash takes over.
    "BASH_FUNC_",
    // Interpreters.
    "NODE_ BUN_ DENO_ PYTHON PERL5 PERLLIB RUBY PHP LUA_ R_ JULIA_ ERL_ ELIXIR_ DOTNET_ COR_ CORECLR_",
    // Programs that install packages, or build and run them.
    "NPM_CONFIG_ PNPM_ YARN_ COREPACK_ PIP_ PIPX_ UV_ CONDA_ GEM_ BUNDLE_ GO CARGO_ RUST DOCKER_",
    // git runs programs that its settings name.
    "GIT_",
];

/// Ends of names, in capitals: options, programs, and folders of libraries or settings, whichever program they are for
/// (`ESBUILD_BINARY_PATH`, `MAVEN_OPTS`, `SVN_SSH`, `GST_PLUGIN_PATH`, `NVM_DIR`). Some others have such a name, too: one
/// pointer too many is better than one too few.
const SUFFIXES: [&str; 3] = [
    "_OPTS _OPTIONS _FLAGS _CONFIG _CONFIG_FILE _STARTUP _START _TUNABLES",
    "_PATH _HOME _DIR _ROOT _MODULE _MODULES _PLUGINS",
    "_BINARY _PAGER _EDITOR _SSH _RSH _PROXY",
];

/// The names of a table.
fn words(table: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    table.iter().flat_map(|line| line.split(' '))
}

/// Whether a variable of that name changes what a program runs.
pub(super) fn changes_what_runs(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    words(&NAMES).any(|known| name == known)
        || words(&PREFIXES).any(|prefix| name.starts_with(prefix))
        || words(&SUFFIXES).any(|suffix| name.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::{NAMES, PREFIXES, SUFFIXES, changes_what_runs};

    #[test]
    fn variables_that_change_what_runs_are_known_in_any_case() {
        for name in [
            "LD_PRELOAD",
            "LD_AUDIT",
            "DYLD_INSERT_LIBRARIES",
            "NODE_OPTIONS",
            "NODE_PATH",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "BASH_ENV",
            "ENV",
            "PATH",
            "GIT_SSH_COMMAND",
            "PERL5OPT",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "npm_config_registry",
            "https_proxy",
            "UV_INDEX_URL",
            "GOFLAGS",
            "ESBUILD_BINARY_PATH",
            "MAVEN_OPTS",
            "SVN_SSH",
            "COVERAGE_PROCESS_START",
            "GLIBC_TUNABLES",
            "NVM_DIR",
            "CC",
        ] {
            assert!(changes_what_runs(name), "{name}");
        }
        for name in ["API_KEY", "REGION", "LANG", "TZ", "DATABASE_URL", "NODENAME", "ENVIRONMENT", "TOKEN"] {
            assert!(!changes_what_runs(name), "{name}");
        }
    }

    #[test]
    fn what_is_compared_stands_in_capitals() {
        for line in NAMES.iter().chain(&PREFIXES).chain(&SUFFIXES) {
            assert_eq!(*line, line.to_ascii_uppercase());
        }
    }
}
