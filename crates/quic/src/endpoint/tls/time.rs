//! Times in certificates: parsed to seconds since 1970 in UTC, and formatted.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A time in seconds since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

/// The current time of the system clock.
pub fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

const DAY: i64 = 86_400;

impl Moment {
    /// Parses a `UTCTime` (year of two digits) or `GeneralizedTime` (four), with seconds and `Z` as required by
    /// <https://www.rfc-editor.org/rfc/rfc5280#section-4.1.2.5>.
    pub(super) fn of_digits(text: &[u8], year_digits: usize) -> Option<Self> {
        let text = text.strip_suffix(b"Z")?;
        if text.len() != year_digits + 10 || !text.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let number = |from: usize, to: usize| {
            text.get(from..to)
                .map(|digits| digits.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
        };
        let year = number(0, year_digits)?;
        let year = match year_digits {
            2 if year < 50 => 2000 + year,
            2 => 1900 + year,
            _ => year,
        };
        let part = |place: usize| number(year_digits + 2 * place, year_digits + 2 * place + 2);
        let (month, day) = (part(0)?, part(1)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        Some(Self(days(year, month, day) * DAY + part(2)? * 3600 + part(3)? * 60 + part(4)?))
    }
}

/// Days from 1970-01-01 to a day of the Gregorian calendar. Years begin in March here, so that a leap day is the last
/// day of its year.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (day, second) = (self.0.div_euclid(DAY), self.0.rem_euclid(DAY));
        let shifted = day.saturating_add(719_468);
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let (year, month) =
            if month < 10 { (era * 400 + year, month + 3) } else { (era * 400 + year + 1, month - 9) };
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_shown() {
        for (digits, years, seconds, shown) in [
            (&b"700101000000Z"[..], 2, 0, "1970-01-01 00:00:00 UTC"),
            (b"20000229235959Z", 4, 951_868_799, "2000-02-29 23:59:59 UTC"),
            (b"261122081421Z", 2, 1_795_335_261, "2026-11-22 08:14:21 UTC"),
            (b"491231235959Z", 2, 2_524_607_999, "2049-12-31 23:59:59 UTC"),
            (b"500101000000Z", 2, -631_152_000, "1950-01-01 00:00:00 UTC"),
            (b"21000301000000Z", 4, 4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            let moment = Moment::of_digits(digits, years).expect(shown);
            assert_eq!(moment, Moment(seconds), "{shown}");
            assert_eq!(moment.to_string(), shown);
        }
        for digits in [&b""[..], b"Z", b"700101000000", b"701301000000Z", b"7001010000Z", b"70010100000xZ"] {
            assert_eq!(Moment::of_digits(digits, 2), None, "{digits:?}");
        }
    }
}
