//! What is published, watched: for those who wait until it changes.

use std::sync::Arc;

use tokio::sync::futures::Notified;
use understudy_messages::clock::Instant;

use super::{Generation, Published};

impl Published {
    /// Whether a reload is under way, whatever it is at.
    pub fn is_reloading(&self) -> bool {
        self.reload.load().is_some()
    }

    /// Waits for `until` to find something. It is asked anew whenever a generation is published, and when a reload begins,
    /// gets on and ends.
    ///
    /// **Cancel safety:** safe.
    pub async fn watch<T>(&self, mut until: impl FnMut(&Self) -> Option<T>) -> T {
        loop {
            let changed = self.changes();
            tokio::pin!(changed);
            // before the look: what changes after it is heard
            changed.as_mut().enable();
            if let Some(found) = until(self) {
                return found;
            }
            changed.await;
        }
    }

    /// The serving generation, once what its providers list is known: a list that a reload has withdrawn is waited for until
    /// another one serves, or the reload has ended.
    pub async fn listed(&self) -> Option<Arc<Generation>> {
        self.watch(|published| {
            let serving = published.load();
            let is_withdrawn = serving.as_ref().is_some_and(|it| it.catalogs.is_withdrawn());
            (!is_withdrawn || !published.is_reloading()).then_some(serving)
        })
        .await
    }

    /// Asks a provider for its list of models, as soon as none is on its way and no reload is under way. `false` where there
    /// is no such provider, or it is not to be asked.
    pub fn refresh_catalog(&self, provider: &str, now: Instant) -> bool {
        let serving = self.load();
        let asked = serving.is_some_and(|it| it.catalogs.ask(provider, now));
        self.stir();
        asked
    }

    /// The next time that something is published, or that a reload begins, gets on or ends.
    pub(crate) fn changes(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Something has happened that whoever watches wants to look at.
    pub(crate) fn stir(&self) {
        self.changed.notify_waiters();
    }
}
