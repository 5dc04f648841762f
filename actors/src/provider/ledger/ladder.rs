//! A ladder of rests: each failure after a rest opens the next, longer one. Pure; the clock is passed in.
//!
//! A failure inside a rest changes nothing, and our own ladder never moves an end that stands. Only a reset time that the
//! provider states does. After a rest one probe is let through at a time; its success clears the ladder.

use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::failure::Reason;

/// Counts lapse when nothing has failed for so long, and no stated reset is believed beyond it.
pub(super) const LAPSE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long rests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    /// The first rest; each later one is twice as long.
    pub(super) first: Duration,
    /// The longest; a `first` beyond it stays as it is.
    pub(super) cap: Duration,
}

impl Steps {
    /// The `number`-th rest in a row, from 1.
    pub(super) fn rest(self, number: u32) -> Duration {
        let doubled = 1_u32
            .checked_shl(number.saturating_sub(1))
            .and_then(|times| self.first.checked_mul(times));
        doubled.unwrap_or(self.cap).min(self.cap.max(self.first))
    }
}

/// One ladder with at least one failure on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ladder {
    /// Why it rests.
    pub(super) reason: Reason,
    /// When the rest ends.
    pub(super) until: Instant,
    /// Whether the provider stated that end.
    pub(super) stated: bool,
    /// Rests in a row.
    pub(super) rests: u32,
    failed: Instant,
    probing: bool,
    /// Whether this rest has been asked early, in vain.
    asked_early: bool,
}

/// A rest as it outlives the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rested {
    /// Why.
    pub(super) reason: Reason,
    /// How long it still is.
    pub(super) remaining: Duration,
    /// How long ago it began.
    pub(super) since: Duration,
    /// Whether the provider stated its end.
    pub(super) stated: bool,
    /// Rests in a row.
    pub(super) rests: u32,
}

/// What a ladder says now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Leave it alone until then.
    Resting,
    /// The rest is over: one probe may go.
    Due,
    /// A probe is out.
    Probing,
    /// Nothing has failed for a day.
    Lapsed,
}

impl Ladder {
    /// The first failure.
    pub(super) fn new(reason: Reason, steps: Steps, stated: Option<Duration>, now: Instant) -> Self {
        let mut ladder = Self {
            reason,
            until: now,
            stated: false,
            rests: 0,
            failed: now,
            probing: false,
            asked_early: false,
        };
        ladder.rest(steps, stated, now);
        ladder
    }

    /// One that rested when the process ended.
    pub(super) fn restored(rested: Rested, steps: Steps, now: Instant) -> Self {
        let longest = if rested.stated { LAPSE } else { steps.rest(rested.rests) };
        Self {
            reason: rested.reason,
            until: now + rested.remaining.min(longest),
            stated: rested.stated,
            rests: rested.rests,
            failed: now.checked_sub(rested.since.min(LAPSE)).unwrap_or(now),
            probing: false,
            asked_early: false,
        }
    }

    /// The rest as it is at `now`; `None` when it is over.
    pub(super) fn rested(&self, now: Instant) -> Option<Rested> {
        let remaining = self.until.saturating_duration_since(now);
        (!remaining.is_zero()).then(|| Rested {
            reason: self.reason,
            remaining,
            since: now.saturating_duration_since(self.failed),
            stated: self.stated,
            rests: self.rests,
        })
    }

    /// What it says now.
    pub(super) fn phase(&self, now: Instant) -> Phase {
        if self.probing {
            Phase::Probing
        } else if now < self.until {
            Phase::Resting
        } else if now.duration_since(self.failed) > LAPSE && now.duration_since(self.until) > LAPSE {
            Phase::Lapsed
        } else {
            Phase::Due
        }
    }

    /// A failure at `now`. `true` when it opened a rest.
    pub(super) fn failed(&mut self, steps: Steps, stated: Option<Duration>, now: Instant) -> bool {
        match self.phase(now) {
            Phase::Resting => {
                self.move_later(stated, now);
                false
            }
            Phase::Lapsed => {
                *self = Self::new(self.reason, steps, stated, now);
                true
            }
            Phase::Due => {
                self.rest(steps, stated, now);
                true
            }
            // an attempt that had begun before: the probe will tell
            Phase::Probing => false,
        }
    }

    /// Whether it may be asked before its rest ends: once for each rest.
    pub(super) fn may_be_asked_early(&self) -> bool {
        !self.asked_early
    }

    /// The probe failed at `now`. `true` when it opened a rest; one that was sent early leaves the rest as it was.
    pub(super) fn probe_failed(&mut self, steps: Steps, stated: Option<Duration>, now: Instant) -> bool {
        self.probing = false;
        self.asked_early |= now < self.until;
        self.failed(steps, stated, now)
    }

    /// A probe goes out.
    pub(super) fn probe(&mut self) {
        self.probing = true;
    }

    /// The probe came back without a verdict.
    pub(super) fn probe_abandoned(&mut self) {
        self.probing = false;
    }

    fn rest(&mut self, steps: Steps, stated: Option<Duration>, now: Instant) {
        self.rests = self.rests.saturating_add(1);
        self.until = now + stated.map_or_else(|| steps.rest(self.rests), |stated| stated.min(LAPSE));
        self.stated = stated.is_some();
        self.failed = now;
        self.probing = false;
        self.asked_early = false;
    }

    fn move_later(&mut self, stated: Option<Duration>, now: Instant) {
        if let Some(until) = stated.map(|stated| now + stated.min(LAPSE))
            && until > self.until
        {
            self.until = until;
            self.stated = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use understudy_messages::clock::Clock;

    use super::*;

    const STEPS: Steps = Steps {
        first: Duration::from_secs(30),
        cap: Duration::from_secs(300),
    };

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn rests_double_up_to_the_cap() {
        let rests: Vec<u64> = (1..=6).map(|number| STEPS.rest(number).as_secs()).collect();
        assert_eq!(rests, [30, 60, 120, 240, 300, 300]);
        assert_eq!(STEPS.rest(u32::MAX), secs(300));
    }

    #[test]
    fn a_first_rest_beyond_the_cap_stays_as_it_is() {
        let steps = Steps {
            first: secs(30),
            cap: secs(20),
        };
        assert_eq!((steps.rest(1), steps.rest(5)), (secs(30), secs(30)));
    }

    #[test]
    fn a_failure_inside_a_rest_changes_nothing() {
        let now = Clock::real().now();
        let mut ladder = Ladder::new(Reason::RateLimit, STEPS, None, now);
        let before = ladder;
        assert!(!ladder.failed(STEPS, None, now + secs(29)));
        assert_eq!(ladder, before);
    }

    #[test]
    fn a_stated_end_moves_a_rest_later_and_never_sooner() {
        let now = Clock::real().now();
        let mut ladder = Ladder::new(Reason::RateLimit, STEPS, None, now);
        ladder.failed(STEPS, Some(secs(5)), now);
        assert_eq!((ladder.until, ladder.stated), (now + secs(30), false));
        ladder.failed(STEPS, Some(secs(90)), now);
        assert_eq!((ladder.until, ladder.stated), (now + secs(90), true));
        ladder.failed(STEPS, Some(secs(10 * 24 * 3600)), now);
        assert_eq!(ladder.until, now + LAPSE);
    }

    #[test]
    fn a_probe_that_came_back_without_a_verdict_leaves_the_next_one_due() {
        let now = Clock::real().now();
        let mut ladder = Ladder::new(Reason::Auth, STEPS, None, now);
        ladder.probe();
        assert_eq!(ladder.phase(now + secs(31)), Phase::Probing);
        ladder.probe_abandoned();
        assert_eq!(ladder.phase(now + secs(31)), Phase::Due);
    }

    #[test]
    fn a_probe_sent_early_that_fails_leaves_the_rest_as_it_was() {
        let now = Clock::real().now();
        let mut ladder = Ladder::new(Reason::RateLimit, STEPS, None, now);
        let before = ladder;
        ladder.probe();
        assert!(!ladder.probe_failed(STEPS, None, now + secs(3)));
        assert_eq!((ladder.until, ladder.rests), (before.until, before.rests));
        assert!(!ladder.may_be_asked_early(), "once for each rest");
        ladder.failed(STEPS, None, now + secs(31));
        assert!(ladder.may_be_asked_early());
    }

    #[test]
    fn while_a_probe_is_out_the_failure_of_another_attempt_changes_nothing() {
        let now = Clock::real().now();
        let mut ladder = Ladder::new(Reason::RateLimit, STEPS, None, now);
        ladder.probe();
        let before = ladder;
        assert!(!ladder.failed(STEPS, None, now + secs(31)));
        assert_eq!(ladder, before);
        assert!(ladder.probe_failed(STEPS, None, now + secs(31)));
        assert_eq!((ladder.rests, ladder.until), (2, now + secs(91)));
    }

    #[test]
    fn counts_lapse_a_day_after_the_last_failure() {
        let now = Clock::real().now();
        let mut ladder = Ladder::new(Reason::RateLimit, STEPS, None, now);
        ladder.failed(STEPS, None, now + secs(31));
        assert_eq!(ladder.rests, 2);
        let later = ladder.until + LAPSE + secs(1);
        assert_eq!(ladder.phase(later), Phase::Lapsed);
        ladder.failed(STEPS, None, later);
        assert_eq!(ladder.rests, 1);
    }

    proptest! {
        #[test]
        fn the_end_of_a_rest_never_moves_to_sooner(waits in proptest::collection::vec((0_u64..400, proptest::option::of(0_u64..100_000)), 1..40)) {
            let mut now = Clock::real().now();
            let mut ladder = Ladder::new(Reason::RateLimit, STEPS, None, now);
            for (wait, stated) in waits {
                now += secs(wait);
                let before = ladder;
                let opened = ladder.failed(STEPS, stated.map(secs), now);
                prop_assert!(opened || ladder.until >= before.until);
                prop_assert!(ladder.until <= now + LAPSE || ladder.until == before.until);
                prop_assert_eq!(opened, before.phase(now) != Phase::Resting);
            }
        }
    }
}
