//! Every fault that an examination of the machine can find: its id, the check that fails, what it means, one thing to do.
//!
//! `{name}` stands for what is known only when the fault is found.

use super::EnvironmentCheck as Check;
use super::EnvironmentFinding;

/// A kind of fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    id: &'static str,
    check: Check,
    meaning: &'static str,
    advice: &'static str,
}

const fn fault(id: &'static str, check: Check, meaning: &'static str, advice: &'static str) -> Fault {
    Fault { id, check, meaning, advice }
}

impl Fault {
    /// The finding. `values`: for each `{name}` its value.
    pub(super) fn found(&self, seen: impl Into<String>, values: &[(&str, &str)]) -> EnvironmentFinding {
        let fill = |template: &str| {
            let set =
                |text: String, (name, value): &(&str, &str)| text.replace(&format!("{{{name}}}"), value);
            values.iter().fold(template.to_owned(), set)
        };
        let (meaning, advice) = (fill(self.meaning), fill(self.advice));
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

pub(super) const PATH_MISSING: Fault =
    fault("path-missing", Check::Path, "no program is found by its name", FOR_STARTS);
pub(super) const NOT_FOUND_HERE: Fault = fault(
    "not-found-here",
    Check::PathHere,
    "whatever is started from here, servers and the clients that start them, does not find them either",
    WHOLE_PATH,
);
pub(super) const TARGET_NOT_FOUND_HERE: Fault = fault(
    "not-found-here",
    Check::PathHere,
    "what starts us has another PATH than your login shell",
    WHOLE_PATH,
);
pub(super) const NOT_FOUND_ON_DESKTOP: Fault = fault(
    "not-found-on-desktop",
    Check::PathDesktop,
    "a client that is started from the menu (Claude Desktop, VS Code, Cursor) cannot start servers with them",
    WHOLE_PATH,
);
pub(super) const RUNTIME_BROKEN: Fault =
    fault("runtime-broken", Check::Runtimes, NO_SERVER, "install {name} again, or take {file} out of PATH");
pub(super) const RUNTIME_SILENT: Fault = fault(
    "runtime-silent",
    Check::Runtimes,
    NO_SERVER,
    "run `{file} --version` in a terminal: it may wait for an answer, a network or a disk",
);
pub(super) const INTERPRETER_MISSING: Fault = fault(
    "interpreter-missing",
    Check::Interpreters,
    "{name} ends at once: \"{interpreter}: No such file or directory\", exit code 127",
    "put the folder of {interpreter} into PATH; mostly it lies beside {name}",
);
pub(super) const NODE_OLD: Fault = fault(
    "node-old",
    Check::NodeAge,
    "servers that are written for node need {oldest} or later: they end with a syntax error or a missing module",
    "install a newer node, and put its folder first in PATH",
);
pub(super) const SHIM_HOLLOW: Fault = fault(
    "shim-hollow",
    Check::Shims,
    "the shim is found and fails when it is run: a server ends before it has begun",
    "{install}",
);
pub(super) const SHIM_DANGLING: Fault = fault(
    "shim-dangling",
    Check::Shims,
    "{name} is found by nobody",
    "install {name} again, or remove {link}",
);
pub(super) const SHIM_FOLDER_GONE: Fault = fault(
    "shim-folder-gone",
    Check::Shims,
    "the version that it held was removed, or the session that it belonged to is over: node, npm and npx are not found",
    "start from a new shell, or name a version: {manager} use --lts",
);
pub(super) const MANAGER_NOT_LOADED: Fault = fault(
    "manager-not-loaded",
    Check::Managers,
    "neither your shell nor anything else finds it: the lines that load it are missing from your shell's files, or stand \
     where they are not read",
    WHOLE_PATH,
);
pub(super) const MANAGER_NOT_HERE: Fault = fault(
    "manager-not-loaded",
    Check::Managers,
    "what is started from here does not find it; whether your login shell does is not known",
    WHOLE_PATH,
);
pub(super) const CACHE_OF_ROOT: Fault = fault("cache-of-root", Check::NpmCache, NO_DOWNLOAD, "{advice}");
pub(super) const CACHE_UNWRITABLE: Fault =
    fault("cache-unwritable", Check::NpmCache, NO_DOWNLOAD, "{advice}");
pub(super) const CACHE_NO_FOLDER: Fault =
    fault("cache-no-folder", Check::NpmCache, NO_DOWNLOAD, "move {place} away");
pub(super) const PROXY_MALFORMED: Fault = fault(
    "proxy-malformed",
    Check::ProxyForm,
    "some programs ignore it, others fail at their first request",
    "write {variable}=http://HOST:PORT, or unset it",
);
pub(super) const PROXY_DISAGREEMENT: Fault = fault(
    "proxy-disagreement",
    Check::ProxyAgreement,
    "some programs read the one and some the other: what one of them reaches, another does not",
    "give both the same value, or unset {variable}",
);
pub(super) const PROXY_ASKS: Fault = fault(
    "proxy-authorization",
    Check::ProxyAnswers,
    NO_PROXY,
    "put user and password into {variable}: http://USER:PASSWORD@{proxy}",
);
pub(super) const PROXY_REFUSES: Fault = fault(
    "proxy-authorization",
    Check::ProxyAnswers,
    NO_PROXY,
    "mend user and password in {variable}; in them, @ is written %40, : %3A and / %2F",
);
pub(super) const PROXY_UNREACHABLE: Fault = fault(
    "proxy-unreachable",
    Check::ProxyAnswers,
    NO_PROXY,
    "check the proxy's name and port, or unset {variable} where there is none",
);
pub(super) const PROXY_FOR_LOCALHOST: Fault = fault(
    "proxy-for-localhost",
    Check::ProxyLocalhost,
    "programs that keep to it look for servers on this machine behind the proxy (mcpjoin itself does not)",
    "NO_PROXY=localhost,127.0.0.1,::1 and the same for no_proxy",
);
pub(super) const CERTIFICATES_NAMED_WRONG: Fault = fault(
    "certificates-named-wrong",
    Check::CertificateVariables,
    "{readers} {consequence}",
    "mend or unset {variable}; the system's own are mostly in /etc/ssl/certs/ca-certificates.crt",
);
pub(super) const NO_AUTHORITIES: Fault = fault(
    "no-authorities",
    Check::CertificateStore,
    "nobody is trusted: every connection over TLS fails",
    "install the package ca-certificates",
);
pub(super) const LOCALHOST_UNKNOWN: Fault = fault(
    "localhost-unknown",
    Check::Localhost,
    NO_LOOPBACK,
    "write the line `127.0.0.1 localhost` into /etc/hosts",
);
pub(super) const LOCALHOST_NOWHERE: Fault =
    fault("localhost-unknown", Check::Localhost, "it leads nowhere", HOSTS);
pub(super) const LOCALHOST_ELSEWHERE: Fault = fault(
    "localhost-elsewhere",
    Check::Localhost,
    "what is sent to a server on this machine goes to another one",
    HOSTS,
);
pub(super) const LOCALHOST_UNREACHABLE: Fault = fault(
    "localhost-unreachable",
    Check::Localhost,
    "a URL with localhost does not reach a server on this machine, one with the address that works does",
    HOSTS,
);
pub(super) const LOOPBACK_V4: Fault = fault("loopback-ipv4", Check::LoopbackV4, NO_LOOPBACK, "{advice}");
pub(super) const LOOPBACK_V6: Fault = fault("loopback-ipv6", Check::LoopbackV6, NO_LOOPBACK, "{advice}");
pub(super) const CLOCK_WRONG: Fault = fault("clock-wrong", Check::ClockYear, WRONG_CLOCK, SET_CLOCK);
pub(super) const CLOCK_BEHIND: Fault = fault("clock-behind", Check::ClockFiles, WRONG_CLOCK, SET_CLOCK);
pub(super) const HOME_UNSET: Fault = fault(
    "home-missing",
    Check::Home,
    NO_HOME,
    "set HOME: a service of the system gets it with User=, cron and containers have to be told",
);
pub(super) const HOME_MISSING: Fault = fault("home-missing", Check::Home, NO_HOME, SET_HOME);
pub(super) const HOME_UNWRITABLE: Fault = fault("home-unwritable", Check::Home, NO_HOME, SET_HOME);
pub(super) const TEMPORARY_UNUSABLE: Fault = fault(
    "temporary-unusable",
    Check::Temporary,
    "npx, uvx and many servers cannot start",
    "make the folder, or set TMPDIR to one that can be written to",
);
pub(super) const OPEN_FILES_FEW: Fault = fault(
    "open-files-few",
    Check::OpenFiles,
    "several servers at once, or one of node's with many packages, run out of them (EMFILE, \"too many open files\")",
    "raise the limit: ulimit -n 4096 in the shell, LimitNOFILE= in a service",
);
