//! The ledgers of generations: what a provider has on its record outlives a generation that leaves the provider where it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, Weak};

use arc_swap::ArcSwap;
use secrecy::ExposeSecret;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use understudy_messages::clock::Instant;
use understudy_messages::ids::{GenerationId, Name};
use understudy_messages::settings::{ProviderSettings, Settings};

use super::windows::{Spread, Windows};
use super::{Account, Learnt, Ledger, Pulse, Record, lock};

/// The ledgers of one generation's providers, by provider index.
#[derive(Debug, Default)]
pub struct Ledgers {
    all: Vec<Arc<Ledger>>,
    changed: Arc<Notify>,
    /// What an earlier process has learnt; only before the first generation.
    learnt: Option<Arc<Learnt>>,
}

impl Ledgers {
    /// Ledgers for every provider in the settings. A provider that is where it was goes on with what `before` knows of it: its
    /// models with their rests, its credentials with theirs. Another credential is clean; so is another place, but for what an
    /// earlier process has learnt of it. Accounts of quota groups go on by name.
    pub fn new(settings: &Settings, before: &Self, now: Instant) -> Self {
        let listed = settings.listed();
        let mut groups = before.accounts();
        let ledger = |provider: &Arc<ProviderSettings>| {
            let known = before.all.iter().find(|ledger| is_where(provider, &ledger.settings));
            let kept = kept(provider, known);
            let account = match &provider.quota_group {
                Some(group) => groups.entry(group.clone()).or_default().clone(),
                None => known.map_or_else(Arc::default, |known| known.account_for(provider, &kept)),
            };
            let pulse = |model: &Name| known.and_then(|known| known.pulses.get(model)).cloned();
            let models = listed.iter().filter(|model| model.provider == provider.name);
            let pulses = models.map(|model| (model.model.clone(), pulse(&model.model).unwrap_or_default()));
            let uses = |before: &Option<usize>| known?.uses.get((*before)?).cloned();
            let ledger = Ledger {
                pulses: pulses.collect::<BTreeMap<Name, Pulse>>(),
                record: known.map_or_else(|| Arc::new(Record::new(now)), |known| known.record.clone()),
                uses: kept.iter().map(|before| uses(before).unwrap_or_default()).collect(),
                settings: provider.clone(),
                breaker: settings.breaker,
                spread: Spread {
                    aggregator: provider.aggregator,
                    grouped: provider.quota_group.is_some(),
                },
                account,
                changed: before.changed.clone(),
            };
            if let Some(learnt) = &before.learnt {
                learnt.restore(&ledger, now);
            }
            Arc::new(ledger)
        };
        Self {
            all: settings.providers.values().map(ledger).collect(),
            changed: before.changed.clone(),
            learnt: None,
        }
    }

    /// What the first generation begins with: what an earlier process has learnt.
    pub(super) fn after(learnt: Arc<Learnt>) -> Self {
        Self {
            learnt: Some(learnt),
            ..Self::default()
        }
    }

    /// Told when something has happened to what outlives the process.
    pub(super) fn changes(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// The ledger of a provider by its index.
    pub fn get(&self, provider: usize) -> Option<&Arc<Ledger>> {
        self.all.get(provider)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Ledger>> {
        self.all.iter()
    }

    fn accounts(&self) -> HashMap<Name, Arc<Account>> {
        let grouped = self.all.iter().filter_map(|ledger| {
            let group = ledger.settings.quota_group.clone()?;
            Some((group, ledger.account.clone()))
        });
        grouped.collect()
    }
}

/// Whether two providers are one, whatever else has changed of it: what rests, rests there.
fn is_where(one: &ProviderSettings, other: &ProviderSettings) -> bool {
    (&one.name, one.api, &one.base_url) == (&other.name, other.api, &other.base_url)
}

/// Of each credential, its place before, if it had one. Who has none asks by an empty one.
fn kept(provider: &ProviderSettings, known: Option<&Arc<Ledger>>) -> Vec<Option<usize>> {
    let keys = |provider: &ProviderSettings| -> Vec<String> {
        match provider.api_keys.is_empty() {
            true => vec![String::new()],
            false => provider
                .api_keys
                .iter()
                .map(|key| key.expose_secret().to_owned())
                .collect(),
        }
    };
    let before = known.map_or_else(Vec::new, |known| keys(&known.settings));
    let place = |key: &String| before.iter().position(|before| before == key);
    keys(provider).iter().map(place).collect()
}

impl Ledger {
    /// The windows that a provider goes on with that belongs to no group; `kept` are its credentials. Where failures are spread in
    /// another way, windows mean something else, and there are none.
    fn account_for(&self, provider: &ProviderSettings, kept: &[Option<usize>]) -> Arc<Account> {
        let spreads_as_before = !self.spread.grouped && self.spread.aggregator == provider.aggregator;
        let as_before = (0..self.uses.len()).map(Some).eq(kept.iter().copied());
        match (spreads_as_before, as_before) {
            (false, _) => Arc::default(),
            (true, true) => self.account.clone(),
            (true, false) => Arc::new(Account::new(lock(&self.account.windows).moved(kept))),
        }
    }
}

impl Account {
    fn new(windows: Windows) -> Self {
        Self {
            count: AtomicUsize::new(windows.len()),
            windows: Mutex::new(windows),
        }
    }
}

impl Record {
    fn new(epoch: Instant) -> Self {
        Self {
            breakers: Mutex::default(),
            troubled: AtomicUsize::default(),
            without_prefill: Mutex::new(BTreeSet::new()),
            epoch,
        }
    }
}

/// The ledgers of every generation that somebody still holds, for those who know a turn's generation by number only.
#[derive(Debug, Default)]
pub struct LedgerBook {
    held: ArcSwap<Vec<(GenerationId, Weak<Ledgers>)>>,
    first: Arc<Ledgers>,
}

impl LedgerBook {
    /// With what an earlier process has learnt.
    pub fn after(learnt: Arc<Learnt>) -> Self {
        Self {
            first: Arc::new(Ledgers::after(learnt)),
            ..Self::default()
        }
    }

    /// What the first generation goes on from.
    pub fn first(&self) -> &Arc<Ledgers> {
        &self.first
    }

    /// Enters a generation that is about to serve, and leaves out those that are gone.
    pub fn enter(&self, generation: GenerationId, ledgers: &Arc<Ledgers>) {
        let held = self.held.load();
        let held = held.iter().filter(|(_, ledgers)| ledgers.strong_count() > 0).cloned();
        let entry = (generation, Arc::downgrade(ledgers));
        self.held.store(Arc::new(held.chain([entry]).collect()));
    }

    /// The ledgers of a generation; none for one that nobody holds.
    pub fn of(&self, generation: GenerationId) -> Arc<Ledgers> {
        let held = self.held.load();
        let found = held.iter().find(|(id, _)| *id == generation);
        found.and_then(|(_, ledgers)| ledgers.upgrade()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
