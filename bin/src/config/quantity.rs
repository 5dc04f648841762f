//! Durations (`30s`), sizes (`20MB`) and counts, all more than zero.

use std::time::Duration;

/// Units of time and their milliseconds.
const TIME_UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Units of size and their bytes.
const SIZE_UNITS: [(&str, u64); 9] = [
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

/// Far above every true count and far below the limit of a semaphore.
const MAX_COUNT: u64 = 1_000_000_000;

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

/// Reads a plain number; at most a thousand million.
pub(crate) fn count(text: &str) -> Result<u64, QuantityError> {
    scaled(text, &[("", 1)], MAX_COUNT)
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
        assert_eq!(size("20mb"), Err(QuantityError::UnknownUnit));
        assert_eq!(size("0MB"), Err(QuantityError::Zero));
    }

    #[test]
    fn a_count_is_a_plain_number() {
        assert_eq!(count("400000"), Ok(400_000));
        assert_eq!(count("400k"), Err(QuantityError::UnknownUnit));
        assert_eq!(count("99999999999999999999999"), Err(QuantityError::TooLarge));
    }

    proptest! {
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
            let _ = (duration(&text), size(&text), count(&text));
        }
    }
}
