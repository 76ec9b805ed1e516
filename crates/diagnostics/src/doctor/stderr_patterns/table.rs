//! What npm, node, Python, uv, Docker, ssh, git and the loaders print when they give up, and what to do about each.
//!
//! Used by `stderr_patterns`, which searches standard error for the rows in their order: a row that says more stands before
//! one that says less. Every row has a captured example in `tests.rs`. Ids are published: scripts match on them.

use super::super::findings::Kind;
use super::super::report::Check;

/// A message of a program, and the finding that it means.
pub(super) struct Pattern {
    /// The texts of a line, any of which is enough. `{name}` stands for a value, `{VARIABLE}` for the name of an environment
    /// variable, and `{SETTING}` for one with an underscore.
    pub(super) lines: &'static [&'static str],
    /// The fault in one sentence.
    pub(super) seen: &'static str,
    pub(super) kind: Kind<Check>,
}

/// Rows of `"id": ["line", ...], "seen", "meaning", "advice";`.
macro_rules! patterns {
    ($($id:literal: [$($line:literal),+], $seen:literal, $meaning:expr, $advice:expr;)*) => {
        pub(super) const PATTERNS: &[Pattern] = &[$(Pattern {
            lines: &[$($line),+],
            seen: $seen,
            kind: Kind::new($id, Check::Life, $meaning, $advice),
        }),*];
    };
}

const INSTALL_IN_PYTHON: &str =
    "run it with the Python of the environment in which it is installed (.venv/bin/python, uv run, uvx)";
const PIN_VERSION: &str = "use the last version that worked (package==1.2.3, package@1.2.3), or an older \
    SDK with it (uvx --with 'mcp<2'); report it to the server's authors";
const CHANGED_LIBRARY: &str = "a library has changed, usually the MCP SDK: the server was written for an \
    earlier version of it";
const BUILD: &str = "check the path; then install and build it (npm install, npm run build)";
const WRITABLE: &str = "use a path that this user may access, or change the permissions (ls -l shows them)";
const REGISTRY: &str =
    "check the network and the proxy of this machine (HTTPS_PROXY), then run the command once in a terminal";
const NO_SUCH_ARGUMENTS: &str = "check the arguments; the program lists them with --help";

patterns! {
    // Environment variables.
    "variable-missing": [
        "KeyError: '{VARIABLE}'", "set the {SETTING}", "set {SETTING}", "{VARIABLE}: unbound variable", "{VARIABLE}: parameter not set",
        "environment variable {VARIABLE}", "environment variable: {VARIABLE}", "environment variables: {VARIABLE}",
        "environment variable '{VARIABLE}'", "{VARIABLE} environment variable", "environment variable `{VARIABLE}`",
        "{SETTING} is not set", "{SETTING} not set", "{SETTING} is required", "{SETTING} must be set",
        "{SETTING} must be provided", "{SETTING} is missing", "{SETTING} is not defined", "{SETTING} is undefined",
        "{SETTING} not found", "issing {SETTING}", "issing required {SETTING}"
    ],
        "the server needs the environment variable {VARIABLE}, which is not set",
        "the server gets only the variables of the program that starts it, and those of its entry",
        "set {VARIABLE}: -e {VARIABLE}=..., or in the \"env\" of its entry";

    // npm and npx.
    "package-missing": ["'{package}@*' could not be found or", "'{package}@*' is not in this registry",
        "'{package}' could not be found or", "'{package}' is not in this registry"],
        "npm has no package {package}",
        "the registry does not know the package, or it is private and this user is not logged in",
        "check the name of the package (npm view NAME); for a private one: npm login";
    "package-missing": ["notarget No matching version found for {package}"],
        "npm has no version {package}",
        "the package exists, but not this version of it",
        "leave out the version, or use an existing one (npm view NAME versions)";
    "package-no-program": ["could not determine executable to run"],
        "the npm package has no program to run",
        "the package is a library, or has several programs",
        "check the name of the package; if it has several programs: npx -y -p PACKAGE PROGRAM";
    "registry-unreached": ["npm error code ENOTFOUND", "npm error code EAI_AGAIN", "npm error code ETIMEDOUT",
        "npm error code ECONNREFUSED", "npm error code ECONNRESET", "npm ERR! code ENOTFOUND", "npm ERR! network"],
        "npm cannot reach its registry",
        "npx downloads a package at its first start, and the download failed",
        REGISTRY;
    "registry-login": ["npm error code E401", "npm error code E403", "npm ERR! code E401", "npm ERR! code E403"],
        "the npm registry rejects this user",
        "the package is private, or the registry requires a login",
        "npm login, or set the token in ~/.npmrc; then run the command once in a terminal";
    "cache-not-permitted": ["Your cache folder contains root-owned files"],
        "the cache of npm belongs to root",
        "npm was run with sudo once, and this user cannot write there",
        "sudo chown -R $(id -u):$(id -g) ~/.npm";

    // uv, uvx and pip.
    "package-missing": ["Because {package} was not found in the package registry",
        "No matching distribution found for {package}"],
        "there is no Python package {package}",
        "the package index does not have the package, or not this version of it",
        "check the name of the package at https://pypi.org; one from a folder or from git: uvx --from PATH NAME";
    "package-no-program": ["executable named `{program}` is not provided by package `{package}`"],
        "the package {package} has no program {program}",
        "uvx runs the program with the name of the package, and this package has another one",
        "uvx --from {package} PROGRAM; uvx {package} lists its programs";
    "command-missing": ["error: Failed to spawn: `{program}`"],
        "uv finds no program {program}",
        "neither the project's environment nor PATH contains it; uv run searches the folder in which it is \
         started",
        "add the folder of the project: uv run --directory /path/to/project {program}";
    "runtime-version": ["requires a different Python: {have} not in '{version}'"],
        "the package needs Python {version}, and this is {have}",
        "the package was not installed",
        "use a newer Python: uvx --python 3.12 ..., or the path of one";
    "runtime-version": ["does not satisfy Python{version} "],
        "the package needs Python{version}",
        "uv found no Python of that version",
        "use a matching one: uvx --python 3.12 ..., or uv python install 3.12";
    "registry-unreached": ["error: Failed to fetch: `{url}`", "Failed to fetch: `{url}`",
        "Could not fetch URL {url}:"],
        "the Python package index cannot be reached: {url}",
        "uvx downloads a package at its first start, and the download failed",
        REGISTRY;

    // Python.
    "sdk-changed": ["ImportError: cannot import name '{name}' from '{module}'"],
        "the Python module {module} has no {name}",
        CHANGED_LIBRARY, PIN_VERSION;
    "sdk-changed": ["AttributeError: '{type}' object has no attribute '{name}'",
        "AttributeError: module '{type}' has no attribute '{name}'"],
        "{type} has no attribute {name}",
        CHANGED_LIBRARY, PIN_VERSION;
    "sdk-changed": ["got an unexpected keyword argument '{name}'"],
        "a function does not take the argument {name}",
        CHANGED_LIBRARY, PIN_VERSION;
    "module-missing": ["No module named '{module}'", "No module named {module}"],
        "this Python has no module {module}",
        "it was installed for another Python, or not at all",
        INSTALL_IN_PYTHON;
    "file-missing": ["can't open file '{file}': [Errno 2]"],
        "the Python script {file} does not exist",
        "a relative path starts at the server's working directory, which differs between clients",
        "use the absolute path of the script in the arguments, or set the working directory (--cwd)";
    "runtime-version": ["SyntaxError: invalid syntax", "SyntaxError: f-string"],
        "this Python cannot read the program",
        "the program needs a newer Python, or is not Python",
        "run it with a newer Python (python3.12, uv run --python 3.12)";

    // Node.js, Deno and Bun.
    "module-missing": ["Error: Cannot find module '/{file}'", "Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/{file}'",
        "Error: Cannot find module 'file:///{file}'"],
        "Node.js cannot find the file /{file}",
        "the path is wrong, or the program has not been built",
        BUILD;
    "module-missing": ["Cannot find package '{package}'", "Error: Cannot find module '{package}'",
        "error: Cannot find package \"{package}\"", "error: Module not found \"{package}\""],
        "the package or file {package} is not installed",
        "the program was found, but a module that it imports was not",
        "install its dependencies in the folder of the program (npm install), and build it (npm run build)";
    "es-module": ["ERR_REQUIRE_ESM", "ERR_REQUIRE_ASYNC_MODULE", "Error [ERR_REQUIRE_ESM]"],
        "the program requires a package that is an ES module",
        "this version of Node.js does not support that, or the package has dropped `require`",
        "use Node.js 22 or newer, or an older version of that package";
    "es-module": ["SyntaxError: Cannot use import statement outside a module",
        "SyntaxError: Unexpected token 'export'"],
        "Node.js reads the program as CommonJS, but it is an ES module",
        "the nearest package.json does not contain \"type\": \"module\"",
        "start the built file (dist/index.js), name the file .mjs, or set \"type\": \"module\" in package.json";
    "typescript": ["Unknown file extension \".ts\"", "ERR_UNKNOWN_FILE_EXTENSION", "SyntaxError: Unexpected reserved word",
        "SyntaxError: Unexpected strict mode reserved word", "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX"],
        "Node.js does not run this TypeScript",
        "only newer versions of Node.js run TypeScript, and not all of its syntax",
        "start the built file (npm run build, then dist/index.js), or run it with npx tsx FILE";
    "sdk-changed": ["does not provide an export named '{name}'", "Package subpath '{name}' is not defined by \"exports\""],
        "a package no longer exports {name}",
        CHANGED_LIBRARY, PIN_VERSION;
    "runtime-version": ["ReferenceError: fetch is not defined", "ReferenceError: ReadableStream is not defined",
        "ReferenceError: crypto is not defined", "SyntaxError: Unexpected token '?'", "SyntaxError: Unexpected token '.'"],
        "this Node.js is too old for the program",
        "the program uses features of newer versions; a version manager may start another node here than \
         in your terminal",
        "use Node.js 20 or newer (node --version), with its path as the command";
    "memory": ["JavaScript heap out of memory"],
        "Node.js ran out of memory",
        "the heap of Node.js has a limit, and the server has reached it",
        "raise the limit with -e NODE_OPTIONS=--max-old-space-size=4096, or load less data";
    "not-permitted": ["NotCapable: Requires {what} access to {path}, run again with the {flag} flag",
        "PermissionDenied: Requires {what} access to {path}, run again with the {flag} flag"],
        "Deno does not permit {what} access to {path}",
        "Deno permits only access that its command line allows",
        "add {flag} to the arguments before the script";

    // Ports, files, and what else the system says.
    "port-in-use": ["EADDRINUSE: address already in use {address}"],
        "the port is in use: {address}",
        "another program uses the server's port, usually an earlier run; a server over stdio needs no port",
        "use its option for MCP over stdio; `ss -ltnp` shows which program uses the port";
    "port-in-use": ["EADDRINUSE", "Address already in use", "address already in use"],
        "the server's port is in use",
        "another program uses the port, usually an earlier run of the server; a server over stdio needs no \
         port",
        "use its option for MCP over stdio; `ss -ltnp` shows which program uses the port";
    "not-permitted": ["EACCES: permission denied, {action} '{path}'", "EPERM: operation not permitted, {action} '{path}'"],
        "the server may not {action} {path}",
        "the user that runs the server has no permission",
        WRITABLE;
    "not-permitted": ["PermissionError: [Errno 13] Permission denied: '{path}'",
        "PermissionError: [Errno 1] Operation not permitted: '{path}'"],
        "the server has no permission for {path}",
        "the user that runs the server has no permission",
        WRITABLE;
    "file-missing": ["ENOENT: no such file or directory, {action} '{path}'"],
        "the server cannot {action} {path}: no such file or directory",
        "a relative path starts at the server's working directory, which differs between clients",
        "create it, or use the absolute path in the arguments (--cwd sets the working directory)";
    "file-missing": ["FileNotFoundError: [Errno 2] No such file or directory: '{path}'"],
        "the server cannot find {path}",
        "the server needs this file or program; a relative path starts at the server's working directory",
        "create or install it, or use the absolute path in the arguments (--cwd sets the working directory)";
    "service-refused": ["ECONNREFUSED {address}", "ConnectionRefusedError: [Errno 111]{address}",
        "connection refused: {address}"],
        "the server cannot connect to a service that it needs: {address}",
        "a database or service that the server uses is not running, or listens elsewhere",
        "start that service, and check its address in the server's settings";
    "key-refused": ["401 Unauthorized", "Invalid API key", "invalid api key", "Incorrect API key", "invalid_api_key",
        "Bad credentials", "authentication_error"],
        "a service that the server uses rejects its key",
        "the server has started, but its own key or token is not accepted",
        "check the key in the server's variables: it may have expired, or be for another service";
    "outgoing-certificate": ["SELF_SIGNED_CERT_IN_CHAIN", "self-signed certificate in certificate chain",
        "UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "unable to get local issuer certificate", "CERTIFICATE_VERIFY_FAILED"],
        "the server does not trust the certificate of a service that it uses",
        "a proxy or a scanner of this network signs connections with its own authority, which the server \
         does not trust",
        "pass the authority's file: -e NODE_EXTRA_CA_CERTS=FILE for Node.js, -e SSL_CERT_FILE=FILE for \
         Python and uv";
    "disk-full": ["ENOSPC", "No space left on device"],
        "the disk is full",
        "the server cannot write, or its package cannot be unpacked",
        "free space (df -h shows the disks), then run the command again";
    "too-many-files": ["EMFILE", "Too many open files"],
        "the server has too many open files",
        "this system limits the number of open files of a program",
        "raise the limit (ulimit -n), or let the server watch a smaller folder";

    // Docker and Podman.
    "docker-daemon": ["Cannot connect to the Docker daemon at {socket}. Is", "failed to connect to the docker API at {socket};",
        "Cannot connect to Podman"],
        "Docker is not running",
        "the docker command was found, but the Docker daemon does not respond",
        "start Docker (Docker Desktop, or systemctl start docker), then check it with docker ps";
    "docker-not-permitted": ["permission denied while trying to connect to the Docker daemon socket",
        "permission denied while trying to connect to the docker API"],
        "this user may not use Docker",
        "the socket of Docker is for root and the group docker",
        "sudo usermod -aG docker $USER, then log in again";
    "docker-image": ["pull access denied for {image}, repository does not exist", "manifest for {image} not found",
        "Error response from daemon: No such image: {image}"],
        "there is no Docker image {image}",
        "the image is not on this machine, and the registry does not provide it",
        "check its name and tag, docker login for a private one, or build it: docker build -t NAME .";
    "docker-terminal": ["the input device is not a TTY", "cannot attach stdin to a TTY-enabled container"],
        "docker run requires a terminal",
        "-t (or -it) requires a terminal, and MCP clients have none",
        "use -i instead of -it: docker run -i --rm IMAGE";
    "docker-name": ["The container name \"{name}\" is already in use"],
        "a container with the name {name} exists already",
        "an earlier run of the server was not removed",
        "add --rm to docker run, and remove the old one: docker rm -f {name}";

    // ssh.
    "ssh-refused": ["ssh: connect to host {host} port {port}: Connection refused"],
        "ssh: nothing listens at {host}, port {port}",
        "the SSH server is not running, or uses another port",
        "check the host, and -p PORT; try the same ssh command in a terminal";
    "ssh-unreached": ["ssh: connect to host {host} port {port}: "],
        "ssh cannot reach {host}, port {port}",
        "the host is off, or the network or a firewall blocks it",
        "check the host and the network (VPN?); try the same ssh command in a terminal";
    "ssh-unreached": ["ssh: Could not resolve hostname {host}:"],
        "ssh does not know the host {host}",
        "the name is misspelled, or an alias of another user's ~/.ssh/config",
        "check the name; ssh -G NAME shows its resolved settings";
    "ssh-login": ["{account}: Permission denied (", "Permission denied, please try again."],
        "ssh: the host refuses the login",
        "there is no terminal for a password, so only a key without a passphrase works",
        "ssh-add the key, or set IdentityFile in ~/.ssh/config; then try ssh -o BatchMode=yes HOST true";
    "ssh-host-key": ["Host key verification failed."],
        "ssh does not know the key of the host, or it has changed",
        "there is no terminal to confirm the key, so ssh refuses",
        "run the same ssh command once in a terminal, and compare the key";

    // git.
    "git-repository": ["{path} is not a valid Git repository", "fatal: not a git repository (or any"],
        "the folder is not a Git repository",
        "the server was started in, or received as an argument, a folder without .git",
        "pass a repository in its arguments (for mcp-server-git: --repository PATH), or run git init in \
         the folder";

    // Shells, loaders and processors.
    "library-version": ["version `{version}' not found (required by {program})"],
        "the program needs {version}, which this system does not have",
        "the program was built on a newer system than this one",
        "install a build for this system (musl or an older glibc), build it here, or run it in a container";
    "library-missing": ["error while loading shared libraries: {library}: cannot open",
        "Library not loaded: {library}", "Error loading shared library {library}:"],
        "the shared library {library} is missing",
        "the loader cannot find a library of the program",
        "install the package with the library, or pass its folder: -e LD_LIBRARY_PATH=FOLDER \
         (DYLD_LIBRARY_PATH on macOS)";
    "exec-format": ["Exec format error", "exec format error", "Bad CPU type in executable"],
        "the program was built for another processor or system",
        "this system cannot run the file; or it is a script without a #! line",
        "install the build for this machine (uname -sm), for Docker --platform; in a script add #! or name \
         its interpreter";
    "interpreter-missing": ["{interpreter}: bad interpreter: No such file or directory",
        "env: ‘{interpreter}’: No such file or directory", "env: '{interpreter}': No such file or directory",
        "env: {interpreter}: No such file or directory"],
        "the interpreter {interpreter} is missing",
        "the first line of a script that the command starts names it",
        "install it, or add its folder to the server's PATH (-e PATH=...)";
    "command-missing": ["{program}: command not found", ": {program}: not found",
        "exec: \"{program}\": executable file not found"],
        "a script needs the program {program}, which was not found",
        "the command was found, but a program that it starts was not",
        "install {program}, or add its folder to the server's PATH (-e PATH=...)";
    "file-missing": ["Unable to access jarfile {file}"],
        "Java cannot find {file}",
        "a relative path starts at the server's working directory, which differs between clients",
        "use the absolute path of the jar in the arguments";
    "runtime-version": ["UnsupportedClassVersionError: {class} has been compiled by a more recent version"],
        "this Java is too old for {class}",
        "the program was compiled for a newer Java",
        "use a newer Java, with its path as the command (java -version shows this one)";
    "runtime-version": ["You must install or update .NET to run this application"],
        "this .NET is too old for the program",
        "the program needs a version of .NET that is not installed",
        "install the version in the message (dotnet --list-runtimes shows the installed ones)";

    // Command lines.
    "arguments": ["unrecognized arguments: {arguments}", "unexpected argument '{arguments}' found",
        "unknown option '{arguments}'", "Unknown argument: {arguments}", "Unknown arguments: {arguments}",
        "unknown flag: {arguments}", "unknown command \"{arguments}\"", "bad option: {arguments}",
        "flag provided but not defined: {arguments}", "No such option: {arguments}"],
        "the program does not know {arguments}",
        "an argument is misspelled, or belongs to another version of the program",
        NO_SUCH_ARGUMENTS;
    "arguments": ["the following arguments are required: {arguments}", "error: missing required argument '{arguments}'",
        "Missing required argument: {arguments}", "required flag(s) {arguments} not set", "Missing option '{arguments}'"],
        "the program needs {arguments}",
        "a required argument is missing",
        NO_SUCH_ARGUMENTS;
    "arguments": ["Usage: {usage}", "usage: {usage}", "USAGE: {usage}"],
        "the program printed its usage: {usage}",
        "an argument is missing or wrong",
        NO_SUCH_ARGUMENTS;
}
