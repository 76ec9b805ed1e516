//! TLS for the client: the system's certificates, extra ones, and an error that names who has signed.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, OtherError, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::connect::HttpSetupError;
use super::issuer::issuer;

/// The configuration, without anything that is installed for the whole process.
pub(crate) fn config(extra_ca: &[Vec<u8>]) -> Result<ClientConfig, HttpSetupError> {
    let mut extra = Vec::new();
    for pem in extra_ca {
        let before = extra.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            extra.push(certificate.map_err(|error| HttpSetupError::Certificate(error.to_string()))?);
        }
        if extra.len() == before {
            return Err(HttpSetupError::Certificate("there is no certificate in the PEM text".into()));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = SystemVerifier { provider: provider.clone(), extra, verifier: OnceLock::new() };
    if !verifier.extra.is_empty() {
        // What was given by hand is to fail here, not at the first connection.
        verifier.get().as_ref().map_err(|error| HttpSetupError::Certificate(error.to_string()))?;
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

/// A certificate is signed by somebody whom nobody here trusts.
#[derive(Debug, thiserror::Error)]
#[error("signed by {}, who is not trusted here", .issuer.as_deref().unwrap_or("somebody without a name"))]
pub(super) struct Untrusted {
    /// The last signature that came along.
    pub(super) issuer: Option<String>,
}

/// The system's verifier, made when the first certificate is to be verified: reading the system's certificates takes
/// longer than a whole exchange without TLS.
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
        verified.map_err(|error| match error {
            rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                let last = intermediates.last().unwrap_or(end_entity);
                let untrusted = Untrusted { issuer: issuer(last) };
                CertificateError::Other(OtherError(Arc::new(untrusted))).into()
            }
            error => error,
        })
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
