//! The wait that a provider asks for, from headers, body and words.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Headers;

/// No provider's word counts for longer (design §6).
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// What stands before a wait in prose.
const PHRASES: &[&str] = &[
    "try again in ",
    "try again after ",
    "retry in ",
    "retry after ",
    "resets in ",
    "reset in ",
    "reset after ",
    "please wait ",
    "available in ",
];

/// Headers that tell when a budget is full again, each beside the one that tells what is left of it.
const RESETS: &[(&str, &str)] = &[
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
];

/// The wait that the headers ask for. A budget that is not spent asks for none.
pub(super) fn in_headers(headers: Headers<'_>, now: SystemTime) -> Option<Duration> {
    let millis = || seconds(headers("retry-after-ms")?.parse::<f64>().ok()? / 1000.0);
    let stated = || {
        let value = headers("retry-after")?.trim();
        value.parse().map_or_else(|_| until(http_date(value)?, now), seconds)
    };
    let resets = || {
        let spent = |left: &str| headers(left).is_some_and(|left| left.trim() == "0");
        let ends = RESETS
            .iter()
            .filter(|(_, left)| spent(left))
            .filter_map(|(reset, _)| headers(reset));
        ends.filter_map(|value| reset(value.trim(), now)).max()
    };
    millis().or_else(stated).or_else(resets)
}

/// The longest wait that the words ask for.
pub(super) fn in_words(text: &str) -> Option<Duration> {
    let waits = PHRASES
        .iter()
        .flat_map(|phrase| text.match_indices(phrase).map(|(at, _)| &text[at + phrase.len()..]));
    waits.filter_map(duration).max()
}

/// A duration as people and Go write it: `20s`, `1m30s`, `250ms`, `6m0s`, `34.4 seconds`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (mut total, mut rest) = (0.0, text);
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let number = split_while(&mut rest, |c| c.is_ascii_digit() || c == '.');
        let number: f64 = number.trim_end_matches('.').parse().ok()?;
        let mut after = rest.trim_start_matches(' ');
        let unit = split_while(&mut after, |c| c.is_ascii_alphabetic());
        match unit_seconds(unit) {
            Some(factor) => {
                total += number * factor;
                rest = after.trim_start_matches(' ');
            }
            None => return seconds(total + number),
        }
    }
    seconds(total)
}

fn unit_seconds(unit: &str) -> Option<f64> {
    match unit {
        "ms" | "millisecond" | "milliseconds" => Some(0.001),
        "s" | "sec" | "secs" | "second" | "seconds" => Some(1.0),
        "m" | "min" | "mins" | "minute" | "minutes" => Some(60.0),
        "h" | "hr" | "hrs" | "hour" | "hours" => Some(3600.0),
        "d" | "day" | "days" => Some(86400.0),
        _ => None,
    }
}

fn split_while<'a>(text: &mut &'a str, keep: impl Fn(char) -> bool) -> &'a str {
    let (head, tail) = text.split_at(text.find(|c| !keep(c)).unwrap_or(text.len()));
    *text = tail;
    head
}

/// A reset as a duration, or as the time of day in seconds or milliseconds since 1970.
fn reset(value: &str, now: SystemTime) -> Option<Duration> {
    const IS_TIME: f64 = 1e9;
    const IS_MILLIS: f64 = 1e11;
    match value.parse::<f64>() {
        Ok(number) if number >= IS_MILLIS => until(since_1970(number / 1000.0)?, now),
        Ok(number) if number >= IS_TIME => until(since_1970(number)?, now),
        Ok(number) => seconds(number),
        Err(_) => duration(value),
    }
}

fn since_1970(number: f64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(number).ok()?)
}

fn until(end: SystemTime, now: SystemTime) -> Option<Duration> {
    seconds(end.duration_since(now).ok()?.as_secs_f64())
}

/// A wait of this many seconds, at most [`LONGEST`]; nothing and nonsense are no wait.
fn seconds(number: f64) -> Option<Duration> {
    if number > LONGEST.as_secs_f64() {
        return Some(LONGEST);
    }
    let wait = Duration::try_from_secs_f64(number).ok()?;
    (!wait.is_zero()).then_some(wait)
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that RFC 9110 lets servers send.
fn http_date(value: &str) -> Option<SystemTime> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut fields = value.split_once(", ")?.1.split(' ');
    let day: u64 = fields.next()?.parse().ok()?;
    let month = MONTHS.find(fields.next().filter(|name| name.len() == 3)?)? as u64 / 3 + 1;
    let year: u64 = fields
        .next()?
        .parse()
        .ok()
        .filter(|year| (1970..10_000).contains(year))?;
    let clock = fields
        .next()?
        .split(':')
        .map(|part| part.parse::<u64>().ok().filter(|part| *part < 61));
    let time = clock.collect::<Option<Vec<u64>>>()?;
    let [hour, minute, second] = time[..] else {
        return None;
    };
    let seconds = days_since_1970(year, month, day.min(31)) * 86400 + hour * 3600 + minute * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Days in the proleptic Gregorian calendar, counted in years that begin in March so that leap days come last.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    const MARCH_0000_TO_1970: u64 = 719_468;
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day.max(1) - 1 - MARCH_0000_TO_1970
}
