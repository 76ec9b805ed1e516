//! The TLS configuration of the client: the authorities of the system, extra ones, and an error that names the issuer of a
//! certificate that is not trusted.
//!
//! The provider is explicit (feature `tls-ring` or `tls-aws-lc-rs`), so none is installed for the process, and one that is
//! installed has no effect.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, OtherError, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::certificate::{Certificate, verify_named};
use super::error::HttpSetupError;

/// What is wrong with a text that looks like PEM and cannot be read.
const BROKEN_PEM: &str = "a section of the PEM text has no END line, or its content is not base64";

/// The configuration. `extra_ca`: more trusted certificates, each PEM, one or several. A server that shows one of them as its
/// own is trusted, too, if name and dates are right.
///
/// # Errors
/// When an extra certificate cannot be used.
pub fn config(extra_ca: &[Vec<u8>]) -> Result<ClientConfig, HttpSetupError> {
    let mut extra = Vec::new();
    for pem in extra_ca {
        let before = extra.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            // The error of the parser prints bytes as a list of numbers.
            extra.push(certificate.map_err(|_| HttpSetupError::Certificate(BROKEN_PEM.into()))?);
        }
        if extra.len() == before {
            return Err(HttpSetupError::Certificate("the PEM text contains no certificate".into()));
        }
    }
    let provider = Arc::new(provider());
    let verifier = SystemVerifier { provider: provider.clone(), extra, verifier: OnceLock::new() };
    if !verifier.extra.is_empty() {
        // A wrong extra certificate fails here, not at the first connection.
        verifier.get().as_ref().map_err(|error| {
            HttpSetupError::Certificate(match error {
                rustls::Error::InvalidCertificate(_) => "it is not an X.509 certificate".to_owned(),
                error => error.to_string(),
            })
        })?;
    }
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpSetupError::Client(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// The cryptography of TLS, by feature. Without either feature there is no cipher suite, and HTTPS fails when it is set up.
fn provider() -> CryptoProvider {
    #[cfg(feature = "tls-ring")]
    return rustls::crypto::ring::default_provider();
    #[cfg(all(feature = "tls-aws-lc-rs", not(feature = "tls-ring")))]
    return rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc-rs")))]
    compile_error!("the feature `http-client` of mcpjoin needs `tls-ring` or `tls-aws-lc-rs`");
}

/// A certificate of an authority that is not trusted.
#[derive(Debug)]
pub(super) struct Untrusted {
    /// The issuer of the last certificate that the server has sent.
    pub(super) issuer: Option<String>,
    /// It is the server's own certificate, and its own issuer.
    pub(super) self_signed: bool,
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let issuer = self.issuer.as_deref().unwrap_or("an unnamed issuer");
        match self.self_signed {
            true => write!(f, "self-signed ({issuer}), and not trusted here"),
            false => write!(f, "signed by {issuer}, which is not trusted here"),
        }
    }
}

impl std::error::Error for Untrusted {}

/// Whether the problem is one of the certificate's dates or names, which no signature would mend.
const fn is_of_its_own(problem: &CertificateError) -> bool {
    matches!(
        problem,
        CertificateError::BadEncoding
            | CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
            | CertificateError::NotValidForName
            | CertificateError::NotValidForNameContext { .. }
    )
}

/// The verifier of the system, made for the first certificate: loading the authorities of the system takes longer than an
/// exchange without TLS.
#[derive(Debug)]
struct SystemVerifier {
    provider: Arc<CryptoProvider>,
    extra: Vec<CertificateDer<'static>>,
    verifier: OnceLock<Result<Verifier, rustls::Error>>,
}

impl SystemVerifier {
    fn get(&self) -> &Result<Verifier, rustls::Error> {
        self.verifier
            .get_or_init(|| Verifier::new_with_extra_roots(self.extra.iter().cloned(), self.provider.clone()))
    }

    fn ready(&self) -> Result<&Verifier, rustls::Error> {
        self.get().as_ref().map_err(Clone::clone)
    }
}

impl ServerCertVerifier for SystemVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.ready()?.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let Err(rustls::Error::InvalidCertificate(problem)) = verified else { return verified };
        if self.extra.iter().any(|named| named.as_ref() == end_entity.as_ref()) {
            return verify_named(end_entity, server_name, now).map(|()| ServerCertVerified::assertion());
        }
        // What webpki says of an unsigned certificate depends on what else is in it, and on whether an authority of
        // the system has the same name.
        let self_signed = !is_of_its_own(&problem)
            && Certificate::read(end_entity).is_some_and(|certificate| certificate.is_self_issued());
        if !self_signed && problem != CertificateError::UnknownIssuer {
            return Err(problem.into());
        }
        let last = intermediates.last().filter(|_| !self_signed).unwrap_or(end_entity);
        let issuer = Certificate::read(last).and_then(|certificate| certificate.issuer());
        Err(CertificateError::Other(OtherError(Arc::new(Untrusted { issuer, self_signed }))).into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.ready()?.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.ready()?.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
