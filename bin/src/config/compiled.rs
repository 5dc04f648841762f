//! What plugins that are compiled in say of themselves: a configuration may name the providers that they bring.

use std::sync::Arc;

use understudy_messages::ids::Name;
use understudy_messages::settings::PluginsSettings;
use understudy_plugins::enablement::{self, Origin};
use understudy_plugins::hosts::Hosts;
use understudy_plugins::manifest::Manifest;
use understudy_plugins::native::NativePlugin;

/// Those that bring providers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compiled(Arc<[Bringer]>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Bringer {
    pub(crate) id: Name,
    default_on: bool,
    pub(crate) providers: Vec<Name>,
}

impl Compiled {
    /// Those of these hosts. None of their code but what tells of itself is run.
    pub(crate) fn of(hosts: &Hosts) -> Self {
        Self(
            hosts
                .native
                .iter()
                .filter_map(|plugin| Bringer::read(&**plugin))
                .collect(),
        )
    }

    /// Those that these settings switch on.
    pub(crate) fn enabled<'a>(&'a self, plugins: &'a PluginsSettings) -> impl Iterator<Item = &'a Bringer> {
        let is_on = |it: &&Bringer| enablement::decide(plugins, &it.id, Origin::Bundled, it.default_on).enables();
        self.0.iter().filter(is_on)
    }
}

impl Bringer {
    /// `None` where its manifest cannot be used: whoever loads it says why.
    fn read(plugin: &dyn NativePlugin) -> Option<Self> {
        let (manifest, _) = Manifest::read(plugin.manifest()?).ok()?;
        let own = manifest.id.eq_ignore_ascii_case(plugin.id());
        (own && !manifest.providers.is_empty()).then(|| Self {
            default_on: plugin.enabled_by_default() || manifest.is_enabled_by_default(),
            providers: manifest.providers.clone(),
            id: manifest.id,
        })
    }
}
