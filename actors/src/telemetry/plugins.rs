//! Which plugins there are, and what has become of them.

use understudy_messages::ids::Name;

use super::{CLEANUPS_PENDING, FORCED_RETIREMENTS, PLUGIN_INFO, PLUGIN_INSTANCES, Telemetry};
use crate::plugin::InstanceState;

impl Telemetry {
    /// Tells the state of a plugin's instance. `plugin` comes from the configuration or its folders.
    pub fn plugin_state(&self, plugin: &Name, state: InstanceState) {
        for each in InstanceState::ALL {
            let labels = [("plugin", &**plugin), ("state", each.as_label())];
            let value = if each == state { 1.0 } else { 0.0 };
            self.series.gauge(&PLUGIN_INSTANCES, &labels).set(value);
        }
    }

    /// Tells what a loaded plugin is.
    pub fn plugin_loaded(&self, plugin: &Name, version: &str, shape: &'static str) {
        let labels = [("plugin", &**plugin), ("version", version), ("shape", shape)];
        self.series.gauge(&PLUGIN_INFO, &labels).set(1.0);
        let plugin = [("plugin", &**plugin)];
        let _in_the_scrape = self.series.touched(&FORCED_RETIREMENTS, &plugin);
        self.series.gauge(&CLEANUPS_PENDING, &plugin).increment(0.0);
    }

    /// An instance did not let go in time.
    pub(crate) fn forcibly_retired(&self, plugin: &Name) {
        self.series
            .counter(&FORCED_RETIREMENTS, &[("plugin", &**plugin)])
            .increment(1);
    }

    /// There is one more of its cleanups that nobody waits for, or one less.
    pub(crate) fn cleanup_pending(&self, plugin: &Name, change: f64) {
        self.series
            .gauge(&CLEANUPS_PENDING, &[("plugin", &**plugin)])
            .increment(change);
    }
}
