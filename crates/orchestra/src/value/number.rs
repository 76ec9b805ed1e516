//! Converts decimal digits to a float and back, and checks whether the float represents them.

use std::fmt::Write as _;

use super::{Numbers, ValueErrorKind};

/// 2^53. Below it every whole number is a float; from here on two of them may be the same float.
pub(super) const EXACT: f64 = 9_007_199_254_740_992.0;
/// From here on a float is written with an exponent.
pub(super) const EXPONENT: f64 = 1e21;
/// Significant digits that identify every float. No program prints more for a float.
const FLOAT_DIGITS: usize = 17;
/// Maximum bytes of a number in an error.
const MAX_SHOWN_BYTES: usize = 40;

/// The float for a JSON number.
pub(super) fn float(text: &str, numbers: Numbers) -> Result<f64, ValueErrorKind> {
    let shown = || match text.get(..MAX_SHOWN_BYTES) {
        Some(head) if text.len() > MAX_SHOWN_BYTES => format!("{head}..."),
        _ => text.to_owned(),
    };
    let value = match text.parse::<f64>() {
        Ok(value) if value.is_finite() => value,
        _ => return Err(ValueErrorKind::TooLarge(shown())),
    };
    if numbers == Numbers::Lossy || is_exact(text, value) {
        Ok(value)
    } else {
        Err(ValueErrorKind::Rounded(shown()))
    }
}

/// Whether the float represents the digits.
fn is_exact(text: &str, value: f64) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole && value.abs() < EXACT {
        return true;
    }
    let written = Decimal::of(digits);
    if whole {
        return written.is(value);
    }
    let fraction = value.fract() != 0.0 || value.abs() < EXACT;
    if fraction && written.digits.len() <= FLOAT_DIGITS {
        // Below the smallest float everything becomes 0, but only 0 is 0.
        return value != 0.0 || written.digits.is_empty();
    }
    written == Decimal::of(&format!("{:e}", value.abs())) || written.is(value)
}

/// A decimal value: 0.digits times 10 to the power of `exponent`, without zeros at either end.
#[derive(PartialEq)]
struct Decimal {
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Parses digits with an optional fraction and exponent, without a sign.
    fn of(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        let leading = (all.len() - digits.len()) as i64;
        let digits = digits.trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Self { digits, exponent: 0 };
        }
        // An exponent beyond 64 bits belongs to no finite float but 0.
        let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX / 2);
        Self { digits, exponent: exponent.saturating_add(whole.len() as i64 - leading) }
    }

    /// Whether the float has exactly this value.
    fn is(&self, value: f64) -> bool {
        // A float with n binary places has n decimal places, at most as many as the smallest float.
        let places = (self.digits.len() as i64).saturating_sub(self.exponent).max(0);
        let Ok(places @ 0..=1074) = usize::try_from(places) else { return false };
        let half = places as i32 / 2;
        let scaled = value.abs() * 2_f64.powi(half) * 2_f64.powi(places as i32 - half);
        scaled.fract() == 0.0 && *self == Self::of(&format!("{:.places$}", value.abs()))
    }
}

/// Appends a finite float: a whole number below 1e21 with all digits, any other with the fewest digits that identify
/// it, with an exponent from 1e21 on and below 1e-6.
pub(super) fn push(value: f64, out: &mut String) {
    if value.fract() == 0.0 && value.abs() < EXPONENT {
        // Writing to a string does not fail.
        let _ = write!(out, "{value:.0}");
    } else {
        push_as_go(value, out);
    }
}

/// Appends a finite float as Go and JavaScript do: the fewest digits that identify it, followed by zeros.
pub(super) fn push_as_go(value: f64, out: &mut String) {
    let size = value.abs();
    // Writing to a string does not fail.
    let _ = if size != 0.0 && !(1e-6..EXPONENT).contains(&size) {
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => write!(out, "{mantissa}e+{exponent}"),
            _ => write!(out, "{text}"),
        }
    } else {
        write!(out, "{value}")
    };
}
