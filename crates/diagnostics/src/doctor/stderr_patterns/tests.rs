//! A captured example for each row of the table: what the program printed, and the finding.

use super::table::PATTERNS;
use super::{listening_url, recognize, reports_failure, values};
use crate::doctor::findings::GAVE_UP;
use crate::doctor::report::{Finding, Phase};

/// What a program printed, the fault, and a word of the advice.
const CAPTURED: &[(&str, &str, &str, &str)] = &[
    // Python 3.11, bash 5.2, dash, and published servers.
    (
        "Traceback (most recent call last):\n  File \"<frozen os>\", line 679, in __getitem__\nKeyError: 'API_TOKEN'",
        "variable-missing",
        "the environment variable API_TOKEN,",
        "-e API_TOKEN=...",
    ),
    ("bash: line 1: API_TOKEN: unbound variable", "variable-missing", "API_TOKEN", "-e API_TOKEN=..."),
    (
        "Error: BRAVE_API_KEY environment variable is required",
        "variable-missing",
        "BRAVE_API_KEY",
        "-e BRAVE",
    ),
    (
        "Please set SLACK_BOT_TOKEN and SLACK_TEAM_ID environment variables",
        "variable-missing",
        "SLACK_BOT_TOKEN",
        "-e",
    ),
    ("Error: GITHUB_PERSONAL_ACCESS_TOKEN not set", "variable-missing", "GITHUB_PERSONAL_ACCESS_TOKEN", "-e"),
    (
        "ValueError: Missing required environment variable: `DB_URL`",
        "variable-missing",
        "DB_URL",
        "-e DB_URL=...",
    ),
    // npm 10.8.
    (
        "npm error code E404\nnpm error 404 Not Found - GET https://registry.npmjs.org/@nope%2fx\nnpm error 404\nnpm error \
         404  The requested resource '@nope/x@*' could not be found or you do not have permission to access it.\nnpm error \
         404\nnpm error 404 Note that you can also install from a\nnpm error A complete log of this run can be found in: /x",
        "package-missing",
        "npm has no package @nope/x",
        "npm view",
    ),
    (
        "npm ERR! 404  '@nope/x@*' is not in this registry.",
        "package-missing",
        "npm has no package @nope/x",
        "npm view",
    ),
    (
        "npm ERR! 404  'nope@1.2.3' is not in this registry.",
        "package-missing",
        "npm has no package nope@1.2.3",
        "npm",
    ),
    (
        "npm error code ETARGET\nnpm error notarget No matching version found for left-pad@99.0.0.",
        "package-missing",
        "npm has no version left-pad@99.0.0",
        "leave out the version",
    ),
    ("npm error could not determine executable to run", "package-no-program", "no program", "npx -y -p"),
    (
        "npm error code ENOTFOUND\nnpm error syscall getaddrinfo",
        "registry-unreached",
        "registry",
        "HTTPS_PROXY",
    ),
    (
        "npm error code E401\nnpm error Incorrect or missing password.",
        "registry-login",
        "rejects",
        "npm login",
    ),
    (
        "npm error code EACCES\nnpm error Your cache folder contains root-owned files, due to a bug in",
        "cache-not-permitted",
        "belongs to root",
        "chown",
    ),
    // uv 0.9 and pip 25.
    (
        "  × No solution found when resolving tool dependencies:\n  ╰─▶ Because mcp-server-nope was not found in the package \
         registry and you require mcp-server-nope, we can conclude that your requirements are unsatisfiable.",
        "package-missing",
        "no Python package mcp-server-nope",
        "pypi.org",
    ),
    ("ERROR: No matching distribution found for nope", "package-missing", "nope", "pypi.org"),
    (
        "An executable named `mcp-git` is not provided by package `mcp-server-git`.",
        "package-no-program",
        "no program mcp-git",
        "uvx --from mcp-server-git",
    ),
    (
        "error: Failed to spawn: `server`\n  Caused by: No such file or directory",
        "command-missing",
        "server",
        "--directory",
    ),
    (
        "ERROR: Package 'mcp' requires a different Python: 3.9.2 not in '>=3.10'",
        "runtime-version",
        "needs Python >=3.10, and this is 3.9.2",
        "newer Python",
    ),
    (
        "  ╰─▶ Because the requested Python version (>=3.8) does not satisfy Python>=3.10 and mcp depends on",
        "runtime-version",
        "needs Python>=3.10",
        "uv python install",
    ),
    (
        "error: Failed to fetch: `https://pypi.org/simple/x/`",
        "registry-unreached",
        "pypi.org/simple/x",
        "HTTPS_PROXY",
    ),
    // Python 3.11.
    (
        "ImportError: cannot import name 'request_ctx' from 'mcp.server.lowlevel.server' (/x/server.py)",
        "sdk-changed",
        "mcp.server.lowlevel.server has no request_ctx",
        "mcp<2",
    ),
    (
        "AttributeError: 'Server' object has no attribute 'list_resources'",
        "sdk-changed",
        "list_resources",
        "mcp<2",
    ),
    (
        "AttributeError: module 'os' has no attribute 'nope'. Did you mean: 'popen'?",
        "sdk-changed",
        "os has no",
        "that worked",
    ),
    (
        "TypeError: run() got an unexpected keyword argument 'port'",
        "sdk-changed",
        "argument port",
        "older SDK",
    ),
    (
        "/usr/bin/python3: No module named mcp_server_nope",
        "module-missing",
        "module mcp_server_nope",
        ".venv",
    ),
    ("ModuleNotFoundError: No module named 'mcp'", "module-missing", "module mcp", "uvx"),
    (
        "/usr/bin/python3: can't open file '/w/./srv/nofile.py': [Errno 2] No such file or directory",
        "file-missing",
        "/w/./srv/nofile.py does not exist",
        "absolute path",
    ),
    (
        "    match x:\n          ^\nSyntaxError: invalid syntax",
        "runtime-version",
        "cannot read",
        "newer Python",
    ),
    // Node.js 20.20, Deno 2, Bun 1.
    (
        "node:internal/modules/cjs/loader:1210\n  throw err;\n  ^\n\nError: Cannot find module '/tmp/cap/nofile.js'\n    at \
         Module._resolveFilename (node:internal/modules/cjs/loader:1207:15) {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: \
         []\n}\n\nNode.js v20.20.2",
        "module-missing",
        "the file /tmp/cap/nofile.js",
        "npm run build",
    ),
    (
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /tmp/cap/a.mjs",
        "module-missing",
        "the package or file zod",
        "npm install",
    ),
    ("  code: 'ERR_REQUIRE_ASYNC_MODULE'\n}\n\nNode.js v20.20.2", "es-module", "an ES module", "Node.js 22"),
    (
        "SyntaxError: Cannot use import statement outside a module",
        "es-module",
        "CommonJS",
        "\"type\": \"module\"",
    ),
    (
        "TypeError [ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension \".ts\" for /x.ts",
        "typescript",
        "TypeScript",
        "tsx",
    ),
    (
        "SyntaxError: The requested module 'zod' does not provide an export named 'toJSONSchema'",
        "sdk-changed",
        "toJSONSchema",
        "older SDK",
    ),
    (
        "Error [ERR_PACKAGE_PATH_NOT_EXPORTED]: Package subpath './server/x.js' is not defined by \"exports\" in /x",
        "sdk-changed",
        "./server/x.js",
        "that worked",
    ),
    ("ReferenceError: fetch is not defined", "runtime-version", "too old", "Node.js 20"),
    (
        "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
        "memory",
        "memory",
        "NODE_OPTIONS",
    ),
    (
        "error: Uncaught (in promise) NotCapable: Requires net access to \"api.example:443\", run again with the --allow-net flag",
        "not-permitted",
        "net access",
        "add --allow-net",
    ),
    // The system.
    (
        "Error: listen EADDRINUSE: address already in use 127.0.0.1:45999",
        "port-in-use",
        "127.0.0.1:45999",
        "ss -ltnp",
    ),
    ("OSError: [Errno 98] Address already in use", "port-in-use", "in use", "stdio"),
    (
        "Error: EACCES: permission denied, open '/etc/x'",
        "not-permitted",
        "may not open /etc/x",
        "permissions",
    ),
    ("PermissionError: [Errno 13] Permission denied: '/etc/x'", "not-permitted", "/etc/x", "permissions"),
    (
        "Error: ENOENT: no such file or directory, open '/root/x/y'",
        "file-missing",
        "/root/x/y",
        "absolute path",
    ),
    (
        "FileNotFoundError: [Errno 2] No such file or directory: '/root/x'",
        "file-missing",
        "/root/x",
        "absolute path",
    ),
    ("Error: connect ECONNREFUSED 127.0.0.1:5432", "service-refused", "127.0.0.1:5432", "start that service"),
    (
        "openai.AuthenticationError: Error code: 401 - Incorrect API key provided: x",
        "key-refused",
        "key",
        "expired",
    ),
    ("  code: 'SELF_SIGNED_CERT_IN_CHAIN'", "outgoing-certificate", "certificate", "NODE_EXTRA_CA_CERTS"),
    ("npm error code ENOSPC", "disk-full", "full", "df -h"),
    ("Error: EMFILE: too many open files, watch '/x'", "too-many-files", "open files", "ulimit -n"),
    // Docker 28.
    (
        "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
        "docker-daemon",
        "is not running",
        "start Docker",
    ),
    (
        "docker: permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        "docker-not-permitted",
        "may not",
        "usermod",
    ),
    (
        "docker: Error response from daemon: pull access denied for mcp/nope, repository does not exist or may require \
         'docker login'",
        "docker-image",
        "mcp/nope",
        "docker login",
    ),
    ("the input device is not a TTY", "docker-terminal", "terminal", "-i instead of -it"),
    (
        "docker: Error response from daemon: Conflict. The container name \"/mcp\" is already in use by container \"1a\".",
        "docker-name",
        "/mcp",
        "docker rm -f /mcp",
    ),
    // OpenSSH 9.2, git 2.47.
    (
        "ssh: connect to host 127.0.0.1 port 1: Connection refused",
        "ssh-refused",
        "127.0.0.1, port 1",
        "-p PORT",
    ),
    ("ssh: connect to host h port 22: Connection timed out", "ssh-unreached", "h, port 22", "VPN"),
    (
        "ssh: Could not resolve hostname no-such-host.invalid: Name or service not known",
        "ssh-unreached",
        "the host no-such-host.invalid",
        "ssh -G",
    ),
    ("me@h: Permission denied (publickey,password).", "ssh-login", "refuses the login", "ssh-add"),
    ("Host key verification failed.", "ssh-host-key", "key of the host", "in a terminal"),
    ("ERROR:mcp_server_git.server:./home is not a valid Git repository", "git-repository", "Git", "git init"),
    (
        "fatal: not a git repository (or any of the parent directories): .git",
        "git-repository",
        "Git",
        "git init",
    ),
    // glibc 2.36, dyld, bash, env.
    (
        "./server: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by ./server)",
        "library-version",
        "GLIBC_2.38",
        "musl",
    ),
    (
        "./server: error while loading shared libraries: libpq.so.5: cannot open shared object file: No such file or directory",
        "library-missing",
        "libpq.so.5",
        "LD_LIBRARY_PATH",
    ),
    ("dyld[123]: Library not loaded: /opt/lib/libssl.3.dylib", "library-missing", "libssl.3.dylib", "DYLD"),
    ("exec /app/server: exec format error", "exec-format", "another processor", "--platform"),
    (
        "bash: ./x: /nope/python: bad interpreter: No such file or directory",
        "interpreter-missing",
        "/nope/python",
        "PATH",
    ),
    ("/usr/bin/env: ‘nope-node’: No such file or directory", "interpreter-missing", "nope-node", "PATH"),
    ("sh: 1: nope-x: not found", "command-missing", "the program nope-x", "install nope-x"),
    ("bash: line 1: nope-x: command not found", "command-missing", "the program nope-x", "install nope-x"),
    ("Error: Unable to access jarfile server.jar", "file-missing", "server.jar", "absolute path"),
    (
        "java.lang.UnsupportedClassVersionError: a/Main has been compiled by a more recent version of the Java Runtime",
        "runtime-version",
        "a/Main",
        "newer Java",
    ),
    ("You must install or update .NET to run this application.", "runtime-version", ".NET", "dotnet"),
    // Command lines: argparse, clap, commander, and a server of its own.
    ("usage: -c [-h]\n-c: error: unrecognized arguments: --zz", "arguments", "does not know --zz", "--help"),
    (
        "usage: -c [-h] --a A\n-c: error: the following arguments are required: --a",
        "arguments",
        "needs --a",
        "--help",
    ),
    ("Usage: mcp-server-filesystem <allowed-directory>", "arguments", "<allowed-directory>", "--help"),
];

fn recognized(stderr: &str) -> Option<Finding> {
    let mut finding = GAVE_UP.at(Phase::Initialize, "the server ended: exit code 1");
    recognize(&mut finding, stderr.as_bytes()).then_some(finding)
}

#[test]
fn each_captured_message_is_recognized() {
    let mut wrong = Vec::new();
    for (stderr, id, seen, advice) in CAPTURED {
        let found = recognized(stderr);
        let is_right = found.as_ref().is_some_and(|found| {
            found.id == *id && found.seen.contains(seen) && found.advice.contains(advice)
        });
        if !is_right {
            wrong.push((stderr, found.map(|found| (found.id, found.seen, found.advice))));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_row_has_a_captured_message() {
    for row in PATTERNS {
        let is_of_row = |stderr: &str| {
            recognized(stderr).is_some_and(|finding| {
                row.lines.iter().any(|pattern| stderr.lines().any(|line| values(pattern, line).is_some()))
                    && finding.id == row.kind.id
            })
        };
        assert!(CAPTURED.iter().any(|(stderr, ..)| is_of_row(stderr)), "{}: {:?}", row.kind.id, row.lines);
    }
}

#[test]
fn each_text_of_a_row_uses_only_values_of_its_patterns() {
    let names = |text: &str| -> Vec<String> {
        let parts = text.split('{').skip(1).filter_map(|part| part.split_once('}'));
        parts.map(|(name, _)| name.to_owned()).collect()
    };
    for row in PATTERNS {
        for pattern in row.lines {
            // A setting is a variable, too.
            let known = names(&pattern.replace("{SETTING}", "{VARIABLE}"));
            for text in [row.seen, row.kind.meaning, row.kind.advice] {
                for name in names(text) {
                    assert!(known.contains(&name), "{pattern}: {name}");
                }
            }
        }
    }
}

#[test]
fn other_messages_are_not_recognized() {
    for stderr in [
        "",
        "starting",
        "Error: something else",
        "KeyError: 'name'",
        "the key is required",
        "JSON is required",
        "module loaded",
        "{}{}{",
        "\u{0}\u{1b}[31m",
        "Traceback (most recent call last):",
    ] {
        assert!(recognized(stderr).is_none(), "{stderr}: {:?}", recognized(stderr));
    }
}

#[test]
fn a_value_is_cut_and_no_bytes_panic() {
    let long = format!("ssh: Could not resolve hostname {}: x", "é".repeat(5000));
    let finding = recognized(&long).unwrap();
    assert!(finding.seen.chars().count() < 200, "{}", finding.seen.len());
    let mut finding = GAVE_UP.at(Phase::Initialize, "x");
    for byte in 0..=255_u8 {
        recognize(&mut finding, &[byte, b'\'', b'{', byte, b'}', b'\n', byte]);
    }
}

#[test]
fn a_failure_is_reported_also_with_exit_code_0() {
    let lines = |text: &str| vec![text.to_owned()];
    assert!(reports_failure(&lines("ERROR: no such repository")));
    assert!(!reports_failure(&lines("bye")));
}

#[test]
fn a_url_is_read_without_the_characters_around_it() {
    for (line, url) in [
        (
            "INFO:  Uvicorn running on http://127.0.0.1:8000 (Press CTRL+C to quit)",
            Some("http://127.0.0.1:8000/mcp"),
        ),
        ("Server started (http://localhost:3000/mcp).", Some("http://localhost:3000/mcp")),
        ("\u{1b}[32mlistening at http://[::1]:80\u{1b}[0m", Some("http://[::1]:80/mcp")),
        ("running at http://0.0.0.0:8000/sse", Some("http://127.0.0.1:8000/sse")),
        ("MCP Streamable HTTP Server listening on port 9461", Some("http://127.0.0.1:9461/mcp")),
        ("Serving on 0.0.0.0:8080", Some("http://127.0.0.1:8080/mcp")),
        ("Server listening on :8080", Some("http://127.0.0.1:8080/mcp")),
        ("OAuth callback server running at http://127.0.0.1:3334", None),
        ("fetching http://example.com", None),
        ("server running on stdio", None),
        ("Listening on port zero", None),
        ("Listening on port 99999", None),
    ] {
        assert_eq!(listening_url(&["first".to_owned(), line.to_owned()]).as_deref(), url, "{line}");
    }
}
