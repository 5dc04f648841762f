//! The breaker of one model at one provider (design §6, row "Breaker"). Pure.

use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::failure::{Failure, Reason};
use understudy_messages::settings::BreakerSettings;

use super::ladder::{Ladder, Phase, Steps};

/// A success so recently keeps the breaker shut: a busy route with one error in a hundred must never trip it.
const RECENT: Duration = Duration::from_secs(1);

/// Failures in a row, and the rest that they led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Breaker {
    /// Failures since the last success.
    pub(super) failures: u32,
    /// The rest, once it has tripped.
    pub(super) open: Option<Ladder>,
}

impl Breaker {
    /// Whether there is nothing on it.
    pub(super) fn is_clean(&self) -> bool {
        self.failures == 0 && self.open.is_none()
    }

    /// The probe failed: it rests again, unless the failure is not of the kind that counts. `true` when a rest has begun.
    pub(super) fn probe_failed(&mut self, failure: &Failure, settings: &BreakerSettings, now: Instant) -> bool {
        match (&mut self.open, counts(failure)) {
            (Some(open), true) if open.phase(now) == Phase::Probing => {
                let rests = open.probe_failed(steps(settings), None, now);
                note_reason(open, failure.reason, rests)
            }
            (Some(_) | None, _) => {
                self.probe_abandoned();
                false
            }
        }
    }

    /// A probe came back without a verdict.
    pub(super) fn probe_abandoned(&mut self) {
        if let Some(open) = &mut self.open {
            open.probe_abandoned();
        }
    }

    /// An attempt failed. `last_success` is when this model last answered. `true` when a rest has begun.
    pub(super) fn failed(
        &mut self,
        failure: &Failure,
        settings: &BreakerSettings,
        last_success: Option<Instant>,
        now: Instant,
    ) -> bool {
        if !counts(failure) {
            return false;
        }
        let steps = steps(settings);
        if let Some(open) = &mut self.open {
            let rests = open.failed(steps, None, now);
            return note_reason(open, failure.reason, rests);
        }
        self.failures = self.failures.saturating_add(1);
        let busy = last_success.is_some_and(|success| now.saturating_duration_since(success) < RECENT);
        let trips = self.failures >= settings.failures && !busy;
        if trips {
            self.open = Some(Ladder::new(failure.reason, steps, None, now));
        }
        trips
    }
}

/// A rest that has begun is for the failure that began it, whatever the one before was for.
fn note_reason(open: &mut Ladder, reason: Reason, rests: bool) -> bool {
    if rests {
        open.reason = reason;
    }
    rests
}

fn steps(settings: &BreakerSettings) -> Steps {
    Steps {
        first: settings.window,
        cap: settings.cap,
    }
}

/// Whether a failure counts: the provider had no capacity, broke, was silent, or said nothing that could be understood.
fn counts(failure: &Failure) -> bool {
    match failure.reason {
        Reason::Overloaded | Reason::ServerError | Reason::Timeout | Reason::EmptyResponse => true,
        Reason::NoErrorDetails | Reason::Unknown | Reason::Unclassified => {
            failure.status.is_none_or(|status| status >= 500)
        }
        Reason::Auth
        | Reason::AuthPermanent
        | Reason::Billing
        | Reason::RateLimit
        | Reason::ModelNotFound
        | Reason::Format
        | Reason::ContextOverflow
        | Reason::SessionExpired
        | Reason::TlsCertificate => false,
    }
}

#[cfg(test)]
mod tests {
    use understudy_messages::clock::Clock;
    use understudy_messages::failure::Cut;

    use super::*;

    fn failure(reason: Reason) -> Failure {
        Failure::observed(reason, Cut::Answered)
    }

    fn fail(breaker: &mut Breaker, times: u32, last_success: Option<Instant>, now: Instant) -> bool {
        let settings = BreakerSettings::default();
        (0..times).fold(false, |_, _| {
            breaker.failed(&failure(Reason::ServerError), &settings, last_success, now)
        })
    }

    #[test]
    fn three_failures_in_a_row_open_it_for_ten_seconds_then_for_twenty() {
        let (mut breaker, now) = (Breaker::default(), Clock::real().now());
        assert!(!fail(&mut breaker, 2, None, now));
        assert!(fail(&mut breaker, 1, None, now));
        let mut until = now + Duration::from_secs(10);
        for _ in 0..3 {
            assert_eq!(breaker.open.map(|open| open.until), Some(until));
            assert_eq!(breaker.open.map(|open| open.phase(until)), Some(Phase::Due));
            assert!(fail(&mut breaker, 1, None, until));
            until += Duration::from_secs(20);
        }
    }

    #[test]
    fn each_rest_is_for_the_failure_that_began_it() {
        let (mut breaker, settings, now) = (Breaker::default(), BreakerSettings::default(), Clock::real().now());
        fail(&mut breaker, 3, None, now);
        breaker.failed(&failure(Reason::Timeout), &settings, None, now);
        let reason = |breaker: &Breaker| breaker.open.map(|open| open.reason);
        assert_eq!(
            reason(&breaker),
            Some(Reason::ServerError),
            "a failure inside a rest changes nothing"
        );
        let due = now + Duration::from_secs(10);
        breaker.open.as_mut().expect("open").probe();
        assert!(breaker.probe_failed(&failure(Reason::Timeout), &settings, due));
        assert_eq!(reason(&breaker), Some(Reason::Timeout));
        assert!(breaker.failed(
            &failure(Reason::Overloaded),
            &settings,
            None,
            due + Duration::from_secs(20)
        ));
        assert_eq!(reason(&breaker), Some(Reason::Overloaded));
    }

    #[test]
    fn a_success_within_the_last_second_keeps_it_shut() {
        let (mut breaker, now) = (Breaker::default(), Clock::real().now());
        let later = now + Duration::from_millis(999);
        assert!(!fail(&mut breaker, 10, Some(now), later));
        assert!(fail(&mut breaker, 1, Some(now), now + RECENT));
    }

    #[test]
    fn a_probe_that_was_refused_for_another_reason_leaves_the_next_one_due() {
        let (mut breaker, now) = (Breaker::default(), Clock::real().now());
        fail(&mut breaker, 3, None, now);
        let due = now + Duration::from_secs(10);
        breaker.open.as_mut().expect("open").probe();
        assert!(!breaker.probe_failed(&failure(Reason::Auth), &BreakerSettings::default(), due));
        assert_eq!(breaker.open.map(|open| open.phase(due)), Some(Phase::Due));
    }

    #[test]
    fn what_says_nothing_about_health_does_not_count() {
        let (settings, now) = (BreakerSettings::default(), Clock::real().now());
        for reason in [
            Reason::Format,
            Reason::RateLimit,
            Reason::Auth,
            Reason::ContextOverflow,
            Reason::TlsCertificate,
        ] {
            let mut breaker = Breaker::default();
            for _ in 0..10 {
                assert!(!breaker.failed(&failure(reason), &settings, None, now), "{reason}");
            }
        }
        let mut unclassified = failure(Reason::Unclassified);
        unclassified.status = Some(418);
        assert!(!counts(&unclassified));
        unclassified.status = Some(500);
        assert!(counts(&unclassified));
    }
}
