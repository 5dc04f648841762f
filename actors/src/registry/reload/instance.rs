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
    use std::sync::OnceLock;

    use proptest::prelude::*;
    use understudy_messages::clock::Clock;

    use super::*;

    const TURNS: [Turn; 7] = [
        Turn::Sealed,
        Turn::Failed,
        Turn::Quiesce,
        Turn::Resume,
        Turn::Dispose,
        Turn::Deadline,
        Turn::Settled,
    ];

    fn now() -> Instant {
        static NOW: OnceLock<Instant> = OnceLock::new();
        *NOW.get_or_init(|| Clock::movable().now())
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

    /// What becomes of each life on each turn, in the order of [`TURNS`]; `None` where it stays as it is, since that cannot happen.
    fn table() -> [(Life, [Option<Life>; 7]); 6] {
        let disposing = Life::Disposing {
            until: now() + RETIREMENT,
        };
        let (active, quiesced) = (Some(Life::Active), Some(Life::Quiesced));
        let (goes, gone) = (Some(disposing), Some(Life::Disposed));
        let forced = Some(Life::ForcedRetired);
        [
            // sealed, failed, quiesce, resume, dispose, deadline, settled
            (Life::Registering, [active, goes, None, None, goes, None, None]),
            (Life::Active, [None, None, quiesced, None, goes, None, None]),
            (Life::Quiesced, [None, None, None, active, goes, None, None]),
            (disposing, [None, None, None, None, goes, forced, gone]),
            (Life::ForcedRetired, [None, None, None, None, forced, None, gone]),
            (Life::Disposed, [None, None, None, None, gone, None, None]),
        ]
    }

    #[test]
    fn every_turn_in_every_life_leads_where_the_table_says() {
        for (life, row) in table() {
            for (turn, after) in TURNS.into_iter().zip(row) {
                assert_eq!(life.after(turn, now()), after, "{turn:?} of {life:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_was_disposed_of_never_comes_back(turns in prop::collection::vec(0..7_u8, 0..40)) {
            let (mut life, mut leaving) = (Life::default(), false);
            for turn in turns {
                let turn = TURNS[usize::from(turn)];
                life = life.after(turn, now()).unwrap_or(life);
                leaving |= matches!(life, Life::Disposing { .. });
                prop_assert!(!leaving || !life.takes(Caller::Inside));
            }
        }
    }
}
