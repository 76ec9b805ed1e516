//! The clock of a server against our own, by the `Date` of its responses
//! (<https://www.rfc-editor.org/rfc/rfc9110#name-date>).
//!
//! Called by the examination over HTTP. Which of the two is wrong cannot be told from here.

use std::time::{SystemTime, UNIX_EPOCH};

use http::header::{self, HeaderMap};
use mcpjoin_proto::http::reply::date;

use super::super::course::Course;
use super::super::report::{Check, Finding, Phase};
use super::exchanges::Exchange;

/// So far apart clocks may be, in seconds: a token is let off "no more than a few minutes"
/// (<https://www.rfc-editor.org/rfc/rfc7519#section-4.1.4>).
const APART: u64 = 300;

/// How much later it is there than here, in seconds; `None` where it does not say, or says what a cache has kept.
pub(super) fn ahead(headers: &HeaderMap) -> Option<i64> {
    if headers.contains_key(header::AGE) {
        return None;
    }
    let there = date(headers.get(header::DATE)?.as_bytes())?;
    let here = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(i64::try_from(there).ok()? - i64::try_from(here).ok()?)
}

/// Judges it, once.
pub(super) fn judged(course: &mut Course, all: &[Exchange]) {
    let Some(ahead) = all.iter().filter_map(|exchange| exchange.head()?.ahead).next_back() else {
        return course.not_run([Check::Clock], "the server does not say what time it is");
    };
    if ahead.unsigned_abs() <= APART {
        return course.pass(Check::Clock);
    }
    let how = if ahead > 0 { "later" } else { "earlier" };
    course.fault(Finding::new(
        "clocks-apart",
        Check::Clock,
        Phase::Connect,
        format!("by the clock of whoever answers it is {} {how} than by ours", span(ahead.unsigned_abs())),
        "one of the two clocks is wrong: tokens are taken for not valid yet or for expired, and certificates too",
        "see which one it is: `date -u` here and there; timedatectl set-ntp true sets one that is wrong",
    ));
}

/// `2 h 5 min`, `3 days`.
fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min"),
        (0, _) => format!("{hours} h {minutes} min"),
        (1, _) => format!("1 day {hours} h"),
        _ => format!("{days} days"),
    }
}

#[cfg(test)]
mod tests {
    use super::{date, span};

    #[test]
    fn dates_are_read_as_they_are_sent() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
            ("Fri, 01 Mar 2024 00:00:00 GMT", Some(1_709_251_200)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 06 Nov 1994 8:49 GMT", None),
            ("", None),
        ] {
            assert_eq!(date(text.as_bytes()), seconds, "{text}");
        }
        for (seconds, text) in
            [(301, "5 min"), (7500, "2 h 5 min"), (90_000, "1 day 1 h"), (260_000, "3 days")]
        {
            assert_eq!(span(seconds), text);
        }
    }
}
