//! The values that options take, with their units and bounds.

use std::time::Duration;

use mcpjoin::proto::Version;

/// The longest time that can be asked for, in seconds: a day. Whoever asks for more has mistyped.
const LONGEST: f64 = 86_400.0;
/// The largest message that can be asked for, in bytes: 1 GiB.
const LARGEST: u64 = 1 << 30;
/// The most often that something can be asked to be done.
const MOST: u32 = 100_000;

pub(super) fn version(word: &str) -> Result<Version, String> {
    let version = Version::parse(word);
    if version.era().is_some() {
        return Ok(version);
    }
    let known: Vec<&str> = Version::ALL.iter().map(Version::as_str).collect();
    Err(format!("the versions are {}", known.join(", ")))
}

/// A time above nothing and up to a day.
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
    // Digits and a point alone: no sign, no exponent, no `inf`.
    let number: f64 = Some(number)
        .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
        .and_then(|number| number.parse().ok())
        .ok_or("write seconds, or a number with ms, s, m or h")?;
    let asked = number * seconds;
    if !(0.001..=LONGEST).contains(&asked) {
        return Err("from 1ms to 24h".into());
    }
    Ok(Duration::from_secs_f64(asked))
}

/// How often something is to be done: at least once.
pub(super) fn count(word: &str) -> Result<u32, String> {
    // Digits alone: no sign.
    Some(word)
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|word| word.parse().ok())
        .filter(|count| (1..=MOST).contains(count))
        .ok_or_else(|| format!("from 1 to {MOST}"))
}

/// A number of bytes above nothing and up to a GiB.
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
        .filter(|bytes| (1..=LARGEST).contains(bytes))
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| "from 1 byte to 1GiB".into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{duration, size, version};

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
