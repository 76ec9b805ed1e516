//! The fields of a certificate that errors, reports and renewal need ([RFC
//! 5280](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)).
//!
//! Nothing here verifies a certificate: webpki alone decides whether it is valid.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::{
    OID_X509_COMMON_NAME, OID_X509_EXT_BASIC_CONSTRAINTS, OID_X509_EXT_EXTENDED_KEY_USAGE,
    OID_X509_EXT_SUBJECT_ALT_NAME, OID_X509_EXT_SUBJECT_KEY_IDENTIFIER, OID_X509_ORGANIZATION_NAME, Oid,
};
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Name;

use super::time::Moment;
use mcpjoin::internal::der;

/// The extensions that are read. A certificate in which one of them is malformed is not read.
const EXTENSIONS: [Oid<'static>; 4] = [
    OID_X509_EXT_BASIC_CONSTRAINTS,
    OID_X509_EXT_EXTENDED_KEY_USAGE,
    OID_X509_EXT_SUBJECT_ALT_NAME,
    OID_X509_EXT_SUBJECT_KEY_IDENTIFIER,
];

/// The fields of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateFacts {
    /// The common name of the subject.
    pub common_name: Option<String>,
    /// The subject: its common name, with the organization in brackets.
    pub subject: String,
    /// The issuer in the same form.
    pub issuer: String,
    /// Start of the validity, in seconds since 1970 in UTC.
    pub not_before: i64,
    /// End of the validity, in seconds since 1970 in UTC.
    pub not_after: i64,
    /// The host names and addresses that it is valid for.
    pub names: Vec<String>,
    /// Whether a server may use it. True if the certificate does not restrict its use.
    pub for_servers: bool,
    /// Whether a client may use it.
    pub for_clients: bool,
    /// Whether it belongs to a certificate authority.
    pub is_authority: bool,
    /// The SHA-256 of its public key, as for [`Trust::Key`](super::Trust::Key).
    pub key_hash: [u8; 32],
    /// The subject key identifier, which certificates that it signs refer to.
    pub key_id: Option<Vec<u8>>,
    /// The attributes of the subject in order: object identifier, tag of the text, and text.
    pub subject_parts: Vec<(Vec<u64>, u32, Vec<u8>)>,
    /// Whether subject and issuer are the same.
    pub self_issued: bool,
}

impl CertificateFacts {
    /// Reads a certificate from DER. Returns `None` if it is malformed. The signature is not verified.
    #[must_use]
    pub fn read(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let (subject, issuer) = (certificate.subject(), certificate.issuer());
        let mut facts = Self {
            common_name: text_of(subject, &OID_X509_COMMON_NAME),
            subject: shown(subject),
            issuer: shown(issuer),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
            names: Vec::new(),
            for_servers: true,
            for_clients: true,
            is_authority: false,
            key_hash: Sha256::digest(certificate.public_key().raw).into(),
            key_id: None,
            subject_parts: parts(subject)?,
            self_issued: subject.as_raw() == issuer.as_raw(),
        };
        for extension in certificate.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => facts.key_id = Some(id.0.to_vec()),
                ParsedExtension::BasicConstraints(constraints) => facts.is_authority = constraints.ca,
                ParsedExtension::ExtendedKeyUsage(usage) => {
                    facts.for_servers = usage.server_auth || usage.any;
                    facts.for_clients = usage.client_auth || usage.any;
                }
                ParsedExtension::SubjectAlternativeName(names) => {
                    facts.names = names.general_names.iter().filter_map(host).collect();
                }
                ParsedExtension::ParseError { .. } if EXTENSIONS.contains(&extension.oid) => return None,
                _ => {}
            }
        }
        Some(facts)
    }

    /// Start of the validity.
    #[doc(hidden)]
    pub const fn begins(&self) -> Moment {
        Moment(self.not_before)
    }

    /// Start and end of the validity as text, in UTC.
    #[must_use]
    pub fn validity(&self) -> (String, String) {
        (self.begins().to_string(), self.ends().to_string())
    }

    /// End of the validity.
    #[doc(hidden)]
    pub const fn ends(&self) -> Moment {
        Moment(self.not_after)
    }
}

/// A host name or an address.
fn host(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(der::shown(name.as_bytes())),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let address = four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    }
}

type Parts = Vec<(Vec<u64>, u32, Vec<u8>)>;

/// The attributes of a distinguished name.
fn parts(name: &X509Name<'_>) -> Option<Parts> {
    name.iter_attributes()
        .map(|attribute| {
            let text = attribute.attr_value();
            Some((attribute.attr_type().iter()?.collect(), text.tag().0, text.data.to_vec()))
        })
        .collect()
}

fn text_of(name: &X509Name<'_>, wanted: &Oid<'_>) -> Option<String> {
    name.iter_by_oid(wanted).next().map(|attribute| der::shown(attribute.attr_value().data))
}

fn shown(name: &X509Name<'_>) -> String {
    match (text_of(name, &OID_X509_COMMON_NAME), text_of(name, &OID_X509_ORGANIZATION_NAME)) {
        (Some(common), Some(organization)) => format!("{common} ({organization})"),
        (one, other) => one.or(other).unwrap_or_else(|| "an unnamed issuer".to_owned()),
    }
}
