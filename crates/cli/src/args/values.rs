//! Parsers for values of options, with their units and limits.

use std::fmt;
use std::time::Duration;

use mcpjoin::proto::Version;
use mcpjoin::proto::types::LoggingLevel;

/// The maximum of a time: a day. A longer time is a typing error.
const MAX_SECONDS: f64 = 86_400.0;
/// The maximum of a size: 1 GiB.
const MAX_BYTES: u64 = 1 << 30;
/// The maximum of a number of repetitions.
const MAX_COUNT: u32 = 100_000;

pub(super) fn version(word: &str) -> Result<Version, String> {
    let version = Version::parse(word);
    if version.era().is_some() {
        return Ok(version);
    }
    let known: Vec<&str> = Version::ALL.iter().map(Version::as_str).collect();
    Err(format!("the versions are {}", known.join(", ")))
}

/// Parses the level of log messages.
pub(super) fn log_level(word: &str) -> Result<LoggingLevel, String> {
    LoggingLevel::parse(word).ok_or_else(|| {
        let known: Vec<&str> = LoggingLevel::ALL.into_iter().map(LoggingLevel::as_str).collect();
        format!("the levels are {}", known.join(", "))
    })
}

/// Parses a time above zero and up to a day.
pub(super) fn duration(word: &str) -> Result<Duration, String> {
    let end = word.find(|character: char| character.is_ascii_alphabetic()).unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("write seconds, or a number with ms, s, m or h".into()),
    };
    // Only digits and a point: no sign, no exponent, no `inf`.
    let number: f64 = Some(number)
        .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        .and_then(|number| number.parse().ok())
        .ok_or("write seconds, or a number with ms, s, m or h")?;
    let asked = number * seconds;
    if !(0.001..=MAX_SECONDS).contains(&asked) {
        return Err("from 1ms to 24h".into());
    }
    Ok(Duration::from_secs_f64(asked))
}

/// Parses a number of repetitions: at least one.
pub(super) fn count(word: &str) -> Result<u32, String> {
    // Only digits: no sign.
    Some(word)
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|word| word.parse().ok())
        .filter(|count| (1..=MAX_COUNT).contains(count))
        .ok_or_else(|| format!("write a number from 1 to {MAX_COUNT}"))
}

/// Parses a number of bytes above zero and up to a GiB.
pub(super) fn size(word: &str) -> Result<usize, String> {
    let end = word.find(|character: char| !character.is_ascii_digit()).unwrap_or(word.len());
    let (number, unit) = word.split_at(end);
    let unit: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err("write bytes, or a number with KiB, MiB or GiB".into()),
    };
    let number: u64 = number.parse().map_err(|_| "write bytes, or a number with KiB, MiB or GiB")?;
    number
        .checked_mul(unit)
        .filter(|bytes| (1..=MAX_BYTES).contains(bytes))
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| "from 1 byte to 1GiB".into())
}

/// The SHA-256 of a public key: `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin(pub(crate) [u8; 32]);

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

pub(crate) fn pin(word: &str) -> Result<Pin, String> {
    let wrong = || "write sha256: and 64 hexadecimal digits, as the server prints them".to_owned();
    let digits = word.strip_prefix("sha256:").filter(|digits| digits.len() == 64).ok_or_else(wrong)?;
    let mut pin = [0; 32];
    for (byte, pair) in pin.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        for digit in pair {
            let digit = char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            *byte = *byte << 4 | digit.ok_or_else(wrong)?;
        }
    }
    Ok(Pin(pin))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Pin, duration, pin, size, version};

    #[test]
    fn a_pin_is_a_hash_and_comes_back_as_it_was() {
        let mut hash = [0xa0; 32];
        hash[31] = 7;
        let word = Pin(hash).to_string();
        assert!(word.starts_with("sha256:a0a0") && word.ends_with("07"), "{word}");
        assert_eq!(pin(&word), Ok(Pin(hash)));
        assert_eq!(pin(&word.to_uppercase().replace("SHA", "sha")), Ok(Pin(hash)));
        for wrong in [
            "",
            "sha256:",
            &word[7..],
            &word[..70],
            &format!("{word}0"),
            &word.replace('7', "g"),
            &word.replace("07", "é"),
        ] {
            assert!(pin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn i177_times_that_cannot_be_meant_are_refused() {
        for word in
            ["0", "-1", "1e18", "1000000000000000000", "inf", "NaN", "", "s", "+5", "0.0001", "25h", "5 s"]
        {
            assert!(duration(word).is_err(), "{word}");
        }
        for (word, time) in
            [("30", 30_000), ("0.5", 500), ("250ms", 250), ("2m", 120_000), ("24h", 86_400_000)]
        {
            assert_eq!(duration(word), Ok(Duration::from_millis(time)), "{word}");
        }
    }

    #[test]
    fn sizes_have_units_and_bounds() {
        for word in ["0", "-1", "", "KiB", "1.5MiB", "2GiB", "99999999999999999999", "1TB"] {
            assert!(size(word).is_err(), "{word}");
        }
        for (word, bytes) in [("1", 1), ("64KiB", 65_536), ("10MiB", 10_485_760), ("1gib", 1 << 30)] {
            assert_eq!(size(word), Ok(bytes), "{word}");
        }
    }

    #[test]
    fn a_version_is_one_that_exists() {
        assert!(version("2025-06-18").is_ok());
        assert!(version("2025-06-19").unwrap_err().contains("2026-07-28"));
    }
}
