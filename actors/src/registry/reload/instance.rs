//! The life of one plugin instance (contract-registry §3). Pure.

use std::time::Duration;

use understudy_messages::clock::Instant;

/// How long an instance may take to retire before it is retired by force: from then on nothing that it says counts.
pub const RETIREMENT: Duration = Duration::from_secs(5);

/// What may be done with an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// It registers. Nobody calls it.
    #[default]
    Registering,
    /// It takes calls.
    Active,
    /// Calls that would begin are refused; those under way, and what they call themselves, go on.
    Quiesced,
    /// It lets go of what it holds.
    Disposing {
        /// When it is retired by force.
        until: Instant,
    },
    /// Its time is over while calls are still under way: what they answer is refused.
    ForcedRetired,
    /// It is gone.
    Disposed,
}

/// What happens to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has registered.
    Sealed,
    /// It could not.
    Failed,
    /// No new calls.
    Quiesce,
    /// Calls again.
    Resume,
    /// Let go.
    Dispose,
    /// Its time to let go is over.
    Deadline,
    /// It has let go, and nobody is inside.
    Settled,
}

/// Who wants to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Somebody new.
    New,
    /// Somebody whose own call or work is under way there.
    Inside,
}

impl Life {
    /// The state after `turn`; `None` where that cannot happen, and nothing changes.
    #[must_use]
    pub fn after(self, turn: Turn, now: Instant) -> Option<Self> {
        match (self, turn) {
            (Self::Registering, Turn::Sealed) => Some(Self::Active),
            (Self::Registering, Turn::Failed) => Some(Self::Disposing {
                until: now + RETIREMENT,
            }),
            (Self::Active, Turn::Quiesce) => Some(Self::Quiesced),
            (Self::Quiesced, Turn::Resume) => Some(Self::Active),
            (Self::Active | Self::Quiesced | Self::Registering, Turn::Dispose) => Some(Self::Disposing {
                until: now + RETIREMENT,
            }),
            // asked twice it is still the same disposal
            (Self::Disposing { .. } | Self::ForcedRetired | Self::Disposed, Turn::Dispose) => Some(self),
            (Self::Disposing { .. }, Turn::Deadline) => Some(Self::ForcedRetired),
            (Self::Disposing { .. } | Self::ForcedRetired, Turn::Settled) => Some(Self::Disposed),
            _ => None,
        }
    }

    /// Whether a call may begin.
    pub const fn takes(self, caller: Caller) -> bool {
        match (self, caller) {
            (Self::Active, _) | (Self::Quiesced, Caller::Inside) => true,
            (Self::Quiesced, Caller::New) => false,
            (Self::Registering | Self::Disposing { .. } | Self::ForcedRetired | Self::Disposed, _) => false,
        }
    }

    /// Whether what a call under way answers still counts.
    pub const fn counts(self) -> bool {
        match self {
            Self::Registering | Self::Active | Self::Quiesced | Self::Disposing { .. } => true,
            Self::ForcedRetired | Self::Disposed => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use understudy_messages::clock::Clock;

    use super::*;

    fn now() -> Instant {
        Clock::movable().now()
    }

    #[test]
    fn only_an_active_one_takes_new_calls_and_a_quiesced_one_those_from_inside() {
        let disposing = Life::Disposing { until: now() };
        for life in [
            Life::Registering,
            Life::Active,
            Life::Quiesced,
            disposing,
            Life::ForcedRetired,
            Life::Disposed,
        ] {
            assert_eq!(life.takes(Caller::New), life == Life::Active, "{life:?}");
            let inside = matches!(life, Life::Active | Life::Quiesced);
            assert_eq!(life.takes(Caller::Inside), inside, "{life:?}");
        }
    }

    #[test]
    fn what_a_call_answers_after_a_forced_retirement_is_refused_case_t32() {
        let retired = Life::Active.after(Turn::Dispose, now());
        let retired = retired
            .and_then(|life| life.after(Turn::Deadline, now()))
            .expect("retired");
        assert!(!retired.counts());
        assert_eq!(retired.after(Turn::Settled, now()), Some(Life::Disposed));
    }

    #[test]
    fn a_second_disposal_is_the_first_case_t33() {
        let first = Life::Quiesced.after(Turn::Dispose, now()).expect("disposes");
        assert_eq!(first.after(Turn::Dispose, now() + RETIREMENT), Some(first));
    }

    proptest! {
        #[test]
        fn what_was_disposed_of_never_comes_back(turns in prop::collection::vec(0..7_u8, 0..40)) {
            let all = [Turn::Sealed, Turn::Failed, Turn::Quiesce, Turn::Resume, Turn::Dispose, Turn::Deadline, Turn::Settled];
            let (mut life, mut leaving) = (Life::default(), false);
            for turn in turns {
                let turn = all[usize::from(turn)];
                life = life.after(turn, now()).unwrap_or(life);
                leaving |= matches!(life, Life::Disposing { .. });
                prop_assert!(!leaving || !life.takes(Caller::Inside));
            }
        }
    }
}
