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
        Finding { id, check, phase, seen, meaning, advice, evidence: Evidence::default() }
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

const ASK_AUTHORS: &str = "tell the server's authors";
const READ_LOG: &str = "look at the server's own log";
const RUN_BY_HAND: &str = "run the command by itself in a terminal, and fix what it says";
const READ_STDERR: &str = "fix the error shown in stderr";
const FIND_STDIO: &str = "look for the option that serves MCP over stdio";
const FIND_PORT: &str = "check the port; `ss -ltnp` shows which program listens on which";
const FIND_PORT_OR_SSH: &str =
    "check the port; a server behind SSH is a command: mcpjoin doctor -- ssh host command";
const SKIP_PROBE: &str = "update the server's SDK, or go straight to initialize (--era legacy)";
const MORE_TIME: &str = "look at the server's own log; a slow one needs more time (--connect-timeout 2m)";
const USUAL_PATHS: &str = "check the path: most servers have theirs at /mcp, those of 2024 at /sse";
const CHECK_PATH: &str = "check the path; if it is the right one, tell the server's authors";
const CHECK_HOST: &str = "check the name of the host";
const OTHER_CERTS_DIR: &str = "--certs-dir names the folder that the orchestrator uses";
const READ_ORCHESTRATOR_LOG: &str = "look at the orchestrator's own log";
const NO_MCP_SERVER: &str = "it is no MCP server";
const NO_SUCH_PROGRAM: &str = "no folder of the PATH that the server gets has a program of this name";
const LEADS_NOWHERE: &str = "the name leads nowhere";
const NO_TLS_THERE: &str =
    "the server takes its connections without encryption there, and the URL says https";
const HTTP_OR_OTHER_PORT: &str = "write http:// in the URL, or the port on which the server speaks TLS";
const HTTP_OR_LOG: &str = "write http:// if it is a server without TLS; otherwise look at its own log";

// A program before it runs.
kinds! { Check:
    PROGRAM_PATH_MISSING: "program-missing", Program,
        "there is no file at this path, which counts from the server's working directory",
        "correct the path";
    PROGRAM_MISSING: "program-missing", Program, NO_SUCH_PROGRAM,
        "install the program, or give its path in place of its name";
    NODE_MISSING: "program-missing", Program, NO_SUCH_PROGRAM,
        "install Node.js, or add its folder to that PATH (version managers set it in shells alone)";
    UV_MISSING: "program-missing", Program, NO_SUCH_PROGRAM,
        "install uv, or add its folder to that PATH (its installer takes ~/.local/bin)";
    PYTHON_MISSING: "program-missing", Program, NO_SUCH_PROGRAM,
        "install Python, or name the one that there is (python3, or the path of one)";
    COMMAND_LINE: "command-line", Program,
        "the command is the name of a program, and there is none with this name: what follows the first word is arguments",
        "move {rest} to args: \"command\": \"{first}\", \"args\": [{args}]";
    NOT_EXECUTABLE: "not-executable", Program,
        "the file is there, and this user may not run it",
        "chmod +x the file, or name its interpreter first";
    DIRECTORY: "directory", Program, "a directory cannot be run", "name a program inside it";
    WORKING_DIRECTORY: "working-directory", Program,
        "the server cannot be started where it is told to work",
        "name a working directory that exists and that this user may enter";
    INTERPRETER_MISSING: "interpreter-missing", Start,
        "its first line asks for {interpreter}, which is not there",
        "install what is missing, or name another interpreter first";
    LOADER_MISSING: "interpreter-missing", Start,
        "the loader that this binary names is not there: it was built for another system",
        "install what is missing, or name another interpreter first";
    NOT_STARTED: "not-started", Start,
        "the system refuses to start it",
        "look at the limits of this system (ulimit -a), and whether the file was built for it";
    EXEC_FORMAT: "exec-format", Start,
        "the file was built for another processor or system, or is a script without a first line that names its interpreter",
        "install the build for this machine (uname -sm), or name the interpreter first (sh FILE)";
    RUNTIME_MISSING: "runtime-missing", Runtime,
        "the script is there, but what runs it is not on the PATH that the server gets",
        "install {runtime}, or add its folder to that PATH";
    WINDOWS_LINE_ENDS: "windows-line-ends", Runtime,
        "the system takes it for a part of the interpreter's name, which nothing has",
        "save the file with Unix line ends";
}

// The end of a program.
kinds! { Check:
    CONNECTION_FAILED: "died", Life, "the connection failed: {error}", "try again";
    CUT_OFF: "died", Life,
        "it has ended in the middle of a message, after {received} bytes of it",
        "let it write its last message to the end before it exits; its standard error may say why it ended";
    COMMAND_INSIDE_MISSING: "died", Life,
        "exit codes 126 and 127 mean that a command inside this one was not found or may not be run",
        "check the command's words, and the PATH that the server gets";
    KILLED: "died", Life,
        "it was killed; without anybody's doing that means that memory ran out",
        "look at the system's log";
    CRASHED: "died", Life, "it crashed: {signal}", RUN_BY_HAND;
    ENDED_BY_SIGNAL: "died", Life, "it crashed, or somebody has ended it", RUN_BY_HAND;
    RETURNED_EARLY: "died", Life,
        "it ended as if all were done, and was not told to: mostly its main function returns while a request is still \
         handled, or something that it calls exits (sys.exit(), process.exit()) with 0",
        "let main wait until the server ends, and check what it does last; see its standard error";
    NO_SERVER: "died", Life,
        "it exited normally without serving: wrong program, or wrong arguments (--help, --version?)",
        FIND_STDIO;
    EXITED_AFTER_ERROR: "died", Life,
        "it exited with code 0, although its standard error reports an error",
        READ_STDERR;
    GAVE_UP: "died", Life, "it exited with an error; its standard error says why", READ_STDERR;
    GAVE_UP_SILENTLY: "died", Life, "it exited with an error, and wrote nothing to standard error", RUN_BY_HAND;
    DOCKER_WITHOUT_INPUT: "docker-input", Life,
        "docker run without -i gives the program in the container no standard input: it ends at once",
        "add -i: docker run -i --rm IMAGE";
    CLOSED_STDOUT: "died", Life, "without standard output nothing can be answered", RUN_BY_HAND;
    EXIT_STATUS: "exit-status", ExitStatus,
        "the end of its input is how a client says that it is done: it should end with exit code 0, and not \
         fail in what it does then",
        READ_STDERR;
    LEFT_BEHIND: "left-behind", Family,
        "with clients that look less closely they pile up, one for each start",
        "let whatever starts them wait for them and end them; a wrapper in shell should `exec` its last command";
    DEAF: "deaf", EndOfInput,
        "clients that send no signal leave it running, and others wait for it each time",
        "let the server end when reading its standard input says that it is over";
    SURVIVORS: "survivors", Family, "they run as another user, or hang in the kernel", "end them by hand";
}

// Addresses and connections.
kinds! { Check:
    NO_HOST_AND_PORT: "no-address", Address,
        "it cannot be connected to",
        "write {scheme}://host:port, with an IPv6 address in brackets";
    NO_URL: "no-address", Address, "it cannot be connected to", "write http://host:port/path";
    NAME_UNKNOWN: "unresolved", Address,
        "the name leads nowhere: it is misspelled, or known to a name server that this machine does not ask \
         (a VPN, a container's network)",
        CHECK_HOST;
    NO_NAME_SERVER: "unresolved", Address,
        "no name server answers",
        "look at the name servers of this machine (/etc/resolv.conf)";
    NAME_WITHOUT_ADDRESS: "unresolved", Address, LEADS_NOWHERE, CHECK_HOST;
    QUIC_UNRESOLVED: "unresolved", Address, LEADS_NOWHERE,
        "write quic://host:port, and check the name of the host";
    FOLDER_SILENT: "unreached", Address,
        "the folder lies on a disk or a machine that does not answer",
        "look at where the folder is mounted from";
    NOT_A_SOCKET: "not-a-socket", Address, "no server listens there", "name the socket that the server makes";
    FOLDER_CLOSED: "not-permitted", Address,
        "a directory on the way is closed to this user",
        "run this as the user that the server belongs to, or open the directory";
    SOCKET_MISSING: "socket-missing", Address,
        "the server does not run, or listens elsewhere",
        "start the server, and check the path; it counts from this directory";
    SOCKET_UNREADABLE: "socket-missing", Address, "no server can be reached there", "check the path";
    SOCKET_STALE: "refused", Reached,
        "the file is what an earlier server has left: nobody listens there now",
        "start the server";
    PORT_REFUSED: "refused", Reached,
        "nothing listens on that port: the server does not run, or listens elsewhere",
        "start the server, and check the port";
    HTTP_PORT_REFUSED: "refused", Reached,
        "nothing listens on that port: the server does not run, or listens elsewhere",
        "start the server, and check the port that it says";
    OTHER_LOOPBACK: "other-loopback", Reached,
        "a server listens at {there}, and none at {here}: this machine has both addresses",
        "write {there} in the URL, or let the server listen at {here}, too";
    SOCKET_NOT_PERMITTED: "not-permitted", Reached,
        "the socket is not for this user",
        "run this as the user that the server belongs to, or let it make a socket for others";
    NO_ANSWER: "unreached", Reached,
        "nobody answers: the machine is off, the address is another's, or a firewall swallows the packets",
        "check the host, and the firewalls on the way";
    NO_HTTP_ANSWER: "unreached", Reached,
        "nobody answers: the machine is off, the address is another's, or a firewall swallows the packets",
        "check the host, and the firewalls on the way; behind a proxy set HTTPS_PROXY";
    NO_ROUTE: "unreached", Reached,
        "there is no way to it from here",
        "check the host, and the network of this machine";
    NO_QUIC_ANSWER: "unreached", Reached,
        "nobody answers QUIC there: the server does not run, listens on another port or address, or a firewall lets \
         no UDP through",
        "see that the server runs, and that UDP to that port is let through on the way";
    NOT_ACCEPTED: "not-accepted", Reached,
        "a server listens and accepts nobody: it hangs, or serves one client at a time",
        "look at what the server does, and start it again";
    SOME_ADDRESSES: "some-addresses", Families,
        "clients that take the one that does not answer fail, or wait for it",
        "{advice}";
    ONE_FAMILY: "one-family", Families,
        "the server listens over {on} alone: clients that try {off} first, and nothing else, get no connection",
        "{advice}";
    PROXY_NAME_UNKNOWN: "proxy-unreached", Proxy, "{meaning}",
        "correct the variable that names the proxy, or name the host in NO_PROXY";
    PROXY_REFUSES_CONNECTION: "proxy-unreached", Proxy,
        "the proxy that stands before the server does not run, and without it nothing is sent",
        "start the proxy, correct the variable that names it, or name the host in NO_PROXY";
    PROXY_UNREACHED: "proxy-unreached", Proxy,
        "the proxy that stands before the server is not reached, and without it nothing is sent",
        "correct the variable that names the proxy, or name the host in NO_PROXY";
    PROXY_MALFORMED: "proxy-malformed", Address,
        "the surroundings name a proxy that is none",
        "look at HTTP_PROXY, HTTPS_PROXY and ALL_PROXY";
    HEADER_UNUSABLE: "unusable", Address, "nothing can be sent with it", "leave that header out, or mend it";
    AUTHORITY_UNUSABLE: "unusable", Address,
        "the authority that is to be trusted is not known",
        "--ca FILE, where FILE is in PEM";
}

// Certificates and protocols of QUIC.
kinds! { Check:
    OTHER_PROTOCOL: "other-protocol", Protocol,
        "what listens there speaks QUIC, but no MCP over it: HTTP/3, or an orchestrator (orchestra://)",
        "check the port";
    KEY_UNKNOWN: "server-certificate", ServerCertificate,
        "it is another server, somebody stands between it and us, or it has a new key, as it has after each \
         start without --cert and --key",
        "take --pin from where the server says it, as it is started";
    SIGNER_UNKNOWN: "server-certificate", ServerCertificate,
        "none of the authorities that are trusted has signed its certificate for that name, or it does not count \
         today",
        "--ca FILE names the authority that has signed it; --pin sha256:HEX takes its key without one";
    CLIENT_REFUSED: "client-certificate", ClientCertificate,
        "it asks who its clients are, and does not let us in",
        "--cert FILE --key FILE, signed by the authority that it trusts (its --client-ca)";
    OWN_CERTIFICATE: "own-certificate", Certificates,
        "our own certificate cannot be used",
        "put right what it says";
    NOT_CONNECTED: "not-connected", Reached, "there is no connection to it", READ_LOG;
}

// An orchestrator. `{listen}` is its default address.
kinds! { Check:
    NO_CERTIFICATES: "no-certificates", Certificates,
        "no program of Orchestra has used this folder, so the orchestrator cannot be known by it",
        OTHER_CERTS_DIR;
    CERTIFICATES_FAULTY: "certificates", Certificates,
        "the orchestrator may refuse us, or we it",
        "put right what it says; a certificate of ours that is removed is made anew";
    CERTIFICATES_UNUSABLE: "certificates", Certificates,
        "without a certificate of ours and an authority to trust nothing can be sent",
        OTHER_CERTS_DIR;
    ORCHESTRATOR_NO_ADDRESS: "no-address", Address, "it cannot be reached", "write host:port";
    ORCHESTRATOR_UNREACHED: "unreached", Reached,
        "no orchestrator answers at this address, or a firewall lets no UDP through",
        "is it running there? its own default is {listen}";
    NO_ORCHESTRATOR: "other-protocol", Protocol,
        "what listens there speaks QUIC, but is no orchestrator",
        "check the port: its own default is {listen}";
    ORCHESTRATOR_CERTIFICATE: "server-certificate", ServerCertificate,
        "we do not know it by its certificate: it uses another folder of certificates, or is reached under a name that \
         is not in it",
        "--certs-dir names the folder that it uses; from another machine --server-name orchestrator";
    CLIENT_CERTIFICATE_EXPIRED: "client-certificate", ClientCertificate,
        "for it our certificate, or the authority that has signed it, has run out: it knows these as they were when it \
         was started, or its clock is wrong",
        "start the orchestrator again, so that it reads the folder as it is now; if that does not help, compare the \
         clocks";
    CLIENT_CERTIFICATE_REFUSED: "client-certificate", ClientCertificate,
        "it does not let us in: it trusts another authority than the one that has signed for us",
        "--certs-dir names the folder that it uses";
    ORCHESTRATOR_NOT_CONNECTED: "not-connected", Reached, "there is no connection to it", READ_ORCHESTRATOR_LOG;
    UNHEALTHY: "unhealthy", Health,
        "some or all of its tools cannot be called",
        "look at the orchestrator's own log for the plugin or server that has ended";
    HEALTH_UNANSWERED: "no-answer", Health, "it is not an orchestrator, or not in order", READ_ORCHESTRATOR_LOG;
    TOOLS_UNANSWERED: "no-answer", Lists, "it is not an orchestrator, or not in order", READ_ORCHESTRATOR_LOG;
    ORCHESTRATOR_NO_TOOLS: "no-tools", Offer,
        "a client of it can do nothing",
        "see that its plugins are enabled and have started";
}

// TLS below HTTP.
kinds! { Check:
    TLS_OTHER_PROTOCOL: "not-mcp", Tls, NO_MCP_SERVER, FIND_PORT;
    TLS_SSH: "not-mcp", Tls, NO_MCP_SERVER, FIND_PORT_OR_SSH;
    NO_TLS: "no-tls", Tls, NO_TLS_THERE, HTTP_OR_OTHER_PORT;
    TLS_DISAGREEMENT: "tls-failed", Tls,
        "both sides speak TLS and do not agree on how: on a version, a cipher, or on the name of the host",
        "see which versions of TLS the server offers (1.2 and 1.3 are spoken here), and look at its own log";
    TLS_CLOSED: "tls-failed", Tls,
        "it speaks no TLS on that port, does not know this name, or something on the way cuts TLS off",
        HTTP_OR_LOG;
    TLS_BROKEN: "tls-failed", Tls,
        "it speaks no TLS on that port, or something on the way cuts TLS off",
        HTTP_OR_LOG;
    TLS_SILENT: "tls-silent", Tls,
        "something takes the connection and answers no TLS: it is busy, or speaks another protocol",
        READ_LOG;
    TLS_PORT: "tls-port", Tls,
        "the server wants its connections encrypted, and the URL says http",
        "write https:// in the URL";
    PLAIN_HTTP_TO_TLS_PORT: "tls-port", Tls,
        "the server speaks TLS on that port, and the URL says http",
        "write https:// in the URL";
    CERTIFICATE_EXPIRED: "certificate-expired", ServerCertificate,
        "no client that checks certificates connects, unless the clock of this machine is wrong",
        "renew the server's certificate; check the clock (date)";
    CERTIFICATE_NOT_YET_VALID: "certificate-not-yet-valid", ServerCertificate,
        "the certificate was made for later, or the clock of this machine is behind",
        "check the clock (date), then the server's certificate";
    CERTIFICATE_NAME: "certificate-name", ServerCertificate,
        "it is another server, or one that is known by another name",
        "use a name that is in the certificate, or give the server one for this name";
    CERTIFICATE_SELF_SIGNED: "certificate-self-signed", ServerCertificate,
        "the server has signed its certificate itself, as servers under development do; no client trusts that unasked",
        "--ca FILE with exactly this certificate trusts it, once you know that it is the server's own";
    CERTIFICATE_OF_AUTHORITY: "certificate-of-authority", ServerCertificate,
        "a certificate of an authority is for signing others, and clients refuse it as that of a server",
        "make the server another one, with -addext basicConstraints=critical,CA:FALSE; --ca FILE with exactly this one \
         trusts it as well";
    CERTIFICATE_INTERCEPTED: "certificate-intercepted", ServerCertificate,
        "somebody between here and the server opens what is encrypted and closes it again with a certificate \
         of their own ({issuer}): a proxy, a scanner of viruses, a tool of developers",
        "--ca FILE with the certificate of that authority, from whoever runs it; or have it leave this host alone";
    CERTIFICATE_UNTRUSTED: "certificate-untrusted", ServerCertificate,
        "the authority that has signed it is unknown to this system: the server's own, a company's, or that of \
         somebody who stands in between; or the server does not send the certificates in between",
        "--ca FILE with the certificate of that authority, once you know whose it is";
    CERTIFICATE_INVALID: "certificate-refused", ServerCertificate,
        "the certificate is not one that a client may take",
        "give the server another certificate";
    CERTIFICATE_REFUSED: "certificate-refused", ServerCertificate,
        "whoever answers is not known to be the server, or somebody stands in between",
        "--ca FILE with the certificate of the authority that has signed it, once you know whose it is";
    CLOCKS_APART: "clocks-apart", Clock,
        "one of the two clocks is wrong: tokens are taken for not valid yet or for expired, and certificates too",
        "see which one it is: `date -u` here and there; timedatectl set-ntp true sets one that is wrong";
}

// The opening of the session.
kinds! { Check:
    SPEAKS_HTTP: "speaks-http", Protocol,
        "the server is reached over HTTP, or it is a web server",
        "write http://host:port/path, mostly with the path /mcp";
    SPEAKS_TLS: "speaks-tls", Protocol,
        "the server wants its connections encrypted",
        "write https://host:port/path, or give it a port without TLS";
    SPEAKS_SSH: "not-mcp", Protocol, NO_MCP_SERVER, FIND_PORT_OR_SSH;
    SPEAKS_OTHER: "not-mcp", Protocol, NO_MCP_SERVER, FIND_PORT;
    NO_MESSAGES: "not-mcp", Protocol,
        "it speaks another protocol: it is no MCP server",
        "check the host and the port";
    WANTS_UPGRADE: "not-mcp", Protocol,
        "the server wants another protocol on this connection, WebSocket as a rule, which MCP is not spoken over here",
        "look for its path for Streamable HTTP (mostly /mcp), or for an option that serves it";
    STDOUT_TEXT: "not-mcp", Opening,
        "the program writes to its standard output, but no messages: it is no MCP server on standard input and \
         output, or it is not told to be one",
        "look for the option or the program that serves MCP over stdio";
    STDOUT_LOG: "not-mcp", Opening,
        "the program writes text where only messages may be: it is no MCP server on standard input and output, or \
         it logs to standard output",
        "look for the option that serves MCP over stdio, or send the log to standard error";
    PROGRAM_SILENT: "silent", Opening,
        "the program runs, and has written no whole line: it is no MCP server on standard input and output, waits \
         for something else, or starts too slowly",
        "run it by itself in a terminal and see what it waits for; a slow one needs more time \
         (--connect-timeout 2m)";
    LISTENS_ELSEWHERE: "listens-elsewhere", Opening,
        "it serves HTTP, and does not read its standard input: it says that it listens at {url}",
        "mcpjoin doctor {url}; or look for its option that serves MCP over stdio";
    LSP_FRAMING: "lsp-framing", Opening,
        "MCP over stdio has one message on each line, without headers; Content-Length is how language servers (LSP) frame theirs",
        "use the stdio transport of an MCP SDK in the server; if it is a language server, it is no MCP server";
    SILENT: "silent", Opening,
        "something takes the connection and says nothing: it is busy, or no MCP server",
        MORE_TIME;
    REQUEST_UNANSWERED: "silent", Opening,
        "something takes the request and does not answer: it is busy, hangs, or is no MCP server",
        MORE_TIME;
    RESPONSE_UNFINISHED: "silent", Opening,
        "the server begins a response and does not end it with a reply",
        MORE_TIME;
    VERSION: "version", Opening,
        "client and server have no version of the protocol in common",
        "update the server: mcpjoin speaks every revision of MCP from 2024-11-05 on";
    VERSION_OF_OPTION: "version", Opening,
        "the server does not speak the version that was asked for, and speaks another that mcpjoin knows",
        "leave out --protocol-version, or write --protocol-version {version}";
    ID_AS_STRING: "other-id", Opening,
        "a number came back as a string: a response has the id of its request, of the same type, or nobody knows \
         which request it answers",
        "let the server send back each id as it came";
    OTHER_ID: "other-id", Opening,
        "a response has the id of its request, or nobody knows which request it answers: clients wait until \
         their patience ends",
        "let the server send back each id as it came";
    ECHO: "echo", Opening,
        "whatever runs or listens there sends back what it reads, and understands nothing of it",
        "look at what runs there, or listens there; it may need an option to serve MCP";
    REFUSED: "refused", Opening,
        "the server answers, and does not let this client in",
        "do what its error says; another --era may be let in";
    BAD_REPLY: "bad-reply", Opening,
        "the server's answer to the opening request is not what the specification has there",
        ASK_AUTHORS;
    NOT_SENT: "not-sent", Opening,
        "the limit of a message is below the opening request",
        "raise the limit of a message (--max-message-size)";
    NOT_OPENED: "not-opened", Opening, "there is no connection", RUN_BY_HAND;
    NO_AGREEMENT: "not-opened", Opening, "client and server do not come to an agreement", READ_LOG;
    CLOSED: "closed", Life,
        "it has ended, does not take what it was sent for its protocol, or serves one client and has one",
        READ_LOG;
    CLOSED_WHILE_WRITING: "closed", Life,
        "the connection was cut, or the server has ended while it was writing",
        READ_LOG;
    CONNECTION_BROKEN: "closed", Life, "the connection broke", READ_LOG;
    PROBE_FATAL: "probe-fatal", ProbeSurvived,
        "it knows the legacy era alone and takes a request that it does not know for fatal: a client that speaks both \
         eras pays for a second start each time",
        SKIP_PROBE;
    MUTE: "mute", ProbeAnswered,
        "it does not answer requests that it does not know: a client that speaks both eras waits so long at each start",
        SKIP_PROBE;
    SLOW_START: "slow-start", Speed,
        "clients with little patience give up before the server is ready",
        "see what the server waits for before it answers, or give clients a longer start-up time";
    PROGRAM_SLOW_START: "slow-start", Speed,
        "clients with little patience give up before the server is ready",
        "see what the program does before it answers (-v shows its stderr), or give clients a longer start-up time";
    FETCHED_SLOW_START: "slow-start", Speed,
        "npx and uvx look for the package at each start; clients with little patience give up before the server is ready",
        "install the package and start its program by its name, or give clients a longer start-up time";
}

// Messages and lists.
kinds! { Check:
    LATE_BYTE_ORDER_MARK: "byte-order-mark", ByteOrderMark,
        "such a line is no JSON: what it says is read by nobody, and whoever waits for it waits in vain",
        "write UTF-8 without a byte order mark; it mostly comes of a stream that is opened anew for each message";
    BYTE_ORDER_MARK: "byte-order-mark", ByteOrderMark,
        "many clients cannot read the first message then, and time out",
        "write UTF-8 without a byte order mark";
    ENCODING: "encoding", Output,
        "messages are plain UTF-8: nothing of what it writes can be read",
        "have it write UTF-8, without a byte order mark";
    SEVERAL_LINES: "several-lines", Output,
        "one message is one line: each line is read by itself, and none of these is a message",
        "write each message without line ends and indentation, and one line end after it";
    NOISE: "noise", Output,
        "the connection is for messages alone; clients that are less patient end it here",
        ASK_AUTHORS;
    STDOUT_NOISE: "stdout-noise", Output,
        "standard output is for messages alone; clients that are less patient end the connection here",
        "send the server's log to standard error";
    VIOLATIONS: "violations", Rules,
        "this is against the specification; other clients may not go on here",
        ASK_AUTHORS;
    LIST_TIMED_OUT: "list-unanswered", Lists,
        "the server declares this list and does not give it in time",
        "see what it waits for, or give it more time (--timeout 5m)";
    LIST_UNREADABLE: "list-unanswered", Lists,
        "the server has answered in a way in which nobody can read it, and no other answer comes",
        "write each message as one line of JSON";
    LIST_ENDLESS: "list-unanswered", Lists,
        "the server gives page after page, and each of them slowly",
        ASK_AUTHORS;
    LIST_REFUSED: "list-refused", Lists,
        "the server declares this list and refuses it",
        "do what its error says";
    LIST_INVALID: "list-invalid", Lists,
        "the list is not what the specification has there: clients show nothing of it, or leave parts out",
        ASK_AUTHORS;
    LIST_TOO_LARGE: "list-too-large", Lists,
        "it is longer than what is taken here, which no rule forbids; other clients have bounds of their own",
        "take more (--max-message-size 64MiB), or have the server give it in pages";
    LIST_CUT_OFF: "list-failed", Lists,
        "the reply was cut off: the server died in the middle of it, says a wrong Content-Length, or something on the \
         way cuts it off",
        "look at the server's own log; if there is a proxy before it, ask the server without that";
    LIST_FAILED: "list-failed", Lists, "the list could not be read", READ_LOG;
    PROGRAM_LIST_FAILED: "list-failed", Lists, "the list could not be read", RUN_BY_HAND;
    NO_TOOLS: "no-tools", Offer,
        "a model can call nothing of it; often a key or a setting is missing",
        "check the server's variables and arguments, and what it writes to standard error";
    NOTHING_OFFERED: "nothing-offered", Offer,
        "there is nothing to do with it",
        "check the server's variables and arguments";
}

// Responses of HTTP, by their status.
kinds! { Check:
    NOT_AUTHORIZED: "not-authorized", Authorization,
        "authorization required (401){wants}",
        "send a token: --header 'Authorization: Bearer TOKEN', or @FILE that holds the header";
    TOKEN_NOT_ACCEPTED: "not-authorized", Authorization,
        "the server does not accept the authorization that was sent{wants}",
        "get a new token: it has expired, is for another server, or lacks a scope";
    NO_CREDENTIALS: "not-authorized", Authorization,
        "there is nothing that could be shown to the server",
        "send a token: --header 'Authorization: Bearer TOKEN'";
    FORBIDDEN: "forbidden", Authorization,
        "the server, or something before it, lets nobody in who does not say who asks{reason}",
        "send a token: --header 'Authorization: Bearer TOKEN'; or have this address let in";
    TOKEN_FORBIDDEN: "forbidden", Authorization,
        "who we are is known, and may not do this{reason}",
        "get a token with the scope that the server asks for, or have this user let in";
    ROBOTS_REFUSED: "robots-refused", Authorization,
        "what stands before the server wants a browser with a person before it: a guard against robots, through \
         which no MCP client comes",
        "have this path left out of that guard's rules, or reach the server by a name that it does not stand before";
    LOGIN_BROKEN: "login-broken", Authorization, "no client can log in to this server: {rule} ({source})", "{advice}";
    AUTHORIZATION_UNREACHED: "authorization-unreached", Authorization,
        "the stored token has to be renewed, and whoever renews it is not there; the server itself may be in order",
        "see that the authorization server runs and can be reached from here, and then do it again; --no-auth asks \
         without a token";
    HOST_REFUSED: "host-refused", Headers,
        "the server, or a proxy before it, takes requests for certain names of hosts alone: a guard against pages \
         that a browser shows, set for another name than the one in the URL",
        "allow this host in the server's settings (allowed hosts, allowed origins), or use the name that it knows";
    WRONG_PATH: "wrong-path", Endpoint,
        "a web server answers, but there is no MCP server at this path",
        USUAL_PATHS;
    PATH_TAKES_NO_POST: "wrong-path", Endpoint,
        "what is at this path takes no POST: it is a page, or another part of the server",
        USUAL_PATHS;
    REDIRECTED: "redirected", Endpoint,
        "the server has moved, or wants its users to log in first",
        "write {location}, if that is the server and no page for people";
    REDIRECTED_NOWHERE: "redirected", Endpoint,
        "the server has moved, or wants its users to log in first",
        "look at the server's settings: it does not say where to";
    REDIRECT_NOT_FOLLOWED: "redirected", Endpoint,
        "the server has moved, or the URL is not the one of the server itself; a request is not sent to another \
         place by itself, since it may carry secrets",
        "write the URL that it leads to";
    REDIRECT_CIRCLE: "redirect-circle", Endpoint,
        "nobody ever answers there: mostly a proxy before the server wants https:// (or a path with or without `/` at \
         its end) and the server the other, or both of them rewrite the path",
        "try the URL with https://, and with and without the `/` at its end; then look at the rules of the proxy";
    ACCEPT_REFUSED: "not-acceptable", Headers,
        "the server wants another Accept than `application/json, text/event-stream`, which is what the specification \
         has there; or something on the way has changed it",
        ASK_AUTHORS;
    JSON_REFUSED: "not-acceptable", Headers,
        "the server does not take application/json: it is no MCP server, or another part of one",
        "check the path: most servers have theirs at /mcp";
    BODY_TOO_LARGE: "too-large", Size,
        "the server, or a proxy before it, takes only shorter bodies, and this one is hardly a kilobyte long",
        "raise the limit of bodies there (client_max_body_size, bodyParser, and the like)";
    URL_TOO_LONG: "too-large", Size,
        "the URL is longer than the server takes",
        "write a shorter URL: what is long in it is better sent as a header";
    HEADERS_TOO_LARGE: "headers-too-large", Size,
        "the headers of the request are longer than the server takes: mostly a token is very long",
        "send fewer or shorter headers, or raise the limit of headers at the server";
    TOO_MANY_REQUESTS: "too-many-requests", Capacity,
        "the server has had too many requests, from us or from others",
        "wait, and try again; or ask for a higher limit";
    TOO_MANY_REQUESTS_UNTIL: "too-many-requests", Capacity,
        "the server has had too many requests, and says when to come again: {when}",
        "wait, and try again; or ask for a higher limit";
    GATEWAY: "gateway", Capacity,
        "a proxy or gateway answers in place of the server, which it does not reach",
        "see that the server behind it runs, and that the gateway has its right address";
    UNAVAILABLE: "unavailable", Capacity,
        "the server is starting, overloaded or being mended, or a gateway has none behind it",
        "try again in a while, then look at the server's own log";
    SERVER_ERROR: "server-error", Capacity,
        "the server fails in answering: it is broken, or not set up to its end",
        READ_LOG;
    SESSION_WANTED: "session-wanted", Session,
        "the server wants a session before one can be opened: something before it keeps none, or sends requests to \
         several servers in turn",
        "let the balancer send one client to one server, or let the server keep no sessions";
    REQUEST_REFUSED: "request-refused", Headers,
        "the server takes the request for wrong: it may be no MCP server, want another header, or know only another \
         version",
        "do what its answer says; another --era or --protocol-version may be let in";
    HEADER_MISMATCH: "header-mismatch", Headers,
        "the headers of a request do not say what its body says, for the server: something on the way has changed \
         or dropped them, or the server reads them wrongly",
        "ask the server without the proxy or gateway before it; if it stays, tell the server's authors";
    PROXY_AUTHORIZATION: "proxy-authorization", Proxy,
        "the proxy wants to know who asks (407)",
        "put user and password into the variable that names the proxy: http://USER:PASSWORD@proxy:3128";
    PROXY_CREDENTIALS_REFUSED: "proxy-authorization", Proxy,
        "the proxy takes neither the user nor the password that it is told (407)",
        "mend user and password in the variable that names the proxy; in them, @ is written %40, : %3A and / %2F";
    PROXY_SCHEME: "proxy-scheme", Proxy,
        "the variable names a SOCKS proxy, which is not spoken here; nothing was sent",
        "name a proxy that speaks HTTP (http://HOST:PORT), or the host in NO_PROXY where it is reached without one";
    PROXY_REFUSED: "proxy-refused", Proxy,
        "the proxy does not let this connection through, or does not reach the host",
        "have the host allowed at the proxy, or name it in NO_PROXY where it is reached without one";
    PROXY_ANSWERED: "proxy-answered", Proxy,
        "the answer is the proxy's own ({program}, {proxy}): it does not reach the server, or does not let this \
         request through",
        "look at the proxy and its log; NO_PROXY names the hosts that are reached without one";
}

// Responses of HTTP, by their body, and other protocols.
kinds! { Check:
    BROKEN: "broken", Protocol,
        "the connection ends before a response: the server died of the request, or what listens there does not \
         speak HTTP",
        READ_LOG;
    NOT_HTTP: "not-http", Protocol, "another program has that port", FIND_PORT;
    CLOSES_UNASKED: "not-http", Protocol,
        "it does not speak HTTP, or ends each time that it is asked",
        "check the port; `ss -ltnp` shows which program listens on which; then look at the server's own log";
    NO_MCP: "no-mcp", Endpoint,
        "nothing speaks MCP there: another program has that port, or what stands before the server lets no method \
         through",
        "check the host and the port; `ss -ltnp` shows which program listens on which";
    STREAMABLE_HTTP: "streamable-http", Endpoint,
        "sse+http:// and sse+https:// are for the HTTP+SSE of 2024-11-05, which it does not speak there",
        "write {url}";
    HTTP_SSE: "http-sse", Endpoint,
        "clients of today fail, or find it out anew each time: this transport was replaced in 2025-03-26",
        "write sse+{url}, update the server, or stand mcpjoin bridge before it";
    HTML: "html", Endpoint,
        "a web page is at this path: the page of the server, a login, or one of a proxy",
        "check the path: most servers have theirs at /mcp; open the URL in a browser to see whose page it is";
    STREAM_ENDED: "stream-ended", Body,
        "the event stream ended before the reply was in it: the server died, its event has no empty line at its end, \
         or something on the way cuts streams off",
        "look at the server's own log; at a proxy before it turn off buffering and short times (proxy_buffering off)";
    EMPTY_BODY: "empty-body", Body, "the server accepts the request and gives no reply to it", ASK_AUTHORS;
    BODY_NO_MESSAGE: "no-message", Body,
        "the body is no message of JSON-RPC: another interface is at this path, or the reply was cut off",
        CHECK_PATH;
    EVENTS_NO_MESSAGES: "no-message", Body,
        "the data of each event is a message of JSON-RPC: this is the event stream of another interface, or the server \
         writes its messages wrongly",
        CHECK_PATH;
    CONTENT_TYPE: "content-type", Body,
        "a reply is application/json or text/event-stream: with another type clients do not read it",
        "correct Content-Type at the server, or check the path";
    NO_CONTENT_TYPE: "content-type", Body,
        "a reply is application/json or text/event-stream, and says so: other clients do not read it",
        "let the server send Content-Type: application/json";
    NO_REPLY: "no-reply", Body,
        "the response ends, and the reply was not in it: the server or something before it has cut it off",
        READ_LOG;
    BATCH: "batch", Rules,
        "one request is answered with one message: a batch is known in 2025-03-26 alone, and read by hardly any client",
        "let the server send the message itself, without the brackets around it";
    SESSION_ID_MALFORMED: "session-id-malformed", Session,
        "an id of a session is visible ASCII, without blanks: no client can send this one back",
        ASK_AUTHORS;
    INITIALIZED_REFUSED: "initialized-refused", Session,
        "the server answers initialize and refuses the notification that ends the opening: other clients stop here",
        ASK_AUTHORS;
    SESSION_LOST: "session-lost", Session,
        "requests go to several servers in turn of which each knows its own sessions alone, or the server forgets \
         them: clients that do not open a new session fail",
        "let the balancer send one client to one server, share the sessions, or let the server keep none";
    SESSION_END_REFUSED: "session-end", Farewell,
        "the session that we have ended stays with the server, as that of every client: they pile up",
        "let the server answer DELETE with 200 or 204, or with 405 where sessions end by themselves";
    SESSION_END_UNANSWERED: "session-end", Farewell,
        "it may keep the session, as that of every client: they pile up; clients that wait for it hang",
        "let the server answer DELETE with 200 or 204, or with 405 where sessions end by themselves";
}
