//! A server over TLS that answers one request for each connection, for tests of whom we trust.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

/// The authority that has signed what stands in `fixtures/tls`.
pub const CA: &[u8] = include_bytes!("../fixtures/tls/ca.pem");
/// A certificate of that authority for `localhost`, which is in order.
pub const SERVER: &[u8] = include_bytes!("../fixtures/tls/server.pem");
/// One that has expired.
pub const EXPIRED: &[u8] = include_bytes!("../fixtures/tls/expired.pem");
/// One for another name.
pub const OTHER_NAME: &[u8] = include_bytes!("../fixtures/tls/other.pem");
/// One that is an authority's.
pub const AUTHORITY: &[u8] = include_bytes!("../fixtures/tls/authority.pem");
/// The key of all servers there.
pub const KEY: &[u8] = include_bytes!("../fixtures/tls/server.key");

/// Serves in a thread that ends with the process, and gives the port. `answer` is given what has come so far: `None` waits
/// for more.
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
