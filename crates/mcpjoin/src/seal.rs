//! Values that a server gives to its clients and takes back: encrypted states, and the ids of tasks.
//!
//! Used by `input` and `task`, and through [`SealingKeys`] by gateways. A state is `base64url(version | key id | nonce | XChaCha20-Poly1305(time | content))`.
//! Its associated data bind it to its purpose and to the digest of its request. The id of a task is 128 random bits and
//! a MAC, which also covers the name of the replica that follows it. Each purpose has a key of its own, derived from the
//! server's [`StateKey`].

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::sync::Mutex;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hmac::{Hmac, KeyInit as _, Mac as _};
use mcpjoin_proto::ErrorObject;
use sha2::Sha256;

/// How long a state is accepted: long enough for a person to fill in a form.
const STATE_LIFETIME: Duration = Duration::from_secs(600);

/// How far the clock of the replica that sealed a state may be ahead of ours. Synchronised hosts never differ by that
/// much.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(60);

/// The version of the format and of the key derivation.
const VERSION: u8 = 1;

/// Bytes of a key id: enough to tell the few keys of a server apart. A collision costs one failed decryption.
const KEY_ID_BYTES: usize = 4;

/// Bytes of an XChaCha20 nonce. Random nonces of 192 bits do not repeat.
const NONCE_BYTES: usize = 24;

/// Bytes before the ciphertext.
const HEADER_BYTES: usize = 1 + KEY_ID_BYTES + NONCE_BYTES;

/// Random bytes in the id of a task, and bytes of its MAC: neither can be guessed.
const TASK_ID_BYTES: usize = 16;

/// The secret key of a server. It encrypts the states that clients keep (`requestState`) and signs the ids of tasks.
/// Replicas of one server share it: [`ServerBuilder::state_key`](crate::server::ServerBuilder::state_key).
///
/// `Debug` does not show it.
#[derive(Clone)]
pub struct StateKey([u8; 32]);

impl StateKey {
    /// Creates a key from 256 random bits, such as those of `openssl rand 32`. Do not use a password.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    fn random() -> Option<Self> {
        random().map(Self)
    }

    /// Derives the key for one purpose: one block of HKDF-Expand (RFC 5869). The key is random enough without
    /// HKDF-Extract.
    fn derive(&self, label: &str) -> [u8; 32] {
        let mut mac = hmac(&self.0);
        mac.update(b"mcpjoin ");
        mac.update(label.as_bytes());
        mac.update(&[VERSION, 1]);
        mac.finalize().into_bytes().into()
    }

    fn id(&self) -> [u8; KEY_ID_BYTES] {
        let [a, b, c, d, ..] = self.derive("key id");
        [a, b, c, d]
    }

    fn cipher(&self, label: &str) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.derive(label).into())
    }

    /// Encrypts a text for one purpose. `associated` makes the associated data from the id of the key.
    fn encrypt(
        &self,
        label: &str,
        associated: impl Fn(&[u8; KEY_ID_BYTES]) -> Vec<u8>,
        plain: &[u8],
    ) -> Result<String, ErrorObject> {
        let nonce: [u8; NONCE_BYTES] = random().ok_or_else(no_random_numbers)?;
        let id = self.id();
        let sealed = self
            .cipher(label)
            .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: &associated(&id) })
            .map_err(|_| ErrorObject::internal("the state is too large to be sealed"))?;
        let mut state = Vec::with_capacity(HEADER_BYTES + sealed.len());
        state.push(VERSION);
        state.extend_from_slice(&id);
        state.extend_from_slice(&nonce);
        state.extend_from_slice(&sealed);
        Ok(URL_SAFE_NO_PAD.encode(state))
    }

    /// The random bytes have a fixed length, so no two pairs have the same MAC.
    fn task_mac(&self, random: &[u8; TASK_ID_BYTES], replica: &[u8]) -> Hmac<Sha256> {
        let mut mac = hmac(&self.derive("task id"));
        mac.update(random);
        mac.update(replica);
        mac
    }
}

impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateKey(..)")
    }
}

/// The purpose of a state. A state of one purpose is refused for the other.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// The input so far.
    Answers = 1,
    /// The state of a handler that requests input itself.
    ByHand = 2,
}

impl Purpose {
    const fn label(self) -> &'static str {
        match self {
            Self::Answers => "answers",
            Self::ByHand => "request state",
        }
    }
}

/// Why a state is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// None of our keys decrypts it for this purpose and request, or its time is in the future.
    Foreign,
    /// It is older than [`STATE_LIFETIME`].
    Expired,
}

/// The keys of a server.
pub(crate) struct Keys {
    /// The key for new states; `None` if the system provided no random numbers. A random key is made when it first seals:
    /// many servers seal nothing.
    own: OnceLock<Option<StateKey>>,
    /// Further keys whose states are accepted.
    accepted: Vec<StateKey>,
}

impl Keys {
    /// Uses a random key if the user has given none.
    pub(crate) fn new(own: Option<StateKey>, accepted: Vec<StateKey>) -> Self {
        let own = own.map_or_else(OnceLock::new, |key| OnceLock::from(Some(key)));
        Self { own, accepted }
    }

    fn own(&self) -> Result<&StateKey, ErrorObject> {
        self.own.get_or_init(StateKey::random).as_ref().ok_or_else(no_random_numbers)
    }

    /// The keys that may have sealed something.
    fn all(&self) -> impl Iterator<Item = &StateKey> {
        self.own.get().and_then(Option::as_ref).into_iter().chain(&self.accepted)
    }

    /// Encrypts `content` for the request with this digest.
    pub(crate) fn seal(
        &self,
        purpose: Purpose,
        request: &[u8; 32],
        content: &str,
        now: Duration,
    ) -> Result<String, ErrorObject> {
        let mut plain = millis(now).to_be_bytes().to_vec();
        plain.extend_from_slice(content.as_bytes());
        self.own()?.encrypt(purpose.label(), |id| associated_data(purpose, id, request), &plain)
    }

    /// Decrypts a state for this purpose and request. `now`: the time since 1970; without it the age does not count.
    pub(crate) fn open(
        &self,
        purpose: Purpose,
        request: &[u8; 32],
        state: &str,
        now: Option<Duration>,
    ) -> Result<String, OpenError> {
        let plain = decrypt(self.all(), purpose.label(), |id| associated_data(purpose, id, request), state)
            .map_err(|_| OpenError::Foreign)?;
        let (sealed_at, content) = plain.split_first_chunk::<8>().ok_or(OpenError::Foreign)?;
        if let Some(now) = now {
            let sealed_at = Duration::from_millis(u64::from_be_bytes(*sealed_at));
            if sealed_at > now.saturating_add(MAX_CLOCK_SKEW) {
                return Err(OpenError::Foreign);
            }
            if now.saturating_sub(sealed_at) > STATE_LIFETIME {
                return Err(OpenError::Expired);
            }
        }
        String::from_utf8(content.to_vec()).map_err(|_| OpenError::Foreign)
    }

    /// Creates an id for a task that cannot be guessed, kept by the replica of this name. The name may be empty.
    pub(crate) fn task_id(&self, replica: &str) -> Result<String, ErrorObject> {
        let random: [u8; TASK_ID_BYTES] = random().ok_or_else(no_random_numbers)?;
        let mac = self.own()?.task_mac(&random, replica.as_bytes()).finalize().into_bytes();
        Ok(hex(&random) + &hex(&mac[..TASK_ID_BYTES]) + &hex(replica.as_bytes()))
    }

    /// Returns the name of the replica that keeps the task with this id. `None` if none of our keys has signed the id, in
    /// this process or in another replica.
    pub(crate) fn task_owner(&self, task_id: &str) -> Option<String> {
        let bytes = unhex(task_id)?;
        let (random, rest) = bytes.split_first_chunk::<TASK_ID_BYTES>()?;
        let (mac, replica) = rest.split_at_checked(TASK_ID_BYTES)?;
        let is_signed = |key: &StateKey| key.task_mac(random, replica).verify_truncated_left(mac).is_ok();
        if !self.all().any(is_signed) {
            return None;
        }
        String::from_utf8(replica.to_vec()).ok()
    }
}

/// Decrypts what [`StateKey::encrypt`] has written with one of these keys.
fn decrypt<'a>(
    keys: impl Iterator<Item = &'a StateKey>,
    label: &str,
    associated: impl Fn(&[u8; KEY_ID_BYTES]) -> Vec<u8>,
    state: &str,
) -> Result<Vec<u8>, NotOpened> {
    let state = URL_SAFE_NO_PAD.decode(state).map_err(|_| NotOpened::Malformed)?;
    let (head, sealed) = state.split_first_chunk::<HEADER_BYTES>().ok_or(NotOpened::Malformed)?;
    let (version, rest) = head.split_first().ok_or(NotOpened::Malformed)?;
    let (id, nonce) = rest.split_first_chunk::<KEY_ID_BYTES>().ok_or(NotOpened::Malformed)?;
    let nonce = XNonce::try_from(nonce).map_err(|_| NotOpened::Malformed)?;
    if *version != VERSION {
        return Err(NotOpened::OtherVersion);
    }
    let aad = associated(id);
    let mut known = keys.filter(|key| key.id() == *id).peekable();
    if known.peek().is_none() {
        return Err(NotOpened::UnknownKey);
    }
    known
        .find_map(|key| key.cipher(label).decrypt(&nonce, Payload { msg: sealed, aad: &aad }).ok())
        .ok_or(NotOpened::Foreign)
}

/// Why a sealed text is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotOpened {
    /// It has another form.
    #[error("it is not a sealed text")]
    Malformed,
    /// It has another version of the form.
    #[error("it was sealed by another version of this program")]
    OtherVersion,
    /// It was sealed with a key that is not one of ours.
    #[error("it was sealed with a key that this process does not have")]
    UnknownKey,
    /// It was changed, or it belongs to another purpose or owner.
    #[error("it was changed, or given to another client")]
    Foreign,
}

/// The keys that the processes of one gateway share. They may be replaced while the gateway runs. Cheap to clone.
///
/// The first key seals, and all keys open. To replace a key without refusing anybody: add the new one as the last key
/// everywhere, then make it the first one everywhere, and remove the old one when nothing that it has sealed is in use.
///
/// `Debug` shows none of them.
#[derive(Clone)]
pub struct SealingKeys(Arc<Mutex<Arc<[StateKey]>>>);

impl SealingKeys {
    /// Uses these keys.
    #[must_use]
    pub fn new(first: StateKey, others: impl IntoIterator<Item = StateKey>) -> Self {
        Self(Arc::new(Mutex::new([first].into_iter().chain(others).collect())))
    }

    /// Replaces all keys, in all clones.
    pub fn replace(&self, first: StateKey, others: impl IntoIterator<Item = StateKey>) {
        *self.0.lock() = [first].into_iter().chain(others).collect();
    }

    fn all(&self) -> Arc<[StateKey]> {
        self.0.lock().clone()
    }

    /// Encrypts `content` for one purpose and one owner.
    ///
    /// # Errors
    /// [`ErrorObject`] if the system gives no random numbers.
    #[doc(hidden)]
    pub fn seal(&self, purpose: &str, owner: &[u8], content: &[u8]) -> Result<String, ErrorObject> {
        let first = self.all().first().cloned().ok_or_else(no_random_numbers)?;
        first.encrypt(purpose, |id| owned_data(purpose, id, owner), content)
    }

    /// Decrypts what was sealed for this purpose and this owner.
    ///
    /// # Errors
    /// [`NotOpened`] says why it is refused.
    #[doc(hidden)]
    pub fn open(&self, purpose: &str, owner: &[u8], sealed: &str) -> Result<Vec<u8>, NotOpened> {
        decrypt(self.all().iter(), purpose, |id| owned_data(purpose, id, owner), sealed)
    }

    /// Returns the keys for one purpose that are derived from the shared ones, in the same order.
    #[doc(hidden)]
    #[must_use]
    pub fn derived(&self, purpose: &str) -> Vec<[u8; 32]> {
        self.all().iter().map(|key| key.derive(purpose)).collect()
    }
}

impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealingKeys(..)")
    }
}

/// The owner of what is sealed for a principal. No principal differs from an empty one.
#[must_use]
pub fn owner_of(principal: Option<&str>) -> Vec<u8> {
    match principal {
        Some(principal) => [b"principal ", principal.as_bytes()].concat(),
        None => b"anyone".to_vec(),
    }
}

/// The associated data of a text of a gateway. The lengths keep two purposes and owners apart that are the same in sum.
fn owned_data(purpose: &str, id: &[u8; KEY_ID_BYTES], owner: &[u8]) -> Vec<u8> {
    let mut data = b"mcpjoin gateway".to_vec();
    data.push(VERSION);
    data.extend_from_slice(id);
    data.extend_from_slice(&(purpose.len() as u64).to_be_bytes());
    data.extend_from_slice(purpose.as_bytes());
    data.extend_from_slice(owner);
    data
}

/// Returns the time since 1970, the only clock that replicas share. It is ahead only if a test moves the clock of the
/// runtime.
pub fn unix_time() -> Duration {
    let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let moved = tokio::time::Instant::now().into_std();
    day + moved.saturating_duration_since(Instant::now())
}

/// Returns the associated data of a state.
fn associated_data(purpose: Purpose, id: &[u8; KEY_ID_BYTES], request: &[u8; 32]) -> Vec<u8> {
    let mut data = b"mcpjoin state".to_vec();
    data.extend_from_slice(&[VERSION, purpose as u8]);
    data.extend_from_slice(id);
    data.extend_from_slice(request);
    data
}

fn hmac(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).is_ok().then_some(bytes)
}

fn no_random_numbers() -> ErrorObject {
    ErrorObject::internal("this system gives no random numbers")
}

/// Creates a name of 128 random bits.
pub(crate) fn random_name() -> Result<String, ErrorObject> {
    random::<16>().map(|bytes| hex(&bytes)).ok_or_else(no_random_numbers)
}

fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes lower-case digits only, so each id has one spelling.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    rest.is_empty()
        .then(|| pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect())
        .flatten()
}

#[cfg(test)]
mod tests;
