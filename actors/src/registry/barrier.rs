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
pub(super) struct Barrier(Mutex<BTreeMap<Name, Vec<Arc<Served>>>>);

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

impl Barrier {
    /// These plugins do not serve, because of what became of these instances.
    pub(super) fn raise(&self, plugins: &[Name], instances: &[Arc<Served>]) {
        let mut left = self.left();
        for plugin in plugins {
            let own = instances.iter().filter(|served| served.id == *plugin);
            left.entry(plugin.clone()).or_default().extend(own.cloned());
        }
    }

    /// Whether all of some plugins may be replaced.
    pub(super) fn check(&self, plugins: &[Name]) -> Result<(), Barred> {
        let left = self.left();
        for (plugin, instances) in left.iter().filter(|(plugin, _)| plugins.contains(plugin)) {
            for served in instances {
                match served.cleanup() {
                    Cleanup::Done => {}
                    Cleanup::Late => return Err(Barred::Pending(plugin.clone())),
                    Cleanup::Rejected => return Err(Barred::Failed(plugin.clone())),
                }
            }
        }
        Ok(())
    }

    /// These plugins serve again, or are no more.
    pub(super) fn lift(&self, plugins: &[Name]) {
        self.left().retain(|plugin, _| !plugins.contains(plugin));
    }

    /// Which plugins do not serve; `None` where all do.
    pub(super) fn status(&self) -> Option<ReloadStatus> {
        let plugin_ids: Vec<Name> = self.left().keys().cloned().collect();
        (!plugin_ids.is_empty()).then(|| ReloadStatus {
            phase: "failed",
            plugin_ids,
            deadline_in_ms: None,
            reason: Some(ADVICE.to_owned()),
            holders: Vec::new(),
            omitted: 0,
        })
    }

    fn left(&self) -> MutexGuard<'_, BTreeMap<Name, Vec<Arc<Served>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
