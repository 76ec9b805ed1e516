//! Tests of `serve` and `bridge` with `--auth-issuer`: what they print at the start about the authorization server and the
//! resource.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::authority::Authority;
use super::support::{Running, command, scratch, start};

/// The authorization server of a company, behind TLS with a certificate authority of its own.
pub(super) struct Company {
    server: Child,
    pub(super) base: String,
    authority: PathBuf,
    said: std::cell::RefCell<BufReader<std::process::ChildStdout>>,
}

/// Prints its port, and then the path of each request.
const SERVER: &str = r#"
import http.server, json, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/keys":
            found = {"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "1", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}
        else:
            found = {"issuer": base, "jwks_uri": base + "/keys", "response_types_supported": ["code"]}
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        print(self.path, flush=True)
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
base = "https://localhost:%d" % server.server_address[1]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
server.socket = context.wrap_socket(server.socket, server_side=True)
print(base, flush=True)
server.serve_forever()
"#;

impl Company {
    pub(super) fn new(name: &str) -> Self {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (chain, authority) = (scratch(&format!("{name}-chain.pem")), scratch(&format!("{name}-ca.pem")));
        std::fs::write(&authority, cert.pem()).unwrap();
        std::fs::write(&chain, cert.pem() + &signing_key.serialize_pem()).unwrap();
        let mut python = Command::new("python3");
        python.args(["-c", SERVER]).arg(&chain).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = python.spawn().unwrap();
        let mut said = BufReader::new(server.stdout.take().unwrap());
        let mut base = String::new();
        said.read_line(&mut base).unwrap();
        std::fs::remove_file(chain).unwrap();
        Self { server, base: base.trim_end().to_owned(), authority, said: said.into() }
    }

    /// Replaces the example names in a line of documentation by the addresses of this test.
    pub(super) fn read(&self, line: &str) -> String {
        let authority = self.authority.display().to_string();
        line.replace("https://login.example.com", &self.base).replace("company-ca.pem", &authority)
    }

    /// The reverse of `read`.
    pub(super) fn written(&self, text: &str) -> String {
        text.replace(&self.base, "https://login.example.com")
    }

    /// Waits until its keys are fetched.
    pub(super) fn is_asked(&self) {
        let mut said = self.said.borrow_mut();
        let mut line = String::new();
        while line != "/keys\n" {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "it was not asked for its keys");
        }
    }
}

impl Drop for Company {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_file(&self.authority);
    }
}

/// A process of `serve` or `bridge`, and its output.
struct Guarded {
    running: Running,
    stderr: BufReader<std::process::ChildStderr>,
    url: String,
}

impl Guarded {
    /// Starts the verb with this issuer; `more` is appended to the command line.
    fn new(verb: &str, issuer: &str, more: &str) -> Self {
        let mut words = vec![verb];
        words.extend((verb == "serve").then_some("demo"));
        words.extend(["--listen", "http://127.0.0.1:0/mcp", "--auth-issuer", issuer]);
        words.extend(more.split_whitespace());
        words.extend((verb == "bridge").then_some("demo:"));
        let mut running = start(command(words));
        let stderr = BufReader::new(running.child.stderr.take().unwrap());
        let mut guarded = Self { running, stderr, url: String::new() };
        let listening = guarded.line();
        guarded.url = listening.strip_prefix("listening on ").unwrap().to_owned();
        let asks = guarded.line();
        assert!(asks.starts_with(&format!("requires tokens of {issuer} for ")), "{asks}");
        guarded
    }

    #[track_caller]
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.stderr.read_line(&mut line).unwrap() > 0, "it has ended");
        line.trim_end().to_owned()
    }

    /// The status of a request with this token.
    fn status(&self, token: Option<&str>) -> String {
        let host = self.url.split('/').nth(2).unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nhost: {host}\r\n{token}content-type: application/json\r\nconnection: close\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: 2\r\n\r\n{{}}"
        )
        .unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap().to_owned()
    }

    /// Ends the process, and returns the rest of its output.
    fn end(mut self) -> String {
        self.running.signal("TERM");
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        self.running.finish().exits(143);
        rest
    }
}

/// A token of that issuer. Its signature is not checked where no keys are available.
fn token(issuer: &str) -> String {
    let part = |json: String| URL_SAFE_NO_PAD.encode(json);
    let header = part(r#"{"alg":"ES256","kid":"1"}"#.into());
    format!("{header}.{}.{}", part(format!(r#"{{"iss":"{issuer}"}}"#)), part("x".repeat(64)))
}

#[test]
fn an_authorization_server_that_cannot_be_used_is_reported_at_once_and_what_follows_from_it_is_so() {
    // This server answers, but its metadata names no keys.
    let keyless = Authority::new();
    let down = "http://127.0.0.1:1";
    let slashed = format!("{}/", keyless.base);
    let other = format!("another issuer, {}", keyless.base);
    for (issuer, why) in [(down, "connection refused"), (&*keyless.base, "`jwks_uri`"), (&*slashed, &*other)]
    {
        for verb in ["serve", "bridge"] {
            let mut guarded = Guarded::new(verb, issuer, "");
            let warning = guarded.line();
            let begins = format!("warning: the authorization server {issuer} cannot be used: ");
            assert!(warning.starts_with(&begins), "{warning}");
            for part in [why, "with a token get 503", "without one 401", "/.well-known/"] {
                assert!(warning.contains(part), "{part}: {warning}");
            }
            assert_eq!(guarded.status(None), "401");
            assert_eq!(guarded.status(Some(&token(issuer))), "503");
            guarded.end();
        }
    }
}

#[test]
fn the_authority_of_a_company_is_trusted_where_it_is_named() {
    let company = Company::new("guard");
    let mut guarded = Guarded::new("serve", &company.base, "");
    let warning = guarded.line();
    assert!(warning.contains("certificate") && warning.contains("--auth-ca FILE"), "{warning}");
    guarded.end();
    let more = company.read("--auth-ca company-ca.pem");
    let guarded = Guarded::new("serve", &company.base, &more);
    company.is_asked();
    let rest = guarded.end();
    assert!(!rest.contains("warning"), "{rest}");
}

#[test]
fn a_resource_of_this_machine_at_another_port_is_warned_of() {
    let issuer = "http://127.0.0.1:1";
    for (resource, warns) in [
        ("http://127.0.0.1:2/mcp", true),
        ("http://localhost:2/mcp", true),
        ("http://[::1]:2/mcp", true),
        ("https://tools.example.com/mcp", false),
    ] {
        let mut guarded = Guarded::new("serve", issuer, &format!("--auth-resource {resource}"));
        let warning = guarded.line();
        let port = guarded.url.split(['/', ':']).nth(4).unwrap();
        assert_eq!(warning.contains(&format!("(port {port})")), warns, "{warning}");
        assert_eq!(warning.contains(resource), warns, "{warning}");
        guarded.end();
    }
}
