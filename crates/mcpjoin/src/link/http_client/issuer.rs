//! Who has signed a certificate, for an error that a person can act on.
//!
//! Reads no more of the certificate than the way to its issuer ([RFC 5280, 4.1](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)),
//! and trusts nothing in it: what it finds is shown, never compared.

use crate::der::{element, shown, value};

/// The DER of the object identifiers of a common name and of an organization.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0A];

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xA0;

/// The name of the issuer: its common name, and its organization where it has one.
pub(super) fn issuer(certificate: &[u8]) -> Option<String> {
    let (certificate, _) = value(certificate, SEQUENCE)?;
    let (signed, _) = value(certificate, SEQUENCE)?;
    // Certificates of the first version do not say it.
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
        let pem = include_bytes!("../../../tests/fixtures/tls/server.pem");
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
