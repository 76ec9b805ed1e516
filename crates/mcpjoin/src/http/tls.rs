//! The TLS configuration of the client: the authorities of the system, extra ones, and an error that names the issuer of a
//! certificate that is not trusted.
//!
//! The provider is explicit (feature `tls-ring` or `tls-aws-lc-rs`), so none is installed for the process, and one that is
//! installed has no effect. The issuer is read from the certificate ([RFC 5280, 4.1](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)) without any
//! check: it is shown, never compared.

use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, OtherError, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::error::HttpSetupError;
use crate::der::{element, shown, value};

/// The DER of the object identifiers of a common name and of an organization.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0A];

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xA0;

/// The configuration. `extra_ca`: more trusted certificates, each PEM, one or several.
///
/// # Errors
/// When an extra certificate cannot be used.
pub fn config(extra_ca: &[Vec<u8>]) -> Result<ClientConfig, HttpSetupError> {
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
    let provider = Arc::new(provider());
    let verifier = SystemVerifier { provider: provider.clone(), extra, verifier: OnceLock::new() };
    if !verifier.extra.is_empty() {
        // A wrong extra certificate fails here, not at the first connection.
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
#[derive(Debug, thiserror::Error)]
#[error("signed by {}, who is not trusted here", .issuer.as_deref().unwrap_or("somebody without a name"))]
pub(super) struct Untrusted {
    /// The issuer of the last certificate that the server has sent.
    pub(super) issuer: Option<String>,
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

/// The name of the issuer of a certificate: its common name and its organization, as far as it has them.
fn issuer(certificate: &[u8]) -> Option<String> {
    let (certificate, _) = value(certificate, SEQUENCE)?;
    let (signed, _) = value(certificate, SEQUENCE)?;
    // Certificates of the first version have no version field.
    let signed = value(signed, VERSION).map_or(signed, |(_, rest)| rest);
    let (_, rest) = value(signed, INTEGER)?;
    let (_, rest) = value(rest, SEQUENCE)?;
    let (mut name, _) = value(rest, SEQUENCE)?;
    let (mut common, mut organization) = (None, None);
    while let Some((mut parts, rest)) = value(name, SET) {
        name = rest;
        while let Some((part, rest)) = value(parts, SEQUENCE) {
            parts = rest;
            let Some((kind, text)) = value(part, 0x06) else { continue };
            let Some((_, text, _)) = element(text) else { continue };
            match kind {
                COMMON_NAME => common = Some(shown(text)),
                ORGANIZATION => organization = Some(shown(text)),
                _ => {}
            }
        }
    }
    match (common, organization) {
        (Some(common), Some(organization)) => Some(format!("{common} ({organization})")),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn the_issuer_is_named_and_no_cut_certificate_panics() {
        let pem = mcpjoin_test_support::tls::SERVER;
        let der = CertificateDer::from_pem_slice(pem).expect("a certificate");
        let name = "An authority that nobody trusts (mcpjoin tests)";
        assert_eq!(issuer(&der).as_deref(), Some(name));
        for end in 0..der.len() {
            let _ = issuer(&der[..end]);
            let mut bent = der.to_vec();
            bent[end] ^= 0xFF;
            let _ = issuer(&bent);
        }
    }
}
