//! Variables that change which code a program runs, where it gets that code from, or whom it takes for the sender of it.
//!
//! Asked by `members` for each variable that an entry sets, so that the question about the entry points at it. A name that
//! is missing here costs the pointer alone: values are shown all the same.

/// Names, in capitals. The case of a name is not looked at: npm reads `npm_config_*`, and curl reads `https_proxy`.
const NAMES: [&str; 58] = [
    // Shells read a file, or find programs elsewhere.
    "PATH",
    "PATHEXT",
    "COMSPEC",
    "SHELL",
    "ENV",
    "BASH_ENV",
    "BASHOPTS",
    "SHELLOPTS",
    "IFS",
    "PS4",
    "PROMPT_COMMAND",
    "ZDOTDIR",
    "CDPATH",
    // Settings are read from there, and those of npm, pip and git name programs.
    "HOME",
    "USERPROFILE",
    "APPDATA",
    "XDG_CONFIG_HOME",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    // Programs that others start.
    "EDITOR",
    "VISUAL",
    "PAGER",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
    // Libraries that other libraries load.
    "GCONV_PATH",
    "GTK_MODULES",
    "QT_PLUGIN_PATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    // Options of interpreters and of what they load.
    "ELECTRON_RUN_AS_NODE",
    "VIRTUAL_ENV",
    "CLASSPATH",
    "JAVA_HOME",
    "JAVA_OPTS",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "MAKEFLAGS",
    // Compilers, and where files are made that are run later.
    "CC",
    "CXX",
    "CFLAGS",
    "LDFLAGS",
    "MAKE",
    "TMPDIR",
    "KUBECONFIG",
    "NETRC",
    // Whom to get code from, and whose certificate is good enough for it.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
];

/// Beginnings of names, in capitals.
const BEGINNINGS: [&str; 34] = [
    // The dynamic linkers of Linux and macOS.
    "LD_",
    "DYLD_",
    // Functions that bash takes over.
    "BASH_FUNC_",
    // Interpreters.
    "NODE_",
    "BUN_",
    "DENO_",
    "PYTHON",
    "PERL5",
    "PERLLIB",
    "RUBY",
    "PHP",
    "LUA_",
    "R_",
    "JULIA_",
    "ERL_",
    "ELIXIR_",
    "DOTNET_",
    "COR_",
    "CORECLR_",
    // What installs packages, or builds and runs them.
    "NPM_CONFIG_",
    "PNPM_",
    "YARN_",
    "COREPACK_",
    "PIP_",
    "PIPX_",
    "UV_",
    "CONDA_",
    "GEM_",
    "BUNDLE_",
    "GO",
    "CARGO_",
    "RUST",
    "DOCKER_",
    // git runs programs that its settings name.
    "GIT_",
];

/// Ends of names, in capitals: options, programs, and folders of libraries or settings, whichever program they are for
/// (`ESBUILD_BINARY_PATH`, `MAVEN_OPTS`, `SVN_SSH`, `GST_PLUGIN_PATH`, `NVM_DIR`). Some others have such a name, too:
/// one pointer too many is better than one too few.
const ENDS: [&str; 21] = [
    "_OPTS",
    "_OPTIONS",
    "_FLAGS",
    "_PATH",
    "_HOME",
    "_DIR",
    "_ROOT",
    "_CONFIG",
    "_CONFIG_FILE",
    "_STARTUP",
    "_START",
    "_BINARY",
    "_MODULE",
    "_MODULES",
    "_PLUGINS",
    "_PAGER",
    "_EDITOR",
    "_SSH",
    "_RSH",
    "_PROXY",
    "_TUNABLES",
];

/// Whether a variable of that name changes what a program runs.
pub(super) fn changes_what_runs(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    NAMES.contains(&name.as_str())
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || ENDS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::{BEGINNINGS, ENDS, NAMES, changes_what_runs};

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
        for name in NAMES.iter().chain(&BEGINNINGS).chain(&ENDS) {
            assert_eq!(*name, name.to_ascii_uppercase());
        }
    }
}
