//! Tests of TLS: every kind of invalid certificate, and connections on which one side speaks no TLS.

use std::time::Duration;

use mcpjoin::Link;
use mcpjoin::transport::HttpConnect;
use mcpjoin_diagnostics::doctor::{Check, Doctor, Phase, Report};

use crate::alone;
use crate::http::{Canned, client};
use crate::support::run;
use crate::tls_server::{self, CA, KEY};

/// A server that answers 404 to every request.
fn server(certificate: &[u8], key: &[u8]) -> u16 {
    tls_server::server(certificate, key, |_| {
        Some("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".into())
    })
}

async fn examined(connect: HttpConnect) -> Report {
    Doctor::new(connect.connect_timeout(Duration::from_secs(3)), client()).examine().await
}

#[test]
fn each_invalid_certificate_is_diagnosed() {
    run(async {
        for (pem, id, seen) in [
            (mcpjoin_test_support::tls::EXPIRED, "certificate-expired", "has expired"),
            (mcpjoin_test_support::tls::OTHER_NAME, "certificate-name", "not for localhost"),
            (mcpjoin_test_support::tls::AUTHORITY, "certificate-self-signed", "is self-signed (localhost)"),
        ] {
            let port = server(pem, KEY);
            let report = examined(Link::http(format!("https://localhost:{port}/")).extra_ca(CA)).await;
            let findings = report.findings.iter().filter(|finding| finding.check != Check::Families);
            let [finding] = &findings.collect::<Vec<_>>()[..] else { panic!("{report:#?}") };
            assert_eq!((finding.id, finding.phase), (id, Phase::Tls));
            assert!(finding.seen.contains(seen), "{finding:#?}");
        }
        let port = server(mcpjoin_test_support::tls::SERVER, KEY);
        let report = examined(Link::http(format!("https://127.0.0.1:{port}/"))).await;
        let finding = alone(&report, "certificate-untrusted", Check::ServerCertificate);
        assert!(finding.seen.contains("An authority that nobody trusts"), "{finding:#?}");
        // With the authority the connection works, and the server has a fault of its own.
        let report = examined(Link::http(format!("https://127.0.0.1:{port}/")).extra_ca(CA)).await;
        alone(&report, "wrong-path", Check::Endpoint);
        let tls = report.steps.iter().find(|step| step.phase == Phase::Tls).unwrap();
        assert!(tls.detail.starts_with("TLS 1.3"), "{tls:?}");
        assert!(report.certificate.unwrap().names.contains(&"127.0.0.1".to_owned()));
    });
}

/// The forms in which people make certificates for a server of their own, each without an authority, with a file of exactly
/// that certificate, and with a file of another.
#[test]
fn a_self_signed_certificate_is_trusted_only_where_it_is_named() {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
    let form = |names: &[&str], common: &str, is_ca: IsCa, until: i32| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.is_ca = is_ca;
        params.distinguished_name.push(DnType::CommonName, common);
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let authority = || IsCa::Ca(BasicConstraints::Unconstrained);
    let other = form(&["localhost"], "localhost", authority(), 2090).0;
    run(async {
        for (what, (pem, key), with_ca) in [
            // openssl req -x509 -subj /CN=localhost
            ("an authority by its common name", form(&[], "localhost", authority(), 2090), "wrong-path"),
            ("an authority", form(&["localhost"], "My Dev Server", authority(), 2090), "wrong-path"),
            ("a server by its common name", form(&[], "localhost", IsCa::NoCa, 2090), "wrong-path"),
            ("a server", form(&["localhost"], "localhost", IsCa::ExplicitNoCa, 2090), "wrong-path"),
            ("another name", form(&["other.example"], "localhost", authority(), 2090), "certificate-name"),
            ("another common name", form(&[], "other.example", authority(), 2090), "certificate-name"),
            ("expired", form(&["localhost"], "localhost", authority(), 2002), "certificate-expired"),
        ] {
            let port = server(pem.as_bytes(), key.as_bytes());
            let url = format!("https://localhost:{port}/");
            for (ca, id) in [(Some(&pem), with_ca), (None, "certificate-"), (Some(&other), "certificate-")] {
                let connect = ca.iter().fold(Link::http(&url), |connect, ca| connect.extra_ca(ca.as_bytes()));
                let report = examined(connect).await;
                let finding = report.findings.iter().find(|finding| finding.check != Check::Families);
                let finding = finding.unwrap_or_else(|| panic!("{what}: {report:#?}"));
                assert!(finding.id.starts_with(id), "{what}, {id}: {finding:#?}");
                // An expired one may be named for that first.
                if id == "certificate-" && what != "expired" {
                    assert_eq!(finding.id, "certificate-self-signed", "{what}: {finding:#?}");
                    assert!(finding.advice.contains("--ca FILE"), "{finding:#?}");
                }
            }
        }
    });
}

#[test]
fn an_intercepting_authority_is_named() {
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    run(async {
        let (authority, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Zscaler Root CA");
        let issuer = Issuer::new(params, authority);
        let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = own.signed_by(&key, &issuer).unwrap();
        let port = server(certificate.pem().as_bytes(), key.serialize_pem().as_bytes());
        let report = examined(Link::http(format!("https://127.0.0.1:{port}/mcp"))).await;
        let finding = alone(&report, "certificate-intercepted", Check::ServerCertificate);
        assert!(finding.meaning.contains("Zscaler Root CA"), "{finding:#?}");
    });
}

#[test]
fn tls_on_one_side_only_is_found() {
    run(async {
        let canned =
            Canned::new(|_| Some("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".into())).await;
        let connect = Link::http(format!("https://127.0.0.1:{}/mcp", canned.port));
        let report = Doctor::new(connect.connect_timeout(Duration::from_secs(5)), client()).examine().await;
        let finding = alone(&report, "no-tls", Check::Tls);
        assert!(finding.advice.contains("http://"), "{finding:#?}");
        let port = server(mcpjoin_test_support::tls::SERVER, KEY);
        let report = examined(Link::http(format!("http://127.0.0.1:{port}/mcp"))).await;
        let finding = alone(&report, "tls-port", Check::Tls);
        assert!(finding.advice.contains("https://"), "{finding:#?}");
    });
}
