//! TLS: whom we trust, and what is said of whom we do not.

use std::net::TcpListener;
use std::sync::Arc;

use mcpjoin::link::{HttpConnect, Link};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use std::io::{Read as _, Write as _};

use crate::scripted::{Seen, builder, run};

const CA: &[u8] = include_bytes!("../fixtures/tls/ca.pem");

/// Serves one modern `server/discover` for each connection, in a thread that ends with the process.
fn server(certificate: &[u8]) -> u16 {
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("../fixtures/tls/server.key")).unwrap();
    let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let mut connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::Stream::new(&mut connection, &mut socket);
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            while !request.ends_with(b"}") {
                match stream.read(&mut piece) {
                    Ok(read @ 1..) => request.extend_from_slice(&piece[..read]),
                    _ => break,
                }
            }
            let Some(start) = request.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let seen = Seen::of(String::from_utf8(request[start + 4..].to_vec()).unwrap());
            let body = seen.result(&crate::scripted::discovered());
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    port
}

async fn connect(link: HttpConnect) -> Result<(), String> {
    let link = link.build().unwrap();
    builder().connect(link).await.map(drop).map_err(|error| error.to_string())
}

#[test]
fn an_extra_authority_is_trusted_and_the_name_is_checked() {
    run(async {
        let port = server(include_bytes!("../fixtures/tls/server.pem"));
        for host in ["localhost", "127.0.0.1"] {
            connect(Link::http(format!("https://{host}:{port}/")).extra_ca(CA)).await.unwrap();
        }
    });
}

#[test]
fn a_certificate_of_somebody_unknown_is_refused_and_the_error_names_its_issuer() {
    run(async {
        let port = server(include_bytes!("../fixtures/tls/server.pem"));
        let error = connect(Link::http(format!("https://localhost:{port}/"))).await.unwrap_err();
        assert!(error.contains("signed by An authority that nobody trusts (mcpjoin tests)"), "{error}");
    });
}

#[test]
fn a_certificate_that_has_expired_or_is_for_another_name_is_refused() {
    run(async {
        let port = server(include_bytes!("../fixtures/tls/expired.pem"));
        let error = connect(Link::http(format!("https://localhost:{port}/")).extra_ca(CA)).await.unwrap_err();
        assert!(error.contains("the certificate of localhost has expired"), "{error}");
        let port = server(include_bytes!("../fixtures/tls/other.pem"));
        let error = connect(Link::http(format!("https://localhost:{port}/")).extra_ca(CA)).await.unwrap_err();
        assert!(error.contains("not for localhost"), "{error}");
    });
}
