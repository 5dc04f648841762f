//! Durations (`30s`), sizes (`20MB`) and counts, all more than zero, and whole numbers within a range.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Units of time and their milliseconds.
pub(crate) const TIME_UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Units of size and their bytes.
pub(crate) const SIZE_UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("B", 1),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// A year: longer waits are mistakes, and adding one to any instant is safe.
const MAX_MILLISECONDS: u64 = 365 * 24 * 3_600_000;

/// A gibibyte: what is measured here is held in memory.
const MAX_BYTES: u64 = 1 << 30;
/// The largest size of what lies on a disk.
const MAX_ON_DISK: u64 = 1 << 50;

/// Far above every true count and far below the limit of a semaphore.
pub(crate) const MAX_COUNT: u32 = 1_000_000_000;

/// Why a text is no duration, size or count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuantityError {
    #[error("does not begin with a whole number")]
    NoNumber,
    #[error("has no unit")]
    NoUnit,
    #[error("has an unknown unit")]
    UnknownUnit,
    #[error("must be more than zero")]
    Zero,
    #[error("is too large")]
    TooLarge,
    #[error("is out of range")]
    OutOfRange,
}

/// Reads `250ms`, `30s`, `5m` or `2h`; at most a year.
pub(crate) fn duration(text: &str) -> Result<Duration, QuantityError> {
    scaled(text, &TIME_UNITS, MAX_MILLISECONDS).map(Duration::from_millis)
}

/// Reads `20MB`, `512KiB` or plain bytes; at most a gibibyte.
pub(crate) fn size(text: &str) -> Result<usize, QuantityError> {
    let bytes = scaled(text, &SIZE_UNITS, MAX_BYTES)?;
    usize::try_from(bytes).map_err(|_| QuantityError::TooLarge)
}

/// As [`size`], for what lies on a disk; at most a pebibyte.
pub(crate) fn size_on_disk(text: &str) -> Result<usize, QuantityError> {
    let bytes = scaled(text, &SIZE_UNITS, MAX_ON_DISK)?;
    usize::try_from(bytes).map_err(|_| QuantityError::TooLarge)
}

/// Reads a plain number; at most a thousand million.
pub(crate) fn count(text: &str) -> Result<u64, QuantityError> {
    scaled(text, &[("", 1)], u64::from(MAX_COUNT))
}

/// Reads a plain number within `range`, which may begin with zero.
pub(crate) fn whole(text: &str, range: &RangeInclusive<u32>) -> Result<u32, QuantityError> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(QuantityError::NoNumber);
    }
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or(QuantityError::OutOfRange)
}

/// Reads a number of zero or more, with or without a fraction; at most a thousand million.
pub(crate) fn decimal(text: &str) -> Result<f64, QuantityError> {
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(QuantityError::NoNumber);
    }
    match text.parse::<f64>() {
        Ok(number) if number <= f64::from(MAX_COUNT) => Ok(number),
        Ok(_) => Err(QuantityError::TooLarge),
        Err(_) => Err(QuantityError::NoNumber),
    }
}

/// Writes a duration as [`duration`] reads it, in the largest unit that leaves no rest.
pub(crate) fn written_duration(duration: Duration) -> String {
    written(duration.as_millis(), &TIME_UNITS)
}

/// Writes a size as [`size`] reads it, in the largest unit that leaves no rest.
pub(crate) fn written_size(bytes: usize) -> String {
    written(bytes as u128, &SIZE_UNITS)
}

fn written(amount: u128, units: &[(&str, u64)]) -> String {
    let fitting = units
        .iter()
        .filter(|(_, factor)| amount.is_multiple_of(u128::from(*factor)));
    let (unit, factor) = fitting.max_by_key(|(_, factor)| *factor).unwrap_or(&("", 1));
    format!("{}{unit}", amount / u128::from(*factor))
}

fn scaled(text: &str, units: &[(&str, u64)], limit: u64) -> Result<u64, QuantityError> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    if digits.is_empty() {
        return Err(QuantityError::NoNumber);
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit.trim()) else {
        return Err(if unit.is_empty() {
            QuantityError::NoUnit
        } else {
            QuantityError::UnknownUnit
        });
    };
    let number: u64 = digits.parse().map_err(|_| QuantityError::TooLarge)?;
    match number.checked_mul(*factor) {
        Some(0) => Err(QuantityError::Zero),
        Some(amount) if amount <= limit => Ok(amount),
        Some(_) | None => Err(QuantityError::TooLarge),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        assert_eq!(duration("30"), Err(QuantityError::NoUnit));
        assert_eq!(duration("30d"), Err(QuantityError::UnknownUnit));
        assert_eq!(duration("s"), Err(QuantityError::NoNumber));
        assert_eq!(duration("-1s"), Err(QuantityError::NoNumber));
        assert_eq!(duration("1.5s"), Err(QuantityError::UnknownUnit));
        assert_eq!(duration("0s"), Err(QuantityError::Zero));
        assert_eq!(duration("8761h"), Err(QuantityError::TooLarge));
    }

    #[test]
    fn sizes_are_decimal_binary_or_plain() {
        assert_eq!(size("20MB"), Ok(20_000_000));
        assert_eq!(size("512KiB"), Ok(524_288));
        assert_eq!(size("1024"), Ok(1024));
        assert_eq!(size("1 GiB"), Ok(1 << 30));
        assert_eq!(size("2GiB"), Err(QuantityError::TooLarge));
        assert_eq!(size_on_disk("2GiB"), Ok(2 << 30));
        assert_eq!(size_on_disk("1048577GiB"), Err(QuantityError::TooLarge));
        assert_eq!(size("20mb"), Err(QuantityError::UnknownUnit));
        assert_eq!(size("0MB"), Err(QuantityError::Zero));
    }

    #[test]
    fn a_count_is_a_plain_number() {
        assert_eq!(count("400000"), Ok(400_000));
        assert_eq!(count("400k"), Err(QuantityError::UnknownUnit));
        assert_eq!(count("99999999999999999999999"), Err(QuantityError::TooLarge));
    }

    #[test]
    fn a_whole_number_stays_within_its_range() {
        assert_eq!(whole("0", &(0..=20)), Ok(0));
        assert_eq!(whole("20", &(0..=20)), Ok(20));
        assert_eq!(whole("399", &(400..=599)), Err(QuantityError::OutOfRange));
        assert_eq!(whole("99999999999", &(0..=20)), Err(QuantityError::OutOfRange));
        for text in ["", "+1", "-1", "1.0", "five"] {
            assert_eq!(whole(text, &(0..=20)), Err(QuantityError::NoNumber), "{text}");
        }
    }

    #[test]
    fn a_decimal_is_a_number_that_is_not_negative() {
        assert_eq!(decimal("1.5"), Ok(1.5));
        assert_eq!(decimal("0"), Ok(0.0));
        assert_eq!(decimal("1e10"), Err(QuantityError::TooLarge));
        for text in ["", "-1", "+1", "nan", "inf", "1.5x", ".5"] {
            assert_eq!(decimal(text), Err(QuantityError::NoNumber), "{text}");
        }
    }

    #[test]
    fn quantities_are_written_in_the_largest_unit_that_fits() {
        let seconds = |seconds| written_duration(Duration::from_secs(seconds));
        assert_eq!([seconds(90), seconds(120), seconds(7200)], ["90s", "2m", "2h"]);
        assert_eq!(written_duration(Duration::from_millis(1500)), "1500ms");
        assert_eq!([20_000_000, 10_240, 7].map(written_size), ["20MB", "10KiB", "7B"]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(milliseconds in 1..=MAX_MILLISECONDS, bytes in 1..=1usize << 30) {
            let length = Duration::from_millis(milliseconds);
            prop_assert_eq!(duration(&written_duration(length)), Ok(length));
            prop_assert_eq!(size(&written_size(bytes)), Ok(bytes));
        }

        #[test]
        fn any_number_of_any_time_unit_is_that_long(number in 1u64..8760, unit in 0usize..4) {
            let (name, factor) = TIME_UNITS[unit];
            let expected = Duration::from_millis(number * factor);
            prop_assert_eq!(duration(&format!("{number}{name}")), Ok(expected));
        }

        #[test]
        fn any_number_of_any_size_unit_is_that_large(number in 1u64..1 << 40, unit in 0usize..9) {
            let (name, factor) = SIZE_UNITS[unit];
            let bytes = u128::from(number) * u128::from(factor);
            let expected = if bytes <= u128::from(MAX_BYTES) {
                Ok(usize::try_from(bytes).expect("fits"))
            } else {
                Err(QuantityError::TooLarge)
            };
            prop_assert_eq!(size(&format!("{number}{name}")), expected);
        }

        #[test]
        fn no_text_makes_the_readers_panic(text in any::<String>()) {
            let _ = (duration(&text), size(&text), count(&text), whole(&text, &(0..=20)));
        }
    }
}
