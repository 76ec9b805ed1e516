//! Private keys, and signing.
//!
//! Called by `grants` (assertions) and `dpop` (proofs). A key is read from PEM, in PKCS#8 or in the older forms of OpenSSL
//! (`EC PRIVATE KEY`, `RSA PRIVATE KEY`), or generated. No key is ever shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcpjoin_proto::Raw;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};

use super::{Algorithm, PublicKey, encode};
use mcpjoin::internal::der;

/// The longest PEM that is read, in bytes: an RSA key of 8192 bits has 6.4 KiB.
const MAX_PEM_BYTES: usize = 64 * 1024;

/// Why a text is no usable key, or why signing failed. Contains nothing of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct KeyError(&'static str);

const NO_PEM: KeyError = KeyError("the private key is not in PEM (-----BEGIN PRIVATE KEY-----)");
const ENCRYPTED: KeyError = KeyError("the private key is encrypted: remove its passphrase");
const NO_KEY: KeyError = KeyError(
    "the private key is neither a P-256 key with its public half nor an RSA key of 2048 to 4096 bits",
);
const NO_RANDOMNESS: KeyError = KeyError("the system provides no random numbers");

/// The header of a token, beside `alg`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header<'a> {
    /// `typ`.
    pub(crate) kind: Option<&'a str>,
    /// `kid`.
    pub(crate) key_id: Option<&'a str>,
    /// Whether the public key is included as `jwk`.
    pub(crate) with_jwk: bool,
}

/// A private key: P-256 signs with ES256, RSA with RS256.
pub(crate) struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    P256(Box<EcdsaKeyPair>),
    Rsa(Box<RsaKeyPair>),
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Reads a key.
    ///
    /// # Errors
    /// When the text is no PEM of a supported key.
    pub(crate) fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let (label, der) = read_pem(pem).ok_or(NO_PEM)?;
        match label {
            "PRIVATE KEY" => Self::p256_from_pkcs8(&der)
                .or_else(|| Self::from_rsa(RsaKeyPair::from_pkcs8(&der).ok()?))
                .ok_or(NO_KEY),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(&der).ok().and_then(Self::from_rsa).ok_or(NO_KEY),
            "EC PRIVATE KEY" => Self::p256_from_sec1(&der).ok_or(NO_KEY),
            "ENCRYPTED PRIVATE KEY" => Err(ENCRYPTED),
            _ => Err(NO_PEM),
        }
    }

    /// Generates a key of P-256, as PEM, which the caller stores. It is a secret.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub(crate) fn generate_pem() -> Result<String, KeyError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(|_| NO_RANDOMNESS)?;
        Ok(format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(document)))
    }

    fn p256_from_pkcs8(der: &[u8]) -> Option<Self> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &SystemRandom::new())
            .ok()
            .and_then(Self::from_p256)
    }

    /// `ECPrivateKey` of [RFC 5915](https://www.rfc-editor.org/rfc/rfc5915): version, key, [0] curve, [1] public key.
    fn p256_from_sec1(der: &[u8]) -> Option<Self> {
        let (fields, _) = der::value(der, 0x30)?;
        let (_, fields) = der::value(fields, 0x02)?;
        let (private, mut fields) = der::value(fields, 0x04)?;
        let public = loop {
            let (tag, value, rest) = der::element(fields)?;
            if tag == 0xA1 {
                break der::value(value, 0x03)?.0;
            }
            fields = rest;
        };
        // The first octet of a bit string is the number of unused bits.
        let public = public.strip_prefix(&[0])?;
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        EcdsaKeyPair::from_private_key_and_public_key(algorithm, private, public, &SystemRandom::new())
            .ok()
            .and_then(Self::from_p256)
    }

    fn from_p256(pair: EcdsaKeyPair) -> Option<Self> {
        let public = PublicKey::from_point(pair.public_key().as_ref())?;
        Some(Self { pair: Pair::P256(Box::new(pair)), public })
    }

    fn from_rsa(pair: RsaKeyPair) -> Option<Self> {
        let components: PublicKeyComponents<Vec<u8>> = pair.public().into();
        let public = PublicKey::rsa(&components.n, &components.e)?;
        Some(Self { pair: Pair::Rsa(Box::new(pair)), public })
    }

    /// Its algorithm.
    pub(crate) const fn algorithm(&self) -> Algorithm {
        match self.pair {
            Pair::P256(_) => Algorithm::Es256,
            Pair::Rsa(_) => Algorithm::Rs256,
        }
    }

    /// Its public half.
    pub(crate) const fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs claims; returns the token in compact form.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub(crate) fn sign(&self, header: Header<'_>, claims: &Raw) -> Result<String, KeyError> {
        let mut written = format!(r#"{{"alg":"{}""#, self.algorithm().name());
        for (name, value) in [("typ", header.kind), ("kid", header.key_id)] {
            if let Some(value) = value {
                written = format!(r#"{written},"{name}":{}"#, Raw::string(value).as_str());
            }
        }
        if header.with_jwk {
            written = format!(r#"{written},"jwk":{}"#, self.public.jwk().as_str());
        }
        written.push('}');
        let signed = format!("{}.{}", encode(written), encode(claims.as_bytes()));
        let signature = self.signature(signed.as_bytes())?;
        Ok(format!("{signed}.{}", encode(signature)))
    }

    fn signature(&self, signed: &[u8]) -> Result<Vec<u8>, KeyError> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::P256(pair) => pair.sign(&random, signed).map(|signature| signature.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, signed, &mut signature).map(|()| signature)
            }
        }
        .map_err(|_| NO_RANDOMNESS)
    }
}

/// Label and content of the first private key block ([RFC 7468](https://www.rfc-editor.org/rfc/rfc7468)).
pub(super) fn read_pem(pem: &str) -> Option<(&str, Vec<u8>)> {
    let mut rest = Some(pem).filter(|pem| pem.len() <= MAX_PEM_BYTES)?;
    loop {
        let (label, after) = rest.split_once("-----BEGIN ")?.1.split_once("-----")?;
        let (content, after) = after.split_once("-----END ")?;
        // OpenSSL may write the curve in a block before the key.
        if label.ends_with("PRIVATE KEY") {
            // The old encrypted form has headers, and a colon is no Base64.
            if content.contains("ENCRYPTED") {
                return Some(("ENCRYPTED PRIVATE KEY", Vec::new()));
            }
            let content: String = content.split_ascii_whitespace().collect();
            return Some((label, STANDARD.decode(content).ok()?));
        }
        rest = after;
    }
}
