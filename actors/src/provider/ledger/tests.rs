use understudy_messages::clock::Clock;
use understudy_messages::failure::{Cut, Failure};

use super::*;
use crate::registry::testing::settings;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn failure(reason: Reason, retry_after: Option<u64>) -> Failure {
    Failure {
        retry_after: retry_after.map(secs),
        ..Failure::observed(reason, Cut::Answered)
    }
}

/// One provider with `keys` credentials and models `x` and `y`.
fn ledger_with(keys: usize, edit: impl FnOnce(&mut ProviderSettings)) -> (Arc<Ledger>, Instant) {
    let mut settings = settings();
    let mut provider = (**settings.providers.values().next().expect("one")).clone();
    provider.api_keys = (0..keys).map(|key| format!("k{key}").into()).collect();
    edit(&mut provider);
    provider.models = Some(vec!["x".into(), "y".into()]);
    settings.providers = [(provider.name.clone(), Arc::new(provider))].into();
    let now = Clock::real().now();
    let ledgers = Ledgers::new(&settings, &Ledgers::default(), now);
    (ledgers.get(0).expect("one").clone(), now)
}

fn ledger(keys: usize) -> (Arc<Ledger>, Instant) {
    ledger_with(keys, |_| {})
}

fn enter(ledger: &Arc<Ledger>, model: &str, now: Instant) -> Result<Ticket, Rest> {
    ledger.enter(&model.into(), Purpose::Fresh, now)
}

fn fail(ledger: &Arc<Ledger>, model: &str, failure: &Failure, now: Instant) -> Settled {
    enter(ledger, model, now).expect("usable").failed(failure, now)
}

fn rests(ledger: &Ledger, model: &str, now: Instant) -> Option<(Reason, Instant)> {
    ledger.rest(&model.into(), now).map(|rest| (rest.reason, rest.until))
}

#[test]
fn a_provider_cooling_for_billing_is_left_alone_case_45() {
    let (ledger, now) = ledger(1);
    fail(&ledger, "x", &failure(Reason::Billing, None), now);
    assert_eq!(rests(&ledger, "x", now), Some((Reason::Billing, now + secs(600))));
    assert_eq!(
        rests(&ledger, "y", now),
        Some((Reason::Billing, now + secs(600))),
        "the whole credential"
    );
}

#[test]
fn with_one_of_two_credentials_cooling_the_provider_is_asked_normally_case_46() {
    let (ledger, now) = ledger(2);
    fail(&ledger, "x", &failure(Reason::Auth, None), now);
    assert_eq!(rests(&ledger, "x", now), None);
    let ticket = enter(&ledger, "x", now).expect("usable");
    assert_eq!((ticket.credential(), ticket.is_probe()), (1, false));
}

#[test]
fn a_guessed_rate_limit_window_may_be_asked_early_one_at_a_time_case_47() {
    let (ledger, now) = ledger(1);
    fail(&ledger, "x", &failure(Reason::RateLimit, None), now);
    let rest = ledger.rest(&"x".into(), now + secs(5)).expect("resting");
    assert!(rest.guessed);
    let early = ledger.enter(&"x".into(), Purpose::Early, now + secs(5)).expect("leave");
    assert!(early.is_probe());
    assert!(
        ledger.enter(&"x".into(), Purpose::Early, now + secs(5)).is_err(),
        "one at a time"
    );
    early.failed(&failure(Reason::RateLimit, None), now + secs(5));
    assert_eq!(
        rests(&ledger, "x", now + secs(6)),
        Some((Reason::RateLimit, now + secs(30))),
        "unchanged"
    );
    assert!(
        ledger.enter(&"x".into(), Purpose::Early, now + secs(6)).is_err(),
        "once for each rest"
    );
}

#[test]
fn a_stated_reset_is_no_guess_and_is_not_probed_before_its_end_case_48() {
    let (ledger, now) = ledger(1);
    fail(&ledger, "x", &failure(Reason::RateLimit, Some(3600)), now);
    let almost = now + secs(3599);
    let rest = ledger.rest(&"x".into(), almost).expect("resting");
    assert_eq!((rest.guessed, rest.until), (false, now + secs(3600)));
    assert!(enter(&ledger, "x", almost).is_err());
    assert!(enter(&ledger, "x", now + secs(3600)).expect("due").is_probe());
}

#[test]
fn a_probe_that_fails_for_one_model_leaves_the_sibling_its_own_case_49() {
    let (ledger, now) = ledger(1);
    fail(&ledger, "x", &failure(Reason::RateLimit, None), now);
    fail(&ledger, "y", &failure(Reason::ModelNotFound, None), now);
    let later = now + secs(31);
    let probe = enter(&ledger, "x", later).expect("due");
    probe.failed(&failure(Reason::ModelNotFound, None), later);
    assert!(enter(&ledger, "y", later).expect("due").is_probe());
}

#[test]
fn windows_climb_their_ladders_and_success_starts_anew_case_50() {
    for (reason, rests_s) in [
        (Reason::RateLimit, &[30, 60, 120, 240, 300, 300][..]),
        (Reason::Auth, &[30, 60, 120, 240, 480, 600, 600]),
        (Reason::ModelNotFound, &[30, 60, 120, 240, 480, 600]),
        (Reason::Billing, &[600, 1200, 2400, 3600, 3600]),
        (Reason::AuthPermanent, &[600, 1200, 2400, 3600]),
    ] {
        let (ledger, mut now) = ledger(1);
        for rest in rests_s {
            fail(&ledger, "x", &failure(reason, None), now);
            assert_eq!(rests(&ledger, "x", now), Some((reason, now + secs(*rest))), "{reason}");
            assert!(enter(&ledger, "x", now + secs(rest - 1)).is_err());
            now += secs(*rest);
        }
        enter(&ledger, "x", now).expect("due").succeeded(now);
        fail(&ledger, "x", &failure(reason, None), now);
        assert_eq!(
            rests(&ledger, "x", now),
            Some((reason, now + secs(rests_s[0]))),
            "{reason} after a success"
        );
    }
}

#[test]
fn a_second_model_that_fails_inside_the_window_cools_the_credential_case_51() {
    let (ledger, now) = ledger(1);
    fail(&ledger, "x", &failure(Reason::RateLimit, None), now);
    assert_eq!(rests(&ledger, "y", now), None);
    fail(&ledger, "y", &failure(Reason::RateLimit, None), now + secs(1));
    assert_eq!(
        rests(&ledger, "z", now + secs(2)),
        Some((Reason::RateLimit, now + secs(31)))
    );
}

#[test]
fn format_overload_errors_and_early_timeouts_open_no_window_case_52() {
    for reason in [Reason::Format, Reason::Overloaded, Reason::ServerError, Reason::Timeout] {
        let (ledger, now) = ledger(1);
        let settled = fail(&ledger, "x", &failure(reason, None), now);
        assert_eq!((settled.opened, rests(&ledger, "x", now)), (None, None), "{reason}");
    }
}

#[test]
fn five_refused_credentials_in_a_row_rest_longer_each_time_case_68() {
    let (ledger, mut now) = ledger(1);
    let mut rests_s = Vec::new();
    for _ in 0..5 {
        let opened = fail(&ledger, "x", &failure(Reason::Auth, None), now)
            .opened
            .expect("a window");
        rests_s.push(opened.until.duration_since(now).as_secs());
        now = opened.until;
    }
    assert_eq!(rests_s, [30, 60, 120, 240, 480]);
}

#[test]
fn an_aggregator_windows_single_models_only() {
    let (ledger, now) = ledger_with(1, |provider| provider.aggregator = true);
    fail(&ledger, "x", &failure(Reason::Billing, None), now);
    assert_eq!(
        (rests(&ledger, "x", now).is_some(), rests(&ledger, "y", now)),
        (true, None)
    );
}

#[test]
fn members_of_a_quota_group_share_their_windows() {
    let mut settings = settings();
    for provider in settings.providers.values_mut() {
        Arc::make_mut(provider).quota_group = Some("account".into());
    }
    let now = Clock::real().now();
    let ledgers = Ledgers::new(&settings, &Ledgers::default(), now);
    let [one, two] = [0, 1].map(|index| ledgers.get(index).expect("there").clone());
    fail(&one, "x", &failure(Reason::RateLimit, Some(60)), now);
    assert_eq!(rests(&two, "anything", now), Some((Reason::RateLimit, now + secs(60))));
    fail(&one, "y", &failure(Reason::ModelNotFound, None), now + secs(60));
    assert_eq!(
        rests(&two, "z", now + secs(61)),
        None,
        "the probe's answer cleared nothing it did not cover"
    );
}

#[test]
fn after_a_window_one_probe_at_a_time_and_a_cancelled_one_gives_no_verdict() {
    let (ledger, now) = ledger(1);
    fail(&ledger, "x", &failure(Reason::RateLimit, Some(10)), now);
    let due = now + secs(10);
    let probe = enter(&ledger, "x", due).expect("due");
    assert!(ledger.rest(&"x".into(), due).expect("held").probing);
    drop(probe);
    let again = enter(&ledger, "x", due).expect("due again");
    assert!(again.is_probe());
    assert_eq!(
        again.succeeded(due),
        Settled {
            opened: None,
            probe: Some(true)
        }
    );
    assert!(!enter(&ledger, "x", due).expect("clean").is_probe());
}

#[test]
fn a_probe_refused_for_the_requests_own_fault_gives_no_verdict() {
    let (ledger, now) = ledger(1);
    fail(&ledger, "x", &failure(Reason::RateLimit, Some(10)), now);
    let due = now + secs(10);
    let settled = fail(&ledger, "x", &failure(Reason::Format, None), due);
    assert_eq!(settled, Settled::default());
    assert!(enter(&ledger, "x", due).expect("still due").is_probe());
}

#[test]
fn a_turns_own_retry_passes_its_own_rate_limit_window_but_no_breaker() {
    let (ledger, now) = ledger(1);
    fail(&ledger, "x", &failure(Reason::RateLimit, None), now);
    let retry = ledger
        .enter(&"x".into(), Purpose::Retry { credential: 0 }, now)
        .expect("its own window");
    assert!(!retry.is_probe());
    retry.succeeded(now);
    for _ in 0..3 {
        // let the success grow old first
        fail(&ledger, "x", &failure(Reason::ServerError, None), now + secs(2));
    }
    assert!(
        ledger
            .enter(&"x".into(), Purpose::Retry { credential: 0 }, now + secs(2))
            .is_err()
    );
}

#[test]
fn least_used_spreads_and_listed_stays() {
    let (ledger, now) = ledger_with(3, |provider| provider.key_order = KeyOrder::LeastUsed);
    let used: Vec<usize> = (0..6)
        .map(|_| enter(&ledger, "x", now).expect("usable").credential())
        .collect();
    assert_eq!(used, [0, 1, 2, 0, 1, 2]);
    let (ledger, now) = self::ledger(3);
    let used: Vec<usize> = (0..3)
        .map(|_| enter(&ledger, "x", now).expect("usable").credential())
        .collect();
    assert_eq!(used, [0, 0, 0]);
}

#[test]
fn rotation_takes_a_credential_that_was_not_used_and_does_not_rest() {
    let (ledger, now) = ledger(3);
    fail(&ledger, "x", &failure(Reason::Auth, None), now);
    assert!(ledger.another_credential(&"x".into(), &[0], now));
    let ticket = ledger
        .enter(&"x".into(), Purpose::Rotate { used: &[0, 1] }, now)
        .expect("the third");
    assert_eq!(ticket.credential(), 2);
    assert!(!ledger.another_credential(&"x".into(), &[0, 1, 2], now));
}

#[test]
fn an_operators_reset_clears_windows_and_breaker() {
    let (ledger, now) = ledger(1);
    fail(&ledger, "x", &failure(Reason::Billing, None), now);
    ledger.reset(Some(&"x".into()));
    assert_eq!(rests(&ledger, "x", now), None);
    assert!(ledger.is_clean());
}

#[test]
fn a_minute_of_outage_costs_six_attempts_and_the_lead_is_back_within_25_s() {
    for shows_after in [0, 5] {
        let (ledger, start) = ledger(1);
        let (mut attempts, mut first_answer) = (0, None);
        for request in 0..40 {
            let now = start + secs(3 * request);
            let ends = now + secs(shows_after);
            let down = now < start + secs(60);
            for purpose in [Purpose::Fresh, Purpose::Retry { credential: 0 }] {
                let Ok(ticket) = ledger.enter(&"x".into(), purpose, now) else {
                    break;
                };
                let probe = ticket.is_probe();
                if !down {
                    first_answer.get_or_insert(now);
                    ticket.succeeded(ends);
                    break;
                }
                attempts += 1;
                ticket.failed(&failure(Reason::ServerError, None), ends);
                if probe {
                    break;
                }
            }
        }
        assert!(attempts <= 6, "{attempts} attempts");
        let back = first_answer.expect("it comes back").duration_since(start + secs(60));
        assert!(back <= secs(25), "{back:?}");
    }
}

#[test]
fn unlisted_models_do_not_grow_the_ledger_for_ever() {
    let (ledger, now) = ledger(1);
    for model in 0..3 * MOST_BREAKERS {
        fail(&ledger, &format!("m{model}"), &failure(Reason::ServerError, None), now);
    }
    assert!(lock(&ledger.record.breakers).len() <= MOST_BREAKERS + 1);
}
