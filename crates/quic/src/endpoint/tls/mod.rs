//! Who both sides are: certificates, whom they are held against, and TLS 1.3 with ring.
//!
//! Every connection gets a configuration of its own, which remembers why its peer was refused: TLS itself has 1 byte
//! for that.

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
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, version};

pub use certificate::CertificateFacts;
pub use error::private;
pub use error::{CertificateError, CertificateErrorKind};
pub use time::{Moment, now};

use super::connection::Refusal;
use super::reset;
use verify::{Pinned, Recorded};

/// A certificate with its key, and where they are from.
#[derive(Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    /// What comes from the private key, for a listener to be known by after a restart.
    secret: [u8; 32],
}

/// Certificates of authorities.
#[derive(Clone, Debug)]
pub struct Authorities {
    certificates: Vec<CertificateDer<'static>>,
    /// Where they are from, for errors.
    place: Arc<str>,
}

/// Whom a client takes for the server.
#[derive(Clone, Debug)]
pub enum Trust {
    /// One whose certificate these authorities have signed, for the name that is asked for.
    Authorities(Authorities),
    /// One whose public key has this SHA-256: of the DER of its `SubjectPublicKeyInfo`, whatever the rest of its
    /// certificate says. With [`CertificateFacts::key_hash`] anybody can be asked for it.
    Key([u8; 32]),
}

/// What a server asks of its clients.
#[derive(Clone, Debug)]
pub enum ClientsAre {
    /// A certificate of these authorities.
    Required(Authorities),
    /// The same, or none.
    CheckedIfGiven(Authorities),
    /// Nothing; what they show is not looked at.
    Anybody,
}

/// A client's side of TLS. Cheap to clone.
#[derive(Clone)]
pub struct ClientTls {
    verifier: Arc<dyn ServerCertVerifier>,
    identity: Option<Identity>,
    server_name: Option<String>,
    alpn: Arc<str>,
    provider: Arc<CryptoProvider>,
}

/// A server's side of TLS. Cheap to clone.
#[derive(Clone)]
pub struct ServerTls {
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    identity: Identity,
    alpn: Arc<str>,
    provider: Arc<CryptoProvider>,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Identity {
    /// Reads two PEM files: the certificate, with those between it and its authority behind it, and its key. The key's
    /// file must be ours alone.
    ///
    /// # Errors
    /// [`CertificateError`] names the file, what is wrong with it, and what to do.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, CertificateError> {
        let chain = error::read(certificate)?;
        let secret = error::read_secret(key)?;
        Self::from_pem(&chain, &secret).map_err(|error| error.of(certificate, key))
    }

    /// The same from memory.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain = certificates(certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|error| CertificateErrorKind::Key(error.to_string()))?;
        let secret = reset::secret(key.secret_der());
        let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => CertificateErrorKind::KeyMismatch,
            error => CertificateErrorKind::Key(error.to_string()),
        })?;
        Ok(Self { certified: Arc::new(certified), secret })
    }

    /// A new key, with a certificate of its own for these names (of hosts, or addresses): nobody has signed it, so peers
    /// trust it by its key alone ([`Trust::Key`], [`CertificateFacts::key_hash`]). It is kept nowhere.
    ///
    /// # Errors
    /// [`CertificateError`] when something among the names is no name.
    pub fn self_signed<N: Into<String>>(
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, CertificateError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let made = rcgen::generate_simple_self_signed(names)
            .map_err(|error| CertificateErrorKind::Tls(error.to_string()))?;
        Self::from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes())
    }

    /// What its certificate says; `None` when that cannot be read.
    #[must_use]
    pub fn facts(&self) -> Option<CertificateFacts> {
        CertificateFacts::read(self.certified.cert.first()?)
    }

    /// Whether it counts today.
    #[doc(hidden)]
    pub fn current(&self) -> Result<(), CertificateErrorKind> {
        let Some(facts) = self.facts() else { return Ok(()) };
        if facts.ends() < now() {
            return Err(CertificateErrorKind::Expired(facts.ends().to_string(), "put a new one there"));
        }
        if facts.begins() > now() {
            return Err(CertificateErrorKind::NotYet(facts.begins().to_string()));
        }
        Ok(())
    }

    /// Whether those authorities have signed it, for both ends and for that name; if not, why.
    #[doc(hidden)]
    pub fn held_against(&self, authorities: &Authorities, name: &str) -> Result<(), String> {
        let Some((certificate, chain)) = self.certified.cert.split_first() else {
            return Err("there is no certificate".to_owned());
        };
        let clients = authorities.of_clients(true).map_err(|error| error.to_string())?;
        let servers = authorities.of_servers().map_err(|error| error.to_string())?;
        let why = |error| verify::reason(certificate, &error);
        clients.verify_client_cert(certificate, chain, UnixTime::now()).map_err(why)?;
        // What is no name of a host cannot be asked for either.
        if let Ok(name) = ServerName::try_from(name) {
            servers.verify_server_cert(certificate, chain, &name, &[], UnixTime::now()).map_err(why)?;
        }
        Ok(())
    }
}

impl Authorities {
    /// Reads a PEM file with one certificate or more.
    ///
    /// # Errors
    /// [`CertificateError`] names the file, what is wrong with it, and what to do.
    pub fn from_file(path: &Path) -> Result<Self, CertificateError> {
        let pem = error::read(path)?;
        let certificates = certificates(&pem).map_err(|kind| CertificateError::at(path, kind))?;
        Ok(Self { certificates, place: path.display().to_string().into() })
    }

    /// The same from memory.
    ///
    /// # Errors
    /// [`CertificateError`].
    pub fn from_pem(pem: &[u8]) -> Result<Self, CertificateError> {
        Ok(Self { certificates: certificates(pem)?, place: "the given authorities".into() })
    }

    /// The first of them.
    #[doc(hidden)]
    pub fn facts(&self) -> Option<CertificateFacts> {
        CertificateFacts::read(self.certificates.first()?)
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, CertificateError> {
        let mut roots = RootCertStore::empty();
        for certificate in &self.certificates {
            let added = roots.add(certificate.clone());
            added.map_err(|error| {
                CertificateErrorKind::Authority(self.place.to_string(), error.to_string())
            })?;
        }
        Ok(Arc::new(roots))
    }

    /// A verifier of servers that these authorities have signed.
    pub(crate) fn of_servers(&self) -> Result<Arc<WebPkiServerVerifier>, CertificateError> {
        let built = WebPkiServerVerifier::builder_with_provider(self.roots()?, provider()).build();
        built.map_err(|error| {
            CertificateErrorKind::Authority(self.place.to_string(), error.to_string()).into()
        })
    }

    /// A verifier of clients that these authorities have signed.
    pub(crate) fn of_clients(&self, required: bool) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
        let builder = WebPkiClientVerifier::builder_with_provider(self.roots()?, provider());
        let builder = if required { builder } else { builder.allow_unauthenticated() };
        builder.build().map_err(|error| {
            CertificateErrorKind::Authority(self.place.to_string(), error.to_string()).into()
        })
    }
}

/// The certificates of a PEM text, of which there is one at least.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateErrorKind> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| CertificateErrorKind::Pem(error.to_string()))?;
    if found.is_empty() {
        return Err(CertificateErrorKind::Pem("there is no certificate in it".to_owned()));
    }
    match found.iter().any(|certificate| CertificateFacts::read(certificate).is_none()) {
        true => Err(CertificateErrorKind::Pem("it holds something that is no X.509 certificate".to_owned())),
        false => Ok(found),
    }
}

impl ClientTls {
    /// A client that takes those for the server whom `trust` says, shows `identity` when it is asked for one, and speaks
    /// the application protocol `alpn`.
    ///
    /// # Errors
    /// [`CertificateError`] when an authority is none.
    pub fn new(trust: &Trust, identity: Option<Identity>, alpn: &str) -> Result<Self, CertificateError> {
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Authorities(authorities) => authorities.of_servers()?,
            Trust::Key(hash) => Arc::new(Pinned::new(*hash, provider())),
        };
        Ok(Self { verifier, identity, server_name: None, alpn: alpn.into(), provider: provider() })
    }

    /// The name that the server's certificate must have, where it is not the host of the address.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    pub(super) fn alpn(&self) -> &str {
        &self.alpn
    }

    /// The name to ask for at that host, which may be an address.
    pub(super) fn name_for(&self, host: &str) -> Result<String, CertificateError> {
        let name = self.server_name.as_deref().unwrap_or(host);
        // The zone of a local address is nobody else's business.
        let name = name.split('%').next().unwrap_or(name);
        match ServerName::try_from(name) {
            Ok(_) => Ok(name.to_owned()),
            Err(_) => Err(CertificateErrorKind::Name(name.to_owned()).into()),
        }
    }

    /// The configuration of one connection. Why the server was refused will stand in `refusal`.
    pub(super) fn config(&self, refusal: &Refusal) -> Result<quinn::ClientConfig, CertificateError> {
        let verifier = Recorded::new(self.verifier.clone(), refusal.clone());
        let builder = rustls::ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|error| CertificateErrorKind::Tls(error.to_string()))?
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
        let config = QuicClientConfig::try_from(config)
            .map_err(|error| CertificateErrorKind::Tls(error.to_string()))?;
        Ok(quinn::ClientConfig::new(Arc::new(config)))
    }
}

impl ServerTls {
    /// A server that shows `identity`, takes the clients that `clients` says, and speaks the application protocol
    /// `alpn`.
    ///
    /// # Errors
    /// [`CertificateError`] when an authority is none.
    pub fn new(identity: Identity, clients: &ClientsAre, alpn: &str) -> Result<Self, CertificateError> {
        let verifier = match clients {
            ClientsAre::Required(authorities) => Some(authorities.of_clients(true)?),
            ClientsAre::CheckedIfGiven(authorities) => Some(authorities.of_clients(false)?),
            ClientsAre::Anybody => None,
        };
        Ok(Self { verifier, identity, alpn: alpn.into(), provider: provider() })
    }

    pub(super) fn alpn(&self) -> &str {
        &self.alpn
    }

    /// What comes from the private key.
    pub(super) const fn secret(&self) -> &[u8; 32] {
        &self.identity.secret
    }

    /// The configuration of one connection. Why the client was refused will stand in `refusal`.
    pub(super) fn config(&self, refusal: &Refusal) -> Result<quinn::ServerConfig, CertificateError> {
        let builder = rustls::ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(|error| CertificateErrorKind::Tls(error.to_string()))?;
        let builder = match &self.verifier {
            Some(verifier) => {
                builder.with_client_cert_verifier(Arc::new(Recorded::new(verifier.clone(), refusal.clone())))
            }
            None => builder.with_no_client_auth(),
        };
        let resolver = SingleCertAndKey::from(self.identity.certified.clone());
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![self.alpn.as_bytes().to_vec()];
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        let config = QuicServerConfig::try_from(config)
            .map_err(|error| CertificateErrorKind::Tls(error.to_string()))?;
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
