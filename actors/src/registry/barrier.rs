//! What failed reloads left behind: plugins that do not serve. As long as an old instance of one may still hold what the next
//! would need, it is not replaced; others are.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use understudy_messages::ids::Name;
use understudy_messages::registry::ReloadStatus;

use super::reload::machine::Cleanup;
use crate::plugin::Served;

/// What is to be done about plugins that do not serve.
const ADVICE: &str = "Neither the new nor the old code of these plugins serves. Mend what is wrong and reload them by name, or \
                      restart the gateway.";

/// Plugins that do not serve, and the instances whose cleanup each waits for. It outlives the reloads.
#[derive(Debug, Default)]
pub(super) struct Barrier(Mutex<BTreeMap<Name, Left>>);

/// What is left of one plugin.
#[derive(Debug, Default)]
struct Left {
    /// Whether it should serve; one that was switched off need not.
    missed: bool,
    instances: Vec<Arc<Served>>,
}

/// A plugin that must not be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Barred {
    /// The cleanup is under way.
    #[error("The old instance of {0} is still letting go of what it holds. Try again in a second.")]
    Pending(Name),
    /// It failed.
    #[error("The old instance of {0} failed to let go: what it held may still be held. Restart the gateway.")]
    Failed(Name),
}

impl Barred {
    /// What is told of one that goes for good.
    fn deferred(&self) -> String {
        match self {
            Self::Pending(plugin) => format!("{plugin}: its old instance is still letting go of what it holds"),
            Self::Failed(plugin) => {
                format!(
                    "{plugin}: its old instance failed to let go; what it held may be held until the gateway is restarted"
                )
            }
        }
    }
}

impl Barrier {
    /// These plugins do not serve, because of what became of these instances.
    pub(super) fn raise(&self, plugins: &[Name], instances: &[Arc<Served>]) {
        let mut left = self.left();
        for plugin in plugins {
            let own = instances.iter().filter(|served| served.id == *plugin);
            let entry = left.entry(plugin.clone()).or_default();
            entry.instances.extend(own.cloned());
            entry.missed = true;
        }
    }

    /// These instances go without a successor: nobody misses them, and nobody comes in their place before they have let go well.
    pub(super) fn keep(&self, instances: Vec<Arc<Served>>) {
        let mut left = self.left();
        for served in instances {
            served.leave();
            let entry = left.entry(served.id.clone()).or_default();
            if !entry.instances.iter().any(|known| Arc::ptr_eq(known, &served)) {
                entry.instances.push(served);
            }
        }
    }

    /// Whether all of some plugins may get an instance.
    pub(super) fn check(&self, plugins: &[Name]) -> Result<(), Barred> {
        let left = self.left();
        for (plugin, left) in left.iter().filter(|(plugin, _)| plugins.contains(plugin)) {
            for served in &left.instances {
                match served.cleanup() {
                    Cleanup::Done => {}
                    Cleanup::Late => return Err(Barred::Pending(plugin.clone())),
                    Cleanup::Rejected => return Err(Barred::Failed(plugin.clone())),
                }
            }
        }
        Ok(())
    }

    /// These plugins serve again, or are switched off. What has not let go well still bars whoever would come next.
    pub(super) fn lift(&self, plugins: &[Name]) {
        self.left().retain(|plugin, left| {
            left.missed &= !plugins.contains(plugin);
            left.instances.retain(|served| served.cleanup() != Cleanup::Done);
            left.missed || !left.instances.is_empty()
        });
    }

    /// What of some plugins has not let go well, in words for who switches them off.
    pub(super) fn told(&self, plugins: &[Name]) -> Vec<String> {
        let barred = plugins
            .iter()
            .filter_map(|plugin| self.check(std::slice::from_ref(plugin)).err());
        barred.map(|barred| barred.deferred()).collect()
    }

    /// Which plugins do not serve; `None` where all do.
    pub(super) fn status(&self) -> Option<ReloadStatus> {
        let left = self.left();
        let missed = left.iter().filter(|(_, left)| left.missed);
        let plugin_ids: Vec<Name> = missed.map(|(plugin, _)| plugin.clone()).collect();
        (!plugin_ids.is_empty()).then(|| ReloadStatus {
            budget: None,
            phase: "failed",
            plugin_ids,
            deadline_in_ms: None,
            reason: Some(ADVICE.to_owned()),
            holders: Vec::new(),
            omitted: 0,
        })
    }

    fn left(&self) -> MutexGuard<'_, BTreeMap<Name, Left>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
