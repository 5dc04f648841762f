//! How much instances are at work on.

use std::sync::Arc;

use super::{Inventory, Plugin};

impl Plugin {
    /// Calls that its instance is at work on.
    pub(super) fn calls_in_flight(&self) -> u64 {
        self.working().map_or(0, |working| working.served.calls_in_flight())
    }
}

impl Inventory {
    /// Calls that instances are at work on.
    pub fn calls(&self) -> u64 {
        self.plugins.iter().map(|plugin| plugin.calls_in_flight()).sum()
    }

    /// Calls that those instances are at work on which `other` does not have.
    pub fn calls_but(&self, other: &Self) -> u64 {
        let is_kept = |plugin: &&Arc<Plugin>| other.plugins.iter().any(|it| plugin.is_the_instance_of(it));
        let gone = self.plugins.iter().filter(|plugin| !is_kept(plugin));
        gone.map(|plugin| plugin.calls_in_flight()).sum()
    }
}
