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

    /// The serving generation, once what its providers list is known: a list that a reload has withdrawn is waited for until
    /// another one serves, or the reload has ended.
    ///
    /// **Cancel safety:** safe.
    pub async fn listed(&self) -> Option<Arc<Generation>> {
        loop {
            let changed = self.changes();
            tokio::pin!(changed);
            // before the look: what changes after it is heard
            changed.as_mut().enable();
            let serving = self.load();
            let is_withdrawn = serving.as_ref().is_some_and(|it| it.roster.catalogs().is_withdrawn());
            if !is_withdrawn || !self.is_reloading() {
                return serving;
            }
            changed.await;
        }
    }

    /// Asks a provider for its list of models, as soon as none is on its way and no reload is under way. `false` where there
    /// is no such provider, or it is not to be asked.
    pub fn refresh_catalog(&self, provider: &str, now: Instant) -> bool {
        let serving = self.load();
        let asked = serving.is_some_and(|it| it.roster.catalogs().ask(provider, now));
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
