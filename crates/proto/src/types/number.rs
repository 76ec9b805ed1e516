//! Serialization of floating-point numbers. `50` and `50.0` are the same JSON number, and every reader accepts `50`, so
//! whole numbers are written without a fraction. The reader ([`json`](crate::json)) accepts both. Named in
//! `serialize_with` by the types of this module.

use serde::ser::Serializer;

/// Above 2^53 an `f64` does not represent every integer ([RFC 8259, section
/// 6](https://www.rfc-editor.org/rfc/rfc8259#section-6)).
const EXACT: i64 = 1 << 53;

/// The integer that equals the number, if there is one.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "compared after the fact")]
fn whole(value: f64) -> Option<i64> {
    let whole = value as i64;
    (whole.abs() <= EXACT && whole as f64 == value).then_some(whole)
}

/// Writes a whole number as an integer: `50`, not `50.0`.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(crate) fn write<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    match whole(*value) {
        Some(whole) => serializer.serialize_i64(whole),
        None => serializer.serialize_f64(*value),
    }
}

/// The same for an optional member.
#[allow(clippy::ref_option, reason = "the signature that serde calls")]
pub(crate) fn write_option<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => write(value, serializer),
        None => serializer.serialize_none(),
    }
}
