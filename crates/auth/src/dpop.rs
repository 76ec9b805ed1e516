//! DPoP: access tokens that are useless without the key that they are bound to
//! ([RFC 9449](https://www.rfc-editor.org/rfc/rfc9449),
//! [SEP-1932](https://github.com/modelcontextprotocol/modelcontextprotocol/pull/1932)).
//!
//! Called by `token` for requests to a token endpoint, and by `oauth` for requests to the server. Each request has a proof of
//! its own, also when it is sent again. The key leaves this process only for the store.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use mcpjoin_proto::Raw;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use url::Url;

use super::error::AuthError;
use super::jws::{Header, KeyError, SigningKey, encode};
use super::oauth::OAuthBuilder;
use super::secret::Secret;
use super::token::TokenError;

/// How many endpoints have a stored nonce: a server and its token endpoint are two.
const MAX_ENDPOINTS: usize = 8;
/// The longest nonce that is used, in bytes. The RFC has no limit; nonces in use have a few dozen.
const MAX_DPOP_NONCE_BYTES: usize = 1024;
/// The `typ` of a proof.
const TYPE: &str = "dpop+jwt";

impl OAuthBuilder {
    /// Binds tokens to a key, so that a stolen token cannot be used. An authorization server without DPoP issues tokens that are
    /// not bound, and those are used as they are.
    ///
    /// The key is generated for the login and stored with it: every program that reads the store can use it, also without this
    /// option.
    pub const fn dpop(mut self) -> Self {
        self.dpop = true;
        self
    }
}

/// Uses the stored key, or generates one.
pub(super) fn possession(kept: Option<&Secret>) -> Result<Arc<Dpop>, AuthError> {
    let made = kept.map_or_else(Dpop::new, |pem| Dpop::kept(pem.clone()));
    let dpop = made.map_err(|error| TokenError::Unasked(error.to_string()))?;
    Ok(Arc::new(dpop))
}

/// The key that tokens are bound to, and the nonces that servers require in the next proof.
pub(super) struct Dpop {
    key: SigningKey,
    /// The same key, as it is stored.
    pem: Secret,
    /// By the endpoint that sent it, the newest last. The nonces of an authorization server and of a server are not
    /// interchangeable, even at the same origin (RFC 9449, 8 and 9).
    nonces: Mutex<Vec<(String, String)>>,
}

impl fmt::Debug for Dpop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dpop").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Dpop {
    /// Generates a key.
    fn new() -> Result<Self, KeyError> {
        Self::kept(Secret::new(SigningKey::generate_pem()?))
    }

    /// Uses a stored key.
    fn kept(pem: Secret) -> Result<Self, KeyError> {
        Ok(Self { key: SigningKey::from_pem(pem.expose())?, pem, nonces: Mutex::default() })
    }

    /// A proof for one request at `time`, valid for no other. `None` when the system has no random bytes, when the clock is before
    /// 1970, or for an invalid URL: the request is sent without a proof, and the server reports what is missing.
    fn proof_at(
        &self,
        now: SystemTime,
        method: &str,
        url: &str,
        access_token: Option<&str>,
    ) -> Option<HeaderValue> {
        let endpoint = endpoint(url)?;
        let mut id = [0; 16];
        getrandom::fill(&mut id).ok()?;
        let now = now.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let mut claims = format!(
            r#"{{"jti":"{}","htm":{},"htu":{},"iat":{now}"#,
            encode(id),
            Raw::string(method).as_str(),
            Raw::string(&endpoint).as_str(),
        );
        if let Some(token) = access_token {
            claims = format!(r#"{claims},"ath":"{}""#, encode(Sha256::digest(token.as_bytes())));
        }
        let nonces = self.nonces.lock();
        if let Some((_, nonce)) = nonces.iter().find(|(of, _)| *of == endpoint) {
            claims = format!(r#"{claims},"nonce":{}"#, Raw::string(nonce).as_str());
        }
        drop(nonces);
        claims.push('}');
        let header = Header { kind: Some(TYPE), with_jwk: true, ..Header::default() };
        let proof = self.key.sign(header, &Raw::parse(claims).ok()?).ok()?;
        let mut value = HeaderValue::try_from(proof).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// A proof for one request, with the hash of its token if it has one.
    pub(super) fn proof(&self, method: &str, url: &str, access_token: Option<&str>) -> Option<HeaderValue> {
        self.proof_at(SystemTime::now(), method, url, access_token)
    }

    /// Stores the nonce that a server requires from now on.
    pub(super) fn nonce(&self, url: &str, nonce: &str) {
        // 1*NQCHAR (RFC 9449, 8.1).
        let is_plain = |byte: u8| matches!(byte, 0x21 | 0x23..=0x5B | 0x5D..=0x7E);
        let is_nonce =
            !nonce.is_empty() && nonce.len() <= MAX_DPOP_NONCE_BYTES && nonce.bytes().all(is_plain);
        let Some(endpoint) = endpoint(url).filter(|_| is_nonce) else { return };
        let mut nonces = self.nonces.lock();
        nonces.retain(|(of, _)| *of != endpoint);
        if nonces.len() == MAX_ENDPOINTS {
            nonces.remove(0);
        }
        nonces.push((endpoint, nonce.to_owned()));
    }

    /// The private key, which is stored with its tokens.
    pub(super) fn key(&self) -> Secret {
        self.pem.clone()
    }
}

/// `htu`: the URL without query, fragment and user.
fn endpoint(url: &str) -> Option<String> {
    let mut url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    url.set_query(None);
    url.set_fragment(None);
    url.set_username("").ok()?;
    url.set_password(None).ok()?;
    Some(url.into())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use mcpjoin_proto::Raw;

    use super::super::jws::{Jws, PublicKey};
    use super::{Dpop, MAX_DPOP_NONCE_BYTES, MAX_ENDPOINTS, Secret};

    const SERVER: &str = "https://server.example/mcp";
    const TOKENS: &str = "https://server.example/token";

    /// The claims of a proof, after its signature was verified, and the key in it.
    fn read(proof: Option<http::HeaderValue>) -> (Raw, PublicKey) {
        let proof = proof.unwrap();
        assert!(proof.is_sensitive());
        let jws = Jws::parse(proof.to_str().unwrap()).unwrap();
        assert_eq!(jws.kind().as_deref(), Some("dpop+jwt"));
        let jwk = jws.jwk().unwrap();
        assert!(jwk.member("d").is_none());
        let key = PublicKey::from_jwk(&jwk).unwrap();
        (jws.verify_with(&key).unwrap().clone(), key)
    }

    fn claim(claims: &Raw, name: &str) -> Option<String> {
        claims.member(name).map(|value| value.as_str().trim_matches('"').to_owned())
    }

    #[test]
    fn a_proof_is_of_one_request() {
        let dpop = Dpop::new().unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1_562_262_618);
        // RFC 9449, 7.1: the example token and its `ath`.
        let token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU";
        let url = "HTTPS://user:secret@Server.Example:443/mcp?session=secret#part";
        let (claims, key) = read(dpop.proof_at(now, "POST", url, Some(token)));
        assert_eq!(claim(&claims, "htm").unwrap(), "POST");
        assert_eq!(claim(&claims, "htu").unwrap(), SERVER);
        assert_eq!(claim(&claims, "iat").unwrap(), "1562262618");
        assert_eq!(claim(&claims, "ath").unwrap(), "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo");
        assert_eq!(claim(&claims, "nonce"), None);
        assert!(!claims.as_str().contains("secret"));

        let (again, same) = read(dpop.proof_at(now, "POST", url, Some(token)));
        assert_ne!(claim(&again, "jti"), claim(&claims, "jti"));
        assert_eq!(same, key);
        let (unbound, _) = read(dpop.proof("POST", TOKENS, None));
        assert_eq!(claim(&unbound, "ath"), None);

        assert!(dpop.proof_at(UNIX_EPOCH - Duration::from_secs(1), "POST", SERVER, None).is_none());
        for url in ["", "mcp", "mailto:a@b.example", "file:///etc/passwd"] {
            assert!(dpop.proof("POST", url, None).is_none(), "{url}");
        }
    }

    #[test]
    fn nonces_are_for_the_server_that_gave_them() {
        let dpop = Dpop::new().unwrap();
        let nonce = |url: &str| claim(&read(dpop.proof("POST", url, None)).0, "nonce");
        dpop.nonce(SERVER, "eyJ7S_zG.eyJH0-Z.HX4w-7v");
        dpop.nonce(TOKENS, "other");
        assert_eq!(nonce(SERVER).unwrap(), "eyJ7S_zG.eyJH0-Z.HX4w-7v");
        assert_eq!(nonce(&format!("{SERVER}?a=b")).unwrap(), "eyJ7S_zG.eyJH0-Z.HX4w-7v");
        assert_eq!(nonce(TOKENS).unwrap(), "other");
        assert_eq!(nonce("https://elsewhere.example/mcp"), None);
        dpop.nonce(SERVER, "next");
        assert_eq!(nonce(SERVER).unwrap(), "next");

        for wrong in ["", "a b", "a\"b", "a\\b", "a\u{e4}", "a\r\nb", &"a".repeat(MAX_DPOP_NONCE_BYTES + 1)] {
            dpop.nonce(SERVER, wrong);
            assert_eq!(nonce(SERVER).unwrap(), "next", "{wrong:?}");
        }
        for number in 0..100 {
            dpop.nonce(&format!("https://many.example/{number}"), "a");
        }
        assert_eq!(dpop.nonces.lock().len(), MAX_ENDPOINTS);
        assert_eq!(nonce(SERVER), None);
        assert_eq!(nonce("https://many.example/99").unwrap(), "a");
    }

    #[test]
    fn the_key_is_kept_and_never_shown() {
        let dpop = Dpop::new().unwrap();
        let kept = dpop.key();
        let (_, key) = read(dpop.proof("GET", SERVER, None));
        let (_, again) = read(Dpop::kept(kept.clone()).unwrap().proof("GET", SERVER, None));
        assert_eq!(again, key);
        assert!(Dpop::kept(Secret::new("no key")).is_err());
        let shown = format!("{dpop:?}");
        let inside = kept.expose().lines().nth(1).unwrap();
        assert!(shown.starts_with("Dpop") && !shown.contains(&inside[60..]), "{shown}");
    }
}
