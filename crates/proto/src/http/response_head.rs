//! Reads the head of an HTTP response on the client side, except for its body.
//!
//! Used by the HTTP client's link. Nothing here waits or reads a clock.

use core::time::Duration;

use super::headers::trim;
use crate::{ErrorObject, code};

/// Whether a value is a valid id of a legacy session: visible ASCII
/// (<https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management>).
#[must_use]
pub fn is_session_id(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_graphic)
}

/// Whether an error response means that the server does not know the session. The request was not executed then, and a
/// new session must be opened. `error` is the error in the body, if any.
///
/// This is status 404, unless the error is about the method. Servers on the TypeScript SDK 1.x and SDKs that follow it respond
/// with 400 and the code -32000 instead: those based on its examples with a message about the session id, and a transport that
/// has seen no `initialize` yet with `Bad Request: Server not initialized`.
///
/// ```
/// use mcpjoin_proto::ErrorObject;
/// use mcpjoin_proto::http::response_head::forgets_session;
///
/// assert!(forgets_session(404, None));
/// assert!(!forgets_session(404, Some(&ErrorObject::method_not_found("x/y"))));
/// let error = ErrorObject::new(-32000, "Bad Request: No valid session ID provided");
/// assert!(forgets_session(400, Some(&error)));
/// ```
#[must_use]
pub fn forgets_session(status: u16, error: Option<&ErrorObject>) -> bool {
    match (status, error) {
        (404, error) => error.is_none_or(|error| error.code != code::METHOD_NOT_FOUND),
        (400, Some(error)) => {
            error.code == SDK_BAD_REQUEST
                && (error.message.to_ascii_lowercase().contains("no valid session id")
                    || error.message.eq_ignore_ascii_case("Bad Request: Server not initialized"))
        }
        _ => false,
    }
}

/// The code of the SDKs for a request that their transport rejects.
const SDK_BAD_REQUEST: i64 = -32000;

/// The delay of a `Retry-After` header ([RFC 9110, 10.2.3](https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3)):
/// seconds, or a date. A date is compared with the `Date` of the same response, so no local clock is needed. A past
/// date is no delay. `None` for anything else: a negative number, other text, an obsolete date format, a date without a
/// `Date` header.
///
/// ```
/// use core::time::Duration;
///
/// use mcpjoin_proto::http::response_head::retry_after;
///
/// assert_eq!(retry_after(b"120", None), Some(Duration::from_secs(120)));
/// let date: &[u8] = b"Sun, 06 Nov 1994 08:49:30 GMT";
/// assert_eq!(retry_after(b"Sun, 06 Nov 1994 08:49:37 GMT", Some(date)), Some(Duration::from_secs(7)));
/// assert_eq!(retry_after(b"-1", None), None);
/// ```
#[must_use]
pub fn retry_after(value: &[u8], date_header: Option<&[u8]>) -> Option<Duration> {
    let value = trim(value);
    if !value.is_empty() && value.iter().all(u8::is_ascii_digit) {
        let seconds = value
            .iter()
            .fold(0_u64, |seconds, digit| seconds.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
        return Some(Duration::from_secs(seconds));
    }
    let now = date(trim(date_header?))?;
    Some(Duration::from_secs(date(value)?.saturating_sub(now)))
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`, the current date format ([RFC 9110,
/// 5.6.7](https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7)), to seconds since 1970; `None` for anything else.
///
/// ```
/// use mcpjoin_proto::http::response_head::date;
///
/// assert_eq!(date(b"Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
/// ```
#[must_use]
pub fn date(value: &[u8]) -> Option<u64> {
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    if value.len() != 29 || &value[3..5] != b", " || &value[25..] != b" GMT" {
        return None;
    }
    let separators = [(7, b' '), (11, b' '), (16, b' '), (19, b':'), (22, b':')];
    if separators.iter().any(|(at, separator)| value[*at] != *separator) {
        return None;
    }
    let number = |from: usize, to: usize| {
        value[from..to].iter().try_fold(0_u64, |number, byte| {
            byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
        })
    };
    let month = MONTHS.iter().position(|month| *month == &value[8..11])? as u64 + 1;
    let (day, year) = (number(5, 7)?, number(12, 16)?);
    let (hour, minute, second) = (number(17, 19)?, number(20, 22)?, number(23, 25)?);
    // 60 is a leap second.
    if !(1..=31).contains(&day) || year < 1970 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970, in years that start in March, so that the leap day is the last.
    let shifted = if month > 2 { year } else { year - 1 };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = 365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + day_of_year;
    let days = days.checked_sub(719_468)?;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn f113_retry_after_is_seconds_or_a_date() {
        let table: [(&str, &str, Option<Duration>); 18] = [
            ("0", "", Some(Duration::ZERO)),
            (" 30 ", "", Some(SECOND * 30)),
            ("1000000000", "", Some(SECOND * 1_000_000_000)),
            ("99999999999999999999999", "", Some(Duration::from_secs(u64::MAX))),
            ("-5", "", None),
            ("+5", "", None),
            ("1.5", "", None),
            ("soon", "", None),
            ("", "", None),
            ("Thu, 01 Jan 1970 00:00:05 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", Some(SECOND * 5)),
            ("Fri, 01 Mar 2024 00:00:00 GMT", "Wed, 28 Feb 2024 23:59:59 GMT", Some(SECOND * (86_400 + 1))),
            ("Mon, 01 Mar 2100 00:00:00 GMT", "Sun, 28 Feb 2100 23:59:59 GMT", Some(SECOND)),
            ("Thu, 01 Jan 2026 00:00:01 GMT", "Wed, 31 Dec 2025 23:59:59 GMT", Some(SECOND * 2)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:38 GMT", Some(Duration::ZERO)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", "", None),
            ("Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:30 GMT", None),
            ("Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:30 GMT", None),
            ("Sun, 06 Nov 0000 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:30 GMT", None),
        ];
        for (value, date, expected) in table {
            let date = Some(date.as_bytes()).filter(|date| !date.is_empty());
            assert_eq!(retry_after(value.as_bytes(), date), expected, "{value} {date:?}");
        }
    }

    #[test]
    fn no_date_panics() {
        let right = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(date(right.as_bytes()), Some(784_111_777));
        for wrong in [
            "Sun, 06 Xxx 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:3\u{20ac}GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1969 08:49:37 GMT",
        ] {
            assert_eq!(date(wrong.as_bytes()), None, "{wrong}");
        }
        for place in 0..right.len() {
            for byte in 0..=u8::MAX {
                let mut bent = right.as_bytes().to_vec();
                bent[place] = byte;
                let _ = date(&bent);
            }
        }
    }

    #[test]
    fn a_session_id_is_visible_ascii() {
        assert!(is_session_id(b"!~0aZ"));
        for value in [&b""[..], b"a b", b"a\tb", b"\xC3\xA9", b"a\x7F"] {
            assert!(!is_session_id(value), "{}", value.escape_ascii());
        }
    }
}
