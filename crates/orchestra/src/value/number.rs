//! Numbers: decimal digits to a float and back, and whether a float has held them.

use std::fmt::Write as _;

use super::{Numbers, ValueErrorKind};

/// 2^53: up to here every whole number is a float, and from here on two of them may become one float.
pub(super) const EXACT: f64 = 9_007_199_254_740_992.0;
/// From here on a float is written with an exponent.
pub(super) const EXPONENT: f64 = 1e21;
/// So many significant digits tell every float from every other; a program that prints a float prints no more.
const FLOAT_DIGITS: usize = 17;
/// How much of a number is shown in an error, in bytes.
const MAX_SHOWN_BYTES: usize = 40;

/// The float that a JSON number is sent as.
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

/// Whether the float still says what the digits have said.
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
        // Below the least float everything is 0, and only 0 is.
        return value != 0.0 || written.digits.is_empty();
    }
    written == Decimal::of(&format!("{:e}", value.abs())) || written.is(value)
}

/// The value of decimal digits: 0.digits times ten to the power of `exponent`, without zeros at either end.
#[derive(PartialEq)]
struct Decimal {
    digits: String,
    exponent: i64,
}

impl Decimal {
    /// Of digits with a fraction, an exponent, both or none, without a sign.
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
        // One that is beyond 64 bits belongs to no finite float but 0.
        let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX / 2);
        Self { digits, exponent: exponent.saturating_add(whole.len() as i64 - leading) }
    }

    /// Whether it is the float, to the last digit of it.
    fn is(&self, value: f64) -> bool {
        // A float with n binary digits behind its point has n decimal ones, and at most as many as the least float has.
        let places = (self.digits.len() as i64).saturating_sub(self.exponent).max(0);
        let Ok(places @ 0..=1074) = usize::try_from(places) else { return false };
        let half = places as i32 / 2;
        let scaled = value.abs() * 2_f64.powi(half) * 2_f64.powi(places as i32 - half);
        scaled.fract() == 0.0 && *self == Self::of(&format!("{:.places$}", value.abs()))
    }
}

/// Appends a finite float: a whole number below 1e21 with all of its digits, any other with the fewest that give it
/// back, and with an exponent from 1e21 on and below 1e-6.
pub(super) fn push(value: f64, out: &mut String) {
    if value.fract() == 0.0 && value.abs() < EXPONENT {
        // Writing to a string does not fail.
        let _ = write!(out, "{value:.0}");
    } else {
        push_as_go(value, out);
    }
}

/// The same as Go and JavaScript write it, which is with zeros behind the fewest digits that give a whole number back.
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
