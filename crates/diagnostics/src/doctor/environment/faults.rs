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
    "PATH=/usr/local/bin:/usr/bin:/bin, where whatever starts us says which variables it gives";
const WHOLE_PATH: &str = "write the whole path, {file}, and -e PATH={folders} (in an entry, PATH in its env)";
const NO_DOWNLOAD: &str =
    "{runner} cannot download a server that it is asked to run, and the server ends before it has begun";
const NO_SERVER: &str = "no server that needs it starts";
const NO_PROXY: &str =
    "whatever goes through it fails: npx and uvx download nothing, and servers elsewhere are not reached";
const NO_LOOPBACK: &str =
    "a server on this machine and its client cannot reach each other over HTTP, and no sign-in can come back";
const WRONG_CLOCK: &str =
    "every certificate seems not to hold yet, or to have run out, and so does every token";
const SET_CLOCK: &str = "set the clock: timedatectl set-ntp true";
const HOSTS: &str = "write the lines `127.0.0.1 localhost` and, with IPv6, `::1 localhost` into /etc/hosts";
const NO_HOME: &str = "programs find neither their settings nor a place for their caches";
const SET_HOME: &str = "set HOME to a folder of the user's own";

kinds! { Check:
    PATH_MISSING: "path-missing", Path, "no program is found by its name", FOR_STARTS;
    NOT_FOUND_HERE: "not-found-here", PathHere,
        "whatever is started from here, servers and the clients that start them, does not find them either",
        WHOLE_PATH;
    TARGET_NOT_FOUND_HERE: "not-found-here", PathHere,
        "what starts us has another PATH than your login shell",
        WHOLE_PATH;
    NOT_FOUND_ON_DESKTOP: "not-found-on-desktop", PathDesktop,
        "a client that is started from the menu (Claude Desktop, VS Code, Cursor) cannot start servers with them",
        WHOLE_PATH;
    RUNTIME_BROKEN: "runtime-broken", Runtimes, NO_SERVER, "install {name} again, or take {file} out of PATH";
    RUNTIME_SILENT: "runtime-silent", Runtimes, NO_SERVER,
        "run `{file} --version` in a terminal: it may wait for an answer, a network or a disk";
    INTERPRETER_MISSING: "interpreter-missing", Interpreters,
        "{name} ends at once: \"{interpreter}: No such file or directory\", exit code 127",
        "put the folder of {interpreter} into PATH; mostly it lies beside {name}";
    NODE_OLD: "node-old", NodeAge,
        "servers that are written for node need {oldest} or later: they end with a syntax error or a missing module",
        "install a newer node, and put its folder first in PATH";
    SHIM_HOLLOW: "shim-hollow", Shims,
        "the shim is found and fails when it is run: a server ends before it has begun",
        "{install}";
    SHIM_DANGLING: "shim-dangling", Shims,
        "{name} is found by nobody",
        "install {name} again, or remove {link}";
    SHIM_FOLDER_GONE: "shim-folder-gone", Shims,
        "the version that it held was removed, or the session that it belonged to is over: node, npm and npx are not \
         found",
        "start from a new shell, or name a version: {manager} use --lts";
    MANAGER_NOT_LOADED: "manager-not-loaded", Managers,
        "neither your shell nor anything else finds it: the lines that load it are missing from your shell's files, \
         or stand where they are not read",
        WHOLE_PATH;
    MANAGER_NOT_HERE: "manager-not-loaded", Managers,
        "what is started from here does not find it; whether your login shell does is not known",
        WHOLE_PATH;
    CACHE_OF_ROOT: "cache-of-root", NpmCache, NO_DOWNLOAD, "{advice}";
    CACHE_UNWRITABLE: "cache-unwritable", NpmCache, NO_DOWNLOAD, "{advice}";
    CACHE_NO_FOLDER: "cache-no-folder", NpmCache, NO_DOWNLOAD, "move {place} away";
    PROXY_MALFORMED: "proxy-malformed", ProxyForm,
        "some programs ignore it, others fail at their first request",
        "write {variable}=http://HOST:PORT, or unset it";
    PROXY_DISAGREEMENT: "proxy-disagreement", ProxyAgreement,
        "some programs read the one and some the other: what one of them reaches, another does not",
        "give both the same value, or unset {variable}";
    PROXY_ASKS: "proxy-authorization", ProxyAnswers, NO_PROXY,
        "put user and password into {variable}: http://USER:PASSWORD@{proxy}";
    PROXY_REFUSES: "proxy-authorization", ProxyAnswers, NO_PROXY,
        "mend user and password in {variable}; in them, @ is written %40, : %3A and / %2F";
    PROXY_UNREACHABLE: "proxy-unreachable", ProxyAnswers, NO_PROXY,
        "check the proxy's name and port, or unset {variable} where there is none";
    PROXY_FOR_LOCALHOST: "proxy-for-localhost", ProxyLocalhost,
        "programs that keep to it look for servers on this machine behind the proxy (mcpjoin itself does not)",
        "NO_PROXY=localhost,127.0.0.1,::1 and the same for no_proxy";
    CERTIFICATES_NAMED_WRONG: "certificates-named-wrong", CertificateVariables,
        "{readers} {consequence}",
        "mend or unset {variable}; the system's own are mostly in /etc/ssl/certs/ca-certificates.crt";
    NO_AUTHORITIES: "no-authorities", CertificateStore,
        "nobody is trusted: every connection over TLS fails",
        "install the package ca-certificates";
    LOCALHOST_UNKNOWN: "localhost-unknown", Localhost, NO_LOOPBACK,
        "write the line `127.0.0.1 localhost` into /etc/hosts";
    LOCALHOST_NOWHERE: "localhost-unknown", Localhost, "it leads nowhere", HOSTS;
    LOCALHOST_ELSEWHERE: "localhost-elsewhere", Localhost,
        "what is sent to a server on this machine goes to another one",
        HOSTS;
    LOCALHOST_UNREACHABLE: "localhost-unreachable", Localhost,
        "a URL with localhost does not reach a server on this machine, one with the address that works does",
        HOSTS;
    LOOPBACK_V4: "loopback-ipv4", LoopbackV4, NO_LOOPBACK, "{advice}";
    LOOPBACK_V6: "loopback-ipv6", LoopbackV6, NO_LOOPBACK, "{advice}";
    CLOCK_WRONG: "clock-wrong", ClockYear, WRONG_CLOCK, SET_CLOCK;
    CLOCK_BEHIND: "clock-behind", ClockFiles, WRONG_CLOCK, SET_CLOCK;
    HOME_UNSET: "home-missing", Home, NO_HOME,
        "set HOME: a service of the system gets it with User=, cron and containers have to be told";
    HOME_MISSING: "home-missing", Home, NO_HOME, SET_HOME;
    HOME_UNWRITABLE: "home-unwritable", Home, NO_HOME, SET_HOME;
    TEMPORARY_UNUSABLE: "temporary-unusable", Temporary,
        "npx, uvx and many servers cannot start",
        "make the folder, or set TMPDIR to one that can be written to";
    OPEN_FILES_FEW: "open-files-few", OpenFiles,
        "several servers at once, or one of node's with many packages, run out of them (EMFILE, \"too many open \
         files\")",
        "raise the limit: ulimit -n 4096 in the shell, LimitNOFILE= in a service";
}
