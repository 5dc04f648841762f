//! What a restart finds.

use std::sync::Arc;

use secrecy::SecretString;
use understudy_messages::clock::Clock;
use understudy_messages::failure::{Cut, Failure};
use understudy_messages::settings::Settings;

use super::super::{Ledgers, Purpose};
use super::*;
use crate::registry::testing::settings;

const WALL: Duration = Duration::from_secs(1_000_000);

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + WALL + Duration::from_secs(seconds)
}

fn configured(edit: impl FnOnce(&mut ProviderSettings)) -> Settings {
    let mut settings = settings();
    let mut provider = (**settings.providers.values().next().expect("one")).clone();
    provider.api_keys = ["k0", "k1"].map(SecretString::from).into();
    edit(&mut provider);
    settings.providers = [(provider.name.clone(), Arc::new(provider))].into();
    settings
}

fn ledger(settings: &Settings, learnt: Learnt, now: Instant) -> Arc<Ledger> {
    let ledgers = Ledgers::new(settings, &Ledgers::after(Arc::new(learnt)), now);
    ledgers.get(0).expect("one").clone()
}

fn fail(ledger: &Arc<Ledger>, reason: Reason, retry_after: Option<u64>, now: Instant) {
    let failure = Failure {
        retry_after: retry_after.map(Duration::from_secs),
        ..Failure::observed(reason, Cut::Answered)
    };
    let ticket = ledger.enter(&"x".into(), Purpose::Fresh, now).expect("usable");
    ticket.failed(&failure, now);
}

/// What of a ledger a process finds that starts so many seconds later by the wall, with these settings.
fn restarted(ledger: &Ledger, settings: &Settings, later: u64, now: Instant) -> Arc<Ledger> {
    let before = Learnt::default();
    let mut marks = Marks::new();
    before.gather(ledger, now, at(0), &mut marks);
    let learnt = Learnt {
        marks,
        read: Some((now, at(later))),
        ..before
    };
    super::tests::ledger(settings, learnt, now)
}

fn rests(ledger: &Ledger, model: &str, now: Instant) -> Option<(Reason, u64)> {
    let rest = ledger.rest(&model.into(), now)?;
    Some((rest.reason, rest.until.duration_since(now).as_secs()))
}

#[test]
fn a_window_rests_until_the_time_that_it_had_and_one_that_is_over_is_dropped() {
    let (settings, now) = (
        configured(|provider| provider.api_keys.truncate(1)),
        Clock::real().now(),
    );
    let first = ledger(&settings, Learnt::default(), now);
    fail(&first, Reason::Billing, None, now);
    for (later, found) in [(0, Some(600)), (60, Some(540)), (600, None), (9_999, None)] {
        let second = restarted(&first, &settings, later, now);
        assert_eq!(
            rests(&second, "y", now),
            found.map(|left| (Reason::Billing, left)),
            "{later}"
        );
    }
}

#[test]
fn a_clock_that_went_back_makes_no_rest_longer_than_it_was() {
    let (settings, now) = (
        configured(|provider| provider.api_keys.truncate(1)),
        Clock::real().now(),
    );
    for (reason, stated, longest) in [(Reason::Billing, None, 600), (Reason::RateLimit, Some(7_200), 86_400)] {
        let first = ledger(&settings, Learnt::default(), now);
        fail(&first, reason, stated, now);
        let mut learnt = Learnt {
            read: Some((now, UNIX_EPOCH)),
            ..Learnt::default()
        };
        let mut marks = Marks::new();
        learnt.gather(&first, now, at(0), &mut marks);
        learnt.marks = marks;
        assert_eq!(
            rests(&ledger(&settings, learnt, now), "x", now),
            Some((reason, longest))
        );
    }
}

#[test]
fn a_window_belongs_to_its_credential_wherever_that_stands_and_goes_with_it() {
    let (settings, now) = (configured(|_| {}), Clock::real().now());
    let first = ledger(&settings, Learnt::default(), now);
    fail(&first, Reason::Billing, None, now);
    let asked_first = |settings: &Settings| {
        let second = restarted(&first, settings, 0, now);
        let ticket = second.enter(&"x".into(), Purpose::Fresh, now).expect("usable");
        ticket.credential()
    };
    assert_eq!(asked_first(&settings), 1, "the first one rests");
    assert_eq!(asked_first(&configured(|it| it.api_keys.reverse())), 0);
    assert_eq!(
        asked_first(&configured(|it| it.api_keys[0] = "k2".into())),
        0,
        "another key"
    );
    assert_eq!(
        asked_first(&configured(|it| it.base_url.push_str("/v2"))),
        0,
        "another place"
    );
}

#[test]
fn a_group_a_model_and_a_refused_prefill_are_found_again() {
    let now = Clock::real().now();
    let grouped = configured(|provider| provider.quota_group = Some("team".into()));
    let first = ledger(&grouped, Learnt::default(), now);
    fail(&first, Reason::RateLimit, Some(90), now);
    assert_eq!(
        rests(&restarted(&first, &grouped, 30, now), "y", now),
        Some((Reason::RateLimit, 60))
    );
    let plain = configured(|_| {});
    let first = ledger(&plain, Learnt::default(), now);
    fail(&first, Reason::ModelNotFound, None, now);
    first.note_prefill_refused(&"y".into());
    let second = restarted(&first, &plain, 10, now);
    assert_eq!(rests(&second, "x", now), Some((Reason::ModelNotFound, 20)));
    assert_eq!(rests(&second, "y", now), None);
    assert!(second.refuses_prefill(&"y".into()) && !second.refuses_prefill(&"x".into()));
}

#[test]
fn the_rest_after_a_restart_goes_on_where_the_ladder_was() {
    let (settings, now) = (
        configured(|provider| provider.api_keys.truncate(1)),
        Clock::real().now(),
    );
    let first = ledger(&settings, Learnt::default(), now);
    fail(&first, Reason::Billing, None, now);
    let second = restarted(&first, &settings, 0, now);
    let due = now + Duration::from_secs(600);
    fail(&second, Reason::Billing, None, due);
    assert_eq!(rests(&second, "x", due), Some((Reason::Billing, 1_200)));
}

#[test]
fn no_credential_is_in_what_is_kept() {
    let (settings, now) = (configured(|_| {}), Clock::real().now());
    let first = ledger(&settings, Learnt::default(), now);
    fail(&first, Reason::Billing, None, now);
    let mut marks = Marks::new();
    Learnt::default().gather(&first, now, at(0), &mut marks);
    let kept = serde_json::to_string(&marks.into_iter().collect::<Vec<_>>()).expect("JSON");
    assert!(kept.contains("billing") && !kept.contains("k0"), "{kept}");
}

#[test]
fn two_looks_at_one_window_are_the_same_and_a_longer_rest_is_not() {
    let mark = Mark {
        until: 60_000,
        failed: 30_000,
        stated: false,
        rests: 1,
    };
    assert!(mark.is_same(&Mark {
        until: 60_003,
        failed: 29_999,
        ..mark
    }));
    assert!(!mark.is_same(&Mark { until: 90_000, ..mark }));
    assert!(!mark.is_same(&Mark { rests: 2, ..mark }));
}
