//! A server's certificate as it is read, and the check of one that the user has named itself.
//!
//! Used by `tls`. A certificate that the user names with its bytes is trusted without an authority, as `curl --cacert` and
//! `NODE_EXTRA_CA_CERTS` do: also where it is an authority's (CA:TRUE), as `openssl req -x509` makes them. Name and validity
//! are checked all the same, and TLS has checked that the server has its key. Everything else that is read here is shown,
//! never compared. [RFC 5280, 4.1](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)

use mcpjoin_proto::http::response_head::date;
use rustls::CertificateError;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;

use crate::der::{element, shown, value};

/// The DER of the object identifiers of a common name and of an organization.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0A];
/// That of the extension that holds the names of a server.
const SUBJECT_ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1D, 0x11];

const INTEGER: u8 = 0x02;
const OCTET_STRING_OR_FLAG: [u8; 2] = [0x01, 0x04];
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xA0;
const EXTENSIONS: u8 = 0xA3;

/// The parts of a certificate, each as DER.
pub(super) struct Certificate<'a> {
    issuer: &'a [u8],
    validity: &'a [u8],
    subject: &'a [u8],
    /// What follows the key: the extensions, if there are any.
    after_key: &'a [u8],
}

impl<'a> Certificate<'a> {
    pub(super) fn read(der: &'a [u8]) -> Option<Self> {
        let (certificate, _) = value(der, SEQUENCE)?;
        let (signed, _) = value(certificate, SEQUENCE)?;
        // Certificates of the first version have no version field.
        let signed = value(signed, VERSION).map_or(signed, |(_, rest)| rest);
        let (_, rest) = value(signed, INTEGER)?;
        let (_, rest) = value(rest, SEQUENCE)?;
        let (issuer, rest) = value(rest, SEQUENCE)?;
        let (validity, rest) = value(rest, SEQUENCE)?;
        let (subject, rest) = value(rest, SEQUENCE)?;
        let (_, after_key) = value(rest, SEQUENCE)?;
        Some(Self { issuer, validity, subject, after_key })
    }

    /// Whether it names itself as its issuer.
    pub(super) fn is_self_issued(&self) -> bool {
        self.issuer == self.subject
    }

    /// The name of its issuer: the common name and the organization, as far as it has them.
    pub(super) fn issuer(&self) -> Option<String> {
        match (attribute(self.issuer, COMMON_NAME), attribute(self.issuer, ORGANIZATION)) {
            (Some(common), Some(organization)) => {
                Some(format!("{} ({})", shown(common), shown(organization)))
            }
            (one, other) => one.or(other).map(shown),
        }
    }

    /// Whether the time is between its two dates.
    fn valid_at(&self, now: UnixTime) -> Result<(), CertificateError> {
        let dates = || {
            let (from, rest) = time(self.validity)?;
            Some((from, time(rest)?.0))
        };
        let (from, until) = dates().ok_or(CertificateError::BadEncoding)?;
        match now.as_secs() {
            now if now < from => Err(CertificateError::NotValidYet),
            now if now > until => Err(CertificateError::Expired),
            _ => Ok(()),
        }
    }

    /// Whether it has alternative names, which then are all of its names.
    fn has_alternative_names(&self) -> bool {
        let mut rest = self.after_key;
        while let Some((tag, found, after)) = element(rest) {
            rest = after;
            let Some((mut extensions, _)) = value(found, SEQUENCE).filter(|_| tag == EXTENSIONS) else {
                continue;
            };
            while let Some((extension, after)) = value(extensions, SEQUENCE) {
                extensions = after;
                if value(extension, OBJECT_IDENTIFIER).is_some_and(|(kind, rest)| {
                    kind == SUBJECT_ALTERNATIVE_NAMES
                        && rest.first().is_some_and(|tag| OCTET_STRING_OR_FLAG.contains(tag))
                }) {
                    return true;
                }
            }
        }
        false
    }

    /// Whether its common name is this name of a host.
    fn is_called(&self, name: &ServerName<'_>) -> bool {
        let ServerName::DnsName(name) = name else { return false };
        attribute(self.subject, COMMON_NAME)
            .is_some_and(|common| common.eq_ignore_ascii_case(name.as_ref().as_bytes()))
    }
}

/// Checks a certificate that the user has named: its dates, and its name. Where it has no alternative names, its common name
/// counts, as it does for curl and Node.
pub(super) fn verify_named(
    der: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), rustls::Error> {
    let certificate = Certificate::read(der).ok_or(CertificateError::BadEncoding)?;
    certificate.valid_at(now)?;
    let named = verify_server_name(&ParsedCertificate::try_from(der)?, name);
    named.or_else(|error| {
        let is_called = !certificate.has_alternative_names() && certificate.is_called(name);
        if is_called { Ok(()) } else { Err(error) }
    })
}

/// The first attribute of this kind in a name.
fn attribute<'a>(mut name: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    while let Some((mut parts, rest)) = value(name, SET) {
        name = rest;
        while let Some((part, rest)) = value(parts, SEQUENCE) {
            parts = rest;
            let Some((kind, text)) = value(part, OBJECT_IDENTIFIER) else { continue };
            if let Some((_, text, _)) = element(text).filter(|_| kind == wanted) {
                return Some(text);
            }
        }
    }
    None
}

/// A date in seconds since 1970, and what follows it. An earlier one is that of no server.
fn time(der: &[u8]) -> Option<(u64, &[u8])> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (tag, text, rest) = element(der)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, text) = match tag {
        UTC_TIME => {
            let (year, text) = text.split_at_checked(2)?;
            // RFC 5280, 4.1.2.5.1: 50 to 99 are of the twentieth century.
            (format!("{}{year}", if year < "50" { "20" } else { "19" }), text)
        }
        GENERALIZED_TIME => text.split_at_checked(4).map(|(year, text)| (year.to_owned(), text))?,
        _ => return None,
    };
    if text.len() != 10 || !text.is_ascii() {
        return None;
    }
    let part = |at: usize| &text[at..at + 2];
    let month = MONTHS.get(part(0).parse::<usize>().ok()?.checked_sub(1)?)?;
    // The weekday is not looked at.
    let of_http = format!("Mon, {} {month} {year} {}:{}:{} GMT", part(2), part(4), part(6), part(8));
    Some((date(of_http.as_bytes())?, rest))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn the_issuer_is_named_and_no_cut_certificate_panics() {
        let pem = mcpjoin_test_support::tls::SERVER;
        let der = CertificateDer::from_pem_slice(pem).expect("a certificate");
        let name = "An authority that nobody trusts (mcpjoin tests)";
        let certificate = Certificate::read(&der).expect("a certificate");
        assert_eq!(certificate.issuer().as_deref(), Some(name));
        assert!(!certificate.is_self_issued() && certificate.has_alternative_names());
        let localhost = ServerName::try_from("localhost").expect("a name");
        let now = UnixTime::now();
        assert!(verify_named(&der, &localhost, now).is_ok());
        for end in 0..der.len() {
            let _ = verify_named(&der[..end].into(), &localhost, now);
            let mut bent = der.to_vec();
            bent[end] ^= 0xFF;
            let _ = Certificate::read(&bent).and_then(|bent| bent.issuer());
            let _ = verify_named(&bent.into(), &localhost, now);
        }
    }

    #[test]
    fn dates_are_read_in_both_forms() {
        for (der, seconds) in [
            (&b"\x17\x0d700101000000Z"[..], Some(0)),
            (b"\x17\x0d491231235959Z", Some(2_524_607_999)),
            (b"\x18\x0f20500101000000Z", Some(2_524_608_000)),
            (b"\x17\x0d500101000000Z", None),
            (b"\x17\x0d701301000000Z", None),
            (b"\x17\x0d70010100000 Z", None),
            (b"\x17\x0b7001010000Z", None),
            (b"\x16\x0d700101000000Z", None),
        ] {
            assert_eq!(time(der).map(|(seconds, _)| seconds), seconds, "{der:?}");
        }
    }
}
