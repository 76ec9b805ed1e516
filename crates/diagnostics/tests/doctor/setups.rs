//! Set-ups as people have them, one in each row: how it is set up, the finding that comes first, and a word of its advice. Those
//! of configuration files are in the tests of the binary.
//!
//! Programs that every machine of the tests has (sh, Python, git) are run; what npm, uv, Docker, ssh and the loaders print is
//! printed by a shell.

use std::path::PathBuf;
use std::time::Duration;

use mcpjoin::client::ClientBuilder;
use mcpjoin::proto::Era;
use mcpjoin::proto::session::{EraChoice, Limits};
use mcpjoin::transport::ChildCommand;
use mcpjoin::{Client, Link};
use mcpjoin_diagnostics::doctor::{Check, Doctor, Report};

use crate::child::{HEALTHY, Script, Shell};
use crate::http::{Canned, page, response};
use crate::ports::Closed;
use crate::support::{run, sh};
use crate::tls_server::{self, KEY};

/// How a server is set up.
enum How {
    /// A program with its arguments.
    Run(&'static [&'static str]),
    /// A script of the shell.
    Sh(&'static str),
    /// A program that writes this to standard error and exits with this code.
    Says(&'static str, u8),
    /// A server in shell.
    Server(Shell),
    /// A program whose `PATH` is empty.
    WithoutPath(&'static [&'static str]),
    /// A working directory that does not exist.
    InNoFolder,
    /// An executable file with this content and name, and its arguments.
    File(&'static str, &'static str, &'static [&'static str]),
}

use How::{File, InNoFolder, Run, Says, Server, Sh, WithoutPath};

const OTHER_VERSION: &str = r#"say '"result":{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}'"#;
const NO_TOOLS: &str = r#"say '"result":{"tools":[]}'"#;

/// Programs: those of the review of 2026-11-23 first.
const PROGRAMS: &[(&str, How, &str, &str)] = &[
    (
        "a program that does not exist",
        Run(&["mcpjoin-no-such-program", "x"]),
        "program-missing",
        "install the program",
    ),
    (
        "a working directory that does not exist",
        InNoFolder,
        "working-directory",
        "working directory that exists",
    ),
    (
        "a log on standard output",
        Server(Shell { first: "echo starting", ..HEALTHY }),
        "stdout-noise",
        "standard error",
    ),
    (
        "another version",
        Server(Shell { initialize: OTHER_VERSION, ..HEALTHY }),
        "version",
        "update the server",
    ),
    ("a slow start", Server(Shell { first: "sleep 0.5", ..HEALTHY }), "slow-start", "start-up timeout"),
    ("a program that waits", Sh("cat >/dev/null"), "silent", "in a terminal"),
    ("a program that prints and ends", Sh("echo Welcome"), "died", "MCP over stdio"),
    ("no uvx", WithoutPath(&["uvx", "x"]), "program-missing", "install uv"),
    (
        "a module of Python that is missing",
        Run(&["python3", "-m", "mcp_server_nope"]),
        "module-missing",
        ".venv/bin",
    ),
    ("a script that does not exist", Run(&["python3", "./srv/nofile.py"]), "file-missing", "absolute path"),
    ("a crash", Sh("kill -SEGV $$"), "died", "in a terminal"),
    (
        "a variable that is not set",
        Run(&["python3", "-c", "import os; os.environ['MCPJOIN_API_TOKEN']"]),
        "variable-missing",
        "-e MCPJOIN_API_TOKEN=...",
    ),
    (
        "a package that npm does not know",
        Says("npm error code E404\nnpm error 404  '@nope/x@*' is not in this registry.", 1),
        "package-missing",
        "npm view",
    ),
    (
        "no Docker",
        Says(
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            1,
        ),
        "docker-daemon",
        "start Docker",
    ),
    (
        "the SSH server is not running",
        Says("ssh: connect to host h port 22: Connection refused", 255),
        "ssh-refused",
        "-p PORT",
    ),
    (
        "the framing of language servers",
        Sh(r"printf 'Content-Length: 10\r\n\r\n'; cat >/dev/null"),
        "lsp-framing",
        "stdio transport",
    ),
    (
        "the framing of language servers, and an exit",
        Sh(r"printf 'Content-Length: 2\r\n\r\n{}'"),
        "lsp-framing",
        "stdio transport",
    ),
    (
        "no repository, and exit code 0",
        Says("ERROR: ./home is not a valid Git repository", 0),
        "git-repository",
        "git init",
    ),
    ("arguments in the command", Run(&["sh -c true"]), "command-line", "move -c true to args"),
    // Others.
    ("an error, and exit code 0", Says("fatal: the moon is down", 0), "died", "shown in stderr"),
    ("an error code without a word", Sh("exit 3"), "died", "in a terminal"),
    ("an error of its own", Says("the moon is down", 3), "died", "shown in stderr"),
    (
        "a setting that is required",
        Says("Error: BRAVE_API_KEY environment variable is required", 1),
        "variable-missing",
        "-e BRAVE_API_KEY",
    ),
    (
        "a variable of a script",
        Sh("set -u; echo $MCPJOIN_API_TOKEN"),
        "variable-missing",
        "-e MCPJOIN_API_TOKEN",
    ),
    (
        "a command inside that is missing",
        Sh("mcpjoin-no-such-program"),
        "command-missing",
        "install mcpjoin-no-such-program",
    ),
    (
        "an argument that is unknown",
        Run(&["python3", "-c", "import argparse; argparse.ArgumentParser().parse_args()", "--zz"]),
        "arguments",
        "--help",
    ),
    (
        "a file that is missing",
        Run(&["python3", "-c", "open('/no/such/file')"]),
        "file-missing",
        "absolute path",
    ),
    ("a changed library", Run(&["python3", "-c", "from os import nope"]), "sdk-changed", "that worked"),
    ("a folder without git", Run(&["git", "-C", "/", "rev-parse", "HEAD"]), "git-repository", "repository"),
    ("a binary of another processor", File("alien", "\u{7f}ELF\u{1}alien", &[]), "exec-format", "uname -sm"),
    (
        "an interpreter that is missing",
        File("script", "#!/no/such/python\n", &[]),
        "interpreter-missing",
        "install",
    ),
    (
        "a container without input",
        File("docker", "#!/bin/sh\nexit 0\n", &["run", "--rm", "x"]),
        "docker-input",
        "add -i",
    ),
    (
        "a container with a terminal",
        Says("the input device is not a TTY", 1),
        "docker-terminal",
        "-i instead of -it",
    ),
    (
        "an image that does not exist",
        Says(
            "docker: Error response from daemon: pull access denied for mcp/nope, repository does not exist or may",
            125,
        ),
        "docker-image",
        "docker login",
    ),
    (
        "a version that npm does not know",
        Says("npm error notarget No matching version found for x@9.", 1),
        "package-missing",
        "leave out",
    ),
    ("no network for npm", Says("npm error code EAI_AGAIN", 1), "registry-unreached", "HTTPS_PROXY"),
    (
        "a package that uv does not know",
        Says("Because nope was not found in the package registry and", 1),
        "package-missing",
        "pypi.org",
    ),
    (
        "a Python that is too old",
        Says("ERROR: Package 'mcp' requires a different Python: 3.9.2 not in '>=3.10'", 1),
        "runtime-version",
        "newer Python",
    ),
    (
        "a program that is not built",
        Says("Error: Cannot find module '/x/dist/index.js'", 1),
        "module-missing",
        "npm run build",
    ),
    (
        "packages that are not installed",
        Says("Error: Cannot find package 'zod' imported from /x.mjs", 1),
        "module-missing",
        "npm install",
    ),
    (
        "a Node.js that is too old",
        Says("ReferenceError: fetch is not defined", 1),
        "runtime-version",
        "Node.js 20",
    ),
    (
        "an ES module",
        Says("Error [ERR_REQUIRE_ESM]: require() of ES Module /x.js from /y.js not supported.", 1),
        "es-module",
        "Node.js 22",
    ),
    (
        "TypeScript",
        Says("TypeError [ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension \".ts\" for /x.ts", 1),
        "typescript",
        "npx tsx",
    ),
    (
        "too little memory",
        Sh("echo 'FATAL ERROR: JavaScript heap out of memory' >&2; kill -ABRT $$"),
        "memory",
        "NODE_OPTIONS",
    ),
    (
        "a port in use",
        Says("Error: listen EADDRINUSE: address already in use :::3000", 1),
        "port-in-use",
        "ss -ltnp",
    ),
    (
        "a file that may not be written",
        Says("Error: EACCES: permission denied, open '/etc/x'", 1),
        "not-permitted",
        "permissions",
    ),
    (
        "a database that does not run",
        Says("Error: connect ECONNREFUSED 127.0.0.1:5432", 1),
        "service-refused",
        "start that service",
    ),
    ("a key that is refused", Says("Error: 401 Unauthorized", 1), "key-refused", "expired"),
    (
        "a proxy that opens TLS",
        Says("  code: 'SELF_SIGNED_CERT_IN_CHAIN'", 1),
        "outgoing-certificate",
        "NODE_EXTRA_CA_CERTS",
    ),
    ("a full disk", Says("OSError: [Errno 28] No space left on device", 1), "disk-full", "df -h"),
    ("no key for SSH", Says("me@h: Permission denied (publickey).", 255), "ssh-login", "ssh-add"),
    ("a new host", Says("Host key verification failed.", 255), "ssh-host-key", "terminal"),
    (
        "an unknown host",
        Says("ssh: Could not resolve hostname h: Name or service not known", 255),
        "ssh-unreached",
        "ssh -G",
    ),
    (
        "an older glibc",
        Says("./s: /lib/libc.so.6: version `GLIBC_2.38' not found (required by ./s)", 1),
        "library-version",
        "musl",
    ),
    (
        "a missing library",
        Says("./s: error while loading shared libraries: libpq.so.5: cannot open shared object file", 127),
        "library-missing",
        "LD_LIBRARY_PATH",
    ),
    (
        "tools that are declared and none",
        Server(Shell { list: NO_TOOLS, ..HEALTHY }),
        "no-tools",
        "variables",
    ),
    ("a directory as the command", Run(&["/usr/bin/"]), "directory", "in this directory"),
    ("a file that may not be run", Run(&["/etc/passwd"]), "not-executable", "chmod +x"),
];

/// A client that waits for a second, and does not start a program twice.
fn client() -> ClientBuilder {
    let mut limits = Limits::default();
    limits.initialize = Duration::from_secs(4);
    Client::builder("test", "1.0.0").limits(limits).era(EraChoice::Only(Era::Legacy))
}

impl How {
    fn command(&self, files: &mut Vec<Script>) -> ChildCommand {
        let program = |words: &[&str]| {
            let command = ChildCommand::new(words[0]);
            words[1..].iter().fold(command, |command, word| command.arg(word))
        };
        let command = match self {
            Run(words) => program(words),
            Sh(script) => sh(script),
            Says(text, code) => {
                sh("printf '%s\\n' \"$1\" >&2; exit \"$2\"").arg("sh").arg(text).arg(code.to_string())
            }
            Server(server) => server.command(),
            WithoutPath(words) => program(words).env("PATH", "/no/such/folder"),
            InNoFolder => HEALTHY.command().current_dir("/no/such/place"),
            File(name, content, args) => {
                let folder: PathBuf =
                    std::env::temp_dir().join(format!("mcpjoin-setups-{name}-{}", std::process::id()));
                std::fs::create_dir_all(&folder).unwrap();
                let file = Script::at(folder.join(name), content);
                let command = args.iter().fold(ChildCommand::new(&file.0), |command, arg| command.arg(arg));
                files.push(file);
                command
            }
        };
        command.env_remove("MCPJOIN_API_TOKEN")
    }
}

/// Whether the report has this finding and no other. Otherwise says what it has.
fn check(what: &str, report: &Report, id: &str, advice: &str) -> Option<String> {
    let findings: Vec<_> = report.findings.iter().filter(|it| it.check != Check::Families).collect();
    match &findings[..] {
        [only] if only.id == id && only.advice.contains(advice) => None,
        _ => Some(format!("{what}: {id} was expected with {advice:?}, and not {findings:#?}")),
    }
}

#[test]
fn each_program_is_diagnosed_with_its_advice() {
    run(async {
        let (mut files, mut wrong) = (Vec::new(), Vec::new());
        for (what, how, id, advice) in PROGRAMS {
            let doctor = Doctor::new(how.command(&mut files), client());
            let slow = Duration::from_millis(if *id == "slow-start" { 300 } else { 20_000 });
            wrong.extend(check(what, &doctor.slow_start(slow).examine().await, id, advice));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn a_program_that_serves_http_is_named_long_before_the_timeout() {
    const SERVES: &str = "import socket, sys\n\
        server = socket.socket()\n\
        server.bind(('127.0.0.1', 0))\n\
        server.listen()\n\
        print('Starting', flush=True)\n\
        print('Server listening on port', server.getsockname()[1], file=sys.stderr, flush=True)\n\
        sys.stdin.read()";
    // Without text on standard output the timeout of the probe is waited for.
    let silent = SERVES.replace("print('Starting', flush=True)\n", "");
    let mut limits = Limits::default();
    limits.initialize = Duration::from_secs(60);
    limits.probe = Duration::from_secs(2);
    for script in [SERVES, &silent] {
        let command = ChildCommand::new("python3").arg("-c").arg(script);
        let handle = command.handle();
        let client = Client::builder("test", "1.0.0").limits(limits.clone());
        let report = run(Doctor::new(command, client).examine());
        assert_eq!(check(script, &report, "listens-elsewhere", "mcpjoin doctor http://127.0.0.1:"), None);
        assert!(report.findings[0].seen.contains("/mcp, and not MCP over stdio"), "{report:#?}");
        assert!(report.took < Duration::from_secs(30), "{report:#?}");
        assert!(!handle.is_running());
    }
}

/// Servers over HTTP: the response to every request, those of the review first.
type Response = (&'static str, &'static str, &'static str);
const SERVERS: &[(&str, Response, &str, &str)] = &[
    ("a wrong path", ("404 Not Found", "", "no"), "wrong-path", "path"),
    ("a web page", ("200 OK", "Content-Type: text/html\r\n", "<!DOCTYPE html>"), "html", "/mcp"),
    ("a gateway", ("502 Bad Gateway", "Retry-After: 3600\r\n", ""), "gateway", "server behind it runs"),
    ("another API", ("200 OK", "Content-Type: application/json\r\n", "{\"ok\":true}"), "no-message", "path"),
    (
        "a login page",
        ("302 Found", "Location: https://login.example/in\r\n", ""),
        "redirected",
        "login.example",
    ),
    (
        "401 without any sign of OAuth",
        ("401 Unauthorized", "", "{\"error\":\"unauthorized\"}"),
        "not-authorized",
        "API key",
    ),
    // Others.
    ("a Bearer token", ("401 Unauthorized", "WWW-Authenticate: Bearer\r\n", ""), "not-authorized", "API key"),
    ("nobody is let in", ("403 Forbidden", "", "no"), "forbidden", "--header"),
    (
        "a bot protection",
        ("403 Forbidden", "", "<title>Just a moment...</title>"),
        "robots-refused",
        "bot protection",
    ),
    ("a guard of hosts", ("421 Misdirected Request", "", "Invalid Host"), "host-refused", "allowed hosts"),
    (
        "too many requests",
        ("429 Too Many Requests", "Retry-After: 3600\r\n", ""),
        "too-many-requests",
        "wait",
    ),
    (
        "a server that starts",
        ("503 Service Unavailable", "Retry-After: 3600\r\n", ""),
        "unavailable",
        "try again",
    ),
    ("a server that fails", ("500 Internal Server Error", "", "oh"), "server-error", "log"),
    ("a limit of bodies", ("413 Payload Too Large", "", "no"), "too-large", "client_max_body_size"),
    ("a WebSocket", ("426 Upgrade Required", "Upgrade: websocket\r\n", ""), "not-mcp", "Streamable HTTP"),
    (
        "a page in plain text",
        ("200 OK", "Content-Type: text/plain\r\n", "hello"),
        "content-type",
        "Content-Type",
    ),
];

#[test]
fn each_server_over_http_is_diagnosed_with_its_advice() {
    run(async {
        let mut wrong = Vec::new();
        for (what, (status, head, body), id, advice) in SERVERS {
            let canned = Canned::new(|_| response(status, head, body)).await;
            wrong.extend(check(what, &canned.examined().await, id, advice));
        }
        let closed = Closed::tcp();
        let plain = Canned::new(|_| page("400 Bad Request", "no")).await;
        let answer = |_: &[u8]| Some("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned());
        let foreign = tls_server::server(mcpjoin_test_support::tls::SERVER, KEY, answer);
        let authority = tls_server::server(mcpjoin_test_support::tls::AUTHORITY, KEY, answer);
        for (what, url, id, advice) in [
            ("nothing listens", format!("http://{closed}/mcp"), "refused", "start the server"),
            (
                "https to a server without TLS",
                format!("https://127.0.0.1:{}/mcp", plain.port),
                "no-tls",
                "http://",
            ),
            ("http to a server with TLS", format!("http://127.0.0.1:{foreign}/mcp"), "tls-port", "https://"),
            (
                "a name that is unknown",
                "http://no-such-host.invalid/mcp".to_owned(),
                "unresolved",
                "host name",
            ),
            ("a port that is none", "http://127.0.0.1:99999/mcp".to_owned(), "no-address", "host:port"),
            (
                "a foreign authority",
                format!("https://localhost:{foreign}/"),
                "certificate-untrusted",
                "--ca FILE",
            ),
            (
                "a self-signed authority",
                format!("https://localhost:{authority}/"),
                "certificate-self-signed",
                "--ca FILE",
            ),
        ] {
            let connect = Link::http(url).connect_timeout(Duration::from_secs(5));
            let report = Doctor::new(connect, crate::http::client()).examine().await;
            wrong.extend(check(what, &report, id, advice));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}
