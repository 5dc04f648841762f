//! The wait that a provider asks for.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::{Signal, classify};

/// Sun, 06 Nov 1994 08:49:00 GMT.
const NOW: Duration = Duration::from_secs(784_111_740);

fn wait(headers: &[(&str, &str)], body: &str) -> Option<Duration> {
    wait_at(UNIX_EPOCH + NOW, headers, body)
}

fn wait_at(now: SystemTime, headers: &[(&str, &str)], body: &str) -> Option<Duration> {
    let find = |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let signal = Signal {
        provider: "p",
        status: Some(429),
        headers: &find,
        body: body.as_bytes(),
        secrets: &[],
        now,
    };
    classify(&signal).retry_after
}

#[test]
fn every_header_form_is_read() {
    for (headers, millis) in [
        (&[("retry-after", "7")][..], 7000),
        (&[("retry-after", "0.5")], 500),
        (&[("retry-after", "7"), ("retry-after-ms", "6820")], 6820),
        (&[("retry-after", "1"), ("retry-after-ms", "0")], 1000),
        (&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], 37_000),
        (
            &[
                ("x-ratelimit-reset-tokens", "6m0s"),
                ("x-ratelimit-remaining-tokens", "0"),
            ],
            360_000,
        ),
        (
            &[
                ("x-ratelimit-reset-requests", "120ms"),
                ("x-ratelimit-remaining-requests", "0"),
            ],
            120,
        ),
        (&[("x-ratelimit-reset", "12"), ("x-ratelimit-remaining", "0")], 12_000),
    ] {
        assert_eq!(wait(headers, ""), Some(Duration::from_millis(millis)), "{headers:?}");
    }
}

#[test]
fn a_reset_may_be_a_time_in_seconds_or_milliseconds() {
    let now = UNIX_EPOCH + Duration::from_secs(1_760_000_000);
    for time in ["1760000010", "1760000010000"] {
        let headers = [("x-ratelimit-reset", time), ("x-ratelimit-remaining", "0")];
        assert_eq!(wait_at(now, &headers, ""), Some(Duration::from_secs(10)), "{time}");
    }
}

#[test]
fn headers_without_sense_ask_for_nothing() {
    for headers in [
        &[("retry-after", "0")][..],
        &[("retry-after", "-3")],
        &[("retry-after", "NaN")],
        &[("retry-after", "soon")],
        &[("retry-after", "Sun, 06 Nov 1994 08:48:37 GMT")],
        &[("retry-after", "Sun, 06 Nov 99999999999999999999 08:48:37 GMT")],
        &[("x-ratelimit-reset-tokens", "6m0s")],
        &[
            ("x-ratelimit-reset-tokens", "6m0s"),
            ("x-ratelimit-remaining-tokens", "12"),
        ],
    ] {
        assert_eq!(wait(headers, ""), None, "{headers:?}");
    }
}

#[test]
fn words_and_retry_info_are_read() {
    for (body, millis) in [
        ("Please try again in 20s.", 20_000),
        ("try again in 1m30s", 90_000),
        ("Try again in 250ms, please", 250),
        ("Try again in 60 seconds.", 60_000),
        ("usage limit reached, retry after 30s", 30_000),
        ("Please retry in 48.5s.", 48_500),
        ("try again in 2 hours 5 minutes", 7_500_000),
        (r#"{"error":{"details":[{"retryDelay":"34.4s"}]}}"#, 34_400),
    ] {
        assert_eq!(wait(&[], body), Some(Duration::from_millis(millis)), "{body}");
    }
    assert_eq!(wait(&[], "Please try again in a while."), None);
}

#[test]
fn the_longest_of_header_and_words_stands_but_never_beyond_a_day() {
    let header = [("retry-after", "5")];
    assert_eq!(wait(&header, "try again in 20s"), Some(Duration::from_secs(20)));
    assert_eq!(wait(&header, "try again in 2s"), Some(Duration::from_secs(5)));
    let day = Some(Duration::from_secs(86_400));
    assert_eq!(wait(&[("retry-after", "1e300")], ""), day);
    assert_eq!(wait(&[], "try again in 40 days"), day);
}

#[test]
fn dates_are_right_around_leap_days() {
    for (date, seconds) in [
        ("Thu, 01 Jan 1970 00:00:09 GMT", 9),
        ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
        ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
        ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
        ("Sun, 31 Dec 2023 23:59:59 GMT", 1_704_067_199),
    ] {
        let now = UNIX_EPOCH + Duration::from_secs(seconds - 4);
        assert_eq!(
            wait_at(now, &[("retry-after", date)], ""),
            Some(Duration::from_secs(4)),
            "{date}"
        );
    }
}
