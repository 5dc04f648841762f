//! The ledger, told to operators: who is usable, who rests, why and until when.

use std::sync::atomic::Ordering;
use std::time::Duration;

use understudy_messages::clock::Instant;
use understudy_messages::failure::Reason;
use understudy_messages::ids::Name;

use super::ladder::Phase;
use super::windows::Asked;
use super::{Ledger, Purpose, Rest, lock};

/// How a candidate is, as a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateState {
    /// It may be asked.
    Available,
    /// A window of the provider's making: rate limit, credential, unknown model.
    Resting,
    /// Its breaker is open.
    Open,
    /// A probe is out.
    Probing,
    /// The account or the credential is out of service.
    Disabled,
}

impl CandidateState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Available,
        Self::Resting,
        Self::Open,
        Self::Probing,
        Self::Disabled,
    ];

    /// The label's spelling.
    pub const fn as_label(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Resting => "resting",
            Self::Open => "open",
            Self::Probing => "probing",
            Self::Disabled => "disabled",
        }
    }

    fn of(rest: &Rest) -> Self {
        match (rest.probing, rest.reason) {
            (true, _) => Self::Probing,
            (false, Reason::Billing | Reason::AuthPermanent) => Self::Disabled,
            (false, Reason::RateLimit | Reason::Auth | Reason::ModelNotFound) => Self::Resting,
            (false, _) => Self::Open,
        }
    }
}

/// One model at one provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateView {
    /// The model.
    pub model: Name,
    /// How it is.
    pub state: CandidateState,
    /// Why, unless it is available.
    pub reason: Option<Reason>,
    /// How much longer, unless it is available.
    pub remaining: Duration,
    /// Whether the provider stated the end.
    pub stated: bool,
    /// Failures in a row that count towards the breaker.
    pub failures: u32,
}

/// One credential of a provider: its place in the list, never the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialView {
    /// Its place in the list.
    pub place: usize,
    /// How often it has been used.
    pub uses: u64,
    /// Why it rests for every model, if it does.
    pub reason: Option<Reason>,
    /// How much longer.
    pub remaining: Duration,
}

/// One provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderView {
    /// Its name.
    pub name: Name,
    /// Its models: those that configuration lists, and those with something on them.
    pub candidates: Vec<CandidateView>,
    /// Its credentials.
    pub credentials: Vec<CredentialView>,
}

impl Ledger {
    /// The whole ledger as it is at `now`.
    pub fn view(&self, now: Instant) -> ProviderView {
        let mut models: Vec<Name> = self.pulses.keys().cloned().collect();
        models.extend(lock(&self.record.breakers).keys().cloned());
        models.sort_unstable();
        models.dedup();
        ProviderView {
            name: self.settings.name.clone(),
            candidates: models.iter().map(|model| self.candidate(model, now)).collect(),
            credentials: (0..self.uses.len()).map(|place| self.credential(place, now)).collect(),
        }
    }

    /// One candidate as it is at `now`.
    pub fn candidate(&self, model: &Name, now: Instant) -> CandidateView {
        let rest = self.choose(model, Purpose::Fresh, now).err();
        let failures = lock(&self.record.breakers)
            .get(model)
            .map_or(0, |breaker| breaker.failures);
        CandidateView {
            model: model.clone(),
            state: rest.as_ref().map_or(CandidateState::Available, CandidateState::of),
            reason: rest.map(|rest| rest.reason),
            remaining: rest.map_or(Duration::ZERO, |rest| rest.until.saturating_duration_since(now)),
            stated: rest.is_some_and(|rest| !rest.guessed && rest.reason == Reason::RateLimit),
            failures,
        }
    }

    fn credential(&self, place: usize, now: Instant) -> CredentialView {
        let nameless = Name::from("");
        let windows = lock(&self.account.windows);
        let covering = windows.covering(Asked {
            credential: place,
            model: &nameless,
        });
        let resting = covering
            .map(|(_, ladder)| ladder)
            .filter(|ladder| ladder.phase(now) == Phase::Resting);
        let rest = resting.max_by_key(|ladder| ladder.until);
        CredentialView {
            place,
            uses: self.uses.get(place).map_or(0, |uses| uses.load(Ordering::Relaxed)),
            reason: rest.map(|ladder| ladder.reason),
            remaining: rest.map_or(Duration::ZERO, |ladder| ladder.until.saturating_duration_since(now)),
        }
    }
}
