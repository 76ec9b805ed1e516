//! Numbers as JSON means them. JSON has one kind of number: `50` and `50.0` are the same, and the schemas call
//! both an integer. Used by the types beside this file through serde's `with` attributes.

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::Serializer;

use crate::{Kind, Raw, scan};

/// Above this, not every integer is a double: 2^53 ([RFC 8259, section 6](https://www.rfc-editor.org/rfc/rfc8259#section-6)).
const EXACT: i64 = 1 << 53;

/// The integer that a double is, when it is one exactly.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "compared after the fact")]
fn whole(value: f64) -> Option<i64> {
    let whole = value as i64;
    (whole.abs() <= EXACT && whole as f64 == value).then_some(whole)
}

/// Writes a double without a fraction as an integer: `50`, not `50.0`.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(crate) fn write<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match whole(*value) {
        Some(whole) => serializer.serialize_i64(whole),
        None => serializer.serialize_f64(*value),
    }
}

/// The same for a member that may be absent.
#[allow(clippy::ref_option, reason = "the signature that serde calls")]
pub(crate) fn write_option<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => write(value, serializer),
        None => serializer.serialize_none(),
    }
}

fn integer_of<E: de::Error>(raw: &Raw) -> Result<i64, E> {
    let bad = || E::custom(format_args!("expected an integer, found {}", shortened(raw.as_str())));
    if raw.kind() != Kind::Number {
        return Err(bad());
    }
    if scan::is_integer(raw.as_str()) {
        return raw.as_str().parse().map_err(|_| bad());
    }
    raw.as_str().parse().ok().and_then(whole).ok_or_else(bad)
}

/// Enough of a text to see what it is.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(40).map_or(text, |(end, _)| &text[..end])
}

/// Reads an integer, also one that is written with a fraction of zero or an exponent.
pub(crate) fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    integer_of(&Raw::deserialize(deserializer)?)
}

/// The same for a member that may be absent or `null`.
pub(crate) fn integer_option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    Option::<Raw>::deserialize(deserializer)?.as_ref().map(integer_of).transpose()
}

/// Reads any value, `null` too: a member that is there and `null` says something else than one that is absent.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Raw>, D::Error> {
    Raw::deserialize(deserializer).map(Some)
}
