//! JSON values that can be compared and validated: numbers stay exact.
//!
//! Used by `conformance`, and by the rules that compare values.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Kind, Raw};
use serde_json::{Number, Value};

/// The largest value that is read: reading costs its size for each level.
const MAX_VALUE_BYTES: usize = 1 << 18;
/// A canonical number with at most this many digits before its point has no exponent.
const MAX_PLAIN_DIGITS: i64 = 21;

/// Reads a value. Numbers without a fraction become integers, so that equal values are equal. `None` for a value above
/// 256 KiB, or with a number that would have to be rounded.
#[must_use]
pub fn value(raw: &Raw) -> Option<Value> {
    if raw.len() > MAX_VALUE_BYTES {
        return None;
    }
    read(raw)
}

fn read(raw: &Raw) -> Option<Value> {
    Some(match raw.kind() {
        Kind::Null => Value::Null,
        Kind::Bool => Value::Bool(raw.as_str() == "true"),
        Kind::Number => Value::Number(exact_number(raw.as_str())?),
        Kind::String => Value::String(raw.to_string_value()?.into_owned()),
        Kind::Array => {
            let items: Vec<Raw> = raw.decode().ok()?;
            Value::Array(items.iter().map(read).collect::<Option<_>>()?)
        }
        Kind::Object => {
            let members: Members<Raw> = raw.decode().ok()?;
            let members = members.into_iter().map(|(name, member)| Some((name, read(&member)?)));
            Value::Object(members.collect::<Option<_>>()?)
        }
    })
}

/// Makes integers of the numbers without a fraction, as [`value`] does. Numbers that do not fit in 64 bits are rounded. `false`:
/// one is beyond the range of `f64`.
pub(crate) fn normalize(value: &mut Value) -> bool {
    match value {
        Value::Number(number) if !number.is_i64() && !number.is_u64() => {
            let rounded = number.as_f64().and_then(number_of);
            rounded.map(|rounded| *number = rounded).is_some()
        }
        Value::Array(items) => items.iter_mut().all(normalize),
        Value::Object(members) => members.values_mut().all(normalize),
        _ => true,
    }
}

/// Whether an integer is read that does not fit in 64 bits. The reader refuses them, unless some crate of the build enables
/// `arbitrary_precision` of `serde_json`.
pub(crate) fn has_large_integer(value: &Value) -> bool {
    match value {
        Value::Number(number) if !number.is_i64() && !number.is_u64() => {
            number.to_string().bytes().all(|byte| byte == b'-' || byte.is_ascii_digit())
        }
        Value::Array(items) => items.iter().any(has_large_integer),
        Value::Object(members) => members.values().any(has_large_integer),
        _ => false,
    }
}

/// An integer where there is no fraction, because an integer may be written with a fraction or an exponent.
fn number_of(number: f64) -> Option<Number> {
    let integer = format!("{number:.0}").parse::<i64>().ok().filter(|_| number.fract() == 0.0);
    integer.map(Number::from).or_else(|| Number::from_f64(number))
}

/// A number whose value is exactly that of its digits, or whose digits are the shortest that round to it.
fn exact_number(digits: &str) -> Option<Number> {
    if let Ok(number) = digits.parse::<i64>() {
        return Some(number.into());
    }
    if let Ok(number) = digits.parse::<u64>() {
        return Some(number.into());
    }
    let number: f64 = digits.parse().ok().filter(|number: &f64| number.is_finite())?;
    if canonical_number(digits) != canonical_number(&format!("{number:e}")) {
        return None;
    }
    number_of(number)
}

/// The one spelling of a number: `1.50` is `1.5`, `10e-1` is `1`. Exact for any number of digits. A number whose exponent
/// does not fit in 64 bits stays as it is.
#[must_use]
pub fn canonical_number(text: &str) -> String {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let Ok(exponent) = exponent.strip_prefix('+').unwrap_or(exponent).parse::<i64>() else {
        return text.to_owned();
    };
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return "0".into();
    }
    // The number of digits before the point.
    let length = |text: &str| i64::try_from(text.len()).ok();
    let point = length(digits)
        .zip(length(fraction))
        .and_then(|(digits, fraction)| digits.checked_sub(fraction)?.checked_add(exponent));
    let (Some(point), Some(count)) = (point, length(kept)) else { return text.to_owned() };
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or_default());
    if (count..=MAX_PLAIN_DIGITS).contains(&point) {
        return format!("{sign}{kept}{}", zeros(point - count));
    }
    if (1..count).contains(&point) {
        let (whole, fraction) = kept.split_at(usize::try_from(point).unwrap_or_default());
        return format!("{sign}{whole}.{fraction}");
    }
    if (-6..=0).contains(&point) {
        return format!("{sign}0.{}{kept}", zeros(-point));
    }
    let (first, rest) = kept.split_at(1);
    let fraction = if rest.is_empty() { String::new() } else { format!(".{rest}") };
    format!("{sign}{first}{fraction}e{}", point.saturating_sub(1))
}

/// The type of a value, in the words of JSON Schema.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).expect("JSON")
    }

    #[test]
    fn a_value_of_256_kib_is_read_and_a_larger_one_is_not() {
        let text = |bytes: usize| raw(&format!("\"{}\"", "x".repeat(bytes - 2)));
        assert!(value(&text(262_144)).is_some());
        assert!(value(&text(262_145)).is_none());
    }

    #[test]
    fn values_are_equal_by_what_they_mean() {
        let equals = |one, other| Some(value(&raw(one))? == value(&raw(other))?);
        assert_eq!(equals(r#"{"a":1.0,"b":[null,"\u00e4"]}"#, r#"{"b":[null,"ä"],"a":1}"#), Some(true));
        assert_eq!(equals("9007199254740993", "9007199254740992"), Some(false));
        assert_eq!(equals("100", "1E+2"), Some(true));
        assert_eq!(equals("-0.0", "0"), Some(true));
        assert_eq!(equals("0.10", "1e-1"), Some(true));
        assert_eq!(equals("[1]", "[true]"), Some(false));
    }

    #[test]
    fn a_number_has_one_spelling_and_keeps_every_digit() {
        for (given, one) in [
            ("1", "1"),
            ("1.0", "1"),
            ("10e-1", "1"),
            ("0.1E+1", "1"),
            ("-0", "0"),
            ("-0.0e5", "0"),
            ("100", "100"),
            ("1e2", "100"),
            ("1.50", "1.5"),
            ("-12.25", "-12.25"),
            ("0.001", "0.001"),
            ("1e-3", "0.001"),
            ("1e400", "1e400"),
            ("10e399", "1e400"),
            ("1e500", "1e500"),
            ("9007199254740993", "9007199254740993"),
            ("123456789012345678901234567890", "1.2345678901234567890123456789e29"),
            ("0.00000000012", "1.2e-10"),
            ("1e99999999999999999999", "1e99999999999999999999"),
            ("1.5e9223372036854775807", "1.5e9223372036854775807"),
        ] {
            assert_eq!(canonical_number(given), one, "{given}");
            assert_eq!(canonical_number(one), one, "{given}");
        }
    }

    #[test]
    fn a_number_that_would_have_to_be_rounded_is_not_read() {
        for exact in
            ["18446744073709551615", "1e20", "0.30000000000000004", "1.7976931348623157e308", "5e-324"]
        {
            assert!(value(&raw(exact)).is_some(), "{exact}");
        }
        for inexact in
            ["18446744073709551617", "0.10000000000000000001", "1e400", "1e-400", "1e99999999999999999999"]
        {
            assert!(value(&raw(inexact)).is_none(), "{inexact}");
        }
    }
}
