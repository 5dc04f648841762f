//! Which plugins there are, and what has become of them.

use understudy_messages::ids::Name;

use super::{PLUGIN_INFO, PLUGIN_INSTANCES, Telemetry};
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
    }
}
