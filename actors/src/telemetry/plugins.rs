//! Which plugins there are, and what has become of them.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use understudy_messages::ids::Name;

use super::{CLEANUPS_PENDING, FORCED_RETIREMENTS, PLUGIN_INFO, PLUGIN_INSTANCES, Telemetry};
use crate::plugin::InstanceState;

/// A plugin that is on, as a scrape shows it.
#[derive(Clone, Debug)]
pub struct ShownPlugin {
    /// Its name: of the configuration or of its folder.
    pub plugin: Name,
    /// The state of its instance.
    pub state: InstanceState,
    /// What its instance is, where its code is loaded.
    pub loaded: Option<LoadedAs>,
}

/// Version and shape of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoadedAs {
    /// What its manifest says; empty where it says nothing.
    pub version: String,
    /// What it has, in a word.
    pub shape: &'static str,
}

/// What was shown last: as many as one generation has plugins.
#[derive(Default)]
pub(super) struct LastShown(Mutex<Shown>);

#[derive(Default)]
struct Shown {
    on: HashSet<Name>,
    loaded: HashSet<(Name, LoadedAs)>,
}

impl Telemetry {
    /// Shows the plugins that are on, and of what was shown before and is not among them that it is gone; to be called before each
    /// scrape.
    pub fn show_plugins(&self, plugins: impl IntoIterator<Item = ShownPlugin>) {
        let mut last = self.plugins.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = Shown::default();
        for ShownPlugin { plugin, state, loaded } in plugins {
            self.plugin_state(&plugin, Some(state));
            if let Some(loaded) = loaded {
                self.plugin_info(&plugin, &loaded, 1.0);
                now.loaded.insert((plugin.clone(), loaded));
            }
            now.on.insert(plugin);
        }
        for plugin in last.on.difference(&now.on) {
            self.plugin_state(plugin, None);
        }
        for (plugin, loaded) in last.loaded.difference(&now.loaded) {
            self.plugin_info(plugin, loaded, 0.0);
        }
        *last = now;
    }

    fn plugin_state(&self, plugin: &Name, state: Option<InstanceState>) {
        for each in InstanceState::ALL {
            let labels = [("plugin", &**plugin), ("state", each.as_label())];
            let value = if Some(each) == state { 1.0 } else { 0.0 };
            self.series.gauge(&PLUGIN_INSTANCES, &labels).set(value);
        }
    }

    fn plugin_info(&self, plugin: &Name, LoadedAs { version, shape }: &LoadedAs, value: f64) {
        let labels = [("plugin", &**plugin), ("version", version), ("shape", shape)];
        self.series.gauge(&PLUGIN_INFO, &labels).set(value);
    }

    /// A plugin was loaded: what it can come to later is in the scrape from now on.
    pub fn plugin_loaded(&self, plugin: &Name) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(version: &str, state: InstanceState) -> ShownPlugin {
        ShownPlugin {
            plugin: "guard".into(),
            state,
            loaded: Some(LoadedAs {
                version: version.to_owned(),
                shape: "plain",
            }),
        }
    }

    #[test]
    fn a_plugin_that_failed_and_is_off_by_now_is_in_no_state() {
        let telemetry = Telemetry::new().expect("table is sound");
        let failed = "understudy_plugin_instances{plugin=\"guard\",state=\"failed\"}";
        telemetry.show_plugins([guard("1", InstanceState::Failed)]);
        assert!(telemetry.render().contains(&format!("{failed} 1")));
        telemetry.show_plugins([]);
        let scrape = telemetry.render();
        let states = scrape
            .lines()
            .filter(|line| line.starts_with("understudy_plugin_instances{"));
        assert!(scrape.contains(&format!("{failed} 0")), "{scrape}");
        assert!(
            states.clone().count() == 5 && states.clone().all(|line| line.ends_with(" 0")),
            "{scrape}"
        );
    }

    #[test]
    fn of_a_plugin_one_version_is_loaded_at_a_time() {
        let telemetry = Telemetry::new().expect("table is sound");
        for version in ["1", "2", "1"] {
            telemetry.show_plugins([guard(version, InstanceState::Running)]);
        }
        let scrape = telemetry.render();
        let info = |version: &str, value: u8| {
            let line =
                format!("understudy_plugin_info{{plugin=\"guard\",version=\"{version}\",shape=\"plain\"}} {value}");
            assert!(scrape.contains(&line), "{line} is not in {scrape}");
        };
        info("1", 1);
        info("2", 0);
    }
}
