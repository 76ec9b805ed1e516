//! Public keys: read from a JWK or a JWK set, written as a JWK, and used to verify.
//!
//! Called by `jws`. Keys of a set that cannot be used are skipped, as RFC 7517, section 5, requires.

use mcpjoin_proto::{Kind, Raw};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256, RsaParameters,
    RsaPublicKeyComponents, UnparsedPublicKey,
};

use super::{Algorithm, decode, encode, text};

/// How many keys of one set are used: each may cost a verification. Sets of large providers have about ten.
pub(super) const MAX_KEYS: usize = 64;

/// A public key that can verify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PublicKey {
    /// A point on P-256, uncompressed: 4, x, y.
    P256([u8; 65]),
    /// 2048 to 8192 bits; ring refuses to verify with others.
    Rsa {
        /// Big endian, without leading zeros.
        modulus: Vec<u8>,
        /// As above.
        exponent: Vec<u8>,
    },
    /// The point of Ed25519.
    Ed25519([u8; 32]),
}

impl PublicKey {
    /// Reads a JWK; `None` when its type is not supported, or it is invalid.
    pub(crate) fn from_jwk(jwk: &Raw) -> Option<Self> {
        let bytes = |name: &str| text(jwk, name).and_then(|value| decode(&value));
        match (text(jwk, "kty")?.as_str(), text(jwk, "crv").as_deref()) {
            ("EC", Some("P-256")) => Self::p256(&bytes("x")?, &bytes("y")?),
            ("OKP", Some("Ed25519")) => Some(Self::Ed25519(bytes("x")?.try_into().ok()?)),
            ("RSA", _) => Self::rsa(&bytes("n")?, &bytes("e")?),
            _ => None,
        }
    }

    fn p256(x: &[u8], y: &[u8]) -> Option<Self> {
        let mut point = [4; 65];
        // Each coordinate has the length of the field, with leading zeros (RFC 7518, 6.2.1.2).
        point[1..33].copy_from_slice(x.first_chunk::<32>().filter(|_| x.len() == 32)?);
        point[33..].copy_from_slice(y.first_chunk::<32>().filter(|_| y.len() == 32)?);
        Some(Self::P256(point))
    }

    pub(super) fn from_point(point: &[u8]) -> Option<Self> {
        point.try_into().ok().map(Self::P256)
    }

    pub(super) fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        // Some issuers write the leading zero that DER needs before a high bit, which a JWK must not have.
        let trimmed = |bytes: &[u8]| {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            bytes.get(zeros..).unwrap_or_default().to_vec()
        };
        let (modulus, exponent) = (trimmed(modulus), trimmed(exponent));
        (!modulus.is_empty() && !exponent.is_empty()).then_some(Self::Rsa { modulus, exponent })
    }

    /// The JWK with its required members only, in the order and form whose digest is the thumbprint.
    pub(crate) fn jwk(&self) -> Raw {
        let text = match self {
            Self::P256(point) => {
                let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
                format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#)
            }
            Self::Rsa { modulus, exponent } => {
                format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, encode(exponent), encode(modulus))
            }
            Self::Ed25519(point) => {
                format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, encode(point))
            }
        };
        Raw::parse(text).expect("Base64url needs no escapes")
    }

    /// SHA-256 of [`Self::jwk`] in Base64url: `jkt` of DPoP ([RFC 7638](https://www.rfc-editor.org/rfc/rfc7638)), which
    /// identifies the key that a token is bound to.
    #[cfg(test)]
    pub(crate) fn thumbprint(&self) -> String {
        encode(<sha2::Sha256 as sha2::Digest>::digest(self.jwk().as_bytes()))
    }

    /// Whether this key fits the algorithm: a key is never used as one of another type.
    pub(super) const fn fits(&self, algorithm: Algorithm) -> bool {
        matches!(
            (self, algorithm),
            (Self::P256(_), Algorithm::Es256)
                | (Self::Rsa { .. }, Algorithm::Rs256 | Algorithm::Ps256)
                | (Self::Ed25519(_), Algorithm::EdDsa)
        )
    }

    /// Whether this key has signed the text with the algorithm.
    pub(super) fn has_signed(&self, algorithm: Algorithm, signed: &[u8], signature: &[u8]) -> bool {
        let rsa = |parameters: &RsaParameters, n: &[u8], e: &[u8]| {
            RsaPublicKeyComponents { n, e }.verify(parameters, signed, signature)
        };
        let verified = match (self, algorithm) {
            (Self::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
            }
            (Self::Rsa { modulus, exponent }, Algorithm::Rs256) => {
                rsa(&RSA_PKCS1_2048_8192_SHA256, modulus, exponent)
            }
            (Self::Rsa { modulus, exponent }, Algorithm::Ps256) => {
                rsa(&RSA_PSS_2048_8192_SHA256, modulus, exponent)
            }
            (Self::Ed25519(point), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&ED25519, point).verify(signed, signature)
            }
            _ => return false,
        };
        verified.is_ok()
    }
}

/// A text is no JWK set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JWK Set: {0}")]
pub(crate) struct KeySetError(&'static str);

/// The keys of an issuer (RFC 7517, section 5).
#[derive(Clone, Debug, Default)]
pub(crate) struct KeySet(Vec<Published>);

#[derive(Clone, Debug)]
struct Published {
    id: Option<String>,
    algorithm: Option<Algorithm>,
    key: PublicKey,
}

impl KeySet {
    /// Reads a JWK set. Keys that are not for signatures, or of an unknown type, are skipped; the first [`MAX_KEYS`] are kept.
    /// The caller limits the length of the text.
    ///
    /// # Errors
    /// When it is not a JSON object with an array `keys`.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, KeySetError> {
        let set = Raw::parse(text.to_vec()).map_err(|_| KeySetError("it is not JSON"))?;
        let keys = set.member("keys").ok_or(KeySetError("it has no keys"))?;
        if keys.kind() != Kind::Array {
            return Err(KeySetError("its keys are not an array"));
        }
        let keys: Vec<Raw> = keys.decode().map_err(|_| KeySetError("its keys are not an array"))?;
        Ok(Self(keys.iter().filter_map(Published::read).take(MAX_KEYS).collect()))
    }

    /// The number of keys that can be used.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The keys that may have signed a token with that `kid` and `alg`.
    pub(super) fn candidates(
        &self,
        key_id: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &PublicKey> {
        let named = move |key: &&Published| key_id.is_none_or(|key_id| key.id.as_deref() == Some(key_id));
        self.0.iter().filter(named).filter(move |key| key.fits(algorithm)).map(|key| &key.key)
    }
}

impl Published {
    fn read(jwk: &Raw) -> Option<Self> {
        let algorithm = match text(jwk, "alg") {
            Some(name) => Some(Algorithm::parse(&name)?),
            None => None,
        };
        let for_signatures = text(jwk, "use").is_none_or(|purpose| purpose == "sig");
        let may_verify = jwk.member("key_ops").is_none_or(|operations| {
            operations.decode::<Vec<String>>().is_ok_and(|all| all.iter().any(|one| one == "verify"))
        });
        if !for_signatures || !may_verify {
            return None;
        }
        Some(Self { id: text(jwk, "kid"), algorithm, key: PublicKey::from_jwk(jwk)? })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        self.algorithm.is_none_or(|declared| declared == algorithm) && self.key.fits(algorithm)
    }
}
