//! Certificates in the form of Orchestra's programs: Ed25519, valid for a year, one authority, and one certificate for
//! each name that serves clients and servers.
//!
//! Differences that are not visible on the wire are avoided too: key files use version 1 of PKCS #8, which every
//! program can read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use rcgen::string::{BmpString, Ia5String, PrintableString, TeletexString, UniversalString};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType, SerialNumber,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use sha2::{Digest as _, Sha256};

use mcpjoin_quic::endpoint::{CertificateErrorKind, CertificateFacts, Moment};

const ORGANIZATION: &str = "Orchestra";
const AUTHORITY: &str = "Orchestra CA";
/// Validity of a certificate, in seconds.
const VALIDITY_SECS: i64 = 365 * 86_400;
/// How far back the validity starts, in seconds, because another machine's clock may be behind.
const BACKDATE_SECS: i64 = 60;
/// A certificate is renewed when its remaining validity is at most this, in seconds.
pub(super) const RENEWAL_SECS: i64 = 30 * 86_400;

type Result<T> = std::result::Result<T, CertificateErrorKind>;

fn tls_error(error: &rcgen::Error) -> CertificateErrorKind {
    CertificateErrorKind::Tls(error.to_string())
}

/// Generates a key.
pub(super) fn new_key() -> Result<KeyPair> {
    /// The DER before the 32 bytes of an Ed25519 key: <https://www.rfc-editor.org/rfc/rfc8410#section-7>.
    const HEAD: [u8; 16] = *b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
    let mut der = [0; 48];
    let (head, secret) = der.split_at_mut(HEAD.len());
    head.copy_from_slice(&HEAD);
    random(secret)?;
    KeyPair::try_from(&PrivatePkcs8KeyDer::from(&der[..])).map_err(|error| tls_error(&error))
}

/// Parses a key from PEM.
pub(super) fn read_key(pem: &[u8]) -> Result<KeyPair> {
    KeyPair::from_pem(&String::from_utf8_lossy(pem)).map_err(|_| {
        CertificateErrorKind::Key("there is no Ed25519, ECDSA or RSA key in PEM in it".to_owned())
    })
}

/// The SHA-256 of the public key, as in [`CertificateFacts::key_hash`].
pub(super) fn key_hash(key: &KeyPair) -> [u8; 32] {
    Sha256::digest(key.subject_public_key_info()).into()
}

fn random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| CertificateErrorKind::Tls(error.to_string()))
}

/// The parameters that all certificates share.
fn params(now: Moment, begins: Option<Moment>) -> Result<CertificateParams> {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let seconds = |moment: i64| Duration::from_secs(u64::try_from(moment).unwrap_or_default());
    let mut serial = [0; 16];
    random(&mut serial)?;
    let mut params = CertificateParams::default();
    params.not_before = epoch + seconds(begins.unwrap_or(Moment(now.0 - BACKDATE_SECS)).0);
    params.not_after = epoch + seconds(now.0 + VALIDITY_SECS);
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    Ok(params)
}

/// Orchestra writes names as `PrintableString`.
fn printable(text: &str) -> Result<DnValue> {
    // A name with other characters, which Orchestra itself never has, is written as UTF-8.
    Ok(PrintableString::try_from(text).map_or_else(|_| text.into(), DnValue::PrintableString))
}

fn name(common: &str) -> Result<DistinguishedName> {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, printable(ORGANIZATION)?);
    name.push(DnType::CommonName, printable(common)?);
    Ok(name)
}

/// Creates the certificate of an authority with this key, as PEM. `old` is the certificate that it replaces.
pub(super) fn authority(key: &KeyPair, old: Option<&CertificateFacts>, now: Moment) -> Result<String> {
    let mut params = params(now, old.map(CertificateFacts::begins))?;
    params.distinguished_name = match old {
        Some(old) => name_of(old)?,
        None => name(AUTHORITY)?,
    };
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    if let Some(id) = old.and_then(|old| old.key_id.clone()) {
        params.key_identifier_method = KeyIdMethod::PreSpecified(id);
    }
    Ok(params.self_signed(key).map_err(|error| tls_error(&error))?.pem())
}

/// Whether an authority was created by Orchestra, so that its certificate can be renewed without loss.
pub(super) fn is_ours(authority: &CertificateFacts) -> bool {
    authority.self_issued && authority.subject == format!("{AUTHORITY} ({ORGANIZATION})")
}

/// Creates a certificate for this name and key, signed by the authority, as PEM. `more` has names in addition to the
/// standard ones.
pub(super) fn leaf(
    common: &str,
    more: &[String],
    key: &KeyPair,
    authority: &CertificateFacts,
    authority_key: KeyPair,
    now: Moment,
) -> Result<String> {
    let mut params = params(now, None)?;
    params.distinguished_name = name(common)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let cannot = |_| CertificateErrorKind::Name(common.to_owned());
    params.subject_alt_names = vec![
        SanType::DnsName(Ia5String::try_from(common).map_err(cannot)?),
        SanType::DnsName(Ia5String::try_from("localhost").map_err(cannot)?),
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ];
    for more in more {
        let more = match more.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(Ia5String::try_from(more.as_str()).map_err(cannot)?),
        };
        if !params.subject_alt_names.contains(&more) {
            params.subject_alt_names.push(more);
        }
    }
    let mut signer = CertificateParams::default();
    signer.distinguished_name = name_of(authority)?;
    if let Some(id) = authority.key_id.clone() {
        params.use_authority_key_identifier_extension = true;
        signer.key_identifier_method = KeyIdMethod::PreSpecified(id);
    }
    let issuer = Issuer::new(signer, authority_key);
    Ok(params.signed_by(key, &issuer).map_err(|error| tls_error(&error))?.pem())
}

/// The subject of a certificate with the original encoding of each text, because issuers are matched byte by byte.
fn name_of(facts: &CertificateFacts) -> Result<DistinguishedName> {
    let unknown = || {
        CertificateErrorKind::Tls(format!(
            "the name of `{}` has an encoding that is not known",
            facts.subject
        ))
    };
    let mut name = DistinguishedName::new();
    for (kind, tag, text) in &facts.subject_parts {
        let utf8 = || std::str::from_utf8(text).map_err(|_| unknown());
        let value = match tag {
            0x0c => DnValue::Utf8String(utf8()?.to_owned()),
            0x13 => DnValue::PrintableString(PrintableString::try_from(utf8()?).map_err(|_| unknown())?),
            0x14 => DnValue::TeletexString(TeletexString::try_from(utf8()?).map_err(|_| unknown())?),
            0x16 => DnValue::Ia5String(Ia5String::try_from(utf8()?).map_err(|_| unknown())?),
            0x1c => {
                DnValue::UniversalString(UniversalString::from_utf32be(text.clone()).map_err(|_| unknown())?)
            }
            0x1e => DnValue::BmpString(BmpString::from_utf16be(text.clone()).map_err(|_| unknown())?),
            _ => return Err(unknown()),
        };
        let kind = DnType::from_oid(kind);
        if name.get(&kind).is_some() {
            return Err(unknown());
        }
        name.push(kind, value);
    }
    Ok(name)
}
