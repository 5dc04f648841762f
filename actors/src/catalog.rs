//! What providers say that they serve: looked at in the background, read without a lock, never looked at by reading.

mod keeper;
pub mod machine;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio_util::sync::{CancellationToken, DropGuard};
use understudy_messages::catalog::{CatalogSource, Listing};
use understudy_messages::clock::Instant;
use understudy_messages::ids::Name;
use understudy_messages::settings::{ProviderSettings, Settings};

pub use self::keeper::CatalogKeeper;
use self::machine::{Effect, Event, Machine, State};

/// Who lists the models of providers that plugins own, by the provider's name. Those from configuration list their own.
pub type PluginSources = HashMap<Name, Arc<dyn CatalogSource>>;

/// What a provider was last heard to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The number of the look that found it.
    pub version: u64,
    /// When it was taken.
    pub at: Instant,
    /// The list.
    pub listing: Arc<Listing>,
}

impl Facts {
    /// The newer of two, whichever comes first: a late list never takes the place of a later one.
    pub fn newest(one: Option<Arc<Self>>, other: Option<Arc<Self>>) -> Option<Arc<Self>> {
        one.into_iter().chain(other).max_by_key(|facts| facts.version)
    }
}

/// The catalog of one provider.
pub struct Catalog {
    settings: Arc<ProviderSettings>,
    source: Option<Arc<dyn CatalogSource>>,
    facts: ArcSwapOption<Facts>,
    withdrawn: AtomicBool,
    looks: Mutex<Looks>,
}

struct Looks {
    machine: Machine,
    /// Ends the look that is under way, also when nobody holds the catalog any more.
    under_way: Option<DropGuard>,
}

/// A catalog, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogView {
    /// Where it stands, in one word.
    pub state: &'static str,
    /// How long a list is good.
    pub refresh: Duration,
    /// The version of what is served; 0: nothing yet.
    pub version: u64,
    /// How many models that has.
    pub models: usize,
    /// How many entries of it could not be read.
    pub skipped: usize,
    /// Whether the provider has more.
    pub cut: bool,
    /// How old it is.
    pub age: Option<Duration>,
    /// Failed looks since then.
    pub failures: u32,
    /// Why the last look failed.
    pub failure: Option<String>,
    /// In what time it is looked at again by itself.
    pub again_in: Option<Duration>,
}

impl Catalog {
    /// `carried`: what was known of this provider before something about it changed.
    fn new(
        settings: &Arc<ProviderSettings>,
        refresh: Duration,
        source: Option<Arc<dyn CatalogSource>>,
        carried: Option<Arc<Facts>>,
        now: Instant,
    ) -> Self {
        let plugin = source.as_ref().and_then(|source| source.plugin());
        let version = carried.as_ref().map_or(0, |facts| facts.version);
        Self {
            settings: settings.clone(),
            source,
            facts: ArcSwapOption::new(carried),
            withdrawn: AtomicBool::new(false),
            looks: Mutex::new(Looks {
                machine: Machine::new(refresh, plugin, version, now),
                under_way: None,
            }),
        }
    }

    /// The provider.
    pub fn provider(&self) -> &Name {
        &self.settings.name
    }

    /// What is known of it; `None`: nothing yet, or nothing any more. Looking changes nothing.
    pub fn facts(&self) -> Option<Arc<Facts>> {
        (!self.is_withdrawn()).then(|| self.facts.load_full()).flatten()
    }

    /// How it is.
    pub fn view(&self, now: Instant) -> CatalogView {
        let (facts, looks) = (self.facts(), self.looks());
        let wake = looks.machine.wake(false, now);
        let (failure, waits) = match looks.machine.state() {
            State::Failed { error, .. } => (Some(error.to_string()), true),
            State::Idle { .. } => (None, true),
            State::Admitting { .. } | State::Refreshing { .. } | State::Arrived(_) => (None, false),
        };
        let listing = facts.as_ref().map(|facts| &facts.listing);
        CatalogView {
            state: looks.machine.state().as_label(),
            refresh: looks.machine.refresh(),
            version: facts.as_ref().map_or(0, |facts| facts.version),
            models: listing.map_or(0, |listing| listing.models().len()),
            skipped: listing.map_or(0, |listing| listing.skipped),
            cut: listing.is_some_and(|listing| listing.cut),
            age: facts.as_ref().map(|facts| now.saturating_duration_since(facts.at)),
            failures: looks.machine.failures(),
            failure,
            again_in: wake.filter(|_| waits).map(|wake| wake.saturating_duration_since(now)),
        }
    }

    fn is_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::Acquire)
    }

    /// Takes an event, and takes over what it brings.
    fn step(&self, event: Event, held: bool, now: Instant) -> Option<Effect> {
        let mut looks = self.looks();
        let effect = looks.machine.step(event, held, now);
        match &effect {
            Some(Effect::End(_) | Effect::Fail(_)) => looks.under_way = None,
            Some(Effect::Adopt { version, listing }) => {
                looks.under_way = None;
                self.accept(Facts {
                    version: *version,
                    at: now,
                    listing: listing.clone(),
                });
            }
            Some(Effect::Begin { .. } | Effect::Tell(_)) | None => {}
        }
        effect
    }

    fn accept(&self, new: Facts) {
        let new = Arc::new(new);
        self.facts.rcu(|known| Facts::newest(known.clone(), Some(new.clone())));
    }

    /// What ends the look that has begun.
    fn under_way(&self) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.looks().under_way = Some(cancel.clone().drop_guard());
        cancel
    }

    fn wake(&self, held: bool, now: Instant) -> Option<Instant> {
        self.looks().machine.wake(held, now)
    }

    fn looks(&self) -> MutexGuard<'_, Looks> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it goes on as it is.
    fn serves(&self, settings: &Arc<ProviderSettings>, source: Option<&Arc<dyn CatalogSource>>) -> bool {
        let same_source = match (&self.source, source) {
            (None, None) => true,
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, Some(_)) | (Some(_), None) => false,
        };
        self.settings == *settings && same_source && !self.is_withdrawn()
    }

    /// Whether what it knows is about the same place.
    fn is_of(&self, settings: &ProviderSettings) -> bool {
        let own = &self.settings;
        (&own.name, own.api, &own.base_url) == (&settings.name, settings.api, &settings.base_url)
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("provider", self.provider())
            .finish_non_exhaustive()
    }
}

/// The catalogs of one generation's providers, by provider index; none for those that are not asked.
#[derive(Debug, Default)]
pub struct Catalogs(Vec<Option<Arc<Catalog>>>);

impl Catalogs {
    /// The catalog of `before` goes on where provider and source are unchanged, credentials included. Where something has
    /// changed and the place is the same, what was known stands until a new list has come, which is due at once.
    pub fn new(settings: &Settings, sources: &PluginSources, before: &Self, now: Instant) -> Self {
        let catalog = |provider: &Arc<ProviderSettings>| {
            let (refresh, source) = (provider.catalog?, sources.get(&provider.name));
            let mut known = before.iter();
            let known = known.find(|catalog| catalog.is_of(provider));
            if let Some(same) = known.filter(|known| known.serves(provider, source)) {
                return Some(same.clone());
            }
            let carried = known.and_then(|known| known.facts());
            Some(Arc::new(Catalog::new(provider, refresh, source.cloned(), carried, now)))
        };
        Self(settings.providers.values().map(catalog).collect())
    }

    /// The catalog of a provider by its index.
    pub fn get(&self, provider: usize) -> Option<&Arc<Catalog>> {
        self.0.get(provider).and_then(Option::as_ref)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Catalog>> {
        self.0.iter().flatten()
    }

    /// The one of a provider by its name.
    pub fn find(&self, provider: &str) -> Option<&Arc<Catalog>> {
        self.iter().find(|catalog| **catalog.provider() == *provider)
    }

    /// Asks a provider for a new list, once it may be asked. `false` where there is none to ask.
    pub(crate) fn ask(&self, provider: &str, now: Instant) -> bool {
        let catalog = self.find(provider);
        let asked = catalog.map(|catalog| catalog.step(Event::Ask, true, now));
        asked.is_some()
    }

    /// These plugins are about to end: what their providers listed is known no more.
    pub(crate) fn withdraw(&self, plugins: &[Name]) {
        for catalog in self.iter() {
            let owner = catalog.source.as_ref().and_then(|source| source.plugin());
            if owner.is_some_and(|owner| plugins.contains(&owner)) {
                catalog.withdrawn.store(true, Ordering::Release);
                catalog.looks().under_way = None;
            }
        }
    }

    /// Whether somebody's list is known no more.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.iter().any(|catalog| catalog.is_withdrawn())
    }
}
