//! Group H's twelve bad certificates: six that a client presents, six that a server presents. Each is rejected, no
//! stream is ever opened, and both sides report the reason.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::client::{Orchestrator, OrchestratorOptions, SetupError};
use mcpjoin_orchestra::{ALPN, CLIENT_NAME, SERVER_NAME};
use mcpjoin_quic::endpoint::{
    self as quic, Authorities, ClientAuth, ClientTls, Identity, Listener, QuicError, QuicErrorKind,
    QuicOptions, ServerTls, Trust,
};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519,
};

use crate::{Folder, run};

/// A test authority.
struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { params, key, pem }
    }

    /// A certificate for `localhost` with changes.
    fn signs(&self, change: impl FnOnce(&mut CertificateParams)) -> Shown {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let mut params =
            CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "somebody");
        change(&mut params);
        let signed = params.signed_by(&key, &Issuer::from_params(&self.params, &self.key)).unwrap();
        Shown { certificate: signed.pem(), key: key.serialize_pem() }
    }

    fn trusted(&self) -> Authorities {
        Authorities::from_pem(self.pem.as_bytes()).unwrap()
    }
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
struct Shown {
    certificate: String,
    key: String,
}

impl Shown {
    fn identity(&self) -> Identity {
        Identity::from_pem(self.certificate.as_bytes(), self.key.as_bytes()).unwrap()
    }
}

fn expired(params: &mut CertificateParams) {
    params.not_after = rcgen::date_time_ymd(2020, 2, 29);
}

fn early(params: &mut CertificateParams) {
    params.not_before = rcgen::date_time_ymd(2999, 1, 1);
}

fn only(usage: ExtendedKeyUsagePurpose) -> impl FnOnce(&mut CertificateParams) {
    move |params| params.extended_key_usages = vec![usage]
}

/// The errors of a failed handshake: the client's, then the server's.
fn refused(client: &ClientTls, server: ServerTls) -> (QuicError, QuicError) {
    run(async {
        let server = move || Ok(server.clone());
        let listener = Listener::bind("127.0.0.1:0", server, QuicOptions::default()).await.unwrap();
        let address = listener.address().to_string();
        let options = QuicOptions::default();
        let accept = async { listener.accept().await.unwrap().establish().await };
        let (ours, theirs) = tokio::join!(quic::connect(&address, client, &options), accept);
        let theirs = match theirs {
            Err(theirs) => theirs,
            // A client completes its handshake before the server rejects it.
            Ok(connection) => connection.accept().await.expect_err("no stream is opened"),
        };
        (ours.expect_err("the client was accepted"), theirs)
    })
}

/// The bridge fails with the same error, at once and permanently.
fn the_bridge_gives_up(shown: &Shown, trusted: &Authority, server: ServerTls, says: &str) {
    let folder = Folder::new();
    fs::create_dir_all(folder.path()).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.file(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let certificates = Certificates::in_directory(folder.path())
        .ca(file("trusted.crt", &trusted.pem))
        .pair(file("shown.crt", &shown.certificate), file("shown.key", &shown.key));
    run(async {
        let server = move || Ok(server.clone());
        let listener = Listener::bind("127.0.0.1:0", server, QuicOptions::default()).await.unwrap();
        let address = listener.address().to_string();
        let options = OrchestratorOptions::default();
        let orchestrator = match Orchestrator::quic(&address, certificates, options).await {
            Ok(orchestrator) => orchestrator,
            // Problems that our own certificate shows are reported before connecting.
            Err(SetupError::Certificate(error)) => {
                let error = error.to_string();
                assert!(error.contains("shown.crt"), "{error}");
                assert!(error.contains("2020-02-29") || error.contains("2999-01-01"), "{error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let accept = async {
            // A client that learns of the rejection only after its handshake is connected until then.
            if let Ok(connection) = listener.accept().await.unwrap().establish().await {
                connection.closed().await;
            }
        };
        let (refused, ()) = tokio::join!(orchestrator.connected(0), accept);
        let refused = refused.expect_err("it has to end with 2");
        assert!(matches!(refused, SetupError::Refused(_)), "{refused}");
        assert!(refused.to_string().contains(says) && refused.to_string().contains(&address), "{refused}");
        let error = orchestrator.list_tools().await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    });
}

/// A client presents a bad certificate. The server reports `reason`, and the client the meaning of the alert.
fn client_is_refused(shown: Option<Shown>, trusted: &Authority, reason: &str, received: &str) {
    let server = trusted.signs(|_| {}).identity();
    let identity = shown.as_ref().map(Shown::identity);
    let server = ServerTls::new(server, &ClientAuth::Required(trusted.trusted()), ALPN).unwrap();
    let client = ClientTls::new(&Trust::Authorities(trusted.trusted()), identity, ALPN).unwrap();
    let (ours, theirs) = refused(&client, server.clone());
    assert!(theirs.to_string().contains(reason), "the server says: {theirs}");
    assert!(matches!(ours.kind, QuicErrorKind::RefusedByPeer { .. }), "the client says: {ours}");
    assert!(ours.to_string().contains(received), "the client says: {ours}");
    // The bridge always has a certificate.
    if let Some(shown) = shown {
        the_bridge_gives_up(&shown, trusted, server, received);
    }
}

/// A server presents a bad certificate. The client reports `reason`, and the server the meaning of the alert.
fn server_is_refused(server: &Shown, trusted: &Authority, reason: &str, received: &str) {
    let shown = trusted.signs(|_| {});
    let client = Some(shown.identity());
    let client = ClientTls::new(&Trust::Authorities(trusted.trusted()), client, ALPN).unwrap();
    let server = ServerTls::new(server.identity(), &ClientAuth::Required(trusted.trusted()), ALPN).unwrap();
    let (ours, theirs) = refused(&client, server.clone());
    assert!(matches!(ours.kind, QuicErrorKind::Refused(_)), "the client says: {ours}");
    assert!(ours.to_string().contains(reason), "the client says: {ours}");
    assert!(theirs.to_string().contains(received), "the server says: {theirs}");
    the_bridge_gives_up(&shown, trusted, server, reason);
}

#[test]
fn h146_a_client_without_a_certificate_is_refused() {
    let ca = Authority::new("one");
    client_is_refused(None, &ca, "no certificate", "the peer requires a certificate, but none was sent");
}

#[test]
fn h147_a_client_of_another_authority_is_refused() {
    let (ca, other) = (Authority::new("one"), Authority::new("other"));
    let reason =
        "`somebody`, signed by `other`, is signed by another authority: both sides need the same ca.crt";
    client_is_refused(Some(other.signs(|_| {})), &ca, reason, "is not trusted there (unknown_ca)");
}

#[test]
fn h147_an_expired_client_is_refused() {
    let ca = Authority::new("one");
    let reason = "expired on 2020-02-29 00:00:00 UTC";
    client_is_refused(Some(ca.signs(expired)), &ca, reason, "(certificate_expired)");
}

#[test]
fn h147_a_client_that_is_not_valid_yet_is_refused() {
    let ca = Authority::new("one");
    let reason = "is not valid before 2999-01-01 00:00:00 UTC";
    client_is_refused(Some(ca.signs(early)), &ca, reason, "it rejects our certificate");
}

#[test]
fn h147_a_client_with_a_certificate_for_servers_is_refused() {
    let ca = Authority::new("one");
    let identity = ca.signs(only(ExtendedKeyUsagePurpose::ServerAuth));
    client_is_refused(Some(identity), &ca, "is only for servers", "it rejects our certificate");
}

#[test]
fn h148_a_server_of_another_authority_is_refused() {
    let (ca, other) = (Authority::new("one"), Authority::new("other"));
    let reason = "signed by `other`, is signed by another authority: both sides need the same ca.crt";
    server_is_refused(&other.signs(|_| {}), &ca, reason, "is not trusted there (unknown_ca)");
}

#[test]
fn h148_an_expired_server_is_refused() {
    let ca = Authority::new("one");
    server_is_refused(&ca.signs(expired), &ca, "expired on 2020-02-29", "(certificate_expired)");
}

#[test]
fn h148_a_server_that_is_not_valid_yet_is_refused() {
    let ca = Authority::new("one");
    server_is_refused(&ca.signs(early), &ca, "is not valid before 2999-01-01", "it rejects our certificate");
}

#[test]
fn h148_a_server_with_a_certificate_for_clients_is_refused() {
    let ca = Authority::new("one");
    let identity = ca.signs(only(ExtendedKeyUsagePurpose::ClientAuth));
    server_is_refused(&identity, &ca, "is only for clients", "it rejects our certificate");
}

#[test]
fn h148_a_server_of_another_name_is_refused() {
    let ca = Authority::new("one");
    let identity = ca.signs(|params| {
        params.subject_alt_names = vec![rcgen::SanType::DnsName("orchestrator".try_into().unwrap())];
    });
    let reason = "is for `orchestrator`, and not for the requested name (--server-name)";
    server_is_refused(&identity, &ca, reason, "it rejects our certificate");
    // Under the name in the certificate it is accepted.
    let client =
        ClientTls::new(&Trust::Authorities(ca.trusted()), Some(ca.signs(|_| {}).identity()), ALPN).unwrap();
    let server = ServerTls::new(identity.identity(), &ClientAuth::Required(ca.trusted()), ALPN).unwrap();
    run(async {
        let listener =
            Listener::bind("127.0.0.1:0", move || Ok(server.clone()), QuicOptions::default()).await.unwrap();
        let (address, client) = (listener.address().to_string(), client.server_name("orchestrator"));
        let accept = async { listener.accept().await.unwrap().establish().await };
        let options = QuicOptions::default();
        let (ours, theirs) = tokio::join!(quic::connect(&address, &client, &options), accept);
        ours.unwrap();
        theirs.unwrap();
    });
}

/// The files of the authority and of this name.
fn files(folder: &Folder, name: &str) -> [PathBuf; 4] {
    [
        folder.file("ca.crt"),
        folder.file("ca.key"),
        folder.file(&format!("{name}.crt")),
        folder.file(&format!("{name}.key")),
    ]
}

/// A listener and a client of one directory connect once. Then the authority is removed and created again, while one
/// side still has the old certificates in memory.
fn authority_is_removed(old_client: bool) -> (QuicError, QuicError) {
    let folder = Folder::new();
    let certificates = Certificates::in_directory(folder.path());
    let of_folder = certificates.clone();
    let old_server = certificates.server(SERVER_NAME, true, ALPN).unwrap();
    let client = certificates.client(CLIENT_NAME, ALPN).unwrap();
    run(async move {
        let server = move || {
            if old_client { of_folder.server(SERVER_NAME, true, ALPN) } else { Ok(old_server.clone()) }
        };
        let listener = Listener::bind("127.0.0.1:0", server, QuicOptions::default()).await.unwrap();
        let (address, options) = (listener.address().to_string(), QuicOptions::default());
        let establish = async || listener.accept().await.unwrap().establish().await;
        let (ours, theirs) = tokio::join!(quic::connect(&address, &client, &options), establish());
        ours.unwrap().close(0, "");
        theirs.unwrap();
        for file in files(&folder, CLIENT_NAME).iter().chain(&files(&folder, SERVER_NAME)[2..]) {
            fs::remove_file(file).unwrap();
        }
        let client = if old_client { client } else { certificates.client(CLIENT_NAME, ALPN).unwrap() };
        let (ours, theirs) = tokio::join!(quic::connect(&address, &client, &options), establish());
        let theirs = match theirs {
            Err(theirs) => theirs,
            Ok(connection) => connection.accept().await.unwrap_err(),
        };
        (ours.unwrap_err(), theirs)
    })
}

#[test]
fn h147_h163_a_client_of_an_authority_that_was_removed_is_refused_by_a_server_that_runs_on() {
    let (ours, theirs) = authority_is_removed(true);
    // The client still has the old authority and rejects the new server's certificate first.
    assert!(ours.to_string().contains("has the name of the authority, but not its signature"), "{ours}");
    assert!(theirs.to_string().contains("it rejects our certificate"), "{theirs}");
}

#[test]
fn h148_h163_a_server_of_an_authority_that_was_removed_is_refused_without_a_restart() {
    let (ours, theirs) = authority_is_removed(false);
    assert!(ours.to_string().contains("has the name of the authority, but not its signature"), "{ours}");
    assert!(theirs.to_string().contains("it rejects our certificate"), "{theirs}");
}

#[test]
fn a_pinned_key_is_taken_with_any_signature_and_no_other_key() {
    let ca = Authority::new("one");
    let identity = ca.signs(|params| params.subject_alt_names.clear()).identity();
    let hash = identity.facts().unwrap().key_hash;
    let server = ServerTls::new(identity, &ClientAuth::Anybody, "mcp").unwrap();
    let wrong = ClientTls::new(&Trust::Key([7; 32]), None, "mcp").unwrap();
    let (ours, _) = refused(&wrong, server.clone());
    assert!(ours.to_string().contains("its public key is not the pinned one"), "{ours}");
    run(async {
        let listener =
            Listener::bind("127.0.0.1:0", move || Ok(server.clone()), QuicOptions::default()).await.unwrap();
        let (address, mut options) = (listener.address().to_string(), QuicOptions::default());
        options.connect_timeout = Duration::from_secs(20);
        let right = ClientTls::new(&Trust::Key(hash), None, "mcp").unwrap();
        let accept = async { listener.accept().await.unwrap().establish().await };
        let (ours, theirs) = tokio::join!(quic::connect(&address, &right, &options), accept);
        ours.unwrap();
        assert_eq!(theirs.unwrap().peer_name(), None);
    });
}
