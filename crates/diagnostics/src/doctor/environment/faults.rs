//! Every finding about the machine: its id, the check that fails, what it means, one thing to do.
//!
//! `{name}` stands for a value that is known only when the finding is made. Used by all parts of `environment`.

use super::super::findings::{Kind, kinds};
use super::EnvironmentCheck as Check;
use super::EnvironmentFinding;

impl Kind<Check> {
    /// The finding. `values`: for each `{name}` its value.
    pub(super) fn found(&self, seen: impl Into<String>, values: &[(&str, &str)]) -> EnvironmentFinding {
        let [meaning, advice] = self.texts(values);
        EnvironmentFinding { id: self.id, check: self.check, seen: seen.into(), meaning, advice }
    }
}

const FOR_STARTS: &str =
    "set PATH=/usr/local/bin:/usr/bin:/bin in the configuration of the program that starts mcpjoin";
const WHOLE_PATH: &str = "write the absolute path, {file}, and -e PATH={folders} (in an entry, PATH in its \
    env)";
const NO_DOWNLOAD: &str = "{runner} cannot download servers, and exits before the server starts";
const NO_SERVER: &str = "servers that need it do not start";
const NO_PROXY: &str =
    "requests through it fail: npx and uvx download nothing, and remote servers are unreachable";
const NO_LOOPBACK: &str =
    "HTTP servers on this machine are unreachable, and logins cannot return to their program";
const WRONG_CLOCK: &str = "all certificates and tokens seem not yet valid, or expired";
const SET_CLOCK: &str = "set the clock: timedatectl set-ntp true";
const HOSTS: &str = "add the line `127.0.0.1 localhost` and, with IPv6, `::1 localhost` to /etc/hosts";
const NO_HOME: &str = "programs find neither their settings nor their caches";
const SET_HOME: &str = "set HOME to the user's home folder";

kinds! { Check:
    PATH_MISSING: "path-missing", Path, "programs cannot be started by name", FOR_STARTS;
    NOT_FOUND_HERE: "not-found-here", PathHere,
        "programs started from here, servers as well as clients that start servers, do not find them either",
        WHOLE_PATH;
    TARGET_NOT_FOUND_HERE: "not-found-here", PathHere,
        "the PATH here differs from the PATH of your login shell",
        WHOLE_PATH;
    NOT_FOUND_ON_DESKTOP: "not-found-on-desktop", PathDesktop,
        "a client started from the menu (Claude Desktop, VS Code, Cursor) cannot start servers with them",
        WHOLE_PATH;
    RUNTIME_BROKEN: "runtime-broken", Runtimes, NO_SERVER, "reinstall {name}, or remove {file} from PATH";
    RUNTIME_SILENT: "runtime-silent", Runtimes, NO_SERVER,
        "run `{file} --version` in a terminal: it may wait for input, a network or a disk";
    INTERPRETER_MISSING: "interpreter-missing", Interpreters,
        "{name} exits at once: \"{interpreter}: No such file or directory\", exit code 127",
        "add the folder of {interpreter} to PATH; usually it is next to {name}";
    NODE_OLD: "node-old", NodeAge,
        "servers for Node.js need {oldest} or later: they exit with a syntax error or a missing module",
        "install a newer Node.js, and put its folder first in PATH";
    SHIM_HOLLOW: "shim-hollow", Shims,
        "the shim exists but fails: servers exit before they start",
        "{install}";
    SHIM_DANGLING: "shim-dangling", Shims,
        "no program finds {name}",
        "reinstall {name}, or remove {link}";
    SHIM_FOLDER_GONE: "shim-folder-gone", Shims,
        "the Node.js version behind it was removed, or its shell session is over: node, npm and npx are \
         not found",
        "open a new shell, or select a version: {manager} use --lts";
    MANAGER_NOT_LOADED: "manager-not-loaded", Managers,
        "your shell does not find it either: the lines that load it are missing from its startup files, or \
         in a file that it does not read",
        WHOLE_PATH;
    MANAGER_NOT_HERE: "manager-not-loaded", Managers,
        "programs started from here do not find it; the PATH of your login shell is unknown",
        WHOLE_PATH;
    CACHE_OF_ROOT: "cache-of-root", NpmCache, NO_DOWNLOAD, "{advice}";
    CACHE_UNWRITABLE: "cache-unwritable", NpmCache, NO_DOWNLOAD, "{advice}";
    CACHE_NO_FOLDER: "cache-no-folder", NpmCache, NO_DOWNLOAD, "rename {place}";
    PROXY_MALFORMED: "proxy-malformed", ProxyForm,
        "some programs ignore it, others fail at their first request",
        "write {variable}=http://HOST:PORT, or unset it";
    PROXY_DISAGREEMENT: "proxy-disagreement", ProxyAgreement,
        "some programs read the lower-case variable and some the upper-case one, so they reach different \
         hosts",
        "give both the same value, or unset {variable}";
    PROXY_ASKS: "proxy-authorization", ProxyAnswers, NO_PROXY,
        "put user and password into {variable}: http://USER:PASSWORD@{proxy}";
    PROXY_REFUSES: "proxy-authorization", ProxyAnswers, NO_PROXY,
        "correct user and password in {variable}; in them, write @ as %40, : as %3A and / as %2F";
    PROXY_UNREACHABLE: "proxy-unreachable", ProxyAnswers, NO_PROXY,
        "check the proxy's name and port, or unset {variable} if there is no proxy";
    PROXY_FOR_LOCALHOST: "proxy-for-localhost", ProxyLocalhost,
        "programs that use it connect to servers on this machine through the proxy (mcpjoin does not)",
        "set NO_PROXY=localhost,127.0.0.1,::1 and no_proxy to the same";
    CERTIFICATES_NAMED_WRONG: "certificates-named-wrong", CertificateVariables,
        "{readers} {consequence}",
        "correct or unset {variable}; the system's certificates are usually in \
         /etc/ssl/certs/ca-certificates.crt";
    NO_AUTHORITIES: "no-authorities", CertificateStore,
        "no certificate is trusted: every TLS connection fails",
        "install the package ca-certificates";
    LOCALHOST_UNKNOWN: "localhost-unknown", Localhost, NO_LOOPBACK,
        "add the line `127.0.0.1 localhost` to /etc/hosts";
    LOCALHOST_NOWHERE: "localhost-unknown", Localhost, "the name cannot be resolved", HOSTS;
    LOCALHOST_ELSEWHERE: "localhost-elsewhere", Localhost,
        "requests to a server on this machine go to another machine",
        HOSTS;
    LOCALHOST_UNREACHABLE: "localhost-unreachable", Localhost,
        "a URL with localhost does not reach a server on this machine, but a URL with the working address \
         does",
        HOSTS;
    LOOPBACK_V4: "loopback-ipv4", LoopbackV4, NO_LOOPBACK, "{advice}";
    LOOPBACK_V6: "loopback-ipv6", LoopbackV6, NO_LOOPBACK, "{advice}";
    CLOCK_WRONG: "clock-wrong", ClockYear, WRONG_CLOCK, SET_CLOCK;
    CLOCK_BEHIND: "clock-behind", ClockFiles, WRONG_CLOCK, SET_CLOCK;
    HOME_UNSET: "home-missing", Home, NO_HOME,
        "set HOME: for a system service with User=, for cron and containers in their settings";
    HOME_MISSING: "home-missing", Home, NO_HOME, SET_HOME;
    HOME_UNWRITABLE: "home-unwritable", Home, NO_HOME, SET_HOME;
    TEMPORARY_UNUSABLE: "temporary-unusable", Temporary,
        "npx, uvx and many servers cannot start",
        "create the folder, or set TMPDIR to a writable one";
    OPEN_FILES_FEW: "open-files-few", OpenFiles,
        "several servers, or a Node.js server with many packages, exceed the limit (EMFILE, \"too many \
         open files\")",
        "raise the limit: ulimit -n 4096 in the shell, LimitNOFILE= in a service";
}
