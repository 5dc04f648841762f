//! Looks at the lists of all providers when it is time: one task per process, and one more for each look under way.

use std::cell::RefCell;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use understudy_messages::catalog::{CatalogError, CatalogSource, Listing, Progress};
use understudy_messages::clock::{Clock, Instant};
use understudy_messages::settings::ProviderSettings;
use understudy_providers::catalog::HttpCatalog;

use super::Catalog;
use super::machine::{Effect, Event};
use crate::registry::Published;
use crate::supervision::Supervision;

/// What reads lists of providers from configuration, all through one HTTP client.
type Lists = Box<dyn Fn(Arc<ProviderSettings>) -> HttpCatalog>;

/// Keeps the catalogs of whatever generation serves.
pub struct CatalogKeeper {
    published: Arc<Published>,
    supervision: Supervision,
    /// What reads lists through the newest client, and how long that takes to connect at most.
    lists: RefCell<Option<(Duration, Lists)>>,
}

impl CatalogKeeper {
    /// A keeper that has not begun.
    pub fn new(published: Arc<Published>, supervision: Supervision) -> Self {
        Self {
            published,
            supervision,
            lists: RefCell::default(),
        }
    }

    /// Looks at lists until it is dropped.
    pub async fn run(self) {
        loop {
            let changed = self.published.changes();
            tokio::pin!(changed);
            // before the look: what changes after it is heard
            changed.as_mut().enable();
            let wake = self.look();
            let clock = &self.supervision.clock;
            tokio::select! {
                () = changed => {}
                () = sleep_until(clock, wake) => {}
            }
        }
    }

    /// Does what it is time for; when to look again.
    fn look(&self) -> Option<Instant> {
        let serving = self.published.load()?;
        let (held, now) = (self.published.is_reloading(), self.supervision.clock.now());
        let connect = serving.roster.settings().timeouts.connect;
        let catalogs = serving
            .roster
            .catalogs()
            .iter()
            .filter(|catalog| !catalog.is_withdrawn());
        let wakes = catalogs.filter_map(|catalog| {
            let effect = catalog.step(Event::Tick, held, now);
            if let Some(Effect::Begin { run }) = effect {
                self.begin(catalog, run, connect);
            } else {
                note(catalog, effect, &self.supervision);
            }
            catalog.wake(held, now)
        });
        wakes.min()
    }

    fn begin(&self, catalog: &Arc<Catalog>, run: u64, connect: Duration) {
        let look = Look {
            catalog: Arc::downgrade(catalog),
            run,
            published: self.published.clone(),
            supervision: self.supervision.clone(),
            ended: false,
        };
        let cancel = catalog.under_way();
        let source = match &catalog.source {
            Some(source) => Some(source.clone()),
            None => self.http(&catalog.settings, connect),
        };
        self.supervision
            .tasks
            .spawn_until_stop("catalog", look.run(source, cancel));
    }

    /// The list of a provider from configuration. `None` where TLS cannot be set up.
    fn http(&self, settings: &Arc<ProviderSettings>, connect: Duration) -> Option<Arc<dyn CatalogSource>> {
        let mut kept = self.lists.borrow_mut();
        if kept.as_ref().is_none_or(|(limit, _)| *limit != connect) {
            let client = understudy_providers::http_client(connect).ok()?;
            let clock = self.supervision.clock.clone();
            let lists: Lists = Box::new(move |provider| HttpCatalog::new(provider, client.clone(), clock.clone()));
            *kept = Some((connect, lists));
        }
        let (_, lists) = kept.as_ref()?;
        Some(Arc::new(lists(settings.clone())))
    }
}

async fn sleep_until(clock: &Clock, wake: Option<Instant>) {
    match wake {
        Some(wake) => clock.sleep_until(wake).await,
        None => std::future::pending().await,
    }
}

/// One look at one list. It holds no catalog: with the last one that does, it is over.
struct Look {
    catalog: Weak<Catalog>,
    run: u64,
    published: Arc<Published>,
    supervision: Supervision,
    ended: bool,
}

impl Look {
    async fn run(mut self, source: Option<Arc<dyn CatalogSource>>, cancel: CancellationToken) {
        let Some(source) = source else {
            return self.end(Err(CatalogError::Lost));
        };
        let listed = source.list(self.progress(), cancel.clone());
        tokio::select! {
            biased;
            // given up: whoever gave it up knows why
            () = cancel.cancelled() => self.ended = true,
            found = listed => self.end(found),
        }
    }

    fn progress(&self) -> Progress {
        let (catalog, run, supervision) = (self.catalog.clone(), self.run, self.supervision.clone());
        Progress::new(move |stage| {
            if let Some(catalog) = catalog.upgrade() {
                let moved = Event::Moved { run, stage };
                let effect = catalog.step(moved, false, supervision.clock.now());
                note(&catalog, effect, &supervision);
            }
        })
    }

    fn end(&mut self, found: Result<Listing, CatalogError>) {
        self.ended = true;
        if let Some(catalog) = self.catalog.upgrade() {
            let found = found.map(Arc::new);
            let ended = Event::Ended { run: self.run, found };
            let effect = catalog.step(ended, self.published.is_reloading(), self.supervision.clock.now());
            note(&catalog, effect, &self.supervision);
        }
        self.published.stir();
    }
}

impl Drop for Look {
    /// A source that panics has failed like any other.
    fn drop(&mut self) {
        if !self.ended && !self.supervision.tasks.stopping() {
            self.end(Err(CatalogError::Lost));
        }
    }
}

/// Tells what has happened.
fn note(catalog: &Catalog, effect: Option<Effect>, supervision: &Supervision) {
    let provider = catalog.provider();
    match effect {
        Some(Effect::Adopt { version, listing }) => {
            let (models, skipped, cut) = (listing.models().len(), listing.skipped, listing.cut);
            tracing::info!(%provider, version, models, skipped, cut, "list of models");
            supervision.telemetry.catalog_refreshed(provider, Ok(()));
        }
        Some(Effect::End(error) | Effect::Fail(error)) => {
            tracing::warn!(%provider, %error, "no list of models: the last one stands");
            supervision.telemetry.catalog_refreshed(provider, Err(&error));
        }
        Some(Effect::Tell(stage)) => tracing::debug!(%provider, stage = stage.as_label(), "list of models"),
        Some(Effect::Begin { .. }) | None => {}
    }
}
