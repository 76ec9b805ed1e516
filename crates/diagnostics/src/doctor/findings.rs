//! Every finding about a server: its id, the check that fails, what it means, one thing to do.
//!
//! Used by all parts of an examination; those of the machine are in `environment/faults.rs`. Ids and checks are published:
//! scripts match on them. One id may have several texts. `{name}` in a text stands for a value that is known only when the
//! finding is made. Other files import the whole table: a name in capitals that they do not define is a kind of finding.

use super::report::{Check, Evidence, Finding, Phase};

/// A kind of finding. `C` is the type of its check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind<C> {
    pub(super) id: &'static str,
    pub(super) check: C,
    pub(super) meaning: &'static str,
    pub(super) advice: &'static str,
}

impl<C: Copy> Kind<C> {
    pub(super) const fn new(id: &'static str, check: C, meaning: &'static str, advice: &'static str) -> Self {
        Self { id, check, meaning, advice }
    }

    /// Meaning and advice, with the values of their placeholders.
    pub(super) fn texts(&self, values: &[(&str, &str)]) -> [String; 2] {
        [self.meaning, self.advice].map(|template| fill(template, values))
    }
}

/// Replaces each `{name}` by its value. Values come from the server, and braces in them are text.
pub(super) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or((part, ""));
        let value = values.iter().find(|(known, _)| *known == name);
        text += value.map_or("", |(_, value)| value);
        text += rest;
    }
    text
}

impl Kind<Check> {
    /// The finding, without evidence. `values`: for each `{name}` its value.
    pub(super) fn with(&self, phase: Phase, seen: impl Into<String>, values: &[(&str, &str)]) -> Finding {
        let [meaning, advice] = self.texts(values);
        let (id, check, seen) = (self.id, self.check, seen.into());
        Finding { id, check, phase, seen, meaning, advice, evidence: Evidence::default(), lost: None }
    }

    /// The finding of a kind without placeholders.
    pub(super) fn at(&self, phase: Phase, seen: impl Into<String>) -> Finding {
        self.with(phase, seen, &[])
    }
}

impl Finding {
    /// The same observation and evidence as a finding of another kind.
    pub(super) fn becomes(&mut self, kind: &Kind<Check>, values: &[(&str, &str)]) {
        [self.meaning, self.advice] = kind.texts(values);
        (self.id, self.check) = (kind.id, kind.check);
    }
}

/// Rows of `NAME: "id", Check, meaning, advice;`.
macro_rules! kinds {
    ($check:ident: $($name:ident: $id:literal, $of:ident, $meaning:expr, $advice:expr;)*) => {
        $(pub(in crate::doctor) const $name: Kind<$check> =
            Kind::new($id, $check::$of, $meaning, $advice);)*
    };
}
pub(super) use kinds;

const ASK_AUTHORS: &str = "report it to the server's authors";
const READ_LOG: &str = "see the server's own log";
const RESPONSE_CUT_OFF: &str =
    "the response was cut off: the server crashed, sent a wrong Content-Length, or a proxy interrupted it";
const TRY_WITHOUT_PROXY: &str =
    "see the server's own log; if there is a proxy, connect to the server without it";
const RUN_BY_HAND: &str = "run the command by itself in a terminal, and fix the error that it reports";
const READ_STDERR: &str = "fix the error shown in stderr";
const FIND_STDIO: &str = "use the server's option for MCP over stdio";
const FIND_PORT: &str = "check the port; `ss -ltnp` shows which program listens on which";
const FIND_PORT_OR_SSH: &str =
    "check the port; a server behind SSH is a command: mcpjoin doctor -- ssh host command";
const SKIP_PROBE: &str = "update the server's SDK, or start with initialize (--era legacy)";
const MORE_TIME: &str = "see the server's own log; allow a slow server more time (--connect-timeout 2m)";
const USUAL_PATHS: &str = "check the path: usually /mcp, or /sse for servers of 2024";
const CHECK_PATH: &str = "check the path; if it is right, report it to the server's authors";
const CHECK_HOST: &str = "check the host name";
const OWN_ID: &str =
    "a response must have the id of its request: without it, clients wait until their timeout";
const COPY_ID: &str = "let the server copy each id without changing it";
const OTHER_CERTS_DIR: &str = "use --certs-dir with the orchestrator's folder of certificates";
const READ_ORCHESTRATOR_LOG: &str = "see the orchestrator's own log";
const NO_MCP_SERVER: &str = "this is not an MCP server";
const NO_SUCH_PROGRAM: &str = "no folder in the server's PATH contains a program of this name";
const LEADS_NOWHERE: &str = "the name does not exist";
const NO_TLS_THERE: &str = "the server has no TLS on this port, but the URL says https";
const HTTP_OR_OTHER_PORT: &str = "use http:// in the URL, or the port with TLS";
const HTTP_OR_LOG: &str = "use http:// for a server without TLS; otherwise see the server's own log";

// A program before it runs.
kinds! { Check:
    PROGRAM_PATH_MISSING: "program-missing", Program,
        "no file exists at this path; relative paths start at the server's working directory",
        "correct the path";
    PROGRAM_MISSING: "program-missing", Program, NO_SUCH_PROGRAM,
        "install the program, or use its path instead of its name";
    NODE_MISSING: "program-missing", Program, NO_SUCH_PROGRAM,
        "install Node.js, or add its folder to that PATH (version managers set it only in shells)";
    UV_MISSING: "program-missing", Program, NO_SUCH_PROGRAM,
        "install uv, or add its folder to that PATH (it is usually ~/.local/bin)";
    PYTHON_MISSING: "program-missing", Program, NO_SUCH_PROGRAM,
        "install Python, or use the installed one (python3, or a path)";
    COMMAND_LINE: "command-line", Program,
        "the whole command is taken as the name of a program; arguments do not belong there",
        "move {rest} to args: \"command\": \"{first}\", \"args\": [{args}]";
    NOT_EXECUTABLE: "not-executable", Program,
        "the file exists, but this user may not run it",
        "chmod +x the file, or put its interpreter before it";
    DIRECTORY: "directory", Program, "a directory cannot be run", "use a program in this directory";
    WORKING_DIRECTORY: "working-directory", Program,
        "the working directory of the server does not exist, or cannot be entered",
        "use a working directory that exists and that this user may enter";
    INTERPRETER_MISSING: "interpreter-missing", Start,
        "its first line names {interpreter}, which does not exist",
        "install the interpreter, or put another one before the file";
    LOADER_MISSING: "interpreter-missing", Start,
        "the loader of this binary does not exist: it was built for another system",
        "install the loader, or use a build for this system";
    NOT_STARTED: "not-started", Start,
        "the system refuses to start it",
        "check the limits of this system (ulimit -a), and that the file was built for it";
    EXEC_FORMAT: "exec-format", Start,
        "the file was built for another processor or system, or is a script without a #! line",
        "install the build for this machine (uname -sm), or put the interpreter before it (sh FILE)";
    RUNTIME_MISSING: "runtime-missing", Runtime,
        "the script exists, but its runtime is not on the server's PATH",
        "install {runtime}, or add its folder to that PATH";
    WINDOWS_LINE_ENDS: "windows-line-ends", Runtime,
        "the carriage return becomes part of the interpreter's name, so it is not found",
        "save the file with Unix line ends";
}

// The end of a program.
kinds! { Check:
    CONNECTION_FAILED: "died", Life, "the connection failed: {error}", "try again";
    CUT_OFF: "died", Life,
        "it exited in the middle of a message, after {received} bytes",
        "let it finish its last message before it exits; stderr may show the reason";
    COMMAND_INSIDE_MISSING: "died", Life,
        "exit codes 126 and 127 mean that a command in this one was not found or may not be run",
        "check the command, and the server's PATH";
    KILLED: "died", Life,
        "it was killed, by a user or because the system ran out of memory",
        "see the system's log";
    CRASHED: "died", Life, "it crashed: {signal}", RUN_BY_HAND;
    ENDED_BY_SIGNAL: "died", Life, "it crashed, or was killed", RUN_BY_HAND;
    RETURNED_EARLY: "died", Life,
        "it exited with success, but too early: its main function returned during a request, or a function \
         called sys.exit() or process.exit() with 0",
        "let main wait until the server ends, and check its last action; see stderr";
    NO_SERVER: "died", Life,
        "it exited normally without serving: wrong program, or wrong arguments (--help, --version?)",
        FIND_STDIO;
    EXITED_AFTER_ERROR: "died", Life,
        "it exited with code 0, although stderr shows an error",
        READ_STDERR;
    GAVE_UP: "died", Life, "it exited with an error; see stderr", READ_STDERR;
    GAVE_UP_SILENTLY: "died", Life, "it exited with an error, and wrote nothing to stderr", RUN_BY_HAND;
    DOCKER_WITHOUT_INPUT: "docker-input", Life,
        "docker run without -i gives the program no standard input, so it exits at once",
        "add -i: docker run -i --rm IMAGE";
    CLOSED_STDOUT: "died", Life, "the server cannot respond without standard output", RUN_BY_HAND;
    EXIT_STATUS: "exit-status", ExitStatus,
        "a client ends a session by closing standard input: the server should then exit with code 0, \
         without an error",
        READ_STDERR;
    EXIT_STATUS_SILENTLY: "exit-status", ExitStatus,
        "a client ends a session by closing standard input: the server should then exit with code 0; it wrote nothing \
         to stderr",
        "let the server exit with code 0 at the end of its standard input";
    LEFT_BEHIND: "left-behind", Family,
        "other clients leave these processes running, more with each start",
        "let their parent wait for them and end them; a shell wrapper should `exec` its last command";
    DEAF: "deaf", EndOfInput,
        "clients that send no signal leave it running; others wait for it each time",
        "let the server exit at the end of its standard input";
    SURVIVORS: "survivors", Family, "they run as another user, or hang in the kernel", "kill them by hand";
}

// Addresses and connections.
kinds! { Check:
    NO_HOST_AND_PORT: "no-address", Address,
        "the address is invalid",
        "use {scheme}://host:port, with an IPv6 address in brackets";
    NO_URL: "no-address", Address, "the URL is invalid", "use http://host:port/path";
    NAME_UNKNOWN: "unresolved", Address,
        "the name does not exist: it is misspelled, or only another name server knows it (VPN, container \
         network)",
        CHECK_HOST;
    NO_NAME_SERVER: "unresolved", Address,
        "no name server responds",
        "check the name servers of this machine (/etc/resolv.conf)";
    NAME_WITHOUT_ADDRESS: "unresolved", Address, LEADS_NOWHERE, CHECK_HOST;
    QUIC_UNRESOLVED: "unresolved", Address, LEADS_NOWHERE,
        "use quic://host:port, and check the host name";
    FOLDER_SILENT: "unreached", Address,
        "the folder is on a disk or a machine that does not respond",
        "check the mount of the folder";
    NOT_A_SOCKET: "not-a-socket", Address, "no server listens there", "use the path of the server's socket";
    FOLDER_CLOSED: "not-permitted", Address,
        "a directory of the path is closed to this user",
        "run this as the server's user, or open the directory";
    SOCKET_MISSING: "socket-missing", Address,
        "the server is not running, or listens elsewhere",
        "start the server, and check the path; it is relative to this directory";
    SOCKET_UNREADABLE: "socket-missing", Address, "the path cannot be a server's socket", "check the path";
    SOCKET_STALE: "refused", Reached,
        "the socket is left over from an earlier server: nothing listens there now",
        "start the server";
    PORT_REFUSED: "refused", Reached,
        "nothing listens on that port: the server is not running, or listens elsewhere",
        "start the server, and check the port";
    HTTP_PORT_REFUSED: "refused", Reached,
        "nothing listens on that port: the server is not running, or listens elsewhere",
        "start the server, and check the port in its output";
    OTHER_LOOPBACK: "other-loopback", Reached,
        "a server listens at {there}, but not at {here}: this machine has both addresses",
        "use {there} in the URL, or let the server also listen at {here}";
    SOCKET_NOT_PERMITTED: "not-permitted", Reached,
        "this user has no permission for the socket",
        "run this as the server's user, or let the server open its socket to others";
    NO_ANSWER: "unreached", Reached,
        "no response: the machine is off, the address is wrong, or a firewall drops the packets",
        "check the host, and the firewalls in between";
    NO_HTTP_ANSWER: "unreached", Reached,
        "no response: the machine is off, the address is wrong, or a firewall drops the packets",
        "check the host, and the firewalls in between; behind a proxy set HTTPS_PROXY";
    NO_ROUTE: "unreached", Reached,
        "this machine has no route to it",
        "check the host, and the network of this machine";
    NO_QUIC_ANSWER: "unreached", Reached,
        "no response over QUIC: the server is not running, listens on another port or address, or a \
         firewall blocks UDP",
        "check that the server runs, and that firewalls allow UDP to that port";
    NOT_ACCEPTED: "not-accepted", Reached,
        "a server listens, but accepts no connection: it hangs, or serves one client at a time",
        "check why the server is blocked, and restart it";
    SOME_ADDRESSES: "some-addresses", Families,
        "clients that use the silent address fail, or wait for it",
        "{advice}";
    ONE_FAMILY: "one-family", Families,
        "the server listens only over {on}: clients that try only {off} do not reach it",
        "{advice}";
    PROXY_NAME_UNKNOWN: "proxy-unreached", Proxy, "{meaning}",
        "correct the proxy variable, or add the host to NO_PROXY";
    PROXY_REFUSES_CONNECTION: "proxy-unreached", Proxy,
        "the proxy is not running, so no request can be sent",
        "start the proxy, correct its variable, or add the host to NO_PROXY";
    PROXY_UNREACHED: "proxy-unreached", Proxy,
        "the proxy cannot be reached, so no request can be sent",
        "correct the proxy variable, or add the host to NO_PROXY";
    PROXY_MALFORMED: "proxy-malformed", Address,
        "the proxy in the environment is invalid",
        "check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY";
    HEADER_UNUSABLE: "unusable", Address, "the request cannot be sent", "remove or correct that header";
    AUTHORITY_UNUSABLE: "unusable", Address,
        "the authority to trust cannot be read",
        "use --ca FILE, with a PEM file";
}

// Certificates and protocols of QUIC.
kinds! { Check:
    OTHER_PROTOCOL: "other-protocol", Protocol,
        "the server speaks QUIC, but not MCP: it is HTTP/3, or an orchestrator (orchestra://)",
        "check the port";
    KEY_UNKNOWN: "server-certificate", ServerCertificate,
        "it is another server, the connection is intercepted, or the server has a new key (without --cert \
         and --key, each start creates one)",
        "copy the value for --pin from the server's output at its start";
    SIGNER_UNKNOWN: "server-certificate", ServerCertificate,
        "no trusted authority has signed its certificate for that name, or the certificate is not valid \
         today",
        "use --ca FILE with the authority that signed it, or --pin sha256:HEX with its key";
    CLIENT_REFUSED: "client-certificate", ClientCertificate,
        "the server requires a client certificate, and rejected ours",
        "use --cert FILE --key FILE, signed by the authority that the server trusts (its --client-ca)";
    OWN_CERTIFICATE: "own-certificate", Certificates,
        "our own certificate cannot be used",
        "fix the reported error";
    NOT_CONNECTED: "not-connected", Reached, "the server cannot be reached", READ_LOG;
}

// An orchestrator. `{listen}` is its default address.
kinds! { Check:
    NO_CERTIFICATES: "no-certificates", Certificates,
        "no Orchestra program has used this folder, so the orchestrator cannot be verified",
        OTHER_CERTS_DIR;
    CERTIFICATES_FAULTY: "certificates", Certificates,
        "the orchestrator may reject our certificate, or we its certificate",
        "fix the reported error; if you remove our certificate, a new one is created";
    CERTIFICATES_UNUSABLE: "certificates", Certificates,
        "the connection needs our own certificate and an authority to trust",
        OTHER_CERTS_DIR;
    ORCHESTRATOR_NO_ADDRESS: "no-address", Address, "it cannot be reached", "use host:port";
    ORCHESTRATOR_UNREACHED: "unreached", Reached,
        "no orchestrator responds at this address, or a firewall blocks UDP",
        "check that it is running; its default address is {listen}";
    NO_ORCHESTRATOR: "other-protocol", Protocol,
        "the server speaks QUIC, but is not an orchestrator",
        "check the port: the default address is {listen}";
    ORCHESTRATOR_CERTIFICATE: "server-certificate", ServerCertificate,
        "its certificate is not trusted: it uses another folder of certificates, or its certificate has \
         another name",
        "use --certs-dir with its folder; from another machine --server-name orchestrator";
    CLIENT_CERTIFICATE_EXPIRED: "client-certificate", ClientCertificate,
        "it considers our certificate, or the authority, expired: it loaded them at its start, or its \
         clock is wrong",
        "restart the orchestrator so that it reads the folder again; if that does not help, compare the \
         clocks";
    CLIENT_CERTIFICATE_REFUSED: "client-certificate", ClientCertificate,
        "it rejects our certificate: it trusts another authority",
        "use --certs-dir with the orchestrator's folder";
    ORCHESTRATOR_NOT_CONNECTED: "not-connected", Reached, "the connection failed", READ_ORCHESTRATOR_LOG;
    UNHEALTHY: "unhealthy", Health,
        "some or all of its tools cannot be called",
        "see the orchestrator's log for the plugin or server that has exited";
    HEALTH_UNANSWERED: "no-answer", Health, "it is not an orchestrator, or does not work", READ_ORCHESTRATOR_LOG;
    TOOLS_UNANSWERED: "no-answer", Lists, "it is not an orchestrator, or does not work", READ_ORCHESTRATOR_LOG;
    ORCHESTRATOR_NO_TOOLS: "no-tools", Offer,
        "clients have nothing to call",
        "check that its plugins are enabled and have started";
}

// TLS below HTTP.
kinds! { Check:
    TLS_OTHER_PROTOCOL: "not-mcp", Tls, NO_MCP_SERVER, FIND_PORT;
    TLS_SSH: "not-mcp", Tls, NO_MCP_SERVER, FIND_PORT_OR_SSH;
    NO_TLS: "no-tls", Tls, NO_TLS_THERE, HTTP_OR_OTHER_PORT;
    TLS_DISAGREEMENT: "tls-failed", Tls,
        "client and server do not agree on a TLS version, a cipher or the host name",
        "check the TLS versions of the server (mcpjoin supports 1.2 and 1.3), and its own log";
    TLS_CLOSED: "tls-failed", Tls,
        "the port has no TLS, the server does not know this name, or a firewall interrupts TLS",
        HTTP_OR_LOG;
    TLS_BROKEN: "tls-failed", Tls,
        "the port has no TLS, or a firewall interrupts TLS",
        HTTP_OR_LOG;
    TLS_SILENT: "tls-silent", Tls,
        "the connection is accepted, but no TLS response comes: the server is busy, or speaks another \
         protocol",
        READ_LOG;
    TLS_PORT: "tls-port", Tls,
        "the server requires TLS, but the URL says http",
        "use https:// in the URL";
    PLAIN_HTTP_TO_TLS_PORT: "tls-port", Tls,
        "the server speaks TLS on that port, but the URL says http",
        "use https:// in the URL";
    CERTIFICATE_EXPIRED: "certificate-expired", ServerCertificate,
        "no client that checks certificates can connect, unless the clock of this machine is wrong",
        "renew the server's certificate; check the clock (date)";
    CERTIFICATE_NOT_YET_VALID: "certificate-not-yet-valid", ServerCertificate,
        "the certificate is not valid yet, or the clock of this machine is slow",
        "check the clock (date), then the server's certificate";
    CERTIFICATE_NAME: "certificate-name", ServerCertificate,
        "it is another server, or has another name",
        "use a name from the certificate, or give the server a certificate for this name";
    CERTIFICATE_SELF_SIGNED: "certificate-self-signed", ServerCertificate,
        "the server signed its certificate itself, which is common during development; clients do not \
         trust it by default",
        "use --ca FILE with exactly this certificate, after you have checked that it belongs to the server";
    CERTIFICATE_OF_AUTHORITY: "certificate-of-authority", ServerCertificate,
        "a certificate of an authority is for signing others, and clients reject it for a server",
        "create another one with -addext basicConstraints=critical,CA:FALSE; --ca FILE with exactly this \
         one also works";
    CERTIFICATE_INTERCEPTED: "certificate-intercepted", ServerCertificate,
        "the connection is decrypted and encrypted again on the way, with a certificate of {issuer}: a \
         proxy, a virus scanner or a developer tool",
        "use --ca FILE with the certificate of that authority, from its operator; or exclude this host there";
    CERTIFICATE_UNTRUSTED: "certificate-untrusted", ServerCertificate,
        "this system does not know the authority that signed it: the server's own, a company's or an \
         attacker's; or the server does not send the intermediate certificates",
        "use --ca FILE with the certificate of that authority, after you have checked whose it is";
    CERTIFICATE_INVALID: "certificate-refused", ServerCertificate,
        "clients may not accept this certificate",
        "give the server another certificate";
    CERTIFICATE_REFUSED: "certificate-refused", ServerCertificate,
        "the server cannot be verified, or the connection is intercepted",
        "use --ca FILE with the certificate of the authority that signed it, after you have checked whose \
         it is";
    CLOCKS_APART: "clocks-apart", Clock,
        "one of the two clocks is wrong: tokens and certificates seem not yet valid, or expired",
        "compare `date -u` here and there; timedatectl set-ntp true corrects a clock";
}

// The opening of the session.
kinds! { Check:
    SPEAKS_HTTP: "speaks-http", Protocol,
        "the server uses HTTP, or is a web server",
        "use http://host:port/path, usually with the path /mcp";
    SPEAKS_TLS: "speaks-tls", Protocol,
        "the server requires TLS",
        "use https://host:port/path, or a port without TLS";
    SPEAKS_SSH: "not-mcp", Protocol, NO_MCP_SERVER, FIND_PORT_OR_SSH;
    SPEAKS_OTHER: "not-mcp", Protocol, NO_MCP_SERVER, FIND_PORT;
    NO_MESSAGES: "not-mcp", Protocol,
        "it speaks another protocol, and is not an MCP server",
        "check the host and the port";
    WANTS_UPGRADE: "not-mcp", Protocol,
        "the server requires an upgrade of the connection, usually to WebSocket, which mcpjoin does not \
         support for MCP",
        "use the server's path for Streamable HTTP (usually /mcp), or the option that enables it";
    STDOUT_TEXT: "not-mcp", Opening,
        "the output is not JSON-RPC: the program is not an MCP server over stdio, or needs an option for it",
        "use the option or program for MCP over stdio";
    STDOUT_LOG: "not-mcp", Opening,
        "the program prints other text than messages: it is not an MCP server over stdio, or logs to \
         standard output",
        "use the option for MCP over stdio, or log to standard error";
    PROGRAM_SILENT: "silent", Opening,
        "the program runs, but has printed no complete line: it is not an MCP server over stdio, waits for \
         something, or starts slowly",
        "run it by itself in a terminal to see why it waits; allow a slow server more time \
         (--connect-timeout 2m)";
    NO_NEWLINE: "silent", Opening,
        "each message ends with a newline: without it a client waits for the rest",
        "let the server write a newline behind each message, and flush its output";
    LISTENS_ELSEWHERE: "listens-elsewhere", Opening,
        "it serves HTTP at {url}, and does not read its standard input",
        "run mcpjoin doctor {url}; or use its option for MCP over stdio";
    LSP_FRAMING: "lsp-framing", Opening,
        "MCP over stdio has one message per line, without headers; Content-Length is the framing of \
         language servers (LSP)",
        "use the stdio transport of an MCP SDK in the server; a language server is not an MCP server";
    SILENT: "silent", Opening,
        "the connection is accepted, but nothing is sent: the server is busy, or not an MCP server",
        MORE_TIME;
    REQUEST_UNANSWERED: "silent", Opening,
        "the request is accepted, but not answered: the server is busy, hangs, or is not an MCP server",
        MORE_TIME;
    RESPONSE_UNFINISHED: "silent", Opening,
        "the server begins a response, but does not complete it",
        MORE_TIME;
    VERSION: "version", Opening,
        "client and server have no protocol version in common",
        "update the server, or report it to its authors (mcpjoin speaks {versions})";
    VERSION_OF_OPTION: "version", Opening,
        "the server does not support the requested version, but another one that mcpjoin supports",
        "leave out --protocol-version, or use --protocol-version {version}";
    ID_AS_STRING: "other-id", Opening,
        "the id came back as a string: a response must have the id of its request with the same type",
        "let the server copy each id without changing it";
    OTHER_ID: "other-id", Opening, OWN_ID, COPY_ID;
    ECHO: "echo", Opening,
        "the program or server echoes its input",
        "check the program or port; it may need an option to serve MCP";
    REFUSED: "refused", Opening,
        "the server responds, but rejects this client",
        "follow the server's error message; another --era may be accepted";
    BAD_REPLY: "bad-reply", Opening,
        "the response to the opening request violates the specification",
        ASK_AUTHORS;
    NOT_SENT: "not-sent", Opening,
        "the message limit is below the size of the opening request",
        "raise the message limit (--max-message-size)";
    NOT_OPENED: "not-opened", Opening, "the connection failed", RUN_BY_HAND;
    NO_AGREEMENT: "not-opened", Opening, "client and server do not agree", READ_LOG;
    CLOSED: "closed", Life,
        "the server has exited, does not recognize its protocol in the request, or serves only one client \
         at a time",
        READ_LOG;
    CLOSED_WHILE_WRITING: "closed", Life,
        "the connection was interrupted, or the server exited while writing",
        READ_LOG;
    CONNECTION_BROKEN: "closed", Life, "the connection broke", READ_LOG;
    PROBE_FATAL: "probe-fatal", ProbeSurvived,
        "it supports only the older protocol (initialize), and exits on an unknown request: clients of \
         both protocols start it twice",
        SKIP_PROBE;
    MUTE: "mute", ProbeAnswered,
        "it does not respond to unknown requests: clients of both protocols wait this long at each start",
        SKIP_PROBE;
    SLOW_START: "slow-start", Speed,
        "clients with a short timeout give up before the server is ready",
        "check why the server responds late, or raise the clients' start-up timeout";
    PROGRAM_SLOW_START: "slow-start", Speed,
        "clients with a short timeout give up before the server is ready",
        "check why the program responds late (-v shows its stderr), or raise the clients' start-up timeout";
    FETCHED_SLOW_START: "slow-start", Speed,
        "npx and uvx look up the package at each start; clients with a short timeout give up before the \
         server is ready",
        "install the package and start its program by name, or raise the clients' start-up timeout";
}

// Messages and lists.
kinds! { Check:
    LATE_BYTE_ORDER_MARK: "byte-order-mark", ByteOrderMark,
        "such a line is not valid JSON: its message is lost, and its recipient waits until a timeout",
        "write UTF-8 without a byte order mark; usually the program reopens its output stream for each \
         message";
    BYTE_ORDER_MARK: "byte-order-mark", ByteOrderMark,
        "many clients cannot read the first message, and time out",
        "write UTF-8 without a byte order mark";
    ENCODING: "encoding", Output,
        "messages must be UTF-8: the output cannot be read",
        "let it write UTF-8, without a byte order mark";
    SEVERAL_LINES: "several-lines", Output,
        "each message must be on one line: none of these lines is a message",
        "write each message without line breaks, and one line break after it";
    NOISE: "noise", Output,
        "only messages are allowed on the connection; stricter clients disconnect here",
        ASK_AUTHORS;
    STDOUT_NOISE: "stdout-noise", Output,
        "only messages are allowed on standard output; stricter clients disconnect here",
        "send the server's log to standard error";
    VIOLATIONS: "violations", Rules,
        "this violates the specification; other clients may disconnect here",
        ASK_AUTHORS;
    LIST_TIMED_OUT: "list-unanswered", Lists,
        "the server declares this list, but does not return it in time",
        "check why the server is slow, or allow more time (--timeout 5m)";
    LIST_NO_NEWLINE: "list-unanswered", Lists,
        "each message ends with a newline: without it a client waits for the rest",
        "let the server write a newline behind each message, and flush its output";
    LIST_MISDIRECTED: "list-unanswered", Lists,
        OWN_ID,
        COPY_ID;
    LIST_UNREADABLE: "list-unanswered", Lists,
        "the response of the server cannot be read, and no other response follows",
        "write each message as one line of JSON";
    LIST_ENDLESS: "list-unanswered", Lists,
        "the server returns many pages, each of them slowly",
        ASK_AUTHORS;
    LIST_REFUSED: "list-refused", Lists,
        "the server declares this list, but rejects the request for it",
        "follow the server's error message";
    LIST_INVALID: "list-invalid", Lists,
        "the list violates the specification: clients do not show it, or only parts of it",
        ASK_AUTHORS;
    LIST_TOO_LARGE: "list-too-large", Lists,
        "it exceeds mcpjoin's limit, which is not a limit of MCP; other clients have their own limits",
        "raise the limit (--max-message-size 64MiB), or let the server return pages";
    LIST_CUT_OFF: "list-failed", Lists, RESPONSE_CUT_OFF, TRY_WITHOUT_PROXY;
    LIST_NO_REPLY: "list-failed", Lists,
        "the server has responded, and the answer to the request is not in its response",
        ASK_AUTHORS;
    LIST_FAILED: "list-failed", Lists, "the list could not be read", READ_LOG;
    PROGRAM_LIST_FAILED: "list-failed", Lists, "the list could not be read", RUN_BY_HAND;
    NO_TOOLS: "no-tools", Offer,
        "a model cannot call anything; often a key or a setting is missing",
        "check the server's variables and arguments, and its standard error";
    NOTHING_OFFERED: "nothing-offered", Offer,
        "clients have nothing to use",
        "check the server's variables and arguments";
}

// Responses of HTTP, by their status.
kinds! { Check:
    NOT_AUTHORIZED: "not-authorized", Authorization,
        "authorization required (401){wants}",
        "send a token with --header 'Authorization: Bearer TOKEN', or --header @FILE";
    TOKEN_NOT_ACCEPTED: "not-authorized", Authorization,
        "the server rejected the authorization{wants}",
        "get a new token: it has expired, belongs to another server, or lacks a scope";
    NO_CREDENTIALS: "not-authorized", Authorization,
        "mcpjoin has no authorization for this server",
        "send a token with --header 'Authorization: Bearer TOKEN'";
    FORBIDDEN: "forbidden", Authorization,
        "the server, or a proxy in front of it, rejects requests without authorization{reason}",
        "send a token with --header 'Authorization: Bearer TOKEN'; or allow this address there";
    TOKEN_FORBIDDEN: "forbidden", Authorization,
        "the server knows this user, but does not permit the request{reason}",
        "get a token with the required scope, or permit this user on the server";
    ROBOTS_REFUSED: "robots-refused", Authorization,
        "a bot protection in front of the server requires a browser; MCP clients cannot pass it",
        "exclude this path from the bot protection, or use a name of the server without it";
    LOGIN_BROKEN: "login-broken", Authorization, "no client can log in to this server: {rule} ({source})", "{advice}";
    AUTHORIZATION_UNREACHED: "authorization-unreached", Authorization,
        "the stored token must be refreshed, but the authorization server cannot be reached; the server \
         itself may work",
        "check that the authorization server runs and is reachable, then try again; --no-auth connects \
         without a token";
    HOST_REFUSED: "host-refused", Headers,
        "the server, or a proxy in front of it, accepts only certain host names (protection against DNS \
         rebinding), and not the one in the URL",
        "add this host to the server's settings (allowed hosts, allowed origins), or use an allowed name";
    WRONG_PATH: "wrong-path", Endpoint,
        "a web server responds, but there is no MCP server at this path",
        USUAL_PATHS;
    PATH_TAKES_NO_POST: "wrong-path", Endpoint,
        "this path does not accept POST: it is a page, or another endpoint of the server",
        USUAL_PATHS;
    REDIRECTED: "redirected", Endpoint,
        "the server has moved, or requires a login",
        "use {location}, if that is the server and not a web page";
    REDIRECTED_NOWHERE: "redirected", Endpoint,
        "the server has moved, or requires a login",
        "check the server's settings: the redirect has no target";
    REDIRECT_NOT_FOLLOWED: "redirected", Endpoint,
        "the server has moved, or the URL is wrong; mcpjoin does not follow this redirect, because the \
         request may contain secrets",
        "use the target of the redirect as the URL";
    REDIRECT_CIRCLE: "redirect-circle", Endpoint,
        "the redirects never end: a proxy and the server disagree on https:// or on a `/` at the end, or \
         both rewrite the path",
        "try the URL with https://, and with and without the `/` at its end; then check the rules of the \
         proxy";
    ACCEPT_REFUSED: "not-acceptable", Headers,
        "the server rejects the Accept header `application/json, text/event-stream`, which the \
         specification requires; or a proxy changed it",
        ASK_AUTHORS;
    JSON_REFUSED: "not-acceptable", Headers,
        "the server does not accept application/json: it is not an MCP server, or another endpoint of one",
        "check the path: usually /mcp";
    BODY_TOO_LARGE: "too-large", Size,
        "the server, or a proxy in front of it, accepts only shorter bodies, and this one has only about a \
         kilobyte",
        "raise the body limit there (client_max_body_size, bodyParser, and the like)";
    URL_TOO_LONG: "too-large", Size,
        "the URL is longer than the server accepts",
        "use a shorter URL: send long values as a header";
    HEADERS_TOO_LARGE: "headers-too-large", Size,
        "the headers are longer than the server accepts: usually because of a very long token",
        "send fewer or shorter headers, or raise the header limit of the server";
    TOO_MANY_REQUESTS: "too-many-requests", Capacity,
        "the server received too many requests, from this or other clients",
        "wait and try again; or request a higher limit";
    TOO_MANY_REQUESTS_UNTIL: "too-many-requests", Capacity,
        "the server received too many requests, and allows the next one {when}",
        "wait and try again; or request a higher limit";
    GATEWAY: "gateway", Capacity,
        "a proxy or gateway responds, because it does not reach the server",
        "check that the server behind it runs, and that the gateway has its address";
    UNAVAILABLE: "unavailable", Capacity,
        "the server is starting, overloaded or in maintenance, or a gateway has no server behind it",
        "try again later, then see the server's own log";
    SERVER_ERROR: "server-error", Capacity,
        "the server failed: it has a bug, or its configuration is incomplete",
        READ_LOG;
    SESSION_WANTED: "session-wanted", Session,
        "the server requires a session before it opens one: a load balancer distributes the requests to \
         several servers",
        "let the load balancer send each client to one server, or run the server without sessions";
    REQUEST_REFUSED: "request-refused", Headers,
        "the server considers the request invalid: it may not be an MCP server, require another header, or \
         support only another version",
        "follow the response; another --era or --protocol-version may work";
    HEADER_MISMATCH: "header-mismatch", Headers,
        "the server reports that headers and body differ: a proxy changed or removed headers, or the \
         server reads them wrongly",
        "connect to the server without the proxy or gateway; if it still fails, report it to the server's \
         authors";
    PROXY_AUTHORIZATION: "proxy-authorization", Proxy,
        "the proxy requires a user and a password (407)",
        "put user and password into the proxy variable: http://USER:PASSWORD@proxy:3128";
    PROXY_CREDENTIALS_REFUSED: "proxy-authorization", Proxy,
        "the proxy rejects the user or the password (407)",
        "correct user and password in the proxy variable; in them, write @ as %40, : as %3A and / as %2F";
    PROXY_SCHEME: "proxy-scheme", Proxy,
        "the variable names a SOCKS proxy, which mcpjoin does not support; nothing was sent",
        "use an HTTP proxy (http://HOST:PORT), or add the host to NO_PROXY if it needs no proxy";
    PROXY_REFUSED: "proxy-refused", Proxy,
        "the proxy does not permit this connection, or cannot reach the host",
        "permit the host on the proxy, or add it to NO_PROXY if it needs no proxy";
    PROXY_ANSWERED: "proxy-answered", Proxy,
        "the response is from the proxy ({program}, {proxy}): it does not reach the server, or does not \
         permit this request",
        "check the proxy and its log; add hosts that need no proxy to NO_PROXY";
}

// Responses of HTTP, by their body, and other protocols.
kinds! { Check:
    BROKEN: "broken", Protocol,
        "the connection ends before a response: the server crashed, or does not speak HTTP",
        READ_LOG;
    INVALID_HTTP: "not-http", Protocol,
        "the response violates HTTP: the server has a bug, or another program uses that port",
        "check the port; `ss -ltnp` shows which program listens on which; then see the server's own log";
    NOT_HTTP: "not-http", Protocol, "another program uses that port", FIND_PORT;
    CLOSES_UNASKED: "not-http", Protocol,
        "it does not speak HTTP, or exits at each request",
        "check the port; `ss -ltnp` shows which program listens on which; then see the server's own log";
    NO_MCP: "no-mcp", Endpoint,
        "no MCP server is there: another program uses that port, or a proxy blocks all methods",
        "check the host and the port; `ss -ltnp` shows which program listens on which";
    STREAMABLE_HTTP: "streamable-http", Endpoint,
        "sse+http:// and sse+https:// are for the HTTP+SSE of 2024-11-05, which this URL does not serve",
        "use {url}";
    HTTP_SSE: "http-sse", Endpoint,
        "newer clients fail, or probe again at each start: this transport was replaced in 2025-03-26",
        "use sse+{url}, update the server, or put mcpjoin bridge in front of it";
    HTML: "html", Endpoint,
        "a web page is at this path: a page of the server, a login, or a page of a proxy",
        "check the path: usually /mcp; open the URL in a browser to see the page";
    STREAM_ENDED: "stream-ended", Body,
        "the event stream ended before the response: the server crashed, its event has no empty line at \
         its end, or a proxy interrupts streams",
        "see the server's own log; on a proxy disable buffering and short timeouts (proxy_buffering off)";
    NO_EVENTS: "no-events", Body,
        "the body has the type of an event stream, but no event: clients find no message in it",
        "send Content-Type: application/json with such a body, or write `data: ` before each message and an empty line \
         behind it";
    EMPTY_BODY: "empty-body", Body, "the server accepts the request, but sends no response", ASK_AUTHORS;
    BODY_CUT_OFF: "no-message", Body, RESPONSE_CUT_OFF, TRY_WITHOUT_PROXY;
    BODY_NO_MESSAGE: "no-message", Body,
        "the body is not JSON-RPC: another API is at this path, or the server encodes its messages wrongly",
        CHECK_PATH;
    BODY_ENCODED: "no-message", Body,
        "the body is encoded: clients accept no Content-Encoding",
        "let the server, or the proxy before it, send its responses without Content-Encoding";
    EVENTS_NO_MESSAGES: "no-message", Body,
        "the data of the events is not JSON-RPC: this is the event stream of another API, or the server \
         encodes its messages wrongly",
        CHECK_PATH;
    CONTENT_TYPE: "content-type", Body,
        "a response must be application/json or text/event-stream: clients do not read other types",
        "correct Content-Type at the server, or check the path";
    NO_CONTENT_TYPE: "content-type", Body,
        "a response must have the Content-Type application/json or text/event-stream: other clients do not \
         read it",
        "let the server send Content-Type: application/json";
    NO_REPLY: "no-reply", Body,
        "the stream ended without the response: the server or a proxy cut it off",
        READ_LOG;
    BATCH: "batch", Rules,
        "one request gets one message: only 2025-03-26 has batches, and few clients read them",
        "let the server send the message itself, without the brackets";
    SESSION_ID_MALFORMED: "session-id-malformed", Session,
        "a session id contains only visible ASCII, without spaces: clients cannot send this one back",
        ASK_AUTHORS;
    INITIALIZED_REFUSED: "initialized-refused", Session,
        "the server accepts initialize, but rejects notifications/initialized: other clients stop here",
        ASK_AUTHORS;
    SESSION_LOST: "session-lost", Session,
        "several servers receive the requests, each with its own sessions, or the server loses its \
         sessions: clients that do not open a new session fail",
        "let the load balancer send each client to one server, share the sessions, or run without sessions";
    SESSION_END_REFUSED: "session-end", Farewell,
        "the ended session stays on the server, like those of all clients: they accumulate",
        "let the server answer DELETE with 200 or 204, or with 405 if sessions end by themselves";
    SESSION_END_UNANSWERED: "session-end", Farewell,
        "the server may keep the session, like those of all clients: they accumulate; clients that wait \
         for it hang",
        "let the server answer DELETE with 200 or 204, or with 405 if sessions end by themselves";
}
