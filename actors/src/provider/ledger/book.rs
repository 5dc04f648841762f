//! The ledgers of generations: what a provider has on its record outlives a generation that leaves the provider as it is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, Weak};

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use understudy_messages::clock::Instant;
use understudy_messages::ids::{GenerationId, Name};
use understudy_messages::settings::{ProviderSettings, Settings};

use super::windows::Spread;
use super::{Account, Learnt, Ledger, Pulse, Record};

/// The ledgers of one generation's providers, by provider index.
#[derive(Debug, Default)]
pub struct Ledgers {
    all: Vec<Arc<Ledger>>,
    changed: Arc<Notify>,
    /// What an earlier process has learnt; only before the first generation.
    learnt: Option<Arc<Learnt>>,
}

impl Ledgers {
    /// Ledgers for every provider in the settings: that of `before` goes on where the provider is unchanged, credentials
    /// included; any other is clean, but for what an earlier process has learnt of it. Accounts of quota groups go on by name.
    pub fn new(settings: &Settings, before: &Self, now: Instant) -> Self {
        let listed = settings.listed();
        let mut groups = before.accounts();
        let ledger = |provider: &Arc<ProviderSettings>| {
            let known = before.all.iter().find(|ledger| ledger.settings == *provider);
            let account = match (&provider.quota_group, known) {
                (Some(group), _) => groups.entry(group.clone()).or_default().clone(),
                (None, Some(known)) => known.account.clone(),
                (None, None) => Arc::default(),
            };
            let pulse = |model: &Name| known.and_then(|known| known.pulses.get(model)).cloned();
            let models = listed.iter().filter(|model| model.provider == provider.name);
            let pulses = models.map(|model| (model.model.clone(), pulse(&model.model).unwrap_or_default()));
            let ledger = Ledger {
                pulses: pulses.collect::<BTreeMap<Name, Pulse>>(),
                record: known.map_or_else(|| Arc::new(Record::new(provider, now)), |known| known.record.clone()),
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

impl Record {
    fn new(provider: &ProviderSettings, epoch: Instant) -> Self {
        Self {
            breakers: Mutex::default(),
            troubled: AtomicUsize::default(),
            without_prefill: Mutex::new(BTreeSet::new()),
            uses: (0..provider.api_keys.len().max(1)).map(|_| AtomicU64::new(0)).collect(),
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
mod tests {
    use secrecy::SecretString;
    use understudy_messages::clock::Clock;

    use super::*;
    use crate::registry::testing::settings;

    /// The settings in which provider `a` has this key.
    fn keyed(key: &str) -> Settings {
        let mut settings = settings();
        let changed = ProviderSettings {
            api_keys: vec![SecretString::from(key)],
            ..(*settings.providers[&Name::from("a")]).clone()
        };
        settings.providers.insert("a".into(), Arc::new(changed));
        settings
    }

    #[test]
    fn an_unchanged_provider_keeps_its_record_and_one_with_another_key_does_not() {
        let now = Clock::movable().now();
        let first = Ledgers::new(&keyed("one"), &Ledgers::default(), now);
        let mut moved = keyed("two");
        moved.providers.remove("b");
        let second = Ledgers::new(&moved, &first, now);
        let same = |old: usize, new: usize| Arc::ptr_eq(&first.all[old].record, &second.all[new].record);
        assert!(!same(0, 0), "another key");
        assert!(same(2, 1), "`open` is as it was, though its index is not");
        let third = Ledgers::new(&moved, &second, now);
        assert!(Arc::ptr_eq(&second.all[0].record, &third.all[0].record));
    }

    #[test]
    fn the_account_of_a_group_goes_on_by_its_name() {
        let now = Clock::movable().now();
        let grouped = |key: &str| {
            let mut settings = keyed(key);
            let mut changed = (*settings.providers[&Name::from("a")]).clone();
            changed.quota_group = Some("team".into());
            settings.providers.insert("a".into(), Arc::new(changed));
            settings
        };
        let first = Ledgers::new(&grouped("one"), &Ledgers::default(), now);
        let second = Ledgers::new(&grouped("two"), &first, now);
        assert!(Arc::ptr_eq(&first.all[0].account, &second.all[0].account));
        assert!(!Arc::ptr_eq(&first.all[0].record, &second.all[0].record));
    }

    #[test]
    fn the_book_finds_what_is_held_and_forgets_what_is_not() {
        let (book, now) = (LedgerBook::default(), Clock::movable().now());
        let ledgers = || Arc::new(Ledgers::new(&settings(), &Ledgers::default(), now));
        let (first, second) = (ledgers(), ledgers());
        book.enter(GenerationId(1), &first);
        book.enter(GenerationId(2), &second);
        assert!(Arc::ptr_eq(&book.of(GenerationId(1)), &first));
        drop(first);
        assert!(book.of(GenerationId(1)).get(0).is_none());
        book.enter(GenerationId(3), &ledgers());
        assert_eq!(book.held.load().len(), 2, "the first is left out");
    }
}
