//! Identities, trust, and TLS 1.3 with ring.
//!
//! Every connection has its own TLS configuration, which records why the peer's certificate was rejected. TLS itself
//! reports only a one-byte alert.

mod certificate;
mod error;
mod time;
mod verify;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier, danger::ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, version};

pub use certificate::CertificateFacts;
pub use error::check_private;
pub use error::{CertificateError, CertificateErrorKind};
pub use time::{Moment, now};

use super::connection::Rejection;
use super::reset;
use verify::{PinnedKeyVerifier, RecordingVerifier};

/// A certificate with its private key.
#[derive(Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    /// Derived from the private key, for the stateless resets of a listener.
    secret: [u8; 32],
}

/// Certificates of authorities.
#[derive(Clone, Debug)]
pub struct Authorities {
    certificates: Vec<CertificateDer<'static>>,
    /// The source of the certificates, for errors.
    place: Arc<str>,
}

/// How a client authenticates the server.
#[derive(Clone, Debug)]
pub enum Trust {
    /// The certificate must be signed by one of these authorities, for the requested name.
    Authorities(Authorities),
    /// The public key must have this SHA-256, computed over the DER of its `SubjectPublicKeyInfo`. The rest of the
    /// certificate is ignored. [`CertificateFacts::key_hash`] has it.
    Key([u8; 32]),
}

/// What a server requires of its clients.
#[derive(Clone, Debug)]
pub enum ClientAuth {
    /// A certificate of these authorities.
    Required(Authorities),
    /// A certificate of these authorities, or none.
    CheckedIfGiven(Authorities),
    /// Nothing. A certificate that a client presents is ignored.
    Anybody,
}

/// The TLS settings of a client. Cheap to clone.
#[derive(Clone)]
pub struct ClientTls {
    verifier: Arc<dyn ServerCertVerifier>,
    identity: Option<Identity>,
    server_name: Option<String>,
    alpn: Arc<str>,
    provider: Arc<CryptoProvider>,
}

/// The TLS settings of a server. Cheap to clone.
#[derive(Clone)]
pub struct ServerTls {
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    identity: Identity,
    alpn: Arc<str>,
    provider: Arc<CryptoProvider>,
}

/// What is wrong with a text that looks like PEM and cannot be read.
const BROKEN_PEM: &str = "a section of the PEM text has no END line, or its content is not base64";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Identity {
    /// Reads two PEM files: the certificate, followed by intermediate certificates if any, and its private key. Only
    /// the owner may have access to the key's file.
    ///
    /// # Errors
    /// [`CertificateError`] names the file, the problem, and what to do.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let chain = error::read(certificate)?;
        let secret = error::read_secret(key)?;
        Self::from_pem(&chain, &secret).map_err(|error| error.of(certificate, key))
    }

    /// Parses the certificate and the key from PEM in memory.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain = certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
            let what = match error {
                pem::Error::NoItemsFound => "there is no private key in it",
                _ => BROKEN_PEM,
            };
            CertificateErrorKind::Key(what.to_owned())
        })?;
        let secret = reset::secret(key.secret_der());
        let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => CertificateErrorKind::KeyMismatch,
            // rustls begins this text with "unexpected error".
            rustls::Error::General(what) => CertificateErrorKind::Key(what),
            error => CertificateErrorKind::Key(error.to_string()),
        })?;
        Ok(Self { certified: Arc::new(certified), secret })
    }

    /// Generates a key and a self-signed certificate for these host names or addresses. Peers can trust it only by its
    /// key ([`Trust::Key`], [`CertificateFacts::key_hash`]). Nothing is stored.
    ///
    /// # Errors
    /// [`CertificateError`] if one of the names is invalid.
    pub fn self_signed<N: Into<String>>(
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, CertificateError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let generated = rcgen::generate_simple_self_signed(names).map_err(tls_error)?;
        Self::from_pem(generated.cert.pem().as_bytes(), generated.signing_key.serialize_pem().as_bytes())
    }

    /// The fields of its certificate; `None` if it is malformed.
    #[must_use]
    pub fn facts(&self) -> Option<CertificateFacts> {
        CertificateFacts::read(self.certified.cert.first()?)
    }

    /// Checks that the certificate is valid now.
    #[doc(hidden)]
    pub fn check_validity(&self) -> Result<(), CertificateErrorKind> {
        let Some(facts) = self.facts() else { return Ok(()) };
        if facts.ends() < now() {
            return Err(CertificateErrorKind::Expired(facts.ends().to_string(), "put a new one there"));
        }
        if facts.begins() > now() {
            return Err(CertificateErrorKind::NotYet(facts.begins().to_string()));
        }
        Ok(())
    }

    /// Checks that these authorities have signed it for both sides and for `name`. Returns the reason if not.
    #[doc(hidden)]
    pub fn verify_against(&self, authorities: &Authorities, name: &str) -> Result<(), String> {
        let Some((certificate, chain)) = self.certified.cert.split_first() else {
            return Err("there is no certificate".to_owned());
        };
        let clients = authorities.client_verifier(true).map_err(|error| error.to_string())?;
        let servers = authorities.server_verifier().map_err(|error| error.to_string())?;
        let why = |error| verify::reason(certificate, &error);
        clients.verify_client_cert(certificate, chain, UnixTime::now()).map_err(why)?;
        // A name that is not a host name cannot be requested either.
        if let Ok(name) = ServerName::try_from(name) {
            servers.verify_server_cert(certificate, chain, &name, &[], UnixTime::now()).map_err(why)?;
        }
        Ok(())
    }
}

impl Authorities {
    /// Reads a PEM file with one or more certificates.
    ///
    /// # Errors
    /// [`CertificateError`] names the file, the problem, and what to do.
    pub fn from_file(path: &Path) -> Result<Self, CertificateError> {
        let pem = error::read(path)?;
        let certificates = certificates(&pem).map_err(|kind| CertificateError::at(path, kind))?;
        Ok(Self { certificates, place: path.display().to_string().into() })
    }

    /// Parses one or more certificates from PEM in memory.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn from_pem(pem: &[u8]) -> Result<Self, CertificateError> {
        Ok(Self { certificates: certificates(pem)?, place: "the given authorities".into() })
    }

    /// The fields of the first certificate.
    #[doc(hidden)]
    pub fn facts(&self) -> Option<CertificateFacts> {
        CertificateFacts::read(self.certificates.first()?)
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, CertificateError> {
        let mut roots = RootCertStore::empty();
        for certificate in &self.certificates {
            roots.add(certificate.clone()).map_err(|error| self.invalid(error))?;
        }
        Ok(Arc::new(roots))
    }

    /// A verifier of server certificates that these authorities have signed.
    pub(crate) fn server_verifier(&self) -> Result<Arc<WebPkiServerVerifier>, CertificateError> {
        let built = WebPkiServerVerifier::builder_with_provider(self.roots()?, provider()).build();
        built.map_err(|error| self.invalid(error))
    }

    /// A verifier of client certificates that these authorities have signed.
    pub(crate) fn client_verifier(
        &self,
        required: bool,
    ) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
        let builder = WebPkiClientVerifier::builder_with_provider(self.roots()?, provider());
        let builder = if required { builder } else { builder.allow_unauthenticated() };
        builder.build().map_err(|error| self.invalid(error))
    }

    fn invalid(&self, error: impl fmt::Display) -> CertificateError {
        CertificateErrorKind::Authority(self.place.to_string(), error.to_string()).into()
    }
}

fn tls_error(error: impl fmt::Display) -> CertificateErrorKind {
    CertificateErrorKind::Tls(error.to_string())
}

/// Parses the certificates of a PEM text. There must be at least one.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateErrorKind> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    // The error of the parser prints bytes as a list of numbers.
    let found = found.map_err(|_| CertificateErrorKind::Pem(BROKEN_PEM.to_owned()))?;
    if found.is_empty() {
        return Err(CertificateErrorKind::Pem("there is no certificate in it".to_owned()));
    }
    match found.iter().any(|certificate| CertificateFacts::read(certificate).is_none()) {
        true => {
            Err(CertificateErrorKind::Pem("it contains something other than X.509 certificates".to_owned()))
        }
        false => Ok(found),
    }
}

impl ClientTls {
    /// TLS settings for a client that authenticates servers by `trust`, presents `identity` if a server asks for a
    /// certificate, and speaks the application protocol `alpn`.
    ///
    /// # Errors
    /// [`CertificateError`] if an authority is invalid.
    pub fn new(trust: &Trust, identity: Option<Identity>, alpn: &str) -> Result<Self, CertificateError> {
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Authorities(authorities) => authorities.server_verifier()?,
            Trust::Key(hash) => Arc::new(PinnedKeyVerifier::new(*hash, provider())),
        };
        Ok(Self { verifier, identity, server_name: None, alpn: alpn.into(), provider: provider() })
    }

    /// Sets the name that the server's certificate must have. Default: the host of the address.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    pub(super) fn alpn(&self) -> &str {
        &self.alpn
    }

    /// The server name for this host, which may be an address.
    pub(super) fn name_for(&self, host: &str) -> Result<String, CertificateError> {
        let name = self.server_name.as_deref().unwrap_or(host);
        // The zone of a link-local address is meaningful on this machine only.
        let name = name.split('%').next().unwrap_or(name);
        match ServerName::try_from(name) {
            Ok(_) => Ok(name.to_owned()),
            Err(_) => Err(CertificateErrorKind::Name(name.to_owned()).into()),
        }
    }

    /// The configuration of one connection. If the server's certificate is rejected, `rejection` gets the reason.
    pub(super) fn config(&self, rejection: &Rejection) -> Result<quinn::ClientConfig, CertificateError> {
        let verifier = RecordingVerifier::new(self.verifier.clone(), rejection.clone());
        let builder = rustls::ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(tls_error)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &self.identity {
            Some(identity) => {
                let resolver: Arc<dyn ResolvesClientCert> =
                    Arc::new(SingleCertAndKey::from(identity.certified.clone()));
                builder.with_client_cert_resolver(resolver)
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![self.alpn.as_bytes().to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_early_data = false;
        let config = QuicClientConfig::try_from(config).map_err(tls_error)?;
        Ok(quinn::ClientConfig::new(Arc::new(config)))
    }
}

impl ServerTls {
    /// TLS settings for a server that presents `identity`, accepts the clients that `clients` describes, and speaks the
    /// application protocol `alpn`.
    ///
    /// # Errors
    /// [`CertificateError`] if an authority is invalid.
    pub fn new(identity: Identity, clients: &ClientAuth, alpn: &str) -> Result<Self, CertificateError> {
        let verifier = match clients {
            ClientAuth::Required(authorities) => Some(authorities.client_verifier(true)?),
            ClientAuth::CheckedIfGiven(authorities) => Some(authorities.client_verifier(false)?),
            ClientAuth::Anybody => None,
        };
        Ok(Self { verifier, identity, alpn: alpn.into(), provider: provider() })
    }

    pub(super) fn alpn(&self) -> &str {
        &self.alpn
    }

    /// The same settings for a server over TCP.
    #[doc(hidden)]
    pub fn over_tcp(&self) -> Result<Arc<rustls::ServerConfig>, CertificateError> {
        let builder = rustls::ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(tls_error)?;
        let builder = match &self.verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
            None => builder.with_no_client_auth(),
        };
        let resolver = SingleCertAndKey::from(self.identity.certified.clone());
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![self.alpn.as_bytes().to_vec()];
        Ok(Arc::new(config))
    }

    /// The secret that is derived from the private key.
    pub(super) const fn secret(&self) -> &[u8; 32] {
        &self.identity.secret
    }

    /// The configuration of one connection. If the client's certificate is rejected, `rejection` gets the reason.
    pub(super) fn config(&self, rejection: &Rejection) -> Result<quinn::ServerConfig, CertificateError> {
        let builder = rustls::ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(tls_error)?;
        let builder = match &self.verifier {
            Some(verifier) => builder.with_client_cert_verifier(Arc::new(RecordingVerifier::new(
                verifier.clone(),
                rejection.clone(),
            ))),
            None => builder.with_no_client_auth(),
        };
        let resolver = SingleCertAndKey::from(self.identity.certified.clone());
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![self.alpn.as_bytes().to_vec()];
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        let config = QuicServerConfig::try_from(config).map_err(tls_error)?;
        Ok(quinn::ServerConfig::with_crypto(Arc::new(config)))
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("facts", &self.facts()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ClientTls");
        shown.field("alpn", &self.alpn).field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ServerTls");
        shown.field("alpn", &self.alpn).field("identity", &self.identity).finish_non_exhaustive()
    }
}
