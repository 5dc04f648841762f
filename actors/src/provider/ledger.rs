//! The ledger of one provider: credentials, windows, breakers, probes. One shared record, read without a message.
//!
//! While nothing is wrong, asking it costs two atomic loads and telling it of a success one atomic store: no lock, no
//! message. Only trouble takes the lock.

mod book;
mod breaker;
mod keeper;
mod ladder;
mod learnt;
mod ticket;
mod view;
mod windows;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use understudy_messages::clock::Instant;
use understudy_messages::failure::Reason;
use understudy_messages::ids::Name;
use understudy_messages::settings::{Bound, BreakerSettings, KeyOrder, ProviderSettings};

pub use book::{LedgerBook, Ledgers};
pub use keeper::LedgerKeeper;
pub use learnt::Learnt;
pub use ticket::{Purpose, Settled, Ticket, WindowOpened};
pub use view::{CandidateState, CandidateView, CredentialView, ProviderView};

use self::breaker::Breaker;
use self::ladder::{Ladder, Phase};
use self::windows::{Asked, Spread, Windows};

/// How many models of one provider have a breaker of their own; beyond it those that are shut are forgotten.
const MOST_BREAKERS: usize = 4096;

/// Of how many models of one provider it is remembered that they take no prefill.
const MOST_REFUSALS: usize = 4096;

/// Why a candidate is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// What its last failure was.
    pub reason: Reason,
    /// When the rest ends; now or earlier while a probe is out.
    pub until: Instant,
    /// Whether we chose that end ourselves; a stated, billing or credential window is not guessed.
    pub guessed: bool,
    /// Whether a probe is out.
    pub probing: bool,
}

impl Rest {
    /// Nobody is there to be asked.
    pub(super) const fn nobody(now: Instant) -> Self {
        Self {
            reason: Reason::Auth,
            until: now,
            guessed: false,
            probing: false,
        }
    }
}

/// Windows of one account, shared by the members of a quota group.
#[derive(Debug, Default)]
struct Account {
    windows: Mutex<Windows>,
    /// How many windows there are: nought means that nobody need look.
    count: AtomicUsize,
}

/// When a model last answered, in milliseconds since the record's `epoch`, plus one.
type Pulse = Arc<AtomicU64>;

/// The ledger of one provider, as one generation sees it.
#[derive(Debug)]
pub struct Ledger {
    settings: Arc<ProviderSettings>,
    breaker: BreakerSettings,
    spread: Spread,
    account: Arc<Account>,
    /// Of each listed model.
    pulses: BTreeMap<Name, Pulse>,
    record: Arc<Record>,
    /// How often each credential was used.
    uses: Vec<Uses>,
    /// Told when something has happened to what outlives the process.
    changed: Arc<Notify>,
}

/// How often a credential was used, shared by the generations that have it.
type Uses = Arc<AtomicU64>;

/// What is known of a provider whatever its credentials, shared by the generations that have it at the same place.
#[derive(Debug)]
struct Record {
    breakers: Mutex<HashMap<Name, Breaker>>,
    /// How many breakers have failures on them.
    troubled: AtomicUsize,
    /// Models that took no prefill: no fault of theirs, so that it is no part of their health.
    without_prefill: Mutex<BTreeSet<Name>>,
    epoch: Instant,
}

impl Ledger {
    /// The provider's name.
    pub fn provider(&self) -> &Name {
        &self.settings.name
    }

    /// How many attempts the provider may be asked for.
    pub fn bound(&self) -> Option<Bound> {
        self.settings.bound
    }

    /// Whether `model` could be asked now: `None`, or why it rests.
    pub fn rest(&self, model: &Name, now: Instant) -> Option<Rest> {
        if self.is_clean() {
            return None;
        }
        self.choose(model, Purpose::Fresh, now).err()
    }

    /// Whether another credential than `used` could be asked for `model` now.
    pub fn another_credential(&self, model: &Name, used: &[usize], now: Instant) -> bool {
        self.uses.len() > used.len() && self.choose(model, Purpose::Rotate { used }, now).is_ok()
    }

    /// Whether the turn that used `credential` may ask `model` with it again.
    pub fn may_retry(&self, model: &Name, credential: usize, now: Instant) -> bool {
        self.choose(model, Purpose::Retry { credential }, now)
            .is_ok_and(|(_, probe)| !probe)
    }

    /// Takes leave to ask `model` once.
    ///
    /// # Errors
    /// Why it rests.
    pub fn enter(self: &Arc<Self>, model: &Name, purpose: Purpose<'_>, now: Instant) -> Result<Ticket, Rest> {
        let (credential, probe) = self.choose_and_claim(model, purpose, now)?;
        if let Some(uses) = self.uses.get(credential) {
            uses.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Ticket::new(self.clone(), model.clone(), credential, probe))
    }

    /// Remembers that `model` goes on from no text that stands last.
    pub fn note_prefill_refused(&self, model: &Name) {
        let mut refusals = lock(&self.record.without_prefill);
        if refusals.len() >= MOST_REFUSALS {
            refusals.clear();
        }
        if refusals.insert(model.clone()) {
            self.changed.notify_waiters();
        }
    }

    /// Whether `model` has refused to go on from a text that stood last.
    pub fn refuses_prefill(&self, model: &Name) -> bool {
        lock(&self.record.without_prefill).contains(model)
    }

    /// Forgets the windows and breakers of one model, or of all.
    pub fn reset(&self, model: Option<&Name>) {
        self.windows(|windows| windows.reset(model));
        self.breakers(|breakers| match model {
            Some(model) => drop(breakers.remove(model)),
            None => breakers.clear(),
        });
    }

    fn is_clean(&self) -> bool {
        self.account.count.load(Ordering::Acquire) == 0 && self.record.troubled.load(Ordering::Acquire) == 0
    }

    /// Which credential would be asked, and whether that would be a probe.
    fn choose(&self, model: &Name, purpose: Purpose<'_>, now: Instant) -> Result<(usize, bool), Rest> {
        let windows = lock(&self.account.windows);
        let open = lock(&self.record.breakers).get(model).and_then(|breaker| breaker.open);
        self.choose_among(&windows, open.as_ref(), model, purpose, now)
    }

    fn choose_and_claim(&self, model: &Name, purpose: Purpose<'_>, now: Instant) -> Result<(usize, bool), Rest> {
        if self.is_clean() {
            return Ok((self.first_credential(purpose), false));
        }
        let mut windows = lock(&self.account.windows);
        let mut breakers = lock(&self.record.breakers);
        let open = breakers.get(model).and_then(|breaker| breaker.open);
        let (credential, probe) = self.choose_among(&windows, open.as_ref(), model, purpose, now)?;
        if probe {
            let early = matches!(purpose, Purpose::Early);
            windows.probe(Asked { credential, model }, early, now);
            let open = breakers.get_mut(model).and_then(|breaker| breaker.open.as_mut());
            if let Some(open) = open.filter(|open| early || open.phase(now) == Phase::Due) {
                open.probe();
            }
        }
        Ok((credential, probe))
    }

    fn choose_among(
        &self,
        windows: &Windows,
        breaker: Option<&Ladder>,
        model: &Name,
        purpose: Purpose<'_>,
        now: Instant,
    ) -> Result<(usize, bool), Rest> {
        let mut soonest: Option<Rest> = None;
        for credential in self.credentials(purpose) {
            let covering = windows
                .covering(Asked { credential, model })
                .map(|(_, ladder)| (ladder, false));
            let covering = covering.chain(breaker.map(|ladder| (ladder, true)));
            let relevant = covering.filter(|(ladder, _)| !purpose.ignores(ladder));
            match verdict(relevant, matches!(purpose, Purpose::Early), now) {
                Ok(probe) => return Ok((credential, probe)),
                Err(rest) => soonest = Some(soonest.map_or(rest, |known| sooner(known, rest))),
            }
        }
        Err(soonest.unwrap_or(Rest::nobody(now)))
    }

    fn first_credential(&self, purpose: Purpose<'_>) -> usize {
        self.credentials(purpose).next().unwrap_or_default()
    }

    /// The credentials that may be asked, in the order in which they are tried.
    fn credentials<'a>(&'a self, purpose: Purpose<'a>) -> impl Iterator<Item = usize> + 'a {
        let count = self.uses.len();
        let least = match self.settings.key_order {
            KeyOrder::Listed => 0,
            KeyOrder::LeastUsed => self.least_used(purpose),
        };
        (0..count)
            .map(move |place| (least + place) % count.max(1))
            .filter(move |credential| purpose.allows(*credential))
    }

    fn least_used(&self, purpose: Purpose<'_>) -> usize {
        let allowed = (0..self.uses.len()).filter(|credential| purpose.allows(*credential));
        allowed
            .min_by_key(|credential| self.uses[*credential].load(Ordering::Relaxed))
            .unwrap_or_default()
    }

    fn windows<T>(&self, work: impl FnOnce(&mut Windows) -> T) -> T {
        let mut windows = lock(&self.account.windows);
        let done = work(&mut windows);
        self.account.count.store(windows.len(), Ordering::Release);
        drop(windows);
        self.changed.notify_waiters();
        done
    }

    fn breakers<T>(&self, work: impl FnOnce(&mut HashMap<Name, Breaker>) -> T) -> T {
        let mut breakers = lock(&self.record.breakers);
        if breakers.len() >= MOST_BREAKERS {
            breakers.retain(|_, breaker| breaker.open.is_some());
        }
        let done = work(&mut breakers);
        self.record.troubled.store(breakers.len(), Ordering::Release);
        done
    }

    fn note_success(&self, model: &Name, now: Instant) {
        if let Some(pulse) = self.pulses.get(model) {
            let since = now.saturating_duration_since(self.record.epoch).as_millis();
            pulse.store(u64::try_from(since).unwrap_or(u64::MAX - 1) + 1, Ordering::Release);
        }
    }

    fn last_success(&self, model: &Name) -> Option<Instant> {
        let pulse = self.pulses.get(model)?.load(Ordering::Acquire);
        Some(self.record.epoch + Duration::from_millis(pulse.checked_sub(1)?))
    }
}

/// Whether one may ask: `Ok(true)` as a probe, `Ok(false)` freely.
fn verdict<'a>(ladders: impl Iterator<Item = (&'a Ladder, bool)>, early: bool, now: Instant) -> Result<bool, Rest> {
    let mut probe = false;
    let mut longest: Option<Rest> = None;
    for (ladder, is_breaker) in ladders {
        let phase = ladder.phase(now);
        match phase {
            Phase::Lapsed => {}
            Phase::Due => probe = true,
            Phase::Resting if early && ladder.may_be_asked_early() => probe = true,
            Phase::Resting | Phase::Probing => {
                let rest = Rest {
                    reason: ladder.reason,
                    until: ladder.until,
                    guessed: is_breaker || (ladder.reason == Reason::RateLimit && !ladder.stated),
                    probing: phase == Phase::Probing,
                };
                longest = Some(longest.map_or(rest, |known| later(known, rest)));
            }
        }
    }
    longest.map_or(Ok(probe), Err)
}

fn later(one: Rest, other: Rest) -> Rest {
    let mut later = if other.until > one.until { other } else { one };
    later.guessed = one.guessed && other.guessed;
    later.probing = one.probing || other.probing;
    later
}

fn sooner(one: Rest, other: Rest) -> Rest {
    if other.until < one.until { other } else { one }
}

/// Reasons that say nothing about a provider's health: they mark nothing and settle no probe (design §6).
fn says_nothing(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Format | Reason::ContextOverflow | Reason::SessionExpired | Reason::TlsCertificate
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
