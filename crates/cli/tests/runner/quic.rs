//! Tests of servers over QUIC: `serve demo --listen quic://...` and targets of the form `quic://host:port`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ChildStderr;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::ports::Closed;
use super::support::{Ran, Running, command, line, run, scratch, start};

/// The demonstration server over QUIC. Ended when this is dropped.
struct Demo {
    running: Option<Running>,
    stderr: BufReader<ChildStderr>,
}

impl Demo {
    fn with(options: &[&str]) -> (Self, String) {
        let mut running = start(command(["serve", "demo", "--full"].iter().chain(options)));
        let stderr = BufReader::with_capacity(1, running.child.stderr.take().unwrap());
        let mut demo = Self { running: Some(running), stderr };
        let said = demo.says();
        let address = said.strip_prefix("listening on ").unwrap_or_else(|| panic!("{said}")).to_owned();
        (demo, address)
    }

    /// The next line of its standard error.
    fn says(&mut self) -> String {
        let mut said = String::new();
        self.stderr.read_line(&mut said).unwrap();
        said.trim_end().to_owned()
    }

    #[track_caller]
    fn ends(mut self, signal: &str, code: i32) {
        let running = self.running.take().unwrap();
        running.signal(signal);
        assert_eq!(running.finish().exits(code).stdout, "");
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

/// A demonstration server with its own key, its address, and the option that pins this key.
fn demo() -> (Demo, String, String) {
    let (mut demo, address) = Demo::with(&["--listen", "quic://127.0.0.1:0"]);
    let said = demo.says();
    // The printed command line can be copied as it is.
    let typed = said.split_once("mcpjoin list ").unwrap_or_else(|| panic!("{said}")).1;
    let pin = typed.strip_suffix(&address).unwrap_or_else(|| panic!("{said}")).trim().to_owned();
    assert!(pin.starts_with("--pin sha256:"), "{said}");
    (demo, address, pin)
}

#[test]
fn a_server_over_quic_is_asked_like_any_other() {
    let (server, address, pin) = demo();
    assert!(address.starts_with("quic://127.0.0.1:") && !address.ends_with(":0"), "{address}");
    for era in ["legacy", "modern"] {
        let ran = line(&format!("call {pin} --era {era} {address} echo message=hi")).exits(0);
        assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("hi\n", ""));
    }
    assert_eq!(
        line(&format!("list {pin} --json {address}")).exits(0).json()["serverInfo"]["name"],
        "mcpjoin-demo"
    );
    assert_eq!(line(&format!("read {pin} {address} test://static-binary")).exits(0).bytes.len(), 69);
    assert_eq!(line(&format!("ping {pin} -n 2 -i 1ms {address}")).exits(0).stdout.lines().count(), 3);
    server.ends("TERM", 143);
}

#[test]
fn a_server_over_quic_listens_beside_one_on_a_port() {
    let (mut server, tcp) = Demo::with(&["--listen", "tcp://127.0.0.1:0", "--listen", "quic://127.0.0.1:0"]);
    let said = server.says();
    let quic = said.strip_prefix("listening on ").unwrap_or_else(|| panic!("{said}"));
    let said = server.says();
    let pin = said.split_once("--pin ").unwrap().1.split_once(' ').unwrap().0;
    line(&format!("call {tcp} echo message=hi")).exits(0);
    line(&format!("call --pin {pin} {quic} echo message=hi")).exits(0);
    server.ends("INT", 130);
}

#[test]
fn who_is_not_trusted_or_not_there_is_named_with_what_to_do() {
    let (_server, address, _) = demo();
    // No option says which key or authority to trust.
    let ran = line(&format!("list {address}")).exits(2);
    assert!(ran.stderr.contains("--pin sha256:") && ran.stderr.contains("--ca FILE"), "{}", ran.stderr);
    let other = "ab".repeat(32);
    let ran = line(&format!("list --json --pin sha256:{other} {address}")).exits(4);
    assert_eq!(ran.failure()["id"], "E_TLS");
    assert!(ran.stderr.contains("--pin sha256:"), "{}", ran.stderr);
    // An invalid option is reported before a connection is made.
    line(&format!("list --pin sha256:xy {address}")).exits(2);
    line(&format!("list --pin sha256:{other} --ca x {address}")).exits(2);
    line(&format!("list --pin sha256:{other} --cert x {address}")).exits(2);
    line(&format!("list --pin sha256:{other} --header a:b {address}")).exits(2);
    for target in ["tcp://127.0.0.1:1", "http://127.0.0.1:1/mcp", "./no-such-server"] {
        let ran = line(&format!("list --pin sha256:{other} {target}")).exits(2);
        assert!(ran.stderr.contains("over QUIC"), "{}", ran.stderr);
    }
    // A port without a listener is reported at once.
    let closed = Closed::udp();
    let began = Instant::now();
    let ran = line(&format!("list --json --pin sha256:{other} quic://{closed}")).exits(4);
    assert_eq!(ran.failure()["id"], "E_CONNECT");
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    let ran = line(&format!("list --json --pin sha256:{other} quic://localhost")).exits(2);
    assert_eq!(ran.failure()["id"], "E_USAGE");
}

/// A folder with a certificate authority and certificates signed by it.
pub(crate) struct Certificates {
    folder: PathBuf,
    params: CertificateParams,
    key: KeyPair,
}

impl Certificates {
    pub(crate) fn new(name: &str) -> Self {
        let folder = scratch(name);
        fs::create_dir_all(&folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        fs::write(folder.join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { folder, params, key }
    }

    pub(crate) fn make(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let signed = params.signed_by(&key, &Issuer::from_params(&self.params, &self.key)).unwrap();
        fs::write(self.path(&format!("{name}.pem")), signed.pem()).unwrap();
        let path = self.path(&format!("{name}.key"));
        fs::write(&path, key.serialize_pem()).unwrap();
        fs::set_permissions(Path::new(&path), fs::Permissions::from_mode(0o600)).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn both_sides_show_certificates_where_the_server_asks_for_them() {
    let files = Certificates::new("quic-certificates");
    files.make("server");
    files.make("client");
    let stranger = Certificates::new("quic-stranger");
    stranger.make("client");
    let path = |name| files.path(name);
    let (server, address) = Demo::with(&[
        "--listen",
        "quic://127.0.0.1:0",
        "--cert",
        &path("server.pem"),
        "--key",
        &path("server.key"),
        "--client-ca",
        &path("ca.pem"),
    ]);
    let list = |options: &[&str]| -> Ran {
        run(["list", "--json"].iter().chain(options).chain([&address.as_str()]))
    };
    let (ca, cert, key) = (path("ca.pem"), path("client.pem"), path("client.key"));
    let listed = list(&["--ca", &ca, "--cert", &cert, "--key", &key]).exits(0);
    assert_eq!(listed.json()["serverInfo"]["name"], "mcpjoin-demo");

    let ran = list(&["--ca", &ca]).exits(3);
    assert_eq!(ran.failure()["id"], "E_AUTH");
    assert!(ran.stderr.contains("--cert FILE --key FILE"), "{}", ran.stderr);
    let (cert_of_other, key_of_other) = (stranger.path("client.pem"), stranger.path("client.key"));
    let ran = list(&["--ca", &ca, "--cert", &cert_of_other, "--key", &key_of_other]).exits(3);
    assert_eq!(ran.failure()["id"], "E_AUTH");
    let ran = list(&["--ca", &stranger.path("ca.pem"), "--cert", &cert, "--key", &key]).exits(4);
    assert_eq!(ran.failure()["id"], "E_TLS");
    // Files that do not contain what their options require.
    let ran = list(&["--ca", &ca, "--cert", &key, "--key", &cert]).exits(2);
    assert_eq!(ran.failure()["id"], "E_USAGE");
    let ran = list(&["--ca", "/no/such/file"]).exits(2);
    assert!(ran.stderr.contains("/no/such/file"), "{}", ran.stderr);
    server.ends("TERM", 143);
}

#[test]
fn options_of_quic_without_quic_are_refused() {
    let ran = line("serve demo --listen tcp://127.0.0.1:0 --client-ca x").exits(2);
    assert!(ran.stderr.contains("--client-ca works only over QUIC or HTTPS"), "{}", ran.stderr);
    line("serve demo --listen quic://127.0.0.1").exits(2);
    line("serve demo --listen quic://127.0.0.1:0/mcp").exits(2);
    let ran =
        line("serve demo --listen quic://127.0.0.1:0 --cert /no/such/file --key /no/such/file").exits(2);
    assert!(ran.stderr.contains("/no/such/file"), "{}", ran.stderr);
}

#[test]
fn a_server_that_ends_ends_its_clients_with_the_reason() {
    let (server, address, pin) = demo();
    let words = ["ping"].into_iter().chain(pin.split(' ')).chain(["-n", "100000", "-i", "1ms", &address]);
    let mut pinging = start(command(words));
    let mut first = String::new();
    BufReader::with_capacity(1, pinging.child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    server.ends("TERM", 143);
    let ran = pinging.finish().exits(4);
    assert!(ran.stderr.contains("closed the connection"), "{}", ran.stderr);
}

#[test]
fn the_doctor_says_part_by_part_what_is_wrong_with_a_server_over_quic() {
    let (server, address, pin) = demo();
    let ran = line(&format!("doctor {pin} {address}")).exits(0);
    for said in [
        "resolve",
        "connect",
        "verified by its key",
        "probe",
        "mcpjoin-demo",
        "list",
        "shut down",
        "no fault found",
    ] {
        assert!(ran.stdout.contains(said), "{said}: {}", ran.stdout);
    }
    let ran = line(&format!("doctor --json {pin} {address}")).exits(0).json();
    assert_eq!(ran["healthy"], true);
    assert_eq!(ran["phases"].as_array().unwrap().len(), 6);
    assert_eq!(format!("--pin {}", ran["certificate"]["pin"].as_str().unwrap()), pin);
    let other = "ab".repeat(32);
    let ran = line(&format!("doctor --pin sha256:{other} {address}")).exits(1);
    let shown = pin.strip_prefix("--pin ").unwrap();
    assert!(ran.stdout.contains("server-certificate") && ran.stdout.contains(shown), "{}", ran.stdout);
    server.ends("TERM", 143);
    let ran = line(&format!("doctor --json {pin} {address}")).exits(1).json();
    assert_eq!(ran["findings"][0]["id"], "unreached");
    line(&format!("doctor {address}")).exits(2);
}

#[test]
fn an_orchestrator_is_asked_like_any_other_server() {
    let home = scratch("quic-orchestra");
    let certs = home.join(".orchestra/certs");
    let certs = certs.to_str().unwrap();
    let listen = ["bridge", "--listen", "orchestra://127.0.0.1:0", "--certs-dir", certs, "demo:full"];
    let mut running = start(command(listen));
    let mut said = String::new();
    let mut stderr = BufReader::new(running.child.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    let server = Demo { running: Some(running), stderr };
    let address =
        said.trim_end().strip_prefix("listening on ").unwrap_or_else(|| panic!("{said}")).to_owned();
    let ask = |line: &str| {
        let mut asking = command(line.split(' '));
        asking.env("HOME", &home);
        start(asking).finish()
    };
    assert_eq!(ask(&format!("call {address} echo message=hi")).exits(0).stdout, "hi\n");
    let listed = ask(&format!("list --json {address}")).exits(0).json();
    assert!(listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "echo"), "{listed}");
    // Requests that only the local bridge would answer are refused.
    for verb in ["ping", "validate"] {
        ask(&format!("{verb} {address}"))
            .exits(2)
            .says(&["show mcpjoin's bridge", "mcpjoin doctor orchestra://"]);
    }
    let prompted = ask(&format!("prompt {address} test_simple_prompt")).exits(0).stdout;
    assert!(prompted.contains("This is a simple prompt for testing."), "{prompted}");
    // An option that does not fit is reported before the bridge starts.
    ask(&format!("list --pin sha256:{} {address}", "ab".repeat(32))).exits(2);
    server.ends("TERM", 143);
    // The host is gone. The bridge runs, and reports this.
    let ran = ask(&format!("call {address} echo message=hi"));
    assert!(ran.stderr.contains(address.strip_prefix("orchestra://").unwrap()), "{}", ran.stderr);
    assert_ne!(ran.stdout, "hi\n");
    let _ = fs::remove_dir_all(&home);
}
