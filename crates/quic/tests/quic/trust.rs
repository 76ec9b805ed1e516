//! Authentication: each rejection has its reason on both sides.

use std::time::Duration;

use mcpjoin::{Client, Server};
use mcpjoin_quic::endpoint::{
    self as quic, Authorities, ClientAuth, ClientTls, Identity, QuicError, QuicErrorKind, QuicOptions,
    ServerTls, Trust,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::{Gate, Up, builder, run, text};

/// A test authority.
pub(crate) struct Authority {
    params: CertificateParams,
    key: KeyPair,
    pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { params, key, pem }
    }

    pub(crate) fn signs(&self, name: &str, hosts: &[&str]) -> Identity {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let signed = params.signed_by(&key, &Issuer::from_params(&self.params, &self.key)).unwrap();
        Identity::from_pem(signed.pem().as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    }

    pub(crate) fn trusted(&self) -> Authorities {
        Authorities::from_pem(self.pem.as_bytes()).unwrap()
    }
}

fn server() -> Server {
    builder(&Gate::default()).build().unwrap()
}

#[test]
fn both_sides_show_certificates_and_the_server_knows_its_client() {
    run(async {
        let authority = Authority::new("a");
        let (ours, theirs) = (authority.signs("ada", &[]), authority.signs("s", &["127.0.0.1"]));
        let trusted = authority.trusted();
        let listener = mcpjoin_quic::listen("127.0.0.1:0", move || {
            Ok((theirs.clone(), ClientAuth::Required(trusted.clone())))
        })
        .await
        .unwrap();
        let address = listener.address().socket_addr().unwrap().to_string();
        tokio::spawn(async move { server().serve_all(listener, std::future::pending()).await });
        let link = mcpjoin_quic::connect(address, Trust::Authorities(authority.trusted()))
            .identity(ours)
            .await
            .unwrap();
        let client = Client::builder("c", "1").connect(link).await.unwrap();
        let origin = text(&client.call_tool("origin", ()).await.unwrap());
        assert!(origin.ends_with(" (ada)"), "{origin}");
        client.close().await;
    });
}

/// The error of a client that is rejected, or that rejects.
async fn told(server: (Identity, ClientAuth), trust: Trust, ours: Option<Identity>) -> QuicError {
    let listener = mcpjoin_quic::listen("127.0.0.1:0", move || Ok(server.clone())).await.unwrap();
    let address = listener.address().socket_addr().unwrap().to_string();
    tokio::spawn(async move { self::server().serve_all(listener, std::future::pending()).await });
    let mut connect = mcpjoin_quic::connect(address, trust).timeout(Duration::from_secs(20));
    if let Some(ours) = ours {
        connect = connect.identity(ours);
    }
    connect.await.map(drop).unwrap_err()
}

#[test]
fn a_server_that_is_not_the_one_is_refused_with_the_reason() {
    run(async {
        let (one, other) = (Authority::new("one"), Authority::new("other"));
        let theirs = one.signs("s", &["127.0.0.1"]);
        let anybody = || (theirs.clone(), ClientAuth::Anybody);

        let error = told(anybody(), Trust::Key([7; 32]), None).await;
        assert!(matches!(error.kind, QuicErrorKind::Refused(_)), "{error}");
        assert!(error.to_string().contains("key"), "{error}");

        let error = told(anybody(), Trust::Authorities(other.trusted()), None).await;
        assert!(matches!(error.kind, QuicErrorKind::Refused(_)), "{error}");

        let elsewhere = (one.signs("s", &["example.org"]), ClientAuth::Anybody);
        let error = told(elsewhere, Trust::Authorities(one.trusted()), None).await;
        assert!(matches!(error.kind, QuicErrorKind::Refused(_)), "{error}");
        assert!(error.to_string().contains("example.org"), "{error}");
    });
}

#[test]
fn a_client_that_is_not_admitted_learns_why() {
    run(async {
        let (one, other) = (Authority::new("one"), Authority::new("other"));
        let theirs = one.signs("s", &["127.0.0.1"]);
        let required = || (theirs.clone(), ClientAuth::Required(one.trusted()));
        let trust = || Trust::Authorities(one.trusted());

        let error = told(required(), trust(), None).await;
        let QuicErrorKind::RefusedByPeer { what, .. } = &error.kind else { panic!("{error}") };
        assert!(what.contains("certificate_required"), "{what}");

        let error = told(required(), trust(), Some(other.signs("c", &[]))).await;
        let QuicErrorKind::RefusedByPeer { what, .. } = &error.kind else { panic!("{error}") };
        assert!(what.contains("unknown_ca") || what.contains("decrypt_error"), "{what}");
    });
}

#[test]
fn a_peer_with_another_protocol_is_refused_on_both_ends() {
    run(async {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let pin = identity.facts().unwrap().key_hash;
        let tls = ServerTls::new(identity, &ClientAuth::Anybody, "orchestra-plugin").unwrap();
        let listener = quic::Listener::bind("127.0.0.1:0", move || Ok(tls.clone()), QuicOptions::default())
            .await
            .unwrap();
        let address = listener.address().to_string();
        let accept = async { listener.accept().await.unwrap().establish().await.map(drop).unwrap_err() };
        let connect = mcpjoin_quic::connect(&address, Trust::Key(pin)).into_future();
        let (ours, theirs) = tokio::join!(connect, accept);
        let ours = ours.map(drop).unwrap_err();
        assert!(matches!(&ours.kind, QuicErrorKind::Protocol { ours } if ours == "mcp"), "{ours}");
        assert!(matches!(&theirs.kind, QuicErrorKind::Protocol { .. }), "{theirs}");

        // A client with another protocol connects to our server.
        let up = Up::new(server()).await;
        let tls = ClientTls::new(&Trust::Key(up.pin), None, "h3").unwrap();
        let error = quic::connect(&up.address.to_string(), &tls, &QuicOptions::default()).await.unwrap_err();
        assert!(matches!(&error.kind, QuicErrorKind::Protocol { .. }), "{error}");
    });
}

#[test]
fn certificates_that_have_changed_count_from_the_next_connection_on() {
    run(async {
        let identities = [(); 2].map(|()| Identity::self_signed(["localhost"]).unwrap());
        let pins = identities.clone().map(|identity| identity.facts().unwrap().key_hash);
        let shown = std::sync::Arc::new(std::sync::Mutex::new(identities[0].clone()));
        let asked = shown.clone();
        let who = move || Ok((asked.lock().unwrap().clone(), ClientAuth::Anybody));
        let listener = mcpjoin_quic::listen("127.0.0.1:0", who).await.unwrap();
        let address = listener.address().socket_addr().unwrap().to_string();
        tokio::spawn(async move { server().serve_all(listener, std::future::pending()).await });
        let first = mcpjoin_quic::connect(&address, Trust::Key(pins[0])).await.unwrap();
        *shown.lock().unwrap() = identities[1].clone();
        mcpjoin_quic::connect(&address, Trust::Key(pins[0])).await.map(drop).unwrap_err();
        mcpjoin_quic::connect(&address, Trust::Key(pins[1])).await.unwrap();
        // The existing connection continues.
        Client::builder("c", "1").connect(first).await.unwrap().close().await;
    });
}
