//! A server over TLS that answers one request on each connection, for tests of certificate verification.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

/// The certificate authority that has signed the certificates in `fixtures/tls`.
pub const CA: &[u8] = include_bytes!("../fixtures/tls/ca.pem");
/// A valid certificate of that authority for `localhost`.
pub const SERVER: &[u8] = include_bytes!("../fixtures/tls/server.pem");
/// An expired certificate.
pub const EXPIRED: &[u8] = include_bytes!("../fixtures/tls/expired.pem");
/// A certificate for another name.
pub const OTHER_NAME: &[u8] = include_bytes!("../fixtures/tls/other.pem");
/// A certificate of an authority.
pub const AUTHORITY: &[u8] = include_bytes!("../fixtures/tls/authority.pem");
/// The key of all these servers.
pub const KEY: &[u8] = include_bytes!("../fixtures/tls/server.key");

/// Serves on a thread that ends with the process, and returns the port. `answer` gets the bytes that have arrived so far;
/// `None` means to wait for more.
pub fn server(
    certificate: &[u8],
    key: &[u8],
    answer: impl Fn(&[u8]) -> Option<String> + Send + 'static,
) -> u16 {
    let key = PrivateKeyDer::from_pem_slice(key).unwrap();
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
            let (mut request, mut piece) = (Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = stream.read(&mut piece) {
                request.extend_from_slice(&piece[..read]);
                if let Some(answer) = answer(&request) {
                    let _ = stream.write_all(answer.as_bytes());
                    break;
                }
            }
        }
    });
    port
}
