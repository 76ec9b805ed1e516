//! The certificate directory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use mcpjoin_orchestra::certs::Certificates;
use mcpjoin_orchestra::{ALPN, CLIENT_NAME, SERVER_NAME};
use mcpjoin_quic::endpoint::{CertificateErrorKind, CertificateFacts};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, DnValue, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_ED25519, SanType,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::Folder;

fn client(folder: &Folder) -> Certificates {
    let certificates = Certificates::in_directory(folder.path());
    certificates.client(CLIENT_NAME, ALPN).unwrap();
    certificates
}

fn facts(path: &Path) -> CertificateFacts {
    CertificateFacts::read(&CertificateDer::from_pem_file(path).unwrap()).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// All files of a directory except the lock, by name.
fn everything(folder: &Folder) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .filter(|(name, _)| name != ".lock")
        .collect();
    all.sort();
    all
}

fn names(folder: &Folder) -> Vec<String> {
    everything(folder).into_iter().map(|(name, _)| name).collect()
}

const DAY: i64 = 86_400;

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(since.as_secs()).unwrap()
}

fn put(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// An authority as Orchestra's own programs create it, valid from and to this many days from now.
fn authority(folder: &Folder, from: i64, to: i64) -> (CertificateParams, KeyPair) {
    fs::create_dir_all(folder.path()).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let text = |text: &str| DnValue::PrintableString(text.try_into().unwrap());
    params.distinguished_name.push(DnType::OrganizationName, text("Orchestra"));
    params.distinguished_name.push(DnType::CommonName, text("Orchestra CA"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    days(&mut params, from, to);
    put(&folder.file("ca.crt"), &params.self_signed(&key).unwrap().pem());
    put(&folder.file("ca.key"), &key.serialize_pem());
    (params, key)
}

fn days(params: &mut CertificateParams, from: i64, to: i64) {
    let at = |days: i64| {
        let seconds = u64::try_from(now() + days * DAY).unwrap();
        rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds)
    };
    (params.not_before, params.not_after) = (at(from), at(to));
}

#[test]
fn an_empty_folder_gets_an_authority_and_a_certificate_in_orchestras_profile() {
    let folder = Folder::new();
    client(&folder);
    assert_eq!(
        names(&folder),
        ["ca.crt", "ca.key", "transport.stdio-client.crt", "transport.stdio-client.key"]
    );
    assert_eq!(mode(folder.path()), 0o700);
    for name in names(&folder) {
        assert_eq!(mode(&folder.file(&name)), 0o600, "{name}");
    }
    let ca = facts(&folder.file("ca.crt"));
    assert_eq!(ca.subject, "Orchestra CA (Orchestra)");
    assert!(ca.is_authority);
    let leaf = facts(&folder.file("transport.stdio-client.crt"));
    assert_eq!(leaf.subject, "transport.stdio-client (Orchestra)");
    assert_eq!(leaf.issuer, ca.subject);
    assert_eq!(leaf.names, ["transport.stdio-client", "localhost", "127.0.0.1", "::1"]);
    assert!(leaf.for_servers && leaf.for_clients && !leaf.is_authority);
    for facts in [ca, leaf] {
        assert!((now() - 120..=now() - 60).contains(&facts.not_before), "a minute ago");
        assert_eq!(facts.not_after - facts.not_before, 365 * DAY + 60);
    }
    for key in ["ca.key", "transport.stdio-client.key"] {
        let pem = fs::read_to_string(folder.file(key)).unwrap();
        // 48 bytes of PKCS #8 version 1, in base64.
        assert!(pem.starts_with("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEI"), "{key}");
        assert_eq!(pem.lines().nth(1).unwrap().len(), 64, "{key}");
    }
}

#[test]
fn openssl_reads_the_profile_as_orchestra_writes_it() {
    let folder = Folder::new();
    client(&folder);
    let text = |name: &str| {
        let shown =
            Command::new("openssl").args(["x509", "-noout", "-text", "-in"]).arg(folder.file(name)).output();
        String::from_utf8(shown.expect("openssl is installed").stdout).unwrap()
    };
    let ca = text("ca.crt");
    for part in [
        "Issuer: O = Orchestra, CN = Orchestra CA",
        "Subject: O = Orchestra, CN = Orchestra CA",
        "Signature Algorithm: ED25519",
        "X509v3 Key Usage: critical\n                Certificate Sign, CRL Sign",
        "X509v3 Basic Constraints: critical\n                CA:TRUE, pathlen:1",
        "X509v3 Subject Key Identifier",
    ] {
        assert!(ca.contains(part), "{part}: {ca}");
    }
    let leaf = text("transport.stdio-client.crt");
    for part in [
        "Issuer: O = Orchestra, CN = Orchestra CA",
        "Subject: O = Orchestra, CN = transport.stdio-client",
        "X509v3 Key Usage: critical\n                Digital Signature",
        "X509v3 Extended Key Usage: \n                TLS Web Server Authentication, TLS Web Client Authentication",
        "DNS:transport.stdio-client, DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1",
        "X509v3 Authority Key Identifier",
    ] {
        assert!(leaf.contains(part), "{part}: {leaf}");
    }
    assert!(!leaf.contains("Subject Key Identifier"), "{leaf}");
}

#[test]
fn what_is_there_and_good_is_used_as_it_is() {
    let folder = Folder::new();
    let certificates = client(&folder);
    let before = everything(&folder);
    certificates.client(CLIENT_NAME, ALPN).unwrap();
    assert_eq!(everything(&folder), before);
    certificates.server(SERVER_NAME, true, ALPN).unwrap();
    let after: Vec<_> =
        everything(&folder).into_iter().filter(|(name, _)| !name.starts_with(SERVER_NAME)).collect();
    assert_eq!(after, before, "the server's are made beside them");
    assert!(certificates.report(CLIENT_NAME).is_good(), "{:?}", certificates.report(CLIENT_NAME));
}

#[test]
fn an_authority_of_another_make_is_used_and_never_replaced() {
    let folder = Folder::new();
    authority(&folder, -10, 300);
    let before = (fs::read(folder.file("ca.crt")).unwrap(), fs::read(folder.file("ca.key")).unwrap());
    let certificates = client(&folder);
    certificates.server(SERVER_NAME, true, ALPN).unwrap();
    assert_eq!((fs::read(folder.file("ca.crt")).unwrap(), fs::read(folder.file("ca.key")).unwrap()), before);
}

#[test]
fn what_begins_at_once_makes_one_authority() {
    // The test starts itself as processes, because threads would share the lock.
    const CHILD: &str = "MCPJOIN_TEST_CERTIFICATES";
    if let Some(folder) = std::env::var_os(CHILD) {
        let certificates = Certificates::in_directory(folder);
        let name = format!("plugin-{}", std::process::id() % 3);
        certificates.client(&name, ALPN).unwrap();
        certificates.server(SERVER_NAME, true, ALPN).unwrap();
        return;
    }
    let folder = Folder::new();
    let children: Vec<_> = (0..6)
        .map(|_| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "certs::what_begins_at_once_makes_one_authority"]);
            command.env(CHILD, folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
    }
    let issued = facts(&folder.file("ca.crt"));
    let certificates = Certificates::in_directory(folder.path());
    for name in names(&folder) {
        let Some(name) = name.strip_suffix(".crt").filter(|name| *name != "ca") else { continue };
        assert!(certificates.report(name).is_good(), "{:?}", certificates.report(name));
        assert_eq!(facts(&folder.file(&format!("{name}.crt"))).issuer, issued.subject);
    }
    assert!(!names(&folder).iter().any(|name| name.ends_with(".new")), "{:?}", names(&folder));
}

#[test]
fn threads_that_begin_at_once_make_one_authority() {
    let folder = Folder::new();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| client(&folder));
        }
    });
    assert!(Certificates::in_directory(folder.path()).report(CLIENT_NAME).is_good());
}

/// Files by name, with their contents.
type Files<'a> = &'a [(&'a str, &'a str)];

#[test]
fn a_crash_in_the_middle_leaves_what_the_next_one_finishes() {
    let whole = Folder::new();
    client(&whole);
    let [crt, key] = ["ca.crt", "ca.key"].map(|name| fs::read_to_string(whole.file(name)).unwrap());
    // The files after each step, and whether the authority of the crashed process is used in the end.
    let steps: [(&str, Files<'_>, bool); 6] = [
        ("half a key", &[(".ca.key.new", &key[..20])], false),
        ("the key beside its place", &[(".ca.key.new", &key)], false),
        ("half a certificate", &[(".ca.key.new", &key), (".ca.crt.new", &crt[..50])], false),
        ("both beside their places", &[(".ca.key.new", &key), (".ca.crt.new", &crt)], true),
        ("the key in its place", &[(".ca.key.new", &key), (".ca.crt.new", &crt), ("ca.key", &key)], true),
        ("both", &[(".ca.key.new", &key), (".ca.crt.new", &crt), ("ca.key", &key), ("ca.crt", &crt)], true),
    ];
    for (what, files, the_same) in steps {
        let folder = Folder::new();
        fs::create_dir_all(folder.path()).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        for (name, text) in files {
            put(&folder.file(name), text);
        }
        client(&folder);
        assert_eq!(fs::read_to_string(folder.file("ca.crt")).unwrap() == crt, the_same, "{what}");
        assert!(Certificates::in_directory(folder.path()).report(CLIENT_NAME).is_good(), "{what}");
        assert!(!names(&folder).iter().any(|name| name.ends_with(".new")), "{what}: {:?}", names(&folder));
    }
}

#[test]
fn half_an_authority_is_an_error_and_stays_as_it_is() {
    for (gone, there) in [("ca.crt", "ca.key"), ("ca.key", "ca.crt")] {
        let folder = Folder::new();
        client(&folder);
        for name in [gone, "transport.stdio-client.crt", "transport.stdio-client.key"] {
            fs::remove_file(folder.file(name)).unwrap();
        }
        let before = fs::read(folder.file(there)).unwrap();
        let error = Certificates::in_directory(folder.path()).client(CLIENT_NAME, ALPN).unwrap_err();
        assert!(error.to_string().contains(gone), "{error}");
        assert_eq!(fs::read(folder.file(there)).unwrap(), before);
        assert!(!folder.file(gone).exists());
    }
}

#[test]
fn a_certificate_is_used_where_there_is_no_key_to_sign_another() {
    let folder = Folder::new();
    client(&folder);
    fs::remove_file(folder.file("ca.key")).unwrap();
    client(&folder);
}

/// A certificate for the client, valid for these days and signed by this authority.
fn leaf(folder: &Folder, ca: &(CertificateParams, KeyPair), from: i64, to: i64) {
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let mut params = CertificateParams::new(vec![CLIENT_NAME.to_owned()]).unwrap();
    params.subject_alt_names.push(SanType::DnsName("tools.example.org".try_into().unwrap()));
    days(&mut params, from, to);
    let signed = params.signed_by(&key, &Issuer::from_params(&ca.0, &ca.1)).unwrap();
    put(&folder.file("transport.stdio-client.crt"), &signed.pem());
    put(&folder.file("transport.stdio-client.key"), &key.serialize_pem());
}

#[test]
fn h163_a_certificate_that_runs_out_is_made_anew_with_its_key_and_names() {
    for (from, to) in [(-400, -1), (-300, 20), (1, 300)] {
        let folder = Folder::new();
        let ca = authority(&folder, -500, 300);
        leaf(&folder, &ca, from, to);
        let key = fs::read(folder.file("transport.stdio-client.key")).unwrap();
        client(&folder);
        let made = facts(&folder.file("transport.stdio-client.crt"));
        assert!(made.not_after > now() + 300 * DAY && made.not_before < now(), "{made:?}");
        assert_eq!(fs::read(folder.file("transport.stdio-client.key")).unwrap(), key);
        assert!(made.names.iter().any(|name| name == "tools.example.org"), "{:?}", made.names);
    }
}

#[test]
fn a_certificate_of_another_authority_is_made_anew() {
    let (folder, other) = (Folder::new(), Folder::new());
    client(&folder);
    client(&other);
    for name in ["ca.crt", "ca.key"] {
        fs::copy(other.file(name), folder.file(name)).unwrap();
    }
    assert!(!Certificates::in_directory(folder.path()).report(CLIENT_NAME).is_good());
    client(&folder);
    assert!(Certificates::in_directory(folder.path()).report(CLIENT_NAME).is_good());
}

#[test]
fn the_authoritys_certificate_is_made_anew_with_its_name_and_key() {
    for to in [-1, 20] {
        let folder = Folder::new();
        let ca = authority(&folder, -345, to);
        leaf(&folder, &ca, -100, 200);
        let (old, key) = (facts(&folder.file("ca.crt")), fs::read(folder.file("ca.key")).unwrap());
        let signed = fs::read(folder.file("transport.stdio-client.crt")).unwrap();
        client(&folder);
        let new = facts(&folder.file("ca.crt"));
        assert!(new.not_after > now() + 300 * DAY, "{new:?}");
        assert_eq!(
            (&new.subject, new.key_hash, new.not_before),
            (&old.subject, old.key_hash, old.not_before)
        );
        assert_eq!(fs::read(folder.file("ca.key")).unwrap(), key);
        // Certificates that it has signed stay valid.
        assert_eq!(fs::read(folder.file("transport.stdio-client.crt")).unwrap(), signed);
    }
}

#[test]
fn an_authority_that_cannot_be_prolonged_says_when_it_has_expired() {
    let folder = Folder::new();
    authority(&folder, -400, -35);
    fs::remove_file(folder.file("ca.key")).unwrap();
    let error = Certificates::in_directory(folder.path()).client(CLIENT_NAME, ALPN).unwrap_err();
    assert!(matches!(error.kind, CertificateErrorKind::Expired(..)), "{error}");
    assert!(error.to_string().contains("ca.crt: it expired on 20"), "{error}");
    let folder = Folder::new();
    authority(&folder, 2, 300);
    let error = Certificates::in_directory(folder.path()).client(CLIENT_NAME, ALPN).unwrap_err();
    assert!(matches!(error.kind, CertificateErrorKind::NotYet(..)), "{error}");
}

#[test]
fn h164_a_key_that_others_can_read_is_refused() {
    for name in ["transport.stdio-client.key", "ca.key"] {
        for mode in [0o644, 0o640, 0o604, 0o620] {
            let folder = Folder::new();
            client(&folder);
            let before = fs::read(folder.file(name)).unwrap();
            fs::set_permissions(folder.file(name), fs::Permissions::from_mode(mode)).unwrap();
            let certificates = Certificates::in_directory(folder.path());
            // The authority's key is read when a certificate must be signed.
            let error = certificates
                .client(if name == "ca.key" { "another" } else { CLIENT_NAME }, ALPN)
                .unwrap_err();
            assert!(matches!(error.kind, CertificateErrorKind::Open { .. }), "{error}");
            assert!(error.to_string().contains(&format!("{name}: others may")), "{error}");
            assert!(error.to_string().contains("chmod 600"), "{error}");
            assert_eq!(fs::read(folder.file(name)).unwrap(), before);
            assert!(!certificates.report(CLIENT_NAME).is_good());
        }
    }
    let folder = Folder::new();
    client(&folder);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let error = Certificates::in_directory(folder.path()).client(CLIENT_NAME, ALPN).unwrap_err();
    assert!(error.to_string().contains("others may write to it (mode 777): `chmod 755`"), "{error}");
}

#[test]
fn what_is_given_by_hand_is_used_as_it_is() {
    let (folder, own) = (Folder::new(), Folder::new());
    client(&folder);
    let [ca, crt, key] =
        ["ca.crt", "transport.stdio-client.crt", "transport.stdio-client.key"].map(|name| folder.file(name));
    let given = Certificates::in_directory(own.path()).ca(&ca).pair(&crt, &key);
    given.client(CLIENT_NAME, ALPN).unwrap();
    assert!(!own.path().exists(), "nothing is made");
    // Each error names its file.
    let cases = [
        (Certificates::in_directory(own.path()).ca("/nowhere/ca.crt").pair(&crt, &key), "/nowhere/ca.crt: "),
        (
            Certificates::in_directory(own.path()).ca(&ca).pair(&crt, folder.file("ca.key")),
            "ca.key: the key does not belong to the certificate",
        ),
        (
            Certificates::in_directory(own.path()).ca(&ca).pair(&key, &key),
            "client.key: not a certificate: there is no certificate in it",
        ),
        (
            Certificates::in_directory(own.path()).ca(&ca).pair(&crt, &crt),
            "client.crt: not a usable private key",
        ),
    ];
    for (certificates, text) in cases {
        let error = certificates.client(CLIENT_NAME, ALPN).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    let expired = Folder::new();
    let signing = authority(&expired, -500, 300);
    leaf(&expired, &signing, -400, -1);
    let given =
        given.pair(expired.file("transport.stdio-client.crt"), expired.file("transport.stdio-client.key"));
    let error = given.client(CLIENT_NAME, ALPN).unwrap_err();
    assert!(error.to_string().contains("transport.stdio-client.crt: it expired on 20"), "{error}");
}

#[test]
fn a_folder_is_named_as_orchestra_names_it() {
    let home = std::env::home_dir().unwrap();
    let named = |name: &str| Certificates::directory_named(name).unwrap();
    assert_eq!(named(""), home.join(".orchestra/certs"));
    assert_eq!(named("~"), home);
    assert_eq!(named("~/x/y"), home.join("x/y"));
    assert_eq!(named("~other/x"), Path::new("~other/x"));
    assert_eq!(named("/a/b"), Path::new("/a/b"));
    for name in ["", "ca", "../x", "a/b", ".x", "a b"] {
        let folder = Folder::new();
        assert!(Certificates::in_directory(folder.path()).client(name, ALPN).is_err(), "{name}");
    }
}
