//! Providers that plugins bring: chains may name what a plugin that is switched on declares in its manifest.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

use understudy_messages::ids::Name;
use understudy_messages::settings::PluginsSettings;
use understudy_plugins::discovery::Discovery;
use understudy_plugins::enablement::{self, Origin};
use understudy_plugins::manifest::HostKind;

use crate::config::compiled::Compiled;

/// Where plugins declare providers. Manifests are read when a name asks for it, and no plugin's code runs (contract R-22).
#[derive(Default)]
pub(super) struct Brought {
    plugins: PluginsSettings,
    compiled: Compiled,
    declared: OnceCell<BTreeSet<Name>>,
}

impl Brought {
    /// The plugins of these settings, and those that are compiled in; relative paths begin at `folder`.
    pub(super) fn new(plugins: &PluginsSettings, folder: Option<PathBuf>, compiled: Compiled) -> Self {
        let mut plugins = plugins.clone();
        if let Some(folder) = folder {
            plugins
                .load_paths
                .iter_mut()
                .for_each(|path| *path = folder.join(&*path));
        }
        Self {
            plugins,
            compiled,
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
            let found = Discovery::look(&self.plugins.load_paths).found;
            // a folder comes before what is compiled in under the same id
            let hidden = |id: &Name| found.iter().any(|it| it.manifest.id.eq_ignore_ascii_case(id));
            let compiled = self.compiled.enabled(&self.plugins).filter(|it| !hidden(&it.id));
            let compiled = compiled.flat_map(|it| &it.providers);
            let manifests = found.iter().map(|found| &found.manifest).filter(|manifest| {
                let cause = enablement::decide(&self.plugins, &manifest.id, Origin::Config, false);
                manifest.host == HostKind::Native && cause.enables()
            });
            let found = manifests.flat_map(|manifest| &manifest.providers);
            found.chain(compiled).cloned().collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/plugins");

    fn with(edit: impl FnOnce(&mut PluginsSettings)) -> Brought {
        let mut plugins = PluginsSettings {
            load_paths: vec![PathBuf::from("plugins")],
            allow: vec!["acme-provider".into()],
            ..PluginsSettings::default()
        };
        edit(&mut plugins);
        Brought::new(
            &plugins,
            PathBuf::from(EXAMPLES).parent().map(PathBuf::from),
            Compiled::default(),
        )
    }

    #[test]
    fn only_a_plugin_that_is_on_brings_what_it_declares() {
        assert!(with(|_| {}).has("acme") && !with(|_| {}).has("other"));
        let off: [fn(&mut PluginsSettings); 3] = [
            |it| it.enabled = false,
            |it| it.deny = vec!["acme-provider".into()],
            |it| it.allow.clear(),
        ];
        for edit in off {
            assert!(with(edit).is_empty());
        }
    }

    #[test]
    fn no_manifest_is_read_before_a_name_asks_for_it() {
        let brought = with(|_| {});
        assert!(brought.declared.get().is_none());
        assert!(brought.has("acme") && brought.declared.get().is_some());
    }
}
