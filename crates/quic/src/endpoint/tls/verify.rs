//! Certificate verifiers that record why they rejected a certificate.
//!
//! webpki decides. This adds whose certificate it was, what is wrong with it, and what to do.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::certificate::CertificateFacts;
use super::time::Moment;
use crate::endpoint::connection::Rejection;

/// A verifier, and where it records the reason of a rejection.
pub(super) struct RecordingVerifier<V: ?Sized> {
    verifier: Arc<V>,
    rejection: Rejection,
}

impl<V: ?Sized> RecordingVerifier<V> {
    pub(super) const fn new(verifier: Arc<V>, rejection: Rejection) -> Self {
        Self { verifier, rejection }
    }

    fn record(&self, certificate: &CertificateDer<'_>, error: &Error) {
        let reason = reason(certificate, error);
        *self.rejection.lock() = Some(reason);
    }
}

impl<V: ?Sized> fmt::Debug for RecordingVerifier<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorded")
    }
}

/// Why a certificate is rejected.
pub(crate) fn reason(certificate: &CertificateDer<'_>, error: &Error) -> String {
    let Some(facts) = CertificateFacts::read(certificate) else {
        return format!("it cannot be read ({error})");
    };
    let whose = format!("`{}`, signed by `{}`", facts.subject, facts.issuer);
    let why = match error {
        Error::InvalidCertificate(error) => match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("expired on {}", facts.ends())
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("is not valid before {}: check the clocks", Moment(facts.not_before))
            }
            CertificateError::UnknownIssuer => {
                "is signed by another authority: both sides need the same ca.crt".to_owned()
            }
            CertificateError::BadSignature => {
                "has the name of the authority, but not its signature: ca.crt was recreated, or has not \
                 signed it"
                    .to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("is for {}, and not for the requested name (--server-name)", list(&facts.names))
            }
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
                let for_whom = match (facts.for_servers, facts.for_clients) {
                    (true, false) => "only for servers",
                    (false, true) => "only for clients",
                    _ => "for neither servers nor clients",
                };
                format!("is {for_whom} (extended key usage)")
            }
            error => format!("is not valid: {error}"),
        },
        // The reasons of our own verifiers, which rustls would begin with "unexpected error".
        Error::General(what) => format!("is not the expected one: {what}"),
        error => format!("is not valid: {error}"),
    };
    format!("{whose}, {why}")
}

fn list(names: &[String]) -> String {
    const MAX_NAMES: usize = 8;
    if names.is_empty() {
        return "no name".to_owned();
    }
    let shown: Vec<String> = names.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > MAX_NAMES { " and others" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Delegates the signature checks to the inner verifier.
macro_rules! delegate_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.verifier.verify_tls12_signature(message, cert, dss)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.verifier.verify_tls13_signature(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.verifier.supported_verify_schemes()
        }
    };
}

impl ServerCertVerifier for RecordingVerifier<dyn ServerCertVerifier> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        verified.inspect_err(|error| self.record(end_entity, error))
    }

    delegate_signatures!();
}

impl ClientCertVerifier for RecordingVerifier<dyn ClientCertVerifier> {
    fn offer_client_auth(&self) -> bool {
        self.verifier.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.verifier.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now);
        verified.inspect_err(|error| self.record(end_entity, error))
    }

    delegate_signatures!();
}

/// Accepts exactly one public key.
#[derive(Debug)]
pub(super) struct PinnedKeyVerifier {
    hash: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl PinnedKeyVerifier {
    pub(super) const fn new(hash: [u8; 32], provider: Arc<CryptoProvider>) -> Self {
        Self { hash, provider }
    }
}

impl ServerCertVerifier for PinnedKeyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Neither hash is secret, so the comparison need not take constant time.
        match CertificateFacts::read(end_entity) {
            Some(facts) if facts.key_hash == self.hash => Ok(ServerCertVerified::assertion()),
            Some(facts) => {
                let hash: String = facts.key_hash.iter().map(|byte| format!("{byte:02x}")).collect();
                Err(Error::General(format!("its public key is not the pinned one, but sha256:{hash}")))
            }
            None => Err(Error::General("its public key cannot be read".to_owned())),
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
