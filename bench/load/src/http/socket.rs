//! The stream of a connection: TCP, or TLS over it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

pub(super) struct Socket {
    pub(super) tcp: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Socket {
    pub(super) fn connect(address: SocketAddr, tls: Option<&Arc<ClientConfig>>) -> Result<Self, String> {
        let tcp = TcpStream::connect(address).map_err(|error| error.to_string())?;
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        let tls = tls.map(|tls| ClientConnection::new(tls.clone(), name)).transpose();
        Ok(Self { tcp, tls: tls.map_err(|error| error.to_string())?.map(Box::new) })
    }
}

impl Read for Socket {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => Stream::new(&mut **tls, &mut self.tcp).read(piece),
            None => self.tcp.read(piece),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => Stream::new(&mut **tls, &mut self.tcp).write(bytes),
            None => self.tcp.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => Stream::new(&mut **tls, &mut self.tcp).write_vectored(parts),
            None => self.tcp.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => Stream::new(&mut **tls, &mut self.tcp).flush(),
            None => Ok(()),
        }
    }
}

/// The certificate that a command names behind `--cert`, as the only one that is trusted; none in a command without it.
pub(super) fn trusted(command: &[String]) -> Result<Option<Arc<ClientConfig>>, String> {
    let Some(path) = command.iter().skip_while(|word| *word != "--cert").nth(1) else { return Ok(None) };
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(path).map_err(|error| format!("{path}: {error}"))?;
    roots.add(certificate).map_err(|error| format!("{path}: {error}"))?;
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    Ok(Some(Arc::new(config)))
}

/// Writes `cert.pem` and `key.pem` for 127.0.0.1 into a folder, unless they are there.
pub(crate) fn certificate(folder: &str) -> Result<serde_json::Value, String> {
    let folder = Path::new(folder);
    if !folder.join("key.pem").exists() {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])
            .map_err(|error| error.to_string())?;
        let failed = |error: io::Error| error.to_string();
        std::fs::create_dir_all(folder).map_err(failed)?;
        std::fs::write(folder.join("cert.pem"), made.cert.pem()).map_err(failed)?;
        // A server refuses a key that others may read.
        let mut key = File::options();
        let key = key.write(true).create_new(true).mode(0o600).open(folder.join("key.pem"));
        let written = key.and_then(|mut key| key.write_all(made.signing_key.serialize_pem().as_bytes()));
        written.map_err(failed)?;
    }
    Ok(serde_json::json!({ "folder": folder }))
}
