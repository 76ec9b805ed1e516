//! One spelling for each JSON value, so that two values are the same when their texts are.
//!
//! Members in the order of their names, strings as our writer has them, numbers without what does not count. An object in
//! which a name stands twice means different things to different readers: it stays as it was written.

use mcpjoin_proto::types::Members;
use mcpjoin_proto::{Kind, Raw};

/// Numbers with up to so many digits are written out.
const WRITTEN_OUT: i64 = 21;

/// The one spelling of a value.
pub(super) fn canonical(raw: &Raw) -> Raw {
    let mut text = String::with_capacity(raw.len());
    write(raw, &mut text);
    // Of parts that are valid: what could not be put together stays what it was.
    Raw::parse(text).unwrap_or_else(|_| raw.clone())
}

fn write(raw: &Raw, out: &mut String) {
    match raw.kind() {
        Kind::Null | Kind::Bool => out.push_str(raw.as_str()),
        Kind::Number => out.push_str(&number(raw.as_str())),
        Kind::String => match raw.to_string_value() {
            Some(value) => out.push_str(Raw::string(&value).as_str()),
            None => out.push_str(raw.as_str()),
        },
        Kind::Array => {
            let Ok(items) = raw.decode::<Vec<Raw>>() else { return out.push_str(raw.as_str()) };
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Kind::Object => {
            let Ok(members) = raw.decode::<Members<Raw>>() else { return out.push_str(raw.as_str()) };
            let mut members: Vec<(String, Raw)> = members.into_iter().collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            out.push('{');
            for (place, (name, value)) in members.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(Raw::string(name).as_str());
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

/// A number without what does not count: `1.50` is `1.5`, `10e-1` is `1`. Exact, however many digits it has; one whose
/// exponent nobody can count with stays as it is.
fn number(text: &str) -> String {
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
    // How many digits stand before the point.
    let length = |text: &str| i64::try_from(text.len()).ok();
    let point = length(digits)
        .zip(length(fraction))
        .and_then(|(digits, fraction)| digits.checked_sub(fraction)?.checked_add(exponent));
    let (Some(point), Some(count)) = (point, length(kept)) else { return text.to_owned() };
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or_default());
    if (count..=WRITTEN_OUT).contains(&point) {
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

#[cfg(test)]
mod tests {
    use mcpjoin_proto::Raw;

    use super::{canonical, number};

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
            assert_eq!(number(given), one, "{given}");
            assert_eq!(number(one), one, "{given}");
        }
    }

    #[test]
    fn a_value_has_one_spelling() {
        let one = |text: &str| canonical(&Raw::parse(text.to_owned()).unwrap()).as_str().to_owned();
        assert_eq!(
            one(r#"{ "b": [1.0, null, "\u00e4\/"], "a": {"d":1,"c":2} }"#),
            r#"{"a":{"c":2,"d":1},"b":[1,null,"ä/"]}"#
        );
        // Readers differ in which of them they take.
        assert_eq!(one(r#"{"b":{"x":1,"a":2,"x":3},"a":1}"#), r#"{"a":1,"b":{"x":1,"a":2,"x":3}}"#);
    }
}
