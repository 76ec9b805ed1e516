//! How numbers are written. JSON has one kind of number: `50` and `50.0` are the same, and `50` is what everyone
//! understands. That both are read is the reader's part ([`json`](crate::json)). Named by the types beside this
//! file in serde's `serialize_with`.

use serde::ser::Serializer;

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
