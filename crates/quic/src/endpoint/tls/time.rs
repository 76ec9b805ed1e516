//! Times in certificates, in seconds since 1970 in UTC.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;

/// A time in seconds since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

/// The current time of the system clock.
pub fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(at) = OffsetDateTime::from_unix_timestamp(self.0) else {
            return write!(f, "{} s after 1970", self.0);
        };
        let (date, (hour, minute, second)) = (at.date(), at.to_hms());
        write!(f, "{date} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_shown_in_utc() {
        for (seconds, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_868_799, "2000-02-29 23:59:59 UTC"),
            (2_524_607_999, "2049-12-31 23:59:59 UTC"),
            (-631_152_000, "1950-01-01 00:00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(Moment(seconds).to_string(), shown);
        }
    }
}
