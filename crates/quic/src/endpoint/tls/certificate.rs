//! Reads the fields of a certificate that errors, reports and renewal need ([RFC
//! 5280](https://www.rfc-editor.org/rfc/rfc5280#section-4.1)).
//!
//! Nothing here verifies a certificate: webpki alone decides whether it is valid.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};

use super::time::Moment;
use mcpjoin::internal::der::{self, element, value};

// DER tags.
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

// Object identifiers in DER, without their heads.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const SUBJECT_KEY_ID: &[u8] = &[0x55, 0x1d, 0x0e];
const ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const SERVER_USE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const CLIENT_USE: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
const ANY_USE: &[u8] = &[0x55, 0x1d, 0x25, 0x00];

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
    pub subject_parts: Vec<(Vec<u8>, u8, Vec<u8>)>,
    /// Whether subject and issuer are the same.
    pub self_issued: bool,
}

impl CertificateFacts {
    /// Reads a certificate from DER. Returns `None` if it is malformed. The signature is not verified.
    #[must_use]
    pub fn read(der: &[u8]) -> Option<Self> {
        let (certificate, _) = value(der, SEQUENCE)?;
        let (signed, _) = value(certificate, SEQUENCE)?;
        // Version 1 certificates omit the version.
        let rest = value(signed, VERSION).map_or(signed, |(_, rest)| rest);
        let (_, rest) = value(rest, INTEGER)?;
        let (_, rest) = value(rest, SEQUENCE)?;
        let (issuer, rest) = value(rest, SEQUENCE)?;
        let (validity, rest) = value(rest, SEQUENCE)?;
        let (subject, rest) = value(rest, SEQUENCE)?;
        let (_, after_key) = value(rest, SEQUENCE)?;
        // The hash covers the whole element, its head included.
        let whole_key = rest.get(..rest.len() - after_key.len())?;
        let (not_before, validity) = moment(validity)?;
        let (not_after, _) = moment(validity)?;
        let subject_parts = parts(subject)?;
        let mut facts = Self {
            common_name: text_of(&subject_parts, COMMON_NAME),
            subject: shown(&subject_parts),
            issuer: shown(&parts(issuer)?),
            not_before: not_before.0,
            not_after: not_after.0,
            names: Vec::new(),
            for_servers: true,
            for_clients: true,
            is_authority: false,
            key_hash: Sha256::digest(whole_key).into(),
            key_id: None,
            subject_parts,
            self_issued: subject == issuer,
        };
        let mut rest = after_key;
        while let Some((tag, body, after)) = element(rest) {
            rest = after;
            if tag == EXTENSIONS {
                let (mut list, _) = value(body, SEQUENCE)?;
                while let Some((extension, after)) = value(list, SEQUENCE) {
                    list = after;
                    facts.read_extension(extension)?;
                }
            }
        }
        Some(facts)
    }

    fn read_extension(&mut self, extension: &[u8]) -> Option<()> {
        let (kind, rest) = value(extension, OBJECT)?;
        // The criticality flag.
        let rest = value(rest, BOOLEAN).map_or(rest, |(_, rest)| rest);
        let (body, _) = value(rest, OCTETS)?;
        match kind {
            SUBJECT_KEY_ID => self.key_id = Some(value(body, OCTETS)?.0.to_vec()),
            BASIC_CONSTRAINTS => {
                let (body, _) = value(body, SEQUENCE)?;
                self.is_authority = value(body, BOOLEAN).is_some_and(|(yes, _)| yes != [0]);
            }
            EXTENDED_KEY_USAGE => {
                (self.for_servers, self.for_clients) = (false, false);
                let (mut list, _) = value(body, SEQUENCE)?;
                while let Some((usage, rest)) = value(list, OBJECT) {
                    list = rest;
                    self.for_servers |= usage == SERVER_USE || usage == ANY_USE;
                    self.for_clients |= usage == CLIENT_USE || usage == ANY_USE;
                }
            }
            ALT_NAME => {
                let (mut list, _) = value(body, SEQUENCE)?;
                while let Some((tag, name, rest)) = element(list) {
                    list = rest;
                    match tag {
                        DNS_NAME => self.names.push(der::shown(name)),
                        IP_ADDRESS => self.names.extend(address(name).map(|address| address.to_string())),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
        Some(())
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

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

fn moment(der: &[u8]) -> Option<(Moment, &[u8])> {
    let (tag, digits, rest) = element(der)?;
    let moment = match tag {
        UTC_TIME => Moment::of_digits(digits, 2)?,
        GENERALIZED_TIME => Moment::of_digits(digits, 4)?,
        _ => return None,
    };
    Some((moment, rest))
}

type Parts = Vec<(Vec<u8>, u8, Vec<u8>)>;

/// The attributes of a distinguished name.
fn parts(mut name: &[u8]) -> Option<Parts> {
    let mut found = Vec::new();
    while !name.is_empty() {
        let (mut set, rest) = value(name, SET)?;
        name = rest;
        while !set.is_empty() {
            let (part, rest) = value(set, SEQUENCE)?;
            set = rest;
            let (kind, text) = value(part, OBJECT)?;
            let (tag, text, _) = element(text)?;
            found.push((kind.to_vec(), tag, text.to_vec()));
        }
    }
    Some(found)
}

fn text_of(parts: &Parts, wanted: &[u8]) -> Option<String> {
    parts.iter().find(|(kind, ..)| kind == wanted).map(|(.., text)| der::shown(text))
}

fn shown(parts: &Parts) -> String {
    match (text_of(parts, COMMON_NAME), text_of(parts, ORGANIZATION)) {
        (Some(common), Some(organization)) => format!("{common} ({organization})"),
        (one, other) => one.or(other).unwrap_or_else(|| "somebody without a name".to_owned()),
    }
}
