//! Stateless resets ([RFC 9000, section 10.3](https://www.rfc-editor.org/rfc/rfc9000#section-10.3)) that survive a
//! restart of the listener.
//!
//! A packet of a connection that the listener does not know is answered with a reset token, which only the original
//! listener can compute. The peer then learns of the restart at once, not after 30 s of silence. The token is derived
//! from the private key and the address: it is the same after a restart and different for another address with the same
//! certificate, so one host cannot obtain the tokens of another. Hosts that listen on all addresses (`0.0.0.0`, `[::]`)
//! cannot be distinguished and must not share a private key. Used by `listen` and by the code that reads keys.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use quinn::crypto::{CryptoError, HmacKey};
use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use sha2::Sha256;

/// Length of a connection id, in bytes. Each packet carries one.
const ID_BYTES: usize = 8;

/// A key for one purpose, derived from the secret of an identity.
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

/// Generates connection ids without any recognizable content. The ids of quinn carry a mark that changes with each
/// restart, and packets without the current mark are dropped; here an unknown id always gets a stateless reset.
struct ConnectionIds {
    key: Key,
    /// A random value for each listener.
    seed: u64,
    count: u64,
}

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        self.count = self.count.wrapping_add(1);
        let digest = self.key.sign(&[self.seed.to_le_bytes(), self.count.to_le_bytes()].concat());
        ConnectionId::new(&digest[..ID_BYTES])
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// The endpoint configuration of a listener at this address. Returns `None` if the secret is not a valid key.
pub(super) fn endpoint(secret: &[u8; 32], address: SocketAddr) -> Option<EndpointConfig> {
    let secret = Key::new(secret)?;
    let of = address.to_string();
    let (tokens, ids) = (secret.derive("stateless reset", &of)?, secret.derive("connection id", &of)?);
    let mut config = EndpointConfig::new(Arc::new(tokens));
    config.cid_generator(move || {
        Box::new(ConnectionIds { key: ids.clone(), seed: RandomState::new().hash_one(0), count: 0 })
    });
    Some(config)
}

/// Derives the secret of an identity from its private key.
pub(super) fn secret(private_key: &[u8]) -> [u8; 32] {
    Key::new(private_key).map_or([0; 32], |key| key.sign(b"mcpjoin quic"))
}
