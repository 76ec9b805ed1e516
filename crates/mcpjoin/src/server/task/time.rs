//! The time of day of a task, for `createdAt` and `lastUpdatedAt`.
//!
//! Used by `store`, `core` and `extension`. It is text for clients only: deadlines use the monotonic clock.

use crate::seal::unix_time;

/// Returns the current time in ISO 8601.
pub(super) fn now_iso_8601() -> String {
    iso_8601(unix_time().as_secs())
}

/// Computes the date in the Gregorian calendar from days, in eras of 400 years that start on 1 March.
pub(super) fn iso_8601(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::iso_8601;

    #[test]
    fn seconds_become_dates() {
        assert_eq!(iso_8601(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso_8601(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(iso_8601(1_785_196_800), "2026-07-28T00:00:00Z");
        assert_eq!(iso_8601(4_107_542_399), "2100-02-28T23:59:59Z");
    }
}
