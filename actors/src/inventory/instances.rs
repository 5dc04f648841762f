//! The instances of an inventory: started, closed, and let go.

use std::sync::Arc;

use futures::future::join_all;
use understudy_messages::clock::Instant;
use understudy_messages::ids::Name;
use understudy_messages::registry::Holder;

use super::{Inventory, Plugin};
use crate::plugin::Served;
use crate::registry::reload::machine::Cleanup;

impl Inventory {
    /// Starts the services of some plugins, in their order.
    ///
    /// # Errors
    /// Which of them did not start, and why; those after it were not started.
    pub async fn start_services(&self, plugins: &[Name]) -> Result<(), String> {
        for served in self.served(plugins) {
            let started = served.start_services().await;
            started.map_err(|why| format!("{} {why}", served.id))?;
        }
        Ok(())
    }

    /// Stops the services of some plugins, those of the last one first.
    pub async fn stop_services(&self, plugins: &[Name]) -> Cleanup {
        let mut served: Vec<_> = self.served(plugins).collect();
        served.reverse();
        let mut cleanup = Cleanup::Done;
        for served in served {
            cleanup = worse(cleanup, served.stop_services().await);
        }
        cleanup
    }

    /// Stops every instance, each within its time.
    pub async fn stop(&self) {
        retire(self.plugins.iter()).await;
    }

    /// Stops some plugins' instances, each within its time.
    pub async fn dispose(&self, plugins: &[Name]) -> Cleanup {
        retire(self.named(plugins)).await
    }

    /// Stops the instances that `next` does not have, each within its time.
    pub async fn retire_but(&self, next: &Self) -> Cleanup {
        retire(self.gone_from(next)).await
    }

    /// The instances that `next` does not have take no more calls; waits until those under way have ended.
    pub async fn idle_but(&self, next: &Self) {
        let gone: Vec<_> = self.gone_from(next).filter_map(|plugin| plugin.working()).collect();
        gone.iter().for_each(|working| working.served.quiesce());
        join_all(gone.iter().map(|working| working.served.idle())).await;
    }

    /// The instances that `next` does not have.
    pub fn instances_but(&self, next: &Self) -> Vec<Arc<Served>> {
        let working = self.gone_from(next).filter_map(|plugin| plugin.working());
        working.map(|working| working.served.clone()).collect()
    }

    /// One of some plugins whose instance `next` does not have and that has not let go yet, though it cannot be there twice.
    pub fn lingering<'a>(&self, plugins: &'a [Name], next: &Self) -> Option<&'a Name> {
        let lingers = |plugin: &Plugin| {
            let gone = plugin.working().is_none_or(|working| working.served.is_gone());
            plugin.is_exclusive() && !gone
        };
        let id = self
            .gone_from(next)
            .find(|plugin| plugins.contains(&plugin.id) && lingers(plugin));
        plugins.iter().find(|name| id.is_some_and(|plugin| plugin.id == **name))
    }

    /// The instances of some plugins that cannot be there twice.
    pub fn exclusive(&self, plugins: &[Name]) -> Vec<Arc<Served>> {
        let exclusive = self.named(plugins).filter(|plugin| plugin.is_exclusive());
        exclusive
            .filter_map(|plugin| Some(plugin.working()?.served.clone()))
            .collect()
    }

    /// The instances of some plugins.
    pub fn instances(&self, plugins: &[Name]) -> Vec<Arc<Served>> {
        self.served(plugins).cloned().collect()
    }

    /// Every instance that it has.
    pub fn all_instances(&self) -> impl Iterator<Item = &Arc<Served>> {
        let working = self.plugins.iter().filter_map(|plugin| plugin.working());
        working.map(|working| &working.served)
    }

    /// Whether it has this instance.
    pub fn has_instance(&self, served: &Arc<Served>) -> bool {
        self.all_instances().any(|own| Arc::ptr_eq(own, served))
    }

    /// Calls of some plugins that belong to no turn.
    pub fn callers(&self, plugins: &[Name], now: Instant) -> Vec<Holder> {
        self.served(plugins).flat_map(|served| served.callers(now)).collect()
    }

    /// Some plugins' instances take no new calls.
    pub fn quiesce(&self, plugins: &[Name]) {
        self.served(plugins).for_each(|served| served.quiesce());
    }

    /// They take calls again.
    pub fn resume(&self, plugins: &[Name]) {
        self.served(plugins).for_each(|served| served.resume());
    }

    /// Waits until no call of some plugins is under way. Meant for those that take none.
    pub async fn idle(&self, plugins: &[Name]) {
        join_all(self.served(plugins).map(|served| served.idle())).await;
    }

    fn served(&self, plugins: &[Name]) -> impl Iterator<Item = &Arc<Served>> {
        let working = self.named(plugins).filter_map(|plugin| plugin.working());
        working.map(|working| &working.served)
    }

    pub(super) fn gone_from(&self, next: &Self) -> impl Iterator<Item = &Arc<Plugin>> {
        let is_kept = |plugin: &Arc<Plugin>| next.plugins.iter().any(|other| plugin.is_the_instance_of(other));
        self.plugins.iter().filter(move |plugin| !is_kept(plugin))
    }
}

/// Stops instances, all at the same time; how the worst of them ended.
async fn retire(plugins: impl Iterator<Item = &Arc<Plugin>>) -> Cleanup {
    let working = plugins.filter_map(|plugin| plugin.working());
    let ended = join_all(working.map(|working| working.served.retire())).await;
    ended.into_iter().fold(Cleanup::Done, worse)
}

/// One that was rejected never ends well; one that is late still may.
const fn worse(one: Cleanup, other: Cleanup) -> Cleanup {
    match (one, other) {
        (Cleanup::Rejected, _) | (_, Cleanup::Rejected) => Cleanup::Rejected,
        (Cleanup::Late, _) | (_, Cleanup::Late) => Cleanup::Late,
        (Cleanup::Done, Cleanup::Done) => Cleanup::Done,
    }
}
