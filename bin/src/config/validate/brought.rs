//! Providers that plugins bring: chains may name what a plugin that is switched on declares in its manifest.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use understudy_messages::ids::Name;
use understudy_messages::settings::PluginsSettings;
use understudy_plugins::discovery::Discovery;
use understudy_plugins::enablement::{self, Origin};
use understudy_plugins::manifest::HostKind;

/// Where plugins declare providers. Manifests are read when a name asks for it, and no plugin's code runs (contract R-22).
#[derive(Default)]
pub(super) struct Brought {
    plugins: PluginsSettings,
    declared: OnceCell<BTreeSet<Name>>,
}

impl Brought {
    /// The plugins of these settings; relative paths begin at `folder`.
    pub(super) fn new(plugins: &PluginsSettings, folder: Option<PathBuf>) -> Self {
        let mut plugins = plugins.clone();
        if let Some(folder) = folder {
            plugins
                .load_paths
                .iter_mut()
                .for_each(|path| *path = folder.join(&*path));
        }
        Self {
            plugins,
            declared: OnceCell::new(),
        }
    }

    /// Whether a plugin may bring a provider of this name.
    pub(super) fn has(&self, provider: &str) -> bool {
        self.declared().contains(provider)
    }

    /// Whether no plugin brings any.
    pub(super) fn is_empty(&self) -> bool {
        self.declared().is_empty()
    }

    fn declared(&self) -> &BTreeSet<Name> {
        self.declared.get_or_init(|| {
            if !self.plugins.enabled {
                return BTreeSet::new();
            }
            let found = Discovery::look(&self.plugins.load_paths).found.into_iter();
            let manifests = found.map(|found| found.manifest).filter(|manifest| {
                let cause = enablement::decide(&self.plugins, &manifest.id, Origin::Config, false);
                manifest.host == HostKind::Native && cause.enables()
            });
            manifests.flat_map(|manifest| manifest.providers.clone()).collect()
        })
    }
}
