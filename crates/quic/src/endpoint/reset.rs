//! What lets a listener that was started again tell its former peers so: stateless resets
//! ([RFC 9000, section 10.3](https://www.rfc-editor.org/rfc/rfc9000#section-10.3)).
//!
//! A peer that goes on with a connection which nobody here knows any more is answered with a token that only the one who
//! had the connection can know: it hears at once what it would else have to conclude from 30 s of silence. The token
//! comes from the private key and the address, so it is the same after a restart, and another one for another address with
//! the same certificate: nobody can ask the one for the tokens of the other. Hosts that listen on every address (`0.0.0.0`,
//! `[::]`) must not share a private key, for on these alone they cannot be told apart. Called by `listen`, and by who reads keys.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use quinn::crypto::{CryptoError, HmacKey};
use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use sha2::Sha256;

/// The length of an id, in bytes: each packet carries one.
const ID: usize = 8;

/// A key for one purpose, from the secret of an identity.
#[derive(Clone)]
struct Key(Hmac<Sha256>);

impl Key {
    fn new(secret: &[u8]) -> Option<Self> {
        Hmac::new_from_slice(secret).ok().map(Self)
    }

    fn derive(&self, purpose: &str, of: &str) -> Option<Self> {
        let mut mac = self.0.clone();
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(of.as_bytes());
        Self::new(&mac.finalize().into_bytes())
    }

    fn sign(&self, data: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(data);
        mac.finalize().into_bytes().into()
    }
}

impl HmacKey for Key {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        for (out, byte) in signature_out.iter_mut().zip(Self::sign(self, data)) {
            *out = byte;
        }
    }

    fn signature_len(&self) -> usize {
        32
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let mut mac = self.0.clone();
        mac.update(data);
        mac.verify_slice(signature).map_err(|_| CryptoError)
    }
}

/// Makes ids of connections: nothing can be told from them. Unlike those of quinn they have no mark by which a listener
/// knows its own, and which is another one after a restart: who brings an id that is not known is answered.
struct Ids {
    key: Key,
    /// Another one each time that a listener is made.
    seed: u64,
    made: u64,
}

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        self.made = self.made.wrapping_add(1);
        let drawn = self.key.sign(&[self.seed.to_le_bytes(), self.made.to_le_bytes()].concat());
        ConnectionId::new(&drawn[..ID])
    }

    fn cid_len(&self) -> usize {
        ID
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The configuration of a listener at that address with that secret. `None` when the secret is no key.
pub(super) fn endpoint(secret: &[u8; 32], address: SocketAddr) -> Option<EndpointConfig> {
    let secret = Key::new(secret)?;
    let of = address.to_string();
    let (tokens, ids) = (secret.derive("stateless reset", &of)?, secret.derive("connection id", &of)?);
    let mut config = EndpointConfig::new(Arc::new(tokens));
    config.cid_generator(move || {
        Box::new(Ids { key: ids.clone(), seed: RandomState::new().hash_one(0), made: 0 })
    });
    Some(config)
}

/// What the keys of a listener come from, when this is its private key.
pub(super) fn secret(private_key: &[u8]) -> [u8; 32] {
    Key::new(private_key).map_or([0; 32], |key| key.sign(b"mcpjoin quic"))
}
